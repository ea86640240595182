"""Amounts of epsilon and delta: exact as text in the ledger, short as decimals in messages."""

from __future__ import annotations

import re
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import lru_cache

_EXACT_DIGITS = 12
_SHORT_DIGITS = 6
_WRITTEN = re.compile(r"[0-9]{1,4000}(/[1-9][0-9]{0,3999})?")


def to_text(amount: Fraction) -> str:
    """The exact amount, as `3/10`."""
    return str(amount)


def from_text(text: object) -> Fraction | None:
    """The amount that `to_text` wrote; None if the text is anything else, or negative."""
    return _from_text(text) if isinstance(text, str) else None


@lru_cache(maxsize=1024)
def _from_text(text: str) -> Fraction | None:
    return Fraction(text) if _WRITTEN.fullmatch(text) else None


def at_most(amount: Fraction) -> str:
    """A short decimal that is not above the amount: for what is left, so that a price copied from a message fits."""
    return _short(amount, ROUND_FLOOR)


def at_least(amount: Fraction) -> str:
    """A short decimal that is not below the amount: for prices."""
    return _short(amount, ROUND_CEILING)


def _short(amount: Fraction, rounding: str) -> str:
    exact = _divide(amount, _EXACT_DIGITS, rounding)
    number = exact if Fraction(exact) == amount else _divide(amount, _SHORT_DIGITS, rounding)
    number = number.normalize()
    return format(number, "f") if -5 <= number.adjusted() < _EXACT_DIGITS else format(number, "e")


def _divide(amount: Fraction, digits: int, rounding: str) -> Decimal:
    return Context(prec=digits, rounding=rounding).divide(Decimal(amount.numerator), Decimal(amount.denominator))
