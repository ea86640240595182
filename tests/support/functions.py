"""Calls of every registered function, made of its example: what stands for text, numbers and dates there is replaced."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from dpsql.expressions.functions import FUNCTIONS
from dpsql.expressions.functions.record import Function

TEXTS, NUMBERS, DATES = "ab", "xy", "de"
"""The names of the arguments of examples."""
OF_VALUES = tuple(function for function in FUNCTIONS if not re.search(r"\bl\b", function.example))
"""All but those of lists, which tests/semantics/test_lists.py asks: l is a list of text."""
_ARGUMENT = re.compile(rf"'[^']*'|\b[{TEXTS}{NUMBERS}{DATES}]\b")


def filled(example: str, made: Callable[[str], str]) -> str:
    """An example with something made in place of each argument, by its letter; its texts stay."""
    return _ARGUMENT.sub(lambda found: found[0] if found[0].startswith("'") else made(found[0]), example)


def spellings(function: Function) -> Iterator[str]:
    """The example by each of the function's names."""
    for name in function.names:
        yield re.sub(rf"^{function.name}\b", name.upper(), function.example, flags=re.IGNORECASE)


def templates() -> Iterator[str]:
    """Every spelling of every function, with {0} and {1} for its arguments."""
    for function in OF_VALUES:
        for text in spellings(function):
            letters = list(dict.fromkeys(found for found in _ARGUMENT.findall(text) if not found.startswith("'")))
            places = {letter: f"{{{min(place, 1)}}}" for place, letter in enumerate(letters)}
            yield filled(text, places.__getitem__)
