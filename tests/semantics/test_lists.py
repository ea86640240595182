"""Columns of lists: one element looked for and how many there are, as plain DuckDB; what is longer than declared counts as NULL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from dpsql.clients.cli.main import main
from dpsql.core.errors import Error
from dpsql.session.opening import open_session
from dpsql.session.session import Session
from tests.support.noise import ZeroNoise

SCHEMA = """
[dataset]
name = "club"
source = "."
[privacy]
unit = "member.id"
epsilon = 1e9
delta = 1e-3
units = 600
caps = { epsilon = 1e6, delta = 1e-4 }
query = { epsilon = 1e5, delta = 1e-6 }
[guard]
mode = "off"
[tables.member]
source = "member.parquet"
key = ["id"]
[tables.member.columns]
id = { type = "BIGINT" }
city = { type = "VARCHAR", domain = ["A", "B"] }
tags = { type = "VARCHAR[]", length = 3, domain = ["blue", "green", "red"], nullable = true }
codes = { type = "INTEGER[]", length = 2, bounds = [0, 9] }
free = { type = "VARCHAR[]", length = 5 }
doses = { type = "DOUBLE[]", length = 2, bounds = [0, 5] }
days = { type = "DATE[]", length = 2, nullable = true }
flags = { type = "BOOLEAN[]", length = 2 }
"""
ROWS = """SELECT i::BIGINT AS id, CASE WHEN i % 2 = 0 THEN 'A' ELSE 'B' END AS city,
    CASE WHEN i % 10 = 0 THEN NULL WHEN i % 7 = 0 THEN []::VARCHAR[] WHEN i % 3 = 0 THEN ['red', 'blue']
    ELSE ['green', NULL, 'green'] END AS tags,
    [i % 10, (i + 1) % 10]::INTEGER[] AS codes, [chr((97 + i % 4)::INTEGER)] AS free, [i % 4 / 2, 'nan']::DOUBLE[] AS doses,
    [DATE '2020-01-01' + (i % 3)::INTEGER] AS days, [i % 2 = 0] AS flags FROM range(600) AS r(i)"""


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Session, duckdb.DuckDBPyConnection]]:
    folder = tmp_path_factory.mktemp("club")
    plain = duckdb.connect()
    plain.execute(f"CREATE TABLE member AS {ROWS}")
    plain.execute(f"COPY member TO '{folder / 'member.parquet'}' (FORMAT parquet)")
    session = asked(folder)
    yield session, plain
    session.close()
    plain.close()


def asked(folder: Path, schema: str = SCHEMA) -> Session:
    (folder / "schema.toml").write_text(schema)
    return open_session(folder / "schema.toml", None, ":memory:", noise=ZeroNoise())


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*) FROM member WHERE LIST_CONTAINS(tags, 'red')",
        "SELECT COUNT(*), COUNT(tags) FROM member WHERE NOT LIST_HAS(tags, 'red')",
        "SELECT ARRAY_HAS(tags, 'green') AS g, COUNT(*) AS n FROM member GROUP BY ALL",
        "SELECT SUM(LEN(tags)), SUM(LENGTH(codes)), SUM(ARRAY_LENGTH(free)) FROM member",
        "SELECT COALESCE(LEN(tags), -1) AS n, COUNT(*) FROM member GROUP BY 1 HAVING COUNT(*) > 0",
        "SELECT COUNT(*) FROM member WHERE ARRAY_CONTAINS(codes, 3) AND LIST_CONTAINS(codes, 4) OR tags IS NULL",
        "SELECT COUNT(*) FROM member WHERE tags && ['blue', 'x'] OR codes @> [3, 4]",
        "SELECT COUNT(*) FROM member WHERE NOT (tags && ['blue', 'green'])",
        "SELECT LIST_HAS_ALL(tags, ['red', 'blue']) AS g, COUNT(*) AS n FROM member GROUP BY ALL HAVING COUNT(*) > 0",
        "SELECT COUNT(*) FROM member WHERE LIST_HAS_ANY(free, ['a', 'b'])",
        "SELECT COUNT(*) FROM member WHERE 'green' = ANY(tags) AND 3 = ANY(codes) OR city = 'A' AND 'red' = ANY(tags)",
        "SELECT COUNT(*) FROM member WHERE LIST_CONTAINS(doses, 0.5) OR LIST_CONTAINS(doses, 1)",
        "SELECT COUNT(*) FROM member WHERE LIST_CONTAINS(days, '2020-01-02') AND LIST_CONTAINS(flags, true)",
        "SELECT COUNT(*) FROM member WHERE NOT LIST_HAS(days, DATE '2020-01-01')",
        "SELECT COUNT(*) FROM (SELECT id, tags AS t FROM member WHERE city = 'A') AS m WHERE LIST_CONTAINS(t, 'blue')",
        "WITH m AS (SELECT * FROM member) SELECT city, COUNT(*) FROM m WHERE LIST_CONTAINS(tags, 'green') GROUP BY city",
        "SELECT SUM(CASE WHEN LIST_CONTAINS(free, 'b') THEN 2 ELSE LEN(codes) END) FROM member",
        "SELECT COUNT(*) FROM member AS a JOIN member AS b ON a.id = b.id WHERE LIST_CONTAINS(a.tags, 'red') AND LEN(b.tags) = 2",
        "SELECT COUNT(*) FILTER (WHERE LIST_CONTAINS(codes, 11)) FROM member",
        "SELECT tag, COUNT(*) FROM member, UNNEST(member.tags) AS u(tag) GROUP BY tag",
        "SELECT u.tag, m.city, COUNT(*) FROM member AS m CROSS JOIN UNNEST(tags) AS u(tag) WHERE u.tag <> 'red' GROUP BY ALL",
        "SELECT tag, COUNT(DISTINCT id) FROM (SELECT id, UNNEST(tags) AS tag FROM member) GROUP BY tag",
        "SELECT COUNT(*), COUNT(c), SUM(c) FROM member, UNNEST(codes) AS u(c)",
        "SELECT COUNT(*) FROM member AS m, UNNEST(m.tags) AS u(t), UNNEST(m.codes) AS v(c) WHERE t = 'red' AND c < 5",
        "SELECT word, COUNT(*) FROM (SELECT * FROM member WHERE city = 'A') AS m, UNNEST(m.free) AS u(word) GROUP BY word",
        "SELECT d, COUNT(*) FROM member, UNNEST(days) AS u(d) WHERE d > '2020-01-01' GROUP BY d",
        "SELECT f, COUNT(*) FROM member JOIN UNNEST(flags) AS u(f) ON true GROUP BY f HAVING COUNT(*) > 0",
        "SELECT COUNT(*) FROM member, UNNEST(doses) AS u(dose) WHERE dose > 0.5 AND NOT isnan(dose)",
        "WITH x AS (SELECT id, t FROM member, UNNEST(tags) AS u(t)) SELECT n, COUNT(*) "
        "FROM (SELECT id, COUNT(*) AS n FROM x GROUP BY id) GROUP BY n HAVING COUNT(*) > 0",
        "SELECT t, COUNT(*) FROM member AS a JOIN member AS b ON a.id = b.id, UNNEST(a.tags) AS u(t) GROUP BY t",
        "SELECT COUNT(*) FROM (SELECT DISTINCT id, t FROM member, UNNEST(tags) AS u(t))",
        "SELECT COUNT(*) FROM member AS p WHERE EXISTS (SELECT 1 FROM (SELECT *, UNNEST(tags) AS t FROM member) AS q "
        "WHERE q.id = p.id AND q.t = 'red')",
        "SELECT city, COUNT(t) FROM member AS a LEFT JOIN (SELECT id, UNNEST(tags) AS t FROM member) AS b ON a.id = b.id GROUP BY 1",
    ],
)
def test_as_plain_duckdb(sql: str, opened: tuple[Session, duckdb.DuckDBPyConnection]) -> None:
    session, plain = opened
    found = session.execute(sql)
    cursor = plain.execute(sql)
    assert [name for name, _ in found.columns] == [str(c[0]) for c in cursor.description or []]
    assert sorted(map(repr, found.rows)) == sorted(map(repr, cursor.fetchall()))


@pytest.mark.parametrize(
    ("sql", "code", "hint"),
    [
        ("SELECT COUNT(*) FROM member WHERE tags = 'red'", 106, "LIST_CONTAINS(x, 'a')"),
        ("SELECT tags, COUNT(*) FROM member GROUP BY tags", 106, "LEN(x)"),
        ("SELECT COUNT(DISTINCT tags) FROM member", 106, "LEN(x)"),
        ("SELECT COUNT(DISTINCT (city, tags)) FROM member", 106, "LEN(x)"),
        ("SELECT MAX(tags) FROM member", 106, "LEN(x)"),
        ("SELECT CAST(tags AS VARCHAR) AS t, COUNT(*) FROM member GROUP BY 1", 106, "LEN(x)"),
        ("SELECT COUNT(*) FROM (SELECT id, MAX(tags) AS t FROM member GROUP BY id)", 106, "LEN(x)"),
        ("SELECT COUNT(*) FROM (SELECT DISTINCT tags, id FROM member)", 106, "LEN(x)"),
        ("SELECT COUNT(*) FROM member AS a JOIN member AS b USING (id, tags)", 106, "LEN(x)"),
        ("SELECT COUNT(*) FROM member WHERE COALESCE(tags, tags) IS NULL", 106, "LEN(x)"),
        ("SELECT COUNT(*) FROM member WHERE LIST_CONTAINS(city, 'A')", 106, "declares as a list"),
        ("SELECT COUNT(*) FROM member WHERE LIST_CONTAINS(codes, 2.5)", 106, "write a constant of type INTEGER"),
        ("SELECT COUNT(*) FROM member WHERE LIST_CONTAINS(codes, 3000000000)", 106, "write a constant of type INTEGER"),
        ("SELECT COUNT(*) FROM member WHERE LIST_CONTAINS(codes, 'x')", 106, "write a constant of type INTEGER"),
        ("SELECT COUNT(*) FROM member WHERE LIST_CONTAINS(tags, city)", 102, "LIST_CONTAINS(x, 'a')"),
        ("SELECT COUNT(*) FROM member WHERE LIST_CONTAINS(tags, NULL)", 102, "LIST_CONTAINS(x, 'a')"),
        ("SELECT COUNT(*) FROM member WHERE UPPER(tags) = 'A'", 106, ""),
        ("SELECT COUNT(*) FROM member WHERE CONCAT(tags, 'a') = 'A'", 106, "LEN(x)"),
        ("SELECT tags FROM member", 305, "COUNT(tags)"),
        ("SELECT UNNEST(tags) FROM member", 301, "COUNT(*)"),
        ("SELECT UNNEST(tags) AS t, COUNT(*) FROM member GROUP BY 1", 102, "UNNEST(t.tags) AS u(tag)"),
        ("SELECT COUNT(*) FROM (SELECT DISTINCT id, UNNEST(tags) AS t FROM member)", 102, "UNNEST(t.tags) AS u(tag)"),
        ("SELECT COUNT(*) FROM member WHERE UNNEST(tags) = 'a'", 102, "UNNEST(t.tags) AS u(tag)"),
        ("SELECT COUNT(*) FROM member, UNNEST(tags) AS u", 102, "UNNEST(t.tags) AS u(tag)"),
        ("SELECT COUNT(*) FROM member, UNNEST(tags) AS u(city)", 105, "AS u(another_name)"),
        ("SELECT COUNT(*) FROM member, UNNEST(tags) AS member(t)", 105, "AS another_name(t)"),
        ("SELECT COUNT(*) FROM member, UNNEST(city) AS u(c)", 102, "declared as a list"),
        ("SELECT COUNT(*) FROM member, UNNEST(LOWER(city)) AS u(c)", 102, "UNNEST(t.tags) AS u(tag)"),
        (
            "SELECT COUNT(*) FROM member AS m LEFT JOIN UNNEST(m.tags) AS u(t) ON true",
            102,
            "FROM (SELECT *, UNNEST(tags) AS tag",
        ),
        (
            "SELECT COUNT(*) FROM member AS m LEFT JOIN member AS n ON m.id = n.id, UNNEST(n.tags) AS u(t)",
            102,
            "FROM (SELECT *",
        ),
        ("SELECT COUNT(*) FROM (SELECT UNNEST(tags) AS t, UNNEST(codes) AS c FROM member)", 102, "a query around it"),
        (
            "SELECT COUNT(*) FROM (SELECT UNNEST(a.tags) AS t FROM member a FULL JOIN member b USING (id))",
            102,
            "a query around it",
        ),
        (
            "SELECT COUNT(*) FROM member AS p WHERE EXISTS (SELECT 1 FROM member q, UNNEST(q.tags) AS u(t) WHERE q.id = p.id)",
            102,
            "FROM (SELECT *",
        ),
        ("SELECT UNNEST(c) FROM (SELECT city AS c, COUNT(*) FROM member GROUP BY 1)", 102, "declared as a list"),
        ("SELECT UNNEST(city), COUNT(*) FROM member GROUP BY city", 102, "declared as a list"),
    ],
)
def test_a_list_is_no_value(sql: str, code: int, hint: str, opened: tuple[Session, duckdb.DuckDBPyConnection]) -> None:
    with pytest.raises(Error) as refused:
        opened[0].execute(sql)
    assert f"DPSQL-{code}" in str(refused.value) and hint in (refused.value.hint or "")


@pytest.mark.parametrize("kind", ["parquet", "csv", "duckdb"])
def test_what_is_longer_than_declared_is_null(tmp_path: Path, kind: str) -> None:
    """However a table is stored: too many elements, or one of more than 256 characters, is a list that nobody has (rule 47)."""
    lists = ["['a', 'b', 'c']", "['a', 'b', 'c', 'd']", f"['a', '{'x' * 256}']", f"['a', '{'x' * 257}']", "NULL"]
    rows = " UNION ALL ".join(f"SELECT {i} AS id, {text} AS free, [{i}, {i}] AS codes" for i, text in enumerate(lists))
    place = tmp_path / f"member.{kind}"
    with duckdb.connect(str(place) if kind == "duckdb" else ":memory:") as plain:
        plain.execute(f"CREATE TABLE member AS {rows}")
        if kind != "duckdb":
            plain.execute(f"COPY member TO '{place}' (FORMAT {kind})")
    head = SCHEMA.partition("[tables.member.columns]")[0].replace(
        "member.parquet", "member" if kind == "duckdb" else place.name
    )
    head = head.replace('source = "."', f'source = "{place.name if kind == "duckdb" else "."}"')
    columns = 'id = { type = "BIGINT" }\nfree = { type = "VARCHAR[]", length = 3 }\ncodes = { type = "BIGINT[]", length = 1 }\n'
    session = asked(tmp_path, f"{head}[tables.member.columns]\n{columns}")
    found = session.execute(
        "SELECT COUNT(free), SUM(LEN(free)), COUNT(codes) FROM member WHERE LIST_CONTAINS(free, 'a') OR true"
    )
    assert found.rows == [(2, 5, 0)]
    session.close()


def test_the_guard_counts_on_the_elements_that_are_declared(tmp_path: Path) -> None:
    """A declared element is had by many, one that nothing lists by as many as a constant of any column; few show nothing."""
    with duckdb.connect() as plain:
        plain.execute(f"COPY ({ROWS}) TO '{tmp_path / 'member.parquet'}' (FORMAT parquet)")
    session = asked(tmp_path, SCHEMA.replace('mode = "off"', 'mode = "block"'))
    many = (
        "LIST_CONTAINS(tags, 'red')",
        "LIST_CONTAINS(codes, 3)",
        "LEN(codes) = 2",
        "NOT LIST_CONTAINS(flags, false)",
    )
    for condition in (*many, "LIST_CONTAINS(free, 'a')", "LEN(doses) > 0"):
        ((told,),) = session.execute(f"EXPLAIN SELECT COUNT(*) FROM member WHERE {condition}").rows[-1:]
        assert 20 < int(str(told).rpartition(": ")[2].partition(" ")[0]) < 600
        session.execute(f"SELECT COUNT(*) FROM member WHERE {condition}")
    groups = session.execute("SELECT t, COUNT(*) FROM member, UNNEST(tags) AS u(t) GROUP BY t").rows
    assert {tag for tag, _ in groups} == {"blue", "green", "red", None}
    few = " AND ".join(f"LIST_CONTAINS(codes, {i})" for i in range(4))
    assert session.execute(f"SELECT COUNT(*) FROM member WHERE {few}").rows == [(None,)]
    session.close()


def test_at_row_level_a_row_stays_one(tmp_path: Path) -> None:
    with duckdb.connect() as plain:
        plain.execute(f"COPY ({ROWS}) TO '{tmp_path / 'member.parquet'}' (FORMAT parquet)")
    session = asked(tmp_path, SCHEMA.replace('unit = "member.id"', 'unit = "row"'))
    with pytest.raises(Error, match="each row is its own unit here, and UNNEST would make several of it"):
        session.execute("SELECT COUNT(*) FROM member, UNNEST(tags) AS u(t)")
    assert session.execute("SELECT COUNT(*) FROM member WHERE LIST_CONTAINS(tags, 'red')").rows == [(154,)]
    session.close()


def test_a_prepared_snapshot_answers_the_same(tmp_path: Path) -> None:
    with duckdb.connect() as plain:
        plain.execute(f"COPY ({ROWS}) TO '{tmp_path / 'member.parquet'}' (FORMAT parquet)")
    (tmp_path / "schema.toml").write_text(SCHEMA.replace('source = "."', 'source = "."\nledger = "l.db"'))
    path = str(tmp_path / "schema.toml")
    sql = "SELECT t, COUNT(*), SUM(LEN(codes)) FROM member, UNNEST(tags) AS u(t) WHERE LIST_CONTAINS(flags, true) GROUP BY t"
    answers = []
    for options in ([], ["--prepare"]):
        assert main(["check", path, *options]) == 0
        session = open_session(path, None, None, noise=ZeroNoise())
        answers.append(session.execute(f"/* dpsql: fresh */ {sql}").rows)
        session.close()
    assert answers[0] == answers[1]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*) FROM member, UNNEST(one) AS u(a), UNNEST(two) AS v(b)",
        "WITH x AS (SELECT id, UNNEST(one) FROM member), y AS (SELECT id, UNNEST(two) FROM member) "
        "SELECT COUNT(*) FROM x JOIN y ON x.id = y.id",
    ],
)
def test_lists_do_not_multiply_beyond_a_limit(sql: str, tmp_path: Path) -> None:
    """Two lists of 300 are 90,000 rows of one person: refused whatever the data, while 250 times 250 is asked (rule 47)."""
    with duckdb.connect() as plain:
        plain.execute(
            f"COPY (SELECT 1 AS id, range(250) AS one, range(250) AS two) TO '{tmp_path / 'member.parquet'}' (FORMAT parquet)"
        )
    head = SCHEMA.partition("[tables.member.columns]")[0]
    for length, refused in ((250, False), (300, True)):
        lists = "\n".join(f'{column} = {{ type = "BIGINT[]", length = {length} }}' for column in ("one", "two"))
        session = asked(tmp_path, f'{head}[tables.member.columns]\nid = {{ type = "BIGINT" }}\n{lists}\n')
        if refused:
            with pytest.raises(Error, match="DPSQL-204: one row of a person could become 90,000 rows"):
                session.execute(sql)
        else:
            assert session.execute(sql).rows == [(62_500,)]
        session.close()
