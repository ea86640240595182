"""JSON documents held as text: the text at a constant path. The parser has a form of its own for `->>`, made of the same scalar."""

from __future__ import annotations

import re
from collections.abc import Sequence

from dpsql.core.domains import UNBOUNDED
from dpsql.core.errors import error
from dpsql.core.sqltypes import BOOLEAN, VARCHAR
from dpsql.expressions.functions.record import Constants, Function, as_text, is_text, texts
from dpsql.expressions.known import Known, Ruled, nothing
from dpsql.expressions.literals import literal
from dpsql.expressions.logic import BOTH
from dpsql.expressions.scalar import Scalar, called
from dpsql.sql.nodes import Call, Case

_GROWTH = 5
"""The factor by which a part can be longer than the document: its numbers are written anew, the 5 characters of `1e20,` as the 24 of
`100000000000000000000.0,`, and no other number grows more. What else stands in a document is written as it was, or shorter."""
_LONGEST_PATH = 1_000
_STEP = re.compile(r'\.([\w-]+)|\."([^"\\*]+)"|\[(\d{1,6})\]')
_KEY = re.compile(r'[^$/\["\\*][^"\\*]*')


def path(text: object) -> str:
    """The one spelling of a path: '$.a[0]' and '$."a"[0]', 'a' and '$.a' are the same. Raises 102 for anything else.

    Why  with * a path gives a list, and a path that the engine cannot read is an error of every row
    """
    if isinstance(text, str) and len(text) <= _LONGEST_PATH:
        if _KEY.fullmatch(text):
            return f'$."{text}"'
        steps = list(_STEP.finditer(text))
        if text == "$" + "".join(step[0] for step in steps):
            return "$" + "".join(f"[{step[3]}]" if step[3] else f'."{step[1] or step[2]}"' for step in steps)
    raise error(102, "the path into a document must be a constant, of keys and numbers", hint="write a ->> '$.key[0]'")


def inside(outer: str, inner: str) -> str:
    """The path of what is at one path of what is at another."""
    return outer + inner.removeprefix("$")


def extract(text: Scalar, at: Scalar) -> Scalar:
    """JSON_EXTRACT_STRING(text, path): NULL where the text is no document, where nothing is there, or null."""
    text, place = as_text(text, "json_extract_string"), literal(path(at.value), VARCHAR)
    found = Call("json_extract_string", (text.tree, place.tree))
    # a guard alone would do, but takes about 10 microseconds a row that fails
    tree = Case(((Call("json_valid", (text.tree,)), found),))
    length = _GROWTH * (text.length or 0)
    return Scalar("json_extract_string", (text, place), tree, VARCHAR, UNBOUNDED, None, True, length=length)


def _valid(text: Scalar) -> Scalar:
    """JSON_VALID(text)"""
    return called("json_valid", [as_text(text, "json_valid")], BOOLEAN, BOTH)


def _extracted(args: Sequence[Known]) -> Ruled | None:
    """Extract from a document: text that is none is raised on, so it always has a guard."""
    fits = len(args) == 2 and is_text(args[0]) and args[1].word is not None and args[1].word.startswith("$")
    return nothing(Known(VARCHAR)) if fits else None


def _check(constants: Constants) -> None:
    path(constants[1])


FUNCTIONS = (
    Function(("json_valid",), "JSON_VALID(a)", "true or false", ("value",), _valid, {"json_valid": texts(1, BOOLEAN)},
        safe=True),
    Function(("json_extract_string", "json_extract_path_text"), "JSON_EXTRACT_STRING(a, '$.key')",
        "text, as a ->> '$.key'; NULL where a is no JSON", ("value", "constant"), extract,
        {"json_extract_string": _extracted}, check=_check, tried=True),
)  # fmt: skip
