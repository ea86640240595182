"""C11: a full budget for people who were asked about before, by another ledger for the same data. It is refused, or said aloud."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import dpsql
from dpsql.clients.cli.main import main
from dpsql.dataset import binding
from dpsql.engines.base import UnitPlace
from dpsql.schema.model import Analyst, Schema
from dpsql.schema.toml import read_schema
from tests.support import clinic
from tests.support.copies import copied

COUNT = "SELECT COUNT(*) FROM person"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return copied(tmp_path)


@pytest.fixture
def spent(file: Path) -> Path:
    """A schema's file of which the budget is spent in part."""
    with dpsql.connect(file) as connection:
        connection.execute(COUNT)
    return file


def refused(work: Path | Schema, **how: object) -> str:
    with pytest.raises(dpsql.IntegrityError) as caught:
        dpsql.connect(work, **how)  # type: ignore[arg-type]
    assert caught.value.code == "DPSQL-714" and caught.value.__context__ is None
    return str(caught.value)


def edited(file: Path, *changes: tuple[str, str], name: str = "other.toml") -> Path:
    text = file.read_text()
    for before, after in changes:
        assert before in text
        text = text.replace(before, after)
    (file.parent / name).write_text(text)
    return file.parent / name


def marks(file: Path) -> list[Path]:
    return sorted(file.parent.glob(f".*{binding.SUFFIX}"))


# --- another ledger -------------------------------------------------------------------------------------------------------


def test_another_name_of_the_dataset(spent: Path) -> None:
    said = refused(edited(spent, ('name   = "randhie"', 'name   = "again"')))
    assert said == (
        f"DPSQL-714: the data is bound to the ledger {spent.parent / 'randhie.ledger'}, not to {spent.parent / 'again.ledger'}; "
        "open it with that one; to begin with nothing spent, the owner runs `dpsql check SCHEMA --new-ledger`"
    )


@pytest.mark.parametrize(
    "changes",
    [
        (('source = "."', 'source = "../randhie"\nledger = "other.ledger"'),),
        (
            ("[tables.person]", "[tables.people]"),
            ("[tables.person.", "[tables.people."),
            ("person.person_id", "people.person_id"),
            ('name   = "randhie"', 'name = "x"'),
        ),
        (("epsilon = 4.0 ", "epsilon = 40.0 "), ('name   = "randhie"', 'name = "x"')),
    ],
    ids=["another file", "another name of the table", "another budget"],
)
def test_another_schema_for_the_same_data(spent: Path, changes: tuple[tuple[str, str], ...]) -> None:
    refused(edited(spent, *changes))


def test_another_ledger_by_argument_and_url(spent: Path, tmp_path: Path) -> None:
    refused(spent, ledger=tmp_path / "mine.ledger")
    pytest.importorskip("sqlalchemy")
    import sqlalchemy

    engine = sqlalchemy.create_engine(f"dpsql:///{spent}?ledger={tmp_path / 'mine.ledger'}")
    with pytest.raises(sqlalchemy.exc.DBAPIError, match="DPSQL-714"):
        engine.connect()


def test_a_ledger_that_was_deleted(spent: Path) -> None:
    for path in spent.parent.glob("randhie.ledger*"):
        path.unlink()
    refused(spent)


def test_a_schema_elsewhere_and_a_way_round_by_links(spent: Path, tmp_path: Path) -> None:
    (tmp_path / "away").mkdir()
    text = spent.read_text().replace('source = "."', f'source = "{spent.parent}"')
    (tmp_path / "away" / "schema.toml").write_text(text)
    refused(tmp_path / "away" / "schema.toml")
    (tmp_path / "linked").symlink_to(spent.parent)
    (tmp_path / "away" / "schema.toml").write_text(
        spent.read_text().replace('source = "."', f'source = "{tmp_path / "linked"}"')
    )
    refused(tmp_path / "away" / "schema.toml")


def test_a_table_that_is_named_by_another_folder(spent: Path, tmp_path: Path) -> None:
    """The mark is of the file that holds the units, whatever the dataset's source is."""
    text = spent.read_text().replace('source = "."', f'source = "{tmp_path}"')
    for name in ("person", "person_year", "plan"):
        text = text.replace(f'"{name}.parquet"', f'"randhie/{name}.parquet"')
    (tmp_path / "schema.toml").write_text(text)
    refused(tmp_path / "schema.toml")


def test_a_file_of_duckdb(tmp_path: Path) -> None:
    clinic.write(tmp_path, clinic.database(random.Random(1), wild=False))
    schema = clinic.schema(tmp_path)
    dpsql.connect(schema, ledger=tmp_path / "a.ledger").close()
    dpsql.connect(schema, ledger=tmp_path / "a.ledger").close()
    refused(schema, ledger=tmp_path / "b.ledger")


def test_another_unit_of_the_same_data_has_a_ledger_of_its_own(tmp_path: Path) -> None:
    """Their promises are two; known-limits.md says that they add up."""
    clinic.write(tmp_path, clinic.database(random.Random(1), wild=False))
    dpsql.connect(clinic.schema(tmp_path), ledger=tmp_path / "a.ledger").close()
    row = clinic.schema(tmp_path)
    row = replace(row, privacy=replace(row.privacy, unit="visit.patient_id"))
    assert binding._beside(UnitPlace("", tmp_path / "clinic.duckdb"), row) == binding._beside(
        UnitPlace("", tmp_path / "clinic.duckdb"), clinic.schema(tmp_path)
    )
    other = replace(row, privacy=replace(row.privacy, unit="row"))
    assert binding._beside(UnitPlace("", tmp_path / "clinic.duckdb"), other) != binding._beside(
        UnitPlace("", tmp_path / "clinic.duckdb"), row
    )


def test_new_data_under_the_same_name_keeps_its_ledger(spent: Path, tmp_path: Path) -> None:
    """A new version is of the same people: budgets never reset by version."""
    data = spent.parent / "person.parquet"
    data.write_bytes(data.read_bytes())
    refused(spent, ledger=tmp_path / "mine.ledger")
    with dpsql.connect(spent) as connection:
        assert connection.execute("SHOW BUDGET").fetchall()


# --- what the owner writes ------------------------------------------------------------------------------------------------


def test_the_command_that_is_told_works(spent: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mine = str(tmp_path / "mine.ledger")
    assert main(["check", str(spent), "--ledger", mine]) == 4 and "DPSQL-714" in capsys.readouterr().err
    assert main(["check", str(spent), "--ledger", mine, "--new-ledger"]) == 0
    with dpsql.connect(spent, ledger=mine) as connection:
        assert connection.execute(COUNT).privacy.remaining > 3
        assert connection.messages == []
    refused(spent)  # the first one is not taken up again unnoticed


def test_declared_analysts_cannot_choose_a_ledger(spent: Path, tmp_path: Path) -> None:
    """Nothing is approved in a new one, and the owner's check of it is refused."""
    named = replace(read_schema(spent), analysts=(Analyst("alice"),))
    with dpsql.connect(named, analyst="alice") as connection:
        assert connection.execute(COUNT).privacy.cached
    refused(named, analyst="alice", ledger=tmp_path / "mine.ledger")
    with pytest.raises(dpsql.OperationalError, match="DPSQL-708"):
        dpsql.connect(named, analyst="alice", ledger=":memory:")


# --- said aloud -----------------------------------------------------------------------------------------------------------


def test_a_ledger_in_memory_says_so(spent: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with dpsql.connect(spent, ledger=":memory:") as connection:
        ((kind, warning),) = connection.messages
        assert kind is dpsql.Warning and str(warning) == binding.IN_MEMORY
    assert main([str(spent), "--ledger", ":memory:", "--mode", "table", "-c", COUNT]) == 0
    assert "the ledger is in memory" in capsys.readouterr().out
    assert main([str(spent), "--mode", "table", "-c", COUNT]) == 0
    assert "memory" not in capsys.readouterr().out


def test_a_ledger_in_memory_binds_nothing(file: Path) -> None:
    dpsql.connect(file, ledger=":memory:").close()
    assert not marks(file)
    dpsql.connect(file).close()
    assert len(marks(file)) == 1


def test_a_copy_without_its_mark_is_told(spent: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "copy").mkdir()
    elsewhere = copied(tmp_path / "copy")
    with dpsql.connect(elsewhere) as connection:
        ((kind, warning),) = connection.messages
        assert kind is dpsql.Warning
        assert str(warning).startswith(
            f"the same data has another ledger, {spent.parent / 'randhie.ledger'}: what is spent in both"
        )
    assert main(["check", str(elsewhere)]) == 0
    assert "note: the same data has another ledger" in capsys.readouterr().out


def test_a_copy_with_its_mark_is_refused(spent: Path, tmp_path: Path) -> None:
    shutil.copytree(spent.parent, tmp_path / "copy", ignore=shutil.ignore_patterns("*.ledger*"))
    refused(tmp_path / "copy" / "schema.toml")


def test_rule_37_nothing_that_is_kept_is_a_plain_hash(spent: Path, state: Path) -> None:
    """Without the key nobody can try contents: the key is the owner's to read."""
    kept = list((state / "dpsql").iterdir())
    assert {path.name for path in kept} > {"key"} and (state / "dpsql" / "key").stat().st_mode & 0o077 == 0
    names = {path.name for path in kept}
    (state / "dpsql" / "key").write_text("another")
    places = {binding._kept(b"content\nperson_id\n"), binding._kept(b"x")}
    assert names.isdisjoint({place.name for place in places if place is not None})
    (mark,) = marks(spent)
    assert set(json.loads(mark.read_text())) == {"ledger", "path"}


# --- where the mark cannot be beside the data -----------------------------------------------------------------------------


@pytest.fixture
def unwritable(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Beside the data nothing can be written (whoever runs the tests may be allowed everything)."""
    real = binding._put

    def put(place: Path, content: bytes, anew: bool, mode: int) -> None:
        if "state" not in place.parts:
            raise PermissionError(13, "Permission denied")
        real(place, content, anew, mode)

    with monkeypatch.context() as patched:
        patched.setattr(binding, "_put", put)
        yield


@pytest.mark.usefixtures("unwritable")
def test_a_folder_that_cannot_be_written(file: Path, tmp_path: Path, state: Path) -> None:
    dpsql.connect(file, ledger=tmp_path / "a.ledger").close()
    assert not marks(file) and state.exists()
    with dpsql.connect(file, ledger=tmp_path / "a.ledger") as connection:
        assert connection.messages == []
    refused(file, ledger=tmp_path / "b.ledger")
    assert main(["check", str(file), "--ledger", str(tmp_path / "b.ledger"), "--new-ledger"]) == 0
    dpsql.connect(file, ledger=tmp_path / "b.ledger").close()
    refused(file, ledger=tmp_path / "a.ledger")


@pytest.mark.usefixtures("unwritable")
def test_where_nothing_can_be_written_it_says_so(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/proc/nowhere")
    with dpsql.connect(file, ledger=tmp_path / "a.ledger") as connection:
        assert [str(warning) for _, warning in connection.messages] == [binding.UNBOUND]
        assert connection.execute(COUNT).fetchall()


@pytest.mark.few(1)
@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"ledger": 1}', b"\xff" * 10, b"{" * 10**6])
def test_a_mark_that_says_nothing_is_of_no_ledger(spent: Path, content: bytes) -> None:
    """It is never taken for none; and the owner can write it anew."""
    (mark,) = marks(spent)
    mark.write_bytes(content)
    assert "the data is bound to another ledger" in refused(spent)
    assert main(["check", str(spent), "--new-ledger"]) == 0
    dpsql.connect(spent).close()


def test_an_opening_writes_no_mark_that_is_there(spent: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(binding, "_put", never)
    with dpsql.connect(spent) as connection:
        assert connection.messages == []


def test_a_ledger_of_before_there_were_marks_gets_one(spent: Path, tmp_path: Path) -> None:
    (mark,) = marks(spent)
    mark.unlink()
    dpsql.connect(spent).close()
    assert marks(spent) == [mark]
    refused(spent, ledger=tmp_path / "mine.ledger")


def test_a_file_with_a_long_name(spent: Path) -> None:
    name = "ä" * 100 + ".parquet"
    shutil.copy(spent.parent / "person.parquet", spent.parent / name)
    long = edited(spent, ('"person.parquet"', f'"{name}"'))
    dpsql.connect(long, ledger=spent.parent / "long.ledger").close()
    refused(long)


@pytest.mark.slow
def test_of_two_that_begin_at_once_one_is_bound(file: Path, tmp_path: Path) -> None:
    body = """
import sys, dpsql
sys.stdin.readline()
try:
    dpsql.connect(sys.argv[1], ledger=sys.argv[2]).close()
    print("opened")
except dpsql.Error as problem:
    print(problem.code)
"""
    running = [
        subprocess.Popen(
            [sys.executable, "-c", body, str(file), str(tmp_path / f"{name}.ledger")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ,
        )
        for name in "abc"
    ]
    said = sorted(process.communicate("go\n", timeout=120)[0].strip() for process in running)
    assert said == ["DPSQL-714", "DPSQL-714", "opened"] and len(marks(file)) == 1
