"""OpenDP, of its own pieces: transformations with their stability, and measurements at the least scale that the price allows.

Sums are of integers, in 2^-20 of the range: sums of floats need a public number of rows. What is exact is computed once.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import opendp.prelude as dp
import tasks
from tasks import Data, Task

QUANTA = 1 << 20
CANDIDATES = 301
SPACE = dp.vector_domain(dp.atom_domain(T="i64")), dp.symmetric_distance()
FLOATS = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.symmetric_distance()


def count(data: Data, task: Task, epsilon: float) -> Iterator[int]:
    return _noisy(dp.t.make_count(*SPACE, TO="i64"), data.item, epsilon)


def distinct(data: Data, task: Task, epsilon: float) -> Iterator[int]:
    return _noisy(dp.t.make_count_distinct(*SPACE, TO="i64"), data.item, epsilon)


def total(data: Data, task: Task, epsilon: float) -> Iterator[float]:
    for noisy in _noisy(_sum(), _shares(data), epsilon):
        yield data.lower * data.rows + noisy / QUANTA * data.range


def mean(data: Data, task: Task, epsilon: float) -> Iterator[float]:
    """A noisy sum over a noisy count, half of the price each; within the bounds."""
    rows, first = count(data, task, epsilon / 2), _noisy(_sum(), _shares(data), epsilon / 2)
    while True:
        share = next(first) / QUANTA / max(next(rows), 1)
        yield data.lower + data.range * min(max(share, 0.0), 1.0)


def variance(data: Data, task: Task, epsilon: float) -> Iterator[float]:
    """A noisy count, sum and sum of squares, a third of the price each; within what the bounds allow."""
    shares = _shares(data)
    squares = np.rint((shares / QUANTA) ** 2 * QUANTA).astype(np.int64)
    rows = count(data, task, epsilon / 3)
    first, second = (_noisy(_sum(), column, epsilon / 3) for column in (shares, squares))
    while True:
        n = max(next(rows), 1)
        share = next(second) / QUANTA / n - (next(first) / QUANTA / n) ** 2
        yield min(max(share, 0.0), 0.25) * data.range**2


def quantile(data: Data, task: Task, epsilon: float) -> Iterator[float]:
    """make_private_quantile in its two steps, so that the candidates are scored once."""
    candidates = np.linspace(data.lower, data.upper, CANDIDATES).tolist()
    scored = dp.t.make_quantile_score_candidates(*FLOATS, candidates, task.level)
    space, scores = (scored.output_domain, scored.output_metric), scored(data.value)

    def choice(scale: float) -> dp.Measurement:
        return dp.m.make_noisy_max(*space, dp.max_divergence(), scale=scale, negate=True)

    choose = choice(dp.binary_search_param(choice, d_in=scored.map(1), d_out=epsilon, T=float))
    while True:
        yield candidates[choose(scores)]


def mode(data: Data, task: Task, epsilon: float) -> Iterator[int]:
    """Report-noisy-max of the counts, which one person moves all in one direction."""
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.linf_distance(T="i64", monotonic=True)

    def choice(scale: float) -> dp.Measurement:
        return dp.m.make_noisy_max(*space, dp.max_divergence(), scale=scale)

    choose = choice(dp.binary_search_param(choice, d_in=1, d_out=epsilon, T=float))
    while True:
        yield choose(data.by_category) + 1


def keys(data: Data, task: Task, epsilon: float) -> Iterator[list[tuple[int, int]]]:
    """Counts by item from a threshold on, at the least scale and threshold that the library's own map allows, plus one.

    The map of 0.16 leaves out counts that are equal to the threshold (its issue 2922), so delta would be higher.
    """
    grouped = dp.t.make_count_by(*SPACE, TV="i64")
    space, counts = (grouped.output_domain, grouped.output_metric), grouped(data.item)

    def shown(scale: float, threshold: int) -> dp.Measurement:
        return dp.m.make_laplace_threshold(*space, scale=scale, threshold=threshold)

    def price(scale: float, threshold: int) -> tuple[float, float]:
        return shown(scale, threshold).map(grouped.map(1))

    scale = dp.binary_search(lambda s: price(s, 1 << 20)[0] <= epsilon, bounds=(0.01, 1e6), T=float)
    threshold = dp.binary_search(lambda t: price(scale, t)[1] <= tasks.DELTA, bounds=(1, 1 << 20), T=int)
    measure = shown(scale, threshold + 1)
    while True:
        yield list(measure(counts).items())


def _shares(data: Data) -> np.ndarray:
    return np.rint((data.value - data.lower) / data.range * QUANTA).astype(np.int64)


def _sum() -> dp.Transformation:
    return SPACE >> dp.t.then_clamp((0, QUANTA)) >> dp.t.then_sum()


def _noisy(transformation: dp.Transformation, column: np.ndarray, epsilon: float) -> Iterator[int]:
    exact = transformation(column)
    space = transformation.output_domain, transformation.output_metric

    def noise(scale: float) -> dp.Measurement:
        return dp.m.make_laplace(*space, scale=scale)

    measure = noise(dp.binary_search_param(noise, d_in=transformation.map(1), d_out=epsilon, T=float))
    while True:
        yield measure(exact)


if __name__ == "__main__":
    dp.enable_features("contrib")
    OFFERS = {
        "count": count,
        "sum": total,
        "mean": mean,
        "variance": variance,
        "quantile": quantile,
        "distinct": distinct,
        "mode": mode,
        "keys": keys,
    }
    tasks.serve(OFFERS, ("opendp", "numpy"))
