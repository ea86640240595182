"""Rows that are numbered within a person: of those that a condition on the number keeps there are no more than it lets through."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlglot import exp

from dpsql.core.errors import Error
from dpsql.planner.resolve import laterals, unit_windows
from dpsql.relations import relations
from dpsql.relations.per_unit import Computed
from dpsql.session.opening import open_session
from dpsql.session.session import Session
from tests.support import clinic
from tests.support.claims import claimed, moved
from tests.support.noise import ZeroNoise

NUMBERED = "SELECT year, patient_id, ROW_NUMBER() OVER (PARTITION BY patient_id ORDER BY days) AS turn FROM visit"
FIRST = "patient AS p, LATERAL (SELECT year FROM visit AS v WHERE v.patient_id = p.patient_id ORDER BY days"
STATEMENTS = {
    f"SELECT year, COUNT(*) FROM ({NUMBERED}) AS t WHERE turn = 1 GROUP BY year": 1,
    f"SELECT year, COUNT(*) FROM ({NUMBERED}) AS t WHERE turn = 4 GROUP BY year": 1,
    f"SELECT year, COUNT(*) FROM ({NUMBERED}) AS t WHERE turn <= 2 GROUP BY year": 2,
    f"SELECT year, COUNT(*) FROM ({NUMBERED} QUALIFY turn IN (1, 3)) AS t GROUP BY year": 2,
    f"SELECT site, COUNT(*) FROM ({NUMBERED} QUALIFY turn = 1) AS t JOIN patient USING (patient_id) GROUP BY site": 1,
    f"SELECT year, COUNT(*) FROM {FIRST} LIMIT 1) AS t GROUP BY year": 1,
    f"SELECT year, COUNT(*) FROM {FIRST} LIMIT 2 OFFSET 1) AS t GROUP BY year": 2,
    f"SELECT year, COUNT(*) FROM {FIRST.replace('LATERAL', '')} LIMIT 2) AS t GROUP BY year": 2,
    f"SELECT site, COUNT(year) FROM {FIRST.replace(', LATERAL', ' LEFT JOIN LATERAL')} LIMIT 2) AS t ON TRUE GROUP BY site": 2,
}
OTHERS: list[clinic.Row] = [(i, i % 5, 1 + i % 4, 10.0, i, None) for i in range(15)]
HERS: list[clinic.Row] = [(100 + i, 9, 1 + i % 4, 10.0, i // 5, None) for i in range(20)]
"""Five days that are equal each, so that ranks repeat."""


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Session]]:
    """Without and with one person, who has more rows than are declared."""
    sessions = []
    for ids, visits in (range(5), OTHERS), ([*range(5), 9], [*OTHERS, *HERS]):
        folder = tmp_path_factory.mktemp("numbered")
        (folder / "schema.toml").write_text(clinic.schema_text().replace("epsilon = 1.0", "epsilon = 1e3"))
        people = [(i, 1 + i % 3, True, 1.0, None, 30, None, "a", None, "1995-01-01", None) for i in ids]
        clinic.write(folder, {"patient": people, "visit": visits, "item": [], "drug": []})
        sessions.append(open_session(folder / "schema.toml", None, ":memory:", noise=ZeroNoise()))
    yield sessions
    for session in sessions:
        session.close()


@pytest.mark.parametrize("sql", STATEMENTS)
def test_as_many_rows_as_numbers_are_let_through(sql: str, sides: list[Session]) -> None:
    assert moved(sql, sides) == claimed(sql, sides[0]) == STATEMENTS[sql]


@pytest.mark.parametrize(
    "sql",
    [
        NUMBERED.replace("ROW_NUMBER", "RANK"),
        NUMBERED.replace("PARTITION BY patient_id", "PARTITION BY patient_id, year"),
    ],
)
def test_other_numbers_are_found_to_repeat(sql: str, sides: list[Session], monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: ranks, and numbers within a part of a person's rows, are taken for numbers of all of them."""
    counted = f"SELECT year, COUNT(*) FROM ({sql}) AS t WHERE turn = 1 GROUP BY year"
    assert moved(counted, sides) <= claimed(counted, sides[0]) == 3
    true = unit_windows._computed

    def mistaken(window: exp.Expression, *args: object) -> Computed:
        found = true(window, *args)  # type: ignore[arg-type]
        return Computed(found.tree, found.like, found.shows, found.chosen, numbers=True)

    monkeypatch.setattr(unit_windows, "_computed", mistaken)
    again = f"{counted} HAVING COUNT(*) >= 0"
    assert moved(again, sides) > claimed(again, sides[0]) == 1


def test_numbers_that_are_counted_too_few_are_found(sides: list[Session], monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: of numbers between two ends one is not counted."""
    true = relations._numbers
    monkeypatch.setattr(relations, "_numbers", lambda conditions: max(1, true(conditions) - 1))
    sql = f"SELECT year, COUNT(*) FROM {FIRST} LIMIT 2 OFFSET 2) AS t GROUP BY year"
    assert moved(sql, sides) > claimed(sql, sides[0]) == 1


def test_first_rows_that_are_not_parted_by_person_are_refused(
    sides: list[Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: the first rows of LATERAL are numbered among everyone's."""
    sql = f"SELECT COUNT(*) FROM {FIRST} LIMIT 3) AS t"
    assert sides[0].execute(sql).rows
    true = laterals._row_number
    monkeypatch.setattr(laterals, "_row_number", lambda inner, keys, order: true(inner, 0, order))
    with pytest.raises(Error, match="more than one person"):
        sides[0].execute(f"{sql} WHERE year >= 0")


def test_a_join_that_does_not_equate_people_is_refused(sides: list[Session], monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: what LATERAL equates is not joined on."""
    sql = f"SELECT COUNT(*) FROM {FIRST} LIMIT 3) AS t WHERE year >= 1"
    assert sides[0].execute(sql).rows
    monkeypatch.setattr(laterals, "_equal", lambda source, links: [exp.true()])
    with pytest.raises(Error, match="does not equate their privacy units"):
        sides[0].execute(f"{sql} AND year < 9")
