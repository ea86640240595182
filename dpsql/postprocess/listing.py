"""The rows of a released table in an order, without the sandbox: what most statements ask for once they are released."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import numpy as np

from dpsql.core import cancellation
from dpsql.core.columns import Column, Decimals, Places, ResultRows
from dpsql.core.sqltypes import DOUBLE, SqlType
from dpsql.plan.resolved import Listing
from dpsql.plan.tables import ROW_NUMBER, PublicTable

_DIGITS = 19
"""Of the largest number of 64 bits: a DECIMAL of as many holds all of them."""


def listed(table: PublicTable, listing: Listing, most: int | None) -> ResultRows | None:
    """The rows, with the released row's number at the end, as the sandbox would give them; None where it alone can.

    Why  a value is shown as it is held only where its type makes nothing else of it; of rows that are equal in what they are sorted by
         the first one stays first, where DuckDB promises nothing

    most    [rows] the owner's limit; None: none
    Raises  712 where there are more
    """
    types, held = dict(table.columns), dict(zip((name for name, _ in table.columns), table.data, strict=True))
    names = (*listing.columns, ROW_NUMBER)
    columns = {name: _held(held[name], types[name]) for name in {*names, *(key.column for key in listing.order)}}
    known = {name: column for name, column in columns.items() if column is not None}
    if len(known) < len(columns):
        return None
    places = np.arange(len(known[ROW_NUMBER]), dtype=np.intp)
    # of several keys the last one sorts first: a sort keeps the order of what is equal
    for key in reversed(listing.order):
        places = places[_order(known[key.column].take(places), key.descending, key.nulls_first)]
    end = None if listing.limit is None else listing.offset + listing.limit
    places = places[listing.offset : end]
    if most is not None and len(places) > most:
        raise cancellation.current().ended(cancellation.COUNTED)
    return ResultRows(tuple(_shown(known[name].take(places)) for name in names))


def _held(values: Sequence[object], sqltype: SqlType) -> Column[object] | None:
    """The column, where it holds the very values that its type has; None where the sandbox would convert them, or refuse one."""
    column = Column.of(values)
    kind, within = column.values.dtype.kind, sqltype.range
    if not len(column):
        return column
    if isinstance(column, Decimals):
        fits = sqltype.is_decimal and sqltype.scale == column.scale and sqltype.width >= _DIGITS
        return column if fits and kind == "i" else None
    if sqltype.is_integer and kind == "i" and within is not None:
        return column if all(int(end) in within for end in (column.values.min(), column.values.max())) else None
    if sqltype.is_text:
        return column if kind == "O" and set(map(type, column)) <= {str, type(None)} else None
    return column if (sqltype == DOUBLE and kind == "f") or (sqltype.is_boolean and kind == "b") else None


def _order(column: Column[object], descending: bool, nulls_first: bool) -> Places:
    """The places in the order of the values; of equal ones the first stays first."""
    last = len(column) - 1
    order = column.take(np.arange(last, -1, -1)).order() if descending else column.order()
    nulls = np.count_nonzero(column.nulls) if column.nulls is not None else 0
    known, null = order[: len(order) - nulls], order[len(order) - nulls :]
    if descending:
        known, null = last - known[::-1], last - null[::-1]
    return np.concatenate([null, known] if nulls_first else [known, null])


def _shown(column: Column[object]) -> Column[object]:
    """The values as DuckDB gives them to Python."""
    if not isinstance(column, Decimals):
        return column
    return Column.of([None if text is None else Decimal(text) for text in column])
