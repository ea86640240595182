"""evaluating: the blocks of a statement -> what each sample unit adds to what is released of them, and what every part decides.

An answer that adds up (COUNT, SUM, AVG) is, for each sample unit and group, the number that the unit adds to it: a COUNT and a SUM of
0 and 1 that add the same are the same question. Of any other aggregate it is a hash of the values that the unit has in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from types import MappingProxyType

import numpy as np

from dpsql.core.cancellation import ENDED
from dpsql.core.domains import hull
from dpsql.core.errors import Error
from dpsql.core.sqltypes import DOUBLE
from dpsql.expressions.scalar import Scalar
from dpsql.guard import thresholds
from dpsql.guard.adding import (
    Added,
    Scan,
    Variant,
    among,
    hash_of,
    is_met,
    plain,
    statistics_of,
    unit,
    valued,
)
from dpsql.guard.arrays import (
    Array,
    Numbers,
    Places,
    RowSums,
    added_by,
    counted,
    distinct,
    filled,
    hashed,
    in_proportion,
    numbered,
    places,
    smallest,
)
from dpsql.guard.cells import Cells, Keys, cells, keyed, of_kind
from dpsql.guard.columns import Constants, constants
from dpsql.guard.lists import Lists
from dpsql.guard.parts import MOST, Change, Part, Shares, boolean_parts, kept_by, number_parts, set_to
from dpsql.guard.units import SampleUnits
from dpsql.guard.void import COUNTED, Proofs
from dpsql.plan.resolved import Block, InputTable
from dpsql.plan.tables import PublicTable
from dpsql.sql.duckdb import printed, quoted
from dpsql.sql.nodes import Case, Cast, Column, Is, Node, Number, Own
from dpsql.sql.queries import Item, Join, Select, Table
from dpsql.sql.trees import rewritten, tables, walk

Found = dict[str, Array]
Decided = tuple[dict[Variant, int], Numbers]
"""By variant, of how many units the rows then add something else; and what each unit's rows add as they are."""
ALIKE = 1_000
"""Numbers are alike that differ by less than this part of the bounds of their noise."""
LOOKED_AT = 20_000
"""[sample units] that are looked at first, where there are more: of a difference that some of these make, all make no smaller one."""


@dataclass(frozen=True, slots=True)
class Evaluated:
    """A block on the sample units.

    whole     [sample units] with a row in it
    groups    [groups] with a row in it
    cells     of every released statistic; without those of small groups of a breakdown, but for an audit
    met       by FILTER condition how many [sample units] have a row that meets it, and
    smallest  the fewest of a group that has any
    valued    by aggregate [sample units] whose value is not NULL; of those, whose value adds something; the fewest of these in a group
              that has any
    """

    block: Block
    whole: int
    groups: int
    cells: Cells
    met: dict[Node | None, int]
    smallest: dict[Node | None, int]
    valued: dict[str, tuple[int, int, int]]


@dataclass(frozen=True, slots=True)
class Grouped:
    """The rows of a block, for each unit in each group, in the order of groups and then of units.

    units   the sample unit, and
    groups  the group: -1 where the rows are in none
    sums    of what rows add
    hashes  of what the rows add, with each variant
    """

    units: Places
    groups: Places
    sums: dict[Added, Numbers]
    hashes: Sequence[Numbers]


class Evaluating:
    """Evaluates the blocks of one statement, in order, each with the tables of released values that it reads.

    released  those that were released, by their names: the others hold what the sample units would release
    """

    def __init__(
        self,
        sample: SampleUnits,
        blocks: Sequence[Block],
        bounds: Sequence[InputTable],
        released: Mapping[str, PublicTable] = MappingProxyType({}),
    ) -> None:
        self._sample, self._given = sample, released
        self._bounds = {bound.name: bound for bound in bounds}
        self._blocks = {block.name: block for block in blocks}
        self.lists = Lists(blocks, bounds)
        self._first = LOOKED_AT if sample.units > LOOKED_AT else None
        self._constants: Constants = constants(e for block in blocks for e in block.expressions)
        self._kept: set[str] = set()
        self._counted: dict[str, int] = {}
        self._decided: dict[str, tuple[Block, Decided]] = {}

    def is_nullable(self, column: Scalar) -> bool:
        return self._sample.is_nullable(column.origin)

    def is_cut(self, part: Scalar) -> bool:
        """True if a part reads nothing but released values that cut people into parts of equal size.

        Why  the sample units may have nobody between two of these. What else stands in the part, `NTILE(2) OVER (...) * 0 + x <> 5`, is
             judged by the values that they would release themselves
        """
        return bool(self._given) and self.lists.is_cut(part)

    # --- what is found ------------------------------------------------------------------------------------------------

    def block(self, block: Block) -> Evaluated:
        """Evaluate the releases of a block, and what its boolean parts outside of FROM decide, in one scan."""
        apart = thresholds.fine(block, self.lists)
        told = [(one, apart[a.name]) for a in block.aggregates for one in statistics_of(a)]
        values = dict.fromkeys(one for one, _ in told)
        filters = dict.fromkeys(a.condition.tree if a.condition is not None else None for a in block.aggregates)
        conditions = {condition: Added(is_met(condition)) for condition in filters}
        compared = {a.name: valued(a) for a in block.aggregates if a.argument is not None}
        asked = dict.fromkeys([*conditions.values(), *(one for two in compared.values() for one in two)])
        variants = [] if self._first else _outside(block, [(p, v) for p in boolean_parts(block) for v in (True, False)])
        every = self._grouped(block, list(dict.fromkeys([*(added for _, added in values), *asked])), variants)
        self._decided[block.name] = block, _decided(every, variants)
        begun = np.count_nonzero(every.groups < 0)
        units, groups = every.units[begun:], every.groups[begun:]
        # what adds the same to all is one array, and its keys are made once
        arrays = {id(found): found[begun:] for found in every.sums.values()}
        sums = {added: arrays[id(found)] for added, found in every.sums.items()}
        starts = np.flatnonzero(np.diff(groups, prepend=-1))
        whole, count = distinct(units), len(starts)
        fewest = self._sample.fewest if count > 1 else 0
        different = {id(sums[added]): sums[added] for _, added in values}
        cut = {place: _every_keys(units, starts, adds, fewest) for place, adds in different.items()}
        keys = {one: of_kind(one[0], *cut[id(sums[one[1]])]) for one in values}
        met = {added: sums[added] > 0 for added in asked}
        people = {added: whole if found.all() else distinct(units[found]) for added, found in met.items()}
        least = {added: smallest(starts, found) for added, found in met.items()}
        return Evaluated(
            block,
            whole,
            count,
            cells(
                [cell for one, _ in told for cell in keys[one]],
                [its for one, its in told for _ in keys[one]],
            ),
            {condition: people[added] for condition, added in conditions.items()},
            {condition: least[added] for condition, added in conditions.items()},
            {name: (people[one], people[other], least[other]) for name, (one, other) in compared.items()},
        )

    def changes(self, block: Block, parts: Sequence[Part]) -> list[Change]:
        """Changes by boolean parts at the first look: of no more units than they do, so that those of many are
        known."""
        return self._changes(block, [(part, value) for part in parts for value in (True, False)], self._first)

    def exactly(self, block: Block, changes: Sequence[Change]) -> list[Change]:
        """The same of all units."""
        if not self._first or not changes:
            return list(changes)
        return self._changes(block, [(change.part, change.value) for change in changes], None)

    def _changes(self, block: Block, variants: Sequence[Variant], first: int | None) -> list[Change]:
        """Changes by variants: those beside the rows in one scan, those inside of FROM one by one."""
        known, decided = self._decided.get(block.name, (None, None))
        if self._first or known is not block or decided is None:
            outside = _outside(block, variants)
            decided = _decided(self._grouped(block, [], outside or [None], first), outside)
        result, whole = decided
        for variant in variants:
            if variant not in result:
                source = set_to(block.source.read(), *variant)
                result[variant] = _differing(whole, self._grouped(block, [], [variant], first, source))
        return [Change(*variant, result[variant]) for variant in variants]

    def unmatched(self, block: Block, join: Join) -> int:
        """[sample units] that a join leaves rows out of."""
        kept = rewritten(block.source.read(), {join: replace(join, kind="LEFT")})
        _, whole = _decided(self._grouped(block, [], [None]), [None])
        return _differing(whole, self._grouped(block, [], [None], None, kept))

    def fewest(self, block: Block, key: Scalar) -> int:
        """The fewest [sample units] in a group by a column of a table that the statement wrote down; 0 where nobody has one of its
        values."""
        assert isinstance(key.tree, Column)
        known = Case(((Is(key.tree, "NOT NULL"), hash_of([key.tree])),), None)
        units, found = self._run(Select((unit(block), Item(known, Own("k"))), block.source.read(), kept_by(block)))
        groups, sizes = np.unique(RowSums.of(units, numbered(found["k"])).groups, return_counts=True)
        named = {t.alias or t.name: t.name for t in walk(block.source.read()) if isinstance(t, Table)}
        listed = f"SELECT count(DISTINCT {quoted(key.tree.name)}) AS n FROM {quoted(named[key.tree.relation])}"
        values = int(self._sample.ask(listed, {}, ())["n"][0])
        return int(sizes.min()) if np.count_nonzero(groups >= 0) == values else 0

    def proofs(self, block: Block) -> Proofs:
        return Proofs(block, self._counts)

    def is_void_in_public(self, block: Block, change: Change) -> bool:
        """True if the rows of public tables tell that a part makes no difference to anybody, whatever rows people have."""
        return self.proofs(block).is_void_in_public(change.part, change.value, self._sample.public)

    def _counts(self, query: Select) -> int:
        """A number of rows that differ; where the engine cannot tell, they do."""
        text = printed(query)
        if text not in self._counted:
            try:
                self._counted[text] = int(self._sample.ask(text, {}, ())[COUNTED][0])
            except Error as problem:
                if problem.code in ENDED:
                    raise
                self._counted[text] = 1
        return self._counted[text]

    def shares(self, block: Block) -> list[Shares]:
        """For every number part, how many have another value than most; at the first look, where that is enough for all of them."""
        parts = number_parts(block)
        if not parts:
            return []
        found = self._shares(block, parts, self._first, kept_by(block))
        if self._first and any(min(one.other, one.most) < self._sample.enough for one in found):
            return self._shares(block, parts, None, kept_by(block))
        return found

    def met(self, block: Block, conditions: Sequence[tuple[Part, Node]]) -> list[tuple[Part, int]]:
        """The number of [sample units] with a row that meets a condition, whoever is kept, for each part."""
        if not conditions:
            return []
        items = (Item(Case(((met, Number(1)),), Number(0)), Own(f"n{i}")) for i, (_, met) in enumerate(conditions))
        units, found = self._run(Select((unit(block), *items), block.source.read()))
        return [(part, distinct(units[filled(found[f"n{i}"]) > 0])) for i, (part, _) in enumerate(conditions)]

    def share_of_everybody(self, block: Block, part: Part) -> Shares:
        """The same for one part, whoever is kept."""
        return self._shares(block, [part], None, ())[0]

    def _shares(self, block: Block, parts: Sequence[Part], first: int | None, where: Sequence[Node]) -> list[Shares]:
        items = tuple(Item(Cast(p.tree, DOUBLE), Own(f"p{i}")) for i, p in enumerate(parts))
        query = Select((unit(block), *items), block.source.read(), (*where, *among(first, unit(block).inner)))
        units, found = self._run(query)
        result = []
        for i, part in enumerate(parts):
            span, values = hull(part.scalar.domain), filled(found[f"p{i}"], np.nan)
            if span is not None and span.lower < span.upper:
                values = np.round(values / float((span.upper - span.lower) / ALIKE))
            # who has no value is for `lost` to tell
            told = ~np.isnan(values)
            _, place, often = np.unique(values[told], return_inverse=True, return_counts=True)
            most, of = place == (int(often.argmax()) if len(often) else 0), units[told]
            result.append(Shares(part, distinct(of[~most]), distinct(units), distinct(of[most])))
        return result

    # --- queries ------------------------------------------------------------------------------------------------------

    def _grouped(
        self,
        block: Block,
        values: Sequence[Added],
        variants: Sequence[Variant | None],
        first: int | None = None,
        source: Node | None = None,
    ) -> Grouped:
        """Sums of the contributions of rows, for each unit in each group; with another FROM."""
        trees = {added.tree: f"v{i}" for i, added in enumerate(values)}
        units, found = self._run(Scan(block, source, first).query(trees, variants))
        columns = {tree: found.get(name) for tree, name in trees.items()}
        hashes = [hashed(found[f"h{i}"]) for i in range(len(variants))]
        groups = numbered(found["k"]) if "k" in found else None
        rows = RowSums.of(units, groups)
        adds = {added: added_by(added.of, columns[added.tree]) for added in values}
        ones = rows.added(None)
        sums = {added: ones if found is None else rows.added(found) for added, found in adds.items()}
        return Grouped(rows.units, rows.groups, sums, [rows.added(one) for one in hashes])

    def _run(self, query: Node) -> tuple[Places, Found]:
        """The sample units of a query's rows, and its columns."""
        read = sorted(tables(query))
        for name in read:
            self._keep(name)
        found = self._sample.ask(printed(query), self._constants, read)
        return places(found["u"]), found

    def _keep(self, name: str) -> None:
        """Keep the table of released values of that name, if it is one, as the sample units would have it."""
        if name in self._kept or (name not in self._bounds and name not in self._blocks):
            return
        self._kept.add(name)
        if name in self._given:
            self._sample.hold(self._given[name])
            return
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
        met = [is_met(a.condition.tree if a.condition is not None else None) for a in block.aggregates]
        items = [Item(t, Own(f"v{i}")) for i, t in enumerate(values)] + [
            Item(t, Own(f"c{i}")) for i, t in enumerate(met)
        ]
        query = Select((unit(block), *keys, *items), block.source.read(), kept_by(block))
        for read in sorted(tables(query)):
            self._keep(read)
        shown = [f"k{i} AS {quoted(key.name)}" for i, key in enumerate(block.keys)]
        shown += [f"{plain(a, i, self._sample.scale)} AS {quoted(a.name)}" for i, a in enumerate(block.aggregates)]
        grouped = f" GROUP BY {', '.join(f'k{i}' for i in range(len(keys)))}" if keys else ""
        text = f"SELECT {', '.join(shown)} FROM ({printed(query)}) AS r{grouped}"
        self._sample.keep(block.name, text, self._constants, sorted(tables(query)))


def _decided(found: Grouped, variants: Sequence[Variant | None]) -> Decided:
    size = int(found.units.max(initial=-1)) + 1
    adds = [_added(found.units, hashes, size) for hashes in found.hashes]
    whole = adds[0] if adds else np.zeros(size)
    changed = {v: int((a != whole).sum()) for v, a in zip(variants, adds, strict=True) if v is not None}
    return changed, whole


def _added(units: Places, adds: Numbers, size: int) -> Numbers:
    return np.asarray(np.bincount(units, adds, size), dtype=np.float64)


def _outside(block: Block, variants: Sequence[Variant]) -> list[Variant | None]:
    """The block as it is, and the settings of parts that do not stand in FROM; nothing where there are none, or too many to judge."""
    if not 0 < len(variants) <= 2 * MOST:
        return []
    source = block.source.read()
    return [None, *(variant for variant in variants if set_to(source, *variant) == source)]


def _every_keys(units: Places, starts: Places, adds: Numbers, fewest: float) -> tuple[list[Keys], ...]:
    """One statistic cut into its groups: as it is, the number of those who add, where all add the same, and else in proportion."""
    return tuple(_grouped_keys(units, starts, some, fewest) for some in (adds, *in_proportion(starts, adds)))


def _grouped_keys(units: Places, starts: Places, adds: Numbers, fewest: float) -> list[Keys]:
    """One statistic of rows in order, cut into its groups, without those of fewer sample units."""
    kept = (adds != 0) & ~np.isnan(adds)
    often = counted(starts, kept)
    if fewest > 1 and (often < fewest).any():
        kept &= np.repeat(often >= fewest, np.diff(starts, append=len(units)))
        often = often[often >= fewest]
    found = keyed(units, adds) if kept.all() else keyed(units[kept], adds[kept])
    ends = np.cumsum(often[often > 0]).tolist()
    return [found[begun:end] for begun, end in pairwise([0, *ends])]


def _differing(whole: Numbers, other: Grouped) -> int:
    """[sample units] whose rows add something else than they do as they are."""
    adds = _added(other.units, other.hashes[0], len(whole))
    return int((adds != np.pad(whole, (0, len(adds) - len(whole)))).sum())
