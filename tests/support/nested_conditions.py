"""Conditions of generated nested statements, with queries inside."""

from __future__ import annotations

from dataclasses import dataclass

from tests.support.nested_derived import Derived
from tests.support.nested_rows import Rows, _outside


@dataclass(slots=True)
class Conditions(Derived):
    """Conditions, with queries inside and without."""

    def where(self, rows: Rows, *, often: bool = False) -> str:
        parts = []
        if self.chance.random() < 0.4:
            self.used.add("where")
            parts.append(self.chance.choice(rows.conditions))
        if self.chance.random() < (0.5 if often else 0.15):
            parts.append(self.asked(rows))
        if not parts:
            return ""
        return f" {'AND' if ' WHERE ' in _outside(rows.text) else 'WHERE'} {' AND '.join(parts)}"

    def asked(self, rows: Rows) -> str:
        """A condition with a query inside."""
        options = [self.in_public, self.exists_public, self.scalar]
        if rows.unit is not None and "COALESCE" not in rows.unit:
            options += [self.exists, self.exists, self.within, self.within, self.own_average, self.semi]
        if any(k.endswith(".site") for k in rows.keys):
            options += [self.group_average, self.group_average]
        return self.chance.choice(options)(rows)

    def exists(self, rows: Rows) -> str:
        inner = self.pick(self.visit, self.visit, self.pair, lambda: self.derived(1))
        while inner.unit is None or "COALESCE" in inner.unit:
            inner = self.visit()
        word = self.chance.choice(["EXISTS", "NOT EXISTS"])
        self.used.add(word.lower())
        parts = [f"{inner.unit} = {rows.unit}"]
        if self.chance.random() < 0.5:
            self.used.add("residual")
            parts.append(
                self.chance.choice(
                    [*inner.conditions, f"{self.chance.choice(inner.numbers)} > {self.chance.choice(rows.numbers)}"]
                )
            )
        link = "AND" if " WHERE " in _outside(inner.text) else "WHERE"
        return f"{word} (SELECT 1 FROM {inner.text} {link} {' AND '.join(parts)})"

    def within(self, rows: Rows) -> str:
        inner = self.pick(self.visit, self.patient, lambda: self.derived(1))
        word = self.chance.choice(["IN", "NOT IN"])
        self.used.add(word.lower())
        return f"{rows.unit} {word} (SELECT {inner.unit} FROM {inner.text}{self.where(inner)})"

    def semi(self, rows: Rows) -> str:
        """The EXISTS that a SEMI JOIN stands for is made in `statement`; here one over a key that has one unit."""
        if rows.visit is None:
            return self.exists(rows)
        inner = self.item()
        self.used.add("exists")
        return f"EXISTS (SELECT 1 FROM {inner.text} WHERE {inner.visit} = {rows.visit} AND {self.chance.choice(inner.conditions)})"

    def in_public(self, rows: Rows) -> str:
        self.used.add("in public")
        whole = self.integer(rows)
        return f"{whole} {self.chance.choice(['IN', 'NOT IN'])} (SELECT site FROM place WHERE region = {self.chance.choice([1, 2])})"

    def exists_public(self, rows: Rows) -> str:
        self.used.add("exists public")
        a = self.alias()
        return f"{self.chance.choice(['', 'NOT '])}EXISTS (SELECT 1 FROM place AS {a} WHERE {a}.region = {self.integer(rows)})"

    def scalar(self, rows: Rows) -> str:
        self.used.add("uncorrelated scalar")
        other = self.table()
        n = self.chance.choice(other.numbers)
        value = self.chance.choice([f"AVG({n})", "COUNT(*)", f"SUM({n})"])
        return f"{self.chance.choice(rows.numbers)} > (SELECT {value} FROM {other.text})"

    def group_average(self, rows: Rows) -> str:
        self.used.add("correlated on a key")
        site = next(k for k in rows.keys if k.endswith(".site"))
        other = self.patient()
        value = self.chance.choice([f"AVG({other.numbers[0]})", "COUNT(*)"])
        return f"{self.chance.choice(rows.numbers)} > (SELECT {value} FROM {other.text} WHERE {other.keys[0]} = {site})"

    def own_average(self, rows: Rows) -> str:
        self.used.add("correlated on the unit")
        other = self.visit()
        value = self.chance.choice([f"AVG({other.numbers[0]})", "COUNT(*)", f"MAX({other.numbers[1]})"])
        more = f" AND {self.chance.choice(other.conditions)}" if self.chance.random() < 0.4 else ""
        return f"{self.chance.choice(rows.numbers)} > (SELECT {value} FROM {other.text} WHERE {other.unit} = {rows.unit}{more})"
