"""The owner of the suite's tables: what the suite creates and fills becomes public tables of a dataset, and dpsql only reads them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
from sqlalchemy import schema as ddl

import dpsql
from dpsql.clients.sqlalchemy import DpsqlDialect
from dpsql.session.opening import open_session

WORDS = ("CREATE", "DROP", "ALTER", "INSERT", "DELETE", "COMMENT")
GUEST = "guest"
"""The table that a dataset must have, and the suite does not know."""
SCHEMA = """
[dataset]
name = "suite"
source = "{folder}"

[privacy]
unit = "row"
epsilon = 1.0
delta = 1e-6
query = {{ epsilon = 0.1 }}

[tables.guest]
source = "guest.csv"
[tables.guest.columns]
age = {{ type = "INTEGER", bounds = [0, 100] }}
"""
TABLE = """
[tables.{name}]
public = true
source = "{file}"
{facts}
"""


class Owner:
    """The tables, and the schema that declares them."""

    def __init__(self) -> None:
        self._home = tempfile.TemporaryDirectory(prefix="dpsql-suite-")
        self._data = duckdb.connect()
        self.tables: dict[str, ddl.Table] = {}
        self.version = 0
        self._published = -1

    def do(self, sql: str, parameters: Iterable[object], element: object) -> None:
        """Create, fill or drop a table."""
        if isinstance(element, ddl.CreateTable):
            table = element.element
            columns = ", ".join(f"{_quoted(c.name)} {c.type.compile(dialect=SuiteDialect())}" for c in table.columns)
            sql = f"CREATE TABLE {_quoted(table.name)} ({columns})"
            self.tables[table.name] = table
        if isinstance(element, ddl.DropTable):
            del self.tables[element.element.name]
        self._data.execute(sql, [_plain(value) for value in parameters])
        self.version += 1

    def publish(self) -> Path:
        """The path of the schema, with new files where something changed."""
        folder = Path(self._home.name) / str(self.version)
        if self._published != self.version:
            folder.mkdir()
            (folder / "guest.csv").write_text("age\n30\n")
            declared = [self._declared(folder, number, table) for number, table in enumerate(self.tables.values())]
            (folder / "schema.toml").write_text(SCHEMA.format(folder=folder) + "".join(declared), encoding="utf-8")
            self._published = self.version
        return folder / "schema.toml"

    def _declared(self, folder: Path, number: int, table: ddl.Table) -> str:
        file = f"t{number}.parquet"
        self._data.execute(f"COPY {_quoted(table.name)} TO '{folder / file}' (FORMAT parquet)")
        key = [_toml(column.name) for column in table.primary_key]
        references = [
            f"{_toml(each.parent.name)} = {_toml(each.target_fullname)}"
            for each in table.foreign_keys
            if each.column.primary_key and len(each.column.table.primary_key) == 1
        ]
        facts = f"key = [{', '.join(key)}]" if key else ""
        return TABLE.format(
            name=_toml(table.name), file=file, facts=f"{facts}\nreferences = {{ {', '.join(references)} }}"
        )


def _plain(value: object) -> object:
    """DuckDB 1.4 takes 4E+8 for 4."""
    return Decimal(f"{value:f}") if isinstance(value, Decimal) else value


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _toml(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


class SuiteDialect(DpsqlDialect):
    """The dialect, beside an owner who changes the tables while the suite runs."""

    supports_statement_cache = True

    def connect(self, *arguments: object, **options: object) -> dpsql.Connection:
        opened = dpsql.connect(OWNER.publish(), ledger=":memory:")
        opened.version = OWNER.version
        return opened

    def do_execute(self, cursor: Any, statement: str, parameters: Any, context: Any = None) -> None:
        if _is_owners(statement):
            OWNER.do(statement, parameters, getattr(context.compiled, "statement", None))
        else:
            renew(cursor.connection)
            super().do_execute(cursor, statement, parameters, context)

    def do_executemany(self, cursor: Any, statement: str, parameters: Any, context: Any = None) -> None:
        assert _is_owners(statement), f"the suite repeats a question: {statement}"
        for each in parameters:
            OWNER.do(statement, each, None)

    def has_table(self, connection: Any, table_name: str, schema: str | None = None, **kw: Any) -> bool:
        if "info_cache" not in kw:  # CREATE and DROP ask, not the suite
            return table_name in OWNER.tables
        return super().has_table(connection, table_name, schema, **kw)

    def get_table_names(self, connection: Any, schema: str | None = None, **kw: Any) -> list[str]:
        if connection.connection.dbapi_connection.version != OWNER.version:  # after a test, to empty them
            return list(OWNER.tables)
        return [name for name in super().get_table_names(connection, schema, **kw) if name != GUEST]

    def _schema(self, connection: Any) -> Any:
        renew(connection.connection.dbapi_connection)
        return super()._schema(connection)


def _is_owners(statement: str) -> bool:
    return statement.split()[0].upper() in WORDS


def renew(connection: dpsql.Connection) -> None:
    """Reopen the session: the owner's changes are seen by one that is opened then."""
    if connection.version != OWNER.version:
        connection._session.close()
        connection._session = open_session(OWNER.publish(), None, ":memory:")
        connection.version = OWNER.version


OWNER = Owner()
