"""A history of versions of a table with periods, with one person and without (rule 62).

All that is public is the same in both. In each version the exact cells of a release differ by no more than it claims: what the limit
of one period allows, times the periods that are read; and the cells of one period by what its limit allows. A release that was stored
is of the rows that it would have now: of closed periods these are the same as when it was bought.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from dpsql.dataset import preparing
from dpsql.planner import lower
from dpsql.planner.lower import cutting
from dpsql.relations import declared
from dpsql.relations.periods import ReadPeriods
from tests.support.by_period import LIMIT, Clock, Visit, begun, opened, put, refreshed
from tests.support.noise import RecordedNoise, ZeroNoise

VICTIM = 3
COST = 50
DAYS = ("2024-02-10", "2024-02-25", "2024-03-05", "2024-05-02")
MONTHS = {"2024-01": "seen < '2024-02-01'", "2024-02": "seen >= '2024-02-01' AND seen < '2024-03-01'"}
BY_MONTH = "SELECT DATE_TRUNC('month', seen) AS m, COUNT(*) FROM visit WHERE seen < '2024-04-01' GROUP BY m ORDER BY m"
CLAIMS = {
    f"SELECT COUNT(*) FROM visit WHERE {MONTHS['2024-01']}": LIMIT,
    f"SELECT SUM(cost) FROM visit WHERE {MONTHS['2024-02']}": LIMIT * COST,
    "SELECT ward, COUNT(*) FROM visit JOIN person USING (person_id) WHERE seen < '2024-03-01' GROUP BY ward": 2 * LIMIT,
    "SELECT COUNT(DISTINCT person_id) FROM visit WHERE seen < '2024-03-01'": 1,
    BY_MONTH: 3 * LIMIT,
}
"""Statements, with the most that one person changes over all the cells of one version."""


@dataclass(slots=True)
class Told:
    """All that an analyst saw of one history: what is public, and by version and statement the exact cells of this version's rows and
    those of the version in which it was bought."""

    public: list[object] = field(default_factory=list)
    now: dict[tuple[int, str], list[float]] = field(default_factory=dict)
    stored: dict[tuple[int, str], list[float]] = field(default_factory=dict)


def history(seed: int) -> list[list[Visit]]:
    """Visits of each version: new ones, late ones, ones that are deleted, and many of one person in one month."""
    chance = random.Random(seed)
    found, visits = list[list[Visit]](), list[Visit]()
    for day in DAYS:
        month = int(day[5:7])
        for _ in range(8):
            there = chance.randint(max(1, month - 2), month)
            visits.append((chance.choice([VICTIM, VICTIM, 1, 2]), f"2024-{there:02}-{chance.randint(1, 28):02}", 90))
        del visits[chance.randrange(len(visits))]
        visits += [(VICTIM, f"2024-{max(1, month - 1):02}-11", 90)] * 3
        found.append(list(visits))
    return found


def lived(folder: Path, versions: list[list[Visit]], clock: Clock) -> Told:
    """Every statement on every version; what is revised and when is the same in each history."""
    told = Told()
    for place, visits in enumerate(versions):
        clock.day = DAYS[place]
        if not place:
            begun(folder, visits)
        else:
            put(folder, visits)
            told.public.append(refreshed(folder, ["2024-01"] if place == 2 else []).changed)
        noise = RecordedNoise()
        with closing(opened(folder, noise)) as session:
            for sql in CLAIMS:
                found = session.execute(sql)
                told.public.append(
                    (place, sql, found.receipt.loss, found.receipt.remaining, found.notes, list(noise.drawn))
                )
                told.stored[place, sql] = [float(str(row[-1])) for row in sorted(found.rows, key=str)]
        with closing(opened(folder, ZeroNoise())) as session:
            for sql in CLAIMS:
                rows = session.execute(f"{sql} /* dpsql: fresh */").rows
                told.now[place, sql] = [float(str(row[-1])) for row in sorted(rows, key=str)]
    return told


def violations(one: Told, other: Told) -> list[str]:
    found = [] if one.public == other.public else ["what is public differs"]
    for (version, sql), cells in one.now.items():
        moved = [abs(a - b) for a, b in zip(cells, other.now[version, sql], strict=True)]
        if sum(moved) > CLAIMS[sql]:
            found.append(f"{sql}: {moved} in version {version}")
        if sql == BY_MONTH and max(moved) > LIMIT:
            found.append(f"one month: {moved} in version {version}")
        if one.stored[version, sql] != cells:
            found.append(f"stored: {sql} in version {version}")
    return found


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def compared(folder: Path, seed: int, clock: Clock) -> list[str]:
    folder.mkdir(exist_ok=True)
    versions = history(seed)
    one = lived(folder / "with", versions, clock)
    other = lived(folder / "without", [[row for row in rows if row[0] != VICTIM] for rows in versions], clock)
    assert len(one.now) == len(DAYS) * len(CLAIMS)
    return violations(one, other)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_one_person_over_a_history_of_versions(tmp_path: Path, clock: Clock, seed: int) -> None:
    assert compared(tmp_path, seed, clock) == []


def cut_over_all(patched: pytest.MonkeyPatch) -> None:
    patched.setattr(lower, "limited_rows", cutting.rows_of)
    patched.setattr(cutting, "limited_rows", cutting.rows_of)


def takes_late_rows(patched: pytest.MonkeyPatch) -> None:
    patched.setattr(preparing, "named_periods", lambda kept, table: [])


def reads_partly(patched: pytest.MonkeyPatch) -> None:
    """The scope takes the first period of those that are read for all of them."""
    every = ReadPeriods.names.fget
    assert every is not None
    patched.setattr(ReadPeriods, "names", property(lambda read: every(read)[:1]))


PLANTED: dict[Callable[[pytest.MonkeyPatch], None], str] = {
    cut_over_all: "one month",
    takes_late_rows: "stored",
    reads_partly: "stored",
}


@pytest.mark.slow
@pytest.mark.parametrize("plant", PLANTED)
def test_a_planted_fault_is_noticed(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch, plant: Callable[[pytest.MonkeyPatch], None]
) -> None:
    plant(monkeypatch)
    found = compared(tmp_path, 0, clock)
    assert any(each.startswith(PLANTED[plant]) for each in found), found


@pytest.mark.parametrize("planted", [False, True], ids=["as it is", "planted"])
def test_the_sensitivity_is_of_all_periods_that_are_read(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch, planted: bool
) -> None:
    """If nobody is above the limit of a period nothing is cut, and noise has to hide all that a person has in all of them."""
    if planted:
        monkeypatch.setattr(declared, "periods_of", lambda table: 1)
    begun(tmp_path, [(person, f"2024-0{month}-0{day}", 50) for person in (1, 3) for month in (1, 2) for day in (2, 3)])
    noise = RecordedNoise()
    with closing(opened(tmp_path, noise)) as session:
        found = session.execute("SELECT COUNT(*) FROM visit WHERE seen < '2024-03-01'")
    ((_, scale, _),) = noise.drawn
    assert found.rows == [(8,)]
    assert (scale * found.receipt.loss.epsilon >= 2 * LIMIT) != planted, "person 3 has four of the eight"
