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
