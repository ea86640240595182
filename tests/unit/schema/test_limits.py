"""[limits]: what one statement may take, read with every mistake, and written."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from dpsql.core.errors import SchemaError
from dpsql.schema.model import Schema, StatementLimits
from dpsql.schema.sizes import UNITS, size, written
from dpsql.schema.toml import read_schema, to_toml
from tests.support import clinic

TEXT = clinic.UNIT + clinic.PATIENT


def read(folder: Path, limits: str) -> Schema:
    (folder / "schema.toml").write_text(f"{TEXT}\n{limits}")
    return read_schema(folder / "schema.toml")


def test_limits_have_finite_defaults(tmp_path: Path) -> None:
    for text in ("", "[limits]"):
        schema = read(tmp_path, text)
        assert schema.limits == StatementLimits(Fraction(60), 2_000_000_000, 1_000_000, Fraction(5))
        assert "[limits]" not in to_toml(schema), "what is the default is not written"


def test_limits_are_read_and_written(tmp_path: Path) -> None:
    schema = read(tmp_path, '[limits]\nseconds = 0.5\nmemory = "512 mib"\nrows = 10\nplan_seconds = 2')
    assert schema.limits == StatementLimits(Fraction(1, 2), 512 * 2**20, 10, Fraction(2))
    text = to_toml(schema)
    assert '[limits]\nseconds = 0.5\nmemory = "512MiB"\nrows = 10\nplan_seconds = 2\n' in text
    (tmp_path / "again.toml").write_text(text)
    assert read_schema(tmp_path / "again.toml") == schema
    assert to_toml(read(tmp_path, "[limits]\nrows = 10")).count("seconds") == 0


@pytest.mark.parametrize(
    ("limits", "told"),
    [
        ("seconds = 0", "seconds needs a finite number above 0, not 0; write seconds = 60"),
        ("seconds = inf", "seconds needs a finite number above 0"),
        ("seconds = true", "seconds needs a finite number above 0"),
        ("plan_seconds = -1", "plan_seconds needs a finite number above 0, not -1; write plan_seconds = 5"),
        ("rows = 0", "rows needs a whole number, 1 or more, not 0; write rows = 1000000"),
        ("rows = 1.5", "rows needs a whole number, 1 or more"),
        ('memory = "2"', "memory needs a size, 64MB or more, not '2'; write memory = \"2GB\""),
        ('memory = "63MB"', "memory needs a size, 64MB or more"),
        ('memory = "-2GB"', "memory needs a size, 64MB or more"),
        ('memory = "9999999999TB"', "memory needs a size, 64MB or more"),
        ("memory = 2000000000", "memory needs text on one line"),
        ("second = 1", "the key 'second' is unknown; write seconds"),
    ],
)
def test_mistakes_say_what_to_write(tmp_path: Path, limits: str, told: str) -> None:
    with pytest.raises(SchemaError) as raised:
        read(tmp_path, f"[limits]\n{limits}")
    assert "[limits]" in str(raised.value) and told.replace('"', "").replace("'", "") in str(raised.value).replace(
        '"', ""
    ).replace("'", "")


def test_limits_that_are_no_table(tmp_path: Path) -> None:
    (tmp_path / "schema.toml").write_text(f"limits = 5\n{TEXT}")
    with pytest.raises(SchemaError, match="limits needs a table"):
        read_schema(tmp_path / "schema.toml")


@pytest.mark.parametrize("bytes_", [1, 1000, 1024, 2**30, 10**9, 64 * 10**6, 12345, 3 * 2**20, 5 * 10**12])
def test_a_size_is_read_as_it_is_written(bytes_: int) -> None:
    assert size(written(bytes_)) == bytes_


def test_units_are_read_in_any_case() -> None:
    for unit, count in UNITS.items():
        assert size(f"3{unit}") == size(f"3 {unit.lower()}") == size(f"3{unit.upper()}") == 3 * count
    for wrong in ("", "GB", "1.5GB", "1 000MB", "1GB ", "1PB", "١GB"):
        assert size(wrong) is None
