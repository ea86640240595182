"""Domains of columns and expressions, and interval arithmetic on them, exact on Fractions.

A domain is a *declaration* to be enforced by a clamp or a key list, never a fact about the data. Numbers stand for themselves,
dates for days since 1970-01-01, timestamps for microseconds since then; text and booleans appear in Categories only.
Laws: for every operation f and all x in A, y in B: f(x, y) is in f(A, B) (tests/laws/test_intervals.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from types import EllipsisType
from typing import cast

Value = int | Fraction | str | bool
MOST_CATEGORIES = 100_000
LARGEST_DOUBLE = Fraction(int(1.7976931348623157e308))


@dataclass(frozen=True, slots=True)
class Interval:
    """All numbers from lower to upper, both included."""

    lower: Fraction
    upper: Fraction

    def __post_init__(self) -> None:
        if self.lower > self.upper:
            raise ValueError("an interval needs lower <= upper")

    def __contains__(self, value: object) -> bool:
        return isinstance(value, int | Fraction) and self.lower <= value <= self.upper


@dataclass(frozen=True, slots=True)
class Categories:
    """A finite list of values in a fixed order, without NULL; its hull is worked out once."""

    values: tuple[Value, ...]
    _hull: Interval | EllipsisType | None = field(init=False, repr=False, compare=False, default=...)

    def __contains__(self, value: object) -> bool:
        return value in self.values


@dataclass(frozen=True, slots=True)
class Unbounded:
    """Nothing is declared."""


Domain = Interval | Categories | Unbounded
UNBOUNDED = Unbounded()


def interval(lower: int | Fraction, upper: int | Fraction) -> Interval:
    return Interval(Fraction(lower), Fraction(upper))


def categories(values: Iterable[Value]) -> Categories:
    """The distinct values, sorted within numbers and within text, so that equal sets are equal objects."""
    distinct = set(values)
    texts = {v for v in distinct if isinstance(v, str)} if _has_text(distinct) else set()
    return Categories((*sorted(distinct - texts), *sorted(texts)))


def _has_text(values: Collection[Value]) -> bool:
    return str in set(map(type, values))


def hull(domain: Domain) -> Interval | None:
    """The smallest interval that holds a domain of numbers; None where there is none, or a bound is beyond DOUBLE."""
    match domain:
        case Interval():
            found = domain
        case Categories():
            if isinstance(domain._hull, EllipsisType):
                object.__setattr__(domain, "_hull", _hull(domain.values))
            assert not isinstance(domain._hull, EllipsisType)
            return domain._hull
        case _:
            return None
    return _within_double(found)


def _hull(values: Sequence[Value]) -> Interval | None:
    if not values or _has_text(values):
        return None
    numbers = cast("Sequence[int | Fraction]", values)
    return _within_double(Interval(Fraction(min(numbers)), Fraction(max(numbers))))


def _within_double(found: Interval) -> Interval | None:
    return found if found.lower >= -LARGEST_DOUBLE and found.upper <= LARGEST_DOUBLE else None


def join(first: Domain, second: Domain) -> Domain:
    """A domain that holds both: the union of categories, else the hull."""
    if isinstance(first, Categories) and isinstance(second, Categories):
        kinds = {isinstance(v, str) for v in first.values + second.values}
        return categories(first.values + second.values) if len(kinds) < 2 else UNBOUNDED
    a, b = hull(first), hull(second)
    return Interval(min(a.lower, b.lower), max(a.upper, b.upper)) if a and b else UNBOUNDED


def intersect(domain: Domain, other: Domain) -> Domain:
    """The values that both allow; the first where they have none in common, so that a domain is never empty."""
    if isinstance(domain, Unbounded):
        return other
    if isinstance(other, Unbounded):
        return domain
    if isinstance(domain, Categories):
        allowed = frozenset(other.values) if isinstance(other, Categories) else other
        kept = tuple(v for v in domain.values if v in allowed)
        return Categories(kept) if kept else domain
    if isinstance(other, Categories):
        kept = tuple(v for v in other.values if v in domain)
        return Categories(kept) if kept else domain
    lower, upper = max(domain.lower, other.lower), min(domain.upper, other.upper)
    return Interval(lower, upper) if lower <= upper else domain


def integers(domain: Domain) -> Categories | None:
    """The integers of a domain as a list; None where it is not finite, or longer than MOST_CATEGORIES."""
    if isinstance(domain, Categories):
        return domain
    if isinstance(domain, Interval):
        low, high = math.ceil(domain.lower), math.floor(domain.upper)
        if 0 <= high - low < MOST_CATEGORIES:
            return _counted(low, high)
    return None


@lru_cache(maxsize=16)
def _counted(low: int, high: int) -> Categories:
    return Categories(tuple(range(low, high + 1)))


def in_a_row(values: Sequence[Value | None]) -> tuple[int, int] | None:
    """The least and the greatest of a list of whole numbers that follow one another, whatever their order; None of another list.

    >>> in_a_row((3, 1, 2)), in_a_row((1, 3)), in_a_row((True, 2))
    ((1, 3), None, None)
    """
    if set(map(type, values)) != {int}:
        return None
    whole = cast("Sequence[int]", values)
    first, last = min(whole), max(whole)
    return (first, last) if last - first + 1 == len(whole) == len(set(whole)) else None


# --- arithmetic ---------------------------------------------------------------------------------------------------


def _corners(a: Interval, b: Interval, f: Callable[[Fraction, Fraction], Fraction]) -> Interval:
    """The image of a function that is monotone in each argument for every fixed value of the other: its extremes are corners."""
    values = [f(x, y) for x in (a.lower, a.upper) for y in (b.lower, b.upper)]
    return Interval(min(values), max(values))


def add(a: Interval, b: Interval) -> Interval:
    return Interval(a.lower + b.lower, a.upper + b.upper)


def subtract(a: Interval, b: Interval) -> Interval:
    return Interval(a.lower - b.upper, a.upper - b.lower)


def multiply(a: Interval, b: Interval) -> Interval:
    """All four corners: with a negative side, no two of them are enough."""
    return _corners(a, b, lambda x, y: x * y)


def divide(a: Interval, b: Interval) -> Interval | None:
    """Real division; None where the divisor may be zero, since the quotient is then unbounded."""
    if b.lower <= 0 <= b.upper:
        return None
    return _corners(a, b, lambda x, y: x / y)


def negate(a: Interval) -> Interval:
    return Interval(-a.upper, -a.lower)


def absolute(a: Interval) -> Interval:
    top = max(abs(a.lower), abs(a.upper))
    return Interval(Fraction(0) if a.lower <= 0 <= a.upper else min(abs(a.lower), abs(a.upper)), top)


def truncated_quotient(x: Fraction, y: Fraction) -> Fraction:
    """Integer division as DuckDB does it: towards zero."""
    return Fraction(math.trunc(x / y))


def remainder(a: Interval, b: Interval) -> Interval:
    """x % y takes the sign of x and is smaller than |y|; also never larger than |x|."""
    most = min(max(abs(b.lower), abs(b.upper)), max(abs(a.lower), abs(a.upper)))
    return Interval(-most if a.lower < 0 else Fraction(0), most if a.upper > 0 else Fraction(0))


def monotone(a: Interval, f: Callable[[Fraction], Fraction]) -> Interval:
    """The image under a function that never decreases."""
    return Interval(f(a.lower), f(a.upper))


def map_integers(
    a: Categories, b: Categories, f: Callable[[Fraction, Fraction], Fraction | None]
) -> tuple[Categories, bool] | None:
    """The image of a finite product, and whether some pair has no value (NULL); None where the product is too large."""
    if len(a.values) * len(b.values) > MOST_CATEGORIES:
        return None
    results = [f(Fraction(x), Fraction(y)) for x in a.values for y in b.values]
    found = [int(r) if r.denominator == 1 else r for r in results if r is not None]
    return (categories(found), len(found) < len(results)) if found else None
