"""Additions of tools that say nothing of groups: HAVING COUNT(*) > 0, FETCH, and equality that knows of NULL."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from dpsql.core.errors import Error
from dpsql.plan.releases import Plan
from dpsql.planner.options import Options
from dpsql.planner.parse import parse
from dpsql.schema.model import Schema
from dpsql.session.session import Session
from tests.support import clinic
from tests.support.opened import clinic_data
from tests.support.planning import compile_statement

SUM = "SELECT site, SUM(age) AS s FROM patient GROUP BY site"
TOP = "SELECT site, COUNT(*) AS n FROM patient GROUP BY site ORDER BY n DESC LIMIT 2"
ANY = [
    "COUNT(*) > 0",
    "COUNT(1) > 0",
    "(COUNT(1) > 0)",
    "COUNT(*) >= 1",
    "0 < COUNT(*)",
    "1 <= COUNT(1)",
    "COUNT(*) <> 0",
]


@pytest.fixture(scope="module")
def declared(tmp_path_factory: pytest.TempPathFactory) -> Schema:
    return clinic.schema(tmp_path_factory.mktemp("tools"))


@pytest.fixture
def session() -> Iterator[Session]:
    with clinic_data(clinic.schema_text(), clinic.database(random.Random(3), wild=False)).without_noise() as opened:
        yield opened


def plan(schema: Schema, sql: str) -> Plan:
    return compile_statement(parse(sql), Options(), schema).plan


def prints(schema: Schema, sql: str) -> list[str]:
    return [release.fingerprint for release in plan(schema, sql).releases]


@pytest.mark.parametrize("condition", ANY)
@pytest.mark.parametrize("rest", ["", " AND SUM(age) > 3"])
def test_that_there_are_rows_buys_nothing(declared: Schema, condition: str, rest: str) -> None:
    assert prints(declared, f"{SUM} HAVING {condition}{rest}") == prints(declared, SUM)
    assert "COUNT" not in plan(declared, f"{SUM} HAVING {condition}{rest}").post_query.sql


def test_of_keys_alone_nothing_is_bought(declared: Schema) -> None:
    (release,) = plan(declared, "SELECT site FROM patient GROUP BY site HAVING COUNT(*) > 0").releases
    assert not release.parts


@pytest.mark.parametrize(
    "sql",
    [
        f"{SUM} HAVING COUNT(*) > 1",
        f"{SUM} HAVING COUNT(age) > 0",
        f"{SUM} HAVING COUNT(DISTINCT patient_id) > 0",
        f"{SUM} HAVING COUNT(*) > 0 OR SUM(age) > 3",
        f"{SUM} HAVING NOT COUNT(*) > 0",
        f"{SUM} HAVING COUNT(*) FILTER (WHERE female) > 0",
    ],
)
def test_what_says_more_is_bought(declared: Schema, sql: str) -> None:
    assert prints(declared, sql) != prints(declared, SUM)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT site, COUNT(*) AS n FROM patient GROUP BY site HAVING COUNT(*) > 0",
        f"{SUM} HAVING COUNT(1) > 0 ORDER BY COUNT(*)",
        f"{SUM} HAVING COUNT(1) > 0 AND COUNT(*) < 500",
        "SELECT note, SUM(age) FROM patient GROUP BY note HAVING COUNT(*) > 0",
    ],
)
def test_where_rows_are_counted_anyway_the_count_is_compared(declared: Schema, sql: str) -> None:
    """And where keys are selected privately, which takes a count of people."""
    assert " > 0" in plan(declared, f"/* dpsql: delta=1e-7 */ {sql}").post_query.sql


@pytest.mark.parametrize("fetch", ["FETCH NEXT 5 ROWS ONLY", "fetch first 5 rows only"])
def test_fetch_is_limit(declared: Schema, fetch: str) -> None:
    one, other = (plan(declared, f"{SUM} ORDER BY s {end}") for end in (fetch, "LIMIT 5"))
    assert one.post_query.sql == other.post_query.sql


@pytest.mark.parametrize("fetch", ["FETCH FIRST ROW ONLY", "FETCH NEXT ROWS ONLY"])
def test_fetch_without_a_number_is_one_row(declared: Schema, fetch: str) -> None:
    one, other = (plan(declared, f"{SUM} ORDER BY s {end}") for end in (fetch, "LIMIT 1"))
    assert one.post_query.sql == other.post_query.sql


@pytest.mark.parametrize("fetch", ["FETCH FIRST 5 PERCENT ROWS ONLY", "FETCH FIRST 5 ROWS WITH TIES"])
def test_other_fetches_are_refused(declared: Schema, fetch: str) -> None:
    with pytest.raises(Error, match="DPSQL-102"):
        plan(declared, f"{SUM} ORDER BY s {fetch}")


def test_a_join_that_knows_of_null(session: Session) -> None:
    """With a list that may hold NULL: of a column without NULLs it is the same join, of another it is none on a unique key."""
    sql = f"SELECT t.site, COUNT(*) FROM patient p JOIN ({TOP}) t ON {{}} t.site GROUP BY 1"
    assert (
        session.execute(sql.format("p.site =")).rows == session.execute(sql.format("p.site IS NOT DISTINCT FROM")).rows
    )
    session.execute(sql.format("NULLIF(p.site, 1) ="))
    with pytest.raises(Error, match="DPSQL-402"):
        session.execute(sql.format("NULLIF(p.site, 1) IS NOT DISTINCT FROM"))


@pytest.mark.parametrize(
    ("where", "shown"),
    [
        ("CAST(city AS TEXT) ILIKE '%a'", True),
        ("LENGTH(city) = 1", True),
        ("ASCII(city) = 1", False),
        ("city NOT IN ('a') OR city IS NULL", True),
        ("city <> 'a'", True),
        ("city LIKE 'a%'", True),
        ("UPPER(city) = 'A'", True),
        ("age > 5", False),
        ("TRUE", False),
    ],
)
def test_a_condition_on_keys_holds_for_the_groups_that_are_shown(declared: Schema, where: str, shown: bool) -> None:
    sql = f"SELECT city, COUNT(*) FROM patient WHERE {where} GROUP BY city"
    assert ("WHERE" in plan(declared, sql).post_query.sql) == shown


@pytest.mark.parametrize(
    ("where", "groups"),
    [("site * 1000000000 > 5", 3), ("site::TINYINT * 100::TINYINT > 1", 3), ("1 % (site - 2) = 0", 2)],
)
def test_what_can_fail_is_not_asked_of_released_rows(session: Session, where: str, groups: int) -> None:
    """The plan computes it wide enough; after the charge nothing may fail."""
    assert len(session.execute(f"SELECT site, COUNT(*) FROM patient WHERE {where} GROUP BY site").rows) == groups


def test_options_of_several_selects(declared: Schema) -> None:
    clause = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon={}) site, COUNT(*) AS n FROM patient GROUP BY site"
    both = "SELECT a.n FROM ({}) AS a JOIN ({}) AS b ON a.site = b.site"
    (release,) = plan(declared, both.format(clause.format(0.2), clause.format(0.2))).releases
    assert float(release.loss.epsilon or 0) == 0.2
    bare = clause.replace(" OPTIONS(epsilon={})", "")
    assert len(plan(declared, both.format(clause.format(0.2), bare)).releases) == 1
    with pytest.raises(Error, match="DPSQL-104"):
        plan(declared, both.format(clause.format(0.2), clause.format(0.3)))


def test_constants_as_drivers_write_them(session: Session) -> None:
    """A float among the parameters, and a pattern that is put together."""
    asked = "SELECT QUANTILE_CONT(age, ?) FROM patient"
    for fraction in (0.5, 0.25, 0.0, 1.0):
        written = session.execute(f"SELECT QUANTILE_CONT(age, {fraction}) FROM patient").rows
        assert session.execute(asked, [fraction]).rows == written
    like = "SELECT COUNT(*) FROM patient WHERE city LIKE {}"
    assert session.execute(like.format("? || '%'"), ["a"]).rows == session.execute(like.format("'a%'")).rows


def test_sides_of_a_union_keep_their_order_and_limit(session: Session) -> None:
    sql = "(SELECT drug FROM drug ORDER BY drug DESC LIMIT 1) UNION ALL (SELECT drug FROM drug ORDER BY drug LIMIT 1)"
    drugs = [row[0] for row in session.execute("SELECT drug FROM drug ORDER BY drug").rows]
    assert session.execute(sql).rows == [(drugs[-1],), (drugs[0],)]
    assert len(session.execute(sql.replace("ALL ", "")).rows) == len({drugs[-1], drugs[0]})
