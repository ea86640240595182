"""Refusals speak SQL: no name that the parser has for a node, or for a part of one, is in what a person reads."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlglot import exp

from dpsql.core.errors import Error
from dpsql.planner.constructs import PARTS
from dpsql.planner.grammar import ALLOWED, _unsupported_part, unsupported
from dpsql.session.opening import open_session
from dpsql.session.session import Session
from tests.support.statements import FIXTURES, useful

RANDHIE = Path(__file__).parents[3] / "examples/randhie/schema.toml"
MISTAKES = [line for line in (FIXTURES / "mistakes.sql").read_text().splitlines() if not line.startswith("--")]
CLASSES = sorted(
    {kind for kind in vars(exp).values() if isinstance(kind, type) and issubclass(kind, exp.Expression)}
    - {exp.Func, exp.AggFunc},
    key=lambda kind: kind.__name__,
)
NAMES = {kind.__name__ for kind in CLASSES if kind.__name__ != kind.__name__.upper()}
"""In camel case; some, such as MD5, are words of SQL."""
ARGUMENTS = {name.strip("_").upper() for kind in CLASSES for name in kind.arg_types} - {
    word.strip("_").upper() for _, said in PARTS.items() for word in re.findall(r"\w+", said[0])
}
_SQL = {
    "ALL",
    "BY",
    "COLLATE",
    "FOR",
    "IN",
    "INTO",
    "LATERAL",
    "MAP",
    "OF",
    "ON",
    "PERCENT",
    "TABLE",
    "TIME",
    "UPDATE",
    "WITH",
    "ZONE",
}
"""Words of SQL that some node has a part of the name of."""


def spoken(problem: Error) -> str:
    """The words that a person reads, without the functions that are named: those are SQL."""
    return re.sub(r"\w+\(\)", "", problem.message)


def is_plain(problem: Error) -> bool:
    words = set(re.findall(r"\w+", spoken(problem)))
    return not words & NAMES and not words & (ARGUMENTS - _SQL) and useful(problem)


def parts() -> Iterator[tuple[exp.Expression, str, object]]:
    for kind in CLASSES:
        node = kind(this="f") if kind is exp.Anonymous else kind()
        for name in kind.arg_types:
            yield from [(exp.Select(), name, node), (node, name, True), (node, name, exp.Literal.number(1))]


def test_no_node_is_called_what_the_parser_calls_it() -> None:
    assert len(CLASSES) > 900
    named = [kind() for kind in CLASSES if kind not in ALLOWED and kind is not exp.Anonymous]
    assert [unsupported(node).message for node in named if not is_plain(unsupported(node))] == []


def test_no_part_of_a_node_is_either() -> None:
    wrong = {str(raised) for part in parts() if not is_plain(raised := _unsupported_part(*part))}
    assert wrong == set()


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    opened = open_session(RANDHIE, None, ":memory:")
    yield opened
    opened.close()


@pytest.mark.few(25)
@pytest.mark.parametrize("sql", MISTAKES)
def test_mistakes_are_told_in_one_useful_line(sql: str, session: Session) -> None:
    with pytest.raises(Error) as refused:
        session.explain(sql)
    assert useful(refused.value) and not set(re.findall(r"\w+", spoken(refused.value))) & (NAMES - {sql}), str(
        refused.value
    )
