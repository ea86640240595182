"""Histograms of the values of a group, and what is released of them.

A *histogram* says how many rows of each group have each value. The engine counts; an `OverHistogram` looks at the counts of every
group and releases a few integers of each: a value that was chosen, or numbers with noise. Its loss is linear in what one unit
adds to the histogram: with rows r_1, r_2, ... in the groups that it is in, and at most K in all of them together, each group's
part costs the share r_i / K of epsilon, and all of them at most epsilon. So no factor for the number of groups is paid (rule 22
without its worst case).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

from dpsql.aggregates.base import Limits, ReleasedColumn, Statistic
from dpsql.aggregates.telling import Say
from dpsql.core.events import Event
from dpsql.core.sqltypes import SqlType
from dpsql.expressions.scalar import Scalar
from dpsql.mechanisms.conversions import CHOICE, PURE
from dpsql.mechanisms.exact_choice import Kind
from dpsql.mechanisms.source import NoiseSource
from dpsql.sql.nodes import Node

Value = int | str | bool


class Histogram(Protocol):
    """Histogram of each group: the number of its rows with each value."""

    @property
    def identity(self) -> Hashable:
        """Identity of the histogram: equal ones are the same histogram."""
        ...

    @property
    def inputs(self) -> tuple[Scalar, ...]:
        """The row expressions that it reads; lower names them x0, x1, ... and passes the names on."""
        ...

    @property
    def summed(self) -> bool:
        """True if the values of a bucket are also added up."""
        ...

    def value_of(self, names: Sequence[Node]) -> Node:
        """The value of a row: BIGINT, BOOLEAN or VARCHAR; NULL where the row is not counted."""
        ...

    def bucket_of(self, value: Node) -> Node:
        """Bucket that values are counted under: the value itself, or a coarser bucket of it."""
        ...


@dataclass(frozen=True, slots=True)
class Counts:
    """The exact histogram of one group, in no order. Only the release stage makes one."""

    values: list[Value]
    counts: list[int]
    sums: list[int]

    def __repr__(self) -> str:
        return "<Counts>"


@dataclass(frozen=True, slots=True)
class Terms:
    """On what terms something is released of a histogram.

    limits   what the engine SQL lets one unit add to it
    epsilon  what all groups together may lose, purely [nats]
    kind     how one of several candidates is chosen
    """

    limits: Limits
    epsilon: Fraction
    kind: Kind

    @property
    def per_row(self) -> Fraction:
        """epsilon for each row of a unit [nats]."""
        return self.epsilon / self.limits.rows

    def choosing(self, share: Fraction = Fraction(1)) -> Event:
        """Choices that spend a share of epsilon: the exponential mechanism has a smaller rho than other pure ones."""
        return (CHOICE if self.kind == "exponential" else PURE).event(share * self.epsilon)

    @property
    def chooses_by(self) -> str:
        """The mechanism of a choice, in words."""
        return "permute-and-flip" if self.kind == "permute_and_flip" else "exponential mechanism"


class OverHistogram(Protocol):
    """Something that is released of a histogram, or chosen by scores."""

    @property
    def identity(self) -> Hashable:
        """Identity of the question about a histogram: equal ones are the same question."""
        ...

    @property
    def histogram(self) -> Histogram | None: ...

    @property
    def scores(self) -> Statistic | None:
        """A statistic whose exact sums are looked at in place of a histogram: of each group they are the sums of `Counts`."""
        ...

    @property
    def cells(self) -> int:
        """Number of integers that are released of each group."""
        ...

    @property
    def draws(self) -> int:
        """About how many numbers are drawn at random for each group."""
        ...

    def events(self, terms: Terms) -> tuple[Event, ...]:
        """Events that run: together it loses terms.epsilon, and the rho and mu of its mechanisms."""
        ...

    @property
    def cost(self) -> str:
        """Describe the change that one row makes, in words."""
        ...

    def release(self, groups: Sequence[Counts], terms: Terms, noise: NoiseSource) -> list[list[int]]:
        """The released integers, one list a cell, as long as there are groups. Loses at most terms.epsilon."""
        ...

    def describe(self, terms: Terms) -> str:
        """The mechanism with its parameters, for the plan and the receipt."""
        ...

    @property
    def of_each_row(self) -> Fraction:
        """epsilon for each row that is spent before anything else is bought [nats]."""
        ...

    def told(self, say: Say) -> str:
        """Name the statistic in words."""
        ...

    def bounds_told(self, say: Say) -> list[str]:
        """Name the values that have the bounds that its sensitivity needs, or why it needs none, in words."""
        ...


def source_of(one: OverHistogram) -> Histogram | Statistic:
    """The histogram, or the scores."""
    source = one.scores or one.histogram
    assert source is not None
    return source


class OverHistogramDefaults:
    """Defaults of most histograms."""

    __slots__ = ()

    @property
    def scores(self) -> Statistic | None:
        return None

    @property
    def of_each_row(self) -> Fraction:
        return Fraction(0)

    @property
    def draws(self) -> int:
        return 1


class Reading(Protocol):
    """A released column, made of the integers that a OverHistogram released: post-processing."""

    @property
    def sqltype(self) -> SqlType: ...

    def promise(self, terms: Terms, level: Fraction) -> str:
        """Error that EXPLAIN promises."""
        ...

    def column(self, cells: Sequence[Sequence[int]], terms: Terms, level: Fraction) -> ReleasedColumn: ...
