"""A scalar expression that cannot fail, with what is known about its values.

Every Scalar is built by a function of this package, and each of those makes what the engine computes *total*: where it would raise it
is NULL, by a guard in the tree (soundness: an engine failure is an event that no privacy loss covers). Two kinds of knowledge are kept
apart:

domain  what the owner's declarations say the value is; only clamps and key lists rely on it, and they enforce it
limits  what the value can be whatever the data holds, from its type and from constants; only overflow checks rely on it
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction

from dpsql.core.domains import UNBOUNDED, Categories, Domain, Interval, Value, categories, hull, interval
from dpsql.core.errors import error
from dpsql.core.sqltypes import BIGINT, BOOLEAN, DOUBLE, FLOAT, HUGEINT, INTEGER, VARCHAR, SqlType, decimal
from dpsql.expressions.lengths import check, longest
from dpsql.schema.paths import HeldKey, Name
from dpsql.sql.duckdb import EPOCH
from dpsql.sql.nodes import Bare, Binary, Call, Case, Cast, Column, Literal, Node, Number

_NUMBER = re.compile(r"-?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
LARGEST = 200_000
"""[characters] The largest expression."""
NO_KEYS: frozenset[HeldKey] = frozenset()
NULL_TYPE = SqlType("NULL")
LARGEST_FLOAT = 2**127
"""A little below the largest number that FLOAT holds."""


@dataclass(frozen=True, slots=True)
class Scalar:
    """An expression over the columns of one relation.

    function  "column", "literal", or the operation's name alone: its constants stand in the tree
    args      operands, in order
    tree      what the engine computes
    sqltype   the type that DuckDB gives the same expression
    domain    declared values, without NULL and NaN
    limits    hard limits, or None where the value may be infinite, NaN or no number
    nullable  whether NULL can occur for rows inside the declared domains
    integral  whether every value is an integer, whatever the type
    value     of a literal; None for NULL
    role      of a column
    step      the declared grid of a column, else None
    origin    of a column as it is declared: "table.column"
    declared  of such a column: the hull of its domain, whatever conditions narrow it to
    keys      the private keys whose values a column holds, each with its path to the unit; none where it also holds NULLs of a join
    names     the private keys that a column names, whoever they belong to: for the guard, never to equate units
    constant  whether a column, EXISTS or a value that is bound before the block runs has one value in all rows of a unit
    unit_bounds  declared bounds of a unit's total of a column
    ties      of EXISTS: the private keys of the row around it, which do no more than tie it to its own unit's rows. They are
              read, but no condition on an identifier
    renames   whether a column is its one operand, under another name
    length    of text: the most characters that a value has, whatever the data holds; None where it is no text
    is_identifying       whether any part, however deep, is an identifier
    computes_identifier  whether something is computed of one; a bare one, however often it was carried on, is only itself
    """

    function: str
    args: tuple[Scalar, ...]
    tree: Node
    sqltype: SqlType
    domain: Domain = UNBOUNDED
    limits: Interval | None = None
    nullable: bool = False
    integral: bool = False
    value: Value | None = None
    role: str = ""
    step: Fraction | None = None
    origin: str = ""
    declared: Interval | None = None
    keys: frozenset[HeldKey] = NO_KEYS
    names: frozenset[Name] = frozenset()
    constant: bool = False
    unit_bounds: Interval | None = None
    ties: tuple[Scalar, ...] = ()
    renames: bool = False
    length: int | None = None
    is_identifying: bool = field(init=False, compare=False, default=False)
    computes_identifier: bool = field(init=False, compare=False, default=False)

    def __post_init__(self) -> None:
        held = self.role == "identifier" or any(arg.is_identifying for arg in self.args)
        computed = any(arg.computes_identifier for arg in self.args) or (held and not self.is_column)
        object.__setattr__(self, "is_identifying", held)
        object.__setattr__(self, "computes_identifier", computed)
        if self.sqltype.is_text:
            own = self.length if self.length is not None else longest(self.function, self.args, self.value)
            object.__setattr__(self, "length", own)
            check(self.function, own)
        if self.tree.size > LARGEST:
            raise error(
                107, "the expression grows too large when it is made safe", hint="split it, or nest fewer functions"
            )

    @property
    def is_literal(self) -> bool:
        return self.function == "literal"

    @property
    def is_null(self) -> bool:
        return self.is_literal and self.value is None

    @property
    def is_column(self) -> bool:
        return self.function == "column"

    def walk(self) -> Iterator[Scalar]:
        """This scalar and all its operands, each once; of a derived column also what it is derived from."""
        seen: set[int] = set()
        waiting = [self]
        while waiting:
            part = waiting.pop()
            if id(part) not in seen:
                seen.add(id(part))
                yield part
                waiting += reversed(part.args)

    def leaves(self) -> Iterator[Scalar]:
        """The columns that the expression reads, as the relation around it knows them."""
        if self.is_column:
            yield self
        else:
            for arg in (*self.args, *self.ties):
                yield from arg.leaves()

    @property
    def is_constant(self) -> bool:
        """Whether the value is the same in all rows of a unit.

        EXISTS says so itself: of the columns that it reads only those of the row around it count.
        """
        if self.is_literal or not self.args or self.function in ("column", "exists"):
            return self.is_literal or self.constant
        return all(arg.is_constant for arg in self.args)

    @property
    def held(self) -> frozenset[HeldKey]:
        """The private keys whose values a bare column holds."""
        return self.keys if self.is_column else NO_KEYS

    @property
    def is_unit(self) -> bool:
        """Whether a bare column holds the unit's own key."""
        return any(key.is_unit for key in self.held)


def tree_of(scalar: Scalar | None) -> Node | None:
    """What is computed, where anything is."""
    return scalar.tree if scalar is not None else None


def same_key(one: Scalar, other: Scalar) -> bool:
    """Whether two columns hold the same private key by the same path to the unit: where they are equal, so are the units (rule 46)."""
    return bool(one.held & other.held)


def goes_with(one: Scalar, other: Scalar) -> bool:
    """Whether two bare columns name the same private key: where they are equal, rows go together, and nobody is looked up."""
    return one.is_column and other.is_column and bool(one.names & other.names)


def column(
    tree: Column,
    sqltype: SqlType,
    domain: Domain,
    *,
    nullable: bool = False,
    role: str = "measure",
    step: Fraction | None = None,
    length: int | None = None,
) -> Scalar:
    """A column of a relation, as a scalar."""
    return Scalar(
        "column",
        (),
        tree,
        sqltype,
        domain,
        sqltype.range,
        nullable,
        integral=sqltype.is_integer,
        role=role,
        step=step,
        length=length,
    )


# --- literals -----------------------------------------------------------------------------------------------------


def days(day: date) -> int:
    return (day - EPOCH).days


def microseconds(moment: datetime) -> int:
    return (moment - datetime(1970, 1, 1)) // timedelta(microseconds=1)


def literal(value: Value | None, sqltype: SqlType) -> Scalar:
    """A constant of a type; dates in days and timestamps in microseconds since 1970."""
    if value is None:
        return Scalar("literal", (), Literal(None, sqltype), sqltype, nullable=True)
    if sqltype.is_float and not isinstance(value, str):
        value = as_float(Fraction(value), sqltype)
    domain: Domain = Categories((value,))
    number = None if isinstance(value, str) or sqltype.is_boolean else Fraction(value)
    limits = Interval(number, number) if number is not None and not sqltype.is_temporal else None
    integral = limits is not None and limits.lower.denominator == 1
    return Scalar("literal", (), Literal(value, sqltype), sqltype, domain, limits, integral=integral, value=value)


def as_float(number: Fraction, sqltype: SqlType) -> Fraction:
    """The nearest number that a floating-point type holds."""
    return Fraction(struct.unpack("f", struct.pack("f", float(number)))[0] if sqltype == FLOAT else float(number))


def number_literal(text: str) -> Scalar:
    """A number as the user wrote it: digits are INTEGER, BIGINT or HUGEINT, a point makes DECIMAL, an exponent DOUBLE."""
    if "e" in text.lower():
        number = float(text)
        if number in (float("inf"), float("-inf")):
            raise error(106, f"{text[:40]} is beyond the range of DOUBLE", hint="write a smaller number")
        return literal(Fraction(number), DOUBLE)
    if "." in text:
        exact = Decimal(text)
        scale = len(text.partition(".")[2])
        width = max(len(text.replace(".", "").lstrip("0")), scale + 1)
        if width > 38:
            raise error(106, f"{text[:40]} has more than 38 digits", hint="write fewer digits")
        return literal(Fraction(exact), decimal(width, scale))
    digits = text.lstrip("0") or "0"
    return integer_literal(int(digits) if len(digits) < 50 else 10**50)


def integer_literal(number: int) -> Scalar:
    for sqltype in (INTEGER, BIGINT, HUGEINT):
        limits = sqltype.range
        if limits is not None and Fraction(number) in limits:
            return literal(number, sqltype)
    raise error(106, "an integer has more than 38 digits", hint="write a smaller number")


def text_literal(text: str) -> Scalar:
    return literal(text, VARCHAR)


def boolean_literal(value: bool) -> Scalar:
    return literal(value, BOOLEAN)


NULL = literal(None, NULL_TYPE)


# --- conversion ---------------------------------------------------------------------------------------------------


def common_type(first: SqlType, second: SqlType) -> SqlType | None:
    """The type in which two values are compared or unified without loss of a failure; None where they do not mix."""
    if first == second or second == NULL_TYPE:
        return first
    if first == NULL_TYPE:
        return second
    if first.is_number and second.is_number:
        return _common_number(first, second)
    if first.is_temporal and second.is_temporal:
        return SqlType("TIMESTAMP")
    return None


def _common_number(first: SqlType, second: SqlType) -> SqlType:
    if first.is_float or second.is_float:
        return DOUBLE if DOUBLE in (first, second) else SqlType("FLOAT")
    if first.is_integer and second.is_integer:
        a, b = first.range, second.range
        assert a is not None and b is not None
        both = Interval(min(a.lower, b.lower), max(a.upper, b.upper))
        for name in (
            "TINYINT",
            "SMALLINT",
            "INTEGER",
            "BIGINT",
            "UTINYINT",
            "USMALLINT",
            "UINTEGER",
            "UBIGINT",
            "HUGEINT",
        ):
            limits = SqlType(name).range
            if limits is not None and limits.lower <= both.lower and both.upper <= limits.upper:
                return SqlType(name)
        return HUGEINT
    scale = max(first.scale, second.scale)
    whole = max(_whole_digits(first), _whole_digits(second))
    return decimal(whole + scale, scale) if whole + scale <= 38 else DOUBLE


def _whole_digits(sqltype: SqlType) -> int:
    if sqltype.is_decimal:
        return sqltype.width - sqltype.scale
    limits = sqltype.range
    assert limits is not None
    return len(str(int(max(abs(limits.lower), abs(limits.upper)))))


def cast_tree(scalar: Scalar, sqltype: SqlType) -> Node:
    """The value in another type: the one place that decides between CAST and TRY_CAST.

    Why  CAST raises on what does not fit, and a failure tells that somebody has such a value. So it is printed only where the hard
         limits prove that every value of the *operand* fits, however narrow the result of what is done with it (rule 45)
    """
    return scalar.tree if scalar.sqltype == sqltype else cast_within(scalar.tree, limits_of(scalar), sqltype)


def cast_within(tree: Node, limits: Interval | None, sqltype: SqlType) -> Node:
    """The cast of a value whose hard limits are known; see cast_tree."""
    return Cast(tree, sqltype, tries=not holds(sqltype, limits))


def holds(sqltype: SqlType, limits: Interval | None) -> bool:
    """Whether an exact type has every value of an interval, rounded to its grid."""
    held = sqltype.range
    if limits is None or held is None:
        return False
    grid = 10**sqltype.scale
    return held.lower <= Fraction(math.floor(limits.lower * grid), grid) and limits.upper * grid <= held.upper * grid


def convert(scalar: Scalar, sqltype: SqlType) -> Scalar:
    """The same value in a type that common_type chose; where a value cannot be held it is NULL, never an error."""
    if scalar.sqltype == sqltype:
        return scalar
    if scalar.is_null:
        return literal(None, sqltype)
    if scalar.is_literal and scalar.value is not None and not isinstance(scalar.value, str):
        if sqltype.is_decimal and (Fraction(scalar.value) * 10**sqltype.scale).denominator == 1:
            return literal(scalar.value, sqltype)
        if sqltype.is_float or sqltype.is_integer:
            return literal(scalar.value, sqltype)
    domain = scalar.domain
    if sqltype.name == "TIMESTAMP" and scalar.sqltype.name == "DATE":
        domain = scaled(domain, 86_400_000_000)
    limits = _inside(scalar.limits, sqltype.range)
    return replace(
        scalar,
        function="convert",
        args=(scalar,),
        tree=Cast(scalar.tree, sqltype),
        sqltype=sqltype,
        domain=domain,
        limits=limits,
        value=None,
        step=None,
    )


def _inside(limits: Interval | None, held: Interval | None) -> Interval | None:
    """What is left of hard limits in a type that has no value for the rest."""
    if limits is None or held is None:
        return None
    lower, upper = max(limits.lower, held.lower), min(limits.upper, held.upper)
    return Interval(lower, upper) if lower <= upper else held


def scaled(domain: Domain, factor: int) -> Domain:
    """A domain of numbers times a positive integer."""
    match domain:
        case Interval(lower=lower, upper=upper):
            return Interval(lower * factor, upper * factor)
        case Categories(values=values) if not any(isinstance(v, str) for v in values):
            return categories(int(v) * factor if Fraction(v).denominator == 1 else Fraction(v) * factor for v in values)
    return UNBOUNDED


def unify(scalars: list[Scalar], what: str) -> tuple[list[Scalar], SqlType]:
    """All scalars in one common type; text constants take the type of the others.

    Raises 106 where two of them do not mix.
    """
    typed = [s for s in scalars if not (s.is_literal and (s.is_null or isinstance(s.value, str)))]
    if typed:
        scalars = [read_text(s, typed[0].sqltype) for s in scalars]
    sqltype = NULL_TYPE
    for scalar in scalars:
        if (
            scalar.is_literal
            and scalar.sqltype.is_number
            and not scalar.is_null
            and sqltype.is_number
            and _fits(scalar, sqltype)
        ):
            continue
        found = common_type(sqltype, scalar.sqltype)
        if found is None:
            raise error(
                106,
                f"{what} mixes {sqltype} and {scalar.sqltype}",
                hint=f"write CAST(... AS {sqltype}) around the {scalar.sqltype} side",
            )
        sqltype = found
    return [convert(s, sqltype) for s in scalars], sqltype


def _fits(scalar: Scalar, sqltype: SqlType) -> bool:
    """Whether a number literal is exactly a value of a type."""
    assert scalar.value is not None and not isinstance(scalar.value, str)
    number = Fraction(scalar.value)
    limits = sqltype.range
    if limits is None:
        return sqltype == DOUBLE or (sqltype == FLOAT and scalar.sqltype != DOUBLE and abs(number) < LARGEST_FLOAT)
    grid = 10**sqltype.scale if sqltype.is_decimal else 1
    return number in limits and (number * grid).denominator == 1


def read_text(scalar: Scalar, sqltype: SqlType) -> Scalar:
    """A text constant read as a value of another type, as DuckDB reads `'2020-01-01'` beside a date; others unchanged."""
    if not (scalar.is_literal and isinstance(scalar.value, str)) or sqltype.is_text or sqltype == NULL_TYPE:
        return scalar
    found = _parsed(scalar.value.strip(), sqltype)
    if found is None:
        raise error(106, f"the text constant is no value of type {sqltype}", hint=f"write a constant of type {sqltype}")
    return found


def _parsed(text: str, sqltype: SqlType) -> Scalar | None:
    try:
        if sqltype.name == "DATE":
            return literal(days(date.fromisoformat(text)), sqltype)
        if sqltype.name == "TIMESTAMP":
            return literal(microseconds(datetime.fromisoformat(text).replace(tzinfo=None)), sqltype)
        if sqltype.is_boolean:
            return literal({"true": True, "t": True, "false": False, "f": False}[text.lower()], sqltype)
        if _NUMBER.fullmatch(text) is None:
            return None
        sign, digits = (-1, text[1:]) if text.startswith("-") else (1, text)
        read = number_literal(digits)
    except (ValueError, KeyError, ArithmeticError):
        return None
    assert read.value is not None and not isinstance(read.value, str)
    value = sign * Fraction(read.value)
    return literal(int(value) if value.denominator == 1 else value, read.sqltype)


def one_form(value: Scalar) -> Scalar:
    """The same value with one zero and one NaN: 0.0 equals -0.0 and every NaN every other, though their texts differ, so which of
    them is met first would depend on the order of rows."""
    if not value.sqltype.is_float:
        return value
    x, t = value.tree, value.sqltype
    nan, zero = Cast(Literal("nan", VARCHAR), t, tries=False), Cast(Number(0), t, tries=False)
    whole = Bare(Case(((Call("isnan", (x,)), nan), (Bare(Binary("=", x, Number(0))), zero)), x))
    return replace(value, function="one form", args=(value,), tree=whole, value=None)


def finite_hull(scalar: Scalar) -> Interval | None:
    """The interval of a numeric scalar's declared values, or None."""
    return hull(scalar.domain) if scalar.sqltype.is_number or scalar.sqltype.is_boolean else None


def limits_of(scalar: Scalar) -> Interval | None:
    """Hard limits for overflow checks; a boolean counts as 0 or 1."""
    return interval(0, 1) if scalar.sqltype.is_boolean else scalar.limits
