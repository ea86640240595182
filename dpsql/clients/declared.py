"""The declared schema in words: what `\\d` and `\\domain` show, what completion says beside a name, and what tools show as comments.
No data is read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from fractions import Fraction

from dpsql.core.domains import Categories, Interval, Value
from dpsql.core.sqltypes import SqlType
from dpsql.schema.model import ROW, Column, Schema, Table
from dpsql.schema.qualifiers import MAIN, place
from dpsql.sql.duckdb import EPOCH

FEW = 6
"""Values of a domain that a line shows."""
_PLAIN = re.compile(r"[^\W\d]\w*")
_RESERVED = frozenset({
    "all", "and", "as", "asc", "case", "desc", "distinct", "end", "from", "group", "having", "in", "limit", "not", "null", "on", "or",
    "order", "select", "table", "then", "to", "union", "using", "when", "where", "with",
})  # fmt: skip


def name_sql(name: str) -> str:
    """A name as a statement writes it: in quotes where it needs them."""
    if _PLAIN.fullmatch(name) and name.lower() not in _RESERVED:
        return name
    return '"' + name.replace('"', '""') + '"'


def table_sql(name: str) -> str:
    """A declared table as a statement names it, its SQL schema before the point."""
    within, short = place(name)
    return name_sql(name) if within == MAIN else f"{name_sql(within)}.{name_sql(short)}"


def value_text(value: Value, sqltype: SqlType) -> str:
    """A declared value, without quotes."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or sqltype.is_boolean:
        return "true" if value else "false"
    if sqltype.name == "DATE":
        return str(EPOCH + timedelta(days=int(value)))
    if sqltype.name == "TIMESTAMP":
        return str(datetime(1970, 1, 1) + timedelta(microseconds=int(value)))
    if sqltype.name == "TIME":
        return str((datetime(1970, 1, 1) + timedelta(microseconds=int(value))).time())
    number = Fraction(value)
    return f"{int(number):,}".replace(",", "") if number.denominator == 1 else f"{float(number):.10g}"


def value_sql(value: Value, sqltype: SqlType) -> str:
    """A declared value as a statement writes it."""
    shown = value_text(value, sqltype)
    return "'" + shown.replace("'", "''") + "'" if isinstance(value, str) or sqltype.is_counted else shown


def domain_text(column: Column, most: int = FEW) -> str:
    """List the declared values, of a list those of its elements, on one line; "" where nothing is."""
    column = column.element or column
    match column.domain:
        case Interval():
            return _ends(column.domain, column)
        case Categories(values=values):
            shown = ", ".join(value_sql(value, column.sqltype) for value in values[:most])
            return shown if len(values) <= most else f"{shown}, ... ({len(values):,} values)"
    return ""


def _ends(interval: Interval, column: Column) -> str:
    return f"{value_text(interval.lower, column.sqltype)} to {value_text(interval.upper, column.sqltype)}"


def kind(table: Table, schema: Schema) -> str:
    """Describe in three words whose rows a table has."""
    if table.public:
        return "public, free"
    return "one row a person" if schema.one_row_per_unit(table) and table.key else "rows of people"


def tables(schema: Schema) -> tuple[list[str], list[Sequence[str]]]:
    """The declared tables: a header and rows of text."""
    rows = [(t.name, kind(t, schema), str(len(t.columns)), ", ".join(t.key)) for t in schema.tables]
    return ["table", "what", "columns", "key"], list(rows)


def tables_with_limits(schema: Schema) -> tuple[list[str], list[Sequence[str]]]:
    """The declared tables with what one person can have in them, and where their rows lead: a header and rows of text."""
    rows = [
        (t.name, kind(t, schema), _most(t.max_rows_per_unit, t), _most(t.max_groups_per_unit, t), _leads(t), t.source)
        for t in schema.tables
    ]
    return ["table", "what", "rows of a person", "groups of a person", "references", "source"], list(rows)


def _most(limit: int | None, table: Table) -> str:
    each = f" a {table.period.every}" if table.period is not None else ""
    return "" if limit is None else f"at most {limit:,}{each}"


def _leads(table: Table) -> str:
    return ", ".join(f"{'+'.join(r.columns)} to {r.table}" for r in table.references)


def columns(table: Table) -> tuple[list[str], list[Sequence[str]]]:
    """The declared columns of a table."""
    rows = [(c.name, str(c.sqltype), domain_text(c), notes(c, table)) for c in table.columns]
    return ["column", "type", "declared values", "notes"], list(rows)


def notes(column: Column, table: Table) -> str:
    """Describe the remaining facts of a column that a statement should know."""
    found = ["key"] if table.key == (column.name,) else []
    named = [(r.table, r.targets[r.columns.index(column.name)]) for r in table.referring(column.name)]
    found += [f"of {leads}.{target}" for leads, target in named]
    found += ["identifier: never shown"] if column.role == "identifier" else []
    found += ["may be NULL"] if column.nullable else []
    if column.sqltype.element is not None:
        found.append(f"at most {column.length:,} elements; a longer list counts as NULL")
    if not table.public and column.sqltype.is_number and not domain_text(column) and column.role == "measure":
        found.append("no bounds: SUM needs dp_sum")
    return ", ".join(found)


def limits(table: Table, schema: Schema) -> str:
    """Describe the rows and groups that one person can have in a table, as one line; "" where nothing is declared."""
    if table.public:
        return f"{table.name} is public: statements about it alone are exact and free"
    return f"{table.name}: {_counted(table) or kind(table, schema)}"


def _counted(table: Table) -> str:
    parts = []
    if table.max_rows_per_unit is not None:
        parts.append(f"at most {table.max_rows_per_unit:,} rows of one person are counted")
    if table.max_groups_per_unit is not None:
        parts.append(f"in at most {table.max_groups_per_unit:,} groups")
    if parts and table.period is not None:
        parts.append(f"in each {table.period.every} of {table.period.column}")
    return ", ".join(parts)


def domain(column: Column, table: Table) -> list[str]:
    """All that is declared of a column, one line a fact."""
    found = [f"{table.name}.{column.name}: {column.sqltype}"]
    values = (column.element or column).domain
    if isinstance(values, Categories):
        found.append(f"{len(values.values):,} declared values: {domain_text(column, len(values.values))}")
    elif isinstance(values, Interval):
        found.append(f"bounds: {domain_text(column)}; what lies outside counts as the nearer one")
    else:
        found.append("no bounds and no list of values are declared")
    if column.length is not None and column.sqltype.is_text and not table.public:
        found.append(f"at most {column.length:,} characters; a longer text counts as NULL")
    if column.unit_bounds is not None:
        found.append(f"one person's total: {_ends(column.unit_bounds, column)}")
    if column.domain_from is not None:
        found.append(f"listed by the public table {'.'.join(column.domain_from)}")
    more = notes(column, table)
    return [*found, more] if more else found


def table_comment(table: Table, schema: Schema) -> str:
    """Describe a table in a comment on it."""
    if table.public:
        return "public: statements about it alone are exact and free"
    if schema.privacy.unit == ROW:
        return "private: each row is its own privacy unit"
    return "; ".join(
        filter(None, (f"private, {kind(table, schema)}", f"privacy unit {schema.privacy.unit}", _counted(table)))
    )


def column_comment(column: Column, table: Table, schema: Schema) -> str:
    """Describe a column in a comment on it; "" where its type says it all."""
    declared, private = domain_text(column), not table.public
    found = ["privacy unit"] if private and schema.unit_column(table) == column.name else []
    if declared and not column.sqltype.is_boolean:
        found.append(f"{'bounds' if isinstance(column.domain, Interval) else 'values'} {declared}")
    if column.unit_bounds is not None:
        found.append(f"one person's total {_ends(column.unit_bounds, column)}")
    if column.domain_from is not None:
        found.append(f"listed by {'.'.join(column.domain_from)}")
    if private and column.role == "quasi":
        found.append("quasi-identifier: counted, in no condition")
    return "; ".join(filter(None, (*found, notes(column, table))))
