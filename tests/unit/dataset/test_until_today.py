"""Bounds that end today: on the day on which the version of their table was approved first, whoever opens it when."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from dpsql.accounting import layout
from dpsql.accounting.record import read_record
from dpsql.accounting.versions import Versions
from dpsql.core.errors import Error, SchemaError
from dpsql.dataset import opening, owner
from dpsql.engines import facts
from dpsql.engines.structure import declared
from dpsql.schema import moving
from dpsql.schema.toml import read_schema
from dpsql.schema.write import write
from dpsql.session.opening import open_session
from dpsql.session.session import Session
from tests.support.noise import ZeroNoise
from tests.unit.engines.clinic_files import HEAD, declare
from tests.unit.session.test_refreshing import ledger

TEXT = (
    HEAD.format(source=".").replace("person.person_id", "visit.person_id")
    + """
[guard]
mode = "off"
[analysts.ann]
[tables.visit]
source = "visit.csv"
max_rows_per_unit = 1
[tables.visit.columns]
person_id = { type = "BIGINT" }
seen = { type = "DATE", bounds = [2024-01-30, 'today'] }
at = { type = "TIMESTAMP", bounds = [2024-01-30T00:00:00, 'today'] }

[tables.drug]
source = "drug.csv"
max_rows_per_unit = 1
references = { person_id = "visit.person_id" }
[tables.drug.columns]
person_id = { type = "BIGINT" }
"""
).replace('source = "visit.csv"\n', 'source = "visit.csv"\nkey = ["person_id"]\n')
LATEST = "SELECT MAX(seen), MAX(at) FROM visit"
DAYS = "SELECT seen, COUNT(*) FROM visit GROUP BY seen ORDER BY seen"


class Clock:
    """The time of the ledger."""

    def __init__(self, patched: pytest.MonkeyPatch) -> None:
        self.day = "2024-02-01"
        patched.setattr(layout, "now", lambda: f"{self.day}T09:30:00.000+00:00")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


@pytest.fixture
def folder(tmp_path: Path, clock: Clock) -> Iterator[Path]:
    declare(tmp_path, TEXT)
    put(tmp_path, "1,2024-01-31,2024-01-31 12:00:00\n2,2024-02-09,2024-02-09 00:00:00\n")
    (tmp_path / "drug.csv").write_text("person_id\n1\n")
    with ledger(tmp_path) as held:
        owner.check(read_schema(tmp_path / "schema.toml"), held, prepare=True)
    yield tmp_path


def put(folder: Path, rows: str) -> None:
    (folder / "visit.csv").write_text(f"person_id,seen,at\n{rows}")


def more(folder: Path) -> None:
    with open(folder / "visit.csv", "a") as file:
        file.write("3,2024-02-03,2024-02-03 01:00:00\n")


def refresh(folder: Path) -> None:
    with ledger(folder) as held:
        owner.refresh(read_schema(folder / "schema.toml"), held)


def opened(folder: Path) -> closing[Session]:
    return closing(open_session(folder / "schema.toml", "ann", folder / "ledger", noise=ZeroNoise()))


def days(folder: Path) -> list[tuple[object, ...]]:
    with opened(folder) as session:
        return session.execute(DAYS).rows


def end(folder: Path) -> tuple[object, ...]:
    with opened(folder) as session:
        domains = {column.name: column.domain for table in session.schema.tables for column in table.columns}
        seen, at = domains["seen"], domains["at"]
        return moving.date.fromordinal(719163 + int(seen.upper)), int(at.upper)  # type: ignore[union-attr]


def test_keys_and_clamps_end_on_the_day_of_the_version(folder: Path, clock: Clock) -> None:
    clock.day = "2024-03-05"
    expected = [(date(2024, 1, 30), 0), (date(2024, 1, 31), 1), (date(2024, 2, 1), 0)]
    assert days(folder) == expected, "the row of the future is left out"
    last = int(datetime(2024, 2, 2, tzinfo=UTC).timestamp()) * 10**6 - 1
    assert end(folder) == (date(2024, 2, 1), last)
    with opened(folder) as session:
        ((latest,),) = session.execute("SELECT AVG(seen - DATE '2024-01-30') FROM visit").rows
        assert latest == 1.5, "days 1 and 10, which counts as the 2nd"


def test_a_version_keeps_its_day_and_its_answers(folder: Path, clock: Clock) -> None:
    days(folder)
    clock.day = "2024-02-04"
    refresh(folder)
    with opened(folder) as session:
        assert session.execute(DAYS).cached
    before = (folder / "visit.csv").read_text()
    more(folder)
    refresh(folder)
    assert days(folder)[-2:] == [(date(2024, 2, 3), 1), (date(2024, 2, 4), 0)]
    put(folder, before.partition("\n")[2])
    clock.day = "2024-02-20"
    refresh(folder)
    with opened(folder) as session:
        assert session.execute(DAYS).cached, "the first version again, of its own day"


def test_another_table_moves_no_day(folder: Path, clock: Clock) -> None:
    days(folder)
    clock.day = "2024-02-04"
    (folder / "drug.csv").write_text("person_id\n1\n2\n")
    refresh(folder)
    with opened(folder) as session:
        assert session.execute(DAYS).cached and session.execute("SELECT COUNT(*) FROM drug").rows == [(2,)]


def test_until_the_refresh_the_approved_day_counts(folder: Path, clock: Clock) -> None:
    clock.day = "2024-02-04"
    more(folder)
    assert days(folder)[-1] == (date(2024, 2, 1), 0)


def test_a_day_costs_no_facts_and_no_snapshot(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Facts and snapshot are known again on another day."""
    about = declared(read_schema(folder / "schema.toml"))
    read = moving.until(read_schema(folder / "schema.toml"), dict.fromkeys(("visit", "drug"), date(2031, 5, 5)))
    assert declared(read) == about
    fixed = read_schema(declared_with(folder, "2024-01-30", "2024-01-30T00:00:00"))
    assert declared(fixed) != about
    with ledger(folder) as held:
        latest = Versions(held).latest()
        assert latest is not None
        found = read_record(held, latest[0], about)
    assert found.snapshot is not None and "rows 'visit'" in found.facts
    assert not any("seen" in fact or "'at'" in fact for fact in found.facts), "its bounds are always enforced"


def declared_with(folder: Path, day: str, moment: str) -> Path:
    path = folder / "fixed.toml"
    path.write_text(TEXT.replace("[2024-01-30, 'today']", f"[2024-01-30, {day}]").replace("'today'", moment))
    return path


PLANTED: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "the day is the one of the last approval": lambda m: m.setattr(Versions, "first_times", Versions.times),
    "the day is the one of opening": lambda m: m.setattr(opening, "until", lambda schema, days: schema),
}


@pytest.mark.parametrize("fault", PLANTED)
def test_planted_faults_are_seen(folder: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    PLANTED[fault](monkeypatch)
    with pytest.raises((AssertionError, Error)):
        test_a_version_keeps_its_day_and_its_answers(folder, clock)


def test_bounds_that_are_believed_on_another_day_are_seen(
    folder: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    holding = facts._holding

    def believed(found: facts.TableFacts, dangles: bool) -> Iterator[str]:
        columns = tuple(replace(c, column=replace(c.column, until_today=False)) for c in found.columns)
        return holding(replace(found, columns=columns), dangles)

    monkeypatch.setattr(facts, "_holding", believed)
    with pytest.raises(AssertionError):
        test_a_row_outside_is_clamped_where_bounds_are_not_believed(folder, clock)


def test_a_row_outside_is_clamped_where_bounds_are_not_believed(folder: Path, clock: Clock) -> None:
    """A check on a later day finds every value within the bounds of that day, and believes none of it."""
    clock.day = "2024-03-05"
    with ledger(folder) as held:
        owner.check(read_schema(folder / "schema.toml"), held, prepare=True)
    with opened(folder) as session:
        assert session._world.dataset.engine.is_pinned
        assert session.execute("SELECT AVG(seen - DATE '2024-01-30') FROM visit").rows == [(1.5,)]


def test_it_is_written_and_read_back(folder: Path) -> None:
    schema = read_schema(folder / "schema.toml")
    assert 'bounds = [2024-01-30, "today"]' in write(schema)
    declare(folder, write(schema))
    assert read_schema(folder / "schema.toml").tables == schema.tables
    assert moving.moving(schema) == (("visit", "seen"), ("visit", "at"))


@pytest.mark.parametrize(
    "bounds, what",
    [
        ("['today', 2024-01-30]", "bounds needs two dates"),
        ("[2024-01-30, 'tomorrow']", "bounds needs two dates"),
        ("[9000-01-01, 'today']", "lower end above its upper end"),
    ],
)
def test_other_ends_are_no_bounds(tmp_path: Path, bounds: str, what: str) -> None:
    with pytest.raises(SchemaError, match=what):
        declare(tmp_path, TEXT.replace("[2024-01-30, 'today']", bounds, 1))


def test_numbers_and_times_of_day_do_not_end_today(tmp_path: Path) -> None:
    for sqltype, low in (("INTEGER", "1"), ("TIME", "08:00:00")):
        with pytest.raises(SchemaError, match="bounds needs two"):
            declare(tmp_path, TEXT.replace('"DATE", bounds = [2024-01-30', f'"{sqltype}", bounds = [{low}'))
