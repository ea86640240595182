"""Weights of a model, made of its released means, second moments and gradients alone.

The loss is least where its gradient is 0. Gradients are asked of scaled columns: each over the root of its own released second
moment, so that all are alike and the clip and the noise, which are as large in every column, cost each the same. Noise of a fixed
length over columns of variances v costs (sum of v)(sum of 1 / v), which is least where they are equal (Cauchy and Schwarz). From the
second moments H of these, as far as they stand out of their own noise, follows how far to go against a gradient in every direction;
one that does not stand out is gone as far as one that just does. A linear model begins
where the second moments alone put it, a logistic one where everybody is as likely as the mean says. Each step begins a little beyond
the point that the one before reached, by a growing share of what it went (Nesterov's), and the weights are the mean of the points of
the last half of the steps: of each the noise of the gradients is another.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log, sqrt

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

STANDS_OUT = 1.5
"""In deviations of the noise of an eigenvalue, sigma times the root of the number of columns where all are scaled alike."""
SEEN = 2.0
"""[sigma] The least that the second moment of a column is taken for."""
CURVED = 0.25
"""The most that the loss of log odds curves, over the second moments."""
RAREST = 0.1
"""The least share of either value of a label of log odds that a model begins with."""
FARTHEST = 1e6
"""The most that a weight is: what is predicted by it is a number on every engine."""


def centre_of(means: Sequence[float], intercept: float, label: float | None) -> tuple[float, ...]:
    """The means of the columns but for the intercept, and of the label, if any, each in [-1, 1].

    means      released sums of all columns and of the label
    intercept  what a row adds to the first
    label      weight of the label among them
    """
    rows = max(means[0] / intercept, 1.0)
    weights = [1.0] * (len(means) - 1) if label is None else [*[1.0] * (len(means) - 2), label]
    return tuple(float(np.clip(one / weight / rows, -1, 1)) for one, weight in zip(means[1:], weights, strict=True))


class Descent:
    """The points at which gradients are asked, and the weights that they lead to.

    logistic   whether it is the loss of log odds
    intercept  value of the first column, which has no centre
    rows       about their number
    centre     of the other columns, and of the label
    moments    the released upper triangle over the columns, and the label of a linear model, less their centre
    sigma      of its noise, in the same unit
    """

    def __init__(
        self,
        logistic: bool,
        intercept: float,
        rows: float,
        centre: Sequence[float],
        moments: Sequence[float],
        sigma: float,
    ) -> None:
        columns = len(centre)
        size = columns + (not logistic)
        whole = np.zeros((size, size))
        whole[np.triu_indices(size)] = moments
        each = max(rows, 1.0) / columns
        scales = np.sqrt(each / np.maximum(np.diagonal(whole)[:columns], SEEN * sigma))
        matrix = whole[:columns, :columns] * np.outer(scales, scales)
        np.fill_diagonal(matrix, each)
        found, vectors = np.linalg.eigh(matrix, UPLO="U")
        noise = sigma * float(scales @ scales) / sqrt(columns)
        inverse: Floats = scales[:, None] * ((vectors / np.maximum(found, STANDS_OUT * noise)) @ vectors.T)
        begin = np.zeros(columns)
        if logistic:
            share = min(max((centre[-1] + 1) / 2, RAREST), 1 - RAREST)
            begin[0] = log(share / (1 - share)) / intercept
        else:
            begin = inverse @ (scales * whole[:columns, columns])
        self._inverse = inverse / (CURVED if logistic else 1.0)
        self._intercept, self._centre = intercept, np.array([0.0, *centre[:-1]])
        self._label = 0.0 if logistic else centre[-1]
        self.scales = tuple(map(float, scales))
        self._asked = _near(begin)
        self._reached: list[Floats] = [self._asked]

    @property
    def point(self) -> tuple[float, ...]:
        """The weights at which the next gradient is asked."""
        return tuple(map(float, self._asked))

    def step(self, gradient: Sequence[float]) -> None:
        """Go on by the noisy gradient at `point`, of the columns times `scales`."""
        before, t = self._reached[-1], len(self._reached)
        self._reached.append(_near(self._asked - self._inverse @ np.asarray(gradient, dtype=np.float64)))
        self._asked = _near(self._reached[-1] + t / (t + 3) * (self._reached[-1] - before))

    @property
    def weights(self) -> tuple[float, ...]:
        """Of the columns as they are, without a centre."""
        steps = self._reached[1:]
        found = np.mean(steps[len(steps) // 2 :] or self._reached, axis=0)
        found[0] += (self._label - self._centre @ found) / self._intercept
        return tuple(map(float, found))


def _near(weights: Floats) -> Floats:
    return np.clip(np.nan_to_num(weights), -FARTHEST, FARTHEST)
