"""`public.t`, `dataset.t`, `dataset.main.t` and `dataset.public.t` are the table `t`, in FROM and before columns; what a name means
without this goes first."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import dpsql
from dpsql.clients.dbapi.connection import Connection
from dpsql.core.errors import Error
from dpsql.schema import qualifiers
from dpsql.schema.toml import read_schema
from tests.semantics.test_statements import crowded
from tests.support import clinic

WAYS = [
    "main", "public", "clinic", "clinic.main", "clinic.public", "PUBLIC", '"Clinic"', '"clinic"."MAIN"', "Clinic . main",
]  # fmt: skip
QUALIFIED = [
    "SELECT COUNT(*), SUM({0}.visit.days) FROM {0}.visit",
    "SELECT {0}.patient.site, POW(COUNT(*), 2) FROM {0}.patient WHERE {0}.patient.age > 20 GROUP BY {0}.patient.site ORDER BY 1",
    "SELECT COUNT(*) FROM {0}.patient AS p JOIN {0}.visit v ON p.patient_id = v.patient_id JOIN {0}.drug ON v.year = {0}.drug.drug",
    "SELECT COUNT(*) FROM patient WHERE EXISTS (SELECT 1 FROM {0}.visit v WHERE v.patient_id = {0}.patient.patient_id)",
    "WITH t AS (SELECT patient_id AS id, MAX({0}.visit.days) AS d FROM {0}.visit GROUP BY ALL) SELECT AVG(d) FROM t",
    "PIVOT {0}.patient ON site USING COUNT(*) GROUP BY female",
    "SELECT drug, (SELECT COUNT(*) FROM {0}.patient WHERE {0}.patient.site = d.drug) FROM {0}.drug d ORDER BY 1",
]
FREE = [
    "SELECT {0}.drug.* FROM {0}.drug ORDER BY 1",
    "SELECT MIN({0}.patient.age), MAX(age) FROM {0}.patient",
    "SELECT 1 FROM {0}.patient LIMIT 1",
    "SELECT * FROM {0}.patient WHERE 1 = 0",
    "DESCRIBE {0}.patient",
]


def opened(folder: Path, schema: str) -> Connection:
    clinic.write(folder, crowded(7))
    (folder / "schema.toml").write_text(schema, encoding="utf-8")
    return dpsql.connect(folder / "schema.toml", ledger=":memory:")


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    found = opened(tmp_path_factory.mktemp("qualified"), clinic.UNIT + clinic.PATIENT + clinic.VISIT + clinic.PUBLIC)
    yield found
    found.close()


@pytest.mark.few(10)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("sql", QUALIFIED)
def test_a_qualified_table_is_the_table(connection: Connection, sql: str, way: str) -> None:
    plain = connection.execute(sql.replace("{0}.", ""))
    shown, names = plain.fetchall(), [column[0] for column in plain.description or ()]
    again = connection.execute(sql.format(way))
    assert again.fetchall() == shown and again.privacy is not None and again.privacy.cached
    assert [column[0] for column in again.description or ()] == names


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("sql", FREE)
def test_free_answers_take_qualified_names(connection: Connection, sql: str, way: str) -> None:
    shown = connection.execute(sql.replace("{0}.", "")).fetchall()
    again = connection.execute(sql.format(way))
    assert again.fetchall() == shown and again.privacy is not None and again.privacy.epsilon == 0


@pytest.mark.parametrize(
    ("sql", "hint"),
    [
        ("SELECT COUNT(*) FROM other.patient", "did you mean patient?"),
        ("SELECT COUNT(*) FROM other.main.patient", "did you mean patient?"),
        ("SELECT COUNT(*) FROM clinic.other.patient", "did you mean patient?"),
        ("SELECT COUNT(*) FROM main.clinic.patient", "did you mean patient?"),
        ("SELECT COUNT(*) FROM clinic.patent", "did you mean patient?"),
        ("SELECT * FROM system.information_schema.tables", "the tables are patient, visit, item, drug"),
        ("SELECT * FROM clinic.dpsql.ledger", "the tables are patient, visit, item, drug"),
        ("DESCRIBE other.patient", "did you mean patient?"),
        ("DESCRIBE a.b.patient", "did you mean patient?"),
        ("SELECT SUM(other.patient.age) FROM patient", "write patient.age"),
        ("SELECT SUM(public.p.age) FROM patient AS p", "write p.age"),
        ("SELECT SUM(public.patient.age) FROM patient AS p", "write p.age"),
        ("SELECT SUM(public.visit.days) FROM patient", "add visit to FROM"),
        ("SELECT public.t.age FROM (SELECT 1 AS age) AS t", "write t.age"),
    ],
)
def test_other_words_before_a_table_are_refused(connection: Connection, sql: str, hint: str) -> None:
    with pytest.raises(Error) as found:
        connection.execute(sql)
    assert (found.value.code, found.value.hint) == ("DPSQL-105", hint)
    assert found.value.span is not None


def test_information_schema_shows_names_that_can_be_asked(connection: Connection) -> None:
    listed = connection.execute(
        "SELECT table_catalog, table_schema, table_name FROM information_schema.tables"
    ).fetchall()
    mine = [row for row in listed if row[1] == "main"]
    assert sorted(mine) == [("clinic", "main", name) for name in ("drug", "item", "patient", "visit")]
    for parts in mine:
        assert connection.execute(f"SELECT 1 FROM {'.'.join(map(str, parts))} LIMIT 1").fetchall()


def test_what_a_name_means_already_goes_first(tmp_path: Path) -> None:
    """A table that is itself called public or like the dataset, a WITH query, a table of what was spent."""
    named = clinic.UNIT.replace('"clinic"', '"dpsql"').replace("patient.", "public.")
    tables = clinic.PATIENT.replace("tables.patient", "tables.public").replace("key =", 'source = "patient"\nkey =', 1)
    visits = (clinic.VISIT + clinic.PUBLIC).replace("patient.", "public.").replace("tables.visit", "tables.ledger")
    visits = visits.replace("visit.visit_id", "ledger.visit_id").replace("key =", 'source = "visit"\nkey =', 1)
    connection = opened(tmp_path, named + tables + visits)
    for ways in [("", "public.", "public.public.", "dpsql.public."), ("", "dpsql.", "dpsql.main.", "public.")]:
        asked = ["SELECT COUNT({0}age) FROM public", "SELECT COUNT(age) FROM {0}public"][ways[1] == "dpsql."]
        assert len({str(connection.execute(asked.format(way)).fetchall()) for way in ways}) == 1
    assert connection.execute("WITH public AS (SELECT 7 AS age) SELECT public.age FROM public").fetchall() == [(7,)]
    assert connection.execute("SELECT statement FROM dpsql.ledger LIMIT 0").description is not None
    assert connection.execute("SELECT COUNT(year) FROM public.ledger").description is not None
    assert connection.execute("SELECT COUNT(year) FROM dpsql.main.ledger").description is not None
    assert connection.execute("DESCRIBE dpsql.ledger").fetchall()[0][0] == "id"
    assert connection.execute("DESCRIBE dpsql.main.ledger").fetchall()[0][0] == "visit_id"
    catalogs = connection.execute("SELECT DISTINCT table_catalog FROM information_schema.tables").fetchall()
    assert catalogs == [("memory",)], "DuckDB needs the name itself"
    connection.close()


def test_the_words_that_mean_the_declared_tables() -> None:
    schema = read_schema(Path(__file__).parents[1] / "notes/clinic/schema.toml")
    name = schema.name
    for words in [(), ("",), ("", "Main"), (name.upper(), "public"), (name,), ("public",)]:
        assert qualifiers.tables_in(schema, *words) == list(schema.tables)
    for words in [("other",), ("main", "main"), ("main", name), ("other", "main"), (name, name), ("a", name, "main")]:
        assert not qualifiers.tables_in(schema, *words)
    assert qualifiers.table(schema, "", "PUBLIC", "Patient") is schema.table("patient")
    assert qualifiers.table(schema, "other", "patient") is None
