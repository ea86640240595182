"""Which names a private block can use, and what stands behind them."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

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

        Only top-level AND parts that compare that very column with constants narrow it (soundness rule 15). Narrowing chooses the
        clamp and the key list; both are enforced, so it decides accuracy, never privacy.
        """
        if condition is None:
            return self
        columns = dict(self.columns)
        for part in conjuncts(condition):
            found = _constraint(part)
            if found is None:
                continue
            for name, column in columns.items():
                if column.sql == part.args[0].sql:
                    columns[name] = _narrow(column, found)
        return Scope(self.name, self.table, columns)


def _narrow(column: Scalar, allowed: Domain) -> Scalar:
    from dataclasses import replace

    return replace(column, domain=domains.intersect(column.domain, allowed), nullable=False)


def _constraint(part: Scalar) -> Domain | None:
    """The values that a comparison of a bare column with constants allows; None where it says nothing usable."""
    if not part.args or part.args[0].function != "column":
        return None
    values = [a.value for a in part.args[1:]]
    if not values or any(not a.is_literal or a.value is None for a in part.args[1:]):
        return None
    if part.function in ("=", "in"):
        return domains.categories(v for v in values if v is not None)
    return _range(part)


def _range(part: Scalar) -> Domain | None:
    """`x >= 5` of a column with declared numbers: the part of them that is left."""
    declared, bound = domains.hull(part.args[0].domain), domains.hull(part.args[1].domain)
    if declared is None or bound is None or part.args[0].sqltype.is_boolean:
        return None
    if part.function in (">", ">=") and declared.lower <= bound.lower <= declared.upper:
        return _within(part.args[0].domain, Interval(bound.lower, declared.upper))
    if part.function in ("<", "<=") and declared.lower <= bound.upper <= declared.upper:
        return _within(part.args[0].domain, Interval(declared.lower, bound.upper))
    return None


def _within(domain: Domain, interval: Interval) -> Domain:
    if isinstance(domain, Categories):
        kept = tuple(v for v in domain.values if v in interval)
        return Categories(kept) if kept else interval
    return interval


def scope_of(relation: Relation, name: str, table: Table) -> Scope:
    return Scope(name, table, {n.lower(): scalar for n, scalar in relation.columns})
