"""Rule 61: an answer stays stored while what it depends on stays the same, in the data and in the declarations, and no longer."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from dpsql.planner import measure, planning
from dpsql.session.opening import open_session
from tests.unit.engines.clinic_files import HEAD, ROWS, TABLES, clinic, declare, write_csv

STAY = """
[tables.stay]
source = "stay.csv"
references = { person_id = "person.person_id" }
max_rows_per_unit = 2
[tables.stay.columns]
person_id = { type = "BIGINT" }
nights = { type = "BIGINT", bounds = [0, 20] }
"""
DECLARED = HEAD.format(source=".") + '[guard]\nmode = "off"\n' + TABLES.format(suffix=".csv") + STAY
STAYS = "SELECT * FROM (VALUES (1::BIGINT, 3::BIGINT), (2, 5), (2, 1)) t(person_id, nights)"
PERSON, VISIT, NIGHTS = "SELECT COUNT(*) FROM person", "SELECT SUM(cost) FROM visit", "SELECT SUM(nights) FROM stay"
BOTH = "SELECT COUNT(*) FROM person WHERE person_id IN (SELECT person_id FROM visit)"
NESTED = "SELECT COUNT(*) FROM stay WHERE nights > (SELECT AVG(cost) FROM visit)"
ALL = (PERSON, VISIT, NIGHTS, BOTH, NESTED)
MORE = {
    "person": f"{ROWS['person']} UNION ALL SELECT 5, 2, 20.0, DATE '1970-01-01', 'Eve'",
    "visit": f"{ROWS['visit']} UNION ALL SELECT 3, 7.00",
    "stay": f"{STAYS} UNION ALL SELECT 3, 2",
    "ward": f"{ROWS['ward']} UNION ALL SELECT 3, 'west', 3.5, NULL",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    clinic(tmp_path, "csv")
    write_csv(tmp_path / "stay.csv", STAYS)
    declare(tmp_path, DECLARED)
    return tmp_path


def charged(folder: Path) -> set[str]:
    """The statements that are charged now, each asked once in a process that has just opened the data."""
    with closing(open_session(folder / "schema.toml", None, folder / "ledger")) as session:
        return {sql for sql in ALL if session.execute(sql).receipt.loss.rho}


@pytest.mark.parametrize(
    "table, again",
    [
        ("visit", {VISIT, BOTH, NESTED}),
        ("stay", {NIGHTS, NESTED}),
        # on the way to the unit of every other
        ("person", set(ALL)),
        # public rows may list keys, repeat rows and decide conditions before anything is asked
        ("ward", set(ALL)),
    ],
)
def test_new_rows_have_what_reads_them_paid_again(folder: Path, table: str, again: set[str]) -> None:
    assert charged(folder) == set(ALL)
    assert charged(folder) == set()
    write_csv(folder / f"{table}.csv", MORE[table])
    assert charged(folder) == again
    assert charged(folder) == set()


def test_rows_that_come_back_bring_their_answers(folder: Path) -> None:
    charged(folder)
    write_csv(folder / "visit.csv", MORE["visit"])
    charged(folder)
    write_csv(folder / "visit.csv", ROWS["visit"])
    assert charged(folder) == set()
    write_csv(folder / "stay.csv", MORE["stay"])
    assert charged(folder) == {NIGHTS, NESTED}, "the visits are those of the first version"


@pytest.mark.parametrize(
    "old, new, again",
    [
        ("bounds = [0, 20]", "bounds = [0, 19]", {NIGHTS, NESTED}),
        ("bounds = [0, 50]", "bounds = [0, 40]", {VISIT, BOTH, NESTED}),
        ("bounds = [0, 100]", "bounds = [0, 90]", set(ALL)),
        ("delta = 1e-6\n", "delta = 1e-6\nunits = 4\n", set(ALL)),
        # what it may cost is no question
        ("epsilon = 4.0", "epsilon = 5.0", set()),
    ],
)
def test_another_declaration_has_what_it_is_about_paid_again(folder: Path, old: str, new: str, again: set[str]) -> None:
    assert charged(folder) == set(ALL)
    assert DECLARED.count(old) == 1
    declare(folder, DECLARED.replace(old, new))
    assert charged(folder) == again


@pytest.mark.parametrize("forgotten", ["person", "visit"])
def test_a_table_that_is_forgotten_is_noticed(folder: Path, forgotten: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fault that the tests above are for: an answer outlives what it was about."""
    original = measure.depends_on
    monkeypatch.setattr(planning, "depends_on", lambda block, schema: original(block, schema) - {forgotten})
    charged(folder)
    write_csv(folder / f"{forgotten}.csv", MORE[forgotten])
    assert charged(folder) == set()
