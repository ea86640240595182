"""recent: the newest answers of a session, or of those of one worker, for a dashboard that asks the same text again and again.

Why   the same text, parameters and options plan the same releases on the same data version, and released numbers are given again for
      nothing. What could differ is which answers are stored: every one that was read, or was looked for and not there, is looked up
      again by the number of its charge
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

MOST = 2_048
"""Answers that are kept."""
MOST_ROWS = 10_000
"""Of an answer that is kept."""
MOST_HELD = 100_000
"""Rows of all that are kept."""
MOST_PLANS, LONGEST_PLANNED = 256, 10_000
"""Plans that are kept, and [characters] of the text of one."""
_NAMED = re.compile(r"\b(ml|randomized)\"?\s*\.", re.IGNORECASE)

Kept = TypeVar("Kept")
Charges = Callable[[Sequence[str]], Sequence[int | None]]


@dataclass(frozen=True, slots=True)
class _Entry(Generic[Kept]):
    """An answer, and the stored answers that decide whether it still stands: each with the number of its charge, or None."""

    kept: Kept
    fingerprints: tuple[str, ...]
    charges: tuple[int | None, ...]
    rows: int


class Newest(Generic[Kept]):
    """Plans by what was asked, as many as may be kept."""

    def __init__(self) -> None:
        self._known: OrderedDict[Hashable, Kept] = OrderedDict()

    def get(self, asked: Hashable) -> Kept | None:
        if asked in self._known:
            self._known.move_to_end(asked)
        return self._known.get(asked)

    def put(self, asked: Hashable, kept: Kept) -> None:
        self._known[asked] = kept
        if len(self._known) > MOST_PLANS:
            self._known.popitem(last=False)


class Shelf(Generic[Kept]):
    """Answers that several sessions of one thread keep together, by the versions of the data and what was asked.

    Why   what is stored is the dataset's, and is given to whoever asks the same (rule 73): so is what is made of it, as long as nothing
          of whoever asked first is in it
    """

    def __init__(self) -> None:
        self._entries: OrderedDict[Hashable, _Entry[Kept]] = OrderedDict()
        self._rows = 0

    def get(self, asked: Hashable, charges_of: Charges) -> Kept | None:
        """The kept answer, if the stored answers are those that it was made of."""
        entry = self._entries.get(asked)
        if entry is None:
            return None
        if tuple(charges_of(entry.fingerprints)) != entry.charges:
            self._drop(asked)
            return None
        self._entries.move_to_end(asked)
        return entry.kept

    def put(self, asked: Hashable, kept: Kept, fingerprints: tuple[str, ...], charges_of: Charges, rows: int) -> None:
        self._drop(asked)
        self._entries[asked] = _Entry(kept, fingerprints, tuple(charges_of(fingerprints)), rows)
        self._rows += rows
        while len(self._entries) > MOST or self._rows > MOST_HELD:
            self._drop(next(iter(self._entries)))

    def _drop(self, asked: Hashable) -> None:
        entry = self._entries.pop(asked, None)
        self._rows -= entry.rows if entry is not None else 0


class Recent(Generic[Kept]):
    """The newest answers, by what was asked.

    charges_of  looks stored answers up
    shelf       of other sessions too, whose answers are given to whoever asks; None: there are no others
    versions    of the data that this session reads
    """

    def __init__(self, charges_of: Charges, shelf: Shelf[Kept] | None = None, versions: Hashable = None) -> None:
        self._charges_of, self._shelf, self._versions = charges_of, shelf, versions
        self._own: Shelf[Kept] = Shelf()

    def get(self, asked: Hashable) -> Kept | None:
        """The kept answer, if the stored answers are those that it was made of."""
        found = self._own.get(asked, self._charges_of)
        if found is None and self._shelf is not None:
            return self._shelf.get((self._versions, asked), self._charges_of)
        return found

    def put(
        self, asked: Hashable, kept: Kept, fingerprints: tuple[str, ...], *, rows: int = 1, for_all: bool = False
    ) -> None:
        """Keep an answer.

        rows     that it has
        for_all  whether nothing in it is of whoever asked
        """
        if for_all and self._shelf is not None:
            self._shelf.put((self._versions, asked), kept, fingerprints, self._charges_of, rows)
        else:
            self._own.put(asked, kept, fingerprints, self._charges_of, rows)


def calls_names(sql: str) -> bool:
    """True if a text may call a model, or read a randomized table."""
    return _NAMED.search(sql) is not None


def asked_for(sql: str, parameters: Sequence[object] | Mapping[str, object], options: object) -> Hashable | None:
    """Identity of a statement; None where its parameters cannot be told apart by their text, or it calls a model, or reads a
    randomized table, by its name, which may stand for another one later."""
    if calls_names(sql):
        return None
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
