# mypy: disable-error-code="import-not-found, misc"
"""The adapter itself: how Harlequin connects, asks, limits, cancels and reads rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, TypeVar

from harlequin.adapter import HarlequinAdapter, HarlequinConnection, HarlequinCursor
from harlequin.autocomplete.completion import HarlequinCompletion
from harlequin.catalog import Catalog, CatalogSearchKind, CatalogSearchResult
from harlequin.exception import HarlequinConfigError, HarlequinConnectionError, HarlequinQueryError
from harlequin.options import HarlequinAdapterOption, TextOption
from harlequin.statements import split
from harlequin.transaction_mode import HarlequinTransactionMode

from dpsql.clients.dbapi.connection import Connection, open_connection
from dpsql.clients.dbapi.cursor import Cursor
from dpsql.clients.harlequin.catalog import catalog, search
from dpsql.clients.harlequin.completions import completions
from dpsql.clients.harlequin.screen import WindowScreen, current_screen, plain
from dpsql.clients.harlequin.status import column_labels, greeting, left, price
from dpsql.clients.output.prices import StatementPrice, number
from dpsql.core.errors import Error
from dpsql.core.escaping import harmless
from dpsql.planner.parse import parse
from dpsql.schema.model import Schema

if TYPE_CHECKING:
    import pyarrow

Result = TypeVar("Result")
FREE = "SHOW TABLES"
"""Reads the declared schema alone; what is left comes with every answer."""
NOT_A_STATEMENT = ("DPSQL-101", "DPSQL-103")


class DpsqlCursor(HarlequinCursor):
    """The answer of one statement."""

    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor
        self._limit: int | None = None

    def columns(self) -> list[tuple[str, str]]:
        """Name and short type of each column, the type followed by its 95 % error."""
        return column_labels(self._cursor)

    def set_limit(self, limit: int) -> DpsqlCursor:
        """Show fewer rows. The price was paid for all of them; LIMIT in the statement costs no less."""
        self._limit = limit
        return self

    def fetchall(self) -> pyarrow.Table | None:
        """The rows as columns; None where there are none."""
        rows = self._cursor.fetchall() if self._limit is None else self._cursor.fetchmany(self._limit)
        return columns_of(self._cursor.description or [], rows) if rows else None


class DpsqlConnection(HarlequinConnection):
    """One analyst's session on one dataset, as Harlequin uses it."""

    def __init__(self, connection: Connection, schema: Schema, who: str, screen: WindowScreen | None = None) -> None:
        self._connection = connection
        self._schema = schema
        self._screen = screen
        self._privacy = self._asked_for_free()
        self.init_message = plain(greeting(schema.name, who, self._privacy, number(schema.privacy.query.epsilon)))

    def _asked_for_free(self) -> StatementPrice:
        return self._connection.execute(FREE).privacy

    def execute(self, query: str) -> DpsqlCursor | None:
        """Run one statement; None where it has no rows, as SET. Raises HarlequinQueryError with dpsql's message."""
        cursor = self._answered(query)
        self._privacy = cursor.privacy
        if self._screen is not None:
            said = price(cursor.privacy, cursor.notes)
            if said is not None:
                self._screen.announce(said)
            self._screen.refresh_label()
        return DpsqlCursor(cursor) if cursor.description is not None else None

    def _answered(self, query: str) -> Cursor:
        try:
            return self._connection.execute(query)
        except Error as raised:
            problem = raised
        if problem.code >= "DPSQL-7":
            self._look_again()
        raise HarlequinQueryError(msg=str(problem), title=_title(problem))

    def _look_again(self) -> None:
        """Show what is left after a charge whose answer never came."""
        try:
            self._privacy = self._asked_for_free()
        except Error:
            return
        if self._screen is not None:
            self._screen.refresh_label()

    def cancel(self) -> None:
        """Stop the running statement; its charge stands, as the message that it ends with says."""
        self._connection.interrupt()

    def get_catalog(self) -> Catalog:
        return catalog(self._schema)

    def search_catalog(self, term: str, kind: CatalogSearchKind = "all") -> list[CatalogSearchResult]:
        return search(catalog(self._schema), term, kind)

    def get_completions(self) -> list[HarlequinCompletion]:
        return completions()

    def validate_sql(self, text: str) -> str:
        """The text if all of it is statements, else nothing; Harlequin names its Run button by it."""
        return text if all(_is_statement(statement.sql) for statement in split(text)) else ""

    @property
    def transaction_mode(self) -> HarlequinTransactionMode | None:
        """Remaining budget after the last statement: the one label of the window that an adapter may fill."""
        return HarlequinTransactionMode(label=left(self._privacy)) if self._screen is not None else None

    def toggle_transaction_mode(self) -> HarlequinTransactionMode | None:
        """There is one mode; a click on its label shows it again."""
        return self.transaction_mode

    def close(self) -> None:
        self._connection.close()


class DpsqlAdapter(HarlequinAdapter):
    """dpsql for Harlequin: `harlequin -a dpsql SCHEMA [--analyst NAME] [--ledger PATH]`."""

    ADAPTER_OPTIONS: ClassVar[list[HarlequinAdapterOption]] = [
        TextOption(name="analyst", description="Who asks; must be declared where the schema declares analysts."),
        TextOption(name="ledger", description="The ledger's file, or :memory:. By default beside the schema."),
    ]
    ADAPTER_DETAILS = (
        "Answers questions about private data with differential privacy. Every question has a price and an error: the price and what "
        "is left of the budget are shown after each, the 95 % error in the head of each column."
    )
    IMPLEMENTS_CANCEL = True
    IMPLEMENTS_CATALOG_SEARCH = True
    IMPLEMENTS_READ_ONLY = True
    IMPLEMENTS_VALIDATE_SQL = True

    def __init__(
        self,
        conn_str: Sequence[str],
        read_only: bool = False,
        analyst: str | None = None,
        ledger: str | None = None,
        **_options: object,
    ) -> None:
        """See HarlequinAdapter. Statements never write, so read_only changes nothing."""
        if len(conn_str) != 1:
            raise HarlequinConfigError(
                msg=f"dpsql opens one schema.toml, not {len(conn_str)}; write harlequin -a dpsql schema.toml",
                title="dpsql could not start.",
            )
        self._schema = conn_str[0]
        self._analyst = analyst or None
        self._ledger = ledger or None

    @property
    def connection_id(self) -> str:
        """Harlequin keeps the history of statements by it."""
        return f"dpsql {Path(self._schema).absolute()} {self._analyst or ''} {self._ledger or ''}".rstrip()

    def connect(self) -> DpsqlConnection:
        """Open the dataset; asks nothing that costs anything. Raises HarlequinConnectionError with dpsql's message."""

        def opened() -> DpsqlConnection:
            connection = open_connection(self._schema, self._analyst, self._ledger, None)
            try:
                return DpsqlConnection(connection, connection.schema, connection.analyst, current_screen())
            except BaseException:
                connection.close()
                raise

        return _or_connection_error(opened)


def _or_connection_error(work: Callable[[], Result]) -> Result:
    try:
        return work()
    except Error as raised:
        text = str(raised)
    problem = HarlequinConnectionError(msg=text, title="dpsql could not open the dataset.")
    # Harlequin prints str() of it through Rich, and `hsql` its msg as it is.
    problem.args = (plain(text),)
    raise problem


def _title(problem: Error) -> str:
    """Title above the message: the price of the statement."""
    if problem.code.startswith("DPSQL-5"):
        return "The budget does not allow this statement. It cost nothing."
    if problem.code < "DPSQL-7" or problem.code.startswith("DPSQL-8"):
        return "dpsql refused this statement. It cost nothing."
    return "The statement failed. What was charged stays charged."


def _is_statement(sql: str) -> bool:
    try:
        parse(sql, ())
    except Error as problem:
        return problem.code not in NOT_A_STATEMENT
    return True


def columns_of(description: Sequence[Sequence[object]], rows: Sequence[Sequence[object]]) -> pyarrow.Table:
    """A table of the rows. A column that Arrow has no one type for is text: HUGEINT beyond 64 bits, say.

    Names and texts are without what a terminal would obey: what Harlequin and `hsql` are given, they write.
    """
    import pyarrow

    columns = [_column([row[i] for row in rows]) for i in range(len(description))]
    return pyarrow.Table.from_arrays(columns, names=[harmless(str(column[0])) for column in description])


def _column(values: list[object]) -> pyarrow.Array:
    import pyarrow

    values = [harmless(value, kept="\n\t") if isinstance(value, str) else value for value in values]
    try:
        return pyarrow.array(values)
    except (pyarrow.ArrowException, OverflowError):
        pass
    return pyarrow.array([None if value is None else str(value) for value in values], type=pyarrow.string())
