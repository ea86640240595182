"""What arithmetic and conversions of one column do to sets of its numbers: which values are compared with a constant, and how.

A value is a column and a list of steps, the last one first; every step is exact at the numbers that it is used for.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from dpsql.core.domains import Value
from dpsql.core.sqltypes import SqlType
from dpsql.expressions.temporal import DAY
from dpsql.guard.values import END, START, Axis, Opaque, Piece, Values, ranged

MOST_FACTOR = 10**6
"""Of constants in arithmetic."""
MOST_WHOLE = 2**52
"""Whole numbers in arithmetic that is exact in DOUBLE."""
ORDERED = ("<", "<=", ">", ">=")
Step = tuple[str, Fraction]


def matching(axis: Axis, steps: Sequence[tuple[str, Fraction]], function: str, constant: Value | None) -> Values:
    """The values that a comparison with one constant selects; of `<>` and IS DISTINCT those that are equal. Raises Opaque."""
    if constant is None:
        return axis.null
    if not axis.ranged:
        if steps or function in ORDERED:
            raise Opaque
        return axis.of(constant)
    if isinstance(constant, str):
        raise Opaque
    number = _snapped(axis, Fraction(constant))
    if steps and (number.denominator != 1 or abs(number) > MOST_WHOLE):
        raise Opaque
    piece: Piece
    match function:
        case "<":
            piece = (START, (number, 0))
        case "<=":
            piece = (START, (number, 1))
        case ">":
            piece = ((number, 1), END)
        case ">=":
            piece = ((number, 0), END)
        case _:
            piece = ((number, 0), (number, 1))
    found: Piece | None = piece
    for step in steps:
        found = _before(step, found) if found is not None else None
    return ranged(axis, [found] if found is not None else [], False)


def _snapped(axis: Axis, number: Fraction) -> Fraction:
    """A constant that is, as DOUBLE, a point of the column's grid."""
    if axis.step is None or axis.bounds is None:
        return number
    point = axis.bounds[0] + round((number - axis.bounds[0]) / axis.step) * axis.step
    return point if float(point) == float(number) else number


def defined_at(axis: Axis, steps: Sequence[tuple[str, Fraction]]) -> Values:
    """The numbers that have a value after all steps."""
    found: Piece | None = (START, END)
    for step in steps:
        found = _before(step, found) if found is not None else None
    return ranged(axis, [found] if found is not None else [], False)


def _before(step: tuple[str, Fraction], piece: Piece) -> Piece | None:
    """The values that a step of arithmetic takes into a range; None where there are none."""
    (a, above), (b, over) = piece
    what, n = step
    if what == "+":
        return ((a - n if not isinstance(a, float) else a), above), ((b - n if not isinstance(b, float) else b), over)
    if what == "*":
        low = a / n if not isinstance(a, float) else (a if n > 0 else -a)
        high = b / n if not isinstance(b, float) else (b if n > 0 else -b)
        if n > 0:
            return (low, above), (high, over)
        # a cut just above a number is, upside down, one just below it
        return (high, 1 - over if not isinstance(high, float) else 0), (
            low,
            1 - above if not isinstance(low, float) else 1,
        )
    if what.startswith("round"):
        low, high = (Fraction(bound) for bound in what.split()[1:])
        (a, above), (b, over) = max((a, above), (low, 0)), min((b, over), (high, 1))
    # to whole numbers: from the first that is inside to the first that is beyond
    first = None if isinstance(a, float) else Fraction((a.__floor__() + 1) if above else a.__ceil__())
    beyond = None if isinstance(b, float) else Fraction((b.__floor__() + 1) if over else b.__ceil__())
    if first is not None and beyond is not None and first >= beyond:
        return None
    return (START if first is None else _reaches(what, first)), (END if beyond is None else _reaches(what, beyond))


def _reaches(what: str, whole: Fraction) -> tuple[Fraction, int]:
    """From where on numbers become at least `whole`."""
    if what == "floor":
        return whole, 0
    if what == "ceil":
        return whole - 1, 1
    # halves go to the even neighbour, as DuckDB casts
    return whole - Fraction(1, 2), int(whole % 2)


def arithmetic(function: str, n: Fraction, first: bool) -> list[tuple[str, Fraction]] | None:
    """What arithmetic with a whole number does, the last step first; `first` where the column is the first operand.

    Why  at whole boundaries it is exact in DOUBLE too, but for neighbours in the last digit
    """
    if n.denominator != 1 or abs(n) > MOST_FACTOR or (function in ("*", "/") and not n):
        return None
    match function:
        case "+":
            return [("+", n)]
        case "-":
            return [("+", -n)] if first else [("+", n), ("*", Fraction(-1))]
        case "*":
            return [("*", n)]
        case "/" if first:
            return [("*", 1 / n)]
    return None


def conversion(source: SqlType, target: SqlType) -> list[tuple[str, Fraction]] | None:
    """What a conversion does to a number or a date: nothing, where every value has its like."""
    if source.name == "DATE" and target.name == "TIMESTAMP":
        return [("*", Fraction(DAY))]
    if (
        source == target
        or (source.is_integer and target.name == "DOUBLE")
        or (source.name, target.name) == ("FLOAT", "DOUBLE")
    ):
        return []
    held, holds = source.range, target.range
    if held is not None and holds is not None and holds.lower <= held.lower and held.upper <= holds.upper:
        return [] if source.scale <= target.scale else None
    if source.is_float and target.is_integer and holds is not None:
        return [(f"round {holds.lower} {holds.upper}", Fraction(0))]
    return None
