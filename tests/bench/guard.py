"""The guard's part of planning; its decision's time as its history grows, the time of loading that, and the memory that it needs.

A decision is whom a statement asks about, and the comparison with all that was asked before; planning, charging and the engine are
left out. The history is made of questions alone: nothing is run, and the charges in the ledger are tied to nothing.
"""

from __future__ import annotations

import gc
import random
import resource
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import numpy as np

from dpsql.accounting.entries import GuardEntry as Row
from dpsql.accounting.ledger import Ledger
from dpsql.core.errors import Error
from dpsql.dataset.opening import open_dataset
from dpsql.guard.cells import HASH_BITS, Keys, cells
from dpsql.guard.guarding import Guarding
from dpsql.guard.history import BlockQuestion, History, PastAnswers
from dpsql.guard.leaving_out import Policy
from dpsql.planner.parse import parse
from dpsql.schema.model import Analyst
from dpsql.session.session import Session
from tests.bench.small import example
from tests.bench.timing import Aim, Times, heading, ms, p95, show
from tests.support.planning import planned

PLANNED = 40
"""Statements of each kind that are planned."""
PEOPLE = {"20,000 sample units": 6_000, "200,000 sample units": 1_000_000}
FIRST = {"one table": Aim(15, " ms"), "child tables": Aim(40, " ms")}
KNOWN = Aim(1.2, " times")
SIZES = (("block", 2_000, Aim(10, " ms")), ("audit", 2_000, Aim(150, " ms")))
LONG, CELLS = 10_000, 6
"""Statements of a long history, and cells of each."""
UNITS = 20_000
COMPARED = Aim(10, " ms")
LOADED, MEMORY = Aim(50, " ms"), Aim(100, " MiB")
DECISIONS = 200
MOST_SECONDS = 120.0
"""Deciding that takes longer is cut short."""
_CHARGE = "INSERT INTO charge VALUES (?, '', ?, NULL, '', ?, '', '', '', '', ?, '', 0, x'')"
BREAKDOWNS = (
    "site",
    "plan",
    "female",
    "site, plan",
    "site, female",
    "plan, female",
    "year",
    "year, child",
    "site, year",
)


@dataclass(slots=True)
class Statements:
    """Random statements as dashboards and analysts write them."""

    chance: random.Random

    def one(self) -> str:
        yearly = self.chance.random() < 0.4
        aggregates = ["COUNT(*)", *self.chance.sample(self._values(yearly), self.chance.choice([0, 1, 1, 2]))]
        conditions = [self._condition(yearly) for _ in range(self.chance.choice([0, 1, 1, 2, 3]))]
        if self.chance.random() < 0.25:
            aggregates.append(f"COUNT(*) FILTER (WHERE {self._condition(yearly)})")
        keys = self.chance.choice(BREAKDOWNS) if self.chance.random() < 0.5 else ""
        source = "person_year AS y" if yearly else "person AS p"
        if (
            "site" in keys
            or "plan" in keys
            or "female" in keys
            or any("p." in text for text in conditions + aggregates)
        ):
            source = (
                "person AS p JOIN person_year AS y USING (person_id)" if yearly or "year" in keys else "person AS p"
            )
        elif "year" in keys:
            source = "person_year AS y"
            conditions = [text for text in conditions if "p." not in text]
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        listed = f"{keys}, {', '.join(aggregates)}" if keys else ", ".join(aggregates)
        return f"SELECT {listed} FROM {source}{where}{f' GROUP BY {keys}' if keys else ''}"

    def _values(self, yearly: bool) -> list[str]:
        if yearly:
            return ["SUM(y.md_visits)", "AVG(y.drug_usd)", "SUM(y.admissions)", "AVG(y.age)"]
        return ["AVG(p.income)", "SUM(p.income)", "AVG(p.education_years)", "AVG(p.mental_health_index)"]

    def _condition(self, yearly: bool) -> str:
        some = ", ".join(str(n) for n in sorted(self.chance.sample(range(1, 6), self.chance.choice([2, 3]))))
        low = self.chance.randrange(0, 60)
        if yearly:
            return self.chance.choice(
                [
                    f"y.year IN ({some})",
                    f"y.year >= {self.chance.randint(2, 4)}",
                    f"y.age BETWEEN {low} AND {low + self.chance.randrange(5, 40)}",
                    f"y.md_visits > {self.chance.randrange(0, 40)}",
                    f"y.drug_usd < {100 * self.chance.randrange(1, 20)}",
                    self.chance.choice(["y.child", "NOT y.child"]),
                ]
            )
        return self.chance.choice(
            [
                f"p.site IN ({some})",
                f"p.site <> {self.chance.randint(1, 6)}",
                f"p.income {self.chance.choice(['<', '>='])} {250 * self.chance.randrange(1, 119)}",
                f"p.income BETWEEN {250 * low} AND {250 * (low + self.chance.randrange(8, 60))}",
                f"p.mental_health_index > {self.chance.randrange(5, 95)}",
                f"p.education_years >= {self.chance.randrange(2, 20)}",
                self.chance.choice(["p.female", "NOT p.female"]),
                f"CASE WHEN p.income < {500 * self.chance.randrange(2, 50)} THEN 'low' ELSE 'high' END = 'low'",
            ]
        )


@dataclass(frozen=True, slots=True)
class Decided(Times):
    """Times of decisions; compared: the processor time of the comparison alone."""

    compared: list[float] = field(default_factory=list)


@dataclass(slots=True)
class Guarded:
    """A session, and the times of its guard's part of planning a statement."""

    session: Session
    statements: Statements
    working: float = field(default=0.0)
    passing: float = field(default=0.0)

    @property
    def guarding(self) -> Guarding:
        return self.session._world.guard

    def asked(self) -> tuple[str, list[BlockQuestion]]:
        """The next statement and whom it asks about."""
        while True:
            sql = self.statements.one()
            try:
                found = planned(self.session, parse(sql))
            except Error:
                continue
            asked = Guarding.asked(found.judged.asked, found.plan.plan.releases)
            if asked or self.guarding._is_off:
                # of what is free nothing is remembered
                return sql, asked

    def timed(self, work: Callable[..., object]) -> Callable[..., object]:
        def timed(*arguments: object) -> object:
            passing, working = time.perf_counter(), time.process_time()
            try:
                return work(*arguments)
            finally:
                self.passing += time.perf_counter() - passing
                self.working += time.process_time() - working

        return timed


def measure() -> None:
    """Print planning with the guard and without; then decisions by the size of the history; then loading and memory."""
    _planning()
    heading(f"the guard: up to {DECISIONS} decisions (randhie, k = 20)")
    body, loads = [], []
    for mode, size, aim in SIZES:
        with TemporaryDirectory() as scratch:
            guarded = opened(Path(scratch), mode)
            history = rows(guarded, size)
            guarded.session._world.ledger.store.write(
                lambda c, history=history: c.executemany(_CHARGE, _charges(history))
            )  # type: ignore[misc]
            load = _loads(guarded, history)
            known, decided, refused = _decisions(guarded, DECISIONS)
            times = median(decided.passed), p95(decided.passed), max(decided.passed), median(decided.processor)
            name = f"{mode}, {size:,} statements"
            counts = f"{known:,}", f"{len(decided.passed)}", f"{refused}"
            compared = median(decided.compared), p95(decided.compared)
            body.append((name, *counts, *map(ms, (*times, *compared)), f"p95, {aim.verdict(times[1] * 1e3)}"))
            loads.append((name, *load))
            guarded.session.close()
    names = ("p50", "p95", "most", "p50 of processor time", "comparing alone, p50 of that", "p95")
    show(("", "cells", "decisions", "refused", *names, ""), body)
    heading("the guard's history, read from the ledger at the first statement of a process")
    show(("", "statement by statement", "packed", "processor time", "written", "memory", ""), loads)
    _long()


def _long() -> None:
    """A history of random cells, that was packed: what it takes to read, its memory, and the comparison alone. No two are near."""
    heading(f"the guard: a history of {LONG:,} statements of {CELLS} cells, packed")
    chance, policy, first, times = np.random.default_rng(1), Policy(20, 0.3), Times(), Times()
    made = History(policy, 10.0, _unread)
    for charge in range(1, LONG + 1):
        made.remember([_question(chance)], charge)
    packed = made.since(0).packed()
    del made
    before, history = _resident(), History(policy, 10.0, _unread)
    first.run(lambda: history.add(PastAnswers.unpacked(packed)))
    for _ in range(DECISIONS):
        one = _question(chance)
        times.run(lambda one=one: history.conflict([one]))  # type: ignore[misc]
    memory, last = (_resident() - before) / 2**20, p95(times.processor)
    shown = ms(first.processor[0]), f"{memory:.1f} MiB", ms(median(times.processor)), ms(last)
    verdicts = f"memory, {MEMORY.verdict(memory)}; p95, {COMPARED.verdict(last * 1e3)}"
    names = ("cells", "read", "memory", "compared, p50 of processor time", "p95", "")
    show(names, [(f"{history.cells:,}", *shown, verdicts)])


def _question(chance: np.random.Generator) -> BlockQuestion:
    drawn = (np.flatnonzero(chance.random(UNITS) < chance.uniform(0.02, 0.9)).astype(np.uint32) for _ in range(CELLS))
    return BlockQuestion(cells([("adds", units << np.uint32(HASH_BITS)) for units in drawn]), 1.0, UNITS, CELLS)


def _unread(charge: int, place: int) -> Keys:
    raise AssertionError("no keys of two random cells are compared")


def _planning() -> None:
    heading(f"planning {PLANNED} statements (randhie): what the guard adds the first time, and to what it knows")
    body = []
    for name, people in PEOPLE.items():
        with TemporaryDirectory() as scratch:
            off, block = (opened(Path(scratch) / mode, mode, people) for mode in ("off", "block"))
            for kind, aim in FIRST.items():
                asked = [
                    sql
                    for sql in (off.asked()[0] for _ in range(12 * PLANNED))
                    if ("person_year" in sql) == (kind != "one table")
                ]
                body.append((f"{kind}, {name}", *_planned(off, block, asked[:PLANNED], aim)))
            off.session.close()
            block.session.close()
    show(("", "without", "first", "known", "p50 of what is added", "p95", "known over without", ""), body)


def _planned(off: Guarded, block: Guarded, asked: Sequence[str], aim: Aim) -> tuple[str, ...]:
    """The processor time of planning, without the guard, and with it."""
    for guarded in (off, block):
        for sql in asked:
            # what is made once for all statements
            planned(guarded.session, parse(sql))
    without, first, known = Times(), Times(), Times()
    for sql in asked:
        block.guarding._known_to_pass.clear()
        for times, guarded in ((without, off), (first, block), (known, block)):
            times.run(lambda sql=sql, guarded=guarded: planned(guarded.session, parse(sql)))  # type: ignore[misc]
    added = [one - other for one, other in zip(first.processor, without.processor, strict=True)]
    ratio = median(known.processor) / median(without.processor)
    shown = (
        *(ms(median(times.processor)) for times in (without, first, known)),
        ms(median(added)),
        ms(p95(added)),
        f"{ratio:.2f}",
    )
    return (*shown, f"first, {aim.verdict(median(added) * 1e3)}; known, {KNOWN.verdict(ratio)}")


def opened(folder: Path, mode: str, people: int | None = None) -> Guarded:
    """A session of the example whose guard is in a mode, and a clock on its guard.

    people  as many are declared
    """
    folder.mkdir(exist_ok=True)
    schema = example("randhie", folder)
    schema = replace(schema, guard=replace(schema.guard, mode=mode))
    if people is not None:
        schema = replace(schema, privacy=replace(schema.privacy, units=people))
    ledger = Ledger.open(folder / "ledger", "randhie")
    session = Session(open_dataset(schema, ledger, approve=True), ledger, Analyst("bench"))
    return Guarded(session, Statements(random.Random(1)))


def rows(guarded: Guarded, size: int) -> list[Row]:
    """So many statements, as the ledger keeps them."""
    found: list[Row] = []
    for place in range(size):
        sql, asked = guarded.asked()
        found.append(Row(place + 1, "bench", sql, guarded.guarding.written(asked)))
    return found


def _charges(history: Sequence[Row]) -> list[tuple[object, ...]]:
    return [(row.charge, row.analyst, row.statement, row.asked) for row in history]


def _loads(guarded: Guarded, history: Sequence[Row]) -> tuple[str, ...]:
    """Time of the first comparison of a process: where nothing is packed, and where all is; and the memory that it took."""
    guarding, first = guarded.guarding, Times()
    _, asked = guarded.asked()
    for _ in range(3):
        # the last is measured: reading one by one leaves room behind that is not in use
        guarding._begin_anew()
        before = _resident()
        first.run(lambda: _compared(guarding, asked))
    written = sum(len(row.asked) for row in history) / 2**20
    memory = (_resident() - before) / 2**20
    shown = *map(ms, (first.passed[0], first.passed[2], first.processor[2])), f"{written:.1f} MiB", f"{memory:.1f} MiB"
    return (*shown, f"packed, {LOADED.verdict(first.processor[2] * 1e3)}; memory, {MEMORY.verdict(memory)}")


def _compared(guarding: Guarding, asked: Sequence[BlockQuestion]) -> bool:
    """True if a statement is let through."""
    try:
        guarding.compare(asked)
    except Error:
        return False
    return True


def _resident() -> int:
    """Memory of this process now [bytes]."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def _decisions(guarded: Guarded, decisions: int) -> tuple[int, Decided, int]:
    """The number of cells that are remembered, the times, and the number of refusals."""
    guarding, found, refused = guarded.guarding, Decided(), 0
    plain = guarding.judge
    guarding.judge = guarded.timed(plain)  # type: ignore[method-assign,assignment]
    compare = guarded.timed(lambda asked: _compared(guarding, asked))
    begun = time.perf_counter()
    while len(found.passed) < decisions and (len(found.passed) < 2 or time.perf_counter() - begun < MOST_SECONDS):
        guarded.passing = guarded.working = 0.0
        _, asked = guarded.asked()
        judged = guarded.working
        refused += not compare(asked)
        found.passed.append(guarded.passing)
        found.processor.append(guarded.working)
        found.compared.append(guarded.working - judged)
    guarding.judge = plain  # type: ignore[method-assign]
    return guarding._known()[0].cells, found, refused
