"""Bounds that end today: `bounds = [2022-01-01, 'today']` end on the day on which the version of their table was approved first.

Why  that day is public, as is which tables got a version and when (rule 61): no row decides it. It stays while the table stays the
     same, so the keys, clamps and stored answers of a version do too. Where no version is known, they end on the day on which the
     schema is read
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from datetime import date, datetime, time
from fractions import Fraction

from dpsql.core.domains import Interval
from dpsql.schema.model import Column, Schema
from dpsql.schema.write import days, microseconds

TODAY = "today"
MOVING = ("DATE", "TIMESTAMP")
"""Types that a day is the end of bounds of."""


def ends_today(pair: list[object] | None) -> bool:
    """True if this is how such bounds are written."""
    return pair is not None and pair[1] == TODAY


def last_moment(day: date) -> datetime:
    return datetime.combine(day, time.max)


def until(schema: Schema, approved: Mapping[str, date]) -> Schema:
    """The schema with bounds that end on the day of a version.

    approved  the day on which each table's version was approved first, UTC
    """

    def ended(table: str, column: Column, domain: Interval) -> Interval:
        day = approved[table]
        upper = Fraction(days(day) if column.sqltype.name == "DATE" else microseconds(last_moment(day)))
        # a version of before they begin has the first of their values alone
        return Interval(domain.lower, max(domain.lower, upper))

    return _with(schema, ended)


def undated(schema: Schema, names: Collection[str] | None = None) -> Schema:
    """The schema with a mark in place of the day, the same on every day; with names of tables, in these alone."""

    def marked(table: str, column: Column, domain: Interval) -> Interval:
        return Interval(domain.lower, domain.lower) if names is None or table in names else domain

    return _with(schema, marked)


def moving(schema: Schema) -> tuple[tuple[str, str], ...]:
    """The tables and columns of such bounds."""
    return tuple((table.name, column.name) for table in schema.tables for column in table.columns if column.until_today)


def _with(schema: Schema, ended: Callable[[str, Column, Interval], Interval]) -> Schema:
    if not moving(schema):
        return schema

    def moved(table: str, column: Column) -> Column:
        own = column.domain
        is_moving = column.until_today and isinstance(own, Interval)
        return replace(column, domain=ended(table, column, own)) if is_moving and isinstance(own, Interval) else column

    tables = (replace(t, columns=tuple(moved(t.name, column) for column in t.columns)) for t in schema.tables)
    return replace(schema, tables=tuple(tables))
