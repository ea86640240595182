"""PEP 249 as far as questions go, and what dpsql adds to it."""

from __future__ import annotations

import copy
import pickle
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from datetime import date
from fractions import Fraction
from pathlib import Path

import pytest

import dpsql
from dpsql.core.errors import Error
from dpsql.dataset import opening
from dpsql.session.opening import open_session
from tests.support import clinic
from tests.support.noise import RecordedNoise
from tests.support.opened import data_of

RANDHIE = Path(__file__).parents[2] / "examples/randhie/schema.toml"


@pytest.fixture
def connection() -> Iterator[dpsql.Connection]:
    with data_of(RANDHIE).connection() as opened:
        yield opened


def code(action: object, *arguments: object) -> str:
    with pytest.raises(Error) as raised:
        action(*arguments)  # type: ignore[operator]
    assert raised.value.__cause__ is None
    return raised.value.code


def test_globals() -> None:
    assert (dpsql.apilevel, dpsql.threadsafety, dpsql.paramstyle) == ("2.0", 1, "qmark")


def test_exceptions_hang_together() -> None:
    assert issubclass(dpsql.InterfaceError, dpsql.Error) and issubclass(dpsql.DatabaseError, dpsql.Error)
    for name in (
        "DataError",
        "OperationalError",
        "IntegrityError",
        "InternalError",
        "ProgrammingError",
        "NotSupportedError",
    ):
        assert issubclass(getattr(dpsql, name), dpsql.DatabaseError)
        assert getattr(dpsql.Connection, name) is getattr(dpsql, name)


def test_execute_and_fetch(connection: dpsql.Connection) -> None:
    cursor = connection.cursor()
    assert cursor.description is None and cursor.rowcount == -1
    assert cursor.execute("SELECT site, COUNT(*) AS n FROM person GROUP BY site ORDER BY site") is cursor
    assert [column[:2] for column in cursor.description] == [("site", "INTEGER"), ("n", "BIGINT")]
    assert all(len(column) == 7 for column in cursor.description)
    assert cursor.rowcount == 6
    first = cursor.fetchone()
    assert first is not None and first[0] == 1
    assert [row[0] for row in cursor.fetchmany(2)] == [2, 3]
    assert [row[0] for row in cursor] == [4, 5, 6]
    assert cursor.fetchone() is None and cursor.fetchall() == []


def test_privacy_and_accuracy(connection: dpsql.Connection) -> None:
    sql = "SELECT site, COUNT(*) AS n, COUNT(*) * 2 AS twice FROM person GROUP BY site"
    cursor = connection.execute(sql)
    assert cursor.privacy.epsilon == Fraction(1, 10) and cursor.privacy.delta == 0
    assert cursor.privacy.remaining == Fraction(39, 10) and 0 < cursor.privacy.remaining_delta < Fraction(1, 10**6)
    assert (cursor.privacy.cached, cursor.privacy.releases) == (False, 1)
    rows = cursor.fetchall()
    for row, accuracy in zip(rows, cursor.accuracy, strict=True):
        assert accuracy[0] is None and accuracy[2].low < row[2] < accuracy[2].high
        assert accuracy[1].low < row[1] < accuracy[1].high and accuracy[1].level == 0.95
    again = connection.execute(sql)
    assert again.fetchall() == rows
    assert (again.privacy.cached, again.privacy.releases, again.privacy.epsilon) == (True, 0, 0)


def test_errors_are_the_longest_sides_of_intervals(connection: dpsql.Connection) -> None:
    """The line under a result says no less than a cell of it."""
    cursor = connection.execute(
        "SELECT site, COUNT(*) AS n, AVG(income) AS a, MEDIAN(income) AS m FROM person GROUP BY site"
    )
    for column, error in enumerate(cursor.errors):
        cells = [
            (row[column], intervals[column]) for row, intervals in zip(cursor.fetchall(), cursor.accuracy, strict=True)
        ]
        cursor.scroll(0, "absolute")
        sides = [
            max(i.high - float(str(v)), float(str(v)) - i.low) for v, i in cells if i is not None and v is not None
        ]
        assert error == (max(sides) if sides else None) and (error is None) == (column == 0)


def test_errors_as_columns(connection: dpsql.Connection) -> None:
    cursor = connection.execute("SELECT site, COUNT(*) AS n, SUM(income) AS n_low FROM person GROUP BY site")
    first = cursor.fetchone()
    ends = cursor.with_ends()
    assert ends.description is not None and [column[:2] for column in ends.description] == [
        *(("site", "INTEGER"), ("n", "BIGINT"), ("n_low_", "DOUBLE"), ("n_high", "DOUBLE")),
        *(("n_low", "DOUBLE"), ("n_low_low", "DOUBLE"), ("n_low_high", "DOUBLE")),
    ]
    second = ends.fetchone()
    assert first is not None and second is not None and second[0] == 2 and second[2] < second[1] < second[3]
    assert (second[2], second[3]) == (cursor.accuracy[1][1].low, cursor.accuracy[1][1].high)  # type: ignore[union-attr]
    assert len(ends.fetchall()) == 4 and len(cursor.fetchall()) == 5 and ends.privacy == cursor.privacy
    public = connection.execute("SELECT plan FROM plan LIMIT 0").with_ends()
    assert public.description is not None and len(public.description) == 1


def test_what_is_so_of_every_answer_to_a_statement(connection: dpsql.Connection) -> None:
    """By the text alone: it is no warning, and is the same of a stored answer."""
    left_out = ("rows with other values of site than those declared are left out",)
    for sql, notes in {
        "SELECT site, COUNT(*) AS n FROM person GROUP BY site": left_out,
        "SELECT COUNT(*) AS n FROM person GROUP BY CASE WHEN site < 3 THEN site ELSE 3 END": left_out,
        "SELECT COUNT(*) AS n FROM person GROUP BY CASE WHEN site < 3 THEN 1 ELSE 2 END": (),
        "SELECT female, COUNT(*) AS n FROM person GROUP BY female": (),
        "SELECT DISTINCT site FROM person": (
            "the values of site are those declared, whether the data hold them or not",
        ),
        "SELECT MAX(income) FROM person": ("MIN and MAX are the declared bounds, not values of the data",),
    }.items():
        for _ in range(2):
            cursor = connection.execute(sql)
            assert (cursor.notes, cursor.messages) == (notes, [])


@pytest.mark.parametrize("ratio", ["n / none", "n // none", "n % none", "1 / none", "none / none"])
def test_a_ratio_over_a_noisy_zero_is_null(connection: dpsql.Connection, ratio: str) -> None:
    sql = f"SELECT {ratio} AS r FROM (SELECT COUNT(*) AS n, COUNT(*) - COUNT(*) AS none FROM person) AS counted"
    assert connection.execute(sql).fetchall() == [(None,)]
    inside = ratio.replace("none", "(COUNT(*) - COUNT(*))").replace("n ", "COUNT(*) ")
    cursor = connection.execute(f"SELECT {inside} AS r FROM person")
    assert cursor.fetchall() == [(None,)] and cursor.accuracy == [(None,)]


def test_other_shells_over_the_same_release_are_free(connection: dpsql.Connection) -> None:
    first = dict(connection.execute("SELECT site, COUNT(*) AS n FROM person GROUP BY site").fetchall())
    other = connection.execute(
        "SELECT COUNT(*) + 1, site FROM person GROUP BY site HAVING COUNT(*) > 0 ORDER BY 1 DESC LIMIT 2"
    )
    assert other.privacy.cached
    assert [(n - 1, site) for n, site in other.fetchall()] == sorted(((n, s) for s, n in first.items()), reverse=True)[
        :2
    ]


@pytest.mark.parametrize(
    ("sql", "parameters"),
    [
        ("SELECT COUNT(*) FROM person WHERE site = ? AND income > ?", [2, 5000.5]),
        ("SELECT COUNT(*) FROM person WHERE site = $1 AND income > $2", (2, 5000.5)),
        ("SELECT COUNT(*) FROM person WHERE site = :site AND income > :low", {"site": 2, "low": 5000.5}),
        ("SELECT COUNT(*) FROM person WHERE site = $site AND income > $low", {"site": 2, "low": 5000.5}),
    ],
)
def test_parameters_in_every_spelling_are_one_statement(
    connection: dpsql.Connection,
    sql: str,
    parameters: object,
) -> None:
    plain = connection.execute("SELECT COUNT(*) FROM person WHERE site = 2 AND income > 5000.5e0")
    found = connection.execute(sql, parameters)
    assert found.privacy.cached and found.fetchall() == plain.fetchall()


def test_parameters_that_do_not_fit(connection: dpsql.Connection) -> None:
    sql = "SELECT COUNT(*) FROM person WHERE site = ?"
    for parameters in ([], [1, 2], [object()], [[1]], [float("nan")], {"a": 1}, [b"x"]):
        assert code(connection.execute, sql, parameters) == "DPSQL-108"
    assert code(connection.execute, sql, "2") == "DPSQL-802"
    assert code(connection.execute, sql, ["2x"]) == "DPSQL-106"
    assert code(connection.execute, sql, [date(2020, 1, 1)]) == "DPSQL-106"
    assert code(connection.execute, 5) == "DPSQL-802"
    assert connection.execute("SELECT 1").privacy.remaining == 4


def test_closing(connection: dpsql.Connection) -> None:
    cursor = connection.execute("SELECT 1")
    cursor.close()
    assert code(cursor.fetchall) == "DPSQL-802"
    other = connection.cursor()
    connection.close()
    connection.close()
    for action in (connection.cursor, connection.commit, connection.rollback, other.fetchall):
        assert code(action) == "DPSQL-802"


def test_executemany_asks_each_and_shows_one_price(connection: dpsql.Connection) -> None:
    sql = "SELECT ? AS site, COUNT(*) AS people FROM person WHERE site = ?"
    cursor = connection.executemany(sql, [(1, 1), (2, 2), (3, 3)])
    one, two, three = (connection.execute(sql, [site, site]) for site in (1, 2, 3))
    rows = [cursor.fetchone() for cursor in (one, two, three)]
    assert cursor.rowcount == 3 and cursor.fetchall() == rows
    assert cursor.accuracy == [one.accuracy[0], two.accuracy[0], three.accuracy[0]]
    assert cursor.accuracy[-1][1] is not None and len(cursor._intervals(1, 3)) == 2
    price = cursor.privacy
    assert (price.epsilon, price.releases, price.cached) == (Fraction(3, 10), 3, False)
    assert price.remaining == one.privacy.remaining == Fraction(37, 10)
    assert one.privacy.cached and len(cursor.certificates) == 3
    assert [name for name, *_ in cursor.with_ends().description or []] == [
        "site",
        "people",
        "people_low",
        "people_high",
    ]
    again = connection.executemany(sql, [(1, 1), (2, 2)])
    assert again.privacy.cached and again.privacy.epsilon == 0


def test_executemany_charges_nothing_where_one_is_refused(connection: dpsql.Connection) -> None:
    sql = "SELECT COUNT(*) AS people FROM person WHERE site = ?"
    cursor = connection.cursor()
    assert code(cursor.executemany, sql, [[1], ["two"]]) == "DPSQL-106"
    assert code(cursor.executemany, sql, [[1], [[1, 2]]]) == "DPSQL-108"
    assert code(cursor.executemany, "SELECT * FROM person WHERE site = ?", [[1]]) == "DPSQL-301"
    assert code(cursor.executemany, sql, []) == "DPSQL-108"
    assert code(cursor.executemany, "SELECT COUNT(*) FROM person", []) == "DPSQL-802"
    assert connection.execute("SELECT 1").privacy.remaining == 4


def test_as_duckdbs_users_type_it(connection: dpsql.Connection) -> None:
    sql = "SELECT plan FROM plan WHERE plan < $most ORDER BY plan"
    assert connection.sql(sql, params={"most": 3}).fetchall() == [(1,), (2,)]
    pytest.importorskip("pandas")
    pytest.importorskip("polars")
    assert list(connection.sql("SELECT plan FROM plan").df().columns) == ["plan"]
    assert connection.sql("SELECT plan FROM plan").pl().columns == ["plan"]
    assert connection.sql("SELECT plan FROM plan").arrow().column_names == ["plan"]
    frame = connection.sql("SELECT COUNT(*) AS n FROM person").df(accuracy=True)
    assert list(frame.columns) == ["n", "n_low", "n_high"]


@pytest.mark.parametrize(
    ("sql", "parameters", "hint"),
    [
        ("site = %s", [1], "write ? for a parameter"),
        ("site = %(site)s", {"site": 1}, "write ? for a parameter"),
        ("site IN %s", [(1, 2)], "write IN (?, ?), with one ? for each value"),
        ("site IN (?)", [[1, 2]], "write IN (?, ?), with one ? for each value"),
        ("site = ANY(?)", [[1, 2]], "write IN (?, ?), with one ? for each value"),
        ("site = ?", {"site": 1}, "? and $1 take a list: give [value]; with a dictionary write :name"),
        ("site = :site", [1], 'a name takes a dictionary: give {"site": value}; with a list write ?'),
    ],
)
def test_other_libraries_parameters_are_told_how_to_write_it(
    connection: dpsql.Connection, sql: str, parameters: object, hint: str
) -> None:
    with pytest.raises(dpsql.Error) as raised:
        connection.execute(f"SELECT COUNT(*) FROM person WHERE {sql}", parameters)  # type: ignore[arg-type]
    assert hint in str(raised.value)


def test_objects_show_and_pickle_nothing(connection: dpsql.Connection) -> None:
    cursor = connection.execute("SELECT COUNT(*) FROM person")
    assert repr(connection) == "<dpsql.Connection open>" and repr(cursor) == "<dpsql.Cursor open>"
    for thing in (connection, cursor):
        with pytest.raises(Exception):  # noqa: B017 - any refusal will do
            pickle.dumps(thing)
        with pytest.raises(Exception):  # noqa: B017 - any refusal will do
            copy.deepcopy(thing)


def test_two_threads_do_not_share_a_connection(connection: dpsql.Connection) -> None:
    turn = connection._open()._turn
    turn.acquire()
    found: list[str] = []
    thread = threading.Thread(target=lambda: found.append(code(connection.execute, "SELECT 1")))
    thread.start()
    thread.join()
    turn.release()
    assert found == ["DPSQL-802"]


def test_declared_analysts_only(tmp_path: Path) -> None:
    clinic.write(tmp_path, {"patient": [], "visit": [], "item": [], "drug": []})
    text = clinic.UNIT + "[analysts.alice]\nepsilon = 2.0\n" + clinic.PATIENT
    (tmp_path / "schema.toml").write_text(text)
    for analyst in (None, "mallory"):
        with pytest.raises(dpsql.InterfaceError) as raised:
            dpsql.connect(tmp_path / "schema.toml", analyst=analyst, ledger=":memory:")
        assert raised.value.code == "DPSQL-803"
    with pytest.raises(dpsql.OperationalError) as unapproved:
        dpsql.connect(tmp_path / "schema.toml", analyst="alice", ledger=":memory:")
    assert unapproved.value.code == "DPSQL-708" and "dpsql check" in str(unapproved.value)


def test_noise_is_drawn_once_a_measure_as_one_vector(tmp_path: Path) -> None:
    noise = RecordedNoise()
    session = open_session(RANDHIE, None, ":memory:", noise)
    session.execute("SELECT site, COUNT(*), AVG(income), SUM(income), COUNT(income) FROM person GROUP BY site")
    assert noise.drawn == [("laplace", Fraction(300000), 18)]
    session.close()


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*) FROM person", "SELECT site, AVG(income) AS mean, COUNT(*) AS people FROM person GROUP BY site",
        "SELECT 100.0 * COUNT(*) FILTER (WHERE income > 9000) / COUNT(*) AS share FROM person", "SHOW TABLES", "SHOW BUDGET",
        "EXPLAIN SELECT COUNT(*) FROM person", "SELECT plan FROM plan", "DESCRIBE person",
    ],
)  # fmt: skip
def test_describe_tells_the_columns_and_costs_nothing(sql: str) -> None:
    with dpsql.connect(RANDHIE, ledger=":memory:") as connection:
        found = connection.describe(sql)
        assert connection._open()._world.ledger.history() == []
        description = connection.execute(sql).description
        assert description is not None and found == tuple((name, code) for name, code, *_ in description)


def test_describe_of_a_setting_is_nothing_and_it_stays_unset() -> None:
    with dpsql.connect(RANDHIE, ledger=":memory:") as connection:
        assert connection.describe("SET dp_epsilon = 0.2") == ()
        assert connection.price("SELECT COUNT(*) FROM person").epsilon == Fraction(1, 10)


def test_stored_answers_of_an_earlier_version_are_said_to_be_asked_anew(tmp_path: Path) -> None:
    """A ledger that was written before questions were told apart by their trees."""
    file, anew = tmp_path / "x.ledger", [opening.ASKED_ANEW]

    def told(sql: str = "") -> list[str]:
        with dpsql.connect(RANDHIE, ledger=file) as connection:
            found = [str(warning) for _, warning in connection.messages]
            if sql:
                connection.execute(sql)
            return found

    assert told("SELECT COUNT(*) FROM person") == []
    with closing(sqlite3.connect(file)) as ledger:
        ledger.execute("DELETE FROM switch")
        ledger.commit()
    assert told() == anew, "the first opening"
    assert told("SELECT COUNT(*) FROM person WHERE site = 3") == anew, "as long as no other answer is stored"
    assert told() == []
