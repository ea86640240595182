"""Conditions as they are told: what was written, without what dpsql put around it."""

from __future__ import annotations

import pytest

from dpsql.guard import words
from dpsql.planner.parse import Query, parse
from dpsql.planner.resolve import resolve
from tests.support.stages import schema_of


@pytest.mark.parametrize(
    ("condition", "told"),
    [
        # an alias is left out, a word before it is not
        ("NOT p.female", "NOT female"),
        ("p.site = 1 AND NOT p.female", "site = 1 | NOT female"),
        ("EXTRACT(MONTH FROM p.born) <= 6", "date_part('month', born) <= 6"),
        ("p.income IS NULL OR p.city = 'a.b'", "(city = 'a.b') OR (income IS NULL)"),
        ("CAST(p.age AS DOUBLE) > 0.5", "age > 0.5"),
        (
            "EXISTS (SELECT 1 FROM visit WHERE visit.patient_id = p.patient_id AND cost > 3)",
            "EXISTS (SELECT 1 FROM visit WHERE (cost > 3))",
        ),
    ],
)
def test_a_condition_is_told_as_it_was_written(condition: str, told: str) -> None:
    query = parse(f"SELECT COUNT(*) FROM patient AS p WHERE {condition}")
    assert isinstance(query, Query)
    (block,) = resolve(query, schema_of("patient")).blocks
    assert " | ".join(words.said(one, block.source) for one in block.source.where) == told
