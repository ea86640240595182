"""Models: means and second moments of a row's features, and gradients of its loss, as vectors whose length one unit bounds.

A row is a vector z over the features: 1/2 for the intercept, each number by its bounds in [-1, 1], a boolean as -1/3 or 1/3, a list
as 1/3 at its value and 0 elsewhere; all over the root of the sum of the squares of these weights, so that |z|_2 <= 1 over the whole
declared box. A row without one of the values, or with one that is on no list, is left out. The label is in [-1, 1].

The means of z and of the label are released first, and what comes after is of x, z less its mean, whose length is far below 1 for most
rows; so is what a clip has to be.

What one unit can change
  1. Scaling, centre, starting point and weights are constants of the text: declared, or released before. None is of the data.
  2. Means: a row adds z beside half of its label, over the root of 5/4: at most 1 in L2, in units of 2^-20, truncated towards zero.
  3. Second moments: a row adds to the upper triangle of a a^T, of which each entry is one cell, truncated towards zero; a is x
     scaled by min(1, R / |x|) over R, in a linear model beside the label less its mean, clamped to half of R, both over the root of
     5/4 more: at most |a|_2^2 = 1 in L2, in units of 2^-20. A unit keeps the share of its sums, of 2 and 3, that its limit of rows
     leaves it: at most K 2^20.
  4. Gradients: a row adds r S x, truncated towards zero, S a factor for each column, made of what was released before, and r what its
     prediction errs, clamped to C / |S x|: at most C in L2. A unit with several rows has their sum scaled by min(1, C / norm) and
     truncated again, however many rows it has: at most C 2^20.
     Truncation makes no entry longer, so the scaled sum is measured once; one whose length is beyond any of rows counts as nothing.
  5. Principal components have no label and no gradients: z of 2 and a of 3 stand without one, undivided by the root of 5/4, and are at
     most 1 in L2 as they are.
  6. All of this is rounded as DOUBLE, by far less than 1 quantum: K 2^20 + 1 and C 2^20 + 1 are what is charged.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor, sqrt

from dpsql.aggregates.base import CUT, ROWS, Limits, Sensitivity, StatisticDefaults, UnitSums
from dpsql.aggregates.design import Design, double, times
from dpsql.aggregates.telling import Say
from dpsql.aggregates.term import Term
from dpsql.core.sqltypes import BIGINT, DOUBLE
from dpsql.core.wording import counted, number
from dpsql.expressions.scalar import Scalar
from dpsql.sql.nodes import Aggregate, Between, Binary, Call, Case, Cast, Chain, Is, Node, Number, own

UNIT = 2**20
"""[quanta] in a vector of length 1."""
LABEL = 0.5
"""Weight of the label beside z."""
SQUARES = 1 + LABEL**2
"""The most that the squares of z and of the label beside it add up to."""
LONGEST = 2.0**250
"""[quanta^2] More than the square of any sum: of 2^63 rows of length 2^21, it is below 2^168."""
LONGEST_ROW = 16.0
"""More than the square of any row less its mean, with the label."""
STEEPEST = 30
"""The most that a logistic model's log odds count: exp of more than 700 is beyond DOUBLE, and raises on some engines."""


class _Vector(StatisticDefaults):
    """A vector over rows of a model, of which each exact sum is a cell.

    Of a row without a value what is added up is NULL: a FILTER that leaves it out makes DuckDB take twice as long.
    """

    __slots__ = ()
    design: Design

    @property
    def less(self) -> Sequence[float]:
        """Numbers taken off the columns of a row, but for the intercept, and off its label."""
        return (0.0,) * self.design.columns

    @property
    def inputs(self) -> tuple[Scalar, ...]:
        return self.design.inputs

    @property
    def sums(self) -> int:
        return self.cells

    def steps(self, names: Sequence[Node]) -> tuple[Node, ...]:
        return self.design.columns_of(names, self.less)

    def uncut_sums(self, names: Sequence[Node], unit: Node) -> None:
        return None

    def to_cells(self, sums: Sequence[Sequence[int]]) -> tuple[Sequence[int], ...]:
        return tuple(sums)

    def expected(self, units: Fraction, rows: Fraction) -> None:
        return None


class _Moments(_Vector, ABC):
    """Sums over rows, of which a unit keeps the share that its limit of rows leaves it."""

    __slots__ = ()

    @abstractmethod
    def row_sums(self, names: Sequence[Node]) -> tuple[Node, ...]:
        """A sum over all rows for each cell."""

    def sensitivity(self, limits: Limits) -> Sensitivity:
        return _of_length(limits.rows * UNIT + 1, self.cells)

    def unit_sums(self, names: Sequence[Node]) -> UnitSums:
        inner = tuple((f"m{i}_", Call("COALESCE", (tree, Number(0)))) for i, tree in enumerate(self.row_sums(names)))
        share = Binary("/", Cast(CUT, DOUBLE, tries=False), Cast(_at_least_one(ROWS), DOUBLE, tries=False))
        kept = tuple(_truncated(Binary("*", Cast(own(name), DOUBLE, tries=False), share)) for name, _ in inner)
        return UnitSums(Aggregate("count", (names[-1],)), inner, kept)

    def adds_up(self, one_row: bool) -> bool:
        return True

    @property
    def terms(self) -> tuple[Term, ...]:
        return tuple(f.term for f in self.design.named if f.term is not None)


@dataclass(frozen=True, slots=True)
class Means(_Moments):
    """The sums of z and of half of the label, over the root of SQUARES; or of z alone."""

    design: Design

    @property
    def identity(self) -> Hashable:
        return "means", self.design.identity

    @property
    def cells(self) -> int:
        return self.design.columns + (self.design.label is not None)

    @property
    def unit(self) -> float:
        """Sum that a cell of UNIT stands for."""
        return 1.0 if self.design.label is None else sqrt(SQUARES)

    def later(self, names: Sequence[Node], level: int) -> tuple[Node, ...]:
        return () if level else (_added(names[len(self.inputs) :]),)

    def row_sums(self, names: Sequence[Node]) -> tuple[Node, ...]:
        *read, present = names[len(self.inputs) :]
        z, label = read[: self.design.columns - 1], read[self.design.columns - 1 :]
        a = (double(self.design.intercept), *z, *(times(value, LABEL) for value in label))
        whole = (_truncated(times(value, UNIT * (1 - 2.0**-40) / self.unit)) for value in a)
        return tuple(Aggregate("sum", (each,), where=Is(present, "NOT NULL")) for each in whole)

    def told(self, say: Say) -> str:
        return f"means of {counted(self.cells, 'scaled column')}"


@dataclass(frozen=True, slots=True)
class SecondMoments(_Moments):
    """The upper triangle of the sum of a a^T, a being x no longer than R, over R; or that and the label, over the root of SQUARES.

    reach  R
    """

    design: Design
    with_label: bool
    reach: Fraction
    centre: tuple[float, ...]

    @property
    def identity(self) -> Hashable:
        return "second moments", self.design.identity, self.with_label, self.reach

    @property
    def less(self) -> Sequence[float]:
        return self.centre

    @property
    def size(self) -> int:
        return self.design.columns + self.with_label

    @property
    def cells(self) -> int:
        return self.size * (self.size + 1) // 2

    @property
    def unit(self) -> float:
        """Sum of products that a cell of UNIT stands for."""
        return float(self.reach**2) * (SQUARES if self.with_label else 1)

    def later(self, names: Sequence[Node], level: int) -> tuple[Node, ...]:
        """|x|^2, NULL where the row has not all values; by what x is multiplied; and then a, which is NULL there as a whole."""
        width, read = self.design.columns - 1, names[len(self.inputs) :]
        values, label = read[:width], read[width : width + (self.design.label is not None)]
        x, reach = [double(self.design.intercept), *values], float(self.reach)
        if level == 0:
            return (_added([*(Binary("*", value, value) for value in x), *(times(value, 0.0) for value in label)]),)
        if level == 1:
            squares = names[-1]
            within, longer = (
                Between(squares, *map(double, ends)) for ends in ((0.0, reach**2), (reach**2, LONGEST_ROW))
            )
            length = Binary("/", double(1.0), Call("sqrt", (squares,)))
            return (Case(((within, double(1 / reach)), (longer, length))),)
        if level == 2:
            ends = [double(sign * LABEL * reach) for sign in (-1, 1)]
            beside = (times(_between(value, *ends), 1 / reach) for value in label if self.with_label)
            return (*(Binary("*", value, names[-1]) for value in x), *beside)
        return ()

    def row_sums(self, names: Sequence[Node]) -> tuple[Node, ...]:
        a, factor = names[-self.size :], UNIT / (SQUARES if self.with_label else 1)
        products = [Binary("*", a[i], a[j]) for i in range(len(a)) for j in range(i, len(a))]
        return tuple(Aggregate("sum", (_truncated(times(product, factor)),)) for product in products)

    def told(self, say: Say) -> str:
        return f"second moments of {counted(self.size, 'scaled column')}, one row's clipped to {number(self.reach)}"


@dataclass(frozen=True, slots=True)
class Gradient(_Vector):
    """The sum of the gradients of a loss at some weights, each unit's clipped.

    logistic  whether it is the loss of log odds; else half of the square of what the prediction errs
    clip      C
    centre    of the label 0 where it is logistic
    scales    S
    weights   of the columns, in the order of x: constants, as S, released before
    """

    design: Design
    logistic: bool
    clip: Fraction
    centre: tuple[float, ...]
    scales: tuple[float, ...]
    weights: tuple[float, ...]

    @property
    def identity(self) -> Hashable:
        return "gradient", self.design.identity, self.logistic, self.clip

    @property
    def less(self) -> Sequence[float]:
        return self.centre

    @property
    def cells(self) -> int:
        return self.design.columns

    def later(self, names: Sequence[Node], level: int) -> tuple[Node, ...]:
        """The prediction and |S x|^2; then what the prediction errs, clamped so that times S x it is no longer than C."""
        read = names[len(self.inputs) :]
        width = self.design.columns
        if level == 0:
            x = [double(self.design.intercept), *read[: width - 1]]
            weighed = [times(value, weight) for value, weight in zip(x, self.weights, strict=True)]
            each = [times(Binary("*", value, value), scale**2) for value, scale in zip(x, self.scales, strict=True)]
            return _added(weighed), _added(each)
        if level == 1:
            label, predicted, squares = read[width - 1 : width + 2]
            # |S x| is no less than the intercept's
            shortest, longest = (self.scales[0] * self.design.intercept) ** 2 / 2, LONGEST_ROW * max(self.scales) ** 2
            is_length = Between(squares, double(shortest), double(longest))
            most = Binary("/", double(float(self.clip)), Call("sqrt", (squares,)))
            return self._errs(predicted, label), Case(((is_length, most),), double(0.0))
        if level == 2:
            errs, at_most = read[width + 2 : width + 4]
            return (_between(errs, Binary("-", double(0.0), at_most), at_most),)
        return ()

    def _errs(self, predicted: Node, label: Node) -> Node:
        if not self.logistic:
            return Binary("-", _between(predicted, *(double(end - self.centre[-1]) for end in (-1.0, 1.0))), label)
        odds = _between(Binary("-", double(0.0), predicted), double(-STEEPEST), double(STEEPEST))
        share = Binary("/", double(1.0), Binary("+", double(1.0), Call("exp", (odds,))))
        is_one = Binary("*", Binary("+", label, double(1.0)), double(0.5))
        return Binary("-", share, is_one)

    def sensitivity(self, limits: Limits) -> Sensitivity:
        return _of_length(floor(self.clip * UNIT) + 1, self.cells)

    def row_sums(self, names: Sequence[Node]) -> tuple[Node, ...]:
        values, errs = names[len(self.inputs) :][: self.design.columns - 1], names[-1]
        x = [double(self.design.intercept), *values]
        each = (times(Binary("*", errs, value), UNIT * scale) for value, scale in zip(x, self.scales, strict=True))
        return tuple(Aggregate("sum", (_truncated(one),)) for one in each)

    def unit_sums(self, names: Sequence[Node]) -> UnitSums:
        """However many rows a unit has, its sum is clipped as a whole."""
        inner = [(f"g{i}_", Call("COALESCE", (tree, Number(0)))) for i, tree in enumerate(self.row_sums(names))]
        doubles = [Cast(own(name), DOUBLE, tries=False) for name, _ in inner]
        length = _added([Binary("*", double, double) for double in doubles])
        most = float(self.clip * UNIT)
        within, longer = (Between(length, *map(double, ends)) for ends in ((0.0, most**2), (most**2, LONGEST)))
        scaled = Binary("/", double(most), Call("sqrt", (length,)))
        share = Case(((within, double(1.0)), (longer, scaled)), double(0.0))
        kept = [_truncated(Binary("*", double, own("share_"))) for double in doubles]
        return UnitSums(Aggregate("count", (names[-1],)), tuple(inner), tuple(kept), shared=(("share_", share),))

    def adds_up(self, one_row: bool) -> bool:
        return False

    @property
    def terms(self) -> tuple[Term, ...]:
        return ()

    def told(self, say: Say) -> str:
        kind = "logistic" if self.logistic else "squared"
        return f"gradient of the {kind} loss over {counted(self.cells, 'column')}, one person's clipped to {number(self.clip)}"


def _of_length(length: int, cells: int) -> Sensitivity:
    return Sensitivity(cells, length, ceil(length * sqrt(cells)) + 1, length**2)


def _added(parts: Sequence[Node]) -> Node:
    return Chain("+", tuple(parts))


def _at_least_one(rows: Node) -> Node:
    return Call("GREATEST", (rows, Number(1)))


def _between(node: Node, low: Node, high: Node) -> Node:
    """A value clamped; NULL for NULL and NaN."""
    return Case(((Between(node, low, high), node), (Binary("<", node, low), low), (Binary(">", node, high), high)))


def _truncated(node: Node) -> Node:
    """Towards zero, as a whole number."""
    return Cast(Call("trunc", (node,)), BIGINT, tries=False)


@dataclass(frozen=True, slots=True)
class Fit:
    """The way to fit a model: its means, its second moments, then gradients at one point after the other.

    reach   R of the second moments of a row
    clip    C of a unit's gradient
    passes  number of gradients; 0 for principal components, which are made of the second moments
    """

    design: Design
    logistic: bool
    reach: Fraction
    clip: Fraction
    passes: int

    @property
    def means(self) -> Means:
        return Means(self.design)

    def moments(self, centre: Sequence[float]) -> SecondMoments:
        """Of a linear model with the label: they tell where to begin."""
        with_label = self.design.label is not None and not self.logistic
        return SecondMoments(self.design, with_label, self.reach, tuple(centre))

    def gradient(self, centre: Sequence[float], scales: Sequence[float], weights: Sequence[float]) -> Gradient:
        label = 0.0 if self.logistic else centre[-1]
        return Gradient(self.design, self.logistic, self.clip, (*centre[:-1], label), tuple(scales), tuple(weights))

    @property
    def statistics(self) -> tuple[Means | SecondMoments | Gradient, ...]:
        """All of them; the later ones at a centre, scales and weights that are not known yet."""
        unknown = (0.0,) * self.design.columns
        gradient = self.gradient(unknown, (1.0,) * self.design.columns, unknown)
        return (self.means, self.moments(unknown), *[gradient] * self.passes)
