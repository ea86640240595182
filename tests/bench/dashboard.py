"""A dashboard that several processes refresh at once: it costs what one refresh costs."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import dpsql
from dpsql.accounting.ledger import Ledger
from dpsql.clients.dbapi.connection import Connection
from dpsql.core.loss import PrivacyLoss
from dpsql.schema.model import Schema
from dpsql.session.opening import ledger_identity
from tests.bench.small import example
from tests.bench.timing import heading, ms, p95, show

REFRESHES = 1_000
PROCESSES = 4
RECONNECT = 100
"""After how many refreshes a process opens its connection anew, in the second run."""
STATEMENTS = (
    "SELECT COUNT(*) AS people FROM person",
    "SELECT site, COUNT(*) AS people FROM person GROUP BY site ORDER BY site",
    "SELECT plan, COUNT(*) AS people FROM person GROUP BY plan ORDER BY plan",
    "SELECT site, female, COUNT(*) AS people FROM person GROUP BY site, female ORDER BY site, female",
    "SELECT site, AVG(income) AS income FROM person GROUP BY site ORDER BY site",
    "SELECT plan, AVG(income) AS income FROM person GROUP BY plan ORDER BY plan",
    "SELECT female, AVG(mental_health_index) AS health FROM person GROUP BY female ORDER BY female",
    "SELECT site, AVG(education_years) AS years FROM person GROUP BY site ORDER BY site",
    "SELECT site, SUM(income) AS income FROM person GROUP BY site ORDER BY site",
    "SELECT MEDIAN(income) AS income FROM person",
    "SELECT COUNT(*) AS poor FROM person WHERE income < 5000",
    "SELECT AVG(physical_limitation) AS limited FROM person WHERE income < 5000",
    "SELECT year, COUNT(*) AS years FROM person_year GROUP BY year ORDER BY year",
    "SELECT year, SUM(md_visits) AS visits FROM person_year GROUP BY year ORDER BY year",
    "SELECT year, AVG(drug_usd) AS drugs FROM person_year GROUP BY year ORDER BY year",
    "SELECT year, SUM(admissions) AS admissions FROM person_year GROUP BY year ORDER BY year",
    "SELECT child, AVG(md_visits) AS visits FROM person_year GROUP BY child ORDER BY child",
    "SELECT AVG(outpatient_usd) AS outpatient FROM person_year",
    "SELECT SUM(medical_usd) AS medical FROM person_year",
    "SELECT p.site, AVG(y.md_visits) AS visits FROM person AS p JOIN person_year AS y USING (person_id) "
    "GROUP BY p.site ORDER BY p.site",
)


@dataclass(frozen=True, slots=True)
class Work:
    """The work of one process: when it began and ended, on the clock of the machine, and the time of each statement [seconds]."""

    begun: float
    ended: float
    times: list[float]


def measure() -> None:
    """Print refreshes per second and times of a statement; stop where the total loss is not that of one refresh."""
    refreshes = REFRESHES
    heading(f"a dashboard of {len(STATEMENTS)} statements, refreshed {refreshes:,} times by {PROCESSES} processes")
    each = refreshes // PROCESSES
    with TemporaryDirectory() as scratch:
        folder = Path(scratch)
        schema = example("randhie", folder)
        once, first = _spent(schema, folder / "once", [_refreshed(schema, folder / "once", 1, 1)])
        body = [("one refresh of one process", *first, "")]
        for name, reconnect in (("each opens once", each), (f"each opens again every {RECONNECT}", RECONNECT)):
            ledger = folder / f"ledger{reconnect}"
            own = example("randhie", folder / f"data{reconnect}")
            spent, line = _spent(own, ledger, _together(own, ledger, each, reconnect))
            if spent != once:
                raise SystemExit(f"{name}: {refreshes} refreshes cost {spent}, one costs {once}")
            body.append((name, *line, "costs what one refresh costs"))
    show(("", "refreshes per second", "p50 of a statement", "p95", "charges", "rho", ""), body)


CHARTS = STATEMENTS[:10]
VIEWERS = ("ann", "bob", "cyd")
OPENINGS = 10


def viewed() -> None:
    """Print how long a chart takes whose answer is stored, for three viewers that open a dashboard of ten charts ten times each, and
    stop where that costs more than one opening."""
    heading(f"{len(CHARTS)} charts, {len(VIEWERS)} viewers, each opens the dashboard {OPENINGS} times")
    with TemporaryDirectory() as scratch:
        schema = example("randhie", Path(scratch))
        ledger = Path(scratch) / "viewed"
        connections = [dpsql.connect(schema, analyst=viewer, ledger=ledger) for viewer in VIEWERS]
        first = _opened(connections[0])
        once = connections[0].execute("SHOW BUDGET").fetchall()
        times = [each for _ in range(OPENINGS) for connection in connections for each in _opened(connection)]
        if connections[0].execute("SHOW BUDGET").fetchall() != once:
            raise SystemExit("looking again was charged")
        for connection in connections:
            connection.close()
    body = [
        ("the first opening", ms(median(first)), ms(p95(first)), ""),
        ("later", ms(median(times)), ms(p95(times)), "10 ms"),
    ]
    show(("", "p50 of a chart", "p95", "aim (p95)"), body)


def _opened(connection: Connection) -> list[float]:
    """The time of each chart [seconds]."""
    times = []
    for sql in CHARTS:
        start = time.perf_counter()
        connection.execute(sql).fetchall()
        times.append(time.perf_counter() - start)
    return times


def _together(schema: Schema, ledger: Path, refreshes: int, reconnect: int) -> list[Work]:
    """Several processes at once, each with its own connection to the one ledger, which is new."""
    spawned = multiprocessing.get_context("spawn")
    ready, found = spawned.Barrier(PROCESSES), spawned.Queue()
    arguments = (schema, ledger, refreshes, reconnect, ready, found)
    processes = [spawned.Process(target=_process, args=arguments) for _ in range(PROCESSES)]
    for process in processes:
        process.start()
    done = [found.get(timeout=600) for _ in processes]
    for process in processes:
        process.join()
    return done


def _process(schema: Schema, ledger: Path, refreshes: int, reconnect: int, ready: Barrier, found: Queue[Work]) -> None:
    found.put(_refreshed(schema, ledger, refreshes, reconnect, ready))


def _refreshed(schema: Schema, ledger: Path, refreshes: int, reconnect: int, ready: Barrier | None = None) -> Work:
    """The first connection is opened before the clock runs, the later ones while it does."""
    times: list[float] = []
    connection = dpsql.connect(schema, ledger=ledger)
    if ready is not None:
        ready.wait(timeout=600)
    begun = time.time()
    for i in range(refreshes):
        if i and i % reconnect == 0:
            connection.close()
            connection = dpsql.connect(schema, ledger=ledger)
        for sql in STATEMENTS:
            start = time.perf_counter()
            connection.execute(sql).fetchall()
            times.append(time.perf_counter() - start)
    ended = time.time()
    connection.close()
    return Work(begun, ended, times)


def _spent(schema: Schema, ledger: Path, done: Sequence[Work]) -> tuple[PrivacyLoss, tuple[str, ...]]:
    """The ledger's sum of what was spent, after checking it as a whole, and the line of the table."""
    opened = Ledger.open(ledger, ledger_identity(schema))
    charges, spent = opened.verify(), opened.spent()
    opened.close()
    passed = max(work.ended for work in done) - min(work.begun for work in done)
    times = [each for work in done for each in work.times]
    rate = len(times) / len(STATEMENTS) / passed
    return spent, (f"{rate:.1f}", ms(median(times)), ms(p95(times)), f"{charges}", f"{float(spent.rho):.4f}")
