"""Walks through the parser's trees, and copies of them, without what its own do for each node; texts and trees that differ in constants
alone."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

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


# --- what differs in constants alone --------------------------------------------------------------------------------

HOLE, BROKEN = "\0", "\1"
"""In place of a whole number or a date, and of a number with decimals."""
_DATE = re.compile(r"'([0-9]{4}-[0-9]{2}-[0-9]{2})'")
_CONSTANT = re.compile(r"""("(?:[^"]|"")*"|'(?:[^']|'')*')|(?<![\w.$])[0-9]+(?:\.[0-9]+)?(?![\w.])""")
"""A name or a text, whole; or a number."""
_UNSURE = re.compile(r"--|/\*|\\|[\0\1]|\$(?!cut\b|[0-9]+(?![\w$]))")
"""Characters that may begin a comment, or a text in other quotes; a parameter such as $1 begins none."""


def lifted(text: str) -> tuple[str, list[str]] | None:
    """A text with holes in place of its constants, and these; None where one could be mistaken.

    >>> lifted("SELECT t1.a + 12 FROM t1 WHERE d < '2020-01-31' AND e = '1'")
    ("SELECT t1.a + \\x00 FROM t1 WHERE d < '\\x00' AND e = '1'", ['12', '2020-01-31'])
    """
    if _UNSURE.search(text):
        return None
    values: list[str] = []

    def hole(part: re.Match[str]) -> str:
        date = _DATE.fullmatch(part[0])
        if part[1] is not None and date is None:
            return part[0]
        values.append(date[1] if date is not None else part[0])
        return f"'{HOLE}'" if date is not None else BROKEN if "." in part[0] else HOLE

    return _CONSTANT.sub(hole, text), values


MOST, LONGEST = 256, 10_000
"""Trees that are kept, and [characters] of the text of one."""
_COMPARED = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Between, exp.In)
_AROUND = (exp.Paren, exp.Neg, exp.Cast)

Read = TypeVar("Read", bound=Hashable)


@dataclass(frozen=True, slots=True)
class _Skeleton(Generic[Read]):
    """A tree that nobody changes, its constants in the order of the text, and by their places in the tree those that may be others."""

    tree: exp.Expression
    values: tuple[str, ...]
    read: Read
    holes: Mapping[int, int]

    def filled(self, values: tuple[str, ...]) -> exp.Expression | None:
        """A copy with other constants; None where one may not be another."""
        others = {place for place, value in enumerate(values) if value != self.values[place]}
        if not others.issubset(self.holes.values()):
            return None
        tree = copied(self.tree)
        literals = every(tree, exp.Literal) if others else []
        for at, place in self.holes.items() if others else ():
            literals[at].set("this", values[place])
        return tree

    def learnt(self, tree: exp.Expression, values: tuple[str, ...]) -> Mapping[int, int]:
        """The constants that may be others, once a second text is parsed; none where the trees differ in more than these, each once."""
        pairs = {pair: place for place, pair in enumerate(zip(self.values, values, strict=True)) if len(set(pair)) > 1}
        found = dict(self.holes)
        for at, (one, other) in enumerate(zip(every(self.tree, exp.Literal), every(tree, exp.Literal), strict=False)):
            if one.name != other.name:
                place = pairs.pop((one.name, other.name), None) if _is_compared(one) else None
                if place is None:
                    return {}
                found[at] = place
        return found if replace(self, holes=found).filled(values) == tree else {}


class Skeletons(Generic[Read]):
    """The newest trees of one thread's statements, and what was read of each beside its tree: parsed once, and copied with other
    constants.

    Why    nothing that is done with a statement before its names are resolved reads more of a constant than that it is one where it
           is compared: from there on everything is of the constants themselves. So such a constant is put in; every other one, in a
           call, in LIMIT or in GROUP BY 2, has to be the same. The texts are as long, so that all places in them stay
    Limit  which constants stand where is learnt of two texts that were both parsed, whose trees differ in these alone
    """

    def __init__(self) -> None:
        self._known: OrderedDict[Hashable, _Skeleton[Read]] = OrderedDict()

    def find(self, sql: str) -> tuple[exp.Expression, Read] | None:
        """The tree that a text would be parsed into, for whoever changes it; None where it has to be parsed."""
        asked = _asked(sql)
        known = self._known.get(asked[0]) if asked is not None else None
        tree = known.filled(asked[1]) if known is not None and asked is not None else None
        return (tree, known.read) if tree is not None and known is not None else None

    def keep(self, sql: str, tree: exp.Expression, read: Read) -> None:
        """Keep a copy of what a text was parsed into."""
        asked = _asked(sql)
        if asked is None:
            return
        known = self._known.pop(asked[0], None)
        holes = known.learnt(tree, asked[1]) if known is not None and known.read == read else {}
        self._known[asked[0]] = _Skeleton(copied(tree), asked[1], read, holes)
        if len(self._known) > MOST:
            self._known.popitem(last=False)


def _asked(sql: str) -> tuple[Hashable, tuple[str, ...]] | None:
    """The text without its constants but for their lengths, and these; None where one could be mistaken."""
    found = lifted(sql) if len(sql) <= LONGEST else None
    return ((found[0], tuple(map(len, found[1]))), tuple(found[1])) if found is not None else None


def _is_compared(node: exp.Expression) -> bool:
    """True if a node is a constant that something is compared with."""
    above = node.parent
    while isinstance(above, _AROUND):
        above = above.parent
    return isinstance(above, _COMPARED)
