"""lists: parts of a statement that keep or leave out whole groups: those of a released list, or of the answer itself.

The sample units cannot know which groups a released list has: nobody is in it as far as they tell. But who chooses by it alone, and by
no constant of his own, chooses among groups that were released.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dpsql.expressions.scalar import Scalar
from dpsql.plan.resolved import Block, InputTable
from dpsql.sql.duckdb import printed
from dpsql.sql.nodes import Column, InQuery, Node
from dpsql.sql.queries import Derived, Item, Join, Select, Table
from dpsql.sql.trees import tables, walk

NULL_TESTS = ("is null", "is not null")


def keeps_whole_groups(part: Scalar, block: Block) -> bool:
    """True if a part stands in nothing but conditions of WHERE over group keys alone.

    Why  set to something else it shows other groups, each with the very people that it has: no two answers differ by some of a group.
         Whether a group that it takes in or leaves out is few is R2's
    """
    keys = {key.scalar.tree for key in block.keys if key.scalar.is_column}
    where = {condition.tree for condition in block.source.where}
    holding = [whole for whole in block.expressions if any(inner.tree == part.tree for inner in whole.walk())]
    return all(whole.tree in where and all(leaf.tree in keys for leaf in whole.leaves()) for whole in holding)


class Lists:
    """The released blocks of a statement, and the tables that are bound to what is computed of them."""

    def __init__(self, blocks: Sequence[Block], bounds: Sequence[InputTable]) -> None:
        self._blocks = {block.name: block for block in blocks}
        self._bounds = {bound.name: bound for bound in bounds}

    def keeps_groups(self, part: Scalar, block: Block) -> bool:
        """True if a part compares one column of people's rows with nothing but the group keys of lists, or asks whether such a list has
        a row."""
        if isinstance(part.tree, InQuery):
            compared = _compared(part.tree.query)
            return bool(part.args) and compared is not None and self._is_key(part.args[0], *compared)
        if any(one.is_literal for one in part.walk()):
            return False
        named = {t.alias or t.name: t.name for root in _roots(block) for t in walk(root) if isinstance(t, Table)}
        listed: list[tuple[str, str]] = []
        others: dict[str, Scalar] = {}
        for leaf in part.leaves():
            table = named.get(leaf.tree.relation, "") if isinstance(leaf.tree, Column) else ""
            if isinstance(leaf.tree, Column) and (table in self._bounds or table in self._blocks):
                listed.append((table, leaf.tree.name))
            else:
                others[leaf.origin] = leaf
        if not others:
            return part.function in NULL_TESTS and all(self._is_list(table) for table, _ in listed)
        return (
            len(others) == 1
            and bool(listed)
            and all(self._is_key(one, *key) for one in others.values() for key in listed)
        )

    def selected(self, block: Block, asked: Sequence[Scalar]) -> set[str]:
        """The columns whose values the rows of a block, or what is asked of them, have from a private selection; but those that it is
        grouped by: there each group is the same with the list and without.

        Why  beside COUNT(code), COUNT(code) FILTER (WHERE code IN list) lacks whom the list lacks; so it is told of each aggregate by
             itself, and what a LEFT JOIN or a derived table only shows beside the rows changes nothing that does not ask for it
        """
        source = block.source.read()
        named = {t.alias or t.name: t.name for t in walk(source) if isinstance(t, Table)}
        if not any(
            map(self.selected_in, {t.name for root in _roots(block) for t in walk(root) if isinstance(t, Table)})
        ):
            return set()
        read = set(_keeping(source))
        for whole in (*block.source.predicates, *(key.scalar for key in block.keys), *asked):
            for node in (node for part in whole.walk() for node in walk(part.tree)):
                read |= {node.name} if isinstance(node, Table) else set()
                read |= {named.get(node.relation, "")} if isinstance(node, Column) else set()
        own = {key.scalar.origin for key in block.keys if key.scalar.is_column}
        return {origin for table in read for origin in self.selected_in(table)} - own

    def selected_in(self, table: str) -> set[str]:
        block, bound = self._blocks.get(table), self._bounds.get(table)
        if block is not None:
            selected = [key.scalar for i, key in enumerate(block.keys) if block.is_selected(i)]
            return {key.origin or printed(key.tree) for key in selected}
        return {origin for read in (bound.reads if bound is not None else ()) for origin in self.selected_in(read)}

    def looked_up(self, block: Block) -> Iterator[tuple[Join, set[Node], bool]]:
        """The joins with tables that the statement itself made, each with the columns that it compares with them, and whether constants
        choose their rows.

        Why  a table that reads a release may hold written rows too; where it is compared by released keys alone it lists groups
        """
        for join in (node for node in walk(block.source.read()) if isinstance(node, Join)):
            bound = self._bounds.get(join.right.name) if isinstance(join.right, Table) else None
            if bound is None:
                continue
            compared = {c for on in join.on for c in walk(on) if isinstance(c, Column)}
            own = {column for column in compared if column.relation == _alias(join)}
            if not bound.reads or not all(self._shows_key(bound.name, column.name) for column in own):
                yield join, {*compared - own}, bound.chooses

    def is_cut(self, part: Scalar) -> bool:
        """True if all released values that a part reads cut people into parts of equal size: it leaves out as many, if it decides by
        them."""
        named = {t.name for t in walk(part.tree) if isinstance(t, Table)} & self._bounds.keys()
        return bool(named) and all(self._bounds[name].cuts for name in named)

    def reads_release(self, block: Block) -> bool:
        """True if a block reads a released value or list: by these it may be about a few whom no sample unit tells of."""
        return len(self._blocks) > 1 and any(map(self._is_of_release, block.reads))

    def _is_of_release(self, table: str) -> bool:
        bound = self._bounds.get(table)
        return table in self._blocks or (bound is not None and any(map(self._is_of_release, bound.reads)))

    def _is_key(self, column: Scalar, table: str, name: str) -> bool:
        """True if a table's column holds nothing but released values of a column, by which alone its releases are grouped."""
        grouped = column.is_column and column.origin and self._grouped(table) == {column.origin}
        return bool(grouped) and self._shows_key(table, name)

    def _shows_key(self, table: str, name: str) -> bool:
        """True if a table's column holds nothing but released values of a key."""
        while table in self._bounds:
            bound = self._bounds[table]
            shown = dict(zip((known for known, _ in bound.columns), bound.shows, strict=False)).get(name)
            if shown is None:
                return False
            table, name = shown
        return table in self._blocks and name in {key.name for key in self._blocks[table].keys}

    def _is_list(self, table: str) -> bool:
        return len(self._grouped(table) - {""}) == 1

    def _grouped(self, table: str) -> set[str]:
        """The columns that the releases are grouped by that a table is computed of; "" for anything else that chooses its rows."""
        block, bound = self._blocks.get(table), self._bounds.get(table)
        if block is not None:
            return {key.scalar.origin if key.scalar.is_column else "" for key in block.keys} or {""}
        if bound is None or bound.public or bound.chooses or not bound.reads:
            return {""}
        return {origin for read in bound.reads for origin in self._grouped(read)}


def is_shown_by(value: Scalar, join: Join) -> bool:
    """True if a value is a column of the table that is joined last."""
    return isinstance(value.tree, Column) and value.tree.relation == _alias(join)


def _alias(join: Join) -> str:
    return join.right.alias or join.right.name if isinstance(join.right, Table) else ""


def _roots(block: Block) -> list[Node]:
    return [block.source.read(), *(expression.tree for expression in block.expressions)]


def _keeping(source: Node | None) -> Iterator[str]:
    """The tables of FROM that decide which rows there are."""
    match source:
        case Join(kind="LEFT"):
            yield from _keeping(source.left)
        case Join(kind="" | "CROSS" | "SEMI"):
            yield from (*_keeping(source.left), *_keeping(source.right), *(t for on in source.on for t in tables(on)))
        case Derived(query=Select(once=False, group=(), having=None) as query):
            yield from (*_keeping(query.source), *(t for condition in query.where for t in tables(condition)))
        case Node():
            yield from tables(source)


def _compared(query: Node) -> tuple[str, str] | None:
    """The table and the column that a list of IN shows."""
    if not isinstance(query, Select) or not isinstance(query.source, Table) or len(query.items) != 1:
        return None
    item = query.items[0].inner if isinstance(query.items[0], Item) else query.items[0]
    return (query.source.name, item.name) if isinstance(item, Column) else None
