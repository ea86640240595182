"""Weights of a model, made of its released second moments and gradients alone.

The loss is least where its gradient is 0. From the second moments H, as far as they stand out of their own noise, follows how far
to go against a gradient in every direction; one that does not stand out is gone as far as one that just does. A linear model begins
where the second moments alone put it, a logistic one at 0. Each step begins a little beyond the point that the one before reached,
by a growing share of what it went (Nesterov's), and the weights are the mean of the points of the last half of the steps: of each
the noise of the gradients is another.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

STANDS_OUT = 2.0
"""In deviations of the noise of an eigenvalue, sigma times the root of the number of columns."""
CURVED = 0.25
"""The most that the loss of log odds curves, over the second moments."""
FARTHEST = 1e6
"""The most that a weight is: what is predicted by it is a number on every engine."""


class Descent:
    """The points at which gradients are asked, and the weights that they lead to.

    columns   of the model
    logistic  whether it is the loss of log odds
    moments   the released upper triangle; of a linear model with the label as last column, all of it over the root of 2
    sigma     of its noise, in the same unit
    """

    def __init__(self, columns: int, logistic: bool, moments: Sequence[float], sigma: float) -> None:
        size = columns + (not logistic)
        whole = np.zeros((size, size))
        whole[np.triu_indices(size)] = moments
        whole = np.triu(whole) + np.triu(whole, 1).T
        factor = 1.0 if logistic else 2.0
        known, deviation = whole[:columns, :columns] * factor, sigma * factor
        found, vectors = np.linalg.eigh(known)
        least = max(STANDS_OUT * deviation * np.sqrt(columns), 1.0)
        inverse = (vectors / np.maximum(found, least)) @ vectors.T
        self._inverse: Floats = inverse / (CURVED if logistic else 1.0)
        begin = np.zeros(columns) if logistic else _near(self._inverse @ (whole[:columns, columns] * factor))
        self._reached: list[Floats] = [begin]
        self._asked: Floats = begin

    @property
    def point(self) -> tuple[float, ...]:
        """The weights at which the next gradient is asked."""
        return tuple(map(float, self._asked))

    def step(self, gradient: Sequence[float]) -> None:
        """Go on by the noisy gradient at `point`."""
        before, t = self._reached[-1], len(self._reached)
        self._reached.append(_near(self._asked - self._inverse @ np.asarray(gradient, dtype=np.float64)))
        self._asked = _near(self._reached[-1] + t / (t + 3) * (self._reached[-1] - before))

    @property
    def weights(self) -> tuple[float, ...]:
        """Of the columns, in the order of z."""
        steps = self._reached[1:]
        last = steps[len(steps) // 2 :] or self._reached
        return tuple(map(float, np.mean(last, axis=0)))


def _near(weights: Floats) -> Floats:
    return np.clip(np.nan_to_num(weights), -FARTHEST, FARTHEST)
