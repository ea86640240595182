"""One table of the file, read key by key."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import cast

from dpsql.schema.mistakes import Mistakes, nearest, printable, shown, suggestion
from dpsql.schema.write import name

MOST_DIGITS = 400  # more than DOUBLE has; keeps 1e999999999 from becoming an integer of a billion digits


def number(value: object) -> Fraction | None:
    """The exact number that a value of the file is; None for anything else, NaN, infinity and absurd sizes.

    A boolean is no number, although Python takes it for one.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return Fraction(value) if value.bit_length() < 3 * MOST_DIGITS else None
    if isinstance(value, Decimal) and value.is_finite():
        exponent = value.as_tuple().exponent
        if isinstance(exponent, int) and exponent >= -MOST_DIGITS and value.adjusted() <= MOST_DIGITS:
            return Fraction(value)
    return None


@dataclass(frozen=True, slots=True)
class Section:
    """One table of the file. Its readers report a wrong value to `mistakes` and give None, as for an absent one.

    place     where it stands, as messages say it
    examples  every key that is allowed here, with a value that could be written
    """

    values: Mapping[str, object]
    place: str
    examples: Mapping[str, str]
    mistakes: Mistakes

    def __contains__(self, key: str) -> bool:
        return key in self.values

    def wrong(self, what: str, remedy: str) -> None:
        self.mistakes.add(self.place, what, remedy)

    def misfit(self, key: str, needs: str) -> None:
        """Report a value of the wrong kind, with an example of a right one: a text where a list is due, as the list of it."""
        written, example = self.values[key], self.examples[key]
        remedy = f"write {name(key)} = {f'[{shown(written)}]' if isinstance(written, str) and example[0] == '[' else example}"
        self.wrong(f"{printable(key)} needs {needs}, not {shown(written)}", remedy)

    def refuse_unknown(self) -> None:
        """Report every key that has no meaning here, with the nearest that has."""
        for key in self.values:
            if key not in self.examples:
                close = nearest(key, list(self.examples))
                remedy = f"write {close}" if close else f"remove it (the keys here are {', '.join(self.examples)})"
                self.wrong(f"the key {shown(key)} is unknown", remedy)

    def require(self, *keys: str) -> None:
        """Report keys that are not there."""
        for key in keys:
            if key not in self.values:
                self.wrong(f"{key} is missing", f"write {key} = {self.examples[key]}")

    def refuse(self, key: str, reason: str, remedy: str) -> bool:
        """Report a key that makes no sense here, if it is there, and say whether it was."""
        if key in self.values:
            self.wrong(f"{key} {reason}", remedy)
        return key in self.values

    def text(self, key: str) -> str | None:
        value = self.values.get(key)
        if isinstance(value, str) and value.strip() and value.isprintable():
            return value
        if key in self.values:
            self.misfit(key, "text on one line")
        return None

    def flag(self, key: str) -> bool:
        """A boolean; false where it is absent."""
        value = self.values.get(key, False)
        if not isinstance(value, bool):
            self.misfit(key, "true or false")
        return value is True

    def count(self, key: str) -> int | None:
        """A whole number, 1 or more."""
        whole = not isinstance(self.values.get(key), Decimal)
        found = self._number(key, "a whole number, 1 or more", lambda n: whole and n >= 1)
        return None if found is None else int(found)

    def positive(self, key: str) -> Fraction | None:
        """An exact number above zero."""
        return self._number(key, "a finite number above 0", lambda n: n > 0)

    def probability(self, key: str) -> Fraction | None:
        """An exact number above zero and below one."""
        return self._number(key, "a number above 0 and below 1", lambda n: 0 < n < 1)

    def share(self, key: str) -> Fraction | None:
        """An exact number from zero to below one."""
        return self._number(key, "a number from 0 to below 1", lambda n: 0 <= n < 1)

    def _number(self, key: str, needs: str, fits: Callable[[Fraction], bool]) -> Fraction | None:
        found = number(self.values.get(key))
        if found is not None and fits(found):
            return found
        if key in self.values:
            self.misfit(key, needs)
        return None

    def one_of(self, key: str, words: Sequence[str]) -> str | None:
        """One of some words."""
        found = self.text(key)
        if found is None or found in words:
            return found
        self.wrong(f"{key} {shown(found)} is unknown", suggestion(found, list(words)))
        return None

    def names(self, key: str) -> tuple[str, ...]:
        """A list of different names; () where it is absent."""
        return self._list(key, "a list of different column names", str.lower)

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of different texts; () where it is absent."""
        return self._list(key, "a list of different texts", str)

    def _list(self, key: str, needs: str, folded: Callable[[str], str]) -> tuple[str, ...]:
        value = self.values.get(key, [])
        if isinstance(value, list) and all(isinstance(v, str) and v.strip() for v in value):
            found = tuple(cast(list[str], value))
            if len(set(map(folded, found))) == len(found) and (found or key not in self.values):
                return found
        self.misfit(key, needs)
        return ()

    def inner(self, key: str, examples: Mapping[str, str], place: str) -> Section | None:
        """A table inside this one, its unknown keys reported; None where it is absent or no table."""
        found = self.free(key, place, "")
        if found is None:
            return None
        section = Section(found.values, place, examples, self.mistakes)
        section.refuse_unknown()
        return section

    def free(self, key: str, place: str, example: str) -> Section | None:
        """A table inside this one whose keys are names of the owner's choice; `example` is a value for any of them."""
        value = self.values.get(key)
        if isinstance(value, dict):
            return Section(value, place, dict.fromkeys(value, example), self.mistakes)
        if key in self.values:
            self.misfit(key, "a table")
        return None

    def refuse_bad_names(self, kind: str) -> None:
        """Report names of the owner's choice that cannot be said in SQL or in one line, or that differ in case only."""
        seen: dict[str, str] = {}
        for key in self.values:
            if not key.strip() or not key.isprintable():
                self.wrong(f"the {kind} name {shown(key)} is empty or not printable", "give it another name")
            twin = seen.setdefault(key.lower(), key)
            if twin != key:
                what = f"the {kind} names {printable(twin)} and {printable(key)} differ in case only"
                self.wrong(what, "rename one: SQL takes them for the same")
