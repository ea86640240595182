"""measure: Limited -> Release. Aggregates become as few statistics as hold them all; each gets a share of the price and its noise.

COUNT, SUM and AVG of one expression over the same rows share one pair of cells at one price, and COUNT(*) beside them is its third
cell (aggregates/avg.py). With VAR or STDDEV they share moments instead, as do statistics of the same two values (moments.py). A
lone SUM or COUNT keeps its own, less noisy, measure. SUM(x) beside COUNT(*) is bought both ways, and the one that errs less is taken
(buying.py). Where one unit has one row, COUNT(*) is the number of units, which a private
key is selected by anyway. What looks at values themselves is released of a tally (aggregates/tally.py).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace

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
from dpsql.core.loss import NO_LOSS
from dpsql.expressions.logic import conjunction, is_null, negation
from dpsql.expressions.mathematical import float_test
from dpsql.expressions.scalar import Scalar, tree_of
from dpsql.mechanisms.randomized_response import RandomizedResponse
from dpsql.plan.limited import Limited, Small
from dpsql.plan.releases import Output, Read, Release, Suppression
from dpsql.plan.resolved import Aggregate, Block, GroupKey
from dpsql.planner.buying import buy_one
from dpsql.planner.limit import as_listed, key_count
from dpsql.planner.lower.keys import travelling
from dpsql.planner.request import Parts, Request
from dpsql.sql.duckdb import printed
from dpsql.sql.identity import VERSION, fingerprint
from dpsql.sql.nodes import Column, Node
from dpsql.sql.trees import tables

_SPREAD = ("var_pop", "var_samp", "stddev_pop", "stddev_samp")
_OF_VALUE = ("count", "sum", "avg", *_SPREAD)


@dataclass(slots=True)
class _Statistics:
    """What one release is made of, each part once, and which aggregate reads which."""

    found: dict[Hashable, Statistic] = field(default_factory=dict)
    tallied: dict[Hashable, Tallied] = field(default_factory=dict)
    reads: list[tuple[Aggregate, Hashable, Estimate]] = field(default_factory=list)
    readings: list[tuple[Aggregate, Hashable, Reading]] = field(default_factory=list)

    def add(self, statistic: Statistic) -> Hashable:
        self.found.setdefault(statistic.identity, statistic)
        return statistic.identity

    def read(self, aggregate: Aggregate, statistic: Statistic, estimate: Estimate) -> None:
        self.reads.append((aggregate, self.add(statistic), estimate))

    def choose(self, aggregate: Aggregate, tallied: Tallied, reading: Reading) -> None:
        self.tallied.setdefault(tallied.identity, tallied)
        self.readings.append((aggregate, tallied.identity, reading))

    def parts(self, limited: Limited) -> Parts:
        found, tallied = list(self.found), list(self.tallied)
        reads = tuple((aggregate, found.index(name), estimate) for aggregate, name, estimate in self.reads)
        readings = tuple((aggregate, tallied.index(name), reading) for aggregate, name, reading in self.readings)
        return Parts(limited, tuple(self.found.values()), tuple(self.tallied.values()), reads, readings)


@dataclass(frozen=True, slots=True)
class Few:
    """Which aggregates are shown only where the noisy number of people with a row that they are about is at least `k`."""

    small: tuple[Small, ...]
    k: int


NOWHERE = Few((), 0)


def measure(limited: Limited, request: Request, identity: str, reads: Mapping[str, str], few: Few = NOWHERE) -> Release:
    """The release of a limited block on the terms of a request.

    identity  canonical text of the declared schema, part of the fingerprint
    reads     what each bound table is made of, by its name: the fingerprint holds it
    few       where a number of people decides what is shown: it is one of the statistics, and paid for like them

    Raises 104 (weights or an accuracy that do not fit), 201 (a sum without bounds), 202 (noise too wide), 303 (private keys without
    an aggregate), 502 (an accuracy above the cap).
    """
    block = limited.block
    selects = block.selects
    if selects and not block.aggregates:
        raise _no_aggregate(limited)
    ways = [_statistics(limited, selects, request.units)]
    if request.weights is None and _sums_beside_rows(block.aggregates):
        ways.append(_statistics(limited, selects, request.units, together=True))
    counts = [[way.add(_people(limited, small.condition, selects)) for small in few.small] for way in ways]
    asked = [way.parts(limited) for way in ways]
    if not len(asked[0]):
        return Release(limited, (), None, (), NO_LOSS, _fingerprint(asked[0], request, identity, reads, few))
    taken, bought = buy_one(asked, request)
    parts, names = asked[taken], counts[taken]
    outputs = tuple(Output(a.name, place, estimate) for a, place, estimate in parts.reads)
    read = tuple(Read(a.name, place, reading) for a, place, reading in parts.readings)
    return Release(
        limited,
        bought.measures,
        bought.selection,
        outputs,
        bought.loss,
        _fingerprint(parts, request, identity, reads, few),
        bought.chosen,
        read,
        bought.compared,
        raised=bought.raised,
        suppressed=tuple(
            Suppression(list(ways[taken].found).index(name), few.k, small.outputs)
            for name, small in zip(names, few.small, strict=True)
        ),
    )


def _people(limited: Limited, condition: Scalar | None, selects: bool) -> Statistic:
    """The number of people in a group, or of those with a row that a condition keeps; as COUNT(*) of them asks for it, if it does."""
    return Units(condition) if limited.enforced or (selects and condition is None) else Rows(condition)


def _no_aggregate(limited: Limited) -> Error:
    block = limited.block
    key = next(key for i, key in enumerate(block.keys) if block.is_selected(i))
    name = key.scalar.tree.name if isinstance(key.scalar.tree, Column) else "..."
    return error(
        303,
        "the values of an undeclared domain can only be shown with a count of people",
        hint=f"write SELECT {name}, COUNT(*) ... GROUP BY {name}, or declare its domain",
        span=key.span,
    )


def _sums_beside_rows(aggregates: Sequence[Aggregate]) -> bool:
    """Whether COUNT(*) and some SUM are of the same rows."""
    rows = {tree_of(a.condition) for a in aggregates if a.function == "rows"}
    return any(a.function == "sum" and tree_of(a.condition) in rows for a in aggregates)


def _statistics(limited: Limited, selects: bool, units: int | None, *, together: bool = False) -> _Statistics:
    """The statistics of a block. together: COUNT(*) and a SUM of the same rows share a pair."""
    statistics = _Statistics()
    if selects:
        statistics.add(Units(None))
    by_value: dict[Hashable, list[Aggregate]] = {}
    by_two: dict[Hashable, list[Aggregate]] = {}
    others: list[Aggregate] = []
    for aggregate in limited.block.aggregates:
        check()
        if aggregate.argument is None:
            others.append(aggregate)
        elif aggregate.looks_at_values:
            _of_tally(aggregate, aggregate.argument, limited, statistics, units)
        elif aggregate.function == "distinct":
            statistics.read(aggregate, _distinct(aggregate.argument, aggregate.condition, limited), CountOf(1))
        elif aggregate.function in _OF_VALUE:
            by_value.setdefault((_value_key(aggregate.argument), tree_of(aggregate.condition)), []).append(aggregate)
        else:
            values = frozenset(_value_key(value) for value in aggregate.values)
            by_two.setdefault((values, tree_of(aggregate.condition)), []).append(aggregate)
    paired: dict[Node | None, Pair | Moments] = {}
    for group in by_value.values():
        _of_value(group, others, statistics, paired, not limited.enforced, selects, together)
    for group in by_two.values():
        _of_two(group, statistics)
    for aggregate in others:
        _of_rows(aggregate, limited, statistics, paired, selects)
    return statistics


def _of_two(group: list[Aggregate], statistics: _Statistics) -> None:
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


def _of_tally(
    aggregate: Aggregate, value: Scalar, limited: Limited, statistics: _Statistics, units: int | None
) -> None:
    """What looks at the values themselves."""
    match aggregate.function:
        case "quantile":
            assert aggregate.number is not None
            quantile = Quantile(_grid(aggregate, value, limited, units), aggregate.number)
            statistics.choose(aggregate, quantile, QuantileOf(quantile, aggregate.sqltype))
        case "min" | "max":
            tally = Grid(_term_of(value, aggregate, LEAST_BUCKETS), aggregate.condition)
            extreme = Extreme(tally, aggregate.function == "max")
            statistics.choose(aggregate, extreme, ExtremeOf(extreme, aggregate.sqltype))
        case "top":
            assert aggregate.number is not None
            most = max(
                int(a.number) for a in limited.block.aggregates if a.number is not None and _same_tops(a, aggregate)
            )
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


def _of_value(
    group: list[Aggregate],
    others: list[Aggregate],
    statistics: _Statistics,
    paired: dict[Node | None, Pair | Moments],
    one_row: bool,
    selects: bool,
    together: bool,
) -> None:
    """COUNT, SUM and AVG of one value over the same rows."""
    first = group[0]
    assert first.argument is not None
    bounded = [a for a in group if a.function == "sum" and first.argument.unit_bounds is not None and not one_row]
    for aggregate in bounded:
        total_of_unit = unit_total(first.argument, first.condition, "SUM")
        statistics.read(aggregate, total_of_unit, SumOf(total_of_unit.term.quantum, sum_type(first.argument.sqltype)))
    group = [a for a in group if a not in bounded]
    if not group:
        return
    asked = {a.function for a in group}
    first = group[0]
    assert first.argument is not None
    if asked == {"count"}:
        for aggregate in group:
            statistics.read(aggregate, Rows(counted_rows(first.argument, first.condition)), CountOf(1))
        return
    second = any(a.function in _SPREAD for a in group)
    value = _term_of(first.argument, next(a for a in group if a.function != "count"), widest(2) if second else WIDEST)
    result = sum_type(first.argument.sqltype)
    condition = tree_of(first.condition)
    beside = any(o.function == "rows" and tree_of(o.condition) == condition for o in others)
    with_rows = beside and condition not in paired and not (selects and one_row and not condition)
    if asked == {"sum"} and not (together and with_rows):
        for aggregate in group:
            statistics.read(aggregate, Total(value, first.condition), SumOf(value.quantum, result))
        return
    if second:
        _of_spread(group, _moments((value,), (2,), first, with_rows), statistics, paired)
        return
    pair = Pair(value, first.condition, with_rows)
    if with_rows:
        paired[condition] = pair
    estimates: dict[str, Estimate] = {
        "count": CountOf(2, value.width),
        "sum": SumOfPair(value, result),
        "avg": AvgOf(value),
    }
    for aggregate in group:
        statistics.read(aggregate, pair, estimates[aggregate.function])


def _of_spread(
    group: list[Aggregate], moments: Moments, statistics: _Statistics, paired: dict[Node | None, Pair | Moments]
) -> None:
    """VAR and STDDEV, and COUNT, SUM and AVG of the same value beside them."""
    if moments.with_rows:
        paired[tree_of(moments.counted)] = moments
    for aggregate in group:
        estimate: Estimate = OfMoments(moments, aggregate.function)
        if aggregate.function == "count":
            estimate = CountOfMoments(moments, False)
        elif aggregate.function == "sum":
            estimate = SumOfMoments(moments, aggregate.sqltype)
        statistics.read(aggregate, moments, estimate)


def _term_of(value: Scalar, aggregate: Aggregate, most: int = WIDEST) -> Term:
    problem: Error
    try:
        return term(value, aggregate.function.upper(), most)
    except Error as raised:
        problem = raised
    problem.span = problem.span or aggregate.span
    raise problem


def counted_rows(argument: Scalar, condition: Scalar | None) -> Scalar:
    """The rows that COUNT(x) counts: x is neither NULL nor NaN."""
    parts = [negation(is_null(argument))]
    if argument.sqltype.is_float:
        parts.append(negation(float_test("isnan", argument)))
    return conjunction([*parts, condition] if condition is not None else parts)


def _distinct(argument: Scalar, condition: Scalar | None, limited: Limited) -> DistinctValues:
    """COUNT(DISTINCT x): of one unit no more values than are declared, and one where all of its rows have the same."""
    limits = limited.limits
    found = integers(argument.domain) if argument.integral else argument.domain
    declared = 2 if argument.sqltype.is_boolean else len(found.values) if isinstance(found, Categories) else limits.rows
    most = 1 if argument.is_constant else min(limits.rows, limits.values or limits.rows, declared)
    return DistinctValues(argument, condition, most)


def _of_rows(
    aggregate: Aggregate,
    limited: Limited,
    statistics: _Statistics,
    paired: dict[Node | None, Pair | Moments],
    selects: bool,
) -> None:
    """COUNT(*) and COUNT(DISTINCT unit)."""
    condition = tree_of(aggregate.condition)
    one_row = not limited.enforced
    if aggregate.function == "rows" and condition in paired:
        shared = paired[condition]
        whole: Estimate = (
            CountOf(3, shared.term.width, aggregate.sqltype)
            if isinstance(shared, Pair)
            else CountOfMoments(shared, True, aggregate.sqltype)
        )
        statistics.read(aggregate, shared, whole)
    elif (aggregate.function == "units" and not one_row) or (one_row and selects and not condition):
        statistics.read(aggregate, Units(aggregate.condition), CountOf(1))
    else:
        statistics.read(aggregate, Rows(aggregate.condition), CountOf(1, sqltype=aggregate.sqltype))


def _fingerprint(asked: Parts, request: Request, identity: str, reads: Mapping[str, str], few: Few) -> str:
    """What was asked; no scale, threshold or mechanism that was taken, which follow from it (rule 40).

    Why  the statistics alone do not say which aggregate a weight belongs to, nor which columns must be as exact as was asked
    """
    limited, block = asked.limited, asked.limited.block
    unit = block.source.unit
    source, where = block.source.read(), frozenset(condition.tree for condition in block.source.where)
    keys = tuple((key.scalar.tree, key.values) for key in block.keys)
    statistics = tuple(statistic.identity for statistic in asked.statistics)
    tallied = tuple(tallied.identity for tallied in asked.tallied)
    by_aggregate = request.weights is not None or request.goal is not None
    return fingerprint(
        source,
        VERSION,
        tree_of(unit.column) if unit is not None else None,
        where,
        keys,
        tuple((listed.keys, listed.bound) for listed in block.lists),
        (limited.limits.rows, limited.limits.groups, limited.enforced),
        statistics,
        tallied,
        tuple(aggregate.asked for aggregate in block.aggregates) if by_aggregate else (),
        request.text,
        tuple((few.k, tree_of(small.condition), small.outputs) for small in few.small),
        # what is chosen has the error of its own terms: with another accountant it is another question
        str(request.accounted) if request.mechanism != "laplace" and (block.selects or asked.tallied or reads) else "",
        _used(block, reads) if reads else (),
        identity,
    )


def _used(block: Block, reads: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """What the bound tables that a block reads are made of."""
    conditions = (a.condition for a in block.aggregates if a.condition is not None)
    scalars = [*block.source.where, *(key.scalar for key in block.keys), *conditions]
    scalars += [value for a in block.aggregates for value in a.values]
    read = tables(block.source.read()).union({part.bound for part in block.lists}, *(tables(s.tree) for s in scalars))
    return tuple((name, made) for name, made in reads.items() if name in read)
