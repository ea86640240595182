"""Generated statements over the clinic: accepted SQL with every construct that people's rows can be asked with."""

from __future__ import annotations

import random
from collections.abc import Sequence

NUMBERS = {
    "patient": ["income", "weight", "age", "score"],
    "visit": ["cost", "days", "year"],
    "item": ["amount", "drug"],
}
CONDITIONS = {
    "patient": [
        "site = 2", "site IN (1, 3)", "female", "NOT female", "income > 0", "age BETWEEN 20 AND 60", "city LIKE 'a%'", "note IS NULL",
        "score >= 50", "weight IS NOT NULL", "born < DATE '1995-06-01'", "10 / (age - 30) > 1", "city = 'b' OR site = 1", 
        "code % 2 = 0",
        "CAST(note AS INTEGER) > 3", "LENGTH(note) < 3", "note GLOB '*[!0-4]'",
        "isnan(income)", "sqrt(income) > 2", "NULLIF(site, 2) IS NULL",
    ],
    "visit": ["year > 1", "cost < 20", "days IS NULL", "tag = 't1'", "year IN (1, 2, 4)", "days // 3 > 1", "tag LIKE '%2'",
        "cost / days > 1",
    ],
    "item": ["drug = 1", "amount > -10", "batch IS NOT NULL", "drug IN (1, 5)"],
}  # fmt: skip
KEYS = {
    "patient": [
        "site", "female", "city", "CASE WHEN income < 0 THEN 'low' WHEN income < 50 THEN 'mid' END", "FLOOR(income / 25)", "age // 10",
        "CAST(weight / 40 AS INTEGER)", "EXTRACT(YEAR FROM born)", "DATE_TRUNC('year', born)", "site % 2", "age > 40", "note", "code",
        "COALESCE(city, 'none')", "note LIKE 'n%'",
    ],
    "visit": ["year", "year % 2", "tag", "days // 10", "cost > 20", "CASE WHEN tag = 't1' THEN 1 ELSE 0 END", "FLOOR(cost / 20)"],
    "item": ["drug", "batch", "drug * 10", "CEIL(amount / 5)"],
}  # fmt: skip
UNITS = {"patient": "patient_id", "visit": "patient_id"}
LISTED = {"patient": ["site", "female", "city"], "visit": ["year"], "item": ["drug"]}
"""Columns with a finite list of values."""
OF_ONE = ["VAR_POP", "VAR_SAMP", "STDDEV_POP", "STDDEV"]
OF_TWO = ["CORR", "COVAR_POP", "COVAR_SAMP", "REGR_SLOPE", "REGR_INTERCEPT", "REGR_R2"]


def value(chance: random.Random, table: str, depth: int = 2) -> str:
    """A numeric expression over the rows of a table; nearly always with bounds."""
    column = chance.choice(NUMBERS[table])
    if depth == 0 or chance.random() < 0.35:
        return column
    inner = value(chance, table, depth - 1)
    other = value(chance, table, depth - 1)
    condition = chance.choice(CONDITIONS[table])
    return chance.choice(
        [
            f"{inner} + {other}",
            f"{inner} - {other}",
            f"CAST({inner} AS DOUBLE) * {other}",
            f"{inner} * {chance.choice(['2', '-3', '0.5'])}",
            f"-({inner})",
            f"ABS({inner})",
            f"{inner} / {chance.choice(['4', '-0.5'])}",
            f"CASE WHEN {condition} THEN {inner} ELSE {other} END",
            f"CASE WHEN {condition} THEN {inner} END",
            f"COALESCE({inner}, 7)",
            f"NULLIF({inner}, 10)",
            f"LEAST(GREATEST({inner}, 0), 60)",
            f"FLOOR({inner})",
            f"ROUND({inner}, 1)",
            f"CAST({inner} AS INTEGER)",
            f"CAST({column} AS DOUBLE) % 7",
        ]
    )


def statistic(chance: random.Random, numbers: Sequence[str], listed: Sequence[str]) -> str:
    """An aggregate that is more than a sum: moments of one or two values, or something chosen of a tally."""
    x, y = chance.choice(numbers), chance.choice(numbers)
    options = [f"{chance.choice(OF_ONE)}({x})", f"{chance.choice(OF_TWO)}({x}, {y})", _ranked(chance, x)]
    if listed:
        value = chance.choice(listed)
        options.append(chance.choice([f"MODE({value})", f"APPROX_TOP_K({value}, {chance.choice([1, 2])})"]))
        options += [f"{end}({value})" for end in ("MIN", "MAX") if value == "city"]
    return chance.choice(options)


def _ranked(chance: random.Random, x: str) -> str:
    return chance.choice(
        [
            f"MEDIAN({x})",
            f"QUANTILE_CONT({x}, {chance.choice(['0', '0.1', '0.9', '1'])})",
            f"QUANTILE_DISC({x}, [0.25, 0.75])",
            f"PERCENTILE_CONT(0.3) WITHIN GROUP (ORDER BY {x} DESC)",
            f"MIN({x})",
            f"MAX({x})",
        ]
    )


MORE = {
    "patient": ["MEDIAN(born)", "MAX(born)", "QUANTILE_CONT(born, 0.1)", "MAX(note)"],
    "visit": ["MIN(DATE '2000-01-01' + CAST(days AS INTEGER))", "MIN(tag)"],
    "item": [],
}
"""Of dates, and of texts without a list."""


def aggregate(chance: random.Random, table: str, argument: str) -> str:
    condition = f" FILTER (WHERE {chance.choice(CONDITIONS[table])})" if chance.random() < 0.2 else ""
    if chance.random() < 0.15:
        decided = f"BOOL_{chance.choice(['AND', 'OR'])}({chance.choice(CONDITIONS[table])})"
        return chance.choice([decided, *MORE[table]]) + condition
    if chance.random() < 0.3:
        return statistic(chance, [argument, *NUMBERS[table]], LISTED[table]) + condition
    function = chance.choice(["COUNT(*)", "COUNT(*)", "COUNT", "SUM", "SUM", "AVG", "AVG", "UNITS", "COUNT_IF"])
    if function == "UNITS":
        if table not in UNITS:
            return "COUNT(*)"
        return f"COUNT(DISTINCT {UNITS[table]}){condition}"
    if function == "COUNT_IF":
        return f"COUNT_IF({chance.choice(CONDITIONS[table])}){condition}"
    return f"{function}{condition}" if function == "COUNT(*)" else f"{function}({argument}){condition}"


def statement(chance: random.Random, *, row_level: bool = False) -> str:
    """One statement: aggregates of one or two values, with or without WHERE, keys, limits and a mechanism."""
    table = "patient" if row_level else chance.choice(["patient", "visit", "visit", "item"])
    first, second = value(chance, table), value(chance, table)
    aggregates = [
        aggregate(chance, table, chance.choice([first, first, first, second]))
        for _ in range(chance.choice([1, 2, 3, 4]))
    ]
    if row_level:
        aggregates = [a.replace("COUNT(DISTINCT patient_id)", "COUNT(*)") for a in aggregates]
    keys = chance.sample(KEYS[table], chance.choice([0, 1, 1, 1, 2]))
    where = " AND ".join(chance.sample(CONDITIONS[table], chance.choice([0, 0, 1, 2])))
    options = [f"max_groups={chance.choice([1, 2])}"] if chance.random() < 0.3 else []
    options += [f"max_rows={chance.choice([1, 2, 4])}"] if chance.random() < 0.3 else []
    other = chance.random()
    options += [f"mechanism={'gaussian' if other < 0.15 else 'auto'}"] if other < 0.2 else []
    options += [f"epsilon={chance.choice(['0.1', '1', '3'])}"]
    columns = [f"{key} AS g{i}" for i, key in enumerate(keys)] + [f"{a} AS c{i}" for i, a in enumerate(aggregates)]
    sql = f"/* dpsql: {', '.join(options)} */ SELECT {', '.join(columns)} FROM {table}"
    sql += f" WHERE {where}" if where else ""
    return sql + (f" GROUP BY {', '.join(str(i + 1) for i in range(len(keys)))}" if keys else "")
