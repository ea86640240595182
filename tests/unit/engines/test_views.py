"""The unit beside a table's own columns, by the declared references."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpsql.core.errors import Error, SchemaError
from dpsql.engines.duckdb.engine import DuckDBEngine
from dpsql.schema.model import UNIT_COLUMN, with_unit
from tests.unit.engines.clinic_files import FAR_UNITS, clinic, declare, far_clinic

KINDS = ("parquet", "csv", "duckdb")


@pytest.mark.parametrize("kind", KINDS)
def test_the_unit_is_reached_by_references(tmp_path: Path, kind: str) -> None:
    engine = DuckDBEngine.open(far_clinic(tmp_path, kind))
    view = f'main."{with_unit("lab item")}"'
    found = engine.owner_rows(f'SELECT amount::VARCHAR, "{UNIT_COLUMN}" FROM {view}')
    assert sorted(found, key=str) == sorted([*FAR_UNITS, ("3", None)], key=str)
    engine.close()


def test_the_unit_is_the_last_column(tmp_path: Path) -> None:
    engine = DuckDBEngine.open(far_clinic(tmp_path))
    with engine._cursor() as cursor:
        result = cursor.execute(f'SELECT * FROM "{with_unit("lab item")}"').description or []
    assert [c[0] for c in result] == ["amount", "value", "day", "visit", UNIT_COLUMN]
    assert engine.owner_rows('SELECT count(*) FROM "lab item"') == [(7,)]
    engine.close()


def test_only_tables_that_do_not_hold_the_unit_have_the_view(tmp_path: Path) -> None:
    engine = DuckDBEngine.open(far_clinic(tmp_path))
    for table in ("person", "visit", "ward"):
        with pytest.raises(Error):
            engine.owner_rows(f'SELECT 1 FROM "{with_unit(table)}"')
    engine.close()


def test_row_level_privacy_has_no_such_view(tmp_path: Path) -> None:
    clinic(tmp_path)
    text = (tmp_path / "schema.toml").read_text().replace("person.person_id", "row", 1)
    start, stop = text.index("[tables.visit]"), text.index("[tables.ward]")
    DuckDBEngine.open(declare(tmp_path, text[:start] + text[stop:])).close()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[tables.visit", '[tables."person With Unit"', "person With Unit: has a name that dpsql gives to a view"),
        ("cost =", '"Dpsql Unit" =', "column Dpsql Unit: has a name that dpsql keeps for itself"),
    ],
)
def test_the_names_are_taken(tmp_path: Path, old: str, new: str, message: str) -> None:
    clinic(tmp_path)
    with pytest.raises(SchemaError, match=message):
        declare(tmp_path, (tmp_path / "schema.toml").read_text().replace(old, new))


def test_a_public_table_of_no_plain_column(tmp_path: Path) -> None:
    schema = clinic(tmp_path, rows={"ward": "SELECT [1] AS ward"})
    with pytest.raises(SchemaError, match="ward: has no column of a type that dpsql computes with"):
        DuckDBEngine.open(schema)
