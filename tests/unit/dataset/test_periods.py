"""Periods that close: what is read, kept, charged again and taken anew (rule 62)."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from dpsql.clients.declared import limits, tables_with_limits
from dpsql.core.errors import Error
from dpsql.dataset import owner
from dpsql.dataset.opening import table_versions
from dpsql.schema.toml import read_schema
from dpsql.session.foretelling import Forecast, forecast
from dpsql.session.outdated import outdated
from tests.support.by_period import TEXT, Clock, Visit, approved, begun, opened, put, refreshed
from tests.support.noise import ZeroNoise
from tests.unit.dataset.test_growing import KILLED, STEPS
from tests.unit.engines.clinic_files import declare

JANUARY = "SELECT COUNT(*) FROM visit WHERE seen >= '2024-01-01' AND seen < '2024-02-01'"
FEBRUARY = "SELECT COUNT(*) FROM visit WHERE seen BETWEEN '2024-02-01' AND '2024-02-29'"
MARCH = "SELECT COUNT(*) FROM visit WHERE seen >= '2024-03-01'"
ALL = "SELECT COUNT(*) FROM visit"
FIRST: list[Visit] = [(1, "2024-01-05", 5), (2, "2024-01-31", 7), (1, "2024-02-01", 9)]
LATE: Visit = (3, "2024-01-20", 50)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


@pytest.fixture
def folder(tmp_path: Path, clock: Clock) -> Path:
    begun(tmp_path, FIRST)
    return tmp_path


def counts(folder: Path, statements: Sequence[str] = (JANUARY, FEBRUARY, ALL)) -> list[object]:
    with closing(opened(folder, ZeroNoise())) as session:
        return [session.execute(sql).rows[0][0] for sql in statements]


def charged(folder: Path, statements: Sequence[str] = (JANUARY, FEBRUARY, MARCH, ALL)) -> set[str]:
    with closing(opened(folder)) as session:
        return {sql for sql in statements if session.execute(sql).receipt.loss.rho}


def test_what_is_closed_stays_stored_and_what_is_open_is_paid_again(folder: Path, clock: Clock) -> None:
    assert charged(folder) == {JANUARY, FEBRUARY, MARCH, ALL}
    clock.day = "2024-02-20"
    put(folder, [*FIRST, (2, "2024-02-15", 3)])
    refreshed(folder)
    assert charged(folder) == {FEBRUARY, MARCH, ALL}
    clock.day = "2024-03-05"
    put(folder, [*FIRST, (2, "2024-02-15", 3), (3, "2024-02-28", 3), (3, "2024-03-02", 3)])
    refreshed(folder)
    assert charged(folder) == {FEBRUARY, MARCH, ALL}
    clock.day = "2024-03-06"
    put(folder, [*FIRST, (2, "2024-02-15", 3), (3, "2024-02-28", 3), (3, "2024-03-02", 3), (3, "2024-03-05", 3)])
    refreshed(folder)
    assert charged(folder) == {MARCH, ALL}


def test_a_late_row_waits_for_its_revision(folder: Path, clock: Clock) -> None:
    clock.day = "2024-02-20"
    put(folder, [LATE, *FIRST[1:]])
    refreshed(folder)
    assert counts(folder) == [2, 1, 3], "the row that was deleted is there, the late one is not"
    put(folder, [LATE, *FIRST])
    refreshed(folder)
    assert counts(folder) == [2, 1, 3]
    refreshed(folder, ["2024-01"])
    assert counts(folder) == [3, 1, 4]
    assert charged(folder, [JANUARY]) == set(), "it was bought just now"
    refreshed(folder)
    assert charged(folder) == {MARCH}


def test_a_revision_is_paid_again_whether_or_not_anything_differs(folder: Path, clock: Clock) -> None:
    charged(folder)
    refreshed(folder, ["2024-01"])
    assert charged(folder) == {JANUARY, FEBRUARY, MARCH, ALL}


def test_names_of_no_closed_period(folder: Path) -> None:
    for name in ("2024-02", "2023-12", "January", "2024"):
        with pytest.raises(Error) as raised:
            refreshed(folder, [name])
        assert raised.value.code == "DPSQL-802" and "2024-01" in (raised.value.hint or "")
    assert refreshed(folder, ["all"]).changed == ("visit",)


def test_rows_without_a_day_and_of_the_future_are_not_read(folder: Path, clock: Clock) -> None:
    put(folder, [*FIRST, (1, "", 1), (1, "2024-06-01", 1), (1, "1999-06-01", 1), (1, "infinity", 1)])
    refreshed(folder)
    assert counts(folder) == [2, 1, 3]


def test_people_who_come_do_not_touch_closed_periods(folder: Path, clock: Clock) -> None:
    charged(folder)
    put(folder, FIRST, [(1, 1), (2, 2), (3, 1), (4, 2)])
    assert refreshed(folder).changed == ("person",)
    by_ward = "SELECT ward, COUNT(*) FROM visit JOIN person USING (person_id) WHERE seen < '2024-02-01' GROUP BY ward"
    assert charged(folder, [JANUARY, FEBRUARY, ALL]) == set()
    assert charged(folder, [by_ward]) == {by_ward}
    put(folder, [*FIRST, LATE], [(1, 1), (2, 2), (3, 1), (4, 2)])
    refreshed(folder)
    assert charged(folder, [JANUARY, by_ward]) == set()
    put(folder, [*FIRST, LATE], [(1, 1), (2, 2), (3, 1)])
    refreshed(folder)
    assert charged(folder, [JANUARY, by_ward]) == {by_ward}


def test_it_is_served_from_the_snapshot_alone(folder: Path, clock: Clock) -> None:
    put(folder, [*FIRST, LATE])
    assert counts(folder) == [2, 1, 3], "as of the approved version"
    for file in (folder / "ledger.prepared").rglob("visit.parquet"):
        file.unlink()
    with pytest.raises(Error) as raised:
        opened(folder)
    assert raised.value.code == "DPSQL-708" and "dpsql refresh" in (raised.value.hint or "")
    with pytest.raises(Error) as raised:
        refreshed(folder)
    assert raised.value.code == "DPSQL-708" and "dpsql check" in (raised.value.hint or "")
    approved(folder, owner.check)
    assert counts(folder) == [3, 1, 4]


def test_the_check_keeps_closed_periods(folder: Path, clock: Clock) -> None:
    put(folder, [*FIRST, LATE, (3, "2024-02-05", 1)])
    approved(folder, owner.check)
    assert counts(folder) == [2, 2, 4]
    approved(folder, owner.check)
    assert charged(folder, [JANUARY, FEBRUARY, ALL]) == set()


def test_another_declaration_keeps_the_rows(folder: Path, clock: Clock) -> None:
    put(folder, [*FIRST, LATE])
    refreshed(folder)
    declare(folder, TEXT.replace("bounds = [0, 50]", "bounds = [0, 40]"))
    refreshed(folder)
    assert counts(folder) == [2, 1, 3]


@pytest.mark.parametrize(
    "old, new",
    [
        ('every = "month"', 'every = "quarter"'),
        ("cost = {", 'ward = { type = "INTEGER", bounds = [1, 2] }\ncost = {'),
        ('cost = { type = "INTEGER"', 'cost = { type = "BIGINT"'),
    ],
    ids=["length", "column", "type"],
)
def test_rows_that_are_read_otherwise_begin_anew(folder: Path, clock: Clock, old: str, new: str) -> None:
    clock.day = "2024-04-10"
    put(folder, [*FIRST, LATE])
    refreshed(folder)
    assert counts(folder) == [2, 1, 3]
    declare(folder, TEXT.replace(old, new))
    written = (folder / "visit.csv").read_text().splitlines()
    (folder / "visit.csv").write_text("\n".join([f"{written[0]},ward", *(f"{row},1" for row in written[1:]), ""]))
    refreshed(folder)
    assert counts(folder) == [3, 1, 4]
    put(folder, [*FIRST])
    if "ward" not in new:
        refreshed(folder)
        assert counts(folder, [ALL]) == [4]


def test_periods_are_declared_later(tmp_path: Path, clock: Clock) -> None:
    """A ledger of before: nothing is closed in its versions."""
    begun(tmp_path, FIRST, TEXT.replace('period = "seen"\nevery = "month"\n', ""))
    assert charged(tmp_path, [JANUARY]) == {JANUARY}
    declare(tmp_path, TEXT)
    with pytest.raises(Error) as raised:
        opened(tmp_path)
    assert raised.value.code == "DPSQL-708"
    put(tmp_path, [*FIRST, LATE])
    refreshed(tmp_path)
    assert counts(tmp_path) == [3, 1, 4]
    put(tmp_path, FIRST)
    refreshed(tmp_path)
    assert counts(tmp_path) == [3, 1, 4]


def test_versions_are_shown(folder: Path, clock: Clock) -> None:
    clock.day = "2024-03-05"
    put(folder, [*FIRST, (3, "2024-03-01", 1)])
    refreshed(folder)
    with closing(opened(folder)) as session:
        rows = session.execute("SELECT table_name, period, approved::DATE::VARCHAR FROM dpsql.versions").rows
        held = session.execute("SELECT COUNT(DISTINCT version) FROM dpsql.versions").rows
    assert rows == [("person", None, "2024-02-10"), ("visit", None, "2024-03-05"), ("visit", "2024-01", "2024-02-10")]
    assert held == [(2,)]


def test_limits_are_told_of_each_period(folder: Path) -> None:
    schema = read_schema(folder / "schema.toml")
    visit = schema.tables[1]
    assert limits(visit, schema).endswith("at most 2 rows of one person are counted, in each month of seen")
    assert tables_with_limits(schema)[1][1][2] == "at most 2 a month"
    put(folder, [*FIRST, *[(1, "2024-02-03", 1)] * 3])
    text = str(approved(folder, owner.check))
    assert "2 units with 1 to 4 rows a month, 3 on average; the declared limit is 2 a month" in text
    assert "the limit cuts 2 rows of 1 units" in text


def test_what_a_refresh_makes_others_pay(folder: Path, clock: Clock) -> None:
    """Before it and after it; what is closed is not among it."""
    charged(folder, [JANUARY, FEBRUARY])
    put(folder, [*FIRST, (3, "2024-02-07", 1)])
    foretold = approved(folder, forecast)
    assert isinstance(foretold, Forecast) and [one.statement for one in foretold.outdated] == [FEBRUARY]
    before = refreshed(folder).before
    with closing(opened(folder)) as session:
        held, then = session._world.ledger, session._world.dataset.versions
        assert before is not None
        found = outdated(session, held, table_versions(held, before, session.schema), then)
    assert [one.statement for one in found] == [FEBRUARY]


# --- a refresh that is killed -----------------------------------------------------------------------------------------


RENAMED = ("pathlib:Path", "rename", "after", True)


def killed(folder: Path, place: str, name: str, when: str) -> None:
    command = [sys.executable, "-c", KILLED, str(folder / "schema.toml"), str(folder / "ledger"), place, name, when]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 9, done.stderr


@pytest.mark.few(4)
@pytest.mark.parametrize("place, name, when, approved", [*STEPS, RENAMED])
def test_a_refresh_that_is_killed_loses_no_closed_row(
    folder: Path, place: str, name: str, when: str, approved: bool
) -> None:
    """The rows that January keeps are in the snapshot of the version before, until the next one is recorded."""
    charged(folder, [JANUARY])
    put(folder, [LATE, *FIRST[1:], (2, "2024-02-05", 3)])
    killed(folder, place, name, when)
    assert charged(folder, [JANUARY]) == set()
    refreshed(folder)
    assert charged(folder, [JANUARY]) == set()
    assert counts(folder, [f"{JANUARY} AND cost < 60", f"{FEBRUARY} AND cost < 60"]) == [2, 2]


@pytest.mark.few(2)
@pytest.mark.parametrize("place, name, when, approved", [STEPS[-3], STEPS[-2], STEPS[-1], RENAMED])
def test_a_snapshot_that_is_written_anew_takes_the_rows_of_the_one_before(
    folder: Path, place: str, name: str, when: str, approved: bool
) -> None:
    """Another bound: the version is the same one, and so is the folder of its snapshot."""
    put(folder, [LATE, *FIRST[1:]])
    refreshed(folder)
    declare(folder, TEXT.replace("bounds = [0, 50]", "bounds = [0, 40]"))
    killed(folder, place, name, when)
    refreshed(folder)
    assert counts(folder) == [2, 1, 3]
