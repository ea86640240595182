"""unpivoted: the nested SELECT gives the columns and rows of PIVOT on plain DuckDB, whatever the data."""

from __future__ import annotations

import random

import duckdb
import pytest
from sqlglot import exp

from dpsql.core.errors import Error
from dpsql.planner.parse import DUCKDB, parse
from dpsql.planner.resolve.pivot import unpivoted, with_values

DECLARED: dict[str, tuple[int | str | bool, ...]] = {
    "site": (1, 2, 10, -3), "b": (False, True), "city": ("a", "B", "b", "Ab"), "site + 1": (2, 3, 11, -2),
}  # fmt: skip

# The data has every declared value: plain DuckDB makes columns of what it finds.
WHOLE = [
    "PIVOT t ON site USING COUNT(*) GROUP BY f",
    "PIVOT t ON site USING COUNT(*) AS n GROUP BY f",
    "PIVOT t ON site USING COUNT(*), SUM(x) AS s GROUP BY f",
    "PIVOT t ON site USING COUNT(*), SUM(x), AVG(x), MAX(x), COUNT_IF(b) GROUP BY f",
    "PIVOT t ON site USING SUM(x) GROUP BY f, b",
    "PIVOT t ON b USING COUNT(*) GROUP BY f",
    "PIVOT t ON city USING COUNT(x) GROUP BY f",
    "PIVOT t ON site, b USING COUNT(*) GROUP BY f",
    "PIVOT t ON site + 1 USING COUNT(*) GROUP BY f",
    "PIVOT t ON site USING round(AVG(x), 1) GROUP BY f",
    "PIVOT t ON site USING COUNT(*) AS n, SUM(x) AS n GROUP BY f",
    "PIVOT t ON site USING COUNT(*) GROUP BY site",
    "PIVOT t ON site USING COUNT(*) GROUP BY f, f",
    "PIVOT t ON site GROUP BY f",
    "PIVOT t ON site USING COUNT(DISTINCT x) GROUP BY f",
    "PIVOT (SELECT site, f FROM t) ON site USING COUNT(*) GROUP BY f",
    "WITH c AS (SELECT * FROM t) PIVOT c ON site USING COUNT(*) GROUP BY f",
    "SELECT f, \"1\" + \"2\" AS both FROM (PIVOT t ON site USING COUNT(*) GROUP BY f) AS p WHERE \"10\" >= 0",
]  # fmt: skip
LISTED = [
    "PIVOT t ON site IN (2, 1, 7) USING COUNT(*), SUM(x) GROUP BY f",
    "PIVOT t ON site IN (2, NULL, -3) USING COUNT(*) GROUP BY f",
    "PIVOT t ON b IN (false, true) USING COUNT(*) GROUP BY f",
    "PIVOT t ON city IN ('a', 'zz') USING SUM(x) AS s GROUP BY f",
    "PIVOT t ON city IN (a, zz) USING COUNT(*) GROUP BY f",
    "PIVOT t ON site IN (1, 2), b IN (true, false) USING COUNT(*) AS n, SUM(x) AS s GROUP BY f",
    "PIVOT t ON site IN ('2', 1) USING COUNT(*) GROUP BY f",
    "PIVOT t ON (site + 1) IN (2, 3) USING COUNT(*) GROUP BY f",
    "PIVOT t ON upper(city) IN ('A', 'B') USING COUNT(*) GROUP BY f",
    "PIVOT (SELECT * FROM t WHERE x > 1000) ON site IN (1, 2) USING COUNT(*) GROUP BY f",
    "FROM t PIVOT (COUNT(*) FOR site IN (1, 2) GROUP BY f)",
    "SELECT * FROM t PIVOT (COUNT(*) FOR site IN (1, 2) b IN (true, false) GROUP BY f)",
    "SELECT p.*, 1 AS one FROM t PIVOT (COUNT(*) AS n, SUM(x) AS s FOR site IN (1 AS first, 2) GROUP BY f) AS p",
    "SELECT p.f, first FROM (SELECT f, site FROM t) PIVOT (COUNT(*) FOR site IN (1 AS first, 2) GROUP BY f) AS p",
]  # fmt: skip


def connection(rows: int) -> duckdb.DuckDBPyConnection:
    chance = random.Random(rows)
    found = duckdb.connect()
    found.execute("CREATE TABLE t (site INTEGER, b BOOLEAN, city VARCHAR, f VARCHAR, x DOUBLE)")
    values: list[list[object]] = [
        [1, 2, 10, -3, None], [True, False, None], ["a", "B", "b", "Ab", None], ["u", "v", None], [1.5, 2.0, -4.25, None],
    ]  # fmt: skip
    for i in range(rows):
        # The first rows hold every value once.
        row = [part[i] if i < len(part) else chance.choice(part) for part in values]
        found.execute("INSERT INTO t VALUES (?, ?, ?, ?, ?)", row)
    return found


def listed(source: exp.Expression, column: exp.Expression) -> tuple[int | str | bool, ...] | None:
    assert isinstance(source, exp.Table | exp.Subquery)
    assert source.parent is not None, "what is read stands in its statement"
    return DECLARED.get(column.sql(dialect="duckdb"))


def tree_of(sql: str) -> exp.Expression:
    tree = parse(sql).tree
    assert tree is not None
    return tree


def answer(database: duckdb.DuckDBPyConnection, sql: str) -> tuple[list[tuple[str, str]], list[str]]:
    result = database.execute(sql)
    return [(str(c[0]), str(c[1])) for c in result.description], sorted(map(repr, result.fetchall()))


@pytest.mark.few(13)
@pytest.mark.parametrize("sql", WHOLE + LISTED)
@pytest.mark.parametrize("size", [5, 6, 60])
def test_the_same_columns_and_rows(sql: str, size: int) -> None:
    database = connection(size)
    assert answer(database, DUCKDB.generate(unpivoted(tree_of(sql), listed))) == answer(database, sql)


@pytest.mark.parametrize("sql", LISTED)
def test_an_empty_table(sql: str) -> None:
    database = connection(0)
    assert answer(database, DUCKDB.generate(unpivoted(tree_of(sql), listed))) == answer(database, sql)


@pytest.mark.few(8)
@pytest.mark.parametrize("sql", WHOLE + LISTED)
def test_values_written_out_name_the_same_columns(sql: str) -> None:
    wanted = answer(connection(5), sql)[0]
    text = DUCKDB.generate(with_values(tree_of(sql), listed))
    assert answer(connection(0), text)[0] == wanted
    assert len(connection(0).extract_statements(text)) == 1


@pytest.mark.parametrize("sql", WHOLE + LISTED)
def test_the_argument_stays(sql: str) -> None:
    tree = tree_of(sql)
    before = tree.copy()
    unpivoted(tree, listed)
    with_values(tree, listed)
    assert tree == before


def test_the_shape() -> None:
    found = DUCKDB.generate(unpivoted(tree_of("PIVOT t ON b USING COUNT(*) GROUP BY f"), listed))
    assert found == (
        'SELECT "g0" AS "f", COALESCE(MAX("a0") FILTER(WHERE "k0" = FALSE), 0) AS "false", '
        'COALESCE(MAX("a0") FILTER(WHERE "k0" = TRUE), 0) AS "true" FROM '
        '(SELECT f AS "g0", b AS "k0", COUNT(*) AS "a0" FROM t GROUP BY 1, 2) AS "pivoted" GROUP BY 1'
    )


def test_a_number_is_compared_as_a_number() -> None:
    """DuckDB compares texts here, so that 2 finds no 2.0."""
    found = answer(
        connection(5), DUCKDB.generate(unpivoted(tree_of("PIVOT t ON x IN (2) USING COUNT(*) GROUP BY f"), listed))
    )
    assert found[1] == ["('u', 0)", "('v', 1)", "(None, 0)"]


def test_a_filter_counts() -> None:
    """DuckDB's PIVOT forgets it."""
    sql = "PIVOT t ON b IN (true) USING COUNT(*) FILTER (WHERE x > 1) AS n GROUP BY f"
    plain = "SELECT f, COUNT(*) FILTER (WHERE x > 1 AND b) AS true_n FROM t GROUP BY f"
    database = connection(40)
    assert answer(database, DUCKDB.generate(unpivoted(tree_of(sql), listed))) == answer(database, plain)


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ("PIVOT t ON site USING COUNT(*)", "302"),
        ("PIVOT t ON site USING COUNT(*) GROUP BY ALL", "302"),
        ("SELECT * FROM t PIVOT (COUNT(*) FOR site IN (1, 2))", "302"),
        ("PIVOT t ON x USING COUNT(*) GROUP BY f", "303"),
        ("PIVOT t ON site USING COUNT(*) GROUP BY f || 'x'", "101"),
        ("PIVOT t ON site IN (1, 1) USING COUNT(*) GROUP BY f", "101"),
        ("PIVOT t ON site IN (x + 1) USING COUNT(*) GROUP BY f", "102"),
        ("PIVOT t ON site IN some_type USING COUNT(*) GROUP BY f", "102"),
        ("SELECT * FROM t UNPIVOT (x FOR y IN (site, b))", "102"),
        ("SELECT * FROM t JOIN t AS s USING (f) PIVOT (COUNT(*) FOR b IN (true) GROUP BY f)", "102"),
        (f"PIVOT t ON site IN ({', '.join(map(str, range(40)))}), x IN ({', '.join(map(str, range(40)))}) GROUP BY f", "304"),
    ],
)  # fmt: skip
def test_refused(sql: str, code: str) -> None:
    with pytest.raises(Error) as found:
        unpivoted(tree_of(sql), listed)
    assert found.value.code == f"DPSQL-{code}"
    assert found.value.hint and found.value.span
