"""Sources of noise."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING, Protocol

import numpy as np

from dpsql.core.columns import Column
from dpsql.core.errors import error
from dpsql.mechanisms import exact_choice, exact_sampler
from dpsql.mechanisms.exact_choice import Integers, Kind
from dpsql.mechanisms.rounding import MOST_SCALE, drawn_scale, drawn_sigma

if TYPE_CHECKING:
    from opendp.mod import Domain, Metric

MOST_BY_OPENDP = 1000


class NoiseSource(Protocol):
    """Independent draws of integer noise, and random choices. Tests pass recorded or zero noise; nothing takes a seed."""

    def laplace(self, scale: Fraction, size: int) -> Sequence[int]:
        """iid integers with P(z) proportional to exp(-|z| / drawn_scale(scale))."""
        ...

    def gaussian(self, sigma_squared: Fraction, size: int) -> Sequence[int]:
        """iid integers with P(z) proportional to exp(-z^2 / (2 drawn_sigma(sigma_squared)^2))."""
        ...

    def gaussians(self, sigmas: Column[int]) -> Sequence[int]:
        """Independent integers, the i-th with P(z) proportional to exp(-z^2 / (2 sigmas[i]^2)); sigmas are whole."""
        ...

    def choose(self, costs: Integers, weights: Integers, rate: Fraction, kind: Kind) -> int:
        """A position, at random: entry i stands for weights[i] candidates of the same cost, and less cost is likelier.

        Output  exponential: with probability proportional to weights[i] * exp(-rate * costs[i]);
                permute_and_flip: candidates in random order until one passes a coin of exp(-rate * (cost - least))
        """
        ...

    def below(self, n: int) -> int:
        """A uniform integer in [0, n)."""
        ...


class SystemNoise:
    """Noise from the operating system's generator: OpenDP for up to 1,000 draws, our exact sampler above that.

    Why      OpenDP's samplers are proved and reviewed, but take 7-12 microseconds a draw; ours take 0.3-1.5. Both draw
             the same distribution. Neither shares state between threads or forked processes
             (tests/noise/test_independence.py). OpenDP's 64-bit result saturates at 2^63, at least 2^11 scales away:
             probability below exp(-2^11) < 10^-889. Noise is drawn for zeros and added to Python integers, so no exact
             sum ever meets that limit
             Choices are always drawn by our own sampler: OpenDP's takes no runs of equal candidates
    Refuses  DPSQL-901 a scale that is not positive or above 2^52, a choice that exact_choice cannot make
    """

    def laplace(self, scale: Fraction, size: int) -> Sequence[int]:
        _check(0 < scale <= MOST_SCALE)
        drawn = drawn_scale(scale)
        return exact_sampler.laplace(drawn, size) if size > MOST_BY_OPENDP else _opendp_laplace(drawn, size)

    def gaussian(self, sigma_squared: Fraction, size: int) -> Sequence[int]:
        _check(0 < sigma_squared <= MOST_SCALE**2)
        drawn = drawn_sigma(sigma_squared)
        return exact_sampler.gaussian(drawn, size) if size > MOST_BY_OPENDP else _opendp_gaussian(drawn, size)

    def gaussians(self, sigmas: Column[int]) -> Sequence[int]:
        return exact_sampler.gaussians(np.asarray(sigmas.values, dtype=np.int64))

    def choose(self, costs: Integers, weights: Integers, rate: Fraction, kind: Kind) -> int:
        return exact_choice.choose(costs, weights, rate, kind)

    def below(self, n: int) -> int:
        return exact_choice.below(n)


def _check(in_range: bool) -> None:
    if not in_range:
        raise error(901, "a noise scale is out of range")


def _opendp_laplace(scale: Fraction, size: int) -> list[int]:
    """`float` is exact here: drawn_scale gives a double."""
    from opendp.measurements import make_laplace

    integers, l1, _ = _spaces()
    drawn: list[int] = make_laplace(integers, l1, scale=float(scale))([0] * size)
    return drawn


def _opendp_gaussian(sigma: Fraction, size: int) -> list[int]:
    from opendp.measurements import make_gaussian

    integers, _, l2 = _spaces()
    drawn: list[int] = make_gaussian(integers, l2, scale=float(sigma))([0] * size)
    return drawn


@cache
def _spaces() -> tuple[Domain, Metric, Metric]:
    """Vectors of 64-bit integers and their L1 and L2 distances, as OpenDP names them: descriptions, which hold nothing of a draw. Its
    prelude would load data frames too, which takes longer than a statement."""
    from opendp.domains import atom_domain, vector_domain
    from opendp.metrics import l1_distance, l2_distance
    from opendp.mod import enable_features

    enable_features("contrib")
    return vector_domain(atom_domain(T="i64")), l1_distance(T="i64"), l2_distance(T="f64")
