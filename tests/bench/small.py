"""Times that do not depend on the size of the data: a small statement over plain, planning, a charge, a stored answer."""

from __future__ import annotations

import os
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import duckdb

import dpsql
from dpsql.accounting.ledger import Ledger
from dpsql.clients.dbapi.connection import Connection
from dpsql.core.loss import EpsilonDelta
from dpsql.dataset.opening import open_dataset
from dpsql.mechanisms.conversions import pure
from dpsql.plan.charges import Budget, ChargeRequest, Portion
from dpsql.planner.measure import Identities
from dpsql.planner.options import Options
from dpsql.planner.parse import Query, parse
from dpsql.schema.model import Schema
from dpsql.schema.toml import read_schema
from tests.bench.stages import LABELS, watched
from tests.bench.timing import Aim, Times, fresh, heading, ms, repeated, show, show_times, side_by_side
from tests.support.copies import unused
from tests.support.planning import compile_statement
from tests.support.statements import Statement, read

EXAMPLES = Path(__file__).parents[2] / "examples"
SQL = "SELECT site, COUNT(*) AS people, AVG(income) AS mean_income FROM person GROUP BY site ORDER BY site"
EPSILON = 0.1
ENDLESS = EpsilonDelta(Fraction(10**6), Fraction(9, 10))


def measure(rounds: int) -> None:
    """Print all of it."""
    with TemporaryDirectory() as scratch:
        folder = Path(scratch)
        with dpsql.connect(example("randhie", folder), ledger=folder / "small") as connection:
            _overhead(connection, rounds)
            stored = repeated(lambda: connection.execute(SQL).fetchall(), rounds)
        planning, statements = _planning(folder)
        heading("fixed costs")
        show_times(
            [
                (f"planning, {statements} accepted statements", planning, Aim(3, " ms")),
                ("a charge, ledger on disk", _charges(folder, rounds), Aim(2, " ms")),
                ("writing 4 KiB and fsync, beside it", _syncs(folder, rounds), None),
                ("a stored answer, text to rows", stored, None),
            ]
        )


def example(name: str, folder: Path) -> Schema:
    """An example's schema over a copy of its data, with a budget that a bench does not exhaust."""
    target = folder / name
    if not target.exists():
        unused(EXAMPLES / name, target)
    declared = read_schema(target / "schema.toml")
    return replace(declared, privacy=replace(declared.privacy, budget=ENDLESS))


def _overhead(connection: Connection, rounds: int) -> None:
    """A fresh statement over a few thousand rows, ledger on disk included, in turn with plain DuckDB."""
    plain = duckdb.connect()
    plain.execute(f"CREATE VIEW person AS SELECT * FROM read_parquet('{EXAMPLES / 'randhie' / 'person.parquet'}')")

    def ours() -> None:
        connection.execute(fresh(SQL, EPSILON)).fetchall()

    pair = side_by_side(ours, lambda: plain.execute(SQL).fetchall(), rounds, warm_up=5)
    heading(f"a small statement (randhie person GROUP BY site), {rounds} rounds")
    show_times(
        [("dpsql", pair.ours, None), ("plain DuckDB", pair.plain, None), ("over plain", pair.over, Aim(8, " ms"))]
    )
    best, least = min(pair.ours.passed), min(pair.plain.passed)
    print(f"best of all rounds: dpsql {ms(best)}, plain {ms(least)}, over plain {ms(best - least)}")
    heading("where the time of a small statement goes, p50 [ms]")
    own = []
    for _ in range(rounds):
        with watched() as clock:
            ours()
        own.append(clock.own)
    show(("stage", "p50", ""), [(label, f"{median(o.get(label, 0) for o in own) * 1e3:.2f}", "") for label in LABELS])


def _planning(folder: Path, rounds: int = 5) -> tuple[Times, int]:
    """The times from text to engine SQL over all statements that have a plan, and how many those are."""
    found, answered = Times(), 0
    schemas = {name: _opened(name, folder) for name in ("randhie", "nhefs")}
    for statement in read("accept.sql"):
        schema, identities = schemas[statement.schema]

        def plan(
            statement: Statement = statement, schema: Schema = schema, identities: Identities = identities
        ) -> None:
            compile_statement(parse(statement.sql, statement.parameters), Options(), schema, identities=identities)

        try:
            if not isinstance(parse(statement.sql, statement.parameters), Query):
                continue
            plan()
        except dpsql.Error:
            continue
        answered += 1
        times = repeated(plan, rounds)
        found.passed.extend(times.passed)
        found.processor.extend(times.processor)
    return found, answered


def _opened(name: str, folder: Path) -> tuple[Schema, Identities]:
    """An example's schema as a session has it, with what is read from its public tables, and its identities."""
    ledger = Ledger.open(":memory:", name)
    dataset = open_dataset(example(name, folder), ledger, approve=True)
    dataset.engine.close()
    ledger.close()
    return dataset.schema, Identities(dataset.schema)


def _charges(folder: Path, rounds: int) -> Times:
    """Charges of one analyst into one ledger on disk."""
    ledger = Ledger.open(folder / "charges", "bench")
    request = ChargeRequest("bench", "0" * 32, SQL, ("0" * 64,), ("laplace",), (Portion(pure(Fraction(1, 10)), None),))
    times = repeated(lambda: ledger.charge(request, Budget(ENDLESS)), rounds)
    ledger.close()
    return times


def _syncs(folder: Path, rounds: int) -> Times:
    """The disk's time for the least durable write."""
    with open(folder / "syncs", "wb", buffering=0) as file:

        def sync() -> None:
            file.write(bytes(4096))
            os.fsync(file.fileno())

        return repeated(sync, rounds)
