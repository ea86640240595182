"""The mechanisms that a price buys for a vector, a record each: its noise, what that loses, and what else depends on which it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from dpsql.core import events
from dpsql.core.loss import EpsilonDelta, PrivacyLoss
from dpsql.mechanisms import laplace, truncated
from dpsql.mechanisms.additive import AdditiveNoise
from dpsql.mechanisms.conversions import approximate, gaussian, pure
from dpsql.mechanisms.exact_choice import Kind
from dpsql.mechanisms.gaussian import EVENTS, DiscreteGaussian
from dpsql.mechanisms.laplace import DiscreteLaplace
from dpsql.mechanisms.truncated import TruncatedLaplace

NO_MU = Fraction(10**30)
"""The square of a mu that no total has room for."""


@dataclass(frozen=True, slots=True)
class Moved:
    """Distance by which one unit moves a vector [quanta]."""

    l1: int
    l2_squared: int
    cells: int


@dataclass(frozen=True, slots=True)
class Target:
    """Loss that a part of a release may have.

    amount    of epsilon, or of rho where `by_rho`
    delta     [probability] where it spends some
    for_grid  [probability] the most that the grid of Gaussian noise may spend; where it needs more, no mu is claimed
    most      the dataset's epsilon
    """

    amount: Fraction
    by_rho: bool
    delta: Fraction
    for_grid: Fraction
    most: Fraction


@dataclass(frozen=True, slots=True)
class Mechanism:
    """Noise that is added to a vector.

    name       as declarations and options call it
    told       in words
    pure       whether it has an epsilon without a delta; then it is never priced in rho
    kind       how one of several candidates is chosen beside it
    calibrate  the noise for a target, and what it loses
    square     of the sensitivity that its scale follows
    kinds      the events that it runs as
    kept       the noise of the parameter that stored answers keep under its name; None: nothing is read off its answers
    cut        the same noise with an end, for the selection of keys with so many cells moved: its delta is spent there
    """

    name: str
    told: str
    pure: bool
    kind: Kind
    calibrate: Callable[[Moved, Target], tuple[AdditiveNoise, PrivacyLoss]]
    square: Callable[[Moved], int]
    kinds: tuple[events.Kind, ...]
    kept: Callable[[Fraction], AdditiveNoise] | None = None
    cut: Callable[[int, EpsilonDelta], AdditiveNoise] | None = None


def _laplace(moved: Moved, target: Target) -> tuple[AdditiveNoise, PrivacyLoss]:
    return DiscreteLaplace.for_loss(moved.l1, target.amount), pure(target.amount)


def _gaussian(moved: Moved, target: Target) -> tuple[AdditiveNoise, PrivacyLoss]:
    if not target.by_rho:
        price = EpsilonDelta(target.amount, target.delta)
        noise = DiscreteGaussian.for_loss(moved.l2_squared, price)
        return noise, approximate(price, noise.rho(moved.l2_squared))
    noise = DiscreteGaussian.for_rho(moved.l2_squared, target.amount)
    loss = gaussian(noise.rho(moved.l2_squared), noise.approximation_delta(moved.cells, target.most))
    if loss.delta > target.for_grid:
        loss = replace(loss, delta=Fraction(0), mu_squared=NO_MU)
    return noise, loss


LAPLACE = Mechanism(
    "laplace",
    "discrete Laplace",
    True,
    "permute_and_flip",
    _laplace,
    lambda moved: moved.l1**2,
    (laplace.EVENT, truncated.EVENT),
    DiscreteLaplace,
    TruncatedLaplace.for_loss,
)
GAUSSIAN = Mechanism(
    "gaussian",
    "discrete Gaussian",
    False,
    "exponential",
    _gaussian,
    lambda moved: moved.l2_squared,
    EVENTS,
    DiscreteGaussian,
)
BY_NAME: Mapping[str, Mechanism] = {mechanism.name: mechanism for mechanism in (LAPLACE, GAUSSIAN)}
"""Those that can be asked for."""


def noise_of(kept: tuple[str, Fraction]) -> AdditiveNoise | None:
    """The noise that was kept so; None for a kind that nothing is read off."""
    name, parameter = kept
    made = BY_NAME[name].kept if name in BY_NAME else None
    return made(parameter) if made is not None else None
