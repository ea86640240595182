"""Models: second moments of a row's features, and gradients of its loss, as vectors whose length one unit bounds.

A row is a vector z over the features: 1 for the intercept, each number by its bounds in [-1, 1], a boolean as -1 or 1, a list as 1 at
its value and 0 elsewhere; all over the root of 1 and the number of features, so that |z|_2 <= 1 over the whole declared box. A row
without one of the values, or with one that is on no list, is left out. So is the label in [-1, 1], beside z in a linear model.

What one unit can change
  1. Scaling, starting point and weights are constants of the text: declared, or released before. None is of the data.
  2. Second moments: a row adds to the upper triangle of a a^T, |a|_2 <= 1, of which each entry is one cell, truncated towards zero:
     at most |a|_2^2 = 1 in L2, in units of 2^-20. A unit keeps the share of its sum that its limit of rows leaves it: at most K 2^20.
  3. Gradients: a row adds r z, truncated towards zero, r being what its prediction errs, clamped to C / |z|: at most C in L2. A unit
     with several rows has their sum scaled by min(1, C / norm) and truncated again, however many rows it has: at most C 2^20.
     Truncation makes no entry longer, so the scaled sum is measured once; one whose length is beyond any of rows counts as nothing.
  4. All of this is rounded as DOUBLE, by far less than 1 quantum: K 2^20 + 1 and C 2^20 + 1 are what is charged.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor, sqrt

from dpsql.aggregates.base import CUT, ROWS, Limits, Sensitivity, StatisticDefaults, UnitSums
from dpsql.aggregates.telling import Say
from dpsql.aggregates.term import Term
from dpsql.core.domains import Value
from dpsql.core.sqltypes import BIGINT, DOUBLE
from dpsql.core.wording import counted, number
from dpsql.expressions.scalar import Scalar
from dpsql.sql.nodes import Aggregate, Between, Binary, Call, Case, Cast, Chain, In, Is, Literal, Node, Not, Number, own

UNIT = 2**20
"""[quanta] in a vector of length 1."""
SQUARES = 2
"""Of the length of z and of a label beside it, at most 1 each."""
LONGEST = 2.0**250
"""[quanta^2] More than the square of any sum: of 2^63 rows of length 2^21, it is below 2^168."""
STEEPEST = 30
"""The most that a logistic model's log odds count: exp of more than 700 is beyond DOUBLE, and raises on some engines."""


@dataclass(frozen=True, slots=True)
class Feature:
    """A feature or a label: a number by the term of its bounds, or a list, a boolean among these, by its values.

    told  its name
    """

    told: str
    scalar: Scalar
    term: Term | None
    levels: tuple[Value, ...] = ()

    @property
    def identity(self) -> Hashable:
        return self.scalar.tree, self.term.identity if self.term is not None else self.levels

    @property
    def columns(self) -> int:
        return 1 if self.term is not None or self.scalar.sqltype.is_boolean else len(self.levels)

    def values(self, x: Node, scale: float) -> list[Node]:
        """Its columns, each at most `scale` from 0; NULL where it has no value, or one that is not declared."""
        if self.term is not None:
            middle, width = self.term.lower + self.term.upper, self.term.width
            doubled = Binary("-", Binary("*", Number(2), self.term.quanta(x)), Number(middle))
            return [_times(Cast(doubled, DOUBLE, tries=False), scale / width)]
        if self.scalar.sqltype.is_boolean:
            return [Case(((x, _double(scale)), (Not(x), _double(-scale))))]
        listed = tuple(Literal(level, self.scalar.sqltype) for level in self.levels)
        return [_at(x, listed, i, scale) for i in range(len(listed))]


@dataclass(frozen=True, slots=True)
class Design:
    """The features of a model, and its label."""

    features: tuple[Feature, ...]
    label: Feature

    @property
    def identity(self) -> Hashable:
        return tuple(one.identity for one in self.features), self.label.identity

    @property
    def inputs(self) -> tuple[Scalar, ...]:
        return tuple(one.scalar for one in (*self.features, self.label))

    @property
    def scale(self) -> float:
        """Weight of each feature and of the intercept: a little less than the root, so that no rounding is above it."""
        return (1 - 2.0**-40) / sqrt(1 + len(self.features))

    @property
    def columns(self) -> int:
        """The intercept's, and those of the features."""
        return 1 + sum(one.columns for one in self.features)

    def columns_of(self, names: Sequence[Node]) -> tuple[Node, ...]:
        """z without the intercept, which is a constant, and then the label in [-1, 1]."""
        found = [value for one, x in zip(self.features, names, strict=False) for value in one.values(x, self.scale)]
        return (*found, *self.label.values(names[len(self.features)], 1.0))


class _Vector(StatisticDefaults):
    """A vector over rows of a model, of which each exact sum is a cell."""

    __slots__ = ()
    design: Design

    @property
    def inputs(self) -> tuple[Scalar, ...]:
        return self.design.inputs

    @property
    def sums(self) -> int:
        return self.cells

    def steps(self, names: Sequence[Node]) -> tuple[Node, ...]:
        return self.design.columns_of(names)

    def uncut_sums(self, names: Sequence[Node], unit: Node) -> None:
        return None

    def to_cells(self, sums: Sequence[Sequence[int]]) -> tuple[Sequence[int], ...]:
        return tuple(sums)

    def expected(self, units: Fraction, rows: Fraction) -> None:
        return None


@dataclass(frozen=True, slots=True)
class SecondMoments(_Vector):
    """The upper triangle of the sum of a a^T, a being z or, with the label, z and the label over the root of 2."""

    design: Design
    with_label: bool

    @property
    def identity(self) -> Hashable:
        return "second moments", self.design.identity, self.with_label

    @property
    def size(self) -> int:
        return self.design.columns + self.with_label

    @property
    def cells(self) -> int:
        return self.size * (self.size + 1) // 2

    def later(self, names: Sequence[Node], level: int) -> tuple[Node, ...]:
        return () if level else (_added(names[len(self.inputs) :]),)

    def sensitivity(self, limits: Limits) -> Sensitivity:
        return _of_length(limits.rows * UNIT + 1, self.cells)

    def row_sums(self, names: Sequence[Node]) -> tuple[Node, ...]:
        *values, present = names[len(self.inputs) :]
        a = [_double(self.design.scale), *(values if self.with_label else values[:-1])]
        factor = float(UNIT) / (SQUARES if self.with_label else 1)
        products = [Binary("*", a[i], a[j]) for i in range(len(a)) for j in range(i, len(a))]
        whole = (_truncated(_times(product, factor)) for product in products)
        return tuple(Aggregate("sum", (each,), where=Is(present, "NOT NULL")) for each in whole)

    def unit_sums(self, names: Sequence[Node]) -> UnitSums:
        inner = tuple((f"m{i}_", Call("COALESCE", (tree, Number(0)))) for i, tree in enumerate(self.row_sums(names)))
        share = Binary("/", Cast(CUT, DOUBLE, tries=False), Cast(_at_least_one(ROWS), DOUBLE, tries=False))
        kept = tuple(_truncated(Binary("*", Cast(own(name), DOUBLE, tries=False), share)) for name, _ in inner)
        return UnitSums(Aggregate("count", (names[-1],)), inner, kept)

    def adds_up(self, one_row: bool) -> bool:
        return True

    @property
    def terms(self) -> tuple[Term, ...]:
        return tuple(f.term for f in (*self.design.features, self.design.label) if f.term is not None)

    def told(self, say: Say) -> str:
        return f"second moments of {counted(self.size, 'scaled column')}"


@dataclass(frozen=True, slots=True)
class Gradient(_Vector):
    """The sum of the gradients of a loss at some weights, each unit's clipped.

    logistic  whether it is the loss of log odds; else half of the square of what the prediction errs
    clip      C
    weights   of the columns, in the order of z: a constant, released before
    """

    design: Design
    logistic: bool
    clip: Fraction
    weights: tuple[float, ...]

    @property
    def identity(self) -> Hashable:
        return "gradient", self.design.identity, self.logistic, self.clip

    @property
    def cells(self) -> int:
        return self.design.columns

    def later(self, names: Sequence[Node], level: int) -> tuple[Node, ...]:
        """The prediction and |z|^2; then what the prediction errs, clamped so that times z it is no longer than C."""
        read = names[len(self.inputs) :]
        width = self.design.columns
        if level == 0:
            z = [_double(self.design.scale), *read[: width - 1]]
            weighed = [_times(value, weight) for value, weight in zip(z, self.weights, strict=True)]
            return _added(weighed), _added([Binary("*", value, value) for value in z])
        if level == 1:
            label, predicted, squares = read[width - 1 : width + 2]
            # |z| is no less than the intercept's, and no more than 1
            is_length = Between(squares, _double(self.design.scale**2 / 2), _double(2.0))
            most = Binary("/", _double(float(self.clip)), Call("sqrt", (squares,)))
            return self._errs(predicted, label), Case(((is_length, most),), _double(0.0))
        if level == 2:
            errs, at_most = read[width + 2 : width + 4]
            return (_between(errs, Binary("-", _double(0.0), at_most), at_most),)
        return ()

    def _errs(self, predicted: Node, label: Node) -> Node:
        if not self.logistic:
            return Binary("-", _between(predicted, _double(-1.0), _double(1.0)), label)
        odds = _between(Binary("-", _double(0.0), predicted), _double(-STEEPEST), _double(STEEPEST))
        share = Binary("/", _double(1.0), Binary("+", _double(1.0), Call("exp", (odds,))))
        is_one = Binary("*", Binary("+", label, _double(1.0)), _double(0.5))
        return Binary("-", share, is_one)

    def sensitivity(self, limits: Limits) -> Sensitivity:
        return _of_length(floor(self.clip * UNIT) + 1, self.cells)

    def row_sums(self, names: Sequence[Node]) -> tuple[Node, ...]:
        values, errs = names[len(self.inputs) :][: self.design.columns - 1], names[-1]
        z = [_double(self.design.scale), *values]
        whole = [_truncated(_times(Binary("*", errs, value), float(UNIT))) for value in z]
        # NULL for a row without a value, of which nothing is known to err: a FILTER that says so makes DuckDB write all of it out twice
        # at every step below
        return tuple(Aggregate("sum", (each,)) for each in whole)

    def unit_sums(self, names: Sequence[Node]) -> UnitSums:
        """However many rows a unit has, its sum is clipped as a whole."""
        inner = [(f"g{i}_", Call("COALESCE", (tree, Number(0)))) for i, tree in enumerate(self.row_sums(names))]
        doubles = [Cast(own(name), DOUBLE, tries=False) for name, _ in inner]
        length = _added([Binary("*", double, double) for double in doubles])
        most = float(self.clip * UNIT)
        within, longer = (Between(length, *map(_double, ends)) for ends in ((0.0, most**2), (most**2, LONGEST)))
        scaled = Binary("/", _double(most), Call("sqrt", (length,)))
        share = Case(((within, _double(1.0)), (longer, scaled)), _double(0.0))
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


def _at(x: Node, listed: tuple[Node, ...], i: int, scale: float) -> Node:
    """`scale` at one value of a list, 0 at the others.

    Why  values that differ may be one in the type of the column: two whole numbers beyond 2^53 as DOUBLE. The first of them is taken,
         so that a row has one value of a list however the engine compares them
    """
    before = [(In(x, listed[:i]), _double(0.0))] if i else []
    return Case((*before, (Binary("=", x, listed[i]), _double(scale)), (In(x, listed), _double(0.0))))


def _of_length(length: int, cells: int) -> Sensitivity:
    return Sensitivity(cells, length, ceil(length * sqrt(cells)) + 1, length**2)


def _double(value: float) -> Node:
    return Literal(Fraction(value), DOUBLE)


def _times(node: Node, factor: float) -> Node:
    return Binary("*", node, _double(factor))


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
    """The way to fit a model: its second moments once, then gradients at one point after the other.

    clip    C of a unit's gradient
    passes  number of gradients
    """

    design: Design
    logistic: bool
    clip: Fraction
    passes: int

    @property
    def moments(self) -> SecondMoments:
        """Of a linear model with the label: they tell where to begin."""
        return SecondMoments(self.design, not self.logistic)

    def gradient(self, weights: Sequence[float]) -> Gradient:
        return Gradient(self.design, self.logistic, self.clip, tuple(weights))

    @property
    def statistics(self) -> tuple[SecondMoments | Gradient, ...]:
        """All of them, the gradients at weights that are not known yet."""
        return (self.moments, *[self.gradient((0.0,) * self.design.columns)] * self.passes)
