"""adding: trees of what a row adds to what is released of a block, for which unit, in which group."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from dpsql.aggregates.record import Aggregate
from dpsql.core.sqltypes import BIGINT, DOUBLE
from dpsql.guard.arrays import Counts
from dpsql.guard.parts import Part, all_of, kept_by, set_to
from dpsql.guard.units import ROW_NUMBER
from dpsql.plan.releases import Bounded
from dpsql.plan.resolved import Block
from dpsql.schema.model import Table as Declared
from dpsql.sql import nodes
from dpsql.sql.duckdb import printed
from dpsql.sql.nodes import Bare, Binary, Call, Case, Cast, Chain, Column, Is, Node, Not, Number, Own, own
from dpsql.sql.queries import Derived, Item, Join, Select, Table

Variant = tuple[Part, bool]
"""A boolean part, and what it is set to."""


@dataclass(frozen=True, slots=True)
class Added:
    """A number that each row adds.

    tree  a value of the row; NULL where the row adds nothing
    of    what of it is added
    """

    tree: Node
    of: Counts = "value"


class Scan:
    """The query of one scan over the rows of a block: what each adds, and with each variant. Each tree is computed once, in a query
    inside, and is a column to the one around it.

    source  in place of its FROM; None: that
    first   how many sample units are looked at; None: all
    """

    def __init__(self, block: Block, source: Node | None = None, first: int | None = None) -> None:
        self._block, self._among = block, among(first, own("u"))
        self._source = source or block.source.read()
        self._columns: dict[Node, Column] = {}

    def query(self, values: Mapping[Node, str], variants: Sequence[Variant | None]) -> Select:
        """The unit as u; where there are values, those that are no constants, by their names, and where there may be several groups,
        the group as k; with each variant the hash of what the row adds and where, as h0 and on, 0 where that is nothing. Where there
        are variants, rows that do not meet WHERE as it is are there too, in no group."""
        keys = [key.scalar.tree for key in self._block.keys]
        where = self._lifted(kept_by(self._block))
        shown: list[Node] = [own("u")]
        some = bool(variants and where)
        if values and (keys or some):
            group = self._column(hash_of(keys)) if keys else Number(0)
            shown.append(Item(Case(((all_of(where), group),), None) if some else group, Own("k")))
        shown += [Item(self._column(tree), Own(name)) for tree, name in values.items() if not isinstance(tree, Number)]
        shown += [Item(self._hashed(variant), Own(f"h{i}")) for i, variant in enumerate(variants)]
        inner = Select((unit(self._block), *self._items()), self._source)
        known = (Is(own("u"), "NOT NULL"), *self._among)
        return Select(tuple(shown), Derived(inner, Own("r")), known if variants else (*known, *where))

    def _hashed(self, variant: Variant | None) -> Node:
        block, where = self._block, list(kept_by(self._block))
        added = dict.fromkeys(one.tree for a in block.aggregates for _, one in statistics_of(a))
        trees = [*(key.scalar.tree for key in block.keys), *added]
        if variant is not None:
            trees, where = [set_to(t, *variant) for t in trees], [set_to(t, *variant) for t in where]
        found, kept = self._column(hash_of([Number(1), *trees])), self._lifted(where)
        return Case(((all_of(kept), found),), Number(0)) if kept else found

    def _lifted(self, conditions: Sequence[Node]) -> list[Node]:
        """Conditions with a column for each that is not put together of others."""
        return [self._lift(condition) for condition in conditions]

    def _lift(self, condition: Node) -> Node:
        match condition:
            case Binary(operator="AND" | "OR"):
                return Binary(condition.operator, self._lift(condition.left), self._lift(condition.right))
            case Chain(operator="AND" | "OR"):
                return Chain(condition.operator, tuple(map(self._lift, condition.parts)))
            case Not():
                return Not(self._lift(condition.inner))
            case nodes.Literal():
                return condition
        return self._column(condition)

    def _column(self, tree: Node) -> Node:
        return self._columns.setdefault(tree, own(f"c{len(self._columns)}"))

    def _items(self) -> list[Node]:
        return [Item(tree, Own(column.name)) for tree, column in self._columns.items()]


def hash_of(trees: Sequence[Node]) -> Node:
    return Call("hash", tuple(trees))


def identity(bounded: Bounded) -> Hashable:
    """Equal for statements that ask the same of the same rows, in whatever words."""
    blocks = [
        (
            block.name,
            block.source.read(),
            kept_by(block),
            tuple((k.scalar.tree, k.values) for k in block.keys),
        )
        for block in (part.block for part in bounded.blocks)
    ]
    aggregates = [
        (
            a.name,
            a.function,
            a.number,
            tuple(v.tree for v in a.values),
            a.condition.tree if a.condition is not None else None,
        )
        for part in bounded.blocks
        for a in part.block.aggregates
    ]
    return (*blocks, *aggregates, *((bound.name, bound.sql) for bound in bounded.bounds))


def among(first: int | None, unit: Node) -> tuple[Node, ...]:
    """The condition that a row is of one of the first sample units."""
    return () if first is None else (Binary("<=", Cast(unit, BIGINT), Number(first)),)


def unit(block: Block) -> Item:
    """The unit's column; at row level the row of the sample table."""
    unit = block.source.unit
    owner = unit.column.tree if unit is not None and unit.column is not None else None
    if owner is None:
        alias = _first(block.source.read(), block.source.tables)
        owner = Column(alias, ROW_NUMBER) if alias else Call("hash", tuple(c.scalar.tree for c in block.source.columns))
    return Item(owner, Own("u"))


def _first(source: Node, private: Iterable[Declared]) -> str:
    """The alias of a private table that stands in FROM itself; "" where there is none."""
    names = {table.name for table in private}
    waiting = [source]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Table) and part.name in names:
            return part.alias or part.name
        if isinstance(part, Join):
            waiting += [part.right, part.left]
    return ""


def statistics_of(aggregate: Aggregate) -> list[tuple[str, Added]]:
    """The statistics of an aggregate: their kinds, and what a row adds to each."""
    adds = aggregate.record.adds
    if adds == "rows":
        return [("adds", _present(aggregate))]
    if adds != "itself":
        value = _number(aggregate)
        return [("adds", Added(value))] + [("adds", Added(value, "known"))] * (adds != "values")
    trees = tuple(v.tree for v in aggregate.values)
    kind = f"{aggregate.function} of {' and '.join(map(printed, trees))}"
    hashed = Case(((_known(aggregate), Call("hash", (Number(1), *trees))),), Number(0))
    return [(kind, Added(_filtered(aggregate, Cast(hashed, DOUBLE))))]


def valued(aggregate: Aggregate) -> tuple[Added, Added]:
    """Numbers that say of each row: its value is known, and it is one that adds something too."""
    if not is_nothing_zero(aggregate):
        return _present(aggregate), _present(aggregate)
    value = _number(aggregate)
    return _present(aggregate) if len(aggregate.values) > 1 else Added(value, "known"), Added(value, "unlike 0")


def _present(aggregate: Aggregate) -> Added:
    known: Node = Number(1) if aggregate.argument is None else Case(((_known(aggregate), Number(1)),), Number(0))
    return Added(_filtered(aggregate, known))


def _number(aggregate: Aggregate) -> Node:
    assert aggregate.argument is not None
    return _filtered(aggregate, Cast(aggregate.argument.tree, DOUBLE))


def is_nothing_zero(aggregate: Aggregate) -> bool:
    """True if a value of 0 is to an aggregate as if there were none; to what only counts it is one as others."""
    return aggregate.argument is not None and aggregate.argument.sqltype.is_number and not aggregate.record.only_counts


def _known(aggregate: Aggregate) -> Node:
    parts: list[Node] = [Is(v.tree, "NOT NULL") for v in aggregate.values]
    return parts[0] if len(parts) == 1 else Bare(Binary("AND", *parts))


def _filtered(aggregate: Aggregate, value: Node) -> Node:
    return Case(((aggregate.condition.tree, value),), None) if aggregate.condition is not None else value


def is_met(condition: Node | None) -> Node:
    """1 for each row that meets a condition."""
    return Number(1) if condition is None else Case(((condition, Number(1)),), None)


def plain(aggregate: Aggregate, i: int, scale: float) -> str:
    """An aggregate over the sample units, in the engine's words; NULL where it has none."""
    record = aggregate.record
    if not record.sampled:
        return "NULL"
    kept = f" FILTER (WHERE c{i} = 1)" if aggregate.condition is not None else ""
    text = record.sampled.format(v=f"v{i}", n=f"{float(aggregate.number or 0):g}", kept=kept)
    return f"{text} * {scale!r}" if record.grows else text
