"""AVG(x), and COUNT and SUM of the same x at the same price: the shared pair.

With v' the clamped integer in [L', U'] and W = U' - L', a group's cells are A = sum(v' - L') and B = sum(U' - v'), over the rows with
a value. A row adds v' - L' >= 0 to A and U' - v' >= 0 to B, together exactly W. If COUNT(*) over the same rows is asked too, a third
cell N gets W for each row *without* a value; a row is in (A, B) or in N, never in both, so the three cells still move by at most W in
L1 for a row, and by K * W for a unit with at most K rows.

    COUNT(x) = (A + B) / W      COUNT(*) = (A + B + N) / W      SUM(x) = (L' (A + B) / W + A) q      AVG(x) = SUM(x) / COUNT(x)

A unit with m rows in a group, n of them with a value, that is cut to m_c rows has n_c = round(n m_c / m) of them with a value; its
total and its count are clamped together (T_c to [L' n_c, U' n_c]), so its three cells add up to exactly W m_c.
Source: Kulesza, Suresh, Wang 2024 (arXiv 2312.06658); Fitzsimons et al. 2024 (arXiv 2408.10438); the third cell is ours.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from dpsql.aggregates.base import (
    CUT,
    ROWS,
    EstimateDefaults,
    Floats,
    Limits,
    Noise,
    ReleasedColumn,
    Sensitivity,
    StatisticDefaults,
    UnitSums,
    sensitivity_of_rows,
)
from dpsql.aggregates.count import counting
from dpsql.aggregates.ends import ConfidenceBounds, LaterBounds
from dpsql.aggregates.sampling import of_average
from dpsql.aggregates.sum import TOTAL, clamped_total, column_in_type
from dpsql.aggregates.telling import Say, clamped, where
from dpsql.aggregates.term import Term, filtered
from dpsql.core.columns import Column, combined, whole
from dpsql.core.sqltypes import DOUBLE, HUGEINT, SqlType
from dpsql.expressions.scalar import Scalar, tree_of
from dpsql.sql.nodes import Bare, Binary, Call, Cast, Node, Number, own


@dataclass(frozen=True, slots=True)
class Pair(StatisticDefaults):
    """The cells (A, B), or (A, B, N) where `with_rows`; over the rows for which `counted` is true."""

    term: Term
    counted: Scalar | None
    with_rows: bool

    @property
    def identity(self) -> Hashable:
        return "pair", self.with_rows, self.term.identity, tree_of(self.counted)

    @property
    def inputs(self) -> tuple[Scalar, ...]:
        return (self.term.scalar,) if self.counted is None else (self.term.scalar, self.counted)

    @property
    def cells(self) -> int:
        return 3 if self.with_rows else 2

    @property
    def sums(self) -> int:
        return self.cells

    def sensitivity(self, limits: Limits) -> Sensitivity:
        return sensitivity_of_rows(limits, weight=self.term.width, cells=self.cells)

    def steps(self, names: Sequence[Node]) -> tuple[Node, ...]:
        return self.term.steps(names[0])

    def row_sums(self, names: Sequence[Node]) -> tuple[Node, ...]:
        kept, *pair = self._sums(names)
        return (*pair, counting(kept)) if self.with_rows else tuple(pair)

    def _sums(self, names: Sequence[Node]) -> tuple[Node | None, Node, Node]:
        """The condition of the rows, where there is one, the number of values, and their sum."""
        read = len(self.inputs)
        kept = filtered(names[1:read])
        return kept, *self.term.count_and_total(names[0], iter(names[read:]), kept)

    def unit_sums(self, names: Sequence[Node]) -> UnitSums:
        kept, n, total = self._sums(names)
        if not self.with_rows:
            clamped = clamped_total(self.term, TOTAL, ROWS, CUT)
            return UnitSums(n, (("total", total),), (CUT, clamped), (ROWS, TOTAL))
        taken, inner = own("taken"), (("n", n), ("total", total))
        kept_rows = taken, clamped_total(self.term, TOTAL, own("n"), taken), CUT
        shared = (("taken", kept_with_value(own("n"))),)
        return UnitSums(counting(kept), inner, kept_rows, (own("n"), TOTAL, ROWS), shared)

    def to_cells(self, sums: Sequence[Sequence[int]]) -> tuple[Sequence[int], ...]:
        lower, upper, width = self.term.lower, self.term.upper, self.term.width
        a = combined((1, sums[1]), (-lower, sums[0]))
        b = combined((upper, sums[0]), (-1, sums[1]))
        return (a, b, combined((width, sums[2]), (-width, sums[0]))) if self.with_rows else (a, b)

    def adds_up(self, one_row: bool) -> bool:
        return True

    def expected(self, units: Fraction, rows: Fraction) -> Fraction:
        return rows * self.term.width

    @property
    def terms(self) -> tuple[Term, ...]:
        return (self.term,)

    def with_terms(self, change: Callable[[Term], Term]) -> Pair:
        return replace(self, term=change(self.term))

    def told(self, say: Say) -> str:
        beside = ", beside the number of rows" if self.with_rows else ""
        return f"sum and count of {clamped(self.term, say)}{beside}{where(self.counted, say)}"


def kept_with_value(n: Node) -> Node:
    """Of a unit's rows that are cut, how many have a value: round(n CUT / ROWS).

    Why  n is no larger than the rows, so it is at most the cut anyhow: here the text says so
    """
    share = Bare(Binary("*", Cast(n, HUGEINT, tries=False), CUT))
    rounded = Binary("+", share, Bare(Binary("//", ROWS, Number(2))))
    return Call("LEAST", (CUT, Bare(Binary("//", rounded, Call("GREATEST", (ROWS, Number(1)))))))


@dataclass(frozen=True, slots=True)
class SumOfPair(EstimateDefaults):
    """SUM(x) = (L' (A + B) / W + A) q, rounded to the quantum."""

    term: Term
    sqltype: SqlType

    def half_width(self, noise: Noise, level: Fraction) -> float:
        lower, upper, width = self.term.lower, self.term.upper, self.term.width
        return noise.half_width_of_weights((upper / width, lower / width), level) * float(self.term.quantum)

    def column(self, cells: Sequence[Sequence[int]], noise: Noise, level: Fraction) -> ReleasedColumn:
        lower, upper, width = self.term.lower, self.term.upper, self.term.width
        h = self.half_width(noise, level)
        if self.sqltype.is_float:
            a, b = (np.array(cell, dtype=float) for cell in cells[:2])
            quanta = np.rint(a * (upper / width) + b * (lower / width))
            with np.errstate(over="ignore"):
                found = quanta * float(self.term.quantum)
            if np.all(np.abs(quanta) < 2.0**52) and np.all(np.isfinite(found)):
                return ReleasedColumn(Column(found), ConfidenceBounds.around(found, h, float(self.term.quantum)))
        sums = _nearest(combined((upper, cells[0]), (lower, cells[1])), width)
        return ReleasedColumn(*column_in_type(sums, self.term.quantum, self.sqltype, h))


def _nearest(tops: Column[int], bottom: int) -> Column[int]:
    """The integers nearest to top / bottom, the even one of two that are as near; bottom is above 0, and below 2^62.

    >>> _nearest(Column.of([-3, -1, 1, 3, 4]), 2).tolist()
    [-2, 0, 0, 2, 2]
    """
    numbers = whole(tops)
    floors, rest = numbers // bottom, numbers % bottom
    up = (2 * rest > bottom) | ((2 * rest == bottom) & (floors % 2 == 1))
    return Column.of((floors + up).tolist()) if numbers.dtype == np.object_ else Column(floors + up)


@dataclass(frozen=True, slots=True)
class AvgOf(EstimateDefaults):
    """AVG(x) within the bounds; NULL where the noisy count is below 1.

    The interval is Fieller's: the r with |A - r (A + B)| <= h(r), where h(r) covers (1 - r) Z_A - r Z_B, worked out on a grid of r.
    """

    term: Term
    sqltype: SqlType = DOUBLE

    def half_width(self, noise: Noise, level: Fraction) -> None:
        return None

    @property
    def over_rows(self) -> Fraction:
        return self.term.quantum

    def errors(self, noise: Noise, level: Fraction) -> tuple[float, ...]:
        quantum = float(self.term.quantum)
        return tuple(noise.half_width_of_weights((1 - r, r), level) * quantum for r in (0.0, 0.5, 1.0))

    def sampled(self, cells: Sequence[Sequence[int]], noise: Noise, level: Fraction) -> Floats:
        total = np.array(combined((1, cells[0]), (1, cells[1])), dtype=float)
        least = (total - noise.half_width_of_sum(2, level)) / self.term.width
        whole = np.maximum(total, 1.0)
        _, low, high = (
            np.clip(p / whole, 0.0, 1.0) for p in self._ends(np.array(cells[0], dtype=float), whole, noise, level)
        )
        return of_average(low, high, least, level) * float(self.term.width * self.term.quantum)

    def column(self, cells: Sequence[Sequence[int]], noise: Noise, level: Fraction) -> ReleasedColumn:
        low, spread = float(self.term.lower * self.term.quantum), float(self.term.width * self.term.quantum)
        a = np.array(cells[0], dtype=float)
        total = np.array(combined((1, cells[0]), (1, cells[1])), dtype=float)
        shown = total >= self.term.width
        whole = np.where(shown, total, 1.0)
        value = np.clip(a / whole, 0.0, 1.0)
        values: Column[object] = Column(np.where(shown, low + value * spread, 0.0), ~shown)

        def ends() -> ConfidenceBounds:
            _, *found = (np.clip(part / whole, 0.0, 1.0) for part in self._ends(a, whole, noise, level))
            bounds = ConfidenceBounds(*(np.where(shown, low + end * spread, np.nan) for end in found))
            return bounds.within(low, low + spread, float(self.term.quantum))

        return ReleasedColumn(values, LaterBounds(len(a), ends))

    def _ends(self, a: Floats, total: Floats, noise: Noise, level: Fraction) -> tuple[Floats, Floats, Floats]:
        """A, and where |A - r total| = h(r) below and above it: a fixed point, found by going there a few times."""
        grid = [i / 32 for i in range(17)]
        widths = [noise.half_width_of_weights((1 - r, r), level) for r in grid]

        def h(share: Floats) -> Floats:
            inside: Floats = np.minimum(np.maximum(share, 0.0), 1.0)
            return np.asarray(np.interp(np.minimum(inside, 1 - inside), grid, widths))

        ends, side = np.stack([a, a]), np.array([[-1.0], [1.0]])
        for _ in range(8):
            before, ends = ends, a + side * h(ends / total)
            if np.array_equal(before, ends):
                break
        return a, ends[0], ends[1]
