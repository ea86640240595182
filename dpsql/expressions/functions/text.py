"""Text functions whose work and result are bounded by a constant times their argument."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from dpsql.core.domains import UNBOUNDED, interval
from dpsql.core.errors import error
from dpsql.core.sqltypes import BIGINT, BOOLEAN, INTEGER, VARCHAR
from dpsql.expressions.casting import cast
from dpsql.expressions.functions.lists import size
from dpsql.expressions.functions.record import (
    Constants,
    Function,
    as_text,
    is_small,
    is_text,
    text_and_numbers,
    texts,
)
from dpsql.expressions.known import Known, Ruled, always, decided, within
from dpsql.expressions.lengths import LONGEST
from dpsql.expressions.literals import literal
from dpsql.expressions.logic import BOTH
from dpsql.expressions.scalar import Scalar, called
from dpsql.sql.nodes import Bare, Between, Binary, Call, Case, Cast, Number

_MOST = 2**31
_FARTHEST = 10_000
"""[letters] Constant lengths and places lie before this."""
_BEFORE_SURROGATES = 55_295
"""The last number before those that are no letters."""
_OF_PLAIN: dict[str, Callable[[str], str]] = {
    "lower": str.lower,
    "upper": str.upper,
    "trim": lambda text: text.strip(" "),
}


def length(scalar: Scalar) -> Scalar:
    """Of a text, or of a list."""
    if scalar.sqltype.element is not None:
        return size(scalar)
    scalar = as_text(scalar, "length")
    if isinstance(scalar.value, str) and scalar.value.isascii():
        return literal(len(scalar.value), BIGINT)
    return _measured("length", scalar, scalar.length or 0)


def size_in_bytes(scalar: Scalar) -> Scalar:
    """STRLEN: UTF-8 has at most four bytes a character."""
    scalar = as_text(scalar, "strlen")
    return _measured("strlen", scalar, 4 * (scalar.length or 0))


def _measured(function: str, scalar: Scalar, most: int) -> Scalar:
    """A length, with the bounds that those of the text give (rule 47); they are a clamp like any other."""
    return called(function, [scalar], BIGINT, interval(0, most), interval(0, _MOST))


def change(function: str, scalar: Scalar, letters: Scalar | None = None) -> Scalar:
    """LOWER, UPPER; TRIM, LTRIM, RTRIM of blanks, or of some letters."""
    scalar = as_text(scalar, function)
    if letters is not None:
        return _kept(function, [scalar, as_text(letters, function)])
    if isinstance(scalar.value, str) and scalar.value.isascii() and function in _OF_PLAIN:
        return literal(_OF_PLAIN[function](scalar.value), VARCHAR)
    return called(function, [scalar], VARCHAR)


def contains(function: str, scalar: Scalar, other: Scalar) -> Scalar:
    """STARTS_WITH, ENDS_WITH, CONTAINS."""
    return called(function, [as_text(scalar, function), as_text(other, function)], BOOLEAN, BOTH)


def concatenate(left: Scalar, right: Scalar) -> Scalar:
    """left || right; beside a text, what is none is cast, as the engine does."""
    if left.sqltype.is_text or right.sqltype.is_text:
        left, right = cast(left, VARCHAR), cast(right, VARCHAR)
    left, right = as_text(left, "||"), as_text(right, "||")
    if isinstance(left.value, str) and isinstance(right.value, str):
        return literal(left.value + right.value, VARCHAR)
    tree = Binary("||", left.tree, right.tree)
    return Scalar("||", (left, right), tree, VARCHAR, UNBOUNDED, None, left.nullable or right.nullable)


def _kept(function: str, args: Sequence[Scalar], length: int | None = None, nullable: bool | None = None) -> Scalar:
    """A text of texts and constants by the engine's function of that name.

    length  of the result: that of the first argument where None
    """
    return called(function, args, VARCHAR, nullable=nullable, length=args[0].length if length is None else length)


def _long(scalar: Scalar) -> int:
    return scalar.length or 0


def position(text: Scalar, part: Scalar) -> Scalar:
    """STRPOS(text, part): where the part begins, from 1; 0 where it does not stand there."""
    return called("strpos", [as_text(text, "strpos"), as_text(part, "strpos")], BIGINT, UNBOUNDED, interval(0, _MOST))


def _replace(text: Scalar, old: Scalar, new: Scalar) -> Scalar:
    args = [as_text(a, "replace") for a in (text, old, new)]
    if all(isinstance(a.value, str) for a in args) and old.value:
        return literal(str(text.value).replace(str(old.value), str(new.value)), VARCHAR)
    # each letter may be one that is replaced; an empty text is found nowhere
    return _kept("replace", args, _long(args[0]) * max(1, _long(args[2])))


def _split_part(text: Scalar, separator: Scalar, place: Scalar) -> Scalar:
    return _kept("split_part", [as_text(text, "split_part"), as_text(separator, "split_part"), place])


def _reverse(text: Scalar) -> Scalar:
    return _kept("reverse", [as_text(text, "reverse")])


def _repeat(text: Scalar, times: Scalar) -> Scalar:
    text = as_text(text, "repeat")
    return _kept("repeat", [text, times], _long(text) * max(_number(times), 0))


def _padded(function: str) -> Callable[..., Scalar]:
    def build(text: Scalar, length: Scalar, fill: Scalar | None = None) -> Scalar:
        args = [as_text(text, function), length, fill if fill is not None else literal(" ", VARCHAR)]
        return _kept(function, args, max(_number(length), 0))

    return build


def _number(scalar: Scalar) -> int:
    return scalar.value if isinstance(scalar.value, int) else 0


def _as_texts(parts: Sequence[Scalar]) -> list[Scalar]:
    """NULL adds nothing, and what is no text is cast."""
    return [part if part.sqltype.is_text else cast(part, VARCHAR) for part in parts if not part.is_null]


def _concat(*parts: Scalar) -> Scalar:
    args = _as_texts(parts)
    if all(isinstance(a.value, str) for a in args):
        return literal("".join(str(a.value) for a in args), VARCHAR)
    if len(args) < 2:
        args += [literal("", VARCHAR)] * (2 - len(args))
    return _kept("concat", args, sum(map(_long, args)), nullable=False)


def _concat_ws(separator: Scalar, *parts: Scalar) -> Scalar:
    args = _as_texts(parts) or [literal("", VARCHAR)]
    first = as_text(separator, "concat_ws")
    length = sum(map(_long, args)) + _long(first) * (len(args) - 1)
    return _kept("concat_ws", [first, *args], length, nullable=first.nullable)


def _translate(text: Scalar, old: Scalar, new: Scalar) -> Scalar:
    return _kept("translate", [as_text(a, "translate") for a in (text, old, new)], _long(text))


def _ascii(text: Scalar) -> Scalar:
    """The number of the first letter, 0 of an empty text."""
    return called("ascii", [as_text(text, "ascii")], INTEGER, UNBOUNDED, interval(0, 0x10FFFF))


def _chr(number: Scalar) -> Scalar:
    """The letter of a number; NULL where there is none, which the engine would raise on."""
    if not number.sqltype.is_integer:
        raise error(106, f"CHR needs a whole number, not {number.sqltype}", hint="write CAST(... AS INTEGER) around it")
    inside = Bare(Between(number.tree, Number(1), Number(_BEFORE_SURROGATES)))
    letter = Call("chr", (Cast(number.tree, INTEGER, tries=False),))
    return Scalar("chr", (number,), Case(((inside, letter),)), VARCHAR, UNBOUNDED, None, True, length=1)


def _chr_rule(args: Sequence[Known]) -> Ruled | None:
    if len(args) != 1 or not args[0].sqltype.is_integer:
        return None
    return decided(Known(VARCHAR, None, args[0].null), within(args[0].limits, interval(1, _BEFORE_SURROGATES)))


def _code(args: Sequence[Known]) -> Ruled | None:
    fits = len(args) == 1 and is_text(args[0])
    return always(Known(INTEGER, interval(-1, 0x10FFFF), args[0].null)) if fits else None


def _any_texts(args: Sequence[Known]) -> Ruled | None:
    """CONCAT, CONCAT_WS and MD5, of texts and nothing else."""
    return always(Known(VARCHAR)) if all(map(is_text, args)) else None


def _padded_rule(args: Sequence[Known]) -> Ruled | None:
    """LPAD and RPAD: the engine raises where there is nothing to fill with."""
    fits = len(args) == 3 and is_text(args[0]) and is_small(args[1]) and bool(args[2].word)
    return always(Known(VARCHAR, None, args[0].null)) if fits else None


def _parts(args: Sequence[Known]) -> Ruled | None:
    """SPLIT_PART of two texts and a bare integer."""
    if len(args) != 3 or not (is_text(args[0]) and is_text(args[1]) and is_small(args[2])):
        return None
    return always(Known(VARCHAR, None, args[0].null or args[1].null))


# --- constants that a call cannot take --------------------------------------------------------------------------------


def whole(place: int, most: int, what: str, hint: str, least: int | None = None) -> Callable[[Constants], None]:
    """A check that the constant in a place is a whole number of limited size."""

    def check(constants: Constants) -> None:
        value = constants[place] if place < len(constants) else 0
        low = -most if least is None else least
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= most:
            raise error(102, f"{what} must be a constant whole number from {low:,} to {most:,}", hint=f"write {hint}")

    return check


def _check_padding(constants: Constants) -> None:
    whole(1, LONGEST, "the length of a padded text", "LPAD(x, 5, '0')", 0)(constants)
    if len(constants) > 2 and not (isinstance(constants[2], str) and 0 < len(constants[2]) < _FARTHEST):
        raise error(102, "what a text is padded with must be a constant text", hint="write LPAD(x, 5, '0')")


def _changed(name: str, *names: str) -> Function:
    return Function(
        (name, *names), f"{name.upper()}(a)", "text", ("value",), partial(change, name), {name: texts(1)}, safe=True
    )


def _trimmed(name: str, *, syntax: bool = False) -> Function:
    return Function(
        (name,),
        f"{name.upper()}(a)",
        f"text; {name.upper()}(a, 'xy') without these letters at its ends" if name == "trim" else "text",
        ("value", "value"),
        partial(change, name),
        {name: lambda args: texts(len(args))(args) if len(args) in (1, 2) else None},
        optional=1,
        safe=True,
        syntax=syntax,
    )


def _held(name: str, *names: str) -> Function:
    return Function(
        (name, *names),
        f"{name.upper()}(a, 'text')",
        "true or false",
        ("value", "value"),
        partial(contains, name),
        {name: texts(2, BOOLEAN)},
        safe=True,
    )


def _counted(names: tuple[str, ...], gives: str, build: Callable[[Scalar], Scalar]) -> Function:
    rules = {names[0]: texts(1, BIGINT)}
    return Function(names, f"{names[0].upper()}(a)", gives, ("value",), build, rules, safe=True)


FUNCTIONS = (
    _counted(("length", "len", "char_length", "character_length"), "BIGINT", length),
    _counted(("strlen",), "BIGINT, in bytes", size_in_bytes),
    _changed("lower", "lcase"),
    _changed("upper", "ucase"),
    _trimmed("trim", syntax=True),
    _trimmed("ltrim"),
    _trimmed("rtrim"),
    _held("starts_with", "prefix"),
    _held("ends_with", "suffix"),
    _held("contains"),
    Function(("strpos", "instr"), "STRPOS(a, 'text')", "BIGINT, from 1; 0 where it does not stand there",
        ("value", "value"), position, {"strpos": texts(2, BIGINT)}, safe=True),
    Function(("replace",), "REPLACE(a, 'old', 'new')", "text", ("value",) * 3, _replace, {"replace": texts(3)},
        safe=True),
    Function(("split_part",), "SPLIT_PART(a, '-', 1)", "text; empty where there is no such part",
        ("value", "value", "constant"), _split_part, {"split_part": _parts},
        check=whole(2, _FARTHEST, "the place of SPLIT_PART", "SPLIT_PART(x, '-', 1)")),
    Function(("reverse",), "REVERSE(a)", "text", ("value",), _reverse, {"reverse": texts(1)}, safe=True),
    Function(("repeat",), "REPEAT(a, 2)", "text", ("value", "constant"), _repeat, {"repeat": text_and_numbers},
        check=whole(1, 1_000, "how often REPEAT repeats", "REPEAT(x, 2)", 0)),
    Function(("lpad",), "LPAD(a, 5, '0')", "text of that length", ("value", "constant", "constant"), _padded("lpad"),
        {"lpad": _padded_rule}, optional=1, check=_check_padding),
    Function(("rpad",), "RPAD(a, 5, '.')", "text of that length", ("value", "constant", "constant"), _padded("rpad"),
        {"rpad": _padded_rule}, optional=1, check=_check_padding),
    Function(("concat",), "CONCAT(a, b)", "text, without what is NULL", ("value",), _concat, {"concat": _any_texts},
        repeats=True),
    Function(("concat_ws",), "CONCAT_WS(', ', a, b)", "text, without what is NULL", ("value", "value"), _concat_ws,
        {"concat_ws": _any_texts}, repeats=True),
    Function(("translate",), "TRANSLATE(a, 'abc', 'xyz')", "text, letter by letter", ("value",) * 3, _translate,
        {"translate": texts(3)}, safe=True),
    Function(("ascii", "ord", "unicode"), "ASCII(a)", "INTEGER, of the first letter", ("value",), _ascii,
        {"ascii": _code}),
    Function(("chr",), "CHR(x)", "text, a letter", ("value",), _chr, {"chr": _chr_rule}, tried=True),
)  # fmt: skip
"""LPAD and RPAD always print what they fill with."""
