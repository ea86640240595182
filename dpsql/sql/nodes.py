"""Nodes of SQL trees: frozen, hashable, equal where they have the same structure.

A node knows its hash and its size from when it is made, so that comparing and limiting large trees costs little. Nothing here recurses:
a tree may be as deep as its size allows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import ClassVar

from dpsql.core.domains import Value
from dpsql.core.sqltypes import SqlType

_set = object.__setattr__


class Own(str):
    """A name that dpsql gave inside one query, of letters and digits alone: written without quotes."""

    __slots__ = ()


class Node:
    """One node: its fields are nodes, tuples of them, names, types and constants.

    size     [characters] the most that the tree takes to write
    LETTERS  [characters] of the node's own words
    GAP      [characters] between two entries of a tuple
    """

    __slots__ = ("_hash", "size")
    __match_args__: ClassVar[tuple[str, ...]] = ()
    LETTERS: ClassVar[int] = 4
    GAP: ClassVar[int] = 2
    size: int
    _hash: int
    _read: ClassVar[Callable[[Node], tuple[object, ...]]] = staticmethod(lambda node: ())

    def __init_subclass__(cls) -> None:
        """Read all fields at once: a node does so when it is made."""
        names = cls.__match_args__
        if len(names) > 1:
            cls._read = staticmethod(attrgetter(*names))
        elif names:
            one = attrgetter(names[0])
            cls._read = staticmethod(lambda node: (one(node),))

    def __post_init__(self) -> None:
        values = type(self)._read(self)
        size = self.LETTERS
        for value in values:
            if isinstance(value, str):
                size += len(value) + value.count('"') + 3
            elif isinstance(value, Node):
                size += value.size
            elif value:
                size += _letters(value, self.GAP)
        _set(self, "size", size)
        _set(self, "_hash", hash((self.__class__, values)))

    def values(self) -> tuple[object, ...]:
        """The fields, in order."""
        return type(self)._read(self)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Node):
            return NotImplemented
        waiting: list[tuple[object, object]] = [(self, other)]
        while waiting:
            one, two = waiting.pop()
            if one is two:
                continue
            if isinstance(one, Node) and isinstance(two, Node):
                if type(one) is not type(two) or one._hash != two._hash:
                    return False
                waiting.extend(zip(one.values(), two.values(), strict=True))
            elif isinstance(one, tuple) and isinstance(two, tuple):
                if len(one) != len(two):
                    return False
                waiting.extend(zip(one, two, strict=True))
            elif one != two:
                return False
        return True


def _letters(value: object, gap: int) -> int:
    """The most characters that a field takes to write."""
    if isinstance(value, str):
        return len(value) + value.count('"') + 3
    if isinstance(value, tuple):
        return sum((part.size if isinstance(part, Node) else _letters(part, gap)) + gap for part in value)
    return len(str(value))


# --- expressions --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Column(Node):
    """A column of a relation by the relation's alias; of the one relation there is where that is ""."""

    relation: str
    name: str


def own(name: str) -> Column:
    """A column that dpsql named, of the one relation there is."""
    return Column("", Own(name))


@dataclass(frozen=True, slots=True, eq=False)
class Literal(Node):
    """A constant of a type; None is NULL. Dates in days and timestamps in microseconds since 1970, or as written."""

    value: Value | None
    type: SqlType

    def __post_init__(self) -> None:
        value, sqltype = self.value, self.type
        cast = 10 + len(str(sqltype))
        if isinstance(value, str):
            letters = len(value) + value.count("'") + 14
        elif value is None or sqltype.is_boolean:
            letters = 4 + cast
        elif sqltype.is_float:
            letters = len(repr(float(value))) + cast
        elif sqltype.is_decimal:
            letters = max(len(str(int(value * 10**sqltype.scale))), sqltype.scale + 2) + 2 + cast
        elif sqltype.is_counted:
            letters = 40
        else:
            letters = len(str(int(value))) + 2
        _set(self, "size", letters)
        _set(self, "_hash", hash((Literal, value, self.type)))


@dataclass(frozen=True, slots=True, eq=False)
class Number(Node):
    """A whole number of dpsql's own, whose type the engine may choose."""

    value: int


@dataclass(frozen=True, slots=True, eq=False)
class Parameter(Node):
    """A value that is bound when the query runs, and stands in no text."""

    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Star(Node):
    """All columns, or the rows themselves."""


@dataclass(frozen=True, slots=True, eq=False)
class Cast(Node):
    """A conversion; one that `tries` gives NULL for what does not fit, the other raises."""

    inner: Node
    type: SqlType
    tries: bool = True
    LETTERS: ClassVar[int] = 16


@dataclass(frozen=True, slots=True, eq=False)
class Call(Node):
    """A function of the values of one row."""

    name: str
    args: tuple[Node, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Binary(Node):
    """An operator or comparison between two values."""

    operator: str
    left: Node
    right: Node


@dataclass(frozen=True, slots=True, eq=False)
class Chain(Node):
    """Several values joined by one operator that needs no order among them: AND, OR, *."""

    operator: str
    parts: tuple[Node, ...]
    GAP: ClassVar[int] = 5


@dataclass(frozen=True, slots=True, eq=False)
class Not(Node):
    inner: Node
    LETTERS: ClassVar[int] = 6


@dataclass(frozen=True, slots=True, eq=False)
class Is(Node):
    """A test that is never NULL: `what` is NULL, NOT NULL, TRUE or FALSE."""

    inner: Node
    what: str
    LETTERS: ClassVar[int] = 6


@dataclass(frozen=True, slots=True, eq=False)
class In(Node):
    """Membership in a list, which is not empty: engines differ over `x IN ()`, and some cannot read it."""

    inner: Node
    options: tuple[Node, ...]
    LETTERS: ClassVar[int] = 8


@dataclass(frozen=True, slots=True, eq=False)
class InQuery(Node):
    """Membership among the rows of a query."""

    inner: Node
    query: Node
    LETTERS: ClassVar[int] = 8


@dataclass(frozen=True, slots=True, eq=False)
class Between(Node):
    inner: Node
    low: Node
    high: Node
    LETTERS: ClassVar[int] = 16


@dataclass(frozen=True, slots=True, eq=False)
class Like(Node):
    """LIKE, or ILIKE where case is ignored."""

    inner: Node
    pattern: Node
    ignores_case: bool
    escape: Node | None = None
    LETTERS: ClassVar[int] = 18


@dataclass(frozen=True, slots=True, eq=False)
class Case(Node):
    """The value of the first condition that is true; without a default NULL where none is."""

    branches: tuple[tuple[Node, Node], ...]
    default: Node | None = None
    LETTERS: ClassVar[int] = 20
    GAP: ClassVar[int] = 6


@dataclass(frozen=True, slots=True, eq=False)
class Exists(Node):
    query: Node
    LETTERS: ClassVar[int] = 10


@dataclass(frozen=True, slots=True, eq=False)
class QueryValue(Node):
    """The one value of a query."""

    query: Node


@dataclass(frozen=True, slots=True, eq=False)
class Aggregate(Node):
    """A function of the values of several rows, of those alone for which `where` is true."""

    name: str
    args: tuple[Node, ...]
    distinct: bool = False
    where: Node | None = None
    LETTERS: ClassVar[int] = 34


@dataclass(frozen=True, slots=True, eq=False)
class Ordered(Node):
    """A value that rows are ordered by. nulls: FIRST, LAST, or "" where none can come."""

    inner: Node
    descending: bool = False
    nulls: str = ""
    LETTERS: ClassVar[int] = 12


@dataclass(frozen=True, slots=True, eq=False)
class Frame(Node):
    """Frame of a window: the rows around one that it looks at, in the words of SQL: ROWS or RANGE, and both ends."""

    kind: str
    start: str
    end: str
    LETTERS: ClassVar[int] = 16


@dataclass(frozen=True, slots=True, eq=False)
class Over(Node):
    """A function over a window of rows."""

    function: Node
    partition: tuple[Node, ...] = ()
    order: tuple[Node, ...] = ()
    frame: Frame | None = None
    LETTERS: ClassVar[int] = 34


@dataclass(frozen=True, slots=True, eq=False)
class Spread(Node):
    """The `count` entries of a list of `length` that lie at evenly spread places."""

    list: Node
    length: Node
    count: Node
    LETTERS: ClassVar[int] = 110


@dataclass(frozen=True, slots=True, eq=False)
class Bare(Node):
    """An operation that needs no parentheses where it stands."""

    inner: Node
