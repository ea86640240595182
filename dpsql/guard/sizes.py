"""sizes: what is known in public of a column -> how often each of its values is taken to occur.

The best source first: a released histogram that the owner bought, mixed with a tenth of what is declared; what the owner takes for
granted (`usual`); else the declaration, evenly over a list or bounds, 0 and round numbers strictly inside the bounds more often. The
ends of bounds get no more: the extreme person is no crowd.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from dpsql.core.domains import Categories, Interval, Value
from dpsql.schema.model import Column

ROUND = 0.3
"""[share] of 0 or a round number, where there is one."""
NULLS = 0.05
"""[share] of NULL in a nullable column, but that of twice k people at least."""
DECLARED = 0.1
"""[share] as declared beside a released histogram: nobody is known to be absent."""


RELEASED = "released sizes"
"""Source of sizes that the owner bought by themselves."""


@dataclass(frozen=True, slots=True)
class Share:
    """Values that occur alike often: one, or all numbers from it to below `end`.

    weight  [share] of the values that are not NULL
    """

    value: Value
    weight: float
    end: Fraction | None = None


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes that are taken for granted of one column.

    shares  of its values; () where nothing is known of them
    nulls   [share] of NULL
    rest    [share] of values of which nothing is known
    source  in words, of released ones
    """

    shares: tuple[Share, ...]
    nulls: float
    rest: float = 0.0
    source: str = field(default=RELEASED, repr=False, compare=False)


Bought = Mapping[tuple[str, str], Sizes]
"""The released histograms, by table and column."""


def sizes(column: Column, nulls: float, bought: Sizes | None) -> Sizes:
    """Sizes that are taken for granted of a column.

    nulls  [share] of NULL as declared
    """
    declared = _usual(column, Sizes(_declared(column), nulls if column.nullable else 0.0, 0.0))
    if bought is None:
        return declared
    shares = [Share(c.value, c.weight * (1 - DECLARED), c.end) for c in bought.shares]
    shares += [Share(c.value, c.weight * DECLARED, c.end) for c in declared.shares]
    return Sizes(tuple(shares), bought.nulls * (1 - DECLARED) + declared.nulls * DECLARED)


def _declared(column: Column) -> tuple[Share, ...]:
    domain = column.domain
    if isinstance(domain, Categories):
        return tuple(Share(value, 1 / len(domain.values)) for value in domain.values)
    if not isinstance(domain, Interval):
        return ()
    inside = round_numbers(domain)
    whole = Share(domain.lower, 1 - ROUND if inside else 1.0, domain.upper + _even(column))
    return (whole, *(Share(value, ROUND / len(inside)) for value in inside))


def _even(column: Column) -> int:
    """Distance from the last of whole values to the one that would follow."""
    return int(column.sqltype.is_integer or column.sqltype.is_counted)


def _usual(column: Column, declared: Sizes) -> Sizes:
    """Sizes of values that the owner declares; the others as declared."""
    known = {value: float(share) for value, share in column.usual}
    nulls = known.pop(None, declared.nulls)
    if not known:
        return Sizes(declared.shares, nulls)
    values = sum(known.values())
    # shares are of all rows, weights of those that are not NULL
    named = [Share(value, share / max(1 - nulls, values)) for value, share in known.items() if value is not None]
    rest = 1 - sum(share.weight for share in named)
    others = [one for one in declared.shares if one.end is not None or one.value not in known]
    total = sum(one.weight for one in others)
    if not others:
        return Sizes(tuple(named), nulls, 0.0 if declared.shares else rest)
    return Sizes((*named, *(Share(c.value, c.weight * rest / total, c.end) for c in others)), nulls)


def from_histogram(cells: Sequence[tuple[Value | None, Fraction | None, float]]) -> Sizes | None:
    """A released histogram, of value, end and noisy count each: negative ones are 0. None where it says nothing."""
    counted = [(value, end, max(count, 0.0)) for value, end, count in cells]
    total, nulls = sum(c for _, _, c in counted), sum(c for value, _, c in counted if value is None)
    if total <= nulls:
        return None
    known = [(value, end, count) for value, end, count in counted if value is not None and count > 0]
    return Sizes(tuple(Share(value, count / (total - nulls), end) for value, end, count in known), nulls / total)


def round_numbers(domain: Interval) -> list[Fraction]:
    """Multiples of a power of ten strictly inside the bounds, which are the extreme person's; 0 as often as all of them, where it is
    a value at all."""
    span = domain.upper - domain.lower
    if span <= 0:
        return []
    step = Fraction(10) ** (len(str(int(span))) - 1) if span >= 1 else Fraction(1, 10)
    if span / step < 3:
        step /= 10
    first, last = int(domain.lower / step), int(domain.upper / step)
    found = [step * i for i in range(first - 1, last + 2) if i and domain.lower < step * i < domain.upper]
    return found + [Fraction(0)] * max(len(found), 1) if 0 in domain else found
