"""parse: one statement, options lifted out, parameters bound, and every size ends in an answer or an error in bounded time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

from dpsql.core.errors import Error
from dpsql.planner.parse import DUCKDB, CreateCube, Explain, parse
from dpsql.session.opening import open_session
from dpsql.session.session import Session
from tests.support import clinic
from tests.support.noise import ZeroNoise

SLOWEST = 20.0
"""[s] on a slow machine; what is bounded takes far less."""


def refused(sql: str, parameters: object = ()) -> str:
    with pytest.raises(Error) as found:
        parse(sql, parameters)  # type: ignore[arg-type]
    return found.value.code.removeprefix("DPSQL-")


def text(sql: str, parameters: object = (), now: datetime | None = None) -> str:
    tree = parse(sql, parameters, now).tree  # type: ignore[arg-type]
    assert tree is not None
    return DUCKDB.generate(tree)


# --- statements ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sql", ["", "  -- nothing"])
def test_nothing_is_refused(sql: str) -> None:
    assert refused(sql) == "101"


def test_explain_is_lifted_and_positions_stay() -> None:
    parsed = parse("EXPLAIN SELECT abc FROM t")
    assert isinstance(parsed, Explain)
    assert parsed.query.tree.expressions[0].this.meta["start"] == len("EXPLAIN SELECT ")


def test_the_query_as_written_is_kept_for_its_names() -> None:
    assert parse("explain /* a */ SELECT POW(x, 2) FROM t ; -- b").query.plain == "SELECT POW(x, 2) FROM t"
    assert parse("SELECT x FROM t WHERE x = ?", [1]).plain is None
    assert parse("SELECT WITH DIFFERENTIAL_PRIVACY x FROM t").plain is None


# --- parameters ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sql", "parameters", "bound"),
    [
        ("SELECT ?, ?", [1, "it's"], "SELECT 1, 'it''s'"),
        ("SELECT $2, $1, $2", [1, 2], "SELECT 2, 1, 2"),
        ("SELECT :a, $b", {"a": True, "b": None}, "SELECT TRUE, NULL"),
        ("SELECT ?", [-5], "SELECT -5"),
        ("SELECT ?", [Decimal("1.50")], "SELECT 1.50"),
        ("SELECT ?", [0.5], "SELECT 0.5e0"),
        ("SELECT ?", [datetime(2020, 1, 2, 3, 4, 5)], "SELECT CAST('2020-01-02 03:04:05' AS TIMESTAMP)"),
        ("SELECT '?', ?", ["x"], "SELECT '?', 'x'"),
        ("SELECT ?, ?", [np.int64(-2), np.float64(0.5)], "SELECT -2, 0.5e0"),
        ("SELECT ?, ?", [np.bool_(True), np.uint8(3)], "SELECT TRUE, 3"),
    ],
)
def test_parameters_become_constants(sql: str, parameters: object, bound: str) -> None:
    assert text(sql, parameters) == bound


@pytest.mark.parametrize(
    ("sql", "parameters"),
    [
        ("SELECT ?", []), ("SELECT ?", [1, 2]), ("SELECT :a", {"b": 1}), ("SELECT $2", [1, 2]), ("SELECT ?", [b"x"]),
        ("SELECT ?", [float("nan")]), ("SELECT ?", [float("inf")]), ("SELECT ?", [[1]]), ("SELECT ?", {"a": 1}), ("SELECT 1", [1]),
        ("SELECT ?", [object()]), ("SELECT ?", [Decimal("NaN")]),
        ("SELECT ?", [np.datetime64("2020-01-01", "ns")]), ("SELECT ?", [np.array([1])]), ("SELECT ?", [np.float64("nan")]),
    ],
)  # fmt: skip
def test_parameters_that_do_not_fit(sql: str, parameters: object) -> None:
    assert refused(sql, parameters) == "108"


def test_the_time_is_bound_once() -> None:
    now = datetime(2020, 1, 2, 3, 4, 5)
    found = text("SELECT CURRENT_DATE, NOW(), CURRENT_TIMESTAMP, today()", now=now)
    assert found.count("'2020-01-02'") == 2
    assert found.count("'2020-01-02 03:04:05'") == 2


def test_a_table_may_be_called_cube() -> None:
    made = parse("CREATE PRIVATE CUBE c AS SELECT site, COUNT(*) FROM cube GROUP BY CUBE (site)")
    assert isinstance(made, CreateCube)
    assert made.query.tree.sql() == "SELECT site, COUNT(*) FROM cube GROUP BY site"


# --- sizes --------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder: Path = tmp_path_factory.mktemp("clinic")
    clinic.schema(folder)
    clinic.write(folder, {name: [] for name in clinic.DDL})
    opened = open_session(folder / "patient.toml", None, ":memory:", noise=ZeroNoise())
    yield opened
    opened.close()


LARGE = {
    "10 MB": "SELECT COUNT(*) FROM patient -- " + "x" * 10_000_000,
    "10 MB of text": "SELECT COUNT(*) FROM patient WHERE city = '" + "x" * 10_000_000 + "'",
    "5,000 parentheses": "SELECT COUNT(*) FROM patient WHERE " + "(" * 5000 + "age > 3" + ")" * 5000,
    "5,000 open parentheses": "SELECT " + "(" * 5000,
    "5,000 brackets": "SELECT " + "[" * 5000 + "]" * 5000,
    "a chain of ANDs": "SELECT COUNT(*) FROM patient WHERE " + " AND ".join(["age > 3"] * 5000),
    "a chain of different ANDs": "SELECT COUNT(*) FROM patient WHERE "
    + " AND ".join(f"age <> {i}" for i in range(5000)),
    "a chain of ORs": "SELECT COUNT(*) FROM patient WHERE " + " OR ".join(f"age = {i}" for i in range(5000)),
    "a chain of +": "SELECT SUM(" + " + ".join(["age"] * 5000) + ") FROM patient",
    "a chain of -": "SELECT SUM(" + " - ".join(["1"] * 5000) + ") FROM patient",
    "a chain of ||": "SELECT COUNT(*) FROM patient WHERE " + " || ".join(["city"] * 5000) + " = 'a'",
    "a chain of NOTs": "SELECT COUNT(*) FROM patient WHERE " + "NOT " * 5000 + "female",
    "a chain of minus": "SELECT SUM(" + "- " * 5000 + "age) FROM patient",
    "a chain of casts": "SELECT SUM(age" + "::BIGINT" * 5000 + ") FROM patient",
    "nested CASE": "SELECT SUM(" + "CASE WHEN female THEN 1 ELSE " * 1000 + "2" + " END" * 1000 + ") FROM patient",
    "a long IN": f"SELECT COUNT(*) FROM patient WHERE age IN ({', '.join(map(str, range(15_000)))})",
    "many columns": "SELECT " + ", ".join(f"COUNT(*) AS c{i}" for i in range(2000)) + " FROM patient",
    "many sums": "SELECT " + ", ".join(f"SUM(age + {i})" for i in range(500)) + " FROM patient",
    "many UNIONs": " UNION ALL ".join(["SELECT 1"] * 2000),
    "doubling": "SELECT SUM(" + "ABS(" * 40 + "score * 2 + score" + ")" * 40 + ") FROM patient",
    "guards in guards": "SELECT SUM(" + "SQRT(" * 40 + "age" + ")" * 40 + ") FROM patient",
    "long HAVING": "SELECT COUNT(*) FROM patient HAVING " + " AND ".join(["COUNT(*) > 3"] * 3000),
    "long ORDER BY": "SELECT site FROM patient GROUP BY site ORDER BY " + " + ".join(["COUNT(*)"] * 3000),
}


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT dp_sum(age, lower := 0, upper := {}) FROM patient",
        "SELECT QUANTILE_CONT(age, {}) FROM patient",
        "SELECT COUNT(*) FROM patient WHERE born > DATE '2000-01-01' + INTERVAL -{} DAY",
        "SELECT site, COUNT(*) FROM patient GROUP BY {}",
        "SELECT site, COUNT(*) FROM patient GROUP BY 1 ORDER BY {}",
        "SELECT SUBSTRING(city, -{}), COUNT(*) FROM patient GROUP BY 1",
        "CREATE PRIVATE CUBE c OPTIONS (epsilon = {}) AS SELECT site, COUNT(*) FROM patient GROUP BY CUBE (site)",
    ],
)
@pytest.mark.parametrize("number", ["1e999999999", "1e-999999999", "1" * 5000, f"0.{'1' * 5000}"])
def test_a_number_beyond_every_type_is_refused_before_anything_computes_with_it(sql: str, number: str) -> None:
    """A few characters that name more digits than there is memory for."""
    with pytest.raises(Error) as raised:
        parse(sql.format(number))
    assert raised.value.code == "DPSQL-106"


@pytest.mark.slow
@pytest.mark.parametrize("name", LARGE)
def test_any_size_ends_in_bounded_time(name: str, session: Session) -> None:
    start = time.monotonic()
    try:
        session.execute(LARGE[name])
    except Error as problem:
        first = str(problem).split("\n")[0]
        assert problem.code in ("DPSQL-101", "DPSQL-102", "DPSQL-106", "DPSQL-107", "DPSQL-201", "DPSQL-202"), first
        assert len(first) < 220
        assert problem.__context__ is None
    assert time.monotonic() - start < SLOWEST
