"""Blocks that nobody is in by declaration: they are answered without a release, as plain SQL answers on no rows.

Why  only a `domain`, and NOT NULL of a column that no join can leave out, make a condition false (rule 56): bounds decide nothing,
     since WHERE sees raw values. A row with another value than those declared is left out, as it is where a key has a list
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from dpsql.aggregates.record import Aggregate
from dpsql.core.domains import Categories, Value
from dpsql.core.errors import Error
from dpsql.core.sqltypes import BIGINT, BOOLEAN
from dpsql.expressions.conditional import is_other
from dpsql.expressions.logic import conjuncts
from dpsql.expressions.scalar import Scalar
from dpsql.plan.resolved import GroupKey
from dpsql.plan.tables import end_column, intervals_table, redrawn_table
from dpsql.planner.resolve.aggregates import Collector
from dpsql.planner.resolve.key_inputs import Input, of_column, side_by_side
from dpsql.planner.resolve.key_lists import Listed, reads_public, tuples
from dpsql.planner.resolve.key_tuples import merged, public_tables
from dpsql.planner.resolve.statement import Public, Statement
from dpsql.relations.relations import Named, Relation
from dpsql.schema.model import Column as Declared
from dpsql.sql.duckdb import printed
from dpsql.sql.nodes import Binary, Is, Literal, Node, Number
from dpsql.sql.queries import Item, Select
from dpsql.sql.trees import rewritten, sorted_trees, tables, walk

NAME = "nobody"
"""Name of a release of nobody in the final query."""
NO_GROUP = (
    "declared: no group that is listed meets the conditions, so there are none; rows with other values are left out"
)
MOST_TRIED = 100_000
_MOST_SHOWN = 6
_LONGEST_SHOWN = 80
"""[characters] Of an aggregate that a note names."""


def ruled_out(statement: Statement, relation: Relation, listed: Listed) -> str | None:
    """Declarations by which no row meets the conditions, or no group is left; None where they do not.

    Notes  what is asked of identifiers is the guard's to answer (R1)
    """
    if statement.lists is None or any(map(_asks_of_identifiers, relation.predicates)):
        return None
    if listed.empty:
        return NO_GROUP
    told = _unmet(statement, relation.where, relation.where)
    return f"declared: {told}, so nobody is counted; rows with other values are left out" if told else None


def _unmet(statement: Statement, conditions: Sequence[Scalar], among: Sequence[Scalar]) -> str | None:
    """Declarations by which no row meets some conditions together, one of `among` being one that cannot be met; None where there are
    none."""
    plain = dict.fromkeys(c for c in conditions if not tables(c.tree))
    known = [(c, leaves) for c in plain if (leaves := _declared(statement, c)) is not None]
    columns = {leaf.tree: (leaf, declared) for _, leaves in known for leaf, declared in leaves}
    places = {tree: i for i, tree in enumerate(columns)}
    for part in merged({places[leaf.tree] for leaf, _ in leaves} for _, leaves in known if leaves):
        own = [columns[tree] for tree, place in places.items() if place in part]
        said = [c for c, leaves in known if any(places[leaf.tree] in part for leaf, _ in leaves)]
        if any(c in among for c in said) and not _is_met(statement, own, said):
            return " and ".join(dict.fromkeys(_told(declared) for _, declared in own))
    return None


def _decided(statement: Statement, relation: Relation, aggregate: Aggregate) -> tuple[str, str] | None:
    """Value of an aggregate where no row meets what FILTER or CASE asks of its rows, and the declarations that say so.

    Why    only such a row could make it another value than it is of nobody: NULL counts into no aggregate, and 0 into no
           sum. So it says nothing of anyone, and its share of the price is for the others (rule 53)
    Notes  BOOL_OR and its kin keep their price: a condition that nobody meets leaves them FALSE, or NULL where there is no row at all
    """
    record = aggregate.record
    if record.deciding is not None:
        return None
    idle: list[tuple[frozenset[Value | None], str]] = [(frozenset({None}), _of_nobody(aggregate))]
    idle += [(frozenset({None, 0}), "0")] if record.exact == "sum" else []
    for constants, value in idle:
        told = never_counted(statement, relation, aggregate.condition, aggregate.values, constants)
        if told is not None:
            return value, told
    return None


def never_counted(
    statement: Statement,
    relation: Relation,
    condition: Scalar | None,
    values: Sequence[Scalar],
    idle: frozenset[Value | None],
) -> str | None:
    """Declarations by which no row meets a condition and has values that are none of some constants; None where there are none."""
    chosen = (is_other(value, idle) for value in values)
    asked = [part for c in (condition, *chosen) if c is not None for part in conjuncts(c)]
    if statement.lists is None or not asked or any(map(_asks_of_identifiers, (*relation.predicates, *asked))):
        return None
    return _unmet(statement, (*relation.where, *asked), asked)


def note_decided(statement: Statement, told: str, written: str) -> None:
    """Note that the declarations decide an aggregate."""
    shown = written[:_LONGEST_SHOWN]
    statement.notes.append(f"declared: {told}, so nobody is counted in {shown}; rows with other values are left out")


def _asks_of_identifiers(condition: Scalar) -> bool:
    return condition.is_identifying and condition.function != "is null"


Leaf = tuple[Scalar, Declared]


def _declared(statement: Statement, condition: Scalar) -> list[Leaf] | None:
    """The columns of a condition as they are declared; None where one has no list, and is not only asked for NULL."""
    found: list[Leaf] = []
    for leaf in condition.leaves():
        table, _, name = leaf.origin.rpartition(".")
        owner = statement.schema.table(table) if leaf.is_column else None
        declared = owner.column(name) if owner is not None and not owner.public else None
        if declared is None:
            return None
        listed = isinstance(declared.domain, Categories) or declared.sqltype.is_boolean
        if not listed and not (condition.function == "is null" and not leaf.nullable):
            return None
        found.append((leaf, declared))
    return found


def _is_met(statement: Statement, columns: Sequence[Leaf], conditions: Sequence[Scalar]) -> bool:
    """True if some combination of declared values meets all conditions; also where there are too many to try."""
    if all(_holds(columns[0], c) for c in conditions) and len(columns) == len(conditions) == 1:
        return True
    inputs: list[Input] = []
    never: dict[Node, Node] = {}
    for leaf, declared in columns:
        if not leaf.nullable:
            never[Is(leaf.tree, "NULL")] = Literal(False, BOOLEAN)
        if isinstance(declared.domain, Categories) or declared.sqltype.is_boolean:
            found = of_column(_raw(leaf, declared), len(inputs), (), ())
            if found is None:
                return True
            inputs.append(found)
    size = 1
    for one in inputs:
        size *= one.rows or 1
    moved = {tree: column for one in inputs for tree, column in one.columns.items()}
    where = sorted_trees(rewritten(rewritten(c.tree, never), moved) for c in conditions)
    query = Select((Item(Number(1), "c0"),), side_by_side(inputs) if inputs else None, where, limit=1)
    assert statement.lists is not None
    return size > MOST_TRIED or statement.lists.tuples(printed(query), (BIGINT,), ()) != []


def _raw(leaf: Scalar, declared: Declared) -> Scalar:
    """A column with its declared list, whatever conditions inside FROM left of it."""
    return replace(leaf, domain=declared.domain)


def _holds(column: Leaf, condition: Scalar) -> bool:
    """True if a comparison with one of the declared values is all that is asked of a column."""
    leaf, declared = column
    values = [part.value for part in condition.args[1:] if part.is_literal]
    bare = condition.function in ("=", "in") and condition.args[0].tree == leaf.tree
    return bare and isinstance(declared.domain, Categories) and any(v in declared.domain.values for v in values)


def _told(column: Declared) -> str:
    values = column.domain.values if isinstance(column.domain, Categories) else ()
    if column.sqltype.is_boolean:
        return f"{column.name} is true or false"
    if not values:
        return f"{column.name} is never NULL"
    whole = [v for v in values if isinstance(v, int)]
    if len(whole) == len(values) > 2 and max(whole) - min(whole) == len(whole) - 1:
        return f"{column.name} is {min(whole)} to {max(whole)}"
    *first, last = [str(v) for v in values[:_MOST_SHOWN]]
    more = len(values) - _MOST_SHOWN
    shown = [*first, last, f"one of {more} more"] if more > 0 else [*first, last]
    return f"{column.name} is {' or '.join(filter(None, (', '.join(shown[:-1]), shown[-1])))}"


# --- the answer ---------------------------------------------------------------------------------------------------


def over_nobody(tree: exp.Select, pending: str, keys: Sequence[GroupKey], aggregates: Sequence[Aggregate]) -> None:
    """Let a final query read, in place of its release, what that would be of nobody.

    Output  no group; without keys one row, in which counts are 0 and all else is NULL (rule 55); what is declared has no interval
    """
    _without_ends(tree, pending)
    _without_lists(tree, pending, {a.name: a for a in aggregates})
    columns = [exp.alias_(_nothing(str(k.scalar.sqltype), "NULL"), k.name, quoted=True) for k in keys]
    columns += [exp.alias_(_nothing(str(a.sqltype), _of_nobody(a)), a.name, quoted=True) for a in aggregates]
    rows = exp.Select(expressions=columns or [exp.Null()])
    if keys:
        rows = rows.where(exp.false())
    named = exp.TableAlias(this=exp.to_identifier(NAME, quoted=True))
    tree.set("from_", exp.From(this=exp.Subquery(this=rows, alias=named)))


def without_decided(
    statement: Statement, relation: Relation, collector: Collector, tree: exp.Select, pending: str
) -> None:
    """Leave out of a release, and write into the final query, the aggregates that the declarations decide; without a group key and
    another aggregate the query reads no release any more."""
    found = {
        a.name: decided for a in collector.found.values() if (decided := _decided(statement, relation, a)) is not None
    }
    if not found:
        return
    values = {a.name: _nothing(str(a.sqltype), found[a.name][0]) for a in collector.found.values() if a.name in found}
    values |= {end_column(name, low): _nothing("DOUBLE", "NULL") for name in found for low in (True, False)}
    own = (pending, intervals_table(pending), redrawn_table(pending))
    for name, (_, told) in found.items():
        note_decided(statement, told, collector.written[name].sql(dialect="duckdb", comments=False))
    _without_lists(tree, pending, {a.name: a for a in collector.found.values() if a.name in found})
    collector.found = {asked: a for asked, a in collector.found.items() if a.name not in found}
    if not collector.found:
        _without_ends(tree, pending)
    for column in list(tree.find_all(exp.Column)):
        if column.table in own and column.name in values:
            column.replace(values[column.name].copy())


def _of_nobody(aggregate: Aggregate) -> str:
    return "0" if aggregate.record.only_counts and aggregate.sqltype.is_integer else "NULL"


def _without_ends(tree: exp.Select, pending: str) -> None:
    """Leave out the ends of intervals: what is declared has none."""
    beside = (intervals_table(pending), redrawn_table(pending))
    for end in [node for node in tree.find_all(exp.Subquery) if _reads(node, beside)]:
        end.replace(_nothing("DOUBLE", "NULL"))


def _reads(node: exp.Subquery, names: Sequence[str]) -> bool:
    clause = node.this.args.get("from_")
    return clause is not None and clause.this.name in names


def rows_of_nobody(statement: Statement, note: str, columns: Sequence[Named]) -> Public:
    """The rows of a query that nobody is in: none, with their names and types."""
    statement.notes.append(note)
    shown = (exp.alias_(_nothing(str(c.scalar.sqltype), "NULL"), c.name, quoted=True) for c in columns)
    return Public(exp.Select(expressions=list(shown)).where(exp.false()), names=tuple(c.name for c in columns))


def _without_lists(tree: exp.Select, pending: str, aggregates: Mapping[str, Aggregate]) -> None:
    """Let a list of what one aggregate released be NULL."""
    for node in list(tree.find_all(exp.Array)):
        if all(isinstance(p, exp.Column) and p.table == pending and p.name in aggregates for p in node.expressions):
            node.replace(_nothing(f"{aggregates[node.expressions[0].name].sqltype}[]", "NULL"))


def _nothing(sqltype: str, value: str) -> exp.Expression:
    literal = exp.Null() if value == "NULL" else exp.Literal.number(value)
    return exp.Cast(this=literal, to=exp.DataType.build(sqltype, dialect="duckdb"))


# --- public rows that an outer join keeps -------------------------------------------------------------------------
#
# Plain SQL has one row for a public row that nobody is in, in which every column of people's tables is NULL. Where that row counts into
# no aggregate, the groups are those of the inner join and beside them those that nobody is in: the public tables list them all. So
# `ward LEFT JOIN stay` is planned as the inner join, and one unit changes what it changes there; what is asked here decides only
# whether the two say the same.


def kept_by(
    statement: Statement, relation: Relation, conditions: Sequence[Scalar], late: bool, problem: Error
) -> Error | None:
    """The problem still, behind some conditions on the rows; None where they leave out what nobody is in. Raises it where they may keep
    some of that.

    late  whether there are conditions that cannot be told yet
    """
    if not (late or any(not reads_public(c, relation) for c in conditions)):
        return problem
    if late or _is_there(statement, relation, [c.tree for c in conditions]):
        raise problem
    return None


def check_kept(
    statement: Statement,
    relation: Relation,
    keys: Sequence[GroupKey],
    listed: Collection[int] | None,
    aggregates: Iterable[Aggregate],
    problem: Error,
) -> None:
    """Raise what is to be raised unless the public rows that nobody is in count nowhere.

    listed  the keys that have a list; None where more is asked than groups and aggregates
    """
    public = listed is not None and len(listed) == len(keys) and all(reads_public(key.scalar, relation) for key in keys)
    if not public or any(_is_there(statement, relation, _counted(aggregate)) for aggregate in aggregates):
        raise problem


def _counted(aggregate: Aggregate) -> list[Node]:
    """Conditions under which a row counts into an aggregate: FILTER is true and a value is not NULL, of a sum not 0 either."""
    asked = [aggregate.condition.tree] if aggregate.condition is not None else []
    for value in aggregate.values:
        asked.append(Is(value.tree, "NOT NULL"))
        if aggregate.record.exact == "sum":
            asked.append(Binary("<>", value.tree, Number(0)))
    return asked


def _is_there(statement: Statement, relation: Relation, conditions: Sequence[Node]) -> bool:
    """True if some public row meets all conditions with NULL in every column of people's tables; also where it cannot be told."""
    public = public_tables(relation)
    read = {column for tree in conditions for column in walk(tree)}
    columns = {leaf.tree: leaf for named in relation.columns for leaf in named.scalar.leaves() if leaf.tree in read}
    nothing: dict[Node, Node] = {
        tree: Literal(None, leaf.sqltype) for tree, leaf in columns.items() if tree not in public.owner
    }
    trees = [rewritten(tree, nothing) for tree in conditions]
    inputs = [
        public.input(group, [part for part in read if part in public.owner], at)
        for at, group in enumerate(sorted(public.groups(trees)))
    ]
    moved = {tree: column for one in inputs for tree, column in one.columns.items()}
    where = sorted_trees(rewritten(tree, moved) for tree in trees)
    query = Select((Item(Number(1), "c0"),), side_by_side(inputs) if inputs else None, where, limit=1)
    return tuples(statement, query, [BIGINT]) != []
