"""Contribution bounding of one unit's rows, and shorter SQL where data was verified to need no cut (rule 35)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dpsql.aggregates.base import Limits, Statistic, UnitSums
from dpsql.aggregates.term import Term
from dpsql.core.sqltypes import BIGINT, HUGEINT, VARCHAR
from dpsql.expressions.arithmetic import narrow
from dpsql.expressions.scalar import Scalar
from dpsql.plan.compiled import Verified
from dpsql.plan.releases import Release
from dpsql.planner.lower.rows import ONE, UNIT, ZERO, over, own_names, per_row, rows_of, worked_out
from dpsql.schema.model import bounds_fact
from dpsql.sql.nodes import (
    Aggregate,
    Bare,
    Binary,
    Call,
    Case,
    Cast,
    Chain,
    Column,
    Frame,
    Is,
    Literal,
    Node,
    Number,
    Over,
    Own,
    Parameter,
    Star,
    own,
)
from dpsql.sql.queries import Common, Derived, Item, Join, Select, Table, UnionAll, With

SECRET = Parameter("cut")
"""Parameter that the secret is bound to: it is in no text (rule 49)."""
KEEPS_ANY = Bare(Binary(">", own("c0"), ZERO))
"""True if a unit keeps some of its rows of a group."""


def cut(by_unit: Node, keys: list[Node], limits: Limits, parts: int, busy: Common | None = None) -> Node:
    """Rows of each unit in each group, with the rows `c0`, `c1`, ... that it keeps of them.

    busy  the units that the sums are of; the rows of all others stand under a unit that is NULL
    """
    ordered = _ordered(by_unit, keys, limits, parts)
    if busy is not None and isinstance(ordered, With):
        ordered = replace(ordered, parts=(busy, *ordered.parts))
    return _kept(ordered, limits, parts)


BUSY = own("b")
"""The unit of a row where it is a busy one, else NULL."""
MANY = 5
"""Sums from which a second look at the rows takes less than summing every unit's apart: with eleven 0.57 s in place of 0.99 s."""


def busy_units(release: Release, parts: Sequence[UnitSums]) -> Common | None:
    """The units with more rows than the limit keeps, whatever is counted of them; None where telling them apart does not pay.

    Why  a unit that is not among them has no more rows in all of its groups than any statistic may take, and no more groups than are
         kept, so all of it is kept. Whether it is one is decided by its own rows. What is clamped row by row and not cut adds up:
         the others' sums are those of all of their rows, so that they may be summed as one. It changes the way, not one sum
    """
    source = release.limited.block.source.read(True)
    alone = isinstance(source, Table) and not release.limited.block.lists
    adds = all(part.whole for part in parts) and sum(len(part.whole) for part in parts) >= MANY
    if not (alone and adds and release.keys and groups_kept(release)):
        return None
    above = Bare(Binary(">", Aggregate("count", (Star(),)), Number(release.limited.limits.rows)))
    rows = limited_rows(release, [], unit=True)
    units = replace(over(rows, "looked", [Item(UNIT, Own("unit"))], group=(UNIT,)), having=above)
    return Common(Own("busy"), units, kept=True)


def with_others(busy: Node, whole: Node) -> Node:
    """A sum over busy units' groups, and what all others have: that one stands in one row of each group, under no unit."""
    own_groups = Bare(Case(((Bare(Is(UNIT, "NOT NULL")), busy),)))
    others = Bare(Case(((Bare(Is(UNIT, "NULL")), Cast(whole, HUGEINT, tries=False)),)))
    parts = Aggregate("sum", (own_groups,)), Aggregate("max", (others,))
    return Bare(Binary("+", *(Call("COALESCE", (part, ZERO)) for part in parts)))


def of_busy_units(rows: Node) -> Node:
    """The rows with the column BUSY."""
    unit, same = own("unit"), (Bare(Binary("=", UNIT, own("unit"))),)
    apart = Bare(Case(((Bare(Is(unit, "NOT NULL")), unit),)))
    return Select((Star(), Item(apart, Own("b"))), Join("LEFT", Derived(rows, Own("looked")), Table(Own("busy")), same))


def _kept(ordered: Node, limits: Limits, parts: int) -> Node:
    """The rows that each statistic keeps of each (unit, group)."""
    cuts = []
    for i in range(parts):
        left = Bare(Binary("-", Number(limits.rows), own(f"before{i}")))
        kept = Call("GREATEST", (ZERO, Call("LEAST", (own(f"r{i}"), left))))
        cuts.append(Item(Cast(kept, BIGINT, tries=False), Own(f"c{i}")))
    within = Bare(Binary("<=", own("turn"), Number(limits.groups)))
    return over(ordered, "ordered", [Star(), *cuts], where=(within,))


def _ordered(by_unit: Node, keys: list[Node], limits: Limits, parts: int) -> Node:
    """Each unit's groups numbered, and the rows of each statistic in the groups before.

    Why  a unit within all limits keeps everything in any order, so only the others' groups are sorted. Which units those
         are is decided for each by its own rows
    """
    alone = _numbered(ONE, [ZERO] * parts)
    if not keys:
        return over(by_unit, "by_unit", alone)
    order = (hashed(UNIT, *keys), *keys)
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


def hashed(*columns: Node) -> Node:
    texts = (Cast(column, VARCHAR, tries=False) for column in columns)
    return Call("md5", (Call("concat_ws", (Literal("|", VARCHAR), SECRET, *texts)),))


def limited_rows(release: Release, inputs: list[Scalar], *, unit: bool | None = None) -> Node:
    """The rows of `rows_of`, of a table that is read over several periods cut in each of them.

    Why      the rows of a (unit, period) stand in an order of a keyed hash of all that is read of them, then of that itself, so which
             stay hangs on that unit's rows of that period alone: a period's cells move by what the limit of one period allows,
             however many rows the unit has in others. Rows whose key is not declared are left out before
    Limit    where several tables are joined, and of one period, the cut that comes after it is the only one
    """
    read = release.limited.periods[0] if len(release.limited.periods) == 1 else None
    source = release.limited.block.source.read(True)
    if not (release.limited.enforced and isinstance(source, Table) and read is not None and read.count > 1):
        return rows_of(release, inputs, unit=unit)
    most, declared = read.table.max_rows_per_unit, read.table.period
    if most is None or declared is None:
        return rows_of(release, inputs, unit=unit)
    start = Call("date_trunc", (Literal(declared.every, VARCHAR), Column(source.alias, declared.column)))
    rows, names = rows_of(release, inputs, more=(Item(start, Own("p")),)), own_names(release, inputs)
    turn = Over(Call("row_number"), (UNIT, own("p")), (hashed(UNIT, own("p"), *names), *names))
    numbered = over(rows, "by_period", [Star(), Item(turn, Own("q"))])
    return over(numbered, "of_period", [Star()], where=(Bare(Binary("<=", own("q"), Number(most))),))


def verified(
    release: Release, statistics: list[Statistic], names: list[list[Node]], inputs: list[Scalar]
) -> tuple[Verified, ...]:
    """Shorter SQL for data on which the limits, and then also the clamps, were verified to change nothing (rule 35).

    Why  where no unit has more rows than the limit that is enforced, and no more groups than that can be, every cut keeps
         everything: the sums per unit add up to the sums of the rows. Where a unit has one row there is no cut, and the clamps
         alone may be left out
    """
    enforced = release.limited.enforced
    needed = release.limited.block.source.facts if enforced else frozenset[str]()
    if enforced and not nothing_cut(release):
        return ()
    found: list[Verified] = []
    if enforced:
        whole = _uncut_sums(release, statistics, names)
        if whole is None:
            return ()
        rows = worked_out(_uncut_rows(release, statistics, inputs), statistics, names)
        found.append(Verified(per_row(release, whole, rows), needed))
    bounded = [s.without_clamp() for s in statistics]
    if bounded == statistics:
        return tuple(found)
    sums, facts = _uncut_sums(release, bounded, names), [_bounds_facts(t) for s in statistics for t in s.terms]
    if sums is not None and all(f is not None for f in facts):
        more = needed.union(*(f for f in facts if f is not None))
        rows = worked_out(_uncut_rows(release, statistics, _narrowed(inputs, bounded)), bounded, names)
        found.insert(0, Verified(per_row(release, sums, rows), more))
    return tuple(found)


def _uncut_rows(release: Release, statistics: list[Statistic], inputs: list[Scalar]) -> Node:
    """The rows that count, with the unit where it is counted; where nothing is enforced just as they are read without facts."""
    if not release.limited.enforced:
        return rows_of(release, inputs)
    return rows_of(release, inputs, unit=any(s.counts_units for s in statistics))


def _narrowed(inputs: list[Scalar], bounded: list[Statistic]) -> list[Scalar]:
    """Summands of unclamped statistics, computed in the fewest digits that the verified bounds allow."""
    exact = {t.scalar.tree for s in bounded for t in s.terms if not t.clamped}
    found = []
    for scalar in inputs:
        fewer = narrow(scalar) if scalar.tree in exact and not scalar.is_column else scalar
        # The digits after the point say what a sum is worth.
        found.append(fewer if fewer.sqltype.scale == scalar.sqltype.scale else scalar)
    return found


def _uncut_sums(
    release: Release, statistics: list[Statistic], names: list[list[Node]]
) -> list[tuple[Node, ...]] | None:
    """Sums over rows as they are, people counted once each; None where one of them is no such sum."""
    if not release.limited.enforced:
        return [s.row_sums(columns) for s, columns in zip(statistics, names, strict=True)]
    found = [s.uncut_sums(columns, UNIT) for s, columns in zip(statistics, names, strict=True)]
    known = [sums for sums in found if sums is not None]
    return known if len(known) == len(found) else None


def nothing_cut(release: Release) -> bool:
    """True if units with no more rows than they are verified to have keep all of them."""
    source, limits = release.limited.block.source, release.limited.limits
    most = source.unit.max_rows if source.unit is not None else None
    return most is not None and limits.rows >= most and groups_kept(release)


def groups_kept(release: Release) -> bool:
    """True if the limit on groups is none: a unit cannot be in more."""
    limits, groups = release.limited.limits, release.limited.block.groups
    declared = groups if groups is not None else limits.rows
    constant = all(key.scalar.is_constant for key in release.keys)
    return constant or limits.groups >= min(limits.rows, declared)


def _bounds_facts(term: Term) -> frozenset[str] | None:
    """Facts that must be verified for a clamp to change nothing; None where no fact says so."""
    if any(part.is_bounded for part in term.scalar.walk()):
        return None
    leaves = list(term.scalar.leaves())
    if not all(leaf.origin for leaf in leaves):
        return None
    places = (leaf.origin.rpartition(".") for leaf in leaves)
    return frozenset(bounds_fact(table, name) for table, _, name in places)
