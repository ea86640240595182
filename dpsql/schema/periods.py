"""Periods of a table whose rows come by time: `period = "ordered_at"`, `every = "month"` (rule 62).

A period is known by its first day, and shown under a name that says how long it is: 2025, 2025-Q2, 2025-03; a day and a week by their
first day. All of it is declared or a date, so which periods there are hangs on no row.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from fractions import Fraction

from dpsql.core.domains import Interval

EVERY = ("day", "week", "month", "quarter", "year")
MOST = 10_000
"""[periods] of one table."""
_DAY = 86_400_000_000
_EPOCH = date(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class Period:
    """`column` says in which period a row is, and `every` how long one is."""

    column: str
    every: str

    def first(self, day: date) -> date:
        """The first day of the period that a day is in; weeks begin on Monday.

        >>> str(Period("seen", "quarter").first(date(2025, 6, 30))), str(Period("seen", "week").first(date(2025, 1, 1)))
        ('2025-04-01', '2024-12-30')
        """
        match self.every:
            case "day":
                return day
            case "week":
                return day - timedelta(days=day.weekday())
            case "month":
                return day.replace(day=1)
            case "quarter":
                return day.replace(month=(day.month - 1) // 3 * 3 + 1, day=1)
            case _:
                return day.replace(month=1, day=1)

    def after(self, first: date) -> date:
        """The first day of the next period."""
        days = {"day": 1, "week": 7, "month": 31, "quarter": 93, "year": 366}[self.every]
        return self.first(first + timedelta(days=days))

    def name(self, first: date) -> str:
        """
        >>> [Period("seen", every).name(date(2025, 4, 1)) for every in ("year", "quarter", "month", "day")]
        ['2025', '2025-Q2', '2025-04', '2025-04-01']
        """
        match self.every:
            case "year":
                return f"{first.year:04}"
            case "quarter":
                return f"{first.year:04}-Q{first.month // 3 + 1}"
            case "month":
                return f"{first.year:04}-{first.month:02}"
            case _:
                return str(first)

    def begin(self, name: str) -> date:
        """The first day of the period of a name.

        >>> [str(Period("seen", every).begin(name)) for every, name in (("quarter", "2025-Q2"), ("month", "2025-03"))]
        ['2025-04-01', '2025-03-01']
        """
        year, _, quarter = name.partition("-Q")
        month = int(quarter) * 3 - 2 if quarter else 1
        return (
            date.fromisoformat(f"{name}-01")
            if self.every == "month"
            else (date(int(year), month, 1) if self.every in ("quarter", "year") else date.fromisoformat(name))
        )

    def within(self, days: tuple[date, date]) -> tuple[date, ...]:
        """The first days of the periods that some days are in, from the first day to the last one; () where there is none."""
        found, first = list[date](), self.first(days[0])
        for _ in range(self.count(days)):
            first = self.after(found[-1]) if found else first
            found.append(first)
        return tuple(found)

    def count(self, days: tuple[date, date]) -> int:
        """[periods] from the one that a day is in to that of another; 0 where the second is earlier."""
        return max(0, self._number(days[1]) - self._number(days[0]) + 1)

    def _number(self, day: date) -> int:
        months = day.year * 12 + day.month - 1
        numbers = {"day": day.toordinal(), "week": (day.toordinal() - 1) // 7, "month": months, "quarter": months // 3}
        return numbers.get(self.every, day.year)


def days_of(bounds: Interval, of_days: bool) -> tuple[date, date]:
    """The first and the last day of some values; of_days: they are days, else microseconds."""
    unit = 1 if of_days else _DAY
    first, last = (int(Fraction(end) // unit) for end in (bounds.lower, bounds.upper))
    return _EPOCH + timedelta(days=first), _EPOCH + timedelta(days=last)
