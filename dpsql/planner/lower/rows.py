"""The rows of a release that count, what its statistics read of each, and the sums where nothing is cut."""

from __future__ import annotations

from collections.abc import Sequence

from dpsql.aggregates.base import Statistic
from dpsql.core.sqltypes import VARCHAR
from dpsql.expressions.scalar import Scalar
from dpsql.plan.releases import Release
from dpsql.plan.resolved import KeyList
from dpsql.planner.lower.keys import declared, key_columns, only_declared, travelling, travels_whole
from dpsql.schema.model import RESERVED
from dpsql.sql.nodes import Aggregate, Bare, Binary, Call, Cast, Column, Exists, Is, Node, Number, Own, Star, own
from dpsql.sql.queries import Derived, Item, Select, Table

_LISTED = f"{RESERVED}list"
"""A key list inside the condition that looks a row's keys up in it: no column of a statement can be of a table of that name."""
UNIT, ROW_VALUE, ONE, ZERO = own("u"), own("v"), Number(1), Number(0)


def rows_of(release: Release, inputs: list[Scalar], *, unit: bool | None = None) -> Node:
    """The rows that count, with the unit, the keys and the inputs as columns.

    unit  whether the unit is a column; by default where the limits are enforced. Without it, rows that belong to nobody are
          kept out by the data's own structure: only for verified data
    """
    block = release.limited.block
    enforced = release.limited.enforced
    owner = block.source.unit.column if block.source.unit is not None else None
    shown = enforced if unit is None else unit
    columns: list[Node] = []
    conditions: list[Node] = [c.tree for c in block.source.where]
    if owner is not None and (shown or unit is None):
        conditions.append(Bare(Is(owner.tree, "NOT NULL")))
        if shown:
            columns.append(Item(owner.tree, Own("u")))
    for key in release.keys:
        columns.append(Item(travelling(key), Own(key.name)))
        if key.values is not None and ((enforced and unit is None) or not travels_whole(key)):
            conditions.append(declared(key))
    conditions += [_on_list(release, listed) for listed in block.lists]
    columns += [Item(scalar.tree, Own(f"x{i}")) for i, scalar in enumerate(inputs)]
    source = block.source.read(owner is not None and (shown or unit is None))
    return Select(tuple(columns) or (Item(ONE, Own("one")),), source, tuple(conditions))


def _on_list(release: Release, listed: KeyList) -> Node:
    """The condition that a row's keys are on a bound table's list."""
    same = tuple(
        Bare(Binary("IS NOT DISTINCT FROM", Column(_LISTED, f"c{i}"), release.keys[position].scalar.tree))
        for i, position in enumerate(listed.keys)
    )
    return Exists(Select((ONE,), Table(listed.bound, _LISTED), same))


def inputs_of(statistics: list[Statistic]) -> tuple[list[list[Node]], list[Scalar]]:
    """The distinct row expressions that the statistics read, and for each statistic their column names."""
    position: dict[Node, int] = {}
    inputs: list[Scalar] = []
    names: list[list[Node]] = []
    for statistic in statistics:
        for scalar in statistic.inputs:
            if scalar.tree not in position:
                position[scalar.tree] = len(inputs)
                inputs.append(scalar)
        names.append([own(f"x{position[scalar.tree]}") for scalar in statistic.inputs])
    steps: dict[Node, Node] = {}
    for statistic, columns in zip(statistics, names, strict=True):
        columns += [steps.setdefault(tree, own(f"y{len(steps)}")) for tree in statistic.steps(columns)]
    return names, inputs


def worked_out(rows: Node, statistics: list[Statistic], names: list[list[Node]]) -> Node:
    """Rows with what the statistics work out once of each."""
    steps = dict.fromkeys(t for statistic, read in zip(statistics, names, strict=True) for t in statistic.steps(read))
    items = [Item(tree, Own(f"y{i}")) for i, tree in enumerate(steps)]
    return over(rows, "valued", [Star(), *items]) if steps else rows


def over(
    query: Node, alias: str, items: Sequence[Node], where: tuple[Node, ...] = (), group: tuple[Node, ...] = ()
) -> Select:
    """A SELECT over a query."""
    return Select(tuple(items), Derived(query, Own(alias)), where, group)


def per_row(release: Release, sums: list[tuple[Node, ...]], rows: Node) -> Node:
    """The sums of each group over its rows as they are."""
    keys = key_columns(release)
    items = [Item(_crossing(tree), Own(f"s{i}")) for i, tree in enumerate(tree for part in sums for tree in part)]
    having = only_declared(release.keys)
    return Select((*keys, *items), Derived(rows, Own("counted")), group=tuple(keys), having=having)


def _crossing(tree: Node) -> Node:
    return tree if isinstance(tree, Aggregate) and tree.name == "count" else as_text(tree)


def as_text(tree: Node) -> Node:
    """Sums cross as the digits of an integer: no driver's type holds HUGEINT exactly."""
    return Cast(Call("COALESCE", (tree, ZERO)), VARCHAR, tries=False)
