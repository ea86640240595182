"""measure: Limited -> Release. Aggregates become as few statistics as hold them all; each gets a share of the price and its noise.

COUNT, SUM and AVG of one expression over the same rows share one pair of cells at one price, and COUNT(*) beside them is its third
cell (aggregates/avg.py). A lone SUM or COUNT keeps its own, less noisy, measure. Where one unit has one row, COUNT(*) is the number
of units, which a private key is selected by anyway.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from dpsql.aggregates.avg import AvgOf, Pair, SumOfPair
from dpsql.aggregates.base import Estimate, Statistic
from dpsql.aggregates.count import CountOf, Rows
from dpsql.aggregates.count_distinct import Units
from dpsql.aggregates.sum import SumOf, Total, sum_type
from dpsql.aggregates.term import Term, term
from dpsql.aggregates.unit_total import unit_total
from dpsql.algebra.logic import conjunction, is_null, negation
from dpsql.algebra.mathematical import float_test
from dpsql.algebra.scalar import Scalar, quoted
from dpsql.errors import Error, error
from dpsql.loss import NO_LOSS, PrivacyLoss, total
from dpsql.mechanisms.additive import AdditiveNoise
from dpsql.mechanisms.gaussian import DiscreteGaussian
from dpsql.mechanisms.laplace import DiscreteLaplace
from dpsql.mechanisms.threshold import threshold
from dpsql.plan import Aggregate, Limited, Measure, Output, Release, Selection
from dpsql.planner.canonical import canonical

WIDEST_SCALE = 2**52


@dataclass(slots=True)
class _Statistics:
    """The statistics of one release, each once, and which aggregate reads which."""

    found: dict[str, Statistic] = field(default_factory=dict)
    reads: list[tuple[Aggregate, str, Estimate]] = field(default_factory=list)

    def add(self, statistic: Statistic) -> str:
        self.found.setdefault(statistic.identity, statistic)
        return statistic.identity

    def read(self, aggregate: Aggregate, statistic: Statistic, estimate: Estimate) -> None:
        self.reads.append((aggregate, self.add(statistic), estimate))


def measure(limited: Limited, price: PrivacyLoss, mechanism: str, identity: str, reads: Mapping[str, str]) -> Release:
    """The release of a limited block at a price that its measures share equally.

    identity  canonical text of the declared schema, part of the fingerprint
    reads     what each bound table is made of, by its name: the fingerprint holds it

    Raises 104 (Gaussian noise without a delta), 201 (a sum without bounds), 303 (private keys without an aggregate).
    """
    block = limited.block
    selects = block.selects
    if selects and not block.aggregates:
        raise _no_aggregate(limited)
    statistics = _statistics(limited, selects)
    found = list(statistics.found.values())
    if not found:
        return Release(limited, (), None, (), NO_LOSS, _fingerprint(limited, [], price, mechanism, identity, reads))
    parts = len(found) * (mechanism == "gaussian") + selects
    share = PrivacyLoss(price.epsilon / len(found), price.delta / parts if parts else Fraction(0))
    measures = tuple(_measure(f"m{i}", s, limited, share, mechanism) for i, s in enumerate(found))
    selection = _selection(measures[0], limited, share.delta) if selects else None
    positions = {s.identity: i for i, s in enumerate(found)}
    outputs = tuple(Output(a.name, positions[name], estimate) for a, name, estimate in statistics.reads)
    spent = total(
        [*(m.loss for m in measures), PrivacyLoss(Fraction(0), selection.delta if selection else Fraction(0))]
    )
    fingerprint = _fingerprint(limited, found, price, mechanism, identity, reads)
    return Release(limited, measures, selection, outputs, spent, fingerprint)


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


def _statistics(limited: Limited, selects: bool) -> _Statistics:
    statistics = _Statistics()
    if selects:
        statistics.add(Units(None))
    by_value: dict[tuple[str, str], list[Aggregate]] = {}
    others: list[Aggregate] = []
    for aggregate in limited.block.aggregates:
        if aggregate.argument is None:
            others.append(aggregate)
        else:
            by_value.setdefault((_value_key(aggregate.argument), _text(aggregate.condition)), []).append(aggregate)
    paired: dict[str, Pair] = {}
    for group in by_value.values():
        _of_value(group, others, statistics, paired, not limited.enforced, selects)
    for aggregate in others:
        _of_rows(aggregate, limited, statistics, paired, selects)
    return statistics


def _text(condition: Scalar | None) -> str:
    return condition.sql if condition is not None else ""


def _value_key(argument: Scalar) -> str:
    return f"{argument.sql}|{argument.domain}|{argument.unit_bounds}"


def _of_value(
    group: list[Aggregate],
    others: list[Aggregate],
    statistics: _Statistics,
    paired: dict[str, Pair],
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
    value = _term(next(a for a in group if a.function != "count"))
    result = sum_type(first.argument.sqltype)
    if asked == {"sum"}:
        for aggregate in group:
            statistics.read(aggregate, Total(value, first.condition), SumOf(value.quantum, result))
        return
    condition = _text(first.condition)
    beside = any(o.function == "rows" and _text(o.condition) == condition for o in others)
    with_rows = beside and condition not in paired and not (selects and one_row and not condition)
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


def _term(aggregate: Aggregate) -> Term:
    assert aggregate.argument is not None
    problem: Error
    try:
        return term(aggregate.argument, aggregate.function.upper())
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
    aggregate: Aggregate, limited: Limited, statistics: _Statistics, paired: dict[str, Pair], selects: bool
) -> None:
    """COUNT(*) and COUNT(DISTINCT unit)."""
    condition = _text(aggregate.condition)
    one_row = not limited.enforced
    if aggregate.function == "rows" and condition in paired:
        pair = paired[condition]
        statistics.read(aggregate, pair, CountOf(3, pair.term.width, aggregate.sqltype))
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
    statistics: list[Statistic],
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
        *(s.identity for s in statistics),
        f"price {price.epsilon} {price.delta} {mechanism}",
    ]
    text = canonical("\n".join(parts))
    used = [f"{name} is {made}" for name, made in reads.items() if quoted(name) in text]
    return hashlib.sha256("\n".join([text, *used, identity]).encode()).hexdigest()
