"""Statistic of a shared pair, read off statistics of the same rows that were bought apart.

An aggregate names the stored statistics that it can be read off (`apart` of its record); none is picked for want of another.

AVG(x) is S / n within the bounds, of a stored SUM(x) and a stored COUNT(x). Its interval is Fieller's: from the first to the last r
with |S - r n| <= h(r), where h(r) covers Z_S - r Z_n and is taken for straight between the points of a grid. Where the count is about
as large as its noise the set reaches a bound, and going to its ends step by step, as avg.py does for one statistic, would not arrive.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dpsql.aggregates.avg import Pair
from dpsql.aggregates.base import EstimateDefaults, Floats, Noise, ReleasedColumn, Statistic
from dpsql.aggregates.count import Rows, counted_rows
from dpsql.aggregates.ends import ConfidenceBounds
from dpsql.aggregates.record import Part, Record
from dpsql.aggregates.sum import Total
from dpsql.aggregates.term import Term
from dpsql.core.sqltypes import DOUBLE, SqlType

_STEPS = 32
_AT_ONCE = 20_000


def statistics_apart(statistic: Statistic, asked: Sequence[Record]) -> dict[Part, Statistic]:
    """The sum and the number of rows that together stand for a pair, for all that is asked of it; {} where nothing does."""
    if not isinstance(statistic, Pair):
        return {}
    needed = {part for record in asked if record.apart is not None for part in record.apart[0]}
    count: Part = "rows" if statistic.with_rows else "count"
    if any(record.apart is None for record in asked) or not needed <= {"sum", count}:
        return {}
    rows = statistic.counted if statistic.with_rows else counted_rows(statistic.term.scalar, statistic.counted)
    return {"sum": Total(statistic.term, statistic.counted), count: Rows(rows)}


@dataclass(frozen=True, slots=True)
class AvgOfTwo(EstimateDefaults):
    """AVG(x) of the cells (S, n); NULL where the noisy count is below 1."""

    term: Term
    sqltype: SqlType = DOUBLE

    depends = True

    def half_width(self, noise: Noise, level: Fraction) -> None:
        return None

    def column(self, cells: Sequence[Sequence[int]], noise: Noise, level: Fraction) -> ReleasedColumn:
        low, high, quantum = float(self.term.lower), float(self.term.upper), float(self.term.quantum)
        s, n = (np.array(cell, dtype=float) for cell in cells)
        shown = n >= 1
        value = np.clip(s / np.where(shown, n, 1.0), low, high)
        ratios = np.linspace(low, high, _STEPS + 1)
        widths = np.array([noise.half_width_of_weights((1.0, r), level) for r in ratios.tolist()])
        below, above = value.copy(), value.copy()
        for start in range(0, len(s), _AT_ONCE):
            rows = slice(start, start + _AT_ONCE)
            near = s[rows, None] - ratios * n[rows, None]
            begin, end = _feasible(near - widths, -near - widths, ratios)
            below[rows], above[rows] = np.fmin(below[rows], begin), np.fmax(above[rows], end)
        values: list[object] = [
            v if known else None for v, known in zip((value * quantum).tolist(), shown.tolist(), strict=True)
        ]
        ends = ConfidenceBounds(*(np.where(shown, end * quantum, np.nan) for end in (below, above)))
        return ReleasedColumn(values, ends.within(low * quantum, high * quantum, quantum))


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
