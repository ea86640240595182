"""Names in engine SQL: told by reading it token by token, so that what stands inside a text is no name."""

from __future__ import annotations

import re

from dpsql.sql.duckdb import quoted

_TOKEN = re.compile(r"""'(?:[^']|'')*'|(?P<name>"(?:[^"]|"")*")""")


def mentions(sql: str, name: str) -> bool:
    """Whether a quoted identifier stands in SQL, outside of texts.

    Why  the engine SQL quotes every identifier and doubles the quotes inside a text, so two kinds of tokens tell all of it apart

    >>> mentions('SELECT "a" FROM "t"', "t"), mentions('"a" = \\'"t"\\'', "t")
    (True, False)
    """
    wanted = quoted(name)
    return wanted in sql and any(found["name"] == wanted for found in _TOKEN.finditer(sql))
