# mypy: disable-error-code="import-not-found, import-untyped"
"""Rows as the Arrow table that Harlequin shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

from dpsql.core.escaping import harmless

if TYPE_CHECKING:
    import pyarrow

Columns: TypeAlias = "pyarrow.Table"


def columns_of(description: Sequence[Sequence[object]], rows: Sequence[Sequence[object]]) -> Columns:
    """A table of the rows. A column that Arrow has no one type for is text: HUGEINT beyond 64 bits, say.

    Names and texts are without what a terminal would obey: what Harlequin and `hsql` are given, they write.
    """
    import pyarrow

    columns = [_column([row[i] for row in rows]) for i in range(len(description))]
    return pyarrow.Table.from_arrays(columns, names=[harmless(str(column[0])) for column in description])


def _column(values: list[object]) -> pyarrow.Array:
    import pyarrow

    values = [harmless(value, kept="\n\t") if isinstance(value, str) else value for value in values]
    try:
        return pyarrow.array(values)
    except (pyarrow.ArrowException, OverflowError):
        pass
    return pyarrow.array([None if value is None else str(value) for value in values], type=pyarrow.string())
