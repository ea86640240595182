"""qualified: Query -> Query. A declared table that is named with its SQL schema or dataset, or by a part of its name, is named as it is
declared, and columns after what FROM calls it.

The meaning that a name has without this wins: a table of information_schema or of what was spent, a source of FROM, a WITH query.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from dpsql.core.errors import Error, error
from dpsql.core.spans import span_of
from dpsql.planner.parse import Query
from dpsql.planner.resolve.catalog import CATALOG, ambiguous
from dpsql.planner.walks import every
from dpsql.schema import qualifiers, spent
from dpsql.schema.model import Schema, Table
from dpsql.sql.duckdb import quoted


@dataclass(frozen=True, slots=True)
class TableName:
    """A declared table of FROM, as it was written.

    shown  what its columns are named after from now on
    """

    node: exp.Table
    table: Table
    shown: str

    def is_meant(self, schema: Schema, *words: str) -> bool:
        """True if a column behind these words may be its own: an alias hides the name."""
        if self.node.alias:
            return not any(words[:-1]) and words[-1].lower() == self.node.alias.lower()
        names = (self.table.name.lower(), qualifiers.place(self.table.name)[1].lower())
        return self.table in qualifiers.meant(schema, *words) or (not any(words[:-1]) and words[-1].lower() in names)


@dataclass(frozen=True, slots=True)
class Edit:
    """A name that is written otherwise: the parts of it that are replaced, and by what text (None: places are not known)."""

    parts: Sequence[exp.Identifier]
    text: str


def in_main(parsed: Query, schema: Schema) -> Query:
    """The same statement with one way to name each declared table: `main.t` where a WITH query is called t, else `t`.

    Raises 105 for a column behind words that mean nothing, and for a name that means several tables.
    """
    queries = {cte.alias.lower() for cte in every(parsed.tree, exp.CTE)}
    if not _is_other(parsed.tree, schema, queries):
        return parsed
    tree = parsed.tree.copy()
    tables = list(_tables(tree, schema, queries))
    columns = [(node, shown) for node in tree.find_all(exp.Column) for shown in _owner(node, tables, schema)]
    edits = [_column(node, shown) for node, shown in columns] + [_table(found, queries) for found in tables]
    return replace(parsed, tree=tree, plain=_rewritten(parsed, edits))


def _is_other(tree: exp.Expression, schema: Schema, queries: set[str]) -> bool:
    """True if anything is named other than by a whole declared name without a point."""
    for node in every(tree, exp.Table, exp.Column):
        if node.args.get("db") is not None:
            return True
        if isinstance(node, exp.Table) and node.name.lower() not in queries:
            known = schema.table(node.name)
            if "." in node.name or (known is None and qualifiers.meant(schema, node.name)):
                return True
    return False


# --- tables -----------------------------------------------------------------------------------------------------------


def _tables(tree: exp.Expression, schema: Schema, queries: set[str]) -> Iterator[TableName]:
    """The declared tables of FROM. Raises 105 for a name that means several."""
    found: list[tuple[exp.Table, Table]] = []
    for node in tree.find_all(exp.Table):
        words = (node.catalog, node.db, node.name)
        if _is_kept(words) or (not any(words[:2]) and node.name.lower() in queries):
            continue
        meant = qualifiers.meant(schema, *words)
        if len(meant) > 1:
            raise ambiguous(".".join(filter(None, words)), [t.name for t in meant], span_of(node))
        found += [(node, table) for table in meant]
    for node, table in found:
        yield TableName(node, table, _shown(node, table, tree, found))


def _is_kept(words: tuple[str, str, str]) -> bool:
    """True for a table of information_schema, of what was spent, or of synthetic rows."""
    own = spent.is_one(*words[1:]) or spent.is_synthetic(words[1])
    return not words[0] and (words[1].lower() == CATALOG or own)


def _shown(node: exp.Table, table: Table, tree: exp.Expression, found: Sequence[tuple[exp.Table, Table]]) -> str:
    """Alias of a table, else the last part of its name, else the whole where the statement calls something else so."""
    if node.alias or "." not in table.name or node.name.lower() == table.name.lower():
        return node.alias_or_name
    others = {id(one): other for one, other in found}
    for one in tree.find_all(exp.Table, exp.Subquery, exp.CTE):
        if one.alias_or_name.lower() == node.name.lower() and others.get(id(one)) is not table:
            return table.name
    return node.name


def _table(found: TableName, queries: set[str]) -> Edit:
    """Name a table as it is declared."""
    node, name = found.node, found.table.name
    parts = _parts(node, "this")
    main = f"{qualifiers.MAIN}." * (name.lower() in queries)
    node.set("catalog", None)
    node.set("db", exp.to_identifier(qualifiers.MAIN) if main else None)
    if "." not in name:
        return Edit(parts, main + _written(parts[-1]))
    node.set("this", _identifier(name, parts))
    alias = "" if node.alias or found.shown.lower() == name.lower() else f" AS {quoted(found.shown)}"
    if alias:
        node.set("alias", exp.TableAlias(this=exp.to_identifier(found.shown, quoted=True)))
    return Edit(parts, main + quoted(name) + alias)


# --- columns ----------------------------------------------------------------------------------------------------------


def _owner(node: exp.Column, tables: Sequence[TableName], schema: Schema) -> Iterator[str]:
    """The name that the table of a column has from now on. Raises 105 where none, or several, can be meant."""
    words = (node.catalog, node.db, node.table)
    if not words[2] or _is_kept(words):
        return
    select = node.parent_select
    while select is not None:
        here = [one for one in tables if one.node.parent_select is select and one.is_meant(schema, *words)]
        if here:
            if len({one.table.name for one in here}) > 1:
                raise _of_several(node, here)
            yield here[0].shown
            return
        if not any(words[:2]) and words[2].lower() in _aliases(select):
            return
        select = select.parent_select
    if any(words[:2]):
        raise _unknown(node, tables, schema)


def _aliases(select: exp.Expression) -> set[str]:
    """The names of FROM in one SELECT."""
    found = select.find_all(exp.Table, exp.Subquery)
    return {one.alias_or_name.lower() for one in found if one.parent_select is select}


def _column(node: exp.Column, shown: str) -> Edit:
    parts = _parts(node, "table")
    same = node.table.lower() == shown.lower()
    node.set("catalog", None)
    node.set("db", None)
    if not same:
        node.set("table", _identifier(shown, parts))
    return Edit(parts, _written(parts[-1]) if same else quoted(shown))


def _of_several(node: exp.Column, found: Sequence[TableName]) -> Error:
    names = list(dict.fromkeys(f"{one.table.name}.{node.name}" for one in found))
    return ambiguous(f"{node.table}.{node.name}", names, span_of(node))


def _unknown(node: exp.Column, tables: Sequence[TableName], schema: Schema) -> Error:
    words = (node.catalog, node.db, node.table)
    meant = qualifiers.table(schema, *words)
    shown = next((one.shown for one in tables if one.table is meant), None)
    there = f"write {shown or node.table}.{node.name}"
    hint = there if meant is None or shown is not None else f"add {meant.name} to FROM"
    what = f"there is no table {'.'.join(filter(None, words))[:60]!r} in this statement"
    return error(105, what, hint=hint, span=span_of(node))


# --- the text ---------------------------------------------------------------------------------------------------------


def _parts(node: exp.Expression, last: str) -> list[exp.Identifier]:
    """The words of a name, the table's own last."""
    return [part for key in ("catalog", "db", last) if isinstance(part := node.args.get(key), exp.Identifier)]


def _identifier(name: str, parts: Sequence[exp.Identifier]) -> exp.Identifier:
    """A name at the place of other words."""
    found: exp.Identifier = exp.to_identifier(name, quoted=True)
    found.meta.update(parts[-1].meta)
    found.meta.update({key: value for key, value in parts[0].meta.items() if key == "start"})
    return found


def _written(part: exp.Identifier) -> str:
    return quoted(part.name) if part.args.get("quoted") else part.name


def _rewritten(parsed: Query, edits: Sequence[Edit]) -> str | None:
    """The text as it was written, but for those names; None where their places are not known."""
    if parsed.plain is None:
        return None
    begin, text = parsed.sql.find(parsed.plain), parsed.plain
    if begin < 0 or not all("start" in part.meta for edit in edits for part in edit.parts):
        return None
    for edit in sorted(edits, key=lambda one: one.parts[0].meta["start"], reverse=True):
        start, end = edit.parts[0].meta["start"], edit.parts[-1].meta["end"] + 1
        text = text[: start - begin] + edit.text + text[end - begin :]
    return text
