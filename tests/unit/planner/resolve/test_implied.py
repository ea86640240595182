"""Equalities that follow from others through one more column."""

from __future__ import annotations

import pytest

from dpsql.core.sqltypes import BIGINT, DOUBLE, INTEGER, VARCHAR, SqlType
from dpsql.expressions.logic import compare
from dpsql.expressions.scalar import Scalar
from dpsql.planner.resolve.implied import implied
from dpsql.sql.nodes import Column


def column(name: str, sqltype: SqlType = BIGINT) -> Scalar:
    return Scalar("column", (), Column("t", name), sqltype, length=9 if sqltype.is_text else None)


def pairs(*conditions: Scalar) -> set[frozenset[str]]:
    return {frozenset(str(side.tree.name) for side in c.args if isinstance(side.tree, Column)) for c in conditions}


A, B, C, D = map(column, "abcd")


def test_two_that_equal_a_third_are_equal() -> None:
    assert pairs(*implied([compare("=", A, B), compare("=", C, B)])) == pairs(compare("=", A, C))
    chain = [compare("=", A, B), compare("=", B, C), compare("=", C, D)]
    more = implied(chain)
    assert pairs(*more) == pairs(compare("=", A, C), compare("=", B, D))
    assert pairs(*implied([*chain, *more])) == pairs(compare("=", A, D))
    assert implied([*chain, *more, compare("=", A, D)]) == [], "all that follows is there"


@pytest.mark.parametrize(
    "conditions",
    [
        [compare("=", A, B), compare("=", C, D)],
        [compare("=", A, B), compare("<", B, C)],
        [
            compare("=", column("a", DOUBLE), column("b", DOUBLE)),
            compare("=", column("b", DOUBLE), column("c", DOUBLE)),
        ],
        [compare("=", A, column("b", INTEGER)), compare("=", column("b", INTEGER), C)],
        [
            compare("=", column("a", VARCHAR), column("b", VARCHAR)),
            compare("=", column("c", VARCHAR), column("d", VARCHAR)),
        ],
    ],
)
def test_what_the_engine_would_convert_or_does_not_equate_implies_nothing(conditions: list[Scalar]) -> None:
    assert implied(conditions) == []
