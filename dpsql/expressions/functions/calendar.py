"""Functions of dates and timestamps, guarded to the years 1 to 9999."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from fractions import Fraction
from functools import partial

from dpsql.core import domains
from dpsql.core.domains import UNBOUNDED, Categories, Domain, Interval, interval
from dpsql.core.errors import error
from dpsql.core.sqltypes import BIGINT, DATE, DOUBLE, TIME, TIMESTAMP, VARCHAR
from dpsql.expressions import division, temporal
from dpsql.expressions.functions.record import Function, IntervalLiteral
from dpsql.expressions.known import SPAN, Known, Ruled, always, decided, within
from dpsql.expressions.literals import integer_literal
from dpsql.expressions.scalar import Scalar
from dpsql.expressions.temporal import DAY, dated, guarded, moment, part_name
from dpsql.sql.nodes import Bare, Between, Call, Case, Cast, Chain, Is, Literal, Number

YEARS = {DATE: interval(-719_162, 2_932_896), TIMESTAMP: interval(-719_162 * DAY, 2_932_897 * DAY - 1)}
"""The years 1 to 9999, in which every function of the calendar has a value."""
_PARTS = {
    **temporal.RANGES, "year": (-10, 10_010), "decade": (-1, 1_001), "century": (-1, 101), "isoyear": (-10, 10_010),
    "yearweek": (-1_100, 1_001_100),
}  # fmt: skip
_UNITS = {"to_months": 31 * DAY, **{f"to_{unit}s": size for unit, size in temporal.FIXED_UNITS.items()}}
_FARTHEST = interval(-30_000 * 366 * DAY, 30_000 * 366 * DAY)
"""[microseconds] Far inside what TIMESTAMP holds."""
# --- scalars ----------------------------------------------------------------------------------------------------------


def _epoch(scalar: Scalar) -> Scalar:
    """EPOCH(x): seconds since 1970."""
    scalar = dated(scalar, "EPOCH")
    bounds = domains.hull(scalar.domain)
    unit = 86_400 if scalar.sqltype == DATE else Fraction(1, 1_000_000)
    domain: Domain = Interval(bounds.lower * unit - 1, bounds.upper * unit + 1) if bounds is not None else UNBOUNDED
    tree = guarded(scalar, Call("epoch", (scalar.tree,)))
    return Scalar("epoch", (scalar,), tree, DOUBLE, domain, None, scalar.nullable or bounds is None)


def part(name: str, scalar: Scalar) -> Scalar:
    """EXTRACT(name FROM x), DATE_PART('name', x): a whole number, but of the epoch."""
    return _epoch(scalar) if temporal.part_name(name) == "epoch" else temporal.extract(name, scalar)


def part_between(name: str, start: Scalar, end: Scalar) -> Scalar:
    """EXTRACT(epoch FROM end - start) of two times, the seconds between, and EXTRACT(day FROM ...), the whole days. Raises 102."""
    apart = temporal.difference("microsecond", start, end)
    match temporal.part_name(name):
        case "epoch":
            return division.divide(apart, integer_literal(1_000_000))
        case "day":
            return division.integer_divide(apart, integer_literal(DAY))
    what = f"{name.upper()[:20]} of what lies between two times is not supported"
    raise error(102, what, hint="write DATE_DIFF('hour', a, b), or EXTRACT(epoch FROM b - a) / 3600")


def _last_day(scalar: Scalar) -> Scalar:
    """LAST_DAY(x): of its month."""
    scalar = dated(scalar, "LAST_DAY")
    tree = guarded(scalar, Call("last_day", (scalar.tree,)))
    starts = temporal.starts("month", scalar)
    domain: Domain = UNBOUNDED
    if isinstance(starts, Categories):
        months = [moment(scalar, Fraction(value)) for value in starts.values if not isinstance(value, str)]
        ends = [
            (month + timedelta(days=32)).replace(day=1) - timedelta(days=1) for month in months if month.year < 9999
        ]
        if len(ends) == len(months):
            domain = Categories(tuple(temporal.value_of(DATE, end) for end in ends))
    elif isinstance(starts, Interval):
        unit = 1 if scalar.sqltype == DATE else DAY
        domain = Interval(starts.lower / unit, min(starts.upper / unit + 31, YEARS[DATE].upper))
    return Scalar("last_day", (scalar,), tree, DATE, domain, None, scalar.nullable or domains.hull(domain) is None)


def _make_date(year: Scalar, month: Scalar, day: Scalar) -> Scalar:
    """MAKE_DATE(y, m, d): NULL where there is no such day."""
    args = (year, month, day)
    if not all(a.sqltype.is_integer for a in args):
        raise error(106, "MAKE_DATE needs three whole numbers", hint="write CAST(... AS INTEGER) around each")
    texts = [Cast(a.tree, VARCHAR) for a in args]
    written = Call("concat_ws", (Literal("-", VARCHAR), *texts))
    known = [Bare(Is(a.tree, "NOT NULL")) for a in (month, day)]
    inside = Bare(Chain("AND", (Bare(Between(year.tree, Number(1), Number(9999))), *known)))
    tree = Case(((inside, Cast(written, DATE)),))
    return Scalar("make_date", args, tree, DATE, UNBOUNDED, None, True)


def _time_bucket(period: IntervalLiteral, scalar: Scalar) -> Scalar:
    """TIME_BUCKET(INTERVAL 7 DAY, x): the start of a period, counted from Monday 2000-01-03, of months from 2000-01-01."""
    scalar, (amount, unit) = dated(scalar, "TIME_BUCKET"), (period.amount, part_name(period.unit))
    fixed = temporal.FIXED_UNITS.get(unit)
    if not 0 < amount <= 10_000 or (fixed is None and unit not in temporal.MONTHS):
        raise error(102, "TIME_BUCKET takes 1 to 10,000 of a unit", hint="write TIME_BUCKET(INTERVAL 7 DAY, d)")
    if scalar.sqltype == DATE and fixed is not None and fixed < DAY:
        raise error(106, "a date has no time of day", hint="write TIME_BUCKET(INTERVAL 1 DAY, d)")
    start = partial(_bucket, amount * fixed if fixed else 0, amount * temporal.MONTHS.get(unit, 0))
    tree = Cast(
        Call("time_bucket", (temporal.span(integer_literal(amount), unit), scalar.tree)), scalar.sqltype, tries=False
    )
    domain = temporal.listed(scalar, start, amount * fixed if fixed else 0)
    nullable = scalar.nullable or isinstance(domain, domains.Unbounded)
    return Scalar("time_bucket", (scalar,), guarded(scalar, tree), scalar.sqltype, domain, None, nullable)


def _bucket(width: int, months: int, when: datetime, further: int = 0) -> datetime:
    """The start of the bucket of a time, or of one further on.

    width   [microseconds], or
    months  [months] of a bucket
    """
    if months:
        number = ((when.year - 2000) * 12 + when.month - 1) // months + further
        year, month = divmod(number * months, 12)
        return datetime(2000 + year, month + 1, 1)
    origin = datetime(2000, 1, 3)
    return origin + ((when - origin) // timedelta(microseconds=width) + further) * timedelta(microseconds=width)


# --- rules ------------------------------------------------------------------------------------------------------------


def in_calendar(known: Known) -> bool:
    return within(known.limits, YEARS.get(known.sqltype))


def _date_part(args: Sequence[Known]) -> Ruled | None:
    """DATE_PART('part', x), BIGINT."""
    if len(args) != 2 or args[0].word not in _PARTS or not args[1].sqltype.is_counted:
        return None
    if args[1].sqltype == TIME:
        most = 24 if args[0].word == "hour" else _PARTS[args[0].word][1]
        return always(Known(BIGINT, interval(0, most), args[1].null)) if args[0].word in temporal.OF_DAY else None
    return decided(Known(BIGINT, interval(*_PARTS[args[0].word]), args[1].null), in_calendar(args[1]))


def _truncated(args: Sequence[Known]) -> Ruled | None:
    """DATE_TRUNC('part', x): at most a year earlier; of a date, a date or a timestamp, by the engine's version."""
    if len(args) != 2 or args[0].word not in temporal.TRUNCATIONS or not args[1].sqltype.is_temporal:
        return None
    limits, a = None, args[1]
    if a.limits is not None and in_calendar(a):
        unit = DAY if a.sqltype == DATE else 1
        limits = Interval(a.limits.lower * unit - 366 * DAY, a.limits.upper * unit)
    return decided(Known(TIMESTAMP, limits, a.null), limits is not None)


def _apart(args: Sequence[Known]) -> Ruled | None:
    """DATE_DIFF('part', a, b), BIGINT."""
    parts = {*temporal.FIXED_UNITS, *temporal.MONTHS}
    if len(args) == 3 and args[0].word == "microsecond" and args[1].sqltype == args[2].sqltype == TIME:
        return always(Known(BIGINT, interval(-DAY, DAY), args[1].null or args[2].null))
    if (
        len(args) != 3
        or args[0].word not in parts
        or args[1].sqltype != args[2].sqltype
        or not args[1].sqltype.is_temporal
    ):
        return None
    most = temporal.farthest_apart(args[0].word)
    inside = in_calendar(args[1]) and in_calendar(args[2])
    return decided(Known(BIGINT, interval(-most, most), args[1].null or args[2].null), inside)


def _span(name: str) -> Callable[[Sequence[Known]], Ruled | None]:
    """TO_DAYS(n) and its kin: an INTERVAL of a number of limited size."""

    def rule(args: Sequence[Known]) -> Ruled | None:
        if len(args) != 1 or args[0].limits is None or not args[0].sqltype.is_integer:
            return None
        ends = sorted(x * _UNITS[name] for x in (args[0].limits.lower, args[0].limits.upper))
        if max(-ends[0], ends[1]) > -_FARTHEST.lower:
            return None
        return always(Known(SPAN, Interval(min(ends[0], Fraction(0)), max(ends[1], Fraction(0))), null=args[0].null))

    return rule


def shifted(a: Known, b: Known) -> Ruled | None:
    """x + INTERVAL, a TIMESTAMP."""
    if not a.sqltype.is_temporal or b.sqltype != SPAN or b.limits is None:
        return None
    if a.limits is None:
        return decided(Known(TIMESTAMP), False)
    unit = DAY if a.sqltype == DATE else 1
    limits = Interval(a.limits.lower * unit + b.limits.lower, a.limits.upper * unit + b.limits.upper)
    return decided(Known(TIMESTAMP, limits, a.null), within(limits, _FARTHEST))


def _bucketed(args: Sequence[Known]) -> Ruled | None:
    """TIME_BUCKET of a constant period, of which at most one lies before."""
    if len(args) != 2 or args[0].sqltype != SPAN or args[0].limits is None or not args[1].sqltype.is_temporal:
        return None
    a, limits = args[1], None
    if args[0].limits.upper > 0 and a.limits is not None and in_calendar(a):
        unit = DAY if a.sqltype == DATE else 1
        limits = Interval(a.limits.lower - args[0].limits.upper / unit - 1, a.limits.upper)
    return decided(Known(a.sqltype, limits, a.null), limits is not None)


def of_calendar(known: Callable[[Known], Known]) -> Callable[[Sequence[Known]], Ruled | None]:
    """A function of one date that has a value in every year of the calendar."""

    def rule(args: Sequence[Known]) -> Ruled | None:
        if len(args) != 1 or not args[0].sqltype.is_temporal:
            return None
        return decided(known(args[0]), in_calendar(args[0]))

    return rule


def _last(known: Known) -> Known:
    unit = 1 if known.sqltype == DATE else DAY
    limits = (
        Interval(known.limits.lower / unit - 1, known.limits.upper / unit + 31) if known.limits is not None else None
    )
    return Known(DATE, limits, known.null)


def _part(name: str, *names: str) -> Function:
    return Function((name, *names), f"{name.upper()}(d)", "BIGINT", ("value",), partial(temporal.extract, name))


FUNCTIONS = (
    Function(("date_part", "datepart"), "DATE_PART('month', d)", "BIGINT, as EXTRACT(month FROM d)",
        ("word", "value"), part, {"date_part": _date_part}),
    *map(_part, ("year", "quarter", "month", "hour", "minute", "second", "decade", "century", "isoyear", "yearweek",
        "millisecond", "microsecond")),
    _part("day", "dayofmonth"),
    _part("dayofweek", "dow", "weekday"),
    _part("isodow"),
    _part("dayofyear", "doy"),
    _part("week", "weekofyear"),
    Function(("date_trunc", "datetrunc"), "DATE_TRUNC('month', d)",
        "the beginning of the year, quarter, month, week, day, hour, minute or second", ("word", "value"),
        temporal.truncate, {"date_trunc": _truncated}),
    Function(("date_diff", "datediff"), "DATE_DIFF('day', d, e)", "BIGINT: how many boundaries lie between",
        ("word", "value", "value"), temporal.difference, {"date_diff": _apart, **{name: _span(name) for name in _UNITS}}),
    Function(("datesub",), "DATESUB('year', d, e)", "BIGINT: how many whole years lie between, or months, days",
        ("word", "value", "value"), temporal.elapsed, {"date_sub": _apart}),
    Function(("time_bucket",), "TIME_BUCKET(INTERVAL 7 DAY, d)", "the beginning of a period", ("period", "value"),
        _time_bucket, {"time_bucket": _bucketed}),
    Function(("date_add",), "DATE_ADD(d, INTERVAL 7 DAY)", "TIMESTAMP", ("value", "period"),
        lambda scalar, period: temporal.shift(scalar, integer_literal(period.amount), period.unit)),
    Function(("date_sub",), "DATE_SUB(d, INTERVAL 7 DAY)", "TIMESTAMP", ("value", "period"),
        lambda scalar, period: temporal.shift(scalar, integer_literal(-period.amount), period.unit)),
    Function(("last_day",), "LAST_DAY(d)", "DATE, of the month", ("value",), _last_day,
        {"last_day": of_calendar(_last)}),
    Function(("epoch",), "EPOCH(d)", "DOUBLE: seconds since 1970", ("value",), _epoch,
        {"epoch": of_calendar(lambda a: Known(DOUBLE, None, a.null))}),
    Function(("make_date",), "MAKE_DATE(2020, x, 1)", "DATE; NULL where there is none", ("value",) * 3, _make_date,
        tried=True),
)  # fmt: skip
