"""resolve: Parsed -> Resolved. Names, types and domains; private blocks become releases, the rest becomes the shell."""

from __future__ import annotations

from sqlglot import exp

from dpsql.errors import error
from dpsql.plan import Resolved, Shell
from dpsql.planner.parse import DUCKDB, Parsed
from dpsql.planner.resolve.block import resolve_block
from dpsql.planner.resolve.tables import check_shape, declared_tables
from dpsql.schema.model import Schema


def resolve(parsed: Parsed, schema: Schema) -> Resolved:
    """Classify the statement and set its private block apart.

    Raises 102-109 (names, types, misplaced aggregates), 3xx (rows or groups that are people), 402 (joins and subqueries).
    """
    problem = True
    try:
        return _resolve(parsed, schema)
    except RecursionError:
        pass
    assert problem
    raise error(107, "the statement is nested too deeply", hint="write fewer nested expressions")


def _resolve(parsed: Parsed, schema: Schema) -> Resolved:
    tree = parsed.tree
    assert tree is not None
    tables = declared_tables(tree, schema)
    private = [table for _, table in tables if not table.public]
    if not private:
        return Resolved((), _public_shell(tree, tuple(sorted({table.name for _, table in tables}))))
    select = check_shape(tree, [node for node, _ in tables], private)
    return resolve_block(select, private[0], schema)


def _public_shell(tree: exp.Expression, public: tuple[str, ...]) -> Shell:
    """A statement over public tables only: exact and free."""
    sql = DUCKDB.generate(tree, comments=False)
    return Shell(sql, sql, public, (), traced=False)
