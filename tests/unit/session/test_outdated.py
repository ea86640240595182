"""A refresh tells which stored statements anybody pays for again, before they do; `--dry-run` does nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import pytest

from dpsql.clients.cli.main import main
from dpsql.dataset import owner
from dpsql.schema.toml import read_schema
from dpsql.session import outdated as telling
from dpsql.session.foretelling import Forecast, forecast
from dpsql.session.opening import open_session
from dpsql.session.outdated import Outdated, text_of_outdated
from dpsql.session.refreshing import buy
from tests.unit.engines.clinic_files import clinic, declare
from tests.unit.session.test_refreshing import COST, PEOPLE, VISITS, declared, ledger, listed, more, one_more

WARDS = "SELECT ward, COUNT(*) FROM person GROUP BY ward"


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Two statements about visits and one about people, of a version that is approved."""
    clinic(tmp_path, "csv")
    listed(tmp_path, VISITS)
    with ledger(tmp_path) as held:
        owner.check(read_schema(tmp_path / "schema.toml"), held, prepare=True)
    asks(tmp_path, VISITS, f"/* dpsql: epsilon=0.3 */ {COST}", PEOPLE)
    yield tmp_path


def asks(folder: Path, *statements: str) -> None:
    with closing(open_session(folder / "schema.toml", "ann", folder / "ledger")) as session:
        for sql in statements:
            session.execute(sql)


def told(folder: Path) -> tuple[Outdated, ...]:
    """Of a refresh, which charges nothing before it is told."""
    texts: list[str] = []
    with ledger(folder) as held:
        charges = len(held.history())
        report = owner.refresh(read_schema(folder / "schema.toml"), held)

        def heard(text: str) -> None:
            texts.append(text)
            assert len(held.history()) == charges

        found = buy(read_schema(folder / "schema.toml"), held, heard, before=report.before).outdated
        assert text_of_outdated(found) in ["", *texts]
        return found


def foretold(folder: Path) -> Forecast:
    with ledger(folder) as held:
        return forecast(read_schema(folder / "schema.toml"), held)


EXPECTED = (Outdated("SELECT SUM(cost) FROM visit", Fraction(3, 10), False), Outdated(VISITS, Fraction(1, 10), True))


def test_what_is_stored_no_longer_is_told_with_what_it_costs(folder: Path) -> None:
    more(folder)
    assert told(folder) == EXPECTED
    text = text_of_outdated(EXPECTED)
    assert text.startswith("stored no longer: 2 statements, epsilon 0.4 together when they are asked again\n")
    assert text.endswith("of these not listed: 1, epsilon 0.3, which whoever asks pays")
    assert told(folder) == (), "nothing changed since"


def test_what_changes_people_changes_what_leads_to_them(folder: Path) -> None:
    one_more(folder)
    assert {one.statement for one in told(folder)} == {PEOPLE, VISITS, "SELECT SUM(cost) FROM visit"}


def test_what_was_not_stored_before_is_not_told_again(folder: Path) -> None:
    more(folder)
    told(folder)
    more(folder)
    assert told(folder) == EXPECTED[1:], "the sum was asked of a version before"
    asks(folder, COST)
    one_more(folder)
    assert {one.statement for one in told(folder)} == {PEOPLE, VISITS, "SELECT SUM(cost) FROM visit"}


def test_a_dry_run_tells_the_same_and_does_nothing(folder: Path) -> None:
    assert foretold(folder) == Forecast(read_schema(folder / "schema.toml"), ())
    more(folder)
    for _ in range(2):
        found = foretold(folder)
        assert found.changed == ("visit",) and found.outdated == EXPECTED
        assert [one.fields for one in found.purchases] == [{"statement": VISITS, "epsilon": 0.1, "state": "bought"}]
    with ledger(folder) as held:
        assert len(held.history()) == 3
    assert told(folder) == EXPECTED


def test_a_dry_run_reads_tiles_off_the_cube_that_it_would_buy(folder: Path) -> None:
    cube = "CREATE PRIVATE CUBE wards OPTIONS (epsilon = 0.5, delta = 1e-9) AS SELECT ward, COUNT(*) FROM person GROUP BY CUBE (ward)"
    listed(folder, cube, WARDS)
    with ledger(folder) as held:
        buy(read_schema(folder / "schema.toml"), held)
    one_more(folder)
    found = foretold(folder)
    prices = [one.price for one in found.purchases]
    assert prices[0] and prices[1] == 0 and "read off them, free: 1 statement" in str(found)
    assert (cube, True) in {(one.statement, one.listed) for one in found.outdated}


def test_the_command_tells(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["refresh", str(folder / "schema.toml"), "--ledger", str(folder / "ledger")]
    assert main([*command, "--dry-run"]) == 0 and capsys.readouterr().out == ""
    more(folder)
    assert main([*command, "--dry-run"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(
        "clinic: not approved yet; changed: visit\nstored no longer: 2 statements, epsilon 0.4 together"
    )
    assert shown.endswith("clinic: buys 1 statement, epsilon 0.1 together\n")
    assert main([*command, "--dry-run", "--json"]) == 0
    dry = json.loads(capsys.readouterr().out)
    assert main([*command, "--json"]) == 0
    wet = json.loads(capsys.readouterr().out)
    assert dry["changed"] == ["visit"] and dry["outdated"] == wet["outdated"] == [one.fields for one in EXPECTED]
    assert dry["statements"] == wet["statements"]


def test_without_a_list_it_is_told_too(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = declared(VISITS)
    start, end = text.index("[refresh]"), text.index("[tables.person]")
    declare(folder, text[:start] + text[end:])
    more(folder)
    assert main(["refresh", str(folder / "schema.toml"), "--ledger", str(folder / "ledger")]) == 0
    assert "stored no longer: 2 statements, epsilon 0.4 together when they are asked again\n" in capsys.readouterr().out


def test_a_long_list_ends(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    many = tuple(Outdated(f"SELECT\n{i}", Fraction(1), True) for i in range(12))
    lines = text_of_outdated(many).split("\n")
    assert len(lines) == 12 and lines[1] == "  epsilon 1: SELECT 0" and lines[-1] == "  and 2 more"
    more(folder)
    monkeypatch.setattr(telling, "MOST_READ", 1)
    assert told(folder) == (), "only the latest charge is looked at, and it is about people"
