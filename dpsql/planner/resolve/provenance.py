"""provenance: which released column a column of a query over releases shows, and whether constants of the query choose its rows."""

from __future__ import annotations

from collections.abc import Container

from sqlglot import exp

from dpsql.core.cancellation import check

Shown = tuple[str, str] | None
"""A table and its column; None for what is computed."""
_COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Between)


def shows(tree: exp.Expression, columns: int) -> tuple[Shown, ...]:
    """For each column of a query the table's column that it shows unchanged."""
    return tuple(_shown(tree, i) for i in range(columns))


def chooses(tree: exp.Expression, values: Container[Shown]) -> bool:
    """True if a constant of a query may choose among the rows that it shows: it is no column of its own, it is not compared with
    released aggregates alone, and not the LIMIT of rows that are ordered by one.

    values  the released aggregates, by table and column
    """
    for node in tree.find_all(exp.Literal, exp.Boolean):
        check()
        if _is_column_of(tree, node) or _is_limit(node, values):
            continue
        compared = node.find_ancestor(*_COMPARISONS)
        columns = list(compared.find_all(exp.Column)) if compared is not None else []
        if not columns or any(_named(column) not in values for column in columns):
            return True
    return False


def _is_limit(node: exp.Expression, values: Container[Shown]) -> bool:
    """True if a constant limits rows that are in the order of a released aggregate, which nobody chooses."""
    limit = node.find_ancestor(exp.Limit, exp.Offset, exp.Fetch)
    select = limit.parent if isinstance(limit, exp.Limit) else None
    order = select.args.get("order") if isinstance(select, exp.Select) else None
    if select is None or order is None or select.args.get("offset") is not None:
        return False
    first = order.expressions[0].this
    named = {p.alias: p.this for p in select.expressions if isinstance(p, exp.Alias)}
    if isinstance(first, exp.Column) and not first.table and first.name in named:
        first = named[first.name]
    return isinstance(first, exp.Column) and _named(first) in values


def _shown(tree: exp.Expression, position: int) -> Shown:
    select = tree.unnest() if isinstance(tree, exp.Subquery) else tree
    if (
        not isinstance(select, exp.Select)
        or position >= len(select.expressions)
        or select.args.get("with_") is not None
    ):
        return None
    node = select.expressions[position].unalias()
    while isinstance(node, exp.Paren):
        node = node.this
    return _named(node) if isinstance(node, exp.Column) and not node.is_star else None


def _named(column: exp.Column) -> Shown:
    """The stored column that a column of a query shows."""
    select = column.find_ancestor(exp.Select)
    source = select.args.get("from_") if select is not None else None
    if select is None or source is None:
        return None
    sources = [source.this, *(join.this for join in select.args.get("joins") or [])]
    found = [s for s in sources if column.table in ("", s.alias_or_name)]
    if len(found) != 1 or (not column.table and len(sources) > 1):
        return None
    if isinstance(found[0], exp.Table):
        return (found[0].name, column.name)
    if not isinstance(found[0], exp.Subquery) or found[0].alias_column_names:
        return None
    inner = found[0].unnest()
    names = [p.alias_or_name for p in inner.expressions]
    if not isinstance(inner, exp.Select) or names.count(column.name) != 1:
        return None
    return _shown(inner, names.index(column.name))


def _is_column_of(tree: exp.Expression, node: exp.Expression) -> bool:
    """True if a constant is by itself a column of the query: no row is chosen by it."""
    whole = node.parent if isinstance(node.parent, exp.Alias) else node
    return (
        whole.parent is (tree.unnest() if isinstance(tree, exp.Subquery) else tree) and whole.arg_key == "expressions"
    )
