"""free_answer: what follows from the declared schema is the same on any data, and on the empty declared tables."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

import duckdb
import pytest
from sqlglot import exp

from dpsql.core.domains import UNBOUNDED, Categories, Interval, interval
from dpsql.core.errors import Error
from dpsql.core.sqltypes import INTEGER, VARCHAR
from dpsql.planner.parse import DUCKDB, Catalog, Query, parse
from dpsql.planner.resolve import resolve
from dpsql.planner.resolve.catalog import catalog_text, spending_tables
from dpsql.planner.resolve.free import free_answer
from dpsql.postprocess.declared import DeclaredTables
from dpsql.schema.model import Column, Schema
from tests.support import clinic

NO_ROWS = [
    "SELECT * FROM (SELECT COUNT(*) FROM patient WHERE 1 = 0) AS p",
    "SELECT site, age + 1 FROM (SELECT * FROM (SELECT * FROM patient LIMIT 0) AS p) AS q WHERE site > 2",
    "SELECT COUNT(*), MAX(age) FROM (SELECT p.* FROM patient AS p JOIN visit AS v USING (patient_id) LIMIT 0) AS q",
    "SELECT * FROM patient WHERE 1 = 0",
    "SELECT COUNT(*), SUM(age), AVG(income), MAX(age), COUNT(DISTINCT city) FROM patient WHERE FALSE",
    "SELECT site, COUNT(*) FROM patient WHERE age > 5 AND (NULL) GROUP BY site",
    "SELECT site, COUNT(*) FROM patient WHERE 'a' = 'b' GROUP BY ROLLUP (site)",
    "SELECT COUNT(*) FROM patient WHERE 1 <> 1 HAVING COUNT(*) = 0",
    "SELECT * FROM (SELECT * FROM patient) AS p WHERE 1 = 0",
    "SELECT * FROM (SELECT site, COUNT(*) FROM patient GROUP BY site) AS p WHERE NOT TRUE ORDER BY 1",
    "SELECT COUNT(*) FROM patient AS p JOIN visit AS v ON p.patient_id = v.patient_id WHERE 0 > 1 AND p.age > 3",
    "WITH c AS (SELECT * FROM visit) SELECT COUNT(*) AS n FROM c WHERE 2 <= 1.5",
    "SELECT COUNT(*) FROM patient WHERE patient_id IN (SELECT patient_id FROM visit) AND 1 = NULL",
    "SELECT COUNT(*) FROM drug WHERE -1 >= 0",
    "SELECT COUNT(*) FROM patient WHERE 'b' < 'a'",
    "SELECT * FROM patient LIMIT 0",
    "SELECT site, COUNT(*) FROM patient GROUP BY site LIMIT 0",
    "SELECT patient_id FROM patient UNION ALL SELECT visit_id FROM visit LIMIT 0",
    "SELECT age, (SELECT COUNT(*) FROM drug) FROM patient LIMIT 0",
]  # fmt: skip
NOT_FREE = [
    "SELECT COUNT(*) FROM patient",
    "SELECT COUNT(*) FROM patient WHERE 1 = 1",
    "SELECT COUNT(*) FROM patient WHERE age > 3 OR 1 = 0",
    "SELECT COUNT(*) FROM patient WHERE NOT (1 = 0)",
    "SELECT COUNT(*) FROM patient WHERE 1 = 'a'",
    "SELECT COUNT(*) FROM patient WHERE 0.1e0 = 0.10000000000000000001",
    "SELECT COUNT(*), (SELECT COUNT(*) FROM drug) FROM patient WHERE 1 = 0",
    "SELECT COUNT(*) FROM patient WHERE 1 = 0 HAVING COUNT(*) < (SELECT COUNT(*) FROM drug)",
    "SELECT COUNT(*) FROM patient WHERE 1 = 0 ORDER BY (SELECT COUNT(*) FROM drug)",
    "SELECT COUNT(*) FROM patient WHERE 1 = 0 UNION ALL SELECT 1",
    "SELECT * FROM (SELECT * FROM patient LIMIT 0) AS p JOIN visit USING (patient_id)",
    "SELECT COUNT(*) FROM (SELECT * FROM patient LIMIT 0) AS p WHERE site IN (SELECT site FROM patient)",
    "SELECT site, COUNT(*) FROM patient GROUP BY site LIMIT 1",
    "SELECT 1 FROM patient", "SELECT 1 FROM patient LIMIT 2", "SELECT 1 FROM patient LIMIT 1 OFFSET 1",
    "SELECT 1 FROM patient WHERE age > 3 LIMIT 1", "SELECT age FROM patient LIMIT 1", "SELECT 1 FROM drug LIMIT 1",
    "SELECT 1, COUNT(*) FROM patient LIMIT 1", "SELECT DISTINCT 1 FROM patient LIMIT 1", "SELECT 1 FROM patient, visit LIMIT 1",
    "SELECT MIN(patient_id) FROM patient", "SELECT MAX(visit_id) FROM visit", "SELECT MIN(note) FROM patient",
    "SELECT MIN(age), COUNT(*) FROM patient", "SELECT MIN(age) FROM patient WHERE age > 20", "SELECT MIN(age + 1) FROM patient",
    "SELECT MIN(age) FROM patient GROUP BY site", "SELECT MIN(age) FILTER (WHERE site = 1) FROM patient",
    "SELECT MIN(DISTINCT age) FROM patient", "SELECT MIN(drug) FROM drug",
    "SELECT MIN(age) FROM patient HAVING COUNT(*) > 1", "SELECT MIN(age) FROM patient HAVING COUNT(age) > 0",
    "SELECT MIN(age) FROM patient HAVING COUNT(*) > 0 OR TRUE", "SELECT MIN(age) FROM patient LIMIT 1 OFFSET 1",
    "SELECT MIN(age) FROM (SELECT age FROM patient LIMIT 3) AS p", "SELECT MIN(age) FROM (SELECT DISTINCT age FROM patient) AS p",
    "SELECT MIN(age) FROM (SELECT age FROM patient WHERE age > 20) AS p",
    "SELECT MIN(age) FROM (SELECT age + 1 AS age FROM patient) AS p",
    "SELECT MIN(age) FROM (SELECT *, site AS age FROM patient) AS p", "SELECT MIN(age) FROM (SELECT p.* FROM patient AS p) AS q",
    "SELECT MIN(drug) FROM (SELECT * FROM drug) AS d", "SELECT MIN(p.age) FROM (SELECT age FROM patient AS p) AS q",
    "SELECT MIN(income) FROM patient AS p(patient_id, income)",
    "SELECT MIN(income) FROM (SELECT * FROM patient AS p(patient_id, income)) AS q",
    "SELECT MIN(x) FROM (SELECT age FROM patient) AS p(x)", "SELECT MIN(age) FROM (SELECT site FROM patient) AS p",
    "SELECT MIN(v.age) FROM patient AS p", "SELECT MIN(age) FROM nobody", "SELECT 1 FROM nobody LIMIT 1",
    "SELECT * FROM information_schema.character_sets", "SELECT * FROM information_schema.tables, patient",
    "SELECT * FROM tables", "SELECT * FROM main.tables", "SELECT 1",
    "WITH patient AS (SELECT * FROM information_schema.tables) SELECT * FROM patient",
    "SELECT * FROM (PIVOT patient ON site USING COUNT(*) GROUP BY female) WHERE 1 = 0",
]  # fmt: skip


@pytest.fixture(scope="module")
def schema(tmp_path_factory: pytest.TempPathFactory) -> Schema:
    """The declared tables, the public one with the columns that it gets at opening."""
    drug = tuple(Column(name, kind, UNBOUNDED, True, "quasi") for name, kind in (("drug", INTEGER), ("label", VARCHAR)))
    return clinic.schema(tmp_path_factory.mktemp("clinic")).with_public_facts({}, {"drug": drug})


@pytest.fixture(scope="module")
def declared(schema: Schema) -> Iterator[DeclaredTables]:
    found = DeclaredTables(schema)
    yield found
    found.close()


def free(sql: str, schema: Schema) -> exp.Expression | None:
    tree = parse(sql).tree
    assert tree is not None
    before = tree.copy()
    found = free_answer(tree, schema)
    assert tree == before, "the argument was changed"
    return found[0] if found is not None else None


def answered(sql: str, schema: Schema, declared: DeclaredTables) -> list[tuple[object, ...]]:
    tree = free(sql, schema)
    assert tree is not None
    return declared.rows(DUCKDB.generate(tree))[1]


# --- no rows ------------------------------------------------------------------------------------------------------------


@pytest.mark.few(4)
@pytest.mark.parametrize("sql", NO_ROWS)
def test_the_same_on_any_data(sql: str, schema: Schema, declared: DeclaredTables) -> None:
    found = answered(sql, schema, declared)
    for seed in range(4):
        full = duckdb.connect()
        clinic.fill(full, clinic.database(random.Random(seed)))
        assert found == full.execute(sql).fetchall()


@pytest.mark.parametrize("sql", NOT_FREE)
def test_not_free(sql: str, schema: Schema) -> None:
    assert free(sql, schema) is None


def test_a_function_of_our_own_is_none_over_no_rows(schema: Schema, declared: DeclaredTables) -> None:
    sql = "SELECT dp_sum(age, lower := 0, upper := 9), COUNT(*) FROM patient WHERE FALSE"
    assert answered(sql, schema, declared) == [(None, 0)]


def test_parameters_are_constants(schema: Schema) -> None:
    for sql in ("SELECT COUNT(*) FROM patient WHERE 1 = ?", "SELECT age FROM patient LIMIT ?"):
        tree = parse(sql, [0]).tree
        assert tree is not None and free_answer(tree, schema) is not None


@pytest.mark.few(25)
@pytest.mark.parametrize("operator", ["=", "<>", "<", "<=", ">", ">="])
@pytest.mark.parametrize(
    ("left", "right"),
    [("1", "0"), ("-1", "1"), ("1.50", "1.5"), ("'a'", "'B'"), ("''", "'a'"), ("TRUE", "FALSE"), ("NULL", "1")],
)
def test_comparisons_are_the_engines(operator: str, left: str, right: str, schema: Schema) -> None:
    ((holds,),) = duckdb.connect().execute(f"SELECT {left} {operator} {right}").fetchall()
    found = free(f"SELECT COUNT(*) FROM patient WHERE {left} {operator} {right}", schema)
    assert (found is None) == (holds is True)


# --- one row ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sql", "row"),
    [
        ("SELECT 1 FROM patient LIMIT 1", (1,)),
        (
            "SELECT 'x' AS a, -2 AS b, NULL, TRUE, CAST('3' AS INTEGER) FROM main.Visit AS v LIMIT 1",
            ("x", -2, None, True, 3),
        ),
    ],
)
def test_literals_over_a_declared_table(
    sql: str, row: tuple[object, ...], schema: Schema, declared: DeclaredTables
) -> None:
    tree = free(sql, schema)
    assert tree is not None and tree.find(exp.Table) is None
    assert answered(sql, schema, declared) == [row]


# --- declared bounds ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("column", "low", "high", "kind"),
    [
        ("age", "10", "90", "INTEGER"), ("income", "-50.0", "100.0", "DOUBLE"), ("score", "10.00", "90.00", "DECIMAL(6,2)"),
        ("site", "1", "3", "INTEGER"), ("female", "False", "True", "BOOLEAN"), ("city", "a", "c", "VARCHAR"),
        ("born", "1990-01-01", "1999-12-31", "DATE"),
    ],
)  # fmt: skip
def test_extremes(column: str, low: str, high: str, kind: str, schema: Schema, declared: DeclaredTables) -> None:
    tree = free(f"SELECT MIN({column}), MAX(p.{column}) AS top FROM patient AS p", schema)
    assert tree is not None and tree.find(exp.Table) is None
    columns, rows = declared.rows(DUCKDB.generate(tree))
    assert [str(cell) for cell in rows[0]] == [low, high]
    assert [sqltype for _, sqltype in columns] == [kind, kind]
    assert columns[1][0] == "top"


@pytest.mark.parametrize(
    "around",
    [
        "FROM patient LIMIT 50000", "FROM patient HAVING COUNT(*) > 0", "FROM patient HAVING (COUNT(1) >= 1) AND 0 <> COUNT(*) LIMIT 1",
        "FROM (SELECT * FROM patient) AS virtual_table LIMIT 1000",
        "FROM (SELECT * FROM (SELECT p.age, site FROM main.patient p) AS a)",
        "FROM (SELECT x AS age FROM (SELECT age AS x, site AS age FROM patient) AS a) AS b",
    ],
)  # fmt: skip
def test_extremes_through_what_tools_add(around: str, schema: Schema, declared: DeclaredTables) -> None:
    assert answered(f'SELECT MIN(age) AS "min", MAX(age) {around}', schema, declared) == [(10, 90)]


def test_extremes_are_values_of_the_type(schema: Schema, declared: DeclaredTables) -> None:
    """Bounds between two whole numbers, beyond the type, and a text domain whose order is by code point."""
    patient = schema.table("patient")
    assert patient is not None
    columns = (
        Column("a", INTEGER, Interval(Fraction(1, 2), Fraction(3, 2)), nullable=False, role="measure"),
        Column("b", INTEGER, interval(-(10**12), 10**12), nullable=False, role="measure"),
        Column("c", VARCHAR, Categories(("é", "Z", "it's", "a")), nullable=False, role="dimension"),
    )
    odd = replace(schema, tables=(replace(patient, columns=columns),))
    sql = "SELECT MIN(a), MAX(a), MIN(b), MAX(b), MIN(c), MAX(c) FROM patient"
    assert answered(sql, odd, declared) == [(1, 1, -(2**31), 2**31 - 1, "Z", "é")]


# --- the catalog --------------------------------------------------------------------------------------------------------


def test_information_schema_shows_the_declared_tables(schema: Schema, declared: DeclaredTables) -> None:
    tables = answered("SELECT table_schema, table_name FROM information_schema.tables ORDER BY ALL", schema, declared)
    assert [row[1] for row in tables if row[0] == "main"] == ["drug", "item", "patient", "visit"]
    assert [row for row in tables if row[0] != "main"] == [
        ("dpsql", n)
        for n in (
            "analysts",
            "budget",
            "cubes",
            "guard",
            "ledger",
            "models",
            "randomized_tables",
            "synthetic_tables",
            "versions",
        )
    ]
    sql = """SELECT c.column_name, c.data_type, c.is_nullable FROM Information_Schema.TABLES AS t
             JOIN information_schema.columns AS c USING (table_name) WHERE t.table_name = 'patient' ORDER BY c.ordinal_position"""
    patient = schema.table("patient")
    assert patient is not None
    assert answered(sql, schema, declared) == [
        (c.name, str(c.sqltype), "YES" if c.nullable else "NO") for c in patient.columns
    ]


@pytest.mark.parametrize("table", ["tables", "columns", "schemata"])
def test_the_catalog_holds_no_path(table: str, schema: Schema, declared: DeclaredTables) -> None:
    rows = answered(f"SELECT * FROM information_schema.{table}", schema, declared)
    assert rows and not any("/" in cell for row in rows for cell in row if isinstance(cell, str))


def test_a_with_query_over_the_catalog(schema: Schema, declared: DeclaredTables) -> None:
    sql = "WITH c AS (SELECT table_name FROM information_schema.columns) SELECT COUNT(DISTINCT table_name) FROM c"
    assert answered(sql, schema, declared) == [(13,)]


@pytest.mark.parametrize(
    ("sql", "names"),
    [
        ("SHOW TABLES", ()), ("show /* these */ tables;", ()),
        ("DESCRIBE patient", ("patient",)), ("desc main.Patient", ("main", "Patient")),
        ('DESCRIBE "a ""b"', ('a "b',)), ("DESCRIBE DPSQL.Ledger", ("DPSQL", "Ledger")),
        ("DESCRIBE clinic.main.patient", ("clinic", "main", "patient")),
    ],
)  # fmt: skip
def test_catalog_statements(sql: str, names: tuple[str, ...]) -> None:
    parsed = parse(sql)
    assert isinstance(parsed, Catalog) and parsed.table == names


@pytest.mark.parametrize(
    "sql",
    [
        "SHOW", "SHOW ALL TABLES", "SHOW VARIABLES", "SHOW patient", 'SHOW "tables"', "DESCRIBE", "DESCRIBE SELECT 1",
        "DESCRIBE 'x.csv'", "DESCRIBE a.b.c.d", "DESCRIBE patient, visit", "SUMMARIZE patient", "EXPLAIN SHOW TABLES",
        "DESCRIBE (SELECT 1)", "DESCRIBE a 'b'", "DESCRIBE dpsql.", "DESCRIBE dpsql..b", "SHOW BUDGETS", 'SHOW "budget"',
        "SHOW dpsql.budget", "SHOW PRIVACY", "SHOW BUDGET LEDGER", "EXPLAIN SHOW BUDGET",
    ],
)  # fmt: skip
def test_other_catalog_statements_are_refused(sql: str) -> None:
    with pytest.raises(Error) as found:
        parse(sql)
    assert found.value.code == "DPSQL-103"


def test_other_ways_to_the_catalog_are_refused(schema: Schema) -> None:
    with pytest.raises(Error) as found:
        parse("SELECT * FROM duckdb_tables()")
    assert found.value.code == "DPSQL-103"
    with pytest.raises(Error) as found:
        resolve(parse("SELECT * FROM system.information_schema.tables"), schema)
    assert found.value.code == "DPSQL-105"


def test_describe_names_the_table_in_one_spelling(schema: Schema) -> None:
    for sql in (
        "DESCRIBE patient",
        "desc main.Patient",
        "DESCRIBE PUBLIC.patient",
        f'DESCRIBE "{schema.name}".main.PATIENT',
    ):
        assert catalog_text(parse(sql), schema).lower() == 'describe "patient"'
    assert catalog_text(parse("DESCRIBE DPSQL.Ledger"), schema) == 'DESCRIBE "dpsql"."Ledger"'
    for sql in ("DESCRIBE other.patient", "DESCRIBE dpsql.a.b", "DESCRIBE dpsql.patient"):
        with pytest.raises(Error) as found:
            catalog_text(parse(sql), schema)
        assert found.value.code == "DPSQL-105"


def test_describe_shows_the_declaration(schema: Schema, declared: DeclaredTables) -> None:
    _, rows = declared.rows(catalog_text(parse("DESCRIBE VISIT"), schema))
    assert [row[:3] for row in rows][:3] == [
        ("visit_id", "BIGINT", "NO"),
        ("patient_id", "BIGINT", "NO"),
        ("year", "BIGINT", "NO"),
    ]
    assert rows[4][:3] == ("days", "INTEGER", "YES")
    assert declared.rows(catalog_text(parse("SHOW TABLES"), schema))[1] == [
        (t,) for t in ("drug", "item", "patient", "visit")
    ]


@pytest.mark.parametrize(
    ("sql", "meant"),
    [
        ("SHOW BUDGET", "SELECT * FROM dpsql.budget"), ("show Privacy /* the */ Budget;", "SELECT * FROM dpsql.budget"),
        ("SHOW LEDGER", "SELECT * FROM dpsql.ledger ORDER BY id"), ("SHOW ANALYSTS", "SELECT * FROM dpsql.analysts"),
        ("SHOW GUARD", "SELECT * FROM dpsql.guard ORDER BY id"),
    ],
)  # fmt: skip
def test_show_of_what_was_spent_is_a_query(sql: str, meant: str) -> None:
    parsed = parse(sql)
    assert isinstance(parsed, Query) and (parsed.sql, parsed.plain) == (sql, meant)
    assert parsed.tree == parse(meant).tree


def test_what_was_spent_is_read_alone(schema: Schema) -> None:
    def read(sql: str) -> tuple[str, ...]:
        tree = parse(sql).tree
        assert tree is not None
        return spending_tables(tree, schema)

    assert read("SELECT * FROM dpsql.ledger AS l, DPSQL.Analysts, information_schema.tables") == (
        "dpsql.analysts",
        "dpsql.ledger",
    )
    assert read("SELECT * FROM patient") == () == read("WITH budget AS (SELECT 1 AS x) SELECT * FROM budget")
    for sql in ("SELECT * FROM dpsql.ledger, patient", "SELECT 1 FROM drug WHERE EXISTS (FROM dpsql.budget)"):
        with pytest.raises(Error) as found:
            read(sql)
        assert found.value.code == "DPSQL-402" and found.value.hint is not None and found.value.span is not None


def test_describe_of_an_undeclared_table(schema: Schema) -> None:
    with pytest.raises(Error, match="did you mean patient") as found:
        catalog_text(parse("DESCRIBE patent"), schema)
    assert found.value.code == "DPSQL-105"
    assert found.value.span is not None and (found.value.span.start, found.value.span.end) == (9, 15)


def test_they_take_one_question(declared: DeclaredTables) -> None:
    for sql in ("CREATE TABLE z (a INTEGER)", "SELECT 1; SELECT 2", "INSERT INTO visit VALUES (1)", "SET threads = 2"):
        with pytest.raises(Error) as found:
            declared.rows(sql)
        assert found.value.code == "DPSQL-901"
    with pytest.raises(Error) as unbound:
        declared.rows("SELECT nothing FROM patient")
    assert unbound.value.code == "DPSQL-106"
