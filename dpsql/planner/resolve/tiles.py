"""NTILE over people -> parts that are cut at released quantiles.

    NTILE(n) OVER (ORDER BY x)    in a SELECT of FROM f WHERE w

numbers the parts by the rows of everyone. In its place stands

    CASE WHEN x <= q1 THEN 1 ... WHEN x <= q(n-1) THEN n - 1 ELSE n END

with the values of (SELECT QUANTILE_DISC(x, 1/n) AS q1, ... FROM f WHERE w).

Why  the cuts are a release of its own, with its price and its limits, and public before the rows are numbered; then each row's part
     depends on that row alone, so one person moves their own rows only. No row is given to another part to make the parts equal, and
     equal values stand in one
"""

from __future__ import annotations

from sqlglot import exp

from dpsql.core.errors import Error, error
from dpsql.core.spans import span_of
from dpsql.planner.resolve.scalars import scalar
from dpsql.planner.resolve.scope import Scope
from dpsql.planner.resolve.statement import Statement
from dpsql.planner.resolve.syntax import replaced
from dpsql.planner.resolve.unit_windows import whole_window, windows_of
from dpsql.schema.model import RESERVED

MOST_PARTS = 50
_DIGITS = 6
"""Decimals of a share, rounded down: a share that is above the exact one would take the next row along."""


def with_tiles(statement: Statement, select: exp.Select, written: exp.Select, scope: Scope) -> exp.Select:
    """A SELECT with cases in place of its NTILE over everyone. Raises 106 for another number than 2 to 50 of parts.

    written  the SELECT as it stood in the statement, whose rows the quantiles are of
    """
    tiles = [(node, whole_window(node, select)) for node in windows_of(select) if isinstance(node.this, exp.Ntile)]
    cases = {id(node): _case(statement, node, window, written, scope) for node, window in tiles if _of_all(window)}
    found = replaced(select, cases)
    assert isinstance(found, exp.Select)
    return found


def _of_all(window: exp.Expression) -> bool:
    order = window.args.get("order")
    return not window.args.get("partition_by") and order is not None and len(order.expressions) == 1


def _case(
    statement: Statement, node: exp.Window, window: exp.Expression, written: exp.Select, scope: Scope
) -> exp.Expression:
    parts, (ordered,) = _number(node), window.args["order"].expressions
    value, falls = ordered.this, bool(ordered.args.get("desc"))
    shares = [(parts - part if falls else part) for part in range(1, parts)]
    names = [f"{RESERVED}q{share}" for share in shares]
    cuts = exp.Select(expressions=[_quantile(value, share, parts, n) for share, n in zip(shares, names, strict=True)])
    for clause in ("from_", "joins", "where"):
        kept = written.args.get(clause)
        cuts.set(clause, [one.copy() for one in kept] if isinstance(kept, list) else kept.copy() if kept else None)
    compare = exp.GT if falls else exp.LTE
    whens = [
        exp.If(this=compare(this=value.copy(), expression=_cut(cuts, name)), true=exp.Literal.number(part))
        for part, name in enumerate(names, 1)
    ]
    if scalar(value, scope).nullable:
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
    return exp.Alias(this=call, alias=exp.to_identifier(name, quoted=True))


def _cut(cuts: exp.Select, name: str) -> exp.Subquery:
    """One of the released values; the query for them is the same in each, and so is the release."""
    one = exp.Select(expressions=[exp.column(exp.to_identifier(name, quoted=True))])
    alias = exp.TableAlias(this=exp.to_identifier(f"{RESERVED}cuts", quoted=True))
    one.set("from_", exp.From(this=exp.Subquery(this=cuts.copy(), alias=alias)))
    return exp.Subquery(this=one)
