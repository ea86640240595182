"""noises: the noise that a statistic gets at its loss, by either mechanism, and what private group keys are selected by."""

from __future__ import annotations

from fractions import Fraction

from dpsql.aggregates.base import Limits, Statistic
from dpsql.errors import Error, error
from dpsql.loss import PrivacyLoss
from dpsql.mechanisms.gaussian import DiscreteGaussian
from dpsql.mechanisms.laplace import DiscreteLaplace
from dpsql.mechanisms.threshold import threshold
from dpsql.mechanisms.truncated import TruncatedLaplace
from dpsql.plan import Measure, Selection
from dpsql.spans import Span

WIDEST_SCALE = 2**52


def noisy(name: str, statistic: Statistic, limits: Limits, loss: PrivacyLoss, mechanism: str) -> Measure:
    """A statistic with the noise for a loss; Laplace noise leaves its delta. Raises 202 where the noise would be too wide."""
    sensitivity = statistic.sensitivity(limits)
    if mechanism == "gaussian":
        noise = DiscreteGaussian.for_loss(sensitivity.l2_squared, loss)
        if noise.sigma_squared > WIDEST_SCALE**2:
            raise too_wide()
        return Measure(name, statistic, sensitivity, noise, loss)
    return Measure(
        name,
        statistic,
        sensitivity,
        _laplace(sensitivity.l1, loss.epsilon),
        PrivacyLoss(loss.epsilon, Fraction(0)),
    )


def selecting(
    name: str, units: Statistic, limits: Limits, loss: PrivacyLoss, delta: Fraction, mechanism: str
) -> tuple[Measure, Selection]:
    """The number of units with its noise, and the selection of private keys by it.

    loss   of the noise
    delta  [probability] of the threshold

    Why  Laplace noise spends no delta itself, so it may be cut off instead: the noise then loses (epsilon, delta), and the
         threshold beyond its end nothing. Of the two the one that needs fewer people is taken; where the threshold of
         untruncated noise is as low, its noise is kept
    """
    measure = noisy(name, units, limits, loss, mechanism)
    tau = threshold(measure.noise, measure.sensitivity.l0, delta)
    if mechanism == "laplace":
        both = PrivacyLoss(loss.epsilon, delta)
        cut = TruncatedLaplace.for_loss(measure.sensitivity.l0, both)
        if cut.most + 1 < tau:
            return Measure(name, units, measure.sensitivity, cut, both), Selection(0, cut.most + 1, Fraction(0))
    return measure, Selection(0, tau, delta)


def _laplace(l1: int, epsilon: Fraction) -> DiscreteLaplace:
    noise = DiscreteLaplace.for_loss(l1, epsilon)
    if noise.scale > WIDEST_SCALE:
        raise too_wide()
    return noise


def too_wide(span: Span | None = None) -> Error:
    hint = "ask at a larger epsilon, or with smaller limits"
    return error(202, "the noise would be too large to add exactly", hint=hint, span=span)
