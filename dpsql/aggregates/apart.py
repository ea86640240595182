"""Statistic of a shared pair, read off statistics of the same rows that were bought apart.

An aggregate names the stored statistics that it can be read off (`apart` of its record); none is picked for want of another.

AVG(x) is S / n within the bounds, of a stored SUM(x) and a stored COUNT(x); its interval is that of a ratio (ratios.py).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from dpsql.aggregates.avg import Pair
from dpsql.aggregates.base import (
    Estimate,
    EstimateDefaults,
    Limits,
    Noise,
    ReleasedColumn,
    Sensitivity,
    Statistic,
    StatisticDefaults,
    UnitSums,
)
from dpsql.aggregates.count import Rows, counted_rows
from dpsql.aggregates.ends import ConfidenceBounds
from dpsql.aggregates.forms import CountOfForm, Form, finest
from dpsql.aggregates.joint import Joint, ReadOff
from dpsql.aggregates.moments import Moments
from dpsql.aggregates.ratios import average
from dpsql.aggregates.record import Aggregate, Part, Record, value_key
from dpsql.aggregates.sum import Total
from dpsql.aggregates.telling import Say
from dpsql.aggregates.term import Term, may_be_missing
from dpsql.core.errors import error
from dpsql.core.sqltypes import DOUBLE, SqlType
from dpsql.expressions.scalar import Scalar
from dpsql.sql.nodes import Node


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
    """The statistics that a column of a joint vector, or of moments, can be read off as well, and how: of two at once by that
    estimate, of one as the aggregate reads it.

    cut  whether rows of a unit may be cut: then not those that count rows with a value alone towards its limit
    """
    apart, degree = aggregate.record.apart, aggregate.record.degree
    if not isinstance(statistic, Joint | Moments) or (apart is None and degree != 2):
        return []
    counted = statistic.counted
    if not aggregate.values:
        return [((Rows(counted),), None)]
    held = next(one for one in statistic.terms if value_key(one.scalar) == value_key(aggregate.bases[0]))
    missing, term = cut and may_be_missing(held), finest(held)
    if apart is None:
        return [] if missing else [((Moments((held,), (2,), counted),), None)]
    if missing:
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


@dataclass(frozen=True, slots=True)
class PartOfStatistic(StatisticDefaults):
    """A statistic as it is read off the cells of another one that is stored: never asked of data.

    forms  what its columns are made of: M or n of a number of rows; of moments their cells; else M, n and T
    """

    statistic: Statistic
    forms: tuple[Form, ...]

    @property
    def cells(self) -> int:
        return len(self.forms[0].weights)

    @property
    def number(self) -> Estimate:
        """A number of rows, as it is read off."""
        return CountOfForm(self.forms[0])

    @property
    def seen(self) -> ReadOff:
        *_, count, total = self.forms
        return ReadOff(count, total, self.terms[0])

    @property
    def identity(self) -> Hashable:
        return "part", self.statistic.identity, self.forms

    @property
    def inputs(self) -> tuple[Scalar, ...]:
        return self.statistic.inputs

    @property
    def terms(self) -> tuple[Term, ...]:
        return self.statistic.terms

    def with_terms(self, change: Callable[[Term], Term]) -> PartOfStatistic:
        return replace(self, statistic=self.statistic.with_terms(change))

    def sensitivity(self, limits: Limits) -> Sensitivity:
        return self.statistic.sensitivity(limits)

    def row_sums(self, names: Sequence[Node]) -> tuple[Node, ...]:
        raise error(901, "what is stored was about to be asked anew")

    def unit_sums(self, names: Sequence[Node]) -> UnitSums:
        raise error(901, "what is stored was about to be asked anew")

    def adds_up(self, one_row: bool) -> bool:
        return True

    def expected(self, units: Fraction, rows: Fraction) -> None:
        return None

    def told(self, say: Say) -> str:
        return f"{self.statistic.told(say)}, read off one vector with others"
