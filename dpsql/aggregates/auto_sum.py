"""dp_sum(x, bounds := 'auto'): a sum whose clamp is chosen from noisy counts of how large the values are.

A row with the value v, in quanta, is in the bucket of |v|: bucket j holds 2^j <= |v| < 2^(j + 1). Which buckets there are follows from
the type and the declaration, and values beyond 2^56 quanta count as 2^56. With T(t) the sum of the values clamped to [-t, t], a release

    1. adds discrete Laplace noise of scale K / (SHARE epsilon) to the number of rows in every bucket, occupied or not;
    2. chooses t, a power of two, from these noisy numbers alone: the least estimated squared error, bias and noise together;
    3. adds discrete Laplace noise of scale K t / ((1 - SHARE) epsilon) to T(t).

A row is in one bucket, and moves T(t) by at most t for every fixed t. So with r rows in a group a unit moves the counts of that
group by at most r in L1, and T(t) by at most r t, and what is released of the group loses r SHARE epsilon / K + r (1 - SHARE)
epsilon / K, t being public when T(t) is drawn. Its rows in all groups are at most K: together epsilon (aggregates/histogram.py). One t
serves values above and below zero, since the noise depends on the larger of two alone.

T(t) is exact: the sums of the buckets below t, and t for each row in the others, with its sign. 0 adds nothing and is in no bucket.
NULL, NaN and infinities are not counted (rule 23). Where the noise of T(t) would be wider than 2^52 quanta, T(t) is rounded down to a
multiple of 2^g <= t first: T(t) moves by at most r t, a multiple of 2^g, and so does what it is rounded to.

Where no bucket stands out of the noise there is nothing to choose by: the sum is NULL, and T is not looked at.

Source: Wilson et al. 2020 (bounds from a noisy logarithmic histogram); Dong et al. 2022, R2T (sums truncated at powers of two); the
choice by the estimated error is ours.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from dpsql.aggregates.base import ReleasedColumn
from dpsql.aggregates.histogram import Counts, OverHistogramDefaults, Terms
from dpsql.aggregates.record import Aggregate, Around, Built, Given, Record
from dpsql.aggregates.sum import in_type, sum_type, to_double
from dpsql.aggregates.telling import Say, where
from dpsql.aggregates.term import FINEST, Term
from dpsql.core.domains import LARGEST_DOUBLE, Interval
from dpsql.core.errors import error
from dpsql.core.events import Event
from dpsql.core.sqltypes import BIGINT, SqlType
from dpsql.core.wording import number
from dpsql.expressions.scalar import Scalar, finite_hull, limits_of, tree_of
from dpsql.mechanisms.additive import shown
from dpsql.mechanisms.conversions import PURE
from dpsql.mechanisms.laplace import DiscreteLaplace
from dpsql.mechanisms.rounding import MOST_SCALE
from dpsql.mechanisms.source import NoiseSource
from dpsql.sql.nodes import Bare, Binary, Call, Case, Cast, Chain, Node, Number

SHARE = Fraction(1, 5)
"""The share of the price that the counts take."""
MOST = 2**56
"""[quanta] The largest value that counts as it is: 10^17 rows of it stay far inside HUGEINT."""
STRAY = 0.01
"""[probability] That an empty bucket of a group is taken for one with rows, before any other was."""
NEXT = 2.0
"""[scales] How far a bucket beside one with rows has to stand out."""
_FINE = Fraction(1, 2**16)
_FINE_ENOUGH = 2**40
"""[quanta] From zero to the larger declared bound of a DOUBLE, at least."""
_DIGITS, _LEAST_DIGITS = 16, 4
"""Of a DECIMAL without declared bounds: as many in all as MOST has, so that its type holds nothing beyond; but some after the point."""
_AT_ONCE = 1000


@dataclass(frozen=True, slots=True)
class Magnitudes:
    """Numbers of the rows with a term in each power of two, by sign, and sums of these terms, over the rows for which
    `counted` is true.

    term  the value, clamped to what its type holds or to MOST, never tighter
    """

    term: Term
    counted: Scalar | None

    summed = True

    @property
    def identity(self) -> Hashable:
        return "magnitudes", self.term.identity, tree_of(self.counted)

    @property
    def inputs(self) -> tuple[Scalar, ...]:
        return (self.term.scalar,) if self.counted is None else (self.term.scalar, self.counted)

    @property
    def buckets(self) -> int:
        """Numbered from 0."""
        return self.term.magnitude.bit_length()

    def value_of(self, names: Sequence[Node]) -> Node:
        finite = [Call("isfinite", (names[0],))] if self.term.scalar.sqltype.is_float else []
        conditions, quanta = (*names[1:], *finite), self.term.quanta(names[0])
        return Bare(Case(((Bare(Chain("AND", conditions)), quanta),))) if conditions else quanta

    def bucket_of(self, value: Node) -> Node:
        """The sign times 1 + j; 0 for 0.

        Why  1 + j = floor(log2(2 |v| + 1)), which is 2^-33 away from any integer below 2^32, so the engine's logarithm cannot err;
             above that the lower half of the digits is dropped first
        """
        size = Call("abs", (value,))
        low, high = _power(size), Bare(Binary("+", Number(32), _power(Binary(">>", size, Number(32)))))
        bucket = Bare(Case(((Bare(Binary("<", size, Number(2**32))), low),), high))
        return Cast(Bare(Binary("*", Call("sign", (value,)), bucket)), BIGINT, tries=False)


def _power(size: Node) -> Node:
    """floor(log2(2 size + 1))"""
    twice = Bare(Binary("+", Bare(Binary("*", Number(2), size)), Number(1)))
    return Call("floor", (Call("log2", (twice,)),))


def magnitudes(scalar: Scalar, condition: Scalar | None) -> Magnitudes:
    """Histogram of an expression. Quanta are 1, the last digit or a declared step, 2^-16 for DOUBLE; with declared bounds so fine, or
    so coarse, that the bounds are within MOST; without them values beyond MOST quanta count as MOST.

    Raises 106 where it is no number.
    """
    sqltype = scalar.sqltype
    if not (sqltype.is_number or sqltype.is_boolean):
        raise error(106, f"SUM needs a number, not {sqltype}", hint="count it, or cast it to a number")
    quantum = _quantum(scalar, finite_hull(scalar))
    limits, held = limits_of(scalar), sqltype.range if sqltype.is_decimal else None
    most = min(MOST, math.floor(LARGEST_DOUBLE / quantum))
    lower, upper = -most, most
    for known in (limits, held):
        if known is not None:
            lower, upper = max(lower, math.ceil(known.lower / quantum)), min(upper, math.floor(known.upper / quantum))
    # constants beyond MOST leave nothing between the two
    lower, upper = min(lower, most), max(upper, -most)
    low, high = min(lower, upper), max(lower, upper, 1)
    # a constant is its own two limits
    return Magnitudes(Term(scalar, low if low < high else low - 1, high, quantum), condition)


def _quantum(scalar: Scalar, bounds: Interval | None) -> Fraction:
    """Declared bounds place the grid, so that no value within them is beyond MOST; without them the type alone does."""
    sqltype = scalar.sqltype
    quantum = _FINE if sqltype.is_float else Fraction(1)
    if sqltype.is_decimal:
        within = max(_LEAST_DIGITS, _DIGITS - (sqltype.width - sqltype.scale))
        quantum = Fraction(1, 10 ** (min(sqltype.scale, within) if bounds is None else sqltype.scale))
    if scalar.step is not None:
        quantum = max(FINEST, scalar.step)
    if bounds is None:
        return quantum
    most = max(abs(bounds.lower), abs(bounds.upper))
    if sqltype.is_float and scalar.step is None:
        while 0 < most / quantum < _FINE_ENOUGH and quantum > FINEST:
            quantum /= 2
    while most / quantum > MOST:
        quantum *= 2
    return quantum


def rows_by_size(counts: Counts, buckets: int) -> list[int]:
    """The exact number of rows in each bucket of |v|."""
    rows = [0] * buckets
    for value, count in zip(counts.values, counts.counts, strict=True):
        if value:
            rows[abs(int(value)) - 1] += count
    return rows


def clamped_sum(counts: Counts, exponent: int) -> int:
    """The exact sum of the values clamped to [-2^exponent, 2^exponent] [quanta]."""
    found = 0
    for value, count, sum_ in zip(counts.values, counts.counts, counts.sums, strict=True):
        code = int(value)
        inside = abs(code) <= exponent
        found += sum_ if inside else count * 2**exponent * (1 if code > 0 else -1)
    return found


def exponent_of(noisy: Sequence[int], scale: float, per_row: float) -> int | None:
    """For the clamp 2^e with the least estimated squared error, e; None where no bucket stands out. Reads noisy numbers alone.

    scale    of the noise in them
    per_row  epsilon that each row of a unit has for the sum: the noise of the sum has variance 2 (2^e / per_row)^2

    A bucket has rows where it stands out of the noise of all of them, and from the largest of those on upwards where the next one
    stands out by NEXT scales. A value in bucket j is about 1.5 * 2^j, so clamping it to 2^e leaves out 1.5 * 2^j - 2^e.
    """
    out = scale * math.log(len(noisy) / (2 * STRAY))
    standing = [j for j, rows in enumerate(noisy) if rows > out]
    if not standing:
        return None
    top = standing[-1]
    while top + 1 < len(noisy) and noisy[top + 1] > NEXT * scale:
        top += 1
    best, least = top + 1, 2 * (2.0 ** (top + 1) / per_row) ** 2
    beyond = left_out = 0.0
    for e in range(top, -1, -1):
        rows = max(0, noisy[e])
        beyond, left_out = beyond + rows, left_out + rows * 1.5 * 2.0**e
        error_squared = (left_out - beyond * 2.0**e) ** 2 + 2 * (2.0**e / per_row) ** 2
        if error_squared < least:
            best, least = e, error_squared
    return best


@dataclass(frozen=True, slots=True)
class AutoSum(OverHistogramDefaults):
    """The clamped sum of each group and its clamp, in quanta; a clamp of 0 stands for no sum."""

    histogram: Magnitudes

    cells = 2
    cost = "the count of one bucket by 1, and the sum by the chosen clamp"

    @property
    def identity(self) -> Hashable:
        return "sum with a chosen clamp", self.histogram.identity

    def counting(self, terms: Terms) -> DiscreteLaplace:
        """The noise of the counts."""
        return DiscreteLaplace(1 / (terms.per_row * SHARE))

    def per_row(self, terms: Terms) -> Fraction:
        """epsilon for each row in the sum [nats]."""
        return terms.per_row * (1 - SHARE)

    def summing(self, exponent: int, terms: Terms) -> tuple[DiscreteLaplace, int]:
        """The noise of a sum clamped at 2^exponent, and the grid on which it is drawn [quanta]."""
        scale, grid = 2**exponent / self.per_row(terms), 1
        while scale / grid > MOST_SCALE and grid < 2**exponent:
            grid *= 2
        return DiscreteLaplace(scale / grid), grid

    def events(self, terms: Terms) -> tuple[Event, ...]:
        return (PURE.event(terms.epsilon),)

    def release(self, groups: Sequence[Counts], terms: Terms, noise: NoiseSource) -> list[list[int]]:
        exponents: list[int | None] = []
        for start in range(0, len(groups), _AT_ONCE):
            exponents += self._exponents(groups[start : start + _AT_ONCE], terms, noise)
        sums, clamps = [0] * len(groups), [0] * len(groups)
        for exponent in sorted({e for e in exponents if e is not None}):
            places = [i for i, e in enumerate(exponents) if e == exponent]
            added, grid = self.summing(exponent, terms)
            for i, draw in zip(places, added.sample(noise, len(places)), strict=True):
                sums[i] = (clamped_sum(groups[i], exponent) // grid + draw) * grid
                clamps[i] = 2**exponent
        return [sums, clamps]

    def told(self, say: Say) -> str:
        term = self.histogram.term
        quanta = f"in quanta of {number(term.quantum)}, up to {number(term.magnitude * term.quantum)}"
        kept = where(self.histogram.counted, say)
        return f"the sum of {say(term.scalar)} {quanta}, clamped to a power of two quanta{kept}"

    def bounds_told(self, say: Say) -> list[str]:
        return [f"the clamp of {say(self.histogram.term.scalar)} is chosen from noisy counts"]

    def describe(self, terms: Terms) -> str:
        counts = f"{self.histogram.buckets} counts by {self.counting(terms).describe()}"
        return f"{counts}; the sum by discrete Laplace, scale {shown(1 / self.per_row(terms))} times the chosen clamp"

    def least_rows(self, terms: Terms) -> int:
        """[rows] About how many must be of one size for the sum not to be NULL."""
        return math.ceil(float(self.counting(terms).scale) * math.log(self.histogram.buckets / (2 * STRAY)))

    def _exponents(self, groups: Sequence[Counts], terms: Terms, noise: NoiseSource) -> list[int | None]:
        size, around = self.histogram.buckets, self.counting(terms)
        draws = around.sample(noise, size * len(groups))
        scale, per_row = float(around.scale), float(self.per_row(terms))
        widest = (self.histogram.term.magnitude - 1).bit_length()
        found: list[int | None] = []
        for i, counts in enumerate(groups):
            own = zip(rows_by_size(counts, size), draws[i * size : (i + 1) * size], strict=True)
            exponent = exponent_of([rows + z for rows, z in own], scale, per_row)
            found.append(None if exponent is None else min(exponent, widest))
        return found


@dataclass(frozen=True, slots=True)
class AutoSumOf:
    """The released sum, in a SUM's type. The interval is that of the noise; what the clamp leaves out is not in it."""

    auto: AutoSum
    sqltype: SqlType

    def promise(self, terms: Terms, level: Fraction) -> str:
        times = f"{-math.log(float(1 - level)) / float(self.auto.per_row(terms)):.3g}"
        rows = self.auto.least_rows(terms)
        return (
            f"{100 * float(level):g} % half-width {times} times the clamp that is chosen, beside what the clamp leaves out; "
            f"NULL where fewer than about {rows:,} rows are of one size; "
            f"values beyond {float(self.auto.histogram.term.magnitude * self.auto.histogram.term.quantum):.3g} count as that"
        )

    def column(self, cells: Sequence[Sequence[int]], terms: Terms, level: Fraction) -> ReleasedColumn:
        quantum = self.auto.histogram.term.quantum
        widths = {clamp: self._half_width(clamp, terms, level) for clamp in set(cells[1]) if clamp}
        values: list[object] = []
        intervals: list[tuple[float, float] | None] = []
        for total, clamp in zip(*cells, strict=True):
            values.append(in_type(total, quantum, self.sqltype) if clamp else None)
            h = widths.get(clamp, 0)
            ends = to_double((total - h) * quantum), to_double((total + h) * quantum)
            intervals.append(ends if clamp else None)
        return ReleasedColumn(values, intervals)

    def _half_width(self, clamp: int, terms: Terms, level: Fraction) -> int:
        """[quanta]"""
        noise, grid = self.auto.summing(clamp.bit_length() - 1, terms)
        return (noise.half_width(level) + (grid > 1)) * grid


def _auto_sum(aggregate: Aggregate, value: Scalar, _: Around) -> tuple[AutoSum, AutoSumOf]:
    auto = AutoSum(magnitudes(value, aggregate.condition))
    return auto, AutoSumOf(auto, aggregate.sqltype)


def _given(given: Given) -> Built:
    hint, value = "write dp_sum(x, bounds := 'auto')", given.value
    if given.constants or len(given.named) != 1:
        raise error(106, "dp_sum takes a value and bounds := 'auto', or its own bounds, not both", hint=hint)
    bounds = given.named["bounds"]
    if not isinstance(bounds, str) or bounds.lower() != "auto":
        raise error(106, "bounds of dp_sum can only be 'auto'", hint=hint)
    if not (value.sqltype.is_number or value.sqltype.is_boolean):
        raise error(106, f"SUM needs a number, not {value.sqltype}", hint="count it, or cast it to a number")
    return Built(value)


AUTO_SUM = Record(
    "auto_sum", {"dp_sum(x, bounds := 'auto')": "a sum whose bounds are chosen from noisy counts"},
    "the sum of {value} with a chosen clamp",
    "dp_sum({value}, bounds := 'auto')", "dp_sum", build=_given, sqltype=sum_type, booleans=True, histogram=_auto_sum, adds="values",
    sampled="sum({v}){kept}",
    grows=True,
)  # fmt: skip
