"""What the partition column must be, so that each of its values can have a total of its own."""

from __future__ import annotations

from dpsql.core.domains import Categories, Interval
from dpsql.schema.mistakes import Mistakes, place_of, printable, shown, suggestion
from dpsql.schema.model import ROW, Column, Schema, Table
from dpsql.schema.write import quoted

MOST_VALUES = 1000


def check_partition(schema: Schema, mistakes: Mistakes) -> None:
    """Add what is wrong with the partition: the first thing, since the rest depends on it.

    A unit has one row and so one value; what is released of one value then loses nothing of the units of another.
    """
    private = [t for t in schema.tables if not t.public]
    if schema.privacy.partition is None or not private:
        return
    where, name = schema.privacy.partition
    written = f"partition is {quoted(f'{where}.{name}')}"
    table = schema.table(where)
    column = table.column(name) if table is not None else None
    if table is None:
        remedy = suggestion(where, [printable(t.name) for t in private])
        mistakes.add("[privacy]", f"{written}, but no such table is declared", remedy)
    elif table.public:
        what = f"partition is in the public table {printable(table.name)}"
        mistakes.add("[privacy]", what, "write a column of a private table")
    elif column is None:
        remedy = suggestion(name, [printable(c.name) for c in table.columns])
        mistakes.add("[privacy]", f"{written}, but no such column is declared", remedy)
    elif _may_repeat(schema, table, mistakes):
        what = f"{written}, but one unit can have several rows there"
        mistakes.add("[privacy]", what, f"write a column of {printable(schema.privacy.unit_table or '')}")
    elif not mistakes.at(place_of(table.name, column.name)):
        _check_column(written, column, mistakes)


def _may_repeat(schema: Schema, table: Table, mistakes: Mistakes) -> bool:
    """Whether a unit can have several rows; false where the unit or the table is wrong already, and nobody can tell."""
    if schema.privacy.unit == ROW or mistakes.at("[privacy]") or mistakes.at(place_of(table.name)):
        return False
    return not schema.one_row_per_unit(table)


def _check_column(written: str, column: Column, mistakes: Mistakes) -> None:
    """The values must be few, and stay the same: people who moved to another total could lose both."""
    values = how_many(column)
    if column.role == "identifier":
        mistakes.add("[privacy]", f"{written}, whose role is identifier", "write a column that many people share")
    elif column.domain_from is not None:
        what = f"{written}, whose values a public table lists and may change"
        mistakes.add("[privacy]", what, "write its domain = [...] here")
    elif values is None:
        mistakes.add("[privacy]", f"{written}, which has no finite domain", "write its domain = [...]")
    elif values > MOST_VALUES:
        what = f"{written}, which has {shown(values)} values"
        mistakes.add("[privacy]", what, f"write a column with at most {MOST_VALUES} values")


def how_many(column: Column) -> int | None:
    """How many values other than NULL a column can have; None where nothing finite is declared."""
    match column.domain:
        case Categories(values=values):
            return len(values)
        case Interval(lower=lower, upper=upper) if column.sqltype.is_integer:
            return int(upper - lower) + 1
        case _:
            return None
