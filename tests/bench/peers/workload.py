"""Statements that one budget answers at equal error: dpsql beside the accounting of other libraries.

python -m tests.bench.peers.workload --cache FOLDER

The workload is a cycle of 50 counts, 30 grouped sums and 20 averages over the RAND people, every statement another question. The 95 %
half-widths are those of dpsql's Laplace noise at epsilon 0.1; every library then pays what it asks for them. Refreshed: every
statement is asked ten times.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import count, islice
from pathlib import Path

import duckdb

import dpsql
from dpsql.clients.dbapi.connection import Connection
from dpsql.core.loss import EpsilonDelta
from dpsql.schema.model import Guard, Schema
from dpsql.schema.toml import read_schema
from tests.bench.peers import environments
from tests.bench.peers.budgets import Question, Request, Total
from tests.bench.small import EXAMPLES
from tests.bench.timing import heading, show

TOTALS = (Total(1.0, 1e-6), Total(4.0, 1e-6))
REFRESHES = (1, 10)
PATTERN = ("count", "sum", "count", "mean", "count", "sum", "count", "mean", "count", "sum")
CYCLE = PATTERN * 10
KINDS = ("count", "sum", "mean")
INCOME = 30_000
SCRIPTS = {"smartnoise-sql": "smartnoise_budget.py", "opendp": "opendp_budget.py"}
LAPLACE = "epsilon=0.1, mechanism=laplace"
"""Of the statements whose half-widths are the target."""
AIM = 2.0
Counts = list[list[int]]
"""Statements that were answered, by total and by refreshes."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.peers.workload", description=__doc__)
    cache = Path(tempfile.gettempdir()) / "dpsql-bench" / "peers"
    parser.add_argument("--cache", type=Path, default=cache, help=f"where environments are kept (default {cache})")
    options = parser.parse_args()
    print(f"Python {platform.python_version()}, {platform.machine()}")
    declared = _declared(Total(1e6, 0.5), "auto")
    with dpsql.connect(declared, ledger=":memory:") as connection:
        asked, gaussian = _request(connection), _errors(connection)
    ways = {
        "dpsql, auto, laplace": ("auto", dict.fromkeys(KINDS, LAPLACE)),
        "dpsql, auto, gaussian": ("auto", gaussian),
        "dpsql, gdp, gaussian": ("gdp", gaussian),
    }
    ours = {name: [_ours(total, *way) for total in TOTALS] for name, way in ways.items()}
    with tempfile.TemporaryDirectory() as scratch:
        theirs = dict(_theirs(Path(scratch), asked, options.cache))
    _report(asked, ours, theirs)


def _declared(total: Total, accounting: str) -> Schema:
    """The RAND people with this budget; the guard warns only, since the statements are made by a program."""
    declared = read_schema(EXAMPLES / "randhie" / "schema.toml")
    budget = EpsilonDelta(Fraction(str(total.epsilon)), Fraction(str(total.delta)))
    privacy = replace(declared.privacy, budget=budget, accounting=accounting)
    return replace(declared, privacy=privacy, guard=Guard("warn", 0))


def _statements() -> Iterator[tuple[str, str]]:
    """Kind and text, without end and without repeats; nearly everybody is in the sums and averages."""
    for i in count():
        kind = CYCLE[i % len(CYCLE)]
        where = {
            "count": f"income < {3000 + 7 * i}",
            "sum": f"income >= {i}",
            "mean": f"physical_limitation <= {1 - i / 1e5:.5f}",
        }
        yield kind, f"{_SELECTS[kind]} WHERE {where[kind]}{' GROUP BY site' if kind == 'sum' else ''}"


_SELECTS = {
    "count": "SELECT COUNT(*) FROM person",
    "sum": "SELECT site, SUM(mental_health_index) FROM person",
    "mean": "SELECT AVG(income) FROM person",
}


def _first() -> dict[str, str]:
    """The first statement of every kind."""
    found: dict[str, str] = {}
    for kind, sql in islice(_statements(), len(PATTERN)):
        found.setdefault(kind, sql)
    return found


def _request(connection: Connection) -> Request:
    """The question to the others."""
    (mean, people), *_ = duckdb.execute(
        f"SELECT avg(income), count(*) FROM read_parquet('{EXAMPLES / 'randhie' / 'person.parquet'}')"
    ).fetchall()
    found = {kind: _width(connection, sql, LAPLACE) for kind, sql in _first().items()}
    questions = (
        Question("count", found["count"]),
        Question("sum", found["sum"], 100.0),
        Question("mean", found["mean"] * people, float(INCOME), float(mean)),
    )
    return Request(questions, tuple(KINDS.index(kind) for kind in CYCLE), TOTALS, REFRESHES)


def _errors(connection: Connection) -> dict[str, str]:
    """For every kind the option that gives Gaussian noise the half-width of LAPLACE.

    An error is asked for all declared people in the worst case, and an average is released with what its rows and its value make of it:
    the two are in proportion.
    """
    found = {}
    for kind, sql in _first().items():
        wanted = error = _width(connection, sql, LAPLACE)
        if kind == "mean":
            error *= wanted / _width(connection, sql, f"error={error:.3f}, mechanism=gaussian")
        found[kind] = f"error={error:.3f}, mechanism=gaussian"
    return found


def _width(connection: Connection, sql: str, options: str) -> float:
    """The 95 % half-width that a released answer comes with."""
    cell = connection.execute(f"/* dpsql: {options}, fresh */ {sql}").accuracy[0][-1]
    return (cell.high - cell.low) / 2


def _ours(total: Total, accounting: str, options: dict[str, str]) -> list[int]:
    """As a session answers until it refuses. What was answered is then asked again, which has to be free."""
    with dpsql.connect(_declared(total, accounting), ledger=":memory:") as connection:
        answered: list[str] = []
        try:
            for kind, sql in _statements():
                text = f"/* dpsql: {options[kind]} */ {sql}"
                connection.execute(text).fetchall()
                answered.append(text)
        except dpsql.BudgetError:
            pass
        for _ in range(max(REFRESHES) - 1):
            for text in answered:
                if not connection.execute(text).privacy.cached:
                    raise SystemExit(f"a repeat was charged: {text}")
    return [len(answered)] * len(REFRESHES)


def _theirs(folder: Path, asked: Request, cache: Path) -> Iterator[tuple[str, Counts]]:
    """The counts of every peer that can be installed and runs; nothing is computed for another."""
    request = folder / "request.json"
    asked.write(request)
    for peer in environments.PEERS:
        script = SCRIPTS.get(peer.name)
        if script is None:
            continue
        target = folder / f"{peer.name}.json"
        try:
            interpreter = environments.python(peer, cache)
            environments.run([str(interpreter), str(Path(__file__).with_name(script)), str(request), str(target)])
        except (subprocess.CalledProcessError, OSError) as failed:
            print(f"{peer.name} is left out: {environments.reason(failed)}", flush=True)
            continue
        found = json.loads(target.read_text())
        print(f"{peer.name}: {found['versions']}", flush=True)
        for note in found["notes"]:
            print(f"  {note}", flush=True)
        for way in found["ways"]:
            yield f"{peer.name}, {way['name']}", way["counts"]


def _report(asked: Request, ours: dict[str, Counts], theirs: dict[str, Counts]) -> None:
    heading("statements answered within one budget, at equal 95 % half-widths")
    widths = dict(zip(KINDS, asked.questions, strict=True))
    print(
        f"half-widths: COUNT {widths['count'].half_width:g}, SUM of [0, 100] by site {widths['sum'].half_width:g}, "
        f"AVG of [0, 30,000] {widths['mean'].half_width:,.0f} / rows, at a mean of {widths['mean'].mean:,.0f}"
    )
    columns = [(t, r) for t in range(len(asked.totals)) for r in range(len(asked.refreshes))]
    titles = [f"epsilon {asked.totals[t].epsilon:g}{_refreshed(asked.refreshes[r])}" for t, r in columns]
    body = [(name, *(f"{counts[t][r]:,}" for t, r in columns), "") for name, counts in (*ours.items(), *theirs.items())]
    for peer in dict.fromkeys(name.partition(",")[0] for name in theirs):
        best = [max(c[t][r] for name, c in theirs.items() if name.startswith(peer)) for t, r in columns]
        ratios = [
            max(c[t][r] for c in ours.values()) / max(1, most) for (t, r), most in zip(columns, best, strict=True)
        ]
        verdict = "met" if ratios[0] >= AIM else "MISSED"
        said = f"aim {AIM:g} or more without repeats: {verdict}"
        body.append((f"dpsql's best over the best of {peer}", *(f"{ratio:.2f}" for ratio in ratios), said))
    show((f"delta {asked.totals[0].delta:g}", *titles, ""), body)


def _refreshed(times: int) -> str:
    return "" if times == 1 else f", refreshed {times}x"


if __name__ == "__main__":
    main()
