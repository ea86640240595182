"""Constants that statements compare columns with."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from sqlglot import exp

from dpsql.core.errors import Error
from dpsql.planner.parse import Query, parse

COMPARED = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.In, exp.Between, exp.Like, exp.ILike)


def compared_with(texts: Iterable[str]) -> Mapping[str, set[str]]:
    """The constants by the column's name; of what cannot be read there are none."""
    found: dict[str, set[str]] = defaultdict(set)
    for text in texts:
        try:
            statement = parse(text)
        except Error:
            continue
        for node in statement.tree.find_all(*COMPARED) if isinstance(statement, Query) else ():
            constants = {literal.name.strip("%") for literal in node.find_all(exp.Literal)}
            for column in node.find_all(exp.Column):
                found[column.name.lower()] |= constants
    return found
