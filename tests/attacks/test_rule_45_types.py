"""Rule 45: what the engine computes is of the type, and in the limits, that were proved of it.

What is proved of an operator is proved of values in their types. Where the engine gives a value beyond its type, or a NULL of another
type than the operator's, a proof says nothing; DuckDB does both.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Context, Decimal

import duckdb
import pytest

from dpsql.core.errors import Error
from dpsql.core.sqltypes import parse_type
from dpsql.expressions import casting
from dpsql.expressions.known import of_type
from dpsql.planner.total import total
from dpsql.sql.nodes import Cast
from tests.support.totality import World
from tests.support.trees import text as text_of
from tests.support.versions import reads_more_digits

DECIMALS = [(w, s) for w in (1, 3, 4, 5, 9, 10, 18, 19, 37, 38) for s in (0, 1, 2, w) if s <= w]
WRITTEN = ("1.5e{}", "-9.99e{}", "0.15e{}", "1.23456789e{}", "1e{}")
TYPES = {
    "d": "DECIMAL(5,2)", "e": "DECIMAL(7,3)", "dt": "DATE", "ts": "TIMESTAMP", "i": "INTEGER", "s": "VARCHAR",
}  # fmt: skip
INSIDE = {
    **dict.fromkeys(("d", "e", "i"), "BETWEEN 0 AND 1"), "s": "IS NOT NULL", "dt": "BETWEEN DATE '0001-01-02' AND DATE '9999-12-30'",
    "ts": "BETWEEN TIMESTAMP '0001-01-02' AND TIMESTAMP '9999-12-30'",
}  # fmt: skip
"""Conditions that the checker takes a value for not NULL by."""
TABLES = {"t": {name: of_type(found) for name, sqltype in TYPES.items() if (found := parse_type(sqltype))}}
OPERATORS = (
    "round({d}, 1)", "floor({d})", "abs({d})", "-{d}", "({d} + {e})", "({d} * {e})", "({d} % {d})", "({s} || {s})",
    "date_part('year', {dt})", "date_part('dayofyear', {ts})", "CAST(date_trunc('month', {ts}) AS TIMESTAMP)",
)  # fmt: skip


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    found = World(tmp_path_factory.mktemp("extremes"))
    yield found
    found.close()


def _read(world: World, column: str, values: list[str], sqltype: str) -> list[Decimal]:
    """The values that a cast makes of such values of a column."""
    form = world.built(f"CAST({column} AS {sqltype})")
    assert form is not None
    rows = f"SELECT TRY_CAST(unnest($values) AS {column.removeprefix('l_')}) AS {column}"
    sql = f'SELECT CAST({text_of(form.scalar)} AS VARCHAR) FROM ({rows}) AS "extreme"'
    return [Decimal(v) for (v,) in duckdb.execute(sql, {"values": values}).fetchall() if v is not None]


@pytest.mark.few(4)
@pytest.mark.parametrize("column", ["l_varchar", "l_float"])
@pytest.mark.parametrize(("width", "scale"), DECIMALS)
def test_nothing_is_read_as_a_decimal_of_more_digits(world: World, column: str, width: int, scale: int) -> None:
    """The engine reads '1.5e3' as a DECIMAL(3,0) of 1500, and 1.4 takes a FLOAT of 1e13 for a DECIMAL(14,1)."""
    exponents = range(width - scale - 9, width - scale + 3)
    values = [form.format(e) for form in WRITTEN for e in exponents]
    read = _read(world, column, values, f"DECIMAL({width},{scale})")
    exact = Context(prec=100)
    assert read and all(exact.abs(value) < 10 ** (width - scale) for value in read)


@reads_more_digits
def test_the_engine_still_reads_more_digits() -> None:
    """The second printing may go once no supported version needs it."""
    assert duckdb.execute("SELECT TRY_CAST('1.5e3' AS DECIMAL(3,0)) = 1500").fetchone() == (True,)


def test_a_plain_cast_of_text_to_a_decimal_is_refused_before_it_runs(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(casting, "decimal_of", lambda scalar, sqltype: Cast(scalar.tree, sqltype))
    for column in ("l_varchar", "l_float"):
        form = world.built(f"CAST({column} AS DECIMAL(3,0))")
        assert form is not None
        with pytest.raises(Error, match="not known to be total"):
            total(f'SELECT {text_of(form.scalar)} AS x FROM "extreme" AS "extreme"', world.tables)


@pytest.mark.parametrize("text", ["ltrim(CAST(NULL AS VARCHAR))", "CAST(ltrim(CAST(NULL AS VARCHAR)) AS VARCHAR)"])
@pytest.mark.parametrize("everywhere", [False, True])
def test_what_the_walk_puts_around_text_does_not_make_it_printed(text: str, everywhere: bool) -> None:
    """The casts and guards that the walk itself writes say nothing of where text comes from."""
    with pytest.raises(Error, match="DPSQL-902"):
        total(f"SELECT TRY_CAST({text} AS DECIMAL(3, 0)) FROM t", TABLES, everywhere=everywhere)
    printed = f"CAST(CAST(TRY_CAST({text} AS DECIMAL(3, 0)) AS VARCHAR) AS DECIMAL(3, 0))"
    assert total(f"SELECT {printed} FROM t", TABLES, everywhere=everywhere)


@pytest.mark.parametrize(
    "sql",
    [
        "ABS(GREATEST(l_uinteger * -2, IF(l_boolean, NULL, NULL)))",
        "ABS(COALESCE(l_uinteger * -2, CASE WHEN l_boolean THEN NULL END))",
        "ABS(CASE WHEN l_boolean THEN l_uinteger * -2 ELSE IF(l_boolean, NULL, NULL) END)",
    ],
)
def test_a_value_wider_than_its_type_is_so_beside_one_that_is_always_null(world: World, sql: str) -> None:
    form = world.built(sql)
    assert form is not None and world.problems([form], everywhere=True) == []


@pytest.mark.parametrize("conditional", [False, True])
@pytest.mark.parametrize("operator", OPERATORS)
def test_what_the_engine_folds_to_null_has_the_operator_s_type(operator: str, conditional: bool) -> None:
    """Else what is computed of it would be of another type than was proved: an overflow in it would tell of somebody. A condition that
    the operand is not NULL does not keep the engine from folding it."""
    nulls = {name: f"CAST(NULL AS {sqltype})" for name, sqltype in TYPES.items()}
    constant = operator.format(**nulls)
    if conditional:
        known = " AND ".join(f"{nulls[name]} {INSIDE[name]}" for name in TYPES if f"{{{name}}}" in operator)
        constant = f"CASE WHEN {known} THEN {constant} END"
    text = total(f"SELECT {constant} AS x, {operator.format(**{name: name for name in TYPES})} AS y FROM t", TABLES)
    with duckdb.connect() as plain:
        plain.execute(f"CREATE TABLE t ({', '.join(map(' '.join, TYPES.items()))})")
        types = {str(row[1]) for row in plain.execute(f"DESCRIBE {text}").fetchall()}
    assert len(types) == 1, text
