"""Regions: which people, or rows, a condition selects, as a union of boxes over columns.

A box gives some columns a set of values each; every other column is free. A region is boxes that do not overlap, so that what it is
expected to hold adds up. Regions are exact: both, but-not and either are set operations, and two that are equal as sets differ by
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod

from dpsql.core.cancellation import check
from dpsql.guard.values import Values

Box = dict[str, Values]
"""Values by the key of their column; a column that is not there is free."""
Region = tuple[Box, ...]
NOTHING: Region = ()
EVERYTHING: Region = ({},)
MOST_BOXES = 64
"""Of one region: a condition that needs more is not taken apart."""
MOST_DIFFERENCE = 1_024
"""Boxes of a difference of two regions."""
ROUNDING = 1e-9
"""Of the people: more than floats are off by."""


class Tangled(Exception):
    """A region of too many boxes."""


def box_of(values: Values) -> Region:
    """What has one of these values."""
    if values.is_empty:
        return NOTHING
    return EVERYTHING if values.is_whole else ({values.axis.key: values},)


def both(first: Region, second: Region, most: int = MOST_BOXES) -> Region:
    """What is in both. Raises Tangled."""
    check()
    return _listed((met for a in first for b in second if (met := _met(a, b)) is not None), most)


def but_not(first: Region, second: Region, most: int = MOST_BOXES) -> Region:
    """What is in the first and not in the second. Raises Tangled."""
    rest = first
    for taken in second:
        check()
        rest = _listed((piece for box in rest for piece in _outside(box, taken)), most)
    return rest


def either(first: Region, second: Region, most: int = MOST_BOXES) -> Region:
    """What is in one of them. Raises Tangled."""
    if not first or not second:
        return first or second
    return joined((*first, *but_not(second, first, most)))


def others(region: Region) -> Region:
    """What is not in it. Raises Tangled."""
    return but_not(EVERYTHING, region)


def or_nothing(work: Callable[[Region, Region, int], Region], one: Region, other: Region, most: int) -> Region:
    """What a set operation gives; nothing where that is too tangled."""
    try:
        return work(one, other, most)
    except Tangled:
        return NOTHING


def joined(region: Region) -> Region:
    """The same, with boxes that differ in one column alone made one: so that what was cut grows together again."""
    if len(region) < 2:
        return region
    boxes = list(region)
    grown = True
    while grown:
        check()
        grown = False
        for i, box in enumerate(boxes):
            for j in range(i):
                one = _one(boxes[j], box)
                if one is not None:
                    boxes[j] = one
                    del boxes[i]
                    grown = True
                    break
            if grown:
                break
    return tuple(boxes)


def share(region: Region) -> float:
    """Of the people, how many it is expected to hold, between 0 and 1."""
    return sum(prod(values.share for values in box.values()) for box in region)


def apparent(region: Region) -> Region:
    """A region without what is of unknown size in it: what is known of it. It holds the region."""
    found: Region = NOTHING
    for box in region:
        known = ({key: values for key, values in box.items() if not (values.axis.opaque or values.is_unsized)},)
        try:
            found = either(found, known)
        except Tangled:
            return EVERYTHING
    return found


def is_everybody(region: Region) -> bool:
    """Whether it leaves out nobody, up to what is void."""
    return share(region) > 1 - ROUNDING and not without_void(or_nothing(but_not, EVERYTHING, region, MOST_BOXES))


def is_unknown(region: Region) -> bool:
    """Whether a condition is in it whose share nobody knows."""
    return any(v.axis.opaque and not v.is_whole for box in region for v in box.values())


def extent(region: Region) -> float:
    """A size that adds up as shares do, and is 0 for what is void alone: also where nobody says how many people there are."""
    return sum(prod(values.extent for values in box.values()) for box in region)


def common(one: Region, other: Region) -> float:
    """The extent of what two regions have in common."""
    return sum(extent((met,)) for a in one for b in other if (met := _met(a, b)) is not None)


def without_void(region: Region) -> Region:
    """The boxes that can be expected to hold somebody, if only a few."""
    return tuple(box for box in region if not any(values.is_void for values in box.values()))


def meet(first: Region, second: Region) -> bool:
    """Whether some value is in both."""
    return any(_met(a, b) is not None for a in first for b in second)


def within(region: Region, other: Region) -> bool:
    """Whether a region is inside another, up to what is void."""
    try:
        return not without_void(but_not(region, other, MOST_DIFFERENCE))
    except Tangled:
        return False


def identity(region: Region) -> frozenset[frozenset[tuple[str, Values]]]:
    """Equal for regions of the same boxes."""
    return frozenset(frozenset(box.items()) for box in region)


def _listed(boxes: Iterator[Box], most: int) -> Region:
    found: list[Box] = []
    for box in boxes:
        found.append(box)
        if len(found) > most:
            raise Tangled
    return tuple(found)


def _met(a: Box, b: Box) -> Box | None:
    if len(b) < len(a):
        a, b = b, a
    met = dict(b)
    for key, values in a.items():
        other = met.get(key)
        both_values = values if other is None else values.both(other)
        if both_values.is_empty:
            return None
        met[key] = both_values
    return met


def _outside(box: Box, taken: Box) -> Iterator[Box]:
    """A box without another, as boxes that do not overlap."""
    if _met(box, taken) is None:
        yield box
        return
    inside = dict(box)
    for key, values in taken.items():
        here = inside.get(key, values.axis.whole)
        rest = here.both(values.others())
        if not rest.is_empty:
            yield {**inside, key: rest}
        inside[key] = here.both(values)


def _one(a: Box, b: Box) -> Box | None:
    """One box of two that do not overlap, where they are the same in all columns but one."""
    if a.keys() != b.keys():
        return None
    differing = [key for key in a if a[key] != b[key]]
    if len(differing) != 1:
        return None
    key = differing[0]
    values = a[key].others().both(b[key].others()).others()
    rest = {k: v for k, v in a.items() if k != key}
    return rest if values.is_whole else {**rest, key: values}
