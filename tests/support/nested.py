"""Generated nested statements over the clinic: joins, subqueries, WITH, groups, windows and unions within a unit, several releases.

Every piece that is used adds a word to the statement's tally, so that a test can say how often each construct was really checked.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from tests.support.generate import OF_ONE, OF_TWO, statistic
from tests.support.nested_conditions import Conditions
from tests.support.nested_rows import Rows, _rest

CONSTRUCTS = (
    "inner", "left", "right", "full", "comma", "using", "natural", "self", "semi", "anti", "public join", "public left join",
    "three tables", "star", "derived", "derived twice", "derived deep", "with once", "with twice", "in", "not in", "exists",
    "not exists", "residual", "in public", "exists public", "uncorrelated scalar", "correlated on a key", "correlated on the unit",
    "per unit", "per unit over per unit", "having", "distinct", "union all", "union", "multiplicity", "row_number", "lag", "rows frame",
    "qualify", "rollup", "cube", "grouping sets", "where", "keys", "unit totals", "several releases",
    "release joined", "release of public rows",
    "moments", "quantiles", "extremes", "modes",
    "row level",
)  # fmt: skip


LISTED = (".site", ".female", ".city", ".year", ".drug")
"""The ends of the names of keys that have a finite list of values."""


@dataclass(slots=True)
class Nested(Conditions):
    """One generated statement; `used` holds the constructs that it has."""

    def aggregates(self, rows: Rows) -> list[str]:
        n = self.chance.choice(rows.numbers)
        options = ["COUNT(*)", "COUNT(*)", f"COUNT({n})", f"SUM({n})", f"AVG({n})"]
        options += [
            f"dp_sum({n}, lower := 0, upper := 40)",
            f"COUNT(*) FILTER (WHERE {self.chance.choice(rows.conditions)})",
        ]
        if rows.unit is not None:
            options.append(f"COUNT(DISTINCT {rows.unit})")
            options.append(f"COUNT(DISTINCT CASE WHEN {self.chance.choice(rows.conditions)} THEN {rows.unit} END)")
        found = self.chance.sample(options, self.chance.choice([1, 1, 2, 3]))
        if self.chance.random() < 0.35:
            found = [*found, self.statistic(rows)] if self.chance.random() < 0.7 else [self.statistic(rows)]
        if self.chance.random() < 0.12:
            self.used.add("unit totals")
            found.append(f"dp_sum({n}, lower := -5, upper := 40, unit_lower := -10, unit_upper := 60)")
        return found

    def statistic(self, rows: Rows) -> str:
        """More than a sum: moments, or something that is chosen of a tally."""
        found = statistic(self.chance, rows.numbers, [k for k in rows.keys if k.endswith(LISTED)])
        word = found.partition("(")[0]
        kinds = {"MODE": "modes", "APPROX_TOP_K": "modes", "MIN": "extremes", "MAX": "extremes"}
        kind = "moments" if word in (*OF_ONE, *OF_TWO) else kinds.get(word, "quantiles")
        self.used.add(kind)
        filtered = self.chance.random() < 0.3
        return f"{found} FILTER (WHERE {self.chance.choice(rows.conditions)})" if filtered else found

    def asking(self, rows: Rows, where: str) -> str:
        """SELECT aggregates FROM rows, with or without groups."""
        listed = [f"{a} AS c{i}" for i, a in enumerate(self.aggregates(rows))]
        chosen = self.chance.choice([0, 0, 1, 1, 2])
        keys = self.chance.sample(rows.keys, min(chosen, len(rows.keys)))
        if not keys:
            return f"SELECT {', '.join(listed)} FROM {rows.text}{where}"
        self.used.add("keys")
        word = self.chance.choice(["", "", "", "ROLLUP", "CUBE", "GROUPING SETS"])
        group = ", ".join(keys)
        if word:
            self.used.add(word.lower())
            sets = ", ".join(f"({k})" for k in keys)
            group = f"{word} ({sets}{', ()' if word == 'GROUPING SETS' else ''})"
            listed = [a for a in listed if a.startswith(("COUNT(", "SUM", "AVG", "dp_sum"))]
            listed = [a for a in listed if "DISTINCT" not in a and "unit_" not in a] or ["COUNT(*) AS c0"]
        shown = [f"{k} AS g{i}" for i, k in enumerate(keys)]
        return f"SELECT {', '.join([*shown, *listed])} FROM {rows.text}{where} GROUP BY {group}"

    def plain(self) -> str:
        rows = self.source(3)
        return self.asking(rows, self.where(rows, often=True))

    def semi_joined(self) -> str:
        rows = self.pick(self.patient, self.visit)
        inner = self.pick(self.visit, lambda: self.derived(1))
        word = self.chance.choice(["SEMI", "ANTI"])
        self.used.add(word.lower())
        more = f" AND {self.chance.choice(inner.conditions)}" if self.chance.random() < 0.5 else ""
        text = f"{rows.text} {word} JOIN {inner.text} ON {inner.unit} = {rows.unit}{more}"
        return self.asking(Rows(text, *_rest(rows)), "")

    def with_query(self) -> str:
        """A WITH query that is read once, or twice in one FROM, in a subquery, or in a UNION."""
        body = self.body(2)
        a, b = self.alias(), self.alias()
        one, other = self.named(f"w AS {a}", a), self.named(f"w AS {b}", b)
        kind = self.chance.choice(["once", "join", "in", "exists", "union"])
        self.used.add("with once" if kind == "once" else "with twice")
        where = ""
        if kind == "join":
            one = self.joined(one, other, f"{one.unit} = {other.unit}")
            where = self.where(one)
        elif kind == "in":
            self.used.add("not in")
            where = f" WHERE {one.unit} NOT IN (SELECT {other.unit} FROM w AS {b} WHERE {self.chance.choice(other.conditions)})"
        elif kind == "exists":
            self.used.add("exists")
            inner = f"SELECT 1 FROM w AS {b} WHERE {other.unit} = {one.unit} AND {other.keys[0]} > {one.keys[0]}"
            where = f" WHERE EXISTS ({inner})"
        elif kind == "union":
            self.used.add("union all")
            one = self.named(f"(SELECT uid, n, k FROM w UNION ALL SELECT uid, n, k FROM w AS {b}) AS {a}", a)
        return f"WITH w AS ({body}) {self.asking(one, where)}"

    def several(self) -> str:
        """Several releases in one statement, beside each other or under a public table."""
        one, other = self.table(), self.table()
        n = self.chance.choice(other.numbers)
        self.used.add("several releases")
        kind = self.chance.choice(["beside", "divided", "union", "outer", "having"])
        if kind == "beside":
            return f"SELECT (SELECT COUNT(*) FROM {one.text}{self.where(one)}) AS a, (SELECT SUM({n}) FROM {other.text}) AS b"
        if kind == "divided":
            return f"SELECT a.n / b.n FROM (SELECT COUNT(*) AS n FROM {one.text}) a, (SELECT COUNT(*) AS n FROM {other.text}) b"
        if kind == "union":
            return f"SELECT 1 AS x, COUNT(*) AS n FROM {one.text} UNION ALL SELECT 2, SUM({n}) FROM {other.text}"
        if kind == "having":
            p = self.patient()
            return f"SELECT {p.keys[0]}, COUNT(*) FROM {p.text} GROUP BY 1 HAVING COUNT(*) > (SELECT AVG({n}) FROM {other.text})"
        self.used.add("release of public rows")
        p, a = self.patient(), self.alias()
        return f"SELECT {a}.site, (SELECT COUNT(*) FROM {p.text} WHERE {p.keys[0]} = {a}.site) AS n FROM place AS {a}"

    def with_release(self) -> str:
        """People beside a release or a computed public table, which is an input table: it is unique in what it groups by."""
        self.used.add("release joined")
        p, q, a = self.patient(), self.patient(), self.alias()
        site, female = p.keys[0], p.keys[1]
        text, on = self.chance.choice(
            [
                (f"(SELECT {q.keys[0]} AS x, COUNT(*) AS m FROM {q.text} GROUP BY 1)", f"{a}.x = {site}"),
                (f"(SELECT {q.keys[0]} AS x, AVG({q.numbers[0]}) AS m FROM {q.text} GROUP BY 1)", f"{a}.x = {site}"),
                (f"(SELECT CAST({q.keys[0]} AS BOOLEAN) AS x, COUNT(*) AS m FROM {q.text} GROUP BY {q.keys[0]})", f"{a}.x = {female}"),
                (f"(SELECT COUNT(*) AS m FROM {q.text})", "true"),
                ("(SELECT region AS x, COUNT(*) AS m FROM place GROUP BY region)", f"{a}.x = {site}"),
                ("(SELECT u.region AS x, v.region AS y, COUNT(*) AS m FROM place u, place v GROUP BY u.region, v.region)",
                 f"{a}.x = {site}"),
                ("(SELECT DISTINCT region AS x, 1 AS m FROM place)", f"{a}.x = {site}"),
                ("(SELECT DISTINCT u.* FROM (SELECT region AS x, site AS m FROM place) u)", f"{a}.x = {site}"),
                ("(SELECT u.*, u.m AS z FROM (SELECT site AS m, region AS x FROM place) u)", f"{a}.x = {site}"),
                ("(SELECT x, \"1\", COUNT(*) AS m FROM (SELECT region AS x, site AS \"1\" FROM place) u GROUP BY x, \"1\")",
                 f"{a}.x = {site}"),
                ("(SELECT region AS x, site AS m FROM place)", f"{a}.x = {site}"),
                ("(SELECT site AS x, region AS m FROM place WHERE region = 1)", f"{a}.x = {site}"),
            ]
        )  # fmt: skip
        kind = self.chance.choice(["JOIN", "LEFT JOIN"])
        # A column that is no key of the input table must be refused; one that is, is joined.
        rows = Rows(f"{p.text} {kind} {text} AS {a} ON {on}", *_rest(p))
        if "AS m" in text and self.chance.random() < 0.3:
            return self.asking(rows, f" WHERE {p.numbers[1]} > {a}.m")
        return self.asking(rows, self.where(rows))

    def mistaken(self) -> str:
        """Joins that must be refused, or that stay sound in another way: by no unit, by no key, by a converted key."""
        p, v, a = self.patient(), self.visit(), self.alias()
        w = self.visit()
        return self.chance.choice(
            [
                f"SELECT COUNT(*) FROM {p.text} JOIN place AS {a} ON {a}.town = {p.keys[2]} AND {a}.region = 1",
                f"SELECT COUNT(*) FROM {p.text} JOIN place AS {a} ON {a}.town = {p.keys[2]}",
                f"SELECT COUNT(*) FROM {p.text} LEFT JOIN badge AS {a} ON {a}.grade = {p.keys[0]}",
                f"SELECT COUNT(*) FROM {p.text} JOIN badge AS {a} ON CAST({a}.badge AS INTEGER) = {p.keys[0]}",
                f"SELECT COUNT(*) FROM {p.text} JOIN badge AS {a} ON LOWER({a}.badge) = {p.keys[2]}",
                f"SELECT COUNT(*) FROM place AS {a} LEFT JOIN {p.text} ON {a}.site = {p.keys[0]}",
                f"SELECT COUNT(*) FROM {p.text} WHERE EXISTS (SELECT 1 FROM {v.text} WHERE {v.numbers[1]} = {p.keys[0]})",
                f"SELECT COUNT(*) FROM {p.text} WHERE {p.keys[0]} IN (SELECT {v.numbers[1]} FROM {v.text})",
                f"SELECT COUNT(*) FROM {p.text} WHERE {p.keys[0]} NOT IN (SELECT {v.numbers[1]} FROM {v.text})",
                f"SELECT COUNT(*) FROM {v.text} LEFT JOIN {w.text} ON {v.visit} = {w.visit} AND {w.keys[0]} = 1 "
                f"WHERE {w.unit} NOT IN (SELECT patient_id FROM patient)",
                f"SELECT COUNT(*) FROM (SELECT {w.unit} AS uid, COUNT(*) AS n FROM {v.text} LEFT JOIN {w.text} "
                f"ON {v.visit} = {w.visit} AND {w.keys[0]} = 1 GROUP BY {w.unit}) AS {a}",
                f"SELECT COUNT(*) FROM {p.text} WHERE {p.unit} NOT IN (SELECT {w.unit} FROM {v.text} LEFT JOIN {w.text} "
                f"ON {v.visit} = {w.visit} AND {w.keys[0]} < 90)",
                f"SELECT SUM(LEAST({a}.n, 9)) FROM (SELECT {v.unit} AS uid, "
                f"COUNT(*) OVER (PARTITION BY {v.keys[0]}) AS n FROM {v.text}) AS {a}",
            ]
        )

    def edges(self) -> str:
        """Statements that stand close to a rule: constancy after an outer join and a union, groups of NULL, one half of a bound."""
        p, v, a = self.patient(), self.visit(), self.alias()
        q, w, i = self.patient(), self.visit(), self.item()
        k = self.chance.choice([p.keys[0], p.keys[1], p.keys[2]])
        residual = self.chance.choice(v.conditions)
        grouped, tested, united, counted, apart = "per unit", "not in", "union all", "left", "with twice"
        sql, used = self.chance.choice(
            [
                (f"SELECT COUNT(*) FROM (SELECT {v.unit} AS uid, {k} AS k, COUNT(*) AS n FROM {v.text} LEFT JOIN {p.text} "
                 f"ON {v.unit} = {p.unit} AND {residual} GROUP BY {v.unit}, {k}) AS {a}", grouped),
                (f"SELECT COUNT(*) FROM (SELECT uid, k, COUNT(*) AS n FROM (SELECT {p.unit} AS uid, {p.keys[0]} AS k FROM {p.text} "
                 f"UNION ALL SELECT {q.unit}, {q.keys[3]} FROM {q.text}) AS {a} GROUP BY uid, k) AS {a}", united),
                (f"SELECT COUNT(*) FROM {p.text} WHERE {p.unit} NOT IN (SELECT {v.unit} FROM {v.text} WHERE {residual})", tested),
                (f"SELECT COUNT(*) FROM {p.text} WHERE {p.unit} NOT IN (SELECT q.patient_id FROM patient AS {a} LEFT JOIN patient AS q "
                 f"ON q.patient_id = {a}.patient_id AND q.{self.chance.choice(['age > 0', 'site > 0', 'income < 1e6'])})", tested),
                (f"SELECT SUM(LEAST({a}.n, 900)) FROM (SELECT {v.unit} AS uid, SUM({v.numbers[0]}) AS n FROM {v.text} "
                 f"GROUP BY {v.unit}) AS {a}", grouped),
                (f"SELECT COUNT(*), SUM({i.numbers[1]}) FROM {v.text} LEFT JOIN {i.text} ON {v.visit} = {i.visit}", counted),
                (f"SELECT SUM({a}.n), SUM({a}.m) FROM (SELECT {v.unit} AS uid, LEAST(SUM({v.numbers[0]}), 900) AS n, "
                 f"AVG({v.numbers[0]}) AS m FROM {v.text} GROUP BY {v.unit}) AS {a}", grouped),
                (f"SELECT COUNT(*) FROM {i.text} RIGHT JOIN {v.text} ON {v.visit} = {i.visit}", "right"),
                (f"SELECT COUNT(*), SUM({v.numbers[1]}) FROM {v.text} JOIN {w.text} ON {v.unit} = {w.unit}", "self"),
                (f"WITH w AS (SELECT * FROM visit WHERE {residual.partition('.')[2]}) SELECT COUNT(*) FROM w AS {a} "
                 f"WHERE {a}.patient_id NOT IN (SELECT patient_id FROM w WHERE year = {self.chance.choice([1, 2])})", apart),
                (f"SELECT {p.keys[2]}, COUNT(*) FROM {p.text} LEFT JOIN place AS {a} ON {p.keys[0]} = {a}.site GROUP BY 1",
                 "public left join"),
                (f"SELECT SUM(LEAST(GREATEST({a}.n, -50), 50)) FROM (SELECT {v.unit} AS uid, "
                 f"LAG({v.numbers[1]}) OVER (PARTITION BY {v.unit} ORDER BY {v.keys[0]} % 2) AS n FROM {v.text}) AS {a}", "lag"),
                (f"SELECT COUNT(*) FROM (SELECT {v.unit} AS uid, EXISTS (SELECT 1 FROM {i.text} WHERE {i.visit} = {v.visit}) AS k "
                 f"FROM {v.text} GROUP BY 1, 2) AS {a}", "exists"),
                (f"SELECT COUNT(*) FROM (SELECT DISTINCT {v.unit} AS uid, EXISTS (SELECT 1 FROM {w.text} WHERE {w.unit} = {v.unit} "
                 f"AND {w.keys[0]} > {v.keys[0]}) AS k FROM {v.text}) AS {a}", "distinct"),
                (f"SELECT SUM(LEAST({a}.n, 9)), COUNT(*) FROM (SELECT uid, COUNT(*) AS n FROM (SELECT {v.unit} AS uid, "
                 f"{v.keys[0]} AS k, MAX({v.numbers[1]}) AS m FROM {v.text} GROUP BY 1, 2) AS u WHERE m > 0 GROUP BY uid) AS {a}",
                 "per unit over per unit"),
            ]
        )  # fmt: skip
        self.used.add(used)
        return sql

    def at_row_level(self) -> str:
        self.used.add("row level")
        a = self.alias()
        base = self.patient()
        kind = self.chance.choice(["public", "scalar", "derived", "release", "group"])
        rows = base
        if kind == "public":
            self.used.add("public join")
            on = self.chance.choice([f"{a}.site", f"{a}.region"])
            rows = Rows(f"{base.text} JOIN place AS {a} ON {on} = {base.keys[0]}", None, None, *_rest(base)[2:])
        elif kind == "derived":
            n, k = self.chance.choice(base.numbers), self.chance.choice(base.keys[:2])
            inner = f"(SELECT {n} AS n, {k} AS k FROM {base.text} WHERE {self.chance.choice(base.conditions)}) AS {a}"
            rows = Rows(inner, None, None, (f"LEAST(GREATEST({a}.n, 0), 50)",), (f"{a}.k",), (f"{a}.n > 5",))
        elif kind == "release":
            return self.with_release()
        where = f" WHERE {self.scalar_of_patients(base)}" if kind == "scalar" else ""
        where = f" WHERE {self.group_average(base)}" if kind == "group" else where
        return self.asking(Rows(rows.text, None, None, *_rest(rows)[2:]), where)

    def scalar_of_patients(self, rows: Rows) -> str:
        self.used.add("uncorrelated scalar")
        other = self.patient()
        return f"{rows.numbers[1]} > (SELECT AVG({other.numbers[1]}) FROM {other.text})"

    def statement(self, *, row_level: bool = False, close: bool = False) -> str:
        chance = self.chance
        near = [self.edges, self.mistaken]
        makers = (
            [self.plain] * 8
            + [self.with_query] * 4
            + [self.semi_joined, self.semi_joined, self.several, self.several, self.with_release, *near, *near]
        )
        sql = self.at_row_level() if row_level else chance.choice(near if close else makers)()
        options = [f"max_groups={chance.choice([1, 2])}"] if chance.random() < 0.3 else []
        options += [f"max_rows={chance.choice([1, 2, 4])}"] if chance.random() < 0.3 else []
        options += ["mechanism=gaussian"] if chance.random() < 0.1 else []
        options += [f"epsilon={chance.choice(['0.1', '1', '3'])}"]
        return f"/* dpsql: {', '.join(options)} */ {sql}"


def nested(chance: random.Random, *, row_level: bool = False, close: bool = False) -> tuple[str, frozenset[str]]:
    """A statement and the constructs that it has; `close` asks for one that stands close to a rule."""
    one = Nested(chance)
    sql = one.statement(row_level=row_level, close=close)
    return sql, frozenset(one.used)
