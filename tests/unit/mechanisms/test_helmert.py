"""Helmert contrasts beside their matrix, and back; no step overflows."""

from __future__ import annotations

from functools import reduce
from itertools import product
from math import prod

import numpy as np
import numpy.typing as npt
import pytest

from dpsql.core.columns import whole
from dpsql.mechanisms import helmert

SHAPES = [(1,), (2,), (5,), (2, 3), (1, 4), (3, 1, 2), (2, 2, 2), (4, 3, 2)]


def matrix(n: int) -> npt.NDArray[np.int64]:
    """H, row by row."""
    found = np.zeros((n, n), dtype=np.int64)
    found[0] = 1
    for k in range(1, n):
        found[k, :k], found[k, k] = 1, -k
    return found


@pytest.mark.parametrize("shape", SHAPES)
def test_coefficients_are_those_of_the_matrix(shape: tuple[int, ...]) -> None:
    cells = [(7 * i) % 11 - 3 for i in range(prod(shape))]
    whole_matrix = reduce(np.kron, (matrix(n) for n in shape))
    assert helmert.coefficients(cells, shape).tolist() == (whole_matrix @ cells).tolist()
    squares = np.diag(whole_matrix @ whole_matrix.T).reshape(shape)
    assert np.array_equal(whole_matrix @ whole_matrix.T, np.diag(squares.ravel()))
    # row 0 of an axis has the square n, which no noise follows
    lengths = [prod(n for n, k in zip(shape, place, strict=True) if k == 0) for place in np.ndindex(shape)]
    assert np.array_equal(helmert.squares(shape).ravel() * lengths, squares.ravel())
    supports = [sum(1 << i for i, k in enumerate(place) if k) for place in product(*map(range, shape))]
    assert helmert.supports(shape).ravel().tolist() == supports


@pytest.mark.parametrize("shape", SHAPES)
def test_restored_cells_are_the_cells(shape: tuple[int, ...]) -> None:
    cells = [(7 * i) % 11 - 3 for i in range(prod(shape))]
    found = np.asarray(helmert.coefficients(cells, shape).values, dtype=float).reshape(shape)
    for axis in range(len(shape)):
        found = helmert.restored(found, axis)
    assert np.allclose(found.ravel(), cells, atol=1e-9)


@pytest.mark.parametrize("largest", [2**40, 2**58, 2**63 - 1, 2**70])
def test_no_step_overflows(largest: int) -> None:
    cells = [largest if i % 2 else -largest for i in range(12)]
    whole_matrix = reduce(np.kron, (matrix(n) for n in (4, 3))).astype(object)
    assert helmert.coefficients(cells, (4, 3)).tolist() == (whole_matrix @ np.array(cells, dtype=object)).tolist()
    assert whole(helmert.coefficients([1, 2], (2,))).dtype == np.int64
