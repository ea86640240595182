"""Tables of declared values, at which DuckDB evaluates a condition, and the sets that it holds for.

A column's values become cells: the declared ones one by one, or the points of its grid, and what lies between and beyond them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import prod

from dpsql.core.domains import Value
from dpsql.core.sqltypes import SqlType
from dpsql.expressions.scalar import Scalar
from dpsql.guard.regions import EVERYTHING, NOTHING, Region, Tangled, box_of
from dpsql.guard.values import END, START, Axis, Cut, Listed, Opaque, Piece, Values, ranged
from dpsql.schema.model import RESERVED
from dpsql.sql.duckdb import literal_sql

MOST_POINTS = 100_000
"""Of declared values, or combinations of them, at which a condition is evaluated."""
MOST_PIECES = 2_000
"""Of one set of numbers."""
MOST_STEPS = 16
"""Boxes of a condition on several columns: a staircase of more is opaque."""


@dataclass(frozen=True, slots=True)
class Points:
    """The declared values of a listed column, some that are not declared, NULL, and one that stands for all others.

    sets  what each stands for
    sql   a query of their numbers and values
    """

    axis: Axis
    sets: tuple[Listed, ...]
    sql: str

    def __len__(self) -> int:
        return len(self.sets)

    def of(self, places: Sequence[int]) -> Values:
        """The set of some of them."""
        bits = 0
        odd: set[Value] = set()
        for place in places:
            bits |= self.sets[place].bits
            if not self.sets[place].bits:
                odd |= self.sets[place].odd
        rest = self.sets[-1]
        if bits & rest.bits:
            # the others are in: what differs are those of the undeclared ones that are not
            return Listed(self.axis, bits, rest.odd - odd)
        return Listed(self.axis, bits, frozenset(odd))


@dataclass(frozen=True, slots=True)
class Grid:
    """The points of a grid, and between two of them one more where the column is not of integers; one beyond each bound; NULL.

    low, half, count  the first point, from one to the next, and how many there are between the bounds
    """

    axis: Axis
    low: Fraction
    half: Fraction
    count: int
    sql: str

    def __len__(self) -> int:
        return self.count + 3

    def of(self, places: Sequence[int]) -> Values:
        """The set of some of them, in ascending order. Raises Tangled."""
        pieces: list[Piece] = []
        first = last = -2
        for place in [*(place for place in places if place < self.count + 2), -1]:
            if place != last + 1 or place < 0:
                if first >= 0:
                    pieces.append((self._cut(first), self._cut(last + 1)))
                first = place
            last = place
        if len(pieces) > MOST_PIECES:
            raise Tangled
        return ranged(self.axis, pieces, bool(places) and places[-1] == self.count + 2)

    def _cut(self, place: int) -> Cut:
        """Where a cell begins: the first one is what lies below the bounds, the last what lies above."""
        if place == 0:
            return START
        if place > self.count + 1:
            return END
        number = place - 1
        if self.axis.integral:
            return self.low + number * self.half, 0
        # points have even numbers and begin just below themselves; what is between them begins just above the point before
        even = number % 2 == 0 and number < self.count
        return (self.low + number * self.half, 0) if even else (self.low + (number - 1) * self.half, 1)


def cells_of(axis: Axis, sqltype: SqlType, constants: Sequence[Scalar]) -> Points | Grid:
    """Where a condition on a column is evaluated. Raises Opaque."""
    if axis.ranged:
        return _grid(axis, sqltype)
    if not axis.values:
        raise Opaque
    kind = type(axis.values[0])
    strange = {c.value for c in constants if c.value is not None and type(c.value) is kind} - set(axis.values)
    odd: list[Value] = sorted(strange, key=str)
    count = len(axis.values)
    sets = [Listed(axis, 1 << place) for place in range(count)]
    sets += [Listed(axis, 0, frozenset({value})) for value in odd]
    sets += [Listed(axis, 1 << count), Listed(axis, 1 << (count + 1), frozenset(odd))]
    texts = [
        _listed(axis, sqltype),
        *(literal_sql(value, sqltype) for value in odd),
        "NULL",
        _other(axis, sqltype, odd),
    ]
    return Points(axis, tuple(sets), f"SELECT unnest(range({len(sets)})), unnest([{', '.join(texts)}]::{sqltype}[])")


@lru_cache(maxsize=256)
def _listed(axis: Axis, sqltype: SqlType) -> str:
    """The declared values as SQL."""
    return ", ".join(literal_sql(value, sqltype) for value in axis.values)


def _other(axis: Axis, sqltype: SqlType, odd: Sequence[Value]) -> str:
    """A value that is not declared, as SQL; NULL where there is none."""
    if isinstance(axis.values[0], str):
        return literal_sql(f"{RESERVED}other", sqltype)
    if sqltype.is_boolean:
        return "NULL"
    number = max(Fraction(value) for value in (*axis.values, *odd) if not isinstance(value, str)) * 2 + 7919
    return literal_sql(number, sqltype) if sqltype.range is None or number in sqltype.range else "NULL"


def _grid(axis: Axis, sqltype: SqlType) -> Grid:
    """Raises Opaque."""
    if axis.bounds is None or axis.step is None or not (sqltype.is_number or sqltype.name == "DATE"):
        raise Opaque
    low, high = axis.bounds
    half = axis.step if axis.integral else axis.step / 2
    if axis.integral:
        low, high = (low / half).__ceil__() * half, (high / half).__floor__() * half
    if not 0 <= (high - low) / half <= MOST_POINTS:
        raise Opaque
    count = int((high - low) // axis.step) * (1 if axis.integral else 2) + 1
    at = f"{_number(low - half)} + i * {_number(half)}"
    if sqltype.name == "DATE":
        at = f"DATE '1970-01-01' + CAST({int(low) - 1} + i AS INTEGER)"
    known = f"CASE WHEN i < {count + 2} THEN TRY_CAST({at} AS {sqltype}) END"
    return Grid(axis, low, half, count, f"SELECT i, {known} FROM range({count + 3}) AS g(i)")


def _number(number: Fraction) -> str:
    """A number as SQL: exact where it is whole."""
    return str(int(number)) if number.denominator == 1 else f"CAST({float(number)!r} AS DOUBLE)"


def region_of(cells: Sequence[Points | Grid], holds: Sequence[bool]) -> Region:
    """The region of the combinations for which something holds, in as few boxes as the columns in their order allow. Raises Tangled."""
    if not cells:
        return EVERYTHING if holds and holds[0] else NOTHING
    width = prod(len(column) for column in cells[1:])
    patterns: dict[tuple[bool, ...], list[int]] = {}
    for i in range(len(cells[0])):
        pattern = tuple(holds[i * width : (i + 1) * width])
        if any(pattern):
            patterns.setdefault(pattern, []).append(i)
    found: list[dict[str, Values]] = []
    for pattern, places in patterns.items():
        own = cells[0].of(places)
        found += [{**box, **here} for box in region_of(cells[1:], pattern) for here in box_of(own)]
        if len(found) > MOST_STEPS:
            raise Tangled
    return tuple(found)
