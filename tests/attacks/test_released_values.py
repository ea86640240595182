"""A20, trackers: the values that a statement reads of its own subqueries, and of rows that it writes down, set no few apart either.

The sample units have other totals than the people, so a condition on a total may be about many of those and about one of these. Asked
without noise, at a price at which every difference can be read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from dpsql.core.errors import Error
from dpsql.guard.guarding import Guarding
from dpsql.session.opening import open_session
from dpsql.session.session import Session
from tests.support.noise import ZeroNoise
from tests.support.tracking import data_under, declared

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


@pytest.mark.parametrize("before", [TOTAL, "SELECT 1"])
@pytest.mark.parametrize(
    "asked",
    [
        f"COUNT(*) FROM patients WHERE {NEAR}",
        f"SUM(weight_1971_kg) FROM patients WHERE {NEAR}",
        f"MAX(weight_1971_kg) FROM patients WHERE {NEAR}",
        f"AVG(weight_1971_kg) FILTER (WHERE {NEAR}) FROM patients",
        f"SUM(CASE WHEN {NEAR} THEN weight_1971_kg ELSE 0 END) FROM patients",
        f"SUM(weight_1971_kg * CAST(z AS INTEGER)) FROM (SELECT weight_1971_kg, {NEAR} AS z FROM patients) AS t",
    ],
)
def test_what_is_about_few_by_a_value_is_hidden_by_its_noisy_number_of_people(
    session: Session, before: str, asked: str
) -> None:
    """The value is known before the charge, or is not."""
    session.execute(before)
    assert [tuple(row) for row in session.execute(f"SELECT {asked}").rows] == [(None,)]


def test_what_reads_a_stored_value_and_leaves_out_few_is_refused_before_it_is_charged(session: Session) -> None:
    session.execute(TOTAL)
    before = charges(session)
    assert "charged" not in refused(session, f"SELECT SUM(weight_1971_kg) FROM patients WHERE NOT ({NEAR})")
    assert charges(session) == before == 1


def test_what_reads_a_new_value_and_leaves_out_few_is_refused_before_it_reaches_the_engine(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    engine = session._world.dataset.engine
    known = engine.exact
    monkeypatch.setattr(engine, "exact", lambda sql, *more: asked.append(sql) or known(sql, *more))
    sql = f"SELECT SUM(weight_1971_kg) FROM patients WHERE NOT ({NEAR})"
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
    assert session.execute(f"SELECT COUNT(*) FROM patients WHERE NOT ({NEAR})").rows[0] == (1628,)


# --- at once ------------------------------------------------------------------------------------------------------

ABOVE = f"SELECT COUNT(*), AVG(age) FROM patients WHERE weight_1971_kg > ({WEIGHT})"


@pytest.fixture
def two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Session]]:
    """Two connections of one analyst, which pack whatever they read."""
    monkeypatch.setattr("dpsql.guard.guarding.LATE", 1)
    with ExitStack() as opened:
        yield [
            opened.enter_context(closing(open_session(declared("nhefs"), None, tmp_path / "ledger", ZeroNoise())))
            for _ in range(2)
        ]


def beside(session: Session) -> str:
    """A statement that differs from ABOVE by a few."""
    with data_under("nhefs", "off").without_noise() as alone:
        (average,) = next(iter(alone.execute(WEIGHT).rows))
    return f"SELECT COUNT(*) FROM patients WHERE weight_1971_kg > {float(str(average)) + 0.05:.4f}"


def once_charged(session: Session, monkeypatch: pytest.MonkeyPatch, work: Callable[[], object]) -> None:
    """Do something when the next statement is charged, before any of it is released."""
    engine, waiting = session._world.dataset.engine, [work]
    known = engine.exact
    monkeypatch.setattr(engine, "exact", lambda *told: (waiting and waiting.pop()(), known(*told))[1])


@pytest.mark.parametrize("reopened", [False, True])
def test_what_is_remembered_by_a_value_is_read_again_by_who_read_it_before(
    two: list[Session], tmp_path: Path, reopened: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others kept it as it was before its value was known, in memory or packed: that is not compared."""
    one, other = two
    for i in range(3):
        other.execute(f"SELECT COUNT(*) FROM patients WHERE marital = {i + 1}")
    once_charged(
        one,
        monkeypatch,
        lambda: [other.execute(f"SELECT AVG(age) FROM patients WHERE sex = '{sex}'") for sex in ("male", "female")],
    )
    one.execute(ABOVE)
    if reopened:
        with closing(open_session(declared("nhefs"), None, tmp_path / "ledger", ZeroNoise())) as fresh:
            refused(fresh, beside(fresh))
    refused(other, beside(other))


def test_what_others_are_answered_meanwhile_is_compared_by_the_value(
    two: list[Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = two
    once_charged(one, monkeypatch, lambda: other.execute(beside(other)))
    assert refused(one, ABOVE).endswith("; what was charged stays charged")


def test_a_statement_that_reads_value_after_value_is_no_pair_of_itself(two: list[Session]) -> None:
    one, other = two
    heavy = f"(SELECT AVG(weight_1971_kg) FROM patients WHERE weight_1971_kg > ({WEIGHT}))"
    assert one.execute(f"SELECT COUNT(*) FROM patients WHERE weight_1971_kg > {heavy}").rows
    assert other.execute("SELECT COUNT(*) FROM patients").rows == one.execute("SELECT COUNT(*) FROM patients").rows
    packed = one._world.ledger.store.read(lambda c: c.execute("SELECT last FROM packed").fetchall())
    assert packed


def test_a_warning_by_a_value_that_was_released_a_moment_ago_is_told() -> None:
    sql = f"SELECT SUM(weight_1971_kg) FROM patients WHERE NOT ({NEAR})"
    with data_under("nhefs", "warn").without_noise() as warned:
        for _ in range(2):
            (note,) = (
                note
                for note in warned.execute(f"/* dpsql: fresh */ {sql}").notes
                if note.startswith("DPSQL-602: rule R3")
            )
            assert "sets fewer than 20 people apart" in note


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


def test_a_filter_by_a_released_value_is_hidden_beside_parts_of_equal_size(session: Session) -> None:
    sql = (
        f"SELECT COUNT(*) FILTER (WHERE z = 1), COUNT(*) FILTER (WHERE {NEAR}) "
        "FROM (SELECT *, NTILE(2) OVER (ORDER BY age) AS z FROM patients) AS t"
    )
    ((many, few),) = session.execute(sql).rows
    assert int(str(many)) > 700 and few is None


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
    """Noise alone may leave no group of those that are asked for: R2 hides that it is nobody."""
    rich = "SELECT marital FROM patients GROUP BY marital HAVING COUNT(*) > 100000"
    assert session.execute(f"SELECT COUNT(*) FROM patients WHERE marital IN ({rich})").rows
