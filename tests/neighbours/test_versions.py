"""A history of versions, with one person and without: what is charged, refused and said is the same, and each exact sum differs by no
more than its release claims.

Neighbours are whole histories (rule 61): the person is gone from all versions at once. Which tables get a version, and when, is the
same in both: it is public by assumption.
"""

from __future__ import annotations

import random
import re
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from dpsql.accounting.ledger import Ledger
from dpsql.answers.questions import AnswerScope
from dpsql.core.errors import Error
from dpsql.dataset import owner
from dpsql.schema.toml import read_schema
from dpsql.session.opening import ledger_identity, open_session
from tests.support.noise import RecordedNoise
from tests.unit.engines.clinic_files import HEAD, ROWS, TABLES, declare, write_csv

DECLARED = HEAD.format(source=".") + '[guard]\nmode = "off"\n' + TABLES.format(suffix=".csv") + "\n[analysts.ann]\n"
DECLARED = DECLARED.replace("epsilon = 4.0", "epsilon = 40.0")
LIMIT, COST = 2, 50
STATEMENTS = {
    "SELECT COUNT(*) FROM visit": LIMIT,
    "SELECT SUM(cost) FROM visit": LIMIT * COST,
    "SELECT COUNT(*) FROM person": 1,
    "SELECT ward, SUM(income) FROM person GROUP BY ward": 100,
}
"""With the most that one person changes over all the cells of one version."""
VERSIONS = 5
VICTIM = 3


@dataclass(slots=True)
class Told:
    """All that an analyst saw of one history without noise.

    public  receipts, notes and refusals, and the tables whose versions differ from those before
    sums    by version and statement, the exact cells
    """

    public: list[object] = field(default_factory=list)
    sums: dict[tuple[int, str], list[float]] = field(default_factory=dict)


def history(seed: int) -> list[dict[str, list[tuple[object, ...]]]]:
    """Rows of each version: some appended, some corrected, some late.

    Why  the first row of a file that changes does: that it is written anew, and not appended to, is public, as is that it changes
    """
    chance = random.Random(seed)
    person = [(i, chance.choice([1, 2]), chance.choice([-5, 50, 5_000])) for i in range(1, 6)]
    visit = [(chance.randint(1, 6), chance.choice([1, 49, 90_000])) for _ in range(8)]
    found = []
    for version in range(VERSIONS):
        if version % 2:
            person = [*person, (10 + version, 1, 50)]
            person[chance.randrange(5)] = (VICTIM, 2, 90_000) if person[VICTIM - 1][0] != VICTIM else person[0]
            person = list({row[0]: row for row in person}.values())
        visit = [*visit[1:], *((chance.choice([VICTIM, VICTIM, 1]), chance.choice([7, 90_000])) for _ in range(3))]
        first = (100 + (version + 1) // 2, 1, 50)
        found.append({"person": [first, *person], "visit": [(1, version + 1), *visit]})
    return found


def appended(seed: int) -> list[dict[str, list[tuple[object, ...]]]]:
    """Rows of each version: visits are appended, and nothing else changes."""
    first, *others = history(seed)
    found = [first]
    for version, other in enumerate(others):
        more = [(1, version), *other["visit"][-3:], (VICTIM, 90_000)]
        found.append({"person": first["person"], "visit": [*found[-1]["visit"], *more]})
    return found


def without(version: dict[str, list[tuple[object, ...]]]) -> dict[str, list[tuple[object, ...]]]:
    return {table: [row for row in rows if row[0] != VICTIM] for table, rows in version.items()}


def written(folder: Path, version: dict[str, list[tuple[object, ...]]]) -> None:
    person = "".join(f"{i},{ward},{income},1950-01-01,Ann\n" for i, ward, income in version["person"])
    (folder / "person.csv").write_text(f"person_id,ward,income,born,name\n{person}")
    (folder / "visit.csv").write_text("person_id,cost\n" + "".join(f"{i},{cost}\n" for i, cost in version["visit"]))


def lived(folder: Path, versions: list[dict[str, list[tuple[object, ...]]]], *, prepare: bool) -> Told:
    """Every statement on every version, before and after it is approved."""
    folder.mkdir()
    write_csv(folder / "ward.csv", ROWS["ward"])
    declare(folder, DECLARED)
    schema, told = read_schema(folder / "schema.toml"), Told()
    with closing(Ledger.open(folder / "ledger", ledger_identity(schema))) as ledger:
        for place, version in enumerate(versions):
            written(folder, version)
            if place:
                asked(folder, told, (place, "before"))
                told.public.append(owner.refresh(schema, ledger).changed)
            else:
                owner.check(schema, ledger, prepare=prepare)
            asked(folder, told, (place, "after"))
    return told


def asked(folder: Path, told: Told, when: tuple[int, str]) -> None:
    noise = RecordedNoise()
    with closing(open_session(folder / "schema.toml", "ann", folder / "ledger", noise=noise)) as session:
        for sql in [
            *STATEMENTS,
            *([f"SELECT COUNT(*) FROM visit WHERE cost > {when[0]}"] if when[1] == "before" else []),
        ]:
            try:
                found = session.execute(sql)
            except Error as refused:
                told.public.append((when, sql, str(refused)))
                continue
            notes = tuple(re.sub(r"as of .*? UTC", "as of", note) for note in found.notes)
            told.public.append((when, sql, found.receipt.loss, found.receipt.remaining, notes, list(noise.drawn)))
            if when[1] == "after":
                told.sums[when[0], sql] = [float(str(row[-1])) for row in sorted(found.rows, key=str)]


def violations(one: Told, other: Told) -> list[str]:
    found = [] if one.public == other.public else ["what is public differs"]
    for (version, sql), cells in one.sums.items():
        moved = sum(abs(a - b) for a, b in zip(cells, other.sums[version, sql], strict=True))
        if moved > STATEMENTS[sql]:
            found.append(f"{sql}: {moved} in version {version}")
    return found


@pytest.mark.few(1)
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("prepare", [False, True], ids=["in place", "prepared"])
def test_one_person_over_a_history_of_versions(tmp_path: Path, seed: int, prepare: bool) -> None:
    versions = history(seed)
    one = lived(tmp_path / "with", versions, prepare=prepare)
    other = lived(tmp_path / "without", [without(v) for v in versions], prepare=prepare)
    assert len(one.sums) == VERSIONS * len(STATEMENTS) and violations(one, other) == []
    assert sum(isinstance(each, tuple) and "708" in str(each[-1]) for each in one.public) == (
        0 if prepare else VERSIONS - 1
    )


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_one_person_over_a_history_of_appended_rows(tmp_path: Path, seed: int) -> None:
    """Every question is answered, of the approved rows, until the next version is approved."""
    versions = appended(seed)
    one = lived(tmp_path / "with", versions, prepare=False)
    other = lived(tmp_path / "without", [without(v) for v in versions], prepare=False)
    assert len(one.sums) == VERSIONS * len(STATEMENTS) and violations(one, other) == []
    assert not any("DPSQL" in str(each[-1]) for each in one.public if isinstance(each, tuple))


@pytest.mark.slow
def test_an_answer_that_outlives_its_version_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fault that rule 61 is against: the answers of the first version stand for all later ones, and nothing is charged."""
    sums = lived(tmp_path / "sound", history(1), prepare=False).sums
    monkeypatch.setattr(AnswerScope, "of", lambda scope, release: "the same")
    assert lived(tmp_path / "planted", history(1), prepare=False).sums != sums


@pytest.mark.slow
def test_facts_that_outlive_their_version_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fault that a refresh could bring: a table that changed keeps what was verified of it, and no limit holds any more."""
    person: list[tuple[object, ...]] = [(i, 1, 50) for i in range(1, 6)]
    calm: list[tuple[object, ...]] = [(1, 7), (VICTIM, 7)]
    grown = [*calm, (1, 7), *[(VICTIM, 90_000)] * LIMIT]
    versions = [{"person": person, "visit": calm}, {"person": person, "visit": grown}]

    def found(folder: Path) -> list[str]:
        folder.mkdir()
        one = lived(folder / "with", versions, prepare=True)
        return violations(one, lived(folder / "without", [without(v) for v in versions], prepare=True))

    assert found(tmp_path / "sound") == []
    monkeypatch.setattr(owner, "_facts_anew", lambda engine, schema, moved, before, added: before)
    planted = found(tmp_path / "planted")
    assert any("SUM(cost)" in each for each in planted) and any("COUNT(*)" in each for each in planted)
