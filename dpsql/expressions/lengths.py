"""The most characters that a text expression has, whatever the data holds (rule 47).

Why  MAX(a || a) of MAX(a || a) of ... makes 2^n characters of the rows of one unit, and time and memory then say whether that unit is
     there. A declared column is cut off at its own length where it is read: a longer value is NULL (engines/duckdb/sources.py). What is
     computed of it is at most the sum of its parts, and above LONGEST the statement is refused, whatever the data.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from dpsql.core.errors import error
from dpsql.core.sqltypes import SqlType

LONGEST = 65_536
"""The most characters that a computed text may have."""
LONGEST_BOUND = 4_096
"""The most characters of a text that is released, written in the statement's VALUES or computed of public rows; a longer one is NULL
beside people's rows."""
_OF_OTHERS = 64
"""More characters than any number, date, timestamp or boolean has as text."""
_GIVEN = ("column", "literal", "released")
_ONE_OF = (
    "case", "coalesce", "nullif", "least", "greatest", "cast", "convert", "trim", "ltrim", "rtrim", "column", "lower",
    "upper",
)  # fmt: skip
"""The engine has one letter of another case for each letter: tests/laws tries all of them."""


class Operand(Protocol):
    """Operand of a function that gives text, and its greatest length."""

    @property
    def sqltype(self) -> SqlType: ...
    @property
    def length(self) -> int | None: ...
    @property
    def value(self) -> object: ...


def longest(function: str, args: Sequence[Operand], value: object) -> int:
    """The most characters of what a function gives, from those of its operands. 901 for a function of which nothing is known."""
    texts = [arg.length or 0 for arg in args if arg.sqltype.is_text]
    match function:
        case "literal":
            return len(value) if isinstance(value, str) else 0
        case "||":
            return sum(texts)
        case "substring" | "left" | "right":
            return _of_part(function, max(texts), [arg.value for arg in args[1:]])
        case name if name in _ONE_OF and args:
            return max(
                [*texts, *(_OF_OTHERS for arg in args if name in ("cast", "convert") and not arg.sqltype.is_text)]
            )
    raise error(901, f"the length of what {function} gives is not known")


def _of_part(function: str, whole: int, positions: list[object]) -> int:
    """SUBSTRING(x, start[, length]), LEFT(x, n), RIGHT(x, n); a negative length reads backwards, a negative n leaves out."""
    count = positions[-1] if len(positions) == (2 if function == "substring" else 1) else None
    if not isinstance(count, int) or (function != "substring" and count < 0):
        return whole
    return min(whole, abs(count))


def check(function: str, length: int) -> None:
    """Raise 204 for a text that is computed and could grow too long; a column or constant is what it is."""
    if length > LONGEST and function not in _GIVEN:
        what = f"this text could have {length:,} characters, and at most {LONGEST:,} are computed"
        raise error(204, what, hint="append fewer texts to each other")
