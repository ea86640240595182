"""void: proof that a part of a condition decides about nobody, as declared.

A sample tells how many a part decides about, never that there is nobody. That is proved, by exact reading of the conditions on one
column at a time: where no declared value of it, NULL among them, makes a difference. Of a text or number without a declaration every
value is read; of dates and times also the day, and the year, quarter and month.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import date, datetime
from fractions import Fraction
from itertools import pairwise

from dpsql.core.domains import Categories, Interval, Value
from dpsql.core.sqltypes import DATE, TIMESTAMP
from dpsql.expressions.literals import days
from dpsql.expressions.scalar import Scalar
from dpsql.expressions.temporal import moment
from dpsql.sql.nodes import Literal, Node
from dpsql.sql.trees import walk

Point = Value | None
Truth = bool | None
_COMPARED: dict[str, Callable[[object, object], bool]] = {
    "=": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
    "<": lambda a, b: a < b,  # type: ignore[operator]
    "<=": lambda a, b: a <= b,  # type: ignore[operator]
    ">": lambda a, b: a > b,  # type: ignore[operator]
    ">=": lambda a, b: a >= b,  # type: ignore[operator]
}
_CONVERTED = ("cast", "convert")
_CALENDAR = ("cast", "extract")
"""Functions that are read of a date or time: its day, and what is the same for whole months."""
DAY = 86_400_000_000
"""[microseconds]"""
MOST_POINTS = 2_000


class UnreadError(Exception):
    """A condition is none of those that are read."""


_UNREAD = (UnreadError, TypeError, ValueError, ArithmeticError)
"""Exceptions of a condition whose value at a point is not known here."""


class Proofs:
    """The conditions of one block, each read once at each value of its column.

    conditions  that all hold
    computed    what rows are grouped by, and what is aggregated
    """

    def __init__(self, conditions: Sequence[Scalar], computed: Sequence[Scalar] = ()) -> None:
        self._conditions, self._computed = conditions, computed
        self._points: dict[Node, list[Point] | None] = {}
        self._truths: dict[tuple[int, int], Truth] = {}
        self._constants: dict[Node, Truth] = {}

    def is_void(self, part: Scalar, value: bool) -> bool:
        """True if nobody's rows change where a part is always `value`, unless it is NULL, whatever the values of other columns are."""
        if _constant(part, known=True) is value:
            return True
        column, every = _column(part), range(len(self._conditions))
        left = [
            i for i in every if _holds(self._conditions[i], part) and self._decided(self._conditions[i], part) is None
        ]
        if not all(_is_chosen_alike(whole, part, value) for whole in self._computed):
            return False
        if not left:
            return any(_holds(whole, part) for whole in (*self._conditions, *self._computed))
        beside = [i for i in every if column is not None and _same(_column(self._conditions[i]), column)]
        if column is None or any(i not in beside for i in left):
            return False
        try:
            return self._is_alike(column, beside, part, value)
        except _UNREAD:
            return False

    def _is_alike(self, column: Scalar, beside: Sequence[int], part: Scalar, value: bool) -> bool:
        """True if the conditions on a column hold at the same of its values with the part and without it."""
        if column.tree not in self._points:
            self._points[column.tree] = _points(column, [self._conditions[i] for i in beside])
        points = self._points[column.tree]
        varied = {i for i in beside if _holds(self._conditions[i], part)}

        def met(place: int, point: Point) -> bool:
            return all(
                _truth(self._conditions[i], point, part, value) is True
                if i in varied
                else self._truth(i, place, point) is True
                for i in beside
            )

        return points is not None and all(
            all(self._truth(i, place, point) is True for i in beside) == met(place, point)
            for place, point in enumerate(points)
        )

    def _truth(self, i: int, place: int, point: Point) -> Truth:
        known = (i, place)
        if known not in self._truths:
            self._truths[known] = _truth(self._conditions[i], point, self._conditions[i], None)
        return self._truths[known]

    def _decided(self, condition: Scalar, part: Scalar) -> Truth:
        """Truth of a condition whatever a part of it is, by its other parts that are the same for everybody; None where
        that is unknown."""
        if condition.tree == part.tree:
            return None
        if condition.function == "not":
            inner = self._decided(condition.args[0], part)
            return None if inner is None else not inner
        if condition.function in ("and", "or"):
            decided = condition.function == "or"
            found = [self._decided(arg, part) for arg in condition.args]
            return decided if decided in found else None if None in found else not decided
        if condition.tree not in self._constants:
            self._constants[condition.tree] = _constant(condition)
        return self._constants[condition.tree]


def _is_chosen_alike(whole: Scalar, part: Scalar, value: bool) -> bool:
    """True if a part stands in the conditions of CASEs alone, which choose alike."""
    if whole.tree == part.tree:
        return False
    if not _holds(whole, part):
        return True
    args = whole.args
    if whole.function == "case":
        size = len(args) // 2 * 2
        if any(_holds(c, part) for c in args[:size:2]) and not _chooses_alike(whole, part, value):
            return False
        args = (*args[1:size:2], *args[size:])
    return all(_is_chosen_alike(arg, part, value) for arg in args)


def _chooses_alike(case: Scalar, part: Scalar, value: bool) -> bool:
    """True if a CASE takes the same branch at every declared value of the one column that its conditions read."""
    conditions = case.args[: len(case.args) // 2 * 2 : 2]
    column = _column(part)
    try:
        if column is None or any(not _same(_column(condition), column) for condition in conditions):
            return False
        points = [point for point in _points(column, conditions) or () if point is not None]
        chosen = [[_chosen(conditions, x, part, given) for x in points] for given in (None, value)]
    except _UNREAD:
        return False
    return bool(points) and chosen[0] == chosen[1]


def _chosen(conditions: Sequence[Scalar], point: Point, part: Scalar, value: bool | None) -> int:
    """The place of the first condition that is true; -1 for none."""
    return next((i for i, c in enumerate(conditions) if _truth(c, point, part, value) is True), -1)


def is_constant(value: Scalar) -> bool:
    """True if a CASE has one constant for everybody who has a value, as declared."""
    if value.is_literal:
        return True
    if value.function != "case":
        return False
    *branches, default = value.args if len(value.args) % 2 else (*value.args, None)
    for condition, result in zip(branches[::2], branches[1::2], strict=True):
        if result.is_literal and result.value is None:  # type: ignore[union-attr]
            continue
        # NULL takes no branch
        truth = _constant(condition, known=True)  # type: ignore[arg-type]
        if truth is not False:
            return _constant(condition) is True and is_constant(result)  # type: ignore[arg-type]
    return default is None or is_constant(default)


def _constant(condition: Scalar, known: bool = False) -> Truth:
    """Truth of a condition on one column, the same for every declared value; None where that differs, or is not known.

    known  NULL is left out: so many have it that the sample tells of them
    """
    column = _column(condition)
    if condition.function == "is null" and column is not None and condition.args[0].is_column and not column.nullable:
        return False
    try:
        points = _points(column, [condition]) if column is not None else None
        found = {_truth(condition, x, condition, None) for x in points or () if x is not None or not known}
    except _UNREAD:
        return None
    return next(iter(found)) if len(found) == 1 else None


def _same(one: Scalar | None, other: Scalar) -> bool:
    return one is not None and one.tree == other.tree


def _column(condition: Scalar) -> Scalar | None:
    """The one column that a condition reads, bare; None where it reads several, or none."""
    found = {leaf.tree: leaf for leaf in condition.leaves()}
    return next(iter(found.values())) if len(found) == 1 else None


def _points(column: Scalar, conditions: Sequence[Scalar]) -> list[Point] | None:
    """Values of a column between which no condition changes its truth."""
    if column.sqltype.element is not None:
        return None
    domain, marks = column.domain, {m for c in conditions for m in _constants(c)}
    if isinstance(domain, Categories):
        found: list[Point] = list(domain.values)
    elif column.sqltype.is_text:
        # an undeclared text is one of the constants, or between two: the first of these is a constant with one letter more
        found = ["", *(text for m in marks if isinstance(m, str) for text in (m, f"{m}\0"))]
    else:
        numbers = {m for m in marks if isinstance(m, Fraction)}
        found = list(_numbers(column, conditions, numbers))
    nulls: list[Point] = [None] if column.nullable else []
    return [*found, *nulls] if 0 < len(found) <= MOST_POINTS else None


def _numbers(column: Scalar, conditions: Sequence[Scalar], marks: set[Fraction]) -> Iterator[Fraction | int]:
    """Numbers, days or microseconds, within the declared bounds if there are any."""
    domain = column.domain if isinstance(column.domain, Interval) else None
    if column.sqltype.is_counted and domain is None:
        return
    ends = (
        {domain.lower, domain.upper} if domain is not None else {min(marks, default=0) - 1, max(marks, default=0) + 1}
    )
    marks = {*marks, *ends}
    if not (column.integral or column.sqltype.is_counted):
        inside = sorted(m for m in marks if domain is None or m in domain)
        yield from inside
        yield from ((a + b) / 2 for a, b in pairwise(inside))
        return
    whole = {m.__floor__() + i for m in marks for i in (-1, 0, 1, 2)}
    if domain is None:
        yield from sorted(whole)
        return
    if column.sqltype.is_temporal and any(part.function in _CALENDAR for c in conditions for part in c.walk()):
        whole |= {start - i for start in _months(column, domain) for i in (0, 1)}
    first, last = domain.lower.__ceil__(), domain.upper.__floor__()
    yield from sorted(m for m in whole if first <= m <= last)


def _months(column: Scalar, domain: Interval) -> list[int]:
    """The starts of the months within the bounds of a date or time; where there are too many, more of them than are read."""
    first, last = moment(column, domain.lower), moment(column, domain.upper)
    numbers = range(first.year * 12 + first.month - 1, last.year * 12 + last.month)
    starts = [date(n // 12, n % 12 + 1, 1) for n in numbers[:MOST_POINTS]]
    return [days(start) * (1 if column.sqltype == DATE else DAY) for start in starts]


def _constants(condition: Scalar) -> Iterator[Value]:
    """The constants of a condition on one column, in its own units."""
    kinds = {leaf.sqltype for leaf in condition.leaves()}
    for part in condition.walk():
        if not part.is_literal or part.value is None or isinstance(part.value, bool):
            continue
        if isinstance(part.value, str):
            yield part.value
        elif part.sqltype == DATE and TIMESTAMP in kinds:
            yield from (Fraction(part.value + i) * DAY for i in (0, 1))
        elif part.sqltype == TIMESTAMP and DATE in kinds:
            yield Fraction(part.value // DAY)
        else:
            yield Fraction(part.value)


def _truth(condition: Scalar, point: Point, part: Scalar, value: bool | None) -> Truth:
    """A condition at a value of its column. Raises UnreadError where it is none of those that are read."""
    if value is not None and condition.tree == part.tree:
        return None if part.nullable and _truth(condition, point, part, None) is None else value
    args = condition.args
    match condition.function:
        case "and" | "or":
            found = [_truth(arg, point, part, value) for arg in args]
            decided = condition.function == "or"
            return decided if decided in found else None if None in found else not decided
        case "not":
            inner = _truth(args[0], point, part, value)
            return None if inner is None else not inner
        case "column" if condition.sqltype.is_boolean:
            return None if point is None else bool(point)
        case "is null":
            return _value(args[0], point, part, value) is None
        case "isnan" | "isinf" | "isfinite" if isinstance(args[0].domain, Interval | Categories):
            return None if _value(args[0], point, part, value) is None else condition.function == "isfinite"
        case "in":
            known = [_value(arg, point, part, value) for arg in args]
            return (
                None if known[0] is None else (True if known[0] in known[1:] else None if None in known[1:] else False)
            )
        case "like" if isinstance(args[0].domain, Categories) and len(args) == 2:
            text, pattern = (_value(arg, point, part, value) for arg in args)
            return None if text is None or pattern is None else _is_like(str(text), str(pattern))
        case name if name in _COMPARED:
            left, right = (_value(arg, point, part, value) for arg in args)
            return None if left is None or right is None else _COMPARED[name](left, right)
    raise UnreadError


def _is_like(text: str, pattern: str) -> bool:
    wild = {"%": ".*", "_": "."}
    return re.fullmatch("".join(wild.get(c, re.escape(c)) for c in pattern), text, re.DOTALL) is not None


def _value(scalar: Scalar, point: Point, part: Scalar, value: bool | None) -> Point:
    """An operand of a condition at a value of its column; of a CASE the constant that it chooses."""
    if scalar.is_literal:
        return scalar.value
    if scalar.is_column and not scalar.sqltype.is_boolean:
        return point
    if scalar.function == "case":
        size = len(scalar.args) // 2 * 2
        chosen = _chosen(scalar.args[:size:2], point, part, value)
        results = (*scalar.args[1:size:2], *(scalar.args[size:] or (None,)))
        result = results[chosen]
        return None if result is None else _value(result, point, part, value)
    of = scalar.args[0] if scalar.args else scalar
    if not of.sqltype.is_temporal or not (of.is_column or of.is_literal):
        raise UnreadError
    inner = _value(of, point, part, value)
    if inner is None:
        return None
    when, kinds = Fraction(inner), (of.sqltype, scalar.sqltype)
    if scalar.function in _CONVERTED and kinds == (TIMESTAMP, DATE):
        return when // DAY
    if scalar.function in _CONVERTED and kinds == (DATE, TIMESTAMP):
        return when * DAY
    if scalar.function == "extract":
        return _extracted(scalar.tree, moment(of, when))
    raise UnreadError


def _extracted(tree: Node, when: datetime) -> int:
    part = next((n.value for n in walk(tree) if isinstance(n, Literal) and n.type.is_text), None)
    match part:
        case "year":
            return when.year
        case "quarter":
            return (when.month + 2) // 3
        case "month":
            return when.month
    raise UnreadError


def _holds(condition: Scalar, part: Scalar) -> bool:
    return any(inner.tree == part.tree for inner in condition.walk())
