"""evaluating: the blocks of a statement -> what each sample unit adds to what is released of them, and what every part decides.

An answer that adds up (COUNT, SUM, AVG) is, for each sample unit and group, the number that the unit adds to it: a COUNT and a SUM of
0 and 1 that add the same are the same question. Of any other aggregate it is a hash of the values that the unit has in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpsql.core.errors import Error
from dpsql.core.sqltypes import DOUBLE
from dpsql.guard.cells import Cells, Keys, cells, keyed
from dpsql.guard.columns import Constants, constants
from dpsql.guard.parts import Part, number_parts, set_to
from dpsql.guard.units import ROW_NUMBER, SampleUnits
from dpsql.plan.resolved import Aggregate, Block, Bound
from dpsql.schema.model import Table as Declared
from dpsql.sql.duckdb import printed, quoted
from dpsql.sql.nodes import Bare, Binary, Call, Case, Cast, Column, Is, Node, Number, Own
from dpsql.sql.queries import Item, Join, Select, Table
from dpsql.sql.trees import tables

Array = npt.NDArray[np.generic]
Found = dict[str, Array]
Numbers = npt.NDArray[np.float64]
Places = npt.NDArray[np.int64]

_MOMENTS = frozenset({"avg", "var_pop", "var_samp", "stddev_pop", "stddev_samp"})
_PLAIN = {"quantile": "quantile_cont", "top": "mode", "auto_sum": "sum"}
_COUNTED = frozenset({"rows", "count", "units", "distinct", "sum", "auto_sum"})


@dataclass(frozen=True, slots=True)
class Change:
    """How many sample units a part decides about.

    value  what it was set to
    units  [sample units] whose rows then differ
    """

    part: Part
    value: bool
    units: int


@dataclass(frozen=True, slots=True)
class Shares:
    """A number part.

    other  [sample units] with another value than most rows
    units  [sample units] with a row
    """

    part: Part
    other: int
    units: int


@dataclass(frozen=True, slots=True)
class Evaluated:
    """A block on the sample units.

    whole     [sample units] with a row in it
    groups    [groups] with a row in it
    cells     of every released statistic
    met       by FILTER condition how many [sample units] have a row that meets it, and
    smallest  the fewest of a group that has any
    valued    by aggregate [sample units] whose value is not NULL; of those, whose value is not 0
    """

    block: Block
    whole: int
    groups: int
    cells: Cells
    met: dict[Node | None, int]
    smallest: dict[Node | None, int]
    valued: dict[str, tuple[int, int]]


class Evaluating:
    """Evaluates the blocks of one statement, in order, each with the tables of released values that it reads."""

    def __init__(self, sample: SampleUnits, blocks: Sequence[Block], bounds: Sequence[Bound]) -> None:
        self._sample = sample
        self._bounds = {bound.name: bound for bound in bounds}
        self._blocks = {block.name: block for block in blocks}
        self._constants: Constants = constants(e for block in blocks for e in block.expressions)
        self._kept: set[str] = set()

    # --- what is found ------------------------------------------------------------------------------------------------

    def block(self, block: Block) -> Evaluated:
        """What is released of a block."""
        values = [(kind, tree) for a in block.aggregates for kind, tree in _values(a)]
        conditions = list(
            dict.fromkeys(a.condition.tree if a.condition is not None else None for a in block.aggregates)
        )
        items = [tree for _, tree in values] + [_is_met(c) for c in conditions]
        compared = [a for a in block.aggregates if a.argument is not None]
        items += [tree for a in compared for tree in _valued(a)]
        found = self._grouped(block, items)
        units, groups = found["u"].astype(np.int64), _numbered(found["k"])
        statistics: list[tuple[str, Keys]] = []
        for i, (kind, _) in enumerate(values):
            statistics += _grouped_keys(kind, units, groups, _filled(found[f"s{i}"]))
        at = len(values)
        met = {c: _people(units, _filled(found[f"s{at + i}"])) for i, c in enumerate(conditions)}
        smallest = {c: _smallest(groups, _filled(found[f"s{at + i}"])) for i, c in enumerate(conditions)}
        at += len(conditions)
        valued = {
            a.name: tuple(_people(units, _filled(found[f"s{at + 2 * i + j}"])) for j in (0, 1))
            for i, a in enumerate(compared)
        }
        count = int(groups.max()) + 1 if len(groups) else 0
        return Evaluated(block, len(np.unique(units)), count, cells(statistics), met, smallest, valued)  # type: ignore[arg-type]

    def changes(self, block: Block, parts: Sequence[Part]) -> list[Change]:
        """What boolean parts decide: those beside the rows in one scan, those inside of FROM one by one."""
        variants = [(part, value) for part in parts for value in (True, False)]
        source = block.source.read()
        outside = [v for v in variants if set_to(source, *v) == source]
        inside = [v for v in variants if v not in outside]
        found = self._ask(block, _variants(block, [None, *outside]), source)
        units = found["u"].astype(np.int64)
        whole = _filled(found["s0"])
        result = {v: int((_filled(found[f"s{i}"]) != whole).sum()) for i, v in enumerate(outside, start=1)}
        size = int(units.max(initial=-1)) + 1
        for variant in inside:
            other = self._ask(block, _variants(block, [variant], inside=True), set_to(source, *variant))
            result[variant] = _differing(units, whole, other["u"].astype(np.int64), _filled(other["s0"]), size)
        return [Change(part, value, result[part, value]) for part, value in variants]

    def shares(self, block: Block) -> list[Shares]:
        """For every number part, how many have another value than most."""
        parts = number_parts(block)
        if not parts:
            return []
        items = tuple(Item(Cast(p.tree, DOUBLE), Own(f"p{i}")) for i, p in enumerate(parts))
        query = Select((_unit(block), *items), block.source.read(), _where(block))
        found = self._run(block, printed(query), query)
        result = []
        for i, part in enumerate(parts):
            _, place, often = np.unique(_filled(found[f"p{i}"], np.nan), return_inverse=True, return_counts=True)
            other = place != (int(often.argmax()) if len(often) else 0)
            result.append(Shares(part, len(np.unique(found["u"][other])), len(np.unique(found["u"]))))
        return result

    # --- queries ------------------------------------------------------------------------------------------------------

    def _grouped(self, block: Block, values: Sequence[Node]) -> Found:
        """For each unit and group, the sums of the values."""
        keys = [Item(key.scalar.tree, Own(f"k{i}")) for i, key in enumerate(block.keys)]
        items = [Item(tree, Own(f"v{i}")) for i, tree in enumerate(values)]
        query = Select((_unit(block), *keys, *items), block.source.read(), _where(block))
        sums = "".join(f", sum(v{i})::DOUBLE AS s{i}" for i in range(len(values)))
        names = ", ".join(f"k{i}" for i in range(len(block.keys)))
        key = f"hash({names})" if names else "0"
        text = f"SELECT u, {key} AS k{sums} FROM ({printed(query)}) AS r WHERE u IS NOT NULL GROUP BY ALL ORDER BY ALL"
        return self._run(block, text, query)

    def _ask(self, block: Block, variants: Select, source: Node) -> Found:
        query = Select(variants.items, source, variants.where)
        sums = ", ".join(f"sum(h{i})::DOUBLE AS s{i}" for i in range(len(variants.items) - 1))
        return self._run(block, f"SELECT u, {sums} FROM ({printed(query)}) AS r WHERE u IS NOT NULL GROUP BY u", query)

    def _run(self, block: Block, text: str, query: Node) -> Found:
        read = tables(query)
        for name in sorted(read):
            self._keep(name)
        found = self._sample.ask(text, self._constants, sorted(read))
        return {**found, "u": _places(found["u"])}

    def _keep(self, name: str) -> None:
        """Keep the table of released values of that name, if it is one, as the sample units would have it."""
        if name in self._kept or (name not in self._bounds and name not in self._blocks):
            return
        self._kept.add(name)
        if name in self._blocks:
            self._released(self._blocks[name])
            return
        bound = self._bounds[name]
        for read in bound.reads:
            self._keep(read)
        columns = [column for column, _ in bound.columns]
        try:
            self._sample.keep(name, f"SELECT {', '.join(map(quoted, columns))} FROM ({bound.sql}\n) AS t", {}, ())
        except Error:
            # it reads what only a release has, such as an interval: nobody is in its list
            empty = ", ".join(f"CAST(NULL AS {sqltype}) AS {quoted(column)}" for column, sqltype in bound.columns)
            self._sample.keep(name, f"SELECT {empty} LIMIT 0", {}, ())

    def _released(self, block: Block) -> None:
        keys = [Item(key.scalar.tree, Own(f"k{i}")) for i, key in enumerate(block.keys)]
        values = [a.argument.tree if a.argument is not None else Number(1) for a in block.aggregates]
        met = [_is_met(a.condition.tree if a.condition is not None else None) for a in block.aggregates]
        items = [Item(t, Own(f"v{i}")) for i, t in enumerate(values)] + [
            Item(t, Own(f"c{i}")) for i, t in enumerate(met)
        ]
        query = Select((_unit(block), *keys, *items), block.source.read(), _where(block))
        for read in sorted(tables(query)):
            self._keep(read)
        shown = [f"k{i} AS {quoted(key.name)}" for i, key in enumerate(block.keys)]
        shown += [f"{_plain(a, i, self._sample.scale)} AS {quoted(a.name)}" for i, a in enumerate(block.aggregates)]
        grouped = f" GROUP BY {', '.join(f'k{i}' for i in range(len(keys)))}" if keys else ""
        text = f"SELECT {', '.join(shown)} FROM ({printed(query)}) AS r{grouped}"
        self._sample.keep(block.name, text, self._constants, sorted(tables(query)))


def _variants(block: Block, variants: Sequence[tuple[Part, bool] | None], inside: bool = False) -> Select:
    """For each variant of a block the hashes of what its rows add; FROM is left out."""
    values = [tree for a in block.aggregates for _, tree in _values(a)]
    items: list[Node] = [_unit(block)]
    for i, variant in enumerate(variants):
        trees: list[Node] = [*(key.scalar.tree for key in block.keys), *values]
        where = list(_where(block))
        if variant is not None:
            trees, where = [set_to(t, *variant) for t in trees], [set_to(t, *variant) for t in where]
        hashed: Node = Call("hash", (Number(1), *trees))
        items.append(Item(Case(((_all(where), hashed),), None) if where else hashed, Own(f"h{i}")))
    return Select(tuple(items), None, ())


def _all(conditions: Sequence[Node]) -> Node:
    found = conditions[0]
    for condition in conditions[1:]:
        found = Binary("AND", found, condition)
    return found


def _where(block: Block) -> tuple[Node, ...]:
    return tuple(c.tree for c in block.source.where)


def _unit(block: Block) -> Node:
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


def _values(aggregate: Aggregate) -> list[tuple[str, Node]]:
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


def _valued(aggregate: Aggregate) -> tuple[Node, Node]:
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


def _is_met(condition: Node | None) -> Node:
    return Number(1) if condition is None else Case(((condition, Number(1)),), Number(0))


def _plain(aggregate: Aggregate, i: int, scale: float) -> str:
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


def _grouped_keys(kind: str, units: Places, groups: Places, adds: Numbers) -> list[tuple[str, Keys]]:
    """One statistic, cut into its groups."""
    kept = (adds != 0) & ~np.isnan(adds)
    units, groups, adds = units[kept], groups[kept], adds[kept]
    if not len(units):
        return []
    order = np.lexsort((units, groups))
    keys, groups = keyed(units, adds)[order], groups[order]
    starts = np.flatnonzero(np.r_[True, groups[1:] != groups[:-1]])
    return [(kind, part) for part in np.split(keys, starts[1:])]


def _smallest(groups: Places, met: Numbers) -> int:
    """The fewest units of a group that has any; each unit has one row for each of its groups."""
    often = np.bincount(groups[met > 0]) if len(groups) else np.zeros(0, dtype=np.int64)
    return int(often[often > 0].min()) if (often > 0).any() else 0


def _people(units: Places, met: Numbers) -> int:
    return len(np.unique(units[met > 0]))


def _differing(units: Places, one: Numbers, others: Places, other: Numbers, size: int) -> int:
    size = max(size, int(others.max(initial=-1)) + 1)
    a, b = np.zeros(size), np.zeros(size)
    a[units], b[others] = one, other
    return int((a != b).sum())


def _places(found: Array) -> Places:
    """Sample units from 0; their stored numbers begin at 1, and may be text."""
    return np.ma.filled(np.ma.asarray(found), 1).astype(np.float64).astype(np.int64) - 1


def _numbered(keys: Array) -> Places:
    return np.unique(np.ma.filled(keys, 0), return_inverse=True)[1].astype(np.int64).reshape(-1)


def _filled(found: Array, missing: float = 0.0) -> Numbers:
    return np.ma.filled(np.ma.asarray(found).astype(np.float64), missing)
