"""Statements that a refresh buys, and what it may spend."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

BUYER = "dpsql refresh"
"""The analyst who is charged: nobody's cap, the dataset's total alone."""


@dataclass(frozen=True, slots=True)
class Purchases:
    """Statements that `refresh` buys of each version, in their order, for whoever asks them then.

    epsilon  [nats] the most that their prices add up to in one version
    """

    epsilon: Fraction
    statements: tuple[str, ...]
