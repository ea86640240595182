"""Exact counts, for the owner's eyes, of what declared bounds, lists and row limits cut, and of what the next round numbers would."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil, floor

from dpsql.core.domains import Categories, Interval
from dpsql.core.wording import number
from dpsql.engines.base import Engine
from dpsql.engines.facts import comparable, integers, off_list, outside, where, with_unit
from dpsql.engines.writing import literal, name
from dpsql.schema.mistakes import printable
from dpsql.schema.model import ROW, Column, Schema, Table


@dataclass(frozen=True, slots=True)
class Alternative:
    """Another limit in the place of the declared one.

    cut    [share of the rows that have a value] what it cuts
    noise  the factor by which the noise of a sum changes
    """

    written: str
    cut: Fraction
    noise: Fraction


@dataclass(frozen=True, slots=True)
class LimitFacts:
    """One declared limit.

    place     the column, or the table
    written   the limit as declared
    verb      what it does to what is beyond: "clamps", "cuts"
    cut       [share of the rows that have a value] what it cuts now
    others    the next round numbers
    named     of a list: the most frequent values off it, and how often each is there [rows]
    """

    place: str
    written: str
    verb: str
    cut: Fraction
    others: tuple[Alternative, ...] = ()
    named: tuple[tuple[str, int], ...] = field(default=())

    def lines(self) -> list[str]:
        shown = ", ".join(f"{printable(value)} {count:,}" for value, count in self.named)
        first = f"{self.place}, {self.written}: {self.verb} {_percent(self.cut)}" + (f" ({shown})" if shown else "")
        return [
            first,
            *(
                f"  {o.written} {self.verb} {_percent(o.cut)}, noise of a sum x {float(o.noise):.2g}"
                for o in self.others
            ),
        ]

    @property
    def found(self) -> dict[str, object]:
        """The same as values of JSON."""
        others = [{"limit": o.written, "cut": float(o.cut), "noise": float(o.noise)} for o in self.others]
        return {
            "place": self.place,
            "limit": self.written,
            "cut": float(self.cut),
            "others": others,
            "off": dict(self.named),
        }


def limit_facts(engine: Engine, schema: Schema) -> Iterator[LimitFacts]:
    """Every declared limit of the private tables. `schema` has its public facts filled in. Raises 707, 702."""
    for table in schema.tables:
        if table.public:
            continue
        if table.max_rows_per_unit is not None and schema.privacy.unit != ROW:
            yield _row_limit(engine, schema, table, table.max_rows_per_unit)
        for column in table.columns:
            if isinstance(column.domain, Interval) and not column.sqltype.is_temporal:
                yield _bounds(engine, table, column, column.domain)
            elif isinstance(column.domain, Categories) and not column.sqltype.is_boolean:
                yield _list(engine, table, column, column.domain)


def _list(engine: Engine, table: Table, column: Column, domain: Categories) -> LimitFacts:
    value = comparable(engine.dialect, name(column.name), column.sqltype)
    items = [where(f"{value} IS NOT NULL"), where(outside(engine.dialect, column))]
    rows, off = integers(engine, engine.dialect.relation(table.name), items)
    named = off_list(engine, table, column) if off else ()
    return LimitFacts(
        _place(table, column), f"list of {len(domain.values):,}", "leaves out", _share(off, rows), (), named
    )


def _bounds(engine: Engine, table: Table, column: Column, domain: Interval) -> LimitFacts:
    value = comparable(engine.dialect, name(column.name), column.sqltype)
    tried = [domain, *_rounder(domain)]
    beyond = [f"{value} < {literal(one.lower)} OR {value} > {literal(one.upper)}" for one in tried]
    items = map(where, [f"{value} IS NOT NULL", *beyond])
    rows, *cut = integers(engine, engine.dialect.relation(table.name), list(items))
    largest = _largest(domain)
    others = [
        Alternative(_written(one), _share(count, rows), _largest(one) / largest if largest else Fraction(1))
        for one, count in zip(tried[1:], cut[1:], strict=True)
    ]
    return LimitFacts(
        _place(table, column), f"bounds {_written(domain)}", "clamps", _share(cut[0], rows), tuple(others)
    )


def _row_limit(engine: Engine, schema: Schema, table: Table, most: int) -> LimitFacts:
    rows, unit = with_unit(engine.dialect, schema, table)
    tried = [most, *(one for one in (floor(below(Fraction(most))), ceil(above(Fraction(most)))) if one >= 1)]
    beyond = [f"coalesce(sum(CASE WHEN n > {one} THEN n - {one} ELSE 0 END), 0)" for one in tried]
    of_units = f"(SELECT {unit} AS u, count(*) AS n FROM {rows} GROUP BY 1) AS counted WHERE u IS NOT NULL"
    whole, *cut = integers(engine, of_units, ["coalesce(sum(n), 0)", *beyond])
    shares = [_share(count, whole) for count in cut]
    others = [
        Alternative(f"{one:,}", share, Fraction(one, most)) for one, share in zip(tried[1:], shares[1:], strict=True)
    ]
    return LimitFacts(printable(table.name), f"max_rows_per_unit {most:,}", "cuts", shares[0], tuple(others))


_ROUND = tuple(Fraction(n, 2) for n in (2, 3, 4, 6, 8, 10, 12, 16, 20))
"""Numbers that people choose for limits, between 1 and 10."""


def above(value: Fraction) -> Fraction:
    """The next larger round number; of a whole number above 1 a whole one.

    >>> above(Fraction(30000)), above(Fraction(1, 2)), above(Fraction(-5)), above(Fraction(74))
    (Fraction(40000, 1), Fraction(3, 5), Fraction(-4, 1), Fraction(80, 1))
    """
    return -_smaller(-value) if value < 0 else _larger(value)


def below(value: Fraction) -> Fraction:
    """The next smaller round number.

    >>> below(Fraction(30000)), below(Fraction(1, 2)), below(Fraction(-5)), below(Fraction(25))
    (Fraction(20000, 1), Fraction(2, 5), Fraction(-6, 1), Fraction(20, 1))
    """
    return -_larger(-value) if value < 0 else _smaller(value)


def _larger(size: Fraction) -> Fraction:
    return next(n * _power(size) for n in _ROUND if n * _power(size) > size)


def _smaller(size: Fraction) -> Fraction:
    near = [n * _power(size) / step for step in (10, 1) for n in _ROUND]
    return max(n for n in near if n < size)


def _power(size: Fraction) -> Fraction:
    """The largest power of ten that is no larger."""
    power = Fraction(1)
    while power * 10 <= size:
        power *= 10
    while power > size:
        power /= 10
    return power


def _rounder(domain: Interval) -> list[Interval]:
    """Bounds with each end that is not 0 moved to the next round number, inwards and outwards."""
    inwards = _moved(domain, above, below)
    return [one for one in (inwards, _moved(domain, below, above)) if one is not None]


def _moved(
    domain: Interval, lower: Callable[[Fraction], Fraction], upper: Callable[[Fraction], Fraction]
) -> Interval | None:
    ends = lower(domain.lower) if domain.lower else Fraction(0), upper(domain.upper) if domain.upper else Fraction(0)
    return Interval(*ends) if ends[0] < ends[1] else None


def _largest(domain: Interval) -> Fraction:
    return max(abs(domain.lower), abs(domain.upper))


def _written(domain: Interval) -> str:
    return f"[{number(domain.lower)}, {number(domain.upper)}]"


def _place(table: Table, column: Column) -> str:
    return f"{printable(table.name)}.{printable(column.name)}"


def _share(part: int, whole: int) -> Fraction:
    return Fraction(part, max(whole, 1))


def _percent(share: Fraction) -> str:
    """In percent: a share that is not 0 is never shown as 0.

    >>> _percent(Fraction(0)), _percent(Fraction(1, 10**7)), _percent(Fraction(1, 3))
    ('nothing', 'less than 0.01 %', '33 %')
    """
    if not share:
        return "nothing"
    if share < Fraction(1, 10**4):
        return "less than 0.01 %"
    return f"{float(100 * share):.2g} %" if share < Fraction(99, 1000) else f"{float(100 * share):.0f} %"
