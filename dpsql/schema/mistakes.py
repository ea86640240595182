"""Mistakes in one schema file, gathered so that the owner sees all of it at once."""

from __future__ import annotations

from datetime import date, datetime, time
from decimal import Decimal
from difflib import get_close_matches

from dpsql.core.errors import error
from dpsql.schema.write import quoted

LONGEST_SHOWN = 60


class Mistakes:
    """A growing list of mistakes of one file; every one says where it is and what to write instead."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.lines: list[str] = []

    def add(self, place: str, what: str, remedy: str) -> None:
        """Remember one mistake; one that was already found is not said twice."""
        line = f"{place}: {what}; {remedy}"
        if line not in self.lines:
            self.lines.append(line)

    def at(self, place: str) -> bool:
        """True if something is wrong there already: a second opinion would only repeat it."""
        return any(line.startswith((f"{place}:", f"{place},")) for line in self.lines)

    def raise_any(self) -> None:
        """Raise SchemaError (DPSQL-801), if there are any: the first line tells one of them, then one line for each other."""
        if len(self.lines) == 1:
            raise error(801, f"{self.file}: {self.lines[0]}")
        if self.lines:
            first = f"{self.file} has {len(self.lines)} mistakes: {self.lines[0]}"
            raise error(801, "\n".join([first, *(f"{self.file}: {line}" for line in self.lines[1:])]))


def shown(value: object) -> str:
    """A value of the file, short enough and printable enough for one line of a message."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return quoted(value if len(value) <= LONGEST_SHOWN else value[:LONGEST_SHOWN] + "...")
        case int():
            # Python refuses to print integers of thousands of digits, and nobody could read them
            return str(value) if value.bit_length() <= 200 else "a number of very many digits"
        case Decimal():
            return str(value).lower() if len(str(value)) <= LONGEST_SHOWN else "a number of very many digits"
        case datetime() | date() | time():
            return value.isoformat()
        case list():
            return f"a list of {len(value)}"
        case _:
            return "a table"


def printable(name: str) -> str:
    """A name of the owner's choice as it stands in a message: as it is, unless it would break the line."""
    return name if name and name.isprintable() else quoted(name)


def place_of(table: str, column: str | None = None) -> str:
    """Place of a table or one of its columns, as messages say it."""
    place = f"table {printable(table)}"
    return place if column is None else f"{place}, column {printable(column)}"


def nearest(word: str, words: list[str]) -> str | None:
    """The one of some words that a misspelt one most likely meant, or None."""
    folded = {w.lower(): w for w in words}
    found = get_close_matches(word.lower(), folded, n=1, cutoff=0.6)
    return folded[found[0]] if found else None


def suggestion(word: str, words: list[str]) -> str:
    """Suggest a name instead of one that does not exist."""
    close = nearest(word, words)
    if close is not None:
        return f"write {close}"
    return f"write one of: {', '.join(words)}" if words else "remove it"
