"""`length` of a text column: what may be written, what holds where nothing is, and that it is kept."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dpsql.clients.declared import domain
from dpsql.core.domains import UNBOUNDED, categories
from dpsql.core.sqltypes import BIGINT, VARCHAR
from dpsql.engines.structure import canonical
from dpsql.schema.model import USUAL_LENGTH, Column
from dpsql.schema.toml import to_toml
from tests.unit.schema.schema_files import changed, mistakes, read

BORN = "born = { type = "


def named(what: str) -> str:
    return changed(BORN, f'name = {{ type = "VARCHAR"{what} }}\n{BORN}')


def test_a_declared_length_is_kept(tmp_path: Path) -> None:
    schema = read(tmp_path, named(", length = 40"))
    table = schema.table("person")
    column = table.column("name") if table is not None else None
    assert table is not None and column is not None and (column.length, column.longest) == (40, 40)
    assert read(tmp_path, to_toml(schema)) == schema
    assert "length = 40" in to_toml(schema)
    assert "at most 40 characters; a longer text counts as NULL" in domain(column, table)


def test_without_one_it_is_the_usual_and_no_shorter_than_a_listed_value() -> None:
    text = Column("x", VARCHAR, UNBOUNDED, True, "")
    assert text.longest == USUAL_LENGTH == 256
    assert replace(text, domain=categories(["a", "b"])).longest == 256, "another value is outside of the list, not NULL"
    assert replace(text, domain=categories(["a", "b" * 300])).longest == 300
    assert replace(text, domain=categories(["b" * 300]), domain_from=("t", "c")).longest == 256, "known after the views"
    assert replace(text, sqltype=BIGINT).longest is None


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (named(", length = 0"), "length"), (named(", length = 2.5"), "length"), (named(', length = "40"'), "length"),
        (named(", length = 4097"), "length is above 4,096"),
        (named(', length = 2, domain = ["a", "abc"]'), "domain lists a value longer than length = 2; write length = 3"),
        (changed("bounds = [0, 30000], step = 1", "length = 3"), "length makes no sense for DOUBLE"),
    ],
)  # fmt: skip
def test_mistakes_say_what_to_write(tmp_path: Path, text: str, line: str) -> None:
    (found,) = mistakes(tmp_path, text)
    assert line in found and ";" in found


def test_data_is_approved_for_its_lengths(tmp_path: Path) -> None:
    """A shorter length makes NULL of a key, so that what was verified of keys is verified anew."""
    texts = [canonical(read(tmp_path, named(what))) for what in ("", ", length = 256", ", length = 40")]
    assert texts[0] == texts[1] != texts[2]
