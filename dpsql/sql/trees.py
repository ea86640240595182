"""Looking into SQL trees and rewriting them, without recursion; one spelling of them, by which a question is known again."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Protocol, TypeVar

from dpsql.sql.duckdb import printed
from dpsql.sql.nodes import Column, Node
from dpsql.sql.queries import Derived, Table


class HasTree(Protocol):
    """Object that stands for a tree."""

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
    return frozenset(table_names(node))


def table_names(node: Node) -> Iterator[str]:
    """The name of a table for each place at which it is read."""
    return (part.name for part in walk(node) if isinstance(part, Table))


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
    """Holders of trees, each tree once, in an order that does not depend on the order that they came in: that of their
    texts."""
    known = list(parts)
    if len(known) < 2:
        return tuple(known)
    texts = {printed(part.tree): part for part in known}
    return tuple(texts[text] for text in sorted(texts))


def sorted_trees(trees: Iterable[Node]) -> tuple[Node, ...]:
    """Trees in an order that does not depend on the order that they came in."""
    known = tuple(trees)
    return known if len(known) < 2 else tuple(sorted(known, key=printed))


VERSION = "fingerprint 3"
"""Version of fingerprints: with another version, no stored answer is found again."""
_END = object()
_NONE: Mapping[str, str] = {}


def fingerprint(source: Node, *parts: Hashable) -> str:
    """A hash of what is read and of what is asked of it.

    Why  the numbering of aliases is one to one, and no identifier of a statement holds a control character: two questions become
         equal only if they differed in the names of aliases alone

    >>> rows, other = Table("person", "p"), Table("person", "q")
    >>> fingerprint(rows, Column("p", "site")) == fingerprint(other, Column("q", "site"))
    True
    >>> fingerprint(rows, Column("p", "site")) == fingerprint(other, Column("p", "site"))
    False
    """
    return Spelling(source, *parts).fingerprint()


class Spelling:
    """Text of a source and of some of what is asked of it, spelled once for several questions that begin with it."""

    def __init__(self, source: Node, *parts: Hashable) -> None:
        self._names = numbered(source)
        self._text = "\n".join([spelled(source), *(spelled(part, self._names) for part in parts)])

    def fingerprint(self, *parts: Hashable) -> str:
        """The hash as `fingerprint` gives it of all parts in one."""
        text = "\n".join([self._text, *(spelled(part, self._names) for part in parts)])
        return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()


def numbered(source: Node) -> Mapping[str, str]:
    """The names that the aliases of a source have in what is spelled of it."""
    return _numbered(source, _NONE)


def spelled(value: Hashable, known: Mapping[str, str] = _NONE) -> str:
    """Trees, tuples, sets and constants as a text that no two of them share, but those that differ in aliases alone.

    known  other names of aliases that are given outside; those inside are numbered after them, in the order in which they are met,
           and in each member of a set by itself

    >>> spelled((Column("", "a"), "b")), spelled(frozenset({Column("t", "a")}), {"t": "0"})
    ('(Column(0:1:a)1:b)', '{Column(1:01:a)}')
    """
    names = _numbered(value, known)
    found: list[str] = []
    waiting: list[object] = [value]
    while waiting:
        part = waiting.pop()
        if part is _END:
            found.append(")")
        elif type(part) is tuple and _PLAIN.issuperset(map(type, part)):
            found.append(f"({_all_plain(part)})")
        elif isinstance(part, Node | tuple):
            found.append(f"{type(part).__name__}(" if isinstance(part, Node) else "(")
            waiting += [_END, *reversed(_named(part, names))]
        elif isinstance(part, frozenset):
            found.append(f"{{{','.join(sorted(spelled(one, names) for one in part))}}}")
        else:
            found.append(_plain(part))
    return "".join(found)


_PLAIN = frozenset((int, bool, str, type(None), Fraction))
"""Types of constants, of which a tuple is spelled in one go: a list of values may have thousands."""


def _plain(part: object) -> str:
    return f"{len(part)}:{part}" if isinstance(part, str) else f"{part!r};"


def _all_plain(parts: tuple[object, ...]) -> str:
    if str in set(map(type, parts)):
        return "".join(map(_plain, parts))
    return ";".join((*map(repr, parts), ""))


def _named(part: Node | tuple[object, ...], names: Mapping[str, str]) -> tuple[object, ...]:
    """The fields of a node or a tuple, with the other names of aliases."""
    match part:
        case Column(relation=relation, name=name):
            return names.get(relation, relation), name
        case Table(name=name, alias=alias):
            return name, names.get(alias, alias)
        case Derived(query=query, alias=alias):
            return query, names.get(alias, alias)
    return part.values() if isinstance(part, Node) else part


def _numbered(value: Hashable, known: Mapping[str, str]) -> dict[str, str]:
    names = dict(known)
    for alias in _aliases(value):
        names.setdefault(alias, f"\0{len(names)}")
    return names


def _aliases(value: object) -> Iterator[str]:
    """The aliases that are given in a tree or a tuple, in order."""
    if isinstance(value, tuple):
        if not _PLAIN.issuperset(map(type, value)):
            for part in value:
                yield from _aliases(part)
    elif isinstance(value, Node):
        yield from (node.alias for node in walk(value) if isinstance(node, Table | Derived) and node.alias)
