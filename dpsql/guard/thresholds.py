"""thresholds: what tells cells apart that no sample unit does: where a threshold is exactly, and whether a list is privately selected.

Why  two thresholds on a column of many values may lie nearer to each other than any two sample units: `x >= 81.4` beside `x > 81.4`,
     or beside `x >= 81.5`, differ by those who have just that value. And in the list of a released block are all values, as far as the
     sample units tell; in truth those are missing that too few have. Either way the difference is of few people, as declared
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction

from dpsql.core.domains import Interval
from dpsql.core.sqltypes import TIME
from dpsql.expressions.scalar import Scalar
from dpsql.expressions.temporal import DAY
from dpsql.guard.cells import Fine
from dpsql.guard.lists import Lists
from dpsql.plan.resolved import Block
from dpsql.sql.duckdb import printed

_AFTER, _FLIPPED = ("<=", ">"), {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_DAY = Interval(Fraction(0), Fraction(DAY))
"""Bounds of every time of day, whatever is declared."""
_SELECTED = ""
"""Stands for the lists, among the names of columns."""
_AT = "+"
"""Behind a threshold before which the value at it lies."""
CLOSE = 10
"""[sample units] of a cell that lie between two thresholds where its units are spread evenly: of so many some do."""


def fine(block: Block, lists: Lists) -> dict[str, Fine]:
    """By aggregate, what tells its cells apart from others that are the same to the sample, in no order of the statement's."""
    every = list(_thresholds((*block.source.predicates, *(key.scalar for key in block.keys))))
    found: dict[str, Fine] = {}
    for aggregate in block.aggregates:
        asked = [part for part in (*aggregate.values, aggregate.condition) if part is not None]
        selected = tuple(sorted(lists.selected(block, asked)))
        known: dict[str, set[str]] = {}
        for name, text in (*every, *_thresholds(asked)):
            known.setdefault(name, set()).add(text)
        found[aggregate.name] = ((_SELECTED, selected), *((name, tuple(sorted(known[name]))) for name in sorted(known)))
    return found


def are_apart(one: Fine, other: Fine, size: int) -> bool:
    """True if two cells have different thresholds close to each other on a column, or only one of them is of a list that is selected
    privately.

    Why  a threshold far from all of the other's makes no difference in the cell, as where it is that of another group: the sample would
         tell. So does a column that only one of them compares (R3a)

    size  [sample units] of both
    """
    known = dict(other)
    if known.get(_SELECTED) != dict(one).get(_SELECTED):
        return True
    return any(_is_close(a, b, size) for name, texts in one if name in known for a, b in _unlike(texts, known[name]))


def _unlike(ones: Sequence[str], others: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Pairs of thresholds of which one is only here, or only there."""
    yield from ((a, b) for a in ones for b in others if a not in others or b not in ones)


def _is_close(one: str, other: str, size: int) -> bool:
    return abs(float(one.rstrip(_AT)) - float(other.rstrip(_AT))) * size < CLOSE


def _thresholds(expressions: Iterable[Scalar]) -> Iterator[tuple[str, str]]:
    """Each as a column and a place between two of its values, as a share of its bounds."""
    for part in (part for expression in expressions for part in expression.walk()):
        if part.function not in _FLIPPED or not any(arg.is_literal for arg in part.args):
            continue
        left, right = part.args
        value, constant = (left, right) if right.is_literal else (right, left)
        if not isinstance(constant.value, int | Fraction):
            continue
        operator = part.function if right.is_literal else _FLIPPED[part.function]
        value, at, operator = _solved(value, Fraction(constant.value), operator)
        domain = _DAY if value.sqltype == TIME and not isinstance(value.domain, Interval) else value.domain
        if isinstance(domain, Interval) and (value.sqltype.is_number or value.sqltype == constant.sqltype):
            yield from _placed(value, domain, at, operator in _AFTER)


def _placed(value: Scalar, domain: Interval, at: Fraction, is_after: bool) -> Iterator[tuple[str, str]]:
    """True if the value at a threshold lies before it or after it; nothing where all declared values lie on one side."""
    if value.integral or value.sqltype.is_counted:
        at, is_after = Fraction(math.floor(at) + 1 if is_after else math.ceil(at)), False
    if domain.lower < domain.upper and (
        domain.lower < at < domain.upper or at == (domain.lower if is_after else domain.upper)
    ):
        position = float((at - domain.lower) / (domain.upper - domain.lower))
        yield value.origin or printed(value.tree), f"{position!r}{_AT if is_after else ''}"


def _solved(value: Scalar, at: Fraction, operator: str) -> tuple[Scalar, Fraction, str]:
    """A value, and what it is compared with, without arithmetic with constants."""
    while value.sqltype.is_number and value.args:
        of = [arg for arg in value.args if not arg.is_literal]
        by = next((arg.value for arg in value.args if isinstance(arg.value, int | Fraction)), None)
        if len(of) != 1 or not of[0].sqltype.is_number:
            break
        is_first, is_turned = value.args[0] is of[0], by is not None and by < 0
        match value.function:
            case "+" if by is not None:
                at -= by
            case "-" if by is not None:
                at, is_turned = (at + by, False) if is_first else (by - at, True)
            case "*" if by:
                at /= by
            case "/" if by and is_first:
                at *= by
            case "cast" | "convert" | "column" if not value.sqltype.is_integer:
                pass
            case _:
                break
        operator = _FLIPPED[operator] if is_turned and value.function != "+" else operator
        value = of[0]
    return value, at, operator
