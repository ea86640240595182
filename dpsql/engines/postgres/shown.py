"""Relations that a statement is shown of a PostgreSQL database: one a declared table, with the declared columns and types.

They are queries in WITH, since nothing may be written there. A value that does not fit its declared type is NULL, as with every engine;
and a date or timestamp outside of the years 1 to 9999 that is not infinite, since the engines' calendars have other ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from dpsql.core.domains import UNBOUNDED
from dpsql.core.sqltypes import SqlType, parse_type
from dpsql.engines.postgres.server import Transaction
from dpsql.engines.postgres.words import WORDS
from dpsql.engines.writing import name as quoted
from dpsql.engines.writing import raise_all, text, too_long, unfit
from dpsql.plan.tables import PublicTable
from dpsql.schema.mistakes import printable, suggestion
from dpsql.schema.model import ROW, UNIT_COLUMN, Column, Schema, Table, with_unit

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


@dataclass(frozen=True, slots=True)
class ShownTables:
    """Queries of all that is shown, by the names of their relations.

    tables   with all columns, those of public tables too
    needs    by relation the tables that it reads
    hashes   by table its count and keyed row hashes, in one query
    """

    tables: tuple[Table, ...]
    queries: Mapping[str, str]
    needs: Mapping[str, tuple[str, ...]]
    hashes: Mapping[str, str]
    stored: tuple[StoredTable, ...]

    def asked(self, sql: str, bound: Sequence[PublicTable] = ()) -> str:
        """A question with the relations that it reads."""
        held = {table.name.lower() for table in bound}
        parts = [f"{WORDS.name(table.name)} AS MATERIALIZED ({values(table)})" for table in bound]
        parts += [
            f"{WORDS.name(relation)} AS NOT MATERIALIZED ({query})"
            for relation, query in self.queries.items()
            if relation.lower() not in held
        ]
        return f'WITH {", ".join(parts)} SELECT * FROM ({sql}) AS "dpsql answer"'

    def read(self, sql: str) -> list[str]:
        """The tables that a question may read: those on the way to the unit too."""
        named = (table for relation, tables in self.needs.items() if WORDS.name(relation) in sql for table in tables)
        return list(dict.fromkeys(named))


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


def show(reading: Transaction, schema: Schema) -> ShownTables:
    """The declared tables. Raises 707, 804 with everything that is wrong."""
    tables = [(str(s), str(t)) for s, t, _ in reading.rows(_TABLES)]
    places = {table.name: _place(table.source, tables) for table in schema.tables}
    raise_all(707, [_missing(t, tables) for t in schema.tables if places[t.name] is None])
    found = _described(reading, [place for place in places.values() if place is not None])
    held = {(one.schema, one.table): one for one in found}
    parts = [(t, held[places[t.name] or ("", "")]) for t in schema.tables]
    whole = [(_public(t, s) if t.public else t, s) for t, s in parts]
    raise_all(804, [line for t, s in whole for line in _unfit(t, s)])
    queries = {t.name: _query(t, s) for t, s in whole}
    needs: dict[str, tuple[str, ...]] = {t.name: (t.name,) for t, _ in whole}
    for table, one in whole:
        if not table.public:
            queries[unfit(table)], needs[unfit(table)] = _alien(table, one), (table.name,)
        if not table.public and any(c.is_cut for c in table.columns):
            queries[too_long(table)], needs[too_long(table)] = _long(table, one), (table.name,)
        if not table.public and schema.privacy.unit != ROW and schema.unit_column(table) is None:
            view = with_unit(table.name)
            queries[view] = _with_unit(schema, table)
            needs[view] = (table.name, *(r.table for r in schema.path_to_unit(table)))
    return ShownTables(
        tuple(t for t, _ in whole), queries, needs, {t.name: _hashed(t, s) for t, s in whole}, tuple(found)
    )


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


def _public(table: Table, stored: StoredTable) -> Table:
    columns = ((name, computable(sqltype)) for name, sqltype in stored.columns)
    return replace(table, columns=tuple(Column(n, t, UNBOUNDED, True, "") for n, t in columns if t is not None))


def _unfit(table: Table, stored: StoredTable) -> Iterator[str]:
    types = {name.lower(): sqltype for name, sqltype in stored.columns}
    where = f"table {printable(table.name)}"
    if not table.columns:
        yield f"{where}: has no column of a type that dpsql computes with"
    for key in table.key:
        if table.public and table.column(key) is None:
            yield f"{where}: key names {printable(key)}, which it does not have"
    for column in table.columns:
        held = types.get(column.name.lower())
        if held is None:
            yield f"{where}: has no column {printable(column.name)}; {suggestion(column.name, [n for n, _ in stored.columns])}"
        elif _typed("x", held, column.sqltype) is None:
            yield f"{where}: column {printable(column.name)} is stored as {held}; declare another type than {column.sqltype}"


def _query(table: Table, stored: StoredTable) -> str:
    names = {name.lower(): (name, sqltype) for name, sqltype in stored.columns}
    items = []
    for column in table.columns:
        value = _typed(quoted(names[column.name.lower()][0]), names[column.name.lower()][1], column.sqltype)
        assert value is not None
        if column.is_cut and not table.public:
            value = f"CASE WHEN length({value}) > {column.longest} THEN NULL ELSE {value} END"
        items.append(f"{value} AS {WORDS.name(column.name)}")
    return f"SELECT {', '.join(items)} FROM {stored.relation}"


def _long(table: Table, stored: StoredTable) -> str:
    names = {name.lower(): (name, sqltype) for name, sqltype in stored.columns}
    items = []
    for column in (c for c in table.columns if c.is_cut):
        value = _typed(quoted(names[column.name.lower()][0]), names[column.name.lower()][1], column.sqltype)
        items.append(f"coalesce(length({value}) > {column.longest}, false) AS {WORDS.name(column.name)}")
    return f"SELECT {', '.join(items)} FROM {stored.relation}"


def _alien(table: Table, stored: StoredTable) -> str:
    names = {name.lower(): (name, sqltype) for name, sqltype in stored.columns}
    items = []
    for column in table.columns:
        held, sqltype = names[column.name.lower()]
        lost = f"{quoted(held)} IS NOT NULL AND {_typed(quoted(held), sqltype, column.sqltype)} IS NULL"
        items.append(f"count(*) FILTER (WHERE {lost}) AS {WORDS.name(column.name)}")
    return f"SELECT {', '.join(items)} FROM {stored.relation}"


def _with_unit(schema: Schema, table: Table) -> str:
    """A table with the unit's value as its last column, by the references up to it; a row that reaches none does not appear."""
    path = schema.path_to_unit(table)
    joined, here = f"{WORDS.name(table.name)} AS t0", "t0"
    for i, reference in enumerate(path[:-1], start=1):
        on = " AND ".join(f"{here}.{WORDS.name(c)} = t{i}.{WORDS.name(target)}" for c, target in reference.pairs)
        joined, here = f"{joined} JOIN {WORDS.name(reference.table)} AS t{i} ON {on}", f"t{i}"
    items = [f"t0.{WORDS.name(c.name)}" for c in table.columns]
    return f"SELECT {', '.join(items)}, {here}.{WORDS.name(path[-1].columns[0])} AS {WORDS.name(UNIT_COLUMN)} FROM {joined}"


def _hashed(table: Table, stored: StoredTable) -> str:
    """Count and sums of keyed row hashes, whatever the order of rows: 128 bits of each.

    Why  without the key nobody finds other rows with these sums
    """
    declared = {c.name.lower() for c in table.columns}
    columns = ", ".join(quoted(name) for name, _ in stored.columns if name.lower() in declared)
    row = f'md5((SELECT "rows" FROM pg_temp."dpsql secret") || ROW({columns})::text)'
    halves = ", ".join(f"coalesce(sum(('x' || substr(h, {place}, 16))::bit(64)::bigint), 0)::text" for place in (1, 17))
    return f"SELECT count(*)::text, {halves} FROM (SELECT {row} AS h FROM {stored.relation}) AS hashed"


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
