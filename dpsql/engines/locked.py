"""In-memory DuckDB connections that reach only what they are given: the wall behind the allow-list of statements."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

import duckdb

from dpsql.errors import error

Settings = dict[str, str | bool | int | float | list[str]]
Result = TypeVar("Result")
POLL = 0.05  # [seconds] between two looks at whether an interrupted statement has stopped
BASE_SETTINGS: Settings = {
    "python_enable_replacements": False,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "allow_community_extensions": False,
    "allow_persistent_secrets": False,
    "default_collation": "",
}


def connect(spill: Path | None, threads: int | None = None) -> duckdb.DuckDBPyConnection:
    """A new in-memory database that still may open files; what it cannot hold in memory goes to `spill`, or nowhere."""
    settings: Settings = {**BASE_SETTINGS, "temp_directory": str(spill) if spill else ""}
    if threads is not None:
        settings["threads"] = threads
    connection = duckdb.connect(":memory:", config=settings)
    # casts between timestamps with and without a zone would else depend on where the program runs
    connection.execute("SET TimeZone = 'UTC'")
    # DuckDB 2.0 moves TRY_CAST into its CSV reader, and a value that does not fit then loses its whole row
    connection.execute(f"SET GLOBAL disabled_optimizers = {text(_known_optimizer(connection, 'type_pushdown'))}")
    return connection


def _known_optimizer(connection: duckdb.DuckDBPyConnection, optimizer: str) -> str:
    """The name of an optimizer, or nothing where this DuckDB does not have it."""
    found = connection.execute("SELECT name FROM duckdb_optimizers() WHERE name = ?", [optimizer]).fetchall()
    return optimizer if found else ""


def lock(connection: duckdb.DuckDBPyConnection, allowed: Iterable[Path] = ()) -> None:
    """Close the way to every file but the allowed ones, and to the settings; it cannot be opened again."""
    paths = ", ".join(text(str(path)) for path in allowed)
    connection.execute(f"SET allowed_paths = [{paths}]")
    connection.execute("SET enable_external_access = false")
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


def interruptible(connection: duckdb.DuckDBPyConnection, work: Callable[[], Result]) -> Result:
    """Run something that may take long on a connection, so that Ctrl-C stops it at once and raises KeyboardInterrupt.

    DuckDB 2.0 notices Ctrl-C only by luck when the main thread is busy inside it, so there another thread does the work.
    """
    if threading.current_thread() is not threading.main_thread():
        return work()
    results: list[Result] = []
    faults: list[BaseException] = []
    # not Thread.join: Python 3.11 takes a thread for dead when Ctrl-C comes in the middle of it
    done = threading.Event()
    worker = threading.Thread(target=_collect, args=(work, results, faults, done), daemon=True)
    stopped = not _started(worker)
    while not done.is_set():
        try:
            done.wait(POLL)
        except KeyboardInterrupt:
            stopped = True
        if stopped and worker.ident is None:
            # Ctrl-C came before the thread began, so it never will
            break
        if stopped:
            connection.interrupt()
    if stopped:
        raise KeyboardInterrupt
    if faults:
        raise faults[0]
    return results[0]


def _started(worker: threading.Thread) -> bool:
    """Start a thread; False if Ctrl-C came meanwhile."""
    try:
        worker.start()
    except KeyboardInterrupt:
        return False
    return True


def _collect(
    work: Callable[[], Result], results: list[Result], faults: list[BaseException], done: threading.Event
) -> None:
    try:
        results.append(work())
    except BaseException as fault:
        faults.append(fault)
    finally:
        done.set()


def was_interrupted(fault: BaseException) -> bool:
    """Whether DuckDB stopped because it was asked to; for Ctrl-C it raises a bare RuntimeError."""
    if isinstance(fault, KeyboardInterrupt | duckdb.InterruptException):
        return True
    return isinstance(fault, RuntimeError) and str(fault) == "Query interrupted"


def name(identifier: str) -> str:
    """An identifier in double quotes."""
    return '"' + identifier.replace('"', '""') + '"'


def text(value: str) -> str:
    """A text literal."""
    return "'" + value.replace("'", "''") + "'"
