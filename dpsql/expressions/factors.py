"""Factors of a value that its text shows: 100 * x, x / 12, x * 1.0 and CAST(x AS DOUBLE) are x times a constant.

A sum of 100 * x is 100 times the sum of x, and an average, a deviation and their intervals likewise, so all of them are read off one
noisy number. That is post-processing, whatever the factor: the value itself is clamped and added up. It is the same *number* only
where the clamp of the product is the product of the clamp, so where the declared values of the product are exactly those of x times the
factor. What rounds is no factor: a cast to fewer digits, an integer or FLOAT.
"""

from __future__ import annotations

from fractions import Fraction

from dpsql.core.domains import Interval
from dpsql.core.sqltypes import DOUBLE
from dpsql.expressions.conversion import holds
from dpsql.expressions.scalar import Scalar, finite_hull

LARGEST = 10**18
"""The largest factor, and one over the smallest: grids and results stay far within DOUBLE."""
_NONE = Fraction(1)


def factored(value: Scalar) -> tuple[Fraction, Scalar]:
    """A positive factor and what a value is that many times of: 1 and the value itself where its text shows none."""
    factor, inner = _taken(value)
    if inner is value or inner.unit_bounds is not None or not 1 <= factor * LARGEST <= LARGEST**2:
        return _NONE, value
    own, whole = finite_hull(inner), finite_hull(value)
    same = own is not None and whole == Interval(own.lower * factor, own.upper * factor)
    return (factor, inner) if same else (_NONE, value)


def _taken(value: Scalar) -> tuple[Fraction, Scalar]:
    inner, factor = value, _NONE
    if value.function in ("cast", "convert") and _keeps(value.args[0], value):
        inner = value.args[0]
    elif value.function in ("*", "/"):
        left, right = value.args
        constant = _constant(right)
        if constant is not None:
            inner, factor = left, 1 / constant if value.function == "/" else constant
        elif value.function == "*" and (constant := _constant(left)) is not None:
            inner, factor = right, constant
    if inner is value or inner.is_literal:
        return _NONE, value
    more, innermost = _taken(inner)
    return factor * more, innermost


def _constant(scalar: Scalar) -> Fraction | None:
    """A constant number above 0."""
    if not scalar.is_literal or scalar.value is None or isinstance(scalar.value, str) or not scalar.sqltype.is_number:
        return None
    return Fraction(scalar.value) if scalar.value > 0 else None


def _keeps(scalar: Scalar, wider: Scalar) -> bool:
    """True if another type has every declared value of a number, but for the last digit of a DOUBLE."""
    source, target, own = scalar.sqltype, wider.sqltype, finite_hull(scalar)
    if not (source.is_number and target.is_number) or own is None:
        return False
    return target == DOUBLE or (not source.is_float and target.scale >= source.scale and holds(target, own))
