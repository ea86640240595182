"""Aggregates become as few statistics as hold them all.

COUNT, SUM and AVG of one expression over the same rows share one pair of cells at one price, and COUNT(*) beside them is its third
cell (aggregates/avg.py). With VAR or STDDEV they share moments instead, as do statistics of the same two values (moments.py), off which
those of either value are read too where that errs less. All of these of several values may be one vector (joint.py). A
lone SUM or COUNT keeps its own, less noisy, measure. SUM(x) beside COUNT(*) is bought both ways, and the one that errs less is taken
(buying.py). Where one unit has one row, COUNT(*) is the number of units, which a private
key is selected by anyway. What looks at values themselves is released of a histogram (aggregates/histogram.py).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from types import MappingProxyType

from dpsql.aggregates.avg import Pair
from dpsql.aggregates.base import Estimate, Statistic
from dpsql.aggregates.count import Rows, counted_rows
from dpsql.aggregates.count_distinct import Units
from dpsql.aggregates.histogram import OverHistogram, Reading, Value
from dpsql.aggregates.joint import LAYOUTS, Joint, Layout, joint
from dpsql.aggregates.mode import VALUE, ListedHistogram
from dpsql.aggregates.moments import Moments, widest
from dpsql.aggregates.record import Aggregate, Around, read_off, value_key
from dpsql.aggregates.shared import moments
from dpsql.aggregates.term import WIDEST, Term, may_be_missing
from dpsql.core.cancellation import check
from dpsql.core.errors import error
from dpsql.expressions.scalar import Scalar, tree_of
from dpsql.plan.releases import BoundedBlock, NoisyCount
from dpsql.plan.resolved import GroupKey
from dpsql.planner import pairs
from dpsql.planner.limit import as_listed
from dpsql.planner.lower.rows import travelling
from dpsql.planner.request import Parts
from dpsql.sql.nodes import Node

MOST_TOGETHER = 40
"""Values of one vector: with their number the planning of every layout grows as its square."""
_MOST_DRAWN = 20_000_000
"""[numbers] Drawn for one histogram of all declared groups: some ten seconds."""
ALL_SHOWN: Mapping[str, Node | None] = MappingProxyType({})
_SHOWN = "shown"
Alike = tuple[Node | None, Hashable]
"""The rows that aggregates are of, and by whose people they are suppressed, if they are: those that may share a vector."""


@dataclass(frozen=True, slots=True)
class CellSharing:
    """Way to make the columns of aggregates whose values share cells.

    layout   of the joint vectors of several values; None: each value has cells of its own, COUNT(*) and a SUM a pair
    counted  conditions of rows of which a number is needed beside what is asked, so that one value has a joint vector too
    of_two   whether what is asked of one value is read off the moments of two that it is one of
    """

    layout: Layout | None = None
    counted: frozenset[Node | None] = frozenset()
    of_two: bool = False


@dataclass(slots=True)
class Statistics:
    """Parts of one release, each part once, and which aggregate reads which.

    deciding  by aggregate, the rows whose people decide whether it is shown; none for those that are
    places    of what was found
    terms     of aggregates, which stay alive here, by the most quanta of each
    paired    by their condition, pairs and moments that have COUNT(*) of the same rows as a cell
    joined    joint vectors
    """

    limited: BoundedBlock
    deciding: Mapping[str, Node | None]
    found: dict[Hashable, Statistic] = field(default_factory=dict)
    places: dict[Hashable, int] = field(default_factory=dict)
    over_histogram: dict[Hashable, OverHistogram] = field(default_factory=dict)
    reads: list[tuple[Aggregate, int, Estimate]] = field(default_factory=list)
    readings: list[tuple[Aggregate, int, Reading]] = field(default_factory=list)
    paired: dict[Node | None, Pair | Moments] = field(default_factory=dict)
    joined: dict[Alike, Joint] = field(default_factory=dict)
    terms: dict[tuple[int, int], Term] = field(default_factory=dict)

    def alike(self, one: Aggregate) -> Alike:
        return tree_of(one.condition), self.deciding.get(one.name, _SHOWN)

    def shows_alike(self, one: Aggregate, other: Aggregate) -> bool:
        """True if two aggregates are shown or suppressed together."""
        shown = object()
        return self.deciding.get(one.name, shown) == self.deciding.get(other.name, shown)

    def branch(self) -> Statistics:
        """The same so far, to go on with in a way of its own; terms are kept for all."""
        found, over_histogram = dict(self.found), dict(self.over_histogram)
        begun = replace(
            self, found=found, places=dict(self.places), over_histogram=over_histogram, reads=list(self.reads)
        )
        return replace(begun, readings=list(self.readings), paired=dict(self.paired), joined=dict(self.joined))

    def term(self, group: Sequence[Aggregate], most: int = WIDEST) -> Term:
        """The term of the one value of some aggregates. Raises 201."""
        aggregate = _needing(group)
        key = id(aggregate), most
        if key not in self.terms:
            self.terms[key] = aggregate.term(_value(group), most)
        return self.terms[key]

    def place(self, statistic: Statistic) -> int:
        identity = statistic.identity
        self.found.setdefault(identity, statistic)
        return self.places.setdefault(identity, len(self.places))

    def read(self, statistic: Statistic, *aggregates: Aggregate) -> None:
        place = self.place(statistic)
        self.reads += [(aggregate, place, read_off(statistic, aggregate)) for aggregate in aggregates]

    def count(self, statistic: Statistic, joint: Joint | None) -> NoisyCount:
        """A number of people or rows that nobody asks for by itself: off a joint vector of these rows, where there is one."""
        held = statistic if joint is None else joint
        return NoisyCount(self.place(held), held.number, statistic.identity)

    def choose(self, aggregate: Aggregate, over_histogram: OverHistogram, reading: Reading) -> None:
        groups = self.limited.block.groups
        if groups is not None and groups * over_histogram.draws > _MOST_DRAWN:
            what = f"{aggregate.function.upper()} of {over_histogram.draws:,} values would draw noise for each in {groups:,} groups"
            raise error(304, what, hint="group by fewer or coarser columns", span=aggregate.span)
        identity = over_histogram.identity
        self.over_histogram.setdefault(identity, over_histogram)
        self.readings.append((aggregate, list(self.over_histogram).index(identity), reading))

    def parts(self) -> Parts:
        found, over_histogram = tuple(self.found.values()), tuple(self.over_histogram.values())
        return Parts(self.limited, found, over_histogram, tuple(self.reads), tuple(self.readings))


def ways_of(
    limited: BoundedBlock, units: int | None, deciding: Mapping[str, Node | None], counted: frozenset[Node | None]
) -> list[Statistics]:
    """The statistics of a block in each way that there is to make its columns: first every one by itself.

    counted  conditions of rows of which a number is needed beside what is asked
    """
    asked = _asked(limited, units, deciding)
    ways = [asked.shared(None)]
    if _sums_beside_rows(limited.block.aggregates):
        ways.append(asked.shared(CellSharing()))
    of_two = bool(asked.held())
    if of_two:
        ways.append(asked.shared(CellSharing(of_two=True)))
    joint_ways: dict[Hashable, Statistics] = {}
    squares = any(max(a.record.degree for a in group) == 2 for group in asked.by_value)
    tried = product((False, True)[: 1 + of_two], [one for one in LAYOUTS if squares or one.squares is None])
    for held, layout in tried if _may_join(limited.block.aggregates, counted) else ():
        way = asked.shared(CellSharing(layout, counted, held))
        if way.joined:
            joint_ways.setdefault(tuple(way.found), way)
    return [*ways, *joint_ways.values()]


def _sums_beside_rows(aggregates: Sequence[Aggregate]) -> bool:
    """True if COUNT(*) and some SUM are of the same rows."""
    rows = {tree_of(a.condition) for a in aggregates if _counts_rows(a)}
    return any(a.record.alone is not None and tree_of(a.condition) in rows for a in aggregates)


def _may_join(aggregates: Sequence[Aggregate], counted: frozenset[Node | None]) -> bool:
    """False if no values can share a vector: fewer than two, or one and no number of rows beside it, or more than are tried."""
    joining = (a for a in aggregates if 1 <= a.record.degree <= 2 and len(a.values) == 1)
    values = {(value_key(a.bases[0]), tree_of(a.condition)) for a in joining}
    return 1 < len(values) + bool(counted) <= MOST_TOGETHER


def _counts_rows(aggregate: Aggregate) -> bool:
    """COUNT(*)"""
    return not aggregate.values and not aggregate.record.units


def statistics_of(
    limited: BoundedBlock, units: int | None, deciding: Mapping[str, Node | None] = ALL_SHOWN
) -> Statistics:
    """The statistics of a block, each of its own, COUNT(*) another.

    deciding  by aggregate that may be suppressed, the condition of the people who decide: it shares no cells with what they do not
    """
    return _asked(limited, units, deciding).shared(None)


@dataclass(frozen=True, slots=True)
class _Asked:
    """The aggregates of a block, those that may share cells by what they are of.

    begun   statistics of those that share nothing with others, in whatever way
    """

    begun: Statistics
    by_value: list[list[Aggregate]]
    by_two: list[list[Aggregate]]
    others: list[Aggregate]

    def shared(self, together: CellSharing | None) -> Statistics:
        """The statistics where values share cells; None: each has a statistic of its own, COUNT(*) another."""
        statistics, left = self.begun.branch(), self.by_value
        held = self.held() if together is not None and together.of_two else {}
        taken = {a.name for groups in held.values() for group in groups for a in group}
        left = [rest for group in left if (rest := [a for a in group if a.name not in taken])]
        if together is not None and together.layout is not None:
            left = _joined(left, self.others, statistics, together, together.layout)
        for group in left:
            _of_value(group, self.others, statistics, together is not None)
        for group in self.by_two:
            _of_two(group, held.get(id(group), []), self.others, statistics)
        for aggregate in self.others:
            _of_rows(aggregate, statistics)
        return statistics

    def held(self) -> dict[int, list[list[Aggregate]]]:
        """By aggregates of two values, what is asked of one of them and can be read off the same moments (pairs.py)."""
        return pairs.held(self.by_value, self.by_two, self.begun.alike) if self.by_two else {}


def _asked(limited: BoundedBlock, units: int | None, deciding: Mapping[str, Node | None]) -> _Asked:
    statistics = Statistics(limited, deciding)
    if limited.block.selects:
        statistics.place(Units(None))
    by_value, by_two, others = _grouped(limited, _around(limited, units), statistics)
    left = [rest for group in by_value.values() if (rest := _beside_unit_totals(group, statistics))]
    return _Asked(statistics, left, list(by_two.values()), others)


def _grouped(
    limited: BoundedBlock, around: Around, statistics: Statistics
) -> tuple[dict[Hashable, list[Aggregate]], dict[Hashable, list[Aggregate]], list[Aggregate]]:
    """Aggregates of one value each, of two, and of rows; those that share nothing with others are read here."""
    by_value: dict[Hashable, list[Aggregate]] = {}
    by_two: dict[Hashable, list[Aggregate]] = {}
    others: list[Aggregate] = []
    for aggregate in limited.block.aggregates:
        check()
        record = aggregate.record
        if aggregate.argument is None:
            others.append(aggregate)
        elif record.histogram is not None:
            statistics.choose(aggregate, *record.histogram(aggregate, aggregate.argument, around))
        elif record.own is not None:
            statistics.read(record.own(aggregate, around), aggregate)
        else:
            values = frozenset(map(value_key, aggregate.bases))
            alike = by_value if aggregate.second is None else by_two
            # the grid of higher powers is so coarse that rounding to it would show in a sum
            key = values, tree_of(aggregate.condition), record.degree > 2
            alike.setdefault(key, []).append(aggregate)
    return by_value, by_two, others


def _around(limited: BoundedBlock, units: int | None) -> Around:
    block = limited.block
    return Around(limited.limits, block.groups, units, block.aggregates, _listed, limited.intervals)


def listed_histogram(aggregate: Aggregate, value: Scalar) -> ListedHistogram:
    """The numbers of rows with each declared value; of none where no list is declared."""
    return ListedHistogram(value, *_listed(aggregate, value), aggregate.condition)


def _listed(aggregate: Aggregate, value: Scalar) -> tuple[Node, tuple[Value, ...]]:
    key = as_listed(GroupKey("v", value, None, aggregate.span))
    form = travelling(replace(key, scalar=replace(value, tree=VALUE, args=())))
    return form, tuple(v for v in key.values or () if v is not None)


def _of_rows(aggregate: Aggregate, statistics: Statistics) -> None:
    """COUNT(*) and COUNT(DISTINCT unit)."""
    condition, enforced = tree_of(aggregate.condition), statistics.limited.enforced
    statistic: Statistic | None = None
    if not aggregate.record.units and not _counts_selected(condition, statistics.limited):
        statistic = statistics.joined.get(statistics.alike(aggregate)) or statistics.paired.get(condition)
    if statistic is None:
        by_unit = (aggregate.record.units and enforced) or _counts_selected(condition, statistics.limited)
        statistic = (Units if by_unit else Rows)(aggregate.condition)
    statistics.read(statistic, aggregate)


def _counts_selected(condition: Node | None, limited: BoundedBlock) -> bool:
    """True if a count of rows is the number of units that a private key is selected by: each has one row, and no condition."""
    return not limited.enforced and limited.block.selects and not condition


def _beside_unit_totals(group: list[Aggregate], statistics: Statistics) -> list[Aggregate]:
    """Those of one value that are not of what each unit has in all, within bounds of its own; these are read here."""
    value, condition = group[0].argument, group[0].condition
    assert value is not None
    if value.unit_bounds is None or not statistics.limited.enforced:
        return group
    totals = [(a, a.record.unit_total) for a in group]
    for aggregate, unit_total in totals:
        if unit_total is not None:
            statistics.read(unit_total(value, condition), aggregate)
    return [aggregate for aggregate, unit_total in totals if unit_total is None]


def _of_value(group: list[Aggregate], others: list[Aggregate], statistics: Statistics, together: bool) -> None:
    """Aggregates of one value over the same rows: the fewest cells that hold them all."""
    first, degree = group[0], max(a.record.degree for a in group)
    if degree == 0:
        statistics.read(Rows(counted_rows(_value(group), first.condition)), *group)
        return
    value = statistics.term(group, widest(degree) if degree > 1 else WIDEST)
    condition = tree_of(first.condition)
    with_rows = _has_rows_beside(first, others, statistics)
    statistic: Statistic
    alone = first.record.alone if {a.record for a in group} == {first.record} else None
    if alone is not None and not (together and with_rows):
        statistic = alone(value, first.condition)
    else:
        shared = (
            moments((value,), (degree,), _needing(group), with_rows)
            if degree > 1
            else Pair(value, first.condition, with_rows)
        )
        if with_rows:
            statistics.paired[condition] = shared
        statistic = shared
    statistics.read(statistic, *group)


def _has_rows_beside(first: Aggregate, others: list[Aggregate], statistics: Statistics) -> bool:
    """True if COUNT(*) of the same rows is asked, and not yet read off another statistic."""
    condition = tree_of(first.condition)
    beside = any(
        _counts_rows(o) and tree_of(o.condition) == condition and statistics.shows_alike(o, first) for o in others
    )
    return beside and condition not in statistics.paired and not _counts_selected(condition, statistics.limited)


def _joined(
    groups: list[list[Aggregate]],
    others: list[Aggregate],
    statistics: Statistics,
    together: CellSharing,
    layout: Layout,
) -> list[list[Aggregate]]:
    """Joint vectors of the values that may share one; those that share none are given back."""
    alike: dict[Alike, list[list[Aggregate]]] = {}
    most = 1 if layout.squares is None else 2
    for group in groups:
        if 1 <= max(a.record.degree for a in group) <= most:
            alike.setdefault(statistics.alike(group[0]), []).append(group)
    beside = {statistics.alike(o) for o in others if _counts_rows(o)}
    for key, members in alike.items():
        condition = key[0]
        rows = key in beside or condition in together.counted
        if len(members) + (condition in together.counted) < 2:
            continue
        degrees = [max(a.record.degree for a in group) for group in members]
        terms = [
            statistics.term(group, widest(d) if d > 1 else WIDEST) for group, d in zip(members, degrees, strict=True)
        ]
        squared = [term for term, degree in zip(terms, degrees, strict=True) if degree > 1]
        one = joint(terms, members[0][0].condition, layout, len(members) + rows, squared)
        statistics.joined[key] = one
        statistics.read(one, *(a for group in members for a in group))
    joined = {id(group) for key in statistics.joined for group in alike[key]}
    return [group for group in groups if id(group) not in joined]


def _value(group: Sequence[Aggregate]) -> Scalar:
    return group[0].bases[0]


def _needing(group: Sequence[Aggregate]) -> Aggregate:
    """The first aggregate that needs more of the value than that it is there."""
    return next(a for a in group if a.record.degree)


def _of_two(
    group: list[Aggregate], held: list[list[Aggregate]], others: list[Aggregate], statistics: Statistics
) -> None:
    """Statistics of two values over the same rows, and what else is read off them of one: the fewest moments that hold them all."""
    x, y = pairs.in_order(group)
    degrees = pairs.degrees(group, held)
    most, condition = widest(sum(degrees)), tree_of(group[0].condition)
    terms = tuple(group[0].term(value, most) for value in (x, y))
    with_rows = bool(held) and _has_rows_beside(group[0], others, statistics)
    lone = bool(held) and any(may_be_missing(term) for term in terms)
    shared = moments(terms, tuple(degrees), group[0], with_rows, lone)
    if with_rows:
        statistics.paired[condition] = shared
    statistics.read(shared, *group, *(a for of_one in held for a in of_one))
