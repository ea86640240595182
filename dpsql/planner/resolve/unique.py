"""Unique columns of a public query, in which no two rows agree: what lets people's rows be joined with it (rule 9).

A set that was claimed and did not hold would multiply people's rows behind the back of their sensitivity. So a set is claimed only
where the syntax proves it, every name is resolved to one column of one source first, and what is not plainly one of the cases
below claims nothing. The rows themselves are looked at again when the query is bound (release/staging.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sqlglot import exp

from dpsql.core.sqltypes import SqlType
from dpsql.planner.grammar import is_aggregate
from dpsql.planner.resolve.syntax import flat_conjuncts, is_query, parts_of, unaliased, where_parts

Unique = frozenset[frozenset[int]]
"""Sets of column positions. The empty set says that there is one row at most."""
Place = tuple[int, int]
"""A column of a source: the position of the source in FROM, and its own in the source."""

NOTHING: Unique = frozenset()
ONE_ROW: Unique = frozenset({frozenset()})


@dataclass(frozen=True, slots=True)
class Shown:
    """One source of a public SELECT: its name, its columns in order, both in lower case, and what is unique in it.

    types  the types of a declared table's columns; () for a query
    """

    name: str
    columns: tuple[str, ...]
    unique: Unique
    types: tuple[SqlType, ...] = ()

    @property
    def is_clear(self) -> bool:
        """True if every name means one column: the engine gives repeated ones others of its own."""
        return len(set(self.columns)) == len(self.columns)


def of_select(select: exp.Select, sources: Sequence[Shown]) -> Unique:
    """The unique sets of a SELECT over public sources."""
    if select.args.get("from_") is None or _limited_to_one(select):
        return ONE_ROW
    grouped = select.args.get("group") is not None
    if not grouped and _is_aggregated(select):
        return ONE_ROW
    if not all(source.is_clear for source in sources):
        return NOTHING
    if grouped:
        return _of_groups(select, sources)
    projections = _projections(select, sources)
    if projections is None:
        return NOTHING
    distinct = select.args.get("distinct")
    if distinct is not None:
        return NOTHING if distinct.args.get("on") else frozenset({frozenset(range(len(projections)))})
    return _of_rows(projections, _joined(select, sources))


def of_release(tree: exp.Select, released: str, keys: Sequence[str]) -> Unique:
    """Every group of a release is one row: the positions of its keys, where all of them are shown as they are."""
    if _limited_to_one(tree):
        return ONE_ROW
    places = {}
    for position, projection in enumerate(tree.expressions):
        node = unaliased(projection)
        if isinstance(node, exp.Column) and node.table == released:
            places[node.name] = position
    return frozenset({frozenset(places[key] for key in keys)}) if all(key in places for key in keys) else NOTHING


def _limited_to_one(select: exp.Select) -> bool:
    limit = select.args.get("limit")
    count = limit.expression if isinstance(limit, exp.Limit) else None
    return isinstance(count, exp.Literal) and not count.is_string and count.name == "1"


def _is_aggregated(select: exp.Select) -> bool:
    """True if a SELECT without GROUP BY is one row: it has an aggregate of its own rows, and no window."""
    parts = [part for projection in select.expressions for part in parts_of(projection)]
    if any(isinstance(part, exp.Window) for part in parts):
        return False
    return any(is_aggregate(part) for part in parts)


def _of_groups(select: exp.Select, sources: Sequence[Shown]) -> Unique:
    """One row for each value of the group keys, where every key is shown."""
    group = select.args["group"]
    projections = _projections(select, sources)
    if len(select.expressions) > 1 and any(map(_is_star, select.expressions)):
        # a number in GROUP BY is a place among columns of which a star is several
        return NOTHING
    if projections is None or any(group.args.get(part) for part in ("all", "rollup", "cube", "grouping_sets")):
        return NOTHING
    places = [_place_of_key(key, select, projections, sources) for key in group.expressions]
    return frozenset({frozenset(p for p in places if p is not None)}) if None not in places else NOTHING


Identity = tuple[str, object]
"""The identity of what an expression computes: ("column", (source, column)), or ("text", its SQL) where every name in it is clear."""


def _projections(select: exp.Select, sources: Sequence[Shown]) -> list[Identity | None] | None:
    """Columns that a query shows, those of a star one by one; None where a star hides which columns there are, or shows others than
    those."""
    found: list[Identity | None] = []
    for projection in select.expressions:
        if not _is_star(projection):
            found.append(_identity(unaliased(projection), sources))
            continue
        source = _of_star(projection, sources)
        if source is None:
            return None
        found += [("column", (source, i)) for i in range(len(sources[source].columns))]
    return found


def _of_star(star: exp.Expression, sources: Sequence[Shown]) -> int | None:
    """The one source of which a star shows every column as it is: of several sources, columns may be merged."""
    table = star.table.lower() if isinstance(star, exp.Column) else ""
    named = [i for i, source in enumerate(sources) if table in ("", source.name)]
    return named[0] if len(named) == 1 and len(sources) == 1 and _is_whole(star) else None


def _is_star(node: exp.Expression) -> bool:
    return isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star))


def _is_whole(node: exp.Expression) -> bool:
    """True for a star that shows every column as it is: without EXCLUDE, REPLACE and RENAME."""
    star = node.this if isinstance(node, exp.Column) else node
    return isinstance(star, exp.Star) and not any(star.args.values())


def _identity(node: exp.Expression, sources: Sequence[Shown]) -> Identity | None:
    if isinstance(node, exp.Column):
        place = _place(node, sources)
        return ("column", place) if place is not None else None
    parts = list(parts_of(node))
    clear = not any(is_query(part) for part in parts)
    clear = clear and all(_place(part, sources) is not None for part in parts if isinstance(part, exp.Column))
    return ("text", node.sql(dialect="duckdb", comments=False)) if clear else None


def _place(node: exp.Column, sources: Sequence[Shown]) -> tuple[int, int] | None:
    """The one column of the one source that a name can mean."""
    table, name = node.table.lower(), node.name.lower()
    found = [
        (i, j)
        for i, source in enumerate(sources)
        if not table or source.name == table
        for j, column in enumerate(source.columns)
        if column == name
    ]
    return found[0] if len(found) == 1 else None


def _place_of_key(
    key: exp.Expression, select: exp.Select, projections: list[Identity | None], sources: Sequence[Shown]
) -> int | None:
    """The position that shows a group key: of GROUP BY 2, of an alias that no column has, or of the same expression."""
    if isinstance(key, exp.Literal):
        position = int(key.name) - 1 if not key.is_string and key.name.isdigit() else -1
        listed = select.expressions
        return position if 0 <= position < len(listed) and not _is_star(listed[position]) else None
    if isinstance(key, exp.Column) and not key.table and not any(key.name.lower() in s.columns for s in sources):
        named = [i for i, p in enumerate(select.expressions) if p.alias.lower() == key.name.lower()]
        return named[0] if len(named) == 1 else None
    found = _identity(key, sources)
    return projections.index(found) if found is not None and found in projections else None


def _of_rows(projections: list[Identity | None], unique: frozenset[frozenset[Place]]) -> Unique:
    """The rows of FROM keep their unique columns, whatever WHERE, ORDER BY and LIMIT leave of them."""
    shown: dict[object, int] = {}
    for position, found in enumerate(projections):
        if found is not None and found[0] == "column":
            shown.setdefault(found[1], position)
    sets = [{shown.get(place) for place in places} for places in unique]
    return frozenset(frozenset(p for p in found if p is not None) for found in sets if None not in found)


def _joined(select: exp.Select, sources: Sequence[Shown]) -> frozenset[frozenset[Place]]:
    """The unique columns of the rows of FROM.

    Why  a row of a join is one row of each side: a unique set of the one and of the other together name it. Where a row of one side
         meets at most one of the other, because a unique set of that is equated, its own set names it alone; a LEFT JOIN repeats the
         NULLs of its right side, whose sets alone then name nothing. What holds of the rows of FROM holds of those WHERE leaves
    """
    joins = select.args.get("joins") or []
    items = [select.args["from_"].this, *(join.this for join in joins)]
    if len(items) != len(sources) or any(item.args.get("joins") or item.args.get("laterals") for item in items):
        return frozenset()
    if any(not _is_plain(join) for join in joins):
        return frozenset()
    filters = [] if any(join.side for join in joins) else where_parts(select)
    found = _own(sources, 0)
    for i, join in enumerate(joins, 1):
        on = join.args.get("on")
        equated = _equated([*filters, *(flat_conjuncts(on) if on is not None else ())], sources, i)
        own, kept = _own(sources, i), frozenset[frozenset[Place]]()
        if any(places <= {theirs for _, theirs in equated} for places in own):
            kept |= found
        if not join.side and any(places <= {mine for mine, _ in equated} for places in found):
            kept |= own
        found = kept or frozenset(mine | theirs for mine in found for theirs in own)
    return found


def _own(sources: Sequence[Shown], i: int) -> frozenset[frozenset[Place]]:
    return frozenset(frozenset((i, j) for j in positions) for positions in sources[i].unique)


def _is_plain(join: exp.Join) -> bool:
    """True for an inner, cross or left join by ON or by WHERE."""
    side, kind = (join.side or "").upper(), (join.kind or "").upper()
    kinds = {"": ("", "INNER", "CROSS"), "LEFT": ("", "OUTER")}
    return not join.args.get("method") and not join.args.get("using") and kind in kinds.get(side, ())


def _equated(conditions: Iterable[exp.Expression], sources: Sequence[Shown], i: int) -> set[tuple[Place, Place]]:
    """The columns of earlier sources that are equal to columns of source `i`.

    Why  both are of one type, of whole numbers or text: values that the engine converts may be equal without being the same
    """
    found = set()
    for condition in conditions:
        sides = (condition.left, condition.right) if isinstance(condition, exp.EQ) else ()
        places = [_place(side, sources) for side in sides if isinstance(side, exp.Column)]
        match sorted(place for place in places if place is not None):
            case [mine, theirs] if mine[0] < i == theirs[0] and _are_alike(sources, mine, theirs):
                found.add((mine, theirs))
    return found


def _are_alike(sources: Sequence[Shown], *places: Place) -> bool:
    if not all(sources[i].types for i, _ in places):
        return False
    types = {sources[i].types[j] for i, j in places}
    return len(types) == 1 and all(t.is_integer or t.is_text for t in types)
