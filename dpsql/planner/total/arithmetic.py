"""+ - * / // % and their kin: which types the engine computes them in, and when every value fits there."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

from dpsql.core import domains
from dpsql.core.domains import Interval
from dpsql.core.sqltypes import BIGINT, DOUBLE, SqlType, decimal
from dpsql.expressions.known import Known, Ruled, always, common, decided, fits, floating, meet

_INTERVALS: dict[str, Callable[[Interval, Interval], Interval]] = {
    "+": domains.add,
    "-": domains.subtract,
    "*": domains.multiply,
}


def arithmetic(operator: str, a: Known, b: Known) -> Ruled | None:
    """a + b, a - b, a * b of numbers; None where no rule says in what type."""
    if not (a.sqltype.is_number and b.sqltype.is_number):
        return None
    limits = _INTERVALS[operator](a.limits, b.limits) if a.limits is not None and b.limits is not None else None
    null = a.null or b.null
    if a.sqltype.is_float or b.sqltype.is_float:
        sqltype = common(a, b) or DOUBLE
        return always(Known(sqltype, floating(limits, sqltype), null))
    if a.sqltype.is_integer and b.sqltype.is_integer:
        whole = common(a, b)
        if whole is None:
            return None
        return _exact(
            Known(whole, limits, null), fits(limits, whole) and fits(a.limits, whole) and fits(b.limits, whole)
        )
    product = _product(a, b) if operator == "*" else _sum(a, b)
    if product is None:
        return None
    return _exact(Known(product, limits, null), fits(limits, product))


def _exact(found: Known, proof: bool) -> Ruled:
    return decided(replace(found, limits=meet(found.sqltype.range, found.limits)), proof)


def _widths(known: Known) -> tuple[int, int] | None:
    """Digits and scale as the engine counts them; a bare integer has its own digits, and no other integer meets a decimal."""
    if known.sqltype.is_decimal:
        return known.sqltype.width, known.sqltype.scale
    if not known.literal or known.limits is None:
        return None
    return len(str(int(abs(known.limits.lower)))), 0


def _product(a: Known, b: Known) -> SqlType | None:
    """The engine adds the widths, but stays at 18 digits where both sides have no more, and at 38."""
    one, other = _widths(a), _widths(b)
    if one is None or other is None:
        return None
    width, scale = one[0] + other[0], one[1] + other[1]
    if scale > 38:
        return None
    most = 18 if max(one[0], other[0]) <= 18 and scale < 18 else 38
    return decimal(min(width, most), scale)


def _sum(a: Known, b: Known) -> SqlType | None:
    one, other = _widths(a), _widths(b)
    if one is None or other is None:
        return None
    scale, whole = max(one[1], other[1]), max(one[0] - one[1], other[0] - other[1])
    if whole + scale > 38:
        # an operand is converted to the scale of the other, and may not fit
        return None
    most = 18 if max(one[0], other[0]) <= 18 else 38
    return decimal(max(min(whole + scale + 1, most), whole + scale), scale)


def divide(a: Known, b: Known) -> Ruled | None:
    """a / b: DOUBLE, infinite or NaN by zero."""
    if not (a.sqltype.is_number and b.sqltype.is_number):
        return None
    limits = domains.divide(a.limits, b.limits) if a.limits is not None and b.limits is not None else None
    return always(Known(DOUBLE, floating(limits), null=True))


def integer_divide(a: Known, b: Known) -> Ruled | None:
    """a // b: NULL by zero; the least integer by -1 has no quotient."""
    sqltype = _whole_type(a, b)
    if sqltype is None or a.limits is None:
        return None
    top = domains.absolute(a.limits).upper
    lower = -top if b.limits is None or b.limits.lower < 0 or a.limits.lower < 0 else Fraction(0)
    return decided(Known(sqltype, meet(sqltype.range, Interval(lower, top))), _divides(a, b, sqltype))


def modulo(a: Known, b: Known) -> Ruled | None:
    """a % b with the sign of a; NULL by zero, NaN of DOUBLE."""
    if a.sqltype.is_float or b.sqltype.is_float:
        return always(Known(DOUBLE)) if a.sqltype.is_number and b.sqltype.is_number else None
    if a.limits is None or b.limits is None:
        return None
    limits = domains.remainder(a.limits, b.limits)
    if a.sqltype.is_decimal and a.sqltype == b.sqltype:
        return always(Known(a.sqltype, limits))
    sqltype = _whole_type(a, b)
    return decided(Known(sqltype, limits), _divides(a, b, sqltype)) if sqltype is not None else None


def _whole_type(a: Known, b: Known) -> SqlType | None:
    return common(a, b) if a.sqltype.is_integer and b.sqltype.is_integer else None


def _divides(a: Known, b: Known, sqltype: SqlType) -> bool:
    """True if both operands fit the type and the least integer is not divided by -1."""
    held = sqltype.range
    assert held is not None and a.limits is not None
    if not (a.limits.lower >= held.lower and a.limits.upper <= held.upper and b.limits is not None):
        return False
    alone = a.limits.lower > held.lower or held.lower == 0 or Fraction(-1) not in b.limits
    return alone and b.limits.lower >= held.lower and b.limits.upper <= held.upper


def negative(a: Known) -> Ruled | None:
    """-a"""
    if not a.sqltype.is_number:
        return None
    limits = domains.negate(a.limits) if a.limits is not None else None
    found = Known(a.sqltype, limits, a.null, a.literal)
    if a.sqltype.is_float or a.sqltype.is_decimal or a.literal:
        return always(found)
    return decided(found, fits(limits, a.sqltype))


def right_shift(a: Known, b: Known) -> Ruled | None:
    """a >> b of what is not negative, by a constant."""
    if not (a.sqltype == BIGINT and b.literal and a.limits is not None and b.limits is not None):
        return None
    count = int(b.limits.lower)
    if not 0 <= count < 63:
        return None
    top = Fraction(math.floor(max(a.limits.upper, Fraction(0))) >> count)
    return decided(Known(BIGINT, Interval(Fraction(0), top), a.null), a.limits.lower >= 0)
