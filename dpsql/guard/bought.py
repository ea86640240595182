"""bought: released histograms of columns, as statements ask for them and as the ledger keeps them.

Why  they are answers that were charged and released, so what is decided by them is decided by public values (soundness rule 69)
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction

from dpsql.accounting.store import clean
from dpsql.core.domains import Categories, Interval, Value
from dpsql.guard.sizes import RELEASED, Bought, Sizes, from_histogram
from dpsql.schema.model import Column, Schema, Table
from dpsql.schema.write import days, microseconds
from dpsql.sql.duckdb import literal_sql, quoted

MOST_VALUES = 100
"""Whole numbers that have a part of the histogram each."""
PARTS = 32
"""Equal parts of other bounds."""
Counted = tuple[Value | None, Fraction | None, float]
"""A value or None for NULL, what it reaches up to, and how many there are."""


Cells = tuple[Value | None, Fraction | None] | None


@dataclass(frozen=True, slots=True)
class ColumnHistogram:
    """Values that one column is asked about, with their sizes.

    sql   its columns are the keys of a cell, and how many rows are in it
    read  the keys of the answer -> the value of the cell and what it reaches up to; None where it says nothing
    """

    name: str
    table: str
    column: Column
    sql: str
    read: Callable[[Sequence[object]], Cells]


def histograms(schema: Schema) -> list[ColumnHistogram]:
    """One for every column of a private table that the guard draws from a list or bounds."""
    return [
        found
        for table in schema.tables
        if not table.public
        for column in table.columns
        if column.role != "identifier" and table.reference(column.name) is None
        for found in [_histogram(table, column)]
        if found is not None
    ]


def listed(one: ColumnHistogram) -> Iterator[ColumnHistogram]:
    """The histogram of each value by itself, of a column whose values are all listed and are the same in a released table; nothing for
    any other."""
    column, here = one.column, quoted(one.column.name)
    sqltype, domain = column.sqltype, column.domain
    sql = f"SELECT {here} AS cell, COUNT(*) FROM {quoted(one.table)} GROUP BY 1"
    if isinstance(domain, Categories):
        if sqltype.is_text or sqltype.is_integer or sqltype.is_boolean:
            yield one
    elif isinstance(domain, Interval) and sqltype.is_integer and domain.upper - domain.lower < MOST_VALUES:
        yield replace(one, sql=sql, read=lambda keys: _whole(keys[0]))


def _whole(cell: object) -> Cells:
    return (None, None) if cell is None else (Fraction(int(str(cell))), Fraction(int(str(cell))) + 1)


def name_of(table: Table, column: Column) -> str:
    """Of a column in the ledger: another for each, whatever they are called."""
    return f"{quoted(table.name)}.{quoted(column.name)}"


def _histogram(table: Table, column: Column) -> ColumnHistogram | None:
    name, here, source = name_of(table, column), quoted(column.name), quoted(table.name)
    domain = column.domain
    if isinstance(domain, Categories):
        sql = f"SELECT {here} AS cell, COUNT(*) FROM {source} GROUP BY 1"
        return ColumnHistogram(name, table.name, column, sql, lambda keys: (_value(keys[0], domain), None))
    is_date = column.sqltype.name == "DATE"
    if not isinstance(domain, Interval) or domain.upper <= domain.lower or column.sqltype.is_counted > is_date:
        return None
    low = Fraction(0) if is_date else domain.lower
    number = f"date_diff('day', {literal_sql(domain.lower, column.sqltype)}, {here})" if is_date else here
    whole = column.sqltype.is_integer or is_date
    end = domain.upper - domain.lower + whole
    parts = int(end) if whole and end <= MOST_VALUES else PARTS
    bucket = f"width_bucket({number}, {_text(low)}, {_text(low + end)}, {parts}) AS cell, COUNT(*) FROM {source}"
    zeros = parts == PARTS and 0 in domain and not is_date
    sql = f"SELECT {here} = 0 AS zero, {bucket} GROUP BY 1, 2" if zeros else f"SELECT {bucket} GROUP BY 1"
    return ColumnHistogram(name, table.name, column, sql, _Parts(domain.lower, end / parts, parts, zeros).read)


@dataclass(frozen=True, slots=True)
class _Parts:
    """Equal parts from `low` on; with `zeros`, 0 is counted beside the part that it lies in."""

    low: Fraction
    width: Fraction
    count: int
    zeros: bool

    def read(self, keys: Sequence[object]) -> Cells:
        zero, cell = (keys[0], keys[-1]) if self.zeros else (False, keys[0])
        if cell is None:
            return (None, None) if zero is None or not self.zeros else None
        begin = self.low + (min(max(int(str(cell)), 1), self.count) - 1) * self.width
        if zero is True:
            return (Fraction(0), None) if begin <= 0 < begin + self.width else None
        return (begin, begin + self.width) if zero is False else None


def _value(cell: object, domain: Categories) -> Value | None:
    """A value of a list as it is declared."""
    if isinstance(cell, datetime):
        cell = microseconds(cell)
    elif isinstance(cell, date):
        cell = days(cell)
    elif isinstance(cell, Decimal):
        cell = Fraction(cell)
    return next((value for value in domain.values if value == cell), None)


def _text(number: Fraction) -> str:
    return str(number.numerator) if number.denominator == 1 else repr(float(number))


# --- as the ledger keeps them -------------------------------------------------------------------------------------


def counted(histogram: ColumnHistogram, rows: Sequence[tuple[object, ...]], noise: float) -> list[Counted]:
    """An answer as a histogram.

    noise  95 % half-width of a count: where no more than half of it is counted, that is nobody; else empty cells would have many
    """
    found: list[Counted] = []
    for *keys, count in rows:
        read = histogram.read(keys)
        if read is not None and count is not None:
            often = float(str(count))
            found.append((*read, often if often > noise / 2 else 0.0))
    return found


def written(column: Column, cells: Sequence[Counted], source: str = RELEASED) -> str:
    """A histogram, with the declaration that it is of, and what it was read off."""
    body = [[_plain(value), _plain(end), count] for value, end, count in cells]
    return json.dumps({"declared": _declared(column), "cells": body, "source": source})


def bought(schema: Schema, bodies: Mapping[str, str]) -> Bought:
    """The released histograms of the columns whose declaration is still that which they are of."""
    found: dict[tuple[str, str], Sizes] = {}
    for table in schema.tables:
        for column in table.columns:
            text = bodies.get(clean(name_of(table, column)))
            kept = json.loads(text) if text is not None else None
            if kept is not None and kept["declared"] == _declared(column):
                cells = [(_read(value), _end(end), float(count)) for value, end, count in kept["cells"]]
                known = from_histogram(cells)
                if known is not None:
                    found[table.name, column.name] = replace(known, source=kept.get("source", RELEASED))
    return found


def _declared(column: Column) -> str:
    return repr((str(column.sqltype), column.domain, column.nullable))


def _plain(value: Value | None) -> object:
    """A value as JSON; a number that is no whole one as text with its kind."""
    return {"number": str(value)} if isinstance(value, Fraction) else value


def _read(value: object) -> Value | None:
    if isinstance(value, dict):
        return Fraction(str(value["number"]))
    return value if isinstance(value, int | str) else None


def _end(value: object) -> Fraction | None:
    found = _read(value)
    return Fraction(found) if found is not None else None
