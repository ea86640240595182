"""The weights of a model, fitted many times with and without one person, lose no more than is charged; with a quarter of the noise they
are seen to lose more.

Everybody has few values, and one person has those that move every pass most. Exact sums are numpy's (tests/bench/models.py); scaling,
clips, shares of rho and what is made of the released cells are the product's own.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from fractions import Fraction
from math import sqrt

import numpy as np

from dpsql.aggregates.design import INTERCEPT
from dpsql.core.loss import EpsilonDelta
from dpsql.mechanisms.lower_bound import eps_lower
from dpsql.mechanisms.reach import largest_rho
from dpsql.planner.model_terms import LINEAR, LOGISTIC
from tests.bench.models import Floats, fitted

CLAIMED = EpsilonDelta(Fraction(3), Fraction(1, 100))
PEOPLE, NUMBERS = 20, 2
ALPHA = 1e-9
MORE_RHO = 16
"""Of the fault: noise of a quarter."""


def weights(rows: int, kind: str, rho: float, fits: int, chance: np.random.Generator) -> list[Floats]:
    """One array a weight, of so many fits to the first people."""
    place = np.arange(PEOPLE) % 2 * 0.2
    numbers = np.tile(place[:, None], NUMBERS)
    numbers[-1] = 1.0
    label = np.full(PEOPLE, -1.0)
    label[-1] = 1.0
    scale = 1 / sqrt(INTERCEPT**2 + NUMBERS)
    z = np.column_stack([np.full(PEOPLE, INTERCEPT), numbers]) * scale
    found = [fitted(z[:rows], INTERCEPT * scale, label[:rows], kind, rho, chance) for _ in range(fits)]
    return list(np.array(found).T)


def bound(kind: str, rho: float, fits: int, chance: np.random.Generator) -> float:
    """Below what the weights lose, but for a chance of ALPHA, at the claimed delta."""
    first, second = (weights(rows, kind, rho, fits, chance) for rows in (PEOPLE, PEOPLE - 1))
    return eps_lower(first, second, float(CLAIMED.delta), ALPHA)


def main(arguments: Sequence[str]) -> int:
    """Print a line a kind; 1 where a bound is above the claim, or the fault is not seen."""
    parser = argparse.ArgumentParser("python -m tests.long weights", description=__doc__)
    parser.add_argument("--fits", type=int, default=10_000, help="of each kind on each database")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    chance, rho, failed = np.random.default_rng(given.seed), float(largest_rho(CLAIMED)), False
    for kind in (LINEAR, LOGISTIC):
        real, faulty = (bound(kind, of, given.fits, chance) for of in (rho, MORE_RHO * rho))
        print(
            f"{kind}: claimed {float(CLAIMED.epsilon):g}; at least {real:.3g}; with the fault {faulty:.3g}", flush=True
        )
        failed |= real > CLAIMED.epsilon or faulty <= CLAIMED.epsilon
    return int(failed)
