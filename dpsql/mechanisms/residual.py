"""Residual noise: a cube bought once, of which every marginal is read off with about the same error.

Every coefficient of the cube (helmert.py) gets a discrete Gaussian of its own. With A the axes on which it is a contrast, its
variance is sigma_A^2 * prod over A of k (k + 1). For the row of any one cell the squares of its coefficients over these
variances add up to

    sum over A of prod over A of (1 - 1 / n) / sigma_A^2                                                                (1)

since along an axis the sum over k >= 1 of H[k, y]^2 / (k (k + 1)) telescopes to 1 - 1 / n, for every y alike. So rho is half of it. The
marginal of a set S of axes is read off the coefficients with A within S, and a question with one weight for each value of each axis has
the variance

    sum over A of sigma_A^2 prod over A of (|w|^2 - (sum w)^2 / n) prod over the others of ((sum w) / n)^2              (2)

where w is all ones on an axis that is summed: then a set A with that axis adds nothing.

Source  Xiao, He, Zhang, Kifer 2023, An Optimal and Scalable Matrix Mechanism for Noisy Marginals under Convex Loss Functions
        (ResidualPlanner, for the largest variance); Canonne, Kamath, Steinke 2020, The Discrete Gaussian, theorem 4 (rho of a
        vector whose coordinates have noise of their own)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations
from math import fsum, prod
from typing import TypeVar

import numpy as np

from dpsql.core.columns import Column, Whole, combined, whole
from dpsql.core.errors import error
from dpsql.mechanisms import helmert
from dpsql.mechanisms.bounds import up
from dpsql.mechanisms.source import NoiseSource

Axes = frozenset[int]
Weights = Sequence[Sequence[float] | None]
"""Of each axis the weight of each of its values; None: it is summed."""
MOST_AXES = 8
MOST_SETS = 2**MOST_AXES
"""Sets of axes that a cube may have."""
FINEST_SIGMA = Fraction(1, 2**20)
_ABOVE = 1 + 2.0**-46
_ROUNDING = Fraction(1, 12)


@dataclass(frozen=True, slots=True)
class Residual:
    """Variances of a cube's coefficients for a row that adds at most 1 to one cell.

    shape    number of values of each axis
    squared  sigma_A^2 by A; what has none is not released

    Where all are released, cells and coefficients are those of the whole cube, the last axis first to change. Else nothing is as large
    as the cube: cells are those of the marginal of each A, one after the other in the order of `squared`, and coefficients those of
    each A alone.
    """

    shape: tuple[int, ...]
    squared: Mapping[Axes, Fraction] = field(hash=False)
    rounded: tuple[tuple[Axes, float], ...] = field(init=False, hash=False, compare=False, repr=False)
    """sigma_A^2 with what rounding a coefficient to a whole number adds: 1 / 12 or less over a square of at least 2 for each axis."""

    def __post_init__(self) -> None:
        found = ((axes, float(squared + _ROUNDING / 2 ** len(axes))) for axes, squared in self.squared.items())
        object.__setattr__(self, "rounded", tuple(found))

    @property
    def is_whole(self) -> bool:
        """True if all coefficients are released."""
        return len(self.squared) == 1 << sum(n > 1 for n in self.shape)

    @property
    def size(self) -> int:
        """Number of released coefficients."""
        return sum(map(prod, map(self._contrasts, self.squared)))

    def _contrasts(self, axes: Axes) -> list[int]:
        """The number of contrasts along each of some axes."""
        return [self.shape[axis] - 1 for axis in sorted(axes)]

    def rho(self, rows: int, apart: int | None = None) -> Fraction:
        """The zCDP loss where a unit has at most so many rows: rows^2 times half of (1).

        apart  an axis on which no two rows of a unit have the same value
        Why    the coefficients of several rows are the sum of theirs: by the triangle inequality their norm, each over its own
               deviation, is at most `rows` times that of one, and it is where all are in one cell. With an axis y of n values on
               which they are apart, take A without y together with A + y. Of the rows r let u_r be the coefficients on A, each over
               the root of its k (k + 1) ..., so that |u_r|^2 <= p_A. On y those of two rows have the product 1 - 1 / n where these
               are one, else -1 / n. So A and A + y lose, in half,

                   |sum u_r|^2 (1 / sigma_A^2 - 1 / (n sigma_A+y^2)) + sum |u_r|^2 / sigma_A+y^2

               where |sum u_r|^2 <= rows^2 p_A, which is reached, and a first factor below 0 is left out
        """
        if apart is None:
            terms = (rows**2 * self.share(axes) / squared for axes, squared in self.squared.items())
        else:
            terms = (
                self._apart(axes, min(rows, self.shape[apart]), apart) for axes in self.squared if apart not in axes
            )
        return sum(terms, Fraction(0)) / 2

    def _apart(self, axes: Axes, rows: int, apart: int) -> Fraction:
        """Twice the loss of A and A + y."""
        share, own, beside = self.share(axes), self.squared[axes], self.squared.get(axes | {apart})
        if beside is None:
            return rows**2 * share / own
        return rows * share / beside + max(Fraction(0), rows**2 * share * (1 / own - 1 / (self.shape[apart] * beside)))

    def share(self, axes: Axes) -> Fraction:
        """The product of 1 - 1 / n over some axes."""
        return prod((1 - Fraction(1, self.shape[axis]) for axis in axes), start=Fraction(1))

    def answers(self, axes: Axes) -> bool:
        """True if the marginal of some axes can be read off."""
        wide = [axis for axis in axes if self.shape[axis] > 1]
        return all(
            frozenset(part) in self.squared for size in range(len(wide) + 1) for part in combinations(wide, size)
        )

    def variance(self, weights: Weights) -> Fraction:
        """(2), of the rounded coefficients."""
        spread, level = _moments(weights, self.shape)
        axes_of = range(len(self.shape))
        told = frozenset(i for i in axes_of if weights[i] is not None)
        some = ((axes, own) for axes, own in self.rounded if axes <= told)
        found = [own * prod([spread[i] if i in axes else level[i] for i in axes_of]) for axes, own in some]
        return Fraction(fsum(found)) * (1 + Fraction(1, 10**12))

    def of_marginal(self, axes: Axes) -> Fraction:
        """The variance of each cell of a marginal: the same for all."""
        return self.variance([[1.0, *[0.0] * (n - 1)] if i in axes else None for i, n in enumerate(self.shape)])

    def scales(self, weight: int) -> tuple[Column[int], Column[int]]:
        """Of every coefficient how it is drawn where a row adds at most `weight`: a sigma and j, in units of 2^-j.

        Why  the root of sigma_A^2 k (k + 1) ... is off by less than a part of 2^-47 in DOUBLE; made larger by 2^-46 and rounded up to a
             whole number it is never below what is owed. Of 51 or 52 binary digits, so that rounding to 2^-j is what the continuous
             Gaussian would be rounded to (gaussian.TOTAL_VARIATION)
        """
        sigmas = np.sqrt(self._variances(weight)) * _ABOVE
        _, exponents = np.frexp(sigmas)
        places = (52 - exponents).astype(np.int64)
        if np.any(places < 0) or np.any(places > 62):
            raise error(901, "a noise scale is out of range")
        drawn = np.ceil(np.ldexp(sigmas, places)).astype(np.int64)
        return Column(drawn), Column(places)

    def _variances(self, weight: int) -> helmert.Floats:
        """Of every coefficient its variance, where a row adds at most `weight`."""
        if not self.is_whole:
            sizes = ([self.shape[axis] for axis in sorted(axes)] for axes in self.squared)
            parts = zip(self.squared.values(), sizes, strict=True)
            return np.concatenate([float(own) * weight**2 * _inner(helmert.squares(of)).ravel() for own, of in parts])
        table = np.zeros(2 ** len(self.shape))
        for axes, squared in self.squared.items():
            table[sum(1 << axis for axis in axes)] = float(squared) * weight**2
        return (table[helmert.supports(self.shape)] * helmert.squares(self.shape)).ravel()

    def noisy(self, cells: Sequence[int], weight: int, source: NoiseSource) -> Column[int | None]:
        """The coefficients of a cube with their noise."""
        sigmas, places = self.scales(weight)
        exact, shift = self.exact(cells), whole(places)
        drawn = whole(source.gaussians(sigmas))
        # ties are rounded up; j = 0 where it is whole already
        halves = np.where(shift > 0, np.int64(1) << np.maximum(shift - 1, 0), 0)
        return Column(whole(combined((1, exact), (1, Column((drawn + halves) >> shift)))))

    def exact(self, cells: Sequence[int]) -> Column[int]:
        """The coefficients of a cube, exactly."""
        if self.is_whole:
            return helmert.coefficients(cells, self.shape)
        parts, start, known = [], 0, whole(cells)
        for axes in self.squared:
            sizes = [self.shape[axis] for axis in sorted(axes)]
            end = start + prod(sizes)
            own = whole(helmert.coefficients(Column(known[start:end]), sizes))
            parts.append(_inner(own.reshape(sizes)).ravel())
            start = end
        found = np.concatenate(parts)
        return Column(found) if found.dtype == np.int64 else Column.of(found.tolist())

    def told(self, released: helmert.Floats, axes: Axes) -> helmert.Floats:
        """The released coefficients that tell some axes apart: a cube that has one value along every other axis.

        Why  as many as the whole cube has are the whole cube's: those of every A together are as many where all are released
        """
        if released.size == prod(self.shape):
            tensor = released.reshape(self.shape)
            return tensor[tuple(slice(None) if i in axes else slice(1) for i in range(len(self.shape)))]
        found, start = np.zeros([n if i in axes else 1 for i, n in enumerate(self.shape)]), 0
        for one in self.squared:
            end = start + prod(self._contrasts(one))
            if one <= axes:
                place = tuple(slice(1, None) if i in one else slice(1) for i in range(len(self.shape)))
                found[place] = released[start:end].reshape(found[place].shape)
            start = end
        return found


Tensor = TypeVar("Tensor", helmert.Floats, Whole)


def _inner(tensor: Tensor) -> Tensor:
    """The coefficients that are contrasts along every axis."""
    for axis in range(tensor.ndim):
        tensor = np.moveaxis(np.moveaxis(tensor, axis, 0)[1:], 0, axis)
    return tensor


def _moments(weights: Weights, shape: Sequence[int]) -> tuple[list[float], list[float]]:
    """Of each axis |w|^2 - (sum w)^2 / n, and ((sum w) / n)^2."""
    spread, level = [], []
    for w, n in zip(weights, shape, strict=True):
        total = fsum(w) if w is not None else float(n)
        squares = fsum(x * x for x in w) if w is not None else float(n)
        spread.append(max(squares - total**2 / n, 0.0) if w is not None else 0.0)
        level.append((total / n) ** 2)
    return spread, level


def subsets(count: int, ways: int) -> Iterator[Axes]:
    """The sets of at most `ways` of some axes, smaller ones first."""
    for size in range(min(count, ways) + 1):
        yield from map(frozenset, combinations(range(count), size))


def residual(shape: Sequence[int], ways: int, rho: Fraction, rows: int, apart: int | None = None) -> Residual:
    """The variances with which every cell of every marginal of at most `ways` axes has the same variance, at this rho.

    rows   of one unit, at most
    apart  an axis on which no two rows of a unit have the same value
    Why    with sigma_A^2 = c prod over A of (1 + 1 / n) the cell of a marginal of S has, by (2), the variance c times the product over
           S of 1 / n^2 + (1 - 1 / n) (1 + 1 / n) = 1. (1) is then the sum over A of prod over A of (n - 1) / (n + 1), over c, and
           this is 2 rho over rows^2; with `apart` it has (1 + 1 / rows) / 2 of that. Where all keys may be told together and rows are
           not apart no other choice makes the largest variance smaller: it has the least mean where the marginal of S weighs prod
           over S of n^2 / (n + 1)^2 and prod over the others of 1 - 1 / (n + 1)^2. A loss is one over c, and falls where a variance
           is rounded up
    """
    sets = [axes for axes in subsets(len(shape), ways) if all(shape[axis] > 1 for axis in axes)]
    of_one = {axes: prod((1 + Fraction(1, shape[i]) for i in axes), start=Fraction(1)) for axes in sets}
    level = Residual(tuple(shape), of_one).rho(rows, apart) / rho
    found = {axes: up(level * squared) for axes, squared in of_one.items()}
    made = Residual(tuple(shape), found)
    if made.rho(rows, apart) > rho or min(found.values()) < FINEST_SIGMA**2:
        raise error(901, "the variances of a cube do not cost what is asked")
    return made


def read_off(coefficients: helmert.Floats, weights: Weights, kept: Sequence[int]) -> helmert.Floats:
    """Sums of a cube's cells with weights, by the values of some axes.

    coefficients  a cube of them; what is not released is not read
    kept          the axes whose values are told apart: each has all of its values in the output, whatever its weights are
    Output        the last of `kept` first to change
    """
    tensor, count = coefficients, coefficients.ndim
    # fewer axes are left at first, so that there is less to restore
    for axis, w in enumerate(weights):
        if axis not in kept and w is None:
            tensor = np.take(tensor, [0], axis=axis)
    for axis, w in enumerate(weights):
        if axis in kept:
            tensor = helmert.restored(tensor, axis)
        elif w is not None:
            along = np.moveaxis(helmert.restored(tensor, axis), axis, -1) @ np.asarray(w, dtype=np.float64)
            tensor = np.expand_dims(along, axis)
    return np.transpose(tensor, [*kept, *(i for i in range(count) if i not in kept)]).ravel()
