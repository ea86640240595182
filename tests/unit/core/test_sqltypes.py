"""Type names, ranges, and which integer type holds an interval; DuckDB is asked about each."""

from __future__ import annotations

from fractions import Fraction

import duckdb
import pytest

from dpsql.core.domains import interval
from dpsql.core.sqltypes import BIGINT, HUGEINT, INTEGER_BITS, SqlType, decimal, parse_type, smallest_integer


@pytest.mark.parametrize(
    "text",
    ["int", "INTEGER", "int8", "long", "tinyint", "hugeint", "ubigint", "real", "float8", "double", "numeric(15, 2)",
     "decimal", "DECIMAL(7)", "varchar(20)", "text", "string", "bool", "date", "datetime", "timestamp"],
)  # fmt: skip
def test_a_type_is_named_as_duckdb_names_it(text: str) -> None:
    found = parse_type(text)
    assert found is not None
    own = duckdb.connect().execute(f"SELECT CAST(NULL AS {text})").description[0][1]
    assert str(found) == str(own)


@pytest.mark.parametrize(
    "text", ["blob", "INTEGER[]", "STRUCT(a INT)", "decimal(39,2)", "decimal(2,3)", "", "interval", "timetz"]
)
def test_other_types_are_unknown(text: str) -> None:
    assert parse_type(text) is None


@pytest.mark.parametrize("name", INTEGER_BITS)
def test_integer_ranges_are_duckdbs(name: str) -> None:
    limits = SqlType(name).range
    assert limits is not None
    row = duckdb.connect().execute(f"SELECT CAST({limits.lower} AS {name}), CAST({limits.upper} AS {name})").fetchone()
    assert row == (limits.lower, limits.upper)
    for beyond in (limits.lower - 1, limits.upper + 1):
        assert duckdb.connect().execute(f"SELECT TRY_CAST('{beyond}' AS {name})").fetchone() == (None,)


def test_decimal_range() -> None:
    limits = decimal(4, 2).range
    assert limits is not None
    assert limits.upper == Fraction(9999, 100)


def test_smallest_integer() -> None:
    assert smallest_integer(interval(-(2**63), 2**63 - 1)) == BIGINT
    assert smallest_integer(interval(0, 2**63)) == HUGEINT
    assert smallest_integer(interval(0, 2**127)) is None
