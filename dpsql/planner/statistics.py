"""Aggregates become as few statistics as hold them all.

COUNT, SUM and AVG of one expression over the same rows share one pair of cells at one price, and COUNT(*) beside them is its third
cell (aggregates/avg.py). With VAR or STDDEV they share moments instead, as do statistics of the same two values (moments.py). A
lone SUM or COUNT keeps its own, less noisy, measure. SUM(x) beside COUNT(*) is bought both ways, and the one that errs less is taken
(buying.py). Where one unit has one row, COUNT(*) is the number of units, which a private
key is selected by anyway. What looks at values themselves is released of a tally (aggregates/tally.py).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from dpsql.aggregates.auto_sum import AutoSum, AutoSumOf, magnitudes
from dpsql.aggregates.avg import AvgOf, Pair, SumOfPair
from dpsql.aggregates.base import Estimate, Statistic
from dpsql.aggregates.count import CountOf, Rows
from dpsql.aggregates.count_distinct import Units
from dpsql.aggregates.distinct_values import DistinctValues
from dpsql.aggregates.extreme import Extreme, ExtremeOf
from dpsql.aggregates.grid import LEAST_BUCKETS, Grid
from dpsql.aggregates.grid import widest as widest_tally
from dpsql.aggregates.mode import VALUE, Listed, Mode, ModeOf
from dpsql.aggregates.moments import Moments, widest
from dpsql.aggregates.of_moments import CountOfMoments, OfMoments, SumOfMoments
from dpsql.aggregates.quantile import Quantile, QuantileOf
from dpsql.aggregates.randomized_response import Responses, ResponsesOf, answers
from dpsql.aggregates.sum import SumOf, Total, sum_type
from dpsql.aggregates.tally import Reading, Tallied
from dpsql.aggregates.term import WIDEST, Term, term
from dpsql.aggregates.unit_total import unit_total
from dpsql.core.cancellation import check
from dpsql.core.domains import LARGEST_DOUBLE, Categories, Domain, Interval, integers
from dpsql.core.errors import Error, error
from dpsql.expressions.functions.numbers import float_test
from dpsql.expressions.logic import conjunction, is_null, negation
from dpsql.expressions.scalar import Scalar, tree_of
from dpsql.mechanisms.randomized_response import RandomizedResponse
from dpsql.plan.limited import Limited
from dpsql.plan.resolved import Aggregate, GroupKey
from dpsql.planner.limit import as_listed, key_count
from dpsql.planner.lower.keys import travelling
from dpsql.planner.request import Parts
from dpsql.sql.duckdb import printed
from dpsql.sql.nodes import Node

_SPREAD = ("var_pop", "var_samp", "stddev_pop", "stddev_samp")
_OF_VALUE = ("count", "sum", "avg", *_SPREAD)


ALL_SHOWN: Mapping[str, Node | None] = MappingProxyType({})


@dataclass(slots=True)
class Statistics:
    """What one release is made of, each part once, and which aggregate reads which.

    deciding  by aggregate, the rows whose people decide whether it is shown; none for those that are
    paired    by their condition, pairs and moments that have COUNT(*) of the same rows as a cell
    """

    limited: Limited
    deciding: Mapping[str, Node | None]
    found: dict[Hashable, Statistic] = field(default_factory=dict)
    tallied: dict[Hashable, Tallied] = field(default_factory=dict)
    reads: list[tuple[Aggregate, int, Estimate]] = field(default_factory=list)
    readings: list[tuple[Aggregate, int, Reading]] = field(default_factory=list)
    paired: dict[Node | None, Pair | Moments] = field(default_factory=dict)

    def shows_alike(self, one: Aggregate, other: Aggregate) -> bool:
        """Whether two aggregates are shown or suppressed together."""
        shown = object()
        return self.deciding.get(one.name, shown) == self.deciding.get(other.name, shown)

    def place(self, statistic: Statistic) -> int:
        self.found.setdefault(statistic.identity, statistic)
        return list(self.found).index(statistic.identity)

    def read(self, aggregate: Aggregate, statistic: Statistic, estimate: Estimate) -> None:
        self.reads.append((aggregate, self.place(statistic), estimate))

    def choose(self, aggregate: Aggregate, tallied: Tallied, reading: Reading) -> None:
        self.tallied.setdefault(tallied.identity, tallied)
        self.readings.append((aggregate, list(self.tallied).index(tallied.identity), reading))

    def parts(self) -> Parts:
        found, tallied = tuple(self.found.values()), tuple(self.tallied.values())
        return Parts(self.limited, found, tallied, tuple(self.reads), tuple(self.readings))


def sums_beside_rows(aggregates: Sequence[Aggregate]) -> bool:
    """Whether COUNT(*) and some SUM are of the same rows."""
    rows = {tree_of(a.condition) for a in aggregates if a.function == "rows"}
    return any(a.function == "sum" and tree_of(a.condition) in rows for a in aggregates)


def statistics_of(
    limited: Limited, units: int | None, deciding: Mapping[str, Node | None] = ALL_SHOWN, *, together: bool = False
) -> Statistics:
    """The statistics of a block.

    deciding  by aggregate that may be suppressed, the condition of the people who decide: it shares no cells with what they do not
    together  COUNT(*) and a SUM of the same rows share a pair
    """
    statistics = Statistics(limited, deciding)
    if limited.block.selects:
        statistics.place(Units(None))
    by_value: dict[Hashable, list[Aggregate]] = {}
    by_two: dict[Hashable, list[Aggregate]] = {}
    others: list[Aggregate] = []
    for aggregate in limited.block.aggregates:
        check()
        if aggregate.argument is None:
            others.append(aggregate)
        elif aggregate.looks_at_values:
            _of_tally(aggregate, aggregate.argument, statistics, units)
        elif aggregate.function == "distinct":
            statistics.read(aggregate, _distinct(aggregate.argument, aggregate.condition, limited), CountOf(1))
        elif aggregate.function in _OF_VALUE:
            by_value.setdefault((_value_key(aggregate.argument), tree_of(aggregate.condition)), []).append(aggregate)
        else:
            values = frozenset(_value_key(value) for value in aggregate.values)
            by_two.setdefault((values, tree_of(aggregate.condition)), []).append(aggregate)
    for group in by_value.values():
        rest = _beside_unit_totals(group, statistics)
        if rest:
            _of_value(rest, others, statistics, together)
    for group in by_two.values():
        _of_two(group, statistics)
    for aggregate in others:
        _of_rows(aggregate, statistics)
    return statistics


def _of_rows(aggregate: Aggregate, statistics: Statistics) -> None:
    """COUNT(*) and COUNT(DISTINCT unit)."""
    condition, enforced = tree_of(aggregate.condition), statistics.limited.enforced
    shared = statistics.paired.get(condition)
    if aggregate.function == "rows" and shared is not None:
        whole: Estimate = (
            CountOf(3, shared.term.width, aggregate.sqltype)
            if isinstance(shared, Pair)
            else CountOfMoments(shared, True, aggregate.sqltype)
        )
        statistics.read(aggregate, shared, whole)
    elif (aggregate.function == "units" and enforced) or _counts_selected(condition, statistics.limited):
        statistics.read(aggregate, Units(aggregate.condition), CountOf(1))
    else:
        statistics.read(aggregate, Rows(aggregate.condition), CountOf(1, sqltype=aggregate.sqltype))


def _counts_selected(condition: Node | None, limited: Limited) -> bool:
    """Whether a count of rows is the number of units that a private key is selected by: each has one row, and no condition."""
    return not limited.enforced and limited.block.selects and not condition


def _beside_unit_totals(group: list[Aggregate], statistics: Statistics) -> list[Aggregate]:
    """Those of one value that are no SUM of what each unit has in all, within bounds of its own; these are read here."""
    value, condition = group[0].argument, group[0].condition
    assert value is not None
    if value.unit_bounds is None or not statistics.limited.enforced:
        return group
    for aggregate in group:
        if aggregate.function == "sum":
            total = unit_total(value, condition, "SUM")
            statistics.read(aggregate, total, SumOf(total.term.quantum, sum_type(value.sqltype)))
    return [a for a in group if a.function != "sum"]


def _of_value(group: list[Aggregate], others: list[Aggregate], statistics: Statistics, together: bool) -> None:
    """COUNT, SUM and AVG of one value over the same rows."""
    first, asked = group[0], {a.function for a in group}
    assert first.argument is not None
    if asked == {"count"}:
        for aggregate in group:
            statistics.read(aggregate, Rows(counted_rows(first.argument, first.condition)), CountOf(1))
        return
    second = any(a.function in _SPREAD for a in group)
    value = _term_of(first.argument, next(a for a in group if a.function != "count"), widest(2) if second else WIDEST)
    result = sum_type(first.argument.sqltype)
    condition = tree_of(first.condition)
    beside = any(
        o.function == "rows" and tree_of(o.condition) == condition and statistics.shows_alike(o, first) for o in others
    )
    with_rows = beside and condition not in statistics.paired and not _counts_selected(condition, statistics.limited)
    if asked == {"sum"} and not (together and with_rows):
        for aggregate in group:
            statistics.read(aggregate, Total(value, first.condition), SumOf(value.quantum, result))
        return
    if second:
        _of_spread(group, _moments((value,), (2,), first, with_rows), statistics)
        return
    pair = Pair(value, first.condition, with_rows)
    if with_rows:
        statistics.paired[condition] = pair
    estimates: dict[str, Estimate] = {
        "count": CountOf(2, value.width),
        "sum": SumOfPair(value, result),
        "avg": AvgOf(value),
    }
    for aggregate in group:
        statistics.read(aggregate, pair, estimates[aggregate.function])


def _of_spread(group: list[Aggregate], moments: Moments, statistics: Statistics) -> None:
    """VAR and STDDEV, and COUNT, SUM and AVG of the same value beside them."""
    if moments.with_rows:
        statistics.paired[tree_of(moments.counted)] = moments
    for aggregate in group:
        estimate: Estimate = OfMoments(moments, aggregate.function)
        if aggregate.function == "count":
            estimate = CountOfMoments(moments, False)
        elif aggregate.function == "sum":
            estimate = SumOfMoments(moments, aggregate.sqltype)
        statistics.read(aggregate, moments, estimate)


def counted_rows(argument: Scalar, condition: Scalar | None) -> Scalar:
    """The rows that COUNT(x) counts: x is neither NULL nor NaN."""
    parts = [negation(is_null(argument))]
    if argument.sqltype.is_float:
        parts.append(negation(float_test("isnan", argument)))
    return conjunction([*parts, condition] if condition is not None else parts)


def _of_two(group: list[Aggregate], statistics: Statistics) -> None:
    """Statistics of two values over the same rows: the fewest moments that hold them all."""
    x, y = sorted(group[0].values, key=lambda value: printed(value.tree))
    degrees = [1, 1]
    for aggregate in group:
        both = aggregate.function in ("corr", "regr_r2")
        swapped = aggregate.second is not None and _value_key(aggregate.second) != _value_key(x)
        on_y = both or (aggregate.function in ("regr_slope", "regr_intercept") and swapped)
        on_x = both or (aggregate.function in ("regr_slope", "regr_intercept") and not swapped)
        degrees = [max(degrees[0], 1 + on_x), max(degrees[1], 1 + on_y)]
    most = widest(sum(degrees))
    terms = tuple(_term_of(value, group[0], most) for value in (x, y))
    moments = _moments(terms, tuple(degrees), group[0], False)
    for aggregate in group:
        assert aggregate.second is not None
        # REGR_SLOPE(y, x): the second argument is what is regressed on
        on_second = _value_key(aggregate.second) != _value_key(x)
        statistics.read(aggregate, moments, OfMoments(moments, aggregate.function, on_second))


def _moments(terms: tuple[Term, ...], degrees: tuple[int, ...], aggregate: Aggregate, with_rows: bool) -> Moments:
    """Raises 201 where squares and products of the values are beyond DOUBLE."""
    spreads = [t.width * t.quantum for t in terms]
    if max(spreads) ** 2 > LARGEST_DOUBLE / 4:
        what = f"the bounds of {aggregate.function.upper()} are so wide that their square is beyond the range of DOUBLE"
        raise error(201, what, hint="write smaller bounds", span=aggregate.span)
    return Moments(terms, degrees, aggregate.condition, with_rows)


def _distinct(argument: Scalar, condition: Scalar | None, limited: Limited) -> DistinctValues:
    """COUNT(DISTINCT x): of one unit no more values than are declared, and one where all of its rows have the same."""
    limits = limited.limits
    found = integers(argument.domain) if argument.integral else argument.domain
    declared = 2 if argument.sqltype.is_boolean else len(found.values) if isinstance(found, Categories) else limits.rows
    most = 1 if argument.is_constant else min(limits.rows, limits.values or limits.rows, declared)
    return DistinctValues(argument, condition, most)


def _of_tally(aggregate: Aggregate, value: Scalar, statistics: Statistics, units: int | None) -> None:
    """What looks at the values themselves."""
    match aggregate.function:
        case "quantile":
            assert aggregate.number is not None
            quantile = Quantile(_grid(aggregate, value, statistics.limited, units), aggregate.number)
            statistics.choose(aggregate, quantile, QuantileOf(quantile, aggregate.sqltype))
        case "min" | "max":
            tally = Grid(_term_of(value, aggregate, LEAST_BUCKETS), aggregate.condition)
            extreme = Extreme(tally, aggregate.function == "max")
            statistics.choose(aggregate, extreme, ExtremeOf(extreme, aggregate.sqltype))
        case "top":
            assert aggregate.number is not None
            others = statistics.limited.block.aggregates
            most = max(int(a.number) for a in others if a.number is not None and _same_tops(a, aggregate))
            mode = Mode(_listed(aggregate, value, most), most)
            place = int(aggregate.number) - 1
            statistics.choose(aggregate, mode, ModeOf(mode, place, mode.tally.values, aggregate.sqltype))
        case "auto_sum":
            auto = AutoSum(magnitudes(value, aggregate.condition))
            statistics.choose(aggregate, auto, AutoSumOf(auto, aggregate.sqltype))
        case "randomized_response":
            assert aggregate.number is not None
            responses = Responses(answers(value, aggregate.condition), RandomizedResponse(aggregate.number))
            statistics.choose(aggregate, responses, ResponsesOf(responses))
        case _:
            raise error(901, f"nothing measures {aggregate.function}")


def _same_tops(one: Aggregate, other: Aggregate) -> bool:
    return replace(one, number=None).asked == replace(other, number=None).asked


def _grid(aggregate: Aggregate, value: Scalar, limited: Limited, units: int | None) -> Grid:
    keys = limited.block.keys
    groups = key_count(keys) if all(key.values is not None for key in keys) else 64
    size = units * limited.limits.rows if units is not None else None
    return Grid(_term_of(value, aggregate, widest_tally(groups, size)), aggregate.condition)


def _listed(aggregate: Aggregate, value: Scalar, most: int) -> Listed:
    key = as_listed(GroupKey("v", value, None, aggregate.span))
    values = tuple(v for v in key.values or () if v is not None)
    if len(values) < 2:
        raise error(203, "there is only one declared value to choose from", hint="leave it out", span=aggregate.span)
    if most > len(values):
        what = f"there are only {len(values):,} declared values to choose from"
        raise error(203, what, hint=f"ask for {len(values):,} or fewer", span=aggregate.span)
    form = travelling(replace(key, scalar=replace(value, tree=VALUE, args=())))
    return Listed(value, form, values, aggregate.condition)


def _value_key(argument: Scalar) -> tuple[Node, Domain, Interval | None]:
    return argument.tree, argument.domain, argument.unit_bounds


def _term_of(value: Scalar, aggregate: Aggregate, most: int = WIDEST) -> Term:
    problem: Error
    try:
        return term(value, aggregate.function.upper(), most)
    except Error as raised:
        problem = raised
    problem.span = problem.span or aggregate.span
    raise problem
