"""Spark's words for types, names, constants, operators and lists. They hold with ANSI on, in UTC, with TIMESTAMP_NTZ.

Why  Spark's `/` of whole numbers goes through DOUBLE, and DIV of DECIMAL gives 64 bits, wrapped even with ANSI on; casts of DOUBLE and
     DECIMAL to whole numbers truncate; DECIMAL loses digits behind the point where a result has more than 38. So each operand is put
     into the DECIMAL of its limits, in which the result is exact, and what has no such DECIMAL is refused
"""

from __future__ import annotations

import math
from fractions import Fraction

from dpsql.core.domains import Interval
from dpsql.core.sqltypes import BIGINT, DOUBLE, SqlType
from dpsql.engines.dialects.words import DialectWords, Side, fits_bigint, is_narrow
from dpsql.expressions.known import ROWS, Known

DIGITS = 38
"""Of the widest DECIMAL."""
_MOST = 10**DIGITS - 1
_STEP = 10**18
"""Divided with, where a quotient may have more than 64 bits."""
_OTHERS = {
    "BOOLEAN": "BOOLEAN",
    "DOUBLE": "DOUBLE",
    "FLOAT": "DOUBLE",
    "VARCHAR": "STRING",
    "DATE": "DATE",
    "TIMESTAMP": "TIMESTAMP_NTZ",
}
_ESCAPES = "!#$&()*+,./:;<=>?@[]^`{|}~"
"""Of which no pattern has all: one of them escapes where nothing does."""


class SparkWords(DialectWords):
    """See DialectWords. Whole numbers of up to 64 bits are BIGINT, wider ones DECIMAL(38,0)."""

    engine = "Spark"
    secret = "(SELECT `cut` FROM `dpsql secret`)"
    unordered = "ORDER BY NULL"

    def stored(self, sqltype: SqlType) -> str:
        if is_narrow(sqltype):
            return "BIGINT"
        if sqltype.is_integer:
            return f"DECIMAL({DIGITS},0)"
        if sqltype.is_decimal:
            return f"DECIMAL({sqltype.width},{sqltype.scale})"
        if sqltype.name not in _OTHERS:
            raise self.refused(f"a value of type {sqltype}")
        return _OTHERS[sqltype.name]

    def range(self, sqltype: SqlType) -> Interval:
        held = DialectWords.range(self, sqltype)
        return Interval(max(held.lower, Fraction(-_MOST)), min(held.upper, Fraction(_MOST)))

    def name(self, identifier: str) -> str:
        """An identifier as Spark is told it: small letters, since names do not depend on case here."""
        return "`" + identifier.lower().replace("`", "``") + "`"

    def text(self, value: str) -> str:
        if "\0" in value:
            raise self.refused("the character NUL", "write a text without it")
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"

    def number(self, digits: str, sqltype: SqlType) -> str:
        if is_narrow(sqltype) or (sqltype.is_integer and abs(int(digits)) < 2**63):
            return f"{digits}L"
        if len(digits.replace("-", "").replace(".", "")) > DIGITS:
            raise self.refused("a number of more than 38 digits")
        return f"CAST({digits}BD AS {self.stored(sqltype)})"

    def double(self, value: float) -> str:
        return f"{value!r}D" if math.isfinite(value) else f"CAST('{value!r}' AS DOUBLE)"

    def holds(self, known: Known, target: SqlType) -> bool:
        """Of what fits 64 bits: a DECIMAL of 38 digits takes ten times as long."""
        return known.sqltype.is_integer and target.is_integer and not is_narrow(target) and fits_bigint(known)

    def cast(self, value: str, sqltype: SqlType) -> str:
        return f"CAST({value} AS {self.stored(sqltype)})"

    def small(self, value: str) -> str:
        return f"CAST({value} AS INT)"

    def negated(self, value: str, sqltype: SqlType) -> str:
        """A minus before a DECIMAL rounds it to 34 digits; a difference does not."""
        if is_narrow(sqltype) or sqltype.is_float:
            return DialectWords.negated(self, value, sqltype)
        return self.cast(f"0BD - {self.cast(value, sqltype)}", sqltype)

    def absolute(self, value: str, sqltype: SqlType) -> str:
        """Nor may abs() see a negative DECIMAL."""
        if is_narrow(sqltype) or sqltype.is_float:
            return DialectWords.absolute(self, value, sqltype)
        return f"greatest({self.cast(value, sqltype)}, {self.negated(value, sqltype)})"

    def nearest(self, value: str) -> str:
        return f"TRY_CAST(RINT({value}) AS BIGINT)"

    def rint(self, value: str) -> str:
        return f"RINT({value})"

    def rounded(self, value: str, sqltype: SqlType) -> str:
        return self.cast(value, sqltype)

    def tried(self, value: str, sqltype: SqlType) -> str:
        return f"TRY_CAST({value} AS {self.stored(sqltype)})"

    def exact(self, operator: str, left: Side, right: Side, known: Known) -> str:
        if is_narrow(known.sqltype) and not fits_bigint(known):
            raise self.refused(f"{operator} of {known.sqltype}")
        if _are_small(left.known, right.known, known):
            return f"({self.cast(left.text, BIGINT)} {operator} {self.cast(right.text, BIGINT)})"
        if not self._holds(known):
            raise self.refused(
                f"{operator} of {known.sqltype} of more than {DIGITS} digits", "narrow the bounds of its columns"
            )
        (a, p), (b, q) = (_width(self, side.known) for side in (left, right))
        digits = p + q + 1 if operator == "*" else max(p - a, q - b) + max(a, b) + 1
        if digits > DIGITS and (a or b):
            raise self.refused(
                f"{operator} of DECIMAL of more than {DIGITS} digits", "narrow the bounds of its columns"
            )
        one, other = (f"CAST({side.text} AS DECIMAL({w},{s}))" for side, (s, w) in ((left, (a, p)), (right, (b, q))))
        return self.cast(f"{one} {operator} {other}", known.sqltype)

    def divided(self, operator: str, left: Side, right: Side, known: Known) -> str:
        """DIV gives 64 bits, whatever it is of: what may be larger is divided in two steps, as digits are by hand.

        Why  a = h * 10^18 + l, so a // d = (h // d) * 10^18 + ((h % d) * 10^18 + l) // d; h and both quotients fit 64 bits, and all
             parts have the sign of a, so that truncation of the parts is truncation of the whole
        """
        zero = self.number("0", known.sqltype)
        if _are_small(left.known, right.known, known):
            a, b = (self.cast(side.text, BIGINT) for side in (left, right))
            return f"({a} {'%' if operator == '%' else 'DIV'} NULLIF({b}, {zero}))"
        if operator == "%":
            return self.cast(f"{left.text} % NULLIF({right.text}, {zero})", known.sqltype)
        if fits_bigint(known):
            return self.cast(f"{left.text} DIV NULLIF({right.text}, {zero})", known.sqltype)
        if _largest(self, left.known) >= 2**63 * _STEP or _largest(self, right.known) >= _STEP:
            raise self.refused(f"// of {known.sqltype}", "narrow the bounds of its columns")
        wide, step = known.sqltype, self.number(str(_STEP), known.sqltype)
        divisor, high = f"NULLIF({self.cast(right.text, BIGINT)}, 0L)", f"({left.text} DIV {step})"
        rest = f"{self.cast(f'{high} % {divisor}', wide)} * {step} + {left.text} % {step}"
        return self.cast(f"{self.cast(f'{high} DIV {divisor}', wide)} * {step} + ({rest}) DIV {divisor}", wide)

    def floating(self, operator: str, left: Side, right: Side, result: Known) -> str:
        """Both round to the nearest, halves to even, and overflow to infinity; with ANSI on division by zero raises."""
        limits = right.known.limits
        if operator == "/" and (limits is None or limits.lower <= 0 <= limits.upper):
            raise self.refused("/ by a DOUBLE that may be zero", "divide by a constant")
        return f"({left.text} {operator} {right.text})"

    def shifted(self, value: str, places: str) -> str:
        return f"shiftright({self.cast(value, BIGINT)}, {self.small(places)})"

    def later(self, value: str, part: str, amount: str, sqltype: SqlType) -> str:
        span = "make_ym_interval(0, {})" if part == "months" else "make_dt_interval({})"
        start = self.cast(value, SqlType("TIMESTAMP"))
        return self.cast(f"{start} + {span.format(self.small(amount))}", sqltype)

    def like(self, value: str, pattern: str, escape: str) -> str:
        """The backslash escapes unless another character does, and nothing else may stand behind that than what it escapes."""
        free = next((c for c in (escape or _ESCAPES) if escape or c not in pattern), None)
        rest = pattern.replace(escape * 2, "").replace(f"{escape}%", "").replace(f"{escape}_", "") if escape else ""
        if free is None or len(escape) > 1 or (escape and escape in rest) or escape in ("%", "_"):
            raise self.refused("this pattern of LIKE")
        return f"({value} LIKE {self.text(pattern)} ESCAPE {self.text(free)})"

    def among(self, value: str, listed: list[str], sqltype: SqlType) -> str:
        """Of DOUBLE one by one: lists of constants are looked up by bits."""
        if sqltype.is_float and len(value) * len(listed) < 2_000:
            return "(" + " OR ".join(f"{value} = {one}" for one in listed) + ")"
        return DialectWords.among(self, value, listed, sqltype)

    def is_finite(self, value: str) -> str:
        """Dates have no infinity here, see shown.py."""
        return f"({value} = {value})"

    def whole(self, function: str, value: str) -> str:
        """floor and ceil give whole numbers of 64 bits; from 2^52 on a DOUBLE has no fraction."""
        inside = f"abs({value}) < {self.double(2.0**52)}"
        return f"(CASE WHEN {inside} THEN {self.cast(f'{function}({value})', DOUBLE)} ELSE {value} END)"

    def sum(self, value: str, known: Known) -> str:
        """In a type that holds every partial sum of as many rows as there can be: BIGINT, or a DECIMAL, which has ten digits more than
        that of its argument. A HUGEINT that comes as BIGINT is the same number beside any other."""
        scale, width = _width(self, known)
        largest = _largest(self, known) * ROWS * 10**scale
        if known.sqltype.is_integer and largest < 2**63:
            return f"sum({self.cast(value, BIGINT)})"
        needed = len(str(math.floor(largest)))
        if needed > DIGITS:
            raise self.refused(f"SUM of {known.sqltype} without narrow bounds", "give the column bounds")
        return f"sum(CAST({value} AS DECIMAL({max(width, DIGITS - 10)},{scale})))"

    def listed(self, value: str, known: Known) -> str:
        """It leaves out NULL."""
        if known.null:
            raise self.refused("a list with NULL in it")
        return f"collect_list({value})"

    def ordered(self, values: str) -> str:
        return f"sort_array({values})"

    def unnested(self, values: str, sqltype: SqlType) -> str:
        """Bare: nothing may stand around it."""
        return f"explode({values})"

    def counted(self, end: str) -> str:
        """A sequence down to -1 has two numbers."""
        last = self.cast(end, BIGINT)
        return f"filter(sequence(0L, greatest({last}, 0L)), i -> i < {last})"

    def picked(self, values: str, place: str) -> str:
        """Places count from 0 here."""
        return f"get({values}, CAST(LEAST({place}, 2147483647L) AS INT) - 1)"

    def mapped(self, values: str, name: str, value: str) -> str:
        return f"transform({values}, {name} -> {value})"

    def _holds(self, known: Known) -> bool:
        held, limits = self.range(known.sqltype), known.limits
        return limits is not None and held.lower <= limits.lower and limits.upper <= held.upper


def _are_small(left: Known, right: Known, result: Known) -> bool:
    """True of whole numbers that all fit 64 bits: an operator of BIGINT is exact on them."""
    sides = (is_narrow(side.sqltype) or (side.sqltype.is_integer and fits_bigint(side)) for side in (left, right))
    return result.sqltype.is_integer and fits_bigint(result) and all(sides)


def _width(words: SparkWords, known: Known) -> tuple[int, int]:
    """(digits behind the point, all digits) of the least DECIMAL that holds every value."""
    scale = known.sqltype.scale if known.sqltype.is_decimal else 0
    return scale, max(len(str(math.floor(_largest(words, known) * 10**scale))), scale, 1)


def _largest(words: SparkWords, known: Known) -> Fraction:
    """The least number that no value is larger than, either way."""
    held = words.range(known.sqltype)
    limits = known.limits or held
    return max(min(-limits.lower, -held.lower), min(limits.upper, held.upper), Fraction(0))


WORDS = SparkWords()
