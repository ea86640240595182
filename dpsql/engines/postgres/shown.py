"""Relations that a statement is shown of a PostgreSQL database: see engines/shown.py.

A date or timestamp outside of the years 1 to 9999 that is not infinite is NULL, since the engines' calendars have other ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dpsql.core.sqltypes import SqlType, parse_type
from dpsql.engines.dialects.words import DialectWords
from dpsql.engines.postgres.server import Transaction
from dpsql.engines.postgres.words import WORDS
from dpsql.engines.shown import ShownTables, shown
from dpsql.engines.writing import name as quoted
from dpsql.engines.writing import raise_all, text
from dpsql.plan.tables import PublicTable
from dpsql.schema.mistakes import printable, suggestion
from dpsql.schema.model import Schema, Table

PUBLIC = "public"
_TABLES = """SELECT n.nspname::text, c.relname::text, c.relkind::text
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'm') AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname NOT LIKE 'pg_t%'
ORDER BY 1, 2"""
_COLUMNS = """SELECT n.nspname::text, c.relname::text, a.attname::text, format_type(a.atttypid, a.atttypmod), t.typtype::text
FROM pg_attribute AS a JOIN pg_class AS c ON c.oid = a.attrelid JOIN pg_namespace AS n ON n.oid = c.relnamespace
JOIN pg_type AS t ON t.oid = a.atttypid
WHERE a.attnum > 0 AND NOT a.attisdropped AND (n.nspname, c.relname) IN ({}) ORDER BY n.nspname, c.relname, a.attnum"""
_SAME = {
    "smallint": "SMALLINT",
    "integer": "INTEGER",
    "bigint": "BIGINT",
    "real": "FLOAT",
    "double precision": "DOUBLE",
    "boolean": "BOOLEAN",
    "text": "VARCHAR",
    "date": "DATE",
    "timestamp without time zone": "TIMESTAMP",
    "time without time zone": "TIME",
}
_FEW_DIGITS = 15
"""A DECIMAL of so many digits becomes a DOUBLE by one rounding."""


@dataclass(frozen=True, slots=True)
class StoredTable:
    """A table as the database holds it: (name, type) of its columns, in order; an enumeration is text."""

    schema: str
    table: str
    columns: tuple[tuple[str, str], ...]

    @property
    def relation(self) -> str:
        return f"{quoted(self.schema)}.{quoted(self.table)}"


def listed(reading: Transaction) -> list[StoredTable]:
    """Every table of the database."""
    return _described(reading, [(str(s), str(t)) for s, t, _ in reading.rows(_TABLES)])


def _described(reading: Transaction, places: Sequence[tuple[str, str]]) -> list[StoredTable]:
    if not places:
        return []
    pairs = ", ".join(f"({text(schema)}, {text(table)})" for schema, table in places)
    columns: dict[tuple[str, str], list[tuple[str, str]]] = {place: [] for place in places}
    for schema, table, column, sqltype, kind in reading.rows(_COLUMNS.format(pairs)):
        columns[str(schema), str(table)].append((str(column), "enum" if kind == "e" else str(sqltype)))
    return [StoredTable(schema, table, tuple(found)) for (schema, table), found in columns.items()]


def stored_again(reading: Transaction, known: Sequence[StoredTable]) -> bool:
    """True where the tables still have these columns."""
    return _described(reading, [(one.schema, one.table) for one in known]) == list(known)


def show(reading: Transaction, schema: Schema) -> tuple[ShownTables, tuple[StoredTable, ...]]:
    """The declared tables, and what the database holds of them. Raises 707, 804 with everything that is wrong."""
    tables = [(str(s), str(t)) for s, t, _ in reading.rows(_TABLES)]
    places = {table.name: _place(table.source, tables) for table in schema.tables}
    raise_all(707, [_missing(t, tables) for t in schema.tables if places[t.name] is None])
    found = _described(reading, [place for place in places.values() if place is not None])
    held = {(one.schema, one.table): one for one in found}
    stored = {name: held[place] for name, place in places.items() if place is not None}
    return shown(_Showing(), schema, stored), tuple(found)


def _place(source: str, tables: list[tuple[str, str]]) -> tuple[str, str] | None:
    folded = source.lower()
    own = [place for place in tables if place[0] == PUBLIC and place[1].lower() == folded]
    return next(iter([*own, *(p for p in tables if f"{p[0]}.{p[1]}".lower() == folded)]), None)


def dotted(place: tuple[str, str]) -> str:
    """The name of a table for a declaration, by (schema, table)."""
    return place[1] if place[0] == PUBLIC else ".".join(place)


def _missing(table: Table, tables: list[tuple[str, str]]) -> str:
    hint = suggestion(table.source, [t if s == PUBLIC else f"{s}.{t}" for s, t in tables])
    return f"table {printable(table.name)}: the database holds no table {printable(table.source)}; {hint}"


# --- columns ----------------------------------------------------------------------------------------------------------


def computable(stored: str) -> SqlType | None:
    """The type in which dpsql reads a stored column where it is free to choose; None where there is none."""
    if stored in _SAME:
        return SqlType(_SAME[stored])
    if stored.startswith("numeric("):
        return parse_type(stored)
    return SqlType("VARCHAR") if stored == "enum" or stored.startswith("character varying") else None


class _Showing:
    """See ShowingWords."""

    words: DialectWords = WORDS

    def computable(self, stored: str) -> SqlType | None:
        return computable(stored)

    def typed(self, value: str, stored: str, target: SqlType) -> str | None:
        return _typed(value, stored, target)

    def hashed(self, relation: str, columns: list[str]) -> str:
        """128 bits of each row."""
        row = f'md5((SELECT "rows" FROM pg_temp."dpsql secret") || ROW({", ".join(columns)})::text)'
        halves = ", ".join(
            f"coalesce(sum(('x' || substr(h, {place}, 16))::bit(64)::bigint), 0)::text" for place in (1, 17)
        )
        return f"SELECT count(*)::text, {halves} FROM (SELECT {row} AS h FROM {relation}) AS hashed"


def _typed(value: str, stored: str, target: SqlType) -> str | None:
    """A stored value in its declared type, NULL where it does not fit; None where the two are not alike."""
    found = computable(stored)
    number = stored.startswith("numeric") or (found is not None and (found.is_integer or found.is_decimal))
    if number and (target.is_integer or target.is_decimal):
        return _exact(value, found, target)
    if found is None:
        return _odd(value, stored, target)
    if target.is_float:
        return _double(value, found, target)
    if found != target:
        return None
    if target.is_temporal:
        first, last = _YEARS[target.name]
        return f"(CASE WHEN NOT isfinite({value}) OR {value} BETWEEN '{first}' AND '{last}' THEN {value} END)"
    if target.name == "TIME":
        return f"(CASE WHEN {value} < '24:00' THEN {value} END)"
    return f'(({value})::text COLLATE "C")' if target.is_text else value


_YEARS = {"DATE": ("0001-01-01", "9999-12-31"), "TIMESTAMP": ("0001-01-01", "9999-12-31 23:59:59.999999")}


def _exact(value: str, found: SqlType | None, target: SqlType) -> str:
    """A whole number or a DECIMAL in another such type, rounded half away from zero; NaN and what is too large are NULL."""
    held, source = target.range, found.range if found is not None else None
    assert held is not None
    if (
        found is not None
        and found.is_integer
        and source is not None
        and held.lower <= source.lower
        and source.upper <= held.upper
    ):
        return WORDS.cast(value, target)
    rounded = f"round({value}::numeric, {target.scale})"
    most = f"1e{target.width - target.scale}::numeric"
    inside = f"abs({rounded}) < {most}" if target.is_decimal else f"{rounded} BETWEEN {held.lower} AND {held.upper}"
    return f"(CASE WHEN {inside} THEN {WORDS.cast(rounded, target)} END)"


def _double(value: str, found: SqlType, target: SqlType) -> str | None:
    """A number as a DOUBLE where at most one rounding happens."""
    if found == target or (target.name == "DOUBLE" and (found.name == "FLOAT" or found.is_integer)):
        return f"({value})::float8"
    if target.name == "DOUBLE" and found.is_decimal and found.width <= _FEW_DIGITS:
        return f"(CASE WHEN {value} <> 'NaN' THEN ({value})::float8 END)"
    return None


def _odd(value: str, stored: str, target: SqlType) -> str | None:
    """A value that is stored in a type of PostgreSQL's own."""
    if target.is_text and (stored == "uuid" or stored.startswith("character(")):
        return f'(({value})::text COLLATE "C")'
    if target.name == "TIMESTAMP" and stored == "timestamp with time zone":
        first, last = "0001-01-02", "9999-12-30"
        return f"(CASE WHEN NOT isfinite({value}) OR {value} BETWEEN '{first}' AND '{last}' THEN {value} AT TIME ZONE 'UTC' END)"
    return None


# --- tables of released values ----------------------------------------------------------------------------------------


def values(table: PublicTable) -> str:
    """A query of the rows of a table that holds nothing private."""
    items, arrays = [], []
    for i, ((column, sqltype), cells) in enumerate(zip(table.columns, table.data, strict=True)):
        items.append(f"{WORDS.cast(f'v{i}', sqltype)} AS {WORDS.name(column)}")
        arrays.append(f"{WORDS.text(_array(cells))}::text[]")
    names = ", ".join(f"v{i}" for i in range(len(items)))
    if not items:
        return "SELECT WHERE false"
    return f"SELECT {', '.join(items)} FROM unnest({', '.join(arrays)}) AS held({names})"


def _array(cells: Sequence[object]) -> str:
    return "{" + ",".join("NULL" if cell is None else _element(cell) for cell in cells) + "}"


def _element(cell: object) -> str:
    written = repr(cell) if isinstance(cell, float) else str(cell)
    return '"' + written.replace("\\", "\\\\").replace('"', '\\"') + '"'
