"""Statistics that noise is added to, and estimates that post-process it (others: histogram.py).

A *statistic* is a vector of integer cells per group, in quanta. The engine returns a few exact integer sums per group; the cells are
linear in them. Its sensitivity says how far one unit moves the whole vector, over all groups, given the limits that the engine SQL
enforces on every unit.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import numpy as np
import numpy.typing as npt

from dpsql.aggregates.telling import Say, has_bounds
from dpsql.aggregates.term import Term
from dpsql.core.errors import error
from dpsql.core.sqltypes import SqlType
from dpsql.expressions.scalar import Scalar
from dpsql.sql.nodes import Node, own

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Limits:
    """Most that one unit contributes to one release, enforced by the engine SQL.

    rows    [rows] in all groups together
    groups  [groups]
    values  [values] in one group, where different values are counted; None: as many as rows
    """

    rows: int
    groups: int
    values: int | None = None

    def __post_init__(self) -> None:
        if self.rows < 1 or self.groups < 1 or (self.values is not None and self.values < 1):
            raise ValueError("limits are at least 1")


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """Distance between the cells of neighbouring databases at most [quanta]: cells moved, most per group, L1, squared L2."""

    l0: int
    linf: int
    l1: int
    l2_squared: int


def sensitivity_of_rows(limits: Limits, weight: int, cells: int) -> Sensitivity:
    """For a statistic in which a row moves its group's cells by at most `weight` in L1.

    A unit has at most `limits.rows` rows in all, so L1 <= rows * weight; all of them may fall into one group, and L2 <= L1.
    """
    most = limits.rows * weight
    return Sensitivity(min(limits.rows, limits.groups) * cells, most, most, most * most)


@dataclass(frozen=True, slots=True)
class UnitSums:
    """Per-unit sums: a unit with more than one row is summed, clamped and added up (planner/lower puts the pieces
    together).

    rows      over the rows of one (unit, group): how many rows it brings to this statistic
    inner     further (name, tree) over the same rows
    outer     over one (unit, group), one per exact sum, where CUT is the number of rows that the limit leaves it
              and ROWS and the names are the columns above
    shared    further (name, tree), computed once of the columns above, for `outer`
    whole     the same where the columns above are sums over the rows of many units, which keep all of them: `outer` of each, added up;
              () where that is no function of them, as where each unit counts once
    """

    rows: Node
    inner: tuple[tuple[str, Node], ...]
    outer: tuple[Node, ...]
    whole: tuple[Node, ...] = ()
    shared: tuple[tuple[str, Node], ...] = ()


ROWS, CUT = own("rows"), own("cut")


@dataclass(frozen=True, slots=True)
class Matching:
    """Values taken by units with more than one row (aggregates/distinct_values.py): an exact sum is how many are taken.

    value  over a row; NULL where it brings none
    most   [values] that one unit takes in one group
    """

    value: Node
    most: int


class Weighted(Protocol):
    """A weighted sum of cells (forms.py)."""

    @property
    def weights(self) -> tuple[float, ...]: ...


class Statistic(Protocol):
    """One vector of cells per group."""

    @property
    def identity(self) -> Hashable:
        """Identity of what is counted or added up: equal ones are the same statistic."""
        ...

    @property
    def inputs(self) -> tuple[Scalar, ...]:
        """The row expressions that it reads; lower/rows.py names them x0, x1, ... and passes the names on."""
        ...

    def steps(self, names: Sequence[Node]) -> tuple[Node, ...]:
        """Expressions computed once of the inputs of one row; lower/rows.py names it too, after the inputs."""
        ...

    def later(self, names: Sequence[Node], level: int) -> tuple[Node, ...]:
        """The same of what was computed before, which is among the names then, at the first level and up; () ends it."""
        ...

    @property
    def cells(self) -> int: ...

    @property
    def sums(self) -> int: ...

    def sensitivity(self, limits: Limits) -> Sensitivity: ...

    def row_sums(self, names: Sequence[Node]) -> tuple[Node, ...]:
        """One aggregate per exact sum, where a unit has at most one row: each an integer of scale 0 (rule 48)."""
        ...

    def unit_sums(self, names: Sequence[Node]) -> UnitSums | Matching:
        """The same where a unit may have several rows."""
        ...

    def to_cells(self, sums: Sequence[Sequence[int]]) -> tuple[Sequence[int], ...]:
        """The cells of every group, from its exact sums."""
        ...

    def adds_up(self, one_row: bool) -> bool:
        """True if the cells of groups add up to those of all their rows; `one_row`: each unit has one row, so it is in one group."""
        ...

    def expected(self, units: Fraction, rows: Fraction) -> Fraction | None:
        """Expected sum of the cells of a group of so many units and rows [quanta]; None where nothing is known of
        it."""
        ...

    @property
    def terms(self) -> tuple[Term, ...]:
        """The clamped values that it is a sum of."""
        ...

    def same(self, *, cut: bool) -> Iterable[tuple[Statistic, tuple[Weighted, ...]]]:
        """The statistics of the same rows that can be read off its cells, and by what sums of them; as stored answers keep them.

        cut  whether rows of a unit may be cut
        """
        ...

    @property
    def number(self) -> Estimate:
        """A number of units or rows that it is, as what decides by it reads it. Raises 901 where it is none."""
        ...

    @property
    def parts(self) -> int:
        """Statistics that it stands for: where prices are shared equally, it has the shares of so many."""
        ...

    @property
    def counts_units(self) -> bool:
        """True if it counts units, whose other rows are no matter."""
        ...

    def uncut_sums(self, names: Sequence[Node], unit: Node) -> tuple[Node, ...] | None:
        """One aggregate per exact sum over the rows of all units, where nothing of any is cut; None where it is no such sum."""
        ...

    def with_terms(self, change: Callable[[Term], Term]) -> Statistic:
        """The same of changed terms, whose limits are as many quanta apart."""
        ...

    def without_clamp(self) -> Statistic:
        """The same where the bounds of its terms were verified: clamps are left out that then change nothing."""
        ...

    def told(self, say: Say) -> str:
        """Name the statistic in words."""
        ...

    def bounds_told(self, say: Say) -> list[str]:
        """Name the values that have the bounds that its sensitivity needs, in words."""
        ...


class StatisticDefaults:
    """Defaults of most statistics: one cell, which is one exact sum."""

    __slots__ = ()

    counts_units = False
    parts = 1

    def same(self, *, cut: bool) -> Iterable[tuple[Statistic, tuple[Weighted, ...]]]:
        return ()

    @property
    def number(self) -> Estimate:
        raise error(901, "what decides by a number reads none")

    @property
    def cells(self) -> int:
        return 1

    @property
    def sums(self) -> int:
        return 1

    def steps(self, names: Sequence[Node]) -> tuple[Node, ...]:
        return ()

    def later(self, names: Sequence[Node], level: int) -> tuple[Node, ...]:
        return ()

    def to_cells(self, sums: Sequence[Sequence[int]]) -> tuple[Sequence[int], ...]:
        return (sums[0],)

    def uncut_sums(self: Statistic, names: Sequence[Node], unit: Node) -> tuple[Node, ...] | None:
        return self.row_sums(names)

    def with_terms(self: Statistic, change: Callable[[Term], Term]) -> Statistic:
        return self

    def without_clamp(self: Statistic) -> Statistic:
        return self.with_terms(Term.without_clamp)

    def bounds_told(self: Statistic, say: Say) -> list[str]:
        return [has_bounds(term, say) for term in self.terms]


class Noise(Protocol):
    """Properties of the mechanism whose noise is in its cells."""

    def __hash__(self) -> int: ...

    def half_width_of_sum(self, copies: int, level: Fraction) -> int:
        """h with P(|Z1 + ... + Zn| <= h) >= level for 1, 2 or 3 independent draws [quanta]."""
        ...

    def half_width_of_weights(self, weights: Sequence[float], level: Fraction) -> float:
        """h with P(|w1 * Z1 + w2 * Z2 + ...| <= h) >= level for independent draws [quanta]."""
        ...

    def at(self, points: Floats) -> Floats:
        """The values that the noise stays below with the probabilities `points`, as if it were continuous [quanta]."""
        ...


@dataclass(frozen=True, slots=True)
class ReleasedColumn:
    """A released column: values in the sandbox's form, and an interval per value (None where there is none)."""

    values: Sequence[object]
    intervals: Sequence[tuple[float, float] | None]


class Estimate(Protocol):
    """A released column, made of the noisy cells of one statistic: post-processing."""

    @property
    def sqltype(self) -> SqlType: ...

    def half_width(self, noise: Noise, level: Fraction) -> float | None:
        """Of every value's interval, in the column's own unit; None where it depends on what is released."""
        ...

    def errors(self, noise: Noise, level: Fraction) -> tuple[float, ...]:
        """Errors by which ways to make the same column are compared, in its own unit: its half-width, or a little more; of an average,
        which is divided by the number of rows, that of one row where it is near its lower bound, the middle, and its upper bound;
        of what is computed of moments those of variances and covariances. () where nothing is known."""
        ...

    def column(self, cells: Sequence[Sequence[int]], noise: Noise, level: Fraction) -> ReleasedColumn: ...

    def sampled(self, cells: Sequence[Sequence[int]], noise: Noise, level: Fraction) -> Floats | None:
        """Of each value about the most that it is likely to be off from that of the people whom these are a random sample of, beside
        its interval; NaN, or None for all, where it is not known. It, the interval and what is read of noise may each miss with
        1 - level (sampling.py)."""
        ...

    @property
    def counts(self) -> bool:
        """True if it is a number of units or rows."""
        ...

    @property
    def depends(self) -> bool:
        """True if its half-width depends on what is released."""
        ...

    @property
    def over_rows(self) -> Fraction | None:
        """Factor of the half-width of one cell, over the number of rows of a group, for that of the column, or the most
        that it is [the column's own unit]; None where it is known as it is, or depends on more."""
        ...

    @property
    def remark(self) -> str:
        """Add a remark of EXPLAIN; "": nothing."""
        ...


class EstimateDefaults:
    """Defaults of most estimates."""

    __slots__ = ()

    counts = False
    depends = False

    def sampled(self, cells: Sequence[Sequence[int]], noise: Noise, level: Fraction) -> Floats | None:
        return None

    def errors(self: Estimate, noise: Noise, level: Fraction) -> tuple[float, ...]:
        width = self.half_width(noise, level)
        return () if width is None else (width,)

    @property
    def remark(self) -> str:
        return ""

    @property
    def over_rows(self) -> Fraction | None:
        return None
