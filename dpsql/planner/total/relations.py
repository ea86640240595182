"""Queries of printed text: where columns come from, and every expression of every clause."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from dpsql.expressions.known import Known, either
from dpsql.planner.total.aggregates import AGGREGATES
from dpsql.planner.total.operators import OPERATORS
from dpsql.planner.total.structure import STRUCTURE
from dpsql.planner.total.walk import KnownColumns, Rule, Walk, unknown

Columns = dict[str, Known]
Tables = Mapping[str, Columns]
_CLAUSES = {"expressions", "from_", "joins", "where", "group", "having", "with_", "limit"}
RULES: Mapping[str, Rule] = {**STRUCTURE, **OPERATORS, **AGGREGATES}
_JOINS = {"", "INNER", "CROSS", "LEFT", "FULL", "SEMI", "ANTI", "OUTER"}


@dataclass(slots=True)
class Relations:
    """Checks queries over known tables.

    tables   by their lower-case name, the columns by theirs
    assumed  see Walk
    """

    tables: Tables
    everywhere: bool = False
    assumed: Mapping[int, Known] = field(default_factory=dict)
    walk: Walk = field(init=False)

    def __post_init__(self) -> None:
        self.walk = Walk(RULES, self.everywhere, self._inside, self.assumed)

    def _inside(self, node: exp.Expression, scope: KnownColumns) -> Sequence[Known]:
        return list(self.query(node, scope, {}).values())

    def query(self, node: exp.Expression, outer: KnownColumns | None, named: Tables) -> Columns:
        """The columns of a query. Raises NotTotalError."""
        named = self._with(node, outer, named)
        if isinstance(node, exp.Union):
            return self._union(node, outer, named)
        if isinstance(node, exp.Subquery):
            return self.query(node.this, outer, named)
        if not isinstance(node, exp.Select) or {k for k, v in node.args.items() if v} - _CLAUSES - {"distinct"}:
            raise unknown(node)
        limit, distinct = node.args.get("limit"), node.args.get("distinct")
        if (limit is not None and not isinstance(limit.expression, exp.Literal)) or (
            distinct and distinct.args.get("on")
        ):
            raise unknown(node)
        return self._select(node, outer, named)

    def _with(self, node: exp.Expression, outer: KnownColumns | None, named: Tables) -> Tables:
        clause = node.args.get("with_")
        if clause is None:
            return named
        found = dict(named)
        for part in clause.expressions:
            found[part.alias.lower()] = self.query(part.this, outer, found)
        return found

    def _union(self, node: exp.Expression, outer: KnownColumns | None, named: Tables) -> Columns:
        first, second = (self.query(side, outer, named) for side in (node.this, node.expression))
        if node.args.get("distinct") or len(first) != len(second):
            raise unknown(node)
        columns: Columns = {}
        for (name, one), other in zip(first.items(), second.values(), strict=True):
            found = either([one, other])
            if found is None:
                raise unknown(node)
            columns[name] = found
        return columns

    def _select(self, node: exp.Expression, outer: KnownColumns | None, named: Tables) -> Columns:
        scope = KnownColumns({}, outer)
        source = node.args.get("from_")
        if source is not None:
            self._source(source.this, scope, named)
        for join in list(node.args.get("joins") or []):
            self._join(join, scope, named)
        if node.args.get("where") is not None:
            self.walk.condition(node.args["where"].this, scope)
        columns = self._shown(node, scope)
        scope.aliases = columns
        group = node.args.get("group")
        if group is not None and {k for k, v in group.args.items() if v} - {"expressions"}:
            raise unknown(group)
        for key in list(group.expressions) if group is not None else []:
            self.walk.value(key, scope)
        if node.args.get("having") is not None:
            self.walk.condition(node.args["having"].this, scope)
        return columns

    def _shown(self, node: exp.Expression, scope: KnownColumns) -> Columns:
        columns: Columns = {}
        for i, item in enumerate(list(node.expressions)):
            if isinstance(item, exp.Star):
                if {k for k, v in item.args.items() if v}:
                    raise unknown(item)
                columns |= {name: known for (_, name), known in scope.columns.items()}
            elif isinstance(item, exp.Alias):
                columns[item.alias.lower()] = self.walk.value(item.this, scope)
            else:
                columns[item.name.lower() or f"#{i}"] = self.walk.value(item, scope)
        return {name: replace(known, literal=False) for name, known in columns.items()}

    def _source(self, node: exp.Expression, scope: KnownColumns, named: Tables) -> None:
        """Put the columns of a source into the scope."""
        if isinstance(node, exp.Table):
            known = named.get(node.name.lower()) or self.tables.get(node.name.lower())
            if known is None or node.args.get("db") or node.args.get("pivots"):
                raise unknown(node)
            alias = (node.alias or node.name).lower()
            scope.columns |= {(alias, name): value for name, value in known.items()}
        elif isinstance(node, exp.Subquery) and isinstance(node.this, exp.Select | exp.Union):
            columns = self.query(node.this, scope.outer, named)
            scope.columns |= {(node.alias.lower(), name): value for name, value in columns.items()}
        elif isinstance(node, exp.Subquery | exp.Paren):
            self._source(node.this, scope, named)
        else:
            raise unknown(node)
        for join in list(node.args.get("joins") or []):
            self._join(join, scope, named)

    def _join(self, node: exp.Expression, scope: KnownColumns, named: Tables) -> None:
        """A join's condition sees both sides; the side that may be absent can be NULL."""
        words = {str(node.args.get(k) or "") for k in ("kind", "side", "method")} | {str(node.args.get("using") or "")}
        if words - _JOINS:
            raise unknown(node)
        right = KnownColumns({}, scope.outer)
        self._source(node.this, right, named)
        both = KnownColumns(scope.columns | right.columns, scope.outer)
        if node.args.get("on") is not None:
            self.walk.condition(node.args["on"], both)
        if words & {"SEMI", "ANTI"}:
            return
        if words & {"LEFT", "FULL"}:
            right.columns = {place: replace(known, null=True) for place, known in right.columns.items()}
        if "FULL" in words:
            scope.columns = {place: replace(known, null=True) for place, known in scope.columns.items()}
        scope.columns |= right.columns
