"""Generated scalar expressions over the clinic's private tables: every function that a condition about people may use."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from tests.support.functions import DATES as DATES_OF_EXAMPLES
from tests.support.functions import OF_VALUES, filled, spellings
from tests.support.functions import TEXTS as TEXTS_OF_EXAMPLES

INTEGERS = {"patient": ["age", "site", "code"], "visit": ["days", "year", "visit_id"], "item": ["drug", "batch"]}
NUMBERS = {"patient": ["income", "weight", "score"], "visit": ["cost"], "item": ["amount"]}
TEXTS = {"patient": ["city", "note"], "visit": ["tag"], "item": []}
DATES = {"patient": ["born"], "visit": [], "item": []}
BOOLEANS = {"patient": ["female"], "visit": [], "item": []}
WHOLE_TYPES = ["TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"]
OTHER_NUMBERS = ["DOUBLE", "FLOAT", "DECIMAL(9,2)", "DECIMAL(18,4)", "DECIMAL(4,1)", "DECIMAL(38,3)", "NUMERIC"]
PARTS = ["year", "quarter", "month", "day", "week", "dow", "isodow", "doy", "hour", "minute", "second"]
PART_FUNCTIONS = [
    "YEAR", "QUARTER", "MONTH", "DAY", "DAYOFMONTH", "DAYOFWEEK", "DAYOFYEAR", "WEEKOFYEAR", "WEEK", "HOUR", "MINUTE", "SECOND",
    "DOW", "ISODOW", "WEEKDAY", "DOY",
]  # fmt: skip
TRUNCATIONS = ["year", "quarter", "month", "week", "day", "hour", "minute", "second"]
UNITS = ["YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND"]


@dataclass(slots=True)
class Expressions:
    """Random SQL expressions of each type over one table."""

    chance: random.Random
    table: str

    def any(self, depth: int = 3) -> str:
        make = self.chance.choice(
            [
                self.number,
                self.number,
                self.whole,
                self.whole,
                self.condition,
                self.text,
                self.date,
                self.moment,
                self.call,
            ]
        )
        return make(depth)

    def call(self, depth: int) -> str:
        """Any registered function, by any of its names."""
        text = self.chance.choice(list(spellings(self.chance.choice(OF_VALUES))))

        def made(letter: str) -> str:
            if letter in TEXTS_OF_EXAMPLES:
                return self.text(depth - 1)
            return (
                self._day(depth - 1)
                if letter in DATES_OF_EXAMPLES
                else self._pick(lambda: self.whole(depth - 1), lambda: self.number(depth - 1))
            )

        return filled(text, made)

    def _pick(self, *makers: Callable[[], str]) -> str:
        return self.chance.choice(makers)()

    def _same(self, make: Callable[[int], str], depth: int) -> str:
        """Forms that keep the type of their operands."""
        a, b = make(depth - 1), make(depth - 1)
        c = self.condition(depth - 1)
        return self.chance.choice(
            [
                f"CASE WHEN {c} THEN {a} ELSE {b} END",
                f"CASE WHEN {c} THEN {a} END",
                f"CASE WHEN {c} THEN {a} WHEN {self.condition(0)} THEN {b} END",
                f"CASE {a} WHEN {b} THEN {a} ELSE {b} END",
                f"IF({c}, {a}, {b})",
                f"COALESCE({a}, {b})",
                f"NULLIF({a}, {b})",
                f"({a})",
            ]
        )

    # --- numbers ---------------------------------------------------------------------------------------------------

    def literal(self) -> str:
        return self.chance.choice(
            ["0", "1", "2", "3", "7", "10", "-1", "-3", "100", "0.5", "-2.25", "1.10", "1e2", "-2.5e-1", "3000000000"]
        )

    def small(self) -> str:
        return self.chance.choice(["0", "1", "2", "3", "7", "10", "-1", "-3", "40"])

    def whole(self, depth: int) -> str:
        """An integer expression."""
        column = self.chance.choice(INTEGERS[self.table])
        if depth <= 0 or self.chance.random() < 0.15:
            return self._pick(lambda: column, lambda: column, self.small)
        a, b = self.whole(depth - 1), self.whole(depth - 1)
        x = self.number(depth - 1)
        return self._pick(
            lambda: f"({a} + {b})",
            lambda: f"({a} - {b})",
            lambda: f"({a} * {b})",
            lambda: f"({a} // {b})",
            lambda: f"({a} // {self.small()})",
            lambda: f"({a} % {b})",
            lambda: f"({a} % {self.small()})",
            lambda: f"(- {a})",
            lambda: f"ABS({a})",
            lambda: f"SIGN({x})",
            lambda: f"CAST({x} AS {self.chance.choice(WHOLE_TYPES)})",
            lambda: f"CAST({a} AS {self.chance.choice(WHOLE_TYPES)})",
            lambda: f"({x})::BIGINT",
            lambda: f"TRY_CAST({self.text(depth - 1)} AS {self.chance.choice(WHOLE_TYPES)})",
            lambda: f"CAST({self.condition(depth - 1)} AS INTEGER)",
            lambda: f"{self.chance.choice(['LENGTH', 'STRLEN'])}({self.text(depth - 1)})",
            lambda: f"EXTRACT({self.chance.choice(PARTS)} FROM {self._day(depth - 1)})",
            lambda: f"date_part('{self.chance.choice(PARTS)}', {self._day(depth - 1)})",
            lambda: f"{self.chance.choice(PART_FUNCTIONS)}({self._day(depth - 1)})",
            lambda: f"date_diff('{self.chance.choice(UNITS).lower()}', {self._day(depth - 1)}, {self._day(depth - 1)})",
            lambda: f"({self.date(depth - 1)} - {self.date(depth - 1)})",
            lambda: (
                f"width_bucket({x}, {self.chance.choice(['0, 50, 5', '-10.5, 90, 7', '1e1, 2e1, 3', '-3, 30, 40'])})"
            ),
            lambda: f"LEAST({a}, {b})",
            lambda: f"GREATEST({a}, {b}, {self.small()})",
            lambda: self._same(self.whole, depth),
            lambda: self._same(self.whole, depth),
        )

    def number(self, depth: int) -> str:
        """A numeric expression of any type."""
        column = self.chance.choice([*NUMBERS[self.table], *NUMBERS[self.table], *INTEGERS[self.table]])
        if depth <= 0 or self.chance.random() < 0.15:
            return self._pick(lambda: column, lambda: column, self.literal)
        a, b = self.number(depth - 1), self.number(depth - 1)
        return self._pick(
            lambda: f"({a} + {b})",
            lambda: f"({a} - {b})",
            lambda: f"({a} * {b})",
            lambda: f"(CAST({a} AS DOUBLE) * {b})",
            lambda: f"({a} / {b})",
            lambda: f"({a} / {self.literal()})",
            lambda: f"({a} % {b})",
            lambda: f"({a} % {self.literal()})",
            lambda: f"(- {a})",
            lambda: f"ABS({a})",
            lambda: f"FLOOR({a})",
            lambda: f"CEIL({a})",
            lambda: f"TRUNC({a})",
            lambda: f"ROUND({a})",
            lambda: f"ROUND({a}, {self.chance.choice(['0', '1', '2', '-1'])})",
            lambda: f"SQRT({a})",
            lambda: f"LN({a})",
            lambda: f"EXP({a})",
            lambda: f"LOG({a})",
            lambda: f"LOG({self.chance.choice(['2', '10'])}, {a})",
            lambda: f"POW({a}, {self.chance.choice(['0', '1', '2', '3', '0.5'])})",
            lambda: f"({a} ** {self.chance.choice(['2', '3', '-1'])})",
            lambda: f"CAST({a} AS {self.chance.choice(OTHER_NUMBERS)})",
            lambda: f"TRY_CAST({self.text(depth - 1)} AS {self.chance.choice(OTHER_NUMBERS)})",
            lambda: f"LEAST({a}, {b})",
            lambda: f"GREATEST({a}, {b})",
            lambda: f"LEAST(GREATEST({a}, {self.small()}), 60)",
            lambda: self._same(self.number, depth),
            lambda: self.whole(depth),
            lambda: self.whole(depth),
        )

    # --- conditions ------------------------------------------------------------------------------------------------

    def condition(self, depth: int) -> str:
        simple = [f"{self.chance.choice(INTEGERS[self.table])} > {self.small()}", *BOOLEANS[self.table]]
        if depth <= 0:
            return self.chance.choice(simple)
        a, b = self.number(depth - 1), self.number(depth - 1)
        t, u = self.text(depth - 1), self.text(0)
        c, d = self.condition(depth - 1), self.condition(depth - 1)
        comparison = self.chance.choice(["=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"])
        return self._pick(
            lambda: f"({a} {comparison} {b})",
            lambda: f"({t} {comparison} {u})",
            lambda: f"({self.date(depth - 1)} {comparison} DATE '1995-06-01')",
            lambda: f"({a} BETWEEN {self.small()} AND {b})",
            lambda: f"({a} IN ({self.literal()}, {self.small()}, 3))",
            lambda: f"({a} NOT IN ({self.small()}, {b}))",
            lambda: f"({t} LIKE '{self.chance.choice(['a%', '%1', 'n_'])}')",
            lambda: f"({t} NOT LIKE 'x!%%' ESCAPE '!')",
            lambda: f"({t} ILIKE 'A%')",
            lambda: f"({t} GLOB '{self.chance.choice(['a*', '*[!0-4]', '['])}')",
            lambda: f"({a} IS NULL)",
            lambda: f"({c} IS {self.chance.choice(['TRUE', 'FALSE', 'NOT TRUE', 'NULL', 'NOT NULL'])})",
            lambda: f"(NOT {c})",
            lambda: f"({c} AND {d})",
            lambda: f"({c} OR {d})",
            lambda: f"{self.chance.choice(['ISNAN', 'ISINF', 'ISFINITE'])}({a})",
            lambda: f"{self.chance.choice(['STARTS_WITH', 'PREFIX', 'ENDS_WITH', 'SUFFIX', 'CONTAINS'])}({t}, {u})",
            lambda: f"({t} ^@ {u})",
            lambda: f"CAST({a} AS BOOLEAN)",
            lambda: f"TRY_CAST({t} AS BOOLEAN)",
            lambda: self.chance.choice(["TRUE", "FALSE", "CAST(NULL AS BOOLEAN)"]),
            lambda: self._same(self.condition, depth),
        )

    # --- text ------------------------------------------------------------------------------------------------------

    def text(self, depth: int) -> str:
        simple = [*TEXTS[self.table], *TEXTS[self.table], "'a'", "'12'", "'it''s'"]
        if depth <= 0 or self.chance.random() < 0.2:
            return self.chance.choice(simple)
        a, b = self.text(depth - 1), self.text(depth - 1)
        return self._pick(
            lambda: f"{self.chance.choice(['LOWER', 'UPPER', 'TRIM', 'LTRIM', 'RTRIM'])}({a})",
            lambda: f"SUBSTRING({a}, {self.chance.choice(['1, 2', '2', '-1', '0, 1'])})",
            lambda: f"{self.chance.choice(['LEFT', 'RIGHT'])}({a}, {self.chance.choice(['1', '0', '-1', '3'])})",
            lambda: f"({a} || {b})",
            lambda: f"CAST({self.whole(depth - 1)} AS VARCHAR)",
            lambda: f"CAST({self.number(depth - 1)} AS VARCHAR)",
            lambda: f"CAST({self.condition(depth - 1)} AS VARCHAR)",
            lambda: f"CAST({self._day(depth - 1)} AS VARCHAR)",
            lambda: f"LEAST({a}, {b})",
            lambda: f"GREATEST({a}, {b})",
            lambda: self._same(self.text, depth),
        )

    # --- dates -----------------------------------------------------------------------------------------------------

    def date(self, depth: int) -> str:
        simple = [*DATES[self.table], *DATES[self.table], "DATE '1994-02-28'", "DATE '2000-02-29'"]
        if depth <= 0 or self.chance.random() < 0.2:
            return self.chance.choice(simple)
        a, b = self.date(depth - 1), self.date(depth - 1)
        return self._pick(
            lambda: f"DATE_TRUNC('{self.chance.choice(TRUNCATIONS[:-1])}', {a})",
            lambda: f"({a} + {self.chance.choice(['1', '30', '-400'])})",
            lambda: f"({a} - {self.chance.choice(['1', '365'])})",
            lambda: f"CAST({self.moment(depth - 1)} AS DATE)",
            lambda: f"TRY_CAST({self.text(depth - 1)} AS DATE)",
            lambda: f"LEAST({a}, {b})",
            lambda: f"GREATEST({a}, {b})",
            lambda: self._same(self.date, depth),
        )

    def moment(self, depth: int) -> str:
        """A timestamp."""
        if depth <= 0:
            return self.chance.choice(
                [*(f"CAST({d} AS TIMESTAMP)" for d in DATES[self.table]), "TIMESTAMP '1996-05-05 10:20:30.5'"]
            )
        a = self._day(depth - 1)
        count = self.chance.choice(["1", "7", "-3", "100", "13"])
        unit = self.chance.choice(UNITS)
        return self._pick(
            lambda: (
                f"({a} + INTERVAL {count} {unit})"
                if not count.startswith("-")
                else f"({a} + INTERVAL '{count}' {unit})"
            ),
            lambda: f"({a} - INTERVAL '{count.removeprefix('-')} {unit.lower()}s')",
            lambda: f"CAST({a} AS TIMESTAMP)",
            lambda: f"TRY_CAST({self.text(depth - 1)} AS TIMESTAMP)",
            lambda: f"DATE_TRUNC('{self.chance.choice(TRUNCATIONS)}', {self.moment(depth - 1)})",
            lambda: f"LEAST({self.moment(depth - 1)}, {self.moment(depth - 1)})",
            lambda: self._same(self.moment, depth),
        )

    def _day(self, depth: int) -> str:
        return self._pick(lambda: self.date(depth), lambda: self.moment(depth))
