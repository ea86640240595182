"""Functions of numbers: roundings, and those in DOUBLE, with the values that they are not defined for as NULL."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial

from dpsql.core import domains
from dpsql.core.domains import UNBOUNDED, Domain, Interval, interval
from dpsql.core.errors import error
from dpsql.core.sqltypes import BOOLEAN, DOUBLE, TIMESTAMP, SqlType, decimal
from dpsql.expressions import arithmetic
from dpsql.expressions.conversion import convert
from dpsql.expressions.functions.record import Constants, Function, Rule
from dpsql.expressions.known import Known, Ruled, always, decided, fits, floating, meet, of_type, within
from dpsql.expressions.literals import literal
from dpsql.expressions.logic import BOTH
from dpsql.expressions.scalar import NULL_TYPE, Scalar, finite_hull
from dpsql.sql.nodes import Bare, Between, Binary, Call, Case, Node, Number


def _cube_root(x: float) -> float:
    return math.copysign(abs(x) ** (1 / 3), x)


_FUNCTIONS: dict[str, Callable[[float], float]] = {
    "sqrt": math.sqrt,
    "ln": math.log,
    "log10": math.log10,
    "log2": math.log2,
    "exp": math.exp,
    "cbrt": _cube_root,
    "degrees": math.degrees,
    "radians": math.radians,
    "atan": math.atan,
}
MOST_POWER = 32
"""Exponent whose values are worked out."""
_GUARDS = {"sqrt": ">=", "ln": ">", "log10": ">", "log2": ">"}
"""The comparison of the argument with 0 where the function has a value."""
_HALF_TURN = Fraction(math.pi) + Fraction(1, 10**12)


def _double(scalar: Scalar, function: str) -> Scalar:
    if scalar.sqltype == NULL_TYPE:
        return literal(None, DOUBLE)
    if not scalar.sqltype.is_number:
        raise error(
            106, f"{function.upper()} needs a number, not {scalar.sqltype}", hint="write CAST(... AS DOUBLE) around it"
        )
    return convert(scalar, DOUBLE)


def increasing(function: str, scalar: Scalar) -> Scalar:
    """SQRT, LN, LOG10, LOG2, EXP and other functions that never decrease: NULL outside the domain of the function."""
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
    try:
        low, high = Fraction(f(float(lower))), Fraction(f(float(bounds.upper)))
    except OverflowError:
        return UNBOUNDED
    slack = Fraction(1, 10**12)
    return Interval(low - slack * (1 + abs(low)), high + slack * (1 + abs(high)))


def power(base: Scalar, exponent: Scalar) -> Scalar:
    """POW(x, y) and x ** y."""
    a, b = _double(base, "pow"), _double(exponent, "pow")
    domain: Domain = UNBOUNDED
    bounds = finite_hull(base)
    by = exponent.value
    if bounds is not None and isinstance(by, int | Fraction) and by in range(MOST_POWER + 1):
        times = int(by)
        ends = sorted((bounds.lower**times, bounds.upper**times))
        # an even power of a number of either sign is at least 0, and turns at 0
        domain = Interval(Fraction(0) if times and times % 2 == 0 and 0 in bounds else ends[0], ends[1])
    tree, nullable = Call("pow", (a.tree, b.tree)), base.nullable or exponent.nullable
    return Scalar("pow", (base, exponent), tree, DOUBLE, domain, None, nullable)


def float_test(function: str, scalar: Scalar) -> Scalar:
    """ISNAN, ISINF, ISFINITE."""
    inner = _double(scalar, function)
    return Scalar(function, (scalar,), Call(function, (inner.tree,)), BOOLEAN, BOTH, None, scalar.nullable)


def _finite(scalar: Scalar, tree: Node) -> Node:
    """A tree where a DOUBLE is a number and finite, else NULL."""
    return Case(((Call("isfinite", (scalar.tree,)), tree),))


def wave(function: str, scalar: Scalar) -> Scalar:
    """SIN, COS, TAN: NULL for what is infinite."""
    inner = _double(scalar, function)
    tree = _finite(inner, Call(function, (inner.tree,)))
    domain = UNBOUNDED if function == "tan" else interval(-1, 1)
    return Scalar(function, (scalar,), tree, DOUBLE, domain, None, scalar.nullable or finite_hull(scalar) is None)


def arc(function: str, scalar: Scalar) -> Scalar:
    """ASIN, ACOS: NULL outside of -1 to 1."""
    inner, bounds = _double(scalar, function), finite_hull(scalar)
    inside = Bare(Between(inner.tree, Number(-1), Number(1)))
    sure = bounds is not None and bounds.lower >= -1 and bounds.upper <= 1
    tree = Case(((inside, Call(function, (inner.tree,))),))
    domain = Interval(-_HALF_TURN if function == "asin" else Fraction(0), _HALF_TURN)
    return Scalar(function, (scalar,), tree, DOUBLE, domain, None, scalar.nullable or not sure)


def _arc_of_two(y: Scalar, x: Scalar) -> Scalar:
    a, b = _double(y, "atan2"), _double(x, "atan2")
    tree, domain = Call("atan2", (a.tree, b.tree)), Interval(-_HALF_TURN, _HALF_TURN)
    return Scalar("atan2", (y, x), tree, DOUBLE, domain, None, y.nullable or x.nullable)


def _log(first: Scalar, second: Scalar | None = None) -> Scalar:
    """LOG(x) to the base 10; LOG(2, x)."""
    if second is None:
        return increasing("log10", first)
    return increasing(f"log{first.value}", second)


def _round(value: Scalar, digits: Scalar | None = None) -> Scalar:
    return arithmetic.round_to(value, digits) if digits is not None else arithmetic.to_integer("round", value)


# --- rules ------------------------------------------------------------------------------------------------------------


def _tests(args: Sequence[Known]) -> Ruled | None:
    """ISNAN, ISINF."""
    return always(of_type(BOOLEAN, null=args[0].null)) if len(args) == 1 and args[0].sqltype.is_float else None


def _finite_tests(args: Sequence[Known]) -> Ruled | None:
    """ISFINITE, of a timestamp too: a cast to TIME is printed behind it."""
    known = len(args) == 1 and (args[0].sqltype.is_float or args[0].sqltype == TIMESTAMP)
    return always(of_type(BOOLEAN, null=args[0].null)) if known else None


def _of_number(rule: Callable[[Known], Ruled | None]) -> Rule:
    """A rule of one number."""
    return lambda args: rule(args[0]) if len(args) == 1 and args[0].sqltype.is_number else None


def _monotone(limits: Interval | None, f: Callable[[float], float]) -> Interval | None:
    """The image of an increasing function, beyond the error of every C library."""
    if limits is None:
        return None
    try:
        low, high = Fraction(f(float(limits.lower))), Fraction(f(float(limits.upper)))
    except (ValueError, OverflowError):
        return None
    slack = Fraction(1, 10**9)
    return Interval(low - slack * (1 + abs(low)), high + slack * (1 + abs(high)))


def _increasing(function: str) -> Rule:
    """SQRT of what is not below 0, logarithms of what is above, EXP and others of anything: DOUBLE."""
    f, needs = _FUNCTIONS[function], {">=": ">= 0", ">": "> 0"}.get(_GUARDS.get(function, ""))

    def rule(a: Known) -> Ruled:
        found = Known(DOUBLE, floating(_monotone(a.limits, f)), a.null)
        return decided(found, _at_least(a, needs)) if needs else always(found)

    return _of_number(rule)


def _at_least(known: Known, needs: str) -> bool:
    if known.least == "> 0" or (known.least == needs):
        return True
    return known.limits is not None and (known.limits.lower > 0 or (needs == ">= 0" and known.limits.lower >= 0))


@_of_number
def _waves(a: Known) -> Ruled:
    """SIN, COS, TAN: the engine raises on what is infinite."""
    return decided(Known(DOUBLE, None, a.null), a.limits is not None)


@_of_number
def _arcs(a: Known) -> Ruled:
    return decided(Known(DOUBLE, None, a.null), within(a.limits, interval(-1, 1)))


def _doubles(count: int) -> Rule:
    """A function of DOUBLEs that raises on none."""
    return lambda args: always(Known(DOUBLE)) if len(args) == count and all(a.sqltype == DOUBLE for a in args) else None


@_of_number
def _sign(a: Known) -> Ruled:
    """SIGN: -1, 0 or 1."""
    return always(Known(SqlType("TINYINT"), interval(-1, 1), a.null))


@_of_number
def _absolute(a: Known) -> Ruled:
    """ABS: the least value of a whole type has no opposite there.

    Why  DuckDB keeps the least and the greatest value of a column, and in 2.0.0 makes limits of ABS over floats with none above zero
         that hold nothing. COALESCE and CASE join these with a constant's, and a condition on the result is then decided by the
         constant alone: one row above zero anywhere in the table would turn every other row's answer (rule 45)
    """
    limits = domains.absolute(a.limits) if a.limits is not None else None
    found = Known(a.sqltype, limits, a.null, least=">= 0")
    if a.sqltype.is_float:
        return Ruled(found, "always", veiled=True)
    if a.sqltype.is_decimal:
        return always(found)
    return decided(replace(found, limits=meet(a.sqltype.range, limits)), fits(limits, a.sqltype))


def _half_away(x: Fraction) -> int:
    return math.floor(x + Fraction(1, 2)) if x >= 0 else -math.floor(-x + Fraction(1, 2))


_WHOLE: dict[str, Callable[[Fraction], int]] = {
    "floor": math.floor,
    "ceil": math.ceil,
    "trunc": math.trunc,
    "round": _half_away,
}


def _to_whole(name: str) -> Rule:
    """FLOOR, CEIL, TRUNC, ROUND of DOUBLE, or of DECIMAL, where the result has as many digits as the argument."""

    def rule(args: Sequence[Known]) -> Ruled | None:
        a = args[0]
        if len(args) != 1 or not (a.sqltype.is_float or a.sqltype.is_decimal):
            return None
        f = _WHOLE[name]
        limits = Interval(Fraction(f(a.limits.lower)), Fraction(f(a.limits.upper))) if a.limits is not None else None
        if a.sqltype.is_float:
            return always(Known(a.sqltype, limits, a.null))
        return _kept(decimal(a.sqltype.width, 0), limits, a.null)

    return rule


def _kept(sqltype: SqlType, limits: Interval | None, null: bool) -> Ruled:
    """A decimal result, provided that its type has the digits."""
    return decided(Known(sqltype, meet(sqltype.range, limits), null), within(limits, sqltype.range))


def _rounded(args: Sequence[Known]) -> Ruled | None:
    """ROUND(x), and ROUND(x, n) for a bare n."""
    if len(args) == 1:
        return _to_whole("round")(args)
    if len(args) != 2 or not args[1].literal or args[1].limits is None:
        return None
    a, places = args[0], int(args[1].limits.lower)
    if abs(places) > 15:
        return None
    if a.sqltype.is_float:
        return always(Known(a.sqltype, None, a.null))
    if a.limits is None or places >= a.sqltype.scale:
        return None
    grid = Fraction(10) ** -places
    limits = Interval(_half_away(a.limits.lower / grid) * grid, _half_away(a.limits.upper / grid) * grid)
    if a.sqltype.is_decimal:
        sqltype = decimal(a.sqltype.width, max(places, 0))
        held = decimal(a.sqltype.width, a.sqltype.scale).range
        found = _kept(sqltype, limits, a.null)
        return decided(found.known, found.by == "proof" and within(limits, held))
    held = a.sqltype.range
    if held is None:
        return None
    far = Interval(min(limits.lower, a.limits.lower) - grid, max(limits.upper, a.limits.upper) + grid)
    return decided(Known(a.sqltype, limits, a.null), within(far, held))


def _check_base(constants: Constants) -> None:
    if len(constants) == 2 and constants[0] not in (2, 10):
        raise error(102, "LOG is supported to the bases 2 and 10", hint="write LN(x) / LN(3)")


def _check_digits(constants: Constants) -> None:
    if len(constants) == 2 and not (isinstance(constants[1], int) and -15 <= constants[1] <= 15):
        raise error(106, "ROUND needs a constant number of digits from -15 to 15", hint="write ROUND(x, 2)")


def _of_one(build: Callable[[Scalar], Scalar], rule: Rule, gives: str, *names: str) -> Function:
    return Function(names, f"{names[0].upper()}(x)", gives, ("value",), build, {names[0]: rule})


def _monotonic(gives: str, *names: str) -> Function:
    return _of_one(partial(increasing, names[0]), _increasing(names[0]), gives, *names)


def _tried(name: str, build: Callable[[str, Scalar], Scalar], rule: Rule, gives: str) -> Function:
    return Function((name,), f"{name.upper()}(x)", gives, ("value",), partial(build, name), {name: rule}, tried=True)


def _whole(*names: str) -> Function:
    return _of_one(partial(arithmetic.to_integer, names[0]), _to_whole(names[0]), "a whole number", *names)


FUNCTIONS = (
    _of_one(arithmetic.absolute, _absolute, "a number of the same type", "abs"),
    _of_one(arithmetic.sign, _sign, "-1, 0 or 1", "sign"),
    _whole("floor"),
    _whole("ceil", "ceiling"),
    _whole("trunc"),
    Function(("round",), "ROUND(x, 1)", "a number, rounded half away from 0", ("value", "constant"), _round,
        {"round": _rounded}, optional=1, check=_check_digits),
    _monotonic("DOUBLE; NULL below 0", "sqrt"),
    _monotonic("DOUBLE; NULL up to 0", "ln"),
    _monotonic("DOUBLE; NULL up to 0", "log10"),
    _monotonic("DOUBLE; NULL up to 0", "log2"),
    Function(("log",), "LOG(x)", "DOUBLE, to the base 10, or LOG(2, x); NULL up to 0", ("value", "value"), _log,
        optional=1, check=_check_base),
    _monotonic("DOUBLE", "exp"),
    _monotonic("DOUBLE", "cbrt"),
    _monotonic("DOUBLE", "degrees"),
    _monotonic("DOUBLE", "radians"),
    Function(("pow", "power"), "POW(x, 2)", "DOUBLE", ("value", "value"), power, {"pow": _doubles(2)}),
    Function(("pi",), "PI()", "DOUBLE", (), lambda: literal(Fraction(math.pi), DOUBLE)),
    *(_tried(name, wave, _waves, "DOUBLE; NULL of what is infinite") for name in ("sin", "cos", "tan")),
    *(_tried(name, arc, _arcs, "DOUBLE; NULL outside of -1 to 1") for name in ("asin", "acos")),
    _monotonic("DOUBLE", "atan"),
    Function(("atan2",), "ATAN2(y, x)", "DOUBLE", ("value", "value"), _arc_of_two, {"atan2": _doubles(2)}),
    _of_one(partial(float_test, "isnan"), _tests, "true or false", "isnan"),
    _of_one(partial(float_test, "isinf"), _tests, "true or false", "isinf"),
    _of_one(partial(float_test, "isfinite"), _finite_tests, "true or false", "isfinite"),
)  # fmt: skip
