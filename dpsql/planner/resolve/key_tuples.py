"""Group keys of a block whose values go together, and over which inputs they are tried.

Why a group may be left off a list (rule 58): the condition stands in the same block and is on every row; it is a function of columns
whose values are tried, all of them, NULL too where a join can make it; and for none of these it is true.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from dpsql.core.sqltypes import TIMESTAMP
from dpsql.expressions.scalar import Scalar
from dpsql.expressions.steps import steps_of
from dpsql.planner.resolve.key_inputs import Input, of_column, of_extended, of_key, of_public
from dpsql.relations.relations import Relation
from dpsql.sql.nodes import Cast, Column, Node
from dpsql.sql.trees import rewritten, tables, walk


@dataclass(frozen=True, slots=True)
class Together:
    """Keys that share an input or a condition with one another, and with no other key.

    keys        by position, each over the columns of the inputs
    conditions  over them
    """

    keys: Mapping[int, Node]
    inputs: tuple[Input, ...]
    conditions: tuple[Node, ...] = ()


@dataclass(frozen=True, slots=True)
class PublicTables:
    """The public tables of a block, those in one group that equalities of public tables alone tie together.

    parts       by group
    conditions  by group those that tie them, or choose their rows
    owner       by column its group
    columns     by column what it is
    same        by a private column the public one that the join equates it with
    extended    groups of one table that an outer join may have no row of
    """

    parts: Sequence[Sequence[Relation]]
    conditions: Sequence[Sequence[Scalar]]
    owner: Mapping[Node, int]
    columns: Mapping[Node, Scalar]
    same: Mapping[Node, Scalar]
    extended: frozenset[int]

    def groups(self, nodes: Iterable[Node]) -> set[int]:
        """The groups that trees read."""
        return {self.owner[part] for node in nodes for part in walk(node) if part in self.owner}

    def input(self, group: int, needed: Iterable[Node], number: int) -> Input:
        columns = [self.columns[column] for column in dict.fromkeys(needed) if self.owner[column] == group]
        if group in self.extended:
            return of_extended(self.parts[group][0], columns, number)
        return of_public(self.parts[group], self.conditions[group], columns, number)


def together(keys: Mapping[int, Scalar], public: PublicTables, where: Sequence[Scalar]) -> list[Together]:
    """The keys by what they share.

    keys   those that have a list, by position
    where  every condition of the block
    """
    read = public.groups(key.tree for key in keys.values())
    moved = {mine: theirs.tree for mine, theirs in public.same.items() if public.owner[theirs.tree] in read}
    trees = {i: rewritten(key.tree, moved) for i, key in keys.items()}
    own = {c.tree for conditions in public.conditions for c in conditions}
    mixed = [c for c in where if c.tree not in own and not tables(c.tree)]
    inputs, known = _of_private(keys, trees, mixed, public)
    left = {i for i, key in keys.items() if key.tree not in known and not _all_known(key, {*known, *moved}, public)}
    trees = {i: rewritten(tree, known) for i, tree in trees.items() if i not in left}
    ready = {column for one in inputs for column in one.columns.values()}
    conditions = [rewritten(rewritten(c.tree, moved), known) for c in mixed if _is_tried(c, inputs)]
    conditions = [c for c in conditions if _reads_only(c, ready, public, read)]
    needed = [part for tree in (*trees.values(), *conditions) for part in walk(tree) if part in public.owner]
    for group in sorted(read):
        inputs.append(public.input(group, needed, len(inputs)))
    known = {tree: column for one in inputs for tree, column in one.columns.items()}
    return _parted(
        {i: rewritten(t, known) for i, t in trees.items()}, [rewritten(c, known) for c in conditions], inputs
    )


def _of_private(
    keys: Mapping[int, Scalar], trees: Mapping[int, Node], conditions: Sequence[Scalar], public: PublicTables
) -> tuple[list[Input], dict[Node, Node]]:
    """Inputs of the private columns that keys read; where one has too many values, of the keys that read it."""
    leaves = {leaf.tree: leaf for key in keys.values() for leaf in key.leaves()}
    left = {
        column for tree in trees.values() for column in walk(tree) if column in leaves and column not in public.owner
    }
    inputs: list[Input] = []
    whole: set[int] = set()
    for tree in (tree for tree in leaves if tree in left):
        users = {i: key for i, key in keys.items() if any(leaf.tree == tree for leaf in key.leaves())}
        read_by = [c for c in conditions if _steps(c, leaves[tree])]
        found = of_column(leaves[tree], len(inputs), list(users.values()), read_by)
        if found is None:
            whole |= users.keys()
        else:
            inputs.append(found)
    for i in sorted(whole):
        found = of_key(keys[i], len(inputs))
        if found is not None:
            inputs.append(found)
    return inputs, {tree: column for one in inputs for tree, column in one.columns.items()}


def _steps(condition: Scalar, leaf: Scalar) -> bool:
    """True if a condition reads a column, and one value of each step can stand for all."""
    reads = any(part.tree == leaf.tree for part in condition.leaves())
    return reads and (leaf.sqltype != TIMESTAMP or steps_of(leaf, (condition,)) is not None)


def _is_tried(condition: Scalar, inputs: Sequence[Input]) -> bool:
    """True if each value of a time is stood for by one that is tried, as far as a condition can tell."""
    tried = {tree for one in inputs for tree in one.columns}
    return all(_steps(condition, leaf) for leaf in condition.leaves() if leaf.tree in tried)


def _all_known(key: Scalar, known: set[Node], public: PublicTables) -> bool:
    return all(leaf.tree in known or leaf.tree in public.owner for leaf in key.leaves())


def _reads_only(tree: Node, ready: set[Node], public: PublicTables, read: set[int]) -> bool:
    """True if a tree reads inputs and public tables alone, and something of them."""
    columns = [part for part in walk(tree) if isinstance(part, Column)]
    return bool(columns) and all(c in ready or public.owner.get(c) in read for c in columns)


def _parted(keys: Mapping[int, Node], conditions: Sequence[Node], inputs: Sequence[Input]) -> list[Together]:
    """Parts of inputs that are tied together, part by part; an input that no key is tied to says nothing."""
    owner = {column: i for i, one in enumerate(inputs) for column in one.columns.values()}
    ties = [{owner[part] for part in walk(tree) if part in owner} for tree in (*keys.values(), *conditions)]
    found: list[Together] = []
    for part in merged(ties):
        own = {i: tree for (i, tree), tie in zip(keys.items(), ties, strict=False) if tie & part}
        said = tuple(c for c, tie in zip(conditions, ties[len(keys) :], strict=True) if tie & part)
        if own:
            found.append(Together(own, tuple(inputs[i] for i in sorted(part)), said))
    return found


def merged(ties: Iterable[set[int]]) -> list[set[int]]:
    """Sets of which no two have something in common, that hold these.

    >>> merged([{1}, {2, 3}, {3, 1}, {4}])
    [{1, 2, 3}, {4}]
    """
    found: list[set[int]] = []
    for tie in ties:
        common = [one for one in found if one & tie]
        place = found.index(common[0]) if common else len(found)
        found = [one for one in found if not one & tie]
        found.insert(place, tie.union(*common))
    return found


# --- public tables ------------------------------------------------------------------------------------------------


def public_tables(relation: Relation) -> PublicTables:
    """The public tables that a relation was joined with."""
    parts = [*relation.publics, *relation.extended]
    columns = {c.scalar.tree: c.scalar for part in parts for c in part.columns}
    place = {c.scalar.tree: i for i, part in enumerate(parts) for c in part.columns}
    inner = range(len(relation.publics))
    conditions = [
        c
        for c in (*relation.links, *relation.where)
        if not tables(c.tree)
        and (read := [place.get(leaf.tree) for leaf in c.leaves()])
        and all(i in inner for i in read)
        # rows of several tables that anything else compares may be as many as there are pairs of them
        and (len(set(read)) == 1 or c.function == "=")
    ]
    groups = merged(
        [*({i} for i in range(len(parts))), *({place[leaf.tree] for leaf in c.leaves()} for c in conditions)]
    )
    owner = {tree: next(g for g, group in enumerate(groups) if i in group) for tree, i in place.items()}
    return PublicTables(
        [[parts[i] for i in sorted(group)] for group in groups],
        [[c for c in conditions if owner[next(c.leaves()).tree] == g] for g in range(len(groups))],
        owner,
        columns,
        _same(relation, owner),
        frozenset(g for g, group in enumerate(groups) if not group <= set(inner)),
    )


def _same(relation: Relation, owner: Mapping[Node, int]) -> dict[Node, Scalar]:
    """By private columns, and what they are converted to, the public columns that inner joins equate them with."""
    found: dict[Node, Scalar] = {}
    for link in relation.links:
        mine, theirs = link.args
        if theirs.tree in owner and mine.tree not in owner and theirs.is_column:
            found.setdefault(mine.tree, theirs)
            inner = mine.args[0] if mine.args and isinstance(mine.tree, Cast) else mine
            if inner.is_column and inner.sqltype.is_integer and theirs.sqltype.is_integer:
                found.setdefault(inner.tree, theirs)
    return found
