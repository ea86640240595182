"""The regions that are read from a condition hold exactly the rows for which DuckDB says that it is true, and that it is false."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from fractions import Fraction
from operator import eq, ge, gt, le, lt, ne
from pathlib import Path

import duckdb
import pytest

from dpsql.core.errors import Error
from dpsql.expressions.literals import days
from dpsql.expressions.scalar import Scalar
from dpsql.guard.reading import Context, Reader, Truth
from dpsql.guard.regions import Region, Tangled, but_not, meet, share
from dpsql.guard.rows import Rows
from dpsql.guard.values import Listed, Opaque, Values
from dpsql.planner.parse import parse
from dpsql.planner.resolve.scalars import scalar
from dpsql.planner.resolve.scope import Scope, scope_of
from dpsql.postprocess.sandbox import Sandbox
from dpsql.relations.declared import scan
from dpsql.schema.model import Schema
from dpsql.schema.toml import read_schema
from tests.support import clinic
from tests.support.expressions import Expressions
from tests.support.trees import text as text_of

Row = Mapping[str, object]
DECLARED: dict[str, list[object]] = {
    "site": [1, 2, 3],
    "female": [True, False, None],
    "income": [-50.0, -0.5, 0.0, 1.5, 33.25, 99.75, 100.0],
    "weight": [40.0, 40.5, 41.0, 77.5, 120.0, 199.5, 200.0, None],
    "age": [10, 11, 29, 30, 31, 33, 34, 35, 60, 89, 90],
    "score": [Decimal("10.00"), Decimal("10.01"), Decimal("33.33"), Decimal("50.00"), Decimal("90.00"), None],
    "city": ["a", "b", "c", None],
    "note": ["n1", "n2", "12", "x%y", "", None],
    "born": [date(1990, 1, 1), date(1994, 2, 28), date(1995, 6, 1), date(1995, 6, 2), date(1999, 12, 31)],
    "code": [-3, 0, 1, 2, 3, 7, 1000, None],
}
"""Values that the schema allows."""
STRANGE: dict[str, list[object]] = {
    "site": [0, 7, -1, None],
    "income": [None, -50.25, 100.5, 1e9, -1e9],
    "weight": [39.75, 40.25, 77.25, 77.75, 0.0, 200.5, 1e9],
    "age": [None, 9, 0, -40, 91, 100_000],
    "score": [Decimal("9.99"), Decimal("90.01"), Decimal("-9999.99"), Decimal("9999.99")],
    "city": ["zz", "A", ""],
    "born": [None, date(44, 3, 15), date(1989, 12, 31), date(2000, 1, 1), date(9999, 12, 31)],
}
"""Values that it does not: beyond a bound, between two points of a grid, not in the domain, NULL."""
ROWS = 150
COMPARISONS = ("=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM")


@dataclass(slots=True)
class Clinic:
    """The patient table: its declarations, a reader, and DuckDB with rows to try."""

    schema: Schema
    scope: Scope
    reader: Reader
    connection: duckdb.DuckDBPyConnection
    rows: list[Row] = field(default_factory=list)

    def condition(self, text: str) -> Scalar:
        """Raises Error."""
        tree = parse(f"SELECT {text} FROM patient").tree
        assert tree is not None
        return scalar(tree.expressions[0], self.scope)

    def context(self) -> Context:
        return Context(Rows(scans=(('"patient"', "patient"),)))

    def read(self, text: str) -> Truth:
        return self.reader.truth(self.condition(text), self.context())

    def answers(self, condition: Scalar) -> list[object]:
        """What DuckDB says of every row."""
        found = self.connection.execute(f'SELECT {text_of(condition)} FROM patient ORDER BY "place"').fetchall()
        return [answer for (answer,) in found]


@pytest.fixture(scope="module")
def patients(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clinic]:
    schema = clinic.schema(tmp_path_factory.mktemp("clinic"))
    table, sandbox = schema.table("patient"), Sandbox()
    assert table is not None
    reader = Reader(schema, lambda sql, _: sandbox.run(sql)[1])
    found = Clinic(schema, scope_of(scan(schema, table, "patient")), reader, duckdb.connect(config={"threads": "1"}))
    _fill(found, random.Random(1))
    yield found
    found.connection.close()
    sandbox.close()


def _fill(patients: Clinic, chance: random.Random) -> None:
    patients.connection.execute(f'CREATE TABLE patient ({clinic.DDL["patient"]}, "place" BIGINT)')
    for place in range(ROWS):
        row = {name: chance.choice(values) for name, values in DECLARED.items()}
        patients.rows.append(row)
        names = ", ".join(f'"{name}"' for name in row)
        marks = ", ".join("?" for _ in row)
        patients.connection.execute(
            f'INSERT INTO patient ({names}, "place") VALUES ({marks}, ?)', [*row.values(), place]
        )


# --- membership -------------------------------------------------------------------------------------------------------


def holds(region: Region, row: Row) -> bool:
    """Whether a row is in a region."""
    inside = [all(has(values, row[_column(key)]) for key, values in box.items()) for box in region]
    assert sum(inside) <= 1, f"boxes overlap: {region}"
    return any(inside)


def _column(key: str) -> str:
    return key.partition(" ")[0].removeprefix("patient.")


def has(values: Values, value: object) -> bool:
    """Whether one value is in a set."""
    if isinstance(values, Listed):
        count = len(values.axis.values)
        if value is None:
            return bool(values.bits >> count & 1)
        if value in values.axis.values:
            return bool(values.bits >> values.axis.values.index(value) & 1)
        return bool(values.bits >> count + 1 & 1) != (value in values.odd)
    if value is None:
        return values.null
    assert isinstance(value, int | float | Decimal | date)
    point = (Fraction(days(value) if isinstance(value, date) else value), 0)
    return any(low <= point < high for low, high in values.pieces)


def is_opaque(truth: Truth) -> bool:
    return any(values.axis.opaque for region in (truth.true, truth.false) for box in region for values in box.values())


def wrong(patients: Clinic, text: str, condition: Scalar, truth: Truth) -> Iterator[str]:
    """The rows that a region takes in wrongly, or leaves out."""
    for row, answer in zip(patients.rows, patients.answers(condition), strict=True):
        for region, value in ((truth.true, True), (truth.false, False)):
            if holds(region, row) != (answer is value):
                yield f"{text}: DuckDB says {answer} of {row}, but the region of {value} is {region}"


# --- conditions -------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Conditions:
    """Random conditions: columns beside constants, and what combines them.

    evaluated  also what is evaluated at declared values, and means nothing for others
    """

    chance: random.Random
    evaluated: bool = False

    def any(self, depth: int) -> str:
        if depth == 0 or self.chance.random() < 0.15:
            return self.leaf()
        one, other = self.any(depth - 1), self.any(depth - 1)
        return self.chance.choice(
            [
                f"({one} AND {other})",
                f"({one} AND {other})",
                f"({one} OR {other})",
                f"({one} OR {other})",
                f"(NOT {one})",
                f"({one} IS {self.chance.choice(['', 'NOT '])}{self.chance.choice(['TRUE', 'FALSE', 'NULL'])})",
                f"CASE WHEN {one} THEN {other} ELSE {self.leaf()} END",
                f"CASE WHEN {one} THEN {other} WHEN {self.leaf()} THEN {self.leaf()} END",
                f"CASE WHEN {one} THEN 1 WHEN {other} THEN 2 ELSE 3 END IN ({self.chance.choice(['1', '2, 3', '3'])})",
                f"CASE WHEN {one} THEN 'x' WHEN {other} THEN NULL ELSE 'y' END = '{self.chance.choice('xyz')}'",
                f"COALESCE({one}, {other})",
                *([f"NULLIF({one}, {other})"] if self.evaluated else []),
                f"CAST({one} AS INTEGER) {self.chance.choice(['=', '<', '>=', 'IS DISTINCT FROM'])} 1",
                f"IF({one}, {self.leaf()}, {other})",
            ]
        )

    def leaf(self) -> str:
        make: Callable[[], str] = self.chance.choice(
            [self._number, self._number, self._number, self._text, self._date, self._boolean, self._known, self._chosen]
        )
        return make()

    def _value(self, column: str) -> str:
        found = self.chance.choice([v for v in (*DECLARED[column], *STRANGE.get(column, ())) if v is not None])
        if isinstance(found, str):
            return "'" + found + "'"
        return f"DATE '{found:%Y-%m-%d}'".replace("'44-", "'0044-") if isinstance(found, date) else str(found)

    def _compared(self, value: str, constants: Sequence[str]) -> str:
        one, two = self.chance.choice(constants), self.chance.choice(constants)
        some = ", ".join(self.chance.sample(list(constants), min(3, len(constants))))
        return self.chance.choice(
            [
                *(f"{value} {self.chance.choice(COMPARISONS)} {one}" for _ in range(4)),
                f"{one} {self.chance.choice(COMPARISONS if self.evaluated else COMPARISONS[:6])} {value}",
                f"{value} {self.chance.choice(['', 'NOT '])}BETWEEN {one} AND {two}",
                f"{value} {self.chance.choice(['', 'NOT '])}IN ({some})",
                f"{value} {self.chance.choice(['', 'NOT '])}IN ({one}, NULL)",
                f"{value} IS {self.chance.choice(['', 'NOT '])}DISTINCT FROM NULL",
                f"{value} = NULL",
            ]
        )

    def _number(self) -> str:
        column = self.chance.choice(["site", "income", "weight", "weight", "age", "age", "score", "code"])
        constants = [self._value(column) for _ in range(3)]
        if column == "site" and not self.evaluated:
            return self._equal(column, constants)
        value = self.chance.choice([column, column, *self._made_of(column)])
        return self._compared(value, [*constants, "30", "30.5", "-7"])

    def _made_of(self, column: str) -> list[str]:
        found = [f"{column} + 3", f"({column} - 2)", f"{column} * 2", f"{column} * -4", f"(7 + {column}) * 2"]
        if column != "score":
            found += [f"CAST({column} AS DOUBLE) / 4", f"CAST({column} AS DOUBLE) * 0.5 + 1"]
        if column in ("income", "weight"):
            found += [
                f"FLOOR({column})",
                f"CEIL({column} / 8)",
                f"CEIL({column} * -2) + 0.5",
                f"FLOOR({column} + 0.25)",
            ]
        if self.evaluated:
            found += [f"-{column}", f"(100 - {column})", f"ABS({column})", f"{column} % 7", f"LEAST({column}, 50)"]
            found += [f"ROUND({column})", f"CAST({column} AS INTEGER)", f"{column} + site", f"NULLIF({column}, 30)"]
        return found

    def _equal(self, value: str, constants: Sequence[str]) -> str:
        one, some = constants[0], ", ".join(constants)
        return self.chance.choice(
            [
                f"{value} {self.chance.choice(['=', '<>', 'IS DISTINCT FROM', 'IS NOT DISTINCT FROM'])} {one}",
                f"{one} {self.chance.choice(['=', '<>'])} {value}",
                f"{value} {self.chance.choice(['', 'NOT '])}IN ({some})",
                f"{value} {self.chance.choice(['', 'NOT '])}IN ({one}, NULL)",
                f"{value} <> NULL",
            ]
        )

    def _text(self) -> str:
        column = self.chance.choice(["city", "city", "note"])
        constants = [self._value(column) for _ in range(3)]
        if self.evaluated and column == "city":
            value = self.chance.choice([column, f"UPPER({column})", f"{column} || 'x'", f"SUBSTRING({column}, 1, 1)"])
            pattern = self.chance.choice(["a%", "_", "%b%", "", "A"])
            return self.chance.choice(
                [
                    f"{value} {self.chance.choice(['', 'NOT '])}{self.chance.choice(['LIKE', 'ILIKE'])} '{pattern}'",
                    self._compared(value, constants),
                    f"LENGTH({value}) > 1",
                ]
            )
        return self._equal(column, constants)

    def _date(self) -> str:
        made = ["CAST(born AS TIMESTAMP)", "born + 1", "DATE_TRUNC('month', born)"] if self.evaluated else []
        return self._compared(self.chance.choice(["born", *made]), [self._value("born") for _ in range(3)])

    def _boolean(self) -> str:
        return self.chance.choice(
            [
                "female",
                "NOT female",
                "female = TRUE",
                "female IS NULL",
                "female <> FALSE",
                "TRUE",
                "CAST(NULL AS BOOLEAN)",
            ]
        )

    def _known(self) -> str:
        return f"{self.chance.choice(sorted(DECLARED))} IS {self.chance.choice(['', 'NOT '])}NULL"

    def _chosen(self) -> str:
        column = self.chance.choice(["weight", "age", "score", "code"])
        constants = [self._value(column) for _ in range(3)]
        return self._compared(f"COALESCE({column}, {self._value(column)})", constants)


# --- the tests --------------------------------------------------------------------------------------------------------


def _check(patients: Clinic, texts: Iterator[str]) -> Counter[str]:
    """How many conditions were read, and how many of them not taken apart."""
    found: Counter[str] = Counter()
    for text in texts:
        try:
            condition = patients.condition(text)
        except Error:
            found["refused"] += 1
            continue
        truth = patients.reader.truth(condition, patients.context())
        found["opaque" if is_opaque(truth) else "read"] += 1
        if not is_opaque(truth):
            problem = next(wrong(patients, text, condition, truth), None)
            assert problem is None, problem
    return found


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_columns_beside_constants_are_read_exactly(patients: Clinic, seed: int) -> None:
    chance = random.Random(seed)
    conditions = Conditions(chance)
    found = _check(patients, (conditions.any(chance.choice([0, 0, 1, 2, 3])) for _ in range(120)))
    assert found["opaque"] <= 15 and found["read"] > 90


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_what_is_evaluated_is_exact_of_declared_rows(patients: Clinic, seed: int) -> None:
    chance = random.Random(seed)
    conditions = Conditions(chance, evaluated=True)
    found = _check(patients, (conditions.any(chance.choice([0, 0, 1, 2])) for _ in range(100)))
    assert found["opaque"] < found["read"] / 2


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_every_expression_is_read_exactly_of_declared_rows_or_not_at_all(patients: Clinic, seed: int) -> None:
    chance = random.Random(seed)
    expressions = Expressions(chance, "patient")
    found = _check(patients, (expressions.condition(chance.choice([1, 1, 2, 2, 3])) for _ in range(200)))
    assert found["opaque"] < found["read"]


DIRECTED = [
    "CAST(female AS INTEGER) = 1",
    "CAST(female AS DOUBLE) > 0.5",
    "CAST(female AS INTEGER) IS NULL",
    "CAST(age > 30 AS INTEGER) + CAST(female AS INTEGER) = 2",
    "CASE WHEN CASE WHEN age > 30 THEN CAST(NULL AS BOOLEAN) ELSE female END THEN TRUE "
    "ELSE CASE WHEN female THEN 'x' WHEN age > 5 THEN NULL ELSE 'y' END = 'y' END",
    "CASE WHEN female THEN NULL ELSE 1 END = 1 AND CASE WHEN female THEN NULL ELSE 'y' END = 'y'",
    "CAST(income AS UTINYINT) IS NULL",
    "CAST(income AS UTINYINT) < 5",
    "CAST(income AS UTINYINT) >= -20",
    "CAST(income * 2 AS TINYINT) > 5",
    "CAST(weight AS FLOAT) * 0.1 > 4.05",
    "CAST(score AS DOUBLE) = 10.01",
    "CAST(score AS DOUBLE) > 10.01",
    "CAST(score AS DOUBLE) <= 33.33",
    "score / 3 = 11.11",
    "score * 0.1 = 1.001",
    "weight / 0.1 >= 1200",
    "weight * 0.1 = 12",
    "CAST(income AS INTEGER) IN (0, 2, -1)",
    "CAST(income AS BIGINT) = 0",
    "CAST(weight / 3 AS INTEGER) = 40",
    "FLOOR(income) IS NULL",
    "CAST(born AS TIMESTAMP) = TIMESTAMP '1995-06-01 12:00:00'",
    "born = CAST('1995-06-01' AS DATE)",
    "NULLIF(site, 2) IS NULL",
    "NULLIF(female, FALSE) IS NULL",
    "age IN (11, NULL) IS NULL",
    "age NOT IN (11, NULL)",
    "(weight > 50) = (age > 30)",
    "(weight > 50) IS DISTINCT FROM female",
    "(weight > 50) IN (TRUE, NULL)",
    "(age > 30) > (site = 1)",
    "COALESCE(code, age, 3) > 10",
    "COALESCE(female, age > 30, TRUE)",
    "CASE site WHEN 1 THEN 'x' WHEN 2 THEN NULL END = 'x'",
    "NOT isnan(weight)",
    "age > site * 11",
    "(city = 'a') = female",
    "city || '' IN ('a', 'zz')",
    "city LIKE 'a' ESCAPE '!'",
]


INEXACT = [
    "CAST(income AS UTINYINT) IS NOT DISTINCT FROM NULL",
    "CAST(code AS TINYINT) > 5",
    "CAST(code AS TINYINT) IS NULL",
    "CAST(code AS UTINYINT) IS NOT NULL",
    "CAST(code AS DECIMAL(4,1)) IS NULL",
    "CAST(code AS DECIMAL(4,1)) > 3",
    "income + 1e17 > 1e17",
    "income + 1e17 = 1e17",
    "(income + 1e17) - 1e17 > 0",
    "(income * 1e-320) * 1e300 > 0",
    "CAST(income + 0.001 AS FLOAT) > 33.251",
    "income * 1e308 IS NULL",
]


@pytest.mark.parametrize("text", DIRECTED)
def test_conversions_and_rounding_are_as_in_the_engine(patients: Clinic, text: str) -> None:
    assert _check(patients, iter([text])) == {"read": 1}


@pytest.mark.parametrize("text", INEXACT)
def test_what_is_not_exact_is_not_taken_apart(patients: Clinic, text: str) -> None:
    assert _check(patients, iter([text])) == {"opaque": 1}


SAME = [
    ["age > 33", "age >= 34", "NOT age <= 33", "33 < age", "age + 1 > 34", "age * 2 > 67", "age BETWEEN 34 AND 2000000 OR age > 99"],
    ["age BETWEEN 30 AND 40", "age >= 30 AND age < 41", "NOT (age < 30 OR age > 40)", "age IN (30,31,32,33,34,35,36,37,38,39,40)"],
    ["age <> 34", "NOT age = 34", "age < 34 OR age > 34", "age NOT IN (34)", "COALESCE(age <> 34, FALSE)"],
    ["city = 'a'", "city IN ('a')", "'a' = city", "NOT city <> 'a'", "COALESCE(city, 'b') = 'a'", "city = 'a' AND city = 'a'"],
    ["city IS NOT NULL", "NOT city IS NULL", "city = city OR city = 'x'", "(city = 'a') IS NOT NULL", "city <> 'a' OR city = 'a'"],
    ["female", "female = TRUE", "female IS TRUE", "NOT NOT female", "CASE WHEN female THEN TRUE ELSE FALSE END", "female IN (TRUE)",
     "CASE WHEN female THEN 1 ELSE 0 END = 1", "female IS NOT DISTINCT FROM TRUE", "female > FALSE", "CAST(female AS INTEGER) = 1"],
    ["NOT female", "female = FALSE", "female IS FALSE", "female <> TRUE", "female < TRUE"],
    ["female IS NOT TRUE", "NOT female IS TRUE", "NOT COALESCE(female, FALSE)", "female IS NULL OR NOT female"],
    ["income < 50", "NOT income >= 50", "income * 2 < 100", "income / 2 < 25", "income - 50 < 0", "50 > income", "-income > -50"],
    ["weight >= 77.5", "weight > 77.5 OR weight = 77.5", "weight * 2 >= 155", "NOT weight < 77.5"],
    ["born < DATE '1995-06-01'", "born <= DATE '1995-05-31'", "born < '1995-06-01'", "NOT born >= DATE '1995-06-01'"],
    ["site = 1 AND age > 33", "age > 33 AND site = 1", "NOT (site <> 1 OR age <= 33)", "IF(site = 1, age, 0) > 33",
     "CASE WHEN site = 1 THEN age > 33 ELSE FALSE END"],
    ["site = 1 OR age > 33", "NOT (site <> 1 AND age <= 33)", "site = 1 OR (site <> 1 AND age > 33)",
     "age > 33 OR (age < 34 AND site = 1)"],
    ["score > 50", "score >= 50.01", "NOT score <= 50"],
    ["NULLIF(site, 2) = 1", "site = 1"],
    ["code = 3", "3 = code", "3 IS NOT DISTINCT FROM code", "code IS NOT DISTINCT FROM 3", "NOT 3 IS DISTINCT FROM code"],
    ["income > 50", "100 - income < 50", "-income < -50", "NULLIF(income, 7) > 50"],
    ["age = 34 AND age = 35", "FALSE", "age > 40 AND age < 30", "city = 'a' AND city IS NULL", "NULL AND age > 3"],
    ["age IS NULL OR age IS NOT NULL", "TRUE", "NULL OR TRUE", "(age = 34) IS NULL OR (age = 34) IS NOT NULL"],
    ["age % 2 = 0", "NOT age % 2 = 1", "age % 2 <> 1", "age // 2 * 2 = age"],
    ["site IN (1, 2, 3)", "site = 1 OR site = 2 OR site = 3", "site IN (3, 2, 1, 1)", "NOT site NOT IN (1, 2, 3)"],
]  # fmt: skip


@pytest.mark.parametrize("texts", SAME, ids=[texts[0] for texts in SAME])
def test_other_spellings_are_equal_regions(patients: Clinic, texts: list[str]) -> None:
    """Equal up to what nobody is expected to have."""
    first = patients.read(texts[0]).true
    for text in texts[1:]:
        found = patients.read(text).true
        apart = (*but_not(first, found), *but_not(found, first))
        assert share(apart) == 0 and all(_is_void(box) for box in apart), f"{text}: {apart}"


def _is_void(box: Mapping[str, Values]) -> bool:
    return any(values.is_void for values in box.values())


def test_three_values_are_not_two(patients: Clinic) -> None:
    """What is neither true nor false is NULL: a tautology of two values leaves it out."""
    truth = patients.read("age = 34 OR NOT age = 34")
    assert truth.false == () and not meet(truth.true, patients.read("age IS NULL").true)


LISTED = {
    "age": ("SELECT CAST(v AS INTEGER) FROM range(10, 91) AS t(v)", None),
    "weight": ("SELECT CAST(40 + v / 2 AS DOUBLE) FROM range(0, 321) AS t(v)", "SELECT CAST(NULL AS DOUBLE)"),
    "site": ("VALUES (1), (2), (3)", None),
    "city": ("VALUES ('a'), ('b'), ('c')", "SELECT CAST(NULL AS VARCHAR)"),
    "born": ("SELECT DATE '1990-01-01' + CAST(v AS INTEGER) FROM range(0, 3652) AS t(v)", None),
}
"""All declared values of a column, and NULL where it is declared."""


@pytest.mark.parametrize("seed", range(2))
def test_the_share_of_a_condition_is_how_many_declared_values_meet_it(patients: Clinic, seed: int) -> None:
    chance = random.Random(seed)
    conditions = Conditions(chance)
    for _ in range(60):
        column = chance.choice(sorted(LISTED))
        values, null = LISTED[column]
        make = conditions._equal if column in ("site", "city") else conditions._compared
        text = make(column, [conditions._value(column) for _ in range(3)])
        part = _part(patients, text, column, values)
        if null is not None:
            part = 0.95 * part + 0.05 * _part(patients, text, column, null)
        assert share(patients.read(text).true) == pytest.approx(part, abs=1e-9), text


def _part(patients: Clinic, text: str, column: str, values: str) -> float:
    """Of a question's values the part for which a condition is true."""
    asked = f'SELECT avg(CAST({text_of(patients.condition(text))} IS TRUE AS INTEGER)) FROM ({values}) AS patient("{column}")'
    ((part,),) = patients.connection.execute(asked).fetchall()
    return float(part)


KEYS = [
    "site", "female", "city", "age", "age // 10", "site % 2", "age > 40", "FLOOR(weight)", "FLOOR(weight / 40)", "CEIL(weight)",
    "CAST(weight / 40 AS INTEGER)", "EXTRACT(YEAR FROM born)", "DATE_TRUNC('year', born)", "DATE_TRUNC('month', born)", "born",
    "UPPER(city)", "site * 10", "age + 5", "100 - age", "LEAST(age, 50)", "age % 7", "site + CAST(age > 40 AS INTEGER)",
    "LENGTH(city)", "weekday(born)", "EXTRACT(MONTH FROM born)", "ABS(age - 50)",
]  # fmt: skip


@pytest.mark.few(3)
@pytest.mark.parametrize("text", KEYS)
def test_the_regions_of_a_key_are_its_groups(patients: Clinic, text: str) -> None:
    """Declared rows are in one region each, and in the same one where DuckDB groups them together."""
    key = patients.condition(text)
    try:
        found = patients.reader.values(key, patients.context())
    except (Opaque, Tangled):
        pytest.fail(f"{text} is not taken apart")
    groups: dict[int, set[object]] = {}
    answers = patients.answers(key)
    for row, value in zip(patients.rows, answers, strict=True):
        inside = [i for i, region in enumerate(found) if holds(region, row)]
        assert len(inside) == 1, f"{row} is in {len(inside)} regions of {text}"
        groups.setdefault(inside[0], set()).add(value)
    assert all(len(values) == 1 for values in groups.values())
    assert len(groups) == len(set().union(*groups.values()))


TENTHS = """
[dataset]
name = "ward"
source = "ward.duckdb"

[privacy]
unit = "row"
epsilon = 1.0
delta = 1e-6

[tables.ward.columns]
temperature = { type = "DOUBLE", bounds = [35, 42], step = 0.1 }
"""


@pytest.mark.parametrize("sign", ["=", "<>", "<", "<=", ">", ">="])
def test_a_grid_of_tenths_counts_as_the_engine_does(tmp_path: Path, sign: str) -> None:
    """No DOUBLE is a tenth; a condition keeps as many points of the grid as DuckDB keeps of their nearest numbers."""
    path = tmp_path / "ward.toml"
    path.write_text(TENTHS)
    schema = read_schema(path)
    table, sandbox = schema.table("ward"), Sandbox()
    assert table is not None
    reader, scope = Reader(schema, lambda sql, _: sandbox.run(sql)[1]), scope_of(scan(schema, table, "ward"))
    for tenths in range(350, 421):
        tree = parse(f"SELECT temperature {sign} {tenths / 10} FROM ward").tree
        assert tree is not None
        truth = reader.truth(scalar(tree.expressions[0], scope), Context(Rows(scans=(('"ward"', "ward"),))))
        kept = sum(1 for each in range(350, 421) if _OPERATORS[sign](each / 10, tenths / 10))
        assert share(truth.true) == pytest.approx(kept / 71), tenths / 10


_OPERATORS = {"=": eq, "<>": ne, "<": lt, "<=": le, ">": gt, ">=": ge}
