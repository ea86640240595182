from __future__ import annotations

from fractions import Fraction

import pytest

from dpsql.core.loss import EpsilonDelta
from dpsql.mechanisms import exact_sampler, source
from dpsql.mechanisms.gaussian import DiscreteGaussian
from dpsql.mechanisms.laplace import DiscreteLaplace
from dpsql.mechanisms.rounding import drawn_scale, drawn_sigma
from tests.support.noise import ZeroNoise


class Recorded(ZeroNoise):
    """A source that only notes what is asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Fraction, int]] = []

    def laplace(self, scale: Fraction, size: int) -> list[int]:
        self.asked.append(("laplace", scale, size))
        return [0] * size

    def gaussian(self, sigma_squared: Fraction, size: int) -> list[int]:
        self.asked.append(("gaussian", sigma_squared, size))
        return [0] * size


def test_a_mechanism_draws_with_its_own_scale() -> None:
    recorded = Recorded()
    gaussian = DiscreteGaussian.for_loss(2, EpsilonDelta(Fraction(1), Fraction(1, 1000)))
    assert DiscreteLaplace(Fraction(10, 3)).sample(recorded, 4) == [0] * 4
    assert gaussian.sample(recorded, 2) == [0] * 2
    # sigma is 5.44, and 5.44 * 2^30 is the first power above 2^32
    assert recorded.asked == [("laplace", Fraction(10, 3), 4), ("gaussian", gaussian.sigma_squared * 4**30, 2)]


@pytest.mark.parametrize(("size", "expected"), [(1000, "opendp"), (1001, "exact")])
def test_the_length_decides_who_draws_and_both_get_the_same_scale(
    monkeypatch: pytest.MonkeyPatch, size: int, expected: str
) -> None:
    seen: list[tuple[str, Fraction]] = []

    def note(name: str) -> object:
        return lambda scale, size: seen.append((name, scale)) or [0] * size  # type: ignore[func-returns-value]

    monkeypatch.setattr(source, "_opendp_laplace", note("opendp"))
    monkeypatch.setattr(source, "_opendp_gaussian", note("opendp"))
    monkeypatch.setattr(exact_sampler, "laplace", note("exact"))
    monkeypatch.setattr(exact_sampler, "gaussian", note("exact"))
    source.SystemNoise().laplace(Fraction(10, 3), size)
    source.SystemNoise().gaussian(Fraction(2), size)
    assert seen == [(expected, drawn_scale(Fraction(10, 3))), (expected, drawn_sigma(Fraction(2)))]
