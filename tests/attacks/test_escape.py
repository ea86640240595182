"""A13 to A17: nothing but declared tables, through aggregates that have a mechanism; the engine is not even called."""

from __future__ import annotations

import pytest

import dpsql
from dpsql.engines.duckdb.engine import DuckDBEngine
from dpsql.postprocess.sandbox import Sandbox
from tests.attacks.observing import empty, everywhere, opened, ordinary, see

RAW = [
    f"SELECT {aggregate} FROM patient"
    for aggregate in (
        "MIN(code)",
        "MAX(code + 1)",
        "MAX(patient_id)",
        "first(income)",
        "last(income)",
        "any_value(note)",
        "list(income)",
        "array_agg(note)",
        "string_agg(note, ',')",
        "group_concat(note)",
        "arg_max(note, income)",
        "arg_min(note, income)",
        "max_by(note, income)",
        "histogram(age)",
        "approx_quantile(code, 0.5)",
        "approx_top_k(note, 3)",
        "median(code)",
        "quantile_cont(code, 0.5)",
        "mode(note)",
        "stddev(code)",
        "variance(code)",
        "entropy(note)",
        "entropy(income)",
        "bit_xor(code)",
        "product(age)",
        "corr(code, age)",
        "sum(DISTINCT age)",
        "sum(age ORDER BY income)",
        "min(income, 3)",
        "bitstring_agg(age)",
        "max(code) FILTER (WHERE age > 3)",
        "reservoir_quantile(income, 0.5)",
    )
]
FILES = [
    "SELECT * FROM read_csv('x.csv')",
    "SELECT * FROM 'x.csv'",
    'SELECT * FROM "x.csv"',
    "SELECT * FROM '/etc/passwd'",
    "FROM 'x.parquet'",
    "SELECT * FROM read_text('/etc/passwd')",
    "SELECT * FROM glob('*')",
    "SELECT * FROM read_blob('*')",
    "SELECT * FROM parquet_scan('x')",
    "ATTACH 'x.db'",
    "ATTACH ':memory:' AS m",
    "DETACH clinic",
    "USE clinic",
    "COPY patient TO 'x.csv'",
    "COPY (SELECT 1) TO 'x'",
    "INSTALL httpfs",
    "LOAD httpfs",
    "PRAGMA database_list",
    "PRAGMA table_info('patient')",
    "CALL pragma_version()",
    "EXPORT DATABASE 'x'",
    "IMPORT DATABASE 'x'",
    "SELECT * FROM query('SELECT * FROM patient')",
    "SELECT * FROM query_table('patient')",
    "FROM query_table('patient')",
    "SELECT * FROM json_execute_serialized_sql('x')",
    "SELECT getenv('HOME')",
    "SELECT current_setting('threads')",
    "SELECT * FROM duckdb_settings()",
    "CREATE TABLE x AS SELECT * FROM patient",
    "CREATE MACRO count(x) AS 1",
    "CREATE VIEW v AS SELECT 1",
    "INSERT INTO patient VALUES (1)",
    "DELETE FROM patient",
    "UPDATE patient SET age = 1",
    "DROP TABLE patient",
    "ALTER TABLE patient DROP age",
    "SET threads = 1",
    "RESET threads",
    "SET VARIABLE x = 1",
    "SET dp_epsilon = 1; SELECT 1",
    "PREPARE v AS SELECT 1",
    "EXECUTE v",
    "BEGIN",
    "CHECKPOINT",
    "VACUUM",
    "SELECT 1; SELECT 2",
    "SELECT * FROM repeat_row(1, num_rows = 10)",
    "SELECT unnest([1, 2])",
    "SELECT * FROM patient POSITIONAL JOIN visit",
    "FORCE CHECKPOINT",
    "SHOW ALL TABLES",
    'SELECT COUNT(*) FROM main."patient.parquet"',
    'SELECT * FROM "dpsql source".main.patient',
    'SELECT * FROM "dpsql input"',
    'SELECT COUNT(*) FROM "dpsql source".patient',
    "SELECT * FROM temp.patient",
    "SELECT * FROM release_0",
    "SELECT * FROM main.release_0",
    "WITH release_0 AS (SELECT * FROM release_0) SELECT * FROM release_0",
    "WITH patient AS (SELECT * FROM patient) SELECT * FROM patient",
    "SELECT * FROM (WITH patient AS (SELECT 1 AS x) SELECT * FROM patient) AS a, patient AS b",
    "WITH a AS (SELECT * FROM b), b AS (SELECT 1 AS x) SELECT * FROM a",
    "WITH RECURSIVE a AS (SELECT 1 AS x UNION ALL SELECT x FROM a) SELECT * FROM a",
    "PIVOT patient ON site USING COUNT(*)",
    "UNPIVOT patient ON age INTO NAME n VALUE v",
    "SELECT COLUMNS('a.*') FROM patient",
]
METADATA = [
    "SELECT * FROM information_schema.tables",
    "SELECT * FROM information_schema.columns",
    "SELECT * FROM duckdb_tables()",
    "SELECT * FROM pg_class",
    "SELECT * FROM duckdb_columns()",
    "SUMMARIZE patient",
    "SUMMARIZE SELECT * FROM patient",
    "DESCRIBE patient",
    "DESCRIBE SELECT * FROM patient",
    "SHOW TABLES",
    "EXPLAIN ANALYZE SELECT COUNT(*) FROM patient",
    "EXPLAIN (ANALYZE) SELECT COUNT(*) FROM patient",
    "EXPLAIN SELECT COUNT(*) FROM patient",
    "SELECT COUNT(*) FROM patient WHERE typeof(note) = 'VARCHAR'",
    "SELECT stats(income) FROM patient",
    "SELECT COUNT(*) FROM patient WHERE rowid = 0",
    "SELECT rowid FROM patient",
    "SELECT COUNT(*) FROM patient WHERE patient.rowid = 0",
    "SELECT MAX(rowid) FROM patient",
    "SELECT COUNT(*) FROM pragma_storage_info('patient')",
    "SELECT * FROM pragma_table_info('patient')",
    "SELECT * FROM sqlite_master",
    "SELECT COUNT(*) FROM patient WHERE hash(note) % 2 = 0",
    "SELECT COUNT(*) FROM patient WHERE file_row_number = 1",
    "SELECT filename FROM patient",
]
VOLATILE = [
    "SELECT COUNT(*) FROM patient WHERE random() < 0.5",
    "SELECT COUNT(*) FROM patient WHERE uuid() IS NULL",
    "SELECT COUNT(*) FROM patient TABLESAMPLE 10%",
    "SELECT COUNT(*) FROM patient USING SAMPLE 1 ROWS",
    "SELECT COUNT(*) FROM patient TABLESAMPLE reservoir(1)",
    "SELECT nextval('s') FROM patient",
    "SELECT setseed(0.5)",
    "SELECT random()",
    "SELECT gen_random_uuid()",
    "SELECT COUNT(*) FROM patient WHERE currval('s') = 1",
    "SELECT COUNT(*) + random() FROM patient",
]


@pytest.mark.parametrize("group", ["raw", "files", "volatile"])
def test_a13_a14_a17_refused_before_the_engine_is_called(group: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Raw aggregates, files, settings, other statements, chance: each refused with a code, for nothing."""
    statements = {"raw": RAW, "files": FILES, "volatile": VOLATILE}[group]
    with opened(ordinary()) as connection:
        before = connection.execute("SELECT 1").privacy.remaining
        calls: list[str] = []
        monkeypatch.setattr(DuckDBEngine, "exact", lambda self, sql, *rest: calls.append(sql))
        monkeypatch.setattr(DuckDBEngine, "public_table", lambda self, name: calls.append(name))
        run = Sandbox.run
        monkeypatch.setattr(Sandbox, "run", lambda self, sql: calls.append(sql))
        for sql in statements:
            with pytest.raises(dpsql.Error) as refused:
                connection.execute(sql)
            assert refused.value.code[6] in "1234", (sql, refused.value.code)
            assert calls == [], sql
        monkeypatch.setattr(Sandbox, "run", run)
        assert connection.execute("SELECT 1").privacy.remaining == before


@pytest.mark.slow
def test_a14_refusals_look_the_same_on_every_database() -> None:
    """The words of a refusal come from the statement and the schema."""
    for sql, found in everywhere([*RAW[::4], *FILES[::4], *VOLATILE[::3]]).items():
        assert all(one == found[0] for one in found) and found[0].error is not None and found[0].epsilon == 0, sql


@pytest.mark.slow
def test_a13_bare_extremes_are_the_declared_bounds() -> None:
    """MIN and MAX of a bounded column, and nothing else asked: the owner's words, the same on nobody and on poisoned data.

    Of some of the rows, or of groups, they are estimates at a price; of a column without bounds they are refused.
    """
    for sql, found in everywhere(
        ["SELECT MIN(income), MAX(age) FROM patient", "SELECT MAX(city) FROM patient"]
    ).items():
        assert {repr(one.answer) for one in found} <= {"[(-50.0, 90)]", "[('c',)]"} and found[0].epsilon == 0, sql
    for where in ("WHERE age > 3", "GROUP BY site", "JOIN visit USING (patient_id)"):
        for one in everywhere([f"SELECT MAX(income) FROM patient {where}"]).popitem()[1]:
            assert one.error is None and one.epsilon == 1, where
        for one in everywhere([f"SELECT MAX(code) FROM patient {where}"]).popitem()[1]:
            assert one.error is not None and one.epsilon == 0, where


def test_a15_python_variables_are_not_tables() -> None:
    """A replacement scan would read the caller's own variables, or the host application's."""
    import numpy

    secret = {"x": numpy.arange(3)}
    patients = secret
    assert secret is patients
    with opened(ordinary()) as connection:
        for sql in (
            "SELECT COUNT(*) FROM secret",
            "SELECT * FROM secret",
            "SELECT * FROM patients",
            "SELECT * FROM arrays",
            "SELECT * FROM drug, secret",
            "SELECT drug FROM drug WHERE drug IN (SELECT x FROM secret)",
            "WITH secret AS (SELECT * FROM secret) SELECT * FROM secret",
        ):
            seen = see(connection, sql)
            assert seen.error is not None and "DPSQL-1" in seen.error[1], sql


@pytest.mark.slow
def test_a16_metadata_is_refused_or_declared() -> None:
    """Catalogs, statistics and plans with row counts: refused, or the same words on D and De."""
    for sql, found in everywhere(METADATA).items():
        assert all(one == found[0] for one in found), sql
        assert found[0].error is not None or repr(found[0].answer) == repr(found[2].answer), sql
        assert found[0].epsilon == 0, sql


def test_a16_explain_says_nothing_of_the_data() -> None:
    """EXPLAIN of every kind of release is the same text on D and on nobody, and does not hold the cut's secret."""
    for sql in (
        "SELECT year, COUNT(*), AVG(cost) FROM visit GROUP BY year",
        "SELECT note, COUNT(*) FROM patient GROUP BY note",
    ):
        texts = set()
        for data in (ordinary(), empty()):
            with opened(data) as connection:
                texts.add(connection.explain(sql))
                assert connection._session is not None
                assert connection._session._world.ledger.secret.hex() not in connection.explain(sql)
        assert len(texts) == 1


def test_a17_the_time_is_bound_once() -> None:
    """now() is a constant of the statement, so a condition on it is the same for all rows and is shown by EXPLAIN."""
    with opened(ordinary()) as connection:
        text = connection.explain("SELECT COUNT(*) FROM patient WHERE born < now() AND born < CURRENT_DATE")
        assert "now" not in text.lower() and "TIMESTAMP '2" in text and "DATE '2" in text
