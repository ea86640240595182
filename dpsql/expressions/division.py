"""/ // and %: by zero it is NULL for // and %, and what IEEE 754 says for /, which is always DOUBLE."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from dpsql.core import domains
from dpsql.core.domains import UNBOUNDED, Categories, Domain, Interval
from dpsql.core.errors import error
from dpsql.core.sqltypes import DOUBLE, decimal, smallest_integer
from dpsql.expressions.arithmetic import (
    both_limits,
    in_integer,
    natural_type,
    numeric,
    physical_type,
    too_wide,
    whole_digits,
)
from dpsql.expressions.conversion import cast_tree, convert
from dpsql.expressions.scalar import Scalar, finite_hull
from dpsql.sql.nodes import Binary, Call, Cast, Node, Number


def divide(left: Scalar, right: Scalar) -> Scalar:
    """left / right, always DOUBLE; by zero it is infinite or NaN, which no sum counts."""
    left, right = numeric(left, "/"), numeric(right, "/")
    a, b = finite_hull(left), finite_hull(right)
    quotient = domains.divide(a, b) if a is not None and b is not None else None
    domain: Domain = quotient if quotient is not None and domains.hull(quotient) else UNBOUNDED
    tree = Binary("/", convert(left, DOUBLE).tree, convert(right, DOUBLE).tree)
    return Scalar("/", (left, right), tree, DOUBLE, domain, None, left.nullable or right.nullable)


def integer_divide(left: Scalar, right: Scalar) -> Scalar:
    """left // right for integers, towards zero; NULL where right is 0."""
    left, right = numeric(left, "//"), numeric(right, "//")
    if not (left.sqltype.is_integer and right.sqltype.is_integer):
        raise error(106, "// needs integers", hint="write FLOOR(a / b)")
    limits = domains.absolute(both_limits(left, right, "//")[0])
    spread = Interval(-limits.upper, limits.upper)
    physical = physical_type(spread, *both_limits(left, right, "//"))
    if physical is None:
        raise too_wide("//")
    tree = Binary("//", in_integer(left, physical), _not_zero(in_integer(right, physical), Number(0)))
    domain, may_be_null = _quotient_domain(left, right)
    nullable = left.nullable or right.nullable or may_be_null
    natural = natural_type("+", left.sqltype, right.sqltype)
    return Scalar("//", (left, right), tree, natural, domain, spread, nullable, integral=True)


def _quotient_domain(left: Scalar, right: Scalar) -> tuple[Domain, bool]:
    def quotient(x: Fraction, y: Fraction) -> Fraction | None:
        return domains.truncated_quotient(x, y) if y else None

    mapped = _mapped(left, right, quotient)
    if mapped is not None:
        return mapped
    a, b = finite_hull(left), finite_hull(right)
    if a is None or b is None:
        return UNBOUNDED, b is None or Fraction(0) in b
    real = domains.divide(a, b)
    if real is not None:
        return domains.monotone(real, lambda x: Fraction(math.trunc(x))), False
    top = domains.absolute(a).upper
    return Interval(-top, top), True


def modulo(left: Scalar, right: Scalar) -> Scalar:
    """left % right with the sign of left; where right is 0, NULL for integers and decimals and NaN for DOUBLE."""
    left, right = numeric(left, "%"), numeric(right, "%")
    domain, by_zero = _remainder_domain(left, right)
    nullable = left.nullable or right.nullable or by_zero
    if left.sqltype.is_integer and right.sqltype.is_integer:
        first, second = both_limits(left, right, "%")
        limits = domains.remainder(first, second)
        physical = smallest_integer(Interval(min(first.lower, second.lower) - 1, max(first.upper, second.upper) + 1))
        if physical is None:
            raise too_wide("%")
        tree = Binary("%", in_integer(left, physical), _not_zero(in_integer(right, physical), Number(0)))
        natural = natural_type("+", left.sqltype, right.sqltype)
        return Scalar("%", (left, right), tree, natural, domain, limits, nullable, integral=True)
    if not (left.sqltype.is_float or right.sqltype.is_float):
        return _decimal_remainder(left, right, domain, nullable)
    tree = Binary("%", convert(left, DOUBLE).tree, convert(right, DOUBLE).tree)
    # By zero it is NaN, as a quotient is: no number, and not NULL either.
    return Scalar(
        "%", (left, right), tree, DOUBLE, UNBOUNDED if by_zero else domain, None, left.nullable or right.nullable
    )


def _decimal_remainder(left: Scalar, right: Scalar, domain: Domain, nullable: bool) -> Scalar:
    first, second = both_limits(left, right, "%")
    scale = max(left.sqltype.scale, right.sqltype.scale)
    digits = max(whole_digits(first), whole_digits(second)) + scale
    if digits > 38:
        raise too_wide("%")
    both = decimal(digits, scale)
    zero = Cast(Number(0), both, tries=False)
    tree = Binary("%", cast_tree(left, both), _not_zero(cast_tree(right, both), zero))
    return Scalar("%", (left, right), tree, both, domain, domains.remainder(first, second), nullable)


def _remainder_domain(left: Scalar, right: Scalar) -> tuple[Domain, bool]:
    """The declared remainders, and whether the divisor can be 0; of integers they are smaller than the divisor."""

    def remainder(x: Fraction, y: Fraction) -> Fraction | None:
        return x - y * domains.truncated_quotient(x, y) if y else None

    mapped = _mapped(left, right, remainder) if left.integral and right.integral else None
    if mapped is not None:
        return mapped
    a, b = finite_hull(left), finite_hull(right)
    if a is None or b is None:
        return UNBOUNDED, b is None or Fraction(0) in b
    found: Domain = domains.remainder(a, b)
    if left.integral and right.integral:
        most = max(domains.absolute(b).upper - 1, Fraction(0))
        found = domains.intersect(found, Interval(-most, most))
    return found, Fraction(0) in b


def _mapped(
    left: Scalar, right: Scalar, of: Callable[[Fraction, Fraction], Fraction | None]
) -> tuple[Domain, bool] | None:
    """Pair by pair over short lists, and whether one of them has no result; None for anything else."""
    if isinstance(left.domain, Categories) and isinstance(right.domain, Categories):
        return domains.map_integers(left.domain, right.domain, of)
    return None


def _not_zero(tree: Node, zero: Node) -> Node:
    return Call("NULLIF", (tree, zero))
