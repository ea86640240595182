"""Sample units are drawn from the declarations alone: within them, the same every time, and for every column that there is."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import duckdb
import numpy as np
import pytest

from dpsql.core.domains import UNBOUNDED, Categories, interval
from dpsql.core.sqltypes import BIGINT, DOUBLE
from dpsql.guard.columns import sql
from dpsql.guard.drawing import FEWEST, MOST_ROWS, Drawing, Drawn, _values, count
from dpsql.guard.sizes import DECLARED, ROUND, Share, Sizes, from_histogram, round_numbers, sizes
from dpsql.schema.model import Column, Schema
from dpsql.schema.toml import read_schema

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.fixture(scope="module")
def schema() -> Schema:
    return read_schema(EXAMPLES / "randhie/schema.toml")


def drawing(schema: Schema, identity: str = "schema") -> Drawing:
    return Drawing(schema, identity, 6_000, lambda table, column: list(range(1, 25)))


def tables(drawn: Drawing, schema: Schema) -> dict[str, dict[str, object]]:
    private = [t for t in schema.tables if not t.public]
    return {t.name: {c.name: drawn.column(t, c).values for c in t.columns} for t in private}


def column(drawn: Drawing, schema: Schema, table: str, name: str) -> Drawn:
    declared = schema.table(table)
    assert declared is not None
    return drawn.column(declared, next(c for c in declared.columns if c.name == name))


def test_the_same_schema_draws_the_same_units(schema: Schema) -> None:
    one, other = tables(drawing(schema), schema), tables(drawing(schema), schema)
    assert all(np.array_equal(one[t][c], other[t][c]) for t in one for c in one[t])
    changed = tables(drawing(schema, "another schema"), schema)
    assert not np.array_equal(one["person"]["income"], changed["person"]["income"])


def test_values_are_declared_ones(schema: Schema) -> None:
    drawn = drawing(schema)
    for table in (t for t in schema.tables if not t.public):
        for one in table.columns:
            found, domain = drawn.column(table, one), one.domain
            if isinstance(domain, Categories) and domain.values and found.values is not None:
                assert set(found.values.tolist()) == {float(v) for v in domain.values}  # type: ignore[arg-type]
            elif hasattr(domain, "lower") and found.values is not None:
                values = found.values.astype(np.float64)
                assert float(domain.lower) <= values.min() and values.max() <= float(domain.upper)


def test_rows_are_of_their_units_and_few(schema: Schema) -> None:
    drawn = drawing(schema)
    persons, table = schema.table("person"), schema.table("person_year")
    assert persons is not None and table is not None
    assert len(drawn.rows_of(persons)) == drawn.units == FEWEST
    years = drawn.rows_of(table)
    often = np.bincount(years.unit, minlength=drawn.units)
    assert often.max() == 5 and (often == 0).any(), "nobody has more rows than are allowed, and some have none"
    person, year = (column(drawn, schema, "person_year", name).values for name in ("person_id", "year"))
    assert person is not None and year is not None
    assert np.array_equal(person, years.unit + 1)
    assert len(set(zip(person.tolist(), year.tolist(), strict=True))) == len(years), "the declared key is one"


def test_a_table_without_a_limit_has_a_usual_number_of_rows(schema: Schema) -> None:
    endless = replace(
        schema,
        tables=tuple(replace(t, max_rows_per_unit=None) if t.name == "person_year" else t for t in schema.tables),
    )
    table = endless.table("person_year")
    assert table is not None
    assert np.bincount(drawing(endless).rows_of(table).unit).max() == MOST_ROWS


def test_a_nullable_column_has_null_for_twice_k_people(schema: Schema) -> None:
    nulls = column(drawing(schema), schema, "person", "education_years").nulls
    assert nulls is not None and nulls.mean() * 6_000 >= 2 * schema.guard.k * 0.9
    small = Drawing(schema, "schema", 100, lambda table, column: [1])
    nulls = column(small, schema, "person", "education_years").nulls
    assert nulls is not None and nulls.mean() * 100 >= 2 * schema.guard.k * 0.9


def test_a_reference_that_may_be_null_is_null_for_as_many(tmp_path: Path) -> None:
    """Of a public table, and of another private one; not the one that says whose row it is."""
    text = (EXAMPLES / "randhie/schema.toml").read_text()
    text = text.replace('domain = { from = "plan.plan" } }', "nullable = true }")
    text = text.replace('key    = ["person_id"]\n', 'key    = ["person_id"]\nreferences = { plan = "plan.plan" }\n')
    (tmp_path / "schema.toml").write_text(text)
    nullable = read_schema(tmp_path / "schema.toml")
    drawn = column(drawing(nullable), nullable, "person", "plan")
    assert drawn.nulls is not None and 0.04 < drawn.nulls.mean() < 0.06
    assert column(drawing(nullable), nullable, "person_year", "person_id").nulls is None


@pytest.mark.parametrize(
    "low, high, inside",
    [(0, 100, 9), (10, 90, 0), (0, 1, 9), (-50, 50, 8), (1, 2, 9), (0, 30_000, 2), (5, 5, 0)],
)
def test_round_numbers_are_inside(low: int, high: int, inside: int) -> None:
    found = np.array([float(x) for x in round_numbers(interval(low, high))])
    assert all(low < x < high for x in found if x != 0)
    assert (0.0 in found) == (low <= 0 <= high and low < high)
    assert len(set(found.tolist()) - {0.0}) >= inside


def test_zero_is_a_value_of_many_and_the_extreme_of_nobody() -> None:
    column = Column("x", DOUBLE, interval(0, 100), False, "measure")
    values = _values(sizes(column, 0.05, None), column, np.random.default_rng(1).random(50_000)).values
    assert values is not None
    assert abs((values == 0).mean() - ROUND / 2) < 0.01
    assert (values == 100).mean() < 0.001
    whole = replace(column, sqltype=BIGINT)
    values = _values(sizes(whole, 0.05, None), whole, np.random.default_rng(1).random(50_000)).values
    assert values is not None and set(values.tolist()) == set(range(101))


def test_there_are_enough_of_them(schema: Schema) -> None:
    assert [count(schema, people) for people in (100, 6_000, 500_000, 10**9)] == [20_000, 20_000, 100_000, 200_000]


PLACES = np.random.default_rng(1).random(100_000)


def often(found: Sizes, column: Column, value: float) -> float:
    values = _values(found, column, PLACES).values
    assert values is not None
    return float((values == value).mean())


def test_what_the_owner_takes_for_granted_is_drawn() -> None:
    column = Column(
        "visits", BIGINT, interval(0, 78), True, "measure", usual=((0, Fraction(1, 2)), (None, Fraction(1, 5)))
    )
    found = sizes(column, 0.05, None)
    assert found.nulls == 0.2 and abs(sum(cell.weight for cell in found.shares) - 1) < 1e-9
    assert abs(often(found, column, 0) - (0.5 / 0.8 + (1 - 0.5 / 0.8) * (1 - ROUND) / (1 - ROUND / 2) / 79)) < 0.01
    listed = Column("race", BIGINT, Categories((1, 2, 3)), False, "dimension", usual=((3, Fraction(1, 100)),))
    found = sizes(listed, 0.05, None)
    assert abs(often(found, listed, 3) - 0.01) < 0.002 and abs(often(found, listed, 1) - 0.495) < 0.01
    assert found.nulls == 0


def test_a_column_of_which_nothing_is_declared_has_what_its_owner_takes_for_granted() -> None:
    column = Column("amount", DOUBLE, UNBOUNDED, False, "measure", usual=((0, Fraction(1, 4)),))
    found = sizes(column, 0.05, None)
    assert found == Sizes((Share(0, 0.25),), 0.0, 0.75)
    values = placed(found.shares)
    assert values.count(0) / len(values) == pytest.approx(0.29, abs=0.06) and {6, 7, 8} <= set(values)
    whole = replace(column, usual=((0, Fraction(1, 4)), (1, Fraction(3, 4))))
    assert set(placed(sizes(whole, 0.05, None).shares)) == {0, 1}


def placed(known: tuple[Share, ...]) -> list[float]:
    text = sql("p", DOUBLE, (7,), 8, known)
    found = duckdb.connect().execute(f"SELECT {text} FROM (SELECT i / 1000 AS p FROM range(1000) t(i))").fetchall()
    return [row[0] for row in found]


def test_a_released_histogram_is_drawn_and_a_tenth_as_declared() -> None:
    column = Column("age", BIGINT, interval(0, 99), True, "measure")
    bought = from_histogram(
        [(20, Fraction(30), 60.0), (30, Fraction(40), -3.0), (50, Fraction(51), 20.0), (None, None, 20.0)]
    )
    assert bought is not None and bought.nulls == 0.2 and [c.weight for c in bought.shares] == [0.75, 0.25]
    found = sizes(column, 0.05, bought)
    assert found.nulls == pytest.approx(0.2 * (1 - DECLARED) + 0.05 * DECLARED)
    drawn = _values(found, column, PLACES).values
    assert drawn is not None
    values = drawn.astype(np.float64)
    assert abs(((values >= 20) & (values < 30)).mean() - (0.75 * (1 - DECLARED) + 0.08 * DECLARED)) < 0.01
    assert 0 < ((values > 60).mean()) < DECLARED
    assert from_histogram([(1, None, -4.0), (None, None, 3.0)]) is None
