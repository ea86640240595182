"""measure: Limited -> Release. Aggregates become as few statistics as hold them all; each gets a share of the price and its noise.

COUNT, SUM and AVG of one expression over the same rows share one pair of cells at one price, and COUNT(*) beside them is its third
cell (aggregates/avg.py). A lone SUM or COUNT keeps its own, less noisy, measure. Where one unit has one row, COUNT(*) is the number
of units, which a private key is selected by anyway.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction

from dpsql.aggregates.avg import AvgOf, Pair, SumOfPair
from dpsql.aggregates.base import Estimate, Statistic
from dpsql.aggregates.count import CountOf, Rows
from dpsql.aggregates.count_distinct import Units
from dpsql.aggregates.extreme import Extreme, ExtremeOf
from dpsql.aggregates.grid import LEAST_BUCKETS, Grid, width_of
from dpsql.aggregates.mode import Listed, Mode, ModeOf
from dpsql.aggregates.moments import CountOfMoments, Moments, OfMoments, SumOfMoments, widest
from dpsql.aggregates.quantile import Quantile, QuantileOf
from dpsql.aggregates.sum import SumOf, Total, sum_type
from dpsql.aggregates.tally import Reading, Tallied, Terms
from dpsql.aggregates.term import WIDEST, Term, term
from dpsql.aggregates.unit_total import unit_total
from dpsql.algebra.logic import conjunction, is_null, negation
from dpsql.algebra.mathematical import float_test
from dpsql.algebra.scalar import Scalar, quoted
from dpsql.errors import Error, error
from dpsql.loss import NO_LOSS, PrivacyLoss, total
from dpsql.mechanisms.additive import AdditiveNoise
from dpsql.mechanisms.exact_choice import Kind
from dpsql.mechanisms.gaussian import DiscreteGaussian
from dpsql.mechanisms.laplace import DiscreteLaplace
from dpsql.mechanisms.threshold import threshold
from dpsql.plan import Aggregate, Chosen, GroupKey, Limited, Measure, Output, Read, Release, Selection
from dpsql.planner.canonical import canonical
from dpsql.planner.limit import as_listed, key_count
from dpsql.planner.lower import key_sql

WIDEST_SCALE = 2**52


_SPREAD = ("var_pop", "var_samp", "stddev_pop", "stddev_samp")
_OF_VALUE = ("count", "sum", "avg", *_SPREAD)
_OF_TWO = ("covar_pop", "covar_samp", "corr", "regr_slope", "regr_intercept", "regr_r2")


@dataclass(slots=True)
class _Statistics:
    """What one release is made of, each part once, and which aggregate reads which."""

    found: dict[str, Statistic] = field(default_factory=dict)
    tallied: dict[str, Tallied] = field(default_factory=dict)
    reads: list[tuple[Aggregate, str, Estimate]] = field(default_factory=list)
    readings: list[tuple[Aggregate, str, Reading]] = field(default_factory=list)

    def add(self, statistic: Statistic) -> str:
        self.found.setdefault(statistic.identity, statistic)
        return statistic.identity

    def read(self, aggregate: Aggregate, statistic: Statistic, estimate: Estimate) -> None:
        self.reads.append((aggregate, self.add(statistic), estimate))

    def choose(self, aggregate: Aggregate, tallied: Tallied, reading: Reading) -> None:
        self.tallied.setdefault(tallied.identity, tallied)
        self.readings.append((aggregate, tallied.identity, reading))


def measure(
    limited: Limited,
    price: PrivacyLoss,
    mechanism: str,
    identity: str,
    reads: Mapping[str, str],
    units: int | None = None,
) -> Release:
    """The release of a limited block at a price that its parts share equally.

    identity  canonical text of the declared schema, part of the fingerprint
    reads     what each bound table is made of, by its name: the fingerprint holds it
    units     how many units the owner declares there to be, or None

    Raises 104 (Gaussian noise without a delta), 201 (a sum without bounds), 303 (private keys without an aggregate).
    """
    block = limited.block
    selects = block.selects
    if selects and not block.aggregates:
        raise _no_aggregate(limited)
    statistics = _statistics(limited, selects, units)
    found, tallied = list(statistics.found.values()), list(statistics.tallied.values())
    asked = [*statistics.found, *statistics.tallied]
    if not asked:
        return Release(limited, (), None, (), NO_LOSS, _fingerprint(limited, [], price, mechanism, identity, reads))
    parts = len(found) * (mechanism == "gaussian") + selects
    share = PrivacyLoss(price.epsilon / len(asked), price.delta / parts if parts else Fraction(0))
    measures = tuple(_measure(f"m{i}", s, limited, share, mechanism) for i, s in enumerate(found))
    kind: Kind = "exponential" if mechanism == "gaussian" else "permute_and_flip"
    terms = Terms(limited.limits, PrivacyLoss(share.epsilon, Fraction(0)), kind)
    chosen = tuple(Chosen(f"c{i}", part, terms) for i, part in enumerate(tallied))
    selection = _selection(measures[0], limited, share.delta) if selects else None
    positions = {name: i for i, name in enumerate(statistics.found)}
    outputs = tuple(Output(a.name, positions[name], estimate) for a, name, estimate in statistics.reads)
    places = {name: i for i, name in enumerate(statistics.tallied)}
    read = tuple(Read(a.name, places[name], reading) for a, name, reading in statistics.readings)
    spent = total(
        [
            *(m.loss for m in measures),
            *(c.loss for c in chosen),
            PrivacyLoss(Fraction(0), selection.delta if selection else Fraction(0)),
        ]
    )
    fingerprint = _fingerprint(limited, asked, price, mechanism, identity, reads)
    return Release(limited, measures, selection, outputs, spent, fingerprint, chosen, read)


def _no_aggregate(limited: Limited) -> Error:
    block = limited.block
    key = next(key for i, key in enumerate(block.keys) if block.is_selected(i))
    name = key.scalar.sql.rpartition(".")[2].strip('"') if key.scalar.function == "column" else "..."
    return error(
        303,
        "the values of an undeclared domain can only be shown with a count of people",
        hint=f"write SELECT {name}, COUNT(*) ... GROUP BY {name}, or declare its domain",
        span=key.span,
    )


def _statistics(limited: Limited, selects: bool, units: int | None) -> _Statistics:
    statistics = _Statistics()
    if selects:
        statistics.add(Units(None))
    by_value: dict[tuple[str, str], list[Aggregate]] = {}
    by_two: dict[tuple[str, str], list[Aggregate]] = {}
    others: list[Aggregate] = []
    for aggregate in limited.block.aggregates:
        if aggregate.argument is None:
            others.append(aggregate)
        elif aggregate.function in _OF_VALUE:
            by_value.setdefault((_value_key(aggregate.argument), _text(aggregate.condition)), []).append(aggregate)
        elif aggregate.function in _OF_TWO:
            values = "|".join(sorted(_value_key(value) for value in aggregate.values))
            by_two.setdefault((values, _text(aggregate.condition)), []).append(aggregate)
        else:
            _of_tally(aggregate, aggregate.argument, limited, statistics, units)
    paired: dict[str, Pair | Moments] = {}
    for group in by_value.values():
        _of_value(group, others, statistics, paired, not limited.enforced, selects)
    for group in by_two.values():
        _of_two(group, statistics)
    for aggregate in others:
        _of_rows(aggregate, limited, statistics, paired, selects)
    return statistics


def _of_two(group: list[Aggregate], statistics: _Statistics) -> None:
    """Statistics of two values over the same rows: the fewest moments that hold them all."""
    x, y = sorted(group[0].values, key=_value_key)
    degrees = [1, 1]
    for aggregate in group:
        both = aggregate.function in ("corr", "regr_r2")
        swapped = aggregate.second is not None and _value_key(aggregate.second) != _value_key(x)
        on_y = both or (aggregate.function in ("regr_slope", "regr_intercept") and swapped)
        on_x = both or (aggregate.function in ("regr_slope", "regr_intercept") and not swapped)
        degrees = [max(degrees[0], 1 + on_x), max(degrees[1], 1 + on_y)]
    most = widest(sum(degrees))
    terms = tuple(_term_of(value, group[0], most) for value in (x, y))
    moments = Moments(terms, tuple(degrees), group[0].condition)
    for aggregate in group:
        assert aggregate.second is not None
        # REGR_SLOPE(y, x): the second argument is what is regressed on
        on_second = _value_key(aggregate.second) != _value_key(x)
        statistics.read(aggregate, moments, OfMoments(moments, aggregate.function, on_second))


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
            part = _term_of(value, aggregate)
            tally = Grid(part, aggregate.condition, -(-(part.width + 1) // LEAST_BUCKETS))
            extreme = Extreme(tally, aggregate.function == "max")
            statistics.choose(aggregate, extreme, ExtremeOf(extreme, aggregate.sqltype))
        case "top":
            assert aggregate.number is not None
            most = max(
                int(a.number) for a in limited.block.aggregates if a.number is not None and _same_tops(a, aggregate)
            )
            mode = Mode(_listed(aggregate, value), most)
            place = int(aggregate.number) - 1
            statistics.choose(aggregate, mode, ModeOf(mode, place, mode.tally.values, aggregate.sqltype))
        case _:
            raise error(901, f"nothing measures {aggregate.function}")


def _same_tops(one: Aggregate, other: Aggregate) -> bool:
    return replace(one, number=None).text == replace(other, number=None).text


def _grid(aggregate: Aggregate, value: Scalar, limited: Limited, units: int | None) -> Grid:
    part = _term_of(value, aggregate)
    keys = limited.block.keys
    groups = key_count(keys) if all(key.values is not None for key in keys) else 64
    size = units * limited.limits.rows if units is not None else None
    return Grid(part, aggregate.condition, width_of(part, groups, size))


def _listed(aggregate: Aggregate, value: Scalar) -> Listed:
    key = as_listed(GroupKey("v", value, None, aggregate.span))
    values = tuple(v for v in key.values or () if v is not None)
    if len(values) < 2:
        raise error(203, "there is only one declared value to choose from", hint="leave it out", span=aggregate.span)
    travelling = key_sql(replace(key, scalar=replace(value, sql="{x}", args=())))
    return Listed(value, travelling, values, aggregate.condition)


def _text(condition: Scalar | None) -> str:
    return condition.sql if condition is not None else ""


def _value_key(argument: Scalar) -> str:
    return f"{argument.sql}|{argument.domain}|{argument.unit_bounds}"


def _of_value(
    group: list[Aggregate],
    others: list[Aggregate],
    statistics: _Statistics,
    paired: dict[str, Pair | Moments],
    one_row: bool,
    selects: bool,
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
            statistics.read(aggregate, Rows(_counted(first.argument, first.condition)), CountOf(1))
        return
    second = any(a.function in _SPREAD for a in group)
    value = _term_of(first.argument, next(a for a in group if a.function != "count"), widest(2) if second else WIDEST)
    result = sum_type(first.argument.sqltype)
    if asked == {"sum"}:
        for aggregate in group:
            statistics.read(aggregate, Total(value, first.condition), SumOf(value.quantum, result))
        return
    condition = _text(first.condition)
    beside = any(o.function == "rows" and _text(o.condition) == condition for o in others)
    with_rows = beside and condition not in paired and not (selects and one_row and not condition)
    if second:
        _of_spread(group, Moments((value,), (2,), first.condition, with_rows), statistics, paired)
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
    group: list[Aggregate], moments: Moments, statistics: _Statistics, paired: dict[str, Pair | Moments]
) -> None:
    """VAR and STDDEV, and COUNT, SUM and AVG of the same value beside them."""
    if moments.with_rows:
        paired[_text(moments.counted)] = moments
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


def _counted(argument: Scalar, condition: Scalar | None) -> Scalar:
    """The rows that COUNT(x) counts: x is neither NULL nor NaN."""
    parts = [negation(is_null(argument))]
    if argument.sqltype.is_float:
        parts.append(negation(float_test("isnan", argument)))
    return conjunction([*parts, condition] if condition is not None else parts)


def _of_rows(
    aggregate: Aggregate, limited: Limited, statistics: _Statistics, paired: dict[str, Pair | Moments], selects: bool
) -> None:
    """COUNT(*) and COUNT(DISTINCT unit)."""
    condition = _text(aggregate.condition)
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


def _measure(name: str, statistic: Statistic, limited: Limited, share: PrivacyLoss, mechanism: str) -> Measure:
    sensitivity = statistic.sensitivity(limited.limits)
    noise: AdditiveNoise
    if mechanism == "gaussian":
        loss = share
        noise = DiscreteGaussian.for_loss(sensitivity.l2_squared, loss)
        wide = noise.sigma_squared > WIDEST_SCALE**2
    else:
        loss = PrivacyLoss(share.epsilon, Fraction(0))
        noise = DiscreteLaplace.for_loss(sensitivity.l1, loss.epsilon)
        wide = noise.scale > WIDEST_SCALE
    if wide:
        raise error(
            202, "the noise would be too large to add exactly", hint="ask at a larger epsilon, or with smaller limits"
        )
    return Measure(name, statistic, sensitivity, noise, loss)


def _selection(units: Measure, limited: Limited, delta: Fraction) -> Selection:
    """Keys are selected by the first measure, the noisy number of units."""
    return Selection(0, threshold(units.noise, units.sensitivity.l0, delta), delta)


def _fingerprint(
    limited: Limited,
    asked: list[str],
    price: PrivacyLoss,
    mechanism: str,
    identity: str,
    reads: Mapping[str, str],
) -> str:
    """What was asked, in canonical form; no scale, share or threshold, which follow from it."""
    block = limited.block
    unit = block.source.unit
    parts = [
        block.source.from_sql(),
        f"unit {unit.column.sql if unit is not None and unit.column is not None else 'row'}",
        *sorted(condition.sql for condition in block.source.where),
        *(f"key {key.scalar.sql} {key.values}" for key in block.keys),
        *(f"list {listed.keys} {quoted(listed.bound)}" for listed in block.lists),
        f"limits {limited.limits.rows} {limited.limits.groups} {limited.enforced}",
        *asked,
        f"price {price.epsilon} {price.delta} {mechanism}",
    ]
    text = canonical("\n".join(parts))
    used = [f"{name} is {made}" for name, made in reads.items() if quoted(name) in text]
    return hashlib.sha256("\n".join([text, *used, identity]).encode()).hexdigest()
