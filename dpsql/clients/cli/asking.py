"""Statements of the command line, one after the other: each is answered and written before the next is asked."""

from __future__ import annotations

import argparse
import gc
import os
import shutil
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

import dpsql
from dpsql.clients.cli.complaints import complain
from dpsql.clients.terminal.show import FOR_PEOPLE, ResultStyle, answered, is_asked_back, question, show, status
from dpsql.clients.terminal.statements import TypedStatement, read_text, split
from dpsql.core.errors import Error, error
from dpsql.core.escaping import harmless

if TYPE_CHECKING:
    from dpsql.clients.dbapi.connection import Connection
    from dpsql.clients.dbapi.cursor import Cursor

STANDARD_INPUT = "standard input"
SEPARATED = ("csv", "tsv", "markdown")  # modes where an empty line stands between results


def ask(options: argparse.Namespace) -> int:
    """Answer all statements; the first error ends it. Returns the exit code.

    options  of the command line; `asked` is a list of ("sql", text) and ("file", path), or None for standard input
    """
    statements = [one for kind, given in options.asked or [("file", "-")] for one in _statements(kind, given)]
    writer = ResultWriter(sys.stdout if sys.stdout is not None else open(os.devnull, "w"), options)  # noqa: SIM115
    with opened(options) as connection:
        if options.yes:
            connection.execute("SET dp_buy = on").close()
        for statement in statements:
            try:
                writer.answer(connection, statement)
            except Error as problem:
                return complain(problem, statement.message(problem))
    return 0


def opened(options: argparse.Namespace) -> Connection:
    """A new connection to the schema, analyst and ledger of a command line. Raises as dpsql.connect.

    Why  what modules make while they load stays for as long as the process: to look through it for garbage, then and later, takes a
         tenth of a start
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        return dpsql.connect(options.schema, analyst=options.analyst, ledger=options.ledger)
    finally:
        if collects:
            if not gc.get_freeze_count():
                gc.freeze()
            gc.enable()


def _statements(kind: str, given: str) -> Sequence[TypedStatement]:
    if kind == "sql":
        return split(given)
    return split(read(given), STANDARD_INPUT if given == "-" else given)


def read(path: str) -> str:
    """The text of a file; `-` is standard input. Raises 802."""
    if path == "-" and sys.stdin is not None and sys.stdin.isatty():
        print("write statements that end in ; and then Ctrl-D (or give them with -c)", file=sys.stderr)
    if path != "-":
        return read_text(path)
    try:
        given = getattr(sys.stdin, "buffer", None)  # as UTF-8, whatever the locale is
        return given.read().decode("utf-8-sig") if given is not None else sys.stdin.read() if sys.stdin else ""
    except (OSError, UnicodeDecodeError):
        pass
    raise error(802, f"{STANDARD_INPUT} cannot be read as text", hint="write UTF-8")


class ResultWriter:
    """Writes results as the command line asks for.

    For people a result is its rows, what the guard warns of, and its status. For programs it is its rows alone, as UTF-8; the rest
    goes to standard error, the status where that is a terminal.
    """

    def __init__(self, out: TextIO, options: argparse.Namespace) -> None:
        terminal = out.isatty()
        self._out = out
        self._mode: str = options.mode or ("table" if terminal else "csv")
        self._people = self._mode in FOR_PEOPLE
        # a plan is lines for people unless a mode was asked for by name
        self._plans_as_lines = self._people or options.mode is None
        self._beside = out if self._people else sys.stderr
        seen = self._people or self._beside.isatty()
        self._status: bool = options.status if options.status is not None else seen
        width = shutil.get_terminal_size().columns if terminal else None
        self._how = ResultStyle(options.accuracy, width, terminal and coloured())
        self._written = 0
        _encode(out, "backslashreplace" if self._people or terminal else None)

    def answer(self, connection: Connection, statement: TypedStatement) -> None:
        """Ask one statement and write its result, up to the reader."""
        with _asked(connection, statement.sql) as cursor:
            rows = self._rows(cursor, statement)
            warned = [str(warning) for _, warning in cursor.messages]
            for note in cursor.notes if self._status else warned:
                self._beside.write(harmless(f"note: {note}") + "\n")
            if self._status:
                line = status(cursor, rows)
                self._beside.write((line if self._people else line.replace("\n", "; ")) + "\n")
        self._out.flush()

    def _rows(self, cursor: Cursor, statement: TypedStatement) -> int:
        if self._plans_as_lines and statement.explains:
            plan = cursor.fetchall()
            self._out.writelines(harmless(str(row[0])) + "\n" for row in plan)
            return len(plan)
        if self._written and cursor.description and self._mode in SEPARATED:
            self._out.write("\n")
        self._written += bool(cursor.description)
        rows = show(cursor, self._mode, self._out, self._how)
        if not self._people:
            self._out.flush()
        return rows


def _asked(connection: Connection, sql: str) -> Cursor:
    """Ask a statement; where what is stored answers it too, whoever sits before the terminal says whether it is bought."""
    try:
        return connection.execute(sql)
    except Error as problem:
        if not is_asked_back(problem) or not sys.stdin.isatty() or not sys.stdout.isatty():
            raise
        asked = question(problem)
    return connection.execute(answered(sql, bought=input(harmless(asked)).strip().lower() in ("y", "yes")))


def coloured() -> bool:
    """True if the terminal is to be given colours: https://no-color.org, and terminals that know no codes."""
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM", "dumb") != "dumb"


def _encode(out: TextIO, errors: str | None) -> None:
    """Make an output take every character: as UTF-8, or with escapes for those that it lacks."""
    reconfigure = getattr(out, "reconfigure", None)
    if reconfigure is None:
        return
    if errors is None:
        reconfigure(encoding="utf-8", newline="\n")
    else:
        reconfigure(errors=errors)
