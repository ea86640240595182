"""Derived tables of generated nested statements: columns uid, n and k."""

from __future__ import annotations

from dataclasses import dataclass

from tests.support.nested_rows import Rows, Sources


@dataclass(slots=True)
class Derived(Sources):
    """Derived tables: columns uid, n, k."""

    def derived(self, depth: int) -> Rows:
        self.used.add("derived")
        if depth < 3:
            self.used.add("derived twice" if depth == 2 else "derived deep")
        a = self.alias()
        return self.named(f"({self.body(depth - 1)}) AS {a}", a)

    def named(self, text: str, a: str) -> Rows:
        number = f"LEAST(GREATEST({a}.n, -20), 500)"
        return Rows(
            text,
            f"{a}.uid",
            None,
            (number, number),
            (f"{a}.k", f"{a}.n > 10"),
            (f"{a}.n > 5", f"{a}.k IS NOT NULL", f"{a}.k = 2"),
        )

    def derived_pair(self, depth: int) -> Rows:
        left, right = self.derived(depth), self.pick(self.patient, self.visit, lambda: self.derived(depth))
        return self.joined(left, right, f"{left.unit} = {right.unit}")

    def body(self, depth: int) -> str:
        """A query with the columns uid, n and k."""
        options = [self.projected, self.per_unit, self.per_unit, self.distinct, self.windowed, self.windowed]
        if depth > 0:
            options.append(self.united)
        return self.chance.choice(options)(depth)

    def owned(self, depth: int) -> Rows:
        """A source with the unit's column at hand."""
        found = self.source(depth)
        while found.unit is None:
            found = self.source(depth)
        return found

    def integer(self, rows: Rows) -> str:
        whole = [k for k in rows.keys if k.endswith((".year", ".site", ".drug", ".k", "% 2", "// 20", ".code"))]
        return self.chance.choice(whole or ["1"])

    def projected(self, depth: int) -> str:
        rows = self.owned(depth)
        if self.chance.random() < 0.2:
            self.used.add("star")
            v = self.visit()
            a = self.alias()
            inner = f"(SELECT * FROM {v.text}{self.where(v)}) AS {a}"
            return f"SELECT {a}.patient_id AS uid, {a}.days AS n, {a}.year AS k FROM {inner}"
        n = self.chance.choice(rows.numbers)
        return f"SELECT {rows.unit} AS uid, {n} AS n, {self.integer(rows)} AS k FROM {rows.text}{self.where(rows)}"

    def per_unit(self, depth: int) -> str:
        rows = self.owned(depth)
        self.used.add("per unit")
        if "GROUP BY" in rows.text:
            self.used.add("per unit over per unit")
        n = self.chance.choice(rows.numbers)
        value = self.chance.choice(
            [f"SUM({n})", f"AVG({n})", "COUNT(*)", f"COUNT({n})", f"MIN({n})", f"MAX({n})", f"MEDIAN({n})",
             f"SUM({n}) FILTER (WHERE {self.chance.choice(rows.conditions)})"]
        )  # fmt: skip
        having = ""
        if self.chance.random() < 0.35:
            self.used.add("having")
            having = (
                f" HAVING {self.chance.choice([f'SUM({n}) > 20', 'COUNT(*) > 1', f'AVG({n}) < 30', f'MAX({n}) > 10'])}"
            )
        if self.chance.random() < 0.5:
            k = self.integer(rows)
            keyed = k != "1"
            by = f"{rows.unit}, {k}" if keyed else rows.unit
            return f"SELECT {rows.unit} AS uid, {value} AS n, {k} AS k FROM {rows.text}{self.where(rows)} GROUP BY {by}{having}"
        return f"SELECT {rows.unit} AS uid, {value} AS n, COUNT(*) AS k FROM {rows.text}{self.where(rows)} GROUP BY {rows.unit}{having}"

    def distinct(self, depth: int) -> str:
        rows = self.owned(depth)
        self.used.add("distinct")
        k = self.integer(rows)
        return f"SELECT DISTINCT {rows.unit} AS uid, {k} AS n, {k} AS k FROM {rows.text}{self.where(rows)}"

    def united(self, depth: int) -> str:
        word = self.chance.choice(["UNION ALL", "UNION ALL", "UNION", "UNION", "EXCEPT", "INTERSECT"])
        self.used.add(word.lower())
        first, second = [self.projected, self.per_unit], [self.projected, self.distinct]
        return f"{self.chance.choice(first)(0)} {word} {self.chance.choice(second)(0)}"

    def windowed(self, depth: int) -> str:
        rows = self.owned(depth)
        n, order = self.chance.choice(rows.numbers), self.chance.choice(rows.numbers + rows.keys)
        down = self.chance.choice(["", " DESC"])
        by = f"PARTITION BY {rows.unit} ORDER BY {order}{down}"
        number = f"ROW_NUMBER() OVER ({by})"
        word, value = self.chance.choice(
            [
                ("row_number", number),
                ("lag", f"LAG({n}) OVER ({by})"),
                ("lag", f"LEAD({n}, 2) OVER ({by})"),
                ("rows frame", f"SUM({n}) OVER ({by} ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)"),
                ("rows frame", f"FIRST_VALUE({n}) OVER ({by} ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING)"),
                ("rows frame", f"AVG({n}) OVER ({by} ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"),
                ("row_number", f"RANK() OVER ({by})"),
                ("row_number", f"MAX({n}) OVER (PARTITION BY {rows.unit})"),
            ]
        )
        self.used |= {word, "row_number"}
        qualify = ""
        if self.chance.random() < 0.4:
            self.used.add("qualify")
            qualify = f" QUALIFY {number} {self.chance.choice(['= 1', '<= 2'])}"
        return f"SELECT {rows.unit} AS uid, {value} AS n, {number} AS k FROM {rows.text}{self.where(rows)}{qualify}"
