"""Which declared tables a statement reads, and whether its shape can be answered."""

from __future__ import annotations

import difflib

from sqlglot import exp

from dpsql.errors import Error, error
from dpsql.schema.model import Schema, Table
from dpsql.spans import span_of


def declared_tables(tree: exp.Expression, schema: Schema) -> list[tuple[exp.Table, Table]]:
    """Every table node with its declaration. Raises 105 for a name that is neither declared nor a CTE of the statement."""
    found: list[tuple[exp.Table, Table]] = []
    for node in tree.find_all(exp.Table):
        if not node.db and node.name.lower() in _visible_ctes(node):
            continue
        table = schema.table(node.name) if node.db.lower() in ("", "main") else None
        if table is None:
            raise _unknown(node, schema)
        found.append((node, table))
    return found


def _visible_ctes(node: exp.Table) -> set[str]:
    """The CTE names that stand for themselves at a table: those of the queries around it, and inside a CTE only earlier ones."""
    names: set[str] = set()
    inside: exp.Expression = node
    around = node.parent
    while isinstance(around, exp.Expression):
        if isinstance(around, exp.With):
            names |= {cte.alias.lower() for cte in around.expressions[: inside.index or 0]}
        clause = around.args.get("with_")
        if clause is not None and clause is not inside:
            names |= {cte.alias.lower() for cte in clause.expressions}
        inside, around = around, around.parent
    return names


def _unknown(node: exp.Table, schema: Schema) -> Error:
    names = [t.name for t in schema.tables]
    near = difflib.get_close_matches(node.name.lower(), names, 1)
    shown = f"{node.db}.{node.name}" if node.db else node.name
    hint = f"did you mean {near[0]}?" if near else "the tables are " + ", ".join(names[:12])
    return error(105, f"there is no table {shown[:60]!r}", hint=hint, span=span_of(node))


def check_shape(tree: exp.Expression, nodes: list[exp.Table], private: list[Table]) -> exp.Select:
    """The one SELECT over one private table that can be answered. Raises 402 for joins, subqueries and set operations."""
    if not isinstance(tree, exp.Select):
        raise error(402, "a set operation over people's rows is not supported", hint="ask each SELECT by itself")
    for kind, words in (
        (exp.CTE, "a WITH query that reads people's rows is not supported; write one SELECT"),
        (exp.Join, "a join of people's rows is not supported; ask about one table at a time"),
        (exp.Exists, "EXISTS over people's rows would show whether someone is there; ask for COUNT(*) instead"),
        (exp.Subquery, "a subquery over people's rows is not supported; ask it by itself first"),
    ):
        found = tree.find(kind)
        if found is not None:
            message, _, hint = words.partition("; ")
            raise error(402, message, hint=hint, span=span_of(found))
    for node in tree.find_all(exp.In):
        if node.args.get("query"):
            raise error(
                402,
                "IN (SELECT ...) over people's rows is not supported",
                hint="list the values: x IN (1, 2)",
                span=span_of(node),
            )
    if len(nodes) != 1 or len(list(tree.find_all(exp.Select))) != 1:
        raise error(
            402,
            "a subquery over people's rows is not supported",
            hint="ask about one table at a time",
            span=span_of(nodes[-1]),
        )
    assert private
    return tree
