"""Google's C++ library through python-dp: its own algorithms with their defaults.

The rows are added once and kept as the library's summary; every answer merges it into an algorithm that has spent nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pydp.algorithms.laplacian as google
import tasks
from pydp.algorithms.partition_selection import create_partition_strategy
from tasks import Data, Task


def count(data: Data, task: Task, epsilon: float) -> Iterator[int]:
    return _results(lambda: google.Count(epsilon=epsilon, dtype="int"), data.item.tolist())


def total(data: Data, task: Task, epsilon: float) -> Iterator[float]:
    return _bounded(google.BoundedSum, data, epsilon)


def mean(data: Data, task: Task, epsilon: float) -> Iterator[float]:
    return _bounded(google.BoundedMean, data, epsilon)


def variance(data: Data, task: Task, epsilon: float) -> Iterator[float]:
    return _bounded(google.BoundedVariance, data, epsilon)


def quantile(data: Data, task: Task, epsilon: float) -> Iterator[float]:
    return _bounded(google.Percentile, data, epsilon, percentile=task.level)


def keys(data: Data, task: Task, epsilon: float) -> Iterator[list[tuple[int, float]]]:
    """The Laplace strategy, which gives keys and counts of one noise; the truncated geometric one gives keys only."""
    strategy = create_partition_strategy("laplace", epsilon, tasks.DELTA, 1)
    counts = data.by_item.items()
    while True:
        noisy = ((item, strategy.noised_value_if_should_keep(n)) for item, n in counts)
        yield [(item, n) for item, n in noisy if n is not None]


def _bounded(algorithm: Callable[..., Any], data: Data, epsilon: float, **options: float) -> Iterator[float]:
    def fresh() -> Any:
        return algorithm(epsilon=epsilon, lower_bound=data.lower, upper_bound=data.upper, dtype="float", **options)

    return _results(fresh, data.value.tolist())


def _results(fresh: Callable[[], Any], column: list[Any]) -> Iterator[Any]:
    filled = fresh()
    filled.add_entries(column)
    summary = filled.serialize()
    while True:
        algorithm = fresh()
        algorithm.merge(summary)
        yield algorithm.result()


if __name__ == "__main__":
    OFFERS = {"count": count, "sum": total, "mean": mean, "variance": variance, "quantile": quantile, "keys": keys}
    tasks.serve(OFFERS, ("python-dp", "numpy"))
