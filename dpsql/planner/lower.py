"""lower: Release -> CompiledRelease. The engine SQL, printed by us from scalars that cannot fail.

Where one unit has one row (row level, or verified keys) the rows of a group are summed as they are; nothing is cut, so groups whose
key is not declared may be left out after the sums. Otherwise the sums are made per (unit, group) first, and there every unit is cut to
its limits:

    1. rows: WHERE, rows without a unit left out, rows whose key is not declared left out - all before anything is cut (rule 13);
    2. sums of each (unit, group), a function of that unit's own rows;
    3. a unit's groups in the order of a keyed hash of (unit, key), then of the key: `turn` numbers them, and only the first
       `groups` stay. The order reads nothing of other units;
    4. per statistic, `before` rows were already used in earlier groups, so this group keeps cut = clamp(rows - before, 0, its rows);
       over all groups of a unit the cuts add up to at most `rows`;
    5. the statistic's sums are scaled and clamped to `cut` rows, then added up over units.

One unit, added or removed, changes step 5's addends of its own (unit, group) pairs and nothing else.

Where different values are counted, steps 2 to 4 say how many values each unit may take in each group, and the release stage sees who
takes which (aggregates/distinct_values.py).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from dpsql.aggregates.avg import Pair
from dpsql.aggregates.base import CUT, ROWS, Limits, Matching, Statistic, UnitSums
from dpsql.aggregates.count import Rows
from dpsql.aggregates.count_distinct import Units
from dpsql.aggregates.sum import Total
from dpsql.aggregates.tally import Tally
from dpsql.core.domains import Categories, Value, integers
from dpsql.core.sqltypes import BIGINT, BOOLEAN, VARCHAR
from dpsql.expressions.arithmetic import narrow
from dpsql.expressions.scalar import Scalar
from dpsql.plan.compiled import CompiledMatching, CompiledRelease, CompiledTally, Verified
from dpsql.plan.releases import Release
from dpsql.plan.resolved import Bound, GroupKey, KeyList
from dpsql.plan.tables import KeyValue
from dpsql.planner.limit import travels_as_text
from dpsql.schema.facts import bounds_fact
from dpsql.schema.model import RESERVED
from dpsql.sql.duckdb import printed
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
    Common,
    Derived,
    Exists,
    Frame,
    In,
    Is,
    Item,
    Join,
    Literal,
    Node,
    Number,
    Over,
    Own,
    Parameter,
    Select,
    Spread,
    Star,
    Table,
    UnionAll,
    With,
    own,
)
from dpsql.sql.trees import rewritten, tables

SECRET = Parameter("cut")
"""What the secret is bound to: it is in no text (rule 49)."""
_ADDED_UP = (Rows, Units, Total, Pair)
"""Statistics whose sums over units are those over rows where nothing is cut; of any other that is not known."""
_LISTED = f"{RESERVED}list"
"""A key list inside the condition that looks a row's keys up in it: no column of a statement can be of a table of that name."""
UNIT, ROW_VALUE, ONE, ZERO = own("u"), own("v"), Number(1), Number(0)


def lower(release: Release, bounds: Sequence[Bound] = ()) -> CompiledRelease:
    """The SQL of one release: group keys first, then the exact sums of its measures in order."""
    matchings = _matchings(release)
    matched = {matching.measure for matching in matchings}
    statistics = [m.statistic for i, m in enumerate(release.measures) if i not in matched]
    names, inputs = _inputs(statistics)
    rows = _worked_out(_rows(release, inputs), statistics, names)
    if not statistics:
        sql = ""
    elif release.limited.enforced:
        sql = printed(_per_unit(release, statistics, names, rows))
    else:
        sql = printed(_per_row(release, [s.row_sums(n) for s, n in zip(statistics, names, strict=True)], rows))
    tallies = tuple(
        _tally(release, tally) for tally in {c.tallied.tally.identity: c.tallied.tally for c in release.chosen}.values()
    )
    short = verified(release, statistics, names, inputs) if statistics else ()
    return CompiledRelease(release, sql, _bounds(release, bounds), short, tallies, matchings)


def _bounds(release: Release, bounds: Sequence[Bound]) -> tuple[str, ...]:
    """The bound tables that a release reads."""
    measured = [scalar for measure in release.measures for scalar in measure.statistic.inputs]
    counted = [scalar for chosen in release.chosen for scalar in chosen.tallied.tally.inputs]
    read = tables(_rows(release, [*measured, *counted])) if bounds else frozenset()
    return tuple(bound.name for bound in bounds if bound.name in read)


def _inputs(statistics: list[Statistic]) -> tuple[list[list[Node]], list[Scalar]]:
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


def _worked_out(rows: Node, statistics: list[Statistic], names: list[list[Node]]) -> Node:
    """Rows with what the statistics work out once of each."""
    steps = {
        tree: None for statistic, columns in zip(statistics, names, strict=True) for tree in statistic.steps(columns)
    }
    items = [Item(tree, Own(f"y{i}")) for i, tree in enumerate(steps)]
    return _over(rows, "valued", [Star(), *items]) if steps else rows


def _over(
    query: Node, alias: str, items: Sequence[Node], where: tuple[Node, ...] = (), group: tuple[Node, ...] = ()
) -> Select:
    """A SELECT over a query."""
    return Select(tuple(items), Derived(query, Own(alias)), where, group)


def _rows(release: Release, inputs: list[Scalar], *, unit: bool | None = None) -> Node:
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
        if key.values is not None and ((enforced and unit is None) or not _travels_whole(key)):
            conditions.append(_declared(key))
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


def travelling(key: GroupKey) -> Node:
    """A key in the form in which it travels."""
    scalar = key.scalar
    if travels_as_text(scalar, key.values is not None):
        return Cast(scalar.tree, VARCHAR, tries=False)
    return Cast(scalar.tree, BIGINT) if scalar.integral and not scalar.sqltype.is_boolean else scalar.tree


def _declared(key: GroupKey) -> Node:
    """The condition that a row's key is on the declared list."""
    scalar = key.scalar
    listed = integers(scalar.domain) if scalar.integral or scalar.sqltype.name == "DATE" else scalar.domain
    assert isinstance(listed, Categories)
    inside = _inside(scalar, listed.values)
    return Chain("OR", (inside, Bare(Is(scalar.tree, "NULL")))) if scalar.nullable else inside


def _inside(scalar: Scalar, values: tuple[Value, ...]) -> Node:
    numbers = [v for v in values if isinstance(v, int) and not isinstance(v, bool)]
    whole = scalar.integral or scalar.sqltype.name == "DATE"
    listed = tuple(Literal(v, scalar.sqltype) for v in values)
    # Only where nothing lies between the values: 1.5 is not on the list 1, 2, 3.
    if whole and len(numbers) == len(values) > 2 and numbers[-1] - numbers[0] == len(values) - 1:
        return Between(scalar.tree, listed[0], listed[-1])
    return In(scalar.tree, listed)


def _as_text(tree: Node) -> Node:
    """Sums cross as the digits of an integer: no driver's type holds HUGEINT exactly."""
    return Cast(Call("COALESCE", (tree, ZERO)), VARCHAR, tries=False)


def _names(release: Release) -> list[Node]:
    """The columns of the keys."""
    return [own(key.name) for key in release.keys]


def _per_row(release: Release, sums: list[tuple[Node, ...]], rows: Node) -> Node:
    keys = _names(release)
    items = [Item(_crossing(tree), Own(f"s{i}")) for i, tree in enumerate(tree for part in sums for tree in part)]
    having = _only_declared(release.keys)
    return Select((*keys, *items), Derived(rows, Own("counted")), group=tuple(keys), having=having)


def verified(
    release: Release, statistics: list[Statistic], names: list[list[Node]], inputs: list[Scalar]
) -> tuple[Verified, ...]:
    """Shorter SQL for data on which the limits, and then also the clamps, were verified to change nothing (rule 35).

    Why  where no unit has more rows than the limit that is enforced, and no more groups than that can be, every cut keeps
         everything: the sums per unit add up to the sums of the rows
    """
    source = release.limited.block.source
    if (
        not release.limited.enforced
        or not all(isinstance(s, _ADDED_UP) for s in statistics)
        or not _nothing_cut(release)
    ):
        return ()
    unit = any(isinstance(s, Units) for s in statistics)
    rows = _rows(release, inputs, unit=unit)
    found = [Verified(printed(_per_row(release, _row_sums(statistics, names), rows)), source.facts)]
    bounded = [_without_clamp(s) for s in statistics]
    facts = [_bounds_facts(s) for s in statistics]
    if bounded != statistics and all(f is not None for f in facts):
        more = source.facts.union(*(f for f in facts if f is not None))
        rows = _rows(release, _narrowed(inputs, bounded), unit=unit)
        found.insert(0, Verified(printed(_per_row(release, _row_sums(bounded, names), rows)), more))
    return tuple(found)


def _narrowed(inputs: list[Scalar], bounded: list[Statistic]) -> list[Scalar]:
    """What unclamped statistics add up, computed in the fewest digits that the verified bounds allow."""
    exact = {s.term.scalar.tree for s in bounded if isinstance(s, Total | Pair) and not s.term.clamped}
    found = []
    for scalar in inputs:
        fewer = narrow(scalar) if scalar.tree in exact and not scalar.is_column else scalar
        # The digits after the point say what a sum is worth.
        found.append(fewer if fewer.sqltype.scale == scalar.sqltype.scale else scalar)
    return found


def _row_sums(statistics: list[Statistic], names: list[list[Node]]) -> list[tuple[Node, ...]]:
    """Sums over rows as they are; people are counted once each."""
    found: list[tuple[Node, ...]] = []
    for statistic, columns in zip(statistics, names, strict=True):
        one = Bare(Case(((columns[0], UNIT),))) if columns else UNIT
        people = Aggregate("count", (one,), distinct=True)
        found.append((people,) if isinstance(statistic, Units) else statistic.row_sums(columns))
    return found


def _groups_kept(release: Release) -> bool:
    """Whether the limit on groups is none: a unit cannot be in more."""
    limits = release.limited.limits
    listed = [len(key.values) for key in release.keys if key.values is not None]
    declared = math.prod(listed) if len(listed) == len(release.keys) else limits.rows
    constant = all(key.scalar.is_constant for key in release.keys)
    return constant or limits.groups >= min(limits.rows, declared)


def _without_clamp(statistic: Statistic) -> Statistic:
    """The statistic over values that need no clamp: exact types alone, where the bounds of a sum hold to the last digit."""
    if isinstance(statistic, Total | Pair) and (statistic.term.is_decimal or statistic.term.is_integer):
        return replace(statistic, term=replace(statistic.term, clamped=False))
    return statistic


def _bounds_facts(statistic: Statistic) -> frozenset[str] | None:
    """What must be verified for a statistic's clamp to change nothing; None where no fact says so."""
    if not isinstance(statistic, Total | Pair):
        return frozenset()
    scalar = statistic.term.scalar
    if any(part.function == "bounded" for part in scalar.walk()):
        return None
    leaves = list(scalar.leaves())
    if not all(leaf.origin for leaf in leaves):
        return None
    return frozenset(bounds_fact(*_place(leaf.origin)) for leaf in leaves)


def _place(origin: str) -> tuple[str, str]:
    table, _, name = origin.rpartition(".")
    return table, name


# --- different values ---------------------------------------------------------------------------------------------


def _matchings(release: Release) -> tuple[CompiledMatching, ...]:
    """What of a release is counted by letting units take values."""
    if not release.limited.enforced:
        return ()
    found = []
    for i, measure in enumerate(release.measures):
        (names,), inputs = _inputs([measure.statistic])
        part = measure.statistic.unit_sums(names)
        if isinstance(part, Matching):
            tree = _taking(release, part, _rows(release, inputs))
            found.append(CompiledMatching(i, printed(tree), _verified_matching(release, part, inputs)))
    return tuple(found)


def _taking(release: Release, part: Matching, rows: Node) -> Node:
    """Each value that a unit brings to a group, in the orders of values and of units; capacities are cut as rows are.

    Why  a unit needs no more of the limit on rows than it has different values, and takes no more than `most`
    """
    keys, limits = _names(release), release.limited.limits
    owners, number, place = (UNIT, *keys), own("b"), own("w")
    valued = _over(rows, "counted", [Star(), Item(part.value, Own("v"))])
    brought = Select(
        (*owners, ROW_VALUE), Derived(valued, Own("valued")), (Bare(Is(ROW_VALUE, "NOT NULL")),), once=True
    )
    different = Select((ROW_VALUE,), Table(Own("brought")), once=True)
    turn = Over(Call("row_number"), order=(_hashed(ROW_VALUE), ROW_VALUE))
    numbered = _over(different, "different", [Item(ROW_VALUE, Own("w")), Item(turn, Own("b"))])
    capacity = Call("LEAST", (Aggregate("count", (Star(),)), Number(part.most)))
    both = Join("", Table(Own("brought")), Table(Own("numbered")), (Bare(Binary("=", ROW_VALUE, place)),))
    taken = (Item(capacity, Own("r0")), Item(Aggregate("list", (number,)), Own("v0")))
    by_unit = Select((*owners, *taken), both, group=owners)
    cut = _cut(_ordered(by_unit, keys, limits, 1), limits, 1)
    turns = Over(Call("row_number"), order=(_hashed(UNIT), *owners))
    placed = _over(cut, "limited", [Star(), Item(turns, Own("t"))], where=(_keeps_any(),))
    columns = [Item(Call("unnest", (own("v0"),)), Own("s0")), Item(own("c0"), Own("s1")), Item(own("t"), Own("s2"))]
    return With(
        (Common(Own("brought"), brought, kept=True), Common(Own("numbered"), numbered)),
        _over(placed, "placed", [*keys, *columns]),
    )


def _keeps_any() -> Node:
    """Whether a unit keeps some of its rows of a group."""
    return Bare(Binary(">", own("c0"), ZERO))


def _hashed(*columns: Node) -> Node:
    texts = (Cast(column, VARCHAR, tries=False) for column in columns)
    return Call("md5", (Call("concat_ws", (Literal("|", VARCHAR), SECRET, *texts)),))


def _verified_matching(release: Release, part: Matching, inputs: list[Scalar]) -> tuple[Verified, ...]:
    """Everybody takes what they bring, where no limit binds (see `verified`): as if one unit could take all of it."""
    source, keys = release.limited.block.source, _names(release)
    unit = source.unit
    if not _nothing_cut(release) or unit is None or unit.max_rows is None or part.most < unit.max_rows:
        return ()
    rows, number = _rows(release, inputs, unit=False), own("n")
    different = Item(Aggregate("count", (part.value,), distinct=True), Own("n"))
    having = _only_declared(release.keys)
    counts = Select((*keys, different), Derived(rows, Own("counted")), group=tuple(keys), having=having)
    places = Call("unnest", (Call("range", (number,)),))
    columns = [Item(places, Own("s0")), Item(number, Own("s1")), Item(ZERO, Own("s2"))]
    return (Verified(printed(_over(counts, "different", [*keys, *columns])), source.facts),)


# --- tallies ------------------------------------------------------------------------------------------------------


def _tally(release: Release, tally: Tally) -> CompiledTally:
    """The rows of each group with each value. Where a unit may have several rows its values of a group are sorted, and of n that
    are cut to c those at evenly spread places stay: a function of its own rows, at most c of them.
    """
    inputs = list(tally.inputs)
    value = tally.value_of([own(f"x{i}") for i in range(len(inputs))])
    enforced, limits = release.limited.enforced, release.limited.limits
    if not enforced:
        return CompiledTally(tally, printed(_counted(release, tally, value, _rows(release, inputs))))
    keys, known, listed = _names(release), Bare(Is(ROW_VALUE, "NOT NULL")), own("v0")
    owners = (UNIT, *keys)
    valued = _over(_rows(release, inputs), "counted", [*owners, Item(value, Own("v"))])
    sorted_values = Call("list_sort", (Aggregate("list", (ROW_VALUE,), where=known),))
    items = [Item(Aggregate("count", (ROW_VALUE,)), Own("r0")), Item(sorted_values, Own("v0"))]
    by_unit = _over(valued, "valued", [*owners, *items], group=owners)
    cut = _cut(_ordered(by_unit, keys, limits, 1), limits, 1)
    whole = Bare(Binary("=", own("c0"), own("r0")))
    kept = Bare(Case(((whole, listed),), Spread(listed, own("r0"), own("c0"))))
    column = Item(Call("unnest", (kept,)), Own("v"))
    tree = _bucketed(tally, keys, _over(cut, "limited", [*keys, column], where=(_keeps_any(),)))
    return CompiledTally(tally, printed(tree), _verified_tally(release, tally, value, inputs))


def _counted(release: Release, tally: Tally, value: Node, rows: Node) -> Node:
    """Every row counts as it is; groups whose key is not declared are left out after that."""
    keys = _names(release)
    values = _over(rows, "counted", [*keys, Item(value, Own("v"))])
    return replace(_bucketed(tally, keys, values), having=_only_declared(release.keys))


def _bucketed(tally: Tally, keys: list[Node], values: Node) -> Select:
    columns: list[Node] = [Item(Aggregate("count", (Star(),)), Own("s0"))]
    if tally.summed:
        columns.append(Item(Cast(Aggregate("sum", (ROW_VALUE,)), VARCHAR, tries=False), Own("s1")))
    bucket = Item(tally.bucket_of(ROW_VALUE), Own("b"))
    return _over(values, "valued", [*keys, bucket, *columns], group=(*keys, own("b")))


def _verified_tally(release: Release, tally: Tally, value: Node, inputs: list[Scalar]) -> tuple[Verified, ...]:
    """Without the cut, where it was verified to leave everything (see `verified`)."""
    if not _nothing_cut(release):
        return ()
    rows = _rows(release, inputs, unit=False)
    return (Verified(printed(_counted(release, tally, value, rows)), release.limited.block.source.facts),)


def _nothing_cut(release: Release) -> bool:
    """Whether units with no more rows than they are verified to have keep all of them."""
    source, limits = release.limited.block.source, release.limited.limits
    most = source.unit.max_rows if source.unit is not None else None
    return most is not None and limits.rows >= most and _groups_kept(release)


def _only_declared(keys: tuple[GroupKey, ...]) -> Node | None:
    """Leave out the groups whose key is not declared, where nothing is cut and so no row has to go before.

    Why  a condition on rows costs more than the sums. As it stands DuckDB cannot move this one below GROUP BY; it is
         always the condition itself, because every group has a row
    """
    conditions = tuple(_among(own(key.name), key.values) for key in keys if key.values is not None)
    there = Bare(Binary(">", Aggregate("count", (Star(),)), ZERO))
    return Bare(Case(((there, Bare(Chain("AND", conditions))),))) if conditions else None


def _among(key: Node, values: tuple[KeyValue, ...]) -> Node:
    """The condition that a key, in the form in which it travels, is one of some values."""
    listed = [v for v in values if v is not None]
    numbers = [v for v in listed if isinstance(v, int) and not isinstance(v, bool)]
    inside: Node = Literal(False, BOOLEAN)
    if len(numbers) == len(listed) > 2 and max(numbers) - min(numbers) == len(set(numbers)) - 1:
        inside = Bare(Between(key, _wire(min(numbers)), _wire(max(numbers))))
    elif listed:
        inside = Bare(In(key, tuple(map(_wire, listed))))
    return Chain("OR", (inside, Bare(Is(key, "NULL"))) if None in values else (inside,))


def _travels_whole(key: GroupKey) -> bool:
    """Whether different values stay different on their way: what no BIGINT holds would travel as NULL."""
    held = key.scalar.sqltype.range if key.scalar.sqltype.is_integer else None
    small = held is not None and held.lower >= -(2**63) and held.upper < 2**63
    return small or not key.scalar.integral or key.scalar.sqltype.is_boolean


def _wire(value: int | str | bool) -> Node:
    return Literal(value, BOOLEAN if isinstance(value, bool) else VARCHAR if isinstance(value, str) else BIGINT)


def _crossing(tree: Node) -> Node:
    return tree if isinstance(tree, Aggregate) and tree.name == "count" else _as_text(tree)


def _per_unit(release: Release, statistics: list[Statistic], names: list[list[Node]], rows: Node) -> Node:
    keys, limits = _names(release), release.limited.limits
    asked = (s.unit_sums(n) for s, n in zip(statistics, names, strict=True))
    parts = [part for part in asked if isinstance(part, UnitSums)]
    inner = [Item(part.rows, Own(f"r{i}")) for i, part in enumerate(parts)]
    inner += [Item(tree, Own(f"{name}{i}")) for i, part in enumerate(parts) for name, tree in part.inner]
    owners = (UNIT, *keys)
    by_unit = _over(rows, "counted", [*owners, *inner], group=owners)
    cut = _cut(_ordered(by_unit, keys, limits, len(parts)), limits, len(parts))
    outer: list[Node] = []
    for i, part in enumerate(parts):
        columns: dict[Node, Node] = {ROWS: own(f"r{i}"), CUT: own(f"c{i}")}
        columns |= {own(name): own(f"{name}{i}") for name, _ in part.inner}
        outer += [rewritten(tree, columns) for tree in part.outer]
    sums = [Item(_as_text(Aggregate("sum", (tree,))), Own(f"s{i}")) for i, tree in enumerate(outer)]
    return _over(cut, "limited", [*keys, *sums], group=tuple(keys))


def _ordered(by_unit: Node, keys: list[Node], limits: Limits, parts: int) -> Node:
    """Each unit's groups numbered, and the rows of each statistic in the groups before.

    Why  a unit within all limits keeps everything in any order, so only the others' groups are sorted. Which units those
         are is decided for each by its own rows
    """
    alone = _numbered(ONE, [ZERO] * parts)
    if not keys:
        return _over(by_unit, "by_unit", alone)
    order = (_hashed(UNIT, *keys), *keys)
    turn = Over(Call("row_number"), (UNIT,), order)
    earlier = Frame("ROWS", "UNBOUNDED PRECEDING", "1 PRECEDING")
    sums = (Over(Aggregate("sum", (own(f"r{i}"),)), (UNIT,), order, earlier) for i in range(parts))
    before = [Call("COALESCE", (tree, ZERO)) for tree in sums]
    above = [Bare(Binary(">", Aggregate("count", (Star(),)), Number(limits.groups)))]
    above += [Bare(Binary(">", Aggregate("sum", (own(f"r{i}"),)), Number(limits.rows))) for i in range(parts)]
    whole, same = Table(Own("by_unit")), (Bare(Binary("=", UNIT, own("unit"))),)
    heavy = Select((Item(UNIT, Own("unit")),), whole, group=(UNIT,), having=Bare(Chain("OR", tuple(above))))
    light = Select(tuple(alone), Join("ANTI", whole, Table(Own("heavy")), same))
    sorted_groups = Select(tuple(_numbered(turn, before)), Join("SEMI", whole, Table(Own("heavy")), same))
    return With(
        (Common(Own("by_unit"), by_unit, kept=True), Common(Own("heavy"), heavy)), UnionAll((light, sorted_groups))
    )


def _numbered(turn: Node, before: Sequence[Node]) -> list[Node]:
    numbered = [Item(tree, Own(f"before{i}")) for i, tree in enumerate(before)]
    return [Star(), Item(turn, Own("turn")), *numbered]


def _cut(ordered: Node, limits: Limits, parts: int) -> Node:
    """The rows that each statistic keeps of each (unit, group)."""
    cuts = []
    for i in range(parts):
        left = Bare(Binary("-", Number(limits.rows), own(f"before{i}")))
        kept = Call("GREATEST", (ZERO, Call("LEAST", (own(f"r{i}"), left))))
        cuts.append(Item(Cast(kept, BIGINT, tries=False), Own(f"c{i}")))
    within = Bare(Binary("<=", own("turn"), Number(limits.groups)))
    return _over(ordered, "ordered", [Star(), *cuts], where=(within,))
