"""Public tables in the sandbox: all rows, no private file in reach, and questions that become tables."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from dpsql.core.errors import Error, OperationalError, ProgrammingError
from dpsql.core.sqltypes import BIGINT, DOUBLE
from dpsql.engines.duckdb.engine import DuckDBEngine
from dpsql.engines.public import fill
from dpsql.plan.tables import PublicTable
from dpsql.postprocess.sandbox import Sandbox
from tests.unit.engines.clinic_files import clinic, columns, write_csv, write_parquet

KINDS = ("parquet", "csv", "duckdb")


@pytest.fixture(params=KINDS)
def shared(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[tuple[Sandbox, DuckDBEngine]]:
    schema = clinic(tmp_path, request.param)
    engine, sandbox = DuckDBEngine.open(schema), Sandbox()
    sandbox.share(engine, fill(engine, schema))
    yield sandbox, engine
    sandbox.close()
    engine.close()


def test_a_public_table_is_there_when_it_is_needed(shared: tuple[Sandbox, DuckDBEngine]) -> None:
    sandbox, engine = shared
    assert [n for n, _ in sandbox.describe("SELECT * FROM ward")] == [n for n, _ in columns(engine, "ward")]
    for _ in range(2):
        sandbox.need(["ward"])
        sandbox.need(())
        assert sandbox.run("SELECT ward, label, size::VARCHAR, opened::VARCHAR FROM main.ward ORDER BY 1") == [
            (1, "north", "1.5", "2000-01-01"),
            (2, "south", "2.5", None),
        ]


def test_released_tables_meet_public_ones(shared: tuple[Sandbox, DuckDBEngine]) -> None:
    sandbox, _ = shared
    sandbox.need(["ward"])
    sandbox.load(PublicTable("block_0", (("k", BIGINT), ("n", DOUBLE)), ([1, 2], [5.0, 7.5])))
    asked = "SELECT label, n FROM block_0 JOIN ward ON k = ward ORDER BY 1"
    assert sandbox.run(asked) == [("north", 5.0), ("south", 7.5)]
    sandbox.forget()
    assert sandbox.run("SELECT count(*) FROM ward") == [(2,)]
    with pytest.raises(Error, match="DPSQL-706"):
        sandbox.run(asked)


def test_no_private_file_is_in_reach(shared: tuple[Sandbox, DuckDBEngine], tmp_path: Path) -> None:
    sandbox, _ = shared
    for sql in (
        "SELECT * FROM person",
        "SELECT * FROM visit",
        f"SELECT * FROM read_parquet('{tmp_path}/person.parquet')",
        f"SELECT * FROM read_text('{tmp_path}/person.csv')",
        f"SELECT * FROM read_text('{tmp_path}/*')",
        f"SELECT * FROM read_blob('{tmp_path}/clinic.duckdb')",
        "SELECT * FROM glob('/etc/*')",
        f"ATTACH '{tmp_path}/clinic.duckdb' AS c",
        f"COPY (SELECT 1) TO '{tmp_path}/ward.parquet'",
        f"COPY (SELECT 1) TO '{tmp_path}/out.csv'",
        "SET threads = 8",
        "SET enable_external_access = true",
        "INSTALL httpfs",
    ):
        with pytest.raises(Error) as raised:
            sandbox.run(sql)
        assert raised.value.code in ("DPSQL-706", "DPSQL-901"), sql
        if not sql.startswith("COPY") or "out" in sql:
            with pytest.raises(duckdb.Error):
                sandbox._connection.execute(sql).fetchall()


def test_a_changed_public_file_is_seen_by_the_engine(tmp_path: Path) -> None:
    schema = clinic(tmp_path)
    engine, sandbox = DuckDBEngine.open(schema), Sandbox()
    sandbox.share(engine, fill(engine, schema))
    engine.require_unchanged()
    write_parquet(tmp_path / "ward.parquet", "SELECT 1 AS ward")
    with pytest.raises(OperationalError) as raised:
        engine.require_unchanged()
    assert raised.value.code == "DPSQL-702"
    sandbox.close()
    engine.close()


def test_a_public_file_that_is_gone(tmp_path: Path) -> None:
    schema = clinic(tmp_path)
    engine, sandbox = DuckDBEngine.open(schema), Sandbox()
    filled = fill(engine, schema)
    (tmp_path / "ward.parquet").unlink()
    with pytest.raises(OperationalError) as raised:
        sandbox.share(engine, filled)
    assert raised.value.code == "DPSQL-707" and raised.value.__context__ is None
    assert sandbox.run("SELECT 1") == [(1,)]
    sandbox.close()
    engine.close()


def test_a_changed_duckdb_file_is_not_loaded(tmp_path: Path) -> None:
    schema = clinic(tmp_path, "duckdb")
    engine, sandbox = DuckDBEngine.open(schema), Sandbox()
    sandbox.share(engine, fill(engine, schema))
    (tmp_path / "clinic.duckdb.wal").write_bytes(b"")
    for _ in range(2):
        with pytest.raises(OperationalError) as raised:
            sandbox.need(["ward"])
        assert raised.value.code == "DPSQL-702"
    sandbox.close()
    engine.close()


def test_two_million_public_rows_do_not_pass_through_python(tmp_path: Path) -> None:
    schema = clinic(
        tmp_path, rows={"ward": "SELECT (range % 9)::INTEGER AS ward, 'w' || range AS label FROM range(2000000)"}
    )
    engine, sandbox = DuckDBEngine.open(schema), Sandbox()
    filled = fill(engine, schema)
    started = time.perf_counter()
    sandbox.share(engine, filled)
    sandbox.need(["ward"])
    assert sandbox.run("SELECT count(*), max(ward) FROM ward") == [(2_000_000, 8)]
    assert time.perf_counter() - started < 2, "the aim is 0.1 s"
    sandbox.close()
    engine.close()


# --- what a public column is --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_a_public_column_is_nullable_if_it_holds_null(tmp_path: Path, kind: str) -> None:
    stored = "SELECT * FROM (VALUES (1, NULL, 'nan'::DOUBLE, ''), (2, 'x', 1.0, 'y')) t(ward, label, real, word)"
    schema = clinic(tmp_path, kind, {"ward": stored} if kind != "csv" else None)
    if kind == "csv":
        write_csv(tmp_path / "ward.csv", "SELECT 1 AS ward, NULL::VARCHAR AS label, 1.5 AS real, 'y' AS word")
    engine = DuckDBEngine.open(schema)
    table = fill(engine, schema).table("ward")
    assert table is not None
    assert [(c.name, c.nullable) for c in table.columns] == [
        ("ward", False),
        ("label", True),
        ("real", False),
        ("word", False),
    ]
    engine.close()


# --- tables made of questions -------------------------------------------------------------------------------------


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    made = Sandbox()
    yield made
    made.close()


def test_a_question_becomes_a_table(sandbox: Sandbox) -> None:
    sandbox.load(PublicTable("r", (("k", BIGINT),), ([3, 1, 2],)))
    made = sandbox.table("bound_0", "SELECT k AS same, k * 2 AS same, sum(k) OVER () FROM r ORDER BY k -- comment")
    assert made.name == "bound_0"
    assert [(n, str(t)) for n, t in made.columns] == [("c0", "BIGINT"), ("c1", "BIGINT"), ("c2", "HUGEINT")]
    assert made.data == ([1, 2, 3], [2, 4, 6], ["6", "6", "6"])


def test_its_values_are_exact(sandbox: Sandbox) -> None:
    made = sandbox.table(
        "t",
        """SELECT 0::HUGEINT + 170141183460469231731687303715884105727, 18446744073709551615::UBIGINT, -0.05::DECIMAL(38,2),
        'infinity'::DATE, TIMESTAMP '2020-01-01 00:00:00.000001', 'nan'::DOUBLE, NULL, true, 'é'""",
    )
    values = [column[0] for column in made.data]
    assert values[:5] == [str(2**127 - 1), str(2**64 - 1), "-0.05", "infinity", "2020-01-01 00:00:00.000001"]
    assert repr(values[5:]) == "[nan, None, True, 'é']"
    sandbox.load(made)
    again = sandbox.table("t", "SELECT * FROM t")
    assert repr(list(map(list, again.data))) == repr(list(map(list, made.data))) and again.columns == made.columns


def test_a_table_without_rows_keeps_its_types(sandbox: Sandbox) -> None:
    made = sandbox.table("t", "SELECT 1::HUGEINT, 'x', 1.5 WHERE false")
    assert [str(t) for _, t in made.columns] == ["HUGEINT", "VARCHAR", "DECIMAL(2,1)"] and made.data == ([], [], [])


@pytest.mark.parametrize(
    "sql", ["SELECT [1]", "SELECT INTERVAL 1 DAY", "SELECT '10:00:00+01'::TIMETZ", "SELECT nothing", "SELECT (("]
)
def test_a_type_that_dpsql_does_not_compute_with(sandbox: Sandbox, sql: str) -> None:
    with pytest.raises(ProgrammingError) as raised:
        sandbox.table("t", sql)
    assert raised.value.code == "DPSQL-106"


def test_a_value_that_fails_is_not_quoted(sandbox: Sandbox) -> None:
    sandbox.load(PublicTable("r", (("k", BIGINT),), ([2**63 - 1],)))
    with pytest.raises(OperationalError) as raised:
        sandbox.table("t", "SELECT k + 1 FROM r")
    assert raised.value.code == "DPSQL-706" and raised.value.__context__ is None
