"""A3, A4, A8: what one person's values and rows can change, seen at a price at which there is next to no noise."""

from __future__ import annotations

import pytest

from tests.attacks.observing import SHARP, heavy, opened, ordinary, patient, sharp, visit
from tests.support.clinic import INF, NAN, Database

# Noise at this price is far below this.
SLACK = 0.01


def with_patient(**changed: object) -> Database:
    data = ordinary()
    return {**data, "patient": [*data["patient"], patient(500, **changed)]}


def number(cell: object) -> float:
    assert cell is not None
    return float(cell)  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["patient", "row"])
@pytest.mark.parametrize("column, lower, upper", [("income", -50, 100), ("weight", 40, 200)])
def test_a3_a4_one_value_moves_a_sum_by_its_bound_at_most(column: str, lower: float, upper: float, unit: str) -> None:
    """NULL, NaN and infinities count nothing or the bound; 1e18 counts the bound."""
    sql = f"SELECT SUM({column}), COUNT({column}), COUNT(*), AVG({column}) FROM patient"
    base = sharp(ordinary(), sql, unit=unit)[0]
    for value in (None, NAN, INF, -INF, 1e18, -1e18, 1e308, 5e-324):
        moved = sharp(with_patient(**{column: value}), sql, unit=unit)[0]
        change = number(moved[0]) - number(base[0])
        absent = value is None or value != value
        assert (abs(change) < SLACK) if absent else (lower - SLACK < change < upper + SLACK), value
        assert number(moved[1]) - number(base[1]) == (0 if absent else 1)
        assert number(moved[2]) - number(base[2]) == 1
        assert lower <= number(moved[3]) <= upper


@pytest.mark.slow
@pytest.mark.parametrize("value", [None, NAN, INF, -INF, 1e18])
def test_a3_lone_sums_have_no_other_path(value: float | None) -> None:
    """SUM without COUNT beside it is another measure with another SQL: the same clamp."""
    for sql, most in (
        ("SELECT SUM(income) FROM patient", 100),
        ("SELECT SUM(income) FILTER (WHERE age > 0) FROM patient", 100),
        ("SELECT SUM(-income * 2) FROM patient", 200),
        ("SELECT SUM(CASE WHEN age > 0 THEN income END) FROM patient", 100),
        ("SELECT SUM(COALESCE(income, 7)) FROM patient", 100),
        ("SELECT dp_sum(income, lower := -1, upper := 3) FROM patient", 3),
        ("SELECT SUM(LEAST(GREATEST(income, 0), 10)) FROM patient", 10),
    ):
        change = number(sharp(with_patient(income=value), sql)[0][0]) - number(sharp(ordinary(), sql)[0][0])
        assert abs(change) <= most + SLACK, sql


@pytest.mark.slow
def test_a4_declared_types_do_not_replace_clamps() -> None:
    """Integers and decimals beyond their bounds, and dates beyond theirs."""
    wide = with_patient(age=2147483647, score="9999.99", born="9999-12-31")
    narrow = with_patient(age=-2147483648, score="-9999.99", born="0001-01-01")
    for sql, most in (
        ("SELECT SUM(age) FROM patient", 90),
        ("SELECT SUM(score) FROM patient", 90),
        ("SELECT SUM(age * age) FROM patient", 8100),
        ("SELECT SUM(EXTRACT(YEAR FROM born)) FROM patient", 1999),
        ("SELECT SUM(DATE_DIFF('day', DATE '1990-01-01', born)) FROM patient", 3653),
    ):
        base = number(sharp(ordinary(), sql)[0][0])
        for data in (wide, narrow):
            assert abs(number(sharp(data, sql)[0][0]) - base) <= most + SLACK, sql


@pytest.mark.slow
def test_a8_a_heavy_person_counts_as_their_limit() -> None:
    """10,000 rows of one person count as the three that are declared."""
    more = "INSERT INTO visit SELECT 1000 + i, 1999, 1 + i % 4, 50.0, 3, 't1' FROM range(10000) AS r(i)"
    for sql, most in (
        ("SELECT COUNT(*) FROM visit", 3),
        ("SELECT SUM(cost) FROM visit", 150),
        ("SELECT SUM(cost), COUNT(cost), COUNT(*) FROM visit", 150),
        ("SELECT COUNT(DISTINCT patient_id) FROM visit", 1),
        ("SELECT COUNT(*) FILTER (WHERE cost > 20) FROM visit", 3),
    ):
        light = sharp(ordinary(), sql)[0]
        with opened(heavy(0), more=more) as connection:
            loaded = connection.execute(SHARP.replace("100000", "900000") + sql).fetchall()[0]
        assert all(abs(number(a) - number(b)) <= most + SLACK for a, b in zip(light, loaded, strict=True)), sql


@pytest.mark.few(2)
@pytest.mark.parametrize("key", ["year", "tag", "year % 2", "cost > 20"])
def test_a8_a_heavy_person_is_limited_over_all_groups(key: str) -> None:
    """One person's rows in many groups: the changes of all groups together stay within the limit."""
    sql = f"SELECT {key} AS k, COUNT(*) AS n, SUM(cost) AS s FROM visit GROUP BY 1"
    light = {row[0]: row[1:] for row in sharp(ordinary(), sql)}
    loaded = {row[0]: row[1:] for row in sharp(heavy(200), sql)}
    counts = sum(abs(number(row[0]) - number(light.get(k, (0, 0))[0])) for k, row in loaded.items())
    sums = sum(abs(number(row[1]) - number(light.get(k, (0, 0))[1])) for k, row in loaded.items())
    assert counts <= 3 + SLACK and sums <= 150 + SLACK


def test_a8_an_option_cannot_raise_the_declared_limit() -> None:
    """max_rows above the owner's limit is the owner's limit."""
    with opened(heavy()) as connection:
        loaded = connection.execute(
            SHARP.replace("epsilon", "max_rows=9999999, epsilon") + "SELECT COUNT(*) FROM visit"
        ).fetchall()
    assert abs(number(loaded[0][0]) - 39) <= 0.5


def test_a8_rows_of_nobody_are_left_out() -> None:
    """Rows without a unit would be rows that no limit holds."""
    data = ordinary()
    orphans = {**data, "visit": data["visit"] + [visit(5000 + i, None) for i in range(100)]}
    for sql in ("SELECT COUNT(*) FROM visit", "SELECT year, COUNT(*) FROM visit GROUP BY 1"):
        assert sharp(orphans, sql) == sharp(data, sql)
