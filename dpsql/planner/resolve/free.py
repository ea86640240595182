"""Statements whose answer follows from the declared schema alone: the same on any data, so it is exact and free.

What comes out of here runs on the declared tables *without rows*: nothing private is in reach of it, whatever it says.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction

from sqlglot import exp

from dpsql.core.domains import Categories, Interval, Value
from dpsql.core.sqltypes import SqlType
from dpsql.planner.resolve.catalog import reads_catalog_only
from dpsql.planner.resolve.syntax import all_of, flat_conjuncts, parts_of, unaliased, without_own_functions
from dpsql.planner.walks import every
from dpsql.schema.model import Column, Schema, Table
from dpsql.schema.qualifiers import MAIN
from dpsql.sql.duckdb import literal_sql

_MOST_DIGITS = 18
_EXTREME_PARTS = {"expressions", "from_", "limit", "having"}
_SHOWN_PARTS = {"expressions", "from_"}
_ONE_ROW_PARTS = {"expressions", "from_", "limit"}
_HOLDS: dict[type[exp.Expression], tuple[int, ...]] = {
    exp.EQ: (0,), exp.NEQ: (-1, 1), exp.LT: (-1,), exp.LTE: (-1, 0), exp.GT: (1,), exp.GTE: (0, 1),
}  # fmt: skip
"""The orders of its two sides that a comparison holds for."""


BOUNDS = "MIN and MAX are the declared bounds, not values of the data"


def free_answer(tree: exp.Expression, schema: Schema) -> tuple[exp.Expression, tuple[str, ...]] | None:
    """The tree to run on the empty declared tables, where its answer is the statement's on any data, and what to note of it; else None.

    Why    WHERE that no row passes and LIMIT 0 leave nothing of any table; a literal is no fact about one; a declared bound and
           the declared names are public. A subquery outside FROM and WHERE could still read a public table's rows, so it is none.
    Names  are not looked up here: an undeclared table is told by the caller before, or does not bind on the empty tables.
    """
    if every(tree, exp.Pivot):
        return None
    if reads_catalog_only(tree, schema):
        return tree.copy(), ()
    if _reads_no_rows(tree):
        return without_own_functions(tree), ()
    if isinstance(tree, exp.Select):
        row, bounds = _one_literal_row(tree, schema), _declared_extremes(tree, schema)
        return (row, ()) if row is not None else (bounds, (BOUNDS,)) if bounds is not None else None
    return None


# --- no rows ----------------------------------------------------------------------------------------------------------


def _reads_no_rows(tree: exp.Expression) -> bool:
    """True if a query is answered alike on any data: by LIMIT 0, a WHERE that no row passes, or because all of its FROM is a query so
    answered."""
    if _no_rows_asked(tree):
        return True
    if not isinstance(tree, exp.Select) or _asks_elsewhere(tree):
        return False
    clause, where = tree.args.get("from_"), tree.args.get("where")
    if where is not None and _never_true(where.this):
        return True
    if clause is None or tree.args.get("joins") or (where is not None and where.find(exp.Query) is not None):
        return False
    return isinstance(clause.this, exp.Subquery) and _reads_no_rows(clause.this.this)


def _no_rows_asked(tree: exp.Expression) -> bool:
    """LIMIT 0 of the outermost query."""
    limit = tree.args.get("limit") if isinstance(tree, exp.Query) else None
    return isinstance(limit, exp.Limit) and _number(limit.expression) == 0


def _asks_elsewhere(select: exp.Select) -> bool:
    """True if a subquery outside FROM, WHERE and WITH takes part in the answer."""
    outside = [name for name in select.args if name not in ("from_", "joins", "where", "with_")]
    return any(part.find(exp.Query) is not None for name in outside for part in _nodes(select, name))


def _nodes(node: exp.Expression, name: str) -> Iterator[exp.Expression]:
    value = node.args.get(name)
    for part in value if isinstance(value, list) else [value]:
        if isinstance(part, exp.Expression):
            yield part


def _never_true(condition: exp.Expression) -> bool:
    """True if a condition is FALSE or NULL on every row, as its constants alone say: one top-level AND part is enough."""
    return any(_is_never_true(part) for part in flat_conjuncts(condition))


def _is_never_true(part: exp.Expression) -> bool:
    match part:
        case exp.Null():
            return True
        case exp.Boolean():
            return part.this is False
        case exp.Literal():
            return _number(part) == 0
        case exp.Not():
            inner = part.this.unnest()
            return isinstance(inner, exp.Null) or (isinstance(inner, exp.Boolean) and inner.this is True)
        case exp.EQ() | exp.NEQ() | exp.LT() | exp.LTE() | exp.GT() | exp.GTE():
            return _comparison_fails(part, part.this.unnest(), part.expression.unnest())
    return False


def _comparison_fails(node: exp.Expression, left: exp.Expression, right: exp.Expression) -> bool:
    """True if a comparison of two constants of one kind is FALSE, or one side is NULL."""
    if isinstance(left, exp.Null) or isinstance(right, exp.Null):
        return True
    order = _order(_constant(left), _constant(right))
    return order is not None and order not in _HOLDS[type(node)]


def _order(left: Decimal | str | bool | None, right: Decimal | str | bool | None) -> int | None:
    """-1, 0 or 1 as the left is less, equal or greater; None where the two are not constants of one kind."""
    if isinstance(left, bool) and isinstance(right, bool):
        return (left > right) - (left < right)
    if isinstance(left, Decimal) and isinstance(right, Decimal):
        return (left > right) - (left < right)
    if isinstance(left, str) and isinstance(right, str):
        return (left > right) - (left < right)
    return None


def _constant(node: exp.Expression) -> Decimal | str | bool | None:
    if isinstance(node, exp.Boolean):
        return bool(node.this)
    if isinstance(node, exp.Literal) and node.is_string:
        return str(node.this)
    return _number(node)


def _number(node: exp.Expression | None) -> Decimal | None:
    """The value of a number in plain digits, few enough that every engine compares it exactly."""
    if isinstance(node, exp.Neg):
        inner = _number(node.this)
        return -inner if inner is not None else None
    if not isinstance(node, exp.Literal) or node.is_string:
        return None
    digits = node.name.replace(".", "", 1)
    if not (digits.isascii() and digits.isdigit() and len(digits) <= _MOST_DIGITS):
        return None
    return Decimal(node.name)


# --- one row of constants -----------------------------------------------------------------------------------------------


def _one_literal_row(select: exp.Select, schema: Schema) -> exp.Expression | None:
    """SELECT 1 FROM t LIMIT 1, the way tools ask whether a table can be read: answered as if it had a row."""
    limit = select.args.get("limit")
    if _parts(select) != _ONE_ROW_PARTS or not isinstance(limit, exp.Limit) or _number(limit.expression) != 1:
        return None
    if _private_table(select, schema) is None or not all(_is_constant(unaliased(p)) for p in select.expressions):
        return None
    return exp.Select(expressions=[p.copy() for p in select.expressions])


def _is_constant(node: exp.Expression) -> bool:
    if isinstance(node, exp.Paren | exp.Neg | exp.Cast):
        return _is_constant(node.this)
    return isinstance(node, exp.Literal | exp.Boolean | exp.Null)


def _parts(node: exp.Expression) -> set[str]:
    return {name for name, value in node.args.items() if value}


def _private_table(select: exp.Select, schema: Schema) -> Table | None:
    """The one declared private table of FROM."""
    source = select.args["from_"].this
    if not isinstance(source, exp.Table) or source.alias_column_names or source.db.lower() not in ("", MAIN):
        return None
    table = schema.table(source.name)
    return table if table is not None and not table.public else None


# --- declared bounds ----------------------------------------------------------------------------------------------------


def _declared_extremes(select: exp.Select, schema: Schema) -> exp.Expression | None:
    """SELECT MIN(c), MAX(d) FROM t: the declared bounds. One row is shown, so that LIMIT and HAVING COUNT(*) > 0 say nothing."""
    limit = select.args.get("limit")
    if not {"from_"} <= _parts(select) <= _EXTREME_PARTS or said_of_groups(select) is not None:
        return None
    if limit is not None and not (isinstance(limit, exp.Limit) and (_number(limit.expression) or 0) >= 1):
        return None
    columns = _shown_columns(select, schema)
    if columns is None:
        return None
    name = select.args["from_"].this.alias_or_name.lower()
    shown = [_declared_extreme(p, name, columns) for p in select.expressions]
    found = [projection for projection in shown if projection is not None]
    return exp.Select(expressions=found) if len(found) == len(shown) else None


def _shown_columns(select: exp.Select, schema: Schema) -> dict[str, Column] | None:
    """By its name in lower case, what each column of FROM is in the one private table that it shows all rows of; else None.

    FROM is the table itself, or a query in parentheses that selects columns of one, and nothing more.
    """
    table = _private_table(select, schema)
    if table is not None:
        return {column.name.lower(): column for column in table.columns}
    source = select.args["from_"].this
    inner = source.this if isinstance(source, exp.Subquery) and not source.alias_column_names else None
    if not isinstance(inner, exp.Select) or _parts(inner) != _SHOWN_PARTS:
        return None
    behind = _shown_columns(inner, schema)
    if behind is None:
        return None
    found: list[tuple[str, Column]] = []
    for projection in inner.expressions:
        node = unaliased(projection)
        if isinstance(node, exp.Star) and not any(node.args.values()):
            found += behind.items()
        elif (
            isinstance(node, exp.Column)
            and _is_of(node, inner.args["from_"].this.alias_or_name.lower())
            and node.name.lower() in behind
        ):
            found.append((projection.alias_or_name.lower(), behind[node.name.lower()]))
        else:
            return None
    names = dict(found)
    return names if len(names) == len(found) else None


def _is_of(node: exp.Column, source: str) -> bool:
    """True if a column is named bare, or after the one thing in FROM."""
    return not isinstance(node.this, exp.Star) and not node.db and node.table.lower() in ("", source)


def _declared_extreme(projection: exp.Expression, source: str, columns: dict[str, Column]) -> exp.Expression | None:
    """A projection with MIN or MAX of a bare column replaced by the declared bound."""
    call = unaliased(projection)
    if not isinstance(call, exp.Min | exp.Max) or _parts(call) != {"this"} or not isinstance(call.this, exp.Column):
        return None
    node = call.this
    if not _is_of(node, source):
        return None
    column = columns.get(node.name.lower())
    bounds = _bounds(column) if column is not None and column.role != "identifier" else None
    if column is None or bounds is None:
        return None
    shown = _literal(bounds[0] if isinstance(call, exp.Min) else bounds[1], column.sqltype)
    if isinstance(projection, exp.Alias):
        return exp.Alias(this=shown, alias=projection.args["alias"].copy())
    return shown


def _bounds(column: Column) -> tuple[Value, Value] | None:
    """The smallest and the largest declared value that the column's type holds; None where none is declared."""
    match column.domain:
        case Interval(lower=lower, upper=upper):
            return _on_grid(lower, upper, column.sqltype)
        case Categories(values=values) if values and column.sqltype.is_text:
            texts = sorted(str(value) for value in values)
            return texts[0], texts[-1]
        case Categories(values=values) if values and not any(isinstance(value, str) for value in values):
            numbers = [Fraction(value) for value in values if not isinstance(value, str)]
            return _on_grid(min(numbers), max(numbers), column.sqltype)
    return None


def _on_grid(lower: Fraction, upper: Fraction, sqltype: SqlType) -> tuple[Value, Value] | None:
    """The interval's outermost values of a type: whole numbers, days and microseconds, or the decimals of its scale."""
    if sqltype.is_float:
        return lower, upper
    limits = sqltype.range
    if limits is not None:
        lower, upper = max(lower, limits.lower), min(upper, limits.upper)
    quanta = 10**sqltype.scale
    low, high = Fraction(math.ceil(lower * quanta), quanta), Fraction(math.floor(upper * quanta), quanta)
    return (low, high) if low <= high else None


def _literal(value: Value, sqltype: SqlType) -> exp.Expression:
    """A declared value as a constant of the column's type."""
    return exp.cast(exp.maybe_parse(literal_sql(value, sqltype), dialect="duckdb"), str(sqltype), dialect="duckdb")


_OF_NONE: dict[type[exp.Expression], str] = {exp.GT: "0", exp.GTE: "1", exp.NEQ: "0"}
"""With which number each comparison says that there are rows."""
_MIRRORED: dict[type[exp.Expression], str] = {exp.LT: "0", exp.LTE: "1", exp.NEQ: "0"}
_SHOWN = ("expressions", "qualify", "order", "windows")


def said_of_groups(select: exp.Select, *, counted: bool = True) -> exp.Expression | None:
    """Condition of HAVING on groups; None for nothing. Where the number of rows is asked for elsewhere too, or is not known without, it
    is compared all the same: then a group that seems to be empty is left out, as it says.
    """
    having = select.args.get("having")
    if having is None:
        return None
    whole: exp.Expression = having.this
    parts = flat_conjuncts(whole)
    kept = [part for part in parts if not _says_there_are_rows(part)]
    if not counted or len(kept) == len(parts) or any(_counts_rows(node) for node in (*kept, *_shown(select))):
        return whole
    return all_of(kept) if kept else None


def _says_there_are_rows(node: exp.Expression) -> bool:
    node = _bare(node)
    if not isinstance(node, exp.Binary):
        return False
    left, right = _bare(node.this), _bare(node.expression)
    if _is_row_count(left):
        return _is_number(right, _OF_NONE.get(type(node)))
    return _is_row_count(right) and _is_number(left, _MIRRORED.get(type(node)))


def _bare(node: exp.Expression) -> exp.Expression:
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def _is_number(node: exp.Expression, digits: str | None) -> bool:
    return isinstance(node, exp.Literal) and not node.is_string and node.name == digits


def _is_row_count(node: exp.Expression) -> bool:
    """COUNT(*), COUNT(1)."""
    if not isinstance(node, exp.Count) or node.expressions or isinstance(node.parent, exp.Filter | exp.Window):
        return False
    return isinstance(node.this, exp.Star) or (isinstance(node.this, exp.Literal) and not node.this.is_string)


def _counts_rows(node: exp.Expression) -> bool:
    return any(_is_row_count(part) for part in parts_of(node))


def _shown(select: exp.Select) -> list[exp.Expression]:
    found: list[exp.Expression] = []
    for name in _SHOWN:
        value = select.args.get(name)
        found += value if isinstance(value, list) else [value] if isinstance(value, exp.Expression) else []
    return found
