"""rdp: Renyi divergences of one order add up.

The order is that at which Gaussian noise may have the largest rho under the total that is declared at the first charge, and it stays
then: the filter is valid for an order that does not depend on answers. Caps are smaller than the total, and better kept by a larger
order: those of a quarter and of a sixteenth of epsilon are added up beside, for caps alone.

Source  Feldman, Zrnic 2021, Individual Privacy Accounting via a Renyi Filter, theorem 4.3; conversion: mechanisms/reach.py
"""

from __future__ import annotations

from decimal import MAX_EMAX, MIN_EMIN, ROUND_FLOOR, Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache, partial

from dpsql.accountants.record import Accountant, Measure
from dpsql.core.loss import EpsilonDelta
from dpsql.mechanisms import renyi
from dpsql.mechanisms.conversions import epsilon_at_most_rho
from dpsql.mechanisms.reach import best_order, largest_renyi

_PREFIX = "renyi "
_PARTS = (1, 4, 16)
_TWELVE = Context(prec=12, rounding=ROUND_FLOOR, Emin=MIN_EMIN, Emax=MAX_EMAX)


def _names(total: EpsilonDelta) -> tuple[str, ...]:
    orders = (best_order(EpsilonDelta(total.epsilon / part, total.delta)) for part in _PARTS)
    return tuple(dict.fromkeys(f"{_PREFIX}{order}" for order in orders))


def _measure(name: str) -> Measure | None:
    if not name.startswith(_PREFIX):
        return None
    order = Fraction(name.removeprefix(_PREFIX))
    return Measure(
        name,
        partial(renyi.of_event, order),
        lambda total: largest_renyi(total, order),
        partial(renyi.about_pure, float(order)),
        partial(_price, order),
        lambda left: epsilon_at_most_rho(left / order),
    )


@lru_cache(maxsize=4096)
def _price(order: Fraction, left: Fraction) -> Fraction:
    """The largest epsilon of twelve digits whose divergence is at most this; 0 where there is none."""
    if left <= 0:
        return Fraction(0)
    # the divergence is at most epsilon, and at least epsilon tanh(epsilon / 2), which is more than epsilon - 1
    low, high = float(left), float(left) + 1
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if renyi.about_pure(float(order), middle) <= left else (low, middle)
    with localcontext(_TWELVE):
        epsilon = Decimal(high) * Decimal("1.0000000000001")
        while renyi.of_pure(order, Fraction(epsilon)) > left:
            epsilon = epsilon.next_minus()
    return Fraction(epsilon)


RDP = Accountant("rdp", "rdp", 1, _names, _measure)
