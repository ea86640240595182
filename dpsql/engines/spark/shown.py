"""Relations that a statement is shown of files that a Spark cluster reads: see engines/shown.py.

A date or timestamp outside of the years 1 to 9999 is NULL, since the engines' calendars have other ends.
"""

from __future__ import annotations

import re

from dpsql.core.sqltypes import SqlType, parse_type
from dpsql.engines.dialects.words import DialectWords
from dpsql.engines.spark.server import SECRETS
from dpsql.engines.spark.words import DIGITS, WORDS

_SAME = {
    "tinyint": "TINYINT",
    "smallint": "SMALLINT",
    "int": "INTEGER",
    "bigint": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "boolean": "BOOLEAN",
    "string": "VARCHAR",
    "date": "DATE",
    "timestamp_ntz": "TIMESTAMP",
    "timestamp": "TIMESTAMP",
}
_READ = frozenset(_SAME.values())
_YEARS = {
    "DATE": ("DATE '0001-01-01'", "DATE '9999-12-31'"),
    "TIMESTAMP": ("TIMESTAMP_NTZ '0001-01-01 00:00:00'", "TIMESTAMP_NTZ '9999-12-31 23:59:59.999999'"),
}
_FEW_DIGITS = 15
"""A DECIMAL of so many digits becomes a DOUBLE by one rounding."""
_NIBBLES = 15
"""[hexadecimal digits] of a part of a hash that is summed; two parts are 120 bits, and so many sums of rows as fit are below 10^38."""


def computable(stored: str) -> SqlType | None:
    """The type in which dpsql reads a stored column where it is free to choose; None where there is none."""
    if stored in _SAME:
        return SqlType(_SAME[stored])
    if stored.startswith("decimal("):
        return parse_type(stored.upper())
    return SqlType("VARCHAR") if stored.startswith(("varchar(", "char(")) else None


class ShowingFiles:
    """See ShowingWords."""

    words: DialectWords = WORDS

    def computable(self, stored: str) -> SqlType | None:
        return computable(stored)

    def typed(self, value: str, stored: str, target: SqlType) -> str | None:
        return _typed(value, stored, target)

    def hashed(self, relation: str, columns: list[str]) -> str:
        """120 bits of each row; each text goes behind its length, so that no two rows have one text."""
        texts = (f"CAST({column} AS STRING)" for column in columns)
        parts = ", ".join(f"coalesce(concat(length({text}), ':', {text}), '-')" for text in texts)
        row = f"md5(concat((SELECT max(rows) FROM {WORDS.name(SECRETS)}), ' ', {parts}))"
        halves = ", ".join(
            f"coalesce(sum(CAST(conv(substr(h, {place}, {_NIBBLES}), 16, 10) AS DECIMAL(38, 0))), 0)"
            for place in (1, 1 + _NIBBLES)
        )
        return f"SELECT count(*), {halves} FROM (SELECT {row} AS h FROM {relation}) AS hashed"


# --- values -----------------------------------------------------------------------------------------------------------


def _typed(value: str, stored: str, target: SqlType) -> str | None:
    """A stored value in its declared type, NULL where it does not fit; None where the two are not alike."""
    found = computable(stored)
    if found is None or (target.name not in _READ and not (target.is_integer or target.is_decimal)):
        return None
    if (found.is_integer or found.is_decimal) and (target.is_integer or target.is_decimal):
        return _exact(value, found, target)
    if target.is_float:
        return _double(value, found, target)
    if found.name != target.name:
        return None
    if target.is_temporal:
        first, last = _YEARS[target.name]
        plain = WORDS.cast(value, target)
        return f"(CASE WHEN {plain} BETWEEN {first} AND {last} THEN {plain} END)"
    plain = WORDS.cast(value, target)
    # what is no text could not be read here, and would end a statement
    return f"try_validate_utf8({plain})" if target.is_text else plain


def _exact(value: str, found: SqlType, target: SqlType) -> str:
    """A whole number or a DECIMAL in another such type, rounded half away from zero; what is too large is NULL."""
    held, source = target.range, found.range
    assert held is not None
    inside = source is not None and held.lower <= source.lower and source.upper <= held.upper
    if found.is_integer and target.is_integer and inside:
        return WORDS.cast(value, target)
    rounded = f"round({value}, {target.scale})" if found.is_decimal and found.scale > target.scale else value
    return _between(rounded, held.lower, held.upper, target)


def _between(value: str, lower: object, upper: object, target: SqlType) -> str:
    if target.is_decimal:
        return f"try_cast({value} AS {WORDS.stored(target)})"
    wide = f"try_cast({value} AS DECIMAL({DIGITS}, 0))"
    most = 10**DIGITS - 1
    low, high = (str(max(-most, min(most, int(str(end))))) for end in (lower, upper))
    return f"(CASE WHEN {wide} BETWEEN {low} AND {high} THEN try_cast({wide} AS {WORDS.stored(target)}) END)"


def _double(value: str, found: SqlType, target: SqlType) -> str | None:
    """A number as a DOUBLE where at most one rounding happens."""
    alike = found == target or (target.name == "DOUBLE" and (found.name == "FLOAT" or found.is_integer))
    if alike or (target.name == "DOUBLE" and found.is_decimal and found.width <= _FEW_DIGITS):
        return f"CAST({value} AS DOUBLE)"
    return None


# --- the owner's questions --------------------------------------------------------------------------------------------

_TOKENS = re.compile(r"""('(?:[^']|'')*')|("(?:[^"]|"")*")""")
_WORDS = (
    (re.compile(r"\bDOUBLE PRECISION\b"), "DOUBLE"),
    (re.compile(r"\bAS VARCHAR\b"), "AS STRING"),
    (re.compile(r"\bSIMILAR TO\b"), "RLIKE"),
)


def of_owner(sql: str) -> str:
    """A question in the words that all engines share, in Spark's: in a text a backslash stands for itself, and a pattern is for all
    of it."""
    found, place, whole = "", 0, False
    for token in _TOKENS.finditer(sql):
        between = _worded(sql[place : token.start()])
        whole, place = between.rstrip().endswith("RLIKE"), token.end()
        text = token[1]
        if text is not None:
            text = text.replace("\\", "\\\\")
            text = f"'^({text[1:-1]})$'" if whole else text
        found += between + (text if text is not None else token[2])
    return found + _worded(sql[place:])


def _worded(sql: str) -> str:
    for word, own in _WORDS:
        sql = word.sub(own, sql)
    return sql
