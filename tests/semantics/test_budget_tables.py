"""dpsql.budget, dpsql.ledger and dpsql.analysts: free, exact, and as they are now."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path

import pytest

import dpsql
from dpsql.clients.dbapi.connection import Connection
from dpsql.core.errors import Error
from dpsql.schema import spent
from tests.support.copies import unused

RANDHIE = Path(__file__).parents[2] / "examples/randhie"
ANALYSTS = """
[roles.interns]
epsilon = 1.0
[analysts.alice]
epsilon = 0.5
role = "interns"
[analysts.bob]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    unused(RANDHIE, tmp_path / "randhie")
    return tmp_path / "randhie"


@pytest.fixture
def connection(folder: Path) -> Iterator[Connection]:
    with dpsql.connect(folder / "schema.toml") as opened:
        opened.execute("SELECT COUNT(*) FROM person")
        opened.execute("/* dpsql: epsilon=0.2 */ SELECT AVG(income) FROM person WHERE site = 3")
        yield opened


def rows(connection: Connection, sql: str, *parameters: object) -> list[tuple[object, ...]]:
    cursor = connection.execute(sql, parameters)
    privacy = cursor.privacy
    assert (privacy.epsilon, privacy.delta, privacy.releases, privacy.cached) == (0, 0, 0, False)
    found = cursor.fetchall()
    assert cursor.accuracy == [(None,) * len(cursor.description or ())] * len(found)
    return found


def refused(connection: Connection, sql: str) -> Error:
    with pytest.raises(Error) as raised:
        connection.execute(sql)
    return raised.value


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("shown", "meant"),
    [
        ("SHOW BUDGET", "SELECT * FROM dpsql.budget"),
        ("show privacy budget;", "FROM DPSQL.Budget"),
        ("SHOW /* all */ LEDGER", "SELECT * FROM dpsql.ledger ORDER BY id"),
        ("SHOW ANALYSTS", "SELECT * FROM dpsql.analysts"),
    ],
)
def test_show_is_a_query(connection: Connection, shown: str, meant: str) -> None:
    assert rows(connection, shown) == rows(connection, meant)
    assert connection.explain(shown) == "free: answered from the ledger alone, exactly"


@pytest.mark.few(1)
@pytest.mark.parametrize("table", list(spent.TABLES))
def test_columns_are_those_that_describe_names(connection: Connection, table: str) -> None:
    described = rows(connection, f"DESCRIBE dpsql.{table}")
    assert [row[:2] for row in described] == [(name, str(kind)) for name, kind in spent.TABLES[table]]
    shown = connection.execute(f"SELECT * FROM dpsql.{table}").description
    assert [column[:2] for column in shown or ()] == [row[:2] for row in described]
    catalog = "SELECT column_name FROM information_schema.columns WHERE table_schema = 'dpsql' AND table_name = ?"
    assert rows(connection, f"{catalog} ORDER BY ordinal_position", table) == [row[:1] for row in described]


def test_the_ledger_holds_what_was_asked(connection: Connection) -> None:
    (one, two) = rows(connection, "SHOW LEDGER")
    assert one[0] == 1 and one[2:6] == ("default", None, 0.1, 0.0) and one[7:9] == (1, "SELECT COUNT(*) FROM person")
    assert two[0] == 2 and two[4] == 0.2
    assert isinstance(one[1], datetime)
    assert abs(datetime.now(UTC).replace(tzinfo=None) - one[1]) < timedelta(minutes=5)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("sql", "parameters", "expected"),
    [
        ("SELECT COUNT(*), SUM(releases) FROM dpsql.ledger", (), [(2, 2)]),
        ("SELECT id FROM dpsql.ledger WHERE statement LIKE ? AND epsilon < ?", ("%income%", 0.3), [(2,)]),
        ("SELECT SUM(epsilon) FILTER (WHERE id = 2) AS e FROM dpsql.ledger", (), [(0.2,)]),
        ("WITH mine AS (SELECT * FROM dpsql.ledger) SELECT MAX(id) FROM mine", (), [(2,)]),
        ("SELECT l.id, a.charges FROM dpsql.ledger l JOIN dpsql.analysts a USING (analyst) ORDER BY 1", (), [(1, 2), (2, 2)]),
        ("SELECT id, SUM(releases) OVER (ORDER BY id) FROM dpsql.ledger", (), [(1, 1), (2, 2)]),
        ("SELECT holder FROM dpsql.budget UNION ALL SELECT analyst FROM dpsql.analysts", (), [("dataset",), ("default",)]),
        ("SELECT window, accounting FROM dpsql.budget", (), [(None, "auto")]),
        ("SELECT b.window AS w, ledger.time IS NULL FROM dpsql.budget b, dpsql.ledger WHERE id = 1", (), [(None, False)]),
        ("SELECT (SELECT MAX(id) FROM dpsql.ledger) + 1", (), [(3,)]),
        ("SELECT * FROM dpsql.ledger WHERE FALSE", (), []),
        ("SELECT COUNT(*) FROM dpsql.ledger LIMIT 0", (), []),
        ("SELECT analyst, COUNT(*) FROM dpsql.ledger GROUP BY ALL ORDER BY ALL", (), [("default", 2)]),
        (
            "SELECT COUNT(*) FROM dpsql.ledger JOIN information_schema.tables ON table_schema = 'main' WHERE table_name = 'plan'",
            (),
            [(2,)],
        ),
    ],
)  # fmt: skip
def test_any_sql_over_them_is_exact(
    connection: Connection, sql: str, parameters: tuple[object, ...], expected: list[tuple[object, ...]]
) -> None:
    assert rows(connection, sql, *parameters) == expected
    assert rows(connection, f"EXPLAIN {sql}", *parameters) == [("free: answered from the ledger alone, exactly",)]


def test_what_is_left_agrees_with_every_statement(connection: Connection) -> None:
    cursor = connection.execute("SHOW BUDGET")
    [row] = cursor.fetchall()
    shown = dict(zip((column[0] for column in cursor.description or ()), row, strict=True))
    assert Fraction(str(shown["remaining_epsilon"])) <= cursor.privacy.remaining
    assert shown["remaining_epsilon"] == pytest.approx(float(cursor.privacy.remaining), rel=1e-5)
    assert (shown["epsilon"], shown["spent_epsilon"]) == (4.0, pytest.approx(0.3))


def test_another_connection_is_seen(folder: Path, connection: Connection) -> None:
    assert rows(connection, "SELECT COUNT(*) FROM dpsql.ledger WHERE analyst = 'default'") == [(2,)]
    with dpsql.connect(folder / "schema.toml") as other:
        other.execute("SELECT COUNT(*) FROM person WHERE site = 1")
    assert rows(connection, "SELECT COUNT(*) FROM dpsql.ledger WHERE analyst = 'default'") == [(3,)]
    assert rows(connection, "SELECT charges FROM dpsql.analysts") == [(3,)]


def test_an_analyst_sees_themself(folder: Path) -> None:
    path = folder / "schema.toml"
    path.write_text(path.read_text() + ANALYSTS)
    assert dpsql_check(path) == 0
    with dpsql.connect(path, analyst="alice") as alice, dpsql.connect(path, analyst="bob") as bob:
        alice.execute("SELECT COUNT(*) FROM person")
        bob.execute("SELECT SUM(income) FROM person")
        assert rows(alice, "SELECT analyst, role FROM dpsql.ledger") == [("alice", "interns")]
        assert rows(bob, "SELECT statement FROM dpsql.ledger") == [("SELECT SUM(income) FROM person",)]
        assert rows(alice, "SELECT analyst, epsilon FROM dpsql.analysts") == [("alice", 0.5)]
        held = rows(alice, "SELECT holder, spent_epsilon FROM dpsql.budget")
        assert held == [("dataset", 0.2), ("analyst alice", 0.1), ("role interns", 0.1)]
        assert rows(bob, "SELECT holder FROM dpsql.budget") == [("dataset",)]


def dpsql_check(path: Path) -> int:
    from dpsql.clients.cli.main import main

    return main(["check", str(path)])


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("sql", "code", "words"),
    [
        ("SELECT * FROM dpsql.ledger, person", "402", "with person; ask for what was spent in a statement of its own"),
        ("SELECT COUNT(*) FROM person WHERE person_id IN (SELECT id FROM dpsql.ledger)", "402", "with person"),
        ("SELECT * FROM plan JOIN dpsql.budget ON TRUE", "402", "dpsql.budget cannot stand in one statement with plan"),
        ("SELECT * FROM dpsql.ledger, person WHERE FALSE", "402", "with person"),
        ("WITH person AS (SELECT * FROM dpsql.ledger) SELECT * FROM person", "402", "name it otherwise than person"),
        ("PIVOT dpsql.ledger ON analyst USING COUNT(*)", "402", "write SUM(...) FILTER (WHERE ...)"),
        ("SELECT * FROM dpsql.budgett", "105", "did you mean dpsql.budget?"),
        ("SELECT * FROM dpsql.person", "105", "there are dpsql.budget, dpsql.ledger, dpsql.analysts"),
        ("SELECT * FROM ledger", "105", "did you mean dpsql.ledger?"),
        ("SELECT * FROM main.ledger", "105", "the tables are person, person_year, plan"),
        ("DESCRIBE dpsql.ledgr", "105", "did you mean dpsql.ledger?"),
        ("SELECT epsilonn FROM dpsql.ledger", "105", "did you mean epsilon?"),
        ("SELECT income FROM dpsql.ledger", "105", "see DESCRIBE dpsql.ledger"),
        ("SHOW SPENDING", "103", "SHOW BUDGET"),
        ('SHOW "budget"', "103", "SHOW BUDGET"),
    ],
)
def test_refusals_say_what_to_write(connection: Connection, sql: str, code: str, words: str) -> None:
    problem = refused(connection, sql)
    assert problem.code == f"DPSQL-{code}"
    assert words in str(problem).splitlines()[0]
    assert rows(connection, "SELECT COUNT(*) FROM dpsql.ledger") == [(2,)]


def test_a_declared_table_of_the_same_name(folder: Path) -> None:
    path = folder / "schema.toml"
    text = path.read_text().replace("[tables.plan]", "[tables.budget]").replace('"plan.plan"', '"budget.plan"')
    path.write_text(text)
    with dpsql.connect(path) as opened:
        declared = opened.execute("SELECT * FROM budget").description or []
        assert "plan" in [column[0] for column in declared]
        assert rows(opened, "SELECT holder FROM dpsql.budget") == [("dataset",)]
        assert ("plan",) in [row[:1] for row in rows(opened, "DESCRIBE budget")]
        assert rows(opened, "DESCRIBE dpsql.budget")[0][0] == "holder"
        assert [row[0] for row in rows(opened, "SHOW TABLES")] == ["budget", "person", "person_year"]
        assert "dpsql.budget cannot stand in one statement with budget" in str(
            refused(opened, "SELECT * FROM dpsql.budget, budget")
        )
