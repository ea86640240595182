"""Rule 45: which zero a person's value is never hangs on the rows beside it: a file may keep one sign for all that are equal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import duckdb
import pytest

from dpsql.engines.duckdb import sources
from dpsql.session.opening import open_session
from dpsql.session.session import Session
from tests.support.noise import ZeroNoise

DECLARED = """
[dataset]
name = "zeros"
source = "zeros.duckdb"
[privacy]
unit = "t.id"
epsilon = 100.0
delta = 1e-6
[guard]
mode = "off"
[tables.t]
key = ["id"]
[tables.t.columns]
id = { type = "BIGINT" }
x = { type = "%s", bounds = [-10, 10] }
"""
SHOWN = {
    "CAST(x AS VARCHAR) = '-0.0'": 0,
    "ATAN2(x, -1) < 0": 0,
    "x = 0": 8,
}
"""Conditions that tell one zero from the other, and one that does not; how many of eight rows meet them."""
ZEROS = "SELECT range AS id, CAST(CASE WHEN range < 4 THEN '-0.0' ELSE '0.0' END AS {0}) AS x FROM range(8)"
BESIDE = "SELECT 8, CAST(1.5 AS {0})"


@contextmanager
def opened(folder: Path, sqltype: str, rows: str) -> Iterator[Session]:
    folder.mkdir()
    (folder / "schema.toml").write_text(DECLARED % sqltype)
    connection = duckdb.connect(str(folder / "zeros.duckdb"))
    connection.execute(f"CREATE TABLE t AS {rows.format(sqltype)}")
    connection.close()
    with closing(open_session(folder / "schema.toml", None, ":memory:", noise=ZeroNoise())) as session:
        yield session


def counts(folder: Path, sqltype: str) -> Iterator[tuple[str, int, int]]:
    """The condition, and how many of the eight meet it without and with one more person, who does not."""
    with (
        opened(folder / "one", sqltype, ZEROS) as one,
        opened(folder / "other", sqltype, f"{ZEROS} UNION ALL {BESIDE}") as other,
    ):
        for condition in SHOWN:
            sql = f"SELECT COUNT(*) FROM t WHERE {condition}"
            yield condition, *(int(str(session.execute(sql).rows[0][0])) for session in (one, other))


@pytest.mark.parametrize("sqltype", ["FLOAT", "DOUBLE"])
def test_people_have_one_zero(tmp_path: Path, sqltype: str) -> None:
    assert list(counts(tmp_path, sqltype)) == [(condition, most, most) for condition, most in SHOWN.items()]


@pytest.mark.parametrize("sqltype", ["FLOAT", "DOUBLE"])
def test_a_sign_that_is_read_as_it_is_stored_shows(
    tmp_path: Path, sqltype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: what is stored is what is read."""
    monkeypatch.setattr(sources, "_one_zero", lambda value, sqltype: value)
    (_, one, _), *_ = counts(tmp_path, sqltype)
    assert one > 0


def test_elements_of_lists_have_one_zero(tmp_path: Path) -> None:
    declared = DECLARED.replace('type = "%s",', 'type = "DOUBLE[]", length = 3,')
    (tmp_path / "schema.toml").write_text(declared)
    connection = duckdb.connect(str(tmp_path / "zeros.duckdb"))
    connection.execute("CREATE TABLE t AS SELECT range AS id, ['-0.0'::DOUBLE, 1.5, NULL] AS x FROM range(8)").close()
    with closing(open_session(tmp_path / "schema.toml", None, ":memory:", noise=ZeroNoise())) as session:
        for condition, most in SHOWN.items():
            sql = f"SELECT COUNT(*) FROM (SELECT UNNEST(x) AS x FROM t) WHERE {condition}"
            assert session.execute(sql).rows[0] == (most,), condition
