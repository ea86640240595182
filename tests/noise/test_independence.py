"""Threads and forked processes never share noise. Two honest vectors agree with a probability below 10^-100."""

from __future__ import annotations

import multiprocessing
import threading
import warnings
from fractions import Fraction

import pytest

from dpsql.mechanisms.source import SystemNoise

WORKERS = 6


def draws(size: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    noise = SystemNoise()
    return tuple(noise.laplace(Fraction(1000), size)), tuple(noise.gaussian(Fraction(10**6), size))


@pytest.mark.parametrize("size", [50, 1500])
def test_forked_processes(size: int) -> None:
    """The parent draws first, so that a state kept in memory would be inherited."""
    seen = [draws(size)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        with multiprocessing.get_context("fork").Pool(WORKERS) as pool:
            seen += pool.map(draws, [size] * WORKERS, chunksize=1)
    seen.append(draws(size))
    assert len({vector for pair in seen for vector in pair}) == 2 * len(seen)


@pytest.mark.parametrize("size", [50, 1500])
def test_threads(size: int) -> None:
    seen: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
    threads = [threading.Thread(target=lambda: seen.append(draws(size))) for _ in range(WORKERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({vector for pair in seen for vector in pair}) == 2 * WORKERS
