"""No text and no table of one statement reaches the next; nor does the order of rows reach an answer, or a failure follow the charge.

Two questions with one fingerprint are a stored answer to the wrong one; a table that is left over answers with what another statement
put there; and what the order of a person's rows decides is no function of the person.
"""

from __future__ import annotations

import itertools
import math
from contextlib import AbstractContextManager, closing
from fractions import Fraction
from pathlib import Path

import pytest

from dpsql.core.errors import Error
from dpsql.planner.parse import parse
from dpsql.session.opening import open_session
from dpsql.session.session import Session
from tests.attacks.observing import ordinary, patient, visit
from tests.support import clinic
from tests.support.nested_tables import MORE_TABLES, PUBLIC
from tests.support.noise import ZeroNoise
from tests.support.opened import clinic_data
from tests.support.planning import compiled_by

Rows = list[tuple[object, ...]]


DECLARED = clinic.UNIT + clinic.PATIENT + clinic.VISIT + clinic.PUBLIC


def opened(folder: Path) -> closing[Session]:
    """A session without noise over the ordinary database and every public table: whatever it asks is asked first."""
    path = clinic.write(folder, ordinary())
    clinic.write_file(path, lambda connection: connection.execute(MORE_TABLES))
    (folder / "schema.toml").write_text(DECLARED + PUBLIC)
    return closing(open_session(folder / "schema.toml", None, ":memory:", noise=ZeroNoise()))


def shared(data: clinic.Database | None = None, *, schema: str = DECLARED) -> AbstractContextManager[Session]:
    """The same over data that others ask too."""
    return clinic_data(schema + PUBLIC, data if data is not None else ordinary(), MORE_TABLES).without_noise()


def fresh(folder: Path, sql: str) -> Rows:
    """The answer on a session that has seen nothing else."""
    with opened(folder) as session:
        return session.execute(sql).rows


def fingerprints(session: Session, sql: str) -> set[str]:
    return {part.release.fingerprint for part in compiled_by(session, parse(sql)).releases}


def spent(session: Session) -> Fraction:
    return 1_000_000 - session.execute("SELECT 1").receipt.remaining.epsilon


# --- two questions, one text ------------------------------------------------------------------------------------------

READING = (
    'SELECT COUNT(*) FROM patient WHERE code >= (SELECT "{}" + 0*n FROM '
    '(SELECT 0 AS "#0", 3 AS "release_0", (SELECT COUNT(*) FROM patient) AS n) t)'
)
NUMBERED, NAMED = READING.format("#0"), READING.format("release_0")
PAIRS = [
    (NUMBERED, NAMED, 12, 3),
    (
        'SELECT COUNT(*) FROM patient WHERE code >= (SELECT MIN("#0") FROM (SELECT 0 AS "#0", 3 AS "#1") t)',
        'SELECT COUNT(*) FROM patient WHERE code >= (SELECT MIN("#1") FROM (SELECT 0 AS "#0", 3 AS "#1") t)',
        12,
        3,
    ),
    (
        "SELECT COUNT(*) FROM patient WHERE code >= (SELECT release_0 + 0*n FROM (SELECT 0 AS release_0, 3 AS release_1, "
        "(SELECT COUNT(*) FROM patient) AS n) t)",
        "SELECT COUNT(*) FROM patient WHERE code >= (SELECT release_1 + 0*n FROM (SELECT 0 AS release_0, 3 AS release_1, "
        "(SELECT COUNT(*) FROM patient) AS n) t)",
        12,
        3,
    ),
    (
        "SELECT COUNT(*) FROM patient WHERE note <> (SELECT '\"release_0\"' || n FROM (SELECT COUNT(*) AS n FROM patient) t)",
        "SELECT COUNT(*) FROM patient WHERE note <> (SELECT '\"#0\"' || n FROM (SELECT COUNT(*) AS n FROM patient) t)",
        12,
        12,
    ),
]


@pytest.mark.few(1)
@pytest.mark.parametrize(("one", "other", "first", "second"), PAIRS)
def test_two_questions_have_two_fingerprints(one: str, other: str, first: int, second: int) -> None:
    """Asked one after the other, in both orders, each gets its own answer and is charged for it."""
    for asked, expected in (((one, other), (first, second)), ((other, one), (second, first))):
        with shared() as session:
            prints = [fingerprints(session, sql) for sql in asked]
            assert prints[0] != prints[1]
            assert [session.execute(sql).rows for sql in asked] == [[(n,)] for n in expected]
            again = session.execute(asked[1])
            assert again.rows == [(expected[1],)] and again.cached
            # Both count patients: that release is one, and everything else is charged apart.
            assert spent(session) > 1


# --- what a statement leaves behind -----------------------------------------------------------------------------------

BOUND = [
    "SELECT q.x, COUNT(*) FROM patient p JOIN (SELECT site AS x FROM place WHERE site > 2) q ON p.code = q.x GROUP BY q.x",
    "SELECT r.site + (SELECT MAX(drug) FROM drug) AS z, COUNT(*) FROM patient p JOIN place r ON p.code = r.site GROUP BY 1",
    "SELECT COUNT(*) FROM patient WHERE code IN (SELECT site FROM place WHERE region = 1)",
    "SELECT COUNT(*) FROM patient WHERE code > (SELECT MAX(drug) - 3 FROM drug)",
    "SELECT COUNT(*) FROM patient WHERE age > (SELECT AVG(age) FROM patient)",
    "SELECT COUNT(*) FROM patient p JOIN (SELECT site AS x, COUNT(*) AS n FROM patient GROUP BY site) q ON q.x = "
    "p.site WHERE p.age > q.n",
    "SELECT label, (SELECT COUNT(*) FROM patient WHERE code = drug.drug) FROM drug",
    "SELECT q.x, COUNT(*) FROM patient p JOIN (SELECT drug AS x FROM drug) q ON p.code = q.x GROUP BY q.x",
]


def test_a_table_of_one_statement_is_not_read_by_the_next(tmp_path: Path) -> None:
    first, second = BOUND[:2]
    expected = fresh(tmp_path, second)
    assert sorted(expected) == [(6, 3), (7, 3), (8, 3), (12, 0)]
    with opened(tmp_path) as session:
        assert sorted(session.execute(first).rows) == [(3, 3), (7, 0)]
        assert session.execute(second).rows == expected


@pytest.mark.slow
def test_every_order_of_statements_answers_as_a_fresh_session(tmp_path: Path) -> None:
    """Each statement comes first once, on a session without stored answers, and all others follow it."""
    expected = {sql: fresh(tmp_path, sql) for sql in BOUND}
    for place, first in enumerate(BOUND):
        with opened(tmp_path) as session:
            for sql in (first, *BOUND[place + 1 :], *BOUND[:place]):
                assert session.execute(sql).rows == expected[sql], (first, sql)


def test_a_refused_statement_leaves_nothing_behind(tmp_path: Path) -> None:
    """Everything bound before the refusal is forgotten too."""
    expected = fresh(tmp_path, BOUND[1])
    with opened(tmp_path) as session:
        for broken in (
            "SELECT q.x, AVG(p.code) FROM patient p JOIN (SELECT site AS x FROM place WHERE site > 2) q ON p.code = q.x GROUP BY q.x",
            "SELECT COUNT(*) FROM patient WHERE code IN (SELECT site FROM place) AND nowhere = 1003",
        ):
            with pytest.raises(Error):
                session.execute(broken)
        assert session.execute(BOUND[1]).rows == expected
        session.explain(BOUND[0])
        assert session.execute(BOUND[1]).rows == expected


# --- two zeros --------------------------------------------------------------------------------------------------------

SIGNED = (clinic.UNIT + clinic.PATIENT + clinic.VISIT + clinic.PUBLIC).replace("bounds = [5, 50]", "bounds = [-50, 50]")
BY_UNIT = "PARTITION BY patient_id ORDER BY cost"
ZEROS = [
    "SELECT {} FROM (SELECT patient_id, cost AS c, COUNT(*) AS n FROM visit GROUP BY patient_id, cost)",
    "SELECT {} FROM (SELECT patient_id, c FROM (SELECT patient_id, cost AS c FROM visit) GROUP BY patient_id, c)",
    "SELECT {} FROM (SELECT patient_id, cost * 1.0 AS c FROM visit GROUP BY patient_id, cost * 1.0)",
    "SELECT {} FROM (SELECT DISTINCT patient_id, cost AS c FROM visit)",
    "SELECT {} FROM (SELECT patient_id, cost AS c FROM visit UNION SELECT patient_id, cost FROM visit)",
    "SELECT {} FROM (SELECT patient_id, MIN(cost) AS c FROM visit GROUP BY patient_id)",
    "SELECT {} FROM (SELECT patient_id, MAX(cost) AS c FROM visit WHERE cost < 1 GROUP BY patient_id)",
    "SELECT {} FROM (SELECT patient_id, MEDIAN(cost) AS c FROM visit WHERE cost < 1 GROUP BY patient_id)",
    f"SELECT {{}} FROM (SELECT patient_id, FIRST_VALUE(cost) OVER ({BY_UNIT}) AS c FROM visit)",
    f"SELECT {{}} FROM (SELECT patient_id, LAST_VALUE(cost) OVER ({BY_UNIT}) AS c FROM visit)",
    f"SELECT {{}} FROM (SELECT patient_id, LAG(cost) OVER ({BY_UNIT}) AS c FROM visit)",
    f"SELECT {{}} FROM (SELECT patient_id, LEAD(cost) OVER ({BY_UNIT}) AS c FROM visit)",
    f"SELECT {{}} FROM (SELECT patient_id, cost AS c, ROW_NUMBER() OVER ({BY_UNIT}) AS r FROM visit) WHERE r = 1",
    f"SELECT {{}} FROM (SELECT patient_id, cost AS c FROM visit QUALIFY ROW_NUMBER() OVER ({BY_UNIT}) <= 2)",
    "SELECT {} FROM (SELECT patient_id, MIN(cost) OVER (PARTITION BY patient_id) AS c FROM visit)",
]
SEEN = ["SUM(LEAST(GREATEST(1 / c, -5), 5))", "COUNT(CASE WHEN CAST(c AS VARCHAR) = '-0.0' THEN 1 END)"]
SHIFTED = [
    f"SELECT SUM(LEAST(GREATEST(l, -5), 5)) FROM (SELECT patient_id, LAG(1 / cost) OVER ({BY_UNIT}) AS l FROM visit)",
    f"SELECT COUNT(*) FROM (SELECT patient_id, LAG(1 / cost) OVER ({BY_UNIT}) AS l FROM visit) WHERE l < 0",
    f"SELECT SUM(LEAST(GREATEST(1 / c - l, -5), 5)) FROM (SELECT patient_id, cost AS c, LAG(1 / cost) OVER "
    f"({BY_UNIT}) AS l FROM visit)",
]


MADE = [
    "SELECT COUNT(*) FROM (SELECT patient_id, MAX(cost * days) OVER (PARTITION BY patient_id) AS m FROM visit) WHERE "
    "CAST(m AS VARCHAR) = '-0.0'",
    "SELECT COUNT(*) FROM (SELECT patient_id, MIN(cost * days) OVER (PARTITION BY patient_id ORDER BY year) AS m FROM "
    "visit) WHERE 1 / m > 0",
    "SELECT COUNT(*) FROM (SELECT patient_id, MAX(cost - cost * days) AS m FROM visit GROUP BY patient_id) WHERE "
    "CAST(m AS VARCHAR) = 'nan'",
    "SELECT COUNT(*) FROM (SELECT patient_id, cost - cost * days AS m FROM visit GROUP BY patient_id, cost - cost * days) "
    "WHERE CAST(m AS VARCHAR) = '-nan'",
    "SELECT COUNT(*) FROM (SELECT patient_id, LAG(cost - cost) OVER (PARTITION BY patient_id ORDER BY cost - cost) AS m FROM visit) "
    "WHERE CAST(m AS VARCHAR) = 'nan'",
]


@pytest.mark.slow
@pytest.mark.parametrize("costs", [(0.0, 0.0), (math.inf, math.nan), (math.inf, math.inf)])
def test_computed_zeros_and_nans_do_not_depend_on_the_order_of_rows(costs: tuple[float, float]) -> None:
    """0.0 * -7 is -0.0, and inf - inf a NaN of another sign than the one that is stored."""
    rows = [(costs[0], 3), (costs[1], -7), (costs[1], 1)]
    found: dict[str, list[Rows]] = {sql: [] for sql in MADE}
    for order in itertools.permutations(rows):
        data = zeros([])
        data["visit"] = [
            visit(7 + i, 1000, cost=cost, year=1, days=days, tag="t") for i, (cost, days) in enumerate(order)
        ]
        with shared(data, schema=SIGNED) as session:
            for sql, answers in found.items():
                answers.append(session.execute(sql).rows)
    for sql, answers in found.items():
        assert all(one == answers[0] for one in answers), (sql, answers)


def zeros(costs: list[float]) -> clinic.Database:
    """Two people; the visits of the first differ in the sign of a zero and in their order alone."""
    visits = [visit(7 + i, 1000, cost=cost, year=1, days=1, tag="t") for i, cost in enumerate(costs)]
    return {
        "patient": [patient(0), patient(1)],
        "visit": [*visits, visit(9, 1001, cost=1.0, days=2)],
        "item": [],
        "drug": [(1, "x")],
    }


@pytest.mark.slow
def test_the_sign_of_a_zero_does_not_depend_on_the_order_of_rows() -> None:
    """-0.0 and 0.0 are equal, so which of them a group or a window shows would be decided by which row is met first."""
    asked = [*(sql.format(seen) for sql in ZEROS for seen in SEEN), *SHIFTED]
    found: dict[str, list[Rows]] = {sql: [] for sql in asked}
    for costs in ([0.0, -0.0], [-0.0, 0.0], [0.0, 0.0]):
        with shared(zeros(costs), schema=SIGNED) as session:
            for sql, rows in found.items():
                rows.append(session.execute(sql).rows)
    for sql, rows in found.items():
        assert all(one == rows[0] for one in rows), (sql, rows)


# --- what goes wrong after the charge ---------------------------------------------------------------------------------

GROUPED = "(SELECT site, COUNT(*) AS c FROM patient GROUP BY site)"
NULLED = [
    ("SELECT COUNT(*) FROM patient WHERE age > (SELECT CAST(COUNT(*)*100 AS TINYINT) FROM patient)", 0),
    ("SELECT COUNT(*) FROM patient WHERE age > (SELECT (COUNT(*)*100)::TINYINT FROM patient)", 0),
    ("SELECT COUNT(*) FROM patient WHERE age > (SELECT CAST(c AS DECIMAL(3,2)) FROM (SELECT COUNT(*) AS c FROM patient))", 0),
    ("SELECT COUNT(*) FROM patient WHERE age > (SELECT COUNT(*) // 0 FROM patient)", 0),
    ("SELECT COUNT(*) FROM patient WHERE age > (SELECT COUNT(*) % 0 FROM patient)", 0),
    (f"SELECT COUNT(*) FROM patient p JOIN {GROUPED} q ON p.site = q.site WHERE p.age > q.c // 0", 0),
    ("SELECT COUNT(*) FROM patient p JOIN (SELECT site, COUNT(*) // 0 AS c FROM patient GROUP BY site) q USING "
     "(site) WHERE c IS NULL", 12),
    ("SELECT COUNT(*) FROM patient p JOIN (SELECT site, CAST(COUNT(*) * 100 AS TINYINT) AS c FROM patient GROUP BY site) q "
     "USING (site) WHERE c IS NULL", 12),
    (f"SELECT COUNT(*) FROM patient p JOIN (SELECT site, c // 0 AS c FROM {GROUPED}) q USING (site) WHERE c IS NULL", 12),
    (f"SELECT COUNT(*) FROM patient p JOIN (SELECT site, c // (c - c) AS c FROM {GROUPED}) q USING (site) WHERE c IS NULL", 12),
    (f"SELECT COUNT(*) FROM patient p JOIN (SELECT site, CAST(c || 'x' AS INTEGER) AS c FROM {GROUPED}) q USING "
     f"(site) WHERE c IS NULL", 12),
    ("SELECT (SELECT CAST(COUNT(*)*100 AS TINYINT) FROM patient)", None),
    ("SELECT (SELECT COUNT(*) // 0 FROM patient)", None),
]  # fmt: skip


@pytest.mark.few(6)
@pytest.mark.parametrize(("sql", "expected"), NULLED)
def test_casts_and_division_of_released_values_give_null(sql: str, expected: object) -> None:
    """The price is paid when they are computed, so they must not fail then."""
    with shared() as session:
        assert session.execute(f"/* dpsql: groups=all */ {sql}").rows == [(expected,)]
        assert spent(session) == 1


NO_PLACE_FOR_A_QUERY = [
    ("SELECT label FROM drug LIMIT (SELECT COUNT(*) FROM patient)", "106"),
    ("SELECT label FROM drug OFFSET (SELECT COUNT(*) FROM patient)", "106"),
    ("SELECT label FROM drug LIMIT (SELECT COUNT(*) FROM patient) - 1", "106"),
    ("SELECT COUNT(*) FROM patient LIMIT (SELECT COUNT(*) FROM patient)", "106"),
    ("SELECT site, COUNT(*) FROM patient GROUP BY site LIMIT (SELECT COUNT(*) FROM patient)", "106"),
    (
        "SELECT COUNT(*) FROM patient p JOIN (SELECT drug FROM drug LIMIT (SELECT COUNT(*) FROM patient)) d ON d.drug = p.site",
        "106",
    ),
    ("VALUES ((SELECT COUNT(*) FROM patient))", "402"),
    ("VALUES ((SELECT MAX(age) FROM patient))", "402"),
    ("VALUES (1), ((SELECT COUNT(*) FROM patient) + 1)", "402"),
    ("VALUES (EXISTS (SELECT 1 FROM patient WHERE age = 77))", "402"),
    ("SELECT * FROM (VALUES ((SELECT COUNT(*) FROM patient))) t", "402"),
    ("SELECT * FROM (VALUES (1), ((SELECT COUNT(*) FROM patient) + 1)) t(x)", "402"),
    ("WITH v AS (VALUES ((SELECT MAX(age) FROM patient))) SELECT * FROM v", "402"),
    ("SELECT COUNT(*) FROM patient WHERE age > (VALUES ((SELECT COUNT(*) FROM patient)))", "402"),
    ("SELECT COUNT(*) FROM patient p JOIN (VALUES ((SELECT COUNT(*) FROM patient))) q(x) ON q.x = p.age", "402"),
]


@pytest.mark.parametrize(("sql", "code"), NO_PLACE_FOR_A_QUERY)
def test_a_query_where_a_constant_belongs_is_refused_for_nothing(sql: str, code: str) -> None:
    with shared() as session:
        with pytest.raises(Error) as raised:
            session.execute(sql)
        assert raised.value.code == f"DPSQL-{code}"
        assert spent(session) == 0
