"""Default roles of columns, where their owner names none."""

from __future__ import annotations

from dpsql.core.domains import Categories, Interval
from dpsql.schema.dependences import deriving, leading
from dpsql.schema.model import Column, Schema, Table


def default_role(schema: Schema, table: Table, column: Column) -> str:
    """The first that fits, so that what identifies a person is never taken for anything weaker.

    A reference to any private table counts as one on the path to the unit: its values are those of an identifier. That a column can
    tell people apart (`quasi`) its owner says: rule R5 refuses conditions on it. What is part of a reference over several columns,
    or of the key that it leads to, is an identifier unless its values are listed: an order's number in its store is, the store is not.
    """
    reference = table.reference(column.name)
    target = schema.table(reference.table) if reference else None
    own_key = not table.public and (column.name,) in (table.key, *deriving(schema, table))
    if holds_unit(schema, table, column.name) or own_key or (target and not target.public):
        return "identifier"
    if isinstance(column.domain, Categories) or column.domain_from or column.sqltype.is_boolean or target:
        return "dimension"
    if _is_part(schema, table, column.name):
        return "identifier"
    return "grid" if isinstance(column.domain, Interval) and column.step is not None else "measure"


def holds_unit(schema: Schema, table: Table, column: str) -> bool:
    """True if a column's values are the unit's: the unit itself, or a reference to it."""
    unit, reference = (schema.privacy.unit_table, schema.privacy.unit_column), table.reference(column)
    return unit == (table.name, column) or (reference is not None and unit == (reference.table, reference.targets[0]))


def _is_part(schema: Schema, table: Table, column: str) -> bool:
    """True if a column is part of a reference over several columns among private tables, of the key that one leads to, or of what
    determines the unit."""
    if table.public:
        return False
    named = (schema.table(r.table) for r in table.referring(column) if len(r.columns) > 1)
    return any(t is not None and not t.public for t in named) or any(
        column in columns for columns in (*(r.targets for r in leading(schema, table)), *deriving(schema, table))
    )
