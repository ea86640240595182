"""Dashboards: no statement of theirs costs more than they declare, and what is kept from them is left to everybody else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import pytest

import dpsql
from dpsql.accounting import charging
from dpsql.answers.recent import Charges, Recent, Shelf
from dpsql.clients.cli.main import main
from dpsql.core.errors import SchemaError
from dpsql.plan.charges import Budget
from dpsql.schema.toml import read_schema, to_toml
from dpsql.session import answer
from dpsql.session.commons import Commons
from dpsql.session.opening import open_session
from dpsql.session.session import Session
from tests.support import clinic

PRIVACY = """epsilon = 4.0
delta = 1e-3
query = { epsilon = 0.5, delta = 1e-9 }
caps = { epsilon = 2.0, delta = 1e-6, cube = { epsilon = 2.0, delta = 1e-6 } }
least = 0.001
reserve = 1.0
"""
ANALYSTS = """
[analysts.ann]

[analysts.board]
dashboard = 0.25
"""


def declared(folder: Path, accounting: str) -> Path:
    """Data that its owner approved."""
    clinic.write(folder, {"patient": [], "visit": [], "item": [], "drug": []})
    start, rest = clinic.schema_text().split("epsilon = 1000000.0", 1)
    path = folder / "schema.toml"
    text = start + PRIVACY + rest.split("least = 1e-18")[1] + ANALYSTS
    path.write_text(text.replace('accounting = "auto"', f'accounting = "{accounting}"'))
    assert main(["check", str(path)]) == 0
    return path


@pytest.fixture
def schema(tmp_path: Path) -> Path:
    return declared(tmp_path, "auto")


def ask(schema: Path, analyst: str, options: str) -> float:
    """The price that a statement was charged."""
    with dpsql.connect(schema, analyst=analyst) as connection:
        cursor = connection.execute(f"/* dpsql: fresh{options} */ SELECT COUNT(*) FROM patient")
        return float(cursor.privacy.epsilon)


def test_a_statement_above_the_price_of_a_dashboard_is_refused_with_it(schema: Path) -> None:
    for asked in ("SELECT SUM(income) FROM patient", "SELECT COUNT(*) FROM visit"):
        for option in ("epsilon=0.3", "error=0.1"):
            with dpsql.connect(schema, analyst="board") as connection:
                with pytest.raises(dpsql.Error, match=r"above the owner's cap of .* for one statement") as raised:
                    connection.execute(f"/* dpsql: {option} */ {asked}")
                assert raised.value.code == "DPSQL-502" and "0.25" in str(raised.value)
                left = connection.execute("SHOW TABLES").privacy
                assert left.epsilon == 0
    with dpsql.connect(schema, analyst="board") as connection:
        with pytest.raises(dpsql.Error, match="DPSQL-502"):
            connection.execute(
                "CREATE PRIVATE CUBE c OPTIONS (epsilon = 0.3) AS SELECT site, COUNT(*) FROM patient "
                "GROUP BY CUBE (site)"
            )
        with pytest.raises(dpsql.Error, match="DPSQL-502"):
            connection.execute("SET dp_epsilon = 0.3")
    assert ask(schema, "board", "") == 0.25
    assert ask(schema, "ann", ", epsilon=2") == 2


def beside(schema: Path, *analysts: str) -> Iterator[Session]:
    """Sessions of one worker."""
    commons = Commons()
    return (open_session(schema, name, None, commons=commons) for name in analysts)


def test_a_plan_that_another_analyst_made_is_priced_anew(schema: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Statements are planned once for all analysts of a process; their price is their own."""
    sql = "SELECT site, COUNT(*) FROM patient GROUP BY site"
    ann, board = beside(schema, "ann", "board")
    with closing(ann), closing(board):
        with pytest.raises(dpsql.Error, match="DPSQL-502"):
            board.execute(f"/* dpsql: epsilon=1.5 */ {sql}")
        ann.execute(f"/* dpsql: epsilon=1.5 */ {sql}")
        assert board.execute(sql).cached
        fresh = f"/* dpsql: epsilon=1.5, fresh */ {sql}"
        ann.execute(fresh)
        monkeypatch.setattr(answer, "_bounded", lambda *words: pytest.fail("it is planned already"))
        with pytest.raises(dpsql.Error, match="DPSQL-502"):
            board.execute(fresh)


def answered_at_the_usual_price(schema: Path) -> None:
    """An answer that a dashboard bought at its price is not given for the same text at the usual one, without a word."""
    sql = "SELECT COUNT(*) FROM patient"
    ann, board = beside(schema, "ann", "board")
    with closing(ann), closing(board):
        assert board.execute(sql).receipt.loss.epsilon == Fraction(1, 4)
        found = ann.execute(sql)
        assert found.receipt.loss.epsilon > 0
        assert any(note.startswith("bought although what is stored answers it free") for note in found.notes)


def test_the_same_text_is_another_question_at_another_price(schema: Path) -> None:
    answered_at_the_usual_price(schema)


def test_a_planted_shelf_that_knows_no_prices_is_noticed(schema: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = Recent.__init__

    def planted(
        self: Recent[object], charges_of: Charges, shelf: Shelf[object] | None, priced: tuple[str, object]
    ) -> None:
        honest(self, charges_of, shelf, priced[0])

    monkeypatch.setattr(Recent, "__init__", planted)
    with pytest.raises(AssertionError):
        answered_at_the_usual_price(schema)


def spend_all(schema: Path, analyst: str) -> float:
    """The most that an analyst can spend, in steps of 0.25."""
    spent = 0.0
    while spent < 5:
        try:
            spent += ask(schema, analyst, ", epsilon=0.25")
        except dpsql.Error as refused:
            assert refused.code == "DPSQL-501"
            break
    return spent


def leaves_what_is_kept(schema: Path) -> None:
    assert spend_all(schema, "board") == 3
    assert spend_all(schema, "ann") == 1
    assert spend_all(schema, "board") == 0


def test_a_dashboard_leaves_what_is_kept(tmp_path: Path) -> None:
    leaves_what_is_kept(declared(tmp_path, "sequential"))


def test_a_statement_of_the_reserve_fits_in_every_accounting(schema: Path) -> None:
    board = spend_all(schema, "board")
    assert board >= 3
    assert ask(schema, "ann", ", epsilon=1") == 1


def test_a_planted_reserve_that_binds_nobody_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = charging.budget_of

    def planted(*given: object) -> Budget:
        budget = honest(*given)  # type: ignore[arg-type]
        return type(budget)(budget.total, budget.accounting, budget.caps, (), budget.window, budget.least, budget.usual)

    monkeypatch.setattr("dpsql.release.buying.budget_of", planted)
    with pytest.raises(AssertionError, match=r"assert 4\.0 == 3"):
        leaves_what_is_kept(declared(tmp_path, "sequential"))


def test_what_is_declared_is_checked_and_written_again(schema: Path) -> None:
    text = schema.read_text()
    assert to_toml(read_schema(schema)).count("reserve = 1\n") == 1 and "dashboard = 0.25" in to_toml(
        read_schema(schema)
    )
    for old, new, told in (
        ("reserve = 1.0", "reserve = 5.0", "reserve is more than the dataset's total"),
        ("dashboard = 0.25", "dashboard = 2.5", "dashboard is above caps"),
        ("dashboard = 0.25", "dashboard = 0.0001", "dashboard is below the least of a statement"),
    ):
        schema.write_text(text.replace(old, new))
        with pytest.raises(SchemaError, match=told):
            read_schema(schema)
