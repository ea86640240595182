"""Trees of printed texts that differ in numbers and dates alone: parsed once, and then only these are put in.

Why   to parse takes longer than all else that is done about a small statement. What is proved is proved of each tree anew, with its
      own constants; here only the way from text to tree is shortened. A shape is used where the parser was seen to do nothing with its
      constants: put in place of others each stands in the tree once, as it is, and with those of a second text the tree is the one
      that is parsed of it
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.errors import SqlglotError

from dpsql.planner.walks import BROKEN, HOLE, lifted

MOST = 256
"""Shapes that are remembered."""


@dataclass(frozen=True, slots=True)
class _Shape:
    """A tree, and its constants in the order of the text."""

    tree: exp.Expression
    constants: tuple[exp.Expression, ...]

    def filled(self, values: Sequence[str]) -> exp.Expression:
        for node, value in zip(self.constants, values, strict=True):
            node.set("this", value)
        return self.tree


class Shapes:
    """Parses texts of one caller, one after the other.

    parse  the text of a statement, from nothing
    """

    def __init__(self, parse: Callable[[str], exp.Expression]) -> None:
        self._parse = parse
        self._known: OrderedDict[str, _Shape | bool] = OrderedDict()
        """By the text with holes: the shape; or whether the next may become one."""
        self._lent: tuple[str, _Shape] | None = None

    def tree(self, text: str) -> exp.Expression:
        """The tree of a text, for whoever asks alone, until `unchanged`. Raises as `parse`."""
        self._lent = None
        found = lifted(text)
        if found is None:
            return self._parse(text)
        key, values = found
        shape = self._known.pop(key, None)
        if shape is True:
            shape = self._shape(text, key, values) or False
        if not isinstance(shape, _Shape):
            self._remember(key, shape is None)
            return self._parse(text)
        self._lent = key, shape
        return shape.filled(values)

    @property
    def constants(self) -> tuple[exp.Expression, ...]:
        """The constants in the tree that was asked last, in the order of its text; none where it is no shape's."""
        return self._lent[1].constants if self._lent is not None else ()

    def unchanged(self) -> None:
        """The tree that was asked last is as it was given, and serves again."""
        if self._lent is not None:
            self._remember(*self._lent)

    def _remember(self, key: str, shape: _Shape | bool) -> None:
        self._known[key] = shape
        if len(self._known) > MOST:
            self._known.popitem(last=False)

    def _shape(self, text: str, key: str, values: Sequence[str]) -> _Shape | None:
        others = [_other(i, value) for i, value in enumerate(values)]
        try:
            tree = self._parse(_filled(key, others))
            literals = [node for node in tree.find_all(exp.Literal) if node.this in set(others)]
            places = {node.this: node for node in literals}
            if len(literals) != len(places) or len(places) != len(others) or set(others) & set(values):
                return None
            shape = _Shape(tree, tuple(places[other] for other in others))
            return shape if shape.filled(values) == self._parse(text) else None
        except (SqlglotError, RecursionError):
            return None


def _filled(key: str, values: Sequence[str]) -> str:
    first, *rest = re.split(f"[{HOLE}{BROKEN}]", key)
    return first + "".join(value + part for value, part in zip(values, rest, strict=True))


def _other(place: int, value: str) -> str:
    """A constant of the same kind that hardly any text has."""
    number = f"{7000 + place}-01-01" if "-" in value else f"{8_123_450_000_000_000 + place}"
    return f"{number}.5" if "." in value else number
