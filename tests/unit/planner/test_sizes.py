"""Statements that would grow without end are refused early: the time to say no is no way to stop the service."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpsql.core.errors import Error
from dpsql.session.opening import open_session

EXAMPLE = Path(__file__).parents[3] / "examples" / "randhie" / "schema.toml"
PEOPLE = "SELECT person_id, year FROM person_year"
RESULT = "SELECT site, COUNT(*) AS n FROM person GROUP BY site"
DOUBLED = {
    "people joined": (PEOPLE, "SELECT a.* FROM c{0} a JOIN c{0} b USING (person_id)"),
    "people united": (PEOPLE, "SELECT * FROM c{0} UNION ALL SELECT * FROM c{0}"),
    "results joined": (RESULT, "SELECT a.* FROM c{0} a JOIN c{0} b USING (site)"),
    "results united": (RESULT, "SELECT * FROM c{0} UNION ALL SELECT * FROM c{0}"),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", DOUBLED)
def test_with_queries_that_double_thirty_times(kind: str) -> None:
    first, step = DOUBLED[kind]
    queries = [f"c0 AS ({first})", *(f"c{i + 1} AS ({step.format(i)})" for i in range(30))]
    session = open_session(EXAMPLE, None, ":memory:")
    with pytest.raises(Error, match="DPSQL-107"):
        session.execute(f"WITH {', '.join(queries)} SELECT COUNT(*) FROM c30")


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("first", "around"),
    [
        (PEOPLE, "SELECT * FROM ({0}) AS t"),
        (PEOPLE, "SELECT person_id, year FROM person_year WHERE person_id IN (SELECT person_id FROM ({0}))"),
        (
            PEOPLE,
            "SELECT person_id, year FROM person_year p WHERE EXISTS (SELECT 1 FROM ({0}) q WHERE q.person_id = p.person_id)",
        ),
        (PEOPLE, "SELECT p.person_id, p.year FROM person_year p SEMI JOIN ({0}) AS q ON q.person_id = p.person_id"),
        (
            PEOPLE,
            "SELECT person_id, 1 AS year FROM person p WHERE 1 = (SELECT MAX(year) FROM ({0}) q WHERE q.person_id = p.person_id)",
        ),
        (PEOPLE, "SELECT person_id, SUM(year) AS year FROM ({0}) GROUP BY person_id"),
    ],
)
def test_twenty_levels_are_answered(first: str, around: str) -> None:
    sql = first
    for _ in range(20):
        sql = around.format(sql)
    assert open_session(EXAMPLE, None, ":memory:").execute(f"SELECT COUNT(*) FROM ({sql})").releases == 1


def test_eight_queries_in_select_lists_are_answered() -> None:
    """DuckDB 1.4 binds each of them twice: more would be its time, not the planner's."""
    sql = "SELECT COUNT(*) AS year FROM person"
    for _ in range(8):
        sql = f"SELECT (SELECT MAX(year) FROM ({sql})) AS year"
    assert open_session(EXAMPLE, None, ":memory:").execute(sql).releases == 1


CHAINS = {
    "sums": "SELECT DISTINCT person_id, x + x AS x FROM c{0}",
    "choices": "SELECT DISTINCT person_id, CASE WHEN x > 1 THEN x ELSE x + 1 END AS x FROM c{0}",
    "first of two": "SELECT DISTINCT person_id, COALESCE(x, x) AS x FROM c{0}",
    "groups": "SELECT person_id, CASE WHEN x > 1 THEN x ELSE x + 1 END AS x, COUNT(*) AS n FROM c{0} GROUP BY ALL",
    "windows": "SELECT person_id, LAG(x + x) OVER (PARTITION BY person_id ORDER BY x) AS x FROM c{0}",
    "unions": "SELECT person_id, x + x AS x FROM c{0} UNION ALL SELECT person_id, site FROM person",
}


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", CHAINS)
def test_a_column_that_is_made_of_itself_twice_thirty_times(kind: str) -> None:
    """Facts about a column are those about its parts, each part once: not once for every way that leads there."""
    queries = ["c0 AS (SELECT person_id, site AS x FROM person)"]
    queries += [f"c{i + 1} AS ({CHAINS[kind].format(i)})" for i in range(30)]
    session = open_session(EXAMPLE, None, ":memory:")
    assert "release_0" in session.explain(f"WITH {', '.join(queries)} SELECT COUNT(*) FROM c30")


def test_an_alias_that_is_made_of_itself_twice_thirty_times() -> None:
    listed = ", ".join(["COUNT(*) AS a0", *(f"a{i} + a{i} AS a{i + 1}" for i in range(30))])
    with pytest.raises(Error, match="DPSQL-107"):
        open_session(EXAMPLE, None, ":memory:").execute(f"SELECT {listed} FROM person")


@pytest.mark.slow
def test_a_pivot_of_four_hundred_columns() -> None:
    """A long list that was written out is no doubling."""
    values = ", ".join(str(i) for i in range(400))
    sql = f"PIVOT (SELECT CAST(age AS INTEGER) AS age, year FROM person_year) ON age IN ({values}) USING COUNT(*) GROUP BY year"
    assert "release_0" in open_session(EXAMPLE, None, ":memory:").explain(sql)
