"""Noise of a cube's cells: as it is bought, on the coefficients of all of them together, and as it is in what is read off.

What is read off is a weighted sum of many coefficients, each with a discrete Gaussian on a grid so fine that it is the continuous one
(gaussian.TOTAL_VARIATION): a Gaussian of the sum of their variances, rounded to whole numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from math import ceil, erfc, hypot, sqrt
from statistics import NormalDist

from dpsql.core.columns import Column
from dpsql.core.errors import error
from dpsql.core.events import Event
from dpsql.core.loss import PrivacyLoss
from dpsql.mechanisms.additive import AdditiveNoise, Floats, NoiseReadOff, SharedNoise
from dpsql.mechanisms.bounds import up
from dpsql.mechanisms.conversions import gaussian
from dpsql.mechanisms.gaussian import DiscreteGaussian, event_of
from dpsql.mechanisms.residual import Residual
from dpsql.mechanisms.source import NoiseSource
from dpsql.mechanisms.weighted import gaussian_quantiles

_ABOVE = 1 + 1e-9


@dataclass(frozen=True, slots=True)
class GroupsOff:
    """Groups that are read off a cube together.

    parts    of what each of their numbers is made: the variances, and the square of the weight
    weights  of the values of each axis; None: it is summed
    kept     the axes whose values are told apart
    cells    of each part the statistic and its cell that it is of, and its sign
    """

    parts: tuple[tuple[Residual, Fraction], ...]
    weights: tuple[tuple[float, ...] | None, ...]
    kept: tuple[int, ...]
    cells: tuple[tuple[int, int, int], ...] = ()

    def variance(self, values: Sequence[int]) -> Fraction:
        """Of the sum of the groups with so many values of each axis that is kept: by (2) of residual.py, whichever values these are."""
        return sum(_variances(self, tuple(values)), Fraction(0))

    def shared(self, values: Sequence[int]) -> tuple[SharedNoise, ...]:
        """The noise of the cells that this sum is made of: it is the same in other numbers that are made of these."""
        found = zip(self.cells, _variances(self, tuple(values)), strict=True)
        return tuple(SharedNoise((statistic, cell), sign * sqrt(v)) for (statistic, cell, sign), v in found)


@lru_cache(maxsize=1024)
def _variances(groups: GroupsOff, values: tuple[int, ...]) -> tuple[Fraction, ...]:
    chosen = dict(zip(groups.kept, values, strict=True))
    shape = groups.parts[0][0].shape
    weights = [
        [1.0] * chosen[i] + [0.0] * (shape[i] - chosen[i]) if i in chosen else own
        for i, own in enumerate(groups.weights)
    ]
    return tuple(residual.variance(weights) * square for residual, square in groups.parts)


@dataclass(frozen=True, slots=True)
class RoundedGaussian(NoiseReadOff):
    """Gaussian noise of a known variance, rounded to a whole number: what is in a cell that was read off, and never drawn as one.

    variance  [quanta^2]
    groups    that it is read off with: their noise is not independent
    values    of a total the number of values of each of their axes; () of one group
    """

    variance: Fraction
    groups: GroupsOff | None = None
    values: tuple[int, ...] = ()

    @property
    def shared(self) -> tuple[SharedNoise, ...]:
        if self.groups is None or not self.groups.cells:
            return ()
        found = self.groups.shared(self.values or [1] * len(self.groups.kept))
        rest = float(self.variance) - sum(one.deviation**2 for one in found)
        return (*found, SharedNoise(None, sqrt(max(0.0, rest))))

    @property
    def sigma(self) -> float:
        return sqrt(self.variance)

    @property
    def deviation(self) -> float:
        return self.sigma

    def tail(self, m: int) -> Fraction:
        return min(Fraction(1), Fraction(erfc((m - 0.5) / (self.sigma * sqrt(2))) / 2 * _ABOVE))

    def half_width(self, level: Fraction) -> int:
        """The smallest h with 2 P(X > h + 1/2) <= 1 - level."""
        return max(0, ceil(_normal(level) * self.sigma - 0.5))

    def half_width_of_sum(self, copies: int, level: Fraction) -> int:
        return self.half_width(level) if copies == 1 else ceil(self.half_width_of_weights((1.0,) * copies, level))

    def half_width_of_weights(self, weights: Sequence[float], level: Fraction) -> float:
        """Half a quantum more for the rounding of each."""
        return hypot(*weights) * _normal(level) * self.sigma + sum(abs(w) for w in weights) / 2

    def at(self, points: Floats) -> Floats:
        return gaussian_quantiles(self.sigma, points)

    def describe(self) -> str:
        return f"Gaussian of a cube, sigma {self.sigma:.6g}"

    @property
    def squared_scale(self) -> Fraction:
        return self.variance


def _normal(level: Fraction) -> float:
    return NormalDist().inv_cdf((1 + float(level)) / 2)


@dataclass(frozen=True, slots=True)
class ResidualGaussian(AdditiveNoise):
    """Discrete Gaussians on the coefficients of a statistic's cells, over all groups of a cube (residual.py).

    residual  the variances, for a row that adds 1
    weights   the most that a row adds to each of the statistic's cells [quanta]; a row adds to one of them alone
    rows      of one unit
    apart     an axis on which no two rows of a unit have the same value
    Input     squared sensitivity (rows * weights[0])^2, where the other cells count weights[0] / weight times
    Output    rho = residual.rho(rows, apart) of zCDP, exactly; mu^2 = 2 rho of GDP, after approximation_delta; no epsilon without a
              delta. For m > rows (m / rows)^2 times that, which is no less than residual.rho(m, apart); for fewer all the same
    Why       of a row, either its part of the first cell, over weights[0], is at most 1 and the others are 0, or the other way
              round: in the scale of the noise it moves the coefficients of all cells together as one row of a count does, and the
              squares of rows in different cells add up to no more than if all were in one
    """

    residual: Residual
    weights: tuple[int, ...]
    rows: int = 1
    apart: int | None = None
    least: Fraction = field(init=False, compare=False)

    def __post_init__(self) -> None:
        found = map(self.residual.of_marginal, self.residual.squared)
        object.__setattr__(self, "least", min(found) * self.weights[0] ** 2)

    def rho(self, l2_squared: int) -> Fraction:
        times = max(Fraction(1), Fraction(l2_squared, (self.rows * self.weights[0]) ** 2))
        return self.residual.rho(self.rows, self.apart) * times

    def loss(self, l2_squared: int, most: Fraction) -> PrivacyLoss:
        """The loss of a statistic with this squared sensitivity [quanta^2].

        most  [nats] the dataset's epsilon
        """
        cells = self.residual.size * len(self.weights)
        return gaussian(up(self.rho(l2_squared)), DiscreteGaussian.approximation_delta(cells, most))

    def of(self, variance: Fraction, cell: int = 0) -> RoundedGaussian:
        """The noise of what is read off one of the cells, with the variance that a count's would have."""
        return RoundedGaussian(variance * self.weights[cell] ** 2)

    def covers(self, l1: int, l2_squared: int, loss: PrivacyLoss) -> bool:
        rho = self.rho(l2_squared)
        return rho <= loss.rho and 2 * rho <= loss.mu_squared and loss.epsilon is None

    def event(self, l1: int, loss: PrivacyLoss) -> Event:
        return event_of(loss)

    def added(self, cells: Sequence[Sequence[int]], source: NoiseSource) -> list[Column[int | None]]:
        """The coefficients of all cells with their noise."""
        return [self.residual.noisy(cell, weight, source) for cell, weight in zip(cells, self.weights, strict=True)]

    def sample(self, source: NoiseSource, size: int) -> Sequence[int]:
        raise error(901, "a cube's noise is added to all of its cells together")

    # --- of the marginal that errs least: as exact as any answer is

    @property
    def _finest(self) -> RoundedGaussian:
        return RoundedGaussian(self.least)

    def tail(self, m: int) -> Fraction:
        return self._finest.tail(m)

    def half_width_of_sum(self, copies: int, level: Fraction) -> int:
        return self._finest.half_width_of_sum(copies, level)

    def half_width_of_weights(self, weights: Sequence[float], level: Fraction) -> float:
        return self._finest.half_width_of_weights(weights, level)

    def at(self, points: Floats) -> Floats:
        return self._finest.at(points)

    @property
    def squared_scale(self) -> Fraction:
        return max(self.residual.squared.values()) * self.weights[0] ** 2

    def describe(self) -> str:
        low, high = (sqrt(end(self.residual.squared.values())) * self.weights[0] for end in (min, max))
        return f"residual discrete Gaussian, sigma {low:.6g} to {high:.6g}"
