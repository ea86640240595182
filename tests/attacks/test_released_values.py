"""A20, trackers: the values that a statement reads of its own subqueries, and of rows that it writes down, set no few apart either.

The sample units have other totals than the people, so a condition on a total may be about many of those and about one of these. Asked
without noise, at a price at which every difference can be read.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dpsql.core.errors import Error
from dpsql.guard.guarding import Guarding
from dpsql.session.session import Session
from tests.support.tracking import data_under

TOTAL = "SELECT COUNT(*) FROM patients"
MISSING = f"(1629 - ({TOTAL}))"
"""Nobody, of the 1,629 people; as declared there are 29 fewer."""
NEAR = f"sex = 'female' AND ABS(age - 62) <= {MISSING} / 2e0 AND ABS(school_years - 15) <= {MISSING} / 4e0"
"""One woman, of these people."""
WEIGHT = "SELECT AVG(weight_1971_kg) FROM patients"
SHOWN = (
    "JOIN (SELECT c, MAX(n) AS n FROM (VALUES ('female', 'F'), ('male', 'M')) AS q(c, n) GROUP BY c) AS v ON sex = v.c"
)
PAIRS = ", ".join(
    f"('{sex}', {marital}, '{sex[0]}')" for sex in ("female", "male") for marital in (1, 2, 3, 4, 5, 6, 8)
)
BOTH = f"JOIN (SELECT c, d, MAX(n) AS n FROM (VALUES {PAIRS}) AS q(c, d, n) GROUP BY c, d) AS v ON sex = v.c AND marital = v.d"
ONE = "(SELECT a, s, e FROM (VALUES (62, 'female', 15)) AS q(a, s, e) GROUP BY a, s, e) AS v"


@pytest.fixture
def session() -> Iterator[Session]:
    with data_under("nhefs", "block").without_noise() as found:
        yield found


def refused(session: Session, sql: str) -> str:
    with pytest.raises(Error) as raised:
        session.execute(sql)
    assert raised.value.code == "DPSQL-602"
    return raised.value.message


def charges(session: Session) -> int:
    rows = session.execute("SELECT COUNT(*) FROM dpsql.ledger").rows
    return int(str(next(iter(rows))[0]))


@pytest.mark.parametrize("condition", [NEAR, f"NOT ({NEAR})"])
def test_what_reads_a_stored_value_is_refused_before_it_is_charged(session: Session, condition: str) -> None:
    session.execute(TOTAL)
    before = charges(session)
    assert "charged" not in refused(session, f"SELECT SUM(weight_1971_kg) FROM patients WHERE {condition}")
    assert charges(session) == before == 1


@pytest.mark.parametrize("condition", [NEAR, f"NOT ({NEAR})"])
def test_what_reads_a_new_value_is_refused_before_it_reaches_the_engine(
    session: Session, condition: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    engine = session._world.dataset.engine
    known = engine.exact
    monkeypatch.setattr(engine, "exact", lambda sql, *more: asked.append(sql) or known(sql, *more))
    sql = f"SELECT SUM(weight_1971_kg) FROM patients WHERE {condition}"
    assert refused(session, sql).endswith("; what was charged stays charged")
    assert (len(asked), charges(session)) == (1, 1)
    assert "charged" not in refused(session, sql)


def test_a_statement_is_remembered_by_the_values_that_it_read(session: Session) -> None:
    (average,) = next(iter(session.execute(WEIGHT).rows))
    near = float(str(average)) + 0.05
    beside = f"SELECT COUNT(*) FROM patients WHERE weight_1971_kg > {near:.4f}"
    for fresh in ("", "/* dpsql: fresh */ "):
        with data_under("nhefs", "block").without_noise() as alone:
            alone.execute(f"{fresh}SELECT COUNT(*), AVG(age) FROM patients WHERE weight_1971_kg > ({WEIGHT})")
            alone.execute("SELECT COUNT(*) FROM patients WHERE weight_1971_kg > 115")
            refused(alone, beside)


def test_by_the_sample_alone_it_is_answered(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests above fail without the rule."""
    monkeypatch.setattr(Guarding, "with_released", lambda self, judged, tables: judged)
    session.execute(TOTAL)
    assert session.execute(f"SELECT COUNT(*) FROM patients WHERE {NEAR}").rows[0] == (1,)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*) FROM (SELECT age, school_years, NTILE(2) OVER (ORDER BY age) AS z FROM patients) AS t "
        "WHERE z * 0 + age * 100 + school_years <> 6217",
        "SELECT COUNT(*) FROM (SELECT NTILE(2) OVER (ORDER BY GREATEST(age * 100 + school_years - 7416, 0)) AS z FROM patients) AS t "
        "WHERE z = 1",
        "SELECT COUNT(*) FILTER (WHERE z = 1), COUNT(*) FROM (SELECT *, NTILE(2) OVER (ORDER BY age) AS z FROM patients) AS t "
        f"WHERE NOT ({NEAR})",
    ],
)
def test_parts_of_equal_size_hide_no_other_condition(session: Session, sql: str) -> None:
    refused(session, sql)


def test_one_value_of_groups_that_are_selected_is_read_as_it_was_released(session: Session) -> None:
    most = "(SELECT MAX(n) FROM (SELECT LEFT(CAST(height_cm AS VARCHAR), 2) AS h, COUNT(*) AS n FROM patients GROUP BY 1) AS g)"
    (known,) = session.execute(f"SELECT {most} AS most").rows[0]
    off = f"ABS({known} - {most})"
    near = f"sex = 'female' AND ABS(age - 62) <= {off} / 2e1 AND ABS(school_years - 15) <= {off} / 1e2"
    refused(session, f"SELECT COUNT(*) FROM patients WHERE NOT ({near})")


def test_a_filter_by_a_released_value_is_judged_beside_parts_of_equal_size(session: Session) -> None:
    refused(
        session,
        f"SELECT COUNT(*) FILTER (WHERE z = 1), COUNT(*) FILTER (WHERE {NEAR}) "
        "FROM (SELECT *, NTILE(2) OVER (ORDER BY age) AS z FROM patients) AS t",
    )


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT COUNT(*), AVG(age) FROM patients WHERE weight_1971_kg > ({WEIGHT})",
        "SELECT COUNT(*) FROM patients WHERE age BETWEEN (SELECT AVG(age) - STDDEV(age) FROM patients) "
        "AND (SELECT AVG(age) + STDDEV(age) FROM patients)",
        "WITH t AS (SELECT sex, AVG(age) AS a FROM patients GROUP BY sex) "
        "SELECT COUNT(*) FROM patients p JOIN t ON t.sex = p.sex WHERE p.age > t.a",
        "SELECT COUNT(*) FROM patients p JOIN (SELECT FLOOR(age / 10) AS d, AVG(age) AS a FROM patients GROUP BY 1) AS t "
        "ON FLOOR(p.age / 10) = t.d WHERE p.age > t.a",
        "SELECT h, COUNT(*) FROM (SELECT NTILE(10) OVER (ORDER BY cigarettes_per_day) AS h FROM patients) GROUP BY h",
        "SELECT COUNT(*) FROM patients WHERE marital IN (SELECT marital FROM patients GROUP BY marital HAVING COUNT(*) > 100)",
        f"SELECT v.n, COUNT(*), AVG(age) FROM patients {SHOWN} GROUP BY v.n",
        f"SELECT v.n, COUNT(v.n), AVG(age) FROM patients LEFT {SHOWN} GROUP BY v.n",
        f"SELECT v.n, COUNT(*), AVG(age) FROM patients {BOTH} GROUP BY v.n",
        f"SELECT COALESCE(v.n, 'rest') AS k, COUNT(*), COUNT(DISTINCT COALESCE(v.n, race)) FROM patients LEFT {BOTH} GROUP BY k",
    ],
)
def test_who_asks_for_many_is_answered(session: Session, sql: str) -> None:
    assert session.execute(sql).rows


@pytest.mark.parametrize(
    "asked",
    ["COALESCE(v.n, 'rest') AS k, COUNT(*)", "COALESCE(v.n, sex) AS k, COUNT(*)", "COUNT(DISTINCT COALESCE(v.n, sex))"],
)
@pytest.mark.parametrize(
    ("rows", "on"),
    [
        (
            "(SELECT a, MAX(n) AS n FROM (VALUES (6215, 'one')) AS q(a, n) GROUP BY a) AS v",
            "age * 100 + school_years = v.a",
        ),
        (
            "(SELECT a, e, MAX(n) AS n FROM (VALUES (62, 15, 'one')) AS q(a, e, n) GROUP BY a, e) AS v",
            "age = v.a AND school_years = v.e",
        ),
    ],
)
def test_what_is_made_of_a_column_of_written_rows_sets_no_few_apart(
    session: Session, asked: str, rows: str, on: str
) -> None:
    by = " GROUP BY k" if " AS k" in asked else ""
    refused(session, f"SELECT {asked} FROM patients LEFT JOIN {rows} ON {on}{by}")


@pytest.mark.parametrize(
    ("asked", "kind", "on"),
    [
        ("COUNT(*)", "JOIN", "c.n > 0 AND {x} <> 6215"),
        ("COUNT(*)", "JOIN", "{x} <> 6215 OR c.n < 10"),
        ("COUNT(v.x)", "LEFT JOIN", "c.n > 0 AND {x} <> 6215"),
    ],
)
def test_written_rows_beside_a_released_value_leave_no_few_out(
    session: Session, asked: str, kind: str, on: str
) -> None:
    digits = ", ".join(f"({digit})" for digit in range(10))
    x = "q0.d + 10 * q1.d + 100 * q2.d + 1000 * q3.d"
    rows = ", ".join(f"(VALUES {digits}) AS q{i}(d)" for i in range(4))
    beside = "(SELECT COUNT(*) AS n FROM patients WHERE sex = 'male') AS c"
    written = f"(SELECT {x} AS x FROM {rows}, {beside} WHERE {on.format(x=f'({x})')} GROUP BY 1) AS v"
    refused(session, f"SELECT {asked} FROM patients {kind} {written} ON age * 100 + school_years = v.x")


def test_a_column_of_written_rows_is_shown_where_it_is_of_many(session: Session) -> None:
    sql = f"SELECT COUNT(v.a) FROM patients LEFT JOIN {ONE} ON age = v.a AND sex = v.s AND school_years = v.e"
    assert list(session.execute(sql).rows) == [(None,)]


def test_a_list_of_released_keys_that_is_empty_is_answered(session: Session) -> None:
    """Noise alone may leave no group of those that are asked for: whole groups, of which R2 tells the few."""
    rich = "SELECT marital FROM patients GROUP BY marital HAVING COUNT(*) > 100000"
    assert session.execute(f"SELECT COUNT(*) FROM patients WHERE marital IN ({rich})").rows
