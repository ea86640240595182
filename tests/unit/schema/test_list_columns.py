"""Columns of lists: what may be written, and that it is kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpsql.clients.declared import column_comment, domain, domain_text, notes
from dpsql.core.domains import UNBOUNDED, categories, interval
from dpsql.core.sqltypes import SqlType
from dpsql.engines.structure import canonical, declared
from dpsql.planner.measure import schema_identity
from dpsql.schema.toml import to_toml
from tests.unit.schema.schema_files import changed, mistakes, read

BORN = "born = { type = "


def named(what: str) -> str:
    return changed(BORN, f"tags = {{ {what} }}\n{BORN}")


def test_a_declared_list_is_kept(tmp_path: Path) -> None:
    schema = read(tmp_path, named('type = "text[]", length = 10, domain = ["b", "a"], nullable = true'))
    table = schema.table("person")
    column = table.column("tags") if table is not None else None
    assert table is not None and column is not None and column.element is not None
    assert (str(column.sqltype), column.length, column.longest, column.domain) == ("VARCHAR[]", 10, 256, UNBOUNDED)
    assert (column.element.sqltype, column.element.domain) == (SqlType("VARCHAR"), categories(["a", "b"]))
    assert read(tmp_path, to_toml(schema)).table("person") == table
    assert column.role == "measure" and 'tags = { type = "VARCHAR[]", domain = ["a", "b"], length = 10' in to_toml(
        schema
    )
    assert domain_text(column) == "'a', 'b'" and "at most 10 elements; a longer list counts as NULL" in notes(
        column, table
    )
    assert domain(column, table)[1] == "2 declared values: 'a', 'b'" and "values 'a', 'b'" in column_comment(
        column, table, schema
    )


def test_what_is_declared_of_elements_tells_schemas_apart(tmp_path: Path) -> None:
    """Stored answers and verified facts are of one declaration, and the approval is of one length."""
    texts = [named(f'type = "INTEGER[]", length = {n}, bounds = [0, {most}]') for n, most in ((3, 9), (3, 8), (4, 9))]
    schemas = [read(tmp_path, text) for text in texts]
    assert len({schema_identity(schema) for schema in schemas}) == len({declared(schema) for schema in schemas}) == 3
    one, same, other = map(canonical, schemas)
    assert one == same != other


def test_bounds_are_of_the_elements(tmp_path: Path) -> None:
    schema = read(tmp_path, named('type = "DATE[]", length = 3, bounds = [1970-01-02, 1970-01-11]'))
    table = schema.table("person")
    column = table.column("tags") if table is not None else None
    assert column is not None and (column.elements, column.longest) == (interval(1, 10), None)
    assert "bounds = [1970-01-02, 1970-01-11]" in to_toml(schema)


@pytest.mark.parametrize(
    ("what", "line"),
    [
        ('type = "VARCHAR[]"', "length is missing, the most elements of a list; write length = 10"),
        ('type = "VARCHAR[]", length = 4097', "length is above 4,096; write fewer elements"),
        ('type = "VARCHAR[]", length = 3, role = "quasi"', "role quasi makes no sense for VARCHAR[]"),
        ('type = "INTEGER[]", length = 3, step = 1', "step makes no sense for INTEGER[]; remove step"),
        ('type = "INTEGER[]", length = 3, unit_bounds = [0, 1]', "unit_bounds makes no sense for INTEGER[]"),
        ('type = "INTEGER[]", length = 3, usual = { 1 = 0.5 }', "usual makes no sense for INTEGER[]"),
        ('type = "INTEGER[]", length = 3, domain = { from = "ward.ward" }', "domain of a list comes from no table"),
        ('type = "INTEGER[]", length = 3, domain = ["a"]', "domain"),
        ('type = "INTEGER[][]", length = 3', "is not one that dpsql computes with; leave the column out"),
        ('type = "DECIMAL(4,1)[]", length = 3', "not one that dpsql computes with; leave the column out"),
        ('type = "STRUCT(a INTEGER)"', "not one that dpsql computes with; leave the column out"),
        ('type = "BLOB"', "not one that dpsql computes with; leave the column out"),
    ],
)
def test_mistakes_say_what_to_write(tmp_path: Path, what: str, line: str) -> None:
    (found,) = mistakes(tmp_path, named(what))
    assert line in found and ";" in found


def test_a_list_tells_no_rows_apart(tmp_path: Path) -> None:
    for column in ("visit_id", "person_id"):
        text = changed(f'{column} = {{ type = "BIGINT" }}', f'{column} = {{ type = "BIGINT[]", length = 2 }}')
        assert any(
            "is a list, by which rows are not told apart; write a simple type" in m for m in mistakes(tmp_path, text)
        )
