"""Walks through the parser's trees, and copies of them, without what its own do for each node."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

from sqlglot import exp

Found = TypeVar("Found", bound=exp.Expression)
_PLAIN = frozenset((str, bool, type(None)))
"""Types of the parts of a node that are none."""
LEAVES = frozenset((exp.Identifier, exp.Literal, exp.Boolean, exp.Null))
"""Nodes that have no others below: about half of a tree."""


def children(node: exp.Expression) -> list[exp.Expression]:
    """The nodes directly below a node, in order."""
    found: list[exp.Expression] = []
    if type(node) in LEAVES:
        return found
    for value in node.args.values():
        kind = type(value)
        if kind is list:
            found += [part for part in value if isinstance(part, exp.Expression)]
        elif kind not in _PLAIN and isinstance(value, exp.Expression):
            found.append(value)
    return found


def from_the_top(tree: exp.Expression) -> Iterator[exp.Expression]:
    """A node and all below it, a node before what is below it."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += reversed(children(node))


def every(tree: exp.Expression, *kinds: type[Found]) -> list[Found]:
    """The nodes of a tree of some kinds, in the parser's own order: each level before the next. They are found before the first is
    looked at, so a caller may change them.

    Why  a statement is looked through dozens of times; the parser's own walk, a generator for each node, takes three times as long
    """
    held = _unchanged.get()
    nodes = held if held is not None and held[0] is tree else _listed(tree)
    return [node for node in nodes if isinstance(node, kinds)]


def _listed(tree: exp.Expression) -> list[exp.Expression]:
    found: list[exp.Expression] = [tree]
    for node in found:
        if type(node) in LEAVES:
            continue
        # as in `children`, without a list for each node
        for value in node.args.values():
            kind = type(value)
            if kind is list:
                found += [part for part in value if isinstance(part, exp.Expression)]
            elif kind not in _PLAIN and isinstance(value, exp.Expression):
                found.append(value)
    return found


_unchanged: ContextVar[list[exp.Expression] | None] = ContextVar("unchanged", default=None)


@contextmanager
def unchanged(tree: exp.Expression) -> Iterator[None]:
    """While nothing is changed in a tree its nodes are listed once, however often it is looked through."""
    token = _unchanged.set(_listed(tree))
    try:
        yield
    finally:
        _unchanged.reset(token)


def copied(node: exp.Expression) -> exp.Expression:
    """A copy of a tree for whoever prints it, or changes it without looking below what its nodes know of themselves.

    Why  the parser's own copy goes through the places in the text of each node part by part
    """
    parts: dict[str, object] = {}
    for name, value in node.args.items():
        kind = type(value)
        if kind is list:
            parts[name] = [copied(part) if isinstance(part, exp.Expression) else part for part in value]
        else:
            parts[name] = copied(value) if kind not in _PLAIN and isinstance(value, exp.Expression) else value
    made = type(node)(**parts)
    if node._meta:
        made._meta = dict(node._meta)
    made._type = node._type
    return made
