"""Dates and timestamps: parts, truncation, differences, shifts by a constant interval.

DuckDB raises on dates near the ends of its calendar, so every operation is guarded to the years 1 to 9999; outside it is NULL.
Declared bounds must lie in those years (schema/toml.py), so the guard makes nothing NULL inside the declared values.
"""

from __future__ import annotations

import calendar
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from fractions import Fraction

from dpsql.core import domains
from dpsql.core.domains import UNBOUNDED, Categories, Domain, Interval, interval
from dpsql.core.errors import error
from dpsql.core.sqltypes import BIGINT, DATE, INTEGER, TIME, TIMESTAMP, VARCHAR, SqlType
from dpsql.expressions.conversion import convert
from dpsql.expressions.literals import literal
from dpsql.expressions.scalar import Scalar
from dpsql.schema.write import days, microseconds
from dpsql.sql.duckdb import EPOCH
from dpsql.sql.nodes import Bare, Between, Binary, Call, Case, Cast, Literal, Node, Number

DAY = 86_400_000_000
_FIRST, _LAST = "0001-01-02", "9999-12-30"
RANGES = {
    "month": (1, 12),
    "day": (1, 31),
    "quarter": (1, 4),
    "week": (1, 53),
    "dayofweek": (0, 6),
    "isodow": (1, 7),
    "dayofyear": (1, 366),
    "hour": (0, 23),
    "minute": (0, 59),
    "second": (0, 59),
    "millisecond": (0, 59_999),
    "microsecond": (0, 59_999_999),
}
_OF_YEARS: dict[str, Callable[[int, int], tuple[int, int]]] = {
    "decade": lambda first, last: (first // 10, last // 10),
    "century": lambda first, last: ((first + 99) // 100, (last + 99) // 100),
    "isoyear": lambda first, last: (first - 1, last + 1),
    "yearweek": lambda first, last: (100 * (first - 1), 100 * (last + 1) + 53),
}
"""By part its least and greatest value between two years."""
_SYNONYMS = {
    "dow": "dayofweek", "weekday": "dayofweek", "doy": "dayofyear", "dayofmonth": "day", "weekofyear": "week",
    "years": "year", "months": "month", "days": "day", "quarters": "quarter", "weeks": "week", "hours": "hour",
    "minutes": "minute", "seconds": "second", "milliseconds": "millisecond", "microseconds": "microsecond",
    "mon": "month", "mons": "month", "y": "year", "yr": "year", "d": "day", "h": "hour", "m": "minute", "s": "second",
}  # fmt: skip
TRUNCATIONS = ("year", "quarter", "month", "week", "day", "hour", "minute", "second")
FIXED_UNITS = {
    "week": 7 * DAY, "day": DAY, "hour": DAY // 24, "minute": DAY // 1440, "second": DAY // 86_400, "microsecond": 1,
}  # fmt: skip
_STEPS = {"year": timedelta(days=366), "quarter": timedelta(days=95), "month": timedelta(days=32)}
"""Of periods of different lengths: so much further lies in the next one."""
MONTHS = {"year": 12, "quarter": 3, "month": 1}
_MOST_SHIFT = 10_000 * 366 * DAY
"""[microseconds] Of a shift; what lies further is beyond the calendar."""


def part_name(text: str) -> str:
    """The canonical name of a date part."""
    name = text.strip().lower()
    return _SYNONYMS.get(name, name)


def dated(scalar: Scalar, function: str) -> Scalar:
    """A date or timestamp as it is. Raises 106."""
    if not scalar.sqltype.is_temporal:
        hint = "compare it, or write HOUR(...)" if scalar.sqltype == TIME else "write CAST(... AS DATE) around it"
        raise error(106, f"{function} needs a date or timestamp, not {scalar.sqltype}", hint=hint)
    return scalar


def guarded(scalar: Scalar, tree: Node) -> Node:
    """`tree` where the date lies in the years 1 to 9999, else NULL."""
    if scalar.is_literal:
        return tree
    first, last = (Literal(day, scalar.sqltype) for day in (_FIRST, _LAST))
    return Case(((Bare(Between(scalar.tree, first, last)), tree),))


def unguarded(node: Node) -> Node:
    """The call that a guard stands before; anything else as it is."""
    match node:
        case Case(
            branches=((Bare(inner=Between(low=Literal(value=first), high=Literal(value=last))), inside),), default=None
        ):
            return inside if (first, last) == (_FIRST, _LAST) else node
    return node


def moment(scalar: Scalar, value: Fraction) -> datetime:
    """The calendar time of a value of the scalar's type."""
    return moment_of(scalar.sqltype, value)


def moment_of(sqltype: SqlType, value: Fraction) -> datetime:
    if sqltype == DATE:
        return datetime.combine(EPOCH + timedelta(days=math.floor(value)), datetime.min.time())
    return datetime(1970, 1, 1) + timedelta(microseconds=math.floor(value))


def moment_text(value: Fraction, sqltype: SqlType) -> str:
    """A value of a type as the engine writes it."""
    when = moment_of(sqltype, value)
    if sqltype == TIME:
        return when.time().isoformat()
    return when.date().isoformat() if sqltype == DATE else when.isoformat(" ")


def value_of(sqltype: SqlType, when: datetime) -> int:
    return days(when.date()) if sqltype == DATE else microseconds(when)


def extract(part: str, scalar: Scalar) -> Scalar:
    """EXTRACT(part FROM x), BIGINT."""
    part = part_name(part)
    if scalar.sqltype == TIME:
        return _of_time(part, scalar)
    scalar = dated(scalar, "EXTRACT")
    bounds = domains.hull(scalar.domain)
    domain: Domain
    if part == "year":
        limits = interval(1, 9999)
        years = Interval(*(Fraction(moment(scalar, b).year) for b in (bounds.lower, bounds.upper))) if bounds else None
        domain = (domains.integers(years) or years) if years is not None else UNBOUNDED
    elif part in _OF_YEARS:
        limits = interval(*_OF_YEARS[part](1, 9999))
        ends = [moment(scalar, b).year for b in (bounds.lower, bounds.upper)] if bounds else [1, 9999]
        domain = domains.integers(interval(*_OF_YEARS[part](ends[0], ends[1]))) or limits
    elif part in RANGES:
        limits = interval(*RANGES[part])
        domain = domains.integers(limits) or limits
    else:
        raise error(
            102, f"EXTRACT({part[:20]} ...) is not supported", hint="use " + ", ".join(["year", *RANGES, *_OF_YEARS])
        )
    tree = guarded(scalar, Call("date_part", (Literal(part, VARCHAR), scalar.tree)))
    return Scalar("extract", (scalar,), tree, BIGINT, domain, limits, scalar.nullable or bounds is None, integral=True)


OF_DAY = {"hour": 3_600_000_000, "minute": 60_000_000, "second": 1_000_000, "millisecond": 1_000, "microsecond": 1}


def _of_time(part: str, scalar: Scalar) -> Scalar:
    """A part of a time of day, which each has: the hour of its last, 24:00:00, is 24."""
    if part not in OF_DAY:
        raise error(102, f"a time of day has no {part[:20]}", hint="use " + ", ".join(OF_DAY))
    limits = interval(0, 24) if part == "hour" else interval(*RANGES[part])
    bounds = domains.hull(scalar.domain)
    domain: Domain = domains.integers(limits) or limits
    if part == "hour" and bounds is not None:
        hours = (Fraction(math.floor(end / OF_DAY[part])) for end in (bounds.lower, bounds.upper))
        domain = domains.integers(Interval(*hours)) or domain
    tree = Call("date_part", (Literal(part, VARCHAR), scalar.tree))
    return Scalar("extract", (scalar,), tree, BIGINT, domain, limits, scalar.nullable, integral=True)


def since_midnight(scalar: Scalar) -> Scalar:
    """The microseconds of a time of day."""
    tree = Call("date_diff", (Literal("microsecond", VARCHAR), Literal(0, TIME), scalar.tree))
    return Scalar("date_diff", (scalar,), tree, BIGINT, scalar.domain, interval(0, DAY), scalar.nullable, integral=True)


def truncate(part: str, scalar: Scalar) -> Scalar:
    """DATE_TRUNC(part, x): the start of the year, quarter, month, week, day, hour, minute or second; dates stay dates. Of a constant it
    is one, as a shifted one is: what compares with it is told apart like any other."""
    part = part_name(part)
    scalar = dated(scalar, "DATE_TRUNC")
    if part not in TRUNCATIONS:
        raise error(102, f"DATE_TRUNC('{part[:20]}', ...) is not supported", hint="use " + ", ".join(TRUNCATIONS))
    start = Call("date_trunc", (Literal(part, VARCHAR), scalar.tree))
    tree = guarded(scalar, Cast(start, scalar.sqltype, tries=False))
    domain = starts(part, scalar)
    if scalar.is_literal and isinstance(domain, Categories):
        return literal(domain.values[0], scalar.sqltype)
    nullable = scalar.nullable or isinstance(domain, domains.Unbounded)
    return Scalar("date_trunc", (scalar,), tree, scalar.sqltype, domain, None, nullable)


def starts(part: str, scalar: Scalar) -> Domain:
    """The starts of the periods that declared times lie in."""

    def start(when: datetime, further: int = 0) -> datetime:
        at = _start(part, when)
        return _start(part, at + _STEPS[part]) if further else at

    return listed(scalar, start, FIXED_UNITS.get(part, 0))


def listed(scalar: Scalar, start: Callable[..., datetime], width: int) -> Domain:
    """The starts of the periods that declared times lie in: all of them, or their bounds where they are many.

    start  of a time's period, or of the `further` one after it
    width  of all periods, which are counted then [microseconds]; 0 where their lengths differ
    """
    bounds = domains.hull(scalar.domain)
    if bounds is None:
        return UNBOUNDED
    found: Sequence[int] = ()
    # beyond the last year there is none
    with suppress(OverflowError, ValueError):
        at, last = start(moment(scalar, bounds.lower)), moment(scalar, bounds.upper)
        if width:
            step = max(1, width // DAY) if scalar.sqltype == DATE else width
            found = range(value_of(scalar.sqltype, at), value_of(scalar.sqltype, last) + 1, step)
        else:
            found = list(_one_by_one(scalar.sqltype, start, at, last))
    if not found:
        return UNBOUNDED
    return (
        Categories(tuple(found))
        if len(found) <= domains.MOST_CATEGORIES
        else Interval(Fraction(found[0]), bounds.upper)
    )


def _one_by_one(sqltype: SqlType, start: Callable[..., datetime], at: datetime, last: datetime) -> Iterator[int]:
    with suppress(OverflowError, ValueError):
        while at <= last:
            yield value_of(sqltype, at)
            at = start(at, 1)


def _start(part: str, when: datetime) -> datetime:
    """The start of the period that a time lies in."""
    midnight = datetime(when.year, when.month, when.day)
    match part:
        case "year":
            return datetime(when.year, 1, 1)
        case "quarter":
            return datetime(when.year, 3 * ((when.month - 1) // 3) + 1, 1)
        case "month":
            return datetime(when.year, when.month, 1)
        case "week":
            return midnight - timedelta(days=when.weekday())
        case "hour":
            return midnight + timedelta(hours=when.hour)
        case "minute" | "second":
            return when.replace(microsecond=0, second=when.second if part == "second" else 0)
        case _:
            return midnight


def elapsed(part: str, start: Scalar, end: Scalar) -> Scalar:
    """DATESUB(part, start, end): the number of whole parts between, BIGINT; not more than the boundaries, and at most one less."""
    return difference(part, start, end, "date_sub")


def difference(part: str, start: Scalar, end: Scalar, function: str = "date_diff") -> Scalar:
    """DATE_DIFF(part, start, end): the number of boundaries crossed, BIGINT."""
    part = part_name(part)
    if part not in FIXED_UNITS and part not in MONTHS:
        raise error(
            102, f"DATE_DIFF('{part[:20]}', ...) is not supported", hint="use year, quarter, month, week, day or hour"
        )
    start, end = dated(start, "DATE_DIFF"), dated(end, "DATE_DIFF")
    if start.sqltype != end.sqltype:
        start, end = convert(start, TIMESTAMP), convert(end, TIMESTAMP)
    counted = Call(function, (Literal(part, VARCHAR), start.tree, end.tree))
    tree = guarded(start, guarded(end, counted))
    a, b = domains.hull(start.domain), domains.hull(end.domain)
    domain: Domain = UNBOUNDED
    if a is not None and b is not None:
        unit = DAY if start.sqltype == DATE else 1
        apart = domains.subtract(b, a)
        # Months have 28 to 31 days, and there is at most one boundary more than whole units fit.
        sizes = [FIXED_UNITS[part]] if part in FIXED_UNITS else [MONTHS[part] * length * DAY for length in (28, 31)]
        counts = [x * unit / size for x in (apart.lower, apart.upper) for size in sizes]
        domain = Interval(Fraction(math.floor(min(counts)) - 1), Fraction(math.ceil(max(counts)) + 1))
    limits = interval(-farthest_apart(part), farthest_apart(part))
    nullable = start.nullable or end.nullable or a is None or b is None
    return Scalar(function, (start, end), tree, BIGINT, domain, limits, nullable, integral=True)


def farthest_apart(part: str) -> int:
    """More boundaries than lie between two times of the calendar."""
    return 400_000_000_000 * (1_000_000 if part == "microsecond" else 1)


def days_between(left: Scalar, right: Scalar) -> Scalar:
    """date - date, in days."""
    if left.sqltype != DATE or right.sqltype != DATE:
        raise error(106, "only dates can be subtracted", hint="write DATE_DIFF('hour', a, b) for timestamps")
    result = difference("day", right, left)
    a, b = domains.hull(left.domain), domains.hull(right.domain)
    return replace(result, domain=domains.subtract(a, b)) if a is not None and b is not None else result


def shift(scalar: Scalar, amount: Scalar, unit: str) -> Scalar:
    """x + amount * INTERVAL 1 unit, a TIMESTAMP; NULL where the amount is more than 10,000 years."""
    unit = part_name(unit)
    scalar = dated(scalar, "INTERVAL arithmetic")
    if (unit not in FIXED_UNITS and unit not in MONTHS) or not amount.sqltype.is_integer:
        what = "an interval is a whole number of years, months, weeks, days, hours, minutes or seconds"
        raise error(102, what, hint="write d + INTERVAL 7 DAY, or d + n * INTERVAL 1 DAY")
    most = _MOST_SHIFT // _width(unit)
    if isinstance(amount.value, int) and abs(amount.value) > most:
        raise error(102, f"an interval has at most {most:,} {unit}s", hint="write a smaller interval")
    domain = _shifted_domain(scalar, amount, most, unit)
    if scalar.is_literal and amount.is_literal and isinstance(domain, domains.Unbounded):
        raise error(106, "the shifted date leaves the years 1 to 9999", hint="write a smaller interval")
    if scalar.is_literal and amount.is_literal and isinstance(domain, Interval):
        return literal(math.floor(domain.lower), TIMESTAMP)
    tree = guarded(scalar, Binary("+", scalar.tree, span(amount, unit)))
    if not amount.is_literal:
        tree = Case(((Bare(Between(amount.tree, Number(-most), Number(most))), tree),))
    nullable = scalar.nullable or amount.nullable or isinstance(domain, domains.Unbounded)
    args = (scalar,) if amount.is_literal else (scalar, amount)
    return Scalar("shift", args, tree, TIMESTAMP, domain, None, nullable)


def _shifted_domain(scalar: Scalar, amount: Scalar, most: int, unit: str) -> Domain:
    """Domain of a shifted date: it never decreases in the date, nor in the amount."""
    bounds, amounts = domains.hull(scalar.domain), domains.hull(amount.domain)
    if bounds is None or amounts is None:
        return UNBOUNDED
    ends = [
        _shifted(moment(scalar, end), math.floor(number), unit)
        for end, number in ((bounds.lower, amounts.lower), (bounds.upper, amounts.upper))
    ]
    if ends[0] is None or ends[1] is None or max(abs(amounts.lower), abs(amounts.upper)) > most:
        return UNBOUNDED
    return interval(microseconds(ends[0]), microseconds(ends[1]))


def _width(unit: str) -> int:
    """[microseconds] The most that a unit of time lasts."""
    return FIXED_UNITS.get(unit) or MONTHS[unit] * 31 * DAY


def span(amount: Scalar, unit: str) -> Node:
    """An INTERVAL of an amount that is known to be small."""
    name = "months" if unit in MONTHS else f"{unit}s"
    number = INTEGER if unit in MONTHS or unit in ("day", "week") else BIGINT
    months = MONTHS.get(unit, 1)
    if isinstance(amount.value, int):
        return Call(f"to_{name}", (Cast(Number(amount.value * months), number, tries=False),))
    tree: Node = Cast(amount.tree, number, tries=False)
    return Call(f"to_{name}", (tree if months == 1 else Bare(Binary("*", tree, Number(months))),))


def _shifted(when: datetime, amount: int, unit: str) -> datetime | None:
    """Calendar arithmetic as DuckDB does it: months clip to the end of the month. It never decreases in `when`."""
    try:
        if unit in FIXED_UNITS:
            return when + timedelta(microseconds=amount * FIXED_UNITS[unit])
        index = when.year * 12 + when.month - 1 + amount * MONTHS[unit]
        year, month = divmod(index, 12)
        day = min(when.day, calendar.monthrange(year, month + 1)[1])
        return when.replace(year=year, month=month + 1, day=day)
    except (ValueError, OverflowError):
        return None
