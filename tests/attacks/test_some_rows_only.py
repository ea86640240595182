"""A1, A2: a failure that depends on a row is an answer without noise."""

from __future__ import annotations

import pytest

import dpsql
from tests.attacks.observing import NAME, all_databases, everywhere, opened

VICTIM_AGE = 77
HARMLESS = [
    f"SELECT COUNT(*) FROM patient WHERE 1 // (age - {VICTIM_AGE}) > 0",
    f"SELECT COUNT(*) FROM patient WHERE 1 % (age - {VICTIM_AGE}) = 0",
    f"SELECT dp_sum(1 / (age - {VICTIM_AGE}), lower := 0, upper := 1) FROM patient",
    "SELECT COUNT(*) FROM patient WHERE CAST(note AS INTEGER) = 1",
    "SELECT COUNT(CAST(note AS DATE)) FROM patient",
    "SELECT COUNT(*) FROM patient WHERE CAST(income AS TINYINT) > 0",
    "SELECT COUNT(*) FROM patient WHERE CAST(income AS DECIMAL(3,2)) > 0",
    "SELECT SUM(CAST(income * 10 AS SMALLINT)) FROM patient",
    f"SELECT COUNT(*) FROM patient WHERE LN(age - {VICTIM_AGE}) > 0 OR SQRT({VICTIM_AGE - 1} - age) > 0",
    "SELECT COUNT(*) FROM patient WHERE -code > 0 AND ABS(code) > 0 AND code * code * 4 > 0",
    "SELECT COUNT(*) FROM patient WHERE born + INTERVAL 9000 YEAR > born",
    "SELECT COUNT(*) FROM patient WHERE born - DATE '9999-12-31' > 0",
    "SELECT COUNT(*) FROM patient WHERE EXP(EXP(age)) > 1 AND POW(age, 1000) > 1 AND POW(income, -0.5) > 1",
    "SELECT COUNT(*) FROM patient WHERE SUBSTRING(note, -9999, 9999) = LEFT(note, -3)",
    "SELECT SUM(age * 9223372036854775807) FROM patient",
    "SELECT SUM(age) * 9223372036854775807.0 FROM patient",
    "SELECT SUM(income * 1e306), AVG(income * 1e306), COUNT(income * 1e306) FROM patient",
    "SELECT SUM(weight * 1e305) FROM patient",
    "SELECT COUNT(*) FROM visit WHERE days * days * days * days > 0",
    "SELECT AVG(days * 4611686018427387904) FROM visit",
    # Limits that the argument's own type cannot hold: an engine that casts them raises as soon as there is a row.
    "SELECT dp_sum(score, lower := 100000, upper := 200000) FROM patient WHERE note = '" + NAME + "'",
    "SELECT dp_sum(score, lower := -200000, upper := -100000) FROM patient WHERE note = '" + NAME + "'",
    "SELECT dp_sum(score, lower := 9999.99, upper := 9999.99) FROM patient WHERE note = '" + NAME + "'",
    "SELECT dp_sum(age, lower := 5000000000, upper := 6000000000) FROM patient",
    "SELECT dp_sum(days, lower := -99999999999999999999, upper := 99999999999999999999) FROM visit",
    "SELECT dp_sum(income, lower := 0, upper := 5e-324) FROM patient",
    "SELECT dp_sum(income, lower := -8e307, upper := 8e307) FROM patient",
    # The secret that orders what a limit cuts stands in the engine SQL as `$cut`.
    "SELECT COUNT(*) FROM visit WHERE tag = '$cut' OR tag LIKE '%''$cut''%'",
    "SELECT CASE WHEN tag = 't1' THEN '$cut' ELSE '{}' END AS k, COUNT(*) FROM visit GROUP BY 1",
    'SELECT COUNT(*) FROM visit AS "$cut" WHERE "$cut".year = 2',
]
REFUSED = [
    "SELECT COUNT(*) FROM patient WHERE error(note) IS NULL",
    "SELECT COUNT(*) FROM patient WHERE factorial(age) > 0",
    "SELECT COUNT(*) FROM patient WHERE 1 << age > 0",
    "SELECT COUNT(*) FROM patient WHERE to_timestamp(income) > born",
    "SELECT COUNT(*) FROM patient WHERE regexp_matches(city, note)",
    "SELECT COUNT(*) FROM patient WHERE city LIKE note",
    "SELECT COUNT(*) FROM patient WHERE note LIKE 'x' ESCAPE 'é'",
    "SELECT COUNT(*) FROM patient WHERE note LIKE 'x!' ESCAPE '!'",
    "SELECT COUNT(*) FROM patient WHERE repeat(note, age) = ''",
    "SELECT SUM(income * 1e308) FROM patient",
    "SELECT dp_sum(income, lower := 0, upper := 1.7976931348623157e308) FROM patient",
    "SELECT COUNT(*) FROM patient WHERE CAST(code AS HUGEINT) * 99999999999999999999999999999999999999 > 0",
    "SELECT COUNT(*) FROM patient WHERE score * 0.00000000000000000000000000000000000001 > 0",
]


@pytest.mark.slow
def test_a1_a2_no_statement_fails_on_some_rows_only() -> None:
    """A division by one person's age, a cast of a name: the same outcome whoever is in the data."""
    for sql, found in everywhere(HARMLESS).items():
        assert all(one == found[0] for one in found), sql
        assert found[0].error is None, (sql, found[0])


@pytest.mark.slow
def test_a1_a2_what_could_fail_is_refused_before_the_engine() -> None:
    """Functions that raise on some value, and arithmetic that no type is wide enough for."""
    for sql, found in everywhere(REFUSED).items():
        assert (
            found[0].error is not None and found[0].error[0] is not dpsql.OperationalError and found[0].epsilon == 0
        ), sql
        assert all(one == found[0] for one in found), sql


def test_a2_a_sum_beyond_double_is_still_a_number() -> None:
    """Noise on top of the largest numbers must not leave the type that is returned."""
    with opened(all_databases()["D"]) as connection:
        for sql in (
            "SELECT SUM(income * 1e306), AVG(income * 1e306) FROM patient",
            "SELECT dp_sum(CAST(age AS HUGEINT), lower := 0, upper := 170141183460469231731687303715884105727) FROM patient",
            "SELECT dp_sum(CAST(age AS DECIMAL(38,0)), lower := 0, upper := 99999999999999999999999999999999999999) FROM patient",
        ):
            for _ in range(5):
                row = connection.execute(sql).fetchall()[0]
                assert all(cell is None or abs(float(cell)) < float("inf") for cell in row), sql  # type: ignore[arg-type]


def test_a1_keys_wider_than_their_named_type_are_returned() -> None:
    """DuckDB names INTEGER * INTEGER an INTEGER; keys beyond it, once paid for, must not be lost."""
    with opened(all_databases()["Dn"]) as connection:
        sql = "/* dpsql: epsilon=1000 */ SELECT age // 10 * 1000000000 AS k, COUNT(*) FROM patient GROUP BY k"
        keys = [row[0] for row in connection.execute(sql).fetchall()]
        assert 3 * 10**9 in keys
        selected = connection.execute(
            "/* dpsql: epsilon=1000 */ SELECT CAST(tag = 't1' AS INTEGER) * 2000000000 * 2 AS k, COUNT(*) FROM visit GROUP BY k"
        )
        assert 4 * 10**9 in [row[0] for row in selected.fetchall()]
        squares = connection.execute(
            "/* dpsql: epsilon=1000 */ SELECT (code + 60000) * (code + 60000) AS k, COUNT(*) FROM patient GROUP BY k"
        )
        assert 60000**2 in [row[0] for row in squares.fetchall()]
