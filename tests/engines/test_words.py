"""PostgreSQL's and Spark's words, without a server: what is written for checked text, and what is refused by name."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from dpsql.core.domains import Interval
from dpsql.core.errors import Error
from dpsql.core.sqltypes import BIGINT, BOOLEAN, DATE, DOUBLE, VARCHAR, decimal
from dpsql.engines.base import Dialect
from dpsql.engines.postgres.dialect import DIALECT
from dpsql.engines.postgres.numbers import LEAST, _rounds_to_zero
from dpsql.engines.postgres.words import WORDS
from dpsql.engines.spark.dialect import DIALECT as SPARK
from dpsql.engines.spark.words import WORDS as SPARK_WORDS
from dpsql.expressions.known import Known, of_type
from dpsql.planner.total import written

TABLES = {
    "t": {
        "n": Known(BIGINT, Interval(Fraction(-10), Fraction(90))),
        "b": of_type(BIGINT),
        "x": Known(DOUBLE, Interval(Fraction(0), Fraction(100))),
        "y": of_type(DOUBLE),
        "d": of_type(decimal(10, 2)),
        "s": of_type(VARCHAR),
        "f": of_type(BOOLEAN),
        "day": of_type(DATE),
    }
}
YEARS = "t.day BETWEEN DATE '0001-01-02' AND DATE '9999-12-30'"
WRITTEN = {
    "t.n // 7": '(("t"."n")::bigint / NULLIF((7::bigint)::bigint, 0))',
    "t.s LIKE 'a\\b%'": """("t"."s" LIKE (E'a\\\\b%'::text COLLATE "C") ESCAPE '')""",
    "CAST(t.d AS BIGINT)": '(round("t"."d"))::bigint',
    "isnan(t.y)": '("t"."y" = \'nan\'::float8)',
    "t.x IS NOT DISTINCT FROM t.x": '("t"."x" IS NOT DISTINCT FROM "t"."x")',
    "t.y * CAST(0.5 AS DOUBLE)": 'THEN 0::float8 ELSE ("t"."y" * \'0.5\'::float8) END)',
    "t.x * CAST(16.0 AS DOUBLE)": '("t"."x" * \'16.0\'::float8)',
    "TRY_CAST(t.y AS BIGINT)": 'THEN ("t"."y")::bigint END)',
    f"CASE WHEN {YEARS} THEN date_part('year', t.day) END": '(date_part(\'year\', "t"."day"))::bigint END)',
    "md5($cut)": 'md5((SELECT "cut" FROM pg_temp."dpsql secret"))',
}
REFUSED = {
    "t.b + t.b": "Add of values that may not fit its type",
    "t.y + t.y": "+ of DOUBLE without bounds",
    "t.y * t.y": "* of DOUBLE without bounds",
    "t.x * t.x": "* of two DOUBLE numbers",
    "t.x / t.x": "/ of DOUBLE without bounds",
    "upper(t.s)": "UPPER()",
    "TRY_CAST(t.s AS BIGINT)": "a cast of VARCHAR to BIGINT",
    "CAST(t.y AS VARCHAR)": "a cast of DOUBLE to VARCHAR",
    "t.s ILIKE 'a%'": "ILIKE",
}


def write(expression: str, dialect: Dialect = DIALECT) -> str:
    return written(f"SELECT {expression} AS v FROM t", TABLES, dialect.write)


@pytest.mark.parametrize("expression", WRITTEN)
def test_written(expression: str) -> None:
    assert WRITTEN[expression] in write(expression)


@pytest.mark.parametrize("expression", REFUSED)
def test_refused_by_name_before_the_charge(expression: str) -> None:
    with pytest.raises(Error) as raised:
        write(expression)
    assert raised.value.code == "DPSQL-102"
    assert raised.value.message.startswith(f"{REFUSED[expression]} has no form in PostgreSQL that is surely equal")


IN_SPARK = {
    "-t.d": "CAST(0BD - CAST(`t`.`d` AS DECIMAL(10,2)) AS DECIMAL(10,2))",
    "abs(t.d)": "greatest(CAST(`t`.`d` AS DECIMAL(10,2)), CAST(0BD - CAST(`t`.`d` AS DECIMAL(10,2)) AS DECIMAL(10,2)))",
    "t.n // 7": "(CAST(`t`.`n` AS BIGINT) DIV NULLIF(CAST(7L AS BIGINT), 0L))",
    "CAST(t.n AS HUGEINT) * CAST(100000000000000000000 AS HUGEINT) // 7": "% NULLIF(CAST(",
    "t.s LIKE 'a\\b%'": "(`t`.`s` LIKE 'a\\\\b%' ESCAPE '!')",
    "CAST(t.d AS BIGINT)": "CAST(round(`t`.`d`) AS BIGINT)",
    "CAST(t.x AS BIGINT)": "CAST(TRY_CAST(RINT(`t`.`x`) AS BIGINT) AS BIGINT)",
    "TRY_CAST(t.y AS BIGINT)": "`t`.`y` < 9.223372036854776e+18D THEN TRY_CAST(RINT(`t`.`y`) AS BIGINT) END)",
    "t.y * t.y": "(`t`.`y` * `t`.`y`)",
    "isnan(t.y)": "(`t`.`y` = CAST('nan' AS DOUBLE))",
    "t.y IN (CAST(0 AS DOUBLE), t.x)": "(`t`.`y` = 0.0D OR `t`.`y` = `t`.`x`)",
    "md5($cut)": "md5((SELECT `cut` FROM `dpsql secret`))",
    "(SELECT SUM(t.n) FROM t)": "sum(CAST(`t`.`n` AS BIGINT))",
    "floor(t.y)": "THEN CAST(floor(`t`.`y`) AS DOUBLE) ELSE `t`.`y` END)",
    "(SELECT SUM(t.b) FROM t)": "sum(CAST(`t`.`b` AS DECIMAL(28,0)))",
    "list_sort(list(t.b) FILTER (WHERE t.b IS NOT NULL))": "sort_array(collect_list(`t`.`b`) FILTER (WHERE ",
}
REFUSED_IN_SPARK = {
    "t.b + t.b": "Add of values that may not fit its type",
    "t.x / t.x": "/ by a DOUBLE that may be zero",
    "CAST(t.b AS HUGEINT) * CAST(18446744073709551615 AS HUGEINT)": "* of HUGEINT of more than 38 digits",
    "t.s LIKE 'a!b' ESCAPE '!'": "this pattern of LIKE",
    "upper(t.s)": "UPPER()",
    "CAST(t.y AS VARCHAR)": "a cast of DOUBLE to VARCHAR",
    "list(t.b)": "a list with NULL in it",
    "list(t.b) FILTER (WHERE t.n IS NOT NULL)": "a list with NULL in it",
    "list(t.b) FILTER (WHERE t.b IS NULL)": "a list with NULL in it",
}


@pytest.mark.parametrize("expression", IN_SPARK)
def test_written_in_spark(expression: str) -> None:
    assert IN_SPARK[expression] in write(expression, SPARK)


@pytest.mark.parametrize("expression", REFUSED_IN_SPARK)
def test_refused_by_name_in_spark(expression: str) -> None:
    with pytest.raises(Error, match=r"DPSQL-102") as raised:
        write(expression, SPARK)
    assert raised.value.message.startswith(f"{REFUSED_IN_SPARK[expression]} has no form in Spark that is surely equal")


def test_constants_of_spark_cannot_end_early() -> None:
    assert SPARK_WORDS.name("A`b") == "`a``b`" and SPARK_WORDS.text("it's \\") == "'it\\'s \\\\'"


def test_semi_and_anti_joins_are_conditions() -> None:
    text = written("SELECT t.n AS v FROM t SEMI JOIN t AS r ON t.n = r.n", TABLES, DIALECT.write)
    assert text.endswith('FROM "t" WHERE EXISTS (SELECT 1 FROM "t" AS "r" WHERE ("t"."n" = "r"."n"))')
    assert "NOT EXISTS" in written("SELECT t.n AS v FROM t ANTI JOIN t AS r ON t.n = r.n", TABLES, DIALECT.write)


def test_names_and_constants_cannot_end_early() -> None:
    assert WORDS.name('A"b') == '"a""b"' and WORDS.text("it's") == "('it''s'::text COLLATE \"C\")"
    long, other = ("é" * 40 + end for end in "ab")
    assert len(WORDS.name(long).encode()) < 63 and WORDS.name(long) != WORDS.name(other)
    with pytest.raises(Error, match="DPSQL-102"):
        WORDS.text("a\0b")


@pytest.mark.parametrize("operator", ["*", "/"])
@pytest.mark.parametrize("factor", [Fraction(1, 2), Fraction(1, 10**200), Fraction(3), Fraction(10**200)])
def test_what_rounds_to_zero_is_known_exactly(operator: str, factor: Fraction) -> None:
    """PostgreSQL raises where such a product or quotient is zero: the largest of them is told apart, and the next is not."""
    most = _rounds_to_zero(operator, factor)
    number = float(factor)
    found, more = ((x * number if operator == "*" else x / number) for x in (most, math.nextafter(most, 1.0)))
    assert found == 0 and (more > 0 or most > 1) and Fraction(most) >= 0 and LEAST > 0
