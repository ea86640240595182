"""EXPLAIN tells what is released, how one person can change it and why it is answered; the same on any data."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import duckdb
import pytest

from dpsql.core.domains import UNBOUNDED, interval
from dpsql.core.loss import EpsilonDelta
from dpsql.core.sqltypes import BIGINT, BOOLEAN, DOUBLE, INTEGER, VARCHAR, decimal
from dpsql.expressions.buckets import Buckets, width_bucket
from dpsql.expressions.scalar import column
from dpsql.planner.explain import explain
from dpsql.planner.explain.words import Words
from dpsql.planner.options import Options
from dpsql.planner.parse import parse
from dpsql.schema.advice import guess
from dpsql.schema.model import Schema
from dpsql.session.opening import open_session
from dpsql.session.session import Session
from dpsql.sql.nodes import Bare, Binary, Cast, Chain, Column, InQuery, Is, Literal, Node, Number, QueryValue
from dpsql.sql.queries import Select, Table
from tests.support.planning import compile_statement

RANDHIE = Path(__file__).parents[4] / "examples" / "randhie"
SQL = ("engine: ", "answer: ", "sql: ")

# The plan of each statement, without the lines of SQL and without the reasons.
PLANS = {
    "SELECT COUNT(*) FROM person WHERE site = 2 AND income > 5000": """
release_0: the number of rows
  person: one row of one person (its key is the privacy unit)
  where income > 5000
  where site = 2
  nothing to cut: one person has one row
  measure m0: number of rows
    one person changes l0 1, linf 1, l1 1, l2^2 1
    discrete Laplace, scale 10; epsilon 0.1
  COUNT(*): 95 % half-width 30
price: epsilon 0.1, delta 0 for the statement; free where the answer is stored
""",
    "SELECT site, AVG(income), COUNT(*) FROM person GROUP BY site": """
release_0: the average of income and the number of rows, for each site
  person: one row of one person (its key is the privacy unit)
  nothing to cut: one person has one row
  group key site: 6 declared values, all shown; other rows are left out
  measure m0: sum and count of income clamped to [0, 30,000] in quanta of 1, beside the number of rows
    one person changes l0 3, linf 30,000, l1 30,000, l2^2 900,000,000
    discrete Laplace, scale 300000; epsilon 0.1
  AVG(income): 95 % half-width about 898,720 / n in a group of n rows
    about 899 if the declared 6,000 people, one row each, were spread evenly over 6 groups
  COUNT(*): 95 % half-width 49.686
price: epsilon 0.1, delta 0 for the statement; free where the answer is stored
""",
    "SELECT y.year, l.plan, SUM(y.md_visits) FROM person_year y JOIN person p ON y.person_id = p.person_id JOIN "
    "plan l ON p.plan = l.plan WHERE md_visits > 0 GROUP BY 1, 2": """
release_0: the sum of md_visits, for each year and l.plan
  person_year AS y: at most 5 rows of one person (declared)
  joined with person AS p: one row of one person (its key is the privacy unit)
  on the privacy unit, y.person_id = p.person_id: still at most 5 rows of one person
  joined with plan AS l (public) on p.plan = l.plan, its unique key: still at most 5 rows of one person
  where md_visits > 0
  cut to 5 rows and 5 groups of one person: enforced (may be skipped)
  group key year: 5 declared values, all shown; other rows are left out
  group key l.plan: 18 declared values, all shown; other rows are left out
  groups: 90, all shown, with noise where there is nobody
  measure m0: sum of md_visits, each person's total clamped to [0, 200] in quanta of 1
    one person changes l0 5, linf 200, l1 1,000, l2^2 200,000
    discrete Laplace, scale 10000; epsilon 0.1
  SUM(md_visits): 95 % half-width 29,957
price: epsilon 0.1, delta 0 for the statement; free where the answer is stored
""",
    "SELECT p.site, COUNT(y.year) FROM person p LEFT JOIN person_year y ON p.person_id = y.person_id WHERE p.plan "
    "IN (SELECT plan FROM plan WHERE coinsurance_pct > 0) GROUP BY p.site": """
dpsql table 0: a table made of plan (public)
  read by release_0, where plan IN dpsql table 0
release_0: the number of rows with year, for each site
  person AS p: one row of one person (its key is the privacy unit)
  left joined with person_year AS y: at most 5 rows of one person (declared)
  on the privacy unit, p.person_id = y.person_id: at most 5 rows of one person
  where plan IN dpsql table 0
  cut to 5 rows and 1 group of one person: enforced (may be skipped)
  group key site: 6 declared values, all shown; other rows are left out
  measure m0: number of rows where NOT (year IS NULL)
    one person changes l0 1, linf 5, l1 5, l2^2 25
    discrete Laplace, scale 50; epsilon 0.1
  COUNT(year): 95 % half-width 150
price: epsilon 0.1, delta 0 for the statement; free where the answer is stored
""",
    "SELECT site, AVG(worst) FROM (SELECT p.site, MAX(y.md_visits) AS worst FROM person p JOIN person_year y "
    "USING (person_id) GROUP BY p.person_id, p.site HAVING COUNT(*) > 1) GROUP BY site": """
release_0: the average of worst, for each site
  person AS p: one row of one person (its key is the privacy unit)
  joined with person_year AS y: at most 5 rows of one person (declared)
  on the privacy unit, p.person_id = y.person_id: at most 5 rows of one person
  grouped by the privacy unit, site: one row of one person
  where count(*) > 1
  nothing to cut: one person has one row
  group key site: 6 declared values, all shown; other rows are left out
  measure m0: sum and count of worst clamped to [0, 80] in quanta of 1
    one person changes l0 2, linf 80, l1 80, l2^2 6,400
    discrete Laplace, scale 800; epsilon 0.1
  AVG(worst): 95 % half-width about 2,397 / n in a group of n rows
    about 2.4 if the declared 6,000 people, one row each, were spread evenly over 6 groups
price: epsilon 0.1, delta 0 for the statement; free where the answer is stored
""",
    "SELECT COUNT(*) FROM person p WHERE (SELECT SUM(md_visits) FROM person_year y WHERE y.person_id = "
    "p.person_id) > 10": """
release_0: the number of rows
  person AS p: one row of one person (its key is the privacy unit)
  left joined with
    person_year AS y: at most 5 rows of one person (declared)
    grouped by the privacy unit: one row of one person
  on the privacy unit, p.person_id = the key of subquery 1: still one row of one person
  where the value of subquery 1 > 10
  nothing to cut: one person has one row
  measure m0: number of rows
    one person changes l0 1, linf 1, l1 1, l2^2 1
    discrete Laplace, scale 10; epsilon 0.1
  COUNT(*): 95 % half-width 30
price: epsilon 0.1, delta 0 for the statement; free where the answer is stored
""",
    "SELECT COUNT(*) FROM person p WHERE income > (SELECT AVG(income) FROM person q WHERE q.site = p.site)": """
release_0: the average of income, for each site
  person AS q: one row of one person (its key is the privacy unit)
  nothing to cut: one person has one row
  group key site: 6 declared values, all shown; other rows are left out
  measure m0: sum and count of income clamped to [0, 30,000] in quanta of 1
    one person changes l0 2, linf 30,000, l1 30,000, l2^2 900,000,000
    discrete Laplace, scale 600000; epsilon 0.05
  AVG(income): 95 % half-width about 1,797,439 / n in a group of n rows
    about 1,800 if the declared 6,000 people, one row each, were spread evenly over 6 groups
dpsql table 0: a table made of release_0
  read by release_1, in its joins
release_1: the number of rows
  person AS p: one row of one person (its key is the privacy unit)
  left joined with subquery 1 = dpsql table 0 (public) on site = the key of subquery 1, its unique key: still one row of one person
  where income > the value of subquery 1
  nothing to cut: one person has one row
  measure m0: number of rows
    one person changes l0 1, linf 1, l1 1, l2^2 1
    discrete Laplace, scale 20; epsilon 0.05
  COUNT(*): 95 % half-width 60
price: epsilon 0.1, delta 0 for the statement; free where the answer is stored
  release_0: epsilon 0.05, delta 0
  release_1: epsilon 0.05, delta 0
note: few people may be asked about: a value of fewer than 20, by their noisy number, is not shown
""",
    "SELECT COUNT(*) FROM person WHERE income > (SELECT AVG(income) FROM person)": """
release_0: the average of income
  person: one row of one person (its key is the privacy unit)
  nothing to cut: one person has one row
  measure m0: sum and count of income clamped to [0, 30,000] in quanta of 1
    one person changes l0 2, linf 30,000, l1 30,000, l2^2 900,000,000
    discrete Laplace, scale 600000; epsilon 0.05
  AVG(income): 95 % half-width about 1,797,439 / n in a group of n rows
    about 300 if the declared 6,000 people, one row each, were in one group
dpsql table 0: one value made of release_0
  read by release_1, where income > dpsql table 0
release_1: the number of rows
  person: one row of one person (its key is the privacy unit)
  where income > dpsql table 0
  nothing to cut: one person has one row
  measure m0: number of rows
    one person changes l0 1, linf 1, l1 1, l2^2 1
    discrete Laplace, scale 20; epsilon 0.05
  COUNT(*): 95 % half-width 60
price: epsilon 0.1, delta 0 for the statement; free where the answer is stored
  release_0: epsilon 0.05, delta 0
  release_1: epsilon 0.05, delta 0
note: few people may be asked about: a value of fewer than 20, by their noisy number, is not shown
""",
    "SELECT COUNT(*) FROM person p WHERE EXISTS (SELECT 1 FROM person_year y WHERE y.person_id = p.person_id AND "
    "y.md_visits > 3)": """
release_0: the number of rows
  person AS p: one row of one person (its key is the privacy unit)
  where EXISTS (SELECT 1 FROM person_year WHERE (person_year.md_visits > 3) AND (person_year.person_id = p.person_id))
  nothing to cut: one person has one row
  measure m0: number of rows
    one person changes l0 1, linf 1, l1 1, l2^2 1
    discrete Laplace, scale 10; epsilon 0.1
  COUNT(*): 95 % half-width 30
price: epsilon 0.1, delta 0 for the statement; free where the answer is stored
""",
    "WITH heavy AS (SELECT person_id, year FROM person_year WHERE md_visits > 10) SELECT year, COUNT(DISTINCT "
    "person_id) FROM heavy GROUP BY year": """
release_0: the number of people, for each year
  person_year: at most 5 rows of one person (declared)
  where md_visits > 10
  cut to 5 rows and 5 groups of one person: enforced (may be skipped)
  group key year: 5 declared values, all shown; other rows are left out
  measure m0: number of people
    one person changes l0 5, linf 1, l1 5, l2^2 5
    discrete Laplace, scale 50; epsilon 0.1
  COUNT(DISTINCT privacy unit): 95 % half-width 150
price: epsilon 0.1, delta 0 for the statement; free where the answer is stored
""",
    "SELECT AVG(b.v - a.v) FROM (SELECT person_id, md_visits AS v FROM person_year WHERE year = 1) a JOIN (SELECT "
    "person_id, md_visits AS v FROM person_year WHERE year = 2) b ON a.person_id = b.person_id": """
release_0: the average of b.v - a.v
  person_year: at most 5 rows of one person (declared)
  where person_year.year = 1
  joined with
    person_year: at most 5 rows of one person (declared)
    where person_year.year = 2
  on the privacy unit, a.person_id = b.person_id: at most 25 rows of one person
  cut to 25 rows and 1 group of one person: enforced (may be skipped)
  measure m0: sum and count of b.v - a.v clamped to [-80, 80] in quanta of 1
    one person changes l0 2, linf 4,000, l1 4,000, l2^2 16,000,000
    discrete Laplace, scale 40000; epsilon 0.1
  AVG(b.v - a.v): 95 % half-width about 119,829 / n in a group of n rows
    about 20 if the declared 6,000 people, one row each, were in one group
price: epsilon 0.1, delta 0 for the statement; free where the answer is stored
""",
    "SELECT AVG(change) FROM (SELECT md_visits - LAG(md_visits) OVER (PARTITION BY person_id ORDER BY year) AS "
    "change FROM person_year) WHERE change > 0": """
release_0: the average of change
  person_year: at most 5 rows of one person (declared)
  windows over each person's own rows: still at most 5 rows of one person
  where change > 0
  cut to 5 rows and 1 group of one person: enforced (may be skipped)
  measure m0: sum and count of change clamped to [1, 80] in quanta of 1
    one person changes l0 2, linf 395, l1 395, l2^2 156,025
    discrete Laplace, scale 3950; epsilon 0.1
  AVG(change): 95 % half-width about 11,833 / n in a group of n rows
    about 1.97 if the declared 6,000 people, one row each, were in one group
price: epsilon 0.1, delta 0 for the statement; free where the answer is stored
""",
    "SELECT COUNT(*) FROM (SELECT person_id FROM person_year WHERE year > 1 UNION ALL SELECT person_id FROM "
    "person)": """
release_0: the number of rows
  person_year: at most 5 rows of one person (declared)
  where year > 1
  person: one row of one person (its key is the privacy unit)
  UNION ALL of these: at most 6 rows of one person
  cut to 6 rows and 1 group of one person: enforced (may be skipped)
  measure m0: number of rows
    one person changes l0 1, linf 6, l1 6, l2^2 36
    discrete Laplace, scale 60; epsilon 0.1
  COUNT(*): 95 % half-width 180
price: epsilon 0.1, delta 0 for the statement; free where the answer is stored
""",
    "SELECT family_size, COUNT(*) FROM person_year GROUP BY family_size": """
release_0: the number of rows, for each family_size
  person_year: at most 5 rows of one person (declared)
  cut to 5 rows and 5 groups of one person: enforced (may be skipped)
  group key family_size: selected privately
  key selection: a group is shown if its noisy number of people is at least 1,705
    delta 1e-09: how likely it is at most that a group of one person is shown, by noise that ends there
  measure m0: number of people
    one person changes l0 5, linf 1, l1 5, l2^2 5
    truncated Laplace, scale 100, at most 1704; epsilon 0.05, delta 1e-09
  measure m1: number of rows
    one person changes l0 5, linf 5, l1 5, l2^2 25
    discrete Laplace, scale 100; epsilon 0.05
  COUNT(*): 95 % half-width 300
price: epsilon 0.1, delta 1e-09 for the statement; free where the answer is stored
""",
    "SELECT site, female, COUNT(*) FROM person GROUP BY ROLLUP (site, female)": """
release_0: the number of rows, for each site and female
  person: one row of one person (its key is the privacy unit)
  nothing to cut: one person has one row
  group key site: 6 declared values, all shown; other rows are left out
  group key female: 2 declared values, all shown; other rows are left out
  groups: 12, all shown, with noise where there is nobody
  measure m0: number of rows
    one person changes l0 1, linf 1, l1 1, l2^2 1
    discrete Laplace, scale 10; epsilon 0.1
  COUNT(*): 95 % half-width 30
  its rows add up released ones: their intervals are those of the sums
price: epsilon 0.1, delta 0 for the statement; free where the answer is stored
""",
    "SELECT l.plan, (SELECT COUNT(*) FROM person p WHERE p.plan = l.plan) AS n FROM plan l": """
dpsql keys 0: a list of group keys made of plan (public)
  read by release_0, as its group keys
release_0: the number of rows, for each plan
  person AS p: one row of one person (its key is the privacy unit)
  nothing to cut: one person has one row
  group key plan: listed by plan (public), in dpsql keys 0, all shown; other rows are left out
  measure m0: number of rows
    one person changes l0 1, linf 1, l1 1, l2^2 1
    discrete Laplace, scale 10; epsilon 0.1
  COUNT(*): 95 % half-width 30
  its rows are computed from released ones: without intervals
price: epsilon 0.1, delta 0 for the statement; free where the answer is stored
""",
    "SELECT DISTINCT site FROM person": """
release_0: the values of site
  person: one row of one person (its key is the privacy unit)
  nothing to cut: one person has one row
  group key site: 6 declared values, all shown; other rows are left out
  free: the keys are public, and nothing else is released
price: free
""",
}  # fmt: skip

REASONS = {
    "SELECT site, AVG(income) FROM person GROUP BY site": """
every row of person belongs to one person, person.person_id, by declared keys
one person has one row, so what one person can change is finite
every group is shared by declaration: site
income has bounds, [0, 30,000]
the answer is made of released and public values alone
no identifier is compared with a constant
the price is within what one statement may spend: epsilon 0.5, delta 1e-08
""",
    "SELECT COUNT(*) FROM person_year y JOIN person p USING (person_id) JOIN plan ON plan.plan = p.plan": """
every row of person_year belongs to one person, person.person_id, by declared keys
every row of person belongs to one person, person.person_id, by declared keys
the join equates the privacy unit: y.person_id = p.person_id
plan is public, and a row meets it by a unique key
what one person can change is finite: at most 5 rows in 1 group
nobody is shown alone: there is one group for all
the answer is made of released and public values alone
no identifier is compared with a constant
the price is within what one statement may spend: epsilon 0.5, delta 1e-08
""",
    "SELECT family_size, COUNT(*) FROM person_year WHERE md_visits > (SELECT AVG(md_visits) FROM person_year) "
    "GROUP BY family_size": """
every row of person_year belongs to one person, person.person_id, by declared keys
what rows are compared with is released before, or public
what one person can change is finite: at most 5 rows in 1 group
nobody is shown alone: there is one group for all
md_visits has bounds, [0, 80]
what one person can change is finite: at most 5 rows in 5 groups
a value of family_size is shown only where many people share it
the answer is made of released and public values alone
no identifier is compared with a constant
the price is within what one statement may spend: epsilon 0.5, delta 1e-08
""",
}  # fmt: skip


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    opened = open_session(RANDHIE / "schema.toml", None, ":memory:")
    yield opened
    opened.close()


def facts(text: str) -> str:
    """A plan without the SQL that runs, up to the reasons."""
    lines = text.partition("\nanswered because:")[0].splitlines()
    return "\n".join(line for line in lines if not line.strip().startswith((*SQL, "the total promised")))


@pytest.mark.parametrize("sql", PLANS, ids=range(len(PLANS)))
def test_the_plan_is_told_step_by_step(sql: str, session: Session) -> None:
    assert facts(session.explain(sql)) == PLANS[sql].strip("\n")


@pytest.mark.parametrize("sql", REASONS, ids=range(len(REASONS)))
def test_every_decision_has_its_reason(sql: str, session: Session) -> None:
    reasons = session.explain(sql).partition("answered because:\n")[2]
    told = [line.strip() for line in reasons.splitlines() if not line.startswith("guard: ")]
    assert told == REASONS[sql].strip().splitlines()


@pytest.mark.parametrize("sql", PLANS, ids=range(len(PLANS)))
def test_all_sql_that_runs_is_there(sql: str, session: Session) -> None:
    compiled = compile_statement(parse(sql), Options(), session.schema, session._world.catalog)
    text = explain(compiled, session.schema).splitlines()
    paid = [part for part in compiled.releases if part.release.measures]
    assert all(f"  engine: {part.sql}" in text for part in paid)
    assert all(f"  sql: {bound.sql}" in text for bound in compiled.bounds)
    assert f"answer: {compiled.plan.post_query.sql}" in text


@pytest.mark.parametrize(
    "sql, line",
    [
        ("SELECT * FROM plan", "public: reads no people's rows, so the answer is exact and free"),
        ("SELECT * FROM person WHERE 1 = 0", "free: answered from the declared schema alone"),
        ("SHOW TABLES", "free: SHOW TABLES of the declared schema"),
    ],
)
def test_what_is_free_takes_one_line(sql: str, line: str, session: Session) -> None:
    text = session.explain(sql).splitlines()
    assert text[0] == line
    assert all(other.startswith("sql: ") for other in text[1:])


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({}, "a person is in the data can be guessed right at most 98.3 % of the time; a coin is right 50 %"),
        ({"budget": EpsilonDelta(Fraction(1), Fraction(0))}, "right at most 73.2 % of the time; a coin"),
        ({"window": "week"}, "of the time, after the answers of one week; a coin"),
        ({"unit": "row"}, "whether a row is in the data"),
    ],
)
def test_what_is_promised_is_told_as_a_guess(changed: dict[str, object], told: str, session: Session) -> None:
    """(e^epsilon + delta) / (1 + e^epsilon) of the total, under the price of what is charged."""
    assert told in guess(replace(session.schema.privacy, **changed))  # type: ignore[arg-type]
    line = f"  the total promised: {guess(session.schema.privacy)}"
    assert line in session.explain("SELECT COUNT(*) FROM person").splitlines()
    assert line not in session.explain("SELECT * FROM plan").splitlines()


def average(schema: Schema, sql: str) -> str:
    compiled = compile_statement(parse(sql), Options(), schema)
    return explain(compiled, schema).partition("  AVG(")[2].partition("\n  engine")[0]


def test_the_width_of_an_average_needs_a_declared_number(session: Session) -> None:
    """Rule 38: without a declared number of people there is none, and what to declare is said."""
    schema, sql = session.schema, "SELECT AVG(income) FROM person"
    assert average(schema, sql).endswith("about 150 if the declared 6,000 people, one row each, were in one group")
    bare = replace(schema, privacy=replace(schema.privacy, units=None))
    assert average(bare, sql).endswith("rows\n    declare privacy.units, the public number of people, to see it")
    tables = tuple(replace(t, population=3000) if t.name == "person" else t for t in schema.tables)
    assert "about 300 if the declared 3,000 people" in average(replace(bare, tables=tables), sql)


@pytest.mark.slow
def test_the_same_on_other_data(tmp_path: Path, session: Session) -> None:
    """A database with nobody in it, and one with a few of its people: the text is the same, the engine SQL included."""
    for folder, kept in (("nobody", "false"), ("some", "person_id % 7 = 0 AND person_id > 0")):
        here = tmp_path / folder
        here.mkdir()
        shutil.copy(RANDHIE / "schema.toml", here)
        shutil.copy(RANDHIE / "plan.parquet", here)
        for name in ("person", "person_year"):
            rows = f"SELECT * FROM '{RANDHIE / name}.parquet' WHERE {kept}"
            duckdb.connect().execute(f"COPY ({rows}) TO '{here / name}.parquet'")
        other = open_session(here / "schema.toml", None, ":memory:")
        assert all(other.explain(sql) == session.explain(sql) for sql in PLANS)
        other.close()


def test_it_is_free(session: Session) -> None:
    before = session.execute("SELECT 1").receipt.remaining
    session.explain("SELECT COUNT(*) FROM person")
    assert session.execute("SELECT 1").receipt.remaining == before


def test_relations_are_equal_whatever_their_story(session: Session) -> None:
    """So that a block that is met again is found again."""
    compiled = compile_statement(parse("SELECT COUNT(*) FROM person WHERE site = 2"), Options(), session.schema)
    source = compiled.plan.releases[0].limited.block.source
    assert source.made is not None
    assert replace(source, made=None) == source and hash(replace(source, made=None)) == hash(source)


A = Column("t", "a")
BUCKET = width_bucket(column(A, INTEGER, interval(0, 9)), Buckets(-0.5, 9.0, 3)).tree


@pytest.mark.parametrize(
    ("tree", "words"),
    [
        (Binary(">", Column("person", "income"), Literal(Fraction(5000), DOUBLE)), "person.income > 5000"),
        (Binary("=", A, Literal('CAST(1.0 AS DOUBLE) "t"."a"', VARCHAR)), """t.a = 'CAST(1.0 AS DOUBLE) "t"."a"'"""),
        (Binary(">", A, QueryValue(Select((Column("", "c0"),), Table("dpsql table 3"), limit=1))), "t.a > dpsql table 3"),
        (InQuery(A, Select((Column("dpsql table 3", "c0"),), Table("dpsql table 3"))), "t.a IN dpsql table 3"),
        (Binary("+", Cast(A, BIGINT, tries=False), Number(1)), "t.a + 1"),
        (Binary("*", A, Cast(Bare(Binary("-", Literal(1, decimal(16, 2)), A)), decimal(16, 2), tries=False)), "t.a * (1.00 - t.a)"),
        (Cast(A, BIGINT), "TRY_CAST(t.a AS BIGINT)"),
        (Binary("=", Column("t", 'a"b'), Number(1)), 't.a"b = 1'),
        (Binary("=", BUCKET, Number(2)), "width_bucket(t.a, -0.5, 9, 3) = 2"),
        (Chain("AND", (Is(A, "NULL"), Is(A, "TRUE"))), "(t.a IS NULL) AND (t.a IS TRUE)"),
    ],
    ids=str,
)  # fmt: skip
def test_trees_in_words(tree: Node, words: str) -> None:
    assert Words().expression(replace(column(A, BOOLEAN, UNBOUNDED), tree=tree)) == words
