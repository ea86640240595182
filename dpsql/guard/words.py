"""Conditions as they are told to people."""

from __future__ import annotations

import re

from dpsql.expressions.scalar import Scalar
from dpsql.expressions.temporal import unguarded
from dpsql.relations.relations import Relation
from dpsql.schema.model import RESERVED
from dpsql.sql.duckdb import printed
from dpsql.sql.nodes import Aggregate, Bare, Call, Cast, Column, Node
from dpsql.sql.trees import mapped, rewritten, walk

MOST_READ = 2_000
MOST_LETTERS = 120
MOST_STATEMENT = 160
"""[letters] of a condition that are read, that are told, and of an earlier statement."""
_PLAIN = (
    (re.compile(r"\(SELECT c0 FROM dpsql \w+ \d+ LIMIT 1\)|dpsql \w+ \d+\.c\d+"), "a released value"),
    (re.compile(r"CAST\(([^()]*) AS [A-Z]+(?:\([0-9, ]*\))?\)"), r"\1"),
    (re.compile(r"(\d)\.0+\b"), r"\1"),
    (re.compile(r"\b(\w+) AS \1\b"), r"\1"),
    (re.compile(r"\((\w+) = \1\) AND | AND \((\w+) = \2\)"), ""),
)
"""Left out of what people are told: the types of constants, decimals that are none, aliases that are the name, what ties a person's
rows to one another."""


def said(scalar: Scalar, source: Relation) -> str:
    """A condition or value as one would write it, with what a column of a derived table stands for.

    source  the rows that it is of
    """
    # what is cut off anyway is not looked at
    tree = mapped(rewritten(scalar.tree, _computed(source)), _as_written)
    plain, before = printed(tree)[:MOST_READ].replace('"', ""), ""
    while plain != before:
        before = plain
        for pattern, kept in _PLAIN:
            plain = pattern.sub(kept, plain)
    plain = plain[1:-1] if plain[:1] == "(" and plain[-1:] == ")" and _closes_at_the_end(plain) else plain
    return plain if len(plain) <= MOST_LETTERS else plain[: MOST_LETTERS - 3] + "..."


def _as_written(node: Node) -> Node:
    """A value without its conversion, in parentheses where it is an operation; a part of a date without its guard; a column without
    the alias of its table."""
    match node:
        case Cast(inner=inner):
            return inner.inner if isinstance(inner, Bare) else inner
        case Column(relation=relation, name=name):
            return node if relation.startswith(RESERVED) else Column("", name)
    return unguarded(node)


def _computed(source: Relation) -> dict[Node, Node]:
    """Resolve the columns of derived tables to what they compute, however deep; an aggregate of one person's rows
    without clamps and grids."""
    found: dict[Node, Node] = {}
    waiting = [source]
    while waiting:
        made = waiting.pop().made
        if made is not None:
            found |= {column: _without_clamps(tree) for column, tree in made.computed}
            waiting += made.sources
    return found


def _without_clamps(tree: Node) -> Node:
    aggregate = next((part for part in walk(tree) if isinstance(part, Aggregate)), None)
    if aggregate is None:
        return tree
    column = next((part for part in walk(aggregate) if isinstance(part, Column)), None)
    return Call(aggregate.name, (column,) if column is not None else ())


def shortened(statement: str) -> str:
    """A statement in one line of a message."""
    line = " ".join(statement.split())
    return line if len(line) <= MOST_STATEMENT else line[: MOST_STATEMENT - 3] + "..."


def _closes_at_the_end(text: str) -> bool:
    depth = 0
    for i, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            return i == len(text) - 1
    return False
