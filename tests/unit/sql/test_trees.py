"""SQL trees: structural equality, size, rewriting, and the text that DuckDB reads."""

from __future__ import annotations

import random
from fractions import Fraction

import duckdb
import pytest

from dpsql.core.sqltypes import BIGINT, BOOLEAN, DATE, DOUBLE, INTEGER, TIMESTAMP, VARCHAR, SqlType, decimal
from dpsql.expressions.scalar import LARGEST
from dpsql.sql.duckdb import printed
from dpsql.sql.nodes import (
    Aggregate,
    Bare,
    Between,
    Binary,
    Call,
    Case,
    Cast,
    Chain,
    Column,
    Exists,
    In,
    Is,
    Like,
    Literal,
    Node,
    Not,
    Number,
    Ordered,
    Over,
    Own,
    Star,
)
from dpsql.sql.queries import Derived, Item, Join, Select, Table, UnionAll
from dpsql.sql.trees import Spelling, fingerprint, rewritten, tables, walk

A, B = Column("t", "a"), Column("t", 'b"c')
CONSTANTS = [
    Literal(None, DOUBLE),
    Literal(None, SqlType("NULL")), Literal(-7, INTEGER), Literal("it's", VARCHAR), Literal(True, BOOLEAN),
    Literal(Fraction(1, 3), DOUBLE), Literal(Fraction(-1, 10**9), decimal(38, 37)), Literal(0, decimal(38, 37)),
    Literal(10**30, BIGINT),
    Literal(0, DATE), Literal(1, TIMESTAMP), Literal("0001-01-02", TIMESTAMP), Literal(Fraction(10**300), DOUBLE), Number(-(10**9)),
    Literal("'" * 50, VARCHAR), Literal(Fraction(1, 2**1000), DOUBLE),
]  # fmt: skip


def expression(chance: random.Random, depth: int) -> Node:
    """A random tree; what it means does not matter."""
    if depth == 0:
        return chance.choice([A, B, Column("", Own("x0")), Column('"' * 9, "z"), *CONSTANTS])
    a, b, c = (expression(chance, depth - 1 - chance.randrange(depth)) for _ in range(3))
    made: list[Node] = [
        Binary("IS NOT DISTINCT FROM", a, b), Binary("+", a, b), Chain("AND", (a, b, c)), Chain("*", (a,)), Not(a), Is(a, "NOT NULL"),
        In(a, (b, c)), Between(a, b, c), Like(a, b, True, c), Case(((a, b), (b, c)), a), Case(((a, b),)), Cast(a, decimal(38, 10)),
        Cast(b, BIGINT, tries=False), Call("greatest", (a, b, c)), Call("now"), Bare(Binary("-", a, b)),
        Aggregate("count", (a,), distinct=True, where=b), Aggregate("count", (Star(),)),
        Over(Call("row_number"), (a, b), (Ordered(c, True, "LAST"),)), Exists(Select((Number(1),), Table("t", "u"), (a, b))),
        Select((Item(a, "c0"), b), Derived(Select((a,), Table("q")), Own("v")), (b,), (c,), a, True, 5),
        UnionAll((Select((a,)), Select((b,)))), Join("LEFT", Table("t", "u"), Join("", Table("a"), Table("b"), (a,)), (b, c)),
    ]  # fmt: skip
    return chance.choice(made)


@pytest.mark.few(59)
@pytest.mark.parametrize("seed", range(300))
def test_a_tree_is_equal_to_what_is_made_alike_and_to_nothing_else(seed: int) -> None:
    one, again = (expression(random.Random(seed), 4) for _ in range(2))
    assert one == again and hash(one) == hash(again) and one is not again
    for part in walk(one):
        if part not in (A, B):
            changed = rewritten(one, {part: Column("u", "other")})
            assert changed != one and printed(changed) != printed(one)


@pytest.mark.few(152)
@pytest.mark.parametrize("seed", range(300))
def test_no_text_is_longer_than_the_size_of_its_tree(seed: int) -> None:
    """So a limit on the size is one on the text too."""
    for part in walk(expression(random.Random(seed), 4)):
        assert len(printed(part)) <= part.size, printed(part)


@pytest.mark.slow
def test_a_deep_tree_is_compared_printed_and_rewritten() -> None:
    def deep(leaf: Node) -> Node:
        for _ in range(20_000):
            leaf = Not(leaf)
        return leaf

    one = deep(A)
    assert one == deep(A) and one != deep(B)
    assert printed(rewritten(one, {A: B})) == printed(deep(B))
    assert one.size > len(printed(one)) > LARGEST / 2


def test_a_rewrite_looks_at_structure_alone() -> None:
    """A name inside a text is no name, and what stands in the place of a column is not rewritten again."""
    tree = Chain("AND", (Binary("=", A, Literal('"t"."a"', VARCHAR)), Is(B, "NULL")))
    assert rewritten(tree, {A: B, B: A}) == Chain("AND", (Binary("=", B, Literal('"t"."a"', VARCHAR)), Is(A, "NULL")))
    assert rewritten(tree, {Column("t", "A"): B}) is tree


def test_the_tables_of_a_tree_are_those_that_it_reads() -> None:
    inner = Select(
        (Number(1),), Join("", Table("t", "u"), Table("v", "w"), (Binary("=", Column("u", "a"), Column("w", "a")),))
    )
    assert tables(Chain("OR", (Exists(inner), Binary("=", A, Literal('FROM "x"', VARCHAR))))) == {"t", "v"}


@pytest.mark.parametrize(
    "constant", [c for c in CONSTANTS if not (isinstance(c, Literal) and c.value == 10**30)], ids=printed
)
def test_a_constant_is_read_as_what_it_is(constant: Node) -> None:
    ((found, kind),) = duckdb.connect().execute(f"SELECT {printed(constant)}, typeof({printed(constant)})").fetchall()
    if isinstance(constant, Literal) and constant.type.name not in ("NULL", "DOUBLE"):
        assert kind == str(constant.type)
    if isinstance(constant, Literal) and isinstance(constant.value, int | bool) and constant.type in (INTEGER, BOOLEAN):
        assert found == constant.value
    if isinstance(constant, Literal) and constant.type == VARCHAR:
        assert found == constant.value


def test_what_is_spelled_once_has_the_hash_of_all_in_one() -> None:
    source, parts = Table("person", "p"), (Column("p", "site"), frozenset({Column("p", "age")}), (1, "x", None))
    begun = Spelling(source, *parts[:1])
    assert begun.fingerprint(*parts[1:]) == fingerprint(source, *parts) != begun.fingerprint()
    assert begun.fingerprint(*parts[1:]) == Spelling(source, *parts).fingerprint()
