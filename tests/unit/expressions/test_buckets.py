"""width_bucket: the standard's buckets, never failing, never decreasing, and inside the values that it declares."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.core.domains import UNBOUNDED, Categories, Domain, categories, hull, interval
from dpsql.core.errors import Error
from dpsql.core.sqltypes import BIGINT, DATE, DOUBLE, FLOAT, HUGEINT, INTEGER, VARCHAR, SqlType, decimal, parse_type
from dpsql.expressions.buckets import MACRO, MOST_BUCKETS, Buckets, buckets, width_bucket
from dpsql.expressions.literals import NULL, literal, number_literal, text_literal
from dpsql.expressions.scalar import Scalar, column
from tests.support.extremes import NUMBERS, VALUES
from tests.support.trees import X
from tests.support.trees import text as text_of

TEN = Buckets(0.0, 100.0, 10)
ODD = [TEN, Buckets(-0.5, 0.1, 3), Buckets(-1e300, 1e300, MOST_BUCKETS), Buckets(0.0, 5e-324, 2), Buckets(0.1, 0.7, 6)]


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    opened = duckdb.connect(config={"threads": "1"})
    opened.execute(MACRO)
    yield opened
    opened.close()


def standard(x: Fraction, low: int, high: int, count: int) -> int:
    """As the SQL standard defines it."""
    if x < low:
        return 0
    return count + 1 if x >= high else 1 + math.floor((x - low) * count / (high - low))


@settings(max_examples=300, deadline=None, derandomize=True, database=None)
@given(
    st.integers(-(10**6), 10**6), st.integers(-(10**5), 10**5), st.integers(1, 10**5), st.integers(1, MOST_BUCKETS)
)  # fmt: skip
def test_whole_numbers_are_where_the_standard_puts_them(x: int, low: int, wide: int, count: int) -> None:
    assert Buckets(float(low), float(low + wide), count).of(float(x)) == standard(Fraction(x), low, low + wide, count)


NUMBER = st.floats(allow_nan=False)


@settings(max_examples=300, deadline=None, derandomize=True, database=None)
@given(NUMBER, NUMBER, st.floats(-1e300, 1e300), st.floats(-1e300, 1e300), st.integers(1, MOST_BUCKETS))
def test_a_larger_number_is_never_in_a_lower_bucket(x: float, y: float, low: float, high: float, count: int) -> None:
    if low == high:
        return
    parts = Buckets(min(low, high), max(low, high), count)
    assert 0 <= parts.of(min(x, y)) <= parts.of(max(x, y)) <= count + 1


@pytest.mark.parametrize("sqltype", NUMBERS)
@pytest.mark.parametrize("parts", ODD, ids=str)
def test_both_texts_give_the_bucket_of_every_extreme(
    sqltype: str, parts: Buckets, connection: duckdb.DuckDBPyConnection
) -> None:
    """The one for people's rows and the one for the sandbox, as the same steps in Python give it; NULL for NULL and NaN."""
    known = parse_type(sqltype)
    assert known is not None
    values = ", ".join(f"(CAST({value} AS {sqltype}))" for value in [*VALUES[sqltype], "NULL"])
    text = text_of(width_bucket(column(X, known, UNBOUNDED), parts))
    called = f"width_bucket(x, {parts.lower!r}::DOUBLE, {parts.upper!r}::DOUBLE, {parts.count})"
    sql = f"SELECT {text}, {called}, CAST(x AS DOUBLE), typeof({text}), typeof({called}) FROM (VALUES {values}) AS t(x)"
    for private, public, x, *types in connection.execute(sql).fetchall():
        assert private == public == (None if x is None or math.isnan(x) else parts.of(x)), x
        assert types == ["INTEGER", "INTEGER"]


def of(sqltype: SqlType, domain: Domain, parts: Buckets = TEN, *, nullable: bool = False) -> Scalar:
    return width_bucket(column(X, sqltype, domain, nullable=nullable, length=9), parts)


@pytest.mark.parametrize(
    ("sqltype", "domain", "expected"),
    [
        (INTEGER, interval(0, 100), range(1, 12)),
        (INTEGER, interval(0, 99), range(1, 11)),
        (DOUBLE, interval(0, 99), range(1, 11)),
        (DOUBLE, interval(-1, 9), range(2)),
        (DOUBLE, interval(-9, -1), range(1)),
        (DOUBLE, interval(200, 300), range(11, 12)),
        (DOUBLE, UNBOUNDED, range(12)),
        (HUGEINT, UNBOUNDED, range(12)),
        (decimal(9, 2), interval(Fraction(999, 100), 10), range(1, 3)),
        (INTEGER, categories([5, 95, 100]), (1, 10, 11)),
        (DOUBLE, categories([Fraction(1, 2), 55]), (1, 6)),
        (FLOAT, interval(-(10**300), 10**300), range(12)),
    ],
)
def test_the_buckets_of_the_declared_values(sqltype: SqlType, domain: Domain, expected: range) -> None:
    found = of(sqltype, domain)
    assert found.domain == Categories(tuple(expected))
    assert (found.sqltype, found.limits, found.integral) == (INTEGER, interval(0, 11), True)


def test_bounds_that_are_no_doubles_are_rounded_like_the_values() -> None:
    """0.1 and 0.7 as DOUBLE lie on either side of the exact numbers; still the lower bound is in the first bucket."""
    tenths = Buckets(0.1, 0.7, 6)
    for sqltype in (DOUBLE, decimal(4, 1)):
        found = of(sqltype, interval(Fraction(1, 10), Fraction(7, 10)), tenths)
        assert found.domain == Categories(tuple(range(1, 8)))


def test_a_number_of_many_digits_may_fall_on_either_side() -> None:
    parts = Buckets(float(10**20), float(10**20 + 10**6), 10**4)
    found = hull(of(HUGEINT, interval(10**20 + 10**5, 10**20 + 10**5), parts).domain)
    assert found is not None and Fraction(1001) in found and found.upper > found.lower


def test_it_can_be_null_where_the_number_can_be_null_or_nan() -> None:
    assert not of(DOUBLE, interval(0, 1)).nullable
    assert of(DOUBLE, interval(0, 1), nullable=True).nullable
    assert of(DOUBLE, UNBOUNDED).nullable and of(FLOAT, UNBOUNDED).nullable
    assert not of(BIGINT, UNBOUNDED).nullable
    assert width_bucket(NULL, TEN) == literal(None, INTEGER)


def test_as_many_buckets_as_a_list_of_keys_may_have() -> None:
    found = of(DOUBLE, UNBOUNDED, Buckets(0.0, 1.0, MOST_BUCKETS)).domain
    assert isinstance(found, Categories) and len(found.values) == 100_000


ONE, TWO = number_literal("1"), number_literal("2")


def test_constants_of_every_kind() -> None:
    assert buckets(number_literal("0"), number_literal("1e2"), number_literal("10")) == TEN
    assert buckets(literal(Fraction(-1, 2), decimal(2, 1)), ONE, TWO) == Buckets(-0.5, 1.0, 2)


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        ((TWO, ONE, TWO), "less than"),
        ((ONE, ONE, TWO), "less than"),
        ((number_literal("1.00000000000000000001"), number_literal("1.00000000000000000002"), TWO), "less than"),
        ((ONE, TWO, number_literal("0")), "from 1 to 99,998"),
        ((ONE, TWO, number_literal("99999")), "from 1 to 99,998"),
        ((ONE, TWO, number_literal("2.0")), "whole number"),
        ((ONE, TWO, number_literal("1e1")), "whole number"),
        ((ONE, TWO, NULL), "whole number"),
        ((ONE, TWO, column(X, INTEGER, interval(1, 9))), "whole number"),
        ((NULL, TWO, TWO), "constant numbers"),
        ((text_literal("1"), TWO, TWO), "constant numbers"),
        ((ONE, column(X, INTEGER, interval(5, 9)), TWO), "constant numbers"),
        ((ONE, literal(100, DATE), TWO), "constant numbers"),
        ((ONE, literal(True, SqlType("BOOLEAN")), TWO), "constant numbers"),
        ((ONE, number_literal("1.1e300"), TWO), "between"),
    ],
)
def test_other_buckets_are_refused(arguments: tuple[Scalar, Scalar, Scalar], what: str) -> None:
    with pytest.raises(Error) as raised:
        buckets(*arguments)
    assert raised.value.code == "DPSQL-106" and what in str(raised.value)


@pytest.mark.parametrize(("sqltype", "hint"), [(DATE, "DATE_DIFF"), (VARCHAR, "CAST"), (SqlType("BOOLEAN"), "CAST")])
def test_only_numbers_have_buckets(sqltype: SqlType, hint: str) -> None:
    with pytest.raises(Error) as raised:
        of(sqltype, UNBOUNDED)
    assert raised.value.code == "DPSQL-106" and hint in str(raised.value)
