"""The noise in stored answers, as they keep it: its kind and its one parameter."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction

from dpsql.mechanisms.additive import AdditiveNoise
from dpsql.mechanisms.gaussian import DiscreteGaussian
from dpsql.mechanisms.laplace import DiscreteLaplace

_KINDS: Mapping[str, Callable[[Fraction], AdditiveNoise]] = {"gaussian": DiscreteGaussian, "laplace": DiscreteLaplace}


def noise_of(kept: tuple[str, Fraction]) -> AdditiveNoise | None:
    """The noise that was kept so; None for a kind that nothing is read off."""
    kind, parameter = kept
    return _KINDS[kind](parameter) if kind in _KINDS else None
