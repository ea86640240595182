"""HAVING COUNT(*) > 0 and its spellings, which tools add to every question: a group that is there has rows.

Why  it is true of every group of a plain statement, so it says nothing that would have to be bought. Which statistics are bought
     depends on the text alone
"""

from __future__ import annotations

from sqlglot import exp

from dpsql.planner.resolve.syntax import all_of, flat_conjuncts, parts_of

_OF_NONE: dict[type[exp.Expression], str] = {exp.GT: "0", exp.GTE: "1", exp.NEQ: "0"}
"""With which number each comparison says that there are rows."""
_MIRRORED: dict[type[exp.Expression], str] = {exp.LT: "0", exp.LTE: "1", exp.NEQ: "0"}
_SHOWN = ("expressions", "qualify", "order", "windows")


def said_of_groups(select: exp.Select) -> exp.Expression | None:
    """What HAVING asks of groups; None for nothing. Where the number of rows is asked for elsewhere too, it is compared all the same:
    then a group that seems to be empty is left out, as it says.
    """
    having = select.args.get("having")
    if having is None:
        return None
    whole: exp.Expression = having.this
    parts = flat_conjuncts(whole)
    kept = [part for part in parts if not _says_there_are_rows(part)]
    if len(kept) == len(parts) or any(_counts_rows(node) for node in (*kept, *_shown(select))):
        return whole
    return all_of(kept) if kept else None


def _says_there_are_rows(node: exp.Expression) -> bool:
    node = _bare(node)
    if not isinstance(node, exp.Binary):
        return False
    left, right = _bare(node.this), _bare(node.expression)
    if _is_row_count(left):
        return _is_number(right, _OF_NONE.get(type(node)))
    return _is_row_count(right) and _is_number(left, _MIRRORED.get(type(node)))


def _bare(node: exp.Expression) -> exp.Expression:
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def _is_number(node: exp.Expression, digits: str | None) -> bool:
    return isinstance(node, exp.Literal) and not node.is_string and node.name == digits


def _is_row_count(node: exp.Expression) -> bool:
    """COUNT(*), COUNT(1)."""
    if not isinstance(node, exp.Count) or node.expressions or isinstance(node.parent, exp.Filter | exp.Window):
        return False
    return isinstance(node.this, exp.Star) or (isinstance(node.this, exp.Literal) and not node.this.is_string)


def _counts_rows(node: exp.Expression) -> bool:
    return any(_is_row_count(part) for part in parts_of(node))


def _shown(select: exp.Select) -> list[exp.Expression]:
    found: list[exp.Expression] = []
    for name in _SHOWN:
        value = select.args.get(name)
        found += value if isinstance(value, list) else [value] if isinstance(value, exp.Expression) else []
    return found
