"""accurate: an accuracy in place of a price. What each statistic must cost so that every column is as exact as was asked (rule 43).

The half-width of a column follows from the exact distribution of its noise, at the confidence that was asked: a COUNT read off a pair
of cells is wider than one by itself. It falls as epsilon grows, so the least epsilon of three digits that is enough is found by
bisection, for every statistic by itself, and the price is their sum: no other shares give every column this accuracy for less. A
statistic that only selects private keys has no column; it costs the average of the others.

Reads the text and the declared schema alone. That a half-width is a float decides the price, never what the noise at that price is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial

from dpsql.aggregates.base import Estimate, Noise
from dpsql.aggregates.record import Aggregate
from dpsql.core.errors import Error, error
from dpsql.mechanisms.additive import AdditiveNoise, smallest
from dpsql.plan.releases import BoundedBlock
from dpsql.plan.resolved import AccuracyTarget, PostQuery
from dpsql.planner.pricing import Pricing, noisy, selecting
from dpsql.planner.request import Parts, Request
from dpsql.planner.shares import people_in_a_group

_EPSILONS = (Fraction(1, 10**9), Fraction(1000))
_ERRORS = (Fraction(1, 10**9), Fraction(10**24))
"""Between which a price is looked for, and an accuracy."""
_INSTEAD = "name a price instead: epsilon=0.1"


# --- what an accuracy can be asked of -----------------------------------------------------------------------------


def check_statement(limited: Sequence[BoundedBlock], post_query: PostQuery) -> None:
    """One release, and each of its aggregates is a column as it is. Raises 104."""
    paid = [part.block for part in limited if part.block.aggregates]
    if len(paid) > 1:
        what = f"error= is the error of one release, and this statement has {len(paid)}"
        raise error(104, what, hint=f"ask them one by one, or {_INSTEAD}")
    for block in paid:
        for aggregate in block.aggregates:
            if not post_query.traced or (block.name, aggregate.name) not in post_query.direct:
                what = f"error= is the error of a column, and {name_of(aggregate)} is not shown as it is released"
                raise error(104, what, hint=f"select it without arithmetic, or {_INSTEAD}", span=aggregate.span)


def check(parts: Parts, request: Request) -> None:
    """Every column has an error that is known before it is released. Raises 104."""
    accuracy_target, in_a_group = request.accuracy_target, people_in_a_group(parts.limited, request.units)
    assert accuracy_target is not None
    for aggregate, _, _ in parts.readings:
        what = f"{name_of(aggregate)} is chosen, not added to: no error in its own unit is known before"
        raise error(104, what, hint=f"ask for COUNT or SUM, or {_INSTEAD}", span=aggregate.span)
    for aggregate, place, estimate in parts.reads:
        problem = _problem(aggregate, parts, place, estimate, accuracy_target, in_a_group)
        if problem is not None:
            problem.span = aggregate.span
            raise problem


def _problem(
    aggregate: Aggregate,
    parts: Parts,
    place: int,
    estimate: Estimate,
    accuracy_target: AccuracyTarget,
    in_a_group: Fraction | None,
) -> Error | None:
    name = name_of(aggregate)
    if estimate.depends:
        return error(
            104, f"the error of {name} depends on what is released", hint=f"ask for COUNT or SUM, or {_INSTEAD}"
        )
    if estimate.over_rows is not None and in_a_group is None:
        what = f"the error of {name} needs a number of rows, which is not declared for a group"
        return error(104, what, hint=f"declare privacy.units, and a domain for each group key, or {_INSTEAD}")
    counts_people = estimate.counts and (not parts.limited.enforced or parts.statistics[place].counts_units)
    if accuracy_target.relative and (in_a_group is None or not counts_people):
        return error(
            104,
            f"a relative error needs a size, and that of {name} in a group is not declared",
            hint="write the error as a number, such as error=50",
        )
    return None


def name_of(aggregate: Aggregate) -> str:
    """An aggregate as a caller calls it."""
    return aggregate.record.short or aggregate.function.upper()


# --- what it costs ------------------------------------------------------------------------------------------------


def amounts(parts: Parts, request: Request, wanted: Fraction, pricing: Pricing) -> tuple[Fraction, ...] | None:
    """The least amount of each statistic for which all of its columns are within `wanted`; None where none is enough."""
    accuracy_target, in_a_group = request.accuracy_target, people_in_a_group(parts.limited, request.units)
    assert accuracy_target is not None
    most = wanted * in_a_group if accuracy_target.relative and in_a_group is not None else wanted
    found: list[Fraction | None] = []
    for place in range(len(parts.statistics)):
        columns = parts.estimates(place)
        noise = _noise_of(parts, place, pricing)
        least = _least(partial(_width, noise, columns, accuracy_target, in_a_group), most) if columns else None
        if columns and least is None:
            return None
        found.append(least)
    known = [e for e in found if e is not None]
    average = _number(_place(sum(known, Fraction(0)) / len(known)))
    return tuple(pricing.of_epsilon(average if e is None else e) for e in found)


def _noise_of(parts: Parts, place: int, pricing: Pricing) -> Callable[[Fraction], AdditiveNoise | None]:
    """The noise of one statistic at a price of epsilon; None where it would be too wide."""
    statistic, limits = parts.statistics[place], parts.limited.limits

    def noise(epsilon: Fraction) -> AdditiveNoise | None:
        amount = pricing.of_epsilon(epsilon)
        try:
            if parts.selects and place == 0:
                return selecting("", statistic, limits, amount, pricing)[0].noise
            return noisy("", statistic, limits, amount, pricing).noise
        except Error:
            return None

    return noise


def _width(
    noise_at: Callable[[Fraction], AdditiveNoise | None],
    columns: Sequence[Estimate],
    accuracy_target: AccuracyTarget,
    in_a_group: Fraction | None,
    epsilon: Fraction,
) -> float | None:
    """The half-width of the widest column, in its own unit; None where there is no such noise."""
    noise = noise_at(epsilon)
    if noise is None:
        return None
    return max(_half_width(estimate, noise, accuracy_target.confidence, in_a_group) for estimate in columns)


def _half_width(estimate: Estimate, noise: Noise, level: Fraction, in_a_group: Fraction | None) -> float:
    """Of an average, about that of one cell over the declared number of people, one row each."""
    if estimate.over_rows is not None and in_a_group is not None:
        return float(noise.half_width_of_sum(1, level) * estimate.over_rows / in_a_group)
    width = estimate.half_width(noise, level)
    if width is None:
        raise error(901, "an accuracy was asked of what has no half-width")
    return width


def _least(width: Callable[[Fraction], float | None], most: Fraction) -> Fraction | None:
    """The least epsilon of three digits at which a width is at most `most`; None where a thousand is not enough."""
    low, high = (_place(end) for end in _EPSILONS)
    first = width(Fraction(1, 10))
    # a width is about inversely proportional to epsilon
    guess = Fraction(1, 10) * Fraction(first or 1.0) / most

    def is_enough(place: int) -> bool:
        if not low <= place <= high:
            return place > high
        found = width(_number(place))
        return found is not None and found <= most

    place = smallest(is_enough, min(high, max(low, _place(guess))))
    return _number(place) if place <= high else None


# --- above the cap ------------------------------------------------------------------------------------------------


def above_cap(ways: Sequence[Parts], request: Request, mechanisms: Sequence[str]) -> Error:
    """502: what the accuracy would cost in the cheapest of several ways, and which accuracy the cap would buy."""
    accuracy_target, cap = request.accuracy_target, request.price.epsilon
    assert accuracy_target is not None

    def cost(wanted: Fraction) -> Fraction | None:
        pricings = [(parts, request.pricing(parts, mechanism)) for parts in ways for mechanism in mechanisms]
        found = [(pricing, amounts(parts, request, wanted, pricing)) for parts, pricing in pricings]
        return min((pricing.epsilon(each) for pricing, each in found if each is not None), default=None)

    def is_cheap(place: int) -> bool:
        found = cost(_number(place)) if place < top else None
        return place >= top or (found is not None and found <= cap)

    asked, (bottom, top) = cost(accuracy_target.error), (_place(end) for end in _ERRORS)
    guess = accuracy_target.error * (asked / cap if asked is not None else 1)
    place = smallest(is_cheap, min(top, max(bottom, _place(guess))))
    price = f"epsilon {float(asked):g}" if asked is not None else f"more than epsilon {float(_EPSILONS[1]):g}"
    message = (
        f"error = {accuracy_target.words} costs {price}, above the owner's cap of {float(cap):g} for one statement"
    )
    best = _shown(_number(place), accuracy_target)
    hint = (
        f"at {float(cap):g} the error is {best}: write error={best} or more" if place < top else "ask for less at once"
    )
    return error(502, message, hint=hint)


def _shown(number: Fraction, accuracy_target: AccuracyTarget) -> str:
    return f"{float(100 * number):g}%" if accuracy_target.relative else f"{float(number):g}"


# --- numbers of three digits --------------------------------------------------------------------------------------


def _number(place: int) -> Fraction:
    """The numbers of three digits in their order, 1 at place 0.

    >>> [str(_number(place)) for place in (-900, 0, 1, 899, 900)]
    ['1/10', '1', '101/100', '999/100', '10']
    """
    return Fraction(100 + place % 900, 100) * Fraction(10) ** (place // 900)


def _place(number: Fraction) -> int:
    """The place of the first one at or above a positive number."""
    power = 0
    while Fraction(10) ** (power + 1) <= number:
        power += 1
    while Fraction(10) ** power > number:
        power -= 1
    digits = number * 100 / Fraction(10) ** power
    return 900 * power - 100 + -(-digits.numerator // digits.denominator)
