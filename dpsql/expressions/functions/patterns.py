"""Regular expressions (RE2) with constant patterns: their time is proportional to the text, and none fails when it runs."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial

from dpsql.core.errors import Error, error
from dpsql.core.sqltypes import BOOLEAN, VARCHAR
from dpsql.expressions.functions.record import Constants, Function, as_text, is_small, is_text
from dpsql.expressions.known import Known, Ruled, always, of_type
from dpsql.expressions.logic import BOTH
from dpsql.expressions.scalar import Scalar, called

LONGEST_PATTERN = 1_000
MOST_REPEATS = 1_000
"""The engine takes no more, also of repeats within repeats."""
_MOST_GROUPS = 9
"""Of which the engine shows one."""
_ESCAPES = frozenset("dDwWsStnrfv")
_CLASSES = frozenset([
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space", "upper", "word",
    "xdigit",
])  # fmt: skip
_REPEAT = re.compile(r"\{(\d{1,4})(,(\d{0,4}))?\}")
_OPTIONS = re.compile("[cimnps]*")
_REFERENCE = re.compile(r"\\(.)", re.DOTALL)


class _Reader:
    """Reads a pattern of the kind that every version of the engine takes. Raises 102 for another one.

    groups  how many there are so far
    """

    def __init__(self, pattern: str) -> None:
        self.pattern, self.at, self.groups, self._repeats = pattern, 0, 0, 1

    def read(self) -> None:
        if len(self.pattern) > LONGEST_PATTERN:
            raise _refused(f"a pattern has at most {LONGEST_PATTERN:,} characters", "write a shorter one")
        if self.pattern.startswith("(?i)"):
            self.at = 4
        depth, repeatable = 0, False
        while self.at < len(self.pattern):
            letter = self.pattern[self.at]
            self.at += 1
            if letter in "*+?{":
                if not repeatable:
                    raise _refused(f"{letter} in a pattern repeats nothing", f"write \\{letter} for the character")
                self._repeat(letter)
                repeatable = False
                continue
            repeatable = letter not in "(|^"
            if letter == "(":
                depth += 1
                self._group()
            elif letter == ")":
                depth -= 1
                if depth < 0:
                    raise _refused("a ) in a pattern closes nothing", "write \\) for the character")
            elif letter == "[":
                self._class()
            elif letter in "]}":
                raise _refused(f"a {letter} in a pattern closes nothing", f"write \\{letter} for the character")
            elif letter == "\\":
                repeatable = self._escape(more="bB") not in "bB"
        if depth:
            raise _refused("a ( in a pattern is never closed", "write \\( for the character")

    def _repeat(self, letter: str) -> None:
        if letter == "{":
            found = _REPEAT.match(self.pattern, self.at - 1)
            if found is None:
                raise _refused("a { in a pattern repeats no number of times", "write \\{ for the character")
            self.at = found.end()
            least, most = int(found[1]), int(found[3]) if found[3] else 0
            self._repeats *= max(least, most, 1)
            if self._repeats > MOST_REPEATS or (found[3] and most < least):
                raise _refused(
                    f"a pattern repeats from fewer to more, and at most {MOST_REPEATS:,} times", "write fewer"
                )
        if self.pattern[self.at : self.at + 1] == "?":
            self.at += 1

    def _group(self) -> None:
        if self.pattern[self.at : self.at + 1] != "?":
            self.groups += 1
        elif self.pattern[self.at : self.at + 2] == "?:":
            self.at += 2
        else:
            raise _refused("(? in a pattern is not supported", "write (?: for a group, or (?i) at the beginning")

    def _class(self) -> None:
        start = self.at
        self.at += self.pattern[self.at : self.at + 1] == "^"
        first, last = True, ""
        while True:
            letter = self.pattern[self.at : self.at + 1]
            if not letter:
                raise _refused("a [ in a pattern is never closed", "write \\[ for the character")
            if letter == "]" and not first:
                self.at += 1
                return
            last = self._member(last)
            first = False
            assert self.at > start

    def _member(self, last: str) -> str:
        """Read one member of a class; the letter that a range may begin with, "" where none can.

        last  the letter before
        """
        letter = self.pattern[self.at]
        self.at += 1
        if letter == "[" and self.pattern[self.at : self.at + 1] == ":":
            end = self.pattern.find(":]", self.at)
            if end < 0 or self.pattern[self.at + 1 : end] not in _CLASSES:
                raise _refused("a class in a pattern has no such name", "write [[:alpha:]] or [[:digit:]]")
            self.at = end + 2
            return ""
        if letter == "-" and last and self.pattern[self.at : self.at + 1] not in ("]", ""):
            upper = self.pattern[self.at]
            self.at += 1
            upper = self._escape() if upper == "\\" else upper
            if upper in _ESCAPES or upper == "[" or upper < last:
                raise _refused("a range in a pattern does not go from a character to a later one", "write [a-z]")
            return ""
        if letter == "\\":
            letter = self._escape()
            return "" if letter in _ESCAPES else letter
        return letter

    def _escape(self, more: str = "") -> str:
        letter = self.pattern[self.at : self.at + 1]
        self.at += 1
        is_sign = len(letter) == 1 and letter.isascii() and letter.isprintable() and not letter.isalnum()
        if is_sign or letter in _ESCAPES or letter in tuple(more):
            return letter
        raise _refused(f"\\{letter} in a pattern is not supported", "write \\d, \\w, \\s, \\b, or \\ before a sign")


def _refused(what: str, hint: str) -> Error:
    return error(102, what, hint=hint)


def groups_of(pattern: str) -> int:
    """Number of groups in a pattern. Raises 102 for what the engine may refuse."""
    reader = _Reader(pattern)
    reader.read()
    return reader.groups


# --- checks of constants ----------------------------------------------------------------------------------------------


def _pattern(constants: Constants, name: str) -> str:
    pattern = constants[1]
    if not isinstance(pattern, str):
        raise error(102, f"the pattern of {name} must be a constant text", hint=f"write {name}(x, '^a.*')")
    return pattern


def _check_options(constants: Constants, place: int, name: str, more: str = "") -> None:
    options = constants[place] if len(constants) > place else ""
    if not isinstance(options, str) or not _OPTIONS.fullmatch(options.replace(more, "") if more else options):
        raise error(102, f"{name} has no such options", hint="write 'i' where the case of letters is nothing")


def _check_matches(name: str) -> Callable[[Constants], None]:
    def check(constants: Constants) -> None:
        groups_of(_pattern(constants, name))
        _check_options(constants, 2, name)

    return check


def _check_extract(constants: Constants) -> None:
    groups = groups_of(_pattern(constants, "REGEXP_EXTRACT"))
    group = constants[2] if len(constants) > 2 else 0
    if not isinstance(group, int) or not 0 <= group <= min(groups, _MOST_GROUPS):
        raise error(
            102, f"the pattern has {groups} groups", hint="name one of the first nine, or 0 for all that matches"
        )
    _check_options(constants, 3, "REGEXP_EXTRACT")


def _check_replace(constants: Constants) -> None:
    groups = groups_of(_pattern(constants, "REGEXP_REPLACE"))
    new = constants[2]
    if not isinstance(new, str):
        raise error(
            102, "what REGEXP_REPLACE writes must be a constant text", hint="write REGEXP_REPLACE(x, 'a+', 'b')"
        )
    for letter in _REFERENCE.findall(new) + (["end"] if _REFERENCE.sub("", new).endswith("\\") else []):
        if letter != "\\" and not (letter.isdigit() and letter.isascii() and int(letter) <= groups):
            raise error(102, "a \\ in what is written must name a group of the pattern", hint="write \\1, or \\\\")
    _check_options(constants, 3, "REGEXP_REPLACE", "g")


# --- scalars ----------------------------------------------------------------------------------------------------------


def matches(function: str, text: Scalar, pattern: Scalar, options: Scalar | None = None) -> Scalar:
    """REGEXP_MATCHES, REGEXP_FULL_MATCH."""
    args = [as_text(text, function), pattern, *([options] if options is not None else [])]
    return called(function, args, BOOLEAN, BOTH, nullable=text.nullable)


def _extract(text: Scalar, pattern: Scalar, group: Scalar | None = None, options: Scalar | None = None) -> Scalar:
    """Text that matches, or one group of it; an empty text where nothing does."""
    args = [as_text(text, "regexp_extract"), pattern, *(a for a in (group, options) if a is not None)]
    return called("regexp_extract", args, VARCHAR, nullable=text.nullable, length=args[0].length)


def _replace(text: Scalar, pattern: Scalar, new: Scalar, options: Scalar | None = None) -> Scalar:
    args = [as_text(text, "regexp_replace"), pattern, new, *([options] if options is not None else [])]
    written = new.value if isinstance(new.value, str) else ""
    long = args[0].length or 0
    # matches may be empty, so there is one more than letters; what all of them hold is no longer than the text
    length = long + (long + 1) * len(_REFERENCE.sub("", written)) + long * len(_REFERENCE.findall(written))
    length += (long + 1) * written.count("\\\\")
    return called("regexp_replace", args, VARCHAR, nullable=text.nullable, length=length)


# --- rules ------------------------------------------------------------------------------------------------------------


def _rule(args: Sequence[Known]) -> bool:
    """True if they are a text, a pattern that is one to every version of the engine, and constants."""
    if len(args) < 2 or not is_text(args[0]) or args[1].word is None:
        return False
    try:
        groups_of(args[1].word)
    except Error:
        return False
    return all(a.word is not None or is_small(a) for a in args[2:])


def _truth(args: Sequence[Known]) -> Ruled | None:
    return always(of_type(BOOLEAN, null=args[0].null)) if _rule(args) and _plain([*args[2:]]) else None


def _extracted(args: Sequence[Known]) -> Ruled | None:
    if not _rule(args) or not _plain([*args[3:]]):
        return None
    group = args[2].limits if len(args) > 2 else None
    known = len(args) < 3 or (
        group is not None and 0 <= group.lower <= min(groups_of(args[1].word or ""), _MOST_GROUPS)
    )
    return always(Known(VARCHAR, None, args[0].null)) if known else None


def _replaced(args: Sequence[Known]) -> Ruled | None:
    if not _rule(args) or len(args) < 3 or args[1].word is None or args[2].word is None:
        return None
    try:
        _check_replace([None, args[1].word, args[2].word, *(a.word for a in args[3:])])
    except Error:
        return None
    return always(Known(VARCHAR, None, args[0].null))


def _plain(options: Sequence[Known]) -> bool:
    return all(option.word is not None and _OPTIONS.fullmatch(option.word) for option in options)


FUNCTIONS = (
    Function(("regexp_matches",), "REGEXP_MATCHES(a, '^x+')", "true or false", ("value", "constant", "constant"),
        partial(matches, "regexp_matches"), {"regexp_matches": _truth}, optional=1,
        check=_check_matches("REGEXP_MATCHES")),
    Function(("regexp_full_match",), "REGEXP_FULL_MATCH(a, 'x+')", "true or false, as SIMILAR TO",
        ("value", "constant", "constant"), partial(matches, "regexp_full_match"), {"regexp_full_match": _truth},
        optional=1, check=_check_matches("REGEXP_FULL_MATCH")),
    Function(("regexp_extract",), "REGEXP_EXTRACT(a, 'x(.)', 1)", "text; empty where nothing matches",
        ("value", "constant", "constant", "constant"), _extract, {"regexp_extract": _extracted}, optional=2,
        check=_check_extract),
    Function(("regexp_replace",), "REGEXP_REPLACE(a, 'x+', 'y', 'g')", "text",
        ("value", "constant", "constant", "constant"), _replace, {"regexp_replace": _replaced}, optional=1,
        check=_check_replace),
)  # fmt: skip
