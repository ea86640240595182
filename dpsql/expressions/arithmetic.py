"""+ - * and unary minus, abs, sign, rounding: computed in a type that interval arithmetic proves wide enough.

Integers are widened to BIGINT or HUGEINT, decimals to the width that holds every result; what would not fit 38 digits is refused
with the cast to write.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

from dpsql.core import domains
from dpsql.core.domains import UNBOUNDED, Categories, Domain, Interval
from dpsql.core.errors import Error, error
from dpsql.core.sqltypes import BIGINT, DOUBLE, HUGEINT, SqlType, decimal, smallest_integer
from dpsql.expressions.conversion import cast_tree, cast_within, convert, holds
from dpsql.expressions.literals import integer_literal, literal
from dpsql.expressions.scalar import NULL_TYPE, Scalar, finite_hull, limits_of
from dpsql.sql.nodes import Bare, Binary, Call, Cast, Node

_EXACT: dict[str, Callable[[Fraction, Fraction], Fraction]] = {
    "+": lambda x, y: x + y,
    "-": lambda x, y: x - y,
    "*": lambda x, y: x * y,
}
_INTERVALS = {"+": domains.add, "-": domains.subtract, "*": domains.multiply}


def numeric(scalar: Scalar, operator: str) -> Scalar:
    """The operand of an operator; NULL as a number. Raises 106 for what is none."""
    if scalar.sqltype == NULL_TYPE:
        return literal(None, BIGINT)
    if not scalar.sqltype.is_number:
        hint = "write CAST(... AS BIGINT) or CAST(... AS DOUBLE) around it"
        raise error(106, f"{operator} needs numbers, not {scalar.sqltype}", hint=hint)
    return scalar


def too_wide(operator: str) -> Error:
    """Error 202, at the operator whose result no exact type holds."""
    return error(202, f"{operator} could overflow on some data", hint="write CAST(... AS DOUBLE) around one side")


def add_subtract_multiply(operator: str, left: Scalar, right: Scalar) -> Scalar:
    """left + right, left - right or left * right for numbers."""
    left, right = numeric(left, operator), numeric(right, operator)
    if left.is_literal and right.is_literal and not (left.is_null or right.is_null):
        folded = _fold(operator, left, right)
        if folded is not None:
            return folded
    natural = natural_type(operator, left.sqltype, right.sqltype)
    domain, pairs_null = _binary_domain(operator, left, right)
    nullable = left.nullable or right.nullable or pairs_null
    if natural.is_float:
        a, b = convert(left, natural), convert(right, natural)
        tree = Binary(operator, a.tree, b.tree)
        return Scalar(operator, (left, right), tree, natural, domain, None, nullable, left.integral and right.integral)
    both = both_limits(left, right, operator)
    limits = _INTERVALS[operator](*both)
    if natural.is_decimal and not all(map(_is_decimal_sized, (left, right))):
        return add_subtract_multiply(operator, _decimal_sized(left), _decimal_sized(right))
    if natural.is_integer:
        physical = physical_type(limits, *both)
        if physical is None:
            raise too_wide(operator)
        tree = Binary(operator, in_integer(left, physical), in_integer(right, physical))
        return Scalar(operator, (left, right), tree, natural, domain, limits, nullable, integral=True)
    return _decimal(operator, left, right, domain, limits, nullable)


def _decimal(operator: str, left: Scalar, right: Scalar, domain: Domain, limits: Interval, nullable: bool) -> Scalar:
    """Decimals are cast so wide that the operands fit and the engine's own result type already holds every value."""
    first, second = both_limits(left, right, operator)
    if operator == "*":
        scale = left.sqltype.scale + right.sqltype.scale
        digits = whole_digits(limits) + scale
        if digits > 38:
            fewer = (_narrowed(left), _narrowed(right))
            if fewer != (left, right):
                narrow_limits = _INTERVALS[operator](*both_limits(*fewer, operator))
                return _decimal(operator, *fewer, domain, narrow_limits, nullable)
        narrow = _own_decimal(right, second)
        # The engine keeps a product of two decimals of at most 18 digits in 18 digits.
        width = max(_own_decimal(left, first).width, digits - narrow.width, 19 if digits > 18 else 1)
        if digits > 38:
            raise too_wide(operator)
        result = decimal(digits, scale)
        a, b = cast_tree(left, decimal(width, left.sqltype.scale)), cast_tree(right, narrow)
    else:
        scale = max(left.sqltype.scale, right.sqltype.scale)
        digits = max(whole_digits(limits), whole_digits(first), whole_digits(second)) + scale
        if digits > 38:
            raise too_wide(operator)
        result = decimal(digits, scale)
        a, b = cast_tree(left, result), cast_tree(right, result)
    tree = cast_within(Bare(Binary(operator, a, b)), limits, result)
    return Scalar(operator, (left, right), tree, result, domain, limits, nullable)


def _is_decimal_sized(scalar: Scalar) -> bool:
    return scalar.sqltype.is_decimal or holds(decimal(38, 0), limits_of(scalar)) or scalar.is_null


def _decimal_sized(scalar: Scalar) -> Scalar:
    """A value beside a decimal: a HUGEINT of more than 38 digits counts as NULL there, however small the result would be."""
    if _is_decimal_sized(scalar):
        return scalar
    held = decimal(38, 0)
    sure = finite_hull(scalar)
    return replace(convert(scalar, held), nullable=scalar.nullable or not holds(held, sure))


def _narrowed(scalar: Scalar) -> Scalar:
    """A decimal in the fewest digits that hold its declared values; what does not fit them becomes NULL.

    Why  the type alone, as wide as the product of its operands, may leave no room for one more product. The clamp of a sum leaves a
         value beyond its bounds at the bound; here one far beyond them counts as none, on data that breaks its declaration
    """
    hull = finite_hull(scalar)
    if hull is None or not scalar.sqltype.is_decimal:
        return scalar
    width = whole_digits(hull) + scalar.sqltype.scale
    if width >= scalar.sqltype.width or width > 38:
        return scalar
    fewer = decimal(max(width, scalar.sqltype.scale + 1), scalar.sqltype.scale)
    return replace(
        scalar, function="convert", args=(scalar,), tree=Cast(scalar.tree, fewer), sqltype=fewer, limits=fewer.range
    )


def narrow(scalar: Scalar) -> Scalar:
    """The same value in the fewest digits, for data in which every column was verified to lie inside its bounds.

    Why  then the declared bounds are also what a value can be, so sums, differences and products of decimals need no more
         digits than interval arithmetic over the bounds says
    """
    if scalar.function in _EXACT and not scalar.sqltype.is_float:
        left, right = (narrow(arg) for arg in scalar.args)
        return add_subtract_multiply(scalar.function, left, right)
    if scalar.function == "convert" and scalar.sqltype.is_decimal and scalar.args[0].sqltype.is_decimal:
        return narrow(scalar.args[0]) if scalar.args[0].sqltype.scale == scalar.sqltype.scale else scalar
    # not its domain, which a condition may have narrowed: that the engine filters before it computes is no proof
    hull = scalar.declared
    if not scalar.is_column or hull is None or not (scalar.sqltype.is_decimal or scalar.sqltype.is_integer):
        return scalar
    if scalar.sqltype.is_integer:
        return replace(scalar, limits=hull)
    fewer = decimal(max(whole_digits(hull) + scalar.sqltype.scale, scalar.sqltype.scale + 1), scalar.sqltype.scale)
    if fewer.width >= scalar.sqltype.width:
        return replace(scalar, limits=hull)
    inside = replace(scalar, limits=hull)
    return replace(inside, tree=cast_tree(inside, fewer), sqltype=fewer)


def whole_digits(limits: Interval) -> int:
    """Number of digits before the point."""
    return len(str(int(max(abs(limits.lower), abs(limits.upper)))))


def _own_decimal(scalar: Scalar, limits: Interval) -> SqlType:
    return scalar.sqltype if scalar.sqltype.is_decimal else decimal(min(38, whole_digits(limits)), 0)


def natural_type(operator: str, first: SqlType, second: SqlType) -> SqlType:
    """The type that DuckDB names for the result; results are computed wider where needed."""
    if first.is_float or second.is_float:
        return DOUBLE if DOUBLE in (first, second) or not (first.is_float and second.is_float) else SqlType("FLOAT")
    if first.is_integer and second.is_integer:
        return first if _rank(first) >= _rank(second) else second
    return decimal(38, first.scale + second.scale if operator == "*" else max(first.scale, second.scale))


def _rank(sqltype: SqlType) -> Fraction:
    limits = sqltype.range
    assert limits is not None
    return limits.upper


def _fold(operator: str, left: Scalar, right: Scalar) -> Scalar | None:
    """The value of an operation on two exact constants."""
    if left.sqltype.is_float or right.sqltype.is_float:
        return None
    x, y = Fraction(left.value), Fraction(right.value)  # type: ignore[arg-type]
    result = _EXACT[operator](x, y)
    if left.sqltype.is_integer and right.sqltype.is_integer:
        return integer_literal(int(result))
    scale = (
        left.sqltype.scale + right.sqltype.scale if operator == "*" else max(left.sqltype.scale, right.sqltype.scale)
    )
    width = max(len(str(abs(int(result)))) + scale, scale + 1)
    return literal(result, decimal(width, scale)) if width <= 38 else None


def in_integer(scalar: Scalar, physical: SqlType) -> Node:
    """A value in the integer type that it is computed in."""
    return scalar.tree if scalar.is_literal and not scalar.is_null else cast_tree(scalar, physical)


def physical_type(*limits: Interval) -> SqlType | None:
    """The integer type that holds a result and its operands: the cast of an operand must not fail either."""
    return smallest_integer(Interval(min(x.lower for x in limits), max(x.upper for x in limits)))


def both_limits(left: Scalar, right: Scalar, operator: str) -> tuple[Interval, Interval]:
    a, b = limits_of(left), limits_of(right)
    zero = domains.interval(0, 0)
    a, b = (zero if left.is_null else a), (zero if right.is_null else b)
    if a is None or b is None:
        raise too_wide(operator)
    return a, b


def _binary_domain(operator: str, left: Scalar, right: Scalar) -> tuple[Domain, bool]:
    """Pairwise over short lists of numbers, so that `decade * 10` keeps its eleven values; else interval arithmetic."""
    floats = left.sqltype.is_float or right.sqltype.is_float
    exact = not floats or (left.integral and right.integral)
    if isinstance(left.domain, Categories) and isinstance(right.domain, Categories) and exact:
        numeric = not any(isinstance(v, str) for v in left.domain.values + right.domain.values)
        mapped = domains.map_integers(left.domain, right.domain, _EXACT[operator]) if numeric else None
        if mapped is not None and (not floats or domains.hull(mapped[0]) is not None):
            return mapped
    a, b = finite_hull(left), finite_hull(right)
    if a is None or b is None:
        return UNBOUNDED, False
    result = _INTERVALS[operator](a, b)
    return (result if domains.hull(result) else UNBOUNDED), False


def negative(scalar: Scalar) -> Scalar:
    """-x"""
    if (
        scalar.is_literal
        and scalar.sqltype.is_number
        and scalar.value is not None
        and not isinstance(scalar.value, str)
    ):
        return literal(-scalar.value, scalar.sqltype)
    return add_subtract_multiply("-", literal(0, SqlType("TINYINT")), numeric(scalar, "-"))


def absolute(scalar: Scalar) -> Scalar:
    """ABS(x)"""
    scalar = numeric(scalar, "ABS")
    if scalar.limits is None and scalar.sqltype.is_integer:
        scalar = replace(scalar, limits=scalar.sqltype.range)
    bounds = finite_hull(scalar)
    domain: Domain = domains.absolute(bounds) if bounds is not None else UNBOUNDED
    limits = domains.absolute(scalar.limits) if scalar.limits is not None else None
    tree = scalar.tree
    if scalar.sqltype.is_integer:
        assert limits is not None and scalar.limits is not None
        physical = physical_type(limits, scalar.limits)
        if physical is None or scalar.sqltype == HUGEINT:
            raise too_wide("ABS")
        # a constant too: beside no other operand it is of the narrowest type, in which -2^31 has no opposite
        tree = cast_tree(scalar, physical)
    return replace(
        scalar,
        function="abs",
        args=(scalar,),
        tree=Call("abs", (tree,)),
        domain=domain,
        limits=limits,
        value=None,
        role="",
        step=None,
        unit_bounds=None,
    )


def sign(scalar: Scalar) -> Scalar:
    """SIGN(x): -1, 0 or 1"""
    scalar = numeric(scalar, "SIGN")
    tree = Call("sign", (scalar.tree,))
    limits = domains.interval(-1, 1)
    return Scalar(
        "sign", (scalar,), tree, SqlType("TINYINT"), Categories((-1, 0, 1)), limits, scalar.nullable, integral=True
    )


_ROUNDING: dict[str, Callable[[Fraction], int]] = {
    "floor": math.floor,
    "ceil": math.ceil,
    "trunc": math.trunc,
    # Halves go away from zero; the hull of both neighbours holds either convention.
    "round": lambda x: math.floor(x + Fraction(1, 2)) if x >= 0 else -math.floor(-x + Fraction(1, 2)),
}


def to_integer(function: str, scalar: Scalar) -> Scalar:
    """FLOOR, CEIL, TRUNC and ROUND to a whole number: integer-valued, so a bounded one can be a group key."""
    scalar = numeric(scalar, function.upper())
    if scalar.sqltype.is_integer:
        return convert(scalar, DOUBLE) if function in ("floor", "ceil") else scalar
    domain = domains.integers(_rounded(function, scalar)) or _rounded(function, scalar)
    inner = convert(scalar, DOUBLE) if scalar.sqltype.is_decimal and scalar.sqltype.width == 38 else scalar
    natural = decimal(inner.sqltype.width, 0) if inner.sqltype.is_decimal else inner.sqltype
    tree = Call(function, (inner.tree,))
    if natural.is_decimal:
        # One digit more than the argument: rounding 9.9 up needs it.
        natural = decimal(min(38, inner.sqltype.width + 1), 0)
        tree = Call(function, (cast_tree(inner, decimal(natural.width, inner.sqltype.scale)),))
    return Scalar(function, (scalar,), tree, natural, domain, natural.range, scalar.nullable, integral=True)


def _rounded(function: str, scalar: Scalar) -> Domain:
    bounds = finite_hull(scalar)
    return domains.monotone(bounds, lambda x: Fraction(_ROUNDING[function](x))) if bounds is not None else UNBOUNDED


def round_to(scalar: Scalar, digits: Scalar) -> Scalar:
    """ROUND(x, n) for a constant n, in the type of x."""
    if not (digits.is_literal and isinstance(digits.value, int) and -15 <= digits.value <= 15):
        raise error(106, "ROUND needs a constant number of digits from -15 to 15", hint="write ROUND(x, 2)")
    if digits.value == 0:
        return to_integer("round", scalar)
    scalar = numeric(scalar, "ROUND")
    bounds = finite_hull(scalar)
    grid = Fraction(10) ** -int(digits.value)
    domain: Domain = UNBOUNDED
    if bounds is not None:
        domain = Interval(math.floor(bounds.lower / grid) * grid, math.ceil(bounds.upper / grid) * grid)
    if not scalar.sqltype.is_float and scalar.sqltype.width < 38:
        return _round_exactly(scalar, digits, domain)
    tree = Call("round", (convert(scalar, DOUBLE).tree, literal(digits.value, BIGINT).tree))
    return Scalar("round", (scalar, digits), tree, DOUBLE, domain, None, scalar.nullable)


def _round_exactly(scalar: Scalar, digits: Scalar, domain: Domain) -> Scalar:
    """ROUND(x, n) of integers and decimals; one digit more than x has, since rounding 99 up needs it."""
    places = digits.value
    limits = limits_of(scalar)
    if limits is None:  # NULL
        return scalar
    assert isinstance(places, int)
    if places >= scalar.sqltype.scale:
        return scalar
    grid = Fraction(10) ** -places
    rounded = Interval(math.floor(limits.lower / grid) * grid, math.ceil(limits.upper / grid) * grid)
    if scalar.sqltype.is_integer:
        physical, natural = physical_type(limits, rounded), scalar.sqltype
    else:
        physical = decimal(scalar.sqltype.width + 1, scalar.sqltype.scale)
        natural = decimal(scalar.sqltype.width + 1, max(places, 0))
    if physical is None:
        raise too_wide("ROUND")
    tree = Call("round", (cast_tree(scalar, physical), literal(places, BIGINT).tree))
    return Scalar("round", (scalar, digits), tree, natural, domain, rounded, scalar.nullable, integral=places <= 0)
