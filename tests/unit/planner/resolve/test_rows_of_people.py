"""A refusal of rows of people names the column so that what it says to write is read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dpsql.core.errors import Error
from dpsql.planner.options import Options
from dpsql.planner.parse import Query, parse
from dpsql.schema.model import Schema
from tests.support import clinic
from tests.support.planning import compile_statement


def with_spaces(schema: Schema) -> Schema:
    """The clinic, where an age is called "age in years"."""
    tables = [
        replace(table, columns=tuple(replace(c, name="age in years") if c.name == "age" else c for c in table.columns))
        for table in schema.tables
    ]
    return replace(schema, tables=tuple(tables))


def read(sql: str) -> Query:
    found = parse(sql)
    assert isinstance(found, Query)
    return found


def test_a_name_with_spaces_stands_in_quotes(tmp_path: Path) -> None:
    schema = with_spaces(clinic.schema(tmp_path))
    with pytest.raises(Error) as refused:
        compile_statement(read('SELECT "age in years" FROM patient'), Options(), schema)
    assert refused.value.code == "DPSQL-305"
    assert refused.value.hint is not None and refused.value.hint.endswith('write AVG("age in years")')
    asked = refused.value.hint.partition("write ")[2]
    compile_statement(read(f"SELECT {asked} FROM patient"), Options(), schema)


@pytest.mark.parametrize("unit", ["patient", "row"])
def test_other_peoples_rows_are_refused_with_what_there_is_to_equate(unit: str, tmp_path: Path) -> None:
    """If each row is a person there is no unit to write, so none is suggested."""
    schema = clinic.schema(tmp_path, unit=unit)
    with pytest.raises(Error) as refused:
        compile_statement(
            read("SELECT COUNT(*) FROM patient AS p WHERE EXISTS (SELECT * FROM patient AS q WHERE q.site = p.site)"),
            Options(),
            schema,
        )
    assert refused.value.code == "DPSQL-402"
    tie = "p.patient_id = q.patient_id"
    assert refused.value.hint is not None and (f"add {tie}" in refused.value.hint) == (unit == "patient")
    inner = "SELECT * FROM patient AS q WHERE q.site = p.site"
    followed = f"EXISTS ({inner} AND {tie})" if unit == "patient" else "TRUE"
    compile_statement(read(f"SELECT COUNT(*) FROM patient AS p WHERE {followed}"), Options(), schema)
