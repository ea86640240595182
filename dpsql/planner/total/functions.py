"""The functions that printed text may call: those that raise on no value of their types, and those that raise beyond some limits."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

from dpsql.core.domains import Interval, interval
from dpsql.core.sqltypes import BIGINT, BOOLEAN, DATE, DOUBLE, TIMESTAMP, VARCHAR, SqlType, decimal
from dpsql.planner.total.casts import DAY
from dpsql.planner.total.known import SPAN, Known, floating, meet, of_type
from dpsql.planner.total.rules import Ruled, always, decided

Rule = Callable[[Sequence[Known]], Ruled | None]
YEARS = {DATE: interval(-719_162, 2_932_896), TIMESTAMP: interval(-719_162 * DAY, 2_932_897 * DAY - 1)}
"""The years 1 to 9999, in which every function of the calendar has a value."""
_PARTS = {
    "year": (-10, 10_010), "month": (1, 12), "day": (1, 31), "quarter": (1, 4), "week": (1, 53), "dayofweek": (0, 6),
    "isodow": (1, 7), "dayofyear": (1, 366), "hour": (0, 23), "minute": (0, 59), "second": (0, 59),
}  # fmt: skip
_UNITS = {
    "to_months": 31 * DAY, "to_weeks": 7 * DAY, "to_days": DAY, "to_hours": DAY // 24, "to_minutes": DAY // 1440,
    "to_seconds": DAY // 86_400,
}  # fmt: skip
_FARTHEST = interval(-30_000 * 366 * DAY, 30_000 * 366 * DAY)
"""[microseconds] Far inside what TIMESTAMP holds."""
_LONGEST = 2**32
NOTHING = Known(DOUBLE, interval(1, 1))
"""What stands for a bare NULL: a value that every function of numbers has a result for."""


def texts(count: int, result: SqlType = VARCHAR) -> Rule:
    """A function of so many texts."""

    def rule(args: Sequence[Known]) -> Ruled | None:
        if len(args) != count or any(not (a.sqltype.is_text or _is_nothing(a)) for a in args):
            return None
        null = any(a.null for a in args)
        return always(Known(BIGINT, interval(0, _LONGEST), null) if result == BIGINT else of_type(result, null=null))

    return rule


def position(args: Sequence[Known]) -> Ruled | None:
    """SUBSTRING, LEFT, RIGHT: a text and one or two bare integers."""
    text, places = args[0], args[1:]
    plain = all(p.literal and p.limits is not None and abs(p.limits.lower) < 10_000 for p in places)
    kind = text.sqltype.is_text or _is_nothing(text)
    return always(Known(VARCHAR, None, text.null)) if kind and places and plain else None


def _is_nothing(known: Known) -> bool:
    """Whether a value stands for a bare NULL, which any function takes (values.py)."""
    return known == NOTHING


def any_text(args: Sequence[Known]) -> Ruled | None:
    """CONCAT_WS and MD5, of texts and nothing else."""
    return always(Known(VARCHAR)) if all(a.sqltype.is_text for a in args) else None


def float_test(args: Sequence[Known]) -> Ruled | None:
    """ISNAN, ISINF, ISFINITE."""
    return always(of_type(BOOLEAN, null=args[0].null)) if len(args) == 1 and args[0].sqltype.is_float else None


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


def increasing(f: Callable[[float], float], needs: str) -> Rule:
    """SQRT (needs ">= 0"), logarithms ("> 0") and EXP (""): DOUBLE."""

    def rule(args: Sequence[Known]) -> Ruled | None:
        if len(args) != 1 or not args[0].sqltype.is_number:
            return None
        found = Known(DOUBLE, floating(_monotone(args[0].limits, f)), args[0].null)
        return decided(found, _at_least(args[0], needs)) if needs else always(found)

    return rule


def _at_least(known: Known, needs: str) -> bool:
    if known.least == "> 0" or (known.least == needs):
        return True
    return known.limits is not None and (known.limits.lower > 0 or (needs == ">= 0" and known.limits.lower >= 0))


def power(args: Sequence[Known]) -> Ruled | None:
    """POW of two DOUBLEs."""
    return always(Known(DOUBLE)) if len(args) == 2 and all(a.sqltype == DOUBLE for a in args) else None


def sign(args: Sequence[Known]) -> Ruled | None:
    """SIGN: -1, 0 or 1."""
    if len(args) != 1 or not args[0].sqltype.is_number:
        return None
    return always(Known(SqlType("TINYINT"), interval(-1, 1), args[0].null))


def _half_away(x: Fraction) -> int:
    return math.floor(x + Fraction(1, 2)) if x >= 0 else -math.floor(-x + Fraction(1, 2))


_WHOLE: dict[str, Callable[[Fraction], int]] = {
    "floor": math.floor,
    "ceil": math.ceil,
    "trunc": math.trunc,
    "round": _half_away,
}


def to_whole(name: str) -> Rule:
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
    held = sqltype.range
    assert held is not None
    proof = limits is not None and held.lower <= limits.lower and limits.upper <= held.upper
    return decided(Known(sqltype, meet(held, limits), null), proof)


def round_to(args: Sequence[Known]) -> Ruled | None:
    """ROUND(x, n) for a bare n."""
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
        inside = held is not None and held.lower <= limits.lower and limits.upper <= held.upper
        return decided(found.known, found.by == "proof" and inside)
    held = a.sqltype.range
    if held is None:
        return None
    far = Interval(min(limits.lower, a.limits.lower) - grid, max(limits.upper, a.limits.upper) + grid)
    return decided(Known(a.sqltype, limits, a.null), held.lower <= far.lower and far.upper <= held.upper)


# --- the calendar -------------------------------------------------------------------------------------------------


def _in_calendar(known: Known) -> bool:
    years = YEARS.get(known.sqltype)
    return years is not None and known.limits is not None and _inside(known.limits, years)


def _inside(limits: Interval, outer: Interval) -> bool:
    return outer.lower <= limits.lower and limits.upper <= outer.upper


def date_part(part: str, a: Known) -> Ruled | None:
    """DATE_PART('part', x), BIGINT."""
    if part not in _PARTS or not a.sqltype.is_temporal:
        return None
    return decided(Known(BIGINT, interval(*_PARTS[part]), a.null), _in_calendar(a))


def truncated(part: str, a: Known) -> Ruled | None:
    """DATE_TRUNC('part', x): at most a year earlier; of a date, a date or a timestamp, by the engine's version."""
    if part not in ("year", "quarter", "month", "week", "day", "hour") or not a.sqltype.is_temporal:
        return None
    limits = None
    if a.limits is not None and _in_calendar(a):
        unit = DAY if a.sqltype == DATE else 1
        limits = Interval(a.limits.lower * unit - 366 * DAY, a.limits.upper * unit)
    return decided(Known(TIMESTAMP, limits, a.null), limits is not None)


def difference(part: str, a: Known, b: Known) -> Ruled | None:
    """DATE_DIFF('part', a, b), BIGINT."""
    known = ("year", "quarter", "month", "week", "day", "hour", "minute", "second")
    if part not in known or a.sqltype != b.sqltype or not a.sqltype.is_temporal:
        return None
    most = 400_000_000_000
    return decided(Known(BIGINT, interval(-most, most), a.null or b.null), _in_calendar(a) and _in_calendar(b))


def span(name: str, args: Sequence[Known]) -> Ruled | None:
    """TO_DAYS(n) and its kin: an INTERVAL of a constant."""
    if name not in _UNITS or len(args) != 1 or args[0].limits is None or not args[0].sqltype.is_integer:
        return None
    limits = args[0].limits
    if max(abs(limits.lower), abs(limits.upper)) > 1_000_000:
        return None
    ends = sorted(x * _UNITS[name] for x in (limits.lower, limits.upper))
    return always(Known(SPAN, Interval(min(ends[0], Fraction(0)), max(ends[1], Fraction(0))), null=False))


def shift(a: Known, b: Known) -> Ruled | None:
    """x + INTERVAL, a TIMESTAMP."""
    if not a.sqltype.is_temporal or b.sqltype != SPAN or b.limits is None:
        return None
    if a.limits is None:
        return decided(Known(TIMESTAMP), False)
    unit = DAY if a.sqltype == DATE else 1
    limits = Interval(a.limits.lower * unit + b.limits.lower, a.limits.upper * unit + b.limits.upper)
    return decided(Known(TIMESTAMP, limits, a.null), _inside(limits, _FARTHEST))
