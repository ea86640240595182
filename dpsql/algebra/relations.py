"""Private relations: each row belongs to one privacy unit, and the relation knows which.

Every relation derives its columns, its unit and its bound on rows per unit when it is built; one that could not be sound cannot be
built. The bounds kept here choose the plan. What enforces them is the last step before the sums (planner/lower.py), so a bound that
was wrong would cost accuracy, not privacy; the exception is structure that cannot be enforced (unique keys on the path to the unit,
one row per unit), which the owner's `check` verifies for each data version.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from dpsql.algebra.logic import conjuncts, truth
from dpsql.algebra.scalar import Scalar, column, quoted
from dpsql.errors import error
from dpsql.schema.model import ROW, Reference, Schema, Table


@dataclass(frozen=True, slots=True)
class UnitBound:
    """Which unit a row belongs to, and how many rows one unit can have.

    column    the unit's value; None at row level, where each row is its own unit
    max_rows  [rows] of one unit; None where nothing bounds them yet
    """

    column: Scalar | None
    max_rows: int | None


@dataclass(frozen=True, slots=True)
class Scan:
    """The rows of one declared private table.

    Output     its declared columns; the unit's column if it is one of them
    Stability  one unit added or removed changes its own rows only                                   [rows]
    """

    schema: Schema
    table: Table
    alias: str
    columns: tuple[tuple[str, Scalar], ...] = field(init=False)

    def __post_init__(self) -> None:
        if self.table.public:
            raise error(901, "a public table has no privacy unit")
        object.__setattr__(self, "columns", tuple((c.name, self._column(c.name)) for c in self.table.columns))

    def _column(self, name: str) -> Scalar:
        declared = self.table.column(name)
        assert declared is not None
        return column(
            f"{quoted(self.alias)}.{quoted(declared.name)}",
            declared.sqltype,
            declared.domain,
            nullable=declared.nullable,
            role=declared.role,
            step=declared.step,
        )

    @property
    def unit(self) -> UnitBound | None:
        """None where the unit is further up the references."""
        one = self.schema.one_row_per_unit(self.table)
        most = 1 if one else self.table.max_rows_per_unit
        if self.schema.privacy.unit == ROW:
            return UnitBound(None, 1)
        name = self.schema.unit_column(self.table)
        return UnitBound(self._column(name), most) if name is not None else None

    @property
    def from_sql(self) -> str:
        return f"{quoted(self.table.name)} AS {quoted(self.alias)}"

    @property
    def conditions(self) -> tuple[Scalar, ...]:
        return ()


@dataclass(frozen=True, slots=True)
class ReferenceJoin:
    """Each row of `source` beside the one row that a declared reference of it points to.

    Output     the source's columns; the unit of `target`
    Stability  the target's column is its declared key, so a source row meets at most one target row: a unit's rows stay its own,
               and no more of them                                                                    [rows]
    Why        the key is verified and approved per data version (rule 36)
    """

    source: Scan | ReferenceJoin
    reference: Reference
    owner: Scan
    target: Scan

    def __post_init__(self) -> None:
        if self.target.table.key != (self.reference.target,):
            raise error(901, "a reference must point at a declared one-column key")

    @property
    def columns(self) -> tuple[tuple[str, Scalar], ...]:
        return self.source.columns

    @property
    def first(self) -> Table:
        return self.source.table if isinstance(self.source, Scan) else self.source.first

    @property
    def unit(self) -> UnitBound | None:
        found = self.target.unit
        return UnitBound(found.column, self.first.max_rows_per_unit) if found is not None else None

    @property
    def from_sql(self) -> str:
        left = f"{quoted(self.owner.alias)}.{quoted(self.reference.column)}"
        right = f"{quoted(self.target.alias)}.{quoted(self.reference.target)}"
        return f"{self.source.from_sql} JOIN {self.target.from_sql} ON {left} = {right}"

    @property
    def conditions(self) -> tuple[Scalar, ...]:
        return self.source.conditions


@dataclass(frozen=True, slots=True)
class Filter:
    """The rows for which a condition is true.

    Output     the source's columns, unit and bound
    Stability  a row stays or goes by its own values: one unit changes its own rows only              [rows]
    """

    source: Relation
    condition: Scalar

    def __post_init__(self) -> None:
        truth(self.condition)

    @property
    def columns(self) -> tuple[tuple[str, Scalar], ...]:
        return self.source.columns

    @property
    def unit(self) -> UnitBound | None:
        return self.source.unit

    @property
    def from_sql(self) -> str:
        return self.source.from_sql

    @property
    def conditions(self) -> tuple[Scalar, ...]:
        return (*self.source.conditions, *conjuncts(self.condition))


Relation = Scan | ReferenceJoin | Filter


def reach_unit(scan: Scan) -> Scan | ReferenceJoin:
    """The table joined up its declared references until the unit's value is a column."""
    path = scan.schema.path_to_unit(scan.table)
    relation: Scan | ReferenceJoin = scan
    owner = scan
    for depth, reference in enumerate(path[:-1], start=1):
        table = scan.schema.table(reference.table)
        assert table is not None
        target = Scan(scan.schema, table, f"{scan.alias}_{depth}")
        relation = ReferenceJoin(relation, reference, owner, target)
        owner = target
    return relation
