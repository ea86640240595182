"""Cutting each unit's rows and groups to its limits: steps 3 and 4 of lower."""

from __future__ import annotations

from collections.abc import Sequence

from dpsql.aggregates.base import Limits
from dpsql.core.sqltypes import BIGINT, VARCHAR
from dpsql.planner.lower.rows import ONE, UNIT, ZERO, over
from dpsql.sql.nodes import (
    Aggregate,
    Bare,
    Binary,
    Call,
    Cast,
    Chain,
    Frame,
    Literal,
    Node,
    Number,
    Over,
    Own,
    Parameter,
    Star,
    own,
)
from dpsql.sql.queries import Common, Item, Join, Select, Table, UnionAll, With

SECRET = Parameter("cut")
"""What the secret is bound to: it is in no text (rule 49)."""
KEEPS_ANY = Bare(Binary(">", own("c0"), ZERO))
"""Whether a unit keeps some of its rows of a group."""


def cut(by_unit: Node, keys: list[Node], limits: Limits, parts: int) -> Node:
    """What each unit has of each group, with the rows `c0`, `c1`, ... that it keeps of them."""
    return _kept(_ordered(by_unit, keys, limits, parts), limits, parts)


def _kept(ordered: Node, limits: Limits, parts: int) -> Node:
    """The rows that each statistic keeps of each (unit, group)."""
    cuts = []
    for i in range(parts):
        left = Bare(Binary("-", Number(limits.rows), own(f"before{i}")))
        kept = Call("GREATEST", (ZERO, Call("LEAST", (own(f"r{i}"), left))))
        cuts.append(Item(Cast(kept, BIGINT, tries=False), Own(f"c{i}")))
    within = Bare(Binary("<=", own("turn"), Number(limits.groups)))
    return over(ordered, "ordered", [Star(), *cuts], where=(within,))


def _ordered(by_unit: Node, keys: list[Node], limits: Limits, parts: int) -> Node:
    """Each unit's groups numbered, and the rows of each statistic in the groups before.

    Why  a unit within all limits keeps everything in any order, so only the others' groups are sorted. Which units those
         are is decided for each by its own rows
    """
    alone = _numbered(ONE, [ZERO] * parts)
    if not keys:
        return over(by_unit, "by_unit", alone)
    order = (hashed(UNIT, *keys), *keys)
    turn = Over(Call("row_number"), (UNIT,), order)
    earlier = Frame("ROWS", "UNBOUNDED PRECEDING", "1 PRECEDING")
    sums = (Over(Aggregate("sum", (own(f"r{i}"),)), (UNIT,), order, earlier) for i in range(parts))
    before = [Call("COALESCE", (tree, ZERO)) for tree in sums]
    above = [Bare(Binary(">", Aggregate("count", (Star(),)), Number(limits.groups)))]
    above += [Bare(Binary(">", Aggregate("sum", (own(f"r{i}"),)), Number(limits.rows))) for i in range(parts)]
    whole, same = Table(Own("by_unit")), (Bare(Binary("=", UNIT, own("unit"))),)
    heavy = Select((Item(UNIT, Own("unit")),), whole, group=(UNIT,), having=Bare(Chain("OR", tuple(above))))
    light = Select(tuple(alone), Join("ANTI", whole, Table(Own("heavy")), same))
    sorted_groups = Select(tuple(_numbered(turn, before)), Join("SEMI", whole, Table(Own("heavy")), same))
    return With(
        (Common(Own("by_unit"), by_unit, kept=True), Common(Own("heavy"), heavy)), UnionAll((light, sorted_groups))
    )


def _numbered(turn: Node, before: Sequence[Node]) -> list[Node]:
    numbered = [Item(tree, Own(f"before{i}")) for i, tree in enumerate(before)]
    return [Star(), Item(turn, Own("turn")), *numbered]


def hashed(*columns: Node) -> Node:
    texts = (Cast(column, VARCHAR, tries=False) for column in columns)
    return Call("md5", (Call("concat_ws", (Literal("|", VARCHAR), SECRET, *texts)),))
