"""The command line: `dpsql SCHEMA -c SQL`, the owner's verbs, and serve and user.

Exit codes: 0 answered, 1 refused, 2 usage or schema, 3 budget exhausted, 4 engine or ledger failure, 130 interrupted.
"""

from __future__ import annotations

import argparse
import difflib
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from dpsql import __version__
from dpsql.clients.cli.complaints import FAILED, INTERRUPTED, complain
from dpsql.clients.terminal.show import MODES

OPTIONS = ("--accuracy", "--analyst", "--help", "--ledger", "--mode", "--no-status", "--status", "--version", "--yes")
VERBS = ("init", "check", "tune", "workload", "practice", "audit", "refresh", "budget", "guard")
SERVING = ("serve", "user")
HELPING = ("help", "completion")
EPILOG = """without -c and -f, statements are read from standard input; in a terminal, a session opens.

owner's verbs:
  dpsql init SOURCE     draft a schema from the names and types of a folder, DuckDB file or database; at a terminal it asks,
                        --yes asks nothing, --sniff takes types of CSV and JSON columns from their values
  dpsql check SCHEMA    verify ledger and structure, show exact facts, approve the data (for the owner's eyes);
                        --prepare also writes a sorted private copy beside the ledger, for faster answers;
                        --sizes buys how often the values of each column occur, for the guard to count on
  dpsql tune SCHEMA     how exact statements are at several prices, how many fit, and what the limits cut (for the owner's eyes):
                        -f FILE or -c SQL names them, else those that were charged; --plot FILE draws it
  dpsql workload SCHEMA -f FILE
                        the cubes that answer the statements of a file, their price, and every error off them and bought alone;
                        --epsilon E is the price of all of them, and --yes buys them; --dashboard ZIP takes the statements from a
                        dashboard that Superset exported
  dpsql practice SCHEMA [FOLDER]
                        write invented data, from the declarations alone, and a schema whose budget does not end, to try statements on
  dpsql audit SCHEMA    lower bounds of what statements lose, beside what they claim; exit code 1 where one is above its claim:
                        -f FILE or -c SQL names them, else a few over each table; on invented tables, nothing is charged
  dpsql refresh SCHEMA  approve data that changed, and verify what is new; says nothing where nothing is (for a timetable);
                        --dry-run says beforehand what that makes stored statements cost
  dpsql budget SCHEMA   what is spent and what is left; --json prints all of it, --plot draws it over time;
                        --failures shows what failed after the charge, and lets its analysts ask again
  dpsql guard SCHEMA    what the guard remembers of charged statements; --forget 3,5-7 lets it forget some
  dpsql serve SCHEMA... answer analysts who come with PostgreSQL's protocol: psql, any driver, any tool; with --http also over HTTP
  dpsql user VERB ...   add, token, owner, list, remove: who may log in to the server, with which password and which tokens

  dpsql help [VERB]     this page, or that of one verb
  dpsql completion SHELL
                        what bash, zsh or fish need to complete dpsql's words: eval "$(dpsql completion bash)"

exit codes: 0 answered, 1 refused, 2 usage or schema, 3 budget exhausted, 4 engine or ledger failure, 130 interrupted"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        code = _run(given)
        if sys.stdout is not None:
            sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        print("interrupted; what was charged stays charged", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # The reader has seen enough.
        _close_output()
        return 0
    except OSError as problem:
        _close_output()
        print(f"the result cannot be written: {problem.strerror}; what was charged stays charged", file=sys.stderr)
        return FAILED


def _run(given: list[str]) -> int:
    from dpsql.core.errors import Error

    try:
        for verbs, module in ((VERBS, "verbs"), (SERVING, "serving"), (HELPING, "helping")):
            if given and given[0] in verbs:
                return int(import_module(f"dpsql.clients.cli.{module}").run(given[0], given[1:]))
        return _ask(given)
    except Error as problem:
        return complain(problem, str(problem))


def _close_output() -> None:
    """Nothing more is written, not even what is still held back for the end of the process."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _ask(given: list[str]) -> int:
    parser = parser_of_questions()
    options, unread = parser.parse_known_args(given)
    if unread:
        parser.error(_meant(unread[0], options.schema))
    if options.asked is None and sys.stdin is not None and sys.stdin.isatty():
        return _session(options)
    from dpsql.clients.cli.asking import ask

    return ask(options)


def _meant(word: str, schema: str) -> str:
    """Explain a word of the command line that means nothing, and the one to write."""
    if word.startswith("-"):
        near = difflib.get_close_matches(word.partition("=")[0], OPTIONS, 1, 0.7)
        return f"there is no option {word}; " + (f"did you mean {near[0]}?" if near else "dpsql --help lists them")
    for said, rest in ((schema, ""), (word, f" {schema}")):
        verb = difflib.get_close_matches(said, (*VERBS, *SERVING, *HELPING), 1, 0.7)
        if verb:
            return f"did you mean dpsql {verb[0]}{rest}?"
    return f"{word} has no option before it; write a statement behind -c"


def parser_of_questions() -> argparse.ArgumentParser:
    """The parser of a command line that names a schema first."""
    parser = argparse.ArgumentParser(
        prog="dpsql",
        description="Ask SQL questions about private data and get differentially private answers.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"dpsql {__version__}")
    parser.add_argument(
        "schema",
        metavar="SCHEMA",
        help="path of a schema.toml, or https://HOST:8439/DATASET (DPSQL_TOKEN is its token)",
    )
    sql, file = "statements, with ; between them; may be given more than once", "a file of them (- is standard input)"
    parser.add_argument("-c", dest="asked", metavar="SQL", action="append", type=lambda text: ("sql", text), help=sql)
    parser.add_argument(
        "-f", dest="asked", metavar="FILE", action="append", type=lambda name: ("file", name), help=file
    )
    parser.add_argument(
        "--mode", choices=MODES, metavar="MODE", help=f"{', '.join(MODES)}; else table in a terminal, csv elsewhere"
    )
    parser.add_argument("--accuracy", action="store_true", help="draw each value with its 95 %% error")
    status = "say what each statement cost; else where a person can see it"
    parser.add_argument("--status", action=argparse.BooleanOptionalAction, help=status)
    agreed = "buy without a question what could be read off what is stored, with a larger error"
    parser.add_argument("--yes", action="store_true", help=agreed)
    parser.add_argument("--analyst", metavar="NAME", help="who asks")
    parser.add_argument("--ledger", metavar="PATH", help="the ledger's file, or :memory:")
    return parser


def _session(options: argparse.Namespace) -> int:
    """The session in a terminal; without prompt_toolkit it asks for plain lines."""
    from dpsql.clients import repl
    from dpsql.clients.cli.asking import opened

    with opened(options) as connection:
        return repl.run(connection, options)
