"""flatten: the nested statement gives the rows of ROLLUP, CUBE and GROUPING SETS on plain DuckDB, whatever the data."""

from __future__ import annotations

import random
import time

import duckdb
import pytest
from sqlglot import exp

from dpsql.core.errors import Error
from dpsql.planner.parse import DUCKDB, parse
from dpsql.planner.resolve.grouping_sets import ALL_KEYS_DECLARED, flatten

COLUMNS = ("id", "a", "b", "t", "x", "n", "d")

STATEMENTS = [
    "SELECT a, b, COUNT(*) FROM v GROUP BY ROLLUP (a, b)",
    "SELECT a, b, COUNT(*) FROM v GROUP BY CUBE (a, b)",
    "SELECT a, COUNT(*) FROM v GROUP BY GROUPING SETS ((a), ())",
    "SELECT a, b, t, COUNT(x), SUM(n), AVG(x) FROM v GROUP BY GROUPING SETS ((a, b), t, (), ROLLUP (a, t))",
    "SELECT a, b, t, COUNT(*) FROM v GROUP BY a, ROLLUP (b, t)",
    "SELECT a, b, t, COUNT(*) FROM v GROUP BY ROLLUP ((a, b), t)",
    "SELECT a, b, t, COUNT(*) FROM v GROUP BY CUBE (a, b), GROUPING SETS ((t), ())",
    "SELECT COUNT(*) FROM v GROUP BY GROUPING SETS ((), ())",
    "SELECT COUNT(*), SUM(n) FROM v GROUP BY ROLLUP (a)",
    "SELECT a, GROUPING(a), GROUPING(a, b), GROUPING_ID(b), COUNT(*) FROM v GROUP BY ROLLUP (a, b)",
    "SELECT a AS k1, b AS k0, COUNT(*) AS a0 FROM v GROUP BY ROLLUP (1, 2) HAVING a0 > 1 ORDER BY k1, k0, a0",
    "SELECT t AS word, COUNT(*) AS n FROM v GROUP BY ROLLUP (word) ORDER BY n DESC, word",
    "SELECT lower(t) AS t, COUNT(*) FROM v GROUP BY ROLLUP (t)",
    "SELECT n % 3 AS m, COUNT(*) FROM v WHERE m IS NOT NULL GROUP BY ROLLUP (m)",
    "SELECT a + 1, (a + 1) * 2 AS twice, COUNT(*) FROM v GROUP BY CUBE (a + 1)",
    "SELECT (n) % (2), (N % 2) * 10 AS tens, COUNT(*) FROM v GROUP BY ROLLUP ((v.n % 2))",
    "SELECT n > 0 AND b AS pair, COUNT(*) FROM v WHERE NOT pair GROUP BY ROLLUP (pair)",
    "SELECT A, V.b, COUNT(*) FROM v GROUP BY ROLLUP (v.a, B) HAVING COUNT(*) > 1 AND (a IS NULL OR A > 0)",
    "SELECT a, AVG(n), AVG(x) FILTER (WHERE b), mean(d), SUM(d) FROM v GROUP BY ROLLUP (a)",
    "SELECT a, COUNT(*) FILTER (WHERE n > 1), COUNT_IF(b), SUM(x) FILTER (WHERE n > 1) FROM v GROUP BY CUBE (a)",
    "SELECT a, SUM(n) / COUNT(*) AS ratio, COUNT(*) + 1, COUNT(1) FROM v GROUP BY ROLLUP (a) ORDER BY 2, 1",
    "SELECT a, COUNT(*) AS c, c * 2 AS twice FROM v GROUP BY ROLLUP (a) ORDER BY twice + 0, a",
    "SELECT a, b, RANK() OVER (PARTITION BY GROUPING(a, b) ORDER BY COUNT(*) DESC) FROM v GROUP BY ROLLUP (a, b)",
    "SELECT a, SUM(COUNT(*)) OVER (PARTITION BY GROUPING(a)) FROM v GROUP BY ROLLUP (a)",
    "SELECT a, b, COUNT(*) FROM v GROUP BY CUBE (a, b) QUALIFY ROW_NUMBER() OVER (ORDER BY COUNT(*), a, b) <= 2",
    "SELECT DISTINCT a FROM v GROUP BY CUBE (a, b)",
    "SELECT DISTINCT a, COUNT(*) FROM v GROUP BY CUBE (a, b) ORDER BY a, 2",
    "SELECT a, COUNT(*) AS c FROM v GROUP BY ROLLUP (a) ORDER BY c, a LIMIT 2 OFFSET 1",
    "SELECT a, b, COUNT(*) FROM v GROUP BY ROLLUP (a, b) ORDER BY GROUPING(a), a, GROUPING(b), b",
    "SELECT CASE WHEN GROUPING(a) = 1 THEN 'all' ELSE CAST(a AS VARCHAR) END AS part, COUNT(*) FROM v GROUP BY ROLLUP (a)",
    "WITH big AS (SELECT a, n FROM v WHERE n > 0) SELECT a, SUM(n) FROM big GROUP BY ROLLUP (a)",
    "SELECT v.a, w.label, COUNT(*), SUM(v.n) FROM v JOIN w ON v.a = w.a GROUP BY ROLLUP (v.a, w.label) ORDER BY label, v.a",
    "SELECT v.a, w.a + 1, COUNT(*) FROM v JOIN w ON v.a = w.a GROUP BY CUBE (v.a, w.a + 1)",
    "SELECT a, COUNT(*) FROM v GROUP BY ROLLUP (a) HAVING COUNT(*) > (SELECT AVG(a) FROM w)",
    "SELECT a, a IN (1, 2), a BETWEEN 1 AND 2, COUNT(*) FROM v GROUP BY ROLLUP (a)",
    "FROM v SELECT a, COUNT(*) GROUP BY ROLLUP (a) ORDER BY ALL",
    "SELECT 'x' AS c, a, COUNT(*) FROM v GROUP BY ROLLUP (1, a)",
    "SELECT a, AVG(n) FROM v WHERE a > 0 AND t <> 'q' GROUP BY ROLLUP (a) HAVING AVG(n) > 0",
]  # fmt: skip


def connection(rows: int, seed: int) -> duckdb.DuckDBPyConnection:
    """Two tables, with NULL in every column; sums of x are exact in binary."""
    chance = random.Random(seed)
    found = duckdb.connect()
    found.execute("CREATE TABLE v (id INTEGER, a INTEGER, b BOOLEAN, t VARCHAR, x DOUBLE, n INTEGER, d DECIMAL(6,2))")
    found.execute("CREATE TABLE w (a INTEGER, label VARCHAR)")
    found.execute("INSERT INTO w VALUES (1, 'one'), (2, 'two'), (2, 'deux'), (NULL, 'none')")
    for i in range(rows):
        row = [i, *(chance.choice(part) for part in VALUES)]
        found.execute("INSERT INTO v VALUES (?, ?, ?, ?, ?, ?, ?)", row)
    return found


VALUES: list[list[object]] = [
    [1, 2, 3, None], [True, False, None], ["p", "Q", "q", None], [0.5, -2.25, 8.0, None], [0, 1, 2, 7, None], ["1.25", "-3", None],
]  # fmt: skip


def flattened(sql: str, columns: tuple[str, ...] = ()) -> exp.Select:
    tree = parse(sql).tree
    assert isinstance(tree, exp.Select)
    before = tree.sql(dialect="duckdb")
    found = flatten(tree, columns)
    assert tree.sql(dialect="duckdb") == before, "the argument was changed"
    assert found is not None
    return found


def rows(database: duckdb.DuckDBPyConnection, sql: str) -> tuple[list[str], list[str]]:
    """Column types and rows; averages are compared to 12 digits."""
    result = database.execute(sql)
    types = [str(column[1]) for column in result.description]
    return types, [repr([f"{c:.12g}" if isinstance(c, float) else c for c in row]) for row in result.fetchall()]


@pytest.mark.few(14)
@pytest.mark.parametrize("sql", STATEMENTS)
@pytest.mark.parametrize("size", [0, 1, 5, 60])
def test_the_same_rows(sql: str, size: int) -> None:
    database = connection(size, seed=size)
    wanted, found = rows(database, sql), rows(database, DUCKDB.generate(flattened(sql)))
    assert found[0] == wanted[0]
    assert sorted(found[1]) == sorted(wanted[1])
    if "ORDER BY" in sql.rpartition("GROUP BY")[2]:
        assert found[1] == wanted[1]


@pytest.mark.few(1)
@pytest.mark.parametrize("size", [0, 40])
def test_generated_sets(size: int) -> None:
    chance = random.Random(size)
    database = connection(size, seed=7)
    for _ in range(40):
        keys = chance.sample(["a", "b", "t", "n % 2"], chance.randint(1, 3))
        sets = ", ".join(_generated_set(chance, keys) for _ in range(chance.randint(1, 2)))
        sql = f"SELECT {', '.join(keys)}, COUNT(*), COUNT(x), SUM(n), AVG(x) FROM v GROUP BY {sets}"
        grouped = [key for key in keys if key in sets]
        sql = sql.replace(", ".join(keys) + ",", "".join(f"{key}, " for key in grouped).strip() if grouped else "")
        found = rows(database, DUCKDB.generate(flattened(sql)))
        assert sorted(found[1]) == sorted(rows(database, sql)[1]), sql


def _generated_set(chance: random.Random, keys: list[str]) -> str:
    some = chance.sample(keys, chance.randint(1, len(keys)))
    kind = chance.choice(["ROLLUP", "CUBE", "GROUPING SETS"])
    if kind != "GROUPING SETS":
        return f"{kind} ({', '.join(some)})"
    inside = [f"({', '.join(some)})", "()", f"({some[0]})", f"ROLLUP ({', '.join(some)})"]
    return f"{kind} ({', '.join(chance.sample(inside, chance.randint(1, 3)))})"


def test_the_inner_select_is_one_plain_grouping() -> None:
    found = flattened("SELECT a, AVG(x), SUM(x), COUNT(x), COUNT(*) FROM v WHERE n > 0 GROUP BY ROLLUP (a, b)")
    inner = found.args["from_"].this.this
    assert DUCKDB.generate(inner) == (
        'SELECT a AS "k0", b AS "k1", SUM(x) AS "a0", COUNT(x) AS "a1", COUNT(*) AS "a2" FROM v WHERE n > 0 GROUP BY 1, 2'
    )
    assert inner.meta[ALL_KEYS_DECLARED] is True


def test_dp_sum_is_added_up() -> None:
    found = DUCKDB.generate(flattened("SELECT a, dp_sum(x, lower := 0, upper := 9) FROM v GROUP BY ROLLUP (a)"))
    assert 'SUM("grouped"."a0")' in found
    assert "DP_SUM(x, lower := 0, upper := 9)" in found


def test_result_columns_keep_their_names() -> None:
    found = flattened("SELECT a, v.B, COUNT(*) AS c FROM v GROUP BY ROLLUP (a, b)")
    assert [p.alias for p in found.expressions] == ["a", "B", "c"]


def test_a_column_comes_before_an_alias() -> None:
    sql = "SELECT t AS a, COUNT(*) FROM v GROUP BY ROLLUP (a)"
    assert "t AS" in DUCKDB.generate(flattened(sql))
    with pytest.raises(Error, match="t is neither grouped nor aggregated"):
        flattened(sql, COLUMNS)


@pytest.mark.parametrize(
    "sql", ["SELECT a, COUNT(*) FROM v GROUP BY a", "SELECT COUNT(*) FROM v", "SELECT a FROM v GROUP BY ALL"]
)
def test_plain_groups_are_left_alone(sql: str) -> None:
    tree = parse(sql).tree
    assert isinstance(tree, exp.Select)
    assert flatten(tree) is None


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ("SELECT a, COUNT(DISTINCT id) FROM v GROUP BY ROLLUP (a)", "102"),
        ("SELECT a, SUM(DISTINCT n) FROM v GROUP BY ROLLUP (a)", "102"),
        ("SELECT a, AVG(DISTINCT n) FROM v GROUP BY ROLLUP (a)", "102"),
        ("SELECT a, MIN(n) FROM v GROUP BY CUBE (a)", "102"),
        ("SELECT a, MEDIAN(n) FROM v GROUP BY CUBE (a)", "102"),
        ("SELECT a, STDDEV(n) FROM v GROUP BY GROUPING SETS ((a), ())", "102"),
        ("SELECT a, COUNT(*) FROM v GROUP BY ROLLUP (a) HAVING MAX(n) > 1", "102"),
        ("SELECT b, COUNT(*) FROM v GROUP BY ROLLUP (a)", "305"),
        ("SELECT a, COUNT(*) FROM v GROUP BY ROLLUP (3)", "305"),
        ("SELECT a, COUNT(*) FROM v GROUP BY ROLLUP (2)", "109"),
        ("SELECT a, GROUPING(b), COUNT(*) FROM v GROUP BY ROLLUP (a)", "109"),
        ("SELECT *, COUNT(*) FROM v GROUP BY ROLLUP (a)", "301"),
        ("SELECT v.*, COUNT(*) FROM v GROUP BY ROLLUP (a)", "301"),
        ("SELECT a, COUNT(*) FROM v GROUP BY a WITH ROLLUP", "101"),
        ("SELECT a, COUNT(*) FROM v GROUP BY ALL, ROLLUP (a)", "101"),
    ],
)  # fmt: skip
def test_refused(sql: str, code: str) -> None:
    with pytest.raises(Error) as found:
        flattened(sql, COLUMNS)
    assert found.value.code == f"DPSQL-{code}"
    assert found.value.hint and found.value.span


def test_long_conditions_end_in_time() -> None:
    total = " + ".join(["COUNT(*)"] * 250)
    started = time.monotonic()
    assert flattened(f"SELECT a + n, COUNT(*) FROM v GROUP BY ROLLUP (a + n) HAVING {total} > 1")
    assert time.monotonic() - started < 10
