"""Tables of several files: what is read of them, what is verified when files are added, and who is answered of which.

A refresh after which files were only added is held against `check` of the same files, over made-up histories: it approves what that
approves, and believes nothing that it does not find. Planted faults show that the comparison sees a claim that is not looked at.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from dpsql.accounting.ledger import Ledger
from dpsql.accounting.record import approved_files, read_record
from dpsql.accounting.store import MEMORY
from dpsql.accounting.versions import Versions
from dpsql.core.errors import Error
from dpsql.dataset import owner
from dpsql.engines import facts, structure
from dpsql.engines.structure import declared
from dpsql.schema.model import Schema, Table, rows_fact, unit_fact
from dpsql.schema.toml import read_schema
from dpsql.session.opening import ledger_identity, open_session
from dpsql.session.session import Session
from tests.support.noise import ZeroNoise
from tests.unit.engines.clinic_files import HEAD, ROWS, declare, write_csv, write_parquet

TABLES = """\
[tables.person]
source = "person/*.csv"
key = ["person_id"]
[tables.person.columns]
person_id = { type = "BIGINT", nullable = true }
ward = { type = "INTEGER", domain = { from = "ward.ward" } }

[tables.visit]
source = "visit/*.csv"
key = ["visit_id"]
references = { person_id = "person.person_id" }
max_rows_per_unit = 2
[tables.visit.columns]
visit_id = { type = "BIGINT", nullable = true }
person_id = { type = "BIGINT", nullable = true }
cost = { type = "DOUBLE", bounds = [0, 50] }

[tables.item]
source = "item/*.csv"
references = { visit_id = "visit.visit_id" }
max_rows_per_unit = 3
[tables.item.columns]
visit_id = { type = "BIGINT", nullable = true }
amount = { type = "INTEGER", bounds = [0, 9], nullable = true }

[tables.ward]
public = true
source = "ward.csv"
key = ["ward"]
"""
HEADERS = {"person": "person_id,ward", "visit": "visit_id,person_id,cost", "item": "visit_id,amount"}
DECLARED = HEAD.format(source=".") + '[guard]\nmode = "off"\n' + TABLES + "\n[analysts.ann]\n"
FIRST = {"person": ["1,1", "2,2", "3,1"], "visit": ["10,1,5", "11,2,7"], "item": ["10,1", "10,2", "11,3"]}
VISITS, COSTLY = "SELECT COUNT(*) FROM visit", "SELECT COUNT(*) FROM visit WHERE cost > 6"


def put(folder: Path, table: str, name: str, rows: list[str]) -> None:
    (folder / table).mkdir(exist_ok=True)
    (folder / table / f"{name}.csv").write_text("\n".join([HEADERS[table], *rows, ""]))


def clinic(folder: Path, rows: dict[str, list[str]] | None = None) -> Schema:
    write_csv(folder / "ward.csv", ROWS["ward"])
    for table, first in (rows or FIRST).items():
        put(folder, table, "1", first)
    return declare(folder, DECLARED)


def opened_ledger(folder: Path, schema: Schema, name: str = "ledger") -> closing[Ledger]:
    return closing(Ledger.open(folder / name, ledger_identity(schema)))


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A clinic of three tables of files, checked."""
    schema = clinic(tmp_path)
    with opened_ledger(tmp_path, schema) as ledger:
        owner.check(schema, ledger)
    yield tmp_path


def refresh(folder: Path) -> owner.RefreshReport:
    schema = read_schema(folder / "schema.toml")
    with opened_ledger(folder, schema) as ledger:
        return owner.refresh(schema, ledger)


def opened(folder: Path) -> Session:
    return open_session(folder / "schema.toml", "ann", folder / "ledger", noise=ZeroNoise())


def count(session: Session, sql: str = VISITS) -> object:
    return session.execute(sql).rows[0][0]


# --- who is answered of which files -----------------------------------------------------------------------------------


def test_all_files_of_a_pattern_are_one_table(folder: Path) -> None:
    put(folder, "visit", "2", ["12,3,9"])
    refresh(folder)
    with closing(opened(folder)) as session:
        assert count(session) == 3 and not session._world.dataset.engine.is_pinned


def test_until_the_refresh_new_questions_are_of_the_files_that_were_approved(folder: Path) -> None:
    with closing(opened(folder)) as session:
        assert count(session) == 2
        put(folder, "visit", "2", ["12,3,9"])
        assert count(session, COSTLY) == 1, "a connection that is open goes on"
        with closing(opened(folder)) as other:
            answer = other.execute("SELECT SUM(cost) FROM visit")
            assert answer.rows == [(12.0,)] and answer.receipt.loss.rho
            (note,) = answer.notes
            assert note.startswith("as of 20") and "visit changed since" in note
            assert not other.execute(COSTLY).receipt.loss.rho, "the same version"
            assert other.execute("SELECT COUNT(*) FROM person").notes == ()
    assert refresh(folder).changed == ("visit",)
    with closing(opened(folder)) as session:
        assert count(session) == 3 and session.execute(COSTLY).notes == ()


def removed(folder: Path) -> None:
    (folder / "visit" / "1.csv").unlink()


def renamed(folder: Path) -> None:
    (folder / "visit" / "1.csv").rename(folder / "visit" / "0.csv")


def rewritten(folder: Path) -> None:
    found = os.stat(folder / "visit" / "1.csv")
    put(folder, "visit", "1", ["10,1,5", "11,2,8"])
    os.utime(folder / "visit" / "1.csv", ns=(found.st_atime_ns, found.st_mtime_ns))


def redeclared(folder: Path) -> None:
    declare(folder, DECLARED.replace('cost = { type = "DOUBLE"', 'cost = { type = "FLOAT"'))


CHANGES = [removed, renamed, rewritten, redeclared]


@pytest.mark.parametrize("change", CHANGES)
def test_files_that_are_not_those_that_were_approved_are_not_read(folder: Path, change: Callable[[Path], None]) -> None:
    put(folder, "visit", "2", ["12,3,9"])
    change(folder)
    with pytest.raises(Error) as raised, closing(opened(folder)) as session:
        assert session.execute("SELECT COUNT(*) FROM person").receipt.loss.rho
        session.execute(VISITS)
    assert raised.value.code == "DPSQL-708"


def test_a_file_that_moves_to_another_table_is_another_version(tmp_path: Path) -> None:
    """All files in their order are the same; whose they are is not."""
    schema = clinic(tmp_path)
    both = "person_id,ward,visit_id,cost,amount\n7,1,70,5,1\n"
    (tmp_path / "person" / "9.csv").write_text(both)
    with opened_ledger(tmp_path, schema) as ledger:
        owner.check(schema, ledger)
    (tmp_path / "person" / "9.csv").rename(tmp_path / "visit" / "0.csv")
    with closing(opened(tmp_path)) as session, pytest.raises(Error) as raised:
        session.execute(VISITS)
    assert raised.value.code == "DPSQL-708"


def test_an_approved_file_that_changes_ends_a_session_over_the_approved_ones(folder: Path) -> None:
    put(folder, "visit", "2", ["12,3,9"])
    with closing(opened(folder)) as session:
        rewritten(folder)
        with pytest.raises(Error) as raised:
            session.execute(COSTLY)
        assert raised.value.code == "DPSQL-708"


def test_files_that_are_hidden_are_still_being_written(folder: Path) -> None:
    (folder / "visit" / ".3.csv").write_text("no visit at all")
    assert refresh(folder).changed == ()


def test_only_the_latest_version_knows_its_files(folder: Path) -> None:
    schema = read_schema(folder / "schema.toml")
    put(folder, "visit", "2", ["12,3,9"])
    with opened_ledger(folder, schema) as ledger:
        before = Versions(ledger).latest()
        owner.refresh(schema, ledger)
        after = Versions(ledger).latest()
        assert before is not None and after is not None
        assert not approved_files(ledger, before[0]) and set(approved_files(ledger, after[0])["visit"]) == {
            "1.csv",
            "2.csv",
        }
        (folder / "visit" / "2.csv").unlink()
        assert owner.refresh(schema, ledger).version == before[0]
        assert set(approved_files(ledger, before[0])["visit"]) == {"1.csv"} and not approved_files(ledger, after[0])


# --- files of several forms -------------------------------------------------------------------------------------------


def test_each_file_is_read_in_the_types_that_it_has(tmp_path: Path) -> None:
    clinic(tmp_path)
    schema = declare(tmp_path, DECLARED.replace("visit/*.csv", "visit/*"))
    write_parquet(
        tmp_path / "visit" / "2.parquet", "SELECT 1.5::DOUBLE AS cost, '12' AS visit_id, 3::UTINYINT AS person_id"
    )
    write_parquet(tmp_path / "visit" / "3.parquet", "SELECT 13::HUGEINT AS visit_id, 3 AS person_id, 'much' AS cost")
    with opened_ledger(tmp_path, schema) as ledger:
        report = owner.check(schema, ledger)
        visit = next(found for found in report.tables if found.table.name == "visit")
        assert visit.rows == 4 and [c.unfit for c in visit.columns] == [0, 0, 1]
    with closing(opened(tmp_path)) as session:
        assert count(session) == 4 and count(session, "SELECT SUM(cost) FROM visit") == 13.5


@pytest.mark.parametrize(
    "source, what",
    [
        ("visit/*.txt", "no file has such a name"),
        ("v*/1.csv", "names files of one folder"),
        ("visit/[1].csv", "may not contain"),
    ],
)
def test_a_pattern_that_names_no_files_is_told(folder: Path, source: str, what: str) -> None:
    declare(folder, DECLARED.replace("visit/*.csv", source))
    with pytest.raises(Error, match=what) as raised:
        opened(folder)
    assert raised.value.code == "DPSQL-707"


def test_files_of_delta_lake_are_not_read_without_its_log(folder: Path) -> None:
    declare(folder, DECLARED)
    (folder / "visit" / "_delta_log").mkdir()
    with pytest.raises(Error, match=r"DPSQL-707: .*holds removed rows too"):
        opened(folder)


def test_a_public_table_is_one_file_and_in_no_pattern(folder: Path) -> None:
    declare(folder, DECLARED.replace('"ward.csv"', '"ward*.csv"'))
    with pytest.raises(Error, match="a public table is one file"):
        opened(folder)
    os.rename(folder / "ward.csv", folder / "visit" / "ward.csv")
    declare(folder, DECLARED.replace('"ward.csv"', '"visit/ward.csv"'))
    with pytest.raises(Error, match="takes in the file of a public table"):
        opened(folder)


# --- a refresh beside a check -----------------------------------------------------------------------------------------


def record(schema: Schema, ledger: Ledger) -> frozenset[str]:
    latest = Versions(ledger).latest()
    assert latest is not None
    return read_record(ledger, latest[0], declared(schema)).facts


@pytest.mark.parametrize(
    "table, rows, lost",
    [
        ("visit", ["12,3,9"], None),
        ("visit", ["12,1,9"], None),
        ("visit", ["12,1,9", "13,1,2"], rows_fact("visit")),
        ("visit", ["12,,9"], unit_fact("visit")),
        ("visit", ["12,77,9"], unit_fact("visit")),
        ("visit", ["12,3,51"], "bounds 'visit' 'cost'"),
        ("item", ["77,1"], unit_fact("item")),
        ("item", ["10,"], None),
        ("item", ["10,1", "10,1"], rows_fact("item")),
        ("person", ["4,1"], None),
        ("person", ["4,8"], "bounds 'person' 'ward'"),
    ],
)
@pytest.mark.few(8)
def test_what_added_rows_do_to_what_was_verified(folder: Path, table: str, rows: list[str], lost: str | None) -> None:
    schema = read_schema(folder / "schema.toml")
    with opened_ledger(folder, schema) as ledger:
        before = record(schema, ledger)
        put(folder, table, "2", rows)
        owner.refresh(schema, ledger)
        gone = before - record(schema, ledger)
        assert lost in gone if lost is not None else not gone
        found = record(schema, ledger)
        owner.check(schema, ledger)
        assert found == record(schema, ledger)


@pytest.mark.parametrize("table, rows", [("visit", ["10,3,1"]), ("person", ["3,2"]), ("person", ["5,1", "5,1"])])
def test_a_key_of_an_added_row_that_repeats_is_not_approved(folder: Path, table: str, rows: list[str]) -> None:
    put(folder, table, "2", rows)
    with pytest.raises(Error, match=rf"table {table}: rows repeat") as raised:
        refresh(folder)
    assert raised.value.code == "DPSQL-804"
    with closing(opened(folder)) as session:
        assert count(session) == 2, "what was approved goes on"


def test_only_added_files_are_read_through(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    through = structure._read_through
    monkeypatch.setattr(structure, "_read_through", lambda e, table: (read.append(table.name), through(e, table)))
    put(folder, "visit", "2", ["12,3,9"])
    refresh(folder)
    assert len(read) == 2 and read[0].endswith("added visit") and read[1] == "ward"


def grown(chance: random.Random) -> dict[str, list[str]]:
    """Rows of one day: most of them as declared, some against a key, a limit, bounds or a reference."""

    def of(*likely: object, seldom: object = "") -> object:
        return seldom if chance.random() < 0.06 else chance.choice(likely)

    person = [f"{of(*range(1, 60))},{of(1, 2, seldom=9)}" for _ in range(chance.randint(0, 2))]
    visit = [f"{of(*range(100, 400))},{of(*range(1, 40))},{of(1, 50, seldom=51)}" for _ in range(chance.randint(0, 3))]
    item = [f"{of(*range(100, 400))},{of(1, 9, '', seldom=10)}" for _ in range(chance.randint(0, 3))]
    return {"person": person, "visit": visit, "item": item}


def lived(folder: Path, seed: int, add: Callable[[Path, str, str, list[str]], None] = put) -> tuple[int, int, int]:
    """A history whose every day is refreshed in one ledger and checked in another.

    add     puts the rows of a day into the files of a table
    Output  days on which both refused, those on which both found the same, and those on which the refresh believed less
    """
    chance = random.Random(seed)
    schema = clinic(
        folder,
        {
            "person": [f"{i},1" for i in range(1, 35)],
            "visit": [f"{i},{i % 30 + 1},5" for i in range(100, 140)],
            "item": [f"{i},1" for i in range(100, 120)],
        },
    )
    refused = same = less = 0
    with opened_ledger(folder, schema) as ledger, closing(Ledger.open(MEMORY, ledger_identity(schema))) as other:
        owner.check(schema, ledger)
        for day in range(2, 9):
            before = {path: path.read_bytes() for path in folder.glob("*/*.csv")}
            for table, rows in grown(chance).items():
                if rows:
                    add(folder, table, f"{day}", rows)
            found = [
                _outcome(lambda: owner.refresh(schema, ledger)),
                _outcome(lambda: owner.check(schema, other)),
            ]
            assert found[0] == found[1], (day, found)
            if found[0]:
                refused += 1
                for path in folder.glob("*/*.csv"):
                    path.unlink()
                for path, content in before.items():
                    path.write_bytes(content)
                continue
            assert record(schema, ledger) <= record(schema, other), day
            same += record(schema, ledger) == record(schema, other)
            less += record(schema, ledger) < record(schema, other)
    return refused, same, less


def _outcome(work: Callable[[], object]) -> str:
    try:
        work()
    except Error as problem:
        return str(problem)
    return ""


@pytest.mark.slow
def test_a_refresh_finds_what_a_check_finds(tmp_path: Path) -> None:
    found = []
    for seed in range(4):
        (tmp_path / f"{seed}").mkdir()
        found.append(lived(tmp_path / f"{seed}", seed))
    refused, same, less = map(sum, zip(*found, strict=True))
    assert refused > 3 and same > 10 and not less, "nobody is asked to run check for facts that a refresh lost"


def _groups_of_added(engine: object, table: Table, columns: object, added: dict[str, Table]) -> str:
    return f'main."{added.get(table.name, table).name}"'


def _most_of_added(engine: facts.Engine, schema: Schema, table: Table, shown: Table) -> facts.TableFacts:
    return facts.replace(facts.table_facts(engine, schema, shown), table=table)


PLANTED: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "keys of added rows are not held against older ones": lambda m: m.setattr(structure, "_groups", _groups_of_added),
    "older rows of a unit are not counted": lambda m: m.setattr(owner, "added_facts", _most_of_added),
    "older facts are believed": lambda m: m.setattr(owner, "still_verified", lambda schema, found, before: before),
}


@pytest.mark.parametrize("fault", PLANTED)
@pytest.mark.few(1)
def test_planted_faults_are_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    PLANTED[fault](monkeypatch)
    with pytest.raises(AssertionError):
        for seed in range(6):
            (tmp_path / f"{seed}").mkdir()
            lived(tmp_path / f"{seed}", seed)
