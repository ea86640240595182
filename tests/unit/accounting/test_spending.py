"""Spending as rows: who sees which, what is left in statements, and sums that agree with the ledger."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest

from dpsql.accounting import spending
from dpsql.accounting.charging import budget_of, default_loss
from dpsql.accounting.ledger import Ledger
from dpsql.core.errors import BudgetError
from dpsql.core.loss import PrivacyLoss, Sums, added
from dpsql.core.sqltypes import SqlType
from dpsql.mechanisms.conversions import gaussian, pure, rho_at_most
from dpsql.plan.charges import ChargeRequest, Portion
from dpsql.schema import spent
from dpsql.schema.model import Analyst, Schema
from dpsql.schema.toml import read_schema

HEAD = """
[dataset]
name = "clinic"
source = "."
[privacy]
unit = "person.person_id"
epsilon = 2.0
delta = 1e-6
{privacy}
[roles.interns]
epsilon = 1.0
[analysts.alice]
epsilon = 0.5
role = "interns"
[analysts.bob]
role = "interns"
[analysts.board]
[reservations.board]
analyst = "board"
refreshes = 4
epsilon = 0.1
[tables.person]
source = "person.parquet"
key = ["person_id"]
[tables.person.columns]
person_id = {{ type = "BIGINT" }}
site = {{ type = "INTEGER", domain = [1, 2, 3] }}
"""
ACCOUNTINGS = ("sequential", "advanced", "zcdp", "gdp", "auto")
SITE = '["person.site 00", "3"]'


def declared(folder: Path, privacy: str = 'accounting = "sequential"') -> Schema:
    (folder / "schema.toml").write_text(HEAD.format(privacy=privacy))
    return read_schema(folder / "schema.toml")


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    opened = Ledger.open(tmp_path / "clinic.ledger", "clinic")
    yield opened
    opened.close()


def analyst(schema: Schema, name: str) -> Analyst:
    return next(a for a in schema.analysts or () if a.name == name)


def charge(
    schema: Schema,
    ledger: Ledger,
    name: str,
    loss: PrivacyLoss,
    statement: str = "SELECT 1",
    entries: tuple[str, ...] | None = None,
) -> None:
    who = analyst(schema, name)
    request = ChargeRequest(
        who.name, "v", statement, ("f",), ("laplace",), (Portion(loss, entries),), who.role, ("{}",)
    )
    ledger.charge(request, budget_of(schema, who))


def holders(schema: Schema, ledger: Ledger, name: str | None) -> list[str]:
    who = None if name is None else analyst(schema, name)
    return [total.holder for total in spending.totals(schema, ledger, who)]


def test_who_sees_which_totals(tmp_path: Path, ledger: Ledger) -> None:
    schema = declared(tmp_path)
    assert holders(schema, ledger, "alice") == ["dataset", "analyst alice", "role interns"]
    assert holders(schema, ledger, "bob") == ["dataset", "role interns"]
    assert holders(schema, ledger, "board") == ["dataset", "reservation board"]
    assert holders(schema, ledger, None) == ["dataset", "role interns", "analyst alice", "reservation board"]


def test_an_analyst_sees_their_own_charges_alone(tmp_path: Path, ledger: Ledger) -> None:
    schema = declared(tmp_path)
    for name in ("alice", "bob", "alice"):
        charge(schema, ledger, name, pure(Fraction(1, 10)), f"SELECT '{name}'")
    assert [row[0] for row in spending.rows("ledger", schema, ledger, analyst(schema, "alice"))] == [1, 3]
    assert [row[2] for row in spending.rows("ledger", schema, ledger)] == ["alice", "bob", "alice"]
    mine = spending.rows("analysts", schema, ledger, analyst(schema, "bob"))
    assert [(row[0], row[1], row[4], row[7]) for row in mine] == [("bob", "interns", 0.1, 1)]
    assert [row[0] for row in spending.rows("analysts", schema, ledger)] == ["alice", "bob", "board"]


def test_what_is_reserved_for_others_is_not_left_and_not_spent(tmp_path: Path, ledger: Ledger) -> None:
    schema = declared(tmp_path)
    charge(schema, ledger, "bob", pure(Fraction(1, 10)))
    mine = spending.totals(schema, ledger, analyst(schema, "bob"))[0]
    assert mine.spent.loss.epsilon == Fraction(1, 10) and mine.remaining.epsilon == Fraction(15, 10)
    assert mine.statements == 15
    board = spending.totals(schema, ledger, analyst(schema, "board"))[0]
    assert board.remaining.epsilon == Fraction(19, 10) and board.statements == 19


def test_a_reservation_counts_down(tmp_path: Path, ledger: Ledger) -> None:
    schema = declared(tmp_path)
    for left in (4, 3, 2, 1, 0, 0):
        found = spending.totals(schema, ledger)[-1]
        assert found.refreshes == left and found.statements is None
        assert found.total.epsilon == Fraction(4, 10)
        assert found.spent.loss.epsilon == Fraction(4 - left, 10) and found.remaining.epsilon == Fraction(left, 10)
        charge(schema, ledger, "board", pure(Fraction(1, 10)))


def test_a_reservation_that_is_used_with_gaussian_noise(tmp_path: Path, ledger: Ledger) -> None:
    schema = declared(tmp_path, 'accounting = "zcdp"\nmechanism = "gaussian"')
    charge(schema, ledger, "board", gaussian(rho_at_most(Fraction(1, 10)), Fraction(0)))
    found = spending.totals(schema, ledger)[-1]
    assert found.refreshes == 3 and found.spent.loss.epsilon is None
    assert found.spent.loss.rho == rho_at_most(Fraction(1, 10)) and found.remaining.epsilon > Fraction(1, 10)


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
@pytest.mark.parametrize("accounting", ACCOUNTINGS)
def test_just_as_many_statements_fit_as_are_left(
    tmp_path: Path, ledger: Ledger, accounting: str, mechanism: str
) -> None:
    schema = declared(tmp_path, f'accounting = "{accounting}"\nmechanism = "{mechanism}"\nquery = {{ epsilon = 0.3 }}')
    one = default_loss(schema.privacy)
    for name in ("alice", "board"):
        who = analyst(schema, name)
        left = min(t.statements for t in spending.totals(schema, ledger, who) if t.statements is not None)
        for _ in range(left):
            charge(schema, ledger, name, one)
        with pytest.raises(BudgetError):
            charge(schema, ledger, name, one)
        found = [t.statements for t in spending.totals(schema, ledger, who) if t.statements is not None]
        assert min(found) == 0


@pytest.mark.parametrize("accounting", ACCOUNTINGS)
def test_what_remains_can_be_asked_and_the_shown_number_too(tmp_path: Path, ledger: Ledger, accounting: str) -> None:
    schema = declared(tmp_path, f'accounting = "{accounting}"')
    charge(schema, ledger, "board", pure(Fraction(1, 3)))
    row = dict(zip((n for n, _ in spent.TABLES["budget"]), spending.rows("budget", schema, ledger)[0], strict=True))
    limit = ledger.limits(budget_of(schema), "")[0]
    shown = Fraction(str(row["remaining_epsilon"]))
    assert 0 < shown <= limit.epsilon_left()
    assert limit.keeps.admits(added(limit.spent, Sums.of(pure(shown))))
    assert Fraction(str(row["spent_epsilon"])) >= Fraction(1, 3)


def test_values_of_the_partition_have_totals_of_their_own(tmp_path: Path, ledger: Ledger) -> None:
    schema = declared(tmp_path, 'accounting = "sequential"\npartition = "person.site"')
    charge(schema, ledger, "board", pure(Fraction(1, 10)))
    charge(schema, ledger, "bob", pure(Fraction(1, 2)), entries=(SITE,))
    whole, site = spending.totals(schema, ledger, analyst(schema, "bob"))[:2]
    assert (whole.holder, site.holder) == ("dataset", "person.site = 3")
    assert whole.spent == site.spent and site.spent.loss.epsilon == Fraction(6, 10)
    # 4 refreshes of epsilon 0.1 are reserved, one of them is used
    assert whole.remaining == site.remaining and site.remaining.epsilon == Fraction(11, 10)


def test_a_window_counts_from_its_beginning(tmp_path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    schema = declared(tmp_path, 'accounting = "sequential"\nwindow = "month"')
    monkeypatch.setattr("dpsql.accounting.layout.now", lambda: "2031-01-31T23:00:00.000+00:00")
    charge(schema, ledger, "board", pure(Fraction(1, 10)))
    assert spending.totals(schema, ledger)[0].spent.loss.epsilon == Fraction(1, 10)
    assert spending.totals(schema, ledger)[-1].refreshes == 3
    monkeypatch.setattr("dpsql.accounting.layout.now", lambda: "2031-02-01T00:00:00.000+00:00")
    whole, *_, reserved = spending.totals(schema, ledger)
    assert whole.spent.loss.epsilon == 0 and reserved.refreshes == 4
    # what was ever charged stays beside the analyst
    assert spending.spenders(schema, ledger)[-1].spent.loss.epsilon == Fraction(1, 10)


def test_the_accountants_that_still_carry_the_promise(tmp_path: Path, ledger: Ledger) -> None:
    schema = declared(tmp_path, "")
    assert spending.totals(schema, ledger)[0].alive == ("pure", "zcdp", "gdp")
    charge(schema, ledger, "board", gaussian(rho_at_most(Fraction(1, 10)), Fraction(0)))
    assert spending.totals(schema, ledger)[0].alive == ("zcdp", "gdp")


def test_without_declared_analysts(tmp_path: Path, ledger: Ledger) -> None:
    text = HEAD.format(privacy="")
    (tmp_path / "open.toml").write_text(
        text[: text.index("[roles")].rstrip() + "\n" + text[text.index("[tables.person]") :]
    )
    schema = read_schema(tmp_path / "open.toml")
    me = Analyst("me")
    assert [t.holder for t in spending.totals(schema, ledger, me)] == ["dataset"]
    assert [s.name for s in spending.spenders(schema, ledger, me)] == ["me"]
    assert spending.spenders(schema, ledger) == [] and spending.rows("ledger", schema, ledger) == []


@pytest.mark.parametrize("name", ["budget", "ledger", "analysts"])
def test_rows_have_the_columns_and_types_that_are_declared(tmp_path: Path, ledger: Ledger, name: str) -> None:
    schema = declared(tmp_path)
    charge(schema, ledger, "alice", pure(Fraction(1, 10)))
    [found] = spending.tables([name], schema, ledger, analyst(schema, "alice"))
    assert (found.name, found.columns) == (name, spent.TABLES[name])
    kinds = {"VARCHAR": str, "DOUBLE": float, "BIGINT": int, "TIMESTAMP": str}
    for (_, sqltype), values in zip(found.columns, found.data, strict=True):
        assert isinstance(sqltype, SqlType)
        assert all(value is None or type(value) is kinds[str(sqltype)] for value in values)
