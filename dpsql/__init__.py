"""dpsql: ordinary SQL over private data, answered with differential privacy.

import dpsql
connection = dpsql.connect("examples/randhie/schema.toml")
cursor = connection.cursor()
cursor.execute("SELECT site, COUNT(*) FROM person GROUP BY site")
cursor.fetchall(), cursor.privacy, cursor.accuracy
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dpsql.clients.dbapi.types import (
    BINARY,
    DATETIME,
    NUMBER,
    ROWID,
    STRING,
    Binary,
    Date,
    DateFromTicks,
    Time,
    TimeFromTicks,
    Timestamp,
    TimestampFromTicks,
)
from dpsql.core.errors import (
    BudgetError,
    DatabaseError,
    DataError,
    Error,
    IntegrityError,
    InterfaceError,
    InternalError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
    SchemaError,
    Warning,
)
from dpsql.schema.model import Schema
from dpsql.schema.toml import read_schema

if TYPE_CHECKING:
    from dpsql.clients.dbapi.connection import Connection
    from dpsql.clients.dbapi.cursor import Cursor

__version__ = "0.1.0"
apilevel = "2.0"
"""Version of PEP 249."""
threadsafety = 1
"""PEP 249: threads may share the module, not a connection."""
paramstyle = "qmark"
"""PEP 249: parameters are written as ?; $1, :name and $name are read too."""


def connect(
    schema: str | Path | Schema,
    *,
    analyst: str | None = None,
    ledger: str | Path | None = None,
    token: str | None = None,
) -> Connection:
    """Open a declared dataset as a PEP 249 connection.

    schema   path of a schema.toml, or a Schema; or https://HOST:8439/DATASET, of a server
    analyst  who asks; must be declared where the schema declares analysts, else a label
    ledger   path of the ledger, or ":memory:"; by default `<name>.ledger` beside the schema
    token    for a server, where the environment's DPSQL_TOKEN is not it

    Raises SchemaError (801, 804), InterfaceError (803), OperationalError (704, 707, 708, 715), IntegrityError (705).
    """
    from dpsql.clients.dbapi.connection import open_connection

    return open_connection(schema, analyst, ledger, token)


if not TYPE_CHECKING:
    # for type checkers they are imported above; else only when they are asked for, since the engine comes with them
    def __getattr__(name: str) -> object:
        if name == "Connection":
            from dpsql.clients.dbapi.connection import Connection

            return Connection
        if name == "Cursor":
            from dpsql.clients.dbapi.cursor import Cursor

            return Cursor
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "BINARY",
    "DATETIME",
    "NUMBER",
    "ROWID",
    "STRING",
    "Binary",
    "BudgetError",
    "Connection",
    "Cursor",
    "DataError",
    "DatabaseError",
    "Date",
    "DateFromTicks",
    "Error",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "NotSupportedError",
    "OperationalError",
    "ProgrammingError",
    "Schema",
    "SchemaError",
    "Time",
    "TimeFromTicks",
    "Timestamp",
    "TimestampFromTicks",
    "Warning",
    "apilevel",
    "connect",
    "paramstyle",
    "read_schema",
    "threadsafety",
]
