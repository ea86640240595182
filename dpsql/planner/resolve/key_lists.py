"""Groups that a release lists: the distinct tuples that declarations and public tables allow, after the conditions that
read keys.

A key list decides which groups are shown and never which rows there are: rows with other keys are left out by the engine before
anything is cut, and the release fills every listed key (rule 13). So a list that holds too little or too much costs accuracy. One unit
is in no more groups than the list has, because that very list drops its other rows.

Values are tried in the sandbox, where nothing private is in reach; what reads a released table is tried when that is released.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from dpsql.core import domains
from dpsql.core.domains import Categories, Value
from dpsql.core.errors import Error, error
from dpsql.core.sqltypes import BIGINT, SqlType
from dpsql.expressions.scalar import Scalar, finite_hull
from dpsql.plan.resolved import GroupKey, InputTable, KeyList
from dpsql.planner.grammar import is_aggregate
from dpsql.planner.limit import as_listed, travels_as_text
from dpsql.planner.resolve.key_inputs import MOST_WRITTEN, side_by_side
from dpsql.planner.resolve.key_tuples import PublicTables, Together, public_tables, together
from dpsql.planner.resolve.statement import Env, Private, Public, Statement
from dpsql.planner.walks import every
from dpsql.relations.relations import Relation
from dpsql.sql.duckdb import advised, printed, quoted
from dpsql.sql.nodes import Aggregate, Cast, Column, Star
from dpsql.sql.queries import Item, Select
from dpsql.sql.trees import sorted_trees, tables

CORRELATED = "keys of the outer query"
"""Left by resolve/correlated.py on a subquery that it made a join: the query that lists the outer's values."""
LOOKED_UP = "looked up by rows around it"
"""Left by resolve/correlated.py on every subquery that it made a join."""
MOST_TRIED = 1_000_000
"""[rows] Of all combinations of the inputs of keys that are tried together."""
Tuples = Sequence[tuple[Value | None, ...]]


@dataclass(frozen=True, slots=True)
class Listed:
    """Group keys with the values that are left of them.

    lists  keys that are listed together, or in public tables
    empty  whether no group is left
    """

    keys: tuple[GroupKey, ...]
    lists: tuple[KeyList, ...] = ()
    empty: bool = False


def key_lists(
    statement: Statement,
    select: exp.Select,
    keys: Sequence[GroupKey],
    relation: Relation,
    env: Env,
    *,
    kept: bool = False,
) -> Listed:
    """The keys with their lists, where declarations or public tables have one.

    kept  whether public rows that nobody is in have their groups too: only what is said of public tables alone leaves one out then
    """
    if kept:
        where, links = (
            tuple(c for c in among if reads_public(c, relation)) for among in (relation.where, relation.links)
        )
        relation = replace(relation, where=where, links=links)
    outer = select.meta.get(CORRELATED)
    if outer is not None:
        listed = _of_outer(statement, outer, keys, env)
        if listed is not None:
            return Listed(tuple(keys), (listed,))
    if not (relation.publics or relation.extended or relation.where) and all(key.scalar.is_column for key in keys):
        return _with_references(statement, Listed(tuple(keys)))
    public = public_tables(relation)
    tried = {i: key for i, one in enumerate(keys) if (key := _tried(one.scalar, public)) is not None}
    found = Listed(tuple(keys))
    for part in together(tried, public, relation.where):
        found = _narrowed(statement, found, part, {i: tried[i] for i in part.keys}, public)
    return _with_references(statement, found)


def reads_public(scalar: Scalar, relation: Relation) -> bool:
    """True if an expression reads public tables that rows are joined with, and nothing else."""
    known = {column.scalar.tree for part in relation.publics for column in part.columns}
    return all(leaf.tree in known for leaf in scalar.leaves()) and not tables(scalar.tree)


def _tried(key: Scalar, public: PublicTables) -> Scalar | None:
    """Group key in public tables alone: what the join equates it with, whose values are then all that it can have; else
    itself, where it has a list by declaration or there."""
    if key.sqltype.is_float and not key.integral:
        return None
    theirs = public.same.get(key.tree)
    if theirs is not None and theirs.sqltype == key.sqltype:
        return theirs
    leaves = list(key.leaves())
    if is_listed(key) or (leaves and all(leaf.tree in public.owner for leaf in leaves)) or _is_image(key, public):
        return key
    return None


def _is_image(key: Scalar, public: PublicTables) -> bool:
    """True for a text that is computed of columns with lists, of people and beside them: its values are those that it has of theirs."""
    own = [leaf for leaf in key.leaves() if leaf.tree not in public.owner]
    return key.sqltype.is_text and not is_listed(key) and bool(own) and all(map(is_listed, own))


def is_listed(scalar: Scalar) -> bool:
    """True if the declaration makes a list of the key (planner/limit.py)."""
    if isinstance(scalar.domain, Categories) or scalar.sqltype.is_boolean:
        return True
    return (scalar.integral or scalar.sqltype.name == "DATE") and domains.integers(scalar.domain) is not None


def is_null_alone(key: Scalar, conditions: Sequence[Scalar]) -> bool:
    """True if a condition leaves NULL alone of an expression."""
    return any(c.function == "is null" and c.args[0].tree == key.tree for c in conditions)


def check_value_list(keys: list[GroupKey], relation: Relation) -> None:
    """Raise 303 for a list of the values of a quantity: what has bounds and is no whole number, unless NULL alone is left of it."""
    for key in keys:
        if is_null_alone(key.scalar, relation.where):
            continue
        scalar = key.scalar
        fractional = (scalar.sqltype.is_float or scalar.sqltype.is_decimal) and not scalar.integral
        if fractional and not is_listed(scalar) and finite_hull(scalar) is not None:
            name = scalar.tree.name if isinstance(scalar.tree, Column) else "x"
            raise error(
                303,
                f"hardly any two people share a value of {name}, a quantity with bounds",
                hint=f"group by a band, such as CAST(FLOOR({advised(name)} / 10) AS INTEGER), or ask for COUNT(*) beside it",
                span=key.span,
            )


def wire_type(scalar: Scalar) -> SqlType:
    """The type in which a listed key travels: whole numbers of any type as integers."""
    return BIGINT if scalar.integral and not travels_as_text(scalar, False) else scalar.sqltype


# --- values that are tried ----------------------------------------------------------------------------------------


def _narrowed(
    statement: Statement, found: Listed, part: Together, tried: Mapping[int, Scalar], public: PublicTables
) -> Listed:
    """The keys with the values that some combination of their inputs gives them, where conditions are true."""
    if not _can_differ(part, tried):
        return found
    query = _query(part, tried)
    rows = _rows(statement, query, part, tried)
    if rows is None:
        others = {i: key for i, key in tried.items() if not _is_image(key, public)}
        if len(others) < len(tried):
            # texts of too many combinations are selected privately
            left = replace(part, keys={i: part.keys[i] for i in others})
            return _narrowed(statement, found, left, others, public) if others else found
        own = all(key is found.keys[i].scalar and is_listed(key) for i, key in tried.items())
        return found if own else _with(found, _bound(statement, query, tried, None))
    if not rows:
        return replace(found, empty=True)
    columns = {i: list(dict.fromkeys(row[at] for row in rows)) for at, i in enumerate(tried)}
    if math.prod(map(len, columns.values())) > len(rows) or any(map(_is_long, columns.values())):
        return _with(found, _bound(statement, query, tried, len(rows)))
    narrow = {i: _with_values(found.keys[i], values) for i, values in columns.items()}
    return replace(found, keys=tuple(narrow.get(i, key) for i, key in enumerate(found.keys)))


def _can_differ(part: Together, tried: Mapping[int, Scalar]) -> bool:
    """True if there is more to learn than what each key's own list says: not of a declared column alone."""
    (key, *more) = tried.values()
    return bool(more or part.conditions) or not key.is_column or any(one.rows is None for one in part.inputs)


def _query(part: Together, tried: Mapping[int, Scalar]) -> Select:
    items = tuple(Item(Cast(tree, wire_type(tried[i])), f"c{at}") for at, (i, tree) in enumerate(part.keys.items()))
    return Select(items, side_by_side(part.inputs), sorted_trees(part.conditions), once=True)


def _rows(statement: Statement, query: Select, part: Together, tried: Mapping[int, Scalar]) -> Tuples | None:
    """The tuples; None where they cannot be told yet, or are too many to try."""
    size = 1
    for one in part.inputs if len(part.inputs) > 1 else ():
        count = Select((Item(Aggregate("count", (Star(),)), "n"),), one.source)
        known = [(one.rows,)] if one.rows is not None else tuples(statement, count, [BIGINT])
        size *= int(known[0][0] or 0) if known else MOST_TRIED + 1
    types = [wire_type(key) for key in tried.values()]
    return tuples(statement, query, types, " ORDER BY ALL") if size <= MOST_TRIED else None


def tuples(statement: Statement, query: Select, types: Sequence[SqlType], order: str = "") -> Tuples | None:
    """The rows of a query over public tables, and over those that the statement writes out; None where they cannot be told yet."""
    read, public = tables(query), _declared(statement, query)
    made = {b.name: b.sql for b in statement.bounds if b.name in read and not (b.public or b.reads)}
    if statement.lists is None or len(public) + len(made) < len(read):
        return None
    before = ", ".join(f"{quoted(name)} AS ({sql})" for name, sql in made.items())
    return statement.lists.tuples(f"{f'WITH {before} ' * bool(made)}{printed(query)}{order}", types, public)


def _declared(statement: Statement, query: Select) -> tuple[str, ...]:
    """The declared public tables that a query reads."""
    read = tables(query)
    return tuple(sorted(t.name for t in statement.schema.tables if t.public and t.name in read))


def _is_long(values: Sequence[Value | None]) -> bool:
    """True if a list is better looked up than written out."""
    return len(values) > MOST_WRITTEN and domains.in_a_row(values) is None


def _with_values(key: GroupKey, values: Sequence[Value | None]) -> GroupKey:
    """A key with these values alone, in the order in which they were declared."""
    known, kept = key.scalar.domain, [v for v in values if v is not None]
    left = set(kept)
    if isinstance(known, Categories) and left <= set(known.values):
        kept = [v for v in known.values if v in left]
    return replace(key, scalar=replace(key.scalar, domain=Categories(tuple(kept)), nullable=len(kept) < len(values)))


# --- lists that are input tables ----------------------------------------------------------------------------------


def _with(found: Listed, *lists: KeyList) -> Listed:
    return replace(found, lists=(*found.lists, *lists))


def _bound(statement: Statement, query: Select, tried: Mapping[int, Scalar], groups: int | None) -> KeyList:
    read = tables(query)
    columns = tuple((f"c{at}", wire_type(key)) for at, key in enumerate(tried.values()))
    own = tuple(b.name for b in statement.bounds if b.name in read)
    bound = InputTable("", f"{printed(query)} ORDER BY ALL", columns, _declared(statement, query), own)
    return KeyList(tuple(tried), statement.bound(bound, "keys"), groups)


def _with_references(statement: Statement, found: Listed) -> Listed:
    """Keys that no other list has, which name the rows of a public table by a declared reference."""
    known = {i for one in found.lists for i in one.keys}
    for i, key in enumerate(found.keys):
        reference = _reference(statement, key.scalar) if i not in known and not is_listed(key.scalar) else None
        if reference is not None:
            found = _with(found, _of_reference(statement, i, key.scalar, reference))
    return found


def _reference(statement: Statement, scalar: Scalar) -> tuple[str, str] | None:
    """The public table's column that a bare private column refers to."""
    table, _, name = scalar.origin.rpartition(".")
    declared = statement.schema.table(table) if scalar.is_column and scalar.origin else None
    reference = declared.reference(name) if declared is not None and not declared.public else None
    target = statement.schema.table(reference.table) if reference is not None else None
    return (
        (target.name, reference.targets[0]) if target is not None and target.public and reference is not None else None
    )


def _of_reference(statement: Statement, position: int, scalar: Scalar, target: tuple[str, str]) -> KeyList:
    table, name = target
    kind = wire_type(scalar)
    sql = f"SELECT DISTINCT TRY_CAST({quoted(name)} AS {kind}) AS {quoted('c0')} FROM {quoted(table)}"
    if scalar.nullable:
        sql += " UNION SELECT NULL"
    sql += " ORDER BY ALL"
    return KeyList((position,), statement.bound(InputTable("", sql, (("c0", kind),), (table,), ()), "keys"))


def _of_outer(statement: Statement, outer: exp.Expression, keys: Sequence[GroupKey], env: Env) -> KeyList | None:
    """The distinct values of the outer query's columns; None where they cannot be told from public tables alone."""
    try:
        found = statement.query(outer, env)
    except Error:
        return None
    if isinstance(found, Private):
        return None
    name, types = statement.bind(Public(found.tree), "keys", types=tuple(wire_type(k.scalar) for k in keys))
    return KeyList(tuple(range(len(keys))), name) if len(types) == len(keys) else None


# --- groups that seem to be empty ---------------------------------------------------------------------------------

_OVER_ROWS = ("joins", "group", "having", "distinct")
"""Parts of a query around a release that look at several of its groups."""


def leaves_out_empty(
    statement: Statement, select: exp.Select, keys: Sequence[GroupKey], lists: Sequence[KeyList], env: Env
) -> bool:
    """True if something is computed over these groups: by LIMIT or a window, or by a query around that does more than to show them.

    Why    plain SQL has no row where nobody is: a listed group that is empty would count, with nothing but noise. Shown one by one, it
           stands there as it is

    Notes  a correlated subquery is looked up for rows that are there; a WITH query counts as computed with
    """
    if statement.all_groups or not keys or select.meta.get(LOOKED_UP):
        return False
    node: exp.Select | None = select
    while node is not None and not _computes(node, keys, lists, around=node is not select):
        if node is statement.root or (node is select and env.top):
            return False
        node = _around(node)
    return True


def _around(node: exp.Select) -> exp.Select | None:
    """The query whose only source a query is."""
    source = node.parent.parent if isinstance(node.parent, exp.Subquery) else None
    outer = source.parent if isinstance(source, exp.From) else None
    return outer if isinstance(outer, exp.Select) else None


def _computes(node: exp.Select, keys: Sequence[GroupKey], lists: Sequence[KeyList], *, around: bool) -> bool:
    shown = [*node.expressions, *(node.args[part] for part in ("qualify", "order") if node.args.get(part))]
    parts = [part for one in shown for part in every(one, exp.Expression)]
    if around and (any(node.args.get(part) for part in _OVER_ROWS) or any(map(is_aggregate, parts))):
        return True
    return any(isinstance(part, exp.Window) for part in parts) or _is_cut(node, keys, lists)


def _is_cut(select: exp.Select, keys: Sequence[GroupKey], lists: Sequence[KeyList]) -> bool:
    """True if LIMIT or OFFSET leave out a group: not a limit that all of them are within."""
    limit, offset = select.args.get("limit"), select.args.get("offset")
    if limit is None or offset is not None:
        return offset is not None
    most = limit.expression if isinstance(limit, exp.Limit) else None
    together = {i for one in lists for i in one.keys}
    alone = (len(as_listed(key).values or ()) for i, key in enumerate(keys) if i not in together)
    groups = math.prod([*alone, *(one.groups or math.inf for one in lists)])
    return not (isinstance(most, exp.Literal) and most.name.isdigit() and int(most.name) >= groups)
