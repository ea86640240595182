"""Public queries that look unique and are not, groups that look constant and are not: nobody's rows are multiplied behind the back of
their sensitivity.

What would multiply is refused for nothing; what is answered is run with and without one person, on several databases, and moves by no
more than was claimed. Public tables: two places a region, eight badges (tests/support/nested_tables.py).
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from dpsql.core.errors import Error
from dpsql.engines.duckdb.engine import DuckDBEngine
from dpsql.planner.options import Options
from dpsql.planner.parse import parse
from dpsql.planner.resolve import unique
from dpsql.session.session import Session
from tests.attacks.observing import ordinary
from tests.support import clinic, staging
from tests.support.nested_neighbours import Bench
from tests.support.nested_tables import MORE_TABLES, PUBLIC
from tests.support.noise import RecordedNoise
from tests.support.opened import clinic_data
from tests.support.planning import compile_statement
from tests.support.vectors import vectors

DATABASES = 4


def opened(noise: RecordedNoise | None = None, unit: str = "patient") -> Session:
    """A session over ordinary people, with every public table."""
    return clinic_data(clinic.schema_text(unit=unit) + PUBLIC, ordinary(), MORE_TABLES).session(
        noise or RecordedNoise()
    )


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    found = opened()
    yield found
    found.close()


@pytest.fixture(scope="module")
def row_session() -> Iterator[Session]:
    found = opened(unit="row")
    yield found
    found.close()


@pytest.fixture(scope="module")
def benches(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Bench]]:
    """Neighbouring databases for each unit; other ones for every statement."""
    chance = random.Random("multiplying")
    found = {
        unit: Bench(staging.schema(tmp_path_factory.mktemp(unit), unit=unit), chance) for unit in ("patient", "row")
    }
    yield found
    for bench in found.values():
        bench.__exit__()


def claimed(bench: Bench, sql: str) -> list[int]:
    """The claimed l1 of every measure, after one person was taken away from several databases. Raises Violation."""
    compiled = compile_statement(parse(sql), Options(), bench.schema, bench.types)
    for _ in range(DATABASES):
        bench.refill()
        bench.check(sql, compiled)
    return [int(m.sensitivity.l1) for part in compiled.releases for m in part.release.measures]


def refused(session: Session, sql: str) -> str:
    """The code with which a statement is refused; it must cost nothing."""
    before = session.execute("SELECT 1").receipt.remaining
    with pytest.raises(Error) as raised:
        session.execute(sql)
    assert session.execute("SELECT 1").receipt.remaining == before
    return str(raised.value.code)


def joined(query: str, on: str = "q.x = p.site") -> str:
    return f"SELECT COUNT(*) FROM patient p JOIN ({query}) q ON {on}"


PAIRS = "SELECT a.site, b.site AS other, COUNT(*) AS n FROM place a CROSS JOIN place b GROUP BY a.site, b.site"
QUOTED = '(SELECT region AS x, site AS "1" FROM place) u'
NOT_UNIQUE = [
    # columns of the same name in two sources, or twice in one
    joined(PAIRS, "q.site = p.site"),
    joined(PAIRS, "q.other = p.site"),
    joined(PAIRS.replace("b.site AS other, ", ""), "q.site = p.site"),
    joined("SELECT a.region AS x, b.site AS y, COUNT(*) AS n FROM place a, place b GROUP BY a.region, b.site"),
    joined("SELECT a.region AS x, b.region AS y FROM place a JOIN place b USING (site) GROUP BY a.region, b.region"),
    joined("SELECT x FROM (SELECT region AS x, site AS x FROM place)"),
    joined("SELECT x FROM (SELECT region AS x, site AS x FROM place) t GROUP BY x, x_1"),
    joined("SELECT region AS x, site AS x FROM place"),
    # texts that look like the key of a release
    joined("SELECT 'k0' AS x, COUNT(*) AS n FROM patient GROUP BY site", "q.x = p.city"),
    joined("SELECT 'site' AS x, COUNT(*) AS n FROM patient GROUP BY site", "q.x = p.city"),
    joined("SELECT 'a' AS x, COUNT(*) AS n FROM patient GROUP BY site", "q.x = p.city"),
    joined("SELECT 'a' AS x, COUNT(*) AS n FROM place GROUP BY site", "q.x = p.city"),
    # a quoted column is no position
    joined(f'SELECT MIN(x) AS x, "1", COUNT(*) AS n FROM {QUOTED} GROUP BY "1"'),
    joined(f'SELECT x, "1", COUNT(*) AS n FROM {QUOTED} GROUP BY "1", x'),
    joined(f'SELECT x, COUNT(*) AS n FROM {QUOTED} GROUP BY "1", x'),
    joined(f'SELECT x, COUNT(*) AS n FROM {QUOTED} GROUP BY x, "1"'),
    # stars move the positions of what stands beside them
    joined("SELECT u.*, u.m AS z FROM (SELECT site AS m, region AS x FROM place) u"),
    joined("SELECT u.*, u.m AS z FROM (SELECT region AS x, site AS m FROM place) u"),
    joined("SELECT *, m AS z FROM (SELECT region AS x, site AS m FROM place) u"),
    joined("SELECT DISTINCT u.* FROM (SELECT region AS x, site AS m FROM place) u"),
    joined("SELECT DISTINCT * FROM (SELECT region AS x, site AS m FROM place) u"),
    # what is computed of a key is no key
    joined("SELECT CAST(site AS BOOLEAN) AS x, COUNT(*) AS n FROM patient GROUP BY site", "q.x = p.female"),
    joined("SELECT CAST(site AS BOOLEAN) AS x, COUNT(*) AS n FROM place GROUP BY site", "q.x = p.female"),
    joined("SELECT site // 2 AS x, COUNT(*) AS n FROM patient GROUP BY site"),
    joined("SELECT x FROM (SELECT site // 2 AS x, COUNT(*) AS n FROM patient GROUP BY site)"),
    # a key of which a part is missing
    joined("SELECT site, COUNT(*) AS n FROM patient GROUP BY site, female", "q.site = p.site"),
    joined("SELECT site, COUNT(*) AS n FROM patient GROUP BY ROLLUP (site, female)", "q.site = p.site"),
    joined("SELECT DISTINCT region AS x, 1 AS y FROM place"),
    joined("SELECT COUNT(*) AS x FROM place GROUP BY site"),
    joined("SELECT COUNT(*) AS x FROM place GROUP BY ALL"),
    # more than one row
    joined("SELECT region AS x FROM place LIMIT 2"),
    joined("SELECT region AS x FROM place LIMIT 1 + 1"),
    joined("SELECT region AS x FROM place LIMIT '1'"),
    joined("SELECT region AS x FROM place LIMIT 1.4"),
    joined("SELECT region AS x FROM place OFFSET 1"),
    joined("SELECT site FROM place UNION ALL SELECT site FROM place", "q.site = p.site"),
    # an aggregate of another query, or of a window, does not make one row of this one
    joined("SELECT region AS x, (SELECT COUNT(*) FROM badge) FROM place"),
    joined("SELECT region AS x, (SELECT COUNT(*) FROM badge) AS n FROM place"),
    joined("SELECT region AS x, (SELECT COUNT(*) FROM patient) FROM place"),
    joined("SELECT (SELECT MAX(site) FROM place) - 6 AS x FROM place"),
    joined("SELECT SUM(site) OVER () - 12 AS x FROM place"),
    # a join of public tables repeats the keys of both
    joined("SELECT region AS x FROM place JOIN badge ON true"),
    joined("SELECT site AS x FROM place, badge"),
    joined("SELECT place.site AS x FROM place JOIN badge ON badge.grade = place.region"),
    joined("SELECT a.site AS x FROM place a JOIN place b ON b.region = a.site"),
    joined("SELECT a.site AS x FROM place a JOIN place b ON b.site = a.site OR true"),
    joined("SELECT a.site AS x FROM place a JOIN place b ON b.site + 0 = a.site"),
    joined("SELECT a.site AS x FROM place a JOIN (SELECT site // 2 AS site FROM place) b ON b.site = a.site"),
    joined("SELECT b.site AS x FROM place a LEFT JOIN place b ON b.site = a.site AND a.site < 2"),
    joined("SELECT b.site AS x FROM place a RIGHT JOIN place b ON b.site = a.region"),
    joined("SELECT a.site AS x FROM place a LEFT JOIN place b ON true WHERE b.site = a.site OR b.site IS NULL"),
    joined("SELECT a.site AS x FROM place a JOIN place b ON b.site = a.site JOIN badge c ON c.grade = a.region"),
    joined("SELECT a.site AS x FROM place a JOIN badge b ON b.badge = a.site"),
    joined("SELECT a.site AS x FROM place a JOIN place b ON CAST(b.site AS BOOLEAN) = CAST(a.site AS BOOLEAN)"),
    # other names, or another table, under the name of the key
    joined("SELECT x FROM place AS t(y, x)"),
    joined("SELECT site FROM place AS t(region, site)", "q.site = p.site"),
    "WITH place AS (SELECT region AS site FROM place) SELECT COUNT(*) FROM patient p JOIN place q ON q.site = p.site",
    "WITH w(site) AS (SELECT region FROM place) SELECT COUNT(*) FROM patient p JOIN w q ON q.site = p.site",
]


@pytest.mark.few(11)
@pytest.mark.parametrize("sql", NOT_UNIQUE)
def test_what_is_not_unique_is_refused_for_nothing(sql: str, session: Session) -> None:
    assert refused(session, sql) == "DPSQL-402"
    assert refused(session, sql.replace("patient p JOIN", "patient p LEFT JOIN")) == "DPSQL-402"


def test_one_row_that_is_fetched_is_one_row_and_two_are_not(session: Session) -> None:
    """As with LIMIT: one row meets each person once."""
    for limit in ("LIMIT {}", "FETCH FIRST {} ROWS ONLY"):
        session.execute(joined(f"SELECT region AS x FROM place ORDER BY region {limit.format(1)}"))
        assert (
            refused(session, joined(f"SELECT region AS x FROM place ORDER BY region {limit.format(2)}")) == "DPSQL-402"
        )


@pytest.mark.parametrize(
    "limit",
    ["LIMIT 100%", "LIMIT 1 PERCENT", "LIMIT 50%", "FETCH FIRST 1 PERCENT ROWS ONLY", "FETCH FIRST 1 ROWS WITH TIES"],
)
def test_limits_that_are_no_number_are_not_in_the_grammar(limit: str, session: Session) -> None:
    # an older parser cannot read a percent sign there
    assert refused(session, joined(f"SELECT region AS x FROM place {limit}")) in ("DPSQL-101", "DPSQL-102")


UNIQUE = [
    joined("SELECT region AS x, COUNT(*) AS n FROM place GROUP BY region"),
    joined("SELECT region AS x, COUNT(*) AS n FROM place GROUP BY x"),
    joined("SELECT region AS x, COUNT(*) AS n FROM place GROUP BY 1"),
    joined("SELECT region + 0 AS x, COUNT(*) AS n FROM place GROUP BY region + 0"),
    joined("SELECT DISTINCT region AS x FROM place"),
    joined("SELECT DISTINCT region AS x, 1 AS y FROM place", "q.x = p.site AND q.y = p.code"),
    joined(PAIRS, "q.site = p.site AND q.other = p.code"),
    joined("SELECT * FROM place", "q.site = p.site"),
    joined("SELECT t.* FROM place t", "q.site = p.site"),
    joined("SELECT * FROM (SELECT * FROM place WHERE region = 1) ORDER BY town", "q.site = p.site"),
    joined("SELECT site AS x, region FROM place"),
    # of public tables joined with each other: the keys of both, or of the one whose rows meet one row of the other
    joined("SELECT a.site AS x, b.site AS y FROM place a, place b", "q.x = p.site AND q.y = p.code"),
    joined("SELECT a.site AS x, UPPER(b.town) AS t FROM place a JOIN place b ON b.site = a.region"),
    joined("SELECT a.site AS x, b.town FROM place a, place b WHERE b.site = a.region"),
    joined("SELECT a.site AS x, b.town FROM place a LEFT JOIN place b ON a.region = b.site AND b.town <> 'x'"),
    joined("SELECT a.site AS x, b.town FROM place b JOIN place a ON b.site = a.region"),
    joined(
        "SELECT a.site AS x, c.town FROM place a JOIN place b ON b.site = a.region LEFT JOIN place c ON c.site = b.region"
    ),
    "SELECT COUNT(*) FROM patient p JOIN (SELECT * FROM place) AS q(x) ON q.x = p.site",
    "SELECT COUNT(*) FROM patient p JOIN place AS q(x) ON q.x = p.site",
    joined("SELECT region AS x FROM place ORDER BY site LIMIT 1"),
    joined("SELECT MAX(region) AS x FROM place"),
    joined("SELECT 1 AS x"),
    joined("SELECT site AS x, COUNT(*) AS n FROM patient GROUP BY site") + " WHERE p.age > q.n",
    joined(
        "SELECT site AS x, female AS y, COUNT(*) AS n FROM patient GROUP BY 1, 2", "q.x = p.site AND q.y = p.female"
    ),
    joined(
        "SELECT female AS y, site AS x, COUNT(*) AS n FROM patient GROUP BY 2, 1", "q.x = p.site AND q.y = p.female"
    ),
    "SELECT COUNT(*) FROM patient p, (SELECT COUNT(*) AS n FROM patient) q WHERE p.age > q.n",
    "WITH w AS (SELECT site, COUNT(*) AS n FROM patient GROUP BY site) SELECT COUNT(*) FROM patient JOIN w USING (site)",
]


@pytest.mark.few(1)
@pytest.mark.parametrize("sql", UNIQUE)
def test_what_is_unique_is_joined_and_multiplies_nothing(sql: str, session: Session, benches: dict[str, Bench]) -> None:
    assert session.execute(sql).rows
    assert set(claimed(benches["patient"], sql)) == {1}


# --- groups that differ within a unit ---------------------------------------------------------------------------------

BY_ITEMS = "EXISTS (SELECT 1 FROM item i WHERE i.visit_id = v.visit_id)"
BY_ORDER = "EXISTS (SELECT 1 FROM visit w WHERE w.patient_id = v.patient_id AND w.year > v.year)"
BY_UNIT = "EXISTS (SELECT 1 FROM visit w WHERE w.patient_id = v.patient_id AND w.year > 2)"


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("sql", "groups"),
    [
        (f"SELECT COUNT(*) FROM (SELECT v.patient_id, {BY_ITEMS} AS e FROM visit v GROUP BY 1, 2) t", 3),
        (f"SELECT COUNT(*) FROM (SELECT v.patient_id, NOT {BY_ITEMS} AS e FROM visit v GROUP BY 1, 2) t", 3),
        (f"SELECT COUNT(*) FROM (SELECT v.patient_id, {BY_ORDER} AS e FROM visit v GROUP BY 1, 2) t", 3),
        (f"SELECT COUNT(*) FROM (SELECT DISTINCT v.patient_id, {BY_ITEMS} AS e FROM visit v) t", 3),
        (f"SELECT COUNT(*) FROM (SELECT v.patient_id, {BY_UNIT} AS e FROM visit v GROUP BY 1, 2) t", 1),
        (f"SELECT COUNT(*) FROM (SELECT DISTINCT v.patient_id, {BY_UNIT} AS e FROM visit v) t", 1),
    ],
)
def test_exists_is_constant_only_where_its_links_are(sql: str, groups: int, benches: dict[str, Bench]) -> None:
    """By the key of a visit it differs from visit to visit; by the unit alone it is one fact about the person."""
    assert claimed(benches["patient"], sql) == [groups]


# --- rows without a match ---------------------------------------------------------------------------------------------


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SELECT COUNT(*) FROM visit LEFT JOIN item USING (visit_id)", 3 + 4 - 1),
        ("SELECT COUNT(*) FROM item RIGHT JOIN visit USING (visit_id)", 3 + 4 - 1),
        ("SELECT COUNT(*) FROM visit v LEFT JOIN item i ON v.visit_id = i.visit_id AND i.drug = 1", 3 + 4 - 1),
        ("SELECT COUNT(*) FROM visit v LEFT JOIN item i ON v.visit_id = i.visit_id WHERE i.amount IS NULL OR i.drug = 2", 3 + 4 - 1),
        ("SELECT COUNT(*) FROM visit v JOIN item i ON v.visit_id = i.visit_id", 4),
        ("SELECT COUNT(*) FROM visit v LEFT JOIN visit w ON v.patient_id = w.patient_id AND w.year = 1", 3 * 3),
        ("SELECT COUNT(*) FROM item i LEFT JOIN visit v ON v.visit_id = i.visit_id", 4),
    ],
)  # fmt: skip
def test_rows_without_a_match_count(sql: str, rows: int, benches: dict[str, Bench]) -> None:
    """A person of 3 visits and 4 items: 4 items at one visit, and 2 visits without any, are 6 rows.

    The bench runs the SQL that enforces the limit, and the shorter one for verified data, beside each other.
    """
    assert claimed(benches["patient"], sql) == [rows]


def test_a_person_fills_the_bound_of_a_left_join(tmp_path: Path) -> None:
    """The bound is not empty: Ka + Kb - 1 rows are reached, by the enforced SQL and by the verified one."""
    sql = "SELECT COUNT(*) FROM visit LEFT JOIN item USING (visit_id)"
    declared = staging.schema(tmp_path)
    connection = staging.opened(declared, threads=1)
    person = ordinary(1)
    clinic.fill(connection, {**person, "item": [(person["visit"][0][0], 1, "1.000", i) for i in range(4)]})
    compiled = compile_statement(parse(sql), Options(), declared, staging.Types())
    (part,) = compiled.releases
    assert part.verified
    for text in (part.sql, *(short.sql for short in part.verified)):
        assert vectors(connection, replace(part, sql=text), sql) == [{(): (3 + 4 - 1,)}], text
    connection.close()


# --- rows as units ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*) FROM patient p JOIN place q ON q.region = p.site",
        "SELECT COUNT(*) FROM patient p LEFT JOIN place q ON q.region = p.site",
        "SELECT COUNT(*) FROM patient p, place q WHERE q.region = p.site",
        "SELECT q.town, COUNT(*) FROM patient p JOIN place q ON q.region = p.site GROUP BY 1",
        "SELECT SUM(p.age) FROM place q JOIN patient p ON q.region = p.site",
    ],
)
def test_a_row_that_is_its_own_unit_is_not_repeated(sql: str, row_session: Session) -> None:
    """There is no unit by which its copies could be cut, so a declared multiplicity is not enough."""
    assert refused(row_session, sql) == "DPSQL-402"


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*) FROM patient p JOIN place q ON q.site = p.site",
        "SELECT COUNT(*) FROM patient p LEFT JOIN place q ON q.site = p.site",
        joined("SELECT DISTINCT region AS x FROM place"),
    ],
)
def test_a_row_meets_one_row_of_a_key(sql: str, row_session: Session, benches: dict[str, Bench]) -> None:
    assert row_session.execute(sql).rows
    assert claimed(benches["row"], sql) == [1]


def test_a_person_meets_as_many_rows_as_were_declared(benches: dict[str, Bench]) -> None:
    assert claimed(benches["patient"], "SELECT COUNT(*) FROM patient p JOIN place q ON q.region = p.site") == [2]


# --- the second wall --------------------------------------------------------------------------------------------------

WRONG = frozenset({frozenset({0})})
AFTER_A_RELEASE = joined("SELECT region AS x, (SELECT COUNT(*) FROM patient) AS n FROM place")


def test_a_wrong_claim_is_found_when_the_rows_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows are made of a release: its price is kept, and people's rows are not asked with them."""
    asked: list[str] = []
    exact = DuckDBEngine.exact

    def spy(engine: DuckDBEngine, sql: str, *rest: object) -> object:
        asked.append(sql)
        return exact(engine, sql, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(unique, "of_select", lambda select, sources: WRONG)
    monkeypatch.setattr(DuckDBEngine, "exact", spy)
    noise = RecordedNoise()
    session = opened(noise)
    before = session.execute("SELECT 1").receipt.remaining
    with pytest.raises(Error) as raised:
        session.execute(AFTER_A_RELEASE)
    after = session.execute("SELECT 1").receipt.remaining
    session.close()
    assert raised.value.code == "DPSQL-901" and "stays charged" in str(raised.value)
    assert before.epsilon - after.epsilon == Fraction(1)
    assert len(asked) == len(noise.drawn) == 1 and "place" not in asked[0]


def test_a_wrong_claim_over_public_rows_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are there before the charge."""
    monkeypatch.setattr(unique, "of_select", lambda select, sources: WRONG)
    noise = RecordedNoise()
    session = opened(noise)
    for query in ("SELECT region AS x FROM place", "SELECT region AS x, site FROM place WHERE site < 3"):
        assert refused(session, joined(query)) == "DPSQL-901"
    session.close()
    assert noise.drawn == []


def test_a_claim_that_holds_is_no_violation(monkeypatch: pytest.MonkeyPatch) -> None:
    """The wall stands where rows repeat and nowhere else: the rows of one region are one."""
    monkeypatch.setattr(unique, "of_select", lambda select, sources: WRONG)
    session = opened()
    assert session.execute(joined("SELECT region AS x FROM place WHERE site = 1")).rows
    session.close()


@pytest.mark.parametrize(
    ("rule", "query"),
    [
        ("_are_alike", "SELECT a.site AS x FROM place a JOIN (SELECT badge FROM badge WHERE badge < '1a') b ON b.badge = a.site"),
        ("_is_plain", "SELECT a.site AS x FROM place a RIGHT JOIN place b ON b.site = a.region"),
    ],
)  # fmt: skip
def test_each_rule_of_public_joins_is_needed(rule: str, query: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it a claim is made that the rows belie: '1' and '01' are one number, and rows without a match are alike."""
    session = opened()
    assert refused(session, joined(query)) == "DPSQL-402"
    monkeypatch.setattr(unique, rule, lambda *_: True)
    assert refused(session, joined(query)) == "DPSQL-901"
    session.close()
