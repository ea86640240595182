"""diffprivlib: its tools, and its permute-and-flip mechanism for MODE.

All tools but the quantiles take the number of rows as public: mean and var by their sensitivity, count_nonzero and sum because
no answer is outside of what that many rows could give. The count of all rows is then never above the exact one.
"""

from __future__ import annotations

from collections.abc import Iterator
from secrets import SystemRandom

import numpy as np
import tasks
from diffprivlib import mechanisms, tools
from tasks import Data, Task


def count(data: Data, task: Task, epsilon: float) -> Iterator[int]:
    present = np.ones(data.rows, dtype=bool)
    while True:
        yield tools.count_nonzero(present, epsilon=epsilon)


def total(data: Data, task: Task, epsilon: float) -> Iterator[float]:
    while True:
        yield tools.sum(data.value, epsilon=epsilon, bounds=(data.lower, data.upper))


def mean(data: Data, task: Task, epsilon: float) -> Iterator[float]:
    while True:
        yield tools.mean(data.value, epsilon=epsilon, bounds=(data.lower, data.upper))


def variance(data: Data, task: Task, epsilon: float) -> Iterator[float]:
    while True:
        yield tools.var(data.value, epsilon=epsilon, bounds=(data.lower, data.upper))


def quantile(data: Data, task: Task, epsilon: float) -> Iterator[float]:
    """tools.quantile with its mechanism made once: made and checked anew, a million rows take a second an answer.

    The draw is that of mechanisms.Exponential.randomise, over the same cumulative probabilities.
    """
    edges = np.concatenate(([data.lower], data.ordered, [data.upper]))
    scores = -np.abs(np.arange(0, data.rows + 1) - task.level * data.rows)
    made = mechanisms.Exponential(
        epsilon=epsilon, sensitivity=1, utility=scores.tolist(), measure=np.diff(edges).tolist()
    )
    chance = SystemRandom()
    while True:
        i = min(int(np.searchsorted(made._probabilities, chance.random())), data.rows)
        yield edges[i] + chance.random() * (edges[i + 1] - edges[i])


def mode(data: Data, task: Task, epsilon: float) -> Iterator[int]:
    counts = data.by_category.astype(float).tolist()
    made = mechanisms.PermuteAndFlip(epsilon=epsilon, sensitivity=1, utility=counts, monotonic=True)
    while True:
        yield made.randomise() + 1


if __name__ == "__main__":
    OFFERS = {
        "count": count,
        "sum": total,
        "mean": mean,
        "variance": variance,
        "quantile": quantile,
        "mode": mode,
    }
    tasks.serve(OFFERS, ("diffprivlib", "scikit-learn", "numpy"), public_size=("count", "sum", "mean", "variance"))
