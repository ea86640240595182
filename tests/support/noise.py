"""Noise sources for tests. Only tests may pass one: no public function takes it."""

from __future__ import annotations

import math
import random
from fractions import Fraction

from dpsql.core.columns import Column
from dpsql.mechanisms.exact_choice import Integers, Kind


class ZeroNoise:
    """No noise at all: a release is its exact vector, a choice the middle one of the best candidates."""

    def laplace(self, scale: Fraction, size: int) -> list[int]:
        return [0] * size

    def gaussian(self, sigma_squared: Fraction, size: int) -> list[int]:
        return [0] * size

    def gaussians(self, sigmas: Column[int]) -> list[int]:
        return [0] * len(sigmas)

    def choose(self, costs: Integers, weights: Integers, rate: Fraction, kind: Kind) -> int:
        entries = list(zip(costs.tolist(), weights.tolist(), strict=True))
        least = min(cost for cost, _ in entries)
        best = [(i, weight) for i, (cost, weight) in enumerate(entries) if cost == least]
        left = (sum(weight for _, weight in best) - 1) // 2
        for position, weight in best:
            if left < weight:
                return position
            left -= weight
        raise ValueError("a weight is at least 1")

    def below(self, n: int) -> int:
        """The middle; many numbers of 64 bits in one (mechanisms/randomized_response.py) are evenly spread."""
        numbers = n.bit_length() // 64
        if numbers < 2 or n != 1 << 64 * numbers:
            return (n - 1) // 2
        spread = ((2 * i + 1) * 2**63 // numbers for i in range(numbers))
        return int.from_bytes(b"".join(number.to_bytes(8, "little") for number in spread), "little")


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

    def gaussians(self, sigmas: Column[int]) -> list[int]:
        self.drawn += [("gaussian", Fraction(sigma) ** 2, 1) for sigma in sigmas]
        return [0] * len(sigmas)

    def choose(self, costs: Integers, weights: Integers, rate: Fraction, kind: Kind) -> int:
        self.drawn.append((kind, rate, len(costs)))
        return super().choose(costs, weights, rate, kind)

    def below(self, n: int) -> int:
        self.drawn.append(("below", Fraction(n), 1))
        return super().below(n)


class SeededNoise:
    """Repeatable noise of about the right size, for tests that need the same draws twice."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def laplace(self, scale: Fraction, size: int) -> list[int]:
        spread = float(scale)
        return [round(self._random.expovariate(1 / spread) - self._random.expovariate(1 / spread)) for _ in range(size)]

    def gaussian(self, sigma_squared: Fraction, size: int) -> list[int]:
        return [round(self._random.gauss(0, float(sigma_squared) ** 0.5)) for _ in range(size)]

    def gaussians(self, sigmas: Column[int]) -> list[int]:
        return [round(self._random.gauss(0, sigma)) for sigma in sigmas]

    def choose(self, costs: Integers, weights: Integers, rate: Fraction, kind: Kind) -> int:
        """By the exponential mechanism, whatever the kind."""
        least = min(costs.tolist())
        losses = [float(rate * (cost - least)) for cost in costs.tolist()]
        likely = [weight * math.exp(-loss) for loss, weight in zip(losses, weights.tolist(), strict=True)]
        return self._random.choices(range(len(likely)), likely)[0]

    def below(self, n: int) -> int:
        return self._random.randrange(n)
