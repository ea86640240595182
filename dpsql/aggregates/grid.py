"""The histogram of a number on a grid, and how its values become those of a column."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from dpsql.aggregates.distinct_values import where_counted
from dpsql.aggregates.record import Aggregate
from dpsql.aggregates.sum import in_type
from dpsql.aggregates.telling import Say, clamped, has_bounds, where
from dpsql.aggregates.term import WIDEST, Term
from dpsql.core.domains import UNBOUNDED, hull
from dpsql.core.sqltypes import DATE, HUGEINT, TIME, SqlType
from dpsql.core.wording import number
from dpsql.expressions.conversion import convert
from dpsql.expressions.literals import literal
from dpsql.expressions.scalar import Scalar, finite_hull, tree_of
from dpsql.expressions.temporal import DAY, difference, moment_text, since_midnight
from dpsql.sql.nodes import Binary, Node, Number

MOST_BUCKETS = 2**16
LEAST_BUCKETS = 2**10
_ENOUGH = 2**20
"""[buckets] From here on a coarser unit of time loses nothing."""
SMALL = 100_000
"""[rows] Below this declared size every value is counted by itself, which a larger table would make slow."""


@dataclass(frozen=True, slots=True)
class Grid:
    """Numbers of the rows with each quantum of a term, over the rows for which `counted` is true.

    term    the value, clamped; NULL and NaN are not counted. Its quanta are the buckets, as wide as `widest` asks
    moment  the date or time that the value is the number of
    unit    DATE where it is a number of days since 1970, TIMESTAMP where it is one of microseconds, TIME where these are since midnight
    """

    term: Term
    counted: Scalar | None
    moment: Scalar | None = None
    unit: SqlType | None = None

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

    def told(self, say: Say) -> str:
        if self.moment is None or self.unit is None:
            return f"{clamped(self.term, say)}{where(self.counted, say)}"
        microseconds = self.term.quantum * (DAY if self.unit == DATE else 1)
        size, word = (DAY, "day") if microseconds % DAY == 0 else (10**6, "second")
        steps = f"in steps of {number(microseconds / size)} {word}{'' if microseconds == size else 's'}"
        return f"{say(self.moment)} clamped to {self._bounds(self.moment, self.unit)} {steps}{where(self.counted, say)}"

    def bounds_told(self, say: Say) -> str:
        if self.moment is None or self.unit is None:
            return has_bounds(self.term, say)
        return f"{say(self.moment)} has bounds, {self._bounds(self.moment, self.unit)}"

    def _bounds(self, moment: Scalar, unit: SqlType) -> str:
        ends = [str(as_value(end, self.term, unit)) for end in (self.term.lower, self.term.upper)]
        # of a date that is counted as a time the hour is always 0
        return f"[{', '.join(end[:10] if moment.sqltype == DATE else end for end in ends)}]"

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
        """The values that were counted from `low` to `high` [quanta], within the declared bounds; they are rounded after the clamp.

        One value alone would be called exact: the next ones on the grid go with it.
        """
        part = self.term
        around = Fraction(low == high) if part.is_integer or part.is_decimal else Fraction(1, 2)
        least, most = max(Fraction(part.lower), low - around), min(Fraction(part.upper), high + around)
        bounds = finite_hull(part.scalar)
        assert bounds is not None  # a term has some
        low_end, high_end = (max(bounds.lower, min(bounds.upper, end * part.quantum)) for end in (least, most))
        return float(low_end), float(high_end)


def widest(groups: int, size: int | None) -> int:
    """The most quanta that a histogram should have between its bounds.

    groups  how many groups share it
    size    [rows] what the owner declares there to be, or None
    """
    return WIDEST if size is not None and size <= SMALL else max(LEAST_BUCKETS, MOST_BUCKETS // groups)


def grid(aggregate: Aggregate, value: Scalar, most: int) -> Grid:
    """Histogram of a value for an aggregate, in at most so many buckets. Of dates buckets are whole days, of times seconds where
    there are enough of them.

    Why  a date beyond the years that can be computed with is NULL, so its row is in no bucket: it has one or none, as any row
    """
    if not value.sqltype.is_counted:
        return Grid(aggregate.term(value, most), aggregate.condition)
    placed = _number(convert(value, aggregate.sqltype), in_days=value.sqltype == DATE)
    return Grid(aggregate.term(placed, most), aggregate.condition, value, aggregate.sqltype)


def _number(moment: Scalar, in_days: bool) -> Scalar:
    """Days since 1970 of a date, microseconds of a time."""
    sqltype, within = moment.sqltype, hull(moment.domain)
    placed = (
        since_midnight(moment)
        if sqltype == TIME
        else difference("day" if sqltype == DATE else "microsecond", literal(0, sqltype), moment)
    )
    step = moment.step
    if sqltype != DATE and step is None:
        units = (DAY,) if in_days else (DAY // 86_400, DAY // 86_400_000, 1)
        wide = within.upper - within.lower if within is not None else Fraction(0)
        step = next((Fraction(unit) for unit in units if in_days or wide / unit >= _ENOUGH), Fraction(1))
    return replace(placed, domain=within or UNBOUNDED, step=step)


def as_value(quanta: int, term: Term, sqltype: SqlType) -> object:
    """A number of quanta as a value of a column's type, in the sandbox's form, and within the declared bounds."""
    bounds = finite_hull(term.scalar)
    value = quanta * term.quantum
    if bounds is not None:
        # the grid begins and ends with whole quanta, which may lie beyond them
        value = max(bounds.lower, min(bounds.upper, value))
    if sqltype.is_counted:
        return moment_text(value, sqltype)
    if sqltype.is_integer and sqltype != HUGEINT:
        held = sqltype.range
        assert held is not None
        return int(max(held.lower, min(held.upper, Fraction(round(value)))))
    return in_type(1, value, sqltype)
