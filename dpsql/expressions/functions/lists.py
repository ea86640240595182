"""Lists that a private column is declared to hold: whether one has an element, and how many it has.

Why  a list that is longer than declared is NULL where it is read, so what is worked out of one row is bounded (rule 47)
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from dpsql.core.domains import Value, interval
from dpsql.core.errors import error
from dpsql.core.sqltypes import BIGINT, BOOLEAN, SqlType
from dpsql.expressions.functions.record import LONGEST_TEXT, Function
from dpsql.expressions.known import Known, Ruled, always, common, of_type
from dpsql.expressions.literals import literal, read_text
from dpsql.expressions.logic import BOTH
from dpsql.expressions.scalar import Scalar, called


def contains(values: Scalar, looked_for: Scalar) -> Scalar:
    """LIST_CONTAINS(values, constant): NULL for a NULL list, and false where the element is not there, as in DuckDB."""
    element = _element(values, "list_contains")
    value = _as_element(looked_for, element)
    return called("list_contains", [values, value], BOOLEAN, BOTH, nullable=values.nullable)


def size(values: Scalar) -> Scalar:
    """LEN(values): the elements, NULL among them."""
    _element(values, "len")
    most = interval(0, values.length if values.length is not None else LONGEST_TEXT)
    return called("len", [values], BIGINT, most, interval(0, LONGEST_TEXT))


def _element(values: Scalar, function: str) -> SqlType:
    element = values.sqltype.element
    if element is None:
        hint = 'name a column that its owner declares as a list, as in { type = "VARCHAR[]", length = 10 }'
        raise error(106, f"{function.upper()} needs a list, not {values.sqltype}", hint=hint)
    return element


def _as_element(scalar: Scalar, element: SqlType) -> Scalar:
    """A constant as a value of the elements' type. Raises 102 for no constant, 106 for one that no element equals."""
    if not scalar.is_literal or scalar.value is None:
        raise error(102, "what LIST_CONTAINS looks for must be a constant", hint="write LIST_CONTAINS(x, 'a')")
    value = read_text(scalar, element)
    assert value.value is not None
    if not _is_of(value.value, value.sqltype, element):
        what = f"LIST_CONTAINS looks for a value of {scalar.sqltype} in a list of {element}"
        raise error(106, what, hint=f"write a constant of type {element}")
    return literal(value.value, element)


def _is_of(value: Value, sqltype: SqlType, element: SqlType) -> bool:
    """True if a constant of one type is a value of another."""
    if not (sqltype.is_number and element.is_number):
        return sqltype == element
    held = element.range
    return held is None or (value in held and Fraction(value).denominator == 1)


def _contained(args: Sequence[Known]) -> Ruled | None:
    """LIST_CONTAINS compares without a cast of the list, which none of these types raises on."""
    element = args[0].sqltype.element if len(args) == 2 else None
    if element is None or common(of_type(element), args[1]) != element:
        return None
    return always(of_type(BOOLEAN, null=args[0].null))


def _counted(args: Sequence[Known]) -> Ruled | None:
    if len(args) != 1 or args[0].sqltype.element is None:
        return None
    return always(Known(BIGINT, interval(0, LONGEST_TEXT), args[0].null))


FUNCTIONS = (
    Function(("list_contains", "list_has", "array_contains", "array_has"), "LIST_CONTAINS(l, 'a')", "true or false",
        ("value", "value"), contains, {"list_contains": _contained}, safe=True),
    Function(("array_length",), "ARRAY_LENGTH(l)", "BIGINT, as LEN(l)", ("value",), size, {"len": _counted}, safe=True),
)  # fmt: skip
