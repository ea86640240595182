"""Conditions as SQL text, which is what the history of questions knows them by: columns replaced, named as keys, shown to people."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from hashlib import sha256

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from dpsql.expressions.scalar import Scalar
from dpsql.plan.resolved import Aggregate
from dpsql.schema.model import RESERVED
from dpsql.sql.duckdb import printed, quoted

TOKEN = re.compile(r"""'(?:[^']|'')*'|(?P<name>"(?:[^"]|"")*"(?:\."(?:[^"]|"")*")*)""")
RELEASED = re.compile(r'\(SELECT "?c0"? FROM "[0-9a-f]{24}"[^)]*\)|"[0-9a-f]{24}"(\."?c[0-9]+"?)?')
_PLAIN = (
    (re.compile(r"(?:TRY_)?CAST\(((?:[^()]|\([^()]*\))*) AS [A-Z]+(?:\([0-9, ]*\))?\)"), r"\1"),
    (re.compile(r"CASE WHEN ([\w.]+) BETWEEN [^()]+(?: AND NOT isnan\([\w.]+\)[^()]+)?? END"), r"\1"),
    (re.compile(r"\((sum\([\w.]+\)) \* [0-9.e-]+\)"), r"\1"),
)
"""What a text for people is without: conversions, clamps and quanta."""


_NAME = re.compile(r"""'(?:[^']|'')*'|(?P<name>"(?:[^"]|"")*")""")


def said(scalar: Scalar | None) -> str:
    """What is computed, as text; "" for nothing."""
    return printed(scalar.tree) if scalar is not None else ""


def canonical(sql: str) -> str:
    """Engine SQL with its table aliases numbered in the order in which they are met.

    Why  the numbering is one to one, nobody else can write the numbers, and table and column names, texts and everything else
         stay: two texts become equal only if they differed in the names of aliases alone

    >>> canonical('"person" AS "p" WHERE "p"."site" = 2') == canonical('"person" AS "person" WHERE "person"."site" = 2')
    True
    """
    numbers: dict[str, str] = {}
    qualifying = {found["name"] for found in _NAME.finditer(sql) if sql.startswith(".", found.end())}

    def number(found: re.Match[str]) -> str:
        name = found["name"]
        if name is None:
            return found[0]
        qualifies = sql.startswith(".", found.end())
        declared = sql.startswith(" AS ", max(0, found.start() - 4)) and found.start() >= 4
        column = sql.startswith(".", found.start() - 1) and found.start() >= 1
        if column or not (qualifies or (declared and name in qualifying)):
            return name
        return numbers.setdefault(name, f'"{RESERVED}{len(numbers)}"')

    return _NAME.sub(number, sql)


def asked(aggregate: Aggregate) -> str:
    """What an aggregate asks, as text."""
    values = (f"{said(v)} {v.domain} {v.unit_bounds} {v.step}" for v in aggregate.values)
    return "|".join(
        [aggregate.function, *values, said(aggregate.condition), str(aggregate.sqltype), str(aggregate.number)]
    )


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


def mentions(sql: str, name: str) -> bool:
    """Whether a quoted identifier stands in SQL, outside of texts.

    Why  the engine SQL quotes every identifier and doubles the quotes inside a text, so two kinds of tokens tell all of it apart

    >>> mentions('SELECT "a" FROM "t"', "t"), mentions('"a" = \\'"t"\\'', "t")
    (True, False)
    """
    wanted = quoted(name)
    return wanted in sql and any(found["name"] == wanted for found in _NAME.finditer(sql))
