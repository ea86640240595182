"""PEP 249 by the public compliance suite (dbapi-compliance), and what that suite does not ask.

dpsql reads declared data and changes none, so the suite's tables are public tables that each test writes before it connects. Where the
suite creates a table, a statement without a result stands instead; a test that cannot go as it is written is overridden, and its
docstring says which words of PEP 249 leave the choice.
"""

from __future__ import annotations

import datetime
import shutil
import tempfile
import threading
import time
import unittest
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import dbapi20  # type: ignore[import-untyped]
import pytest

import dpsql
from dpsql.core.errors import Error
from tests.support.opened import data_of

RANDHIE = Path(__file__).parents[2] / "examples/randhie/schema.toml"
SCHEMA = """
[dataset]
name = "pub"
source = "."

[privacy]
unit = "guest.guest_id"
epsilon = 4.0
delta = 1e-6
query = { epsilon = 0.1 }

[tables.guest]
source = "guest.csv"
key = ["guest_id"]
[tables.guest.columns]
guest_id = { type = "BIGINT" }

[tables.dbapi20test_booze]
public = true
source = "booze.csv"

[tables.dbapi20test_barflys]
public = true
source = "barflys.csv"
"""
SETTING = "SET dp_epsilon = 0.1"


class TestCompliance(dbapi20.DatabaseAPI20Test):  # type: ignore[misc]
    """The suite over public tables: booze holds the suite's samples, barflys nothing."""

    driver = dpsql
    ddl1 = ddl2 = SETTING

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="dpsql-pep249-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        (self.folder / "schema.toml").write_text(SCHEMA)
        (self.folder / "guest.csv").write_text("guest_id\n1\n")
        self.connect_kw_args = {"schema": self.folder / "schema.toml", "ledger": ":memory:"}
        self.write(self.samples, [])

    def tearDown(self) -> None:
        """The tables go with their folder."""

    def write(self, booze: list[str], barflys: list[tuple[str, str]]) -> None:
        """Write the rows that the suite would insert, before it connects."""
        (self.folder / "booze.csv").write_text("\n".join(["name", *booze]) + "\n")
        (self.folder / "barflys.csv").write_text("\n".join(["name,drink", *(",".join(row) for row in barflys)]) + "\n")

    def _populate(self) -> list[str]:
        """The rows are there before the suite connects; what is left is a statement without a result."""
        return [SETTING]

    def _paraminsert(self, cur: dpsql.Cursor) -> None:
        """The suite's values as parameters, given back by a question: a table cannot take them."""
        text = "thi%s :may ca%(u)se? troub:1e"
        cur.execute(f"SELECT ? AS name, '{text}' AS drink", ("Cooper's",))
        self.assertEqual(cur.fetchall(), [("Cooper's", text)])
        cur.execute(f"SELECT :beer AS name, '{text}' AS drink", {"beer": "Cooper's"})
        self.assertEqual(cur.fetchall(), [("Cooper's", text)])

    def test_cursor_isolation(self) -> None:
        """Under "Cursor objects": changes made by one cursor are seen by the others. Here no cursor can change anything, so what is
        left is that two cursors see the same rows."""
        self.write(["Victoria Bitter"], [])
        with self._connect() as con:
            first, second = con.cursor(), con.cursor()
            first.execute("SELECT name FROM dbapi20test_booze")
            second.execute("SELECT name FROM dbapi20test_booze")
            self.assertEqual(first.fetchall(), [("Victoria Bitter",)])
            self.assertEqual(second.fetchall(), [("Victoria Bitter",)])

    def test_rowcount(self) -> None:
        """Under "rowcount": rows produced by DQL statements "or affected" by DML statements. There is no DML, so the number after
        an INSERT is no number: it is refused."""
        self.write(["Victoria Bitter"], [])
        with self._connect() as con:
            cur = con.cursor()
            self.assertEqual(cur.rowcount, -1)
            cur.execute("SELECT name FROM dbapi20test_booze")
            self.assertEqual(cur.rowcount, 1)
            self.executeDDL1(cur)
            self.assertEqual(cur.rowcount, -1)
            self.assertRaises(dpsql.NotSupportedError, cur.execute, "INSERT INTO dbapi20test_booze VALUES ('x')")
            self.assertEqual(cur.rowcount, -1)

    def test_executemany(self) -> None:
        """Under "executemany": using it for an operation that gives result sets is undefined behaviour. Here it gives the rows of all
        of them, where each is a question; what is refused raises, before anything is paid."""
        with self._connect() as con:
            cur = con.cursor()
            drinks = [("Cooper's",), ("Boag's",)]
            cur.executemany("SELECT name FROM dbapi20test_booze WHERE name = ?", drinks)
            self.assertEqual(cur.fetchall(), [])
            self.assertRaises(dpsql.Error, cur.executemany, "INSERT INTO dbapi20test_booze VALUES (?)", drinks)
            cur.executemany(SETTING, [(), ()])
            self.assertEqual((cur.rowcount, cur.description), (-1, None))

    def test_fetchone(self) -> None:
        """Under "fetchone": an Error is raised if the previous call of execute did not produce any result set. As in the suite, but
        the full table is another one than the empty one, and a setting stands for INSERT."""
        self.write(["Victoria Bitter"], [])
        with self._connect() as con:
            cur = con.cursor()
            self.assertRaises(dpsql.Error, cur.fetchone)
            self.executeDDL1(cur)
            self.assertRaises(dpsql.Error, cur.fetchone)
            cur.execute("SELECT name FROM dbapi20test_barflys")
            self.assertIsNone(cur.fetchone())
            self.assertEqual(cur.rowcount, 0)
            self.executeDDL1(cur)
            self.assertRaises(dpsql.Error, cur.fetchone)
            cur.execute("SELECT name FROM dbapi20test_booze")
            self.assertEqual(cur.fetchone(), ("Victoria Bitter",))
            self.assertIsNone(cur.fetchone())

    def test_nextset(self) -> None:
        """Under "nextset": the method is optional, since not all databases have several result sets. A statement here has one, so
        the method is not there."""
        with self._connect() as con:
            self.assertFalse(hasattr(con.cursor(), "nextset"))

    def test_setoutputsize(self) -> None:
        """Under "setoutputsize": implementations may have it do nothing."""
        with self._connect() as con:
            cur = con.cursor()
            cur.setoutputsize(1)
            cur.execute("SELECT name FROM dbapi20test_booze")
            self.assertEqual(len(cur.fetchall()), len(self.samples))

    def test_None(self) -> None:
        """Under "Type Objects and Constructors": NULL is None on input and output. The row is written before the suite connects."""
        self.write([], [("a", "")])
        with self._connect() as con:
            self.assertEqual(con.execute("SELECT drink FROM dbapi20test_barflys").fetchall(), [(None,)])
            self.assertEqual(con.execute("SELECT ? AS x", [None]).fetchall(), [(None,)])

    def test_non_idempotent_close(self) -> None:
        """Under "close": the connection is unusable from then on, and an Error follows "if any operation is attempted". To close what
        is closed attempts nothing, and `with` may follow close(); the suite calls its own test disputed."""
        con = self._connect()
        con.close()
        con.close()
        self.assertRaises(dpsql.Error, con.cursor)


OWN_WAY = {"cursor_isolation", "rowcount", "executemany", "fetchone", "nextset", "setoutputsize", "None"}
OWN_WAY |= {"non_idempotent_close"}


def test_the_suite_is_whole() -> None:
    """36 tests; those that go another way are known, and each says why."""
    names = unittest.defaultTestLoader.getTestCaseNames(TestCompliance)
    own = {name for name in names if name in vars(TestCompliance)}
    assert len(names) == 36 and own == {f"test_{name}" for name in OWN_WAY}
    for name in own:
        assert (getattr(TestCompliance, name).__doc__ or "").startswith('Under "'), name


# --- what the suite does not ask --------------------------------------------------------------------------------------


@pytest.fixture
def connection() -> Iterator[dpsql.Connection]:
    with data_of(RANDHIE).connection() as opened:
        yield opened


def code(action: object, *arguments: object) -> str:
    with pytest.raises(Error) as raised:
        action(*arguments)  # type: ignore[operator]
    assert raised.value.__cause__ is None and raised.value.__context__ is None
    return raised.value.code


@pytest.mark.parametrize(
    ("sql", "sqltype", "group"),
    [
        ("'a'", "VARCHAR", dpsql.STRING),
        ("'a'::BLOB", "BLOB", dpsql.BINARY),
        ("1", "INTEGER", dpsql.NUMBER),
        ("1::BIGINT", "BIGINT", dpsql.NUMBER),
        ("1::HUGEINT", "HUGEINT", dpsql.NUMBER),
        ("1.5::DECIMAL(18,3)", "DECIMAL(18,3)", dpsql.NUMBER),
        ("1e0", "DOUBLE", dpsql.NUMBER),
        ("true", "BOOLEAN", dpsql.NUMBER),
        ("DATE '2020-01-01'", "DATE", dpsql.DATETIME),
        ("TIME '10:00'", "TIME", dpsql.DATETIME),
        ("TIMESTAMP '2020-01-01 10:00'", "TIMESTAMP", dpsql.DATETIME),
        ("INTERVAL 3 DAY", "INTERVAL", dpsql.DATETIME),
    ],
)
def test_type_codes_are_sql_types_and_equal_their_type_object(
    connection: dpsql.Connection, sql: str, sqltype: str, group: object
) -> None:
    (column,) = connection.execute(f"SELECT {sql} AS x").description or []
    assert (column[0], str(column[1]), len(column)) == ("x", sqltype, 7)
    groups = [dpsql.STRING, dpsql.BINARY, dpsql.NUMBER, dpsql.DATETIME, dpsql.ROWID]
    assert [one for one in groups if column[1] == one] == [group]
    assert [one for one in groups if one != column[1]] == [one for one in groups if one is not group]
    assert column[4:6] == ((18, 3) if sqltype.startswith("DECIMAL") else (None, None))


def test_type_objects() -> None:
    assert repr(dpsql.NUMBER) == "dpsql.NUMBER"
    assert dpsql.NUMBER == dpsql.NUMBER and dpsql.NUMBER != dpsql.STRING and dpsql.NUMBER != 5
    assert "INTEGER[]" not in [dpsql.NUMBER, dpsql.STRING]
    with pytest.raises(TypeError):
        hash(dpsql.NUMBER)


def test_constructors() -> None:
    assert dpsql.Date(2002, 12, 25) == datetime.date(2002, 12, 25)
    assert dpsql.Time(13, 45, 30) == datetime.time(13, 45, 30)
    assert dpsql.Timestamp(2002, 12, 25, 13, 45, 30) == datetime.datetime(2002, 12, 25, 13, 45, 30)
    ticks = time.mktime((2002, 12, 25, 13, 45, 30, 0, 0, -1))
    assert dpsql.DateFromTicks(ticks) == dpsql.Date(2002, 12, 25)
    assert dpsql.TimeFromTicks(ticks) == dpsql.Time(13, 45, 30)
    assert dpsql.TimestampFromTicks(ticks) == dpsql.Timestamp(2002, 12, 25, 13, 45, 30)
    assert dpsql.Binary(b"a") == b"a"


@pytest.mark.parametrize("sql", [SETTING, "RESET dp_epsilon"])
def test_settings_have_no_result(connection: dpsql.Connection, sql: str) -> None:
    cursor = connection.execute("SELECT 1")
    assert (cursor.rowcount, cursor.rownumber) == (1, 0)
    cursor.execute(sql)
    assert (cursor.description, cursor.rowcount, cursor.rownumber, cursor.plan) == (None, -1, None, None)
    for fetch in (cursor.fetchone, cursor.fetchmany, cursor.fetchall, cursor.fetch_df, cursor.__next__):
        assert code(fetch) == "DPSQL-802"
    assert cursor.privacy.epsilon == 0 and cursor.accuracy == [] and cursor._repr_html_() is None


@pytest.mark.parametrize(
    ("sql", "first"),
    [
        ("SHOW TABLES", "name"),
        ("SHOW BUDGET", "holder"),
        ("DESCRIBE person", "column_name"),
        ("EXPLAIN SELECT 1", "plan"),
    ],
)
def test_what_is_shown_is_a_result(connection: dpsql.Connection, sql: str, first: str) -> None:
    cursor = connection.execute(sql)
    description = cursor.description
    assert description is not None and description[0][:2] == (first, "VARCHAR")
    assert cursor.rowcount == len(cursor.fetchall()) > 0 and cursor.privacy.epsilon == 0
    assert cursor.plan


def test_nothing_is_fetched_before_execute(connection: dpsql.Connection) -> None:
    cursor = connection.cursor()
    for fetch in (cursor.fetchone, cursor.fetchmany, cursor.fetchall, cursor.fetch_arrow_table, cursor.__next__):
        assert code(fetch) == "DPSQL-802"
    assert (cursor.description, cursor.rowcount, cursor.rownumber, cursor.plan) == (None, -1, None, None)
    assert cursor.connection is connection and cursor.lastrowid is None and cursor.messages == []


def test_a_refusal_leaves_no_result_behind(connection: dpsql.Connection) -> None:
    cursor = connection.execute("SELECT 1")
    assert code(cursor.execute, "SELECT * FROM person") == "DPSQL-301"
    assert (cursor.description, cursor.rowcount) == (None, -1) and code(cursor.fetchall) == "DPSQL-802"


def test_iterating_fetching_and_scrolling(connection: dpsql.Connection) -> None:
    cursor = connection.execute("SELECT plan FROM plan ORDER BY plan LIMIT 6")
    assert iter(cursor) is cursor and next(cursor) == (1,) and cursor.rownumber == 1
    assert [row[0] for row in cursor] == [2, 3, 4, 5, 6]
    with pytest.raises(StopIteration):
        next(cursor)
    cursor.scroll(-2)
    assert cursor.fetchall() == [(5,), (6,)]
    cursor.scroll(1, mode="absolute")
    cursor.arraysize = 2
    assert connection.cursor().arraysize == 1
    assert cursor.fetchmany() == [(2,), (3,)] and cursor.fetchmany(0) == [] and cursor.fetchone() == (4,)
    for wrong in (7, -1):
        with pytest.raises(IndexError):
            cursor.scroll(wrong, "absolute")
    assert code(cursor.scroll, 1, "sideways") == "DPSQL-802"
    assert code(cursor.fetchmany, -1) == "DPSQL-802"


def test_executemany(connection: dpsql.Connection) -> None:
    cursor = connection.cursor()
    for sql in ("SELECT COUNT(*) FROM person", "SHOW TABLES", "EXPLAIN SELECT 1", "/* SET */ SELECT 1", "VALUES (1)"):
        assert code(cursor.executemany, sql, []) == "DPSQL-802"
    assert connection.executemany("VALUES (?)", [[1], [2]]).fetchall() == [(1,), (2,)]
    assert code(connection.executemany, "INSERT INTO plan VALUES (1)", [()]) == "DPSQL-103"
    assert code(cursor.executemany, SETTING, ["a"]) == "DPSQL-802"
    assert code(cursor.executemany, 5, [()]) == "DPSQL-802"
    assert connection.execute("SELECT 1").privacy.remaining == 4
    done = connection.executemany("/* twice */ SET dp_epsilon = 0.2", iter([(), ()]))
    assert done.description is None
    assert connection.execute("SELECT COUNT(*) FROM person").privacy.epsilon == Fraction(1, 5)


def test_commit_and_rollback_do_nothing(connection: dpsql.Connection) -> None:
    cursor = connection.execute("SELECT COUNT(*) FROM person")
    before = connection.execute("SHOW BUDGET").fetchall()
    connection.rollback()
    connection.commit()
    assert connection.execute("SHOW BUDGET").fetchall() == before
    assert cursor.fetchone() is not None
    assert connection.execute("SELECT COUNT(*) FROM person").privacy.cached


def test_everything_raises_after_close(connection: dpsql.Connection) -> None:
    cursor, other = connection.execute("SELECT 1"), connection.execute("SELECT 1")
    cursor.close()
    cursor.close()

    def read(one: dpsql.Cursor, name: str) -> object:
        return getattr(one, name)

    def everything(one: dpsql.Cursor) -> None:
        for fetch in (one.fetchone, one.fetchmany, one.fetchall, one.fetch_df, one.fetch_polars, one.fetch_arrow_table):
            assert code(fetch) == "DPSQL-802"
        for action, argument in (
            (one.execute, "SELECT 1"),
            (one.setinputsizes, [1]),
            (one.setoutputsize, 1),
            (one.scroll, 0),
        ):
            assert code(action, argument) == "DPSQL-802"
        for name in ("privacy", "accuracy", "certificates", "notes"):
            assert code(read, one, name) == "DPSQL-802"
        assert code(one.executemany, SETTING, [()]) == "DPSQL-802" and code(one.__next__) == "DPSQL-802"
        assert one._repr_html_() is None

    everything(cursor)
    connection.close()
    everything(other)
    for action in (connection.cursor, connection.commit, connection.rollback, connection.interrupt):
        assert code(action) == "DPSQL-802"
    assert code(connection.execute, "SELECT 1") == "DPSQL-802" and code(connection.explain, "SELECT 1") == "DPSQL-802"


def test_with_closes() -> None:
    with dpsql.connect(RANDHIE, ledger=":memory:") as connection:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
        assert repr(cursor) == "<dpsql.Cursor closed>"
    assert repr(connection) == "<dpsql.Connection closed>"


def test_a_plan_is_free_and_of_the_last_statement(connection: dpsql.Connection) -> None:
    sql = "SELECT site, COUNT(*) FROM person WHERE income > ? GROUP BY site"
    cursor = connection.execute(sql, [5000])
    assert cursor.plan == connection.explain(sql, [5000]) and "income > 5000" in (cursor.plan or "")
    assert connection.execute("SHOW TABLES").privacy.remaining == cursor.privacy.remaining
    connection.execute("SET dp_epsilon = 0.2")
    assert cursor.plan is None, "it would be the plan of another price"
    assert "epsilon 0.2" in (connection.execute("SELECT COUNT(*) FROM person").plan or "")


def test_an_interrupt_from_another_thread(connection: dpsql.Connection) -> None:
    """A statement that would take minutes ends with 703, and the connection can be used again."""
    slow = "SELECT COUNT(*) FROM " + ", ".join(f"plan AS p{i}" for i in range(9))
    done = threading.Event()

    def interrupting() -> None:
        while not done.wait(0.3):
            connection.interrupt()

    thread = threading.Thread(target=interrupting)
    thread.start()
    try:
        assert code(connection.execute, slow) == "DPSQL-703"
    finally:
        done.set()
        thread.join()
    assert connection.execute("SELECT 1").fetchone() == (1,)


def test_warnings_of_the_guard_are_messages(tmp_path: Path) -> None:
    for file in RANDHIE.parent.glob("*.parquet"):
        shutil.copy(file, tmp_path)
    text = RANDHIE.read_text(encoding="utf-8").replace('mode = "block"', 'mode = "warn"')
    (tmp_path / "schema.toml").write_text(text, encoding="utf-8")
    with dpsql.connect(tmp_path / "schema.toml", ledger=":memory:") as connection:
        cursor = connection.execute("SELECT COUNT(*) FROM person WHERE person_id = 5")
        assert [(kind, str(value)) for kind, value in cursor.messages] == [
            (dpsql.Warning, note) for note in cursor.notes
        ]
        assert cursor.messages
        assert cursor.execute("SELECT 1").messages == []
