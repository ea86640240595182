"""Catalog of the declared tables and of spending: SHOW, DESCRIBE, information_schema and the tables of spending."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence

from sqlglot import exp

from dpsql.core.errors import Error, error
from dpsql.core.spans import Span, span_of
from dpsql.planner.parse import Catalog
from dpsql.planner.walks import every
from dpsql.schema import qualifiers, spent
from dpsql.schema.model import Schema
from dpsql.sql.duckdb import quoted

CATALOG = "information_schema"
CATALOG_TABLES = ("tables", "columns", "schemata")


def catalog_text(asked: Catalog, schema: Schema) -> str:
    """Query that SHOW TABLES or DESCRIBE runs on the empty declared tables. Raises 105 for a table that is not
    declared."""
    if not asked.table:
        return "SHOW TABLES"
    *words, name = asked.table
    if len(words) == 1 and (spent.is_one(words[0], name) or spent.is_synthetic(words[0])):
        return f"DESCRIBE {quoted(words[0].lower())}.{quoted(name)}"
    found, at = qualifiers.meant(schema, *words, name), asked.sql.rfind(name)
    span = Span(at, at + len(name)) if at >= 0 else None
    if len(found) > 1:
        raise ambiguous(".".join(asked.table), [table.name for table in found], span)
    if not found:
        raise no_table(".".join(words), name, schema, span)
    return f"DESCRIBE {quoted(found[0].name)}"


def ambiguous(written: str, names: Sequence[str], span: Span | None) -> Error:
    """Error 105 for a name that could mean several things."""
    what = f"{written[:60]!r} could mean {', '.join(names[:12])}"
    return error(105, what, hint=f"write {' or '.join(names[:4])}", span=span)


def no_table(qualifier: str, name: str, schema: Schema, span: Span | None) -> Error:
    """Error 105, with the name that was meant, or with those that there are."""
    declared, shown = [table.name for table in schema.tables], f"{qualifier}.{name}" if qualifier else name
    if qualifier.lower() == spent.SCHEMA:
        near = difflib.get_close_matches(name.lower(), list(spent.TABLES), 1, 0.75)
        hint = f"did you mean {spent.SCHEMA}.{near[0]}?" if near else f"there are {', '.join(spent.full_names())}"
    elif same := qualifiers.meant(schema, name):
        hint = f"did you mean {' or '.join(table.name for table in same[:4])}?"
    elif near := _nearest(qualifier, name, [n.lower() for n in declared]):
        hint = f"did you mean {next(n for n in declared if n.lower() == near[0])}?"
    elif not qualifier and name.lower() in spent.TABLES:
        hint = f"did you mean {spent.SCHEMA}.{name.lower()}?"
    else:
        hint = "the tables are " + ", ".join(declared[:12])
    return error(105, f"there is no table {shown[:60]!r}", hint=hint, span=span)


def _nearest(qualifier: str, name: str, declared: list[str]) -> list[str]:
    """The declared name that was meant: by all that was written where names have schemas, else by the table's own."""
    within = qualifier.rpartition(".")[2]
    dotted = [n for n in declared if "." in n] if within else []
    near = difflib.get_close_matches(f"{within}.{name}".lower(), dotted, 1, 0.7)
    return near or difflib.get_close_matches(name.lower(), declared, 1, 0.7)


def reads_catalog_only(tree: exp.Expression, schema: Schema) -> bool:
    """True if a query reads tables of information_schema and nothing else."""
    read = list(_read(tree))
    if not read or not all(_is_catalog(node) for node in read):
        return False
    # else the name could mean the declared table elsewhere in the statement
    return not any(schema.table(cte.alias) is not None for cte in tree.find_all(exp.CTE))


def reads_catalog(tree: exp.Expression) -> bool:
    """True if a query reads a table of information_schema."""
    return any(_is_catalog(node) for node in _read(tree))


def spending_tables(tree: exp.Expression, schema: Schema) -> tuple[str, ...]:
    """The tables of what was spent, and of synthetic rows, that a statement reads, by their whole names; () where there are none.

    Raises 402 where it reads declared tables as well, 105 for a column that is not there.
    """
    read = list(_read(tree))
    found = sorted({f"{node.db}.{node.name}".lower() for node in read if _is_own(node)})
    if not found:
        return ()
    pivot = tree.find(exp.Pivot)
    if pivot is not None:
        what = f"PIVOT and UNPIVOT of {found[0]} cannot be answered"
        raise error(402, what, hint="write SUM(...) FILTER (WHERE ...)", span=span_of(pivot))
    for node in read:
        if not _is_own(node) and not _is_catalog(node):
            raise _together(found[0], node.name, node)
    for cte in tree.find_all(exp.CTE):
        if schema.table(cte.alias) is not None:
            raise error(
                402,
                f"a WITH query beside {found[0]} has the name of a declared table",
                hint=f"name it otherwise than {cte.alias}",
                span=span_of(cte.args["alias"]),
            )
    if not any(spent.is_synthetic(name.partition(".")[0]) for name in found):
        check_columns(tree, found, [name for table in found for name in columns_of(table)])
    return tuple(found)


def quoted_columns(tree: exp.Expression, tables: Iterable[str]) -> exp.Expression:
    """The same with the names of those tables' columns in quotes: DuckDB reserves some of them."""
    names = {name for table in tables for name in columns_of(table)}
    same = tree.copy()
    for node in same.find_all(exp.Identifier):
        if node.name.lower() in names:
            node.set("quoted", True)
    return same


def _together(one: str, other: str, node: exp.Expression) -> Error:
    what = f"{one} cannot stand in one statement with {other}"
    kept = "synthetic rows" if spent.is_synthetic(one.partition(".")[0]) else "what was spent"
    return error(402, what, hint=f"ask for {kept} in a statement of its own", span=span_of(node))


def check_columns(tree: exp.Expression, tables: Sequence[str], columns: Sequence[str]) -> None:
    """Raise 105 for a name that is none of these columns, where names can be looked up: in a statement without queries inside it."""
    if sum(1 for _ in tree.find_all(exp.Query)) > 1 or any(_is_catalog(node) for node in _read(tree)):
        return
    known = [name.lower() for name in columns]
    named = {node.alias.lower() for node in tree.find_all(exp.Alias)}
    for table in tree.find_all(exp.Table):
        named |= {table.alias_or_name.lower(), *(c.lower() for c in table.alias_column_names)}
    for node in tree.find_all(exp.Column):
        name = node.name
        if isinstance(node.this, exp.Star) or name.lower() in known or name.lower() in named:
            continue
        near = difflib.get_close_matches(name.lower(), known, 1, 0.7)
        where = " or ".join(tables)
        hint = f"did you mean {near[0]}?" if near else f"see DESCRIBE {tables[0]}"
        raise error(105, f"there is no column {name[:60]!r} in {where}", hint=hint, span=span_of(node))


def _read(tree: exp.Expression) -> Iterator[exp.Table]:
    """The tables of a statement that are no WITH queries of it."""
    named = every(tree, exp.Table, exp.CTE)
    queries = {node.alias.lower() for node in named if isinstance(node, exp.CTE)}
    return (n for n in named if isinstance(n, exp.Table) and (n.db or n.name.lower() not in queries))


def _is_own(node: exp.Table) -> bool:
    """True for a table of what was spent, or of synthetic rows."""
    return spent.is_one(node.db, node.name) or spent.is_synthetic(node.db)


def columns_of(table: str) -> list[str]:
    """The columns of a table of what was spent; none of one of synthetic rows, which the statement's text does not know."""
    return (
        [name for name, _ in spent.TABLES[table.partition(".")[2]]]
        if not spent.is_synthetic(table.partition(".")[0])
        else []
    )


def _is_catalog(node: exp.Table) -> bool:
    return node.db.lower() == CATALOG and node.name.lower() in CATALOG_TABLES
