"""The owner's verbs of the command line: init, check, tune, workload, practice, audit, refresh, budget and guard."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpsql.core.errors import error
from dpsql.core.escaping import harmless
from dpsql.schema.toml import read_schema

if TYPE_CHECKING:
    from dpsql.accounting.ledger import Ledger
    from dpsql.accounting.reporting import BudgetReport
    from dpsql.schema.model import Schema

WIDTH = 80  # of what is drawn, where there is no terminal
_DESCRIPTIONS = {
    "init": "Draft a schema from the names and types of a folder, a file or a database; no bounds are taken from the data.",
    "check": "Verify the ledger and the structure, show exact facts, and approve this version of the data. For the owner's eyes.",
    "tune": "Show how exact statements are at several prices, how many fit, and what the limits cut. For the owner's eyes.",
    "workload": "Find the cubes that answer statements which come again and again, and buy them on yes.",
    "practice": "Write invented data, from the declarations alone, and a schema for it whose budget does not end.",
    "audit": "Bound from below what statements lose, drawn many times on invented neighbours, beside their claim. Charges nothing.",
    "refresh": "Approve data that changed, and verify the tables that did; shows no facts, and nothing where nothing changed.",
    "budget": "Show what is spent, by whom, and what is left.",
    "guard": "Show what the guard remembers of charged statements, and let it forget some.",
}


def run(verb: str, given: Sequence[str]) -> int:
    """Run one verb with what stands behind it, and return the exit code. Raises dpsql.Error."""
    options = parser_of(verb).parse_intermixed_args(given)
    if verb == "workload":
        _work(options)
    elif verb == "audit":
        return _audit(options)
    elif text := _report(verb, options):
        _print(text)
    return 0


def parser_of(verb: str) -> argparse.ArgumentParser:
    """The parser of what stands behind a verb."""
    parser = argparse.ArgumentParser(prog=f"dpsql {verb}", description=_DESCRIPTIONS[verb])
    parser.add_argument("target", metavar="SOURCE" if verb == "init" else "SCHEMA")
    for verbs, names, form, about in _OPTIONS:
        if verb in verbs.split():
            parser.add_argument(*names.split(), **form, help=about)
    return parser


def _work(options: argparse.Namespace) -> None:
    """Print the cubes of a workload, and buy them on yes."""
    from dpsql.session.opening import open_session

    with closing(open_session(options.target, options.analyst, options.ledger)) as session:
        statements = _statements(options)
        if options.dashboard is not None:
            from dpsql.clients.superset.charts import statements_of

            found = statements_of(options.dashboard, session)
            statements += found.sql
            for one in found.left:
                _print(f"left out: {one}")
        report = session.workload(statements, options.epsilon)
        _print(str(report))
        if not report.cubes:
            return
        if not options.yes and not _agreed():
            _print("nothing was bought")
            return
        for cube in report.cubes:
            receipt = session.execute(cube.sql).receipt
            _print(f"{cube.name}: {'stored already, free' if receipt.id is None else f'bought, charge {receipt.id}'}")


def _audit(options: argparse.Namespace) -> int:
    """Print what statements can be seen to lose; 1 where one loses more than it claims."""
    from dpsql.clients.terminal.progress import progress
    from dpsql.session.auditing import audit

    schema = read_schema(options.target)
    with closing(_opened(schema, options)) as ledger, progress(sys.stderr) as told:
        report = audit(schema, ledger, _statements(options), options.releases, told)
    _print(str(report))
    return 1 if report.exceeds else 0


def _agreed() -> bool:
    """True if whoever sits before the terminal says yes; of who sits before none nobody takes it for granted."""
    if not sys.stdin.isatty() or not sys.stdout.isatty():
        _print("--yes buys them")
        return False
    try:
        return input("Buy these cubes? [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False


def _statements(options: argparse.Namespace) -> list[str]:
    """The statements behind -c and -f."""
    from dpsql.clients.cli.asking import read
    from dpsql.clients.terminal.statements import split

    texts = [*options.given, *([read(options.file)] if options.file is not None else [])]
    return [one.sql for text in texts for one in split(text)]


def _print(report: str) -> None:
    """Every report of the owner's: its lines, and nothing else that a terminal would obey. JSON and drafts hold no such character."""
    print(harmless(report, kept="\n"), flush=True)


def _opened(schema: Schema, options: argparse.Namespace) -> Ledger:
    from dpsql.accounting.ledger import Ledger
    from dpsql.session.opening import default_ledger, ledger_identity

    return Ledger.open(options.ledger or default_ledger(schema), ledger_identity(schema))


def _report(verb: str, options: argparse.Namespace) -> str:
    if verb == "init":
        return _drafted(options)
    schema = read_schema(options.target)
    with closing(_opened(schema, options)) as ledger:
        return _REPORTS[verb](schema, ledger, options)


def _drafted(options: argparse.Namespace) -> str:
    """The first schema, with the owner's answers where there is somebody to ask; at a terminal it is written to schema.toml."""
    from dpsql.clients.cli.wizard import asked, sniffs, written
    from dpsql.dataset import owner

    if options.yes or sys.stdin is None or not sys.stdin.isatty() or not sys.stderr.isatty():
        return owner.init(options.target, sniff=options.sniff)
    text = owner.init(options.target, sniff=options.sniff or sniffs(options.target), ask=asked)
    return "" if sys.stdout.isatty() and written(text) else text


def _practised(schema: Schema, ledger: Ledger, options: argparse.Namespace) -> str:
    from dpsql.session.practising import practice

    path = practice(schema, ledger, Path(options.folder or f"{schema.name}-practice"))
    return f"written: invented data of {schema.name}, which tells nothing of people; ask it with: dpsql {path}"


def _refreshed(schema: Schema, ledger: Ledger, options: argparse.Namespace) -> str:
    """The report of `refresh`, of what it makes others pay, and of what `[refresh]` lists. Raises what the first of these raised, after
    all of them."""
    revise = [name.strip() for name in options.revise.split(",")] if options.revise is not None else []
    if options.dry_run and revise:
        raise error(802, "--dry-run tells what comes by itself", hint="leave --revise out, or --dry-run")
    if options.dry_run:
        from dpsql.session.foretelling import forecast

        foretold = forecast(schema, ledger)
        return foretold.json if options.json else str(foretold)
    from dpsql.dataset import owner

    report = owner.refresh(schema, ledger, revise)
    if schema.refresh is None and report.before is None:
        return report.json if options.json else str(report)
    from dpsql.session.refreshing import buy

    if not options.json and str(report):
        _print(str(report))
    found = buy(schema, ledger, lambda text: None if options.json else _print(text), before=report.before)
    if options.json:
        told = {
            "outdated": [one.fields for one in found.outdated],
            "statements": [one.fields for one in found.purchases],
            **({"sizes": dict(found.sizes)} if found.sizes else {}),
        }
        _print(json.dumps({**json.loads(report.json), **told}, indent=2))
    for one in found.purchases:
        if one.problem is not None:
            raise one.problem
    return ""


def _tuned(schema: Schema, ledger: Ledger, options: argparse.Namespace) -> str:
    from dpsql.clients.terminal.progress import progress
    from dpsql.session.tuning import tune

    with progress(sys.stderr) as told:
        report = tune(schema, ledger, _statements(options), told)
    if options.plot is not None:
        from dpsql.clients.output.tuned import draw

        draw(report, options.plot)
    return report.json if options.json else str(report)


def _checked(schema: Schema, ledger: Ledger, options: argparse.Namespace) -> str:
    """The report of `check`, and of the sizes where these are asked for. Raises 802 where a price is given for nothing."""
    from dpsql.clients.cli.asking import read
    from dpsql.clients.terminal.progress import progress
    from dpsql.dataset import owner

    if options.epsilon is not None and not options.sizes:
        raise error(802, "--epsilon is the price of --sizes", hint="write --sizes too, or leave --epsilon out")
    known = owner.certificate(read(options.certificate)) if options.certificate is not None else []
    with progress(sys.stderr) as told:
        report = owner.check(
            schema, ledger, prepare=options.prepare, certificates=known, new_ledger=options.new_ledger, told=told
        )
    if not options.sizes:
        return str(report)
    from dpsql.session.sizing import buy_sizes

    _print(f"{report}\n")
    sizing = buy_sizes(schema, ledger, options.epsilon)
    if sizing.stopped is not None:
        _print(str(sizing))
        raise sizing.stopped
    return str(sizing)


def _price(text: str) -> Fraction:
    """An epsilon, exactly."""
    try:
        found = Fraction(Decimal(text))
    except (InvalidOperation, OverflowError):
        found = Fraction(0)
    if not 0 < found < 10**9:
        raise argparse.ArgumentTypeError(f"{text!r} is no epsilon; write a number above 0, such as 0.5")
    return found


def _count(text: str) -> int:
    """A number of releases."""
    if not text.isdecimal() or not 1000 <= int(text) <= 10**7:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of releases; write one from 1000 to 10000000")
    return int(text)


def _budget(schema: Schema, ledger: Ledger, options: argparse.Namespace) -> str:
    """The owner's report, in a terminal with a plot; or what failed, which the owner has seen once it is printed."""
    from dpsql.dataset import owner

    if options.failures:
        failed = owner.failures(ledger)
        _print(str(failed))
        if failed.unseen:
            ledger.clear_failures(failed.last)
        return ""
    report = owner.budget(schema, ledger)
    if options.json:
        return report.json
    shown = options.plot or sys.stdout.isatty()
    return "\n\n".join([str(report), *([_plot(report)] if shown and len(report.charges) > 1 else [])])


def _guarded(schema: Schema, ledger: Ledger, options: argparse.Namespace) -> str:
    from dpsql.session.history import guard_report

    return str(guard_report(schema, ledger, options.forget))


_REPORTS: dict[str, Callable[[Schema, Ledger, argparse.Namespace], str]] = {
    "budget": _budget,
    "check": _checked,
    "guard": _guarded,
    "practice": _practised,
    "refresh": _refreshed,
    "tune": _tuned,
}


def _plot(report: BudgetReport) -> str:
    """Prices added up over time, as wide as the terminal; in plain characters where it shows no others."""
    import shutil
    from datetime import datetime

    from dpsql.clients.terminal.plot import EIGHTHS, plot
    from dpsql.clients.terminal.show import can_show
    from dpsql.mechanisms.prices import nominal

    known = sys.stdout.isatty() or "COLUMNS" in os.environ
    width = shutil.get_terminal_size().columns if known else WIDTH
    moments = [datetime.fromisoformat(entry.time) for entry in report.charges]
    prices = [float(nominal(entry.loss)) for entry in report.charges]
    return "epsilon charged, added up\n" + plot(moments, prices, width, plain=not can_show(sys.stdout, EIGHTHS))


_SWITCH: dict[str, Any] = {"action": "store_true"}
_OF_STATEMENTS = "tune workload audit"
_OPTIONS: tuple[tuple[str, str, dict[str, Any], str], ...] = (
    ("init", "--sniff", _SWITCH, "take the types of CSV and JSON columns from their values: it reads all rows"),
    ("init", "--yes", _SWITCH, "ask nothing: the draft as names and types give it"),
    (" ".join(_DESCRIPTIONS.keys() - {"init"}), "--ledger", {"metavar": "PATH"}, "the ledger's file"),
    ("check", "--prepare", _SWITCH, "write a copy of the private tables, sorted by unit, beside the ledger, for faster answers"),
    ("check", "--new-ledger", _SWITCH, "bind the data to this ledger, in place of another one: what was spent there counts no more"),
    ("check", "--certificate", {"metavar": "FILE"}, "a certificate, or a JSON list of them: their charges must be in the ledger"),
    ("check", "--sizes", _SWITCH,
     "buy how often the values of each column occur: the guard then counts on that, not on the declarations alone"),
    ("check", "--epsilon", {"metavar": "E", "type": _price},
     "of --sizes, for all columns together; without it the most that one statement may spend"),
    ("guard", "--forget", {"metavar": "CHARGES"},
     "let the guard forget these charged statements: their numbers, such as 3,5-7, or all"),
    ("practice", "folder", {"metavar": "FOLDER", "nargs": "?"}, "a new folder; NAME-practice where none is given"),
    (_OF_STATEMENTS, "-c", {"dest": "given", "metavar": "SQL", "action": "append", "default": []}, "statements, with ; between them"),
    (_OF_STATEMENTS, "-f", {"dest": "file", "metavar": "FILE"}, "a file of them (- is standard input)"),
    ("workload", "--dashboard", {"metavar": "ZIP"},
     "a dashboard as Superset exports it: the statements of its charts and filters; needs the extra dpsql[workload]"),
    ("workload", "--epsilon", {"metavar": "E", "type": _price}, "of all cubes together"),
    ("workload", "--analyst", {"metavar": "NAME"}, "who pays"),
    ("workload", "--yes", _SWITCH, "buy the cubes without being asked"),
    ("audit", "--releases", {"metavar": "N", "type": _count, "default": 100_000},
     "draws of each release on each of two databases (100000)"),
    ("tune", "--plot", {"metavar": "FILE"}, "draw the errors over the price: a .png, .svg or .pdf; needs the extra dpsql[examples]"),
    ("refresh", "--dry-run", _SWITCH,
     "approve and buy nothing: say which tables changed, and what stored statements would cost who asks them again"),
    ("refresh", "--revise", {"metavar": "PERIODS"},
     "take these closed periods from the source again, such as 2025-03,2025-04, or all: what is stored of them is asked anew"),
    ("budget refresh tune", "--json", _SWITCH, "print everything as one JSON object"),
    ("budget", "--failures", _SWITCH, "show the statements that failed after they were charged, and let analysts ask again"),
    ("budget", "--plot", _SWITCH, "draw what was spent over time (in a terminal: always)"),
)  # fmt: skip
"""Options: of which verbs, their names, their forms, and what they are for."""
