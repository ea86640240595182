"""Values that are the same up to a factor of the text are one noisy number: values and types are those of plain SQL, without noise."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import pytest

from dpsql.core.domains import Interval
from dpsql.core.sqltypes import BIGINT, DOUBLE, FLOAT, INTEGER, decimal
from dpsql.expressions.arithmetic import add_subtract_multiply
from dpsql.expressions.casting import cast
from dpsql.expressions.division import divide
from dpsql.expressions.factors import factored
from dpsql.expressions.literals import literal
from dpsql.expressions.scalar import Scalar, column
from dpsql.planner.parse import parse
from dpsql.sql.nodes import Column
from tests.semantics.plain import Beside, beside
from tests.semantics.test_statements import crowded
from tests.support.planning import compiled_by

AGE = column(Column("t", "age"), INTEGER, Interval(Fraction(0), Fraction(120)))


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    opened = beside(tmp_path_factory.mktemp("factors"), crowded(7))
    yield opened
    opened.close()


SAME = (
    "SUM(age), SUM(100 * age), SUM(age * 1.0), SUM(CAST(age AS DOUBLE)), SUM(age / 12), SUM(age * 0.25 * 3)",
    "SUM(age), AVG(100 * age), COUNT(age * 2), AVG(age / 4)",
    "SUM(score * 2), SUM(score), SUM(score * 1.50), AVG(score / 10)",
    "COUNT(*), SUM(weight), SUM(2 * weight), AVG(weight / 8)",
    "STDDEV(age), STDDEV(10 * age), VAR_POP(age / 2), AVG(age), SUM(age * 1.0)",
    "CORR(age, floor(score)), CORR(2 * age, floor(score) / 4), REGR_SLOPE(floor(score), 10 * age), COVAR_SAMP(floor(score) * 2, age)",
    "SUM(100 * age)",
    "SUM(CAST(age AS DECIMAL(10, 2)))",
)


@pytest.mark.parametrize("what", SAME)
@pytest.mark.parametrize("keys", ["", "site, "])
def test_they_are_one_statistic_with_the_values_and_types_of_plain_sql(both: Beside, what: str, keys: str) -> None:
    sql = f"SELECT {keys}{what} FROM patient" + (" GROUP BY site" if keys else "")
    assert len(compiled_by(both.session, parse(sql)).releases[0].release.measures) == 1
    both.check(sql)


APART = (
    "COVAR_POP(age, 2 * age), COVAR_POP(age, score)",
    "SUM(age), SUM(-1 * age)",
    "SUM(CAST(weight AS INTEGER)), SUM(weight)",
    "AVG(LEAST(2 * age, 60)), AVG(age)",
    "SUM(2 * age), SUM(age) FROM patient WHERE 2 * age BETWEEN 60 AND 100",
)


@pytest.mark.parametrize("what", APART)
def test_what_is_no_positive_factor_keeps_cells_of_its_own(both: Beside, what: str) -> None:
    sql = f"SELECT {what}" + " FROM patient" * ("FROM" not in what)
    measures = compiled_by(both.session, parse(sql)).releases[0].release.measures
    assert sum(len(one.statistic.terms) for one in measures) > 1
    if "CAST" not in what:
        both.check(sql)


def test_what_was_bought_of_one_is_free_for_the_other(both: Beside) -> None:
    first = both.ask("SELECT site, AVG(age) FROM patient WHERE female GROUP BY site")
    again = both.ask("SELECT site, AVG(100 * age), SUM(age * 1.0) FROM patient WHERE female GROUP BY site")
    assert again.cached and again.receipt.id is None
    assert [row[1] for row in again.rows] == pytest.approx(
        [100 * row[1] for row in first.rows if isinstance(row[1], float)]
    )


def times(factor: object, value: Scalar) -> Scalar:
    sqltype = BIGINT if isinstance(factor, int) else decimal(4, 2) if isinstance(factor, Fraction) else DOUBLE
    return add_subtract_multiply("*", value, literal(Fraction(str(factor)), sqltype))


def test_factors_are_exact_and_only_of_what_keeps_the_value() -> None:
    third = divide(times(Fraction(5, 4), AGE), literal(3, BIGINT))
    assert factored(third) == (Fraction(5, 12), AGE)
    assert factored(cast(times(7, AGE), DOUBLE)) == (7, AGE)
    assert factored(times(0.5, AGE)) == (Fraction(1, 2), AGE)
    for kept in (
        AGE,
        cast(AGE, FLOAT),
        times(-2, AGE),
        times(0, AGE),
        times(10**18 + 1, cast(AGE, DOUBLE)),
        cast(third, BIGINT),
    ):
        assert factored(kept) == (1, kept)
