"""Relations that a statement is shown of files that a Spark cluster reads: one a declared table, with the declared columns and types.

A value that does not fit its declared type is NULL, as with every engine; and a date or timestamp outside of the years 1 to 9999, since
the engines' calendars have other ends. Nothing here raises on a value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from dpsql.core.domains import UNBOUNDED
from dpsql.core.sqltypes import SqlType, parse_type
from dpsql.engines.spark.server import SECRETS
from dpsql.engines.spark.stored import StoredFiles
from dpsql.engines.spark.words import DIGITS, WORDS
from dpsql.engines.writing import raise_all, too_long, unfit
from dpsql.schema.mistakes import printable, suggestion
from dpsql.schema.model import ROW, UNIT_COLUMN, Column, Schema, Table, with_unit

_SAME = {
    "tinyint": "TINYINT",
    "smallint": "SMALLINT",
    "int": "INTEGER",
    "bigint": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "boolean": "BOOLEAN",
    "string": "VARCHAR",
    "date": "DATE",
    "timestamp_ntz": "TIMESTAMP",
    "timestamp": "TIMESTAMP",
}
_READ = frozenset(_SAME.values())
_YEARS = {
    "DATE": ("DATE '0001-01-01'", "DATE '9999-12-31'"),
    "TIMESTAMP": ("TIMESTAMP_NTZ '0001-01-01 00:00:00'", "TIMESTAMP_NTZ '9999-12-31 23:59:59.999999'"),
}
_FEW_DIGITS = 15
"""A DECIMAL of so many digits becomes a DOUBLE by one rounding."""
_NIBBLES = 15
"""[hexadecimal digits] of a part of a hash that is summed; two parts are 120 bits, and so many sums of rows as fit are below 10^38."""


@dataclass(frozen=True, slots=True)
class ShownFiles:
    """Queries of all that is shown, by the names of their relations.

    tables  with all columns, those of public tables too
    hashes  by table its count and keyed row hashes, in one query
    """

    tables: tuple[Table, ...]
    queries: Mapping[str, str]
    hashes: Mapping[str, str]

    def asked(self, sql: str, held: Mapping[str, str]) -> str:
        """A question with the relations that it reads.

        held  by name of a relation that this question alone sees, the view that holds it; one of a declared table's name hides that
        """
        own = {relation.lower() for relation in held}
        parts = [f"{WORDS.name(relation)} AS (SELECT * FROM {WORDS.name(view)})" for relation, view in held.items()]
        parts += [
            f"{WORDS.name(relation)} AS ({query})"
            for relation, query in self.queries.items()
            if relation.lower() not in own
        ]
        return f'WITH {", ".join(parts)} SELECT * FROM ({sql}) AS "dpsql answer"'


def show(schema: Schema, stored: Mapping[str, StoredFiles]) -> ShownFiles:
    """The declared tables. Raises 804 with everything that is wrong."""
    whole = [(_public(t, stored[t.name]) if t.public else t, stored[t.name]) for t in schema.tables]
    raise_all(804, [line for t, s in whole for line in _unfit(t, s)])
    queries = {t.name: _query(t, s) for t, s in whole}
    for table, one in whole:
        if not table.public:
            queries[unfit(table)] = _alien(table, one)
        if not table.public and any(c.is_cut for c in table.columns):
            queries[too_long(table)] = _long(table, one)
        if not table.public and schema.privacy.unit != ROW and schema.unit_column(table) is None:
            queries[with_unit(table.name)] = _with_unit(schema, table)
    return ShownFiles(tuple(t for t, _ in whole), queries, {t.name: _hashed(t, s) for t, s in whole})


def computable(stored: str) -> SqlType | None:
    """The type in which dpsql reads a stored column where it is free to choose; None where there is none."""
    if stored in _SAME:
        return SqlType(_SAME[stored])
    if stored.startswith("decimal("):
        return parse_type(stored.upper())
    return SqlType("VARCHAR") if stored.startswith(("varchar(", "char(")) else None


def _public(table: Table, stored: StoredFiles) -> Table:
    columns = ((column, computable(sqltype)) for column, sqltype in stored.columns)
    return replace(table, columns=tuple(Column(n, t, UNBOUNDED, True, "") for n, t in columns if t is not None))


def _unfit(table: Table, stored: StoredFiles) -> Iterator[str]:
    types = {column.lower(): sqltype for column, sqltype in stored.columns}
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


def _values(table: Table, stored: StoredFiles) -> Iterator[tuple[Column, str, str]]:
    """Of each column what is stored, and it in the declared type."""
    names = {column.lower(): (column, sqltype) for column, sqltype in stored.columns}
    for column in table.columns:
        held, sqltype = names[column.name.lower()]
        value = _typed(WORDS.name(held), sqltype, column.sqltype)
        assert value is not None
        yield column, WORDS.name(held), value


def _query(table: Table, stored: StoredFiles) -> str:
    items = []
    for column, _, value in _values(table, stored):
        cut = column.is_cut and not table.public
        value = f"CASE WHEN length({value}) > {column.longest} THEN NULL ELSE {value} END" if cut else value
        items.append(f"{value} AS {WORDS.name(column.name)}")
    return f"SELECT {', '.join(items)} FROM {stored.relation}"


def _long(table: Table, stored: StoredFiles) -> str:
    items = [
        f"coalesce(length({value}) > {column.longest}, false) AS {WORDS.name(column.name)}"
        for column, _, value in _values(table, stored)
        if column.is_cut
    ]
    return f"SELECT {', '.join(items)} FROM {stored.relation}"


def _alien(table: Table, stored: StoredFiles) -> str:
    items = [
        f"count(*) FILTER (WHERE {held} IS NOT NULL AND {value} IS NULL) AS {WORDS.name(column.name)}"
        for column, held, value in _values(table, stored)
    ]
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


def _hashed(table: Table, stored: StoredFiles) -> str:
    """Count and sums of keyed row hashes, whatever the order of rows: 120 bits of each.

    Why  without the key nobody finds other rows with these sums; each text goes behind its length, so that no two rows have one text
    """
    declared = {c.name.lower() for c in table.columns}
    texts = (f"CAST({WORDS.name(column)} AS STRING)" for column, _ in stored.columns if column.lower() in declared)
    parts = ", ".join(f"coalesce(concat(length({text}), ':', {text}), '-')" for text in texts)
    row = f"md5(concat((SELECT max(rows) FROM {WORDS.name(SECRETS)}), ' ', {parts}))"
    halves = ", ".join(
        f"coalesce(sum(CAST(conv(substr(h, {place}, {_NIBBLES}), 16, 10) AS DECIMAL(38, 0))), 0)"
        for place in (1, 1 + _NIBBLES)
    )
    return f"SELECT count(*), {halves} FROM (SELECT {row} AS h FROM {stored.relation}) AS hashed"


# --- values -----------------------------------------------------------------------------------------------------------


def _typed(value: str, stored: str, target: SqlType) -> str | None:
    """A stored value in its declared type, NULL where it does not fit; None where the two are not alike."""
    found = computable(stored)
    if found is None or (target.name not in _READ and not (target.is_integer or target.is_decimal)):
        return None
    if (found.is_integer or found.is_decimal) and (target.is_integer or target.is_decimal):
        return _exact(value, found, target)
    if target.is_float:
        return _double(value, found, target)
    if found.name != target.name:
        return None
    if target.is_temporal:
        first, last = _YEARS[target.name]
        plain = WORDS.cast(value, target)
        return f"(CASE WHEN {plain} BETWEEN {first} AND {last} THEN {plain} END)"
    plain = WORDS.cast(value, target)
    # what is no text could not be read here, and would end a statement
    return f"(CASE WHEN is_valid_utf8({plain}) THEN {plain} END)" if target.is_text else plain


def _exact(value: str, found: SqlType, target: SqlType) -> str:
    """A whole number or a DECIMAL in another such type, rounded half away from zero; what is too large is NULL."""
    held, source = target.range, found.range
    assert held is not None
    inside = source is not None and held.lower <= source.lower and source.upper <= held.upper
    if found.is_integer and target.is_integer and inside:
        return WORDS.cast(value, target)
    rounded = f"round({value}, {target.scale})" if found.is_decimal and found.scale > target.scale else value
    return _between(rounded, held.lower, held.upper, target)


def _between(value: str, lower: object, upper: object, target: SqlType) -> str:
    if target.is_decimal:
        return f"try_cast({value} AS {WORDS.stored(target)})"
    wide = f"try_cast({value} AS DECIMAL({DIGITS}, 0))"
    most = 10**DIGITS - 1
    low, high = (str(max(-most, min(most, int(str(end))))) for end in (lower, upper))
    return f"(CASE WHEN {wide} BETWEEN {low} AND {high} THEN try_cast({wide} AS {WORDS.stored(target)}) END)"


def _double(value: str, found: SqlType, target: SqlType) -> str | None:
    """A number as a DOUBLE where at most one rounding happens."""
    alike = found == target or (target.name == "DOUBLE" and (found.name == "FLOAT" or found.is_integer))
    if alike or (target.name == "DOUBLE" and found.is_decimal and found.width <= _FEW_DIGITS):
        return f"CAST({value} AS DOUBLE)"
    return None


# --- the owner's questions --------------------------------------------------------------------------------------------

_TOKENS = re.compile(r"""('(?:[^']|'')*')|("(?:[^"]|"")*")""")
_WORDS = (
    (re.compile(r"\bDOUBLE PRECISION\b"), "DOUBLE"),
    (re.compile(r"\bAS VARCHAR\b"), "AS STRING"),
    (re.compile(r"\bSIMILAR TO\b"), "RLIKE"),
)


def of_owner(sql: str) -> str:
    """A question in the words that all engines share, in Spark's: in a text a backslash stands for itself, and a pattern is for all
    of it."""
    found, place, whole = "", 0, False
    for token in _TOKENS.finditer(sql):
        between = _worded(sql[place : token.start()])
        whole, place = between.rstrip().endswith("RLIKE"), token.end()
        text = token[1]
        if text is not None:
            text = text.replace("\\", "\\\\")
            text = f"'^({text[1:-1]})$'" if whole else text
        found += between + (text if text is not None else token[2])
    return found + _worded(sql[place:])


def _worded(sql: str) -> str:
    for word, own in _WORDS:
        sql = word.sub(own, sql)
    return sql
