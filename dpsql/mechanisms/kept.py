"""The noise in stored answers, as they keep it: its kind and its one parameter."""

from __future__ import annotations

from fractions import Fraction

from dpsql.mechanisms.additive import AdditiveNoise
from dpsql.mechanisms.calibration import BY_NAME


def noise_of(kept: tuple[str, Fraction]) -> AdditiveNoise | None:
    """The noise that was kept so; None for a kind that nothing is read off."""
    name, parameter = kept
    made = BY_NAME[name].kept if name in BY_NAME else None
    return made(parameter) if made is not None else None
