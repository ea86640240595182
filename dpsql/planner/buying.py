"""buying: the parts of a release get their losses and their noise, and "auto" its mechanism."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from dpsql.core.errors import Error, error
from dpsql.core.loss import PrivacyLoss, only_delta, total
from dpsql.mechanisms.calibration import BY_NAME
from dpsql.mechanisms.prices import costs_at_most, nominal
from dpsql.plan.releases import Comparison, NoisyStatistic, Selected, Selection
from dpsql.planner import accurate, shares
from dpsql.planner.pricing import MECHANISMS, Pricing, noisy, selecting
from dpsql.planner.request import Parts, Request

NO_MORE = 1.002
"""Errors in those of another way that are no more: whole scales are off by one in a thousand."""
MOST_NAMED = 6
"""Number of aggregates that a message names."""


@dataclass(frozen=True, slots=True)
class Calibrated:
    """The parts with their noise.

    compared  why a mechanism was taken, where it was not asked for
    raised    whether the accuracy that was asked costs less than the owner's least
    """

    measures: tuple[NoisyStatistic, ...]
    selection: Selection | None
    chosen: tuple[Selected, ...]
    compared: Comparison | None = None
    raised: bool = False

    @property
    def loss(self) -> PrivacyLoss:
        delta = self.selection.delta if self.selection is not None else Fraction(0)
        return total([*(m.loss for m in self.measures), *(c.loss for c in self.chosen), only_delta(delta)])


def buy(parts: Parts, request: Request) -> Calibrated:
    """The parts at their shares of the price, or at the least that gives the accuracy that was asked.

    Raises 104 (weights or an accuracy that do not fit the statement), 202 (noise too wide), 502 (an accuracy above the cap).
    """
    if request.accuracy_target is not None:
        accurate.check(parts, request)
    if request.weights is not None:
        _check_weights(parts, request.weights)
    bought = _better(parts, request) if request.mechanism == "auto" else _bought(parts, request, request.mechanism)
    if request.accuracy_target is not None and not costs_at_most(bought.loss, request.price):
        raise _above_cap((parts,), request)
    return bought


def buy_one(ways: Sequence[Parts], request: Request) -> tuple[int, Calibrated]:
    """Buy one of several ways to make the same columns: of those that err no more than the first in any column the one that errs least.

    For an accuracy it is the cheapest. Where none can be bought, the error is that of the first.
    """
    found: list[tuple[int, Calibrated]] = []
    problems: list[Error] = []
    for place, parts in enumerate(ways):
        try:
            found.append((place, buy(parts, request)))
        except Error as problem:
            problems.append(problem)
    if not found:
        dear = len(ways) > 1 and problems[0].code == "DPSQL-502"
        raise (_above_cap(ways, request) if dear else problems[0]).with_traceback(None) from None
    if request.accuracy_target is not None:
        return min(found, key=lambda way: nominal(way[1].loss))
    if len(found) == 1:
        return found[0]
    first = _errors(ways[found[0][0]], found[0][1])
    relative = [_relative(_errors(ways[place], bought), first) for place, bought in found]
    _, best = min((sum(each), i) for i, each in enumerate(relative) if max(each, default=1.0) <= NO_MORE)
    return found[best]


def _errors(parts: Parts, bought: Calibrated) -> dict[str, tuple[float, ...]]:
    """The errors of every column, as far as they are known before it is released; of keys that are selected the threshold."""
    found = {a.name: e.errors(bought.measures[place].noise, shares.LEVEL) for a, place, e in parts.reads}
    if bought.selection is not None:
        found[""] = (bought.selection.tau,)
    return found


def _relative(errors: dict[str, tuple[float, ...]], first: dict[str, tuple[float, ...]]) -> list[float]:
    """Errors in those of the first way; where that has none, as at a large price, 1 for none and more than 1 for some."""
    pairs = [pair for name in first for pair in zip(errors[name], first[name], strict=False)]
    return [one / other if other else 1.0 + bool(one) for one, other in pairs]


def _above_cap(ways: Sequence[Parts], request: Request) -> Error:
    return accurate.above_cap(
        ways, request, request.accounted.auto if request.mechanism == "auto" else (request.mechanism,)
    )


def _bought(parts: Parts, request: Request, mechanism: str) -> Calibrated:
    if not request.price.delta:
        _check_pure(parts, mechanism)
    pricing = request.pricing(parts, mechanism)
    if request.accuracy_target is not None:
        amounts = accurate.amounts(parts, request, request.accuracy_target.error, pricing)
        if amounts is None:
            raise _above_cap((parts,), request)
        return _at_least(parts, amounts, pricing, pricing.of_epsilon(request.least))
    whole = request.amount(pricing)
    if request.weights is not None:
        return _with_noise(parts, [whole * s for s in _weighted(parts, request.weights)], pricing)
    alike = shares.equal(parts.statistics, len(parts.over_histogram))
    equal = _with_noise(parts, [whole * s for s in alike], pricing)
    in_a_group = shares.people_in_a_group(parts.limited, request.units)
    found = shares.shares(equal.measures, len(parts.over_histogram), parts.limited.limits, in_a_group, pricing)
    if found == alike:
        return equal
    return _with_noise(parts, [whole * s for s in found], pricing)


def _check_pure(parts: Parts, mechanism: str) -> None:
    """Refuse what spends delta where the price has none. Raises 104."""
    if parts.selects:
        key = next(key for i, key in enumerate(parts.limited.block.keys) if parts.limited.block.is_selected(i))
        what = "group keys that are not declared are selected at a delta, and this price has none"
        raise error(104, what, hint="declare the key's domain, or write delta=1e-9", span=key.span)
    if not BY_NAME[mechanism].pure and parts.statistics:
        what = f"{BY_NAME[mechanism].told.removeprefix('discrete ')} noise spends delta, and this price has none"
        raise error(104, what, hint="write mechanism=laplace, or delta=1e-9")


def _at_least(parts: Parts, amounts: Sequence[Fraction], pricing: Pricing, least: Fraction) -> Calibrated:
    """The parts at an amount each; where they are less than the least together, at as many times it as makes up the least."""
    whole = sum(amounts, Fraction(0))
    if whole >= least:
        return _with_noise(parts, amounts, pricing)
    return replace(_with_noise(parts, [amount * least / whole for amount in amounts], pricing), raised=True)


def _with_noise(parts: Parts, amounts: Sequence[Fraction], pricing: Pricing) -> Calibrated:
    """The parts at an amount each."""
    limits = parts.limited.limits
    selection: Selection | None = None
    measures: list[NoisyStatistic] = []
    for i, statistic in enumerate(parts.statistics):
        if parts.selects and i == 0:
            measure, selection = selecting(f"m{i}", statistic, limits, amounts[i], pricing)
        else:
            measure = noisy(f"m{i}", statistic, limits, amounts[i], pricing)
        measures.append(measure)
    rest = amounts[len(parts.statistics) :]
    chosen = tuple(
        Selected(f"c{i}", part, pricing.terms(part, limits, amount))
        for i, (part, amount) in enumerate(zip(parts.over_histogram, rest, strict=True))
    )
    return Calibrated(tuple(measures), selection, chosen)


# --- weights that the caller gives --------------------------------------------------------------------------------


def _check_weights(parts: Parts, weights: Sequence[Fraction]) -> None:
    aggregates = parts.limited.block.aggregates
    if len(weights) != len(aggregates):
        names = [accurate.name_of(a) for a in aggregates]
        listed = ", ".join([*names[:MOST_NAMED], *["..."] * (len(names) > MOST_NAMED)])
        ones = ":".join("1" for _ in names) if len(names) <= MOST_NAMED else "1:1:..."
        raise error(
            104,
            f"weights has {_counted(len(weights), 'number')}, and the statement has "
            f"{_counted(len(names), 'different aggregate')}: {listed}",
            hint=f"write weights={ones}, one number for each in this order",
        )


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" + "s" * (count != 1)


def _weighted(parts: Parts, weights: Sequence[Fraction]) -> tuple[Fraction, ...]:
    """A part that several aggregates read takes the largest of their weights."""
    own = {a.name: weight for a, weight in zip(parts.limited.block.aggregates, weights, strict=True)}
    read = [[own[a.name] for a, place, _ in parts.reads if place == i] for i in range(len(parts.statistics))]
    chosen = [[own[a.name] for a, place, _ in parts.readings if place == i] for i in range(len(parts.over_histogram))]
    return shares.by_weights([max(found, default=None) for found in [*read, *chosen]])


# --- "auto" -------------------------------------------------------------------------------------------------------


def _better(parts: Parts, request: Request) -> Calibrated:
    """The mechanism with the smaller error at this price, or the smaller price for this accuracy; Laplace of two equals.

    Why  the choice reads the text and the declared schema alone, so it says nothing about the data
    """
    mechanisms = request.accounted.auto
    if not parts.statistics:
        # nothing is added. Permute-and-flip is never worse at the same epsilon; the exponential mechanism has a quarter of its rho
        return _bought(parts, request, mechanisms[0] if request.accounted.by_rho else "laplace")
    found: list[tuple[str, Calibrated]] = []
    problems: list[Error] = []
    for mechanism in MECHANISMS if len(mechanisms) > 1 else mechanisms:
        try:
            found.append((mechanism, _bought(parts, request, mechanism)))
        except Error as problem:
            problems.append(problem)
    if not found:
        raise problems[0].with_traceback(None) from None
    if len(mechanisms) == 1:
        return found[0][1]
    if len(found) == 1:
        return replace(found[0][1], compared=Comparison(found[0][0], None, ""))
    if request.accuracy_target is not None:
        what, sizes = "epsilon for this accuracy", [nominal(bought.loss) for _, bought in found]
    else:
        what = "threshold with its 95 % errors" if parts.selects else "95 % error"
        sizes = [_error(bought, parts, request) for _, bought in found]
    better = 0 if sizes[0] <= sizes[1] else 1
    # at large prices neither has an error
    share = sizes[better] / sizes[1 - better] if sizes[1 - better] else Fraction(1)
    return replace(found[better][1], compared=Comparison(found[better][0], share, what))


def _error(bought: Calibrated, parts: Parts, request: Request) -> Fraction:
    """The 95 % half-width of one cell of each measure, relative to what is expected of it, added up.

    Of the number of people that keys are selected by it is the threshold: what is not shown is off by all of itself.
    """
    in_a_group = shares.people_in_a_group(parts.limited, request.units)
    values = shares.sizes(bought.measures, parts.limited.limits, in_a_group)
    values = values or [Fraction(m.sensitivity.l1) for m in bought.measures]
    widths = [m.noise.half_width(shares.LEVEL) for m in bought.measures]
    if bought.selection is not None:
        widths[0] = bought.selection.tau
    return sum((Fraction(w) / v for w, v in zip(widths, values, strict=True)), Fraction(0))
