"""public: parts of which the rows of public tables tell that they decide about nobody, on whatever database of people.

A brand that no item has, or a shop in a county where none is, leaves nobody out and takes nobody in: what is not so by the declarations
may be so by what everybody can read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from dpsql.expressions.scalar import Scalar
from dpsql.guard.parts import FALSE, TRUE, Part, set_to
from dpsql.plan.resolved import Block
from dpsql.sql.nodes import Aggregate, Binary, Call, Chain, Column, Node, Own, Star
from dpsql.sql.queries import Derived, Item, Join, Select, Table
from dpsql.sql.trees import tables, walk

COUNTED = Own("n")
Counts = Callable[[Select], int]
"""The number that a query of public tables has as `n`."""


def is_void(block: Block, part: Part, value: bool, public: frozenset[str], counts: Counts) -> bool:
    """True if a part that is always `value` changes nobody's rows, by the rows of public tables alone.

    Why  every condition, key and value that holds the part is the same with it and without, whatever rows people have: either the part
         stands in what is a function of a row of one public table, which is the same at each of its rows; or it is an alternative of
         what such a function decides at each of them, as is everything beside FALSE. Of a table that an outer join may have no row of
         every column may be NULL, and is tried as that

    public  the names of the public tables
    """
    source = block.source.read()
    seen = {alias: table for alias, table in _shown(source) if table in public}
    if any(node == part.tree for node in walk(source)):
        return False
    return all(_is_alike(whole, part, value, seen, counts) for whole in block.expressions)


def _shown(source: Node) -> Iterator[tuple[str, str]]:
    """The stored tables whose columns a block sees by their aliases."""
    if isinstance(source, Table) and source.alias:
        yield source.alias, source.name
    elif isinstance(source, Join):
        for side in (source.left, source.right):
            yield from _shown(side)


def _is_alike(whole: Scalar, part: Part, value: bool, seen: Mapping[str, str], counts: Counts) -> bool:
    if not any(inner.tree == part.tree for inner in whole.walk()):
        return True
    alias = _alias(whole, seen)
    if alias is not None:
        return _never_differs([whole], whole.tree, set_to(whole.tree, part, value), (alias, seen[alias]), counts)
    if whole.function in ("and", "or") and _is_decided(whole, part, seen, counts):
        return True
    return whole.tree != part.tree and all(_is_alike(arg, part, value, seen, counts) for arg in whole.args)


def _is_decided(whole: Scalar, part: Part, seen: Mapping[str, str], counts: Counts) -> bool:
    """True if alternatives of a part, of one public table, make it FALSE in AND or TRUE in OR at each row of that."""
    beside: dict[str, list[Scalar]] = {}
    for arg in whole.args:
        alias = _alias(arg, seen)
        if alias is not None:
            beside.setdefault(alias, []).append(arg)
    joined, decided = ("AND", FALSE) if whole.function == "and" else ("OR", TRUE)
    return any(
        _never_differs(some, Chain(joined, tuple(one.tree for one in some)), decided, (alias, seen[alias]), counts)
        for alias, some in beside.items()
    )


def _alias(scalar: Scalar, seen: Mapping[str, str]) -> str | None:
    """The alias of the one public table whose row a scalar is a function of."""
    found = {leaf.tree.relation if isinstance(leaf.tree, Column) else "" for leaf in scalar.leaves()}
    nested = any(inner.function == "exists" for inner in scalar.walk()) or tables(scalar.tree)
    return found.pop() if len(found) == 1 and found <= seen.keys() and not nested else None


def _never_differs(scalars: Sequence[Scalar], one: Node, other: Node, table: tuple[str, str], counts: Counts) -> bool:
    """True if two expressions over the columns of scalars are the same at each row of their table."""
    may_be_missing = any(leaf.nullable for scalar in scalars for leaf in scalar.leaves())
    rows = _with_none(Table(table[1], table[0])) if may_be_missing else Table(table[1], table[0])
    differs = (Binary("IS DISTINCT FROM", one, other),)
    return counts(Select((Item(Aggregate("count", (Star(),)), COUNTED),), rows, differs)) == 0


def _with_none(rows: Node) -> Node:
    """The rows of a table, and one of NULLs."""
    both = Call("unnest", (Call("list_value", (TRUE, FALSE)),))
    there = Derived(Select((Item(both, Own("there")),)), "dpsql there")
    return Join("LEFT", there, rows, (Column("dpsql there", "there"),))
