"""adding: trees of what a row adds to what is released of a block, for which unit, in which group."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dpsql.core.sqltypes import DOUBLE
from dpsql.guard.parts import Part, set_to
from dpsql.guard.units import ROW_NUMBER
from dpsql.plan.resolved import Aggregate, Block
from dpsql.schema.model import Table as Declared
from dpsql.sql.duckdb import printed
from dpsql.sql.nodes import Bare, Binary, Call, Case, Cast, Column, Is, Node, Number, Own
from dpsql.sql.queries import Item, Join, Table

Variant = tuple[Part, bool]
"""A boolean part, and what it is set to."""
_MOMENTS = frozenset({"avg", "var_pop", "var_samp", "stddev_pop", "stddev_samp"})
_PLAIN = {"quantile": "quantile_cont", "top": "mode", "auto_sum": "sum"}
_COUNTED = frozenset({"rows", "count", "units", "distinct", "sum", "auto_sum"})


def hashed(block: Block, variant: Variant | None) -> Node:
    """The hash of what a row adds, and of the group that it adds it to; NULL where it is in none."""
    trees: list[Node] = [
        *(key.scalar.tree for key in block.keys),
        *(t for a in block.aggregates for _, t in statistics_of(a)),
    ]
    where = list(kept_by(block))
    if variant is not None:
        trees, where = [set_to(t, *variant) for t in trees], [set_to(t, *variant) for t in where]
    hashed = hash_of([Number(1), *trees])
    return Case(((all_of(where), hashed),), None) if where else hashed


def hash_of(trees: Sequence[Node]) -> Node:
    return Call("hash", tuple(trees))


def all_of(conditions: Sequence[Node]) -> Node:
    found = conditions[0]
    for condition in conditions[1:]:
        found = Binary("AND", found, condition)
    return found


def kept_by(block: Block) -> tuple[Node, ...]:
    return tuple(c.tree for c in block.source.where)


def unit(block: Block) -> Node:
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


def statistics_of(aggregate: Aggregate) -> list[tuple[str, Node]]:
    """The statistics of an aggregate: their kinds, and what a row adds to each."""
    present: Node = Number(1)
    if aggregate.argument is not None and aggregate.function != "units":
        present = Case(((_known(aggregate), Number(1)),), Number(0))
    if aggregate.function in ("rows", "count", "units"):
        return [("adds", _filtered(aggregate, present))]
    assert aggregate.argument is not None
    value = Cast(aggregate.argument.tree, DOUBLE)
    if aggregate.function in ("sum", "auto_sum"):
        return [("adds", _filtered(aggregate, value))]
    if aggregate.function in _MOMENTS:
        return [("adds", _filtered(aggregate, value)), ("adds", _filtered(aggregate, present))]
    trees = tuple(v.tree for v in aggregate.values)
    kind = f"{aggregate.function} of {' and '.join(map(printed, trees))}"
    hashed = Case(((_known(aggregate), Call("hash", (Number(1), *trees))),), Number(0))
    return [(kind, _filtered(aggregate, Cast(hashed, DOUBLE)))]


def valued(aggregate: Aggregate) -> tuple[Node, Node]:
    """Whether a row's value is not NULL, and whether it is not 0 either."""
    assert aggregate.argument is not None
    known = Case(((_known(aggregate), Number(1)),), Number(0))
    if not aggregate.argument.sqltype.is_number:
        return _filtered(aggregate, known), _filtered(aggregate, known)
    unlike = Case(((Binary("<>", Cast(aggregate.argument.tree, DOUBLE), Number(0)), Number(1)),), Number(0))
    return _filtered(aggregate, known), _filtered(aggregate, unlike)


def _known(aggregate: Aggregate) -> Node:
    parts: list[Node] = [Is(v.tree, "NOT NULL") for v in aggregate.values]
    return parts[0] if len(parts) == 1 else Bare(Binary("AND", *parts))


def _filtered(aggregate: Aggregate, value: Node) -> Node:
    return Case(((aggregate.condition.tree, value),), None) if aggregate.condition is not None else value


def is_met(condition: Node | None) -> Node:
    return Number(1) if condition is None else Case(((condition, Number(1)),), Number(0))


def plain(aggregate: Aggregate, i: int, scale: float) -> str:
    """An aggregate over the sample units, in the engine's words."""
    kept = f" FILTER (WHERE c{i} = 1)" if aggregate.condition is not None else ""
    function = _PLAIN.get(aggregate.function, aggregate.function)
    number = (
        f", {float(aggregate.number):g}" if aggregate.function == "quantile" and aggregate.number is not None else ""
    )
    text = {
        "rows": f"count(*){kept}",
        "units": f"count(DISTINCT u){kept}",
        "distinct": f"count(DISTINCT v{i}){kept}",
    }.get(aggregate.function, f"{function}(v{i}{number}){kept}")
    if aggregate.second is not None or aggregate.function not in _COUNTED | _MOMENTS | {
        "min",
        "max",
        "quantile",
        "top",
    }:
        text = "NULL"
    return f"{text} * {scale!r}" if aggregate.function in _COUNTED else text
