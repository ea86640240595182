"""Equalities that follow from others: what connects two relations by way of a third."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from dpsql.expressions.logic import compare
from dpsql.expressions.scalar import Scalar
from dpsql.sql.nodes import Node


def implied(conditions: Sequence[Scalar]) -> list[Scalar]:
    """Equalities of columns that follow from others through one more column, and are not there.

    Why  a = b and b = c are true of a row that all of them are kept for, and so is a = c: of values of one type, of whole numbers or
         text, which the engine compares without converting any
    """
    plain = [c.args for c in conditions if c.function == "=" and all(map(_compares_as_it_is, c.args))]
    pairs = {frozenset(side.tree for side in sides): sides for sides in plain if sides[0].sqltype == sides[1].sqltype}
    met: dict[Node, list[Scalar]] = {}
    for one, other in pairs.values():
        met.setdefault(one.tree, []).append(other)
        met.setdefault(other.tree, []).append(one)
    both = [pair for sides in met.values() for pair in combinations(sides, 2)]
    return [compare("=", a, b) for a, b in both if frozenset((a.tree, b.tree)) not in pairs]


def _compares_as_it_is(scalar: Scalar) -> bool:
    return scalar.is_column and (scalar.sqltype.is_integer or scalar.sqltype.is_text)
