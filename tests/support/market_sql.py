"""Generated statements over the market: every form in which rows of two tables, or of one unit, are brought together by a key."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.support.generate import statistic
from tests.support.market import CONDITIONS, GROUPS, KEYS, NUMBERS

FORMS = (
    "plain", "inner", "left", "right", "full", "comma", "using", "natural", "self", "three", "in", "not in", "exists", "not exists",
    "semi", "anti", "correlated", "per unit", "distinct", "window", "union all", "count distinct", "pivot", "public", "rollup",
    "both ways", "row level",
)  # fmt: skip
"""Forms of statements; a test can say how often each was really checked."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Something in FROM: its text, the keys that its columns hold or refer to, and what can be asked of its rows."""

    text: str
    keys: tuple[tuple[str, str], ...]
    numbers: tuple[str, ...]
    groups: tuple[str, ...]
    conditions: tuple[str, ...]

    def beside(self, other: Rows, text: str) -> Rows:
        return Rows(
            text,
            self.keys + other.keys,
            self.numbers + other.numbers,
            self.groups + other.groups,
            self.conditions + other.conditions,
        )


@dataclass(slots=True)
class Asked:
    """One generated statement; `used` holds its forms."""

    chance: random.Random
    used: set[str] = field(default_factory=set)
    count: int = 0

    def alias(self) -> str:
        self.count += 1
        return f"t{self.count}"

    def table(self, name: str = "") -> Rows:
        name = name or self.chance.choice(
            ["person", "card", "orders", "orders", "line", "line", "line", "mark", "parcel"]
        )
        a = self.alias()

        def own(columns: Sequence[str]) -> tuple[str, ...]:
            return tuple(f"{a}.{column}" for column in columns)

        keys = tuple((f"{a}.{column}", target) for column, target in KEYS[name].items())
        return Rows(f"{name} AS {a}", keys, own(NUMBERS[name]), own(GROUPS[name]), own(CONDITIONS[name]))

    # --- joins --------------------------------------------------------------------------------------------------------

    def tied(self, left: Rows, right: Rows) -> str:
        """A condition on keys of both sides; now and then on two, and now and then on ones that only look alike."""
        pairs = [f"{a} = {b}" for a, x in left.keys for b, y in right.keys if x == y]
        if not pairs or self.chance.random() < 0.04:
            pairs = [f"{a} = {b}" for a, _ in left.keys for b, _ in right.keys]
        if len(pairs) > 1 and self.chance.random() < 0.45:
            self.used.add("both ways")
            return " AND ".join(self.chance.sample(pairs, 2))
        return self.chance.choice(pairs)

    def source(self, depth: int = 2) -> Rows:
        options = [self.table, self.pair, self.pair, self.merged, self.three, self.with_public]
        if depth > 0:
            options += [lambda: self.derived(depth)] * 3 + [lambda: self.derived_pair(depth)]
        return self.chance.choice(options)()

    def joined(self, left: Rows, right: Rows) -> Rows:
        on = self.tied(left, right)
        kind = self.chance.choice(["JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", ","])
        self.used.add({"JOIN": "inner", ",": "comma"}.get(kind, kind.split()[0].lower()))
        if kind == ",":
            return left.beside(right, f"{left.text}, {right.text} WHERE {on}")
        if self.chance.random() < 0.2:
            on += f" AND {self.chance.choice(left.conditions + right.conditions)}"
        return left.beside(right, f"{left.text} {kind} {right.text} ON {on}")

    def pair(self) -> Rows:
        if self.chance.random() < 0.2:
            self.used.add("self")
            name = self.chance.choice(["orders", "line", "mark", "parcel"])
            return self.joined(self.table(name), self.table(name))
        return self.joined(self.table(), self.table())

    def merged(self) -> Rows:
        names = self.chance.choice(
            [
                ("orders", "line"),
                ("line", "orders"),
                ("orders", "parcel"),
                ("line", "parcel"),
                ("line", "mark"),
                ("person", "card"),
            ]
        )
        left, right = map(self.table, names)
        side = self.chance.choice(["", "", "LEFT "])
        if self.chance.random() < 0.5:
            self.used.add("natural")
            return left.beside(right, f"{left.text} NATURAL {side}JOIN {right.text}")
        self.used.add("using")
        (name,) = {k.split(".")[1] for k, _ in left.keys} & {k.split(".")[1] for k, _ in right.keys}
        return left.beside(right, f"{left.text} {side}JOIN {right.text} USING ({name})")

    def three(self) -> Rows:
        self.used.add("three")
        first, second, third = self.table(), self.table(), self.table()
        both = first.beside(second, f"{first.text} JOIN {second.text} ON {self.tied(first, second)}")
        kind = self.chance.choice(["JOIN", "LEFT JOIN"])
        return both.beside(third, f"{both.text} {kind} {third.text} ON {self.tied(both, third)}")

    def with_public(self) -> Rows:
        self.used.add("public")
        rows, a = self.table("person"), self.alias()
        region = next(g for g in rows.groups if g.endswith(".region"))
        text = f"{rows.text} {self.chance.choice(['JOIN', 'LEFT JOIN'])} region AS {a} ON {region} = {a}.region"
        return Rows(text, rows.keys, rows.numbers, (*rows.groups, f"{a}.name"), rows.conditions)

    # --- one unit's rows ------------------------------------------------------------------------------------------------

    def derived(self, depth: int) -> Rows:
        form = self.chance.choice(["per unit", "per unit", "distinct", "window", "union all", "plain"])
        self.used.add(form)
        a = self.alias()
        if form == "union all":
            return self.united(a)
        rows = self.source(depth - 1)
        key, target = self.chance.choice(rows.keys)
        group, number = self.chance.choice(rows.groups), self.chance.choice(rows.numbers)
        where = self.where(rows)
        if form == "per unit":
            total = self.chance.choice([f"SUM({number})", f"MAX({number})", f"AVG({number})", "COUNT(*)"])
            text = f"SELECT {key} AS k, {total} AS n, COUNT(*) AS g FROM {rows.text}{where} GROUP BY {key}"
            if self.chance.random() < 0.3:
                text += " HAVING COUNT(*) > 1"
        elif form == "distinct":
            text = f"SELECT DISTINCT {key} AS k, {group} AS g, {number} AS n FROM {rows.text}{where}"
        elif form == "window":
            over = self.chance.choice([f"SUM({number})", "COUNT(*)", "ROW_NUMBER()", f"LAG({number})"])
            text = f"SELECT {key} AS k, {group} AS g, {over} OVER (PARTITION BY {key} ORDER BY {number}) AS n FROM {rows.text}{where}"
        else:
            text = f"SELECT {key} AS k, {group} AS g, {number} AS n FROM {rows.text}{where}"
        numeric = (f"{a}.n",) if form != "per unit" else (f"{a}.n", f"{a}.g")
        return Rows(
            f"({text}) AS {a}", ((f"{a}.k", target),), numeric, (f"{a}.g",), (f"{a}.n > 1", f"{a}.k IS NOT NULL")
        )

    def united(self, a: str) -> Rows:
        halves, targets = [], []
        for _ in range(2):
            rows = self.table()
            key, target = self.chance.choice([k for k in rows.keys if k[1] == "person"] or list(rows.keys))
            targets.append(target)
            halves.append(
                f"SELECT {key} AS k, CAST({self.chance.choice(rows.numbers)} AS DOUBLE) AS n FROM {rows.text}"
            )
        keys = ((f"{a}.k", targets[0]),)
        return Rows(f"({' UNION ALL '.join(halves)}) AS {a}", keys, (f"{a}.n",), (f"{a}.n > 3",), (f"{a}.n > 1",))

    def derived_pair(self, depth: int) -> Rows:
        return self.joined(self.derived(depth), self.table())

    # --- conditions -----------------------------------------------------------------------------------------------------

    def where(self, rows: Rows) -> str:
        parts = [self.chance.choice(rows.conditions)] if self.chance.random() < 0.3 else []
        parts += [self.within(rows)] if self.chance.random() < 0.3 else []
        return (" AND " if " WHERE " in _outside(rows.text) else " WHERE ") + " AND ".join(parts) if parts else ""

    def within(self, rows: Rows) -> str:
        form = self.chance.choice(["in", "not in", "exists", "not exists", "correlated"])
        self.used.add(form)
        inner = self.table() if self.chance.random() < 0.7 else self.derived(1)
        more = f" AND {self.chance.choice(inner.conditions)}" if self.chance.random() < 0.3 else ""
        if form in ("in", "not in"):
            pairs = [(a, b) for a, x in rows.keys for b, y in inner.keys if x == y] or [
                (rows.keys[0][0], inner.keys[0][0])
            ]
            mine, theirs = self.chance.choice(pairs)
            return f"{mine} {form.upper()} (SELECT {theirs} FROM {inner.text} WHERE true{more})"
        tied = self.tied(inner, rows)
        if form == "correlated":
            number = self.chance.choice(["COUNT(*)", f"MAX({inner.numbers[0]})"])
            return f"(SELECT {number} FROM {inner.text} WHERE {tied}{more}) > 1"
        return f"{form.upper()} (SELECT 1 FROM {inner.text} WHERE {tied}{more})"

    # --- statements -----------------------------------------------------------------------------------------------------

    def statement(self, *, row_level: bool = False) -> str:
        if row_level:
            self.used.add("row level")
            return self.asking(self.table("person") if self.chance.random() < 0.8 else self.with_public())
        form = self.chance.random()
        if form < 0.06:
            return self.pivot()
        if form < 0.16:
            return self.semi()
        rows = self.source()
        return self.asking(rows)

    def semi(self) -> str:
        left, right = self.table(), self.table()
        kind = self.chance.choice(["SEMI", "ANTI"])
        self.used.add(kind.lower())
        return self.asking(
            Rows(f"{left.text} {kind} JOIN {right.text} ON {self.tied(left, right)}", *_rest(left)), where=False
        )

    def pivot(self) -> str:
        self.used.add("pivot")
        rows = self.source(1)
        group, number = self.chance.choice(rows.groups), self.chance.choice(rows.numbers)
        text = f"(SELECT {group} AS g, {self.chance.choice(rows.conditions)} AS h, {number} AS n FROM {rows.text}{self.where(rows)})"
        values = "'x', 'y'" if group.endswith(("l_kind", "kind", "name")) else "1, 2"
        using = self.chance.choice(["COUNT(*)", "SUM(n)", "AVG(n)"])
        if self.chance.random() < 0.5:
            return f"SELECT * FROM {text} PIVOT ({using} FOR g IN ({values}) GROUP BY h)"
        return f"PIVOT {text} ON g IN ({values}) USING {using} GROUP BY h"

    def asking(self, rows: Rows, *, where: bool = True) -> str:
        """Aggregates of the rows, by nothing or by groups."""
        if not self.used & set(FORMS):
            self.used.add("plain")
        aggregates = [self.aggregate(rows) for _ in range(self.chance.choice([1, 1, 2, 3]))]
        groups = self.chance.sample(rows.groups, self.chance.choice([0, 0, 1])) if rows.groups else []
        options = [f"max_rows={self.chance.choice([1, 2, 4])}"] if self.chance.random() < 0.3 else []
        options += ["max_groups=1"] if self.chance.random() < 0.15 else []
        options += [f"mechanism={self.chance.choice(['gaussian', 'auto'])}"] if self.chance.random() < 0.2 else []
        condition = self.where(rows) if where else ""
        sql = f"SELECT {', '.join([*(f'{g} AS g0' for g in groups), *aggregates])} FROM {rows.text}{condition}"
        if groups and self.chance.random() < 0.15:
            self.used.add("rollup")
            sql += " GROUP BY ROLLUP (1)"
        elif groups:
            sql += " GROUP BY 1"
        return (f"/* dpsql: {', '.join(options)} */ " if options else "") + sql

    def aggregate(self, rows: Rows) -> str:
        number = self.chance.choice(rows.numbers)
        roll = self.chance.random()
        if roll < 0.15:
            self.used.add("count distinct")
            return f"COUNT(DISTINCT {self.chance.choice(rows.keys)[0]})"
        if roll < 0.3:
            return statistic(self.chance, list(rows.numbers), list(rows.groups))
        return self.chance.choice(
            ["COUNT(*)", "COUNT(*)", f"COUNT({number})", f"SUM({number})", f"SUM({number})", f"AVG({number})"]
        )


def asked(chance: random.Random, *, row_level: bool = False) -> tuple[str, frozenset[str]]:
    """One statement, and the forms that it has."""
    found = Asked(chance)
    sql = found.statement(row_level=row_level)
    return sql, frozenset(found.used)


def _rest(rows: Rows) -> tuple[tuple[tuple[str, str], ...], tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    return rows.keys, rows.numbers, rows.groups, rows.conditions


def _outside(text: str) -> str:
    """A text without what stands in parentheses."""
    depth, found = 0, ""
    for letter in text:
        depth += (letter == "(") - (letter == ")")
        found += letter if depth == 0 else ""
    return found
