"""How many statements one budget answers at equal error: dpsql beside the accounting of other libraries.

python -m tests.bench.peers.workload --cache FOLDER

The workload is a cycle of 50 counts, 30 grouped sums and 20 averages over the RAND people, every statement another question. The 95 %
half-widths are those of dpsql's Laplace noise at epsilon 0.1; every library then pays what it asks for them. Refreshed: every
statement is asked ten times.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import count, islice
from pathlib import Path

import duckdb

import dpsql
from dpsql.clients.dbapi import Connection
from dpsql.loss import EpsilonDelta
from dpsql.schema.model import Guard, Schema
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
EXPLAINED = re.compile(r"95 % half-width (?:about )?([\d,]+)")
AIM = 2.0
Counts = list[list[int]]
"""Statements that were answered, by total and by refreshes."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.peers.workload", description=__doc__)
    cache = Path(tempfile.gettempdir()) / "dpsql-bench" / "peers"
    parser.add_argument("--cache", type=Path, default=cache, help=f"where environments are kept (default {cache})")
    options = parser.parse_args()
    print(f"Python {platform.python_version()}, {platform.machine()}")
    declared = _declared(Total(1e6, 0.5))
    asked = _request(declared)
    ours = {
        f"dpsql, {mechanism}": [_ours(total, mechanism, asked) for total in TOTALS]
        for mechanism in ("laplace", "gaussian")
    }
    with tempfile.TemporaryDirectory() as scratch:
        theirs = dict(_theirs(Path(scratch), asked, options.cache))
    _report(asked, ours, theirs)


def _declared(total: Total) -> Schema:
    """The RAND people with this budget; the guard warns only, since the statements are made by a program."""
    declared = Schema.from_toml(EXAMPLES / "randhie" / "schema.toml")
    budget = EpsilonDelta(Fraction(str(total.epsilon)), Fraction(str(total.delta)))
    privacy = replace(declared.privacy, budget=budget, accounting="auto")
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


def _request(schema: Schema) -> Request:
    """The half-widths that dpsql releases with at epsilon 0.1, of the first statement of every kind."""
    first: dict[str, str] = {}
    for kind, sql in islice(_statements(), len(PATTERN)):
        first.setdefault(kind, sql)
    (mean, people), *_ = duckdb.execute(
        f"SELECT avg(income), count(*) FROM read_parquet('{EXAMPLES / 'randhie' / 'person.parquet'}')"
    ).fetchall()
    found = {}
    with dpsql.connect(schema, ledger=":memory:") as connection:
        for kind, sql in first.items():
            released = connection.execute(f"/* dpsql: epsilon=0.1, mechanism=laplace */ {sql}").accuracy[0][-1]
            found[kind] = (released.high - released.low) / 2
    questions = (
        Question("count", found["count"]),
        Question("sum", found["sum"], 100.0),
        Question("mean", found["mean"] * people, float(INCOME), float(mean)),
    )
    return Request(questions, tuple(KINDS.index(kind) for kind in CYCLE), TOTALS, REFRESHES)


def _ours(total: Total, mechanism: str, asked: Request) -> list[int]:
    """As a session answers until it refuses. What was answered is then asked again, which has to be free."""
    schema = _declared(total)
    with dpsql.connect(schema, ledger=":memory:") as connection:
        answered: list[str] = []
        try:
            for kind, sql in _statements():
                width = _planned(connection, kind, sql)
                text = f"/* dpsql: error={width}, mechanism={mechanism} */ {sql}"
                connection.execute(text).fetchall()
                answered.append(text)
        except dpsql.BudgetError:
            pass
        for _ in range(max(REFRESHES) - 1):
            for text in answered:
                if not connection.execute(text).privacy.cached:
                    raise SystemExit(f"a repeat was charged: {text}")
    return [len(answered)] * len(REFRESHES)


def _planned(connection: Connection, kind: str, sql: str) -> str:
    """The half-width at epsilon 0.1 as EXPLAIN says it, which is what `error` is about; of an average in all the declared people."""
    text = connection.explain(f"/* dpsql: epsilon=0.1, mechanism=laplace */ {sql}")
    pattern = r"about ([\d.,]+) if the declared" if kind == "mean" else EXPLAINED.pattern
    found = re.search(pattern, text)
    if found is None:
        raise SystemExit(f"EXPLAIN says no half-width: {text}")
    return found[1].replace(",", "")


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
    if theirs:
        ratios = [
            max(counts[t][r] for counts in ours.values()) / max(1, *(counts[t][r] for counts in theirs.values()))
            for t, r in columns
        ]
        verdict = "met" if ratios[0] >= AIM else "MISSED"
        body.append(
            ("dpsql's best over theirs", *(f"{ratio:.2f}" for ratio in ratios), f"aim {AIM:g} or more: {verdict}")
        )
    show((f"delta {asked.totals[0].delta:g}", *titles, ""), body)


def _refreshed(times: int) -> str:
    return "" if times == 1 else f", refreshed {times}x"


if __name__ == "__main__":
    main()
