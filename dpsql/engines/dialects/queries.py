"""Queries of a checked statement in a dialect's words: clauses, joins, aggregates and windows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from sqlglot import exp

from dpsql.core.sqltypes import BOOLEAN
from dpsql.engines.dialects.expressions import RULES, Writing
from dpsql.engines.dialects.words import DialectWords
from dpsql.plan.checked import Checked

_CLAUSES = {"expressions", "from_", "joins", "where", "group", "having", "with_", "limit", "distinct"}
_AGGREGATES = {"Min": "min", "Max": "max", "LogicalAnd": "bool_and", "LogicalOr": "bool_or"}
_WINDOWS = {"RowNumber": "row_number", "Rank": "rank", "DenseRank": "dense_rank"}
_NEIGHBOURS = {"Lag": "lag", "Lead": "lead", "FirstValue": "first_value", "LastValue": "last_value"}


def written(words: DialectWords, statement: Checked) -> str:
    """A whole statement. No engine but DuckDB has a guard: what was not proved total is refused. Raises 102."""
    tried = statement.tree.find(exp.Try)
    if tried is not None:
        called = tried.this.name.upper() if isinstance(tried.this, exp.Anonymous) else type(tried.this).__name__
        raise words.refused(f"{called} of values that may not fit its type", "narrow the bounds of its columns")
    writing: Writing

    def query(node: exp.Expression) -> str:
        return _query(writing, node)

    writing = Writing(words, statement.known, query, {**RULES, **_OF_ROWS})
    return _query(writing, statement.tree)


def _query(writing: Writing, node: exp.Expression) -> str:
    if isinstance(node, exp.Subquery):
        return f"({_query(writing, node.this)})"
    clause = node.args.get("with_")
    if clause is not None:
        # a query may stand in an operand of UNION ALL, and its names are its own there
        half = _numbered_half(node) if not writing.words.kept else None
        whole = _body(writing, node) if half is None else _whole(writing, half)
        left_out = {_BUSY, *([] if half is None else [_ABOVE])} if not writing.words.kept else set()
        listed = [part for part in clause.expressions if part.alias not in left_out]
        parts = ", ".join(_common(writing, part) for part in listed)
        return f"SELECT * FROM (WITH {parts} {whole}) AS {writing.words.name('dpsql query')}"
    return _body(writing, node)


_ABOVE, _BUSY = "heavy", "busy"
"""The units above a limit, as planner/lower/cutting.py names them."""


def _numbered_half(node: exp.Expression) -> exp.Select | None:
    """Of a cut, which is the groups of units within all limits and the numbered ones of all others, the second; None for any other
    query."""
    halves = [half.unnest() for half in (node.this, node.expression)] if isinstance(node, exp.Union) else []
    kinds = []
    for half in halves:
        (join,) = half.args.get("joins") or [None]
        named = isinstance(half, exp.Select) and join is not None and join.this.name == _ABOVE
        kinds.append(str(join.args.get("kind") or "") if named else "")
    return halves[1] if kinds == ["ANTI", "SEMI"] else None


def _whole(writing: Writing, numbered: exp.Select) -> str:
    """Both halves in one, where all units' groups are numbered.

    Why  an engine that computes no part of WITH once would read every row four times, to sort fewer. A unit within all limits has
         its groups numbered up to the limit at most, and fewer rows in those before than it may keep: it keeps everything, as in its
         own half, where nothing is numbered. Rows stand under no unit only beside busy ones, and here all units are busy
    """
    items = ", ".join(_item(writing, item) for item in numbered.expressions)
    return f"SELECT {items} FROM {_source(writing, numbered.args['from_'].this)}"


def _common(writing: Writing, part: exp.Expression) -> str:
    kept = writing.words.kept if part.args.get("materialized") else ""
    return f"{writing.words.name(part.alias)} AS{kept} ({_query(writing, part.this)})"


def _body(writing: Writing, node: exp.Expression) -> str:
    if isinstance(node, exp.Union):
        if node.args.get("distinct"):
            raise writing.words.refused("UNION without ALL")
        return f"({_query(writing, node.this)}) UNION ALL ({_query(writing, node.expression)})"
    joins = [join.this.name for join in node.args.get("joins") or []]
    if joins == [_BUSY] and isinstance(node.expressions[0], exp.Star) and not writing.words.kept:
        # any units may be among the busy ones (cutting.py): here all are, and rows are read once; a star is in no analyst's text
        rows, (unit, _) = (
            _source(writing, node.args["from_"].this),
            node.args["joins"][0].args["on"].find_all(exp.Column),
        )
        return f"SELECT *, {writing.value(unit)} AS {writing.words.name(node.expressions[1].alias)} FROM {rows}"
    if not isinstance(node, exp.Select) or {k for k, v in node.args.items() if v} - _CLAUSES:
        raise writing.words.refused("this form of a query")
    return _select(writing, node)


def _select(writing: Writing, node: exp.Select) -> str:
    conditions: list[str] = []
    found = ["SELECT DISTINCT" if node.args.get("distinct") else "SELECT"]
    found.append(", ".join(_item(writing, item) for item in node.expressions))
    source = node.args.get("from_")
    if source is not None:
        joined = _source(writing, source.this)
        for join in node.args.get("joins") or []:
            joined = _join(writing, joined, join, conditions)
        found.append(f"FROM {joined}")
    if node.args.get("where") is not None:
        conditions.append(writing.value(node.args["where"].this))
    if conditions:
        found.append(f"WHERE {' AND '.join(conditions)}")
    group = node.args.get("group")
    if group is not None:
        found.append(f"GROUP BY {', '.join(writing.value(key) for key in group.expressions)}")
    if node.args.get("having") is not None:
        found.append(f"HAVING {writing.value(node.args['having'].this)}")
    if node.args.get("limit") is not None:
        found.append(f"LIMIT {int(node.args['limit'].expression.name)}")
    return " ".join(found)


def _item(writing: Writing, item: exp.Expression) -> str:
    if isinstance(item, exp.Star):
        return "*"
    if isinstance(item, exp.Alias):
        return f"{_shown(writing, item.this)} AS {writing.words.name(item.alias)}"
    return f"{_shown(writing, item)} AS {writing.words.name(item.name)}" if item.name else _shown(writing, item)


def _shown(writing: Writing, node: exp.Expression) -> str:
    """A value in the type that holds it, so that what reads it finds that type."""
    value, known = writing.value(node), writing.of(node)
    plain = isinstance(node, exp.Column | exp.Explode) or known.sqltype.name in ("LIST", "NULL")
    return value if plain or writing.words.holds(known, known.sqltype) else writing.words.cast(value, known.sqltype)


# --- sources ----------------------------------------------------------------------------------------------------------


def _source(writing: Writing, node: exp.Expression) -> str:
    if isinstance(node, exp.Table):
        found = writing.words.name(node.name) + (f" AS {writing.words.name(node.alias)}" if node.alias else "")
    elif isinstance(node, exp.Subquery) and isinstance(node.this, exp.Select | exp.Union):
        found = f"({_query(writing, node.this)}) AS {writing.words.name(node.alias)}"
    elif isinstance(node, exp.Subquery | exp.Paren):
        found = f"({_source(writing, node.this)})"
    else:
        raise writing.words.refused("this form of a source")
    for join in node.args.get("joins") or []:
        found = _join(writing, found, join, None)
    return found


def _join(writing: Writing, left: str, node: exp.Expression, conditions: list[str] | None) -> str:
    """A join. SEMI and ANTI become conditions of the query that they stand in: the last of its joins, they see all others."""
    kinds = {str(node.args.get(word) or "") for word in ("kind", "side", "method")} - {""}
    right, on = _source(writing, node.this), node.args.get("on")
    if kinds & {"SEMI", "ANTI"}:
        if conditions is None or on is None:
            raise writing.words.refused("this form of a join")
        told = "NOT EXISTS" if "ANTI" in kinds else "EXISTS"
        conditions.append(f"{told} (SELECT 1 FROM {right} WHERE {writing.value(on)})")
        return left
    if on is None:
        return f"{left} CROSS JOIN {right}"
    word = (
        "FULL JOIN"
        if "FULL" in kinds
        else "LEFT JOIN"
        if "LEFT" in kinds
        else "RIGHT JOIN"
        if "RIGHT" in kinds
        else "JOIN"
    )
    return f"{left} {word} {right} ON {writing.value(on)}"


# --- aggregates and windows -------------------------------------------------------------------------------------------


def _aggregate(writing: Writing, node: exp.Expression) -> str:
    kind, known = type(node).__name__, writing.of(node.this)
    if kind in ("Min", "Max") and known.sqltype.is_boolean:
        return f"{'bool_and' if kind == 'Min' else 'bool_or'}({writing.value(node.this)})"
    if kind == "Sum" and not (known.sqltype.is_integer or known.sqltype.is_decimal):
        raise writing.words.refused(f"SUM of {known.sqltype}")
    if kind in ("Min", "Max") and known.sqltype.name == "TIME":
        raise writing.words.refused(f"{kind} of TIME")
    if kind == "Sum":
        return writing.words.sum(writing.value(node.this), known)
    return f"{_AGGREGATES[kind]}({writing.value(node.this)})"


def _count(writing: Writing, node: exp.Expression) -> str:
    argument = node.this if node.this is not None else node.expressions[0]
    if isinstance(argument, exp.Star):
        return "count(*)"
    distinct = isinstance(argument, exp.Distinct)
    counted = argument.expressions[0] if distinct else argument
    if writing.of(counted).sqltype.name == "NULL":
        return f"count({writing.words.cast('NULL', BOOLEAN)})"
    return f"count({'DISTINCT ' if distinct else ''}{writing.value(counted)})"


def _list(writing: Writing, node: exp.Expression) -> str:
    """No NULL is in it where it has the values that are none, by its FILTER."""
    listed = node.this if node.this is not None else node.expressions[0]
    held, around = writing.of(listed), node.parent
    if around is not None and around.key == "filter" and around.expression.this == listed.is_(exp.null()).not_():
        held = replace(held, null=False)
    return writing.words.listed(writing.value(listed), held)


def _filtered(writing: Writing, node: exp.Expression) -> str:
    return f"{writing.value(node.this)} FILTER (WHERE {writing.value(node.expression.this)})"


def _window(writing: Writing, node: exp.Expression) -> str:
    parts = []
    if node.args.get("partition_by"):
        parts.append("PARTITION BY " + ", ".join(writing.value(part) for part in node.args["partition_by"]))
    order = node.args.get("order")
    if order is None and type(node.this).__name__ in _WINDOWS:
        parts += [writing.words.unordered] if writing.words.unordered else []
    if order is not None:
        parts.append("ORDER BY " + ", ".join(_ordered(writing, part) for part in order.expressions))
    spec = node.args.get("spec")
    if spec is not None:
        parts.append(f"{spec.args['kind']} BETWEEN {_end(spec, 'start')} AND {_end(spec, 'end')}")
    return f"{writing.value(node.this)} OVER ({' '.join(parts)})"


def _ordered(writing: Writing, node: exp.Expression) -> str:
    """With the place of NULL in words: what each engine takes for granted differs."""
    first = "FIRST" if node.args.get("nulls_first") else "LAST"
    return f"{writing.value(node.this)} {'DESC' if node.args.get('desc') else 'ASC'} NULLS {first}"


def _end(spec: exp.Expression, end: str) -> str:
    found, side = spec.args[end], spec.args.get(f"{end}_side")
    place = found if isinstance(found, str) else str(int(found.name))
    return f"{place} {side}" if side else place


def _numbered(writing: Writing, node: exp.Expression) -> str:
    return f"{_WINDOWS[type(node).__name__]}()"


def _neighbour(writing: Writing, node: exp.Expression) -> str:
    offset = node.args.get("offset")
    if node.args.get("default") is not None:
        raise writing.words.refused("LAG and LEAD with a default")
    after = f", {writing.words.small(writing.value(offset))}" if offset is not None else ""
    return f"{_NEIGHBOURS[type(node).__name__]}({writing.value(node.this)}{after})"


# --- lists ------------------------------------------------------------------------------------------------------------


def _sorted(writing: Writing, node: exp.Expression) -> str:
    return writing.words.ordered(writing.value(node.this))


def _unnested(writing: Writing, node: exp.Expression) -> str:
    return writing.words.unnested(writing.value(node.this), writing.of(node).sqltype)


def _numbers(writing: Writing, node: exp.Expression) -> str:
    """0, 1, ... below a number of rows."""
    return writing.words.counted(writing.value(node.args["end"]))


def _picked(writing: Writing, node: exp.Expression) -> str:
    """list[place], of the one form that is written (Spread).

    Why  the parser counts from 0: off a place whose type it knows it takes 1
    """
    (place,) = node.expressions
    if isinstance(place, exp.Add) and place.expression == exp.Literal.number(-1):
        place = place.this
    if not isinstance(place, exp.TryCast) or node.args.get("offset") not in (None, 1):
        raise writing.words.refused("another place in a list")
    return writing.words.picked(writing.value(node.this), writing.value(place))


def _array(writing: Writing, node: exp.Expression) -> str:
    """[value for name in list], in the list's order."""
    (inner,) = node.expressions
    name = writing.words.name(inner.expression.name)
    return writing.words.mapped(writing.value(inner.args["iterator"]), name, writing.value(inner.this))


_OF_ROWS: Mapping[str, Callable[[Writing, exp.Expression], str]] = {
    **dict.fromkeys(("Sum", *_AGGREGATES), _aggregate),
    "Count": _count,
    "ArrayAgg": _list,
    "List": _list,
    "Filter": _filtered,
    "Window": _window,
    **dict.fromkeys(_WINDOWS, _numbered),
    **dict.fromkeys(_NEIGHBOURS, _neighbour),
    "ArraySort": _sorted,
    "SortArray": _sorted,
    "Explode": _unnested,
    "GenerateSeries": _numbers,
    "Bracket": _picked,
    "Array": _array,
}
