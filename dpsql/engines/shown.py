"""Relations that a statement is shown of the tables of a server: one a declared table, with the declared columns and types.

They are queries in WITH, since nothing is written there. A value that does not fit its declared type is NULL, as with every engine.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from dpsql.core.domains import UNBOUNDED
from dpsql.core.sqltypes import SqlType
from dpsql.engines.dialects.words import DialectWords
from dpsql.engines.writing import name as quoted
from dpsql.engines.writing import raise_all, too_long, unfit
from dpsql.schema.mistakes import printable, suggestion
from dpsql.schema.model import ROW, UNIT_COLUMN, Column, Schema, Table, with_unit


class ServedTable(Protocol):
    """A table as a server holds it.

    relation  under which questions find it
    columns   (name, type as the server writes it), in their order
    """

    @property
    def relation(self) -> str: ...

    @property
    def columns(self) -> tuple[tuple[str, str], ...]: ...


class ShowingWords(Protocol):
    """An engine's words for showing what it stores."""

    words: DialectWords

    def computable(self, stored: str) -> SqlType | None:
        """The type in which dpsql reads a stored column where it is free to choose; None where there is none."""

    def typed(self, value: str, stored: str, target: SqlType) -> str | None:
        """A stored value in its declared type, NULL where it does not fit; None where the two are not alike. Nothing raises."""

    def hashed(self, relation: str, columns: list[str]) -> str:
        """A query of one row: the count of rows, and sums of keyed hashes of them, whatever their order.

        Why  without the key nobody finds other rows with these sums
        """


_PLAIN = re.compile(r"[a-z0-9_ ]{1,40}")
"""Names that stand in a text as they are."""


@dataclass(frozen=True, slots=True)
class ShownQuery:
    """A query of a relation. items: (column, the SQL of it), in their order."""

    items: tuple[tuple[str, str], ...]
    source: str

    def asked(self, text: str) -> str:
        """Its SQL with the columns that a text may name: the server analyses every one."""
        read = [item for column, item in self.items if _may_name(text, column)] or [self.items[0][1]]
        return f"SELECT {', '.join(read)} FROM {self.source}"


def _may_name(text: str, name: str) -> bool:
    """False only where a name is surely not in a text of small letters."""
    plain = name.lower()
    return not _PLAIN.fullmatch(plain) or (plain in text and re.search(rf"(?<!\w){plain}(?!\w)", text) is not None)


@dataclass(frozen=True, slots=True)
class ShownTables:
    """Queries of all that is shown, by the names of their relations.

    tables  with all columns, those of public tables too
    needs   by relation the tables that it reads
    hashes  by table its count and keyed row hashes, in one query
    """

    words: DialectWords
    tables: tuple[Table, ...]
    queries: Mapping[str, ShownQuery]
    needs: Mapping[str, tuple[str, ...]]
    hashes: Mapping[str, str]

    def asked(self, sql: str, held: Mapping[str, str], kept: str = "", merged: str = "") -> str:
        """A question with the relations that it reads.

        held          by name of a relation that this question alone sees, its query; one of a declared table's name hides that
        kept, merged  what the engine says of a relation that is computed once, and of one that is not
        """
        own, text, parts = {relation.lower() for relation in held}, sql.lower(), list[str]()
        # what reads another relation stands behind it
        for relation, query in reversed(list(self.queries.items())):
            if relation.lower() not in own and _may_name(text, relation):
                written = query.asked(text)
                text += written.lower()
                parts.insert(0, f"{self.words.name(relation)} AS {merged}({written})")
        parts = [*(f"{self.words.name(relation)} AS {kept}({query})" for relation, query in held.items()), *parts]
        shown = f"WITH {', '.join(parts)} " if parts else ""
        return f'{shown}SELECT * FROM ({sql}) AS "dpsql answer"'

    def read(self, sql: str) -> list[str]:
        """The tables that a question may read: those on the way to the unit too."""
        named = (
            table for relation, tables in self.needs.items() if self.words.name(relation) in sql for table in tables
        )
        return list(dict.fromkeys(named))


def shown(by: ShowingWords, schema: Schema, stored: Mapping[str, ServedTable]) -> ShownTables:
    """The declared tables. Raises 804 with everything that is wrong."""
    whole = [(_public(by, t, stored[t.name]) if t.public else t, stored[t.name]) for t in schema.tables]
    raise_all(804, [line for t, s in whole for line in _unfit(by, t, s)])
    queries = {t.name: _query(by, t, s) for t, s in whole}
    needs: dict[str, tuple[str, ...]] = {t.name: (t.name,) for t, _ in whole}
    for table, one in whole:
        if not table.public:
            queries[unfit(table)], needs[unfit(table)] = _alien(by, table, one), (table.name,)
        if not table.public and any(c.is_cut for c in table.columns):
            queries[too_long(table)], needs[too_long(table)] = _long(by, table, one), (table.name,)
        if not table.public and schema.privacy.unit != ROW and schema.unit_column(table) is None:
            view = with_unit(table.name)
            queries[view] = _with_unit(by.words, schema, table)
            needs[view] = (table.name, *(r.table for r in schema.path_to_unit(table)))
    hashes = {t.name: by.hashed(s.relation, _declared(t, s)) for t, s in whole}
    return ShownTables(by.words, tuple(t for t, _ in whole), queries, needs, hashes)


def _declared(table: Table, stored: ServedTable) -> list[str]:
    """Identifiers of the declared columns, in the order in which they are stored."""
    names = {c.name.lower() for c in table.columns}
    return [quoted(column) for column, _ in stored.columns if column.lower() in names]


def _public(by: ShowingWords, table: Table, stored: ServedTable) -> Table:
    columns = ((column, by.computable(sqltype)) for column, sqltype in stored.columns)
    return replace(table, columns=tuple(Column(n, t, UNBOUNDED, True, "") for n, t in columns if t is not None))


def _unfit(by: ShowingWords, table: Table, stored: ServedTable) -> Iterator[str]:
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
        elif by.typed("x", held, column.sqltype) is None:
            yield f"{where}: column {printable(column.name)} is stored as {held}; declare another type than {column.sqltype}"


def _values(by: ShowingWords, table: Table, stored: ServedTable) -> Iterator[tuple[Column, str, str]]:
    """Of each column what is stored, and it in the declared type."""
    names = {column.lower(): (quoted(column), sqltype) for column, sqltype in stored.columns}
    for column in table.columns:
        held, sqltype = names[column.name.lower()]
        value = by.typed(held, sqltype, column.sqltype)
        assert value is not None
        yield column, held, value


def _query(by: ShowingWords, table: Table, stored: ServedTable) -> ShownQuery:
    items = []
    for column, _, value in _values(by, table, stored):
        cut = column.is_cut and not table.public
        value = f"CASE WHEN length({value}) > {column.longest} THEN NULL ELSE {value} END" if cut else value
        items.append((column.name, f"{value} AS {by.words.name(column.name)}"))
    return ShownQuery(tuple(items), stored.relation)


def _long(by: ShowingWords, table: Table, stored: ServedTable) -> ShownQuery:
    items = (
        (column.name, f"coalesce(length({value}) > {column.longest}, false) AS {by.words.name(column.name)}")
        for column, _, value in _values(by, table, stored)
        if column.is_cut
    )
    return ShownQuery(tuple(items), stored.relation)


def _alien(by: ShowingWords, table: Table, stored: ServedTable) -> ShownQuery:
    items = (
        (column.name, f"count(*) FILTER (WHERE {held} IS NOT NULL AND {value} IS NULL) AS {by.words.name(column.name)}")
        for column, held, value in _values(by, table, stored)
    )
    return ShownQuery(tuple(items), stored.relation)


def _with_unit(words: DialectWords, schema: Schema, table: Table) -> ShownQuery:
    """A table with the unit's value as its last column, by the references up to it; a row that reaches none does not appear."""
    path = schema.path_to_unit(table)
    joined, here = f"{words.name(table.name)} AS t0", "t0"
    for i, reference in enumerate(path[:-1], start=1):
        on = " AND ".join(f"{here}.{words.name(c)} = t{i}.{words.name(target)}" for c, target in reference.pairs)
        joined, here = f"{joined} JOIN {words.name(reference.table)} AS t{i} ON {on}", f"t{i}"
    items = [(c.name, f"t0.{words.name(c.name)}") for c in table.columns]
    unit = f"{here}.{words.name(path[-1].columns[0])} AS {words.name(UNIT_COLUMN)}"
    return ShownQuery((*items, (UNIT_COLUMN, unit)), joined)
