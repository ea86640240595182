"""The owner's least price of a statement: less is refused, an accuracy or a difference is made up to it, repeats are free."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

import dpsql
from dpsql.core.loss import EpsilonDelta
from dpsql.mechanisms.conversions import rho_at_most
from dpsql.mechanisms.prices import nominal
from dpsql.schema.model import Schema
from dpsql.schema.toml import read_schema, to_toml
from tests.support.copies import EXAMPLE, copied

FILE = EXAMPLE / "schema.toml"
COUNT = "SELECT COUNT(*) FROM person"
LEAST = Fraction(1, 100)
NOTE = "raised to the owner's least price, epsilon 0.01: the error is smaller than asked"


@pytest.fixture
def schema(tmp_path: Path) -> Schema:
    declared = read_schema(copied(tmp_path))
    return replace(
        declared,
        guard=replace(declared.guard, mode="off"),
        privacy=replace(declared.privacy, least=LEAST, accounting="zcdp"),
    )


@pytest.fixture
def connection(schema: Schema, tmp_path: Path) -> dpsql.Connection:
    return dpsql.connect(schema, ledger=tmp_path / "l")


def written(tmp_path: Path, line: str) -> Path:
    text = (
        FILE.read_text()
        .replace("[privacy]\n", f"[privacy]\n{line}\n")
        .replace('source = "."', f'source = "{FILE.parent}"')
    )
    (tmp_path / "schema.toml").write_text(text)
    return tmp_path / "schema.toml"


# --- declared -------------------------------------------------------------------------------------------------------------


def test_by_default_it_is_a_hundredth_of_the_default_price(tmp_path: Path) -> None:
    privacy = read_schema(FILE).privacy
    assert privacy.least is None and privacy.floor == privacy.query.epsilon / 100 == Fraction(1, 1000)
    assert replace(privacy, query=EpsilonDelta(Fraction(3), Fraction(0))).floor == Fraction(3, 100)


def test_it_is_written_and_read_again(tmp_path: Path) -> None:
    schema = read_schema(written(tmp_path, "least = 0.02"))
    assert schema.privacy.least == schema.privacy.floor == Fraction(1, 50)
    assert "least = 0.02" in to_toml(schema)
    (tmp_path / "again.toml").write_text(to_toml(schema))
    assert read_schema(tmp_path / "again.toml").privacy == schema.privacy
    assert "least" not in to_toml(read_schema(FILE))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("least = 0.2", "least is above the default price; write least = 0.1 or less, or raise query"),
        ("least = 0", "least"),
        ('least = "few"', "least"),
    ],
)
def test_mistakes(tmp_path: Path, line: str, said: str) -> None:
    with pytest.raises(dpsql.Error, match="DPSQL-801") as caught:
        read_schema(written(tmp_path, line))
    assert said in str(caught.value)


def test_a_refresh_that_costs_less_is_a_mistake(tmp_path: Path) -> None:
    path = written(tmp_path, "least = 0.02")
    path.write_text(
        path.read_text() + '\n[analysts.a]\n[reservations.r]\nanalyst = "a"\nrefreshes = 2\nepsilon = 0.01\n'
    )
    with pytest.raises(dpsql.Error, match="one refresh has less epsilon than the least of a statement"):
        read_schema(path)


# --- a price --------------------------------------------------------------------------------------------------------------


def test_a_smaller_price_is_refused_and_the_hint_works(connection: dpsql.Connection) -> None:
    with pytest.raises(dpsql.OperationalError) as caught:
        connection.execute(f"/* dpsql: epsilon=1e-12 */ {COUNT}")
    assert str(caught.value) == (
        "DPSQL-503: epsilon = 1e-12 is below the owner's least of 0.01 for one statement; write /* dpsql: epsilon=0.01 */ or more"
    )
    assert connection.execute(f"/* dpsql: epsilon=0.01 */ {COUNT}").privacy.epsilon > Fraction(99, 10000)


def test_it_is_of_a_statement_and_not_of_each_release(connection: dpsql.Connection) -> None:
    two = f"/* dpsql: epsilon=0.01 */ SELECT ({COUNT} WHERE female) + ({COUNT} WHERE NOT female) AS n"
    assert connection.execute(two).privacy.releases == 2


def test_a_setting_below_it_is_refused_at_once(connection: dpsql.Connection) -> None:
    with pytest.raises(dpsql.OperationalError, match="DPSQL-503"):
        connection.execute("SET dp_epsilon = 0.001")
    assert connection.execute(COUNT).privacy.epsilon == Fraction(1, 10)


def test_free_and_stored_answers_stay_free(connection: dpsql.Connection) -> None:
    connection.execute(f"/* dpsql: epsilon=0.02 */ {COUNT}")
    again = connection.execute(f"/* dpsql: epsilon=0.01 */ {COUNT}").privacy
    assert again.cached and again.epsilon == 0
    assert connection.execute("SELECT COUNT(*) FROM plan").privacy.epsilon == 0
    with pytest.raises(dpsql.Error, match="DPSQL-503"):
        connection.execute("/* dpsql: epsilon=0.001 */ SELECT COUNT(*) FROM person")


def test_what_would_fit_is_a_price_that_is_answered(schema: Schema, tmp_path: Path) -> None:
    small = EpsilonDelta(Fraction(105, 1000), Fraction(0))
    tight = replace(schema, privacy=replace(schema.privacy, budget=small, accounting="sequential"))
    with dpsql.connect(tight, ledger=tmp_path / "l") as connection:
        connection.execute(COUNT)
        with pytest.raises(dpsql.OperationalError, match="nothing more fits until the owner raises it"):
            connection.execute(f"{COUNT} WHERE female")


# --- an accuracy ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian", "auto"])
def test_an_accuracy_that_costs_less_is_raised_and_says_so(connection: dpsql.Connection, mechanism: str) -> None:
    sql = f"/* dpsql: error=5000, mechanism={mechanism} */ {COUNT}"
    plan = connection.explain(sql)
    assert "raised to the owner's least price, epsilon 0.01: the error is smaller" in plan
    cursor = connection.execute(sql)
    assert float(cursor.privacy.epsilon) == pytest.approx(0.01, rel=1e-6) and cursor.notes == (NOTE,)
    assert [str(warning) for _, warning in cursor.messages] == [NOTE]
    half = cursor.accuracy[0][0]
    assert half is not None and (half.high - half.low) / 2 < 600
    again = connection.execute(sql)
    assert again.privacy.cached and again.privacy.epsilon == 0


def test_an_accuracy_that_costs_more_is_as_it_was(connection: dpsql.Connection) -> None:
    cursor = connection.execute(f"/* dpsql: error=100 */ {COUNT}")
    assert cursor.privacy.epsilon > LEAST and cursor.notes == ()
    assert "raised" not in (cursor.plan or "")


def test_several_columns_are_raised_together(connection: dpsql.Connection) -> None:
    cursor = connection.execute("/* dpsql: error=1e9, mechanism=laplace */ SELECT SUM(income), COUNT(*) FROM person")
    assert cursor.privacy.epsilon == LEAST


# --- a difference ---------------------------------------------------------------------------------------------------------


def gaussian(epsilon: str) -> str:
    return f"/* dpsql: mechanism=gaussian, epsilon={epsilon} */ {COUNT}"


def test_a_difference_is_made_up_to_it(connection: dpsql.Connection) -> None:
    """And the answer is as exact as what was paid for."""
    connection.execute(gaussian("0.1"))
    cursor = connection.execute(gaussian("0.10001"))
    least = rho_at_most(LEAST)
    assert rho_at_most(Fraction(10001, 100000)) - rho_at_most(Fraction(1, 10)) < least / 2
    assert float(cursor.privacy.rho) == pytest.approx(float(least), rel=1e-6)
    assert NOTE in cursor.notes
    whole = connection._open()._world.ledger.spent().rho
    assert float(whole) == pytest.approx(float(rho_at_most(Fraction(1, 10)) + least), rel=1e-6)
    again = connection.execute(gaussian("0.10001"))
    assert again.privacy.cached and again.fetchall() == cursor.fetchall()
    assert again.accuracy[0][0] == cursor.accuracy[0][0]
    cheaper = connection.execute(gaussian("0.1003"))  # what was paid for covers it
    assert cheaper.privacy.cached


def test_a_larger_difference_is_paid_as_it_is(connection: dpsql.Connection) -> None:
    connection.execute(gaussian("0.1"))
    cursor = connection.execute(gaussian("0.2"))
    expected = rho_at_most(Fraction(1, 5)) - rho_at_most(Fraction(1, 10))
    assert float(cursor.privacy.rho) == pytest.approx(float(expected), rel=1e-6) and cursor.notes == ()


def test_the_price_that_is_told_is_the_price_that_is_paid(connection: dpsql.Connection) -> None:
    connection.execute(gaussian("0.1"))
    told = connection.price(gaussian("0.10001"))
    paid = connection.execute(gaussian("0.10001")).privacy
    assert told.epsilon == paid.epsilon and told.rho == paid.rho
    assert nominal(connection._open()._world.ledger.history()[-1].loss) == paid.epsilon
