"""Statistic of a shared pair, read off statistics of the same rows that were bought apart.

An aggregate names the stored statistics that it can be read off (`apart` of its record); none is picked for want of another.

AVG(x) is S / n within the bounds, of a stored SUM(x) and a stored COUNT(x); its interval is that of a ratio (ratios.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dpsql.aggregates.avg import Pair
from dpsql.aggregates.base import Estimate, EstimateDefaults, Noise, ReleasedColumn, Statistic
from dpsql.aggregates.count import Rows, counted_rows
from dpsql.aggregates.ends import ConfidenceBounds
from dpsql.aggregates.joint import Joint
from dpsql.aggregates.ratios import average
from dpsql.aggregates.record import Aggregate, Part, Record
from dpsql.aggregates.sum import Total
from dpsql.aggregates.term import Term
from dpsql.core.sqltypes import DOUBLE, SqlType


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


def ways_apart(
    statistic: Statistic, aggregate: Aggregate, *, cut: bool
) -> list[tuple[tuple[Statistic, ...], Estimate | None]]:
    """The statistics that a column of a joint vector can be read off as well, and how: of two at once by that estimate, of one as
    the aggregate reads it.

    cut  whether rows of a unit may be cut: then not those that count rows with a value alone towards its limit
    """
    apart = aggregate.record.apart
    if not isinstance(statistic, Joint) or apart is None:
        return []
    counted = statistic.counted
    if not aggregate.values:
        return [((Rows(counted),), None)]
    seen = statistic.of(aggregate.bases[0])
    term = seen.term
    if cut and seen.count != seen.rows:
        return [((Pair(term, counted, True),), None)]
    own: dict[Part, Statistic] = {"sum": Total(term, counted), "count": Rows(counted_rows(term.scalar, counted))}
    pairs = [((Pair(term, counted, with_rows),), None) for with_rows in (False, True)]
    parts = tuple(own[part] for part in apart[0])
    return [*pairs, (parts, apart[1](aggregate.seen(term), aggregate.sqltype) if len(parts) > 1 else None)]


@dataclass(frozen=True, slots=True)
class AvgOfTwo(EstimateDefaults):
    """AVG(x) of the cells (S, n); NULL where the noisy count is below 1."""

    term: Term
    sqltype: SqlType = DOUBLE

    depends = True

    def half_width(self, noise: Noise, level: Fraction) -> None:
        return None

    def errors(self, noise: Noise, level: Fraction) -> tuple[float, ...]:
        low, high = float(self.term.lower), float(self.term.upper)
        quantum = float(self.term.quantum)
        return tuple(noise.half_width_of_weights((1.0, r), level) * quantum for r in (low, (low + high) / 2, high))

    def column(self, cells: Sequence[Sequence[int]], noise: Noise, level: Fraction) -> ReleasedColumn:
        s, n = (np.array(cell, dtype=float) for cell in cells)
        width = lambda ratio: noise.half_width_of_weights((1.0, ratio), level)  # noqa: E731
        shown, value, below, above = average(s, n, self.term, width)
        low, high, quantum = float(self.term.lower), float(self.term.upper), float(self.term.quantum)
        values: list[object] = [
            v if known else None for v, known in zip((value * quantum).tolist(), shown.tolist(), strict=True)
        ]
        ends = ConfidenceBounds(*(np.where(shown, end * quantum, np.nan) for end in (below, above)))
        return ReleasedColumn(values, ends.within(low * quantum, high * quantum, quantum))
