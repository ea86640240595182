"""How a question is kept in the ledger: as JSON that holds nothing of the data, and reads back as equal regions.

A column is written down without its declared values, which the schema has; where the schema has other ones now, it is another column,
and its old sets are only ever compared with each other.

Records of version 1 are lists, [columns, questions], and hold a width that the noise leaves with probability 0.3173 at most, and any
smaller one more often: the smallest one of whole quanta. So the standard deviation is more than half of it (Chebyshev: 0.3173 h^2 <=
E Z^2), and half of it is what is read: nobody's old answer counts as noisier than it was.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any

from dpsql.core.domains import Value
from dpsql.guard.questions import Question, Shape
from dpsql.guard.regions import Region
from dpsql.guard.values import Axis, Cut, Listed, Ranged, Values

Json = Any
VERSION = 2
"""Of what is written."""


def written(questions: Sequence[Question]) -> str:
    """The questions of one statement."""
    axes: dict[str, int] = {}
    listed: list[Json] = []

    def place(axis: Axis) -> int:
        if axis.key not in axes:
            axes[axis.key] = len(listed)
            bounds = None if axis.bounds is None else [_number(b) for b in axis.bounds]
            step = None if axis.step is None else _number(axis.step)
            flags = [axis.nullable, axis.ranged, axis.integral, axis.opaque, axis.released, axis.halved]
            listed.append([axis.key, axis.name, len(axis.values), bounds, step, flags, axis.temporal])
        return axes[axis.key]

    def region(found: Region) -> Json:
        return [[[place(values.axis), _values(values)] for values in box.values()] for box in found]

    body = [
        [
            list(question.tables),
            question.spread,
            [
                [
                    region(shape.base),
                    [[region(r) for r in key] for key in shape.keys],
                    [region(r) for r in shape.selects],
                ]
                for shape in question.shapes
            ],
        ]
        for question in questions
    ]
    return json.dumps({"version": VERSION, "columns": listed, "questions": body}, separators=(",", ":"))


def read(text: str, known: Mapping[str, Axis]) -> list[Question]:
    """The questions of one statement.

    known  the columns of the declared schema, by their keys

    Raises ValueError, TypeError, KeyError, IndexError, ArithmeticError where the text is none of ours.
    """
    listed, body, of_deviation = _parts(json.loads(text))
    if not all(type(name) is str for tables, _, _ in body for name in tables):
        raise ValueError("no names of tables")
    axes = [known.get(each[0]) or _axis(each) for each in listed]

    def region(found: Json) -> Region:
        if not isinstance(found, list):
            raise ValueError("no region")
        return tuple({axes[i].key: _set(axes[i], values) for i, values in box} for box in found)

    return [
        Question(
            tuple(tables),
            tuple(
                Shape(
                    region(base),
                    tuple(tuple(region(r) for r in key) for key in keys),
                    tuple(region(r) for r in selects),
                )
                for base, keys, selects in shapes
            ),
            spread=_spread(spread) * of_deviation,
        )
        for tables, spread, shapes in body
    ]


def _parts(found: Json) -> tuple[Json, Json, float]:
    """Columns, questions, and what of a written noise is at most the standard deviation."""
    if isinstance(found, list):
        listed, body = found
        return listed, body, 0.5
    if found["version"] != VERSION:
        raise ValueError("no version that is known")
    return found["columns"], found["questions"], 1.0


def _spread(found: Json) -> float:
    if not isinstance(found, int | float) or not found >= 0:
        raise ValueError("no noise")
    return float(found)


def _axis(each: list[Json]) -> Axis:
    key, name, count, bounds, step, flags, temporal = each
    nullable, ranged, integral, opaque, released, *more = flags
    # version 1 knew no halves
    halved = bool(more and more[0])
    ends = None if bounds is None else (Fraction(bounds[0]), Fraction(bounds[1]))
    values: tuple[Value, ...] = (False, True) if opaque else tuple(range(count))
    grid = None if step is None else Fraction(step)
    return Axis(
        str(key), str(name), values, ends, grid, nullable, ranged, integral, opaque, released, str(temporal), halved
    )


def _values(values: Values) -> Json:
    if isinstance(values, Listed):
        found: list[Json] = [f"{values.bits:x}"]
        return found + ([[_value(v) for v in sorted(values.odd, key=repr)]] if values.odd else [])
    return [values.null, *([_number(a[0]), a[1], _number(b[0]), b[1]] for a, b in values.pieces)]


def _set(axis: Axis, found: list[Json]) -> Values:
    if axis.ranged:
        null, *pieces = found
        listed = tuple((_cut(a, i), _cut(b, j)) for a, i, b, j in pieces)
        cuts = [cut for piece in listed for cut in piece]
        if any(not one < other for one, other in pairwise(cuts)) or type(null) is not bool:
            raise ValueError("no set of numbers")
        return Ranged(axis, listed, null)
    bits, *odd = found
    if not 0 <= int(str(bits), 16) < 1 << (len(axis.values) + 2):
        raise ValueError("no set of values")
    return Listed(axis, int(str(bits), 16), frozenset(_back(v) for v in (odd[0] if odd else ())))


def _number(number: Fraction | float) -> str:
    return str(number)


def _cut(number: str, above: int) -> Cut:
    if above not in (0, 1) or type(above) is not int:
        raise ValueError("no cut")
    if "inf" in number:
        return float(number), above
    found = Fraction(number)
    return (found.numerator if found.denominator == 1 else found), above


def _value(value: Value) -> Json:
    return [str(value)] if isinstance(value, Fraction) else value


def _back(value: Json) -> Value:
    if isinstance(value, list):
        return Fraction(value[0])
    if not isinstance(value, int | str):
        raise ValueError("no value of a column")
    return value
