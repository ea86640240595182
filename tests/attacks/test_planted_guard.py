"""Planted faults of the guard: with each of them a sequence of statements is answered that must be refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dpsql.core.errors import Error
from dpsql.guard import (
    adding,
    audit,
    evaluating,
    guarding,
    history,
    leaving_out,
    lists,
    parts,
    sketches,
    thresholds,
)
from dpsql.guard.arrays import Places
from dpsql.guard.cells import Keys
from dpsql.guard.guarding import Guarding
from dpsql.guard.history import History
from dpsql.guard.lists import Lists
from dpsql.guard.memory import Packs
from dpsql.guard.void import Proofs
from dpsql.session.opening import open_session
from dpsql.session.session import Session
from dpsql.sql.trees import tables
from tests.support import clinic
from tests.support.noise import ZeroNoise

Patch = pytest.MonkeyPatch
TOTAL = "SELECT COUNT(*) FROM patient"
FEW = "(age = 31 AND site = 1 AND city = 'a')"
LIGHT, LIGHTER = f"{TOTAL} WHERE weight < 81.5", f"{TOTAL} WHERE weight < 81"
"""As declared about four people are in the first alone."""

WRITTEN = (
    f"(SELECT s, a FROM (VALUES (1), (2), (3)) AS q(s), (VALUES {', '.join(f'({age})' for age in range(10, 91))}) AS r(a) "
    "WHERE NOT (s = 1 AND a = 31) GROUP BY s, a) AS v"
)
LISTED = "(SELECT code FROM patient GROUP BY code)"


def nothing_left_out_is_refused(patch: Patch) -> None:
    """R3a is not asked."""
    patch.setattr(leaving_out, "check", lambda *told: None)


def what_no_sample_has_is_void(patch: Patch) -> None:
    """A part that decides about no sample unit is taken for one of nobody."""
    patch.setattr(Proofs, "is_void", lambda *told: True)


def what_is_set_changes_no_branch(patch: Patch) -> None:
    """Conditions are taken for the same with a part that is set to something as without."""
    patch.setattr(Proofs, "_is_set_alike", lambda *told, **more: True)


def parts_are_only_made_false(patch: Patch) -> None:
    known = parts.set_to
    for room in (evaluating, adding):
        patch.setattr(room, "set_to", lambda query, part, value: known(query, part, False))


def nested_parts_are_forgotten(patch: Patch) -> None:
    """Only the outermost conditions are parts."""
    patch.setattr(
        leaving_out, "boolean_parts", lambda block: [parts.Part(c) for c in block.source.where if c.sqltype.is_boolean]
    )


def groups_are_forgotten(patch: Patch) -> None:
    """A group key has no parts."""
    known = parts._all
    patch.setattr(parts, "_all", lambda block: known(replace(block, keys=())))


def numbers_are_forgotten(patch: Patch) -> None:
    patch.setattr(leaving_out, "_of_numbers", lambda *told: None)


def what_a_constant_makes_of_a_value_is_that_value(patch: Patch) -> None:
    """LEAST and REPLACE alter nobody's value."""
    patch.setattr(leaving_out, "altering_parts", lambda block: [])


def what_is_released_is_the_samples(patch: Patch) -> None:
    """Whom a statement asks about is told by what the sample units would release, whatever was."""
    patch.setattr(Guarding, "with_released", lambda self, judged, tables: judged)


def what_is_written_down_leaves_nobody_out(patch: Patch) -> None:
    """The rows of VALUES choose nobody."""
    patch.setattr(leaving_out, "_of_looked_up", lambda *told: None)


def nothing_is_loaded(patch: Patch) -> None:
    """Earlier statements are not read."""
    patch.setattr(Guarding, "_load", lambda self, rows: None)


def what_is_packed_hides_the_rest(patch: Patch) -> None:
    """Everything that no packing holds is taken for packed."""
    patch.setattr(Packs, "recall", lambda self, own: 1_000)


def nothing_is_near(patch: Patch) -> None:
    none = np.zeros(0, dtype=np.int64)
    patch.setattr(sketches.Sketches, "near", lambda self, able, marks, most: (none, none))


def multiples_are_other_questions(patch: Patch) -> None:
    """Twice a sum is no sum."""
    patch.setattr(evaluating, "in_proportion", lambda starts, adds: (np.zeros(len(adds)),) * 2)


def the_sample_is_taken_for_too_coarse(patch: Patch) -> None:
    """R3b looks for no difference, as where one sample unit stands for k people."""
    patch.setattr(History, "_sees_no_few", lambda self: True)


def a_coarse_sample_ends_r3b(patch: Patch) -> None:
    """Nothing is compared once one sample unit stands for k people: what texts tell apart is not either."""
    known = History.conflict
    patch.setattr(History, "conflict", lambda self, asked: None if self._sees_no_few() else known(self, asked))


def sizes_alone_are_compared(patch: Patch) -> None:
    """Two cells of as many units are the same."""

    def by_thousands(found: Sequence[Keys], ones: Places, others: Places) -> Places:
        sizes = np.array([len(keys) for keys in found])
        return np.abs(sizes[ones] - sizes[others]) // 1_000

    patch.setattr(history, "differences", by_thousands)


def thresholds_are_as_the_sample_sees_them(patch: Patch) -> None:
    patch.setattr(thresholds, "_thresholds", lambda expressions: iter(()))


def selected_lists_are_whole(patch: Patch) -> None:
    """No value is missing in a list that is selected privately."""
    patch.setattr(Lists, "selected", lambda self, block, asked: set())


def a_list_is_of_the_whole_block(patch: Patch) -> None:
    """A list that one aggregate of a block asks about is taken for one of them all."""
    known = Lists.selected
    patch.setattr(Lists, "selected", lambda self, block, asked: known(self, block, block.expressions))


def what_is_beside_the_rows_decides_about_them(patch: Patch) -> None:
    """A LEFT JOIN with a list is taken for one that leaves rows out."""
    patch.setattr(lists, "_keeping", lambda source: tables(source))


def nothing_is_readable(patch: Patch) -> None:
    """However exact two answers are, what they differ by is not read."""
    patch.setattr(guarding, "History", lambda policy, readable, load: history.History(policy, 0, load))


def noise_is_forgotten(patch: Patch) -> None:
    """Every answer counts as nothing but noise."""
    patch.setattr(guarding, "_spread", lambda release: float("inf"))


def every_answer_by_itself(patch: Patch) -> None:
    """Answers span nothing together."""
    patch.setattr(audit._Space, "exposed", lambda self, most: iter(()))


def parts_are_not_taken_away(patch: Patch) -> None:
    """The remainder that the parts of an answer leave of it is not looked at."""
    patch.setattr(audit, "_parts", lambda *told: [])


CASES: list[tuple[Callable[[Patch], None], list[str]]] = [
    (nothing_left_out_is_refused, [f"{TOTAL} WHERE NOT {FEW}"]),
    (what_no_sample_has_is_void, [f"{TOTAL} WHERE income + age <> 77.25"]),
    (
        what_is_set_changes_no_branch,
        [f"{TOTAL} WHERE CASE WHEN income = 33.25 THEN 'one' WHEN income < 50 THEN 'low' ELSE 'high' END = 'low'"],
    ),
    (parts_are_only_made_false, [f"{TOTAL} WHERE income <> 33.25"]),
    (nested_parts_are_forgotten, [f"{TOTAL} WHERE CASE WHEN {FEW} THEN income < 0 ELSE income < 50 END"]),
    (groups_are_forgotten, [f"SELECT {FEW} AS g, COUNT(*) FROM patient GROUP BY g"]),
    (numbers_are_forgotten, ["SELECT SUM(income + GREATEST(0, 1 - ABS(age - 31) - ABS(site - 1))) FROM patient"]),
    (
        what_a_constant_makes_of_a_value_is_that_value,
        ["SELECT SUM(income + LEAST(age, 30 + 100 * ABS(site - 1) + 100 * ABS(age - 31))) FROM patient"],
    ),
    (
        what_a_constant_makes_of_a_value_is_that_value,
        ["SELECT SUM(LENGTH(REPLACE(city || CAST(age AS VARCHAR), 'a31', '31')) + age) FROM patient WHERE site = 1"],
    ),
    (
        what_is_released_is_the_samples,
        [TOTAL, f"{TOTAL} WHERE NOT (site = 1 AND city = 'a' AND ABS(age - 31) <= ({TOTAL}) / 1e2)"],
    ),
    (what_is_written_down_leaves_nobody_out, [f"{TOTAL} JOIN {WRITTEN} ON site = v.s AND age = v.a"]),
    (nothing_is_loaded, [LIGHT, LIGHTER]),
    (what_is_packed_hides_the_rest, [LIGHT, LIGHTER]),
    (nothing_is_near, [LIGHT, LIGHTER]),
    (multiples_are_other_questions, [LIGHT.replace("COUNT(*)", "SUM(3)"), LIGHTER]),
    (
        multiples_are_other_questions,
        [LIGHT.replace("COUNT(*)", "SUM(age)"), LIGHTER.replace("COUNT(*)", "SUM(-age / 3e0)")],
    ),
    (the_sample_is_taken_for_too_coarse, [LIGHT, LIGHTER]),
    (sizes_alone_are_compared, [LIGHT, LIGHTER]),
    (thresholds_are_as_the_sample_sees_them, [f"{TOTAL} WHERE weight < 81.4", f"{TOTAL} WHERE weight <= 81.4"]),
    (selected_lists_are_whole, [f"{TOTAL} WHERE code IS NOT NULL", f"{TOTAL} WHERE code IN {LISTED}"]),
    (
        a_list_is_of_the_whole_block,
        [f"SELECT COUNT(code), COUNT(*) FILTER (WHERE code IN {LISTED}) FROM patient"],
    ),
    (
        what_is_beside_the_rows_decides_about_them,
        [
            f"SELECT COUNT(p.code) FROM patient p LEFT JOIN {LISTED} AS l ON p.code = l.code",
            f"{TOTAL} WHERE code IN {LISTED}",
        ],
    ),
    (nothing_is_readable, [LIGHT, LIGHTER]),
    (noise_is_forgotten, [LIGHT, LIGHTER]),
]
COARSE: list[tuple[Callable[[Patch], None], list[str]]] = [
    (a_coarse_sample_ends_r3b, [f"{TOTAL} WHERE weight < 81.4", f"{TOTAL} WHERE weight <= 81.4"]),
]
AUDITED: list[tuple[Callable[[Patch], None], list[str]]] = [
    (every_answer_by_itself, [TOTAL, f"{TOTAL} WHERE income < 21", f"{TOTAL} WHERE income >= 21.5"]),
    (parts_are_not_taken_away, [TOTAL, f"{TOTAL} WHERE income < 21", f"{TOTAL} WHERE income >= 21.5"]),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    clinic.write(tmp_path, {name: [] for name in clinic.DDL})
    return tmp_path


def opened(folder: Path, mode: str, people: int | None = None) -> Session:
    """A clinic of as many people as are declared."""
    schema = clinic.schema(folder, guard=mode)
    if people is not None:
        schema = replace(schema, privacy=replace(schema.privacy, units=people))
    return open_session(schema, None, ":memory:", noise=ZeroNoise())


@pytest.fixture
def session(folder: Path) -> Iterator[Session]:
    found = opened(folder, "block")
    yield found
    found.close()


def decision(session: Session, sql: str) -> str:
    try:
        session.execute(sql)
    except Error as refused:
        return refused.code
    return ""


def decisions(folder: Path, mode: str, statements: list[str], people: int | None = None) -> list[str]:
    session = opened(folder, mode, people)
    try:
        return [decision(session, f"/* dpsql: epsilon=10 */ {sql}") for sql in statements]
    finally:
        session.close()


@pytest.mark.parametrize(("plant", "statements"), CASES, ids=[plant.__name__ for plant, _ in CASES])
@pytest.mark.few(5)
def test_a_planted_fault_is_caught(
    plant: Callable[[Patch], None], statements: list[str], folder: Path, monkeypatch: Patch
) -> None:
    sound = decisions(folder, "block", statements)
    plant(monkeypatch)
    answered = decisions(folder, "block", statements)
    assert (sound[-1], answered[-1]) == ("DPSQL-602", "") and sound[:-1] == answered[:-1]


@pytest.mark.parametrize(("plant", "statements"), COARSE, ids=[plant.__name__ for plant, _ in COARSE])
def test_a_fault_is_caught_where_one_sample_unit_stands_for_k_people(
    plant: Callable[[Patch], None], statements: list[str], folder: Path, monkeypatch: Patch
) -> None:
    sound = decisions(folder, "block", statements, 5_000_000)
    plant(monkeypatch)
    answered = decisions(folder, "block", statements, 5_000_000)
    assert (sound, answered) == (["", "DPSQL-602"], ["", ""])


@pytest.mark.parametrize(("plant", "statements"), AUDITED, ids=[plant.__name__ for plant, _ in AUDITED])
def test_a_fault_in_the_audit_is_caught(
    plant: Callable[[Patch], None], statements: list[str], folder: Path, monkeypatch: Patch
) -> None:
    sound = decisions(folder, "audit", statements)
    plant(monkeypatch)
    answered = decisions(folder, "audit", statements)
    assert (sound[-1], answered[-1]) == ("DPSQL-604", "") and sound[:-1] == answered[:-1]


@pytest.mark.parametrize(
    "other",
    [
        "SELECT COUNT(*) FILTER (WHERE code IN {L}) FROM patient",
        "WITH l AS {L} SELECT COUNT(*) FROM patient JOIN l USING (code)",
        "SELECT COUNT(l.code) FROM patient AS p LEFT JOIN {L} AS l ON p.code = l.code",
        "SELECT SUM(x) FROM (SELECT CASE WHEN code IN {L} THEN 1 ELSE 0 END AS x FROM patient)",
    ],
)
def test_a_list_is_the_same_in_other_words_and_lacks_the_same_beside_the_whole(session: Session, other: str) -> None:
    other = f"/* dpsql: epsilon=10 */ {other.replace('{L}', LISTED)}"
    assert decision(session, f"/* dpsql: epsilon=10 */ {TOTAL} WHERE code IN {LISTED}") == ""
    assert decision(session, other) == ""
    assert decision(session, "/* dpsql: epsilon=10 */ SELECT COUNT(code) FROM patient") == "DPSQL-602"


def test_what_was_only_looked_at_is_not_remembered(session: Session) -> None:
    """EXPLAIN of one half is no answer."""
    session.explain(LIGHT)
    assert decision(session, LIGHTER) == ""
    assert decision(session, LIGHT) == "DPSQL-602"


def test_the_result_of_a_nested_query_is_no_value_that_is_made_here(session: Session) -> None:
    """It is computed of rows that are not seen around it."""
    some = "MAX(CASE WHEN age < 50 THEN 1 ELSE 0 END) = 0"
    assert (
        decision(
            session, f"SELECT COUNT(*) FROM (SELECT patient_id FROM patient GROUP BY patient_id HAVING {some}) AS t"
        )
        == ""
    )
