"""Values read off a stored vector of several values: those of plain SQL, without noise; and those too inexact for that."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from dpsql.session.result import Answer
from dpsql.session.session import Session
from tests.semantics.plain import UNLIMITED
from tests.semantics.test_reusing import same, write
from tests.support import clinic
from tests.support.opened import clinic_data, data_of

NOTE = "read off a stored answer with other columns"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("people"))


@pytest.fixture
def session(written: Path) -> Iterator[Session]:
    with data_of(written).without_noise() as opened:
        yield opened


@pytest.fixture(scope="module")
def plain(written: Path) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    for name in ("person", "visit"):
        connection.execute(f"CREATE TABLE {name} AS FROM read_csv('{written.with_name(name)}.csv', nullstr='')")
    return connection


def free(answer: Answer) -> bool:
    return answer.cached and answer.releases == 0 and answer.receipt.id is None


TWO = "COUNT(*), SUM(w), SUM(v + 10)"
PARTS = [
    "COUNT(*)",
    "SUM(w)",
    "SUM(v + 10)",
    "AVG(w)",
    "AVG(v + 10)",
    "COUNT(v + 10)",
    "COUNT(*), AVG(w)",
    "SUM(w), AVG(v + 10)",
    TWO,
]


@pytest.mark.parametrize("what", PARTS)
@pytest.mark.parametrize("keys", ["", "b"])
@pytest.mark.few(8)
def test_parts_of_a_stored_vector(session: Session, plain: duckdb.DuckDBPyConnection, what: str, keys: str) -> None:
    """Less dearly than the vector, so that its error is not the larger one; then at the same price, with a note."""
    select, group = (f"{keys}, ", f" GROUP BY {keys}") if keys else ("", "")
    first = session.execute(f"SELECT {select}{TWO} FROM person{group}")
    assert first.receipt.id is not None
    for price in ("/* dpsql: epsilon=0.04 */ ", ""):
        sql = f"{price}SELECT {select}{what} FROM person{group}"
        answer = session.execute(sql)
        assert free(answer), sql
        assert same(answer.rows, plain.execute(sql).fetchall(), ordered=False), sql
        assert any(NOTE in note for note in answer.notes) <= (not price)


def test_a_finer_vector_is_added_up(session: Session, plain: duckdb.DuckDBPyConnection) -> None:
    session.execute(f"SELECT a, b, {TWO} FROM person GROUP BY ALL")
    for what in PARTS:
        sql = f"/* dpsql: epsilon=0.05 */ SELECT b, {what} FROM person GROUP BY b"
        answer = session.execute(sql)
        assert free(answer) and same(answer.rows, plain.execute(sql).fetchall(), ordered=False), sql


@pytest.mark.parametrize(
    "bought", ["STDDEV(w)", "STDDEV(w), COUNT(*)", "STDDEV(w), STDDEV(v + 10), STDDEV(2 - a), COUNT(*)"]
)
@pytest.mark.parametrize("keys", ["", "b"])
@pytest.mark.few(3)
def test_what_is_read_off_moments_and_squares(
    session: Session, plain: duckdb.DuckDBPyConnection, bought: str, keys: str
) -> None:
    """Of moments of one value, of these beside COUNT(*), and of one vector with squares, which Gaussian noise has less error in."""
    select, group = (f"{keys}, ", f" GROUP BY {keys}") if keys else ("", "")
    first = session.execute(f"/* dpsql: mechanism=gaussian */ SELECT {select}{bought} FROM person{group}")
    assert first.receipt.id is not None and first.releases == 1
    parts = ["SUM(w)", "COUNT(w)", "AVG(w)", "STDDEV(w)", "VAR_POP(w), AVG(w)"]
    parts += ["COUNT(*)", "COUNT(*), SUM(w)", "STDDEV(w), COUNT(*)"] * ("COUNT(*)" in bought)
    parts += ["AVG(v + 10)", "STDDEV(v + 10), AVG(w)", "STDDEV(v + 10), COUNT(*)"] * ("v + 10" in bought)
    for what in parts:
        sql = f"/* dpsql: epsilon=0.04, mechanism=gaussian */ SELECT {select}{what} FROM person{group}"
        answer = session.execute(sql)
        assert free(answer), sql
        assert same(answer.rows, plain.execute(sql).fetchall(), ordered=False), sql


def test_what_is_stored_apart_makes_several_values(session: Session, plain: duckdb.DuckDBPyConnection) -> None:
    for what in ("COUNT(*)", "SUM(w)", "AVG(v + 10)", "COUNT(w)"):
        session.execute(f"SELECT {what} FROM person")
    for sql in ("SELECT COUNT(*), SUM(w), AVG(v + 10) FROM person", "SELECT AVG(w), AVG(v + 10) FROM person"):
        answer = session.execute(f"/* dpsql: epsilon=0.1 */ {sql}")
        assert free(answer) and same(answer.rows, plain.execute(sql).fetchall(), ordered=False), sql


def test_what_would_err_much_more_is_bought(session: Session) -> None:
    session.execute("SET dp_buy = on")
    session.execute("SELECT COUNT(*), SUM(w), SUM(v + 10), SUM(a), SUM(w * 2 + 1), SUM(w * w) FROM person")
    assert not session.execute("SELECT AVG(w) FROM person").cached
    assert not session.execute("/* dpsql: fresh */ SELECT SUM(w) FROM person").cached


def test_rows_without_a_value_count_towards_a_limit_in_a_vector(session: Session) -> None:
    """Of visits that may be cut, a sum alone is not the sum beside a count, where values may be missing."""
    session.execute("/* dpsql: max_rows=2 */ SELECT COUNT(*), SUM(year), SUM(cost) FROM visit")
    assert session.execute("/* dpsql: max_rows=2, epsilon=0.03 */ SELECT SUM(year) FROM visit").cached
    assert not session.execute("/* dpsql: max_rows=2, epsilon=0.03 */ SELECT SUM(cost) FROM visit").cached


def test_columns_of_one_vector_have_one_noise(session: Session) -> None:
    """Of n and S read off the same cells, n + S has the interval that it has where both were bought at once: not one of two
    independent noises."""
    sql = "SELECT COUNT(*) * 20 + SUM(w) FROM person"
    own = session.execute("SELECT COUNT(*) * 20 + SUM(w), SUM(v + 10) FROM person").accuracy[0][0]
    held = session.execute(f"/* dpsql: epsilon=0.03 */ {sql}")
    assert free(held)
    found = held.accuracy[0][0]
    assert own is not None and found is not None
    assert found.ends == pytest.approx(own.ends, rel=1e-6)


@pytest.mark.parametrize("other", ["age", "age * 2", "score", "site"])
def test_an_average_over_one_row_is_there_without_noise(other: str) -> None:
    """The number of rows that its cells say is 1 up to the rounding of their weights."""
    people: list[clinic.Row] = [
        (i, 1 + i, None, (-50.0, 48.5, 100.0)[i], 60.0, 10 * (i + 1), "20.00", "a", None, "1995-01-01", None) for i in range(3)
    ]  # fmt: skip
    data: clinic.Database = {"patient": people, "visit": [], "item": [], "drug": []}
    with clinic_data(UNLIMITED, data).without_noise() as session:
        found = session.execute(f"SELECT site, AVG(income), AVG({other}) FROM patient GROUP BY site").rows
    assert [row[1] for row in found] == pytest.approx([-50.0, 48.5, 100.0])
