"""Sizes for the guard off the cubes that the owner lists: kept by a refresh, told, and decided by; never off a cube of an analyst's."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from dpsql.accounting import remembered
from dpsql.accounting.ledger import Ledger
from dpsql.core.errors import Error
from dpsql.dataset import owner
from dpsql.schema.toml import read_schema
from dpsql.session import refreshing
from dpsql.session.opening import ledger_identity, open_session
from dpsql.session.refreshing import buy
from dpsql.session.session import Session
from tests.support.noise import ZeroNoise
from tests.unit.engines.clinic_files import HEAD, TABLES, clinic, declare

CUBE = """CREATE PRIVATE CUBE wards OPTIONS (epsilon = 0.5, delta = 1e-8) AS
SELECT ward, born IS NULL, COUNT(*) FROM person GROUP BY CUBE (ward, born IS NULL)"""
AGED = """CREATE PRIVATE CUBE aged OPTIONS (epsilon = 0.5, delta = 1e-8) AS
SELECT age, COUNT(*) FROM person GROUP BY CUBE (age)"""
ROWS = """SELECT i::BIGINT AS person_id, (CASE WHEN i % 400 = 0 THEN 2 ELSE 1 END)::INTEGER AS ward, i % 40 AS income,
20 + i % 50 AS age, DATE '1950-01-01' AS born, 'x' AS name FROM range(4000) t(i)"""


def declared(*statements: str) -> str:
    listed = f"[refresh]\nepsilon = 2\nstatements = {json.dumps(list(statements))}\n" if statements else ""
    tables = TABLES.format(suffix=".csv").replace(
        "income = {", 'age = { type = "BIGINT", bounds = [20, 80] }\nincome = {', 1
    )
    return (
        HEAD.format(source=".").replace("[privacy]", "[privacy]\nunits = 4000") + listed + tables + "\n[analysts.ann]\n"
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    clinic(tmp_path, "csv", {"person": ROWS})
    declare(tmp_path, declared())
    with ledger(tmp_path) as held:
        owner.check(read_schema(tmp_path / "schema.toml"), held)
    return tmp_path


def ledger(folder: Path) -> closing[Ledger]:
    return closing(Ledger.open(folder / "ledger", ledger_identity(read_schema(folder / "schema.toml"))))


def opened(folder: Path) -> closing[Session]:
    return closing(open_session(folder / "schema.toml", "ann", folder / "ledger", noise=ZeroNoise()))


def refreshed(folder: Path, *statements: str) -> list[str]:
    """Texts of a refresh."""
    declare(folder, declared(*statements))
    schema, told = read_schema(folder / "schema.toml"), list[str]()
    with ledger(folder) as held:
        owner.refresh(schema, held)
        made = buy(schema, held, told.append, ZeroNoise())
    assert bool(made.sizes) == any("sizes for the guard" in text for text in told)
    return told


def sizes(folder: Path) -> dict[str, object]:
    with ledger(folder) as held:
        return {name: json.loads(body)["source"] for name, body in remembered.sizes(held).items()}


def about(folder: Path, condition: str) -> str:
    """The guard's line of a statement."""
    with opened(folder) as session:
        lines = session.explain(f"SELECT COUNT(*) FROM person WHERE {condition}").splitlines()
        return next(line for line in lines if line.startswith("guard: "))


def test_a_refresh_keeps_the_sizes_of_a_listed_cube(folder: Path) -> None:
    told = refreshed(folder, CUBE)
    assert told[-1] == "sizes for the guard, read off wards, free: person.ward"
    assert sizes(folder) == {'"person"."ward"': "the cube wards"}
    with ledger(folder) as held:
        assert len(held.history()) == 1


def test_they_are_told_and_decided_by(folder: Path) -> None:
    """Half of 4,000 people are in each ward as declared: 10 are in truth, and a tenth of half as many are invented all the same."""
    assert "2,000 people as declared" in about(folder, "ward = 2")
    refreshed(folder, CUBE)
    line = about(folder, "ward = 2")
    assert line.endswith("people by the cube wards") and 150 < int(line.split(": ")[2].split()[0]) < 260


def test_whole_numbers_within_bounds_have_sizes_too(folder: Path) -> None:
    """Nobody is over 69."""
    told = refreshed(folder, AGED)
    assert "person.age" in told[-1]
    few = int(about(folder, "age >= 70").split(": ")[2].split()[0].replace(",", ""))
    assert few < 100


def test_what_an_analyst_bought_decides_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: sizes are read off every cube that there is."""
    refreshed(folder, "SELECT COUNT(*) FROM visit")
    with opened(folder) as session:
        session.execute(CUBE)
    assert refreshed(folder, "SELECT COUNT(*) FROM visit") == [] and sizes(folder) == {}
    assert "as declared" in about(folder, "ward = 2")
    honest = Session.keep_sizes

    def of_all(session: Session, _: Sequence[str]) -> object:
        return honest(session, [cube.name for cube in session._world.stored.cubes.names.all()])

    monkeypatch.setattr(refreshing.Session, "keep_sizes", of_all)
    refreshed(folder, "SELECT COUNT(*) FROM visit")
    assert sizes(folder)


def test_sizes_that_are_known_stay_as_they_are(folder: Path) -> None:
    refreshed(folder, CUBE)
    with ledger(folder) as held:
        before = remembered.sizes(held)
    with open(folder / "person.csv", "a") as file:
        file.writelines(f"{i},2,5,30,1950-01-01,x\n" for i in range(5000, 6000))
    assert not any("sizes" in text for text in refreshed(folder, CUBE))
    with ledger(folder) as held:
        assert remembered.sizes(held) == before


def test_a_cube_with_a_condition_or_too_much_noise_says_nothing(folder: Path) -> None:
    some = CUBE.replace("FROM person", "FROM person WHERE income > 5")
    assert not any("sizes" in text for text in refreshed(folder, some))
    assert sizes(folder) == {}


def test_a_listed_cube_that_is_refused_says_nothing(folder: Path) -> None:
    told = refreshed(folder, CUBE.replace("0.5", "900"))
    assert not told and sizes(folder) == {}
    with opened(folder) as session, pytest.raises(Error, match="DPSQL-502"):
        session.execute(CUBE.replace("0.5", "900"))
