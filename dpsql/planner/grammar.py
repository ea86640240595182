"""The grammar: which syntax nodes may occur at all, with which parts.

A node type or a part that is not listed here is refused (102), so a construct nobody thought about cannot slip through. The lists
serve the whole statement; what a *private* block may use is narrower (resolve/scalars.py builds every scalar itself).
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping

from sqlglot import exp

from dpsql.aggregates.record import Record
from dpsql.aggregates.registry import BY_SPELLING, RECORDS, called
from dpsql.core.cancellation import check
from dpsql.core.errors import Error, error
from dpsql.core.spans import Span, span_of
from dpsql.planner.calls import BY_PLAIN_NAME, around, is_unnest
from dpsql.planner.constructs import FUNCTIONS, LEAVE_OUT, LISTED, PARTS, SPELLINGS, construct
from dpsql.planner.walks import LEAVES, from_the_top
from dpsql.schema.model import RESERVED

# Parts that change nothing, or that only print differently.
_HARMLESS = {
    "quoted", "is_string", "big_int", "nested", "safe", "typed", "coalesce", "ignore_nulls", "date_part_boundary",
    "over", "value_constructor",
}  # fmt: skip


def by_node(nodes: Mapping[str, tuple[type[exp.Expression], ...]]) -> dict[type[exp.Expression], set[str]]:
    """The parts that each node may have, from the nodes by their parts."""
    return {node: set(parts.split()) for parts, listed in nodes.items() for node in listed}


STRUCTURE: dict[type[exp.Expression], set[str]] = by_node({
    "expressions from_ where group having order limit offset distinct qualify windows joins with_": (exp.Select,),
    "this": (exp.From, exp.Identifier, exp.Where, exp.Having, exp.Qualify, exp.Var, exp.Exists),
    "this db catalog alias pivots": (exp.Table,),
    "this columns": (exp.TableAlias,),
    "this alias": (exp.Alias, exp.CTE, exp.Lateral, exp.PivotAlias),
    "this table db catalog": (exp.Column,),
    "": (exp.Star,),
    "expressions all rollup cube grouping_sets": (exp.Group,),
    "expressions": (exp.Rollup, exp.Cube, exp.GroupingSets, exp.Distinct, exp.With, exp.Tuple, exp.Array),
    "expressions this": (exp.Order,),
    "this desc nulls_first": (exp.Ordered,),
    "expression": (exp.Limit, exp.Offset),
    "this on using side kind method": (exp.Join,),
    "this alias pivots": (exp.Subquery,),
    "this expressions fields using group with_ alias columns pivot_column_naming": (exp.Pivot,),
    "this expression distinct order limit offset with_": (exp.Union, exp.Except, exp.Intersect),
    "this partition_by order spec alias": (exp.Window,),
    "kind start start_side end end_side": (exp.WindowSpec,),
    "this expression": (exp.Filter,),
    "expressions alias": (exp.Values,),
})  # fmt: skip

SCALARS: dict[type[exp.Expression], set[str]] = by_node({
    "this": (exp.Literal, exp.Boolean, exp.Placeholder, exp.Parameter, exp.Paren, exp.Neg, exp.Not, exp.DataTypeParam,
        exp.Any, exp.All),
    "": (exp.Null, exp.CurrentDate, exp.CurrentTimestamp),
    "this expression": (exp.Is, exp.Glob, exp.Escape, exp.Nullif, exp.Extract, exp.PropertyEQ, exp.SimilarTo, exp.Add,
        exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod, exp.Pow, exp.DPipe, exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT,
        exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ, exp.StartsWith, exp.JSONExtract, exp.JSONExtractScalar),
    "this expressions query": (exp.In,),
    "this low high": (exp.Between,),
    "this expression negate": (exp.Like, exp.ILike),
    "this ifs default": (exp.Case,),
    "this true false": (exp.If,),
    "this expressions": (exp.Coalesce, exp.Least, exp.Greatest, exp.DataType, exp.Anonymous),
    "this to": (exp.Cast, exp.TryCast),
    "this unit": (exp.Interval,),
    "this start length": (exp.Substring,),
    "this position expression": (exp.Trim,),
    "this substr": (exp.StrPosition,),
    "this zone": (exp.AtTimeZone,),
    "this min_value max_value num_buckets": (exp.WidthBucket,),
    "start end step is_end_exclusive": (exp.GenerateSeries,),
    "this expression expressions": (exp.And, exp.Or),
})  # fmt: skip


def _called(node: type[exp.Func]) -> Record | None:
    """The record of an aggregate that the parser has a node of its own for."""
    names: list[str] = node.sql_names() if issubclass(node, exp.AggFunc) else []
    return next((BY_SPELLING[name.lower()] for name in names if name.lower() in BY_SPELLING), None)


BY_NODE: dict[type[exp.Expression], Record] = {
    node: record
    for node in set(exp.ALL_FUNCTIONS) - {exp.ApproxTopK}
    if issubclass(node, exp.Expression) and (record := _called(node)) is not None and record.takes
}
"""The aggregates of values that the parser has a node for."""
AGGREGATES: dict[type[exp.Expression], set[str]] = {
    **{node: {"this"} if record.takes == 1 else {"this", "expression"} for node, record in BY_NODE.items()},
    **{node: {"this"} for node in (exp.Count, exp.CountIf, exp.Median, exp.Mode)},
    **{node: {"this", "expression"} for node in (exp.PercentileCont, exp.PercentileDisc, exp.WithinGroup)},
    exp.Quantile: {"this", "quantile"},
    exp.ApproxQuantile: {"this", "quantile"},
    **{node: {"this", "expressions"} for node in (exp.Min, exp.Max)},
}

# Only over public or released rows, in the sandbox.
SHELL_ONLY: dict[type[exp.Expression], set[str]] = by_node({
    "": (exp.RowNumber, exp.Rank, exp.DenseRank, exp.PercentRank, exp.CumeDist),
    "this": (exp.Ntile, exp.FirstValue, exp.LastValue),
    "this offset default": (exp.Lag, exp.Lead),
    "this offset": (exp.NthValue,),
    "this expression": (exp.ArgMax, exp.ArgMin),
    "this separator": (exp.GroupConcat,),
    "expressions": (exp.Grouping, exp.GroupingId),
})  # fmt: skip

ALLOWED = {**STRUCTURE, **SCALARS, **AGGREGATES, **SHELL_ONLY}

SCALAR_NAMES = BY_PLAIN_NAME | {"today", "now"}
"""Functions that are called by name."""
AGGREGATE_NAMES = frozenset(BY_SPELLING)
OF_PEOPLE = frozenset(name for record in RECORDS for name in record.spellings if name.startswith("dp_") or record.plain)
"""Functions over people alone."""
END_NAMES = frozenset({"dp_low", "dp_high"})
ALLOWED_NAMES = SCALAR_NAMES | AGGREGATE_NAMES | END_NAMES

_QUANTILES = (exp.PercentileCont, exp.PercentileDisc, exp.Quantile, exp.ApproxQuantile)
"""Functions that take a list of constants."""


def check_nodes(tree: exp.Expression) -> None:
    """Refuse (102, 103) the first node, or part of a node, that the grammar does not have; and names of dpsql's own (105)."""
    names: dict[str, str] = {}
    for node in from_the_top(tree):
        check()
        kind = type(node)
        if isinstance(node, exp.Identifier):
            _check_name(node, names)
        elif isinstance(node, exp.Select):
            _check_select(node)
        parts = ALLOWED.get(kind)
        # whoever looks through a tree expects nothing below a leaf
        if parts is None or (kind in LEAVES and isinstance(node.args.get("this"), exp.Expression)):
            raise unsupported(node)
        for name, value in node.args.items():
            if value and name not in parts and name not in _HARMLESS:
                raise _unsupported_part(node, name, value)
        if kind in _CHECKED:
            _check_kind(node)


_CHECKED = frozenset((exp.All, exp.Lateral, exp.Anonymous, exp.Array, exp.Table, exp.GenerateSeries))


def _check_kind(node: exp.Expression) -> None:
    """Refuse nodes that may not stand everywhere, or not over everything."""
    if isinstance(node, exp.All):
        refused = not isinstance(node.this.unnest(), exp.Array)
    elif isinstance(node, exp.Lateral):
        refused = not isinstance(node.this, exp.Subquery)
    elif isinstance(node, exp.Anonymous):
        refused = str(node.this).lower() not in ALLOWED_NAMES
    elif isinstance(node, exp.Array):
        refused = not isinstance(around(node), (*_QUANTILES, exp.Any, exp.All))
    else:
        refused = False
    if refused:
        raise unsupported(node)
    if isinstance(node, exp.GenerateSeries):
        if not isinstance(node.parent, exp.Table) or node.find(exp.Column, exp.Query):
            hint = "write FROM generate_series(1, 12) AS s(x), with constants"
            raise error(102, "a series stands in FROM, and names no column", hint=hint, span=span_of(node))
    elif isinstance(node, exp.Table) and not (
        isinstance(node.this, exp.Identifier | exp.GenerateSeries) or is_unnest(node.this)
    ):
        raise error(
            103,
            "a function in FROM could read a file, a setting or the catalog",
            hint="name a declared table",
            span=span_of(node),
        )


def _check_select(select: exp.Select) -> None:
    """Refuse a SELECT of nothing (101), and positions in ORDER BY that no column has (105)."""
    if not select.expressions:
        raise error(101, "SELECT names no column", hint="write SELECT COUNT(*) FROM ...", span=span_of(select))
    if select.args.get("order") is None or any(part.is_star for part in select.expressions):
        return
    for ordered in select.args["order"].expressions:
        place = ordered.this if isinstance(ordered, exp.Ordered) else ordered
        if (
            isinstance(place, exp.Literal)
            and place.name.isdigit()
            and not 1 <= int(place.name) <= len(select.expressions)
        ):
            words = f"no column has the position {place.name[:20]}"
            raise error(
                105,
                words,
                hint=f"name one, or write its number, at most {len(select.expressions)}",
                span=span_of(place),
            )


def _check_name(node: exp.Identifier, names: dict[str, str]) -> None:
    """Refuse names of dpsql's own, and two that are one here and two to the engine, which tells accented capitals apart.

    names  those of the statement so far, in lower case, as the engine folds them
    """
    name = node.name.lower()
    if name.startswith(RESERVED):
        raise error(
            105, f"names that begin with {RESERVED!r} are dpsql's own", hint="choose another name", span=span_of(node)
        )
    engines = name
    if not name.isascii() or not node.name.isascii():
        engines = "".join(letter.lower() if letter.isascii() else letter for letter in node.name)
    if names.setdefault(name, engines) != engines:
        raise error(
            105, "two names differ only in the case of a letter", hint="choose another name", span=span_of(node)
        )


def is_aggregate(node: exp.Expression) -> bool:
    """True if a node is an aggregate over people (a window's own function is not: windows stand over released rows)."""
    if _is_window_function(node):
        return False
    if isinstance(node, exp.Filter):
        return True
    if isinstance(node, exp.Anonymous):
        return str(node.this).lower() in AGGREGATE_NAMES
    return type(node) in AGGREGATES or (type(node) in SHELL_ONLY and isinstance(node, exp.AggFunc))


def _is_window_function(node: exp.Expression) -> bool:
    parent = node.parent
    if node.arg_key != "this" or parent is None:
        return False
    return isinstance(parent, exp.Window) or (isinstance(parent, exp.Filter) and _is_window_function(parent))


def record_of(node: exp.Expression) -> Record | None:
    """The aggregate that a node calls, if it is one."""
    if not isinstance(node, exp.Anonymous):
        return BY_NODE.get(type(node))
    return called(str(node.this), named_arguments(node))


def named_arguments(node: exp.Anonymous) -> dict[str, exp.Expression]:
    return {p.this.name.lower(): p.expression for p in node.expressions if isinstance(p, exp.PropertyEQ)}


def name_of(node: exp.Expression) -> str:
    """Name of a construct, as the user writes it."""
    return f"{str(node.this).upper()[:40]}()" if isinstance(node, exp.Anonymous) else construct(node)[0]


def _functions() -> list[str]:
    """Names of functions, in lower case."""
    named = [name.lower() for node in ALLOWED if issubclass(node, exp.Func) for name in node.sql_names()]
    return sorted({*named, *(word.lower() for word in SPELLINGS.values()), *ALLOWED_NAMES})


def unsupported(node: exp.Expression) -> Error:
    words, hint = construct(node)
    if isinstance(node, exp.Anonymous):
        word = str(node.this).lower().strip('"')
        if word in ALLOWED_NAMES:
            what = "write it in SELECT, HAVING or ORDER BY of a query about people's rows, without quotes"
            return error(102, f"{word.upper()[:40]}() cannot stand here", hint=what, span=span_of(node))
        near = difflib.get_close_matches(word, _functions(), 1, cutoff=0.8)
        words, found = f"{word.upper()[:40]}()", f"did you mean {near[0].upper()}()?" if near else LISTED
        hint = FUNCTIONS.get(word, found)
    return error(102, f"{words} is not supported", hint=hint, span=span_of(node))


def _unsupported_part(node: exp.Expression, name: str, value: object) -> Error:
    first = value[0] if isinstance(value, list) else value
    part = first if isinstance(first, exp.Expression) else None
    unnamed = f"an argument of {name_of(node)}" if isinstance(node, exp.Func) else "this part"
    words, hint = PARTS.get(name, (unnamed, LEAVE_OUT))
    if part is not None and type(part) not in ALLOWED:
        words, hint = construct(part)
    return error(
        102,
        f"{words} is not supported here",
        hint=hint,
        span=(span_of(part) if part is not None else None) or span_of(node),
    )


_NUMBER = re.compile(r"(\d[\d_]*\.?[\d_]*|\.\d[\d_]*)(?:[eE]([+-]?\d+))?")
MOST_DIGITS, FARTHEST = 1_000, 400


def check_number(text: str, span: Span) -> None:
    """Raise 101 for a word that begins as a number and is none, 106 for a number beyond those of every type.

    Why  a few characters may name a number of a thousand million digits, and whoever computes with it is out of reach of the limits on
         time until it is there
    """
    found = _NUMBER.fullmatch(text)
    if found is None:
        hint = "write a space around the sign: 1e3 + 1"
        raise error(101, f"{text[:40]} is no number", hint=hint, span=span)
    if len(text) > MOST_DIGITS:
        what = f"{text[:40]}... has more than {MOST_DIGITS:,} digits"
        raise error(106, what, hint="write fewer digits", span=span)
    if found[2] is not None and abs(int(found[2])) > FARTHEST:
        raise error(106, f"{text[:40]} is beyond the range of DOUBLE", hint="write a number within it", span=span)
