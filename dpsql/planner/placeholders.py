"""placeholders: the types of a statement's parameters, as they follow from where these stand, before anybody gives their values.

Why     a client that sends bytes must be told of what type: eight bytes are an integer or a number with a point, and
        both have a meaning
Limit   each parameter is looked at by itself; of one that nothing says anything of, nothing is guessed
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction

from sqlglot import exp

from dpsql.core.domains import Categories, Interval
from dpsql.core.errors import error
from dpsql.core.sqltypes import BIGINT, BOOLEAN, DATE, DOUBLE, TIMESTAMP, VARCHAR, SqlType, parse_type
from dpsql.planner.parse import unbound
from dpsql.schema import qualifiers
from dpsql.schema.model import Column, Schema

_COMPARED = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ, exp.Between, exp.In)
_TEXTS = (exp.Like, exp.ILike, exp.SimilarTo, exp.RegexpLike, exp.StartsWith, exp.EndsWith, exp.Contains, exp.Lower, exp.Upper,
          exp.Trim, exp.Length, exp.DPipe, exp.Concat, exp.Substring, exp.Replace)  # fmt: skip
_COUNTED = (exp.Limit, exp.Offset, exp.Fetch)
_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod)
_AS_INSIDE = (exp.Paren, exp.Neg, exp.Coalesce, exp.Abs, exp.Min, exp.Max, exp.Median)
_WHOLE = (exp.Count, exp.Extract, exp.Year, exp.Month, exp.Day, exp.Length)
_MOST = 1000
"""Parameters of one statement."""


@dataclass(frozen=True, slots=True)
class Inferred:
    """One parameter: its type, None where nothing says it, and the column that it is compared with, if it is one."""

    type: SqlType | None
    column: Column | None = None


def inferred(sql: str, schema: Schema) -> tuple[Inferred, ...]:
    """The parameters `?` and `$1` of a statement, in their order.

    schema  with the columns of its public tables
    Errors  1xx as `parse`; 108 where parameters are named, or their numbers have a gap
    """
    tree = unbound(sql)
    if tree is None:
        return ()
    columns, found = _columns(tree, schema), dict[int, Inferred]()
    for node in tree.find_all(exp.Placeholder, exp.Parameter):
        name = node.name or str(node.this)
        if not (name.isascii() and name.isdigit() and len(name) < 7 and 0 < int(name) <= _MOST):
            raise error(108, f"the parameter {name[:40]!r} has no number", hint="write $1, $2, ...")
        known, new = found.get(int(name)), _by_place(node, columns)
        found[int(name)] = new if known is None or known.type is None else known
    if sorted(found) != list(range(1, len(found) + 1)):
        raise error(108, "the numbers of the parameters have a gap", hint="write $1, $2, ... and use each of them")
    return tuple(found[number] for number in sorted(found))


def samples(parameters: tuple[Inferred, ...], *, last: bool = False) -> list[object]:
    """Values that the parameters could have, to see which columns come of them: declared ones where there are some.

    last  the last declared value in place of the first
    """
    return [_sample(one, last) for one in parameters]


def _columns(tree: exp.Expression, schema: Schema) -> Mapping[str, Column]:
    """Columns by their names, of the tables that a statement reads; not those that two of them have with different types."""
    found: dict[str, Column] = {}
    unclear: set[str] = set()
    for node in tree.find_all(exp.Table):
        table = qualifiers.table(schema, node.catalog, node.db, node.name)
        for column in table.columns if table is not None else ():
            name = column.name.lower()
            if name in found and found[name].sqltype != column.sqltype:
                unclear.add(name)
            found.setdefault(name, column)
    return {name: column for name, column in found.items() if name not in unclear}


def _by_place(node: exp.Expression, columns: Mapping[str, Column]) -> Inferred:
    """Type of a placeholder, as what is around it says."""
    parent = node.parent
    match parent:
        case exp.Cast() if parent.this is node:
            return Inferred(parse_type(parent.to.sql("duckdb")))
        case _ if isinstance(parent, _COUNTED):
            return Inferred(BIGINT)
        case _ if isinstance(parent, _COMPARED + _ARITHMETIC):
            for other in _others(node, parent):
                sqltype = _type_of(other, columns)
                if sqltype is not None:
                    return Inferred(sqltype, _column(other, columns) if isinstance(parent, _COMPARED) else None)
            return _by_place(parent, columns) if isinstance(parent, _ARITHMETIC) else Inferred(None)
        case _ if isinstance(parent, _TEXTS):
            return Inferred(VARCHAR)
        case _ if isinstance(parent, _AS_INSIDE):
            for other in _others(node, parent):
                sqltype = _type_of(other, columns)
                if sqltype is not None:
                    return Inferred(sqltype)
            return _by_place(parent, columns)
        case exp.PropertyEQ() | exp.Kwarg():
            return Inferred(DOUBLE)
        case exp.And() | exp.Or() | exp.Not() | exp.Where() | exp.Having():
            return Inferred(BOOLEAN)
    return Inferred(None)


def _others(node: exp.Expression, parent: exp.Expression) -> Iterator[exp.Expression]:
    return (other for other in parent.iter_expressions() if other is not node)


def _column(node: exp.Expression, columns: Mapping[str, Column]) -> Column | None:
    return columns.get(node.name.lower()) if isinstance(node, exp.Column) else None


def _type_of(node: exp.Expression, columns: Mapping[str, Column]) -> SqlType | None:
    """The type of an expression, where it is plain to see."""
    column = _column(node, columns)
    if column is not None:
        return column.sqltype
    match node:
        case exp.Cast():
            return parse_type(node.to.sql("duckdb"))
        case exp.Literal():
            return VARCHAR if node.is_string else BIGINT if node.is_int else DOUBLE
        case exp.Boolean():
            return BOOLEAN
        case exp.CurrentDate():
            return DATE
        case exp.CurrentTimestamp():
            return TIMESTAMP
        case exp.Sum() | exp.Avg():
            return DOUBLE
        case _ if isinstance(node, _WHOLE):
            return BIGINT
        case _ if isinstance(node, _TEXTS):
            return VARCHAR
        case _ if isinstance(node, _ARITHMETIC + _AS_INSIDE):
            found = (_type_of(part, columns) for part in node.iter_expressions())
            return next((one for one in found if one is not None), None)
    return None


def _sample(one: Inferred, last: bool) -> object:
    sqltype = one.type or VARCHAR
    domain = one.column.domain if one.column is not None else None
    place = -1 if last else 0
    if isinstance(domain, Categories) and domain.values:
        return _as_value(domain.values[place], sqltype)
    if isinstance(domain, Interval):
        return _as_value(domain.upper if last else domain.lower, sqltype)
    return _as_value("a" if sqltype.is_text else last if sqltype.is_boolean else 1 + last, sqltype)


def _as_value(number: int | Fraction | str | bool, sqltype: SqlType) -> object:
    """A value as domains hold it, as Python has it."""
    if isinstance(number, str | bool):
        return number
    match sqltype.name:
        case "DATE":
            return date(1970, 1, 1) + timedelta(days=int(number))
        case "TIMESTAMP":
            return datetime(1970, 1, 1) + timedelta(microseconds=int(number))
        case "TIME":
            return time(0, 0, int(number) % 60)
        case "DECIMAL":
            return Decimal(int(number))
        case "VARCHAR":
            return str(number)
    return float(number) if sqltype.is_float else int(number)
