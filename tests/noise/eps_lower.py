"""A lower bound on the epsilon of a mechanism, from what it put out on two neighbouring inputs.

A mechanism that promises epsilon is wrong, up to a chance of `alpha`, when the bound is above epsilon.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.stats import beta

Outputs = npt.NDArray[np.int64]
MASSES = (0.02, 0.1, 0.3)


def eps_lower(first: Outputs, second: Outputs, delta: float = 0.0, alpha: float = 1e-6) -> float:
    """The largest of six bounds ln((p - delta) / q), over two directions and three masses of the event.

    Input   independent outputs on D and on D'
    Output  above the true epsilon with a probability of at most 6 * alpha
    Why     one half of the outputs picks an event, the other half measures it with exact (Clopper-Pearson) bounds
    """
    pairs = ((first, second), (second, first))
    return max(_bound(a, b, mass, delta, alpha) for a, b in pairs for mass in MASSES)


def _bound(a: Outputs, b: Outputs, mass: float, delta: float, alpha: float) -> float:
    half = min(len(a), len(b)) // 2
    event = _likely_event(a[:half], b[:half], mass)
    low = rate_above(int(np.isin(a[half:], event).sum()), len(a) - half, alpha / 2)
    high = rate_below(int(np.isin(b[half:], event).sum()), len(b) - half, alpha / 2)
    return float(np.log(max(low - delta, 1e-300) / high))


def _likely_event(a: Outputs, b: Outputs, mass: float) -> Outputs:
    """The outputs that look most typical of `a` rather than `b`, as many as hold `mass` of `a`."""
    values, codes = np.unique(np.concatenate([a, b]), return_inverse=True)
    in_a = np.bincount(codes[: len(a)], minlength=len(values))
    in_b = np.bincount(codes[len(a) :], minlength=len(values))
    order = np.argsort(-(in_a + 0.5) / (in_b + 0.5))
    chosen: Outputs = values[order[: np.searchsorted(np.cumsum(in_a[order]) / len(a), mass) + 1]]
    return chosen


def rate_above(hits: int, trials: int, alpha: float) -> float:
    """A number that a true rate is below with a probability of at most alpha."""
    return float(beta.ppf(alpha, hits, trials - hits + 1)) if hits else 0.0


def rate_below(hits: int, trials: int, alpha: float) -> float:
    """A number that a true rate is above with a probability of at most alpha."""
    return float(beta.ppf(1 - alpha, hits + 1, trials - hits)) if hits < trials else 1.0
