# mypy: disable-error-code="misc"
"""Tables, columns and keys, from the declared schema alone: no statement is sent and no data is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy.exc import NoSuchTableError

from dpsql.clients.declared import column_comment, table_comment
from dpsql.clients.sqlalchemy.types import type_of
from dpsql.core.sqltypes import SqlType
from dpsql.schema import qualifiers, spent
from dpsql.schema.model import Reference, Schema, Table
from dpsql.schema.qualifiers import MAIN, place

Facts = dict[str, object]


@dataclass(frozen=True, slots=True)
class NamedTable:
    """A table that statements can name."""

    name: str
    columns: list[Facts]
    key: Sequence[str]
    references: Sequence[Reference]
    comment: str

    def foreign_keys(self, within: str | None) -> list[Facts]:
        """The declared references. A table of `main` is in the SQL schema that was asked for, which may be no name at all."""
        return [
            {
                "name": None,
                "constrained_columns": list(reference.columns),
                "referred_schema": schema if (schema := place(reference.table)[0]) != MAIN else self._main(within),
                "referred_table": place(reference.table)[1],
                "referred_columns": list(reference.targets),
                "options": {},
            }
            for reference in self.references
        ]

    def _main(self, within: str | None) -> str | None:
        return within if place(self.name)[0] == MAIN else MAIN


def names(schema: Schema, within: str | None) -> list[str]:
    """The tables of an SQL schema."""
    if (within or "").lower() == spent.SCHEMA:
        return list(spent.TABLES)
    return [place(table.name)[1] for table in qualifiers.tables_in(schema, within or MAIN)]


def relation(schema: Schema, name: str, within: str | None) -> NamedTable:
    """A table by its name. Raises NoSuchTableError."""
    if spent.is_one(within or "", name):
        return _spent(name.lower())
    found = qualifiers.table(schema, within or MAIN, name)
    if found is None:
        raise NoSuchTableError(f"{within}.{name}" if within else name)
    return _declared(schema, found)


def _declared(schema: Schema, table: Table) -> NamedTable:
    columns = [_column(c.name, c.sqltype, c.nullable, column_comment(c, table, schema)) for c in table.columns]
    return NamedTable(table.name, columns, table.key, table.references, table_comment(table, schema))


def _spent(name: str) -> NamedTable:
    columns = [_column(column, sqltype, True) for column, sqltype in spent.TABLES[name]]
    return NamedTable(f"{spent.SCHEMA}.{name}", columns, (), (), "what was spent, and what the guard remembers: free")


def _column(name: str, sqltype: SqlType, nullable: bool, comment: str = "") -> Facts:
    return {
        "name": name, "type": type_of(sqltype), "nullable": nullable, "default": None, "comment": comment or None,
    }  # fmt: skip
