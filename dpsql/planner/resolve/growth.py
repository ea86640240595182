"""Text that could grow too long: which column's `length` would let the statement be answered."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from sqlglot import exp

from dpsql.core.errors import Error
from dpsql.schema.model import Column, Schema, Table

TOO_LONG = "DPSQL-204"
_LENGTHS = (128, 64, 32, 16, 8, 4)
"""Lengths that are tried, the largest that helps is named."""
_MOST_COLUMNS = 4


def helped(problem: Error, tree: exp.Expression, schema: Schema, resolves: Callable[[Schema], object]) -> Error:
    """The refusal with what to declare, found by trying it; as it is where no shorter column helps.

    resolves  reads the statement with another schema, and raises where it is refused
    """
    for table, column in _texts(tree, schema):
        if not _answers(_shortened(schema, table, column, _LENGTHS[-1]), resolves):
            continue
        shorter = [length for length in _LENGTHS if length < (column.longest or 0)]
        fits = next((n for n in shorter if _answers(_shortened(schema, table, column, n), resolves)), _LENGTHS[-1])
        what = f"declare length = {fits} for {table.name}.{column.name}"
        problem.hint = f"{what} in the schema if no value is longer, or append fewer texts to each other"
        break
    return problem


def _texts(tree: exp.Expression, schema: Schema) -> Iterator[tuple[Table, Column]]:
    """Text columns of people's tables that the statement names, the longest first, and only a few."""
    named = {node.name.lower() for node in tree.find_all(exp.Column)}
    found = [
        (table, column)
        for table in schema.tables
        if not table.public
        for column in table.columns
        if column.sqltype.is_text and column.name.lower() in named
    ]
    yield from sorted(found, key=lambda one: -(one[1].longest or 0))[:_MOST_COLUMNS]


def _shortened(schema: Schema, table: Table, column: Column, length: int) -> Schema:
    shorter = replace(table, columns=tuple(replace(c, length=length) if c is column else c for c in table.columns))
    return replace(schema, tables=tuple(shorter if t is table else t for t in schema.tables))


def _answers(schema: Schema, resolves: Callable[[Schema], object]) -> bool:
    """Whether the length was all that was wrong."""
    try:
        resolves(schema)
    except Error as other:
        return other.code != TOO_LONG
    return True
