"""Words of the owner's questions, which are put in SQL that every engine reads alike."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import cast

from dpsql.core.domains import Value
from dpsql.core.errors import error
from dpsql.core.sqltypes import SqlType
from dpsql.schema.model import RESERVED, Dependence, Table
from dpsql.sql.duckdb import quoted

name = quoted
"""An identifier in double quotes."""


def text(value: str) -> str:
    """A text literal."""
    return "'" + value.replace("'", "''") + "'"


def too_long(table: Table) -> str:
    """The name of the relation that says, row by row, which texts and lists of a private table are too long."""
    return f"{RESERVED}too long {table.name}"


def added(table: Table) -> str:
    """The name of the relation that shows the rows of some of the files of a private table."""
    return f"{RESERVED}added {table.name}"


def grouped(table: Table) -> str:
    """The name of the relation of all rows of a private table to which some were added, with the columns that it is grouped by."""
    return f"{RESERVED}grouped {table.name}"


def touched(relation: str, part: str, columns: Sequence[str]) -> str:
    """FROM item of the rows that agree in some columns with a row of a part of them, NULL and NaN being values.

    Why  a group of these columns with no row in the part has the rows that it had without it
    """
    equal = " AND ".join(f"part.{name(c)} IS NOT DISTINCT FROM every.{name(c)}" for c in columns)
    return f"(SELECT * FROM {relation} AS every WHERE EXISTS (SELECT 1 FROM {part} AS part WHERE {equal})) AS touched"


def undetermined(relation: str, dependence: Dependence) -> str:
    """A row for each value of a dependence's columns with which rows differ in what it determines; NULL and NaN are values."""
    columns, determined = (", ".join(map(name, part)) for part in (dependence.columns, dependence.determined))
    pairs = f"SELECT DISTINCT {columns}, {determined} FROM {relation}"
    return f"SELECT 1 FROM ({pairs}) AS pairs GROUP BY {columns} HAVING count(*) > 1"


def unfit(table: Table) -> str:
    """The name of the relation of one row that says how many values of each column of a private table are there, and NULL because they
    do not fit its type."""
    return f"{RESERVED}unfit {table.name}"


def raise_all(code: int, lines: list[str]) -> None:
    """Raise one error for all problems, if there are any: a useful first line, then one line each."""
    if len(lines) == 1:
        raise error(code, lines[0])
    if lines:
        raise error(code, "\n".join([f"{len(lines)} problems with the data: {lines[0]}", *lines]))


def value(cell: object, sqltype: SqlType) -> Value:
    """Value of a domain that a dialect's `measured` gave."""
    if isinstance(cell, bool | int):
        return cell
    if isinstance(cell, str) and not sqltype.is_decimal:
        return cell
    if not isinstance(cell, str | float):
        raise error(901, "a public value has no place in a domain")
    exact = Fraction(cell)
    return int(exact) if exact.denominator == 1 else exact


def values(cells: Sequence[object], sqltype: SqlType) -> Sequence[Value | None]:
    """Values of a column; most are what was read, which one look at their types tells."""
    kinds = set(map(type, cells))
    if kinds <= _AS_READ or (kinds <= {*_AS_READ, str} and not sqltype.is_decimal):
        return cast("Sequence[Value | None]", cells)
    return [None if cell is None else value(cell, sqltype) for cell in cells]


_AS_READ = frozenset((int, bool, type(None)))


def literal(number: Value) -> str:
    """SQL of a value of a domain, to compare with `measured` or with the bare column."""
    match number:
        case bool():
            return "true" if number else "false"
        case int():
            return str(number)
        case str():
            return text(number)
        case Fraction():
            return _decimal(number)


def _decimal(number: Fraction) -> str:
    """The number in decimal digits where they end soon enough for DECIMAL, else the nearest DOUBLE."""
    for digits in range(19):
        scaled = number * 10**digits
        if scaled.denominator == 1 and abs(scaled) < 10**37:
            whole, part = divmod(abs(int(scaled)), 10**digits)
            sign = "-" if number < 0 else ""
            return f"{sign}{whole}.{part:0{digits}d}" if digits else f"{sign}{whole}"
    return f"CAST({text(repr(float(number)))} AS DOUBLE PRECISION)"
