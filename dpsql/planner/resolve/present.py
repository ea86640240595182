"""Where something is computed over the groups of a release, so that groups that seem to be empty are left out first.

Plain SQL has no row where nobody is: a listed group that is empty would count, with nothing but noise, in an average of groups, in a
join of released tables, in a window, in a set operation and in what LIMIT keeps. Shown one by one, it stands there as it is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from sqlglot import exp

from dpsql.plan.resolved import GroupKey, KeyList
from dpsql.planner.grammar import is_aggregate
from dpsql.planner.limit import as_listed
from dpsql.planner.resolve.key_lists import LOOKED_UP
from dpsql.planner.resolve.statement import Env, Statement

_OVER_ROWS = ("joins", "group", "having", "distinct")
"""Parts of a query around a release that look at several of its groups."""


def leaves_out_empty(
    statement: Statement, select: exp.Select, keys: Sequence[GroupKey], lists: Sequence[KeyList], env: Env
) -> bool:
    """Whether something is computed over these groups: by LIMIT or a window, or by a query around that does more than to show them.

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
    parts = [part for one in shown for part in one.walk()]
    if around and (any(node.args.get(part) for part in _OVER_ROWS) or any(map(is_aggregate, parts))):
        return True
    return any(isinstance(part, exp.Window) for part in parts) or _is_cut(node, keys, lists)


def _is_cut(select: exp.Select, keys: Sequence[GroupKey], lists: Sequence[KeyList]) -> bool:
    """Whether LIMIT or OFFSET leave out a group: not a limit that all of them are within."""
    limit, offset = select.args.get("limit"), select.args.get("offset")
    if limit is None or offset is not None:
        return offset is not None
    most = limit.expression if isinstance(limit, exp.Limit) else None
    together = {i for one in lists for i in one.keys}
    alone = (len(as_listed(key).values or ()) for i, key in enumerate(keys) if i not in together)
    groups = math.prod([*alone, *(one.groups or math.inf for one in lists)])
    return not (isinstance(most, exp.Literal) and most.name.isdigit() and int(most.name) >= groups)
