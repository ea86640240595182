"""Registered functions give what the engine gives, or NULL where it raises; and patterns that are taken fail in no version of it."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from datetime import date, datetime
from fractions import Fraction
from pathlib import Path

import duckdb
import pytest

from dpsql.core.domains import Interval, hull, interval
from dpsql.core.errors import Error
from dpsql.core.sqltypes import DATE, VARCHAR
from dpsql.expressions.functions import BY_NAME
from dpsql.expressions.functions.patterns import groups_of
from dpsql.expressions.functions.record import Function
from dpsql.expressions.known import of_type
from dpsql.expressions.scalar import column
from dpsql.planner.options import Options
from dpsql.planner.parse import Query, parse
from dpsql.planner.resolve.scope import Scope
from dpsql.planner.total import derived
from dpsql.sql.nodes import Column
from tests.laws.test_scalars import built, check, scopes_of
from tests.support import clinic
from tests.support.functions import DATES, OF_VALUES, TEXTS, filled
from tests.support.planning import compile_statement
from tests.support.trees import text as text_of

COLUMNS = {**dict.fromkeys(TEXTS, "city"), **dict.fromkeys(DATES, "born")}
"""Of a patient, for the arguments of examples; numbers are ages."""
LETTERS = "ab()[]{}|*+?^$.\\dwbzBQ-:,19i "


@pytest.fixture(scope="module")
def scope(tmp_path_factory: pytest.TempPathFactory) -> Scope:
    return scopes_of(clinic.schema(tmp_path_factory.mktemp("clinic")))["patient"]


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    opened = duckdb.connect(config={"threads": "1"})
    clinic.fill(opened, clinic.database(random.Random(5), wild=False))
    yield opened
    opened.close()


def alike(ours: object, plain: object) -> bool:
    if isinstance(ours, float) and isinstance(plain, float):
        return math.isclose(ours, plain, rel_tol=1e-12, abs_tol=1e-12)
    if type(ours) is date and isinstance(plain, datetime):
        # of a date, a date or a timestamp, by the engine's version
        return ours == plain.date()
    return ours == plain or (ours is None and isinstance(plain, float) and not math.isfinite(plain))


@pytest.mark.few(20)
@pytest.mark.parametrize("function", OF_VALUES, ids=lambda f: f.name)
def test_a_function_gives_what_the_engine_gives(
    function: Function, scope: Scope, connection: duckdb.DuckDBPyConnection
) -> None:
    call = filled(function.example, lambda letter: COLUMNS.get(letter, "(age - 40)"))
    (scalar,) = built([call], scope)
    plain = call.replace("DATE_SUB(born, INTERVAL 7 DAY)", "born - INTERVAL 7 DAY")
    if function.name == "convert_timezone":
        plain = "CAST(born AS TIMESTAMP) AT TIME ZONE 'UTC' AT TIME ZONE 'Europe/Berlin'"
    rows = connection.execute(f"SELECT {text_of(scalar)}, TRY({plain}), count(*) OVER () FROM patient").fetchall()
    assert rows and all(alike(ours, plain) for ours, plain, _ in rows), call


@pytest.mark.parametrize(
    "call",
    [
        *(f"TIME_BUCKET(INTERVAL {period}, born)" for period in ("1 DAY", "10 DAY", "2 WEEK", "7 MONTH", "3 QUARTER", "5 YEAR")),
        *(f"TIME_BUCKET(INTERVAL {period}, CAST(born AS TIMESTAMP))" for period in ("36 HOUR", "90 MINUTE", "2 MONTH")),
        *(f"STRFTIME(born, '{form}')" for form in ("%Y-%m-%d", "%y/%-m", "%a %b", "%A, %B %%", "%j %u %w", "%I %p %H:%M:%S")),
        "STRFTIME('%Y', born)",
        *(f"DATE_PART('{part}', born)" for part in ("decade", "century", "isoyear", "yearweek")),
        *(f"DATE_TRUNC('{part}', CAST(born AS TIMESTAMP))" for part in ("hour", "minute", "second")),
        "POSITION('a' IN city)", "city SIMILAR TO '[a-c]+'", "(age, city) IN ((40, 'Ash'), (41, 'Bay'))", "age = ANY([40, 41])",
        "CAST(born AS TIMESTAMP) AT TIME ZONE 'Asia/Tokyo' AT TIME ZONE 'America/New_York'",
        "DATE_TRUNC('day', CAST(born AS TIMESTAMP) AT TIME ZONE 'UTC' AT TIME ZONE 'America/New_York')",
        "CAST(born AS TIMESTAMP) - TIMESTAMP '1990-01-01' > INTERVAL 20 MONTH", "LAST_DAY(CAST(born AS TIMESTAMP))",
        "REGEXP_REPLACE(city, '([aeiou])', '<\\1>', 'g')", "REGEXP_EXTRACT(city, '(.)(.)', 2)", "SPLIT_PART(city, 's', -1)",
        "born + age * INTERVAL 1 MONTH", "born - INTERVAL (age) WEEK", "CAST(born AS TIMESTAMP) + INTERVAL 90 MINUTE * age",
        "born - age",
        "born - 2 * INTERVAL '3 days'", "EXTRACT(epoch FROM born)",
        "DATE_PART('millisecond', CAST(born AS TIMESTAMP) + INTERVAL 1 SECOND)",
        "TRIM(BOTH 'Aey' FROM city)", "RTRIM(city, 'ye')", "TRIM(LEADING city FROM city)", "age <> ALL([40, 41])",
        "city SIMILAR TO LOWER('[A-C]') || '.*'", "REGEXP_MATCHES(city, '^' || CONCAT('a', REPLACE('x', 'x', '|B')))",
        "CONCAT(city, NULL, age, born)", "CONCAT_WS('-', city, NULL, age)", "LPAD(city, 2)", "RPAD(city, 9)", "LOG(2, age)",
    ],
)  # fmt: skip
def test_other_spellings(call: str, scope: Scope, connection: duckdb.DuckDBPyConnection) -> None:
    (scalar,) = built([call], scope)
    plain = call.replace("LPAD(city, 2)", "LPAD(city, 2, ' ')").replace("RPAD(city, 9)", "RPAD(city, 9, ' ')")
    rows = connection.execute(f"SELECT {text_of(scalar)}, {plain} FROM patient").fetchall()
    assert rows and all(alike(ours, other) for ours, other in rows), call
    check(connection, [scalar], "patient", declared=True)


DOCUMENTS = (
    '{"a": {"b": [7, "x"], "c-d": 0, "n": null, "e f": true}}',
    '{"a": 1e20, "a.b": 2, "": 3}', '[5, {"a": "t"}]', '"a"', "null", "", "{", "[" * 500,
    '{"a": "\\u0000\\u00e9\\n"}', '{"a": [1e9, -1e20, 1.0, -0, -0.0, 1E+20, 123456789012345678901234567890, 0.000001]}', None,
)  # fmt: skip


@pytest.mark.parametrize(
    "call",
    [
        "note ->> '$.a'", "note ->> 'a'", "note ->> '$.a.b[1]'", "note ->> '$.a.c-d'", "note ->> '$.a.\"e f\"'", "note ->> '$[1].a'",
        "note ->> '$'", "note ->> 'a.b'", "note ->> 0", "(note -> 'a') ->> '$.b[0]'", "note::JSON ->> 'a'", "JSON_VALID(note)",
        "JSON_EXTRACT_PATH_TEXT(note, '$.a')", "note ->> 'a' = '1' OR note ->> '$.a' LIKE '{%'",
    ],
)  # fmt: skip
def test_documents(call: str, scope: Scope) -> None:
    (scalar,) = built([call], scope)
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE patient AS SELECT unnest($1) AS note", [list(DOCUMENTS)])
        text, _ = derived(f"SELECT {text_of(scalar)} AS x FROM patient", {"patient": {"note": of_type(VARCHAR)}})
        ours = connection.execute(text).fetchall()
        plain = connection.execute(f"SELECT TRY({call}) FROM patient").fetchall()
    assert ours == plain and len(set(plain)) > 1


def test_a_part_of_a_document_is_not_longer_than_is_reckoned() -> None:
    chance = random.Random(4)
    numbers = [
        "1e20",
        "-1e20",
        "1e9",
        "1E9",
        "0",
        "-0",
        "1.0",
        "1e-9",
        "99e19",
        "0.1e21",
        "18446744073709551616",
        "1e308",
        "0e9",
    ]
    texts = [f"[{','.join([number] * 60)}]" for number in numbers]
    texts += [f"[{','.join(chance.choices(numbers, k=40))}]" for _ in range(200)]
    texts += [f"[{chance.randint(-99, 99)}.{chance.randint(0, 99)}e{chance.randint(-30, 30)}]" for _ in range(3_000)]
    with duckdb.connect() as connection:
        for text in texts:
            found = connection.execute("SELECT length(json_extract_string($1, '$'))", [text]).fetchone()
            assert found is not None and found[0] <= 5 * len(text), text


@pytest.mark.parametrize("path", ["$..a", "$.*", "$.a[*]", "/a", "", "$.", "$[", "$.a[1:2]", '$."a', "$a"])
def test_paths_that_the_engine_would_not_read_or_read_as_a_list_are_refused(path: str, tmp_path: Path) -> None:
    for call in (f"note ->> '{path}'", f"json_extract_string(note, '{path}')", f"(note -> '{path}') ->> 'a'"):
        with pytest.raises(Error, match="DPSQL-102: the path into a document"):
            parse(f"SELECT COUNT({call}) FROM patient")


@pytest.mark.parametrize("call", ["JSON_EXTRACT(note, '$.a')", "(note -> 'a')", "note ->> city"])
def test_what_is_no_text_of_a_document_is_refused_with_what_to_write(call: str) -> None:
    with pytest.raises(Error) as refused:
        parse(f"SELECT COUNT(*), MAX(a) FROM (SELECT {call} AS a FROM patient) AS t")
    assert refused.value.code == "DPSQL-102" and "$.key" in str(refused.value.hint)


@pytest.mark.parametrize("name", ["length", "LCASE", "Strpos", "std", "nvl", "IFF"])
def test_relations_and_columns_may_be_called_as_functions(name: str, tmp_path: Path) -> None:
    for sql in (f"WITH {name}(a) AS (SELECT 1) SELECT a FROM {name}", f"SELECT {name} FROM (SELECT 1) AS t({name})"):
        parsed = parse(sql)
        assert isinstance(parsed, Query) and "function " not in parsed.tree.sql("duckdb")


def test_a_with_query_may_be_called_as_a_function_of_other_engines() -> None:
    parsed = parse("WITH std(a) AS (SELECT 1) SELECT std.a, STD(b) FROM std, (SELECT 2 AS b) AS nvl(b)")
    assert isinstance(parsed, Query) and parsed.plain is None
    assert (
        parsed.tree.sql("duckdb")
        == "WITH std(a) AS (SELECT 1) SELECT std.a, STDDEV_POP(b) FROM std, (SELECT 2 AS b) AS nvl(b)"
    )


def test_the_last_day_of_the_last_month(connection: duckdb.DuckDBPyConnection) -> None:
    born = column(Column("", "born"), DATE, Interval(Fraction(-354_000), Fraction(2_932_894)))
    last = BY_NAME["last_day"].build(born)
    assert hull(BY_NAME["year"].build(last).domain) == interval(1000, 9999)


def test_no_pattern_that_is_taken_fails_in_the_engine(connection: duckdb.DuckDBPyConnection) -> None:
    chance = random.Random(3)
    taken = 0
    for _ in range(10_000):
        pattern = "".join(chance.choice(LETTERS) for _ in range(chance.randint(1, 9)))
        try:
            groups = groups_of(pattern)
        except Error:
            continue
        taken += 1
        connection.execute("SELECT regexp_extract('ab', $1, $2)", [pattern, groups]).fetchone()
    assert taken > 1_000


@pytest.mark.parametrize(
    "call",
    [
        "REGEXP_MATCHES(city, '(')", "REGEXP_MATCHES(city, 'a**')", "REGEXP_MATCHES(city, '(?=a)')", "REGEXP_MATCHES(city, '\\1')",
        "REGEXP_MATCHES(city, '(a{100}){100}')", "REGEXP_MATCHES(city, '[z-a]')", "REGEXP_MATCHES(city, note)",
        "REGEXP_MATCHES(city, 'a', 'x')",
        "REGEXP_REPLACE(city, 'a', '\\1')", "REGEXP_EXTRACT(city, 'a', 1)", "REPEAT(city, 5000)", "REPEAT(city, age)",
        "LPAD(city, 5, '')",
        "LPAD(city, 99999999, 'x')", "SPLIT_PART(city, 'a', age)", "STRFTIME(born, city)", "STRPTIME(city, '%Q')", "STRFTIME(born, '')",
        "STRPTIME(city, '%-Y')", "REGEXP_EXTRACT(city, '()()()()()()()()()()', 10)", "LOWER(city, city)",
        "born + weight * INTERVAL 1 DAY", "born + INTERVAL 20000 YEAR", "born + INTERVAL 99999999 DAY", "city ~ 'a'",
        "LIST_CONTAINS(city, 'a')",
        "(age, city) < (40, 'Ash')", "age > ALL([1])",
        "born AT TIME ZONE 'UTC' AT TIME ZONE 'Europe/Berlin'", "CAST(born AS TIMESTAMP) AT TIME ZONE 'UTC'",
        "CAST(born AS TIMESTAMP) AT TIME ZONE 'UTC' AT TIME ZONE 'Europe/Berlim'",
        "CAST(born AS TIMESTAMP) AT TIME ZONE 'UTC' AT TIME ZONE city", "CONVERT_TIMEZONE('UTC', 'Nowhere', CAST(born AS TIMESTAMP))",
        "MD5(city)", "AGE(born)", "DATE_ADD(born, 3)", "TIME_BUCKET(INTERVAL 0 DAY, born)", "TIME_BUCKET(INTERVAL 1 HOUR, born)",
    ],
)  # fmt: skip
def test_what_could_fail_or_grow_is_refused_before_it_is_asked(call: str, tmp_path: Path) -> None:
    with pytest.raises(Error, match=r"DPSQL-10[26]") as refused:
        compile_statement(parse(f"SELECT COUNT({call}) FROM patient"), Options(), clinic.schema(tmp_path))
    assert refused.value.hint
