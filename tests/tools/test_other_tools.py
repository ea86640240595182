"""Notebooks, apps and checks that ask through the dialect for SQLAlchemy, and Ibis, which writes DuckDB's SQL.

What a tool shows is compared with a statement written by hand. That one must be answered from the ledger, free: then the tool
asked the same question, and has paid for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

import dpsql
from tests.support import bi
from tests.support.noise import ZeroNoise

pytest.importorskip("sqlalchemy", reason="the tools ask through the dialect for SQLAlchemy")

import sqlalchemy as sa
from sqlalchemy.dialects import registry

for _name in ("dpsql", "dpsql.dpsql"):  # as the entry points do where dpsql is installed
    registry.register(_name, "dpsql.clients.sqlalchemy", "DpsqlDialect")

BY_SITE = "SELECT site, COUNT(site) AS n FROM person GROUP BY site ORDER BY site"


@dataclass(frozen=True)
class Place:
    """A dataset with a ledger of its own."""

    schema: Path
    ledger: Path

    @property
    def url(self) -> str:
        return f"dpsql:///{self.schema}?ledger={self.ledger}"

    def stored(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows of a question that has been answered before."""
        with dpsql.connect(self.schema, ledger=self.ledger) as connection:
            cursor = connection.execute(sql)
            assert cursor.privacy is not None and cursor.privacy.cached, f"this was not asked: {sql}"
            return cursor.fetchall()

    def charges(self) -> list[str]:
        """The statements that were paid for."""
        with dpsql.connect(self.schema, ledger=self.ledger) as connection:
            return [row[0] for row in connection.execute("SELECT statement FROM dpsql.ledger ORDER BY id").fetchall()]


@pytest.fixture
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Data of each test's own: it keeps to the ledger of that test."""
    return bi.write(tmp_path_factory.mktemp("visits"))


@pytest.fixture
def place(dataset: Path, tmp_path: Path) -> Iterator[Place]:
    with patch("dpsql.session.session.SystemNoise", ZeroNoise):
        yield Place(dataset, tmp_path / "spent.ledger")


@pytest.fixture
def engine(place: Place) -> Iterator[sa.engine.Engine]:
    found = sa.create_engine(place.url)
    yield found
    found.dispose()


# --- frames -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_pandas_with_an_engine(place: Place, engine: sa.engine.Engine) -> None:
    pandas = pytest.importorskip("pandas", reason="it is pandas that reads")
    frame = pandas.read_sql(BY_SITE, engine, index_col="site")
    assert list(frame["n"].items()) == place.stored(BY_SITE)
    one = pandas.read_sql("SELECT COUNT(*) AS n FROM person WHERE site = ?", engine, params=("north",))
    assert one["n"].tolist() == [row[0] for row in place.stored("SELECT COUNT(*) FROM person WHERE site = 'north'")]
    parts = list(pandas.read_sql("SELECT * FROM calendar", engine, chunksize=5))
    assert [len(part) for part in parts] == [5, 5, 2] and len(place.charges()) == 2
    with pytest.raises(Exception, match=r"DPSQL-30[15]"):  # pandas calls all of them its own DatabaseError
        pandas.read_sql("person", engine)


def test_polars_with_an_engine(place: Place, engine: sa.engine.Engine) -> None:
    polars = pytest.importorskip("polars", reason="it is polars that reads")
    assert polars.read_database(BY_SITE, engine).rows() == place.stored(BY_SITE)
    month = "DATE_TRUNC('month', visit.at) AS month"
    monthly = f"SELECT {month}, COUNT(*) AS n FROM visit WHERE kind = {{}} GROUP BY 1 ORDER BY 1"
    with engine.connect() as connection:
        asked = polars.read_database(
            monthly.format(":kind"), connection, execute_options={"parameters": {"kind": "checkup"}}
        )
    assert asked.columns == ["month", "n"] and asked.schema["n"] == polars.Int64
    assert asked.rows() == place.stored(monthly.format("'checkup'")) and len(asked) == 24


# --- JupySQL ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def notebook(engine: sa.engine.Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """IPython with JupySQL, connected to the engine."""
    pytest.importorskip("sql.magic", reason="JupySQL is not installed")
    pytest.importorskip("matplotlib", reason="%sqlplot draws with matplotlib").use("Agg")
    for name, value in {
        "IPYTHONDIR": str(tmp_path),
        "HOME": str(tmp_path),
        # it asks nobody for a newer version, and tells nobody that it runs
        "PLOOMBER_STATS_ENABLED": "false",
        "PLOOMBER_VERSION_CHECK_DISABLED": "true",
    }.items():
        monkeypatch.setenv(name, value)
    from IPython.core.interactiveshell import InteractiveShell
    from matplotlib import pyplot

    shell = InteractiveShell.instance()
    try:
        shell.run_line_magic("load_ext", "sql")
        shell.run_line_magic("config", "SqlMagic.feedback = 0")
        shell.user_ns["engine"] = engine
        shell.run_line_magic("sql", "engine --alias visits")
        yield shell
        shell.run_line_magic("sql", "--close visits")
    finally:
        pyplot.close("all")
        shell.clear_instance()


def bars(axes: Any) -> list[tuple[float, float]]:
    """The middle of each bar, and its height."""
    found = [(bar.get_x() + bar.get_width() / 2, bar.get_height()) for bar in axes.patches]
    axes.figure.clear()
    return found


@pytest.mark.slow
def test_jupysql_with_an_engine(place: Place, notebook: Any, capsys: pytest.CaptureFixture[str]) -> None:
    result = notebook.run_line_magic("sql", BY_SITE)
    assert [tuple(row) for row in result.DataFrame().itertuples(index=False)] == place.stored(BY_SITE)
    assert "visit" in str(notebook.run_line_magic("sqlcmd", "tables"))
    assert "bounds 0 to 29999" in str(notebook.run_line_magic("sqlcmd", "columns --table person"))
    saved = "SELECT kind, usd FROM visit WHERE paid"
    notebook.run_line_magic("sql", f"--save paid --no-execute {saved}")
    drawn = bars(notebook.run_line_magic("sqlplot", "bar --table paid --column kind"))
    by_kind = "SELECT kind, COUNT(kind) FROM visit WHERE paid AND kind IS NOT NULL GROUP BY kind"
    assert sorted(height for _, height in drawn) == sorted(n for _, n in place.stored(by_kind))
    assert len(place.charges()) == 2
    capsys.readouterr()


@pytest.mark.slow
def test_sqlplot(place: Place, notebook: Any, capsys: pytest.CaptureFixture[str]) -> None:
    drawn = bars(notebook.run_line_magic("sqlplot", "bar --table person --column site"))
    stored = place.stored("SELECT site, COUNT(site) AS n FROM person WHERE site IS NOT NULL GROUP BY site")
    assert sorted(height for _, height in drawn) == sorted(n for _, n in stored) and len(drawn) == 3
    # from the declared bounds, 0 to 29999, not from the data
    drawn = bars(notebook.run_line_magic("sqlplot", "histogram --table person --column income --binwidth 5000"))
    band = "SELECT CEILING(income / 5000.0 - 0.5) * 5000.0 AS bin, COUNT(*) AS n FROM person"
    assert drawn == place.stored(f"{band} WHERE income IS NOT NULL GROUP BY bin ORDER BY bin")
    assert [middle for middle, _ in drawn] == [0, 5000, 10000, 15000, 20000, 25000, 30000]
    drawn = bars(notebook.run_line_magic("sqlplot", "histogram --table visit --column usd --bins 5"))
    assert [middle for middle, _ in drawn] == [0, 250, 500, 750, 1000]
    before = place.charges()
    assert len(before) == 3, "the ends are asked too, and free"
    for refused in ("boxplot --table person --column income", "bar --table visit --column kind usd"):
        done = notebook.run_cell(f"%sqlplot {refused}")
        assert isinstance(done.error_in_exec, sa.exc.DBAPIError) and isinstance(done.error_in_exec.orig, dpsql.Error)
    assert place.charges() == before
    capsys.readouterr()


# --- Great Expectations -----------------------------------------------------------------------------------------------


def test_great_expectations(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GX_ANALYTICS_ENABLED", "false")
    gx = pytest.importorskip("great_expectations", reason="Great Expectations is not installed")
    from great_expectations import expectations as expect

    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False}
    asset = context.data_sources.add_sql("visits", connection_string=place.url).add_table_asset("person")
    batch = asset.add_batch_definition_whole_table("everybody").get_batch()

    def met(expectation: Any) -> bool:
        found = batch.validate(expectation)
        assert "'raised_exception': True" not in str(found.exception_info), found
        return bool(found.success)

    assert place.charges() == [], "whether the table is there is seen in the schema"
    income = {"column": "income"}
    assert met(expect.ExpectTableColumnsToMatchOrderedList(column_list=["person_id", "site", "income", "born", "name"]))
    assert met(expect.ExpectColumnValuesToBeOfType(column="site", type_="VARCHAR"))
    assert place.charges() == []
    assert met(expect.ExpectTableRowCountToBeBetween(min_value=2990, max_value=3010))
    assert not met(expect.ExpectTableRowCountToBeBetween(min_value=5000)) and len(place.charges()) == 1
    assert met(expect.ExpectColumnMeanToBeBetween(min_value=9000, max_value=11000, **income))
    assert not met(expect.ExpectColumnMeanToBeBetween(min_value=11000, **income))
    assert met(expect.ExpectColumnStdevToBeBetween(min_value=5000, max_value=6500, **income))
    assert met(expect.ExpectColumnSumToBeBetween(min_value=25e6, max_value=35e6, **income))
    assert met(expect.ExpectColumnMinToBeBetween(min_value=0, max_value=1000, **income))
    assert met(expect.ExpectColumnMaxToBeBetween(min_value=19000, max_value=29999, **income))
    small = "SELECT site, COUNT(*) AS n FROM {batch} GROUP BY site HAVING COUNT(*) < "
    assert met(expect.UnexpectedRowsExpectation(unexpected_rows_query=small + "500"))
    assert not met(expect.UnexpectedRowsExpectation(unexpected_rows_query=small + "5000"))
    # asked again, all of it is free
    paid = place.charges()
    assert met(expect.ExpectColumnMeanToBeBetween(min_value=9000, max_value=11000, **income))
    # the row in the middle is fetched for it, which is refused
    median = batch.validate(expect.ExpectColumnMedianToBeBetween(min_value=9000, max_value=11000, **income))
    assert not median.success and "DPSQL-305" in str(median.exception_info)
    assert place.charges() == paid
    assert place.stored("SELECT COUNT(*) FROM person") and place.stored("SELECT SUM(income) FROM person")


# --- Streamlit --------------------------------------------------------------------------------------------------------


def app(url: str) -> None:
    """The script that AppTest runs, in a namespace of its own."""
    import streamlit as st

    visits = st.connection("visits", type="sql", url=url)
    site = st.selectbox("site", ["north", "south"])
    kinds = "SELECT kind, COUNT(*) AS n FROM visit JOIN person USING (person_id) WHERE site = :site GROUP BY kind"
    st.dataframe(visits.query(f"{kinds} ORDER BY kind", params={"site": site}, ttl=0))
    if st.checkbox("rows"):
        st.dataframe(visits.query("SELECT * FROM person", ttl=0))


def test_streamlit(place: Place) -> None:
    testing = pytest.importorskip("streamlit.testing.v1", reason="Streamlit is not installed")
    kinds = "SELECT kind, COUNT(*) AS n FROM visit JOIN person USING (person_id) WHERE site = '{}' GROUP BY kind"
    by_kind = f"{kinds} ORDER BY kind"

    def shown(page: Any) -> list[tuple[Any, ...]]:
        assert not page.exception
        return list(page.dataframe[0].value.itertuples(index=False, name=None))

    page = testing.AppTest.from_function(app, kwargs={"url": place.url}, default_timeout=60).run()
    assert shown(page) == place.stored(by_kind.format("north"))
    page.selectbox[0].select("south").run()
    assert shown(page) == place.stored(by_kind.format("south")) and len(place.charges()) == 2
    page.selectbox[0].select("north").run()
    assert shown(page) == place.stored(by_kind.format("north")) and len(place.charges()) == 2
    page.checkbox[0].check().run()
    assert "DPSQL-301" in page.exception[0].message and len(place.charges()) == 2


# --- Ibis -------------------------------------------------------------------------------------------------------------


def expressions(ibis: Any) -> Iterator[tuple[str, Any]]:
    """Statements by hand, and what Ibis is asked for in their place."""
    here, n = ibis._, ibis._.count()
    person = ibis.table({"person_id": "int64", "site": "string", "income": "float64"}, name="person")
    visit = ibis.table({"person_id": "int64", "at": "timestamp", "usd": "float64", "kind": "string"}, name="visit")
    by_kind = visit.group_by("kind").agg(n=n)
    by_month = visit.group_by(month=here.at.truncate("M")).agg(n=n).order_by("month")
    some = person.filter(here.income > 8000, here.site.isin(["north", "south"]))
    top = visit.group_by("kind").agg(usd=here.usd.sum()).order_by(ibis.desc("usd")).limit(2)
    by_site = visit.join(person, "person_id").group_by("site").agg(usd=here.usd.sum()).order_by("site")
    share = by_kind.select("kind", share=here.n / here.n.sum()).order_by("kind")
    bands = person.group_by(band=here.income // 5000).agg(n=n).order_by("band")
    kinds = "SELECT kind, COUNT(*) AS n FROM visit GROUP BY kind"
    # in a derived table, as Ibis has it: by itself it is a DATE in older versions of DuckDB
    months = "SELECT DATE_TRUNC('month', visit.at) AS month, COUNT(*) AS n FROM visit GROUP BY 1"
    yield BY_SITE, person.group_by("site").agg(n=here.site.count()).order_by("site")
    yield "SELECT COUNT(*) FROM person WHERE income > 8000 AND site IN ('north', 'south')", some.count()
    yield "SELECT kind, SUM(usd) AS usd FROM visit GROUP BY kind ORDER BY usd DESC LIMIT 2", top
    yield f"{kinds} ORDER BY n DESC LIMIT 2", visit.kind.topk(2)
    yield f"SELECT * FROM ({months}) AS t ORDER BY month", by_month
    yield "SELECT COUNT(*) FROM visit WHERE visit.at >= '2023-06-01'", visit.filter(here.at >= "2023-06-01").count()
    yield "SELECT site, SUM(usd) FROM visit JOIN person USING (person_id) GROUP BY site ORDER BY site", by_site
    yield f"SELECT kind, n / SUM(n) OVER () FROM ({kinds}) AS t ORDER BY kind", share
    yield "SELECT CAST(FLOOR(income / 5000) AS BIGINT), COUNT(*) FROM person GROUP BY 1 ORDER BY 1", bands
    yield "SELECT MEDIAN(income) FROM person", person.income.median()


@pytest.mark.slow
def test_ibis(place: Place) -> None:
    ibis = pytest.importorskip("ibis", reason="Ibis is not installed")
    with dpsql.connect(place.schema, ledger=place.ledger) as connection:
        for sql, expression in expressions(ibis):
            rows = connection.execute(str(ibis.to_sql(expression, dialect="duckdb"))).fetchall()
            assert rows and rows == place.stored(sql)
        people = ibis.table({"person_id": "int64", "site": "string"}, name="person")
        with pytest.raises(dpsql.NotSupportedError) as raised:
            connection.execute(str(ibis.to_sql(people.limit(5), dialect="duckdb")))
        assert raised.value.code == "DPSQL-301"
