"""The record of a function of the values of one row: all that is known of it, in one place.

How SQL calls it and what it takes; what makes its scalar; and, for each function of the engine that this prints, the rule by which the
printed text is known to raise on no data (rule 45). The grammar, completion, help and the fuzzers read the records.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from dpsql.core.domains import interval
from dpsql.core.errors import error
from dpsql.core.sqltypes import BIGINT, VARCHAR, SqlType
from dpsql.expressions.known import NOTHING, Known, Ruled, always, of_type
from dpsql.expressions.literals import literal
from dpsql.expressions.scalar import NULL_TYPE, Scalar

Kind = Literal["value", "constant", "word", "period"]
"""Of an argument: an expression; a constant, over released rows too; a word such as month, with quotes or without; INTERVAL 7 DAY."""
Rule = Callable[[Sequence[Known]], Ruled | None]
"""Values that a function of the engine gives, from what its arguments can be; None for arguments that no rule knows."""
Constants = Sequence[object]
"""The values of the arguments that are constants, None in the places of others."""
LONGEST_TEXT = 2**31


@dataclass(frozen=True, slots=True)
class IntervalLiteral:
    """A constant interval of one unit, a word as the caller wrote it."""

    amount: int
    unit: str


@dataclass(frozen=True, slots=True)
class Function:
    """A function of the values of one row.

    names     as SQL calls it, the first as it is shown
    example   a call, of a and b (text), x and y (numbers), d and e (dates), l (a list of text)
    gives     what it gives, in a few words
    takes     the kinds of its arguments
    build     its scalar, of a Scalar for each value and constant, a str for a word, a IntervalLiteral; raises Error
    engine    by name the functions of the engine that it prints, and when they cannot raise
    optional  how many of the last arguments may be left out
    repeats   whether the last argument may stand any number of times
    check     raises Error for constants that it cannot take, whatever rows it is asked of
    tried     whether the engine's own function of that name may raise: over released rows it is NULL then
    safe      whether it cannot fail, whatever values it is given
    syntax    whether the parser has a form of its own for it
    """

    names: tuple[str, ...]
    example: str
    gives: str
    takes: tuple[Kind, ...]
    build: Callable[..., Scalar]
    engine: Mapping[str, Rule] = field(default_factory=dict)
    optional: int = 0
    repeats: bool = False
    check: Callable[[Constants], None] | None = None
    tried: bool = False
    safe: bool = False
    syntax: bool = False

    @property
    def name(self) -> str:
        return self.names[0]

    def kind(self, place: int) -> Kind:
        return self.takes[min(place, len(self.takes) - 1)]

    def check_count(self, word: str, count: int) -> None:
        """Raise 106 for a call of another number of arguments."""
        least, most = len(self.takes) - self.optional, len(self.takes)
        if least <= count and (count <= most or self.repeats):
            return
        number = f"{least} to {most}" if self.optional and not self.repeats else f"{least}"
        takes = f"{number} or more arguments" if self.repeats else f"{number} argument{'s' * (most > 1)}"
        raise error(106, f"{word.upper()} takes {takes}", hint=f"write {self.example}")


def as_text(scalar: Scalar, function: str) -> Scalar:
    """A text as it is, NULL as one of text. Raises 106."""
    if scalar.sqltype == NULL_TYPE:
        return literal(None, VARCHAR)
    if not scalar.sqltype.is_text:
        hint = "write CAST(... AS VARCHAR) around it"
        raise error(106, f"{function.upper()} needs text, not {scalar.sqltype}", hint=hint)
    return scalar


# --- rules ------------------------------------------------------------------------------------------------------------


def is_text(known: Known) -> bool:
    """A text, or a bare NULL, which any function takes."""
    return known.sqltype.is_text or known == NOTHING


def texts(count: int, result: SqlType = VARCHAR) -> Rule:
    """A function of so many texts that raises on none."""

    def rule(args: Sequence[Known]) -> Ruled | None:
        if len(args) != count or not all(map(is_text, args)):
            return None
        null = any(a.null for a in args)
        if result == BIGINT:
            return always(Known(BIGINT, interval(0, 2 * LONGEST_TEXT), null))
        return always(of_type(result, null=null))

    return rule


def text_and_numbers(args: Sequence[Known]) -> Ruled | None:
    """A text function whose other arguments are bare small integers or constant texts."""
    plain = all(p.word is not None or is_small(p) for p in args[1:])
    return always(Known(VARCHAR, None, args[0].null)) if is_text(args[0]) and args[1:] and plain else None


def is_small(known: Known, most: int = 100_000) -> bool:
    """A bare integer that is not large."""
    return known.literal and known.limits is not None and abs(known.limits.lower) < most
