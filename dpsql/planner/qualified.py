"""qualified: Query -> Query. A declared table that is named with its SQL schema or dataset is named without, and so are its columns.

The meaning that a name has without this wins: a table of information_schema or of what was spent, a source of FROM, a WITH query.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sqlglot import exp

from dpsql.core.errors import Error, error
from dpsql.core.spans import span_of
from dpsql.planner.parse import Query
from dpsql.planner.resolve.catalog import CATALOG
from dpsql.schema import qualifiers, spent
from dpsql.schema.model import Schema


def in_main(parsed: Query, schema: Schema) -> Query:
    """The same statement with one way to name each declared table: `main.t` where a WITH query is called t, else `t`.

    Raises 105 for a column behind words that mean nothing.
    """
    named = list(_qualified(parsed.tree, schema))
    if not named:
        return parsed
    queries = {cte.alias.lower() for cte in parsed.tree.find_all(exp.CTE)}
    tree = parsed.tree.copy()
    for node in list(_qualified(tree, schema)):
        node.set("catalog", None)
        node.set("db", exp.to_identifier(qualifiers.MAIN) if _is_hidden(node, queries) else None)
    return replace(parsed, tree=tree, plain=_rewritten(parsed, named, queries))


def _is_hidden(node: exp.Table | exp.Column, queries: set[str]) -> bool:
    """True if a WITH query has the name of a table."""
    return isinstance(node, exp.Table) and node.name.lower() in queries


def _qualified(tree: exp.Expression, schema: Schema) -> Iterator[exp.Table | exp.Column]:
    """The tables and columns whose first words are to go."""
    shown = {node.name.lower() for node in tree.find_all(exp.Table) if node.alias.lower() in ("", node.name.lower())}
    named: list[exp.Table | exp.Column] = [*tree.find_all(exp.Table), *tree.find_all(exp.Column)]
    for node in named:
        words = (node.catalog, node.db)
        name = node.name if isinstance(node, exp.Table) else node.table
        if not any(words) or (not words[0] and (words[1].lower() == CATALOG or spent.is_one(words[1], name))):
            continue
        known = qualifiers.table(schema, *words, name) is not None
        if isinstance(node, exp.Column) and not (known and name.lower() in shown):
            raise _unknown(node)
        if known:
            yield node


def _unknown(node: exp.Column) -> Error:
    shown = ".".join(word for word in (node.catalog, node.db, node.table) if word)
    hint = f"write {node.table}.{node.name}"
    return error(105, f"there is no table {shown[:60]!r} in this statement", hint=hint, span=span_of(node))


def _rewritten(parsed: Query, named: list[exp.Table | exp.Column], queries: set[str]) -> str | None:
    """The text as it was written, but for those words; None where their places are not known."""
    if parsed.plain is None:
        return None
    begin, text = parsed.sql.find(parsed.plain), parsed.plain
    cuts = [(_words(node), f"{qualifiers.MAIN}." * _is_hidden(node, queries)) for node in named]
    places = [(place, instead) for place, instead in cuts if place is not None]
    for (start, end), instead in sorted(places, reverse=True):
        text = text[: start - begin] + instead + text[end - begin :]
    return text if len(places) == len(cuts) and begin >= 0 else None


def _words(node: exp.Table | exp.Column) -> tuple[int, int] | None:
    """Span of the words before a table's name in the text."""
    parts = [part for part in (node.args.get("catalog"), node.args.get("db")) if part is not None]
    parts.append(node.this if isinstance(node, exp.Table) else node.args["table"])
    if not all("start" in part.meta for part in parts):
        return None
    return parts[0].meta["start"], parts[-1].meta["start"]
