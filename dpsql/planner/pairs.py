"""Aggregates of two values, and those of one of them that are read off the same moments (aggregates/moments.py)."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from dpsql.aggregates.moments import widest
from dpsql.aggregates.record import Aggregate, value_key
from dpsql.expressions.scalar import Scalar
from dpsql.sql.duckdb import printed

Group = list[Aggregate]
"""Aggregates of the same values over the same rows."""


def held(
    by_value: Sequence[Group], by_two: Sequence[Group], alike: Callable[[Aggregate], Hashable]
) -> dict[int, list[Group]]:
    """By the identity of aggregates of two values those of one of them, of the same rows, that can be read off the same moments.

    Why  the grid of both may be coarser than that of the value alone: in a sum rounding to it would show, in a spread hardly

    alike  the rows that an aggregate is of, and whose people decide whether it is shown
    """
    found: dict[int, list[Group]] = {}
    for group in by_value:
        key, rows = value_key(group[0].bases[0]), alike(group[0])
        for two in by_two if max(a.record.degree for a in group) <= 2 else ():
            if alike(two[0]) == rows and key in map(value_key, two[0].bases):
                found.setdefault(id(two), []).append(group)
                break
    for two in by_two:
        groups = found.pop(id(two), [])
        most = widest(sum(degrees(two, groups)))
        fine = [[a for a in group if a.record.degree != 1 or _is_as_fine(group, most)] for group in groups]
        if any(fine):
            found[id(two)] = [group for group in fine if group]
    return found


def _is_as_fine(group: Group, most: int) -> bool:
    needing, value = next(a for a in group if a.record.degree), group[0].bases[0]
    return needing.term(value, most).quantum == needing.term(value).quantum


def in_order(two: Group) -> list[Scalar]:
    """The two values, in the order of the moments' terms."""
    return sorted(two[0].bases, key=lambda value: printed(value.tree))


def degrees(two: Group, of_one: Sequence[Group]) -> tuple[int, int]:
    """The least degrees of the moments of two values that hold what is asked of both, and of one."""
    first, found = value_key(in_order(two)[0]), [1, 1]
    for aggregate in two:
        of_y, of_x = aggregate.record.squares
        squares = (of_x, of_y) if value_key(aggregate.bases[1]) == first else (of_y, of_x)
        found = [max(degree, 1 + square) for degree, square in zip(found, squares, strict=True)]
    for group in of_one:
        place = value_key(group[0].bases[0]) != first
        found[place] = max(found[place], *(a.record.degree for a in group))
    return found[0], found[1]
