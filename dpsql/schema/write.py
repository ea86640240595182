"""Writing a schema as the text of a schema.toml."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import date, datetime, time, timedelta
from fractions import Fraction

from dpsql.accountants.registry import accountings
from dpsql.core.domains import Categories, Interval, Value
from dpsql.core.errors import error
from dpsql.core.loss import EpsilonDelta
from dpsql.core.sqltypes import SqlType
from dpsql.schema.model import (
    MECHANISM,
    Analyst,
    Column,
    Guard,
    Privacy,
    Reference,
    Reservation,
    Role,
    Schema,
    StatementLimits,
    Table,
)
from dpsql.schema.purchases import Purchases
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
    parts = [
        _dataset(schema),
        _privacy(schema.privacy),
        _guard(schema),
        *_limits(schema.limits),
        *_purchases(schema.refresh),
    ]
    parts += map(_role, schema.roles)
    parts += [*_analysts(schema.analysts), *map(_reservation, schema.reservations)]
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


def _list(items: Iterable[str]) -> str:
    return f"[{', '.join(items)}]"


def _inline(pairs: Iterable[tuple[str, str]]) -> str:
    return "{ " + ", ".join(f"{key} = {value}" for key, value in pairs) + " }"


def _lines(header: str, pairs: Iterable[tuple[str, str]]) -> str:
    return "\n".join([header, *(f"{key} = {value}" for key, value in pairs)])


def _loss(loss: EpsilonDelta) -> str:
    return _inline([("epsilon", exact(loss.epsilon)), ("delta", exact(loss.delta))])


def _dataset(schema: Schema) -> str:
    pairs = [("name", quoted(schema.name)), ("source", quoted(schema.source))]
    if schema.ledger is not None:
        pairs.append(("ledger", quoted(schema.ledger)))
    return _lines("[dataset]", pairs)


def _privacy(privacy: Privacy) -> str:
    pairs = [
        ("unit", quoted(privacy.unit)),
        ("epsilon", exact(privacy.budget.epsilon)),
        ("delta", exact(privacy.budget.delta)),
    ]
    if privacy.units is not None:
        pairs.append(("units", str(privacy.units)))
    pairs += [("query", _loss(privacy.query)), ("caps", _caps_of(privacy)), ("max_cells", str(privacy.max_cells))]
    return _lines("[privacy]", pairs + _choices(privacy))


def _caps_of(privacy: Privacy) -> str:
    """The most that one statement may spend and, where the owner wrote it, that one cube may."""
    written = _loss(privacy.caps)
    return written if privacy.cube is None else f"{written.removesuffix(' }')}, cube = {_loss(privacy.cube)} }}"


def _choices(privacy: Privacy) -> list[tuple[str, str]]:
    """Choices of the owner other than the default."""
    pairs = []
    if privacy.mechanism != MECHANISM:
        pairs.append(("mechanism", quoted(privacy.mechanism)))
    if privacy.household is not None:
        pairs.append(("household", str(privacy.household)))
    if privacy.accounting != accountings()[0]:
        pairs.append(("accounting", quoted(privacy.accounting)))
    if privacy.window is not None:
        pairs.append(("window", quoted(privacy.window)))
    if privacy.partition is not None:
        pairs.append(("partition", quoted(".".join(privacy.partition))))
    if privacy.least is not None:
        pairs.append(("least", exact(privacy.least)))
    if not privacy.shared_answers:
        pairs.append(("shared_answers", "false"))
    if privacy.buy_again:
        pairs.append(("buy_again", "true"))
    if privacy.reserve is not None:
        pairs.append(("reserve", exact(privacy.reserve)))
    return pairs


def _guard(schema: Schema) -> str:
    pairs = [("mode", quoted(schema.guard.mode)), ("k", str(schema.guard.k))]
    if schema.guard.readable != Guard().readable:
        pairs.append(("readable", exact(schema.guard.readable)))
    return _lines("[guard]", pairs)


def _limits(limits: StatementLimits) -> list[str]:
    """Limits that the owner chose other than the defaults."""
    own = StatementLimits()
    pairs = []
    if limits.seconds != own.seconds:
        pairs.append(("seconds", exact(limits.seconds)))
    if limits.memory != own.memory:
        pairs.append(("memory", quoted(written(limits.memory))))
    if limits.rows != own.rows:
        pairs.append(("rows", str(limits.rows)))
    if limits.plan_seconds != own.plan_seconds:
        pairs.append(("plan_seconds", exact(limits.plan_seconds)))
    return [_lines("[limits]", pairs)] if pairs else []


def _purchases(refresh: Purchases | None) -> list[str]:
    if refresh is None:
        return []
    statements = ", ".join(map(quoted, refresh.statements))
    return [_lines("[refresh]", [("epsilon", exact(refresh.epsilon)), ("statements", f"[{statements}]")])]


def _analysts(analysts: tuple[Analyst, ...] | None) -> list[str]:
    """One part an analyst; the bare header where the list is declared and empty."""
    if analysts is None:
        return []
    return [_analyst(a) for a in analysts] or ["[analysts]"]


def _analyst(analyst: Analyst) -> str:
    role = [] if analyst.role is None else [("role", quoted(analyst.role))]
    dashboard = [] if analyst.dashboard is None else [("dashboard", exact(analyst.dashboard))]
    return _lines(f"[analysts.{name(analyst.name)}]", role + dashboard + _caps(analyst.epsilon, analyst.delta))


def _role(role: Role) -> str:
    return _lines(f"[roles.{name(role.name)}]", _caps(role.epsilon, role.delta))


def _reservation(reservation: Reservation) -> str:
    pairs = [("analyst", quoted(reservation.analyst)), ("refreshes", str(reservation.refreshes))]
    return _lines(
        f"[reservations.{name(reservation.name)}]", pairs + _caps(reservation.epsilon, reservation.delta or None)
    )


def _caps(epsilon: Fraction | None, delta: Fraction | None) -> list[tuple[str, str]]:
    return [(key, exact(cap)) for key, cap in (("epsilon", epsilon), ("delta", delta)) if cap is not None]


def _table(schema: Schema, table: Table) -> str:
    head = _lines(f"[tables.{name(table.name)}]", _head(table))
    if table.public:
        return head
    columns = [(name(c.name), _column(schema, table, c)) for c in table.columns]
    return head + "\n" + _lines(f"[tables.{name(table.name)}.columns]", columns)


def _head(table: Table) -> list[tuple[str, str]]:
    pairs = [("public", "true")] if table.public else []
    pairs.append(("source", quoted(table.source)))
    if table.key:
        pairs.append(("key", _list(map(quoted, table.key))))
    if table.references:
        pairs.append(("references", _inline((name(r.name), _target(r)) for r in table.references)))
    if table.multiplicity:
        pairs.append(("multiplicity", _inline((name(column), str(rows)) for column, rows in table.multiplicity)))
    if table.determines:
        pairs.append(
            (
                "determines",
                _inline((name(", ".join(d.columns)), _list(map(quoted, d.determined))) for d in table.determines),
            )
        )
    if table.period is not None:
        pairs += [("period", quoted(table.period.column)), ("every", quoted(table.period.every))]
    if table.unit_path is not None:
        pairs.append(("unit_path", _list(map(quoted, table.unit_path))))
    limits = {
        "max_rows_per_unit": table.max_rows_per_unit,
        "max_groups_per_unit": table.max_groups_per_unit,
        "population": table.population,
    }
    return pairs + [(key, str(limit)) for key, limit in limits.items() if limit is not None]


def _target(reference: Reference) -> str:
    named = [quoted(f"{reference.table}.{target}") for target in reference.targets]
    return named[0] if len(named) == 1 else _list(named)


def _column(schema: Schema, table: Table, column: Column) -> str:
    pairs = [("type", quoted(str(column.sqltype))), *_domain(column.element or column)]
    if column.length is not None:
        pairs.append(("length", str(column.length)))
    if column.step is not None:
        pairs.append(("step", exact(column.step)))
    if column.unit_bounds is not None:
        pairs.append(("unit_bounds", _list([exact(column.unit_bounds.lower), exact(column.unit_bounds.upper)])))
    if column.nullable:
        pairs.append(("nullable", "true"))
    if column.role != default_role(schema, table, column):
        pairs.append(("role", quoted(column.role)))
    if column.usual:
        pairs.append(("usual", _inline((name(_key(v, column.sqltype)), exact(share)) for v, share in column.usual)))
    return _inline(pairs)


def _key(value: Value | None, sqltype: SqlType) -> str:
    """A value as a key of `usual`."""
    if value is None:
        return NULL
    if isinstance(value, bool) or sqltype.is_boolean:
        return "true" if value else "false"
    return value if isinstance(value, str) else _value(value, sqltype)


def _domain(column: Column) -> list[tuple[str, str]]:
    """The `bounds` or `domain` of a column; a boolean needs neither."""
    if column.domain_from is not None:
        return [("domain", _inline([("from", quoted(".".join(column.domain_from)))]))]
    if column.sqltype.is_boolean:
        return []
    match column.domain:
        case Interval(lower=lower, upper=upper):
            end = quoted("today") if column.until_today else _value(upper, column.sqltype)
            return [("bounds", _list([_value(lower, column.sqltype), end]))]
        case Categories(values=values):
            return [("domain", _list(_value(v, column.sqltype) for v in values))]
        case _:
            return []
