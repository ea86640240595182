"""Failures after a charge that are no declared limit and no interrupt: counted, shown to the owner; three of them are the end."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import dpsql
from dpsql.accounting.failing import _KINDS
from dpsql.accounting.failures import KINDS, MOST
from dpsql.accounting.ledger import Ledger
from dpsql.clients.cli.main import main
from dpsql.core.errors import CODES, Error, error
from dpsql.dataset import owner
from dpsql.engines.duckdb.engine import DuckDBEngine
from dpsql.schema.model import Analyst, Schema
from dpsql.schema.toml import read_schema
from dpsql.session.opening import ledger_identity
from tests.support.copies import copied

STORED = "SELECT COUNT(*) FROM person"
HOSTILE = "SELECT COUNT(*) FROM person WHERE site <> 7 AND 'a\x1b[31m' <> 'b'"


@pytest.fixture
def file(tmp_path: Path) -> str:
    return str(copied(tmp_path))


@pytest.fixture
def schema(file: str) -> Schema:
    declared = read_schema(file)
    return replace(declared, guard=replace(declared.guard, mode="off"))


@pytest.fixture
def named(schema: Schema) -> Schema:
    return replace(schema, analysts=(Analyst("alice"), Analyst("bob")))


def broken(code: int) -> Callable[..., object]:
    def exact(*_: object, **__: object) -> object:
        raise error(code, "the engine could not finish the statement")

    return exact


def fail(connection: dpsql.Connection, patched: pytest.MonkeyPatch, code: int, sql: str) -> str:
    """The code of what a statement raises where the engine fails."""
    with patched.context() as broke:
        broke.setattr(DuckDBEngine, "exact", broken(code))
        with pytest.raises(Error) as caught:
            connection.execute(sql)
    return caught.value.code


def about(number: int) -> str:
    return f"SELECT COUNT(*) FROM person WHERE income > {number}"


def test_every_code_that_counts_is_known() -> None:
    assert set(_KINDS.values()) == set(KINDS)
    assert {"DPSQL-702", "DPSQL-703", "DPSQL-704", "DPSQL-710", "DPSQL-711", "DPSQL-712", "DPSQL-713"}.isdisjoint(
        _KINDS
    )
    assert 709 in CODES


def test_three_failures_end_new_statements_and_stored_answers_go_on(
    schema: Schema, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = dpsql.connect(schema, ledger=tmp_path / "l")
    first = connection.execute(STORED).fetchall()
    for number in range(MOST):
        assert fail(connection, monkeypatch, 701, about(number)) == "DPSQL-701"
    charged = len(connection._open()._world.ledger.history())
    with pytest.raises(dpsql.OperationalError) as caught:
        connection.execute(about(99))
    assert str(caught.value) == (
        "DPSQL-709: 3 statements failed after they were charged, and the owner has not looked at them; nothing was charged; "
        "the owner runs `dpsql budget SCHEMA --failures`; stored answers are given as before"
    )
    assert len(connection._open()._world.ledger.history()) == charged == 1 + MOST
    assert connection.execute(STORED).fetchall() == first
    assert connection.execute("select count(*) as n FROM person").privacy.cached
    assert "COUNT" in connection.explain(about(99))
    connection.close()


def test_without_analysts_a_name_is_a_label(schema: Schema, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(MOST):
        with dpsql.connect(schema, analyst=f"somebody {number}", ledger=tmp_path / "l") as connection:
            fail(connection, monkeypatch, 701, about(number))
    with (
        dpsql.connect(schema, analyst="another", ledger=tmp_path / "l") as connection,
        pytest.raises(Error, match="DPSQL-709"),
    ):
        connection.execute(about(99))


def test_declared_analysts_each_have_a_count(named: Schema, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger.open(tmp_path / "l", ledger_identity(named))
    owner.check(named, ledger)
    ledger.close()
    alice = dpsql.connect(named, analyst="alice", ledger=tmp_path / "l")
    for number in range(MOST):
        fail(alice, monkeypatch, 701, about(number))
    with pytest.raises(Error, match="DPSQL-709: 3 statements of yours failed"):
        alice.execute(about(99))
    with dpsql.connect(named, analyst="bob", ledger=tmp_path / "l") as bob:
        assert bob.execute(about(99)).fetchall()
    assert alice.execute(about(99)).privacy.cached  # bought by another
    alice.close()


@pytest.mark.few(1)
@pytest.mark.parametrize("code", [702, 703])
def test_what_is_no_failure_of_the_engine_does_not_count(
    schema: Schema, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    connection = dpsql.connect(schema, ledger=tmp_path / "l")
    for number in range(MOST + 1):
        assert fail(connection, monkeypatch, code, about(number)) == f"DPSQL-{code}"
    assert connection.execute(about(99)).fetchall() and not connection._open()._world.ledger.failures()
    connection.close()


def test_noise_that_could_not_be_added_counts(schema: Schema, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broke(*_: object) -> object:
        raise ValueError(17)

    connection = dpsql.connect(schema, ledger=tmp_path / "l")
    with monkeypatch.context() as patched:
        patched.setattr("dpsql.release.buying.release", broke)
        with pytest.raises(Error, match="DPSQL-901"):
            connection.execute(about(1))
    assert [each.kind for each in connection._open()._world.ledger.failures()] == ["release"]
    connection.close()


def test_the_owner_looks_at_them_and_clears_them(
    file: str, schema: Schema, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger = str(tmp_path / "l")
    connection = dpsql.connect(schema, ledger=ledger, analyst="eve\x1b]0;x\x07")
    for sql in (about(1), HOSTILE, about(3)):
        fail(connection, monkeypatch, 701, sql)
    assert main(["budget", file, "--ledger", ledger]) == 0
    told = (
        "3 statements failed after the charge and not looked at yet: look at them with `dpsql budget SCHEMA --failures`"
    )
    assert told in capsys.readouterr().out
    assert main(["budget", file, "--ledger", ledger, "--json"]) == 0
    assert [each["kind"] for each in json.loads(capsys.readouterr().out)["failures"]] == ["engine"] * 3
    assert main(["budget", file, "--ledger", ledger, "--failures"]) == 0
    shown = capsys.readouterr().out
    assert "3 statements failed" in shown and about(1) in shown and "the engine did not finish it" in shown
    assert shown.replace("\n", "").isprintable()
    assert connection.execute(about(99)).fetchall()
    assert main(["budget", file, "--ledger", ledger, "--failures"]) == 0
    assert capsys.readouterr().out == "0 statements failed after the charge and not looked at yet; 3 looked at before\n"
    assert main(["budget", file, "--ledger", ledger]) == 0
    assert "failed" not in capsys.readouterr().out
    connection.close()


def test_what_could_not_be_shown_is_not_cleared(
    file: str, schema: Schema, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with dpsql.connect(schema, ledger=tmp_path / "l") as connection:
        fail(connection, monkeypatch, 701, about(1))

    def closed(*_: object, **__: object) -> None:
        raise BrokenPipeError

    with monkeypatch.context() as patched:
        patched.setattr("builtins.print", closed)
        patched.setattr("dpsql.clients.cli.main._close_output", lambda: None)
        assert main(["budget", file, "--ledger", str(tmp_path / "l"), "--failures"]) == 0
    ledger = Ledger.open(tmp_path / "l", ledger_identity(schema))
    assert ledger.unseen_failures() == 1
    ledger.close()
