"""The rows under a release: group keys in the form in which they cross, and the values that its statistics read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import count

from dpsql.aggregates.base import Statistic
from dpsql.core.domains import Categories, Value, in_a_row, integers
from dpsql.core.sqltypes import BIGINT, BOOLEAN, DOUBLE, VARCHAR
from dpsql.expressions.scalar import Scalar, one_form
from dpsql.plan.releases import Release
from dpsql.plan.resolved import GroupKey, KeyList
from dpsql.plan.tables import KeyValue
from dpsql.planner.limit import travels_as_text
from dpsql.schema.model import RESERVED
from dpsql.sql.nodes import (
    Aggregate,
    Bare,
    Between,
    Binary,
    Call,
    Case,
    Cast,
    Chain,
    Column,
    Exists,
    In,
    Is,
    Literal,
    Node,
    Number,
    Own,
    Star,
    own,
)
from dpsql.sql.queries import Derived, Item, Select, Table


def key_columns(release: Release) -> list[Node]:
    """The columns of the keys."""
    return [own(key.name) for key in release.keys]


def travelling(key: GroupKey) -> Node:
    """A key in the form in which it travels; fractions of either size as the shortest digits of a DOUBLE."""
    scalar = key.scalar
    if travels_as_text(scalar, key.values is not None):
        whole = one_form(scalar).tree
        text = Cast(Cast(whole, DOUBLE) if scalar.sqltype.is_float else whole, VARCHAR, tries=False)
        return text if key.selected is None else _level(text, key.selected, is_text=True)
    tree = Cast(scalar.tree, BIGINT) if scalar.integral and not scalar.sqltype.is_boolean else scalar.tree
    return tree if key.selected is None else _level(tree, key.selected, is_text=not scalar.integral)


def _level(key: Node, selected: tuple[KeyValue, ...], *, is_text: bool) -> Node:
    """A key that is one of the selected values, else one value that is not.

    Why  so that as many groups leave the engine as levels are told apart, however many values there are
    """
    known = frozenset(selected)
    others = (f"{RESERVED}others{i}" if is_text else i for i in count())
    rest = next(value for value in others if value not in known)
    return Bare(Case(((_among(key, selected), key),), _wire(rest)))


def declared(key: GroupKey) -> Node:
    """The condition that a row's key is on the declared list."""
    scalar = key.scalar
    listed = integers(scalar.domain) if scalar.integral or scalar.sqltype.name == "DATE" else scalar.domain
    assert isinstance(listed, Categories)
    inside = _inside(scalar, listed.values)
    return Chain("OR", (inside, Bare(Is(scalar.tree, "NULL")))) if scalar.nullable else inside


def _inside(scalar: Scalar, values: tuple[Value, ...]) -> Node:
    # Only where nothing lies between the values: 1.5 is not on the list 1, 2, 3.
    whole = len(values) > 2 and (scalar.integral or scalar.sqltype.name == "DATE")
    row = in_a_row(values) if whole else None
    if row is not None:
        return Between(scalar.tree, *(Literal(v, scalar.sqltype) for v in row))
    return In(scalar.tree, tuple(Literal(v, scalar.sqltype) for v in values)) if values else Literal(False, BOOLEAN)


def only_declared(keys: tuple[GroupKey, ...]) -> Node | None:
    """Leave out the groups whose key is not declared, of everybody's sums or of each unit's: all rows of a group have its key.

    Why  a condition on rows costs more than the sums, and makes DuckDB expect so few of them that it joins the wrong way round.
         As it stands DuckDB cannot move this one below GROUP BY; it is always the condition itself, because every group has a row
    """
    conditions = tuple(_among(own(key.name), key.values) for key in keys if key.values is not None)
    there = Bare(Binary(">", Aggregate("count", (Star(),)), Number(0)))
    return Bare(Case(((there, Bare(Chain("AND", conditions))),))) if conditions else None


def _among(key: Node, values: tuple[KeyValue, ...]) -> Node:
    """The condition that a key, in the form in which it travels, is one of some values."""
    listed = [v for v in values if v is not None] if None in values else values
    inside: Node = Literal(False, BOOLEAN)
    row = in_a_row(listed) if len(listed) > 2 else None
    if row is not None:
        inside = Bare(Between(key, *map(_wire, row)))
    elif listed:
        inside = Bare(In(key, tuple(map(_wire, listed))))
    return Chain("OR", (inside, Bare(Is(key, "NULL"))) if None in values else (inside,))


def travels_whole(key: GroupKey) -> bool:
    """True if different values stay different on their way: what no BIGINT holds would travel as NULL."""
    held = key.scalar.sqltype.range if key.scalar.sqltype.is_integer else None
    small = held is not None and held.lower >= -(2**63) and held.upper < 2**63
    return small or not key.scalar.integral or key.scalar.sqltype.is_boolean


@lru_cache(maxsize=8192, typed=True)
def _wire(value: int | str | bool) -> Node:
    return Literal(value, BOOLEAN if isinstance(value, bool) else VARCHAR if isinstance(value, str) else BIGINT)


_LISTED = f"{RESERVED}list"
"""A key list inside the condition that looks a row's keys up in it: no column of a statement can be of a table of that name."""
UNIT, ROW_VALUE, ONE, ZERO = own("u"), own("v"), Number(1), Number(0)


def rows_of(release: Release, inputs: list[Scalar], *, unit: bool | None = None, more: tuple[Node, ...] = ()) -> Node:
    """The rows that count, with the unit, the keys and the inputs as columns.

    unit  whether the unit is a column; by default where the limits are enforced, and then rows whose key is not declared are left
          out here. Without it, rows that belong to nobody are kept out by the data's own structure: only for verified data
    more  further columns
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
    columns += more
    return Select(tuple(columns) or (Item(ONE, Own("one")),), source, tuple(conditions))


def own_names(release: Release, inputs: list[Scalar]) -> list[Node]:
    """The names of the keys and inputs among these columns."""
    return [*(own(key.name) for key in release.keys), *(own(f"x{i}") for i in range(len(inputs)))]


def _on_list(release: Release, listed: KeyList) -> Node:
    """The condition that a row's keys are on an input table's list."""
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
    known: dict[Node, Node] = {}
    for statistic, columns in zip(statistics, names, strict=True):
        for trees in _levels(statistic, columns):
            columns += [known.setdefault(tree, own(f"y{len(known)}")) for tree in trees]
    return names, inputs


def _levels(statistic: Statistic, columns: list[Node]) -> Iterator[tuple[Node, ...]]:
    """Columns that a statistic works out of each row, step by step: each may read the columns of those before."""
    yield statistic.steps(columns)
    for level in count():
        trees = statistic.later(columns, level)
        if not trees:
            return
        yield trees


def worked_out(rows: Node, statistics: list[Statistic], names: list[list[Node]]) -> Node:
    """Rows with what the statistics work out once of each."""
    every: list[dict[Node, Node]] = []
    for statistic, columns in zip(statistics, names, strict=True):
        read = columns[: len(statistic.inputs)]
        for level, trees in enumerate(_levels(statistic, read)):
            own_names = columns[len(read) : len(read) + len(trees)]
            every += [{}] * (level == len(every))
            every[level] = every[level] | dict(zip(trees, own_names, strict=True))
            read += own_names
    for trees_of in every:
        items = [Item(tree, Own(name.name)) for tree, name in trees_of.items() if isinstance(name, Column)]
        rows = over(rows, "valued", [Star(), *items]) if items else rows
    return rows


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
