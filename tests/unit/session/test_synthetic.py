"""Synthetic tables: drawn from what a cube has released, free, kept by name, and read like any public table."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from dpsql.accounting.synthetic import read, written
from dpsql.core.errors import Error
from dpsql.session import synthetic
from dpsql.session.opening import open_session
from dpsql.session.session import Session
from tests.support import clinic
from tests.support.noise import SeededNoise, ZeroNoise
from tests.support.opened import clinic_data

PEOPLE: list[clinic.Row] = [
    (i, 1 + i % 3, (True, False, None)[i % 7 % 3], float(i % 90), 60.0 + i % 40, 20 + i % 60, None, "abc"[i % 2],
     None, "1995-01-01", None)
    for i in range(3000)
]  # fmt: skip
DATA: clinic.Database = {"patient": PEOPLE, "visit": [], "item": [], "drug": []}
TEXT = clinic.schema_text().replace(
    "query = { epsilon = 1.0, delta = 1e-3 }", "query = { epsilon = 0.1, delta = 1e-6 }"
)
CUBE = """CREATE PRIVATE CUBE pairs OPTIONS (epsilon = 1, delta = 1e-6, ways = 2) AS
SELECT site, female, city, COUNT(*) FROM patient GROUP BY CUBE (site, female, city)"""
TABLE = "CREATE SYNTHETIC TABLE people AS SELECT * FROM pairs"


@pytest.fixture
def session() -> Iterator[Session]:
    with closing(clinic_data(TEXT, DATA).session(ZeroNoise())) as opened:
        opened.execute(CUBE)
        yield opened


def test_a_table_is_free_and_has_the_cubes_tables(session: Session) -> None:
    before = session._world.ledger.spent()
    answer = session.execute(TABLE)
    ((name, rows, columns, noise, fit),) = answer.rows
    assert (name, rows, columns) == ("people", 3000, 3)
    assert isinstance(noise, float) and isinstance(fit, float) and fit < 0.002 < noise < 0.1
    assert not answer.releases and not answer.receipt.loss.rho and session._world.ledger.spent() == before
    assert session._world.ledger.verify() == 1
    for keys in ("site, female", "female, city", "site, city"):
        asked = f"SELECT {keys}, COUNT(*) AS n FROM {{}} GROUP BY {keys}"
        drawn = {row[:2]: row[2] for row in session.execute(asked.format("synthetic.people")).rows}
        for row in session.execute(asked.format("patient")).rows:
            assert abs(drawn.get(row[:2], 0) - row[2]) <= 10


def test_it_is_read_like_any_public_table_and_says_what_it_is(session: Session) -> None:
    session.execute(TABLE)
    answer = session.execute(
        "SELECT site, COUNT(*) AS n, COUNT(female) FROM synthetic.People GROUP BY ALL ORDER BY n DESC LIMIT 2"
    )
    assert len(answer.rows) == 2 and not answer.receipt.loss.rho and not answer.releases
    assert "synthetic: these rows are nobody's" in answer.remarks[0]
    assert session.execute("WITH t AS (SELECT * FROM synthetic.people) SELECT COUNT(*) FROM t").rows == [(3000,)]
    assert [row[:2] for row in session.execute("DESCRIBE synthetic.people").rows] == [
        ("site", "INTEGER"), ("female", "BOOLEAN"), ("city", "VARCHAR")
    ]  # fmt: skip
    told = session.explain("SELECT COUNT(*) FROM synthetic.people")
    assert told.startswith("free") and "note: synthetic" in told
    assert session.execute("SELECT name, cube, columns, rows, current FROM dpsql.synthetic_tables").rows == [
        ("people", "pairs", "site, female, city", 3000, True)
    ]
    assert len(session.execute("SHOW SYNTHETIC TABLES").rows) == 1


def test_the_same_statement_gives_the_same_rows(session: Session) -> None:
    asked = "SELECT * FROM synthetic.people"
    session.execute(TABLE)
    first = list(session.execute(asked).rows)
    session.execute(TABLE)
    session.execute("DROP SYNTHETIC TABLE people")
    session.execute(TABLE)
    assert list(session.execute(asked).rows) == first
    session.execute("DROP SYNTHETIC TABLE people")
    session.execute("CREATE SYNTHETIC TABLE people OPTIONS (seed = 5) AS SELECT * FROM pairs")
    assert list(session.execute(asked).rows) != first
    session.execute("DROP SYNTHETIC TABLE people")
    session.execute("CREATE SYNTHETIC TABLE people OPTIONS (rows = 10) AS SELECT city, Site FROM pairs")
    other = session.execute(asked)
    assert [name for name, _ in other.columns] == ["city", "site"] and len(other.rows) == 10


def test_it_outlives_its_session_and_its_cube(tmp_path: Path) -> None:
    (tmp_path / "schema.toml").write_text(TEXT)
    clinic.write(tmp_path, DATA)
    schema, ledger, asked = tmp_path / "schema.toml", tmp_path / "ledger", "SELECT * FROM synthetic.people"
    with closing(open_session(schema, None, ledger, SeededNoise(3))) as first:
        first.execute(CUBE)
        first.execute(TABLE)
        rows = list(first.execute(asked).rows)
        first.execute("DROP CUBE pairs")
    with closing(open_session(schema, None, ledger, SeededNoise(4))) as second:
        assert list(second.execute(asked).rows) == rows
        assert second.execute("SELECT current FROM dpsql.synthetic_tables").rows == [(None,)]
        assert second.execute("DROP SYNTHETIC TABLE people").rows == [("people",)]
        with pytest.raises(Error, match="DPSQL-105: there is no synthetic table people; SHOW SYNTHETIC TABLES"):
            second.execute(asked)


REFUSED = [
    ("CREATE SYNTHETIC TABLE", "DPSQL-101: the name"),
    ("CREATE SYNTHETIC TABLE t", "DPSQL-101: AS SELECT keys FROM a cube is missing"),
    ("CREATE SYNTHETIC TABLE t OPTIONS (rows = 5 AS SELECT * FROM pairs", "DPSQL-101: OPTIONS"),
    (
        "CREATE SYNTHETIC TABLE t OPTIONS (rows = 0) AS SELECT * FROM pairs",
        "DPSQL-104: rows must be a whole number from 1",
    ),
    (
        "CREATE SYNTHETIC TABLE t OPTIONS (seed = x) AS SELECT * FROM pairs",
        "DPSQL-104: seed must be a whole number from 0",
    ),
    (
        "CREATE SYNTHETIC TABLE t OPTIONS (epsilon = 1) AS SELECT * FROM pairs",
        "DPSQL-104: a synthetic table has no option",
    ),
    ("CREATE SYNTHETIC TABLE t AS SELECT FROM pairs", "DPSQL-101: the columns are missing"),
    ("CREATE SYNTHETIC TABLE t AS SELECT site + 1, city FROM pairs", "DPSQL-101: the columns are keys"),
    ("CREATE SYNTHETIC TABLE t AS SELECT * FROM pairs WHERE site = 1", "DPSQL-101: nothing stands behind"),
    ("CREATE SYNTHETIC TABLE t AS SELECT site FROM pairs", "DPSQL-104: a synthetic table has at least two"),
    ("CREATE SYNTHETIC TABLE t AS SELECT site, site FROM pairs", "DPSQL-104: a synthetic table has at least two"),
    ("CREATE SYNTHETIC TABLE t AS SELECT site, age FROM pairs", "DPSQL-105: 'age' is no key of the cube pairs"),
    ("CREATE SYNTHETIC TABLE t AS SELECT * FROM patient", "DPSQL-105: there is no cube patient"),
    (
        "CREATE SYNTHETIC TABLE people OPTIONS (rows = 5) AS SELECT * FROM pairs",
        "DPSQL-105: there is a synthetic table people",
    ),
    ("CREATE SYNTHETIC TABLE t AS SELECT * FROM alone", "DPSQL-104: rows are drawn from the groups by two keys"),
    (
        "/* dpsql: epsilon=1 */ CREATE SYNTHETIC TABLE t AS SELECT * FROM pairs",
        "DPSQL-104: a synthetic table has options of its",
    ),
    ("DROP SYNTHETIC TABLE", "DPSQL-101: the name"),
    ("DROP SYNTHETIC TABLE other", "DPSQL-105: there is no synthetic table other; the synthetic tables are people"),
    ("DROP SYNTHETIC TABLE people, other", "DPSQL-101: nothing stands behind"),
    ("EXPLAIN DROP SYNTHETIC TABLE people", "DPSQL-103"),
    ("SELECT * FROM synthetic.other", "DPSQL-105: there is no synthetic table other"),
    ("SELECT town FROM synthetic.people", "DPSQL-105: there is no column 'town' in synthetic.people"),
    (
        "SELECT COUNT(*) FROM synthetic.people JOIN patient USING (site)",
        "DPSQL-402: synthetic.people cannot stand in one",
    ),
    ("PIVOT synthetic.people ON site USING COUNT(*)", "DPSQL-402: PIVOT and UNPIVOT of synthetic.people"),
]


def test_what_is_refused_says_why(session: Session) -> None:
    session.execute(TABLE)
    session.execute(
        "CREATE PRIVATE CUBE alone OPTIONS (epsilon = 0.1, delta = 1e-6, ways = 1) AS SELECT site, city, COUNT(*) FROM patient "
        "GROUP BY CUBE (site, city)"
    )
    for sql, match in REFUSED:
        with pytest.raises(Error, match=match) as raised:
            session.execute(sql)
        assert raised.value.hint, sql
    assert session._world.ledger.verify() == 2


def test_rows_that_would_be_noise_are_refused() -> None:
    """Of 60 people, where noise moves more of a table than there is."""
    few: clinic.Database = {**DATA, "patient": PEOPLE[:60]}
    with closing(clinic_data(TEXT, few).session(ZeroNoise())) as opened:
        opened.execute(CUBE)
        with pytest.raises(
            Error, match=r"DPSQL-304: noise moves \d+% of the rows of the cube's tables by two keys, more than 20%"
        ):
            opened.execute(TABLE)


def test_rows_of_a_cube_whose_noise_could_tell_about_one_person_are_refused() -> None:
    """Rule 69: what is read off such a cube is compared with earlier answers, and nothing looks whom rows are compared with."""
    for mode in ("block", "warn", "off"):
        with closing(
            clinic_data(TEXT.replace('mode = "off"', f'mode = "{mode}"'), DATA).session(ZeroNoise())
        ) as opened:
            opened.execute(CUBE)
            if mode == "block":
                with pytest.raises(
                    Error, match="DPSQL-602: the noise of the cube pairs is narrower than the guard's readable"
                ):
                    opened.execute(TABLE)
                assert opened.execute("SHOW SYNTHETIC TABLES").rows == []
            else:
                assert ("narrower" in opened.execute(TABLE).notes[0]) == (mode == "warn")
    with closing(clinic_data(TEXT.replace('mode = "off"', 'mode = "block"'), DATA).session(ZeroNoise())) as opened:
        opened.execute(CUBE.replace("epsilon = 1,", "epsilon = 0.5,"))
        assert opened.execute(TABLE).rows


def test_an_earlier_version_of_the_data_is_said(tmp_path: Path) -> None:
    (tmp_path / "schema.toml").write_text(TEXT)
    clinic.write(tmp_path, DATA)
    schema, ledger = tmp_path / "schema.toml", tmp_path / "ledger"
    with closing(open_session(schema, None, ledger, SeededNoise(3))) as first:
        first.execute(CUBE)
    schema.write_text(TEXT.replace("domain = [1, 2, 3]", "domain = [1, 2]", 1))
    assert schema.read_text() != TEXT
    with (
        closing(open_session(schema, None, ledger, SeededNoise(3))) as second,
        pytest.raises(Error, match="write REFRESH CUBE"),
    ):
        second.execute(TABLE)


def test_another_analysts_table_is_not_dropped(session: Session) -> None:
    session.execute(TABLE)
    world = session._world
    world.analyst = type(world.analyst)("bob")
    with pytest.raises(Error, match="DPSQL-105: the synthetic table people was made by another analyst"):
        session.execute("DROP SYNTHETIC TABLE people")
    assert session.execute(TABLE).rows[0][0] == "people"


def test_there_is_an_end_to_free_tables(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(synthetic, "MOST_TABLES", 1)
    session.execute(TABLE)
    with pytest.raises(Error, match="DPSQL-304: you made 1 synthetic tables already"):
        session.execute(TABLE.replace("people", "others"))
    world = session._world
    world.analyst = type(world.analyst)("bob")
    assert session.execute(TABLE.replace("people", "others")).rows[0][0] == "others", "nobody takes them from others"


def test_a_table_is_kept_as_it_is(session: Session) -> None:
    session.execute(TABLE)
    (known,) = synthetic.KIND.names(session._world).all()
    again = read(written(known))
    assert again is not None and again.columns == known.columns and (again.codes == known.codes).all()
    assert None in again.columns[1].values
    for other in (
        "",
        "[]",
        written(known).replace('"rows"', "1"),
        written(known)[:-9] + '"]',
        written(known).replace("3000", "2999"),
    ):
        assert other == written(known) or read(other) is None


def test_nothing_but_released_numbers_decides_the_rows(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: the engine is gone once the cube is bought, so that a table that looked at data would fail."""
    session.execute(TABLE.replace("people", "before"))
    for name in ("exact", "owner_rows", "distinct"):
        monkeypatch.setattr(session._world.dataset.engine, name, _gone, raising=False)
    session.execute(TABLE)
    rows = [list(session.execute(f"SELECT * FROM synthetic.{name}").rows) for name in ("before", "people")]
    assert rows[0] == rows[1]
    with pytest.raises(Error, match="DPSQL-901"):
        session.execute("SELECT SUM(income) FROM patient")


def _gone(*_: object, **__: object) -> None:
    raise AssertionError("the data were asked")
