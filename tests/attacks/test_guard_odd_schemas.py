"""Sample units of schemas that are unusual: keys of narrow types, references in any order, values at the ends of types."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import duckdb
import pytest

from dpsql.accounting.ledger import Ledger
from dpsql.core.errors import Error
from dpsql.guard.guarding import Guarding
from dpsql.schema.toml import read_schema
from dpsql.session.opening import ledger_identity, open_session
from dpsql.session.session import Session
from dpsql.session.sizing import buy_sizes
from tests.support.noise import ZeroNoise

HEAD = """
[dataset]
name = "odd"
source = "."
[privacy]
unit = "people.id"
epsilon = 400.0
delta = 1e-5
units = {units}
query = {{ epsilon = 1.0, delta = 1e-9 }}
caps = {{ epsilon = 10.0, delta = 1e-8 }}
[tables.people]
source = "people.parquet"
key = ["id"]
[tables.people.columns]
id = {{ type = "{key}", role = "identifier" }}
{columns}
"""
PAIR = [f"/* dpsql: epsilon=8 */ SELECT COUNT(*) FROM people WHERE cell > {cell}" for cell in (50_000, 50_040)]
CELLS = 'x = { type = "BIGINT", bounds = [0, 99] }\ncell = { type = "BIGINT", bounds = [0, 100000] }'
CHILD = """
[tables.tests]
source = "tests.parquet"
key = ["tid"]
max_rows_per_unit = 5
references = { id = "people.id", aid = "stay.aid" }
unit_path = ["id"]
[tables.tests.columns]
tid = { type = "SMALLINT", role = "identifier" }
id = { type = "BIGINT", role = "identifier" }
aid = { type = "BIGINT", role = "identifier" }
day = { type = "DATE" }
cost = { type = "DOUBLE", bounds = [0, 300] }
[tables.stay]
source = "stay.parquet"
key = ["aid"]
max_rows_per_unit = 5
references = { id = "people.id" }
[tables.stay.columns]
aid = { type = "BIGINT", role = "identifier" }
id = { type = "BIGINT", role = "identifier" }
[tables.calendar]
source = "calendar.parquet"
public = true
key = ["day"]
"""
DATA = {
    "people": "SELECT {id} AS id, range AS x, range AS cell, DATE '2020-01-01' + CAST(range AS INTEGER) AS born FROM range(100)",
    "tests": "SELECT range AS tid, range % 100 AS id, range % 90 AS aid, DATE '2020-01-01' + CAST(range % 9 AS INTEGER) AS day, "
    "range % 300 AS cost FROM range(400)",
    "stay": "SELECT range AS aid, range % 100 AS id FROM range(90)",
    "calendar": "SELECT DATE '2020-01-01' + CAST(range AS INTEGER) AS day FROM range(9)",
}


def opened(
    folder: Path, key: str = "BIGINT", columns: str = "", more: str = "", unit: str = "range", units: int = 5_000
) -> Session:
    with duckdb.connect() as plain:
        for name, query in DATA.items():
            plain.execute(f"COPY ({query.format(id=unit)}) TO '{folder / name}.parquet' (FORMAT parquet)")
    path = folder / "schema.toml"
    path.write_text(HEAD.format(key=key, columns=columns, units=units) + more)
    return open_session(path, None, folder / "ledger", ZeroNoise())


@pytest.mark.parametrize(
    ("key", "unit"),
    [
        ("TINYINT", "range"),
        ("DECIMAL(4,0)", "range"),
        ("SMALLINT", "range"),
        ("VARCHAR", "CAST(range AS VARCHAR)"),
        ("DATE", "DATE '2020-01-01' + CAST(range AS INTEGER)"),
    ],
)
def test_a_unit_of_any_type(tmp_path: Path, key: str, unit: str) -> None:
    with closing(opened(tmp_path, key, 'x = { type = "BIGINT", bounds = [0, 99] }', unit=unit, units=120)) as session:
        assert session.execute("SELECT COUNT(*) FROM people").rows == [(100,)]
        assert session.execute("SELECT COUNT(DISTINCT id) FROM people WHERE x < 50").rows == [(50,)]


def test_references_in_any_order_and_to_a_calendar(tmp_path: Path) -> None:
    more = CHILD.replace('aid = "stay.aid" }', 'aid = "stay.aid", day = "calendar.day" }')
    with closing(opened(tmp_path, more=more)) as session:
        assert session.execute("SELECT COUNT(*) FROM tests").rows == [(400,)]
        assert session.execute("SELECT COUNT(*) FROM tests JOIN calendar USING (day)").rows == [(400,)]


@pytest.mark.parametrize(
    "column",
    [
        'x = { type = "BIGINT", domain = [9223372036854775807, 1] }',
        'x = { type = "BIGINT", bounds = [0, 9223372036854775807], usual = { 9223372036854775807 = 0.1 } }',
        'x = { type = "DECIMAL(6,2)", domain = [0.5, 1.25], usual = { "0.5" = 0.9 } }',
        'born = { type = "DATE", bounds = [1990-01-01, 9999-12-31], usual = { 2020-01-01 = 0.5 } }',
        'cell = { type = "BIGINT", bounds = [0, 99] }',
    ],
)
@pytest.mark.few(2)
def test_values_at_the_ends_of_types(tmp_path: Path, column: str) -> None:
    with closing(opened(tmp_path, columns=column)) as session:
        assert session.execute("SELECT COUNT(*) FROM people").rows == [(100,)]
    schema = read_schema(tmp_path / "schema.toml")
    sizing = buy_sizes(schema, Ledger.open(tmp_path / "ledger", ledger_identity(schema)), noise=ZeroNoise())
    assert len(sizing.columns) == 1 and not sizing.left and str(sizing)


def test_a_public_table_beside_a_release_is_no_list_of_its_groups(tmp_path: Path) -> None:
    """Its values are nobody's, as declared."""
    more = CHILD.replace(
        'day = { type = "DATE" }\ncost', 'day = { type = "DATE", bounds = [1990-01-01, 1999-12-31] }\ncost'
    )
    grouped = "SELECT day, COUNT(*) AS n FROM tests GROUP BY day"
    with closing(opened(tmp_path, more=more)) as session, pytest.raises(Error, match="DPSQL-602"):
        session.execute(
            f"SELECT COUNT(*) FROM tests WHERE day NOT IN (SELECT c.day FROM calendar AS c, ({grouped}) AS t)"
        )


def test_columns_drawn_one_after_the_other_have_any_names(tmp_path: Path) -> None:
    names = ("row", "unit", "v0", "n0", "stored", "dpsql_v0")
    columns = "\n".join(f'{name} = {{ type = "BIGINT", bounds = [0, 99], nullable = true }}' for name in names)
    shown = ", ".join(f"range AS {name}" for name in names)
    with closing(opened(tmp_path, columns='x = { type = "BIGINT", bounds = [0, 99] }')) as session:
        assert session.execute("SELECT COUNT(*) FROM people").rows == [(100,)]
    with duckdb.connect() as plain:
        plain.execute(f"COPY (SELECT range AS id, {shown} FROM range(100)) TO '{tmp_path}/people.parquet'")
    (tmp_path / "schema.toml").write_text(HEAD.format(key="BIGINT", columns=columns, units=5_000))
    with closing(open_session(tmp_path / "schema.toml", None, ":memory:", ZeroNoise())) as session:
        for name in names:
            assert session.execute(f'SELECT COUNT(*) FROM people WHERE "{name}" < 50').rows == [(50,)]


def test_a_part_that_changes_nobody_changes_nobody_in_groups(tmp_path: Path) -> None:
    """Of units with several rows in several groups too: sums of hashes are exact."""
    inner = "(SELECT id, kind, COUNT(*) AS c FROM (SELECT id, cost, CASE WHEN cost < 150 THEN 1 ELSE 2 END AS kind FROM tests) AS t "
    inner += "WHERE cost <> 158.08 GROUP BY id, kind)"
    with closing(opened(tmp_path, more=CHILD)) as session:
        for sql in (f"SELECT COUNT(*) FROM {inner}", f"SELECT kind, COUNT(*) FROM {inner} GROUP BY kind"):
            with pytest.raises(Error, match=r"cost <> 158\.08 sets fewer than 20 people apart"):
                session.execute(sql)


def test_a_history_whose_reading_was_interrupted_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(opened(tmp_path, columns=CELLS)) as session:
        session.execute(PAIR[0])
    with closing(open_session(tmp_path / "schema.toml", None, tmp_path / "ledger", ZeroNoise())) as session:
        with monkeypatch.context() as patch:
            known = Guarding._is_own
            patch.setattr(Guarding, "_is_own", lambda self, who: (_ for _ in ()).throw(KeyboardInterrupt()))
            with pytest.raises(Error, match="DPSQL-703"):
                session.execute(PAIR[1])
        assert Guarding._is_own is known
        with pytest.raises(Error, match="DPSQL-602"):
            session.execute(PAIR[1])


def test_others_that_evaluate_anew_take_no_history(tmp_path: Path) -> None:
    """One session has the sizes of its opening; another, opened later, writes down whom statements are about by the new ones."""
    with closing(opened(tmp_path, columns=CELLS)) as session:
        session.execute(PAIR[0])
        schema = read_schema(tmp_path / "schema.toml")
        buy_sizes(schema, Ledger.open(tmp_path / "ledger", ledger_identity(schema)), noise=ZeroNoise())
        with closing(open_session(schema, None, tmp_path / "ledger", ZeroNoise())) as other:
            other.execute("SELECT COUNT(*) FROM people")
        with pytest.raises(Error, match="DPSQL-602"):
            session.execute(PAIR[1])


UNDECLARED = (
    'x = { type = "BIGINT", nullable = true }\nborn = { type = "DATE" }\ncell = { type = "BIGINT", bounds = [0, 100] }'
)
ONE = "NOT (x = 5 AND born = DATE '2020-01-06')"
LIST = "(SELECT x AS k, COUNT(*) AS n, MIN(cell) AS low, MIN(123456) AS flag FROM people GROUP BY x {more}) AS t"


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT x, born, COUNT(*) FROM people WHERE {ONE} GROUP BY x, born",
        f"SELECT born, x, COUNT(*) FROM (SELECT * FROM people WHERE {ONE}) AS p GROUP BY born, x",
        f"SELECT COUNT(*) FROM people WHERE x IN (SELECT k FROM {LIST} WHERE n > 20 AND low = 3)".format(more=""),
        f"SELECT COUNT(*) FROM people WHERE x IN (SELECT k FROM {LIST})".format(more="ORDER BY n DESC LIMIT 5"),
        f"SELECT COUNT(*) FROM people AS p WHERE EXISTS (SELECT 1 FROM {LIST} WHERE k = x OR (k IS NULL AND x IS NULL))".format(
            more="ORDER BY low LIMIT 5"
        ),
        f"SELECT NOT (flag IS NULL) AS f, COUNT(*) FROM people LEFT JOIN {LIST} ON k = x GROUP BY 1".format(
            more="HAVING COUNT(*) = 30"
        ),
    ],
)
def test_whole_groups_may_be_chosen(tmp_path: Path, sql: str) -> None:
    """Those of the answer itself by its keys; released ones by what was released of them."""
    with closing(opened(tmp_path, columns=UNDECLARED)) as session:
        session.execute(sql)


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT x, COUNT(*) FROM people WHERE {ONE} GROUP BY x",
        f"SELECT x, born, COUNT(*) FILTER (WHERE {ONE}) FROM people GROUP BY x, born",
        f"SELECT x, born, SUM(CASE WHEN {ONE} THEN 1 ELSE 0 END) FROM people GROUP BY x, born",
        f"SELECT x, born, COUNT(*) FROM people WHERE {ONE} OR cell = 7 GROUP BY x, born",
        f"SELECT COUNT(*) FROM people WHERE x IN (SELECT k FROM {LIST} WHERE k <> 123456)".format(more=""),
        f"SELECT COUNT(*) FROM people WHERE x IN (SELECT k FROM {LIST} ORDER BY ABS(k - 123456) DESC LIMIT 60)".format(
            more=""
        ),
        f"SELECT COUNT(*) FROM people WHERE x NOT IN (SELECT n FROM {LIST})".format(more=""),
        f"SELECT COUNT(*) FROM people WHERE x NOT IN (SELECT flag FROM {LIST})".format(more=""),
        f"SELECT COUNT(*) FROM people WHERE x IN (SELECT k FROM (SELECT k, CASE WHEN k = 123456 THEN 0 ELSE n END m FROM {LIST}) u "
        "ORDER BY m DESC LIMIT 60)".format(more=""),
    ],
)
@pytest.mark.few(4)
def test_no_constant_chooses_a_group(tmp_path: Path, sql: str) -> None:
    with closing(opened(tmp_path, columns=UNDECLARED)) as session, pytest.raises(Error, match=r"DPSQL-60[12]"):
        session.execute(sql)


@pytest.mark.parametrize(
    "rest",
    [
        f"people LEFT JOIN {LIST} ON k = x WHERE k IS NULL",
        f"people WHERE NOT EXISTS (SELECT 1 FROM {LIST} WHERE k = x)",
        f"people AS p WHERE NOT EXISTS (SELECT 1 FROM {LIST} WHERE k = p.x OR (k IS NULL AND p.x IS NULL))",
    ],
)
def test_who_is_in_no_released_group_is_shown_where_they_are_many(tmp_path: Path, rest: str) -> None:
    """No sample unit is in none: the noisy number of people decides."""
    with closing(opened(tmp_path, columns=UNDECLARED)) as session, duckdb.connect() as plain:
        rows = "SELECT range AS id, CASE WHEN range < 3 THEN 77 ELSE range % 3 END AS x, range % 100 AS cell, DATE '2020-01-01' AS born"
        plain.execute(f"COPY ({rows} FROM range(5000)) TO '{tmp_path}/people.parquet' (FORMAT parquet)")
    with closing(open_session(tmp_path / "schema.toml", None, ":memory:", ZeroNoise())) as session:
        try:
            answer = session.execute(f"SELECT COUNT(*), SUM(cell) FROM {rest.format(more='')}")
        except Error as refused:
            assert refused.code == "DPSQL-602"
        else:
            assert answer.rows == [(None, None)]
