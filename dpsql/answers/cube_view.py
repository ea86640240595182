"""Views of a stored cube: which of its values are told apart, which are summed, and with which weights."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import sqrt
from statistics import NormalDist

import numpy as np

from dpsql.accounting.cubes import CubeStatistic, StoredCube
from dpsql.mechanisms.cube_noise import GroupsOff
from dpsql.mechanisms.helmert import Floats
from dpsql.mechanisms.residual import Residual, read_off
from dpsql.plan.tables import KeyValue


@dataclass(frozen=True, slots=True)
class View:
    """A part of a cube.

    weights  of the values of each axis; None: it is summed
    kept     the axes whose values are told apart
    places   of each of them those of the values that are shown, in their order
    shown    and these values
    allowed  by axis, the values that conditions leave
    """

    cube: StoredCube
    weights: tuple[list[float] | None, ...]
    kept: tuple[int, ...]
    places: tuple[tuple[int, ...], ...]
    shown: tuple[tuple[KeyValue, ...], ...]
    allowed: Mapping[int, frozenset[int]]

    def groups(self, *cells: tuple[int, int, float]) -> GroupsOff:
        """Groups of numbers that are each a sum of cells of statistics, with these weights."""
        known = self.cube.statistics
        parts = [(known[i].residual, Fraction(weight * known[i].weights[cell]) ** 2) for i, cell, weight in cells]
        return self._off(parts, [(i, cell, 1 if weight > 0 else -1) for i, cell, weight in cells])

    def variance(self, statistic: CubeStatistic, cell: int) -> Fraction:
        """Of each number of a statistic's cell: the same for all of them [quanta^2]."""
        groups = self._off([(statistic.residual, Fraction(statistic.weights[cell]) ** 2)], ())
        return groups.variance([1] * len(self.kept))

    def _off(self, parts: Iterable[tuple[Residual, Fraction]], cells: Iterable[tuple[int, int, int]]) -> GroupsOff:
        weights = tuple(None if w is None else tuple(w) for w in self.weights)
        return GroupsOff(tuple(parts), weights, self.kept, tuple(cells))

    @property
    def involved(self) -> frozenset[int]:
        """The axes that are not just summed."""
        return frozenset(self.kept) | {axis for axis, w in enumerate(self.weights) if w is not None}

    def numbers(self, coefficients: Floats) -> Floats:
        """Of every group that is shown; 0 where conditions leave nobody."""
        shape = self.cube.shape
        told = self.cube.statistics[0].residual.told(coefficients, self.involved)
        found = read_off(told, self.weights, self.kept).reshape([shape[axis] for axis in self.kept])
        for place, axis in enumerate(self.kept):
            chosen = self.allowed.get(axis)
            if chosen is not None:
                along = np.array([float(value in chosen) for value in range(shape[axis])])
                found = found * along.reshape([-1 if i == place else 1 for i in range(len(self.kept))])
        return found[np.ix_(*self.places)].ravel() if self.kept else found.ravel()


_NORMAL = NormalDist().inv_cdf(0.975)


def marginal_errors(cube: StoredCube, axes: Iterable[int]) -> list[float]:
    """The 95 % half-widths of COUNT(*) and of each SUM by some keys: the same for all groups [each its own unit]."""
    view = View(cube, (None,) * len(cube.keys), tuple(axes), (), (), {})
    rows, *values = cube.statistics
    of_rows = view.variance(rows, 0)
    found = [of_rows]
    for one in values:
        of_count = of_rows + (view.variance(one, 1) / one.weights[1] ** 2 if one.missing else 0)
        found.append(one.middle**2 * of_count + (one.quantum / 2) ** 2 * view.variance(one, 0))
    return [_NORMAL * sqrt(variance) for variance in found]
