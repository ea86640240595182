"""Reading `usual`: the owner's public guess of how often a value occurs, NULL among them. The guard alone counts on it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal, InvalidOperation
from fractions import Fraction

from dpsql.core.domains import Categories, Domain, Interval, Value
from dpsql.core.sqltypes import SqlType
from dpsql.schema.mistakes import printable, shown
from dpsql.schema.section import Section, number
from dpsql.schema.write import NULL, days, microseconds


@dataclass(frozen=True, slots=True)
class _KeyKind:
    """Kind of the keys of one column."""

    sqltype: SqlType
    domain: Domain
    nullable: bool

    def value(self, key: str) -> Value | None:
        """Raises ValueError where it is none that the column can have."""
        if key == NULL and self.nullable:
            return None
        found = _read(key, self.sqltype)
        if isinstance(self.domain, Categories | Interval) and found not in self.domain:
            raise ValueError(key)
        return found


def read_usual(
    section: Section, sqltype: SqlType, domain: Domain, nullable: bool
) -> tuple[tuple[Value | None, Fraction], ...]:
    """The shares of values, as written; () where there are none, or where they are wrong (reported)."""
    inner = section.free("usual", section.place, "0.5")
    if inner is None:
        return ()
    kind = _KeyKind(sqltype, domain, nullable)
    found: list[tuple[Value | None, Fraction]] = []
    for key, given in inner.values.items():
        share = number(given)
        if share is None or not 0 < share <= 1:
            section.wrong(f"usual gives {printable(key)} no share of the people", f"write {printable(key)} = 0.5")
            return ()
        try:
            found.append((kind.value(key), share))
        except (ValueError, InvalidOperation):
            section.wrong(f"usual names {shown(key)}, which is no value of this column", "write one that it can have")
            return ()
    if len({value for value, _ in found}) < len(found):
        section.wrong("usual names a value twice", "write it once")
        return ()
    if sum(share for _, share in found) > 1:
        section.wrong("the shares of usual add up to more than 1", "write smaller ones")
        return ()
    return tuple(found)


def _read(key: str, sqltype: SqlType) -> Value:
    """A key of the file as a value of a type. Raises ValueError, InvalidOperation."""
    if sqltype.is_text:
        return key
    if sqltype.is_boolean:
        return {"true": True, "false": False}[key] if key in ("true", "false") else _none(key)
    if sqltype.name == "DATE":
        return days(date.fromisoformat(key))
    if sqltype.name == "TIMESTAMP":
        moment = datetime.fromisoformat(key)
        return microseconds(moment) if moment.tzinfo is None else _none(key)
    if sqltype.name == "TIME":
        return microseconds(time.fromisoformat(key))
    found = number(Decimal(key))
    if found is None or (sqltype.is_integer and found.denominator != 1):
        return _none(key)
    return int(found) if found.denominator == 1 else found


def _none(key: str) -> Value:
    raise ValueError(key)
