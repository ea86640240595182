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

from dpsql.errors import (
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

if TYPE_CHECKING:
    from dpsql.clients.dbapi import Connection

__version__ = "0.1.0"
apilevel = "2.0"
threadsafety = 1
paramstyle = "qmark"


def connect(schema: str | Path | Schema, *, analyst: str | None = None, ledger: str | Path | None = None) -> Connection:
    """Open a declared dataset as a PEP 249 connection.

    schema   path of a schema.toml, or a Schema
    analyst  who asks; must be declared where the schema declares analysts, else a label
    ledger   path of the ledger, or ":memory:"; by default `<name>.ledger` beside the schema

    Raises SchemaError (801, 804), InterfaceError (803), OperationalError (704, 707, 708), IntegrityError (705).
    """
    from dpsql.clients.dbapi import open_connection

    return open_connection(schema, analyst, ledger)


__all__ = [
    "BudgetError",
    "DataError",
    "DatabaseError",
    "Error",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "NotSupportedError",
    "OperationalError",
    "ProgrammingError",
    "Schema",
    "SchemaError",
    "Warning",
    "apilevel",
    "connect",
    "paramstyle",
    "threadsafety",
]
