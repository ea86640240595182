"""A scalar's statements about its values are true of every value that DuckDB computes for it.

On rows inside their declarations: the value is in `domain`, and NULL only where `nullable`. On any rows: the engine does not raise, the
value is inside `limits`, and integral scalars are integers. Every operand of an expression is checked, the smallest first.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlglot import exp

from dpsql.core import domains
from dpsql.core.domains import Categories, Interval, Unbounded
from dpsql.core.errors import Error
from dpsql.expressions import arithmetic, conditional
from dpsql.expressions.scalar import NULL_TYPE, Scalar
from dpsql.planner.calls import function_of
from dpsql.planner.parse import parse
from dpsql.planner.resolve.functions import BUILDERS
from dpsql.planner.resolve.scalars import scalar
from dpsql.planner.resolve.scope import Scope, scope_of
from dpsql.planner.spellings import SPELLINGS
from dpsql.relations.declared import scan
from dpsql.schema.model import Schema
from tests.support import clinic
from tests.support.expressions import PART_FUNCTIONS, Expressions
from tests.support.functions import OF_VALUES
from tests.support.trees import text as text_of

TABLES = ("patient", "patient", "visit", "item")
MANY = 12
"""Expressions per database."""


class Untrue(AssertionError):
    """A value that its scalar says it cannot have."""


@pytest.fixture(scope="module")
def scopes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Scope]:
    return scopes_of(clinic.schema(tmp_path_factory.mktemp("clinic"))) | {}


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    opened = duckdb.connect(config={"threads": "1"})
    yield opened
    opened.close()


def scopes_of(schema: Schema) -> dict[str, Scope]:
    found = {}
    for name in ("patient", "visit", "item"):
        table = schema.table(name)
        assert table is not None
        found[name] = scope_of(scan(schema, table, name))
    return found


def projections(sql: str) -> list[exp.Expression]:
    tree = parse(sql).tree
    assert isinstance(tree, exp.Select)
    return list(tree.expressions)


def built(texts: list[str], scope: Scope) -> list[Scalar]:
    """The scalars of those expressions that the planner takes."""
    found = []
    for node in projections(f"SELECT {', '.join(texts)} FROM {scope.names[0].source}"):
        try:
            found.append(scalar(node, scope))
        except Error:
            continue
    return found


def check(connection: duckdb.DuckDBPyConnection, scalars: list[Scalar], table: str, *, declared: bool) -> None:
    """Raise Untrue for the shortest operand of `scalars` that has a value it cannot have on the rows of `table`."""
    parts = {text_of(p): p for s in scalars for p in s.walk() if p.sqltype != NULL_TYPE}
    ordered = sorted(parts.values(), key=lambda p: (len(text_of(p)), text_of(p)))
    if not ordered:
        return
    for part, values in zip(ordered, _evaluated(connection, ordered, table), strict=True):
        for value in set(values):
            problem = _problem(part, value, declared)
            if problem:
                known = f"{part.sqltype}, {part.domain}, {part.limits}, nullable {part.nullable}"
                raise Untrue(f"{text_of(part)} = {value!r}: {problem} ({known})")


def _evaluated(connection: duckdb.DuckDBPyConnection, parts: list[Scalar], table: str) -> list[list[object]]:
    columns = ", ".join(_fetched(part) for part in parts)
    try:
        rows = connection.execute(f'SELECT {columns} FROM "{table}"').fetchall()
    except duckdb.Error:
        rows = None
    if rows is None:
        for part in parts:
            try:
                connection.execute(f'SELECT {text_of(part)} FROM "{table}"').fetchall()
            except duckdb.Error as problem:
                raise Untrue(f"{text_of(part)} raises: {problem}") from None
        raise Untrue("the expressions raise together")
    return [[row[i] for row in rows] for i in range(len(parts))]


def _fetched(part: Scalar) -> str:
    """Dates in days and timestamps in microseconds, whatever their year."""
    if part.sqltype.name == "DATE":
        return f"({text_of(part)} - DATE '1970-01-01')"
    return f"epoch_us({text_of(part)})" if part.sqltype.name == "TIMESTAMP" else text_of(part)


def number(value: object) -> Fraction | None:
    """The value as a domain holds it; None for NaN, infinity and text."""
    match value:
        case bool():
            return Fraction(int(value))
        case int() | Decimal():
            return Fraction(value)
        case float():
            return Fraction(value) if math.isfinite(value) else None
    return None


def _problem(part: Scalar, value: object, declared: bool) -> str:
    if value is None:
        return "NULL, but not nullable" if declared and not part.nullable else ""
    if isinstance(value, str) and part.sqltype.is_text and (part.length is None or len(value) > part.length):
        return f"longer than {part.length} characters"
    found = number(value)
    if part.integral and found is not None and found.denominator != 1:
        return "not an integer"
    if part.limits is not None and found is not None and found not in part.limits:
        return "outside its limits"
    if part.limits is not None and found is None:
        return "not a number, outside its limits"
    return _outside(part, value, found) if declared else ""


def _outside(part: Scalar, value: object, found: Fraction | None) -> str:
    match part.domain:
        case Unbounded():
            return ""
        case Categories(values=values) if found is None and isinstance(value, str):
            return "" if value in values else "not one of its categories"
        case Interval() | Categories() if found is None:
            return (
                ""
                if part.nullable and isinstance(value, float) and math.isnan(value)
                else "not a number, outside its domain"
            )
        case Categories(values=values) if found is not None and rounding(part) == 0:
            return "" if (int(found) if found.denominator == 1 else found) in values else "not one of its categories"
    hull = domains.hull(part.domain)
    assert hull is not None and found is not None
    slack = rounding(part)
    return "" if hull.lower - slack <= found <= hull.upper + slack else "outside its domain"


_STEPS = {"floor", "ceil", "trunc", "round", "cast", "//", "convert", "width_bucket"}
_ROUNDED = {"/", "pow", "sqrt", "ln", "log10", "log2", "exp", "cbrt", "degrees", "radians", "epoch"}
_FLOAT = _ROUNDED | {"+", "-", "*", "%", "convert", "cast", "round", "literal"}


def rounding(part: Scalar) -> Fraction:
    """The distance that DOUBLE arithmetic may leave from an interval that is exact on real numbers; 0 where nothing is rounded."""
    widest = Fraction(0)
    for inner in part.walk():
        if inner.sqltype.is_float and inner.function in _FLOAT and not _whole_operands(inner):
            hull = domains.hull(inner.domain)
            size = max(abs(hull.lower), abs(hull.upper)) if hull is not None else Fraction(0)
            widest = max(
                widest, (1 + size) * (Fraction(1, 10**6) if inner.sqltype.name == "FLOAT" else Fraction(1, 10**12))
            )
    if widest and any(
        inner.function.partition(" ")[0] in _STEPS and (inner.integral or inner.function == "round")
        for inner in part.walk()
    ):
        return Fraction(1) + widest * 10**3
    return widest


def _whole_operands(part: Scalar) -> bool:
    """Tell whether DOUBLE holds the result exactly: integers of moderate size, not divided."""
    if (
        part.function in ("/", "pow", "sqrt", "ln", "log10", "log2", "exp", "cbrt", "degrees", "radians", "epoch")
        or part.sqltype.name == "FLOAT"
    ):
        return False
    hull = domains.hull(part.domain)
    parts = (part, *part.args)
    return hull is not None and max(abs(hull.lower), abs(hull.upper)) < 2**50 and all(p.integral for p in parts)


def generated(seed: int, scopes: dict[str, Scope]) -> tuple[str, list[Scalar], random.Random]:
    chance = random.Random(seed)
    table = chance.choice(TABLES)
    made = Expressions(chance, table)
    return table, built([made.any(chance.choice([1, 2, 2, 3])) for _ in range(MANY)], scopes[table]), chance


SEEDS = st.integers(0, 2**40)
MODEST = settings(
    max_examples=80, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), database=None
)


@pytest.mark.slow
@MODEST
@given(seed=SEEDS)
def test_rows_inside_their_declarations_keep_every_expression_in_its_domain(
    seed: int, scopes: dict[str, Scope], connection: duckdb.DuckDBPyConnection
) -> None:
    table, scalars, chance = generated(seed, scopes)
    clinic.fill(connection, clinic.database(chance, wild=False))
    check(connection, scalars, table, declared=True)


@pytest.mark.slow
@MODEST
@given(seed=SEEDS)
def test_no_row_at_all_makes_an_expression_fail_or_leave_its_limits(
    seed: int, scopes: dict[str, Scope], connection: duckdb.DuckDBPyConnection
) -> None:
    table, scalars, chance = generated(seed, scopes)
    clinic.fill(connection, clinic.database(chance, wild=True))
    check(connection, scalars, table, declared=False)


@pytest.mark.slow
def test_the_generator_reaches_every_function_of_a_private_block(scopes: dict[str, Scope]) -> None:
    chance = random.Random(1)
    seen: set[object] = set()
    made = Expressions(chance, "patient")
    seen |= {type(projections(f"SELECT {name}(born) FROM patient")[0]) for name in PART_FUNCTIONS}
    texts = [made.any(3) for _ in range(2_400)] + [made.call(1) for _ in range(1_200)]
    for start in range(0, len(texts), 20):
        for projection in projections(f"SELECT {', '.join(texts[start : start + 20])} FROM patient"):
            for node in projection.walk():
                function = function_of(node)
                seen |= {type(node), function.name if function is not None else ""}
    unseen = {kind.__name__ for kind in BUILDERS if kind not in seen}
    assert not {function.name for function in OF_VALUES if not function.syntax} - seen - set(SPELLINGS)
    # These are other spellings, of which the parser makes a node that is seen; the others have tests of their own.
    assert unseen <= SPELLED_OTHERWISE


SPELLED_OTHERWISE = {"NullSafeNEQ", "StrPosition", "SimilarTo", "JSONExtractScalar"}


@pytest.mark.few(3)
@pytest.mark.parametrize(
    "text",
    [
        "score * 0",
        "score * 0.01",
        "score * NULL",
        "ABS(score) - 9999.99",
        "CASE WHEN female THEN 1000.0 ELSE 999.0 END - 995.0",
        "CAST(age AS DECIMAL(10,2)) * CAST(code AS DECIMAL(10,2))",
        "CAST(age AS DECIMAL(18,2)) * CAST(code AS DECIMAL(18,2))",
        "CAST(age AS DECIMAL(18,4)) * CAST(age AS DECIMAL(18,0))",
        "CAST(code AS BIGINT) * CAST(code AS BIGINT) * 0",
        "CAST(code AS BIGINT) * CAST(code AS BIGINT) * code // (CAST(code AS BIGINT) * CAST(code AS BIGINT) * code)",
        "7 // (CAST(code AS BIGINT) * CAST(code AS BIGINT) * code)",
        "score % 0.0",
        "score % 0",
        "income % 0",
        "GREATEST(income % income, 3)",
        "COALESCE(weight % 0, 1)",
        "date_diff('month', born, DATE '2000-02-29')",
        "date_diff('quarter', DATE '1994-02-28', born)",
        "date_diff('year', DATE '1994-12-31', DATE '2001-01-01')",
        "CAST(age AS FLOAT) < 1e300",
        "CAST(age AS FLOAT) IN (0.1, 3)",
        "ISODOW(born)",
        "CAST(CAST(1 - site AS VARCHAR) AS DECIMAL(4,1))",
        "CAST(CASE site WHEN 1 THEN '1.5' WHEN 2 THEN '7' ELSE 'none' END AS DOUBLE)",
        "CAST(CASE site WHEN 1 THEN '1' WHEN 2 THEN 'inf' ELSE 'none' END AS DOUBLE)",
        "CAST(CASE site WHEN 1 THEN '1' WHEN 2 THEN '7' ELSE 'none' END AS INTEGER)",
        "CAST(income AS FLOAT)",
        "CAST(income AS INTEGER)",
        "CAST(score AS SMALLINT)",
        "-age",
        "- CAST(code AS BIGINT)",
        "ABS(CAST(batch AS BIGINT))",
        "batch // -1",
        "batch % -1",
        "- batch",
        "batch * batch",
        "POW(income, 3)",
        "POW(income, 2)",
        "POW(income, 2.0)",
        "POW(income, 0)",
        "POW(-1, 5)",
        "SQRT(POW(income, 2) + POW(age, 2))",
        "EXP(income)",
        "LN(income + 51)",
        "SQRT(-income)",
        "SUBSTRING(note, 0, -1)",
        "born + INTERVAL 9999 YEAR",
        "born - INTERVAL '9999 months'",
        "DATE_TRUNC('week', born)",
        "CAST(born AS TIMESTAMP) - CAST(born AS TIMESTAMP)",
        "ROUND(income, -2)",
        "ROUND(score, 1)",
        "ROUND(score, 3)",
        "ROUND(score, -3)",
        "ROUND(CAST(code AS BIGINT) * 4294967295, -3)",
        "ROUND(batch, -1)",
        "ROUND(age, 2)",
        "ROUND(1e308 * income, 15)",
        "CAST(1e308 * income AS BIGINT)",
        "FLOOR(score)",
        "CEIL(-score)",
        "CAST('1e400' AS DOUBLE)",
        "note || note || note",
        "LEAST(GREATEST(code, 0), 100)",
        "CAST(LEAST(GREATEST(income, 0), 100) AS UTINYINT)",
    ],
)  # fmt: skip
def test_the_edges_of_types(text: str, scopes: dict[str, Scope], connection: duckdb.DuckDBPyConnection) -> None:
    table = "item" if "batch" in text else "patient"
    scalars = built([text], scopes[table])
    for wild in (False, True):
        for seed in range(6):
            clinic.fill(connection, clinic.database(random.Random(seed), wild=wild))
            check(connection, scalars, table, declared=not wild)


def test_an_explicit_clamp_bounds_an_unbounded_column(scopes: dict[str, Scope]) -> None:
    (clamped,) = built(["LEAST(GREATEST(code, 0), 100)"], scopes["patient"])
    assert clamped.domain == domains.interval(0, 100)
    (mixed,) = built(["LEAST(GREATEST(code, 0), 1.5)"], scopes["patient"])
    assert domains.hull(mixed.domain) == Interval(Fraction(0), Fraction(3, 2))


# --- a planted fault is found -------------------------------------------------------------------------------------------


def _found(connection: duckdb.DuckDBPyConnection, scopes: dict[str, Scope], texts: list[str]) -> bool:
    """Tell whether the laws are broken somewhere for these expressions on a few databases."""
    for seed in range(12):
        clinic.fill(connection, clinic.database(random.Random(seed), wild=False))
        try:
            check(connection, built(texts, scopes["patient"]), "patient", declared=True)
        except Untrue:
            return True
    return False


def _two_corners(a: Interval, b: Interval) -> Interval:
    ends = (a.lower * b.lower, a.upper * b.upper)
    return Interval(min(ends), max(ends))


def _forgetful(real: Callable[[Scalar, Scalar], Scalar]) -> Callable[[Scalar, Scalar], Scalar]:
    return lambda left, right: replace(real(left, right), nullable=left.nullable)


FAULTS = {
    "a product of two corners only": ("income * income", arithmetic._INTERVALS, "*", _two_corners),
    "FLOOR off by one": ("FLOOR(income)", arithmetic._ROUNDING, "floor", lambda x: math.floor(x) + 1),
    "NULLIF forgets NULL": ("NULLIF(site, 2)", BUILDERS, exp.Nullif, None),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found(
    name: str, scopes: dict[str, Scope], connection: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, table, key, fault = FAULTS[name]
    assert not _found(connection, scopes, [text])
    if fault is None:
        forgetful = _forgetful(conditional.nullif)
        fault = lambda node, build: forgetful(build(node.args["this"]), build(node.args["expression"]))  # noqa: E731
    monkeypatch.setitem(table, key, fault)  # type: ignore[arg-type]
    assert _found(connection, scopes, [text])
