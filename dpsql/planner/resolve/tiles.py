"""NTILE over people -> parts that are cut at released quantiles.

    NTILE(n) OVER (ORDER BY x)    in a SELECT of FROM f WHERE w

numbers the parts by the rows of everyone. In its place stands

    CASE WHEN x <= q1 THEN 1 ... WHEN x <= q(n-1) THEN n - 1 ELSE n END

with the values of (SELECT QUANTILE_DISC(x, 1/n) AS q1, ... FROM f WHERE w). With PARTITION BY k, which people share, they are those of

    (FROM f) LEFT JOIN (SELECT k, QUANTILE_DISC(x, 1/n) AS q1, ... FROM f WHERE w GROUP BY k) AS cuts ON k = cuts.k

and a row of a group that is not released is in no part.

Why  the cuts are a release of its own, with its price and its limits, and public before the rows are numbered; then each row's part
     depends on that row alone, so one person moves their own rows only. No row is given to another part to make the parts equal, and
     equal values stand in one
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from dpsql.core.errors import Error, error
from dpsql.core.spans import span_of
from dpsql.planner.resolve.correlated import Correlated
from dpsql.planner.resolve.scalars import scalar
from dpsql.planner.resolve.scope import Scope
from dpsql.planner.resolve.statement import CUT, Statement
from dpsql.planner.resolve.syntax import aliases_of, replaced, where_parts
from dpsql.planner.resolve.unit_windows import is_within_unit, whole_window, windows_of
from dpsql.relations.relations import Relation
from dpsql.schema.model import RESERVED

MOST_PARTS = 50
_DIGITS = 6
"""Decimals of a share, rounded down: a share that is above the exact one would take the next row along."""


def with_tiles(statement: Statement, select: exp.Select, written: exp.Select, scope: Scope) -> tuple[exp.Select, Scope]:
    """A SELECT with cases in place of its NTILE over everyone, and the scope with their names. Raises 106 for another number of parts
    than 2 to 50.

    written  the SELECT as it stood in the statement, whose rows the quantiles are of
    """
    cases: dict[int, exp.Expression] = {}
    for node, window in _tiles(select):
        if _of_all(window):
            names, cuts = _cuts(node, window, written)
            cases[id(node)] = _case(statement, node, window, [_cut(cuts, name) for name in names], scope, written)
    found = replaced(select, cases)
    assert isinstance(found, exp.Select)
    return found, replace(scope, aliases=aliases_of(found))


def with_groups_cut(
    statement: Statement, select: exp.Select, source: Relation, scope: Scope
) -> tuple[exp.Select, list[Correlated]]:
    """A SELECT as it was written with cases in place of each NTILE within groups that people share, and the released cuts that its rows
    are to be joined with; none where it has no such NTILE."""
    cases: dict[int, exp.Expression] = {}
    joined: list[Correlated] = []
    for node, window in _tiles(select):
        if not _of_groups(window, source, scope):
            continue
        name, keys = f"{RESERVED}cuts {len(joined)}", _partition(window)
        names, cuts = _cuts(node, window, select)
        held = [exp.Alias(this=key.copy(), alias=_quoted(f"{RESERVED}k{i}")) for i, key in enumerate(keys)]
        cuts.set("expressions", [*held, *cuts.expressions])
        cuts.set("group", exp.Group(expressions=[key.copy() for key in keys]))
        joined.append(Correlated(name, cuts, keys, node))
        case = _case(statement, node, window, [_of(name, cut) for cut in names], scope, select)
        unknown = exp.Is(this=_of(name, names[0]), expression=exp.Null())
        case.set("ifs", [exp.If(this=unknown, true=exp.Null()), *case.args["ifs"]])
        cases[id(node)] = case
    found = replaced(select, cases)
    assert isinstance(found, exp.Select)
    return found, joined


def _tiles(select: exp.Select) -> list[tuple[exp.Window, exp.Expression]]:
    """Every NTILE of a SELECT, and its whole window."""
    return [(node, whole_window(node, select)) for node in windows_of(select) if isinstance(node.this, exp.Ntile)]


def _partition(window: exp.Expression) -> list[exp.Expression]:
    """The expressions that a window is partitioned by, without constants, which part nothing."""
    keys = window.args.get("partition_by") or ()
    return [key for key in keys if not isinstance(key.unnest(), exp.Literal | exp.Null | exp.Boolean)]


def _quoted(name: str) -> exp.Identifier:
    return exp.Identifier(this=name, quoted=True)


def _of(table: str, column: str) -> exp.Column:
    return exp.Column(this=_quoted(column), table=_quoted(table))


def _of_groups(window: exp.Expression, source: Relation, scope: Scope) -> bool:
    partition = [scalar(key, scope) for key in _partition(window)]
    return bool(partition) and _by_one(window) and not is_within_unit(partition, source)


def _of_all(window: exp.Expression) -> bool:
    return not _partition(window) and _by_one(window)


def _by_one(window: exp.Expression) -> bool:
    order = window.args.get("order")
    return order is not None and len(order.expressions) == 1


def _cuts(node: exp.Window, window: exp.Expression, written: exp.Select) -> tuple[list[str], exp.Select]:
    """The names of the values that the parts are cut at, and the query for them."""
    parts, (ordered,) = _number(node), window.args["order"].expressions
    shares = [(parts - part if ordered.args.get("desc") else part) for part in range(1, parts)]
    names = [f"{CUT}{share}" for share in shares]
    cuts = exp.Select(
        expressions=[_quantile(ordered.this, share, parts, n) for share, n in zip(shares, names, strict=True)]
    )
    for clause in ("from_", "joins", "where"):
        kept = written.args.get(clause)
        cuts.set(clause, [one.copy() for one in kept] if isinstance(kept, list) else kept.copy() if kept else None)
    return names, cuts


def _case(
    statement: Statement,
    node: exp.Window,
    window: exp.Expression,
    cuts: Sequence[exp.Expression],
    scope: Scope,
    written: exp.Select,
) -> exp.Case:
    """The part of a row, by the values that the parts are cut at; of NULL, where it is not left out by WHERE, NULL."""
    parts, (ordered,) = _number(node), window.args["order"].expressions
    value = ordered.this
    compare = exp.GT if ordered.args.get("desc") else exp.LTE
    whens = [
        exp.If(this=compare(this=value.copy(), expression=cut), true=exp.Literal.number(part))
        for part, cut in enumerate(cuts, 1)
    ]
    known = exp.Not(this=exp.Is(this=value, expression=exp.Null()))
    if scalar(value, scope).nullable and known not in where_parts(written):
        whens.insert(0, exp.If(this=exp.Is(this=value.copy(), expression=exp.Null()), true=exp.Null()))
    statement.notes.append(
        f"NTILE({parts}): its parts are cut at {parts - 1} released value{'s' * (parts > 2)}, so they are about as large as "
        "each other, and equal values stand in one part"
    )
    return exp.Case(ifs=whens, default=exp.Literal.number(parts))


def _number(node: exp.Window) -> int:
    number = node.this.this
    if isinstance(number, exp.Literal) and number.name.isdigit() and 2 <= int(number.name) <= MOST_PARTS:
        return int(number.name)
    raise _no_parts(node)


def _no_parts(node: exp.Window) -> Error:
    what = f"NTILE over people takes a number of parts from 2 to {MOST_PARTS}"
    return error(106, what, hint="write NTILE(10) OVER (ORDER BY x)", span=span_of(node))


def _quantile(value: exp.Expression, share: int, parts: int, name: str) -> exp.Expression:
    digits = f"{share * 10**_DIGITS // parts:0{_DIGITS}}"
    call = exp.PercentileDisc(this=value.copy(), expression=exp.Literal.number(f"0.{digits}"))
    return exp.Alias(this=call, alias=_quoted(name))


def _cut(cuts: exp.Select, name: str) -> exp.Subquery:
    """One of the released values; the query for them is the same in each, and so is the release."""
    one = exp.Select(expressions=[exp.column(_quoted(name))])
    alias = exp.TableAlias(this=_quoted(f"{RESERVED}cuts"))
    one.set("from_", exp.From(this=exp.Subquery(this=cuts.copy(), alias=alias)))
    return exp.Subquery(this=one)
