"""Integer Helmert contrasts: the coordinates of a cube in which its marginals are told apart.

Along an axis of n values row 0 of H is (1, ..., 1) and row k is (1, ..., 1, -k, 0, ..., 0) with k ones. Rows are whole and
orthogonal to one another; row 0 has the square n, row k the square k (k + 1). A cube has the coefficients of all axes: one for
each place (k_1, ..., k_d), and those with k_i = 0 outside a set of axes are what the marginal of that set says. There and back
it is a cumulative sum an axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
import numpy.typing as npt

from dpsql.core.columns import Column, Whole, largest, whole

Floats = npt.NDArray[np.float64]
_MOST = 2**62


def coefficients(cells: Sequence[int], shape: Sequence[int]) -> Column[int]:
    """The coefficients of a cube, exactly.

    Input   cells  of a cube of this shape, the last axis first to change
    Why     a coefficient is a sum of cells with factors of at most prod(max(n - 1, 1)), and so is every step on the way to it: below
            2^62 no step of int64's arithmetic overflows; elsewhere Python's integers take part

    >>> coefficients([3, 1, 2], [3]).tolist()
    [6, 2, 0]
    """
    tensor = whole(cells).reshape(tuple(shape))
    if largest(tensor.ravel()) * tensor.size * prod(max(n - 1, 1) for n in shape) >= _MOST:
        tensor = tensor.astype(np.object_)
    for axis in range(len(shape)):
        tensor = _contrasted(tensor, axis)
    flat = tensor.ravel()
    return Column(flat) if flat.dtype == np.int64 else Column.of(flat.tolist())


def _contrasted(tensor: Whole, axis: int) -> Whole:
    moved = np.moveaxis(tensor, axis, 0)
    n = len(moved)
    sums = np.cumsum(moved, axis=0)
    found = np.empty_like(moved)
    found[0] = sums[n - 1]
    if n > 1:
        np.subtract(sums[:-1], moved[1:] * _places(n, moved.ndim), out=found[1:])
    return np.moveaxis(found, 0, axis)


def restored(coefficients: Floats, axis: int) -> Floats:
    """The values along one axis, of their coefficients: post-processing, in DOUBLE.

    Why  x_j = c_0 / n + the sum over k > j of c_k / (k (k + 1)) - c_j / (j + 1) for j > 0
    """
    moved = np.moveaxis(coefficients, axis, 0)
    n = len(moved)
    found = np.broadcast_to(moved[0] / n, moved.shape).copy()
    if n > 1:
        places = _places(n, moved.ndim)
        found[1:] -= moved[1:] / (places + 1)
        found[:-1] += np.cumsum((moved[1:] / (places * (places + 1)))[::-1], axis=0)[::-1]
    return np.moveaxis(found, 0, axis)


def _places(n: int, axes: int) -> npt.NDArray[np.int64]:
    """1, 2, ..., n - 1 along the first of some axes."""
    return np.arange(1, n, dtype=np.int64).reshape((n - 1,) + (1,) * (axes - 1))


def squares(shape: Sequence[int]) -> Floats:
    """Of every coefficient, the product of k (k + 1) over the axes with k > 0: a cube of the shape, within a part of 2^-49."""
    found = np.ones((1,) * len(shape))
    for axis, n in enumerate(shape):
        places = np.arange(n, dtype=np.float64)
        found = found * np.where(places > 0, places * (places + 1), 1.0).reshape(_along(axis, n, len(shape)))
    return found


def supports(shape: Sequence[int]) -> npt.NDArray[np.int64]:
    """Of every coefficient, the axes with k > 0: the sum of 2^axis over them."""
    found = np.zeros((1,) * len(shape), dtype=np.int64)
    for axis, n in enumerate(shape):
        found = found + ((np.arange(n) > 0).astype(np.int64) << axis).reshape(_along(axis, n, len(shape)))
    return found


def _along(axis: int, n: int, axes: int) -> tuple[int, ...]:
    return tuple(n if i == axis else 1 for i in range(axes))
