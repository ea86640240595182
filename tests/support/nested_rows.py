"""Items in FROM of a generated nested statement: tables, and joins of them."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Rows:
    """Something in FROM, and what can be asked of its rows.

    text     with its alias
    unit     the unit's column, or None where it is further up
    visit    a column with visit.visit_id, or None
    """

    text: str
    unit: str | None
    visit: str | None
    numbers: tuple[str, ...]
    keys: tuple[str, ...]
    conditions: tuple[str, ...]

    def beside(self, other: Rows, text: str) -> Rows:
        """Both in one FROM."""
        return Rows(
            text,
            self.unit or other.unit,
            self.visit or other.visit,
            self.numbers + other.numbers,
            self.keys + other.keys,
            self.conditions + other.conditions,
        )


def _rest(rows: Rows) -> Sequence[object]:
    return rows.unit, rows.visit, rows.numbers, rows.keys, rows.conditions


def _outside(text: str) -> str:
    """The text without what stands in parentheses."""
    found, depth = [], 0
    for letter in text:
        depth += (letter == "(") - (letter == ")")
        found.append(letter if depth == 0 else "")
    return "".join(found)


@dataclass(slots=True)
class Sources:
    """Items that FROM reads; derived tables and conditions are added by the classes that follow.

    One generated statement; `used` holds the constructs that it has.
    """

    chance: random.Random
    used: set[str] = field(default_factory=set)
    count: int = 0

    # --- tables -------------------------------------------------------------------------------------------------------

    def alias(self) -> str:
        self.count += 1
        return f"t{self.count}"

    def patient(self) -> Rows:
        a = self.alias()
        return Rows(
            f"patient AS {a}",
            f"{a}.patient_id",
            None,
            (f"{a}.income", f"{a}.age", f"{a}.weight", f"{a}.score"),
            (f"{a}.site", f"{a}.female", f"{a}.city", f"{a}.age // 20", f"{a}.code"),
            (f"{a}.site = 2", f"{a}.female", f"{a}.income > 0", f"{a}.city LIKE 'a%'", f"{a}.note IS NULL"),
        )

    def visit(self) -> Rows:
        a = self.alias()
        return Rows(
            f"visit AS {a}",
            f"{a}.patient_id",
            f"{a}.visit_id",
            (f"{a}.cost", f"{a}.days", f"{a}.year"),
            (f"{a}.year", f"{a}.year % 2", f"{a}.tag", f"{a}.cost > 20", f"{a}.days // 10"),
            (f"{a}.year > 1", f"{a}.cost < 20", f"{a}.days IS NULL", f"{a}.tag = 't1'", f"{a}.year IN (1, 2)"),
        )

    def item(self) -> Rows:
        a = self.alias()
        return Rows(
            f"item AS {a}",
            None,
            f"{a}.visit_id",
            (f"{a}.amount", f"{a}.drug"),
            (f"{a}.drug", f"{a}.batch"),
            (f"{a}.drug = 1", f"{a}.amount > -10", f"{a}.batch IS NOT NULL"),
        )

    def table(self) -> Rows:
        return self.chance.choice([self.patient, self.visit, self.visit, self.item])()

    def pick(self, *options: Callable[[], Rows]) -> Rows:
        return self.chance.choice(options)()

    # --- joins --------------------------------------------------------------------------------------------------------

    def source(self, depth: int) -> Rows:
        """An item of a FROM clause."""
        options = [self.table, self.pair, self.pair, self.with_public, self.three, self.merged]
        if depth > 0:
            options += [lambda: self.derived(depth), lambda: self.derived(depth), lambda: self.derived_pair(depth)]
        return self.pick(*options)

    def joined(self, left: Rows, right: Rows, on: str, *, outer: bool = True) -> Rows:
        kinds = ["JOIN", "JOIN", "comma", *(["LEFT JOIN", "RIGHT JOIN", "FULL JOIN"] if outer else [])]
        kind = self.chance.choice(kinds)
        residual = self.chance.random() < 0.25
        if residual:
            on += f" AND {self.chance.choice(left.conditions + right.conditions)}"
        self.used.add({"JOIN": "inner", "comma": "comma"}.get(kind, kind.split()[0].lower()))
        if kind == "comma":
            found = left.beside(right, f"{left.text}, {right.text}")
            return Rows(found.text + f" WHERE {on}", *_rest(found))
        found = left.beside(right, f"{left.text} {kind} {right.text} ON {on}")
        if kind == "RIGHT JOIN":
            found = Rows(found.text, right.unit, right.visit, *_rest(found)[2:])
        if kind == "FULL JOIN" and left.unit is not None:
            found = Rows(found.text, f"COALESCE({left.unit}, {right.unit})", None, *_rest(found)[2:])
        return found

    def pair(self) -> Rows:
        """Two private tables on the unit, or on a key that determines it."""
        kind = self.chance.choice(["patient visit", "visit visit", "visit visit", "item visit", "item item", "keys"])
        if kind == "patient visit":
            left, right = self.chance.sample([self.patient(), self.visit()], 2)
            return self.joined(left, right, f"{left.unit} = {right.unit}")
        if kind in ("item visit", "item item"):
            left, right = self.item(), self.visit() if kind == "item visit" else self.item()
            if kind == "item item":
                self.used.add("self")
            return self.joined(left, right, f"{left.visit} = {right.visit}", outer=kind == "item item")
        self.used.add("self")
        left, right = self.visit(), self.visit()
        if kind == "keys":
            return self.joined(left, right, f"{left.visit} = {right.visit}")
        more = self.chance.choice(["", "", f" AND {left.keys[0]} < {right.keys[0]}"])
        return self.joined(left, right, f"{left.unit} = {right.unit}{more}")

    def merged(self) -> Rows:
        """USING and NATURAL."""
        word = self.chance.choice(["using", "natural"])
        self.used.add(word)
        left, right, name = self.chance.choice(
            [(self.patient(), self.visit(), "patient_id"), (self.visit(), self.item(), "visit_id")]
        )
        side = self.chance.choice(["", "", "LEFT "])
        if word == "natural":
            return left.beside(right, f"{left.text} NATURAL {side}JOIN {right.text}")
        return left.beside(right, f"{left.text} {side}JOIN {right.text} USING ({name})")

    def three(self) -> Rows:
        self.used |= {"three tables", "inner"}
        p, v, i = self.patient(), self.visit(), self.item()
        both = v.beside(i, f"{v.text} JOIN {i.text} ON {v.visit} = {i.visit}")
        kind = self.chance.choice(["JOIN", "LEFT JOIN"])
        return both.beside(p, f"{both.text} {kind} {p.text} ON {v.unit} = {p.unit}")

    def with_public(self) -> Rows:
        """A private table and a public one, by its key."""
        a = self.alias()
        left, right, on = self.chance.choice(
            [
                (p := self.patient(), f"place AS {a}", f"{a}.site = {p.keys[0]}"),
                (p, f"place AS {a}", f"{a}.region = {p.keys[0]}"),
                (p, f"badge AS {a}", f"{a}.badge = {p.keys[2]}"),
                (i := self.item(), f"drug AS {a}", f"{i.keys[0]} = {a}.drug"),
                (v := self.visit(), f"drug AS {a}", f"{v.keys[0]} = {a}.drug"),
            ]
        )
        if ".region" in on:
            self.used.add("multiplicity")
        keys = {"place": (f"{a}.region", f"{a}.town"), "badge": (f"{a}.grade",), "drug": (f"{a}.label",)}[
            right.split()[0]
        ]
        kind = self.chance.choice(["JOIN", "LEFT JOIN"])
        self.used.add("public join" if kind == "JOIN" else "public left join")
        return Rows(
            f"{left.text} {kind} {right} ON {on}",
            left.unit,
            left.visit,
            left.numbers,
            left.keys + keys,
            left.conditions,
        )
