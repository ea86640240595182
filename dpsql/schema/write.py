"""Writing a schema as the text of a schema.toml."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import fields
from datetime import date, datetime, time, timedelta
from fractions import Fraction

from dpsql.accountants.registry import accountings
from dpsql.core.domains import Categories, Interval, Value
from dpsql.core.errors import error
from dpsql.core.loss import EpsilonDelta
from dpsql.core.sqltypes import SqlType
from dpsql.schema.model import MECHANISM, Column, Guard, Privacy, Reference, Schema, StatementLimits, Table
from dpsql.schema.roles import default_role
from dpsql.schema.sizes import written

EPOCH = datetime(1970, 1, 1)
NULL = "NULL"
"""The key of `usual` that stands for it."""
_BARE = re.compile(r"[A-Za-z0-9_-]+$")
_LARGEST_INTEGER = 2**63 - 1  # TOML promises no more for integers; beyond it the same number is written as a float


def write(schema: Schema) -> str:
    """The text of a schema file that reads back as an equal schema (apart from its folder).

    What is filled in at opening, the columns of public tables and the domains they list, is left out.

    Raises SchemaError (DPSQL-801) where a number has no exact decimal: the file could not say it.
    """
    guard, limits, buys = schema.guard, _limits(schema.limits), schema.refresh
    readable = _unusual(guard.readable, Guard().readable)
    parts = [
        _section("dataset", {"name": schema.name, "source": schema.source, "ledger": schema.ledger}),
        _section("privacy", _privacy(schema.privacy)),
        _section("guard", {"mode": guard.mode, "k": guard.k, "readable": readable}),
    ]
    if any(value is not None for value in limits.values()):
        parts.append(_section("limits", limits))
    if buys is not None:
        parts.append(_section("refresh", {"epsilon": buys.epsilon, "statements": buys.statements}))
    for role in schema.roles:
        parts.append(_section(f"roles.{name(role.name)}", {"epsilon": role.epsilon, "delta": role.delta}))
    if schema.analysts == ():
        parts.append("[analysts]")
    for one in schema.analysts or ():
        caps = {"role": one.role, "dashboard": one.dashboard, "epsilon": one.epsilon, "delta": one.delta}
        parts.append(_section(f"analysts.{name(one.name)}", caps))
    for held in schema.reservations:
        price = {"epsilon": held.epsilon, "delta": held.delta or None}
        kept = {"analyst": held.analyst, "refreshes": held.refreshes, **price}
        parts.append(_section(f"reservations.{name(held.name)}", kept))
    parts += [_table(schema, t) for t in schema.tables]
    return "\n\n".join(parts) + "\n"


def quoted(text: str) -> str:
    """A TOML string on one line.

    >>> print(quoted('say "hi"'))
    "say \\"hi\\""
    """
    return '"' + "".join(_escaped(c) for c in text) + '"'


def _escaped(character: str) -> str:
    if character in '"\\':
        return "\\" + character
    return character if character.isprintable() else f"\\U{ord(character):08x}"


def name(text: str) -> str:
    """A TOML key: bare where it may be."""
    return text if _BARE.match(text) else quoted(text)


def exact(value: Fraction) -> str:
    """A number as a TOML integer or float that reads back exactly.

    >>> exact(Fraction(4)), exact(Fraction(1, 10)), exact(Fraction(1, 10**9))
    ('4', '0.1', '1e-9')
    """
    if value.denominator == 1:
        return str(value) if abs(value) <= _LARGEST_INTEGER else f"{value}.0"
    places = _decimal_places(value)
    digits = str(abs(value.numerator) * 10**places // value.denominator)
    sign = "-" if value < 0 else ""
    if places > 6:
        return f"{sign}{digits}e-{places}"
    digits = digits.zfill(places + 1)
    return f"{sign}{digits[:-places]}.{digits[-places:]}"


def _decimal_places(value: Fraction) -> int:
    """Number of decimals that say the number exactly."""
    rest, twos, fives = value.denominator, 0, 0
    while rest % 2 == 0:
        rest, twos = rest // 2, twos + 1
    while rest % 5 == 0:
        rest, fives = rest // 5, fives + 1
    if rest != 1:
        raise error(801, f"{value} has no exact decimal, so a schema file cannot say it", hint="round it first")
    return max(twos, fives)


def _value(value: Value, sqltype: SqlType) -> str:
    """One bound or domain value, in the notation of the column's type."""
    if isinstance(value, str):
        return quoted(value)
    return _moment(Fraction(value), sqltype) if sqltype.is_counted else exact(Fraction(value))


def _moment(value: Fraction, sqltype: SqlType) -> str:
    """A date of so many days, or a time of so many microseconds, since 1970-01-01."""
    if value.denominator == 1:
        try:
            if sqltype.name == "DATE":
                return (EPOCH + timedelta(days=int(value))).date().isoformat()
            moment = EPOCH + timedelta(microseconds=int(value))
            return moment.time().isoformat() if sqltype.name == "TIME" else moment.isoformat()
        except OverflowError:
            pass
    raise error(801, f"{value} is not a {sqltype} between the years 1 and 9999, so a schema file cannot say it")


def days(value: date) -> int:
    """Days since 1970-01-01."""
    return (value - EPOCH.date()).days


def microseconds(value: datetime | time) -> int:
    """Microseconds since 1970-01-01, of a time without a zone; of a time of day since midnight."""
    if isinstance(value, time):
        value = datetime.combine(EPOCH, value)
    return (value - EPOCH) // timedelta(microseconds=1)


def _toml(value: object) -> str:
    """A value that has one notation whatever it is of."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return quoted(value)
        case Fraction():
            return exact(value)
        case EpsilonDelta():
            return _inline({"epsilon": value.epsilon, "delta": value.delta})
        case dict():
            return _inline(value)
        case tuple() | list():
            return f"[{', '.join(map(_toml, value))}]"
        case _:
            return str(value)


class _Written(str):
    """Text of a value that needs no other."""

    __slots__ = ()


def _inline(pairs: Mapping[str, object]) -> str:
    return "{ " + ", ".join(_pairs(pairs)) + " }"


def _section(header: str, pairs: Mapping[str, object]) -> str:
    return "\n".join([f"[{header}]", *_pairs(pairs)])


def _pairs(pairs: Mapping[str, object]) -> Iterator[str]:
    """Keys with values; what is None is not written."""
    for key, value in pairs.items():
        if value is not None:
            yield f"{name(key)} = {value if isinstance(value, _Written) else _toml(value)}"


def _unusual(value: object, usual: object) -> object | None:
    """A choice of the owner's other than the default."""
    return None if value == usual else value


def _privacy(privacy: Privacy) -> dict[str, object]:
    caps = {"epsilon": privacy.caps.epsilon, "delta": privacy.caps.delta, "cube": privacy.cube}
    return {
        "unit": privacy.unit,
        "epsilon": privacy.budget.epsilon,
        "delta": privacy.budget.delta,
        "units": privacy.units,
        "query": privacy.query,
        "caps": caps,
        "max_cells": privacy.max_cells,
        "mechanism": _unusual(privacy.mechanism, MECHANISM),
        "household": privacy.household,
        "accounting": _unusual(privacy.accounting, accountings()[0]),
        "window": privacy.window,
        "partition": None if privacy.partition is None else ".".join(privacy.partition),
        "least": privacy.least,
        "shared_answers": _unusual(privacy.shared_answers, True),
        "buy_again": _unusual(privacy.buy_again, False),
        "reserve": privacy.reserve,
    }


def _limits(limits: StatementLimits) -> dict[str, object]:
    """Limits that the owner chose other than the defaults."""
    own = StatementLimits()
    found = {one.name: _unusual(getattr(limits, one.name), getattr(own, one.name)) for one in fields(limits)}
    return {**found, "memory": None if found["memory"] is None else written(limits.memory)}


def _table(schema: Schema, table: Table) -> str:
    here = f"tables.{name(table.name)}"
    head = _section(here, _head(table))
    columns = {c.name: _Written(_inline(_column(schema, table, c))) for c in table.columns}
    return head if table.public else f"{head}\n{_section(f'{here}.columns', columns)}"


def _head(table: Table) -> dict[str, object]:
    period = table.period
    return {
        "public": table.public or None,
        "source": table.source,
        "key": table.key or None,
        "references": {r.name: _target(r) for r in table.references} or None,
        "multiplicity": dict(table.multiplicity) or None,
        "determines": {", ".join(d.columns): d.determined for d in table.determines} or None,
        "period": period.column if period is not None else None,
        "every": period.every if period is not None else None,
        "unit_path": table.unit_path,
        "max_rows_per_unit": table.max_rows_per_unit,
        "max_groups_per_unit": table.max_groups_per_unit,
        "population": table.population,
    }


def _target(reference: Reference) -> object:
    named = [f"{reference.table}.{target}" for target in reference.targets]
    return named[0] if len(named) == 1 else named


def _column(schema: Schema, table: Table, column: Column) -> dict[str, object]:
    bounds = column.unit_bounds
    return {
        "type": str(column.sqltype),
        **_domain(column.element or column),
        "length": column.length,
        "step": column.step,
        "unit_bounds": None if bounds is None else [bounds.lower, bounds.upper],
        "nullable": column.nullable or None,
        "role": _unusual(column.role, default_role(schema, table, column)),
        "usual": {_key(value, column.sqltype): share for value, share in column.usual} or None,
    }


def _key(value: Value | None, sqltype: SqlType) -> str:
    """A value as a key of `usual`."""
    if value is None:
        return NULL
    if isinstance(value, bool) or sqltype.is_boolean:
        return "true" if value else "false"
    return value if isinstance(value, str) else _value(value, sqltype)


def _domain(column: Column) -> dict[str, object]:
    """The `bounds` or `domain` of a column; a boolean needs neither."""
    if column.domain_from is not None:
        return {"domain": {"from": ".".join(column.domain_from)}}
    if column.sqltype.is_boolean:
        return {}
    match column.domain:
        case Interval(lower=lower, upper=upper):
            end = quoted("today") if column.until_today else _value(upper, column.sqltype)
            return {"bounds": _Written(f"[{_value(lower, column.sqltype)}, {end}]")}
        case Categories(values=values):
            return {"domain": _Written(f"[{', '.join(_value(v, column.sqltype) for v in values)}]")}
        case _:
            return {}
