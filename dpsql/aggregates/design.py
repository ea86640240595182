"""design: the columns of a model, scaled by declarations alone to a length of at most 1 (gradients.py)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import sqrt

from dpsql.aggregates.term import Term
from dpsql.core.domains import Value
from dpsql.core.sqltypes import DOUBLE
from dpsql.expressions.scalar import Scalar
from dpsql.sql.nodes import Binary, Case, Cast, In, Literal, Node, Not, Number

INTERCEPT, LISTED = 0.5, 1 / 3
"""Weights beside a number's of 1: of the intercept, and of a boolean or a list, whose values lie at the ends of their bounds where
those of a number crowd in a part of them."""


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

    @property
    def weight(self) -> float:
        """Of its columns beside those of others."""
        return 1.0 if self.term is not None else LISTED

    def values(self, x: Node, scale: float, centre: Sequence[float]) -> list[Node]:
        """Its columns less a centre, each at most `scale` from 0 before; NULL where it has no value, or one that is not declared."""
        if self.term is not None:
            middle, width = self.term.lower + self.term.upper, self.term.width
            doubled = Binary("-", Binary("*", Number(2), self.term.quanta(x)), Number(middle))
            return [Binary("-", times(Cast(doubled, DOUBLE, tries=False), scale / width), double(centre[0]))]
        if self.scalar.sqltype.is_boolean:
            return [Case(((x, double(scale - centre[0])), (Not(x), double(-scale - centre[0]))))]
        listed = tuple(Literal(level, self.scalar.sqltype) for level in self.levels)
        return [_at(x, listed, i, scale, centre[i]) for i in range(len(listed))]


@dataclass(frozen=True, slots=True)
class Design:
    """The features of a model, and its label; None where none is predicted."""

    features: tuple[Feature, ...]
    label: Feature | None

    @property
    def identity(self) -> Hashable:
        return tuple(one.identity for one in self.features), None if self.label is None else self.label.identity

    @property
    def named(self) -> tuple[Feature, ...]:
        """The features and the label."""
        return self.features if self.label is None else (*self.features, self.label)

    @property
    def inputs(self) -> tuple[Scalar, ...]:
        return tuple(one.scalar for one in self.named)

    @property
    def scale(self) -> float:
        """Of a number: a little less than the root, so that no rounding is above it."""
        return (1 - 2.0**-40) / sqrt(INTERCEPT**2 + sum(one.weight**2 for one in self.features))

    @property
    def intercept(self) -> float:
        return INTERCEPT * self.scale

    @property
    def columns(self) -> int:
        """The intercept's, and those of the features."""
        return 1 + sum(one.columns for one in self.features)

    def columns_of(self, names: Sequence[Node], centre: Sequence[float]) -> tuple[Node, ...]:
        """x without the intercept, which is a constant, and then the label, if any, in [-1, 1], both less their centre."""
        found: list[Node] = []
        for one, x in zip(self.features, names, strict=False):
            found += one.values(x, self.scale * one.weight, centre[len(found) :])
        if self.label is not None:
            found += self.label.values(names[len(self.features)], 1.0, centre[len(found) :])
        return tuple(found)


def _at(x: Node, listed: tuple[Node, ...], i: int, scale: float, centre: float) -> Node:
    """`scale` at one value of a list, 0 at the others, both less a centre.

    Why  values that differ may be one in the type of the column: two whole numbers beyond 2^53 as DOUBLE. The first of them is taken,
         so that a row has one value of a list however the engine compares them
    """
    other = double(-centre)
    before = [(In(x, listed[:i]), other)] if i else []
    return Case((*before, (Binary("=", x, listed[i]), double(scale - centre)), (In(x, listed), other)))


def double(value: float) -> Node:
    return Literal(Fraction(value), DOUBLE)


def times(node: Node, factor: float) -> Node:
    return Binary("*", node, double(factor))
