"""Precedence: an expression without parentheses is read as DuckDB reads it, on every supported version of the parser."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from sqlglot import exp

from dpsql.core.errors import Error
from dpsql.planner.parse import parse
from dpsql.planner.resolve.scalars import scalar
from dpsql.planner.resolve.scope import Scope, scope_of
from dpsql.relations.declared import scan
from dpsql.sql.duckdb import printed
from tests.semantics.plain import close
from tests.semantics.test_statements import crowded
from tests.support import clinic

KNOWN = [
    "1 + age % 3", "age % 3 * 2", "age % 7 / 4", "age - 3 - 2", "age / 2 / 5", "2 * age % 3", "100 // age % 3", "1 - age % 3 - 2",
    "-site ** 2", "2 ** -site", "2 ** 3 ** 2", "2 * site ** 2", "- age + 3", "-age % 4", "- age::DOUBLE", "age::DOUBLE / 7 * 7",
    "NOT age = 3", "NOT female AND age > 3", "NOT female OR age > 3", "female OR female AND age < 20", "age + 1 > site * 2",
    "age BETWEEN 20 AND 30 + 10 AND female", "NOT age BETWEEN 20 AND 40", "female IS NULL = FALSE",
    "NOT female IS NULL", "age + site IS NULL", "age > 30 IS TRUE", "female IS NOT TRUE AND TRUE", "age IN (20, 30) = female",
    "NOT age IN (20, 30)", "age + 1 IN (21, 31)", "city || note = 'an1'", "city || 'x' LIKE 'a%' OR FALSE", "NOT city LIKE 'a%'",
    "city LIKE 'a' || '%'", "CASE WHEN NOT female THEN -age ELSE age % 5 + 1 END", "age::INTEGER % 2 = 0",
    "- 2 ** 2", "2 + 3 * site - 4 / site", "age - (site - 3)", "age / (site * 2)", "age - -site", "age * -site", "+age",
    "age IS DISTINCT FROM site + 1", "'a' < city OR city IS NULL", "age NOT IN (1) AND female", "1 < age AND age < 50 OR site = 1",
]  # fmt: skip


@pytest.fixture(scope="module")
def scope(tmp_path_factory: pytest.TempPathFactory) -> Scope:
    folder: Path = tmp_path_factory.mktemp("clinic")
    schema = clinic.schema(folder)
    table = schema.table("patient")
    assert table is not None
    return scope_of(scan(schema, table, "patient"))


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    opened = duckdb.connect()
    clinic.fill(opened, crowded(4))
    yield opened
    opened.close()


def values(connection: duckdb.DuckDBPyConnection, sql: str) -> list[object] | None:
    """None where DuckDB does not take it: the law is about what both take."""
    try:
        return [row[0] for row in connection.execute(f"SELECT {sql} FROM patient").fetchall()]
    except duckdb.Error:
        return None


def disagreement(connection: duckdb.DuckDBPyConnection, text: str, scope: Scope) -> str | None:
    own = values(connection, text)
    try:
        tree = parse(f"SELECT {text} FROM patient").tree
        assert isinstance(tree, exp.Select)
        sql = printed(scalar(tree.expressions[0], scope).tree)
    except Error:
        return None
    ours = values(connection, sql)
    if own is None or ours is None:
        return None if ours is not None else f"{sql} fails"
    numbers = [(float(a), float(b)) if _number(a) and _number(b) else (a, b) for a, b in zip(own, ours, strict=True)]
    return None if all(close(a, b, 1e-9) for a, b in numbers) else f"{text} was read as {sql}"


def _number(value: object) -> bool:
    return value is not None and not isinstance(value, str | bool) and hasattr(value, "__float__")


@pytest.mark.parametrize("text", KNOWN)
def test_known_traps(text: str, scope: Scope, connection: duckdb.DuckDBPyConnection) -> None:
    assert values(connection, text) is not None
    assert disagreement(connection, text, scope) is None


def chain(chance: random.Random) -> str:
    """Operands and operators without parentheses."""

    def operand() -> str:
        plain = chance.choice(["age", "site", "2", "3", "7", "age::DOUBLE", "1.5"])
        return f"- {plain}" if chance.random() < 0.15 else plain

    def arithmetic() -> str:
        found = operand()
        for _ in range(chance.choice([0, 1, 2, 3])):
            found += f" {chance.choice(['+', '-', '*', '/', '//', '%', '**'])} {operand()}"
        return found

    def condition() -> str:
        simple = [
            f"{arithmetic()} {chance.choice(['=', '<>', '<', '>=', 'IS DISTINCT FROM'])} {arithmetic()}",
            f"{arithmetic()} BETWEEN {operand()} AND {arithmetic()}",
            f"{arithmetic()} IN (1, {operand()})",
            f"{arithmetic()} IS NOT NULL",
            "female",
            "female IS TRUE",
            "city LIKE 'a%'",
        ]
        return ("NOT " if chance.random() < 0.3 else "") + chance.choice(simple)

    if chance.random() < 0.5:
        return arithmetic()
    return f" {chance.choice(['AND', 'OR'])} ".join(condition() for _ in range(chance.choice([1, 2, 3])))


@pytest.mark.slow
def test_generated_chains(scope: Scope, connection: duckdb.DuckDBPyConnection) -> None:
    chance = random.Random(3)
    found = [disagreement(connection, chain(chance), scope) for _ in range(400)]
    assert [f for f in found if f is not None] == []
