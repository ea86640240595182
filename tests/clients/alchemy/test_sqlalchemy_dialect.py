"""The dialect for SQLAlchemy, in whichever version is installed: what it sends, what it shows, what it answers."""

from __future__ import annotations

import datetime
import importlib
import sqlite3
import threading
import tomllib
import warnings
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

import dpsql
from dpsql.session.session import Session
from tests.support.copies import unused
from tests.support.noise import ZeroNoise

pytest.importorskip("sqlalchemy", reason="the dialect needs SQLAlchemy")

import duckdb
import sqlalchemy as sa
from sqlalchemy import exc, orm, pool
from sqlalchemy.dialects import registry
from sqlalchemy.engine import make_url
from sqlglot.dialects.duckdb import DuckDB

from dpsql.clients.declared import column_comment, table_comment
from dpsql.clients.sqlalchemy import DpsqlDialect
from dpsql.clients.sqlalchemy.dialect import OPTIONS

ROOT = Path(__file__).parents[3]
RANDHIE = ROOT / "examples/randhie/schema.toml"
CLINIC = ROOT / "tests/notes/clinic"
NAMES = ("dpsql", "dpsql.dpsql")
for _name in NAMES:  # as the entry points do where dpsql is installed
    registry.register(_name, "dpsql.clients.sqlalchemy", "DpsqlDialect")
IN_MEMORY = f"dpsql:///{RANDHIE}?ledger=:memory:"
PAID = "SELECT site, COUNT(*) AS people FROM person GROUP BY site ORDER BY site"

person = sa.table("person", sa.column("site"), sa.column("income"), sa.column("female"), sa.column("plan"))
plan = sa.table("plan", sa.column("plan", sa.Integer), sa.column("coinsurance_pct", sa.Integer))
people = sa.func.count().label("people")


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"dpsql:///{RANDHIE}?ledger={tmp_path / 'spent.ledger'}"


@pytest.fixture
def engine(url: str) -> Iterator[sa.engine.Engine]:
    found = sa.create_engine(url)
    yield found
    found.dispose()


@pytest.fixture(scope="module")
def clinic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sa.engine.Engine]:
    """Dates, text, decimals and NULL, without noise, without a guard and with plenty of budget."""
    folder = tmp_path_factory.mktemp("clinic")
    unused(CLINIC, folder)
    text = (folder / "schema.toml").read_text().replace("epsilon = 10.0", "epsilon = 10000.0")
    (folder / "schema.toml").write_text(text.replace("[guard]", '[guard]\nmode = "off"'))
    with patch("dpsql.session.session.SystemNoise", ZeroNoise):
        found = sa.create_engine(f"dpsql:///{folder / 'schema.toml'}?ledger=:memory:")
        with found.connect():
            yield found
    found.dispose()


@pytest.fixture
def sent() -> Iterator[list[str]]:
    """Every statement that reaches a session, priced or explained ones too."""
    found: list[str] = []

    def spied(method: Callable[..., Any]) -> Callable[..., Any]:
        def called(self: Session, sql: str, *rest: Any) -> Any:
            found.append(sql)
            return method(self, sql, *rest)

        return called

    with (
        patch.object(Session, "execute", spied(Session.execute)),
        patch.object(Session, "explain", spied(Session.explain)),
        patch.object(Session, "price", spied(Session.price)),
    ):
        yield found


def charged(url: str) -> list[str]:
    """Everything that a ledger holds."""
    with sqlite3.connect(str(make_url(url).query["ledger"])) as ledger:
        return list(ledger.iterdump())


def asked(engine: sa.engine.Engine, statement: Any) -> list[tuple[object, ...]]:
    with engine.connect() as connection:
        return [tuple(row) for row in connection.execute(statement)]


def reading() -> Any:
    """pandas, where it takes this SQLAlchemy."""
    pandas = pytest.importorskip("pandas", reason="pandas reads through the engine")
    if sa.__version__.startswith("1.4") and not pandas.__version__.startswith("2.1"):
        pytest.skip("this pandas needs SQLAlchemy 2")
    return pandas


# --- connecting -----------------------------------------------------------------------------------------------------------


def test_the_entry_points_are_the_dialect() -> None:
    with open(ROOT / "pyproject.toml", "rb") as file:
        points = tomllib.load(file)["project"]["entry-points"]["sqlalchemy.dialects"]
    assert sorted(points) == sorted(NAMES)
    for place in points.values():
        module, _, name = place.partition(":")
        assert getattr(importlib.import_module(module), name) is DpsqlDialect
    for form in ("dpsql:///s.toml", "dpsql+dpsql:///s.toml"):
        assert make_url(form).get_dialect() is DpsqlDialect


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("dpsql:///data/schema.toml", ("data/schema.toml", None, None)),
        ("dpsql:////data/schema.toml", ("/data/schema.toml", None, None)),
        ("dpsql+dpsql:///s.toml?analyst=alice", ("s.toml", "alice", None)),
        ("dpsql://alice@/s.toml?ledger=/var/spent.ledger", ("s.toml", "alice", "/var/spent.ledger")),
        ("dpsql://alice@/s.toml?analyst=alice", ("s.toml", "alice", None)),
        ("dpsql://alice%40example.org@//data/s.toml", ("/data/s.toml", "alice@example.org", None)),
        ("dpsql://", (None, None, None)),
    ],
)
def test_what_a_url_says(text: str, arguments: tuple[str | None, ...]) -> None:
    given, options = DpsqlDialect().create_connect_args(make_url(text))
    assert (given, tuple(options.values())) == ([], arguments)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("dpsql://data/schema.toml", "three slashes stand before a relative path"),
        ("dpsql://localhost:5432/schema.toml", "three slashes"),
        ("dpsql://alice:secret@/schema.toml", "no passwords"),
        ("dpsql:///s.toml?budget=4", "it has no option 'budget'; there are analyst and ledger"),
        ("dpsql:///s.toml?analyst=alice&analyst=bob", "analyst is given more than once"),
        ("dpsql://bob@/s.toml?analyst=alice", "two analysts"),
    ],
)
def test_a_wrong_url_says_what_to_write(text: str, said: str) -> None:
    with pytest.raises(exc.ArgumentError, match=said) as raised:
        sa.create_engine(text)
    assert "Write dpsql:///path/schema.toml" in str(raised.value) and "\n" not in str(raised.value)


def test_a_url_without_a_schema_is_for_connections_that_are_there() -> None:
    with pytest.raises(exc.ArgumentError, match="names no schema file"):
        sa.create_engine("dpsql://").connect()
    with dpsql.connect(RANDHIE, ledger=":memory:") as opened:
        engine = sa.create_engine("dpsql://", creator=lambda: opened, poolclass=pool.StaticPool)
        assert asked(engine, sa.text("SELECT 1")) == [(1,)]


@pytest.mark.parametrize(
    ("text", "kind", "code"),
    [
        ("dpsql:///no/such/schema.toml", exc.ProgrammingError, "DPSQL-801"),
        (f"{IN_MEMORY}&analyst=eve", exc.InterfaceError, "DPSQL-803"),
    ],
)
def test_what_goes_wrong_at_connecting_is_dpsqls_own_error(
    text: str, kind: type[exc.DBAPIError], code: str, tmp_path: Path
) -> None:
    unused(RANDHIE.parent, tmp_path)
    with (tmp_path / "schema.toml").open("a") as file:
        file.write("\n[analysts.alice]\nepsilon = 1.0\n")
    with pytest.raises(kind) as raised:
        sa.create_engine(text.replace(str(RANDHIE), str(tmp_path / "schema.toml"))).connect()
    assert raised.value.orig.code == code


def test_nothing_is_sent_but_the_callers_statements(url: str, sent: list[str]) -> None:
    """Connecting, looking at everything, pinging and giving back: no statement, and the ledger stays as it was."""
    engine = sa.create_engine(url, pool_pre_ping=True)
    engine.connect().close()
    before = charged(url)
    for _ in range(3):
        with engine.connect() as connection:
            connection.execution_options(isolation_level="AUTOCOMMIT")
            inspector = sa.inspect(connection)
            for schema in inspector.get_schema_names():
                for name in inspector.get_table_names(schema=schema):
                    inspector.get_columns(name, schema=schema)
                    inspector.get_table_comment(name, schema=schema)
                sa.MetaData().reflect(connection, schema=schema)
            assert inspector.has_table("person") and not inspector.has_table("nobody")
        with engine.begin():
            pass
        with engine.connect() as connection:
            connection.begin().rollback()
    engine.dispose()
    assert sent == [] and charged(url) == before


def test_rolling_back_and_giving_back_change_no_charge(engine: sa.engine.Engine, url: str, sent: list[str]) -> None:
    with engine.connect() as connection:
        trans = connection.begin()
        connection.execute(sa.text(PAID))
        after = charged(url)
        trans.rollback()
    assert sent == [PAID] and charged(url) == after
    assert "INSERT" in "".join(after)


def test_a_connection_is_used_again(engine: sa.engine.Engine) -> None:
    assert isinstance(engine.pool, pool.QueuePool)
    with engine.connect() as first:
        opened = first.connection.dbapi_connection
    with engine.connect() as second:
        assert second.connection.dbapi_connection is opened


def test_settings_end_with_whom_they_were_set_by(engine: sa.engine.Engine, sent: list[str]) -> None:
    with engine.connect() as connection:
        connection.execute(sa.text("SET dp_epsilon = 0.5"))
        assert connection.execute(sa.text(PAID)).context.privacy.epsilon == Decimal("0.5")
    with engine.connect() as connection:
        result = connection.execute(sa.text("SELECT AVG(income) FROM person"))
        assert result.context.privacy.epsilon == Decimal("0.1")
    count = len(sent)
    engine.connect().close()
    assert len(sent) == count, "only what was set is set back"


def test_a_closed_connection_is_opened_again(engine: sa.engine.Engine, url: str) -> None:
    with engine.connect() as connection:
        connection.connection.dbapi_connection.close()
        with pytest.raises(exc.InterfaceError) as raised:
            connection.execute(sa.text("SELECT 1"))
        assert raised.value.connection_invalidated and raised.value.orig.code == "DPSQL-802"
    assert asked(engine, sa.text("SELECT 1")) == [(1,)]

    pinging = sa.create_engine(url, pool_pre_ping=True)
    with pinging.connect() as connection:
        opened = connection.connection.dbapi_connection
    opened.close()
    assert asked(pinging, sa.text("SELECT 1")) == [(1,)]


def test_a_ledger_in_memory_is_one_connections() -> None:
    """Else each new connection would have the whole budget again."""
    engine = sa.create_engine(IN_MEMORY)
    with engine.connect() as first, engine.connect() as second:
        bought = first.execute(sa.text(PAID)).context.privacy
        again = second.execute(sa.text(PAID)).context.privacy
    assert not bought.cached and again.cached and again.remaining == bought.remaining
    for other in (pool.NullPool, pool.QueuePool, pool.SingletonThreadPool):
        with pytest.raises(exc.ArgumentError, match="each would have the whole budget again; name a file in ledger="):
            sa.create_engine(IN_MEMORY, poolclass=other)


@pytest.mark.slow
def test_connections_at_once_share_a_ledger(engine: sa.engine.Engine) -> None:
    """Four threads ask eight different questions: each is paid once, whoever asks it."""
    questions = [f"SELECT COUNT(*) AS people FROM person WHERE site = {site}" for site in (1, 2, 3, 4)]
    answers: list[list[object]] = []

    def asking() -> None:
        found = [asked(engine, sa.text(question)) for question in questions]
        answers.append([rows[0][0] for rows in found])

    threads = [threading.Thread(target=asking) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 4 and all(answer == answers[0] for answer in answers)
    spent = asked(engine, sa.text("SELECT spent_epsilon FROM dpsql.budget WHERE holder = 'dataset'"))
    assert spent == [(pytest.approx(0.4),)]


def test_there_is_one_isolation_level(engine: sa.engine.Engine) -> None:
    with engine.connect() as connection:
        assert connection.get_isolation_level() == connection.default_isolation_level == "AUTOCOMMIT"
        with pytest.raises(exc.ArgumentError):
            connection.execution_options(isolation_level="SERIALIZABLE")


# --- looking around -------------------------------------------------------------------------------------------------------


def test_tables_as_they_are_declared(engine: sa.engine.Engine) -> None:
    tables = sa.MetaData()
    tables.reflect(engine)
    assert sorted(tables.tables) == ["person", "person_year", "plan"]
    year = tables.tables["person_year"]
    assert [column.name for column in year.primary_key] == ["person_id", "year"]
    assert [key.target_fullname for key in year.foreign_keys] == ["person.person_id"]
    assert year.comment == (
        "private, rows of people; privacy unit person.person_id; at most 5 rows of one person are counted"
    )
    assert tables.tables["plan"].comment == "public: statements about it alone are exact and free"
    assert year.join(tables.tables["person"]).onclause is not None
    inspector = sa.inspect(engine)
    assert inspector.get_view_names() == inspector.get_indexes("plan") == inspector.get_unique_constraints("plan") == []
    assert inspector.get_check_constraints("plan") == []
    assert inspector.get_foreign_keys("person_year", schema="main")[0]["referred_schema"] == "main"
    for within in ("public", "randhie"):
        assert inspector.has_table("person", schema=within)
        assert sa.Table("plan", sa.MetaData(), schema=within, autoload_with=engine).columns.keys() == [
            "plan",
            "coinsurance_pct",
        ]
        assert asked(engine, sa.text(f"SELECT COUNT(*) FROM {within}.plan")) == asked(
            engine, sa.text("SELECT COUNT(*) FROM plan")
        )
    assert not inspector.has_table("person", schema="dpsql")
    if hasattr(inspector, "has_schema"):  # from SQLAlchemy 2.0
        assert inspector.has_schema("public") and inspector.has_schema("randhie") and not inspector.has_schema("other")


def test_columns_say_what_is_declared(engine: sa.engine.Engine) -> None:
    columns = {column["name"]: column for column in sa.inspect(engine).get_columns("PERSON")}
    comments = {name: column["comment"] for name, column in columns.items()}
    assert comments == {
        "person_id": "privacy unit; key, identifier: never shown",
        "site": "values 1, 2, 3, 4, 5, 6",
        "plan": "values 1, 2, 3, 4, 5, 6, ... (18 values); listed by plan.plan",
        "female": None,
        "education_years": "bounds 0 to 25; may be NULL",
        "income": "bounds 0 to 30000",
        "mental_health_index": "bounds 0 to 100",
        "physical_limitation": "bounds 0 to 1",
    }
    assert [name for name, column in columns.items() if column["nullable"]] == ["education_years"]
    years = {column["name"]: column["comment"] for column in sa.inspect(engine).get_columns("person_year")}
    assert years["md_visits"] == "bounds 0 to 80; one person's total 0 to 200"
    assert years["family_size"] == "no bounds: SUM needs dp_sum"


def test_comments_on_rows_and_quasi_identifiers(tmp_path: Path) -> None:
    (tmp_path / "schema.toml").write_text("""
[dataset]
name = "visits"
source = "."
[privacy]
unit = "row"
epsilon = 1.0
delta = 1e-6
query = { epsilon = 0.1 }
[tables.visit]
source = "visit.csv"
[tables.visit.columns]
name = { type = "VARCHAR", role = "quasi" }
tag  = { type = "VARCHAR", domain = ["a", "it's"], nullable = true }
""")
    schema = dpsql.read_schema(tmp_path / "schema.toml")
    (visit,) = schema.tables
    assert table_comment(visit, schema) == "private: each row is its own privacy unit"
    assert [column_comment(column, visit, schema) for column in visit.columns] == [
        "quasi-identifier: counted, in no condition",
        "values 'a', 'it''s'; may be NULL",
    ]


def test_types_are_the_declared_ones(clinic: sa.engine.Engine) -> None:
    found = {
        f"{name}.{column['name']}": str(column["type"].compile(dialect=clinic.dialect))
        for name in ("patient", "visit")
        for column in sa.inspect(clinic).get_columns(name)
    }
    assert {found[f"patient.{name}"] for name in ("weight", "city", "born", "female")} == {
        *("DOUBLE", "VARCHAR", "DATE", "BOOLEAN")
    }
    assert found["patient.score"].replace(" ", "") == "NUMERIC(6,2)".replace("NUMERIC", "DECIMAL")
    assert (found["visit.seen"], found["visit.visit_id"], found["visit.year"]) == ("TIMESTAMP", "BIGINT", "INTEGER")


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "name", ["TINYINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "FLOAT", "DOUBLE"]
)
def test_types_that_sqlalchemy_has_no_name_for(name: str, engine: sa.engine.Engine) -> None:
    from dpsql.clients.sqlalchemy.types import type_of
    from dpsql.core.sqltypes import SqlType

    cast = sa.cast(sa.literal_column("7"), type_of(SqlType(name)))
    assert f"AS {name})" in str(sa.select(cast).compile(engine))
    assert asked(engine, sa.select(cast)) == [(7,)]


def test_what_was_spent_is_a_schema_of_its_own(engine: sa.engine.Engine) -> None:
    inspector = sa.inspect(engine)
    assert inspector.get_schema_names() == ["main", "dpsql"]
    assert inspector.get_table_names(schema="dpsql") == [
        "budget",
        "ledger",
        "analysts",
        "guard",
        "versions",
        "cubes",
        "models",
        "randomized_tables",
        "synthetic_tables",
    ]
    assert inspector.get_table_names(schema="nowhere") == []
    budget = sa.Table("budget", sa.MetaData(), schema="dpsql", autoload_with=engine)
    assert asked(engine, sa.select(budget.c.epsilon, budget.c.window).where(budget.c.holder == "dataset")) == [
        (4.0, None)
    ]
    with pytest.raises(exc.NoSuchTableError, match=r"dpsql\.person"):
        inspector.get_columns("person", schema="dpsql")
    with pytest.raises(exc.NoSuchTableError, match="persn"):
        sa.Table("persn", sa.MetaData(), autoload_with=engine)


# --- statements -----------------------------------------------------------------------------------------------------------

patient = sa.table(
    "patient",
    *(sa.column(name) for name in ("patient_id", "site", "female", "weight")),
    *(sa.column("born", sa.Date), sa.column("city", sa.String), sa.column("score", sa.Numeric(6, 2))),
)
visit = sa.table("visit", sa.column("patient_id"), sa.column("year"), sa.column("seen", sa.DateTime))
drug = sa.table("drug", sa.column("drug", sa.Integer), sa.column("label", sa.String))
n = sa.func.count().label("n")
by_site = sa.select(patient.c.site, n).group_by(patient.c.site)
ranked = sa.func.rank().over(order_by=sa.func.count().desc())
COUNTED = "SELECT COUNT(*) AS n FROM patient WHERE "
EXPRESSIONS = [
    (sa.select(drug.c.drug).order_by(drug.c.drug).offset(1), "SELECT drug FROM drug ORDER BY drug OFFSET 1"),
    (
        by_site.order_by("site").limit(1).offset(1),
        "SELECT site, COUNT(*) AS n FROM patient GROUP BY site ORDER BY site LIMIT 1 OFFSET 1",
    ),
    (sa.select(drug.c.drug).order_by(drug.c.drug).fetch(2), "SELECT drug FROM drug ORDER BY drug LIMIT 2"),
    (sa.select(n).where(patient.c.city.ilike("a%")), COUNTED + "city ILIKE 'a%'"),
    (sa.select(n).where(~patient.c.city.ilike("A!%", escape="!")), COUNTED + "city NOT ILIKE 'A!%' ESCAPE '!'"),
    (sa.select(n).where(patient.c.city.like("_sh")), COUNTED + "city LIKE '_sh'"),
    (sa.select(drug.c.label).where(drug.c.label.contains("dei")), "SELECT label FROM drug WHERE label LIKE '%dei%'"),
    (sa.select(n).where(patient.c.site.in_([1, 3])), COUNTED + "site IN (1, 3)"),
    (sa.select(n).where(patient.c.site.in_([])), COUNTED + "FALSE"),
    (sa.select(n).where(patient.c.female.is_(True)), COUNTED + "female IS TRUE"),
    (sa.select(n).where(patient.c.female == sa.false()), COUNTED + "female = FALSE"),
    (sa.select(n).where(patient.c.city.is_(None)), COUNTED + "city IS NULL"),
    (sa.select(n).where(patient.c.city.is_distinct_from("Ash")), COUNTED + "city IS DISTINCT FROM 'Ash'"),
    (sa.select(n).where(patient.c.weight.between(50.5, 80)), COUNTED + "weight BETWEEN 50.5 AND 80"),
    (sa.select(n).where(patient.c.born >= datetime.date(1995, 1, 1)), COUNTED + "born >= DATE '1995-01-01'"),
    (
        sa.select(n).where(visit.c.seen < datetime.datetime(2020, 3, 1, 12, 30)),
        "SELECT COUNT(*) AS n FROM visit WHERE seen < TIMESTAMP '2020-03-01 12:30:00'",
    ),
    (
        sa.select(sa.func.sum(patient.c.score)).where(patient.c.score > Decimal("1.50")),
        "SELECT SUM(score) FROM patient WHERE score > 1.50",
    ),
    (
        sa.select(sa.extract("year", patient.c.born).label("y"), n).group_by(sa.text("y")).order_by("y"),
        "SELECT EXTRACT(year FROM born) AS y, COUNT(*) AS n FROM patient GROUP BY y ORDER BY y",
    ),
    (
        sa.select(sa.func.date_trunc("month", visit.c.seen).label("m"), n).group_by(sa.text("1")).order_by("m"),
        "SELECT DATE_TRUNC('month', seen) AS m, COUNT(*) AS n FROM visit GROUP BY 1 ORDER BY m",
    ),
    (
        sa.select(sa.case((patient.c.weight < 60, "low"), else_="high").label("band"), n).group_by(sa.text("band")).order_by("band"),
        "SELECT CASE WHEN weight < 60 THEN 'low' ELSE 'high' END AS band, COUNT(*) AS n FROM patient GROUP BY band ORDER BY band",
    ),
    (sa.select(sa.func.sum(patient.c.weight) / sa.func.count()), "SELECT SUM(weight) / COUNT(*) FROM patient"),
    (sa.select(drug.c.drug / 2).order_by(drug.c.drug), "SELECT drug / 2 FROM drug ORDER BY drug"),
    (sa.select(drug.c.drug % 2).order_by(drug.c.drug), "SELECT drug % 2 FROM drug ORDER BY drug"),
    (sa.select(drug.c.label + "!").order_by(drug.c.drug), "SELECT label || '!' FROM drug ORDER BY drug"),
    (sa.select(sa.cast(drug.c.drug, sa.String(9))).order_by(drug.c.drug), "SELECT CAST(drug AS VARCHAR) FROM drug ORDER BY drug"),
    (sa.select(sa.cast(sa.literal("0.1"), sa.Float)), "SELECT CAST('0.1' AS DOUBLE)"),
    (sa.select(sa.cast(sa.literal("1.25"), sa.Numeric(5, 2))), "SELECT CAST('1.25' AS DECIMAL(5, 2))"),
    (sa.select(sa.cast(sa.literal("2020-02-03"), sa.DateTime)), "SELECT CAST('2020-02-03' AS TIMESTAMP)"),
    (
        sa.select(sa.func.count().filter(patient.c.site == 1).label("one"), n).select_from(patient),
        "SELECT COUNT(*) FILTER (WHERE site = 1) AS one, COUNT(*) AS n FROM patient",
    ),
    (
        sa.select(patient.c.city, n).group_by(patient.c.city).order_by(sa.nullsfirst(patient.c.city)),
        "SELECT city, COUNT(*) AS n FROM patient GROUP BY city ORDER BY city NULLS FIRST",
    ),
    (sa.select(patient.c.site).distinct().order_by("site"), "SELECT DISTINCT site FROM patient ORDER BY site"),
    (
        sa.select(patient.c.site, n).group_by(patient.c.site).having(sa.func.count() > 1).order_by("site"),
        "SELECT site, COUNT(*) AS n FROM patient GROUP BY site HAVING COUNT(*) > 1 ORDER BY site",
    ),
    (
        sa.select(sa.func.sum(by_site.subquery().c.n)),
        "SELECT SUM(n) FROM (SELECT site, COUNT(*) AS n FROM patient GROUP BY site) AS anon_1",
    ),
    (
        sa.select(by_site.cte("sites")).order_by(sa.text("1")),
        "WITH sites AS (SELECT site, COUNT(*) AS n FROM patient GROUP BY site) SELECT * FROM sites ORDER BY 1",
    ),
    (
        by_site.select_from(visit.join(patient, visit.c.patient_id == patient.c.patient_id)).order_by("site"),
        "SELECT site, COUNT(*) AS n FROM visit JOIN patient ON visit.patient_id = patient.patient_id GROUP BY site ORDER BY site",
    ),
    (
        sa.select(n).select_from(patient).where(patient.c.patient_id.in_(sa.select(visit.c.patient_id).where(visit.c.year == 1))),
        COUNTED + "patient_id IN (SELECT patient_id FROM visit WHERE year = 1)",
    ),
    (
        sa.select(patient.c.site, ranked.label("r")).group_by(patient.c.site).order_by("site"),
        "SELECT site, RANK() OVER (ORDER BY COUNT(*) DESC) AS r FROM patient GROUP BY site ORDER BY site",
    ),
    (sa.select(drug.c.label).where(sa.tuple_(drug.c.drug, drug.c.label).in_([(1, "aspirin")])), "SELECT 'aspirin'"),
    (sa.select(sa.literal("it's 100 % :x ?"), sa.literal(True), sa.null()), "SELECT 'it''s 100 % :x ?', TRUE, NULL"),
]  # fmt: skip


@pytest.mark.few(17)
@pytest.mark.parametrize(("expression", "sql"), EXPRESSIONS, ids=[sql for _, sql in EXPRESSIONS])
@pytest.mark.parametrize("literal", [False, True], ids=["bound", "literal"])
def test_an_expression_is_the_sql_that_it_means(
    expression: sa.sql.Select, sql: str, literal: bool, clinic: sa.engine.Engine
) -> None:
    with clinic.connect() as connection:
        # few people are in this data: their groups do not stand out of the noise
        connection.exec_driver_sql("SET dp_groups = 'all'")
        text = str(expression.compile(clinic, compile_kwargs={"literal_binds": True})) if literal else ""
        found = connection.exec_driver_sql(text) if literal else connection.execute(expression)
        plain = connection.exec_driver_sql(sql)
        rows = [tuple(row) for row in found]
        assert rows == [tuple(row) for row in plain] and (rows or "FALSE" in sql)
        assert plain.context.privacy.epsilon == 0, "it is free, or the stored answer of the same question"


def test_nothing_is_not_in_an_empty_list(clinic: sa.engine.Engine) -> None:
    """The plain count is asked anew: of stored answers by site those without one are left out."""
    empty = sa.select(n).where(sa.not_(patient.c.site.in_([])))
    assert asked(clinic, empty) == asked(clinic, sa.text("/* dpsql: fresh */ SELECT COUNT(*) FROM patient")) != [(0,)]


def test_try_cast(clinic: sa.engine.Engine) -> None:
    if not hasattr(sa, "try_cast"):
        pytest.skip("SQLAlchemy 1.4 has no TRY_CAST")
    assert asked(clinic, sa.select(sa.try_cast(sa.literal("many"), sa.Integer))) == [(None,)]


def test_what_has_no_form_here_is_told_by_sqlalchemy(clinic: sa.engine.Engine) -> None:
    for statement in (
        sa.select(drug.c.drug).fetch(1, with_ties=True),
        sa.select(drug.c.label).where(drug.c.label.regexp_match("a.*")),
    ):
        with pytest.raises(exc.CompileError):
            asked(clinic, statement)


@pytest.mark.slow
def test_names_are_quoted_where_they_must_be(engine: sa.engine.Engine) -> None:
    """Every word that the engine or the parser knows, as a column and as a table."""
    known = {str(row[0]) for row in duckdb.connect().execute("SELECT keyword_name FROM duckdb_keywords()").fetchall()}
    known |= {word.lower() for word in DuckDB.Tokenizer.KEYWORDS if word.isidentifier()}
    words = [*sorted(known), "Body Mass", 'a"b', "per%cent", "ünder", "1st", "a$b"]
    for start in range(0, len(words), 40):
        chunk = words[start : start + 40]
        inner = sa.select(*(sa.literal_column(str(i)).label(word) for i, word in enumerate(chunk))).subquery("t")
        with engine.connect() as connection:
            result = connection.execute(sa.select(*(inner.c[word] for word in chunk)))
            assert list(result.keys()) == chunk
            assert [tuple(row) for row in result] == [tuple(range(len(chunk)))]
        tables = [sa.select(sa.literal_column("1").label("one")).subquery(word) for word in chunk[:12]]
        joined = sa.select(*(table.c.one.label(f"c{i}") for i, table in enumerate(tables)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it is a product, as it looks
            assert asked(engine, joined) == [(1,) * len(tables)]


def test_a_statement_is_compiled_once(engine: sa.engine.Engine) -> None:
    with warnings.catch_warnings(), engine.connect() as connection:
        warnings.simplefilter("error")
        for site in (1, 2, 1):
            result = connection.execute(sa.select(people).where(person.c.site == site))
        assert result.context.privacy.cached
        assert "CACHE_HIT" in str(result.context.cache_hit)


def test_options_of_a_statement(engine: sa.engine.Engine) -> None:
    """The most local place that names one holds, as in a statement's own text."""
    statement = sa.select(people).select_from(person)
    with engine.connect() as connection:
        for changed, epsilon in (
            (statement.prefix_with("/* dpsql: epsilon=0.2 */"), "0.2"),
            (statement.where(person.c.site == 1).with_statement_hint("/* dpsql: epsilon=0.3 */"), "0.3"),
            (statement.where(person.c.site == 2).execution_options(**{OPTIONS: "epsilon=0.4"}), "0.4"),
        ):
            assert connection.execute(changed).context.privacy.epsilon == Decimal(epsilon)
        for wrong in ("epsilon=0.1 */ SELECT 1 /*", 0.1):
            with pytest.raises(exc.ArgumentError, match="dpsql_options is a text"):
                connection.execute(statement.execution_options(**{OPTIONS: wrong}))
    cheap = engine.execution_options(**{OPTIONS: "epsilon=0.05"})
    with cheap.connect() as connection:
        assert connection.execute(sa.text("SELECT AVG(income) FROM person")).context.privacy.epsilon == Decimal("0.05")
        near = sa.text("SELECT COUNT(*) /* dpsql: epsilon=0.15 */ FROM person WHERE site = 3")
        assert connection.execute(near).context.privacy.epsilon == Decimal("0.15")
        with pytest.raises(exc.OperationalError, match="above the owner's cap"):
            connection.execution_options(**{OPTIONS: "epsilon=9"}).execute(sa.text(PAID))


def test_what_a_statement_cost(engine: sa.engine.Engine) -> None:
    with engine.connect() as connection:
        result = connection.execute(sa.text(PAID))
        assert len(result.fetchall()) == 6
        privacy, accuracy = result.context.privacy, result.context.accuracy
        assert len(accuracy) == 6 and accuracy[0][1].level == 0.95, "when the rows are read, too"
    assert (privacy.epsilon, privacy.cached, privacy.remaining) == (Decimal("0.1"), False, Decimal("3.9"))


def test_an_event_sees_every_cursor(engine: sa.engine.Engine) -> None:
    """The way to the price where somebody else holds the result."""
    pandas = reading()
    prices = []
    sa.event.listen(engine, "after_cursor_execute", lambda *given: prices.append(given[1].privacy.epsilon))
    with engine.connect() as connection:
        frame = pandas.read_sql(sa.text(PAID), connection)
        again = pandas.read_sql(sa.select(person.c.site, people).group_by(person.c.site).order_by("site"), connection)
    assert list(frame.columns) == ["site", "people"] and frame.equals(again)
    assert prices == [Decimal("0.1"), 0]


def test_pandas_reads_a_table(engine: sa.engine.Engine) -> None:
    pandas = reading()
    frame = pandas.read_sql_table("plan", engine)
    assert list(frame.columns) == ["plan", "coinsurance_pct"] and len(frame) == 18
    assert len(pandas.read_sql_query(sa.text("SELECT * FROM plan WHERE plan < :most"), engine, params={"most": 5})) == 4


def test_classes_that_are_mapped(engine: sa.engine.Engine) -> None:
    Base = orm.declarative_base()

    class Plan(Base):  # type: ignore[misc, valid-type]
        __table__ = sa.Table("plan", Base.metadata, autoload_with=engine)

    class Person(Base):  # type: ignore[misc, valid-type]
        __table__ = sa.Table("person", Base.metadata, autoload_with=engine)

    with orm.Session(engine) as session:
        assert session.get(Plan, 1).coinsurance_pct == 0
        assert len(session.execute(sa.select(Plan).where(Plan.coinsurance_pct > 25)).scalars().all()) > 1
        by_plan = sa.select(Plan.coinsurance_pct, sa.func.avg(Person.income).label("income"))
        by_plan = by_plan.join_from(Person, Plan, Person.plan == Plan.plan).group_by(Plan.coinsurance_pct)
        rows = session.execute(by_plan.order_by(Plan.coinsurance_pct)).all()
        assert [row.coinsurance_pct for row in rows] == [0, 25, 50, 95, 100]
        with pytest.raises(exc.ProgrammingError, match="would show rows of people") as raised:
            session.execute(sa.select(Person)).all()
        assert raised.value.orig.code == "DPSQL-305"
        session.rollback()


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("statement", "kind", "code"),
    [
        ("SELECT COUNT(*) FROM persn", exc.ProgrammingError, "DPSQL-105"),
        ("SELECT * FROM person", exc.NotSupportedError, "DPSQL-301"),
        ("CREATE TEMP TABLE t AS SELECT 1", exc.NotSupportedError, "DPSQL-103"),
        (sa.insert(person).values(site=1), exc.NotSupportedError, "DPSQL-103"),
        (sa.update(plan).values(plan=1), exc.NotSupportedError, "DPSQL-103"),
        (sa.delete(plan), exc.NotSupportedError, "DPSQL-103"),
        ("SELECT COUNT(*) FROM person WHERE person_id = 5", exc.NotSupportedError, "DPSQL-601"),
        ("/* dpsql: epsilon=9 */ SELECT COUNT(*) FROM person", exc.OperationalError, "DPSQL-502"),
    ],
)
def test_a_refusal_is_one_line_first(statement: Any, kind: type[exc.DBAPIError], code: str, url: str) -> None:
    engine = sa.create_engine(url)
    engine.connect().close()
    before = charged(url)
    with pytest.raises(kind) as raised:
        asked(engine, sa.text(statement) if isinstance(statement, str) else statement)
    first = str(raised.value).splitlines()[0]
    assert raised.value.orig.code == code and code in first and raised.value.orig.hint in first
    assert charged(url) == before


def test_tables_are_not_made(engine: sa.engine.Engine) -> None:
    made = sa.MetaData()
    sa.Table("mine", made, sa.Column("x", sa.Integer, primary_key=True))
    with pytest.raises(exc.NotSupportedError, match="CREATE is not a question about the data") as raised:
        made.create_all(engine)
    assert isinstance(raised.value.orig, dpsql.NotSupportedError)


def test_a_used_up_budget(tmp_path: Path) -> None:
    unused(RANDHIE.parent, tmp_path)
    text = (
        (tmp_path / "schema.toml")
        .read_text()
        .replace("epsilon = 4.0", "epsilon = 0.5")
        .replace("cube = { epsilon = 1,", "cube = { epsilon = 0.5,")
    )
    (tmp_path / "schema.toml").write_text(text)
    engine = sa.create_engine(f"dpsql:///{tmp_path / 'schema.toml'}")
    with engine.connect() as connection:
        connection.execute(sa.text("/* dpsql: epsilon=0.5 */ SELECT COUNT(*) FROM person"))
        with pytest.raises(exc.OperationalError) as raised:
            connection.execute(sa.text(PAID))
    assert isinstance(raised.value.orig, dpsql.BudgetError) and raised.value.orig.code == "DPSQL-501"


def test_a_list_is_shown_by_its_type() -> None:
    engine = sa.create_engine(f"dpsql:///{ROOT / 'tests/notes/club/schema.toml'}?ledger=:memory:")
    types = {column["name"]: str(column["type"]) for column in sa.inspect(engine).get_columns("member")}
    assert types["tags"] == "VARCHAR[]" and types["courses"] == "INTEGER[]"
    with engine.connect() as connection:
        sql = "SELECT column_name, data_type FROM information_schema.columns WHERE table_name = 'member' AND column_name = 'tags'"
        assert connection.execute(sa.text(sql)).fetchall() == [("tags", "VARCHAR[]")]
    engine.dispose()
