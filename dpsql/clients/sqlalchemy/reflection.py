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
from dpsql.schema.model import Reference, Schema

Facts = dict[str, object]


@dataclass(frozen=True, slots=True)
class Described:
    """One column, with what is declared of it in words."""

    name: str
    sqltype: SqlType
    nullable: bool
    comment: str

    @property
    def facts(self) -> Facts:
        return {
            "name": self.name,
            "type": type_of(self.sqltype),
            "nullable": self.nullable,
            "default": None,
            "comment": self.comment or None,
        }


@dataclass(frozen=True, slots=True)
class NamedTable:
    """A table that statements can name."""

    columns: Sequence[Described]
    key: Sequence[str]
    references: Sequence[Reference]
    comment: str

    def foreign_keys(self, within: str | None) -> list[Facts]:
        """The declared references; the tables that they lead to are in the same SQL schema."""
        return [
            {
                "name": None,
                "constrained_columns": [reference.column],
                "referred_schema": within,
                "referred_table": reference.table,
                "referred_columns": [reference.target],
                "options": {},
            }
            for reference in self.references
        ]


def names(schema: Schema, within: str | None) -> list[str]:
    """The tables of an SQL schema."""
    if (within or "").lower() == spent.SCHEMA:
        return list(spent.TABLES)
    return [table.name for table in schema.tables] if qualifiers.holds_tables(schema, within or "") else []


def relation(schema: Schema, name: str, within: str | None) -> NamedTable:
    """A table by its name. Raises NoSuchTableError."""
    if spent.is_one(within or "", name):
        return _spent(name.lower())
    if qualifiers.holds_tables(schema, within or "") and (found := _declared(schema, name)) is not None:
        return found
    raise NoSuchTableError(f"{within}.{name}" if within else name)


def _declared(schema: Schema, name: str) -> NamedTable | None:
    table = schema.table(name)
    if table is None:
        return None
    columns = [Described(c.name, c.sqltype, c.nullable, column_comment(c, table, schema)) for c in table.columns]
    return NamedTable(columns, table.key, table.references, table_comment(table, schema))


def _spent(name: str) -> NamedTable:
    columns = [Described(column, sqltype, True, "") for column, sqltype in spent.TABLES[name]]
    return NamedTable(columns, (), (), "what was spent, and what the guard remembers: free")
