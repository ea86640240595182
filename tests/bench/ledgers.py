"""The times of a charge and a stored answer as the ledger grows, and of opening and verifying it."""

from __future__ import annotations

import hashlib
import itertools
import sqlite3
from dataclasses import replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import dpsql
from dpsql.accounting import books, chain, layout
from dpsql.accounting import ledger as ledgers
from dpsql.accounting.answers import Answers
from dpsql.accounting.ledger import Ledger
from dpsql.accounting.payload import encode
from dpsql.accounting.rows import Charged
from dpsql.accounting.totals import Spent
from dpsql.core.loss import Sums
from dpsql.mechanisms import laplace
from dpsql.plan.charges import Budget, ChargeRequest, Portion
from dpsql.plan.tables import NoisyTable
from dpsql.schema.model import Schema
from dpsql.session.opening import ledger_identity
from tests.bench.small import ENDLESS, SQL, example
from tests.bench.timing import Aim, Times, heading, ms, p95, repeated, show

SIZES = (100, 1_000, 10_000, 100_000)
ROUNDS = 200
OPENINGS = 7
AIM = Aim(1.5, "x")
_EVENT = laplace.EVENT.event(1, 10)
_CHARGED = Charged(Sums.of(_EVENT.loss))
_TASKS = ("a charge", "a stored answer, same text", "a stored answer, other spelling", "opening the ledger (tail)")


def measure() -> None:
    """Print p50 and p95 at every size, and how the largest compares with the smallest."""
    sizes = SIZES
    found: dict[int, tuple[Times, ...]] = {}
    whole: dict[int, tuple[Times, Times]] = {}
    for size in sizes:
        with TemporaryDirectory() as scratch:
            found[size], whole[size] = _at(Path(scratch), size)
    heading(f"by charges in the ledger, p50 and p95 of {ROUNDS} ({OPENINGS} openings)")
    body = []
    for i, name in enumerate(_TASKS):
        times = [found[size][i].passed for size in sizes]
        growth, processor = _growth([found[size][i] for size in sizes])
        cells = (f"{ms(median(each))}, {ms(p95(each))}" for each in times)
        body.append((name, *cells, f"{growth:.2f}", f"{processor:.2f}", AIM.verdict(growth)))
    columns = (f"{size:,}" for size in sizes)
    show(("", *columns, f"{sizes[-1]:,} / {sizes[0]:,}", "of processor time", ""), body)
    heading("the whole ledger")
    lines = [
        (f"{size:,} charges", ms(median(verified.passed)), ms(median(connected.passed)), "")
        for size, (verified, connected) in whole.items()
    ]
    show(("", "verify()", "dpsql.connect", ""), lines)


def fill(ledger: Ledger, count: int) -> None:
    """Append that many charges of one analyst, each with a stored answer, in one transaction; verify() finds nothing wrong."""
    answers, now = Answers(ledger), layout.now()
    stored = encode(NoisyTable((), ([1234],), 1)) or b""

    def work(connection: sqlite3.Connection) -> chain.Head:
        head, spent = ledger._newest(connection), Spent.nothing(Sums.nothing())
        for i in range(count):
            request = _request(f"filled {i}")
            head = ledger._append(connection, request, [_CHARGED], head, (now, request.analyst, None))
            spent = spent.plus(_CHARGED.sums, now)
            name = request.fingerprints[0]
            answers._inserted(connection, (name, head.charge, answers._digest(name, stored), stored), False, ())
        for scope, name in (("dataset", ledgers.EVERYBODY), ("analyst", "bench")):
            seal = chain.sealed(ledger.secret, scope, name, spent.text)
            connection.execute(books._KEEP, (scope, name, spent.charges, spent.text, seal))
        return head

    head = ledger.store.write(work)
    if ledger.store.file is not None:
        chain.write_head(chain.head_file(ledger.store.file), head)


def _request(text: str) -> ChargeRequest:
    name = hashlib.sha256(text.encode()).hexdigest()
    mechanism = ("discrete Laplace, scale 10; epsilon 0.1",)
    return ChargeRequest(
        "bench", "0" * 32, SQL, (name,), mechanism, (Portion(_EVENT.loss, None, (_EVENT,)),), None, ("{}",)
    )


def _at(folder: Path, size: int) -> tuple[tuple[Times, ...], tuple[Times, Times]]:
    """The times of all tasks at one size; a ledger of its own for every size."""
    schema, file = example("randhie", folder), folder / "ledger"
    schema = replace(schema, privacy=replace(schema.privacy, accounting=Budget(ENDLESS).accounting))
    with dpsql.connect(schema, ledger=file):
        pass  # the data version is in the ledger before it is filled
    identity = ledger_identity(schema)
    ledger = Ledger.open(file, identity)
    fill(ledger, size)
    ticks = itertools.count()

    def charge() -> object:
        return ledger.charge(_request(f"charged {next(ticks)}"), Budget(ENDLESS))

    charges = repeated(charge, ROUNDS)
    verified = repeated(ledger.verify, 1, warm_up=0)
    ledger.close()
    openings = repeated(lambda: Ledger.open(file, identity).close(), OPENINGS, warm_up=1)
    connected = repeated(lambda: dpsql.connect(schema, ledger=file).close(), OPENINGS, warm_up=1)
    return (charges, *_stored(schema, file), openings), (verified, connected)


def _stored(schema: Schema, file: Path) -> tuple[Times, Times]:
    """From text to rows: of a text that the session knows, and of one that it has to parse and plan."""
    ticks = itertools.count()
    with dpsql.connect(schema, ledger=file) as connection:

        def ask(sql: str) -> object:
            return connection.execute(sql).fetchall()

        ask(SQL)
        same = repeated(lambda: ask(SQL), ROUNDS)
        other = repeated(lambda: ask(f"/* {next(ticks)} */ {SQL.lower()}"), ROUNDS)
    return same, other


def _growth(by_size: list[Times]) -> tuple[float, float]:
    first, last = by_size[0], by_size[-1]
    processor = median(last.processor) / max(median(first.processor), 1e-6)
    return median(last.passed) / median(first.passed), processor
