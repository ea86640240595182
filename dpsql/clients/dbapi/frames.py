"""Results as Arrow tables and data frames, in exact types; the libraries are extras, imported when they are first asked for."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

from dpsql.clients.dbapi.types import ResultType, read_type
from dpsql.core.columns import ResultRows
from dpsql.core.errors import error

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

Columns = Sequence[tuple[str, str]]
"""(name, type as DuckDB writes it)"""
Rows = Sequence[tuple[object, ...]]
Made = TypeVar("Made")

WIDEST = 10**38
"""The first integer that 38 digits do not hold."""

_NAMES: dict[str, tuple[str, str, str]] = {
    "NULL": ("null", "Null", "object"), "BOOLEAN": ("bool_", "Boolean", "boolean"), "TINYINT": ("int8", "Int8", "Int8"),
    "SMALLINT": ("int16", "Int16", "Int16"), "INTEGER": ("int32", "Int32", "Int32"),
    "BIGINT": ("int64", "Int64", "Int64"), "UTINYINT": ("uint8", "UInt8", "UInt8"),
    "USMALLINT": ("uint16", "UInt16", "UInt16"), "UINTEGER": ("uint32", "UInt32", "UInt32"),
    "UBIGINT": ("uint64", "UInt64", "UInt64"), "FLOAT": ("float32", "Float32", "float32"),
    "DOUBLE": ("float64", "Float64", "float64"), "VARCHAR": ("string", "String", "string"),
    "BLOB": ("binary", "Binary", "object"), "DATE": ("date32", "Date", "datetime64[s]"),
    "HUGEINT": ("decimal128", "Int128", "Int64"), "DECIMAL": ("decimal128", "Decimal", "object"),
    "TIME": ("time64", "Time", "object"), "TIMESTAMP": ("timestamp", "Datetime", "datetime64[us]"),
    "INTERVAL": ("duration", "Duration", "timedelta64[us]"), "LIST": ("list_", "List", "object"),
}  # fmt: skip
"""Types as pyarrow, polars and pandas name them; what is of any further type is shown as text."""


def arrow_table(columns: Columns, rows: Rows) -> pyarrow.Table:
    """A result as an Arrow table. Raises 802 without pyarrow, and where a value is beyond what its Arrow type holds."""
    library = _library("pyarrow", "arrow")

    def array(kind: ResultType, values: list[object]) -> pyarrow.Array:
        return library.array(values, type=_arrow_type(library, kind, values))

    arrays = [_made("Arrow", column, values, array) for column, values in _with_values(columns, rows)]
    return library.Table.from_arrays(arrays, names=[name for name, _ in columns])


def _arrow_type(arrow: ModuleType, kind: ResultType, values: Sequence[object]) -> Any:
    made = getattr(arrow, _names(kind)[0])
    match kind.name:
        case "LIST" if kind.item is not None:
            items = [item for value in values if isinstance(value, list) for item in value]
            return made(_arrow_type(arrow, kind.item, items))
        case "DECIMAL":
            return made(kind.precision, kind.scale)
        case "HUGEINT":
            wide = any(isinstance(value, int) and abs(value) >= WIDEST for value in values)
            return arrow.decimal256(39, 0) if wide else made(38, 0)
        case "TIME" | "TIMESTAMP" | "INTERVAL":
            return made("us")
    return made()


def polars_frame(columns: Columns, rows: Rows) -> polars.DataFrame:
    """A result as a polars frame. Raises 802 without polars, for two columns of one name, and as `arrow_table` does."""
    library = _library("polars", "polars")
    names = [name for name, _ in columns]
    twice = next((name for i, name in enumerate(names) if name in names[:i]), None)
    if twice is not None:
        raise error(802, f"a polars frame cannot have two columns named {twice}", hint="rename one with AS")

    def series(kind: ResultType, values: list[object]) -> polars.Series:
        found: polars.Series = library.Series(values=values, dtype=_polars_type(library, kind), strict=True)
        return found

    made = [_made("polars", column, values, series) for column, values in _with_values(columns, rows)]
    frame: polars.DataFrame = library.DataFrame([one.alias(name) for name, one in zip(names, made, strict=True)])
    return frame


def _polars_type(polars: ModuleType, kind: ResultType) -> Any:
    made = getattr(polars, _names(kind)[1])
    match kind.name:
        case "LIST" if kind.item is not None:
            return made(_polars_type(polars, kind.item))
        case "DECIMAL":
            return made(kind.precision, kind.scale)
        case "TIMESTAMP" | "INTERVAL":
            return made("us")
    return made


def pandas_frame(columns: Columns, rows: Rows) -> pandas.DataFrame:
    """A result as a pandas frame, in types that know NULL: DECIMAL and lists as Python's own values.

    Raises 802 without pandas, and where a value is beyond what its pandas type holds.
    """
    library = _library("pandas", "pandas")

    def series(kind: ResultType, values: list[object]) -> pandas.Series:
        return library.Series(values, dtype=_pandas_type(kind, values))

    made = [_made("pandas", column, values, series) for column, values in _with_values(columns, rows)]
    frame = library.DataFrame(dict(enumerate(made)))
    frame.columns = [name for name, _ in columns]
    return frame


def _pandas_type(kind: ResultType, values: Sequence[object]) -> str:
    wide = kind.name == "HUGEINT" and any(isinstance(v, int) and not -(2**63) <= v < 2**63 for v in values)
    return "object" if wide else _names(kind)[2]


def _names(kind: ResultType) -> tuple[str, str, str]:
    return _NAMES.get(kind.name, _NAMES["VARCHAR"])


def _with_values(columns: Columns, rows: Rows) -> list[tuple[tuple[str, str], list[object]]]:
    """Each column with its values."""
    if isinstance(rows, ResultRows):
        return [(column, values.tolist()) for column, values in zip(columns, rows.columns, strict=True)]
    return [(column, [row[i] for row in rows]) for i, column in enumerate(columns)]


def _made(
    what: str, column: tuple[str, str], values: list[object], make: Callable[[ResultType, list[object]], Made]
) -> Made:
    """One column, or one line that says why not: the libraries' own errors are several."""
    kind = read_type(column[1])
    # a day or moment that Python has no value for comes as text, which not every library refuses
    if kind.name not in ("DATE", "TIMESTAMP") or not any(isinstance(value, str) for value in values):
        try:
            return make(kind, [_plain(kind, value) for value in values] if _as_text(kind) else values)
        except Exception:
            pass
    what = f"{column[0]} has a value that {what} cannot hold as {column[1]}"
    raise error(802, what, hint="fetch rows with fetchall(), or cast it to VARCHAR")


def _as_text(kind: ResultType) -> bool:
    return _as_text(kind.item) if kind.item is not None else kind.name not in _NAMES


def _plain(kind: ResultType, value: object) -> object:
    if value is None:
        return None
    if kind.item is not None and isinstance(value, list):
        return [_plain(kind.item, item) for item in value]
    return str(value)


def _library(module: str, extra: str) -> ModuleType:
    """Import one of the extras. Raises 802 where it is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError:
        pass
    raise error(802, f"{module} is not installed", hint=f'pip install "dpsql[{extra}]"')
