"""Tables whose limits are per unit and period: mistakes of such a declaration, and the days that its periods are in."""

from __future__ import annotations

import hashlib
from datetime import date

from dpsql.core.domains import Interval
from dpsql.core.errors import error
from dpsql.schema.mistakes import Mistakes, place_of, printable
from dpsql.schema.model import ROW, Schema, Table
from dpsql.schema.moving import MOVING
from dpsql.schema.periods import MOST, days_of


def days(table: Table) -> tuple[date, date]:
    """The first and the last day of the declared bounds of the column by which a table has periods."""
    column = table.column(table.period.column) if table.period is not None else None
    if column is None or not isinstance(column.domain, Interval):
        raise error(901, "a table without periods was about to be read by period")
    return days_of(column.domain, column.sqltype.name == "DATE")


def count(table: Table) -> int:
    """[periods] that the rows of a table can be in by declaration; 1 where none are declared."""
    return table.period.count(days(table)) if table.period is not None else 1


def key(table: Table) -> str:
    """Text by which the closed periods of a table are known: with other periods, or columns read otherwise, they are others."""
    assert table.period is not None
    columns = [(c.name, str(c.sqltype), c.length, c.longest) for c in table.columns]
    read = hashlib.sha256(repr(columns).encode("utf-8", "backslashreplace")).hexdigest()[:16]
    return f"{table.name} by {table.period.column} every {table.period.every}: {read}"


def check_period(schema: Schema, table: Table, mistakes: Mistakes) -> None:
    """Add what is wrong with the periods of a table.

    Why  rows of a closed period are those of an earlier day beside rows of today, so nothing that rows of different periods must agree
         on can be verified: no key, and no dependence on which rests whose row it is; and no table may be reached over such rows
    """
    if table.period is None or table.public:
        return
    place, column = place_of(table.name), table.column(table.period.column)
    if schema.privacy.unit == ROW:
        mistakes.add(place, 'period makes no sense with unit = "row"', "remove period and every")
    elif column is None:
        mistakes.add(
            place, f"period names {printable(table.period.column)}, which is not a declared column", "declare it"
        )
    elif column.sqltype.name not in MOVING or not isinstance(column.domain, Interval) or column.nullable:
        what = f"period is by {printable(column.name)}, which is no DATE or TIMESTAMP with bounds, or is nullable"
        mistakes.add(place_of(table.name, column.name), what, "write bounds = [2022-01-01, 'today'], and not nullable")
    elif count(table) > MOST:
        mistakes.add(
            place_of(table.name, column.name), f"bounds are of more than {MOST:,} periods", "write closer ones"
        )
    for key in ("key", "determines", "population"):
        if getattr(table, key):
            what = f"{key} cannot be verified of rows that closed periods keep"
            mistakes.add(place, what, f"remove {key}, or period and every")
    over = next((t for t in schema.tables for r in t.references if r.table == table.name), None)
    if over is not None:
        what = f"{printable(over.name)} refers to it, and rows that closed periods keep lead nowhere else"
        mistakes.add(place, what, "remove period and every, or the reference")
