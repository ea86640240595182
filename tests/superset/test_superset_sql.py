"""The statements of Superset are written by sqlglot from what it read: they must mean what was typed."""

from __future__ import annotations

import re

import pytest
from sqlglot import parse

from dpsql.clients.superset.parsing import Dpsql
from tests.notes.datasets import opened
from tests.notes.pages import Case, all_cases

TYPED = [case for case in all_cases() if case.fence.kind == "sql accept" and not case.fence.parameters]
# Not questions, or only told apart by what stands around them.
OTHERS = [
    "SHOW BUDGET",
    "SHOW TABLES",
    "DESCRIBE person",
    "SET dp_epsilon = 0.2",
    "RESET dp_epsilon",
    "EXPLAIN SELECT COUNT(*) FROM person",
]


def sent(sql: str) -> str:
    """A statement as Superset sends it."""
    (tree,) = parse(sql, dialect=Dpsql)
    assert tree is not None
    return Dpsql().generate(tree, copy=True, comments=True, pretty=True)


def plan(schema: str, sql: str) -> str:
    """EXPLAIN without the engine's SQL, in which text may stand in another spelling."""
    return re.sub(r"engine: .*", "", opened(schema).session.explain(sql, ()))


@pytest.mark.few(9)
@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in TYPED])
def test_what_is_sent_means_what_was_typed(case: Case) -> None:
    assert plan(case.schema, sent(case.fence.body)) == plan(case.schema, case.fence.body)


@pytest.mark.parametrize("sql", OTHERS)
def test_other_statements_are_sent_as_they_are(sql: str) -> None:
    assert sent(sql) == sql


def test_the_clause_stays_where_a_dataset_is_wrapped() -> None:
    inner = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.3) site FROM person"
    wrapped = f"SELECT site, COUNT(*) AS n FROM ({inner}) AS virtual_table GROUP BY site"
    assert "price: epsilon 0.3," in plan("randhie", sent(wrapped))
