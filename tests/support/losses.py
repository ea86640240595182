"""Least losses of mechanisms, from their parameters, by textbook formulas in floats: beside dpsql's own, exact and rounded up.

Every release is charged at least that, in every measure. rho of a pure mechanism is epsilon tanh(epsilon / 2), that of the exponential
mechanism epsilon^2 / 8, that of Gaussian noise L2^2 / (2 sigma^2) (rule 26); mu of Gaussian noise is L2 / sigma, and that of a
mechanism with randomised response in it that of the Gaussian which errs as little as this.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from math import exp, inf, pi, sqrt, tanh
from statistics import NormalDist

from dpsql.aggregates.argmax import Argmax
from dpsql.aggregates.extreme import Extreme
from dpsql.aggregates.listed_extreme import ListedExtremes
from dpsql.aggregates.mode import Mode
from dpsql.aggregates.quantile import Quantile
from dpsql.core.loss import EpsilonDelta, PrivacyLoss
from dpsql.mechanisms.gaussian import DiscreteGaussian
from dpsql.mechanisms.laplace import DiscreteLaplace
from dpsql.mechanisms.truncated import TruncatedLaplace
from dpsql.plan.releases import NoisyStatistic, Plan, Release, Selected
from tests.support.violation import Violation

_ROUNDING = 1 - 1e-9
_FLAT, _STEEP = 1e-4, 600.0


@dataclass(frozen=True, slots=True)
class Least:
    """epsilon is infinite where there is none without a delta."""

    epsilon: float
    rho: float
    mu_squared: float

    def exceeds(self, loss: PrivacyLoss) -> bool:
        """Tell whether a loss is less than this in any measure."""
        epsilon = inf if loss.epsilon is None else float(loss.epsilon)
        pairs = ((self.epsilon, epsilon), (self.rho, float(loss.rho)), (self.mu_squared, float(loss.mu_squared)))
        return any(charged < least * _ROUNDING for least, charged in pairs)


def pure(epsilon: float) -> Least:
    return Least(epsilon, epsilon * tanh(epsilon / 2), 4 * _normal_odds(epsilon) ** 2)


def exponential(epsilon: float) -> Least:
    """Of log-likelihood ratios between 0 and epsilon, or any other two ends that are epsilon apart."""
    return Least(epsilon, epsilon**2 / 8, 4 * _normal_odds(epsilon / 2) ** 2)


def gaussian(rho: float) -> Least:
    return Least(inf, rho, 2 * rho)


def added(parts: Iterable[Least]) -> Least:
    found = list(parts)
    return Least(sum(p.epsilon for p in found), sum(p.rho for p in found), sum(p.mu_squared for p in found))


def _normal_odds(epsilon: float) -> float:
    """x with P(N < x) = e^epsilon / (1 + e^epsilon); less where epsilon is very small or very large, for digits."""
    if epsilon < _FLAT:
        return epsilon * sqrt(2 * pi) / 4 * (1 - _FLAT**2)
    return -NormalDist().inv_cdf(1 / (1 + exp(min(epsilon, _STEEP))))


def of_measure(measure: NoisyStatistic) -> Least:
    s, noise = measure.sensitivity, measure.noise
    if isinstance(noise, DiscreteGaussian):
        return gaussian(float(s.l2_squared / (2 * noise.sigma_squared)))
    assert isinstance(noise, DiscreteLaplace | TruncatedLaplace)
    return pure(float(s.l1 / noise.scale))


def of_chosen(chosen: Selected) -> Least:
    """Of a unit with as many rows as it may have, by what one row is known to move."""
    terms, rows = chosen.terms, chosen.terms.limits.rows
    choice = exponential if terms.kind == "exponential" else pure
    match chosen.over_histogram:
        case Quantile(fraction=q) as quantile:
            most = max(q.numerator, q.denominator - q.numerator)
            interval = [pure(float(rows / quantile.noise(terms).scale))] * (quantile.aim is not None)
            return added([choice(float(2 * most * rows * quantile.rate(terms))), *interval])
        case Extreme() as extreme:
            return choice(float(2 * rows * extreme.rate(terms)))
        case Mode() as mode:
            return added([choice(float(rows * mode.rate(terms)))] * mode.most)
        case Argmax() as argmax:
            return exponential(float(rows * argmax.sums.spread * argmax.rate(terms)))
        case ListedExtremes() as extreme:
            return pure(float(rows / extreme.noise(terms).scale))
    return pure(float(terms.epsilon))


def check_release(release: Release, sql: str) -> None:
    """Raises Violation where anything is charged less than it loses."""
    for measure in release.measures:
        # noise converted to an epsilon and a delta has these beside its rho
        least = of_measure(measure)
        converted = isinstance(measure.noise, DiscreteGaussian) and measure.loss.epsilon is not None
        if converted and (not measure.loss.delta or not measure.loss.epsilon):
            raise Violation(f"Gaussian noise is charged an epsilon without a delta in {sql}")
        if Least(0.0 if converted else least.epsilon, least.rho, least.mu_squared).exceeds(measure.loss):
            raise Violation(f"the noise of {measure.name} loses more than it is charged in {sql}")
    for chosen in release.chosen:
        if of_chosen(chosen).exceeds(chosen.loss):
            raise Violation(f"{chosen.name} loses more than it is charged in {sql}")


def check_plan(plan: Plan, sql: str) -> None:
    """The losses of all parts add up to the plan's, in every measure, and are within the price. Raises Violation."""
    parts = [part.loss for release in plan.releases for part in release.parts]
    thresholds = [release.selection.delta for release in plan.releases if release.selection is not None]
    delta = sum([*(part.delta for part in parts), *thresholds], Fraction(0))
    epsilons = [part.epsilon for part in parts]
    known = [e for e in epsilons if e is not None]
    spent = plan.loss
    same = (
        spent.epsilon == (sum(known) if len(known) == len(epsilons) else None)
        and spent.rho == sum(part.rho for part in parts)
        and spent.mu_squared == sum(part.mu_squared for part in parts)
        and spent.delta == delta
    )
    if not same:
        raise Violation(f"what is charged is not what is measured in {sql}")
    if not fits(spent, plan.price):
        raise Violation(f"more is charged than was asked in {sql}")


def fits(loss: PrivacyLoss, price: EpsilonDelta) -> bool:
    """By its epsilon; without one by the rho that a pure mechanism of the same price may have (rule 27)."""
    if loss.delta > price.delta:
        return False
    if loss.epsilon is not None:
        return loss.epsilon <= price.epsilon
    return float(loss.rho) * _ROUNDING <= pure(float(price.epsilon)).rho
