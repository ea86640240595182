"""MODE and the most common values: report noisy max over a declared list.

Each listed value is a candidate, those that nobody has too, and its score is its number of rows in the group. One row more raises one
score by 1 and lowers none, so scores are monotone, and a unit with r rows in the group moves them by at most r: the exponential
mechanism and permute-and-flip at rate epsilon' lose r epsilon' (aggregates/histogram.py: together K epsilon'). The k most common are k
choices, each at epsilon' / k of those that are left.

Source: McKenna, Sheldon 2020 (permute-and-flip; monotone scores); Durfee, Rogers 2019 (peeling).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from dpsql.aggregates.base import ReleasedColumn
from dpsql.aggregates.distinct_values import where_counted
from dpsql.aggregates.histogram import Counts, OverHistogramDefaults, Terms, Value
from dpsql.aggregates.record import Aggregate, Around, Built, Given, Record
from dpsql.aggregates.telling import Say, where
from dpsql.core.domains import Categories, integers
from dpsql.core.errors import error
from dpsql.core.events import Event
from dpsql.core.sqltypes import DATE, SqlType
from dpsql.core.wording import counted
from dpsql.expressions.scalar import Scalar, tree_of
from dpsql.mechanisms.source import NoiseSource
from dpsql.sql.nodes import Node, own
from dpsql.sql.trees import rewritten

MOST = 100
"""[values] of one list."""
VALUE = own("value")
"""A value, wherever it comes from."""


@dataclass(frozen=True, slots=True)
class ListedHistogram:
    """Numbers of the rows with each value of a declared list, over the rows for which `counted` is true.

    travelling  VALUE in the form in which it travels
    values      the list, in that form
    """

    scalar: Scalar
    travelling: Node
    values: tuple[Value, ...]
    counted: Scalar | None

    summed = False

    @property
    def identity(self) -> Hashable:
        return "listed", self.scalar.tree, self.values, tree_of(self.counted)

    @property
    def inputs(self) -> tuple[Scalar, ...]:
        return (self.scalar,) if self.counted is None else (self.scalar, self.counted)

    def value_of(self, names: Sequence[Node]) -> Node:
        return where_counted(names, rewritten(self.travelling, {VALUE: names[0]}))

    def bucket_of(self, value: Node) -> Node:
        return value


@dataclass(frozen=True, slots=True)
class Mode(OverHistogramDefaults):
    """The `most` most common listed values of each group, the first before the second: their places in the list."""

    histogram: ListedHistogram
    most: int = 1

    cost = "one score by 1"

    @property
    def cells(self) -> int:
        return self.most

    @property
    def identity(self) -> Hashable:
        return "most common", self.most, self.histogram.identity

    def rate(self, terms: Terms) -> Fraction:
        """Of each choice, per row."""
        return terms.per_row / self.most

    def events(self, terms: Terms) -> tuple[Event, ...]:
        return (terms.choosing(),)

    def release(self, groups: Sequence[Counts], terms: Terms, noise: NoiseSource) -> list[list[int]]:
        rate = self.rate(terms)
        places = {value: i for i, value in enumerate(self.histogram.values)}
        found: list[list[int]] = [[] for _ in range(self.most)]
        for counts in groups:
            rows = np.zeros(len(places), dtype=np.int64)
            for value, count in zip(counts.values, counts.counts, strict=True):
                # a value that is not declared is none
                if value in places:
                    rows[places[value]] = count
            left = np.arange(len(places))
            for cell in found:
                chosen = noise.choose(rows.max() - rows[left], np.ones(len(left), dtype=np.int64), rate, terms.kind)
                cell.append(int(left[chosen]))
                left = np.delete(left, chosen)
        return found

    def told(self, say: Say) -> str:
        common = "the most common" if self.most == 1 else f"the {self.most} most common"
        among = f"{counted(len(self.histogram.values), 'declared value')} of {say(self.histogram.scalar)}"
        return f"{common} of {among}{where(self.histogram.counted, say)}"

    def bounds_told(self, say: Say) -> list[str]:
        return [f"{say(self.histogram.scalar)} is chosen among declared values"]

    def describe(self, terms: Terms) -> str:
        again = f", {self.most} times" if self.most > 1 else ""
        return f"{terms.chooses_by} at rate {float(self.rate(terms)):.6g}{again}"

    def margin(self, terms: Terms, level: Fraction) -> int:
        """[rows] How far behind the most common value the chosen one is at most, with this level, in one choice."""
        return math.ceil(math.log(max(1, len(self.histogram.values) - 1) / float(1 - level)) / float(self.rate(terms)))


@dataclass(frozen=True, slots=True)
class ModeOf:
    """The released value at one place.

    values  as the sandbox holds them, in the order of the list
    """

    mode: Mode
    place: int
    values: tuple[object, ...]
    sqltype: SqlType

    def promise(self, terms: Terms, level: Fraction) -> str:
        margin = self.mode.margin(terms, level)
        return f"its count is within {margin:,} of the largest with {100 * float(level):g} %; no interval"

    def column(self, cells: Sequence[Sequence[int]], terms: Terms, level: Fraction) -> ReleasedColumn:
        chosen = cells[self.place]
        return ReleasedColumn([self.values[i] for i in chosen], [None] * len(chosen))


def _mode(aggregate: Aggregate, value: Scalar, around: Around) -> tuple[Mode, ModeOf]:
    """One choice of as many values as the longest list of the same that stands beside it."""
    alike = (a for a in around.beside if replace(a, number=None).asked == replace(aggregate, number=None).asked)
    most = max(int(a.number) for a in alike if a.number is not None)
    form, values = around.listed(aggregate, value)
    if len(values) < 2:
        what = "there is only one declared value to choose from"
        raise error(203, what, hint="leave it out", span=aggregate.span)
    if most > len(values):
        what = f"there are only {len(values):,} declared values to choose from"
        raise error(203, what, hint=f"ask for {len(values):,} or fewer", span=aggregate.span)
    mode = Mode(ListedHistogram(value, form, values, aggregate.condition), most)
    assert aggregate.number is not None
    return mode, ModeOf(mode, int(aggregate.number) - 1, values, aggregate.sqltype)


def _one(given: Given) -> Built:
    if given.constants:
        raise error(106, f"{given.word} takes one argument", hint=f"write {given.word}(x)")
    return Built(_listed(given), (Fraction(1),))


def _several(given: Given) -> Built:
    match given.constants:
        case (int() as number,) if 1 <= number <= MOST:
            places = range(1, number + 1)
            return Built(_listed(given), tuple(map(Fraction, places)), listed=True)
    what = f"{given.word}() takes a column and a constant from 1 to {MOST}"
    raise error(106, what, hint="write APPROX_TOP_K(x, 3)")


def _listed(given: Given) -> Scalar:
    """A value of a declared list."""
    value, words = given.value, given.shown()[:60]
    if value.is_identifying:
        raise error(302, f"{given.word}() would show an identifier", hint="ask for what people share")
    whole = (value.integral or value.sqltype == DATE) and integers(value.domain) is not None
    listed = isinstance(value.domain, Categories) or value.sqltype.is_boolean or whole
    if not listed or value.sqltype.is_float:
        raise error(
            203,
            f"{given.word}() chooses among declared values, and {words} has no finite list of them",
            hint=f"declare a domain, or write SELECT {words}, COUNT(*) ... GROUP BY 1 ORDER BY 2 DESC LIMIT 1",
        )
    return value


def _told(value: str, place: Fraction | None) -> str:
    return f"the most common {value}" if place == 1 else f"place {place} of the most common {value}"


def _written(value: str, place: Fraction | None) -> str:
    return f"MODE({value})" if place == 1 else f"APPROX_TOP_K({value}), place {place}"


MODE = Record(
    "top", {"MODE(x)": "the most common declared value"},
    _told, _written, "MODE", build=_one, sqltype=lambda sqltype: sqltype, histogram=_mode, sampled="mode({v}){kept}",
)  # fmt: skip
TOP = replace(MODE, calls={"APPROX_TOP_K(x, 3)": "a list of the most common declared values"}, build=_several)
