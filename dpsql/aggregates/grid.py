"""The tally of a number on a grid, and how its values become those of a column."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from dpsql.aggregates.distinct_values import where_counted
from dpsql.aggregates.sum import in_type
from dpsql.aggregates.term import WIDEST, Term
from dpsql.core.domains import UNBOUNDED, hull
from dpsql.core.sqltypes import DATE, HUGEINT, SqlType
from dpsql.expressions.conversion import convert
from dpsql.expressions.literals import literal
from dpsql.expressions.scalar import Scalar, finite_hull, tree_of
from dpsql.expressions.temporal import DAY, difference, moment_text
from dpsql.sql.nodes import Binary, Node, Number

MOST_BUCKETS = 2**16
LEAST_BUCKETS = 2**10
SMALL = 100_000
"""[rows] Below this declared size every value is counted by itself, which a larger table would make slow."""


@dataclass(frozen=True, slots=True)
class Grid:
    """How many rows have each quantum of a term, over the rows for which `counted` is true.

    term  the value, clamped; NULL and NaN are not counted. Its quanta are the buckets, as wide as `widest` asks
    """

    term: Term
    counted: Scalar | None

    summed = False

    @property
    def identity(self) -> Hashable:
        return "grid", self.term.identity, tree_of(self.counted)

    @property
    def inputs(self) -> tuple[Scalar, ...]:
        return (self.term.scalar,) if self.counted is None else (self.term.scalar, self.counted)

    @property
    def buckets(self) -> int:
        """Numbered from 0."""
        return self.term.width + 1

    def value_of(self, names: Sequence[Node]) -> Node:
        """The quanta above the lower bound."""
        quanta = self.term.quanta(names[0])
        return where_counted(names, Binary("-", quanta, Number(self.term.lower)) if self.term.lower else quanta)

    def bucket_of(self, value: Node) -> Node:
        return value

    def quanta(self, bucket: int) -> int:
        """The value of a bucket [quanta]."""
        return self.term.lower + bucket

    def between(self, low: int, high: int) -> tuple[float, float]:
        """The values that were counted from `low` to `high` [quanta]: they are rounded to the nearest, after the clamp."""
        part = self.term
        around = Fraction(0) if part.is_integer or part.is_decimal else Fraction(1, 2)
        least, most = max(Fraction(part.lower), low - around), min(Fraction(part.upper), high + around)
        return float(least * part.quantum), float(most * part.quantum)


def widest(groups: int, size: int | None) -> int:
    """The most quanta that a tally should have between its bounds.

    groups  how many groups share it
    size    [rows] what the owner declares there to be, or None
    """
    return WIDEST if size is not None and size <= SMALL else max(LEAST_BUCKETS, MOST_BUCKETS // groups)


def placed(value: Scalar, sqltype: SqlType) -> Scalar:
    """A value as a number, for a column of a type: a date is days since 1970, a time microseconds; a number is itself.

    Why  a date beyond the years that can be computed with is NULL, so its row is in no bucket: it has one or none, as any row
    """
    if not value.sqltype.is_temporal:
        return value
    moment = convert(value, sqltype)
    number = difference("day" if sqltype == DATE else "microsecond", literal(0, sqltype), moment)
    days = Fraction(DAY) if value.sqltype != sqltype else None
    return replace(number, domain=hull(moment.domain) or UNBOUNDED, step=days)


def as_value(quanta: int, term: Term, sqltype: SqlType) -> object:
    """A number of quanta as a value of a column's type, in the sandbox's form, and within the declared bounds."""
    bounds = finite_hull(term.scalar)
    value = quanta * term.quantum
    if bounds is not None:
        # the grid begins and ends with whole quanta, which may lie beyond them
        value = max(bounds.lower, min(bounds.upper, value))
    if sqltype.is_temporal:
        return moment_text(value, sqltype)
    if sqltype.is_integer and sqltype != HUGEINT:
        held = sqltype.range
        assert held is not None
        return int(max(held.lower, min(held.upper, Fraction(round(value)))))
    return in_type(1, value, sqltype)
