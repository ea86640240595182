"""SQL texts of conditions: columns in them replaced, named as keys, and shown to people."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from hashlib import sha256

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from dpsql.sql.duckdb import quoted

TOKEN = re.compile(r"""'(?:[^']|'')*'|(?P<name>"(?:[^"]|"")*"(?:\."(?:[^"]|"")*")*)""")
RELEASED = re.compile(r'\(SELECT "?c0"? FROM "[0-9a-f]{24}"[^)]*\)|"[0-9a-f]{24}"(\."?c[0-9]+"?)?')
_PLAIN = (
    (re.compile(r"(?:TRY_)?CAST\(((?:[^()]|\([^()]*\))*) AS [A-Z]+(?:\([0-9, ]*\))?\)"), r"\1"),
    (re.compile(r"CASE WHEN ([\w.]+) BETWEEN [^()]+(?: AND NOT isnan\([\w.]+\)[^()]+)?? END"), r"\1"),
    (re.compile(r"\((sum\([\w.]+\)) \* [0-9.e-]+\)"), r"\1"),
)
"""What a text for people is without: conversions, clamps and quanta."""


def replaced(text: str, names: Mapping[str, str]) -> str:
    """SQL with columns replaced, outside of texts."""
    return TOKEN.sub(lambda found: names.get(found[0], found[0]), text) if names else text


@lru_cache(maxsize=1_024)
def looked_for(exists: str) -> frozenset[str] | None:
    """The qualifier of the one table whose rows an EXISTS looks for; None where it looks for anything else: a join, a union, groups, or
    a query of its own."""
    try:
        tree = sqlglot.parse_one(exists, dialect="duckdb")
    except (SqlglotError, RecursionError):
        return None
    selects, scans = list(tree.find_all(exp.Select)), list(tree.find_all(exp.Table))
    if len(selects) != 1 or len(scans) != 1 or tree.find(exp.Join, exp.SetOperation, exp.Group) is not None:
        return None
    return frozenset(quoted(scan.alias_or_name) for scan in scans)


@lru_cache(maxsize=1_024)
def projected(query: str) -> tuple[str, str] | None:
    """The table and the column that a bound table reads as they are; None where it does anything else."""
    try:
        tree = sqlglot.parse_one(query, dialect="duckdb")
    except (SqlglotError, RecursionError):
        return None
    inner = next((found.this for found in tree.find_all(exp.Subquery)), None)
    if not isinstance(inner, exp.Select) or len(inner.expressions) != 1:
        return None
    read, source = inner.expressions[0].unalias(), inner.args.get("from_")
    more = [name for name, arg in inner.args.items() if arg and name not in ("expressions", "from_")]
    if more or not isinstance(read, exp.Column) or source is None or not isinstance(source.this, exp.Table):
        return None
    return source.this.name, read.name


def declares(text: str, found: re.Match[str]) -> bool:
    """Whether a name in a text is an alias where it is given."""
    return text.endswith(" AS ", 0, found.start())


def digest(text: str) -> str:
    return sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:24]


def short(text: str) -> str:
    """A text for people, without what only makes it safe, and not too long."""
    plain, before = text.partition(" of ")[0].replace('"', ""), ""
    while plain != before:
        before = plain
        for pattern, kept in _PLAIN:
            plain = pattern.sub(kept, plain)
    return plain if len(plain) <= 60 else plain[:57] + "..."
