"""Additive noise: the questions that every noise answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dpsql.core.columns import Column, combined
from dpsql.core.errors import error
from dpsql.core.events import Event
from dpsql.core.loss import PrivacyLoss
from dpsql.mechanisms.source import NoiseSource

Floats = npt.NDArray[np.float64]


class SharedNoise(NamedTuple):
    """Gaussian noise that is a part of that of a cell.

    name       the same in all cells that have it; None: this one alone has it
    deviation  [quanta] with the sign that it has in this cell
    """

    name: Hashable
    deviation: float


class AdditiveNoise(ABC):
    """Symmetric integer noise, added to an exact integer; lengths are in quanta of that integer."""

    __slots__ = ()

    @abstractmethod
    def tail(self, m: int) -> Fraction:
        """An upper bound of P(Z >= m)."""

    def half_width(self, level: Fraction) -> int:
        """The smallest h with P(|Z| > h) <= 1 - level."""
        return self.half_width_of_sum(1, level)

    @abstractmethod
    def half_width_of_sum(self, copies: int, level: Fraction) -> int:
        """h with P(|Z1 + ... + Zn| > h) <= 1 - level, for n = 1, 2 or 3 independent copies: the smallest, or an upper bound of it."""

    @abstractmethod
    def half_width_of_weights(self, weights: Sequence[float], level: Fraction) -> float:
        """h with P(|w1 * Z1 + w2 * Z2 + ...| > h) <= 1 - level, for independent draws."""

    @abstractmethod
    def at(self, points: Floats) -> Floats:
        """The values that the noise stays below with the probabilities `points`: its quantiles, as if it were continuous."""

    @abstractmethod
    def covers(self, l1: int, l2_squared: int, loss: PrivacyLoss) -> bool:
        """True if a vector with these sensitivities [quanta] loses at most `loss` under this noise."""

    @abstractmethod
    def event(self, l1: int, loss: PrivacyLoss) -> Event:
        """Event of drawing this noise for a vector with sensitivity l1 [quanta], which is charged as `loss`."""

    @abstractmethod
    def sample(self, source: NoiseSource, size: int) -> Sequence[int]:
        """Independent draws."""

    @abstractmethod
    def describe(self) -> str:
        """Name and parameter, for the plan and the receipt."""

    @property
    @abstractmethod
    def squared_scale(self) -> Fraction:
        """The square of what it is drawn by [quanta^2]."""

    # --- what most noise has in common

    @property
    def deviation(self) -> float | None:
        """Of the Gaussian that is rounded to this noise; None where it is none."""
        return None

    @property
    def shared(self) -> tuple[SharedNoise, ...]:
        """The parts that it is the sum of, where other cells have some of them too; () where all of it is its own."""
        return ()

    @property
    def kept(self) -> tuple[str, Fraction] | None:
        """As stored answers keep it (kept.py); None: nothing is read off a vector with it."""
        return None

    @property
    def shows_from(self) -> int | None:
        """From which noisy number of units on a private key is shown by noise that ends there, and pays for it; None: never."""
        return None

    def at_rho(self, l2_squared: int, rho: Fraction) -> AdditiveNoise | None:
        """Noise of the same kind that costs this rho; None where two draws, averaged by their rho, are not one of the sum."""
        return None

    def added(self, cells: Sequence[Sequence[int]], source: NoiseSource) -> list[Column[int | None]]:
        """The exact cells of all groups with their noise, one column a cell: independent draws, one vector of them over all cells."""
        groups = len(cells[0])
        draws = self.sample(source, len(cells) * groups)
        return [combined((1, cell), (1, draws[i * groups : (i + 1) * groups])) for i, cell in enumerate(cells)]


class NoiseReadOff(AdditiveNoise):
    """Noise of what is read off released numbers: no mechanism, and never drawn as one."""

    __slots__ = ()

    def covers(self, l1: int, l2_squared: int, loss: PrivacyLoss) -> bool:
        return False

    def event(self, l1: int, loss: PrivacyLoss) -> Event:
        raise error(901, "noise that is read off was to be charged")

    def sample(self, source: NoiseSource, size: int) -> Sequence[int]:
        raise error(901, "noise that is read off was to be drawn")


def half_width_of(tail: Callable[[int], Fraction], level: Fraction, guess: int) -> int:
    """The smallest h >= 0 with 2 * tail(h + 1) <= 1 - level."""
    if not 0 <= level < 1:
        raise ValueError("a level is at least 0 and below 1")
    return smallest(lambda h: h >= 0 and 2 * tail(h + 1) <= 1 - level, guess)


def smallest(holds: Callable[[int], bool], guess: int) -> int:
    """The smallest integer where a condition holds that, once true, stays true; fast when the guess is near.

    >>> smallest(lambda n: n * n * n >= 1000, 7)
    10
    """
    low, high, step = guess - 1, guess, 1
    while not holds(high):
        low, high, step = high, high + step, 2 * step
    while holds(low):
        low, high, step = low - step, low, 2 * step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def check_copies(copies: int) -> None:
    if copies not in (1, 2, 3):
        raise ValueError("half-widths are known for the sum of one, two or three copies")


def shown(number: Fraction) -> str:
    """A scale as people read it: exact if short, else six digits.

    >>> shown(Fraction(300)), shown(Fraction(10, 3)), shown(Fraction(2**60 + 1, 2**50))
    ('300', '10/3', '1024')
    """
    return str(number) if number.denominator <= 1000 else f"{float(number):.6g}"
