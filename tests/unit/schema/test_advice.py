"""Warnings of declarations that promise less than they seem to."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from dpsql.core.loss import EpsilonDelta
from dpsql.schema.advice import of_declarations
from dpsql.schema.model import Schema
from dpsql.schema.toml import read_schema


@pytest.fixture
def schema(tmp_path: Path) -> Schema:
    (tmp_path / "schema.toml").write_text("""
[dataset]
name = "d"
source = "."
[privacy]
unit = "t.id"
epsilon = 4
delta = 1e-6
units = 10000
[tables.t]
source = "t.csv"
key = ["id"]
[tables.t.columns]
id = { type = "INTEGER" }
[tables.v]
source = "v.csv"
references = { id = "t.id" }
max_rows_per_unit = 3
[tables.v.columns]
id = { type = "INTEGER" }
""")
    return read_schema(tmp_path / "schema.toml")


def with_budget(schema: Schema, epsilon: Fraction, delta: Fraction) -> Schema:
    return replace(schema, privacy=replace(schema.privacy, budget=EpsilonDelta(epsilon, delta)))


def test_a_sound_schema_has_none(schema: Schema) -> None:
    assert of_declarations(schema) == []
    assert of_declarations(with_budget(schema, Fraction(10), Fraction(1, 10001))) == []


def test_a_delta_that_allows_to_publish_somebody(schema: Schema) -> None:
    (told,) = of_declarations(with_budget(schema, Fraction(4), Fraction(1, 10000)))
    assert "delta 0.0001 is not below one over the declared 10,000 people" in told
    followed = with_budget(schema, Fraction(4), Fraction(told.split("delta = ")[1].split()[0]))
    assert of_declarations(followed) == []


def test_an_epsilon_that_promises_nothing(schema: Schema) -> None:
    (told,) = of_declarations(with_budget(schema, Fraction(21, 2), Fraction(1, 10**6)))
    assert told.startswith("epsilon 10.5 promises hardly anything")


def test_any_number_of_rows_of_a_person(schema: Schema) -> None:
    unlimited = replace(schema, tables=(schema.tables[0], replace(schema.tables[1], max_rows_per_unit=None)))
    (told,) = of_declarations(unlimited)
    assert "table v may have any number of rows of one person" in told
