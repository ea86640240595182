"""Reading one declared column: its type, and what its values may be."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, time
from fractions import Fraction
from typing import cast

from dpsql.core.domains import (
    LARGEST_DOUBLE,
    MOST_CATEGORIES,
    UNBOUNDED,
    Categories,
    Domain,
    Interval,
    Value,
    categories,
)
from dpsql.core.sqltypes import INTEGER_BITS, LIST, OTHER_TYPES, VARCHAR, SqlType, parse_column_type
from dpsql.schema.mistakes import shown, suggestion
from dpsql.schema.model import ROLES, Column
from dpsql.schema.moving import MOVING, ends_today, last_moment
from dpsql.schema.section import Section, number
from dpsql.schema.usual import read_usual
from dpsql.schema.write import days, microseconds

LARGEST_FLOAT = Fraction(2**128 - 2**104)
LARGEST_LENGTH = 4_096
"""The most characters that a text column may be declared to have."""
COLUMN = {
    "type": '"DOUBLE"',
    "bounds": "[lower, upper]",
    "domain": "[1, 2, 3]",
    "length": "40",
    "step": "1",
    "unit_bounds": "[lower, upper]",
    "nullable": "true",
    "role": '"measure"',
    "usual": "{ 0 = 0.5 }",
}
FROM = {"from": '"table.column"'}


def declared_type(section: Section) -> SqlType | None:
    """The type that a column is given; None where it is given none, or one dpsql does not compute with (reported)."""
    text = section.text("type")
    if text is None:
        return None
    found = parse_column_type(text)
    if found is None:
        section.wrong(f"type {shown(text)} is not one that dpsql computes with", _remedy(text))
    return found


def _remedy(text: str) -> str:
    """A type to write instead; a column that is not declared keeps no table from being read."""
    if LIST in text or text.upper().startswith(("STRUCT", "MAP", "UNION", "BLOB", "UUID", "JSON")):
        return "leave the column out, or write a type such as VARCHAR or VARCHAR[]"
    return suggestion(text.partition("(")[0], [*OTHER_TYPES, *INTEGER_BITS])


def read_column(name: str, section: Section, sqltype: SqlType | None) -> Column:
    """One column of a known type; its role is "" where none is declared.

    Where the type could not be found (reported before), values cannot be judged: a stand-in takes its place.
    """
    nullable, role = section.flag("nullable"), section.one_of("role", ROLES) or ""
    if sqltype is None:
        return Column(name, VARCHAR, UNBOUNDED, nullable, role)
    if sqltype.element is not None:
        return _list_column(name, section, sqltype, sqltype.element, nullable, role)
    domain, source = _domain(section, sqltype), _domain_from(section, sqltype)
    step, total = _step(section, sqltype), _unit_bounds(section, sqltype)
    length, usual = _length(section, sqltype, domain), read_usual(section, sqltype, domain, nullable)
    moving = isinstance(domain, Interval) and ends_today(_pair(section, "bounds"))
    return Column(name, sqltype, domain, nullable, role, step, total, source, length, usual, until_today=moving)


def _list_column(name: str, section: Section, sqltype: SqlType, element: SqlType, nullable: bool, role: str) -> Column:
    """A list: `domain` and `bounds` are of its elements, `length` is the most of them."""
    for key in ("step", "unit_bounds", "usual"):
        section.refuse(key, f"makes no sense for {sqltype}", f"remove {key}")
    if isinstance(section.values.get("domain"), dict):
        section.wrong("domain of a list comes from no table", "write domain = [...]")
    if role not in ("", "measure"):
        section.wrong(
            f"role {role} makes no sense for {sqltype}, by which nothing is grouped", 'write role = "measure"'
        )
    length = section.count("length")
    if length is None and "length" not in section:
        section.wrong("length is missing, the most elements of a list", "write length = 10")
    elif length is not None and length > LARGEST_LENGTH:
        section.wrong(f"length is above {LARGEST_LENGTH:,}", "write fewer elements, such as length = 10")
    elements = _domain(section, element)
    return Column(name, sqltype, UNBOUNDED, nullable, role, length=length, elements=elements)


def _length(section: Section, sqltype: SqlType, domain: Domain) -> int | None:
    """The most characters of text, no fewer than those of a listed value."""
    if not sqltype.is_text:
        section.refuse("length", f"makes no sense for {sqltype}, which is no text", "remove length")
        return None
    length = section.count("length")
    listed = [len(v) for v in domain.values if isinstance(v, str)] if isinstance(domain, Categories) else []
    if length is not None and length > LARGEST_LENGTH:
        section.wrong(f"length is above {LARGEST_LENGTH:,}", "write fewer characters, such as length = 40")
    elif length is not None and max(listed, default=0) > length:
        section.wrong(f"domain lists a value longer than length = {length}", f"write length = {max(listed)}")
    return length


def _domain(section: Section, sqltype: SqlType) -> Domain:
    """Domain that `bounds`, `domain` or the type itself says of the values."""
    if sqltype.is_boolean:
        section.refuse("domain", "makes no sense for a BOOLEAN, which has its domain", "remove domain")
        section.refuse("bounds", "makes no sense for a BOOLEAN, which has its domain", "remove bounds")
        return Categories((False, True))
    if "bounds" in section and "domain" in section:
        section.wrong("bounds and domain exclude each other", "remove one of them")
        return UNBOUNDED
    if "bounds" in section:
        return _bounds(section, sqltype) or UNBOUNDED
    if sqltype.is_float and "domain" in section:
        what = f"domain makes no sense for {sqltype}, which is never compared exactly"
        section.wrong(what, "write bounds = [0, 100]")
        return UNBOUNDED
    return _listed(section, sqltype) or UNBOUNDED


def _pair(section: Section, key: str) -> list[object] | None:
    value = section.values.get(key)
    return value if isinstance(value, list) and len(value) == 2 else None


def _bounds(section: Section, sqltype: SqlType) -> Interval | None:
    """`bounds` of numbers, dates or times; reported and None where they are not two of them in order."""
    example = _example(sqltype)
    if sqltype.is_text:
        section.wrong("bounds make no sense for text", 'remove bounds, or write domain = ["a", "b"]')
        return None
    pair = _pair(section, "bounds")
    if pair and ends_today(pair) and sqltype.name in MOVING:
        today = datetime.now(UTC).date()
        pair = [pair[0], last_moment(today) if sqltype.name == "TIMESTAMP" else today]
    ends = [_read(v, sqltype) for v in pair] if pair else []
    if len(ends) != 2 or ends[0] is None or ends[1] is None:
        if sqltype.name == "TIMESTAMP" and pair and all(type(end) is date for end in pair):
            example = f"[{pair[0]}T00:00:00, {pair[1]}T23:59:59]"
        example += ", without quotes" if any(isinstance(end, str) for end in pair or ()) else ""
        section.wrong(f"bounds needs two {_kind(sqltype)} [lower, upper]", f"write bounds = {example}")
        return None
    lower, upper = Fraction(ends[0]), Fraction(ends[1])
    if lower > upper:
        section.wrong(
            "bounds has its lower end above its upper end", f"write bounds = {example}, the smaller one first"
        )
        return None
    return _in_range(section, "bounds", Interval(lower, upper), sqltype)


def _in_range(section: Section, key: str, found: Interval, sqltype: SqlType) -> Interval | None:
    """Bounds that the type cannot reach are a slip, and beyond DOUBLE they are no bounds at all."""
    limit = _limit(sqltype)
    if limit is None or (limit.lower <= found.lower and found.upper <= limit.upper):
        return found
    section.wrong(f"{key} reaches beyond what {sqltype} can hold", f"write {key} = {_example(sqltype)} within it")
    return None


def _limit(sqltype: SqlType) -> Interval | None:
    """The finite values of a number type; None for dates and times."""
    if sqltype.is_float:
        most = LARGEST_FLOAT if sqltype.name == "FLOAT" else LARGEST_DOUBLE
        return Interval(-most, most)
    return sqltype.range


def _listed(section: Section, sqltype: SqlType) -> Categories | None:
    """`domain` as a list of values of the column's type; None where it is absent, wrong (reported) or a table."""
    value = section.values.get("domain")
    if value is None or isinstance(value, dict):
        return None
    if not isinstance(value, list) or not 1 <= len(value) <= MOST_CATEGORIES:
        section.misfit("domain", f"a list of 1 to {MOST_CATEGORIES} values, or {{ from = ... }}")
        return None
    wrong = next(_unreadable(value, sqltype), None)
    if wrong is not None:
        section.wrong(f"domain lists {wrong}, which is not a {sqltype} value", f"write {_kind(sqltype)} it can hold")
        return None
    read = cast(list[Value], [_read(v, sqltype) for v in value])
    twice = (
        next((shown(written) for i, written in enumerate(value) if read[i] in read[:i]), None)
        if len(set(read)) < len(read)
        else None
    )
    if twice is not None:
        section.wrong(f"domain lists {twice} twice", "write it once, or the value that is meant")
    return categories(read)


def _unreadable(values: list[object], sqltype: SqlType) -> Iterator[str]:
    """The values of a list that a column of that type cannot have."""
    for value in values:
        read = _read(value, sqltype)
        if read is None or not (isinstance(read, str) or _holds(sqltype, Fraction(read))):
            yield shown(value)


def _holds(sqltype: SqlType, value: Fraction) -> bool:
    """True if a number is in the type's range and, in a DECIMAL, has no more decimals than the type."""
    limit = sqltype.range
    decimals = not sqltype.is_decimal or (value * 10**sqltype.scale).denominator == 1
    return decimals and (limit is None or value in limit)


def _domain_from(section: Section, sqltype: SqlType) -> tuple[str, str] | None:
    """`domain = { from = "table.column" }`; whether that table is public is seen later."""
    if sqltype.is_boolean or sqltype.is_float or not isinstance(section.values.get("domain"), dict):
        return None
    inner = section.inner("domain", FROM, f"{section.place}, domain")
    if inner is None:
        return None
    inner.require("from")
    return column_name(inner, "from")


def column_name(section: Section, key: str) -> tuple[str, str] | None:
    """A value "table.column", taken apart; None where it is absent or has another form (reported)."""
    text = section.text(key)
    if text is None:
        return None
    table, _, column = text.rpartition(".")
    if table and column:
        return table, column
    section.misfit(key, "the form table.column")
    return None


def _step(section: Section, sqltype: SqlType) -> Fraction | None:
    """The grid [the column's own unit: days, microseconds, numbers]; whole where the values are."""
    if sqltype.is_text or sqltype.is_boolean:
        section.refuse("step", f"makes no sense for {sqltype}", "remove step")
        return None
    step = section.positive("step")
    if step is None or sqltype.is_float or sqltype.is_decimal or step.denominator == 1:
        return step
    section.misfit("step", f"a whole number for {sqltype}")
    return None


def _unit_bounds(section: Section, sqltype: SqlType) -> Interval | None:
    """Bounds of one unit's total [the column's own unit]; a total may pass the column's type, but not DOUBLE."""
    if "unit_bounds" not in section:
        return None
    if not sqltype.is_number:
        section.wrong(f"unit_bounds makes no sense for {sqltype}, which has no totals", "remove unit_bounds")
        return None
    ends = [number(v) for v in _pair(section, "unit_bounds") or []]
    if len(ends) != 2 or ends[0] is None or ends[1] is None or ends[0] > ends[1]:
        section.wrong(
            "unit_bounds needs two numbers [lower, upper], the smaller one first", "write unit_bounds = [0, 100]"
        )
        return None
    return _in_range(section, "unit_bounds", Interval(ends[0], ends[1]), SqlType("DOUBLE"))


def _read(value: object, sqltype: SqlType) -> int | Fraction | str | None:
    """One value of the file as text, days, microseconds or an exact number; None if it is no value of the type."""
    if sqltype.is_text:
        return value if isinstance(value, str) else None
    if sqltype.name == "DATE":
        # a datetime is a date to Python
        return days(value) if isinstance(value, date) and not isinstance(value, datetime) else None
    if sqltype.name == "TIMESTAMP":
        return microseconds(value) if isinstance(value, datetime) and value.tzinfo is None else None
    if sqltype.name == "TIME":
        return microseconds(value) if isinstance(value, time) else None
    found = number(value)
    if found is not None and found.denominator == 1:
        return int(found)
    return None if sqltype.is_integer else found


def _kind(sqltype: SqlType) -> str:
    """Name for the values of a type in a message."""
    if sqltype.is_text:
        return "texts"
    if sqltype.name == "TIMESTAMP":
        return "times without a zone"
    if sqltype.name == "TIME":
        return "times of day"
    if sqltype.is_temporal:
        return "dates"
    return "whole numbers" if sqltype.is_integer else "numbers"


def _example(sqltype: SqlType) -> str:
    if sqltype.name == "TIMESTAMP":
        return "[2020-01-01T00:00:00, 2024-12-31T23:59:59]"
    if sqltype.name == "TIME":
        return "[08:00:00, 18:00:00]"
    return "[2020-01-01, 2024-12-31]" if sqltype.is_temporal else "[0, 100]"
