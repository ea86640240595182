"""Planted faults of the guard: with each of them a sequence of statements is answered that must be refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from dpsql.core.domains import Value
from dpsql.core.errors import Error
from dpsql.expressions.scalar import Scalar
from dpsql.guard import audit, guarding, history, questions, reading, regions, rows, tracker, values
from dpsql.guard.guarding import Guarding
from dpsql.guard.sizes import Sizes
from dpsql.session.opening import open_session
from dpsql.session.session import Session
from tests.support import clinic
from tests.support.noise import ZeroNoise

Patch = pytest.MonkeyPatch
TOTAL = "SELECT COUNT(*) FROM patient"
FEW = "(age = 30 AND site = 1 AND city = 'a')"
OLD = "(age = 80 AND site = 2 AND city = 'b')"


def without_the_opaque_share(patch: Patch) -> None:
    """An opaque condition counts as half of the people where answers are compared."""
    patch.setattr(values.Listed, "share", property(lambda self: 1.0 if self.is_whole else 0.5))


def three_values_as_two(patch: Patch) -> None:
    """What is not true is false."""
    known = reading.Reader.truth

    def two(self: reading.Reader, condition: object, context: object) -> reading.Truth:
        found = known(self, condition, context)  # type: ignore[arg-type]
        return reading.Truth(found.true, regions.others(found.true))

    patch.setattr(reading.Reader, "truth", two)


def null_is_expected_everywhere(patch: Patch) -> None:
    """A column without NULLs counts as if one in twenty had NULL: then leaving them out hides the few."""
    known = reading._axis

    def nullable(key: str, name: str, column: Scalar, _: bool, referred: tuple[Value, ...] = ()) -> values.Axis:
        return known(key, name, column, True, referred)

    patch.setattr(reading, "_axis", nullable)


def casts_hold_everything(patch: Patch) -> None:
    """A conversion never gives NULL."""
    patch.setattr(reading, "conversion", lambda source, target: [])


def on_is_forgotten(patch: Patch) -> None:
    """The side of an outer join is always there."""
    patch.setattr(rows.Rows, "optional", lambda self, relation, on: rows.replace(self, conditions=()))


def filters_are_forgotten(patch: Patch) -> None:
    """FILTER and CASE ask about all of a cell."""
    whole = ((regions.EVERYTHING,), {})
    patch.setattr(questions.Asking, "_selects", lambda self, aggregates, restricted, context: whole)


def cells_are_forgotten(patch: Patch) -> None:
    """A breakdown is remembered as a whole."""
    patch.setattr(questions.Shape, "parts", lambda self: iter(()))


def one_direction(patch: Patch) -> None:
    """Only what is asked now is looked at for being larger."""
    known = tracker._pair

    def larger(region: regions.Region, earlier: history.Earlier, policy: tracker.Policy) -> tracker.Conflict | None:
        return known(region, earlier, policy) if regions.share(region) > regions.share(earlier.region) else None

    patch.setattr(tracker, "_pair", larger)


def nothing_is_loaded(patch: Patch) -> None:
    """What was charged is not looked at again."""
    patch.setattr(Guarding, "_load", lambda self, rows: None)


def every_list_chooses_cells(patch: Patch) -> None:
    """Whatever is compared with released values is taken for a group key."""
    patch.setattr(questions, "_of_keys", lambda scalar, keys: True)


def every_band_is_a_last_one(patch: Patch) -> None:
    """Whatever is alike in two small cells is left out of what they are expected to differ by."""
    patch.setattr(values.Ranged, "is_end", True)


def halves_are_apart(patch: Patch) -> None:
    """The halves of a UNION are never added up."""
    patch.setattr(questions.Question, "_together", lambda self: regions.NOTHING)


def total_is_unknown(patch: Patch) -> None:
    """What an answer leaves of everybody is not looked at."""
    patch.setattr(history.History, "knows_total", lambda self, tables: False)


def nobody_in_common(patch: Patch) -> None:
    """Regions are far apart, whatever they have in common."""
    patch.setattr(Sizes, "common", lambda self, region, places: np.zeros(len(places)))


def parts_are_not_added_up(patch: Patch) -> None:
    """What several answers are parts of is not looked at."""
    patch.setattr(audit._Adding, "up", lambda self, parts: [])


def every_answer_by_itself(patch: Patch) -> None:
    """Answers span nothing together."""
    patch.setattr(audit._Space, "_span", lambda self, common, before: None)


def refused_is_remembered(patch: Patch) -> None:
    """What was only looked at counts as answered."""
    patch.setattr(audit._Space, "back_to", lambda self, mark: None)


def nothing_is_readable(patch: Patch) -> None:
    """However exact two answers are, what they differ by is not read."""
    patch.setattr(tracker, "READABLE", 0)


def noise_is_forgotten(patch: Patch) -> None:
    """Every answer counts as nothing but noise."""
    patch.setattr(guarding, "_spread", lambda release: float("inf"))


def everything_is_plain(patch: Patch) -> None:
    """What chooses a few people is answered like the total."""
    patch.setattr(questions, "_is_plain", lambda block, shapes: True)
    patch.setattr(tracker, "READABLE", 0)


CASES: list[tuple[Callable[[Patch], None], list[str]]] = [
    (without_the_opaque_share, [TOTAL, f"{TOTAL} WHERE weight + income <> 77"]),
    (nothing_is_readable, [TOTAL, f"{TOTAL} WHERE weight + income <> 77"]),
    (noise_is_forgotten, [TOTAL, f"{TOTAL} WHERE NOT {FEW}"]),
    (everything_is_plain, [TOTAL, f"{TOTAL} WHERE NOT {FEW}"]),
    (three_values_as_two, [f"{TOTAL} WHERE NOT female", f"{TOTAL} WHERE NOT female OR (female IS NULL AND {FEW})"]),
    (null_is_expected_everywhere, [TOTAL, f"{TOTAL} WHERE NOT (age = 30 AND site = 1)"]),
    (casts_hold_everything, [TOTAL, f"{TOTAL} WHERE CAST(code AS TINYINT) IS NOT NULL"]),
    (on_is_forgotten, [TOTAL, f"SELECT COUNT(q.age) FROM patient p LEFT JOIN (FROM patient WHERE NOT {FEW}) q USING (patient_id)"]),
    (filters_are_forgotten, [TOTAL, f"SELECT COUNT(*) FILTER (WHERE NOT {FEW}) FROM patient"]),
    (cells_are_forgotten, ["SELECT site, COUNT(*) FROM patient GROUP BY site", f"{TOTAL} WHERE site = 1 AND NOT {FEW}"]),
    (one_direction, [TOTAL, f"{TOTAL} WHERE NOT {FEW}"]),
    (nothing_is_loaded, [TOTAL, f"{TOTAL} WHERE NOT {FEW}"]),
    (every_list_chooses_cells, [TOTAL, "SELECT COUNT(*) FROM patient WHERE income > (SELECT AVG(age) FROM patient)"]),
    (every_band_is_a_last_one, [f"{TOTAL} WHERE age = 41 AND site = 1", f"{TOTAL} WHERE age = 41 AND site = 1 AND NOT female"]),
    (halves_are_apart, [TOTAL, "SELECT COUNT(*) FROM (SELECT patient_id FROM patient WHERE site = 1 AND age <> 30 UNION ALL "
     "SELECT patient_id FROM patient WHERE site <> 1)"]),
    (nobody_in_common, [TOTAL, f"{TOTAL} WHERE NOT {FEW}"]),
    (total_is_unknown, [TOTAL, f"{TOTAL} WHERE {FEW} OR age < 50", f"{TOTAL} WHERE {FEW} OR NOT age < 50"]),
]  # fmt: skip
PARTS = [
    TOTAL,
    f"{TOTAL} WHERE site = 1",
    f"{TOTAL} WHERE site <> 1 AND age < 50",
    f"{TOTAL} WHERE site <> 1 AND age >= 50 AND NOT {OLD}",
]
UNION = [f"{TOTAL} WHERE site = 1", f"{TOTAL} WHERE age < 50", f"{TOTAL} WHERE site = 1 AND age < 50",
         f"{TOTAL} WHERE site = 1 OR age < 50 OR {OLD}"]  # fmt: skip
AUDITED: list[tuple[Callable[[Patch], None], list[str]]] = [
    (parts_are_not_added_up, PARTS),
    (parts_are_not_added_up, UNION),
    (every_answer_by_itself, PARTS),
]


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    clinic.write(tmp_path, {name: [] for name in clinic.DDL})
    found = open_session(clinic.schema(tmp_path, guard="block"), None, ":memory:", noise=ZeroNoise())
    yield found
    found.close()


def decision(session: Session, sql: str) -> str:
    try:
        session.execute(sql)
    except Error as refused:
        return refused.code
    return ""


@pytest.mark.few(1)
@pytest.mark.parametrize(("plant", "statements"), CASES, ids=[plant.__name__ for plant, _ in CASES])
def test_a_planted_fault_is_caught(
    plant: Callable[[Patch], None], statements: list[str], session: Session, tmp_path: Path, monkeypatch: Patch
) -> None:
    sound = [decision(session, sql) for sql in statements]
    plant(monkeypatch)
    faulty = open_session(clinic.schema(tmp_path, guard="block"), None, ":memory:", noise=ZeroNoise())
    answered = [decision(faulty, sql) for sql in statements]
    assert (sound[-1], answered[-1]) == ("DPSQL-602", "") and sound[:-1] == answered[:-1]
    faulty.close()


@pytest.mark.few(1)
@pytest.mark.parametrize(("plant", "statements"), AUDITED)
def test_a_fault_in_the_audit_is_caught(
    plant: Callable[[Patch], None], statements: list[str], tmp_path: Path, monkeypatch: Patch
) -> None:
    clinic.write(tmp_path, {name: [] for name in clinic.DDL})
    found = []
    for plants in (False, True):
        if plants:
            plant(monkeypatch)
        audited = open_session(clinic.schema(tmp_path, guard="audit"), None, ":memory:", noise=ZeroNoise())
        found.append([decision(audited, sql) for sql in statements])
        audited.close()
    sound, answered = found
    assert (sound[-1], answered[-1]) == ("DPSQL-604", "") and sound[:-1] == answered[:-1]


def test_what_was_only_looked_at_is_not_remembered(tmp_path: Path, monkeypatch: Patch) -> None:
    """EXPLAIN of a part is no answer; with the fault planted it counts as one."""
    clinic.write(tmp_path, {name: [] for name in clinic.DDL})
    last = []
    for plants in (False, True):
        if plants:
            refused_is_remembered(monkeypatch)
        audited = open_session(clinic.schema(tmp_path, guard="audit"), None, ":memory:", noise=ZeroNoise())
        for sql in (PARTS[0], PARTS[1], f"EXPLAIN {PARTS[2]}"):
            assert decision(audited, sql) == ""
        last.append(decision(audited, PARTS[3]))
        audited.close()
    assert last == ["", "DPSQL-604"]
