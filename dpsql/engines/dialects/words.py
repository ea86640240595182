"""Words in which dialects differ: what queries.py, expressions.py, casts.py and functions.py ask of each; the rest they share."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction

from dpsql.core.domains import Interval
from dpsql.core.errors import Error, error
from dpsql.core.sqltypes import INTEGER_BITS, SqlType
from dpsql.expressions.known import Known

LEAST = Fraction(1, 2**1074)
"""The least DOUBLE above zero; half of it rounds to zero."""
_NARROW = frozenset(set(INTEGER_BITS) - {"HUGEINT", "UBIGINT"})
_FIRST, _LAST = -719_162, 2_932_896
"""[days] since 1970 of the first day of the year 1 and of the last of the year 9999."""
_DAY = 86_400_000_000
"""[microseconds]"""


def is_narrow(sqltype: SqlType) -> bool:
    """True of what is stored as a whole number of 64 bits."""
    return sqltype.name in _NARROW


def fits_bigint(known: Known) -> bool:
    """True where every value, rounded, is a BIGINT."""
    limits = known.limits
    return limits is not None and limits.lower >= -(2**63) and limits.upper <= 2**63 - 1


def within_years(known: Known) -> bool:
    """True of a date or timestamp that is known to be in the years 1 to 9999."""
    unit = _DAY if known.sqltype.name == "TIMESTAMP" else 1
    limits = known.limits
    return limits is not None and _FIRST * unit <= limits.lower and limits.upper < (_LAST + 1) * unit


@dataclass(frozen=True, slots=True)
class Side:
    """An operand of an operator: its text, what it can be, and the least that it can be, either way, if it is not zero.

    point  its value where it is a constant DOUBLE
    """

    text: str
    known: Known
    least: Fraction = Fraction(0)
    point: Fraction | None = None


class DialectWords(ABC):
    """The words of one dialect. Every value is held in the type that `stored` names for dpsql's type of it.

    engine   its name, in refusals
    secret   stands for the parameter `$cut`: the secret is in no text and no log (rule 49)
    kept     behind a part of WITH that shall be computed once
    unordered  what a window of ranks has instead of an order
    """

    engine: str
    secret: str
    kept: str = ""
    unordered: str = ""

    def refused(self, what: str, hint: str = "ask without it, or of data that DuckDB reads") -> Error:
        """The refusal of what the engine has no surely equal form of."""
        return error(102, f"{what} has no form in {self.engine} that is surely equal on every value", hint=hint)

    # --- types, names and constants

    @abstractmethod
    def stored(self, sqltype: SqlType) -> str:
        """The type that holds every value of one of dpsql's exactly. Raises 102."""

    def range(self, sqltype: SqlType) -> Interval:
        """All that a column of an exact type can hold here."""
        held = sqltype.range
        assert held is not None
        return held

    @abstractmethod
    def name(self, identifier: str) -> str:
        """An identifier."""

    @abstractmethod
    def text(self, value: str) -> str:
        """A text constant; compared by its bytes."""

    @abstractmethod
    def number(self, digits: str, sqltype: SqlType) -> str:
        """A constant of an exact type."""

    @abstractmethod
    def double(self, value: float) -> str:
        """A constant DOUBLE."""

    # --- casts, of what was shown to fit

    def holds(self, known: Known, target: SqlType) -> bool:
        """True where a whole number may stand for one of a wider type as it is: beside one of these it becomes one by itself."""
        return False

    @abstractmethod
    def cast(self, value: str, sqltype: SqlType) -> str:
        """A value in the type that holds another of dpsql's."""

    @abstractmethod
    def small(self, value: str) -> str:
        """A boolean, or a whole number of 32 bits, in the type that functions count in."""

    def digits(self, value: str, sqltype: SqlType) -> str:
        """A whole number without a point when it becomes text."""
        return value

    def negated(self, value: str, sqltype: SqlType) -> str:
        """A number of a type with the other sign; it fits."""
        return f"(- {self.cast(value, sqltype)})"

    def absolute(self, value: str, sqltype: SqlType) -> str:
        """The same without its sign."""
        return f"abs({value})"

    @abstractmethod
    def nearest(self, value: str) -> str:
        """A DOUBLE as a whole number of 64 bits, halves to even."""

    @abstractmethod
    def rint(self, value: str) -> str:
        """A DOUBLE without its fraction, halves to even."""

    @abstractmethod
    def rounded(self, value: str, sqltype: SqlType) -> str:
        """An exact number in a DECIMAL type, halves away from zero."""

    @abstractmethod
    def tried(self, value: str, sqltype: SqlType) -> str:
        """The same, and NULL of what does not fit."""

    # --- operators

    @abstractmethod
    def exact(self, operator: str, left: Side, right: Side, known: Known) -> str:
        """+ - * of whole numbers and DECIMAL, whose result was proved to fit its type."""

    @abstractmethod
    def divided(self, operator: str, left: Side, right: Side, known: Known) -> str:
        """// and % of whole numbers, truncated; NULL by zero."""

    @abstractmethod
    def floating(self, operator: str, left: Side, right: Side, result: Known) -> str:
        """+ - * / of DOUBLE."""

    @abstractmethod
    def shifted(self, value: str, places: str) -> str:
        """>> of whole numbers."""

    @abstractmethod
    def later(self, value: str, part: str, amount: str, sqltype: SqlType) -> str:
        """A date or timestamp some "months" or "days" later, as one of a type."""

    @abstractmethod
    def like(self, value: str, pattern: str, escape: str) -> str:
        """LIKE of a constant; an empty `escape` means that nothing escapes."""

    def among(self, value: str, listed: list[str], sqltype: SqlType) -> str:
        """IN of a list."""
        return f"({value} IN ({', '.join(listed)}))"

    # --- functions

    def is_nan(self, value: str) -> str:
        return f"({value} = {self.double(math.nan)})"

    def infinities(self) -> str:
        return f"{self.double(math.inf)}, {self.double(-math.inf)}"

    @abstractmethod
    def is_finite(self, value: str) -> str:
        """True of a finite date or timestamp; NULL of NULL."""

    @abstractmethod
    def whole(self, function: str, value: str) -> str:
        """floor or ceil of a DOUBLE, as one."""

    # --- aggregates and lists

    @abstractmethod
    def sum(self, value: str, known: Known) -> str:
        """SUM of whole numbers or DECIMAL: no partial sum overflows."""

    def listed(self, value: str, known: Known) -> str:
        """All values as a list."""
        return f"array_agg({value})"

    @abstractmethod
    def ordered(self, values: str) -> str:
        """A list, sorted. No NULL is in it, and what compares as equal is equal in all that is made of it."""

    @abstractmethod
    def unnested(self, values: str, sqltype: SqlType) -> str:
        """A row for each value of a list, of a type."""

    @abstractmethod
    def counted(self, end: str) -> str:
        """The list 0, 1, ... below a number of rows."""

    @abstractmethod
    def picked(self, values: str, place: str) -> str:
        """list[place], which counts from 1; NULL where there is none."""

    @abstractmethod
    def mapped(self, values: str, name: str, value: str) -> str:
        """[value for name in values], in the list's order."""
