"""Nodes of SQL trees that make queries: what stands in SELECT, FROM and WITH."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dpsql.sql.nodes import Node


@dataclass(frozen=True, slots=True, eq=False)
class Item(Node):
    """A column of a SELECT list, under a name."""

    inner: Node
    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Table(Node):
    """A stored table or a query of WITH, under an alias where one is given."""

    name: str
    alias: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Derived(Node):
    """A query in FROM, under an alias."""

    query: Node
    alias: str
    LETTERS: ClassVar[int] = 8


@dataclass(frozen=True, slots=True, eq=False)
class Join(Node):
    """Two relations side by side: `kind` is "" (inner), LEFT, FULL, SEMI, ANTI or CROSS; the parts of `on` all hold."""

    kind: str
    left: Node
    right: Node
    on: tuple[Node, ...] = ()
    LETTERS: ClassVar[int] = 14
    GAP: ClassVar[int] = 5


@dataclass(frozen=True, slots=True, eq=False)
class Beside(Node):
    """Every combination of the rows of several relations."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Select(Node):
    """One SELECT. The parts of `where` all hold; `having` may be None; `once` leaves out repeats; `limit` [rows] or None."""

    items: tuple[Node, ...]
    source: Node | None = None
    where: tuple[Node, ...] = ()
    group: tuple[Node, ...] = ()
    having: Node | None = None
    once: bool = False
    limit: int | None = None
    LETTERS: ClassVar[int] = 70
    GAP: ClassVar[int] = 5


@dataclass(frozen=True, slots=True, eq=False)
class UnionAll(Node):
    """The rows of several queries, one after the other."""

    parts: tuple[Node, ...]
    GAP: ClassVar[int] = 11


@dataclass(frozen=True, slots=True, eq=False)
class Common(Node):
    """A query of WITH; one that is `kept` is computed once."""

    name: str
    query: Node
    kept: bool = False
    LETTERS: ClassVar[int] = 24


@dataclass(frozen=True, slots=True, eq=False)
class With(Node):
    """A query that reads others by their names."""

    parts: tuple[Common, ...]
    body: Node
    LETTERS: ClassVar[int] = 6
