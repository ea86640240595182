"""noises: the noise that a statistic gets for its part of a price, and what private group keys are selected by."""

from __future__ import annotations

from fractions import Fraction

from dpsql.aggregates.base import Limits, Statistic
from dpsql.core.errors import Error, error
from dpsql.core.loss import EpsilonDelta
from dpsql.core.spans import Span
from dpsql.mechanisms.conversions import pure
from dpsql.mechanisms.threshold import threshold
from dpsql.mechanisms.truncated import TruncatedLaplace
from dpsql.plan.releases import Measure, Selection
from dpsql.planner.pricing import Pricing

WIDEST_SCALE = 2**52


def noisy(name: str, statistic: Statistic, limits: Limits, amount: Fraction, pricing: Pricing) -> Measure:
    """A statistic with the noise that costs an amount. Raises 202 where the noise would be too wide."""
    measure = pricing.measured(name, statistic, limits, amount)
    if measure.noise.squared_scale > WIDEST_SCALE**2:
        raise too_wide()
    return measure


def selecting(
    name: str, units: Statistic, limits: Limits, amount: Fraction, pricing: Pricing
) -> tuple[Measure, Selection]:
    """The number of units with its noise, and the selection of private keys by it, which spends the pricing's delta.

    Why  Laplace noise spends no delta itself, so it may be cut off instead: the noise then loses (epsilon, delta), and the
         threshold beyond its end nothing. Of the two the one that needs fewer people is taken; where the threshold of
         untruncated noise is as low, its noise is kept
    """
    measure, delta = noisy(name, units, limits, amount, pricing), pricing.delta
    tau = threshold(measure.noise, measure.sensitivity.l0, delta)
    if pricing.mechanism == "laplace":
        cut = TruncatedLaplace.for_loss(measure.sensitivity.l0, EpsilonDelta(amount, delta))
        if cut.most + 1 < tau:
            chosen = Measure(name, units, measure.sensitivity, cut, pure(amount, delta))
            return chosen, Selection(0, cut.most + 1, Fraction(0))
    return measure, Selection(0, tau, delta)


def too_wide(span: Span | None = None) -> Error:
    hint = "ask at a larger epsilon, or with smaller limits"
    return error(202, "the noise would be too large to add exactly", hint=hint, span=span)
