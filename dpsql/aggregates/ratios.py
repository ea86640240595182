"""The ratio of two noisy numbers within its bounds, such as AVG as SUM over COUNT, and its interval.

The interval is Fieller's: from the first to the last r with |T - r n| <= h(r), where h(r) covers Z_T - r Z_n and is taken for straight
between the points of a grid. Where the count is about as large as its noise the set reaches a bound, and going to its ends step by
step, as avg.py does for one statistic, would not arrive.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from dpsql.aggregates.base import Floats
from dpsql.aggregates.term import Term

_STEPS = 32
_EACH = 4
"""Of so many steps one has its half-width worked out. Why  h is convex as a norm is, so that a straight line between two is no less."""
_AT_ONCE = 20_000
_LEAST = 2.0**-20
"""Rounding of a count. Why  of one row and noise that is 0 a weighted sum of cells is 1 up to that of its weights"""
Flags = npt.NDArray[np.bool_]


def average(
    total: Floats, count: Floats, term: Term, width: Callable[[float], float]
) -> tuple[Flags, Floats, Floats, Floats]:
    """Of each group whether its count is 1 at least, and then its average and the ends of its interval [quanta].

    total  [quanta]
    width  h(r) for a ratio r [quanta]
    """
    low, high = float(term.lower), float(term.upper)
    shown = np.asarray(count > 1 - _LEAST, dtype=np.bool_)
    value = np.clip(total / np.where(shown, count, 1.0), low, high)
    ratios = np.linspace(low, high, _STEPS + 1)
    known = ratios[::_EACH]
    widths = np.interp(ratios, known, np.array([width(r) for r in known.tolist()]))
    below, above = value.copy(), value.copy()
    for start in range(0, len(total), _AT_ONCE):
        rows = slice(start, start + _AT_ONCE)
        near = total[rows, None] - ratios * count[rows, None]
        begin, end = _feasible(near - widths, -near - widths, ratios)
        below[rows], above[rows] = np.fmin(below[rows], begin), np.fmax(above[rows], end)
    return shown, value, below, above


def _feasible(one: Floats, other: Floats, ratios: Floats) -> tuple[Floats, Floats]:
    """Of each row the first and the last r where two functions, straight between the ratios, are both at most 0; NaN where none is."""
    (begin, end), (other_begin, other_end) = _below_zero(one), _below_zero(other)
    begin, end = np.maximum(begin, other_begin), np.minimum(end, other_end)
    found = begin <= end
    step = ratios[1] - ratios[0]
    low = np.where(found, ratios[:-1] + begin * step, np.inf).min(axis=1)
    high = np.where(found, ratios[:-1] + end * step, -np.inf).max(axis=1)
    return np.where(found.any(axis=1), low, np.nan), np.where(found.any(axis=1), high, np.nan)


def _below_zero(heights: Floats) -> tuple[Floats, Floats]:
    """Of each straight piece the part, from 0 to 1, where it is at most 0; from 2 on where it never is."""
    left, right = heights[:, :-1], heights[:, 1:]
    with np.errstate(divide="ignore", invalid="ignore"):
        crossing = left / (left - right)
    begin = np.where(left <= 0, 0.0, np.where(right <= 0, crossing, 2.0))
    end = np.where(right <= 0, 1.0, np.where(left <= 0, crossing, -1.0))
    return begin, end
