"""Threads and forked processes never share noise. Two honest vectors agree with a probability below 10^-100."""

from __future__ import annotations

import multiprocessing
import threading
import warnings
from fractions import Fraction

import numpy as np
import pytest

from dpsql.mechanisms.source import SystemNoise
from tests.support.cases import some

WORKERS = 6


Draws = tuple[tuple[int, ...], ...]


def draws(size: int) -> Draws:
    noise = SystemNoise()
    costs, weights = np.zeros(1000, dtype=np.int64), np.ones(1000, dtype=np.int64)
    return (
        tuple(noise.laplace(Fraction(1000), size)),
        tuple(noise.gaussian(Fraction(10**6), size)),
        tuple(noise.choose(costs, weights, Fraction(1), "exponential") for _ in range(size)),
        tuple(noise.choose(costs, weights, Fraction(1), "permute_and_flip") for _ in range(size)),
        tuple(noise.below(1000) for _ in range(size)),
    )


@pytest.mark.slow
@pytest.mark.parametrize("size", [50, 1500])
def test_forked_processes(size: int) -> None:
    """The parent draws first, so that a state kept in memory would be inherited."""
    seen = [draws(size)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        with multiprocessing.get_context("fork").Pool(WORKERS) as pool:
            seen += pool.map(draws, [size] * WORKERS, chunksize=1)
    seen.append(draws(size))
    assert len({vector for vectors in seen for vector in vectors}) == 5 * len(seen)


@pytest.mark.parametrize("size", some([50, 1500]))
def test_threads(size: int) -> None:
    seen: list[Draws] = []
    threads = [threading.Thread(target=lambda: seen.append(draws(size))) for _ in range(WORKERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({vector for vectors in seen for vector in vectors}) == 5 * WORKERS
