"""GROUP BY the privacy unit: one row per group of one unit's rows, still private (rules 6, 10).

Its aggregates are those of unit_aggregates.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from sqlglot import exp

from dpsql.core.errors import error
from dpsql.core.spans import span_of
from dpsql.expressions.conditional import is_chosen
from dpsql.expressions.logic import truth
from dpsql.plan.resolved import GroupKey
from dpsql.planner.grammar import is_aggregate, name_of
from dpsql.planner.resolve.scalars import scalar
from dpsql.planner.resolve.scope import Scope, scope_of
from dpsql.planner.resolve.statement import Private, Statement
from dpsql.planner.resolve.syntax import parts_of
from dpsql.planner.resolve.unit_aggregates import UnitRows
from dpsql.relations.per_unit import Computed, per_unit
from dpsql.relations.relations import Named, Relation, filtered, projected
from dpsql.sql.nodes import Node

_CONDITIONS = (exp.Case, exp.If, exp.Nullif, exp.Predicate)
_FIRST = "take one row of each first: SELECT * FROM t QUALIFY ROW_NUMBER() OVER (PARTITION BY the unit ORDER BY x) = 1"
_ADVICE = "use COUNT, SUM, AVG, MIN, MAX, MEDIAN, BOOL_AND or BOOL_OR within one person's rows"


def unit_groups(
    statement: Statement, select: exp.Select, source: Relation, scope: Scope, keys: list[GroupKey]
) -> Private:
    """The per-unit aggregate of a SELECT: its groups as a relation, HAVING as a filter of them."""
    _refused(select)
    found = _UnitAggregates(scope, source.unit.max_rows if source.unit is not None else None)
    for part in ("expressions", "having"):
        nodes = select.args.get(part) or []
        for node in nodes if isinstance(nodes, list) else [nodes]:
            for inner in parts_of(node):
                if is_aggregate(inner) and not _inside_aggregate(inner):
                    found.add(inner)
    alias = statement.alias("unit_groups")
    relation, columns, values = per_unit(source, alias, [k.scalar for k in keys], list(found.computed.values()))
    here = scope_of(relation, scope.nested, scope.outer)
    here.aliases = scope.aliases
    here.grouped = (scope, {key.scalar.tree: column for key, column in zip(keys, columns, strict=True)})
    places = dict(zip(found.computed, values, strict=True))
    here.known = {node: places[tree] for node, tree in found.nodes.items()}
    having = select.args.get("having")
    if having is not None:
        relation = filtered(relation, truth(scalar(having.this, here)))
    shown = projected(relation, tuple(_shown(p, i, here) for i, p in enumerate(select.expressions)))
    if select.args.get("distinct") is not None:
        shown = statement.distinct(shown, select)
    grouped = select.args.get("group")
    return Private(shown, select, grouped if grouped is not None else select)


def _shown(projection: exp.Expression, position: int, scope: Scope) -> Named:
    node = projection.this if isinstance(projection, exp.Alias) else projection
    if isinstance(node, exp.Star):
        raise error(305, "* is neither grouped nor aggregated", hint="name the columns", span=span_of(node))
    return Named("", projection.alias_or_name or f"column{position}", scalar(node, scope))


def _inside_aggregate(node: exp.Expression) -> bool:
    """True if a node is the function inside a FILTER, which stands for both."""
    return isinstance(node.parent, exp.Filter) and node.arg_key == "this"


def _refused(select: exp.Select) -> None:
    for part in ("limit", "offset", "qualify"):
        value = select.args.get(part)
        if value is not None:
            raise error(
                402,
                f"{part.upper()} on one person's groups would let other people decide which of them stay",
                hint="aggregate over people first",
                span=span_of(value) or span_of(select),
            )
    window = next((p for e in select.expressions for p in parts_of(e) if isinstance(p, exp.Window)), None)
    if window is not None:
        raise error(
            402,
            "a window over one person's groups is not supported",
            hint="window the rows in a subquery first",
            span=span_of(window),
        )


def decides(node: exp.Expression, scope: Scope) -> bool:
    """True if a condition, written here or behind a column, decides what an aggregate of one person's rows is."""
    if isinstance(node, exp.CountIf) or any(isinstance(p, _CONDITIONS) for p in node.walk()):
        return True
    columns = (scalar(c, scope) for c in node.find_all(exp.Column) if not isinstance(c.this, exp.Star))
    return any(map(is_chosen, columns))


@dataclass(slots=True)
class _UnitAggregates:
    """The aggregates of one unit's rows, each computed once.

    rows      [rows] of one unit at most, or None
    computed  by what they compute
    nodes     what each node computes, by the node's id
    """

    scope: Scope
    rows: int | None
    computed: dict[Node, Computed] = field(default_factory=dict)
    nodes: dict[int, Node] = field(default_factory=dict)

    def add(self, node: exp.Expression) -> None:
        """Raises 102 for what depends on the order of rows, 106, 109, 201 for an argument."""
        inner, condition = node, None
        if isinstance(node, exp.Filter):
            inner, condition = node.this, truth(scalar(node.expression.this, self.scope))
        where = condition.tree if condition is not None else None
        rows = UnitRows(self.scope, self.rows, lambda made: replace(made, where=where), condition)
        found = rows.computed(inner)
        if found is None:
            raise error(
                102,
                f"{name_of(inner)} within one person's rows is not supported",
                hint=_FIRST if isinstance(inner, exp.ArgMax | exp.ArgMin) else _ADVICE,
                span=span_of(inner),
            )
        found = replace(found, chosen=condition is not None or decides(inner, self.scope))
        self.computed.setdefault(found.tree, found)
        self.nodes[id(node)] = found.tree
