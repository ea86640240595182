"""Results as Arrow, pandas and polars, and as notebooks show them."""

from __future__ import annotations

import datetime
import subprocess
import sys
import warnings
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pandas
import polars
import pyarrow
import pytest

import dpsql
from dpsql.clients.dbapi.frames import arrow_table, pandas_frame, polars_frame
from dpsql.clients.output.notebook import MOST_COLUMNS, MOST_ROWS, error_bar
from dpsql.core.errors import Error
from dpsql.plan.tables import Accuracy

RANDHIE = Path(__file__).parents[2] / "examples/randhie/schema.toml"
BY_SITE = "SELECT site, COUNT(*) AS n, AVG(income) AS income FROM person GROUP BY site ORDER BY site"
TYPES = {
    # text of a value: its Python value, and its type in Arrow, polars and pandas
    "true": (True, pyarrow.bool_(), polars.Boolean, "boolean"),
    "1::TINYINT": (1, pyarrow.int8(), polars.Int8, "Int8"),
    "1::SMALLINT": (1, pyarrow.int16(), polars.Int16, "Int16"),
    "1::INTEGER": (1, pyarrow.int32(), polars.Int32, "Int32"),
    "9007199254740993::BIGINT": (2**53 + 1, pyarrow.int64(), polars.Int64, "Int64"),
    "1::HUGEINT": (1, pyarrow.decimal128(38, 0), polars.Int128, "Int64"),
    "200::UTINYINT": (200, pyarrow.uint8(), polars.UInt8, "UInt8"),
    "18446744073709551615::UBIGINT": (2**64 - 1, pyarrow.uint64(), polars.UInt64, "UInt64"),
    "1.5::FLOAT": (1.5, pyarrow.float32(), polars.Float32, "float32"),
    "0.1::DOUBLE": (0.1, pyarrow.float64(), polars.Float64, "float64"),
    "1.50::DECIMAL(10,2)": (Decimal("1.50"), pyarrow.decimal128(10, 2), polars.Decimal(10, 2), "object"),
    "'é <b>'": ("é <b>", pyarrow.string(), polars.String, "string"),
    "'a'::BLOB": (b"a", pyarrow.binary(), polars.Binary, "object"),
    "DATE '2020-02-03'": (datetime.date(2020, 2, 3), pyarrow.date32(), polars.Date, "datetime64[s]"),
    "TIME '10:00'": (datetime.time(10), pyarrow.time64("us"), polars.Time, "object"),
    "TIMESTAMP '2020-02-03 04:05:06.7'": (
        datetime.datetime(2020, 2, 3, 4, 5, 6, 700_000),
        pyarrow.timestamp("us"),
        polars.Datetime("us"),
        "datetime64[us]",
    ),
    "INTERVAL 3 DAY": (
        datetime.timedelta(days=3),
        pyarrow.duration("us"),
        polars.Duration("us"),
        "timedelta64[us]",
    ),
}


@pytest.fixture(scope="module")
def connection() -> Iterator[dpsql.Connection]:
    with dpsql.connect(RANDHIE, ledger=":memory:") as opened:
        yield opened


def code(action: object, *arguments: object) -> str:
    with pytest.raises(Error) as raised:
        action(*arguments)  # type: ignore[operator]
    assert raised.value.__cause__ is None and raised.value.__context__ is None
    return raised.value.code


@pytest.mark.parametrize("text", TYPES)
def test_types_and_null_are_exact(connection: dpsql.Connection, text: str) -> None:
    value, arrow, frame, column = TYPES[text]
    cursor = connection.execute(f"SELECT {text} AS x UNION ALL SELECT NULL ORDER BY x NULLS LAST")
    table = cursor.fetch_arrow_table()
    assert table.schema == pyarrow.schema([("x", arrow)]) and table.to_pylist() == [{"x": value}, {"x": None}]
    cursor.scroll(0, "absolute")
    polar = cursor.fetch_polars()
    assert polar.schema == {"x": frame} and polar.rows() == [(value,), (None,)]
    cursor.scroll(0, "absolute")
    panda = cursor.fetch_df()
    assert panda["x"].dtype == column and list(panda["x"].isna()) == [False, True]
    assert panda["x"][0] == (pandas.Timestamp(value) if column == "datetime64[s]" else value)


def test_lists(connection: dpsql.Connection) -> None:
    cursor = connection.execute("SELECT quantile_cont(income, [0.25, 0.5]) AS q FROM person")
    ((expected,),) = cursor.fetchall()
    cursor.scroll(0, "absolute")
    table = cursor.fetch_arrow_table()
    assert table.schema.field("q").type == pyarrow.list_(pyarrow.float64()) and table["q"].to_pylist() == [expected]
    cursor.scroll(0, "absolute")
    frame = cursor.fetch_polars()
    assert frame.schema == {"q": polars.List(polars.Float64)} and frame["q"].to_list() == [expected]
    cursor.scroll(0, "absolute")
    assert list(cursor.fetch_df()["q"]) == [expected]


@pytest.mark.parametrize("accuracy", [False, True])
def test_errors_travel(connection: dpsql.Connection, accuracy: bool) -> None:
    cursor = connection.execute(BY_SITE)
    first = cursor.fetchall()[0]
    low = cursor.accuracy[0][1].low  # type: ignore[union-attr]
    names = (
        ["site", "n", "n_low", "n_high", "income", "income_low", "income_high"] if accuracy else ["site", "n", "income"]
    )
    for fetch in (cursor.fetch_df, cursor.fetch_polars, cursor.fetch_arrow_table):
        cursor.scroll(0, "absolute")
        frame = fetch(accuracy=accuracy)
        columns = list(frame.columns) if fetch != cursor.fetch_arrow_table else frame.column_names
        assert columns == names and str(frame["n"][0]) == str(first[1]) and cursor.fetchall() == []
        assert not accuracy or float(str(frame["n_low"][0])) == low


def test_a_pandas_frame_says_what_it_cost(connection: dpsql.Connection, tmp_path: Path) -> None:
    cursor = connection.execute(BY_SITE)
    errors = dict(zip(("n", "income"), cursor.errors[1:], strict=True))
    frame = cursor.fetch_df(accuracy=True)
    said = frame.attrs["dpsql"]
    assert (said["error"], said["notes"]) == (errors, list(cursor.notes)) and said["epsilon"] in (0.0, 0.1)
    frame.to_parquet(tmp_path / "by site.parquet")
    assert pandas.read_parquet(tmp_path / "by site.parquet").attrs["dpsql"] == said


def test_a_column_of_nothing_but_null() -> None:
    columns, rows = [("x", '"NULL"')], [(None,), (None,)]
    assert arrow_table(columns, rows).schema == pyarrow.schema([("x", pyarrow.null())])
    assert polars_frame(columns, rows).schema == {"x": polars.Null}
    assert list(pandas_frame(columns, rows)["x"]) == [None, None]


def test_what_is_no_type_of_theirs_is_text() -> None:
    columns, rows = [("a", "UUID"), ("b", "STRUCT(x INTEGER)[]")], [(5, [{"x": 1}, None]), (None, None)]
    assert arrow_table(columns, rows).to_pylist() == [{"a": "5", "b": ["{'x': 1}", None]}, {"a": None, "b": None}]
    assert polars_frame(columns, rows).rows() == [("5", ["{'x': 1}", None]), (None, None)]
    assert list(pandas_frame(columns, rows)["b"]) == [["{'x': 1}", None], None]


def test_integers_of_39_digits(connection: dpsql.Connection) -> None:
    cursor = connection.execute(f"SELECT {2**127 - 1} AS x")
    assert cursor.fetch_arrow_table()["x"].to_pylist() == [Decimal(2**127 - 1)]
    cursor.scroll(0, "absolute")
    assert cursor.fetch_polars().rows() == [(2**127 - 1,)]
    cursor.scroll(0, "absolute")
    assert list(cursor.fetch_df()["x"]) == [2**127 - 1]


def test_a_value_that_does_not_fit_is_one_line_and_still_there(connection: dpsql.Connection) -> None:
    cursor = connection.execute("SELECT DATE '99999-01-01' AS x")
    for fetch in (cursor.fetch_arrow_table, cursor.fetch_polars, cursor.fetch_df):
        assert code(fetch) == "DPSQL-802"
    assert cursor.fetchall() == [("99999-01-01",)]


def test_two_columns_of_one_name(connection: dpsql.Connection) -> None:
    cursor = connection.execute("SELECT 1 AS x, 2 AS x")
    assert code(cursor.fetch_polars) == "DPSQL-802"
    assert cursor.fetch_arrow_table().column_names == ["x", "x"]
    cursor.scroll(0, "absolute")
    assert list(cursor.fetch_df().columns) == ["x", "x"]


def test_rows_that_are_left_are_fetched_once(connection: dpsql.Connection) -> None:
    for name in ("fetch_arrow_table", "fetch_polars", "fetch_df"):
        cursor = connection.execute("SELECT plan FROM plan ORDER BY plan LIMIT 5")
        cursor.fetchmany(2)
        fetch = getattr(cursor, name)
        assert len(fetch()) == 3 and cursor.fetchone() is None and len(fetch()) == 0


def test_an_empty_result_keeps_its_types(connection: dpsql.Connection) -> None:
    cursor = connection.execute("SELECT plan, 'a' AS t FROM plan WHERE plan < 0")
    assert cursor.fetch_arrow_table().schema == pyarrow.schema([("plan", pyarrow.int32()), ("t", pyarrow.string())])
    assert cursor.fetch_polars().schema == {"plan": polars.Int32, "t": polars.String}
    assert [str(kind) for kind in cursor.fetch_df().dtypes] == ["Int32", "string"]


def test_the_arrow_stream_interface(connection: dpsql.Connection) -> None:
    expected = connection.execute(BY_SITE).fetchall()
    assert polars.DataFrame(connection.execute(BY_SITE)).rows() == expected
    table = pyarrow.table(connection.execute(BY_SITE))
    assert [tuple(row.values()) for row in table.to_pylist()] == expected
    wanted = pyarrow.schema([("site", pyarrow.int64()), ("n", pyarrow.int64()), ("income", pyarrow.float64())])
    assert pyarrow.table(connection.execute(BY_SITE), schema=wanted).schema == wanted


@pytest.mark.parametrize(("library", "fetch"), [("pyarrow", "arrow_table"), ("pandas", "df"), ("polars", "polars")])
def test_a_missing_library_is_one_line(
    connection: dpsql.Connection, monkeypatch: pytest.MonkeyPatch, library: str, fetch: str
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    extra = "arrow" if library == "pyarrow" else library
    cursor = connection.execute("SELECT 1")
    with pytest.raises(dpsql.InterfaceError) as raised:
        getattr(cursor, f"fetch_{fetch}")()
    assert str(raised.value) == f'DPSQL-802: {library} is not installed; pip install "dpsql[{extra}]"'
    assert raised.value.__context__ is None and cursor.fetchall() == [(1,)]


@pytest.mark.slow
def test_nothing_is_imported_before_it_is_asked_for() -> None:
    """DuckDB may import pandas by itself when it is there, and pandas pyarrow."""
    program = f"""
import sys, dpsql
from dpsql.clients.dbapi import cursor, connection as dbapi, frames
from dpsql.clients.output import notebook
early = {{"pandas", "polars", "pyarrow", "IPython"}} & set(sys.modules)
cursor = dpsql.connect({str(RANDHIE)!r}, ledger=":memory:").execute("SELECT 1")
cursor.fetchall(), cursor._repr_html_()
sys.exit(bool(early or {{"polars", "IPython"}} & set(sys.modules)))
"""
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


# --- libraries that know PEP 249 --------------------------------------------------------------------------------------


def test_pandas_reads_sql(connection: dpsql.Connection) -> None:
    expected = connection.execute(BY_SITE).fetchall()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # pandas has tested other databases
        frame = pandas.read_sql(BY_SITE, connection)
        one = pandas.read_sql("SELECT COUNT(*) AS n FROM person WHERE site = ?", connection, params=[2])
        parts = list(pandas.read_sql("SELECT plan FROM plan", connection, chunksize=8))
    assert list(frame.itertuples(index=False, name=None)) == expected
    assert one.shape == (1, 1) and [len(part) for part in parts] == [8, 8, 2]


def test_polars_reads_a_database(connection: dpsql.Connection) -> None:
    expected = connection.execute(BY_SITE).fetchall()
    frame = polars.read_database(BY_SITE, connection)
    assert frame.rows() == expected and frame.columns == ["site", "n", "income"]
    some = polars.read_database(
        "SELECT plan FROM plan WHERE plan > ? ORDER BY plan",
        connection.cursor(),
        execute_options={"parameters": [17]},
    )
    assert some.rows() == [(18,), (19,)]
    parts = polars.read_database("SELECT plan FROM plan", connection, iter_batches=True, batch_size=8)
    assert [len(part) for part in parts] == [8, 8, 2]


@pytest.mark.slow
def test_jupysql_with_the_raw_connection(
    connection: dpsql.Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    # it asks nobody for a newer version, and tells nobody that it runs
    monkeypatch.setenv("PLOOMBER_STATS_ENABLED", "false")
    monkeypatch.setenv("PLOOMBER_VERSION_CHECK_DISABLED", "true")
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell.instance()
    try:
        shell.run_line_magic("load_ext", "sql")
        shell.run_line_magic("config", "SqlMagic.feedback = 0")
        shell.user_ns["connection"] = connection
        shell.run_line_magic("sql", "connection --alias randhie")
        expected = connection.execute(BY_SITE).fetchall()
        result = shell.run_line_magic("sql", BY_SITE)
        assert [tuple(row) for row in result] == expected
        assert list(result.DataFrame().columns) == ["site", "n", "income"]
        frame = shell.run_cell_magic("sql", "randhie", "SELECT plan\nFROM plan\nWHERE plan < 3\nORDER BY plan")
        assert [tuple(row) for row in frame] == [(1,), (2,)]
        done = shell.run_cell("%sql SET dp_epsilon = 0.1")
        assert done.success, "a setting has no result, and is no error"
        shown = shell.run_cell("%sql SHOW TABLES")
        assert [tuple(row) for row in shown.result] == [("person",), ("person_year",), ("plan",)]
        refused = shell.run_cell("%sql SELECT * FROM person")
        assert isinstance(refused.error_in_exec, dpsql.NotSupportedError)
    finally:
        shell.clear_instance()
        connection.execute("RESET dp_epsilon")
    capsys.readouterr()


# --- what a notebook shows ---------------------------------------------------------------------------------------------


def test_a_result_in_a_notebook_has_error_bars(connection: dpsql.Connection) -> None:
    cursor = connection.execute("SELECT site, COUNT(*) AS n FROM person GROUP BY site ORDER BY site")
    html = cursor._repr_html_()
    assert html is not None and html.count("<tr>") == 7 and html.count("± 30</span>") == 6
    rows = cursor.fetchall()
    assert f">{rows[0][1]} <span" in html and "6 rows; ± is the 95 % error of the noise; price" in html.replace(
        "stored answer, free", "price"
    )
    assert cursor._repr_html_() == html, "nothing is fetched by it"


def test_a_printed_result_has_error_bars(connection: dpsql.Connection) -> None:
    cursor = connection.sql("SELECT site, COUNT(*) AS n FROM person GROUP BY site ORDER BY site")
    shown = str(cursor)
    rows = cursor.fetchall()
    lines = shown.splitlines()
    assert lines[0].split() == ["site", "n"] and [line.split() for line in lines[2:8]] == [
        [str(site), str(n), "+-30"] for site, n in rows
    ]
    assert lines[8].startswith("6 rows; +- is the 95 % error of the noise; ")
    assert str(cursor) == shown, "nothing is fetched by it"
    assert str(connection.cursor()) == "<dpsql.Cursor open>"
    cursor.close()
    assert str(cursor) == "<dpsql.Cursor closed>"
    assert "\x1b" not in str(connection.execute("SELECT ? AS x", ["\x1b[2J"]))


def test_texts_in_a_notebook_are_escaped(connection: dpsql.Connection) -> None:
    cursor = connection.execute("""SELECT '<script>alert(1)</script>' AS "<i>&" """)
    html = cursor._repr_html_()
    assert html is not None and "<script" not in html and "<i>" not in html
    assert "&lt;script&gt;" in html and "&lt;i&gt;&amp;" in html


def test_what_a_notebook_shows_is_bounded(connection: dpsql.Connection) -> None:
    columns = ", ".join(f"p.plan AS c{i}" for i in range(MOST_COLUMNS + 5))
    html = connection.execute(f"SELECT {columns} FROM plan AS p, plan AS q")._repr_html_()
    assert html is not None and html.count("<tr>") == MOST_ROWS + 1 and html.count("<th>") == MOST_COLUMNS
    assert "324 rows; the first 60 are shown; the first 40 of 45 columns are shown; free" in html
    long = connection.execute("SELECT ? AS x, NULL AS y", ["ab" * 500])._repr_html_()
    assert long is not None and len(long) < 1000 and "…" in long and ">NULL<" in long


@pytest.mark.parametrize(
    ("value", "low", "high", "bar"),
    [
        (1164, 1134.0, 1194.0, "± 30"),
        (0, 0.0, 12.3, "[0, 12.3]"),
        (5, 5.0, 5.0, "± 0"),
        (10_000, 8_801.0, 11_199.0, "± 1,200"),
        (0.5, 0.4877, 0.5123, "± 0.013"),
    ],
)
def test_error_bars_are_rounded_up(value: float, low: float, high: float, bar: str) -> None:
    assert error_bar(value, Accuracy(low, high, 0.95)) == bar
