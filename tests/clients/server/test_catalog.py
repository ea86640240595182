"""The catalog by what clients send, psql's commands, SQLAlchemy's dialect, pgjdbc's metadata: free, and of the declarations alone."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

import dpsql
from dpsql.clients.server.catalog import CatalogTables, translated
from dpsql.core.errors import Error
from tests.support.raw_client import RawClient, errors, rows
from tests.support.served import PASSWORD, Served, dump

TABLES = ["person", "person_year", "plan"]
JAR = Path("/usr/share/java/postgresql.jar")


def psql(server: Served, *commands: str) -> str:
    if shutil.which("psql") is None:
        pytest.skip("psql is not installed")
    words = ["psql", "-X", server.address(), *(word for command in commands for word in ("-c", command))]
    done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, "PAGER": "cat"}, check=False)
    assert "ERROR" not in done.stderr, done.stderr
    return done.stdout


def test_psql(server: Served, client: RawClient) -> None:
    client.query("SHOW BUDGET")
    before = dump(server.ledger)
    assert [line.split("|")[1].strip() for line in psql(server, r"\dt").splitlines()[3:6]] == TABLES
    assert "public | person_year | table" in psql(server, r"\d")
    shown = psql(server, r"\d person")
    for line in ("person_id           | bigint           |           | not null", "income              | double precision",
                 "education_years     | double precision |           |          |"):  # fmt: skip
        assert line in shown
    assert " randhie | owner | UTF8" in psql(server, r"\l")
    assert "public | owner" in psql(server, r"\dn")
    psql(server, r"\du", r"\df", r"\dv", r"\di", r"\dT", r"\dt+", r"\d plan", r"\conninfo")
    assert dump(server.ledger) == before


@pytest.mark.parametrize("driver", ["psycopg", "pg8000"])
def test_sqlalchemy(server: Served, driver: str) -> None:
    sqlalchemy = pytest.importorskip("sqlalchemy", "2.0")
    pytest.importorskip(driver)
    login = f"alice:{PASSWORD.replace(' ', '%20')}"
    engine = sqlalchemy.create_engine(f"postgresql+{driver}://{login}@127.0.0.1:{server.port}/randhie")
    with engine.connect() as connection:
        found = sqlalchemy.inspect(connection)
        assert found.get_schema_names() == ["information_schema", "public"]
        assert sorted(found.get_table_names()) == TABLES
        assert found.has_table("person")
        assert not found.has_table("nobody")
        assert [(column["name"], str(column["type"])) for column in found.get_columns("plan")] == [
            ("plan", "INTEGER"), ("coinsurance_pct", "INTEGER")]  # fmt: skip
        assert found.get_pk_constraint("plan")["constrained_columns"] == []
        assert (
            found.get_foreign_keys("person") == found.get_indexes("plan") == found.get_unique_constraints("plan") == []
        )
        table = sqlalchemy.Table("plan", sqlalchemy.MetaData(), autoload_with=connection)
        asked = sqlalchemy.select(sqlalchemy.func.count()).select_from(table).where(table.c.coinsurance_pct > 90)
        assert connection.execute(asked).scalar() == 6
    engine.dispose()


def test_pgjdbc(server: Served) -> None:
    if shutil.which("java") is None or not JAR.exists():
        pytest.skip("no Java, or no libpostgresql-jdbc-java")
    address = f"jdbc:postgresql://127.0.0.1:{server.port}/randhie"
    probe = str(Path(__file__).with_name("Probe.java"))
    command = ["java", "-cp", str(JAR), probe, address, "alice", PASSWORD, "metadata"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "jdk.compiler" in done.stderr:
        pytest.skip("this Java compiles nothing")
    told = dict(line.split(": ", 1) for line in done.stdout.splitlines())
    assert told["tables"] == "public|person|TABLE, public|person_year|TABLE, public|plan|TABLE"
    assert told["columns"] == "plan|int4|0, coinsurance_pct|int4|0"
    assert (told["schemas"], told["catalogs"]) == ("information_schema, pg_catalog, public", "randhie")
    assert {"int4", "float8", "text"} <= set(told["type info"].split(", "))
    assert [told[name] for name in ("keys", "references", "indexes", "functions")] == [""] * 4


@pytest.mark.parametrize(
    ("sql", "found"),
    [
        ("SELECT current_user", "alice"),
        ("SELECT current_database()", "randhie"),
        ("SELECT pg_catalog.version()", "PostgreSQL 15.0 (dpsql)"),
        ("SELECT current_schema()", "public"),
        ("SELECT 'person'::regclass::text, current_user", "person"),
        ("SELECT COUNT(*) FROM pg_catalog.pg_publication", "0"),
        ("SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attname = 'income'", "double precision"),
    ],
)
def test_small_questions(client: RawClient, sql: str, found: str) -> None:
    assert rows(client.query(sql))[0][0] == found


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT pg_read_file('/etc/passwd'), version()", "SELECT getenv('HOME'), current_user",
        "SELECT * FROM read_csv('/etc/passwd'), pg_class",
        "SELECT * FROM pg_class, duckdb_settings()", "SELECT * FROM pg_class JOIN person ON true", "SELECT * FROM pg_shadow",
        "SELECT pg_sleep(100), version()", "SELECT lo_import('/etc/passwd'), current_user", "SELECT getvariable('analyst'), version()",
        "SELECT * FROM pg_class, generate_series(1, 1000000000000)", "INSERT INTO pg_class VALUES (1)", "DROP TABLE pg_class",
        "SELECT query('SELECT 1'), current_user", "COPY pg_class TO '/tmp/x'", "SELECT * FROM '/etc/passwd', pg_class",
        "SELECT set_config('x', 'y', false), version()", "WITH pg_class AS (SELECT * FROM person) SELECT * FROM pg_class",
    ],
)  # fmt: skip
def test_what_is_not_passed_on(client: RawClient, sql: str) -> None:
    """Refused by the catalog, or by the dataset's own grammar."""
    told = errors(client.query(sql))
    assert told
    assert told[0]["C"].startswith("DP1") or told[0]["C"] == "DP301"


def test_other_statements_go_their_way() -> None:
    for sql in ("SELECT COUNT(*) FROM person", "SHOW TABLES", "SELECT COUNT(*) AS version FROM person", "SELECT 1"):
        assert translated(sql, ()) is None


def test_a_question_without_end(inside: dpsql.Connection) -> None:
    """It ends by the clock."""
    tables = CatalogTables(inside.schema, "alice")
    crossed = ", ".join(f"pg_attribute a{at}" for at in range(9))
    with pytest.raises(Error) as caught:
        tables.answer(f"SELECT COUNT(*) FROM {crossed}", ())
    assert caught.value.code == "DPSQL-710"
    tables.close()
