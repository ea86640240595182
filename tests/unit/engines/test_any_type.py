"""Columns that are not declared, of whatever type, keep no table from being opened; one that is declared so is refused by name."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from dpsql.clients.cli.main import main
from dpsql.core.errors import Error
from dpsql.engines.duckdb.engine import DuckDBEngine
from dpsql.schema.toml import read_schema

ODD = {
    "l": "['a', 'b']", "n": "[[1], [2]]", "s": "{'x': 1, 'y': ['a']}", "m": "MAP {'a': 1}", "ls": "[{'x': 1}]", "b": "'ab'::BLOB",
    "u": "'00000000-0000-0000-0000-000000000001'::UUID", "i": "INTERVAL 3 DAY", "tz": "TIMESTAMPTZ '2020-01-01 00:00:00+00'",
    "e": "'a'::ENUM ('a', 'b')", "bits": "'101'::BIT", "ns": "TIMESTAMP_NS '2020-01-01'", "ttz": "TIMETZ '10:00:00+01'",
    "fixed": "[1, 2]::INTEGER[2]", "un": "union_value(k := 1)", "d": "[1.5]::DECIMAL(4, 1)[]",
}  # fmt: skip
IN_NO_PARQUET = ("bits", "un", "fixed")
SCHEMA = """
[dataset]
name = "odd"
source = "{source}"
[privacy]
unit = "t.id"
epsilon = 1.0
delta = 1e-6
[tables.t]
source = "{table}"
key = ["id"]
[tables.t.columns]
id = {{ type = "BIGINT" }}
{columns}
"""


def declared(folder: Path, kind: str, columns: str = "") -> Path:
    names = [name for name in ODD if kind == "duckdb" or name not in IN_NO_PARQUET]
    shown = ", ".join(f"{ODD[name]} AS {name}" for name in names)
    with duckdb.connect(str(folder / "odd.duckdb") if kind == "duckdb" else ":memory:") as connection:
        connection.execute(f"CREATE TABLE t AS SELECT i AS id, {shown} FROM range(3) AS r(i)")
        if kind == "parquet":
            connection.execute(f"COPY t TO '{folder / 't.parquet'}' (FORMAT parquet)")
    source, table = ("odd.duckdb", "t") if kind == "duckdb" else (".", "t.parquet")
    (folder / "schema.toml").write_text(SCHEMA.format(source=source, table=table, columns=columns))
    return folder / "schema.toml"


@pytest.mark.parametrize("kind", ["parquet", "duckdb"])
def test_what_is_not_declared_is_not_looked_at(tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = declared(tmp_path, kind)
    engine = DuckDBEngine.open(read_schema(path))
    assert engine.owner_rows("SELECT count(*) FROM t") == [(3,)]
    engine.close()
    assert main(["check", str(path)]) == 0
    assert main(["init", str(tmp_path / "odd.duckdb" if kind == "duckdb" else tmp_path)]) == 0
    drafted = capsys.readouterr().out
    assert "left out, dpsql does not compute with them" in drafted and "STRUCT" in drafted and "VARCHAR[]" in drafted


@pytest.mark.parametrize(
    ("column", "what"),
    [
        ('s = { type = "VARCHAR" }', "column s is stored as STRUCT; leave it out"),
        ('m = { type = "VARCHAR" }', "column m is stored as MAP; leave it out"),
        (
            'l = { type = "VARCHAR" }',
            'column l is stored as a list; leave it out, or declare it as in { type = "VARCHAR[]", length = 10 }',
        ),
        ('n = { type = "INTEGER[]", length = 2 }', "column n is stored as a list; leave it out"),
        ('ls = { type = "INTEGER[]", length = 2 }', "column ls is stored as a list; leave it out"),
        (
            'i = { type = "INTEGER[]", length = 2 }',
            "column i is stored as no list; leave it out, or declare a simple type",
        ),
    ],
)
def test_a_declared_one_is_refused_with_a_way_on(tmp_path: Path, column: str, what: str) -> None:
    with pytest.raises(Error) as refused:
        DuckDBEngine.open(read_schema(declared(tmp_path, "parquet", column)))
    assert "DPSQL-804" in str(refused.value) and what in str(refused.value)
    hinted = {"l": 'l = { type = "VARCHAR[]", length = 10 }'}.get(column[0], "")
    DuckDBEngine.open(read_schema(declared(tmp_path, "parquet", hinted))).close()


@pytest.mark.parametrize("column", ["fixed", "d"])
def test_lists_of_a_fixed_size_and_of_other_types_are_read_as_declared(tmp_path: Path, column: str) -> None:
    engine = DuckDBEngine.open(
        read_schema(declared(tmp_path, "duckdb", f'{column} = {{ type = "DOUBLE[]", length = 2 }}'))
    )
    assert len(str(engine.owner_rows(f"SELECT DISTINCT {column} FROM t"))) > 5
    engine.close()
