"""Columns of Arrow as columns of ours, and tables of released values the other way."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from dpsql.core.columns import Column
from dpsql.core.sqltypes import SqlType
from dpsql.plan.tables import PublicTable


def column(found: Any) -> Column[object]:
    """A column of a batch: integers and booleans as arrays, a DECIMAL of scale 0 as integers; else objects."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = found.type
    if pa.types.is_decimal(kind) and kind.scale == 0:
        try:
            found = pc.cast(found, pa.int64())
        except pa.ArrowInvalid:
            return Column.of([None if cell is None else int(cell) for cell in found.to_pylist()])
    return Column.joined([_piece(chunk) for chunk in found.chunks])


def _piece(chunk: Any) -> Column[object]:
    import pyarrow as pa
    import pyarrow.compute as pc

    nulls = np.asarray(chunk.is_null().to_numpy(zero_copy_only=False), dtype=np.bool_) if chunk.null_count else None
    if pa.types.is_integer(chunk.type):
        whole = pc.cast(pc.fill_null(chunk, 0) if chunk.null_count else chunk, pa.int64())
        return Column(whole.to_numpy(zero_copy_only=False), nulls)
    if pa.types.is_boolean(chunk.type):
        return Column(pc.fill_null(chunk, False).to_numpy(zero_copy_only=False), nulls)
    return Column.of(chunk.to_pylist())


def without_rows(names: Sequence[str]) -> Any:
    import pyarrow as pa

    return pa.table([pa.array([], pa.int64()) for _ in names], names=list(names))


def table(held: PublicTable) -> Any:
    """A table of released values, in the types that hold them there."""
    import pyarrow as pa

    arrays = [
        pa.array([_cell(cell, kind) for cell in cells], type=_type(kind))
        for (_, kind), cells in zip(held.columns, held.data, strict=True)
    ]
    return pa.Table.from_arrays(arrays, names=[column for column, _ in held.columns])


def types(held: Any) -> str:
    """Names and types of the columns of such a table, as Spark reads them."""
    own = {"bool": "BOOLEAN", "double": "DOUBLE", "string": "STRING"}
    return ", ".join("`" + field.name.replace("`", "``") + f"` {own[str(field.type)]}" for field in held.schema)


def secrets(cut: str, rows: str) -> Any:
    """One row: the key of the cut, and that of row hashes."""
    import pyarrow as pa

    return pa.table({"cut": [cut], "rows": [rows]})


def plain(cell: object) -> object:
    """A value as the owner's questions expect it: a DECIMAL of scale 0 as an integer, any other as text."""
    if isinstance(cell, Decimal):
        return int(cell) if cell == cell.to_integral_value() and cell.as_tuple().exponent == 0 else str(cell)
    return cell


def _type(sqltype: SqlType) -> Any:
    import pyarrow as pa

    if sqltype.is_boolean:
        return pa.bool_()
    if sqltype.is_float:
        return pa.float64()
    return pa.string()


def _cell(cell: object, sqltype: SqlType) -> object:
    if cell is None or sqltype.is_boolean or sqltype.is_float:
        return cell
    return str(cell)
