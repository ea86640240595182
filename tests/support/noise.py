"""Noise sources for tests. Only tests may pass one: no public function takes it."""

from __future__ import annotations

import random
from fractions import Fraction


class ZeroNoise:
    """No noise at all: a release is its exact vector."""

    def laplace(self, scale: Fraction, size: int) -> list[int]:
        return [0] * size

    def gaussian(self, sigma_squared: Fraction, size: int) -> list[int]:
        return [0] * size


class RecordedNoise(ZeroNoise):
    """No noise, and a list of what was asked for: (kind, parameter, size)."""

    def __init__(self) -> None:
        self.drawn: list[tuple[str, Fraction, int]] = []

    def laplace(self, scale: Fraction, size: int) -> list[int]:
        self.drawn.append(("laplace", scale, size))
        return [0] * size

    def gaussian(self, sigma_squared: Fraction, size: int) -> list[int]:
        self.drawn.append(("gaussian", sigma_squared, size))
        return [0] * size


class SeededNoise:
    """Repeatable noise of about the right size, for tests that need the same draws twice."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def laplace(self, scale: Fraction, size: int) -> list[int]:
        spread = float(scale)
        return [round(self._random.expovariate(1 / spread) - self._random.expovariate(1 / spread)) for _ in range(size)]

    def gaussian(self, sigma_squared: Fraction, size: int) -> list[int]:
        return [round(self._random.gauss(0, float(sigma_squared) ** 0.5)) for _ in range(size)]
