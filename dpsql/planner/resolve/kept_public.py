"""Public rows that an outer join keeps where nobody is: `ward LEFT JOIN stay ON ...`, aggregated over what is public.

Plain SQL has one row for such a public row, in which every column of people's tables is NULL. Where that row counts into no aggregate,
the groups are those of the inner join and beside them those that nobody is in: the public tables list them all. So it is planned as
the inner join, and one unit changes what it changes there; what is asked here decides only whether the two say the same.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from dpsql.aggregates.record import Aggregate
from dpsql.core.errors import Error
from dpsql.core.sqltypes import BIGINT
from dpsql.expressions.scalar import Scalar
from dpsql.plan.resolved import GroupKey
from dpsql.planner.resolve.key_inputs import side_by_side
from dpsql.planner.resolve.key_lists import reads_public, tuples
from dpsql.planner.resolve.key_tuples import public_tables
from dpsql.planner.resolve.statement import Statement
from dpsql.relations.relations import Relation
from dpsql.sql.nodes import Binary, Is, Literal, Node, Number
from dpsql.sql.queries import Item, Select
from dpsql.sql.trees import rewritten, sorted_trees, walk


def kept_by(
    statement: Statement, relation: Relation, conditions: Sequence[Scalar], late: bool, problem: Error | None
) -> Error | None:
    """The problem still, behind some conditions on the rows; None where they leave out what nobody is in. Raises it where they may keep
    some of that.

    late  whether there are conditions that cannot be told yet
    """
    if problem is None or not (late or any(not reads_public(c, relation) for c in conditions)):
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
    problem: Error | None,
) -> None:
    """Raise what is to be raised unless the public rows that nobody is in count nowhere.

    listed  the keys that have a list; None where more is asked than groups and aggregates
    """
    if problem is None:
        return
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
