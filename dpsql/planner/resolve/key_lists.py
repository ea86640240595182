"""Where group keys come from that are neither declared nor selected privately: public tables that hold them.

A key list decides which groups are shown and never which rows there are: rows with other keys are left out by the engine before
anything is cut, and the release fills every listed key (rule 13). So a list that holds too little or too much costs accuracy.
"""

from __future__ import annotations

from functools import reduce

from sqlglot import exp

from dpsql.core import domains
from dpsql.core.domains import Categories
from dpsql.core.errors import Error, error
from dpsql.core.sqltypes import BIGINT, SqlType
from dpsql.expressions.scalar import Scalar, finite_hull
from dpsql.plan.resolved import Bound, GroupKey, KeyList
from dpsql.planner.resolve.statement import Env, Private, Public, Statement
from dpsql.relations.relations import Relation, applied
from dpsql.sql.duckdb import printed, quoted
from dpsql.sql.nodes import Cast, Column, Node
from dpsql.sql.queries import Item, Join, Select
from dpsql.sql.trees import tables

CORRELATED = "keys of the outer query"
"""What resolve/correlated.py leaves on a subquery that it made a join: the query that lists the outer's values."""


def key_lists(
    statement: Statement, select: exp.Select, keys: list[GroupKey], relation: Relation, env: Env
) -> tuple[KeyList, ...]:
    """The lists of all keys that a public table holds and no declaration lists."""
    outer = select.meta.get(CORRELATED)
    if outer is not None:
        listed = _of_outer(statement, outer, keys, env)
        if listed is not None:
            return (listed,)
    held = _held_by_public(relation)
    public = {i: found for i, key in enumerate(keys) if (found := _public_side(key.scalar, held, relation)) is not None}
    lists = [_of_public(statement, public, relation)] if public else []
    for i, key in enumerate(keys):
        reference = _reference(statement, key.scalar) if i not in public and not is_listed(key.scalar) else None
        if reference is not None:
            lists.append(_of_reference(statement, i, key.scalar, reference))
    return tuple(lists)


def _held_by_public(relation: Relation) -> set[Node]:
    return {c.scalar.tree for part in relation.publics for c in part.columns}


def _public_side(key: Scalar, held: set[Node], relation: Relation) -> Scalar | None:
    """What a key is in public tables alone: itself where it reads nothing else and is not declared, or what the join equates it
    with, whose values are then all that it can have."""
    if not key.sqltype.is_float or key.integral:
        for link in relation.links:
            mine, theirs = link.args
            if (
                mine.tree == key.tree
                and theirs.tree in held
                and mine.tree not in held
                and mine.sqltype == theirs.sqltype
            ):
                return theirs
    leaves = [leaf.tree for leaf in key.leaves()]
    if not leaves or not all(leaf in held for leaf in leaves) or is_listed(key):
        return None
    return None if key.sqltype.is_float and not key.integral else key


def is_listed(scalar: Scalar) -> bool:
    """Whether the declaration makes a list of the key (planner/limit.py)."""
    if isinstance(scalar.domain, Categories) or scalar.sqltype.is_boolean:
        return True
    return (scalar.integral or scalar.sqltype.name == "DATE") and domains.integers(scalar.domain) is not None


def check_value_list(keys: list[GroupKey]) -> None:
    """Raise 303 for a list of the values of a quantity: what has bounds and is no whole number."""
    for key in keys:
        scalar = key.scalar
        fractional = (scalar.sqltype.is_float or scalar.sqltype.is_decimal) and not scalar.integral
        if fractional and not is_listed(scalar) and finite_hull(scalar) is not None:
            name = scalar.tree.name if isinstance(scalar.tree, Column) else "x"
            raise error(
                303,
                f"hardly any two people share a value of {name}, a quantity with bounds",
                hint=f"group by a band, such as CAST(FLOOR({name} / 10) AS INTEGER), or ask for COUNT(*) beside it",
                span=key.span,
            )


def wire_type(scalar: Scalar) -> SqlType:
    """The type in which a listed key travels: whole numbers of any type as integers."""
    return BIGINT if scalar.integral and not scalar.sqltype.is_integer else scalar.sqltype


def _of_public(statement: Statement, public: dict[int, Scalar], relation: Relation) -> KeyList:
    """The distinct values that public tables of the same join hold, after the conditions that read public tables alone."""
    positions, scalars = list(public), list(public.values())
    needed, conditions = _connected(scalars, relation)
    items = tuple(Item(Cast(s.tree, wire_type(s)), f"c{i}") for i, s in enumerate(scalars))
    source = reduce(lambda one, other: Join("CROSS", one, other), (part.read() for part in needed))
    tree = Select(items, source, applied(conditions), once=True)
    columns = tuple((f"c{i}", wire_type(s)) for i, s in enumerate(scalars))
    read = tables(tree)
    declared = tuple(sorted(t.name for t in statement.schema.tables if t.public and t.name in read))
    own = tuple(b.name for b in statement.bounds if b.name in read)
    bound = Bound("", f"{printed(tree)} ORDER BY ALL", columns, declared, own)
    return KeyList(tuple(positions), statement.bound(bound, "keys"))


def _connected(scalars: list[Scalar], relation: Relation) -> tuple[list[Relation], list[Scalar]]:
    """The public tables that the keys read, and those that conditions on public tables alone tie to them."""
    owner = {c.scalar.tree: part for part in relation.publics for c in part.columns}
    known = [*relation.links, *relation.where]
    public = [c for c in known if (leaves := list(c.leaves())) and all(leaf.tree in owner for leaf in leaves)]
    needed = {id(owner[leaf.tree]) for s in scalars for leaf in s.leaves()}
    grown = True
    while grown:
        grown = False
        for condition in public:
            parts = {id(owner[leaf.tree]) for leaf in condition.leaves()}
            if parts & needed and not parts <= needed:
                needed |= parts
                grown = True
    tables = [part for part in relation.publics if id(part) in needed]
    return tables, [c for c in public if {id(owner[leaf.tree]) for leaf in c.leaves()} <= needed]


def _reference(statement: Statement, scalar: Scalar) -> tuple[str, str] | None:
    """The public table's column that a bare private column refers to."""
    table, _, name = scalar.origin.rpartition(".")
    declared = statement.schema.table(table) if scalar.is_column and scalar.origin else None
    reference = declared.reference(name) if declared is not None and not declared.public else None
    target = statement.schema.table(reference.table) if reference is not None else None
    return (target.name, reference.target) if target is not None and target.public and reference is not None else None


def _of_reference(statement: Statement, position: int, scalar: Scalar, target: tuple[str, str]) -> KeyList:
    table, name = target
    kind = wire_type(scalar)
    sql = f"SELECT DISTINCT TRY_CAST({quoted(name)} AS {kind}) AS {quoted('c0')} FROM {quoted(table)}"
    if scalar.nullable:
        sql += " UNION SELECT NULL"
    sql += " ORDER BY ALL"
    return KeyList((position,), statement.bound(Bound("", sql, (("c0", kind),), (table,), ()), "keys"))


def _of_outer(statement: Statement, outer: exp.Expression, keys: list[GroupKey], env: Env) -> KeyList | None:
    """The distinct values of the outer query's columns; None where they cannot be told from public tables alone."""
    blocks, bounds = len(statement.blocks), len(statement.bounds)
    try:
        found = statement.query(outer, env)
    except Error:
        # Nothing that was resolved on the way stays: it would be charged.
        del statement.blocks[blocks:], statement.bounds[bounds:]
        return None
    if isinstance(found, Private):
        return None
    name, types = statement.bind(Public(found.tree), "keys", types=tuple(wire_type(k.scalar) for k in keys))
    return KeyList(tuple(range(len(keys))), name) if len(types) == len(keys) else None
