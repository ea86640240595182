"""No text that is computed is longer than its scalar says: random expressions over texts that are as long as they may be, evaluated."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.core.domains import UNBOUNDED, Interval
from dpsql.core.errors import Error
from dpsql.core.sqltypes import BOOLEAN, DOUBLE, HUGEINT, TIMESTAMP, VARCHAR, SqlType, decimal
from dpsql.expressions import casting, conditional
from dpsql.expressions.functions import parts, text
from dpsql.expressions.lengths import LONGEST
from dpsql.expressions.literals import integer_literal, text_literal
from dpsql.expressions.logic import compare
from dpsql.expressions.scalar import Scalar, column
from dpsql.sql.duckdb import printed
from dpsql.sql.nodes import Column

LETTERS = ["a", " ", "ß", "İ", "ŉ", "ﬃ", "\u0301", "👩‍👧"[0], "Σ", "\U0001e900", "漢", "'"]
OTHERS: dict[str, tuple[SqlType, str]] = {
    "x": (DOUBLE, "(-1.7976931348623157e308), (4.9e-324), ('nan'), ('-inf'), (0.1)"),
    "h": (HUGEINT, "(-170141183460469231731687303715884105727), (7)"),
    "d": (decimal(38, 19), "(-1234567890123456789.0123456789012345678)"),
    "b": (BOOLEAN, "(true), (false)"),
    "m": (TIMESTAMP, "('294246-12-31 23:59:59.999999'), ('290308-12-22 (BC) 00:00:00'), ('2020-01-01 00:00:00.5')"),
    "t": (SqlType("DATE"), "('5877641-12-31'), ('5877641-06-25 (BC)'), ('0001-01-01')"),
}


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    opened = duckdb.connect(config={"threads": "1"})
    chance = random.Random(47)
    opened.execute("CREATE TABLE r (one VARCHAR, five VARCHAR, many VARCHAR)")
    rows = [[_text(chance, n) for n in (1, 5, 40)] for _ in range(60)] + [[None, "", None], ["", None, ""]]
    opened.executemany("INSERT INTO r VALUES (?, ?, ?)", rows)
    for name, (sqltype, values) in OTHERS.items():
        opened.execute(f"CREATE TABLE o{name} AS SELECT CAST(v AS {sqltype}) AS {name} FROM (VALUES {values}) AS t(v)")
    yield opened
    opened.close()


def _text(chance: random.Random, most: int) -> str:
    return "".join(chance.choices(LETTERS, k=most))


def leaf(chance: random.Random) -> Scalar:
    name, most = chance.choice([("one", 1), ("five", 5), ("many", 40)])
    if chance.random() < 0.2:
        return text_literal(_text(chance, chance.randint(0, 6)))
    return column(Column("r", name), VARCHAR, UNBOUNDED, nullable=True, length=most)


def expression(chance: random.Random, depth: int) -> Scalar:
    """A random text expression, by every function that gives text."""
    if depth == 0:
        return leaf(chance)
    one, other = expression(chance, depth - 1), expression(chance, depth - 1)
    condition = compare("<", one, other)
    match chance.randrange(10):
        case 0 | 1 | 2:
            return text.concatenate(one, other)
        case 3:
            return text.change(chance.choice(["lower", "upper", "trim", "ltrim", "rtrim"]), one)
        case 4:
            places = [integer_literal(n) for n in chance.choices(range(-8, 9), k=chance.randint(1, 2))]
            return parts.part("substring", one, places)
        case 5:
            return parts.part(chance.choice(["left", "right"]), one, [integer_literal(chance.randint(-8, 8))])
        case 6:
            return conditional.case([(condition, one)], other if chance.random() < 0.5 else None)
        case 7:
            return conditional.coalesce([one, other])
        case 8:
            return conditional.extreme(chance.choice(["least", "greatest"]), [one, other])
        case _:
            return conditional.nullif(one, other)


def longest(connection: duckdb.DuckDBPyConnection, scalar: Scalar, table: str) -> int:
    (found,) = connection.execute(f"SELECT max(length({printed(scalar.tree)})) FROM {table}").fetchone() or (None,)
    return int(found or 0)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32))
def test_rule_47_no_text_is_longer_than_its_length(connection: duckdb.DuckDBPyConnection, seed: int) -> None:
    chance = random.Random(seed)
    try:
        found = expression(chance, chance.randint(1, 5))
    except Error as refused:
        assert refused.code == "DPSQL-204"
        return
    for part in found.walk():
        if part.sqltype.is_text:
            assert part.length is not None and part.length <= LONGEST
            assert longest(connection, part, "r") <= part.length, printed(part.tree)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32))
def test_lengths_lie_within_their_bounds(connection: duckdb.DuckDBPyConnection, seed: int) -> None:
    """In characters and in bytes, which are those of the engine."""
    chance = random.Random(seed)
    found = text.change("upper", leaf(chance)) if chance.random() < 0.5 else leaf(chance)
    for measured, function in ((text.length(found), "length"), (text.size_in_bytes(found), "strlen")):
        assert isinstance(measured.domain, Interval) or measured.is_literal
        asked = f"SELECT max({printed(measured.tree)}), max({function}({printed(found.tree)})) FROM r"
        most, own = connection.execute(asked).fetchall()[0]
        assert most == own
        assert measured.is_literal or most <= measured.domain.upper


@pytest.mark.parametrize("name", sorted(OTHERS))
def test_rule_47_nothing_else_is_longer_as_text(connection: duckdb.DuckDBPyConnection, name: str) -> None:
    cast = casting.cast(column(Column(f"o{name}", name), OTHERS[name][0], UNBOUNDED), VARCHAR)
    assert cast.length is not None and 0 < longest(connection, cast, f"o{name}") <= cast.length


def test_rule_47_every_letter_in_another_case(connection: duckdb.DuckDBPyConnection) -> None:
    every = "SELECT chr(i::INTEGER) AS c FROM range(1, 1114112) AS t(i) WHERE i NOT BETWEEN 55296 AND 57343"
    (most,) = connection.execute(
        f"SELECT max(greatest(length(upper(c)), length(lower(c)))) FROM ({every})"
    ).fetchone() or (0,)
    changed = text.change("upper", column(Column("r", "one"), VARCHAR, UNBOUNDED, length=1))
    assert changed.length is not None and most <= changed.length


@pytest.mark.parametrize(
    ("make", "length"),
    [
        (lambda a, b: text.concatenate(a, b), 12),
        (lambda a, b: text.concatenate(text.concatenate(a, a), text_literal("xyz")), 17),
        (lambda a, b: text.change("trim", a), 7), (lambda a, b: text.change("upper", a), 7),
        (lambda a, b: parts.part("left", a, [integer_literal(3)]), 3),
        (lambda a, b: parts.part("right", a, [integer_literal(-3)]), 7),
        (lambda a, b: parts.part("left", a, [integer_literal(30)]), 7),
        (lambda a, b: parts.part("substring", a, [integer_literal(2)]), 7),
        (lambda a, b: parts.part("substring", a, [integer_literal(2), integer_literal(4)]), 4),
        (lambda a, b: parts.part("substring", a, [integer_literal(5), integer_literal(-4)]), 4),
        (lambda a, b: conditional.case([(compare("=", a, b), a)], b), 7),
        (lambda a, b: conditional.case([(compare("=", a, b), b)], None), 5),
        (lambda a, b: conditional.coalesce([b, text_literal("a longer one")]), 12),
        (lambda a, b: conditional.nullif(b, a), 7), (lambda a, b: conditional.extreme("greatest", [a, b]), 7),
        (lambda a, b: casting.cast(a, VARCHAR), 7), (lambda a, b: casting.cast(integer_literal(5), VARCHAR), 64),
        (lambda a, b: replace(a, function="column", args=(b,)), 7),
    ],
)  # fmt: skip
def test_the_length_of_each_function(make: object, length: int) -> None:
    a, b = (column(Column("r", n), VARCHAR, UNBOUNDED, nullable=True, length=most) for n, most in (("a", 7), ("b", 5)))
    assert callable(make) and make(a, b).length == length


def test_what_is_no_text_has_no_length() -> None:
    assert column(Column("r", "n"), DOUBLE, UNBOUNDED).length is None
    assert text.length(text_literal("abc")).length is None


def test_a_text_of_which_nothing_is_known_is_refused() -> None:
    for make in (
        lambda: column(Column("r", "a"), VARCHAR, UNBOUNDED),
        lambda: Scalar("repeat", (), Column("r", "a"), VARCHAR),
    ):
        with pytest.raises(Error) as found:
            make()
        assert found.value.code == "DPSQL-901"


def test_the_largest_text_is_computed_and_one_more_is_refused() -> None:
    half = column(Column("r", "a"), VARCHAR, UNBOUNDED, length=LONGEST // 2)
    assert text.concatenate(half, half).length == LONGEST
    with pytest.raises(Error) as found:
        text.concatenate(text.concatenate(half, half), text_literal("x"))
    assert found.value.code == "DPSQL-204" and found.value.hint is not None
    assert column(Column("r", "a"), VARCHAR, UNBOUNDED, length=LONGEST * 2).length == LONGEST * 2, (
        "a column is what it is"
    )
