"""SQRT, LN, LOG, EXP, POW and tests for NaN, in DOUBLE, with the values that they are not defined for as NULL."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from dpsql.core import domains
from dpsql.core.domains import UNBOUNDED, Domain, Interval
from dpsql.core.errors import error
from dpsql.core.sqltypes import BOOLEAN, DOUBLE
from dpsql.expressions.conversion import convert
from dpsql.expressions.literals import literal
from dpsql.expressions.logic import BOTH
from dpsql.expressions.scalar import NULL_TYPE, Scalar, finite_hull
from dpsql.sql.nodes import Bare, Binary, Call, Case, Node, Number

_FUNCTIONS: dict[str, Callable[[float], float]] = {
    "sqrt": math.sqrt,
    "ln": math.log,
    "log10": math.log10,
    "log2": math.log2,
    "exp": math.exp,
}
_GUARDS = {"sqrt": ">=", "ln": ">", "log10": ">", "log2": ">"}
"""How the argument compares with 0 where the function has a value."""


def _double(scalar: Scalar, function: str) -> Scalar:
    if scalar.sqltype == NULL_TYPE:
        return literal(None, DOUBLE)
    if not scalar.sqltype.is_number:
        raise error(
            106, f"{function.upper()} needs a number, not {scalar.sqltype}", hint="write CAST(... AS DOUBLE) around it"
        )
    return convert(scalar, DOUBLE)


def increasing(function: str, scalar: Scalar) -> Scalar:
    """SQRT, LN, LOG10, LOG2, EXP: NULL outside the domain of the function."""
    inner = _double(scalar, function)
    bounds = finite_hull(scalar)
    guard = _GUARDS.get(function)
    tree: Node = Call(function, (inner.tree,))
    outside = False
    if guard is not None:
        tree = Case(((Bare(Binary(guard, inner.tree, Number(0))), tree),))
        outside = bounds is None or bounds.lower < 0 or (guard == ">" and bounds.lower == 0)
    return Scalar(function, (scalar,), tree, DOUBLE, _image(function, bounds), None, scalar.nullable or outside)


def _image(function: str, bounds: Interval | None) -> Domain:
    """Outward by a part in 10^12, which is far beyond the error of the C library on either side."""
    if bounds is None or (function == "exp" and bounds.upper > 700):
        return UNBOUNDED
    lower = max(bounds.lower, Fraction(0)) if function == "sqrt" else bounds.lower
    if (function in ("ln", "log10", "log2") and lower <= 0) or bounds.upper < lower:
        return UNBOUNDED
    f = _FUNCTIONS[function]
    low, high = Fraction(f(float(lower))), Fraction(f(float(bounds.upper)))
    slack = Fraction(1, 10**12)
    return Interval(low - slack * (1 + abs(low)), high + slack * (1 + abs(high)))


def power(base: Scalar, exponent: Scalar) -> Scalar:
    """POW(x, y) and x ** y."""
    a, b = _double(base, "pow"), _double(exponent, "pow")
    domain: Domain = UNBOUNDED
    bounds = finite_hull(base)
    if bounds is not None and exponent.is_literal and isinstance(exponent.value, int) and 0 <= exponent.value <= 32:
        power_of = exponent.value
        domain = Interval(Fraction(1), Fraction(1))
        for _ in range(power_of):
            domain = domains.multiply(domain, bounds)
        domain = domain if domains.hull(domain) else UNBOUNDED
    return Scalar(
        "pow", (base, exponent), Call("pow", (a.tree, b.tree)), DOUBLE, domain, None, base.nullable or exponent.nullable
    )


def float_test(function: str, scalar: Scalar) -> Scalar:
    """ISNAN, ISINF, ISFINITE."""
    inner = _double(scalar, function)
    return Scalar(function, (scalar,), Call(function, (inner.tree,)), BOOLEAN, BOTH, None, scalar.nullable)
