"""Sizes that the owner buys: charged, stored, kept for the guard, and drawn from."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import pytest

from dpsql.accounting import remembered
from dpsql.accounting.ledger import Ledger
from dpsql.core.errors import Error
from dpsql.core.loss import NO_LOSS
from dpsql.guard.bought import bought
from dpsql.schema.model import Schema
from dpsql.schema.toml import read_schema
from dpsql.session.opening import ledger_identity, open_session
from dpsql.session.sizing import OWNER, Sizing, buy_sizes
from tests.support.copies import copied
from tests.support.noise import ZeroNoise


@pytest.fixture
def schema(tmp_path: Path) -> Schema:
    found = read_schema(copied(tmp_path))
    open_session(found, None, tmp_path / "ledger").close()
    return found


def opened(schema: Schema) -> Ledger:
    return Ledger.open(schema.folder.parent / "ledger", ledger_identity(schema))


def buy(schema: Schema, epsilon: Fraction | None = None) -> Sizing:
    return buy_sizes(schema, opened(schema), epsilon, ZeroNoise())


def people(schema: Schema, condition: str) -> int:
    """[units] that a statement is about, as the guard counts them."""
    with closing(open_session(schema, None, schema.folder.parent / "ledger", ZeroNoise())) as session:
        last = session.explain(f"SELECT COUNT(*) FROM {condition}").splitlines()[-1]
        known = bool(remembered.sizes(session._world.ledger))
    assert last.endswith(" people by released sizes" if known else " people as declared")
    return int(last.partition(": ")[2].partition(": ")[2].partition(" ")[0].replace(",", ""))


def test_they_are_charged_once_and_are_what_the_data_holds(schema: Schema) -> None:
    first = buy(schema, Fraction(2))
    assert (
        not first.left
        and len(first.columns) == 18
        and first.loss.epsilon is not None
        and Fraction(19, 10) < first.loss.epsilon <= 2
    )
    told = dict(first.columns)
    assert told["person.female"] == "True 52%, False 48%" and told["person_year.admissions"].startswith("0 91%, 1 7%")
    again = buy(schema, Fraction(2))
    assert again.loss == NO_LOSS and again.columns == first.columns and "nothing was charged" in str(again)
    with closing(opened(schema)) as ledger:
        assert len(ledger.history(OWNER)) == 18 and ledger.verify() == 18
        assert not ledger.asked(), "they are no half of a pair"
        # the list of plans is filled in at opening
        assert {*bought(schema, remembered.sizes(ledger)), ("person", "plan")} == {
            (t.name, c.name) for t in schema.tables if not t.public for c in t.columns if f"{t.name}.{c.name}" in told
        }


def test_the_guard_counts_on_them(schema: Schema) -> None:
    """As declared a tenth of all years are of people of 90 and over; in truth nobody is, and a tenth of a tenth stays."""
    before, wide = people(schema, "person_year WHERE age > 60"), people(schema, "person_year WHERE md_visits = 0")
    buy(schema, Fraction(2))
    assert people(schema, "person_year WHERE age > 60") < before / 2
    assert people(schema, "person_year WHERE md_visits = 0") > 1.5 * wide


def test_other_declarations_have_sizes_of_their_own(schema: Schema) -> None:
    buy(schema, Fraction(2))
    text = (schema.folder / "schema.toml").read_text().replace("bounds = [0, 30000]", "bounds = [0, 40000]")
    (schema.folder / "schema.toml").write_text(text)
    with closing(opened(schema)) as ledger:
        found = bought(read_schema(schema.folder / "schema.toml"), remembered.sizes(ledger))
    assert ("person", "income") not in found and ("person", "female") in found


@pytest.mark.parametrize(
    ("epsilon", "said"), [("0.001", "give --epsilon 0.018 or more"), ("100", "give --epsilon 4 or less")]
)
@pytest.mark.few(2)
def test_a_price_that_fits_no_statement(schema: Schema, epsilon: str, said: str) -> None:
    with pytest.raises(Error, match="DPSQL-802") as problem:
        buy(schema, Fraction(epsilon))
    assert problem.value.hint == said
    with closing(opened(schema)) as ledger:
        assert not ledger.history()
    # the hint works
    assert buy(schema, Fraction(said.split()[2])).columns


def test_a_column_that_cannot_be_asked_is_left_out(schema: Schema) -> None:
    path = schema.folder / "schema.toml"
    path.write_text(path.read_text().replace("max_rows_per_unit = 5", "#"))
    found = buy(read_schema(path), Fraction(1))
    assert len(found.columns) == 7 and len(found.left) == 11
    assert "person_year.age was left out" in str(found)


def test_edited_sizes_are_noticed(schema: Schema) -> None:
    buy(schema, Fraction(1))
    with closing(sqlite3.connect(schema.folder.parent / "ledger")) as connection:
        connection.execute("UPDATE size SET body = replace(body, '0', '1') WHERE name LIKE '%female%'")
        connection.commit()
    with pytest.raises(Error, match="DPSQL-705"), closing(opened(schema)) as ledger:
        remembered.sizes(ledger)
