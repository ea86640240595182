"""The command line: `dpsql SCHEMA -c SQL`, and the owner's verbs init, check and budget.

Exit codes: 0 answered, 1 refused, 2 usage or schema, 3 budget exhausted, 4 engine or ledger failure, 130 interrupted.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dpsql.clients.dbapi import Connection, Cursor
    from dpsql.errors import Error
    from dpsql.reporting import BudgetReport

VERBS = ("init", "check", "budget")
INTERRUPTED = 130
WIDTH = 80  # of what is drawn, where there is no terminal
EPILOG = """owner's verbs:
  dpsql init SOURCE     draft a schema from the names and types of a folder or DuckDB file
  dpsql check SCHEMA    verify ledger and structure, show exact facts, approve the data (for the owner's eyes);
                        --prepare also writes a sorted private copy beside the ledger, for faster answers
  dpsql budget SCHEMA   what is spent and what is left; --json prints all of it, --plot draws it over time

exit codes: 0 answered, 1 refused, 2 usage or schema, 3 budget exhausted, 4 engine or ledger failure, 130 interrupted"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        return _owner(given) if given and given[0] in VERBS else _ask(given)
    except KeyboardInterrupt:
        print("interrupted; what was charged stays charged", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # The reader has seen enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _ask(given: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="dpsql",
        description="Ask SQL questions about private data and get differentially private answers.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("schema", metavar="SCHEMA", help="path of a schema.toml")
    parser.add_argument(
        "-c", dest="sql", metavar="SQL", action="append", help="a statement; may be given more than once"
    )
    parser.add_argument("-f", dest="file", metavar="FILE", help="a file of one statement (- reads standard input)")
    parser.add_argument("--analyst", metavar="NAME", help="who asks")
    parser.add_argument("--ledger", metavar="PATH", help="the ledger's file, or :memory:")
    options = parser.parse_args(given)
    from dpsql.errors import Error

    try:
        return _statements(options)
    except Error as problem:
        return _complain(problem)


def _statements(options: argparse.Namespace) -> int:
    import dpsql

    statements = list(options.sql or [])
    if options.file is not None or not statements:
        statements.append(_read(options.file))
    with dpsql.connect(options.schema, analyst=options.analyst, ledger=options.ledger) as connection:
        for sql in statements:
            _show(connection, sql)
    return 0


def _read(path: str | None) -> str:
    from dpsql.errors import error

    if path in (None, "-"):
        if sys.stdin.isatty():
            print("write one statement, then Ctrl-D (or give it with -c)", file=sys.stderr)
        return sys.stdin.read()
    assert path is not None
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError):
        pass
    raise error(802, f"{path} cannot be read as text", hint="name a readable UTF-8 file")


def _show(connection: Connection, sql: str) -> None:
    from dpsql.clients.table import table

    with connection.execute(sql) as cursor:
        names = [column[0] for column in cursor.description or []]
        rows = cursor.fetchall()
        if names == ["plan"] and sql.lstrip()[:7].upper() == "EXPLAIN":
            print("\n".join(str(row[0]) for row in rows))
        elif names:
            print(table(names, rows))
        for note in cursor.notes:
            print(f"note: {note}")
        print(_status(cursor, names, len(rows)))


def _status(cursor: Cursor, names: list[str], rows: int) -> str:
    """What stands under a result: error bars, price and what is left."""
    from dpsql.clients.table import error_bars, number

    privacy = cursor.privacy
    lines = [error_bars(names, cursor.accuracy)]
    price = "stored answer, free" if privacy.cached else "free"
    if privacy.releases:
        price = f"price: epsilon {number(privacy.epsilon)}" + (
            f", delta {number(privacy.delta)}" if privacy.delta else ""
        )
    counted = f"{rows:,} row{'s' * (rows != 1)}"
    lines.append(
        f"{counted}; {price}; remaining: epsilon {number(privacy.remaining)}, delta {number(privacy.remaining_delta)}"
    )
    return "\n".join(line for line in lines if line)


def _complain(problem: Error) -> int:
    """Print an error and choose the exit code."""
    from dpsql.errors import BudgetError, IntegrityError, InterfaceError, InternalError, OperationalError, SchemaError

    print(problem, file=sys.stderr)
    if problem.code == "DPSQL-703":
        return INTERRUPTED
    if isinstance(problem, BudgetError):
        return 3
    if isinstance(problem, OperationalError | IntegrityError | InternalError):
        return 4
    return 2 if isinstance(problem, SchemaError | InterfaceError) else 1


def _owner(given: list[str]) -> int:
    verb = given[0]
    parser = argparse.ArgumentParser(prog=f"dpsql {verb}", description=_DESCRIPTIONS[verb])
    parser.add_argument("target", metavar="SOURCE" if verb == "init" else "SCHEMA")
    if verb != "init":
        parser.add_argument("--ledger", metavar="PATH", help="the ledger's file")
    if verb == "check":
        what = "write a copy of the private tables, sorted by unit, beside the ledger, for faster answers"
        parser.add_argument("--prepare", action="store_true", help=what)
        known = "a certificate, or a JSON list of them: their charges must be in the ledger"
        parser.add_argument("--certificate", metavar="FILE", help=known)
    if verb == "budget":
        parser.add_argument("--json", action="store_true", help="print everything as one JSON object")
        parser.add_argument("--plot", action="store_true", help="draw what was spent over time (in a terminal: always)")
    options = parser.parse_args(given[1:])
    from dpsql.errors import Error

    try:
        print(_report(verb, options))
        return 0
    except Error as problem:
        return _complain(problem)


_DESCRIPTIONS = {
    "init": "Draft a schema from the names and types of a folder or DuckDB file; no bounds are taken from the data.",
    "check": "Verify the ledger and the structure, show exact facts, and approve this version of the data. For the owner's eyes.",
    "budget": "Show what is spent, by whom, and what is left.",
}


def _report(verb: str, options: argparse.Namespace) -> str:
    from dpsql import owner
    from dpsql.accounting.ledger import Ledger
    from dpsql.clients.dbapi import default_ledger, ledger_identity
    from dpsql.schema.model import Schema

    if verb == "init":
        return owner.init(options.target)
    schema = Schema.from_toml(options.target)
    ledger = Ledger.open(options.ledger or default_ledger(schema), ledger_identity(schema))
    try:
        if verb == "budget":
            return _budget(owner.budget(schema, ledger), options)
        known = owner.certificate(_read(options.certificate)) if options.certificate is not None else []
        return str(owner.check(schema, ledger, prepare=options.prepare, certificates=known))
    finally:
        ledger.close()


def _budget(report: BudgetReport, options: argparse.Namespace) -> str:
    """The owner's report, in a terminal with a plot."""
    if options.json:
        return report.json
    shown = options.plot or sys.stdout.isatty()
    return "\n\n".join([str(report), *([_plot(report)] if shown and len(report.charges) > 1 else [])])


def _plot(report: BudgetReport) -> str:
    """Prices added up over time, as wide as the terminal; in plain characters where it shows no others."""
    import shutil
    from datetime import datetime

    from dpsql.clients.plot import EIGHTHS, plot
    from dpsql.mechanisms.prices import nominal

    known = sys.stdout.isatty() or "COLUMNS" in os.environ
    width = shutil.get_terminal_size().columns if known else WIDTH
    moments = [datetime.fromisoformat(entry.time) for entry in report.charges]
    prices = [float(nominal(entry.loss)) for entry in report.charges]
    return "epsilon charged, added up\n" + plot(moments, prices, width, plain=not _can_show(EIGHTHS))


def _can_show(text: str) -> bool:
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
