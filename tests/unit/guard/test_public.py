"""A part that decides about nobody because of what a public table holds is let through; one that any other row may tell of is not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import duckdb
import pytest

from dpsql.core.errors import Error
from dpsql.guard import void
from dpsql.session.session import Session
from tests.support.opened import Data

SCHEMA = """
[dataset]
name = "shop"
source = "shop.duckdb"
[privacy]
unit = "person.p_id"
epsilon = 1e9
delta = 0.1
units = 2000
query = { epsilon = 1000.0, delta = 1e-6 }
caps = { epsilon = 1e6, delta = 0.01 }
[tables.person]
key = ["p_id"]
references = { item = "item.i_id", note = "note.n_id" }
[tables.person.columns]
p_id = { type = "BIGINT" }
item = { type = "BIGINT" }
note = { type = "BIGINT", nullable = true }
age = { type = "INTEGER", bounds = [0, 99] }
[tables.item]
public = true
key = ["i_id"]
[tables.note]
public = true
key = ["n_id"]
"""
DATA = """
CREATE TABLE item AS SELECT range AS i_id, ['book', 'map', 'song'][(range % 3 + 1)::INTEGER] AS kind, 'brand ' || (range % 6) AS brand
    FROM range(18);
CREATE TABLE note AS SELECT range AS n_id, 'note ' || range AS told FROM range(3);
CREATE TABLE person AS SELECT range AS p_id, range % 18 AS item, range % 3 AS note, (range * 7 % 100)::INTEGER AS age FROM range(2000);
"""
SONGS = "(kind = 'song' AND UPPER(brand) = 'BRAND 1')"
"""No item is a song of that brand, though some are songs and some are of the brand."""
OF_NOBODY = [
    f"SELECT COUNT(*) FROM person, item WHERE item = i_id AND ({SONGS} OR kind = 'book')",
    f"SELECT COUNT(*) FROM person, item WHERE item = i_id AND ({SONGS} OR age < 50)",
    f"SELECT SUM(CASE WHEN {SONGS} THEN 0 ELSE age END) FROM person JOIN item ON item = i_id",
    f"SELECT COUNT(*) FILTER (WHERE kind = 'map' OR {SONGS}) FROM person JOIN item ON item = i_id",
    "SELECT COUNT(*) FROM person, item WHERE item = i_id AND (age < 50 OR "
    "(kind = 'song' AND brand = 'brand 1' AND CAST(age AS VARCHAR) = '61'))",
    "SELECT SUM(CASE WHEN kind = 'song' AND brand = 'brand 1' AND CAST(age AS VARCHAR) = '61' THEN 0 ELSE age END) "
    "FROM person JOIN item ON item = i_id",
    f"SELECT kind = 'map' OR {SONGS}, COUNT(*) FROM person JOIN item ON item = i_id GROUP BY 1",
]
MISSING = """SELECT COUNT(*) FROM person LEFT JOIN note ON note = n_id
    WHERE age < 50 OR (COALESCE(told, 'none') = 'none' AND CAST(age AS VARCHAR) = '31.5')"""
"""The first of the two is met by people without a note."""
OTHERS = [
    "SELECT COUNT(*) FROM person JOIN item ON item = i_id WHERE NOT (CAST(age AS VARCHAR) = '31.5' AND brand = 'brand 1')",
    "SELECT COUNT(*) FROM person JOIN item ON item = i_id WHERE brand = 'brand 1' OR CAST(age AS VARCHAR) <> '31.5'",
    "SELECT COUNT(*) FROM person JOIN item ON item = i_id WHERE (kind = 'song' AND CAST(age AS VARCHAR) = '31.5') OR brand = 'brand 1'",
    MISSING,
    "SELECT COUNT(*) FROM person, (SELECT a.i_id, a.kind, b.brand FROM item a JOIN item b ON a.i_id = b.i_id) AS item "
    "WHERE item = i_id AND ((kind = 'song' AND UPPER(item.brand) = 'BRAND 1') OR age < 50)",
]
"""The sample has nobody of whom they are, and public tables do not tell that nobody is there."""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Data]:
    folder = tmp_path_factory.mktemp("shop")
    (folder / "shop.toml").write_text(SCHEMA)
    with duckdb.connect(str(folder / "shop.duckdb")) as connection:
        connection.execute(DATA)
    with closing(Data(folder / "shop.toml")) as found:
        yield found


@pytest.fixture
def session(data: Data) -> Iterator[Session]:
    with data.without_noise() as found:
        yield found


def plain(sql: str) -> list[tuple[object, ...]]:
    with duckdb.connect() as connection:
        connection.execute(DATA)
        return connection.execute(sql).fetchall()


def refused(session: Session, sql: str) -> bool:
    try:
        session.execute(sql)
    except Error as problem:
        assert problem.code == "DPSQL-602", problem
        return True
    return False


@pytest.mark.parametrize("sql", OF_NOBODY)
@pytest.mark.few(7)
def test_what_no_public_row_meets_leaves_out_nobody(
    session: Session, sql: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(void.Proofs, "is_void_in_public", lambda *told: False)
        assert refused(session, sql), "nothing else lets it through"
    assert sorted(map(repr, session.execute(sql).rows)) == sorted(map(repr, plain(sql)))


@pytest.mark.parametrize("sql", OTHERS)
def test_what_other_rows_may_tell_is_refused(session: Session, sql: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert refused(session, sql)
    monkeypatch.setattr(void.Proofs, "is_void_in_public", lambda *told: True)
    assert not refused(session, sql), "what is taken for void without a look must be noticed"


def test_a_row_that_an_outer_join_does_not_find_is_tried(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(void, "_with_none", lambda rows: rows)
    assert not refused(session, MISSING), "were it forgotten, no note would be taken for none"
