"""Looking into SQL trees and rewriting them, without recursion."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Protocol, TypeVar

from dpsql.sql.duckdb import printed
from dpsql.sql.nodes import Node
from dpsql.sql.queries import Table


class HasTree(Protocol):
    """What stands for a tree."""

    @property
    def tree(self) -> Node: ...


Holder = TypeVar("Holder", bound=HasTree)


def children(node: Node) -> list[Node]:
    """The nodes right below a node."""
    found: list[Node] = []
    for value in node.values():
        if isinstance(value, Node):
            found.append(value)
        elif isinstance(value, tuple):
            for part in value:
                if isinstance(part, Node):
                    found.append(part)
                else:
                    found += part
    return found


def walk(node: Node) -> Iterator[Node]:
    """A node and all below it, each where it stands, a node before what is below it."""
    waiting = [node]
    while waiting:
        part = waiting.pop()
        yield part
        waiting += reversed(children(part))


def tables(node: Node) -> frozenset[str]:
    """The names of the tables that are read."""
    return frozenset(part.name for part in walk(node) if isinstance(part, Table))


def rewritten(node: Node, known: Mapping[Node, Node]) -> Node:
    """The tree with some subtrees replaced; what stands in their place is left as it is."""
    return _changed(node, known.get, lambda part: part) if known else node


def mapped(node: Node, change: Callable[[Node], Node]) -> Node:
    """The tree with every node that a function makes of it, after what is below it was made anew."""
    return _changed(node, lambda part: None, change)


def _changed(node: Node, known: Callable[[Node], Node | None], change: Callable[[Node], Node]) -> Node:
    made: dict[int, Node] = {}
    waiting: list[tuple[Node, bool]] = [(node, False)]
    while waiting:
        part, ready = waiting.pop()
        if id(part) in made:
            continue
        found = known(part)
        if found is not None:
            made[id(part)] = found
        elif ready:
            made[id(part)] = change(_remade(part, made))
        else:
            waiting.append((part, True))
            waiting.extend((child, False) for child in children(part))
    return made[id(node)]


def _remade(node: Node, made: Mapping[int, Node]) -> Node:
    """The node over what its children became; itself where nothing changed."""
    if all(made[id(child)] is child for child in children(node)):
        return node
    return type(node)(*(_moved(value, made) for value in node.values()))


def _moved(value: object, made: Mapping[int, Node]) -> object:
    if isinstance(value, Node):
        return made[id(value)]
    return tuple(_moved(part, made) for part in value) if isinstance(value, tuple) else value


def in_order(parts: Iterable[Holder]) -> tuple[Holder, ...]:
    """What holds trees, each tree once, in an order that does not depend on the order that they came in: that of their texts."""
    known = list(parts)
    if len(known) < 2:
        return tuple(known)
    texts = {printed(part.tree): part for part in known}
    return tuple(texts[text] for text in sorted(texts))


def sorted_trees(trees: Iterable[Node]) -> tuple[Node, ...]:
    """Trees in an order that does not depend on the order that they came in."""
    known = tuple(trees)
    return known if len(known) < 2 else tuple(sorted(known, key=printed))
