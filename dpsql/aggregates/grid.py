"""The tally of a number on a grid, and how its values become those of a column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from dpsql.aggregates.sum import in_type
from dpsql.aggregates.term import Term
from dpsql.algebra.scalar import Scalar
from dpsql.sqltypes import HUGEINT, SqlType

MOST_BUCKETS = 2**16
LEAST_BUCKETS = 2**10
SMALL = 100_000
"""[rows] Below this declared size every value is counted by itself, which a larger table would make slow."""


@dataclass(frozen=True, slots=True)
class Grid:
    """How many rows have a term in each of equally wide buckets, over the rows for which `counted` is true.

    term    the value, clamped; NULL and NaN are not counted
    width   [quanta] of a bucket; 1 counts every value by itself
    """

    term: Term
    counted: Scalar | None
    width: int

    summed = False

    @property
    def identity(self) -> str:
        return f"grid({self.term.identity} / {self.width}; {self.counted.sql if self.counted else ''})"

    @property
    def inputs(self) -> tuple[Scalar, ...]:
        return (self.term.scalar,) if self.counted is None else (self.term.scalar, self.counted)

    @property
    def buckets(self) -> int:
        """Numbered from 0."""
        return self.term.width // self.width + 1

    def value_sql(self, names: Sequence[str]) -> str:
        quanta = f"({self.term.quanta_sql(names[0])} - CAST({self.term.lower} AS BIGINT))"
        bucket = quanta if self.width == 1 else f"({quanta} // {self.width})"
        return f"CASE WHEN {names[1]} THEN {bucket} END" if names[1:] else bucket

    def bucket_sql(self, value: str) -> str:
        return value

    def first(self, bucket: int) -> int:
        """The least value of a bucket [quanta]."""
        return self.term.lower + bucket * self.width

    def last(self, bucket: int) -> int:
        """The largest value of a bucket [quanta]."""
        return min(self.term.upper, self.first(bucket) + self.width - 1)


def width_of(term: Term, groups: int, size: int | None) -> int:
    """How wide buckets should be.

    groups  how many groups share the tally
    size    [rows] what the owner declares there to be, or None
    """
    if size is not None and size <= SMALL:
        return 1
    most = max(LEAST_BUCKETS, MOST_BUCKETS // groups)
    return -(-(term.width + 1) // most)


def as_value(quanta: int, quantum: Fraction, sqltype: SqlType) -> object:
    """A number of quanta as a value of a column's type, in the sandbox's form."""
    if sqltype.is_integer and sqltype != HUGEINT:
        held = sqltype.range
        assert held is not None
        return int(max(held.lower, min(held.upper, Fraction(round(quanta * quantum)))))
    return in_type(quanta, quantum, sqltype)
