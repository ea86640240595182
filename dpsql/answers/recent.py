"""recent: the newest answers of one session, for a dashboard that asks the same text again and again.

Why   the same text, parameters and options plan the same releases on the same data version, and released numbers are given again for
      nothing. What could differ is which answers are stored: every one that was read, or was looked for and not there, is looked up
      again by the number of its charge
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

MOST = 128
"""Answers that are kept."""
MOST_ROWS = 10_000
"""Of an answer that is kept."""

Kept = TypeVar("Kept")


@dataclass(frozen=True, slots=True)
class _Entry(Generic[Kept]):
    """An answer, and the stored answers that decide whether it still stands: each with the number of its charge, or None."""

    kept: Kept
    fingerprints: tuple[str, ...]
    charges: tuple[int | None, ...]


class Recent(Generic[Kept]):
    """The newest answers, by what was asked.

    charges_of  looks stored answers up
    """

    def __init__(self, charges_of: Callable[[Sequence[str]], Sequence[int | None]]) -> None:
        self._charges_of = charges_of
        self._entries: OrderedDict[Hashable, _Entry[Kept]] = OrderedDict()

    def get(self, asked: Hashable) -> Kept | None:
        """The kept answer, if the stored answers are those that it was made of."""
        entry = self._entries.get(asked)
        if entry is None:
            return None
        if tuple(self._charges_of(entry.fingerprints)) != entry.charges:
            del self._entries[asked]
            return None
        self._entries.move_to_end(asked)
        return entry.kept

    def put(self, asked: Hashable, kept: Kept, fingerprints: tuple[str, ...]) -> None:
        self._entries[asked] = _Entry(kept, fingerprints, tuple(self._charges_of(fingerprints)))
        if len(self._entries) > MOST:
            self._entries.popitem(last=False)


def asked_for(sql: str, parameters: Sequence[object] | Mapping[str, object], options: object) -> Hashable | None:
    """Identity of a statement; None where its parameters cannot be told apart by their text."""
    named = isinstance(parameters, Mapping)
    items: list[tuple[object, object]] = list(parameters.items() if named else enumerate(parameters))  # type: ignore[union-attr]
    if named and not all(type(name) is str for name, _ in items):
        return None
    if not all(type(value) in (str, int, float, bool, type(None)) for _, value in items):
        return None
    if any(isinstance(value, int) and value.bit_length() > 128 for _, value in items):
        return None  # Python may refuse to print longer ones
    return (sql, repr(sorted(items, key=lambda item: repr(item[0])) if named else items), repr(options))


def is_plain(columns: Sequence[tuple[str, str]]) -> bool:
    """True if no cell of a result can be changed by who reads it: no lists, structs or maps."""
    return not any(
        mark in sqltype for _, sqltype in columns for mark in ("[", "(", "STRUCT", "MAP") if sqltype[:7] != "DECIMAL"
    )
