"""Functions of one row in a dialect: those alone that are equal to DuckDB's on every value, and raise on none."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from dpsql.core.sqltypes import BIGINT, VARCHAR
from dpsql.engines.dialects.words import DialectWords, fits_bigint, is_narrow
from dpsql.expressions.known import Known

Rule = Callable[[DialectWords, Sequence[str], Sequence[Known], Known], str]
"""From the words, the texts of the arguments, and what they and the result can be."""
_PARTS = {"year": "year", "month": "month", "day": "day", "quarter": "quarter", "hour": "hour", "minute": "minute"}


def _is_nan(words: DialectWords, texts: Sequence[str], known: Sequence[Known], result: Known) -> str:
    return words.is_nan(texts[0]) if known[0].sqltype.is_float else f"(({texts[0]}) IS NULL AND NULL)"


def _is_finite(words: DialectWords, texts: Sequence[str], known: Sequence[Known], result: Known) -> str:
    if known[0].sqltype.is_float:
        return f"({texts[0]} NOT IN ({words.double(math.nan)}, {words.infinities()}))"
    if known[0].sqltype.is_temporal:
        return words.is_finite(texts[0])
    raise words.refused("ISFINITE() of what is no DOUBLE, DATE or TIMESTAMP")


def _of_double(function: str) -> Rule:
    """A function of a DOUBLE that gives one, rounds nothing and raises on nothing."""

    def rule(words: DialectWords, texts: Sequence[str], known: Sequence[Known], result: Known) -> str:
        if not (known[0].sqltype.is_float and result.sqltype.is_float):
            raise words.refused(
                f"{function.upper()}() of {known[0].sqltype}", "cast it to DOUBLE or to an integer before"
            )
        return words.whole(function, texts[0])

    return rule


def _absolute(words: DialectWords, texts: Sequence[str], known: Sequence[Known], result: Known) -> str:
    sqltype = known[0].sqltype
    if is_narrow(sqltype) and not (fits_bigint(known[0]) and fits_bigint(result) and sqltype == result.sqltype):
        raise words.refused(f"ABS() of {sqltype}")
    if not (sqltype.is_number and known[0].limits is not None) and not sqltype.is_float:
        raise words.refused(f"ABS() of {sqltype}")
    if is_narrow(sqltype) and known[0].limits is not None and known[0].limits.lower <= -(2**63):
        raise words.refused(f"ABS() of {sqltype}", "give the column bounds")
    return words.absolute(texts[0], sqltype)


def _sign(words: DialectWords, texts: Sequence[str], known: Sequence[Known], result: Known) -> str:
    if not (known[0].sqltype.is_integer or known[0].sqltype.is_decimal):
        raise words.refused(f"SIGN() of {known[0].sqltype}", "cast it to an integer before")
    return words.cast(f"sign({texts[0]})", BIGINT)


def _length(words: DialectWords, texts: Sequence[str], known: Sequence[Known], result: Known) -> str:
    """Characters, as DuckDB counts them: code points."""
    return words.cast(f"length({_text(words, texts[0], known[0], 'LENGTH')})", BIGINT)


def _part(words: DialectWords, texts: Sequence[str], known: Sequence[Known], result: Known) -> str:
    """The part of a date; NULL of an infinite one."""
    if len(texts) != 2 or known[0].word is None or known[0].word not in _PARTS or not known[1].sqltype.is_temporal:
        raise words.refused("this part of a date", "use year, month, day, quarter, hour or minute")
    part = _PARTS[known[0].word]
    if part in ("hour", "minute") and known[1].sqltype.name != "TIMESTAMP":
        raise words.refused(f"the {part} of a {known[1].sqltype}")
    found = words.cast(f"date_part('{part}', {texts[1]})", BIGINT)
    return f"(CASE WHEN {words.is_finite(texts[1])} THEN {found} END)"


def _substring(words: DialectWords, texts: Sequence[str], known: Sequence[Known], result: Known) -> str:
    """With a constant place from 1 on, and a constant length."""
    places = [k.limits.lower if k.literal and k.limits is not None else None for k in known[1:]]
    if len(places) not in (1, 2) or any(p is None or not 0 <= p < 2**30 for p in places) or not places[0]:
        raise words.refused("SUBSTRING() from a place before the first")
    numbers = ", ".join(words.small(text) for text in texts[1:])
    return f"substring({_text(words, texts[0], known[0], 'SUBSTRING')}, {numbers})"


def _text(words: DialectWords, text: str, known: Known, function: str) -> str:
    if not known.sqltype.is_text:
        raise words.refused(f"{function}() of {known.sqltype}")
    return text


def _md5(words: DialectWords, texts: Sequence[str], known: Sequence[Known], result: Known) -> str:
    return words.cast(f"md5({_text(words, texts[0], known[0], 'MD5')})", VARCHAR)


def _concatenated(words: DialectWords, texts: Sequence[str], known: Sequence[Known], result: Known) -> str:
    """Texts with another one between them; NULL is left out."""
    return f"concat_ws({', '.join(_text(words, t, k, 'CONCAT_WS') for t, k in zip(texts, known, strict=True))})"


FUNCTIONS: Mapping[str, Rule] = {
    "isnan": _is_nan,
    "isfinite": _is_finite,
    "floor": _of_double("floor"),
    "ceil": _of_double("ceil"),
    "abs": _absolute,
    "sign": _sign,
    "length": _length,
    "date_part": _part,
    "substring": _substring,
    "md5": _md5,
    "concat_ws": _concatenated,
}
