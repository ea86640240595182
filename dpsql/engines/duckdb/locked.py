"""In-memory DuckDB connections that reach only what they are given: the wall behind the allow-list of statements."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

import duckdb

from dpsql.core import cancellation
from dpsql.core.errors import Error, error
from dpsql.engines.served import outlive_forks
from dpsql.engines.writing import text

Settings = dict[str, str | bool | int | float | list[str]]
Result = TypeVar("Result")
BASE_SETTINGS: Settings = {
    "python_enable_replacements": False,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "allow_community_extensions": False,
    "allow_persistent_secrets": False,
    "default_collation": "",
}


def connect(spill: Path | None, threads: int | None = None, memory: int | None = None) -> duckdb.DuckDBPyConnection:
    """A new in-memory database that still may open files; what it cannot hold in memory goes to `spill`, or nowhere.

    memory  [bytes] the most that it may hold; None: DuckDB's own limit
    """
    settings: Settings = {**BASE_SETTINGS, "temp_directory": str(spill) if spill else ""}
    if memory is not None:
        settings["memory_limit"] = f"{memory}B"
    if threads is not None:
        settings["threads"] = threads
    connection = duckdb.connect(":memory:", config=settings)
    outlive_forks(connection)
    # casts between timestamps with and without a zone would else depend on where the program runs; a cursor knows the global setting
    connection.execute("SET GLOBAL TimeZone = 'UTC'")
    # DuckDB 2.0 moves TRY_CAST into its CSV reader, and a value that does not fit then loses its whole row
    connection.execute(f"SET GLOBAL disabled_optimizers = {text(_known_optimizer(connection, 'type_pushdown'))}")
    return connection


def _known_optimizer(connection: duckdb.DuckDBPyConnection, optimizer: str) -> str:
    """The name of an optimizer, or nothing where this DuckDB does not have it."""
    found = connection.execute("SELECT name FROM duckdb_optimizers() WHERE name = ?", [optimizer]).fetchall()
    return optimizer if found else ""


def lock(connection: duckdb.DuckDBPyConnection, allowed: Iterable[Path] = ()) -> None:
    """Close the way to every file but the allowed ones, and to the settings; it cannot be opened again."""
    wall(connection, allowed)
    settle(connection)


def wall(connection: duckdb.DuckDBPyConnection, allowed: Iterable[Path]) -> None:
    """Close the way to every file but the allowed ones; it cannot be opened again."""
    paths = ", ".join(text(str(path)) for path in allowed)
    connection.execute(f"SET allowed_paths = [{paths}]")
    connection.execute("SET enable_external_access = false")


def settle(connection: duckdb.DuckDBPyConnection, memory: int | None = None) -> None:
    """Set what the database may hold from here on [bytes], and close the way to the settings; it cannot be opened again."""
    if memory is not None:
        connection.execute(f"SET memory_limit = '{memory}B'")
    connection.execute("SET lock_configuration = true")


def one_select(connection: duckdb.DuckDBPyConnection, sql: str) -> duckdb.Statement:
    """The statement in a text that must hold exactly one question.

    Raises 901 for anything else; DuckDB's own exception where it does not parse, so callers keep it inside their wall.
    """
    statements = connection.extract_statements(sql)
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        raise error(901, "something other than one question was about to run")
    return statements[0]


def ask(connection: duckdb.DuckDBPyConnection, sql: str, cut: str) -> duckdb.DuckDBPyConnection:
    """Run one question; where it names the parameter `$cut`, with that secret bound to it: it never stands in a text (rule 49).

    Raises as `one_select`.
    """
    statement = one_select(connection, sql)
    named = statement.named_parameters
    if named - {"cut"}:
        raise error(901, "a question with parameters of its own was about to run")
    return connection.execute(statement, {"cut": cut} if named else None)


def run(connection: duckdb.DuckDBPyConnection, work: Callable[[], Result]) -> Result:
    """Run something that may take long on a connection; when its statement is to end, so does it. See cancellation.run."""
    return cancellation.run(connection.interrupt, work)


def ending(fault: BaseException) -> Error | None:
    """The error to raise where a statement was ended, by its limits or from outside; None for any other fault."""
    statement = cancellation.current()
    if isinstance(fault, Error):
        return statement.ended(int(fault.code[-3:])) if fault.code in cancellation.ENDED else None
    if isinstance(fault, MemoryError | duckdb.OutOfMemoryException):
        return statement.ended(cancellation.FILLED)
    # for Ctrl-C it raises a bare RuntimeError
    bare = isinstance(fault, RuntimeError) and str(fault) == "Query interrupted"
    if bare or isinstance(fault, KeyboardInterrupt | duckdb.InterruptException):
        return statement.ended(cancellation.INTERRUPTED)
    return None
