"""What is chosen of a tally has to be worth its noise: randomised reports have a price of their own, and scales have an end."""

from __future__ import annotations

from fractions import Fraction
from math import ceil

from dpsql.core.errors import Error, error
from dpsql.core.loss import EpsilonDelta
from dpsql.core.spans import Span
from dpsql.plan.releases import Chosen, Release
from dpsql.planner.noises import too_wide

LEAST = Fraction(1, 2**48)
"""[nats] For each row of a unit: a few times its inverse is still a scale that can be drawn."""
_MORE = Fraction(6, 5)


def check_price(release: Release, price: EpsilonDelta) -> None:
    """Refuse what this price is too small for.

    price  of the whole statement

    Raises 104 (reports that cost more than their part), 202 (noise too wide).
    """
    for place, part in enumerate(release.chosen):
        aggregates = {a.name: a for a in release.limited.block.aggregates}
        span = next((aggregates[r.name].span for r in release.read if r.chosen == place), None)
        if part.tallied.of_each_row and part.terms.per_row - part.tallied.of_each_row < LEAST:
            raise _too_cheap(part, price, span)
        if part.terms.per_row < LEAST:
            raise too_wide(span)


def _too_cheap(part: Chosen, price: EpsilonDelta, span: Span | None) -> Error:
    epsilon, rows = part.tallied.of_each_row, part.terms.limits.rows
    share = part.terms.epsilon / price.epsilon
    each = "for a row" if rows == 1 else f"for each of up to {rows:,} rows of one person"
    return error(
        104,
        f"the reports cost epsilon {float(epsilon):g} {each}, and noise on their number is bought beside that: "
        f"this part of the price is {float(part.terms.epsilon):.3g}",
        hint=f"write /* dpsql: epsilon={_short(_MORE * epsilon * rows / share)} */, or a smaller second argument",
        span=span,
    )


def _short(number: Fraction) -> str:
    """Two digits, rounded up.

    >>> _short(Fraction(6, 5)), _short(Fraction(1234)), _short(Fraction(1, 3))
    ('1.2', '1300', '0.34')
    """
    unit = Fraction(1)
    while number / unit >= 100:
        unit *= 10
    while number / unit <= 10:
        unit /= 10
    return f"{float(ceil(number / unit) * unit):g}"
