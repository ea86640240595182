"""BOOL_OR(x) and BOOL_AND(x): whether any row, or every row, has it, read off a noisy number of rows.

One row turns either from FALSE to TRUE, so what is released is COUNT(*) of the rows that decide it: those where x is true for
BOOL_OR, those where it is false for BOOL_AND. Where that number stands out of its noise there surely is such a row: TRUE for BOOL_OR,
FALSE for BOOL_AND. Within the half-width of the noise nothing is known: NULL, as where there are no rows. That nobody decides
otherwise cannot be said without telling of one person, so neither the FALSE of BOOL_OR nor the TRUE of BOOL_AND is ever given.

The number of rows has the sensitivity of COUNT(*), and what is read off it is post-processing. Source: ours.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from dpsql.aggregates.base import Estimate, EstimateDefaults, Noise, ReleasedColumn, Statistic
from dpsql.aggregates.count import CountOf
from dpsql.aggregates.record import Aggregate, Record
from dpsql.aggregates.shared import all_rows
from dpsql.core.sqltypes import BOOLEAN, SqlType
from dpsql.expressions.logic import negation
from dpsql.expressions.scalar import Scalar


@dataclass(frozen=True, slots=True)
class Surely(EstimateDefaults):
    """A truth value where a number of rows is above 0 whatever its noise, else NULL."""

    rows: Estimate
    shown: bool
    sqltype: SqlType = BOOLEAN

    depends = True
    remark = "NULL where the number of rows that decide does not stand out of its noise"

    def half_width(self, noise: Noise, level: Fraction) -> None:
        return None

    def column(self, cells: Sequence[Sequence[int]], noise: Noise, level: Fraction) -> ReleasedColumn:
        """Answer where the interval tells: with `level` it holds the exact number; less than half a row of noise leaves that itself."""
        found, h = self.rows.column(cells, noise, level), self.rows.half_width(noise, level)
        exact = h is not None and h < 0.5
        known = [end is not None and (end[0] > 0 or (exact and end[1] > 1)) for end in found.intervals]
        return ReleasedColumn([self.shown if above else None for above in known], [None] * len(known))


def _record(
    name: Literal["bool_and", "bool_or"], gives: str, shown: bool, deciding: Callable[[Scalar], Scalar]
) -> Record:
    def read(statistic: Statistic, aggregate: Aggregate) -> Estimate:
        return Surely(all_rows(statistic, aggregate), shown)

    called = name.replace("bool_", "logical_")
    # said of the rows that decide: a FILTER keeps them
    return Record(
        name, {f"{name.upper()}(condition)": gives, f"{called.upper()}(condition)": ""},
        f"{str(shown).upper()} if there surely are rows", f"{name.upper()}({str(shown).upper()})",
        degree=0, exact=name, sqltype=lambda _: BOOLEAN, deciding=deciding, read=read,
        apart=(("rows",), lambda _, sqltype: Surely(CountOf(1), shown)), only_counts=True, adds="rows", sampled="count(*){kept}",
        grows=True,
    )  # fmt: skip


BOOL_AND = _record("bool_and", "FALSE where some row surely has it not, else NULL", False, negation)
BOOL_OR = _record("bool_or", "TRUE where some row surely has it, else NULL", True, lambda condition: condition)
