"""Sets of values of one column, exact: declared values one by one, numbers as ranges, and NULL.

A column is an *axis*. What its owner declares says how many people a set is expected to hold: values that are declared are equally
frequent, NULL is one person in twenty where it is declared to occur. A set that no declared value is in (NULL in a column without
NULLs, what is not in the list, numbers beyond the bounds) is *void*: that a condition leaves it out makes no difference between two
questions.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

from dpsql.core.domains import Value

NULL_SHARE = 0.05
"""Of the people, who have NULL in a column that can be NULL."""
HALF_LINE = 0.5
"""Of the people, who are on one side of a constant where no bounds are declared."""

_NULL = 0.1
_POINT = 1e-6
"""Of the extent, which is 0 for what is void alone: what NULL has, and a value that is not declared, or a number alone."""

Number = Fraction | int
Cut = tuple[Number | float, int]
"""Between two values: just below a number (number, 0), or just above it (number, 1). Whole numbers are integers, which are fast."""
START: Cut = (-math.inf, 0)
END: Cut = (math.inf, 1)
Piece = tuple[Cut, Cut]
"""What lies between two cuts; the first is less than the second."""


class Opaque(Exception):
    """Nothing says which values a condition selects."""


@dataclass(frozen=True, slots=True, eq=False)
class Axis:
    """A column whose values conditions select; its key says which one.

    key       what makes it the same column in two statements
    name      what people call it
    values    the declared values, in their order; () for a column of numbers with bounds, or where nothing is listed
    bounds    of a column of numbers, or None
    step      between two values that occur, of a column of numbers; None where it has none
    nullable  whether NULL is declared to occur
    ranged    whether its sets are ranges of numbers, and
    integral  whether all of them are multiples of the step, by the type of the column
    opaque    whether it is no column but the answer to a condition that cannot be taken apart: how many people it selects is not
              known, and
    released  whether it compares with what the same statement releases, and
    halved    whether that is a mean or a median of many people: then half of the people are expected on either side
    temporal  "DATE" or "TIMESTAMP" where numbers stand for days or microseconds since 1970
    """

    key: str
    name: str
    values: tuple[Value, ...] = ()
    bounds: tuple[Fraction, Fraction] | None = None
    step: Fraction | None = None
    nullable: bool = False
    ranged: bool = False
    integral: bool = False
    opaque: bool = False
    released: bool = False
    temporal: str = ""
    halved: bool = False
    _places: Mapping[Value, int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        # of equal values the first, as a tuple finds them
        object.__setattr__(self, "_places", {v: i for i, v in reversed(tuple(enumerate(self.values)))})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Axis) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    @property
    def whole(self) -> Values:
        return Ranged(self, ((START, END),), True) if self.ranged else Listed(self, (1 << (len(self.values) + 2)) - 1)

    @property
    def nothing(self) -> Values:
        return Ranged(self, (), False) if self.ranged else Listed(self, 0)

    @property
    def null(self) -> Values:
        return Ranged(self, (), True) if self.ranged else Listed(self, 1 << len(self.values))

    def of(self, value: Value | None) -> Values:
        """The set of one value."""
        if value is None:
            return self.null
        if self.ranged:
            number = Fraction(value)
            return ranged(self, [((number, 0), (number, 1))], False)
        place = self._places.get(value)
        return Listed(self, 1 << place) if place is not None else Listed(self, 0, frozenset({value}))


@dataclass(frozen=True)
class Listed:
    """A set of listed values.

    bits  one for each declared value, then NULL, then all other values taken together
    odd   values that are not declared and are in the set where the others are not, or the other way round
    """

    axis: Axis
    bits: int
    odd: frozenset[Value] = frozenset()

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.axis, self.bits, self.odd))

    def both(self, other: Values) -> Listed:
        assert isinstance(other, Listed)
        bits = self.bits & other.bits
        if not self.odd and not other.odd:
            return Listed(self.axis, bits)
        rest = self._rest and other._rest
        odd = (v for v in self.odd | other.odd if (self._holds_odd(v) and other._holds_odd(v)) != rest)
        return Listed(self.axis, bits, frozenset(odd))

    def others(self) -> Listed:
        """The complement."""
        return Listed(self.axis, ~self.bits & ((1 << (len(self.axis.values) + 2)) - 1), self.odd)

    @property
    def _rest(self) -> bool:
        return bool(self.bits >> (len(self.axis.values) + 1))

    def _holds_odd(self, value: Value) -> bool:
        return self._rest != (value in self.odd)

    @property
    def is_empty(self) -> bool:
        return not self.bits and not self.odd

    @property
    def is_whole(self) -> bool:
        return not self.odd and self.bits == (1 << (len(self.axis.values) + 2)) - 1

    @cached_property
    def is_void(self) -> bool:
        count = len(self.axis.values)
        expected = self.bits & ((1 << (count + (1 if self.axis.nullable else 0))) - 1)
        return not expected and (bool(count) or not (self._rest or self.odd))

    @cached_property
    def is_unsized(self) -> bool:
        """Whether declared values can be in it, and nothing says how many people have them."""
        return self.share == 0 and not self.is_void

    @cached_property
    def share(self) -> float:
        """Of the people, how many are expected to have one of these values."""
        if self.is_whole:
            return 1.0
        if self.axis.opaque and not self.axis.halved:
            return 0.0
        count = len(self.axis.values)
        null = NULL_SHARE if self.axis.nullable and self.bits >> count & 1 else 0.0
        declared = (self.bits & ((1 << count) - 1)).bit_count()
        if not count:
            return 1.0 - (NULL_SHARE if self.axis.nullable else 0.0) + null if self._rest else null
        return declared / count * (1 - NULL_SHARE if self.axis.nullable else 1) + null

    @cached_property
    def extent(self) -> float:
        """A size that adds up, and is 0 for what is void alone."""
        count = len(self.axis.values) + self.axis.nullable
        if not self.axis.values:
            null = _NULL if self.axis.nullable else 0.0
            odd = (-_POINT if self._rest else _POINT) * len(self.odd)
            return bool(self.bits & 1) * null + self._rest * (1 - null) + odd
        return (self.bits & ((1 << count) - 1)).bit_count() / count

    @cached_property
    def mask(self) -> int:
        """64 bits that two sets share if they share a value."""
        found = 0
        count = len(self.axis.values)
        bits = self.bits & ((1 << (count + 2)) - 1)
        while bits:
            found |= bits & (2**62 - 1)
            bits >>= 62
        return found | (1 << 62 if self.odd or self._rest else 0)


@dataclass(frozen=True)
class Ranged:
    """A set of numbers, as ranges in their order that do not touch; and whether NULL is in it. NaN counts as NULL."""

    axis: Axis
    pieces: tuple[Piece, ...]
    null: bool

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.axis, self.pieces, self.null))

    def both(self, other: Values) -> Ranged:
        assert isinstance(other, Ranged)
        return Ranged(self.axis, tuple(_both(self.pieces, other.pieces)), self.null and other.null)

    def others(self) -> Ranged:
        ends = [START, *(cut for piece in self.pieces for cut in piece), END]
        pairs = zip(ends[::2], ends[1::2], strict=True)
        return Ranged(self.axis, tuple((a, b) for a, b in pairs if a < b), not self.null)

    @property
    def is_empty(self) -> bool:
        return not self.pieces and not self.null

    @property
    def is_whole(self) -> bool:
        return self.null and self.pieces == ((START, END),)

    @cached_property
    def is_void(self) -> bool:
        if self.null and self.axis.nullable:
            return False
        if self.axis.bounds is None:
            return not self.pieces
        low, high = self.axis.bounds
        below, above = _cut(self.axis, (low, 0)), _cut(self.axis, (high, 1))
        return all(b <= below or a >= above for a, b in self.pieces)

    @cached_property
    def is_unsized(self) -> bool:
        """Whether declared values can be in it, and nothing says how many people have them: a number alone of a column without a step,
        a range of one without bounds, or 0 alone, which many may have of whatever is counted or paid."""
        return not self.is_void and (self.share == 0 or self._is_zero)

    @property
    def _is_zero(self) -> bool:
        """Whether it holds 0 and no other declared value."""
        if self.axis.bounds is None or (self.null and self.axis.nullable):
            return False
        low, high = self.axis.bounds
        inside = ranged(self.axis, [((low, 0), (high, 1))], False).pieces
        zero = ranged(self.axis, [((0, 0), (0, 1))], False).pieces
        return tuple(_both(self.pieces, inside)) == zero

    @cached_property
    def is_end(self) -> bool:
        """Whether it holds nothing but one of the bounds, and something beyond it: the last band of a histogram."""
        if self.null or self.axis.bounds is None or len(self.pieces) != 1:
            return False
        low, high = self.axis.bounds
        inside = tuple(_both(self.pieces, ((_cut(self.axis, (low, 0)), _cut(self.axis, (high, 1))),)))
        ends = [ranged(self.axis, [((end, 0), (end, 1))], False).pieces for end in (low, high)]
        return inside in ends and inside != self.pieces

    @cached_property
    def share(self) -> float:
        if self.is_whole:
            return 1.0
        null = NULL_SHARE if self.null and self.axis.nullable else 0.0
        return self._numbers * (1 - NULL_SHARE if self.axis.nullable else 1) + null

    @property
    def _numbers(self) -> float:
        if self.axis.bounds is None:
            ends = sum((a == START) + (b == END) for a, b in self.pieces)
            return min(1.0, ends * HALF_LINE)
        low, high = self.axis.bounds
        step = self.axis.step
        if step is not None:
            whole = step == 1 and low.denominator == 1
            points = _integers if whole else _points
            count = int((high - low) // step) + 1
            return sum(points(piece, low, high, step) for piece in self.pieces) / count
        if low == high:
            return float(any(a <= (low, 0) and (low, 1) <= b for a, b in self.pieces))
        inside = sum((max(Fraction(0), _to(b, low, high) - _to(a, low, high)) for a, b in self.pieces), Fraction(0))
        return float(inside / (high - low))

    @cached_property
    def extent(self) -> float:
        numbers = sum(self._place(b) - self._place(a) for a, b in self.pieces)
        null = _NULL if self.axis.nullable else 0.0
        return numbers * (1 - null) + self.null * null

    @cached_property
    def people_below(self) -> tuple[tuple[float, float], ...]:
        """For each range, the shares of those with a number who lie below its two ends: `share` is made of their differences."""
        return tuple((self._below(a), self._below(b)) for a, b in self.pieces)

    @cached_property
    def places(self) -> tuple[tuple[float, float], ...]:
        """The same of `extent`."""
        return tuple((self._place(a), self._place(b)) for a, b in self.pieces)

    def _below(self, cut: Cut) -> float:
        """Of those with a number, the share who lie below a cut."""
        number, _ = cut
        if isinstance(number, float):
            return 0.0 if number < 0 else 1.0
        return HALF_LINE if self.axis.bounds is None else Ranged(self.axis, ((START, cut),), False)._numbers

    def _place(self, cut: Cut) -> float:
        """Where a cut is, of all numbers between the bounds, or of all where there are none."""
        number, above = cut
        if isinstance(number, float):
            return 0.0 if number < 0 else 1.0
        if self.axis.bounds is None:
            return 0.5 + math.atan(float(number)) / math.pi + above * _POINT
        (low, below), (high, over) = (
            _cut(self.axis, (self.axis.bounds[0], 0)),
            _cut(self.axis, (self.axis.bounds[1], 1)),
        )
        if (number, above) <= (low, below):
            return 0.0
        if (number, above) >= (high, over):
            return 1.0
        return float(number - low) / (float(high - low) or 1.0) * (1 - _POINT) + above * _POINT

    @cached_property
    def mask(self) -> int:
        found = 1 << 63 if self.null else 0
        if self.axis.bounds is None:
            return found | (2**63 - 1 if self.pieces else 0)
        low, high = (float(bound) for bound in self.axis.bounds)
        width = (high - low) / 60 or 1.0
        for (a, _), (b, _) in self.pieces:
            first, last = (
                min(61, max(0, math.floor((float(end) - low) / width) + 1))
                if abs(end) != math.inf
                else 0
                if end < 0
                else 61
                for end in (a, b)
            )
            found |= ((1 << (last - first + 1)) - 1) << first
        return found


Values = Listed | Ranged


def ranged(axis: Axis, pieces: Sequence[Piece], null: bool) -> Ranged:
    """A set of numbers; of a column of integers, or of decimals, every cut is just below one, so that equal sets are equal objects."""
    found: list[Piece] = []
    for a, b in sorted((_cut(axis, a), _cut(axis, b)) for a, b in pieces):
        if not a < b:
            continue
        if found and a <= found[-1][1]:
            found[-1] = (found[-1][0], max(b, found[-1][1]))
        else:
            found.append((a, b))
    return Ranged(axis, tuple(found), null)


def _cut(axis: Axis, cut: Cut) -> Cut:
    number, above = cut
    if isinstance(number, float):
        return cut
    if axis.integral:
        step = axis.step or Fraction(1)
        if step == 1:
            return (math.floor(number) + 1 if above else math.ceil(number)), 0
        number, above = ((math.floor(number / step) + 1) if above else math.ceil(number / step)) * step, 0
    return (number.numerator if number.denominator == 1 else number), above


def _both(first: Sequence[Piece], second: Sequence[Piece]) -> Iterator[Piece]:
    i = j = 0
    while i < len(first) and j < len(second):
        low, high = max(first[i][0], second[j][0]), min(first[i][1], second[j][1])
        if low < high:
            yield low, high
        if first[i][1] < second[j][1]:
            i += 1
        else:
            j += 1


def _to(cut: Cut, low: Fraction, high: Fraction) -> Fraction:
    number = cut[0]
    if isinstance(number, float):
        return low if number < 0 else high
    return min(max(Fraction(number), low), high)


def _integers(piece: Piece, low: Fraction, high: Fraction, step: Fraction) -> int:
    """How many integers from low to high lie between two cuts; the step is 1."""
    (a, above), (b, over) = piece
    first, last = low.numerator, math.floor(high)
    if not isinstance(a, float):
        first = max(first, math.floor(a) + 1 if above else math.ceil(a))
    if not isinstance(b, float):
        last = min(last, math.floor(b) if over else math.ceil(b) - 1)
    return max(0, last - first + 1)


def _points(piece: Piece, low: Fraction, high: Fraction, step: Fraction) -> int:
    """How many points of the grid from low to high lie between two cuts."""
    (a, above), (b, over) = piece
    last = (high - low) // step
    first = (
        0
        if isinstance(a, float)
        else max(0, math.floor((a - low) / step) + 1 if above else math.ceil((a - low) / step))
    )
    if not isinstance(b, float):
        last = min(last, math.floor((b - low) / step) if over else math.ceil((b - low) / step) - 1)
    return max(0, int(last) - int(first) + 1)
