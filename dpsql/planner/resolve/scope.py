"""Which names a private block can use, and what stands behind them."""

from __future__ import annotations

import difflib
import math
from dataclasses import dataclass, replace
from fractions import Fraction

from sqlglot import exp

from dpsql import domains
from dpsql.algebra.logic import conjuncts
from dpsql.algebra.relations import Relation
from dpsql.algebra.scalar import Scalar
from dpsql.domains import Categories, Domain, Interval
from dpsql.errors import Error, error
from dpsql.schema.model import Table
from dpsql.spans import span_of


@dataclass(frozen=True, slots=True)
class Scope:
    """The columns of one private relation under the name that the statement gives it.

    columns  by lower-case name
    """

    name: str
    table: Table
    columns: dict[str, Scalar]

    def column(self, node: exp.Column) -> Scalar | None:
        """The column that a node names; None where there is none of that name. Raises 105 for another table's name."""
        if node.table and node.table.lower() not in (self.name.lower(),):
            near = f"did you mean {self.name}?"
            raise error(105, f"there is no table {node.table!r} in this statement", hint=near, span=span_of(node))
        return self.columns.get(node.name.lower())

    def unknown(self, node: exp.Column) -> Error:
        names = [c.name for c in self.table.columns]
        near = difflib.get_close_matches(node.name.lower(), [n.lower() for n in names], 1)
        shown = next((n for n in names if near and n.lower() == near[0]), None)
        hint = (
            f"did you mean {shown}?"
            if shown
            else "its columns are " + ", ".join(names[:12]) + ", ..." * (len(names) > 12)
        )
        return error(105, f"there is no column {node.name!r} in {self.table.name}", hint=hint, span=span_of(node))

    def narrowed(self, condition: Scalar | None) -> Scope:
        """The scope of what stands behind WHERE: declared values that no kept row can have are dropped from the domains.

        Only top-level AND parts that compare that very column with constants narrow it (rule 15). Narrowing chooses the
        clamp and the key list; both are enforced, so it decides accuracy, never privacy.
        """
        if condition is None:
            return self
        columns = dict(self.columns)
        parts = conjuncts(condition)
        for name, column in self.columns.items():
            own = [part for part in parts if part.args and part.args[0].sql == column.sql and _compares(part)]
            found = [listed for part in own if (listed := _listed(part)) is not None]
            between = _between(column, own)
            for allowed in [*found, *([between] if between is not None else [])]:
                columns[name] = _narrow(columns[name], allowed)
        return Scope(self.name, self.table, columns)


def _narrow(column: Scalar, allowed: Domain) -> Scalar:
    """A column without the values that are not allowed; a comparison with a constant lets no NULL through."""
    return replace(column, domain=domains.intersect(column.domain, allowed), nullable=False)


def _compares(part: Scalar) -> bool:
    """Whether a condition compares a bare column with constants that are not NULL."""
    values = part.args[1:]
    return (
        part.args[0].function == "column" and bool(values) and all(v.is_literal and v.value is not None for v in values)
    )


def _listed(part: Scalar) -> Domain | None:
    """The values that `=` or IN lets through."""
    if part.function not in ("=", "in"):
        return None
    return domains.categories(a.value for a in part.args[1:] if a.value is not None)


def _between(column: Scalar, parts: list[Scalar]) -> Domain | None:
    """The interval that the `<` and `>` parts leave of a column of numbers; None where one of its ends is open."""
    if not (column.sqltype.is_number or column.sqltype.is_temporal):
        return None
    declared = domains.hull(column.domain)
    lows = [declared.lower] if declared is not None else []
    highs = [declared.upper] if declared is not None else []
    # The next whole number or day is the nearest value that a strict comparison lets through.
    gap = 1 if column.sqltype.is_integer or column.sqltype.name == "DATE" else 0
    for part in parts:
        bound = domains.hull(part.args[1].domain)
        if bound is None:
            continue
        if part.function in (">", ">="):
            lows.append(bound.lower if part.function == ">=" or not gap else Fraction(math.floor(bound.lower)) + gap)
        elif part.function in ("<", "<="):
            highs.append(bound.upper if part.function == "<=" or not gap else Fraction(math.ceil(bound.upper)) - gap)
    if not lows or not highs or max(lows) > min(highs) or (declared is not None and len(lows) + len(highs) == 2):
        return None
    return _within(column.domain, Interval(max(lows), min(highs)))


def _within(domain: Domain, interval: Interval) -> Domain:
    if isinstance(domain, Categories):
        kept = tuple(v for v in domain.values if v in interval)
        return Categories(kept) if kept else interval
    return interval


def scope_of(relation: Relation, name: str, table: Table) -> Scope:
    return Scope(name, table, {n.lower(): scalar for n, scalar in relation.columns})
