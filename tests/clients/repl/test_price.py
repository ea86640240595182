"""The price of a statement, before it is paid; and a session without prompt_toolkit."""

from __future__ import annotations

import io

import pytest

import dpsql
from dpsql.clients.repl import loop
from dpsql.clients.repl.interrupts import Interrupts
from dpsql.clients.repl.plain import Plain
from dpsql.clients.repl.screen import Screen
from dpsql.schema.toml import read_schema
from tests.clients.repl.terminal import ROOT

CLINIC = ROOT / "tests/notes/clinic/schema.toml"


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*) FROM patient",
        "SELECT site, COUNT(*), AVG(weight) FROM patient GROUP BY site",
        "SELECT COUNT(*) / (SELECT COUNT(*) FROM visit) FROM patient",
        "/* dpsql: mechanism=gaussian */ SELECT SUM(weight) FROM patient",
        "/* dpsql: error=5 */ SELECT COUNT(*) FROM patient",
        "SELECT weight > 80 AS heavy, COUNT(*) FROM patient GROUP BY heavy",
        "SELECT COUNT(*) FROM drug",
        "SHOW TABLES",
        "SHOW BUDGET",
        "SELECT MIN(weight) FROM patient",
        "EXPLAIN SELECT COUNT(*) FROM patient",
        "SET dp_epsilon = 0.5",
    ],
)
def test_the_price_is_what_is_charged(sql: str) -> None:
    with dpsql.connect(CLINIC, ledger=":memory:") as connection:
        told = connection.price(sql)
        asked = connection.execute(sql).privacy
        assert (told.epsilon, told.delta, told.rho, told.releases) == (
            asked.epsilon,
            asked.delta,
            asked.rho,
            asked.releases,
        )
        again = connection.price(sql)
        assert (again.epsilon, again.releases, again.remaining) == (0, 0, asked.remaining)


def test_a_price_charges_nothing_and_fresh_answers_have_one() -> None:
    with dpsql.connect(CLINIC, ledger=":memory:") as connection:
        sql = "/* dpsql: fresh */ SELECT COUNT(*) FROM patient"
        for _ in range(3):
            assert connection.price(sql).remaining == 10
        connection.execute(sql)
        assert connection.price(sql).releases == 1
        assert connection.execute("SELECT charges FROM dpsql.analysts").fetchall() == [(1,)]


def test_a_price_is_refused_as_the_statement_is() -> None:
    with dpsql.connect(CLINIC, ledger=":memory:") as connection:
        for sql in ("SELECT * FROM patient", "SELECT nothing FROM patient", "DROP TABLE patient", "SELECT ("):
            said = []
            for ask in (connection.price, connection.execute):
                with pytest.raises(dpsql.Error) as refused:
                    ask(sql)
                said.append(str(refused.value))
            assert said[0] == said[1]


class _Keys(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_without_prompt_toolkit_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "find_spec", lambda name: None)
    monkeypatch.setattr("sys.stdin", _Keys())
    out = io.StringIO()
    reader = loop._editor(read_schema(CLINIC), Screen(out, colour=False, moves=True), Interrupts())
    assert isinstance(reader, Plain)
    assert out.getvalue() == 'Editing, history, completion and colours: pip install "dpsql[repl]"\n'
