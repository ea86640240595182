"""A small correct schema file, and how to read changed copies of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dpsql.core.errors import SchemaError
from dpsql.schema import Schema, read_schema

CLINIC = """\
[dataset]
name = "clinic"
source = "."

[privacy]
unit = "person.person_id"
epsilon = 4.0
delta = 1e-6

[tables.person]
source = "person.parquet"
key = ["person_id"]
references = { ward = "ward.ward" }
[tables.person.columns]
person_id = { type = "BIGINT" }
ward = { type = "INTEGER", domain = { from = "ward.ward" } }
income = { type = "DOUBLE", bounds = [0, 30000], step = 1 }
born = { type = "DATE", bounds = [1900-01-01, 2020-12-31] }

[tables.visit]
source = "visit.parquet"
key = ["visit_id"]
references = { person_id = "person.person_id" }
max_rows_per_unit = 5
[tables.visit.columns]
visit_id = { type = "BIGINT" }
cost = { type = "DECIMAL(10,2)", bounds = [0, 99.95], unit_bounds = [0, 500] }

[tables.ward]
public = true
source = "ward.csv"
key = ["ward"]
"""

SITE = 'site = { type = "INTEGER", domain = [1, 2, 3] }'
FULL = (
    CLINIC.replace("step = 1 }", f"step = 1 }}\n{SITE}", 1).replace(
        "delta = 1e-6",
        'delta = 1e-6\naccounting = "sequential"\nwindow = "month"\npartition = "person.site"\nshared_answers = false',
    )
    + """
[roles.interns]
epsilon = 1.0
delta = 1e-7

[analysts.ann]
role = "interns"
[analysts.bi]
epsilon = 3

[reservations.board]
analyst = "bi"
refreshes = 12
epsilon = 0.1
delta = 1e-9
"""
)
"""The small schema with every setting of who may spend what."""


def read(folder: Path, text: str) -> Schema:
    """The schema of a text, by way of a file."""
    file = folder / "schema.toml"
    file.write_text(text, encoding="utf-8")
    return read_schema(file)


def changed(old: str, new: str) -> str:
    """The small schema with one piece replaced."""
    assert old in CLINIC
    return CLINIC.replace(old, new, 1)


def mistakes(folder: Path, text: str) -> list[str]:
    """The lines of the error that a text raises, without its path."""
    with pytest.raises(SchemaError) as caught:
        read(folder, text)
    assert caught.value.code == "DPSQL-801"
    lines = caught.value.message.replace(f"{folder}/", "").splitlines()
    return [re.sub(r"^schema\.toml has \d+ mistakes: ", "schema.toml: ", lines[0]), *lines[1:]]
