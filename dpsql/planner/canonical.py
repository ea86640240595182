"""One text for all spellings of an alias: what is asked decides the price and the stored answer, not what tables are called."""

from __future__ import annotations

import re

from dpsql.schema.model import RESERVED
from dpsql.sql.duckdb import quoted

_TOKEN = re.compile(r"""'(?:[^']|'')*'|(?P<name>"(?:[^"]|"")*")""")


def canonical(sql: str) -> str:
    """Engine SQL with its table aliases numbered in the order in which they are met.

    Why  the numbering is one to one, nobody else can write the numbers, and table and column names, texts and everything else
         stay: two texts become equal only if they differed in the names of aliases alone

    >>> canonical('"person" AS "p" WHERE "p"."site" = 2') == canonical('"person" AS "person" WHERE "person"."site" = 2')
    True
    """
    numbers: dict[str, str] = {}
    qualifying = {found["name"] for found in _TOKEN.finditer(sql) if sql.startswith(".", found.end())}

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

    return _TOKEN.sub(number, sql)


def renamed(sql: str, names: dict[str, str]) -> str:
    """SQL with some quoted identifiers replaced, outside of texts.

    >>> renamed('SELECT "a" FROM "t" WHERE "a" = \'"t"\'', {"t": "u"})
    'SELECT "a" FROM "u" WHERE "a" = \'"t"\''
    """
    written = {quoted(old): quoted(new) for old, new in names.items()}
    return _TOKEN.sub(lambda found: written.get(found[0], found[0]), sql)
