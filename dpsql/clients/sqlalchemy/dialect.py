# mypy: disable-error-code="misc"
"""Dialect by which SQLAlchemy connects, asks and looks around. Nothing but the caller's own statements is ever sent."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from sqlalchemy import event, pool
from sqlalchemy.engine import URL, Connection, Engine
from sqlalchemy.engine.default import DefaultDialect, DefaultExecutionContext
from sqlalchemy.exc import ArgumentError, NoSuchTableError

import dpsql
from dpsql.clients.dbapi.connection import Connection as DbapiConnection
from dpsql.clients.dbapi.cursor import Cursor, Parameters
from dpsql.clients.output.prices import StatementPrice
from dpsql.clients.sqlalchemy import reflection
from dpsql.clients.sqlalchemy.compiler import DpsqlCompiler, DpsqlIdentifiers, DpsqlTypes
from dpsql.clients.sqlalchemy.reflection import Facts, NamedTable
from dpsql.clients.sqlalchemy.types import WRITTEN
from dpsql.clients.sqlalchemy.url import MEMORY, read_url, wrong
from dpsql.plan.tables import Accuracy
from dpsql.planner.options import NAMES
from dpsql.schema import spent
from dpsql.schema.model import Schema
from dpsql.schema.qualifiers import MAIN, sql_schemas
from dpsql.session.result import Answer

OPTIONS = "dpsql_options"
"""The execution option that holds a statement's own: `connection.execution_options(dpsql_options="epsilon=0.2, max_groups=3")`."""
AUTOCOMMIT = "AUTOCOMMIT"
_SETTINGS = "dpsql settings"


class DpsqlContext(DefaultExecutionContext):
    """One statement.

    What it leaves is there also when the rows have been read and the cursor is closed: `result.context.privacy`.

    privacy   what it cost
    notes     what is to be known of the answer
    """

    privacy: StatementPrice | None = None
    notes: tuple[str, ...] = ()
    _answer: Answer | None = None

    @property
    def accuracy(self) -> list[tuple[Accuracy | None, ...]]:
        """Parallel to the rows: per cell an interval, or None. They are made when they are read, while the connection is open."""
        return list(self._answer.accuracy) if self._answer is not None else []


class DpsqlDialect(DefaultDialect):
    """dpsql for SQLAlchemy 1.4 and 2.

    A connection is one analyst's session on one dataset. It has no transactions: a charge is durable before the answer is computed, and
    rolling back changes nothing.
    """

    name = "dpsql"
    driver = "dpsql"
    default_paramstyle = "qmark"
    default_schema_name = MAIN
    default_isolation_level = AUTOCOMMIT

    statement_compiler = DpsqlCompiler
    type_compiler = DpsqlTypes
    preparer = DpsqlIdentifiers
    execution_ctx_cls = DpsqlContext
    colspecs = WRITTEN

    supports_statement_cache = True
    supports_alter = False
    supports_comments = True
    supports_native_boolean = True
    supports_native_decimal = True
    postfetch_lastrowid = False
    div_is_floordiv = False

    # --- connecting ---------------------------------------------------------------------------------------------------

    @classmethod
    def import_dbapi(cls) -> ModuleType:
        return dpsql

    @classmethod
    def dbapi(cls) -> ModuleType:
        """Name that SQLAlchemy 1.4 calls."""
        return dpsql

    @classmethod
    def get_pool_class(cls, url: URL) -> type[pool.Pool]:
        """A ledger in memory lives as long as its connection, so there is one."""
        kind: type[pool.Pool] = pool.StaticPool if read_url(url)["ledger"] == MEMORY else pool.QueuePool
        return kind

    @classmethod
    def engine_created(cls, engine: Engine) -> None:
        """Raises ArgumentError where each new connection would begin with an empty ledger."""
        if read_url(engine.url)["ledger"] == MEMORY and not isinstance(engine.pool, pool.StaticPool):
            why = "a ledger in memory is forgotten with its connection, so each would have the whole budget again"
            raise ArgumentError(f"{why}; name a file in ledger=, or leave poolclass out")
        event.listen(engine, "checkin", forget_settings)

    def create_connect_args(self, url: URL) -> tuple[list[str], dict[str, str | None]]:
        return [], read_url(url)

    def connect(
        self,
        schema: str | None = None,
        analyst: str | None = None,
        ledger: str | None = None,
        token: str | None = None,
    ) -> DbapiConnection:
        if schema is None:
            raise wrong("it names no schema file")
        return dpsql.connect(schema, analyst=analyst, ledger=ledger, token=token)

    def initialize(self, connection: Connection) -> None:
        """Nothing has to be asked."""

    def do_ping(self, dbapi_connection: DbapiConnection) -> bool:
        """True if the connection is open."""
        return dbapi_connection._is_open

    def is_disconnect(self, e: Exception, connection: Any, cursor: Cursor | None) -> bool:
        closed = connection is not None and not connection._is_open
        return closed and isinstance(e, dpsql.InterfaceError)

    def get_isolation_level_values(self, dbapi_conn: DbapiConnection) -> list[str]:
        return [AUTOCOMMIT]

    def get_isolation_level(self, dbapi_connection: DbapiConnection) -> str:
        return AUTOCOMMIT

    def set_isolation_level(self, dbapi_connection: DbapiConnection, level: str) -> None:
        if level != AUTOCOMMIT:
            raise ArgumentError(f"dpsql has no transactions; the isolation level is {AUTOCOMMIT}")

    def reset_isolation_level(self, dbapi_conn: DbapiConnection) -> None:
        """There is only one."""

    # --- statements ---------------------------------------------------------------------------------------------------

    def do_execute(
        self, cursor: Cursor, statement: str, parameters: Parameters, context: DpsqlContext | None = None
    ) -> None:
        cursor.execute(_with_options(statement, context), parameters)
        if context is not None:
            context.privacy, context.notes, context._answer = cursor.privacy, cursor.notes, cursor._answer

    def do_execute_no_params(self, cursor: Cursor, statement: str, context: DpsqlContext | None = None) -> None:
        self.do_execute(cursor, statement, (), context)

    # --- looking around -----------------------------------------------------------------------------------------------

    def _schema(self, connection: Connection) -> Schema:
        opened: DbapiConnection = connection.connection.dbapi_connection
        return opened.schema

    def _relation(self, connection: Connection, name: str, within: str | None) -> NamedTable:
        return reflection.relation(self._schema(connection), name, within)

    def get_schema_names(self, connection: Connection, **kw: Any) -> list[str]:
        return [*sql_schemas(self._schema(connection)), spent.SCHEMA]

    def has_schema(self, connection: Connection, schema_name: str, **kw: Any) -> bool:
        return bool(reflection.names(self._schema(connection), schema_name))

    def get_table_names(self, connection: Connection, schema: str | None = None, **kw: Any) -> list[str]:
        return reflection.names(self._schema(connection), schema)

    def has_table(self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any) -> bool:
        self._ensure_has_table_connection(connection)
        return table_name.lower() in (name.lower() for name in self.get_table_names(connection, schema))

    def get_columns(self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any) -> list[Facts]:
        return self._relation(connection, table_name, schema).columns

    def get_pk_constraint(self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any) -> Facts:
        return {"constrained_columns": list(self._relation(connection, table_name, schema).key), "name": None}

    def get_foreign_keys(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any
    ) -> list[Facts]:
        return self._relation(connection, table_name, schema).foreign_keys(schema)

    def get_table_comment(self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any) -> Facts:
        return {"text": self._relation(connection, table_name, schema).comment}

    def _none(self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any) -> list[Facts]:
        self._relation(connection, table_name, schema)
        return []

    get_indexes = get_unique_constraints = get_check_constraints = _none

    def _no_names(self, connection: Connection, schema: str | None = None, **kw: Any) -> list[str]:
        return []

    get_view_names = get_materialized_view_names = get_temp_table_names = get_temp_view_names = _no_names
    get_sequence_names = _no_names

    def get_view_definition(self, connection: Connection, view_name: str, schema: str | None = None, **kw: Any) -> str:
        raise NoSuchTableError(view_name)


def _with_options(statement: str, context: DpsqlContext | None) -> str:
    """The statement behind a comment with the options that it was given; those in its text are nearer, and hold."""
    options = context.execution_options.get(OPTIONS) if context is not None else None
    if options is None:
        return statement
    if not isinstance(options, str) or "*/" in options:
        raise ArgumentError(f'{OPTIONS} is a text such as "epsilon=0.2, max_groups=3"')
    return f"/* dpsql: {options} */ {statement}"


def forget_settings(dbapi_connection: DbapiConnection | None, record: Any) -> None:
    """Forget the settings of whoever had the connection last: the next one from the pool begins with the schema's
    options."""
    if dbapi_connection is None or not dbapi_connection._is_open:
        return
    if dbapi_connection._settings != record.info.get(_SETTINGS, 0):
        for name in NAMES:
            if name != "weights":  # of one statement alone
                dbapi_connection.execute(f"RESET dp_{name}")
        record.info[_SETTINGS] = dbapi_connection._settings
