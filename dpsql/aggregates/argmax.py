"""dp_argmax(candidate, SUM(utility)): one of public candidates, chosen by the exponential mechanism with a utility of the caller's own.

The score u_c of a candidate c is the exact sum of its utility over the rows, in quanta of one grid that all candidates share. A row
adds to every score at once: L <= d_c <= U quanta, where U is the largest upper bound of any candidate, L the least lower one, and both
have 0 between them (a row without a value adds 0). A unit with r rows in the group moves every score by something in [r L, r U], so

    P(c) ~ exp(rate u_c),  rate = epsilon' / (U - L)

changes by at most a factor of exp(rate r (U - L)): of a change that all scores have in common nothing is seen, as it is divided out.
That is a loss of bounded range r epsilon' (histogram.py: together K epsilon'), and so rho = epsilon^2 / 8 of the exponential mechanism
(rule 71). Costs are distances from the largest score, cut off at 2^61: max(u_c, max u - 2^61) moves within the same [r L, r U].

Every candidate is scored, 0 where it has no row: the engine adds up one sum for each, cut to one number of rows for all of them.

Source: McSherry, Talwar 2007, Mechanism Design via Differential Privacy (the mechanism, and the auction); Dong, Durfee, Rogers 2020,
Optimal Differential Privacy Composition for Exponential Mechanisms (bounded range); Cesar, Rogers 2021 (its rho).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from dpsql.aggregates.base import CUT, ROWS, Limits, ReleasedColumn, Sensitivity, StatisticDefaults, UnitSums
from dpsql.aggregates.count import counting
from dpsql.aggregates.histogram import Counts, OverHistogramDefaults, Terms
from dpsql.aggregates.record import ANY_NUMBER, Aggregate, Around, Record
from dpsql.aggregates.sum import clamped_total
from dpsql.aggregates.telling import Say, clamped, where
from dpsql.aggregates.term import WIDEST, Term, filtered
from dpsql.core.events import Event
from dpsql.core.sqltypes import BIGINT
from dpsql.core.wording import counted, number
from dpsql.expressions.scalar import Scalar, tree_of
from dpsql.mechanisms.conversions import CHOICE
from dpsql.mechanisms.source import NoiseSource
from dpsql.sql.nodes import Call, Node, Number, own

FARTHEST_COST = 2**61
"""[quanta] From the largest score; candidates farther off are as good as that far."""


@dataclass(frozen=True, slots=True)
class Scores(StatisticDefaults):
    """The sum of each candidate's utility over the rows for which `counted` is true, all on one grid."""

    utilities: tuple[Term, ...]
    counted: Scalar | None

    @property
    def identity(self) -> Hashable:
        return "scores", tuple(one.identity for one in self.utilities), tree_of(self.counted)

    @property
    def inputs(self) -> tuple[Scalar, ...]:
        kept = () if self.counted is None else (self.counted,)
        return (*(one.scalar for one in self.utilities), *kept)

    @property
    def cells(self) -> int:
        return len(self.utilities)

    @property
    def sums(self) -> int:
        return len(self.utilities)

    @property
    def terms(self) -> tuple[Term, ...]:
        return self.utilities

    @property
    def spread(self) -> int:
        """The most that one row moves two scores apart [quanta]."""
        return max(one.upper for one in self.utilities) - min(one.lower for one in self.utilities)

    def sensitivity(self, limits: Limits) -> Sensitivity:
        most = limits.rows * max(one.magnitude for one in self.utilities)
        return Sensitivity(self.cells, most, most * self.cells, most * most * self.cells)

    def row_sums(self, names: Sequence[Node]) -> tuple[Node, ...]:
        kept = filtered(names[len(self.utilities) :])
        return tuple(one.total(name, kept) for one, name in zip(self.utilities, names, strict=False))

    def unit_sums(self, names: Sequence[Node]) -> UnitSums:
        """Each score is cut to the same number of rows, with a value or not."""
        named = [f"score{i}_" for i in range(self.sums)]
        totals = [Call("COALESCE", (tree, Number(0))) for tree in self.row_sums(names)]
        cut = [clamped_total(one, own(n), ROWS, CUT) for one, n in zip(self.utilities, named, strict=True)]
        inner = tuple(zip(named, totals, strict=True))
        return UnitSums(
            counting(filtered(names[len(self.utilities) :])), inner, tuple(cut), tuple(own(name) for name in named)
        )

    def to_cells(self, sums: Sequence[Sequence[int]]) -> tuple[Sequence[int], ...]:
        return tuple(sums)

    def adds_up(self, one_row: bool) -> bool:
        return True

    def expected(self, units: Fraction, rows: Fraction) -> None:
        return None

    def without_clamp(self) -> Scores:
        return replace(self, utilities=tuple(one.without_clamp() for one in self.utilities))

    def told(self, say: Say) -> str:
        return f"scores of {counted(self.cells, 'candidate')}"


@dataclass(frozen=True, slots=True)
class Argmax(OverHistogramDefaults):
    """The place of the chosen candidate in each group, from 1."""

    sums: Scores

    histogram = None
    cells = 1

    @property
    def scores(self) -> Scores:
        return self.sums

    @property
    def identity(self) -> Hashable:
        return "argmax", self.scores.identity

    @property
    def draws(self) -> int:
        return self.scores.cells

    @property
    def cost(self) -> str:
        quantum = self.scores.utilities[0].quantum
        return f"two scores apart by at most {number(self.scores.spread * quantum)}"

    def rate(self, terms: Terms) -> Fraction:
        """Of the choice, per quantum of a score."""
        return terms.per_row / self.scores.spread

    def events(self, terms: Terms) -> tuple[Event, ...]:
        return (CHOICE.event(terms.epsilon),)

    def release(self, groups: Sequence[Counts], terms: Terms, noise: NoiseSource) -> list[list[int]]:
        rate, alike = self.rate(terms), np.ones(self.scores.cells, dtype=np.int64)
        chosen: list[int] = []
        for counts in groups:
            most = max(counts.sums)
            costs = np.array([min(most - score, FARTHEST_COST) for score in counts.sums], dtype=np.int64)
            chosen.append(1 + noise.choose(costs, alike, rate, "exponential"))
        return [chosen]

    def told(self, say: Say) -> str:
        first = clamped(self.scores.utilities[0], say)
        kept = where(self.scores.counted, say)
        return f"about the largest of {counted(self.scores.cells, 'sum')}, one a candidate, the first of {first}{kept}"

    def bounds_told(self, say: Say) -> list[str]:
        return [f"{counted(self.scores.cells, 'candidate')} are public, and the utility of each has bounds"]

    def describe(self, terms: Terms) -> str:
        return f"exponential mechanism at rate {float(self.rate(terms)):.6g}"

    def margin(self, terms: Terms, level: Fraction) -> Fraction:
        """Distance of the chosen score from the largest one that is not passed with this level, in the unit of the utility.

        Why  P(behind by t) <= (m - 1) exp(-rate t)
        """
        quanta = math.log(max(2, self.scores.cells) / float(1 - level)) / float(self.rate(terms))
        return math.ceil(quanta) * self.scores.utilities[0].quantum


@dataclass(frozen=True, slots=True)
class ArgmaxOf:
    """The place of the chosen candidate; the query around it shows the candidate itself."""

    argmax: Argmax

    sqltype = BIGINT

    def promise(self, terms: Terms, level: Fraction) -> str:
        margin = self.argmax.margin(terms, level)
        return f"its score is within {number(margin)} of the largest with {100 * float(level):g} %; no interval"

    def column(self, cells: Sequence[Sequence[int]], terms: Terms, level: Fraction) -> ReleasedColumn:
        return ReleasedColumn(list(cells[0]), [None] * len(cells[0]))


def on_one_grid(terms: Sequence[Term]) -> tuple[Term, ...]:
    """The same values with 0 between their bounds, all in quanta of the finest grid, or of a coarser one where
    WIDEST of them would not do."""
    lower = min(Fraction(0), *(t.lower * t.quantum for t in terms))
    upper = max(Fraction(0), *(t.upper * t.quantum for t in terms))
    quantum = min(t.quantum for t in terms)
    while (upper - lower) / quantum > WIDEST:
        quantum *= 2
    return tuple(
        replace(
            t,
            lower=min(0, math.floor(t.lower * t.quantum / quantum)),
            upper=max(0, math.ceil(t.upper * t.quantum / quantum)),
            quantum=quantum,
        )
        for t in terms
    )


def _argmax(aggregate: Aggregate, value: Scalar, _: Around) -> tuple[Argmax, ArgmaxOf]:
    utilities = on_one_grid([aggregate.term(one) for one in value.args])
    argmax = Argmax(Scores(utilities, aggregate.condition))
    return argmax, ArgmaxOf(argmax)


ARGMAX = Record(
    "argmax", {"dp_argmax(candidate, SUM(utility))": "the candidate of a public list with about the largest sum"},
    "the place of the candidate with about the largest sum", "dp_argmax(candidate, SUM(...))", "dp_argmax", takes=ANY_NUMBER,
    sqltype=lambda _: BIGINT, histogram=_argmax, each="the score of a candidate",
)  # fmt: skip
