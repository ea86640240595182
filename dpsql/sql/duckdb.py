"""SQL trees as DuckDB's text. Identifiers are quoted and constants typed, so that the engine has nothing to infer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta
from fractions import Fraction

from dpsql.core.domains import Value
from dpsql.core.errors import error
from dpsql.core.sqltypes import SqlType
from dpsql.sql import nodes as n
from dpsql.sql import queries as q

Part = str | n.Node
_OPERATIONS = (n.Binary, n.Between, n.Case, n.Chain, n.In, n.InQuery, n.Is, n.Like, n.Not)
"""Nodes written in parentheses."""
EPOCH = date(1970, 1, 1)
_LOWEST = (-(2**31), -(2**63))
"""The lowest INTEGER and BIGINT."""


def printed(node: n.Node) -> str:
    """The text of a tree."""
    found: list[str] = []
    waiting: list[Part] = [node]
    while waiting:
        part = waiting.pop()
        if isinstance(part, str):
            found.append(part)
        else:
            waiting.extend(reversed(_FORMS[type(part)](part)))
    return "".join(found)


def quoted(name: str) -> str:
    """An identifier."""
    return '"' + name.replace('"', '""') + '"'


def advised(name: str) -> str:
    """An identifier in a hint: in quotes where it is read in quotes alone."""
    return name if name.isidentifier() and name.isascii() else quoted(name)


def literal_sql(value: Value | None, sqltype: SqlType) -> str:
    """The text of a constant."""
    if type(value) is int and sqltype.is_integer and value not in _LOWEST:
        return str(value) if value >= 0 else f"({value})"
    if value is None:
        # with its type, so that the engine has none to infer
        return "NULL" if sqltype.name == "NULL" else f"CAST(NULL AS {sqltype})"
    if isinstance(value, str):
        text = "'" + value.replace("'", "''") + "'"
        return f"{sqltype} {text}" if sqltype.is_counted else text
    if sqltype.is_boolean:
        return "true" if value else "false"
    number = Fraction(value)
    if sqltype.name == "DATE":
        return f"DATE '{EPOCH + timedelta(days=int(number))}'"
    if sqltype.name == "TIMESTAMP":
        return f"TIMESTAMP '{datetime(1970, 1, 1) + timedelta(microseconds=int(number))}'"
    if sqltype.name == "TIME":
        return f"TIME '{(datetime(1970, 1, 1) + timedelta(microseconds=int(number))).time()}'"
    if sqltype.is_float:
        return f"CAST({float(number)!r} AS {sqltype})"
    if sqltype.is_decimal:
        return f"CAST({decimal_text(number, sqltype.scale)} AS {sqltype})"
    if number in _LOWEST:
        # the engine would read a narrower type, in which this has no opposite
        return f"CAST({int(number)} AS {sqltype})"
    return str(int(number)) if number >= 0 else f"({int(number)})"


def decimal_text(number: Fraction, scale: int) -> str:
    """A number with `scale` digits after the point, exact (the caller has rounded)."""
    quanta = number * 10**scale
    if quanta.denominator != 1:
        raise ValueError("a decimal literal must lie on its grid")
    digits = str(abs(int(quanta))).rjust(scale + 1, "0")
    sign = "-" if quanta < 0 else ""
    return f"{sign}{digits[:-scale]}.{digits[-scale:]}" if scale else f"{sign}{digits}"


# --- expressions --------------------------------------------------------------------------------------------------


def _name(name: str) -> str:
    return str(name) if isinstance(name, n.Own) else quoted(name)


def _listed(parts: Sequence[Part], between: str = ", ") -> list[Part]:
    found: list[Part] = []
    for part in parts:
        found += [between, part] if found else [part]
    return found


def _column(node: n.Column) -> list[Part]:
    return [f"{_name(node.relation)}.{_name(node.name)}" if node.relation else _name(node.name)]


def _cast(node: n.Cast) -> list[Part]:
    return ["TRY_CAST(" if node.tries else "CAST(", node.inner, f" AS {node.type})"]


def _call(node: n.Call) -> list[Part]:
    return [f"{node.name}(", *_listed(node.args), ")"]


def _in(node: n.In) -> list[Part]:
    if not node.options:
        raise error(901, "a list of values is empty")
    return ["(", node.inner, " IN (", *_listed(node.options), "))"]


def _like(node: n.Like) -> list[Part]:
    escape: list[Part] = [" ESCAPE ", node.escape] if node.escape is not None else []
    return ["(", node.inner, " ILIKE " if node.ignores_case else " LIKE ", node.pattern, *escape, ")"]


def _case(node: n.Case) -> list[Part]:
    branches = [part for when, then in node.branches for part in (" WHEN ", when, " THEN ", then)]
    default: list[Part] = [" ELSE ", node.default] if node.default is not None else []
    return ["(", "CASE", *branches, *default, " END", ")"]


def _aggregate(node: n.Aggregate) -> list[Part]:
    where: list[Part] = [" FILTER (WHERE ", node.where, ")"] if node.where is not None else []
    return [f"{node.name}(", "DISTINCT " if node.distinct else "", *_listed(node.args), ")", *where]


def _ordered(node: n.Ordered) -> list[Part]:
    return [node.inner, " DESC" if node.descending else "", f" NULLS {node.nulls}" if node.nulls else ""]


def _over(node: n.Over) -> list[Part]:
    parts: list[list[Part]] = []
    if node.partition:
        parts.append(["PARTITION BY ", *_listed(node.partition)])
    if node.order:
        parts.append(["ORDER BY ", *_listed(node.order)])
    if node.frame is not None:
        parts.append([f"{node.frame.kind} BETWEEN {node.frame.start} AND {node.frame.end}"])
    inside = [text for part in parts for text in (" ", *part)][1:]
    return [node.function, " OVER (", *inside, ")"]


def _spread(node: n.Spread) -> list[Part]:
    place: list[Part] = [
        "TRY_CAST(1 + ((2 * i + 1) * CAST(",
        node.length,
        " AS HUGEINT)) // (2 * ",
        node.count,
        ") AS BIGINT)",
    ]
    return ["[", node.list, "[", *place, "] for i in range(", node.count, ")]"]


def _bare(node: n.Bare) -> list[Part]:
    """Parts of an operation inside its parentheses; anything else as it is."""
    if not isinstance(node.inner, _OPERATIONS):
        return [node.inner]
    parts = _FORMS[type(node.inner)](node.inner)
    return [str(parts[0])[1:], *parts[1:-1], str(parts[-1])[:-1]]


# --- queries ------------------------------------------------------------------------------------------------------


def _table(node: q.Table) -> list[Part]:
    return [f"{_name(node.name)} AS {_name(node.alias)}" if node.alias else _name(node.name)]


def _join(node: q.Join) -> list[Part]:
    right: list[Part] = ["(", node.right, ")"] if isinstance(node.right, q.Join) else [node.right]
    on: list[Part] = [" ON ", *_listed(node.on, " AND ")] if node.on else []
    return [node.left, f" {node.kind} JOIN " if node.kind else " JOIN ", *right, *on]


def _select(node: q.Select) -> list[Part]:
    found: list[Part] = ["SELECT DISTINCT " if node.once else "SELECT ", *_listed(node.items)]
    if node.source is not None:
        found += [" FROM ", node.source]
    if node.where:
        found += [" WHERE ", *_listed(node.where, " AND ")]
    if node.group:
        found += [" GROUP BY ", *_listed(node.group)]
    if node.having is not None:
        found += [" HAVING ", node.having]
    return [*found, f" LIMIT {node.limit}" if node.limit is not None else ""]


def _common(node: q.Common) -> list[Part]:
    return [_name(node.name), " AS MATERIALIZED (" if node.kept else " AS (", node.query, ")"]


_FORMS: dict[type[n.Node], Callable[..., list[Part]]] = {
    n.Column: _column,
    n.Literal: lambda node: [literal_sql(node.value, node.type)],
    n.Number: lambda node: [str(node.value)],
    n.Parameter: lambda node: [f"${node.name}"],
    n.Star: lambda node: ["*"],
    n.Cast: _cast,
    n.Call: _call,
    n.Binary: lambda node: ["(", node.left, f" {node.operator} ", node.right, ")"],
    n.Chain: lambda node: ["(", *_listed(node.parts, f" {node.operator} "), ")"],
    n.Not: lambda node: ["(NOT ", node.inner, ")"],
    n.Is: lambda node: ["(", node.inner, f" IS {node.what})"],
    n.In: _in,
    n.InQuery: lambda node: ["(", node.inner, " IN (", node.query, "))"],
    n.Between: lambda node: ["(", node.inner, " BETWEEN ", node.low, " AND ", node.high, ")"],
    n.Like: _like,
    n.Case: _case,
    n.Exists: lambda node: ["EXISTS (", node.query, ")"],
    n.QueryValue: lambda node: ["(", node.query, ")"],
    n.Aggregate: _aggregate,
    n.Ordered: _ordered,
    n.Over: _over,
    n.Spread: _spread,
    n.Bare: _bare,
    q.Item: lambda node: [node.inner, f" AS {_name(node.name)}"],
    q.Table: _table,
    q.Derived: lambda node: ["(", node.query, f") AS {_name(node.alias)}"],
    q.Join: _join,
    q.Beside: lambda node: _listed(node.parts),
    q.Select: _select,
    q.UnionAll: lambda node: _listed(node.parts, " UNION ALL "),
    q.Common: _common,
    q.With: lambda node: ["WITH ", *_listed(node.parts), " ", node.body],
}
