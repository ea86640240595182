"""PIVOT as the grouped SELECT that it stands for: one release, turned by a free outer SELECT.

    PIVOT t ON site USING COUNT(*) GROUP BY female
    =>  SELECT g0 AS female, COALESCE(MAX(a0) FILTER (WHERE k0 = 1), 0) AS "1", ...
        FROM (SELECT female AS g0, site AS k0, COUNT(*) AS a0 FROM t GROUP BY 1, 2) AS pivoted GROUP BY 1

Columns   one per value of ON and aggregate, ordered and named as DuckDB does: by the text of the values, NULL left out
Refuses   302 no GROUP BY: DuckDB would group by every other column, the privacy unit too; 303 values that are not declared
Notes     DuckDB compares the values of IN as text (2 is not 2.0) and forgets a FILTER of USING; here both mean what they say
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import product

from sqlglot import exp

from dpsql.core.errors import error
from dpsql.core.spans import span_of
from dpsql.planner.grammar import is_aggregate
from dpsql.planner.resolve.syntax import all_of, output_name, unaliased
from dpsql.relations.relations import distinct_names

PIVOTED = "pivoted"
MOST_COLUMNS = 1_000
Listed = Callable[[exp.Expression, exp.Expression], tuple[int | str | bool, ...] | None]
"""(what PIVOT reads, an expression of ON) -> the declared values of the expression, or None."""

_ZERO_IF_NONE = (exp.Count, exp.ApproxDistinct)
"""Aggregates that are 0 over no rows; DuckDB's COUNT_IF is NULL there."""


def unpivoted(tree: exp.Expression, listed: Listed) -> exp.Expression:
    """The statement without PIVOT: for a PIVOT statement the nested SELECT, else a copy with every PIVOT in FROM replaced.

    listed  is asked only where ON has no IN; it gets nodes of a copy of the tree, which stand where they stood

    Raises 101 (GROUP BY of something other than names, a value listed twice), 102, 302, 303, 304.
    """
    whole = exp.Subquery(this=tree.copy())
    for node in reversed(list(whole.find_all(exp.Pivot, bfs=False))):
        _replace(node, listed)
    found = whole.this
    found.pop()
    assert isinstance(found, exp.Expression)
    return found


def with_values(tree: exp.Expression, listed: Listed) -> exp.Expression:
    """A copy in which every ON lists its values, so that the engine can name the columns without reading rows."""
    copy = tree.copy()
    for node in copy.find_all(exp.Pivot):
        if not node.args.get("fields"):
            source = node.this
            node.set("expressions", [_with_values(source, on, listed) for on in node.expressions])
    return copy


def _with_values(source: exp.Expression, on: exp.Expression, listed: Listed) -> exp.Expression:
    """An expression of ON with its values; in parentheses, because engines read `x + 1 IN (2)` in two ways."""
    tested = on.this if isinstance(on, exp.In) else on
    values = list(on.expressions) if isinstance(on, exp.In) else []
    values = values or [_literal(value) for value in _declared(source, on, listed)]
    closed = tested.copy() if isinstance(tested, exp.Column | exp.Paren) else exp.Paren(this=tested.copy())
    return exp.In(this=closed, expressions=[value.copy() for value in values])


def _replace(node: exp.Pivot, listed: Listed) -> None:
    """Put the nested SELECT where a PIVOT stands: a statement, a subquery, or behind a table."""
    if not node.args.get("fields"):
        select = _nested(node.this, node.expressions, node.args.get("using") or [], node, listed)
        if node.args.get("with_"):
            select.set("with_", node.args["with_"].copy())
        node.replace(select)
        return
    source = node.parent
    assert isinstance(source, exp.Table | exp.Subquery)
    if len(source.args["pivots"]) > 1:
        raise error(102, "more than one PIVOT of a table is not supported", hint="nest them", span=span_of(source))
    place = source.parent
    assert place is not None
    marker = exp.Subquery()
    source.replace(marker)
    source.set("pivots", None)
    # The source must stand in its statement while its columns are looked up.
    marker.set("this", source)
    select = _nested(source, node.args["fields"], node.expressions, node, listed)
    alias = node.args.get("alias")
    marker.replace(exp.Subquery(this=select, alias=alias.copy() if alias is not None else None))


def _nested(
    source: exp.Expression, on: list[exp.Expression], using: list[exp.Expression], pivot: exp.Pivot, listed: Listed
) -> exp.Select:
    groups = _groups(pivot) or _others(source, [*on, *using])
    if groups is None:
        message = "PIVOT without GROUP BY groups by every other column, which can be the privacy unit"
        raise error(302, message, hint="write GROUP BY and the columns to keep", span=span_of(pivot))
    axes = [_axis(source, expression, f"k{i}", listed) for i, expression in enumerate(on)]
    cells = _Cells(using or [exp.Count(this=exp.Star(), big_int=True)])
    columns = cells.columns(axes)
    shown = [exp.column(exp.to_identifier(f"g{i}", quoted=True)) for i in range(len(groups))]
    named = [*((g.name, s) for g, s in zip(groups, shown, strict=True)), *columns]
    inner = exp.Select(
        expressions=[
            *(exp.alias_(g.copy(), s.name, quoted=True) for g, s in zip(groups, shown, strict=True)),
            *(exp.alias_(axis.key, axis.name, quoted=True) for axis in axes),
            *(exp.alias_(part, f"a{i}", quoted=True) for i, part in enumerate(cells.parts)),
        ]
    )
    inner.set("from_", exp.From(this=source.copy()))
    inner.set("group", _positions(len(groups) + len(axes)))
    outer = exp.Select(
        expressions=[
            exp.alias_(node, name, quoted=True)
            for name, (_, node) in zip(distinct_names([name for name, _ in named]), named, strict=True)
        ]
    )
    alias = exp.TableAlias(this=exp.to_identifier(PIVOTED, quoted=True))
    outer.set("from_", exp.From(this=exp.Subquery(this=inner, alias=alias)))
    if groups:
        outer.set("group", _positions(len(groups)))
    return outer


def _positions(count: int) -> exp.Group:
    return exp.Group(expressions=[exp.Literal.number(i + 1) for i in range(count)])


def _others(source: exp.Expression, used: list[exp.Expression]) -> list[exp.Expression] | None:
    """The columns that DuckDB groups by where no GROUP BY is written: those of a query that lists its columns, but for the ones that ON
    and USING name; None where it does not list them."""
    query = source.this if isinstance(source, exp.Subquery) else _named_query(source)
    if not isinstance(query, exp.Select) or any(unaliased(column).is_star for column in query.expressions):
        return None
    names = [column.alias_or_name for column in query.expressions]
    read = {column.name.lower() for one in used for column in one.find_all(exp.Column)}
    if not all(names) or len(set(map(str.lower, names))) < len(names):
        return None
    return [exp.column(exp.to_identifier(name, quoted=True)) for name in names if name.lower() not in read]


def _named_query(source: exp.Expression) -> exp.Expression | None:
    """The WITH query that a name in FROM stands for."""
    above = source.parent
    while isinstance(source, exp.Table) and not source.db and above is not None:
        for one in above.ctes if isinstance(above, exp.Query) else ():
            if one.alias.lower() == source.name.lower() and not one.args["alias"].columns:
                found: exp.Expression = one.this
                return found
        above = above.parent
    return None


def _groups(pivot: exp.Pivot) -> list[exp.Expression]:
    """The columns of GROUP BY; [] without one."""
    group = pivot.args.get("group")
    if group is None or group.args.get("all") or not group.expressions:
        return []
    for node in group.expressions:
        if not isinstance(node, exp.Column) or node.table or isinstance(node.this, exp.Star):
            hint = "name it in a subquery: PIVOT (SELECT x + 1 AS y, ...) ... GROUP BY y"
            raise error(101, "GROUP BY of a PIVOT takes names of columns", hint=hint, span=span_of(node))
    return list(group.expressions)


# --- the values of ON -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Axis:
    """One expression of ON.

    key     what the inner SELECT groups by
    values  (text that names a column, the constant that its key equals)
    """

    name: str
    key: exp.Expression
    values: tuple[tuple[str, exp.Expression], ...]


def _axis(source: exp.Expression, on: exp.Expression, name: str, listed: Listed) -> _Axis:
    if not isinstance(on, exp.In):
        values = _declared(source, on, listed)
        return _Axis(name, on.copy(), tuple((_text(value), _literal(value)) for value in values))
    entries = [_entry(node) for node in on.expressions]
    if not entries:
        raise error(102, "PIVOT needs its values in parentheses", hint="write ON x IN (1, 2)", span=span_of(on))
    taken: set[str] = set()
    for text, node in entries:
        if text in taken:
            raise error(101, f"{text[:40]} stands twice in IN", hint="list each value once", span=span_of(node))
        taken.add(text)
    # Labels, so that the keys can be listed whatever is declared; all other rows are one more group, which is not shown.
    cases = [
        exp.If(this=_equals(on.this.copy(), node), true=exp.Literal.number(i)) for i, (_, node) in enumerate(entries)
    ]
    labels = tuple((text, exp.Literal.number(i)) for i, (text, _) in enumerate(entries))
    return _Axis(name, exp.Case(ifs=cases), labels)


def _declared(source: exp.Expression, on: exp.Expression, listed: Listed) -> list[int | str | bool]:
    """The declared values in DuckDB's order of columns: by their texts."""
    values = listed(source, on)
    if values is None:
        shown = on.sql(dialect="duckdb", comments=False)
        message = f"the columns of PIVOT cannot be listed: {shown[:60]} has no declared values"
        example = f"write ON {shown} IN (1, 2)" if len(shown) <= 60 else "write ON x IN (1, 2)"
        raise error(303, message, hint=example, span=span_of(on))
    return sorted(values, key=_text)


def _text(value: int | str | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _literal(value: int | str | bool) -> exp.Expression:
    if isinstance(value, bool):
        return exp.Boolean(this=value)
    if isinstance(value, str):
        return exp.Literal.string(value)
    number: exp.Expression = exp.Literal.number(abs(value))
    return exp.Neg(this=number) if value < 0 else number


def _entry(node: exp.Expression) -> tuple[str, exp.Expression]:
    """The name and the constant of one value of IN; a bare word is a text."""
    if isinstance(node, exp.PivotAlias):
        return node.args["alias"].name, _entry(node.this)[1]
    if isinstance(node, exp.Column) and not node.table and not isinstance(node.this, exp.Star):
        return node.name, exp.Literal.string(node.name)
    if isinstance(node, exp.Null):
        return "NULL", node
    if isinstance(node, exp.Boolean):
        return _text(bool(node.this)), node
    negative = isinstance(node, exp.Neg)
    number = node.this if negative else node
    if isinstance(number, exp.Literal) and not (negative and number.is_string):
        return f"{'-' if negative else ''}{number.name}", node
    if isinstance(node, exp.Cast) and isinstance(node.this, exp.Literal):
        return node.this.name, node
    raise error(102, "IN of a PIVOT takes constants", hint="write ON x IN (1, 2)", span=span_of(node))


def _equals(key: exp.Expression, value: exp.Expression) -> exp.Expression:
    if isinstance(value, exp.Null):
        return exp.Is(this=key, expression=exp.Null())
    return exp.EQ(this=key, expression=value.copy())


# --- the cells --------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Cells:
    """The expressions of USING.

    parts  their aggregates, for the inner SELECT: a0, a1, ...
    """

    using: list[exp.Expression]
    parts: list[exp.Expression] = field(default_factory=list)

    def columns(self, axes: list[_Axis]) -> list[tuple[str, exp.Expression]]:
        """(name, outer expression) of every combination of values and every aggregate."""
        width = len(self.using)
        for axis in axes:
            width *= len(axis.values)
        if width > MOST_COLUMNS:
            message = f"PIVOT would make {width:,} columns; at most {MOST_COLUMNS:,} are made"
            raise error(304, message, hint="list the values to show: ON x IN (1, 2)", span=span_of(axes[0].key))
        shapes = [(self._suffix(node), self._outer(unaliased(node))) for node in self.using]
        found: list[tuple[str, exp.Expression]] = []
        for values in product(*(axis.values for axis in axes)):
            texts = [text for text, _ in values]
            keys = [exp.column(exp.to_identifier(axis.name, quoted=True)) for axis in axes]
            condition = all_of([_equals(k, v) for k, (_, v) in zip(keys, values, strict=True)])
            for suffix, shape in shapes:
                found.append(("_".join([*texts, *suffix]), _filtered(shape, condition)))
        return found

    def _suffix(self, node: exp.Expression) -> list[str]:
        """Suffixes that an aggregate adds to the names: its alias, or where there are several its text."""
        if isinstance(node, exp.Alias):
            return [node.alias]
        return [output_name(node)] if len(self.using) > 1 else []

    def _outer(self, node: exp.Expression) -> exp.Expression:
        """An expression of USING over the inner columns, each aggregate as MAX of its part."""
        if is_aggregate(node):
            self.parts.append(node.copy())
            shown: exp.Expression = exp.Max(this=exp.column(exp.to_identifier(f"a{len(self.parts) - 1}", quoted=True)))
            call = node.this if isinstance(node, exp.Filter) else node
            if isinstance(call, _ZERO_IF_NONE):
                shown = exp.Coalesce(this=shown, expressions=[exp.Literal.number(0)])
            return shown
        if not any(True for _ in node.iter_expressions()):
            return node.copy()
        return type(node)(**{name: self._outer_part(value) for name, value in node.args.items()})

    def _outer_part(self, value: object) -> object:
        if isinstance(value, list):
            return [self._outer_part(part) for part in value]
        return self._outer(value) if isinstance(value, exp.Expression) else value


def _filtered(shape: exp.Expression, condition: exp.Expression) -> exp.Expression:
    """A copy whose MAX reads the one inner row of a cell."""

    def narrowed(node: exp.Expression) -> exp.Expression:
        if isinstance(node, exp.Max) and not isinstance(node.parent, exp.Filter):
            return exp.Filter(this=node.copy(), expression=exp.Where(this=condition.copy()))
        return node

    return shape.transform(narrowed)
