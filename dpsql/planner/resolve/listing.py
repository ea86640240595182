"""listing: the final query as the rows of one release, in an order, where it computes nothing."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from dpsql.plan.resolved import Listing, SortKey
from dpsql.plan.tables import ROW_NUMBER

_CLAUSES = {"expressions", "from_", "order", "limit", "offset"}


def listing(tree: exp.Expression, release: str, shown: Sequence[tuple[str, str] | None]) -> Listing | None:
    """The rows that a SELECT over a released table shows; None where it does anything else with them.

    shown  for each output column the released column that it shows unchanged, or None
    """
    if not isinstance(tree, exp.Select) or _named(tree) - _CLAUSES or not _reads(tree, release):
        return None
    columns = [column for own, column in (one or ("", "") for one in shown) if own == release]
    order, limit, offset = tree.args.get("order"), tree.args.get("limit"), tree.args.get("offset")
    most, first = _number(limit), _number(offset)
    if len(columns) < len(shown) or (limit and most is None) or (offset and first is None):
        return None
    keys = [_sort_key(one, tree, release, columns) for one in (order.expressions if order is not None else ())]
    known = [key for key in keys if key is not None]
    return Listing(tuple(columns), tuple(known), most, first or 0) if len(known) == len(keys) else None


def _named(node: exp.Expression) -> set[str]:
    """The parts that a node has."""
    return {name for name, part in node.args.items() if part}


def _reads(tree: exp.Select, release: str) -> bool:
    source = tree.args["from_"].this if tree.args.get("from_") is not None else None
    return isinstance(source, exp.Table) and _named(source) == {"this"} and source.name == release


def _number(clause: exp.Expression | None) -> int | None:
    """The whole number of LIMIT or OFFSET."""
    if clause is None or _named(clause) != {"expression"}:
        return None
    return _whole(clause.expression)


def _whole(node: exp.Expression) -> int | None:
    digits = isinstance(node, exp.Literal) and not node.is_string and node.name.isdecimal() and len(node.name) < 10
    return int(node.name) if digits else None


def _sort_key(part: exp.Expression, tree: exp.Select, release: str, columns: Sequence[str]) -> SortKey | None:
    """A part of ORDER BY: a released column, the place of an output column, or its alias."""
    if not isinstance(part, exp.Ordered) or _named(part) - {"this", "desc", "nulls_first"}:
        return None
    node, column, place = part.this, None, _whole(part.this)
    if place is not None:
        column = columns[place - 1] if 1 <= place <= len(columns) else None
    elif isinstance(node, exp.Column) and _named(node) == {"this", "table"} and node.table == release:
        column = node.name
    elif isinstance(node, exp.Column) and _named(node) == {"this"}:
        aliased = [i for i, one in enumerate(tree.expressions) if one.alias.lower() == node.name.lower()]
        column = columns[aliased[0]] if len(aliased) == 1 and aliased[0] < len(columns) else None
    if column is None or column == ROW_NUMBER:
        return None
    return SortKey(column, bool(part.args.get("desc")), bool(part.args.get("nulls_first")))
