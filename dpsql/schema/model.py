"""The declared schema as frozen values.

toml.read_schema reports every mistake before it builds one: a schema that exists is consistent. Nothing here touches a file.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path

from dpsql.core.domains import UNBOUNDED, Categories, Domain, Interval, Value
from dpsql.core.loss import EpsilonDelta
from dpsql.core.sqltypes import SqlType
from dpsql.schema.periods import Period
from dpsql.schema.purchases import Purchases
from dpsql.schema.spenders import Analyst as Analyst
from dpsql.schema.spenders import Reservation as Reservation
from dpsql.schema.spenders import Role as Role

ROW = "row"
RESERVED = "dpsql "
"""Beginning of dpsql's own names: no table, column or alias of a caller may."""
UNIT_COLUMN = "dpsql unit"
"""The column that carries the unit's value where a table does not hold it itself."""
ROLES = ("identifier", "quasi", "dimension", "grid", "measure")
MECHANISM = "laplace"
"""The mechanism where none is declared."""
WINDOWS = ("day", "week", "month")
GUARD_MODES = ("off", "warn", "block", "audit")
USUAL_LENGTH = 256
"""The most characters of a text column of which no length is declared."""


def mechanisms() -> tuple[str, ...]:
    """The names that schemas and statements may use; what draws noise is imported only where they are asked for."""
    from dpsql.mechanisms.calibration import BY_NAME

    return (*BY_NAME, "auto")


def with_unit(table: str) -> str:
    """The engine's view of a table with the unit's value beside its own columns, as UNIT_COLUMN."""
    return f"{table} with unit"


@dataclass(frozen=True, slots=True)
class Column:
    """One declared column.

    domain       Interval (`bounds`), Categories (`domain`, or a boolean) or Unbounded; dates in days, timestamps in microseconds
    nullable     whether NULL is a value of its own; a NULL found in a column that is not nullable is treated as NULL all the same
    role         one of ROLES (declared, or the default of semantics: see schema/toml.py)
    step, unit_bounds  the grid that sums of this column are rounded to, bounds of one unit's total of it; or None
    domain_from  ("table", "column") of a public table that lists the domain, or None; filled in at opening
    length       of text: the most characters declared, or in a public table, None: see `longest`; of a list: the most elements, always
    usual        (value or None for NULL, the share of rows that the owner takes to have it): for the guard alone, no part of identities
    elements     of a list: the declared values of its elements; see `Schema.unshown`
    until_today  whether its bounds end on the day of its table's version: see schema/moving.py
    """

    name: str
    sqltype: SqlType
    domain: Domain
    nullable: bool
    role: str
    step: Fraction | None = None
    unit_bounds: Interval | None = None
    domain_from: tuple[str, str] | None = None
    length: int | None = None
    usual: tuple[tuple[Value | None, Fraction], ...] = field(default=(), repr=False)
    elements: Domain = field(default=UNBOUNDED, repr=False)
    until_today: bool = field(default=False, repr=False)

    @property
    def longest(self) -> int | None:
        """The most characters of a text value, or of a list's elements; a longer one counts as NULL. None for what is no text.

        Why  where nothing is declared, a list does not say which values there are (rule 16), only that its own are not too long; one
             that a public table gives is not known yet where the views are made
        """
        if not (self.sqltype.element or self.sqltype).is_text:
            return None
        if self.sqltype.is_text and self.length is not None:
            return self.length
        domain = self.domain if self.sqltype.is_text else self.elements
        listed = domain.values if isinstance(domain, Categories) and self.domain_from is None else ()
        return max([USUAL_LENGTH, *(len(value) for value in listed if isinstance(value, str))])

    @property
    def is_cut(self) -> bool:
        """True if a value that is too long counts as NULL: of text and lists."""
        return self.sqltype.is_text or self.sqltype.element is not None

    @property
    def element(self) -> Column | None:
        """One element of a list, as a column of its own."""
        if self.sqltype.element is None:
            return None
        return Column(self.name, self.sqltype.element, self.elements, self.nullable, self.role, length=self.longest)


@dataclass(frozen=True, slots=True, repr=False)
class Reference:
    """`columns` of this table hold together values of `targets`, the key of `table`; where one is NULL, they refer to nothing."""

    columns: tuple[str, ...]
    table: str
    targets: tuple[str, ...]

    def __repr__(self) -> str:
        """Text by which stored answers and verified facts know the schema: of one column as it has always been."""
        column, target = (part[0] if len(part) == 1 else part for part in (self.columns, self.targets))
        return f"Reference(column={column!r}, table={self.table!r}, target={target!r})"

    @property
    def name(self) -> str:
        """Its columns, as an owner writes them."""
        return ", ".join(self.columns)

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """(column, the column of the key that it holds a value of)"""
        return tuple(zip(self.columns, self.targets, strict=True))


@dataclass(frozen=True, slots=True)
class Dependence:
    """Rows that agree in `columns` agree in `determined`. Equal is what GROUP BY takes for equal: NULL and NaN are values."""

    columns: tuple[str, ...]
    determined: tuple[str, ...]


def follows(path: tuple[Reference, ...], names: tuple[str, ...]) -> bool:
    """True if these are the references of a path; SQL names do not depend on case."""
    return [r.name.lower() for r in path] == [n.lower() for n in names]


@dataclass(frozen=True, slots=True)
class Table:
    """One declared table. A public table's columns are empty in the file and filled in at opening.

    source               file or table name inside the dataset's source
    key                  columns that are unique together; () if none is declared
    unit_path            the references to follow to the unit by their columns, where more than one path exists, else None
    max_rows_per_unit    [rows] enforced
    max_groups_per_unit  [groups] enforced
    population           the public number of units, for one-row-per-unit tables, or None
    multiplicity         (column, rows) of a public table: the most rows with one value of the column
    determines           declared dependences; see `Schema.unshown`
    period               by which limits are per unit and period; see `Schema.unshown`
    """

    name: str
    source: str
    public: bool
    key: tuple[str, ...]
    columns: tuple[Column, ...]
    references: tuple[Reference, ...] = ()
    unit_path: tuple[str, ...] | None = None
    max_rows_per_unit: int | None = None
    max_groups_per_unit: int | None = None
    population: int | None = None
    multiplicity: tuple[tuple[str, int], ...] = ()
    determines: tuple[Dependence, ...] = field(default=(), repr=False)
    period: Period | None = field(default=None, repr=False)

    def column(self, name: str) -> Column | None:
        """The column of that name; SQL names do not depend on case."""
        return next((c for c in self.columns if c.name.lower() == name.lower()), None)

    def reference(self, column: str) -> Reference | None:
        """The reference of this column alone."""
        return next((r for r in self.references if r.columns == (column,)), None)

    def referring(self, column: str) -> tuple[Reference, ...]:
        """The references that the column is part of."""
        return tuple(r for r in self.references if column in r.columns)


@dataclass(frozen=True, slots=True)
class Privacy:
    """The promise: the unit, the dataset's total, the default price of a statement and the most one may cost.

    unit            "table.column", or "row"
    budget          the total for all analysts together
    units           the owner's public estimate of the number of people, or None
    query           default price of a whole statement
    caps            the most that one statement may spend
    max_cells       the most declared groups that one release may have
    mechanism       one of mechanisms(), for statements that name none
    household       how many people together EXPLAIN shows the loss of, or None
    accounting      one of accountants.registry.accountings: how the losses of statements add up
    window          one of WINDOWS: the total is for each of them, so that n windows lose n times; None: it never refills
    partition       (table, column) that is constant for a unit: each of its values has a total of its own; or None
    shared_answers  whether an analyst is given the answers that another one paid for
    least           [nats] the least epsilon that a statement may cost, as the owner wrote it; None: a hundredth of the default price
    cube            the most that one cube may spend, as the owner wrote it; None: as one statement
    reserve         [nats] that dashboards may not spend: the price of one statement that fits when they have spent all else; or None
    buy_again       whether what could be read off what is stored, with a larger error, is bought without a question
    """

    unit: str
    budget: EpsilonDelta
    units: int | None
    query: EpsilonDelta
    caps: EpsilonDelta
    max_cells: int = 1_000_000
    mechanism: str = MECHANISM
    household: int | None = None
    accounting: str = "auto"
    window: str | None = None
    partition: tuple[str, str] | None = None
    shared_answers: bool = True
    least: Fraction | None = None
    cube: EpsilonDelta | None = None
    buy_again: bool = False
    reserve: Fraction | None = None

    @property
    def floor(self) -> Fraction:
        """[nats] The least epsilon that a statement may cost, if it costs anything.

        Why  an answer at a price near nothing is worth nothing, and is remembered all the same
        """
        return self.query.epsilon / 100 if self.least is None else self.least

    def at_most(self, epsilon: Fraction) -> Privacy:
        """The same where a statement or a cube may cost no more than this, and costs no more where no price is written."""
        query = EpsilonDelta(min(self.query.epsilon, epsilon), self.query.delta)
        caps = EpsilonDelta(min(self.caps.epsilon, epsilon), self.caps.delta)
        cube = EpsilonDelta(min(self.cube.epsilon, epsilon), self.cube.delta) if self.cube is not None else None
        return replace(self, query=query, caps=caps, cube=cube, least=self.floor)

    @property
    def unit_table(self) -> str | None:
        return None if self.unit == ROW else self.unit.rpartition(".")[0]

    @property
    def unit_column(self) -> str | None:
        return None if self.unit == ROW else self.unit.rpartition(".")[2]


@dataclass(frozen=True, slots=True)
class Guard:
    """The difference-query guard's setting.

    mode      one of GUARD_MODES
    k         [units] the fewest of an answer
    readable  times what one unit can move it: a difference of two answers whose noise deviates by less can be read
    """

    mode: str = "block"
    k: int = 20
    readable: Fraction = Fraction(10)


@dataclass(frozen=True, slots=True)
class StatementLimits:
    """Limits on one statement of an analyst; all of it is fixed before any data is read, and public.

    seconds       [s] of the engine and of the sandbox, together
    memory        [bytes] of both
    rows          [rows] of a result, and of what a statement lists as group keys
    plan_seconds  [s] of reading and pricing it, before the charge
    """

    seconds: Fraction = Fraction(60)
    memory: int = 2_000_000_000
    rows: int = 1_000_000
    plan_seconds: Fraction = Fraction(5)


@dataclass(frozen=True, slots=True)
class Schema:
    """Declared: name, source, ledger, privacy, guard, tables, analysts, roles, reservations, limits, refresh; folder of its paths."""

    name: str
    source: str
    ledger: str | None
    privacy: Privacy
    guard: Guard
    tables: tuple[Table, ...]
    analysts: tuple[Analyst, ...] | None = None
    roles: tuple[Role, ...] = ()
    reservations: tuple[Reservation, ...] = ()
    folder: Path = Path(".")
    limits: StatementLimits = StatementLimits()
    refresh: Purchases | None = None

    def table(self, name: str) -> Table | None:
        """The table of that name; SQL names do not depend on case."""
        return next((t for t in self.tables if t.name.lower() == name.lower()), None)

    @property
    def tables_of_units(self) -> list[Table]:
        """The table that holds the units; where each row is one, every private table."""
        private = [t for t in self.tables if not t.public]
        return [t for t in private if t.name == self.privacy.unit_table] or private

    @property
    def unshown(self) -> tuple[tuple[object, ...], ...]:
        """Declarations that a table's text leaves out though statements depend on them: elements of lists, dependences, periods."""
        lists = ((t.name, c.name, c.elements) for t in self.tables for c in t.columns if c.sqltype.element is not None)
        return (*lists, *((t.name, one) for t in self.tables for one in (t.determines, t.period) if one))

    def path_to_unit(self, table: Table) -> tuple[Reference, ...]:
        """The references from a private table up to the one whose column holds the unit's value; () at the unit's own table.

        The last reference points at the unit key itself, so its column holds the unit's value: the unit table is not joined.
        """
        if self.privacy.unit == ROW or table.name == self.privacy.unit_table:
            return ()
        paths, chosen = self.paths_to_unit(table), table.unit_path
        return next((path for path in paths if chosen is None or follows(path, chosen)), ())

    def paths_to_unit(self, table: Table, seen: tuple[str, ...] = ()) -> list[tuple[Reference, ...]]:
        """Every reference path from a table to the unit key."""
        found: list[tuple[Reference, ...]] = []
        for reference in table.references:
            target = self.table(reference.table)
            if target is None or target.public or target.name in seen:
                continue
            if (target.name, reference.targets) == (self.privacy.unit_table, (self.privacy.unit_column,)):
                found.append((reference,))
            else:
                onward = self.paths_to_unit(target, (*seen, table.name))
                found += [(reference, *rest) for rest in onward]
        return found

    def unit_column(self, table: Table) -> str | None:
        """The column of this very table that holds the unit's value, or None (row-level, or the unit is further away)."""
        if table.name == self.privacy.unit_table:
            return self.privacy.unit_column
        path = self.path_to_unit(table)
        return path[0].columns[0] if len(path) == 1 else None

    def one_row_per_unit(self, table: Table) -> bool:
        """True if the declared keys say that a unit has at most one row here (rule 36: verified and approved, not enforced)."""
        unit = self.unit_column(table)
        return self.privacy.unit == ROW or (unit is not None and table.key == (unit,))

    def with_public_facts(
        self, domains: dict[tuple[str, str], Categories], columns: dict[str, tuple[Column, ...]]
    ) -> Schema:
        """A copy with domains that public tables list, and with the columns of public tables, filled in."""

        def filled(table: Table) -> Table:
            if table.public:
                return replace(table, columns=columns.get(table.name, table.columns))
            return replace(
                table,
                columns=tuple(
                    replace(c, domain=domains[table.name, c.name]) if (table.name, c.name) in domains else c
                    for c in table.columns
                ),
            )

        return replace(self, tables=tuple(filled(t) for t in self.tables))


def rows_fact(table: str) -> str:
    """No unit has more rows in the table than its declared max_rows_per_unit."""
    return f"rows {table!r}"


def unit_fact(table: str) -> str:
    """Every row of the table reaches a unit: no NULL on the path and no reference to a missing row."""
    return f"unit {table!r}"


def facts_about(table: Table) -> frozenset[str]:
    """Names of all that can be verified of a table."""
    bounds = (bounds_fact(table.name, column.name) for column in table.columns)
    return frozenset({rows_fact(table.name), unit_fact(table.name), *bounds})


def bounds_fact(table: str, column: str) -> str:
    """Every value of the column lies inside its declaration: finite, in its bounds or domain, NULL only where it is nullable."""
    return f"bounds {table!r} {column!r}"
