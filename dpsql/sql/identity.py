"""By what a question is known again: one spelling of trees, whatever the tables in them are called."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterator, Mapping

from dpsql.sql.nodes import Column, Node
from dpsql.sql.queries import Derived, Table
from dpsql.sql.trees import walk

VERSION = "fingerprint 2"
"""How questions are told apart: with another version, no stored answer is found again."""
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
    names = _numbered(source, _NONE)
    text = "\n".join([spelled(source), *(spelled(part, names) for part in parts)])
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()


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
        elif isinstance(part, Node | tuple):
            found.append(f"{type(part).__name__}(" if isinstance(part, Node) else "(")
            waiting += [_END, *reversed(_named(part, names))]
        elif isinstance(part, frozenset):
            found.append(f"{{{','.join(sorted(spelled(one, names) for one in part))}}}")
        else:
            found.append(f"{len(part)}:{part}" if isinstance(part, str) else f"{part!r};")
    return "".join(found)


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
        for part in value:
            yield from _aliases(part)
    elif isinstance(value, Node):
        yield from (node.alias for node in walk(value) if isinstance(node, Table | Derived) and node.alias)
