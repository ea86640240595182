"""Rule 61: an answer stays stored while what it depends on stays the same, in the data and in the declarations, and no longer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import duckdb
import pytest

from dpsql.accounting.ledger import Ledger
from dpsql.core.errors import Error
from dpsql.dataset.opening import open_dataset
from dpsql.planner import measure, planning
from dpsql.schema.toml import read_schema
from dpsql.session.opening import ledger_identity, open_session
from dpsql.session.session import Session
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
@pytest.mark.few(4)
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
@pytest.mark.few(4)
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


# --- what is not approved yet: with declared analysts only the owner's check approves ----------------------------------


GUARDED = DECLARED + "\n[analysts.ann]\n"


def approve(folder: Path) -> None:
    """Approve the data's version as `dpsql check` does."""
    declared = read_schema(folder / "schema.toml")
    with closing(Ledger.open(folder / "ledger", ledger_identity(declared))) as ledger:
        open_dataset(declared, ledger, approve=True).close()


@pytest.fixture
def guarded(folder: Path) -> Iterator[Path]:
    declare(folder, GUARDED)
    approve(folder)
    yield folder


def opened(folder: Path) -> Session:
    return open_session(folder / "schema.toml", "ann", folder / "ledger")


def code(session: Session, sql: str) -> str:
    with pytest.raises(Error) as raised:
        session.execute(sql)
    with pytest.raises(Error) as priced:
        session.price(sql)
    assert str(priced.value) == str(raised.value), "a price says the same"
    return f"{raised.value}"


def insert(folder: Path, table: str) -> None:
    """A row in place before the others, as another program would sort it in: the file begins with other bytes than were approved."""
    header, *rows = (folder / f"{table}.csv").read_text().splitlines(keepends=True)
    row = {"visit": "3,7.00\n", "person": "5,2,20.0,1970-01-01,Eve\n", "ward": "3,west,3.5,\n"}[table]
    (folder / f"{table}.csv").write_text("".join([header, row, *rows]))


def test_tables_that_did_not_change_are_answered_and_stored_answers_say_as_of_when(guarded: Path) -> None:
    with closing(opened(guarded)) as session:
        before = session.execute(VISIT)
        assert before.notes == ()
    insert(guarded, "visit")
    with closing(opened(guarded)) as session:
        after = session.execute(VISIT)
        assert after.rows == before.rows and not after.receipt.loss.rho
        (note,) = after.notes
        assert note.startswith("as of 20") and "visit changed since" in note
        assert session.execute(VISIT).notes == (note,)
        assert session.explain(VISIT).splitlines()[-1] == note and "as of" not in session.explain(NIGHTS)
        assert session.execute(NIGHTS).receipt.loss.rho and session.execute(NIGHTS).notes == ()
        for sql in (BOTH, NESTED, "SELECT AVG(cost) FROM visit WHERE cost > 1"):
            assert "DPSQL-708: visit changed" in code(session, sql)
    approve(guarded)
    with closing(opened(guarded)) as session:
        assert not session.execute(NIGHTS).receipt.loss.rho
        found = session.execute(VISIT)
        assert found.receipt.loss.rho and found.notes == ()


def test_nothing_is_charged_and_nothing_read_of_what_changed(guarded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    insert(guarded, "visit")
    with closing(opened(guarded)) as session:
        left = session.execute("SELECT 1").receipt.remaining
        monkeypatch.setattr(
            type(session._world.dataset.engine), "exact", lambda *_: pytest.fail("the engine was asked")
        )
        code(session, VISIT)
        assert session.execute("SELECT 1").receipt.remaining == left


def test_the_table_of_the_units_changes_everything(guarded: Path) -> None:
    insert(guarded, "person")
    with closing(opened(guarded)) as session:
        for sql in ALL:
            assert "DPSQL-708: person changed" in code(session, sql)


@pytest.mark.parametrize("case", ["public", "deleted", "column"])
def test_what_cannot_be_planned_is_not_opened(guarded: Path, case: str) -> None:
    match case:
        case "public":
            insert(guarded, "ward")
        case "deleted":
            (guarded / "visit.csv").unlink()
        case _:
            write_csv(guarded / "visit.csv", "SELECT 1::BIGINT AS person_id")
    with pytest.raises(Error) as raised:
        opened(guarded)
    assert raised.value.code == {"public": "DPSQL-708", "deleted": "DPSQL-707", "column": "DPSQL-804"}[case]


def test_a_changed_structure_is_a_change_of_its_table(guarded: Path) -> None:
    declare(guarded, GUARDED.replace('nights = { type = "BIGINT"', 'nights = { type = "INTEGER"'))
    with closing(opened(guarded)) as session:
        assert session.execute(VISIT).receipt.loss.rho
        assert "DPSQL-708: stay changed" in code(session, NIGHTS)


def test_a_session_that_is_open_does_not_learn_of_a_change(guarded: Path) -> None:
    """It is opened again for that; nothing is released meanwhile, and nothing charged."""
    with closing(opened(guarded)) as session:
        stored = session.execute(VISIT)
        insert(guarded, "visit")
        assert session.execute(VISIT).rows == stored.rows
        with pytest.raises(Error) as raised:
            session.execute(NIGHTS)
        assert raised.value.code == "DPSQL-708" and "new connection" in (raised.value.hint or "")


def test_what_was_opened_before_the_approval_does_not_serve_those_after_it(guarded: Path) -> None:
    insert(guarded, "visit")
    with closing(opened(guarded)) as before:
        code(before, VISIT)
        approve(guarded)
        code(before, VISIT)
        with closing(opened(guarded)) as after:
            assert after.execute(VISIT).receipt.loss.rho


def test_versions_are_shown(guarded: Path) -> None:
    with closing(opened(guarded)) as session:
        rows = session.execute("SHOW VERSIONS").rows
        assert [row[0] for row in rows] == ["person", "visit", "ward", "stay"] and len({row[1] for row in rows}) == 1
        session.execute(NIGHTS)
        (held,) = session.execute("SELECT DISTINCT version FROM dpsql.ledger").rows
        assert held == (rows[0][1],)
    insert(guarded, "visit")
    approve(guarded)
    with closing(opened(guarded)) as session:
        found = dict(row[:2] for row in session.execute("SELECT table_name, version FROM dpsql.versions").rows)
        assert {name for name, version in found.items() if version != rows[0][1]} == {"visit"}


def test_one_file_of_all_tables_has_a_version_of_each(tmp_path: Path) -> None:
    """The table that changed waits for its approval; the others, which are the same rows, are answered."""
    clinic(tmp_path, "duckdb")
    declare(tmp_path, HEAD.format(source="clinic.duckdb") + TABLES.format(suffix="") + "[analysts.ann]\n")
    approve(tmp_path)
    duckdb.connect(str(tmp_path / "clinic.duckdb")).execute("INSERT INTO visit VALUES (3, 7.00)").close()
    with closing(opened(tmp_path)) as session:
        assert session.execute("SELECT COUNT(*) FROM person").releases == 1
        with pytest.raises(Error) as raised:
            session.execute("SELECT COUNT(*) FROM visit")
    assert raised.value.code == "DPSQL-708"
