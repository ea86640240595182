"""Without noise: empty tables, NULL and NaN, declared and selected keys, generated statements, options, the examples."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import duckdb
import pytest

from dpsql.core.errors import Error
from dpsql.schema.toml import read_schema
from dpsql.session.opening import open_session
from tests.semantics.plain import UNLIMITED, Beside, beside, close, guarded, tolerances
from tests.semantics.test_statements import crowded
from tests.support import clinic
from tests.support.generate import CONDITIONS, KEYS, UNITS, value
from tests.support.noise import ZeroNoise
from tests.support.statements import read

EXAMPLES = Path(__file__).parents[2] / "examples"
NOTHING: clinic.Database = {name: [] for name in clinic.DDL}


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    opened = beside(tmp_path_factory.mktemp("crowded"), crowded(11))
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def nobody(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    opened = beside(tmp_path_factory.mktemp("nobody"), NOTHING)
    yield opened
    opened.close()


# --- empty tables -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SELECT COUNT(*), COUNT(income), COUNT(DISTINCT patient_id) FROM patient", [(0, 0, 0)]),
        ("SELECT SUM(age), SUM(income), SUM(score) FROM patient", [(0, 0.0, Decimal("0.00"))]),
        ("SELECT AVG(age), AVG(income) FROM patient", [(None, None)]),
        ("SELECT SUM(cost), AVG(cost), COUNT(*) FROM visit", [(0.0, None, 0)]),
        ("SELECT site, COUNT(*) FROM patient GROUP BY site", [(1, 0), (2, 0), (3, 0)]),
        ("SELECT city, COUNT(*) FROM patient GROUP BY city", [("a", 0), ("b", 0), ("c", 0), (None, 0)]),
        ("SELECT female, SUM(age) FROM patient GROUP BY female", [(False, 0), (True, 0), (None, 0)]),
        ("SELECT note, COUNT(*) FROM patient GROUP BY note", []),
        ("SELECT site, COUNT(*) FROM patient GROUP BY site HAVING COUNT(*) > 0", []),
        ("SELECT COUNT(*) + 1 FROM patient", [(1,)]),
        ("SELECT DISTINCT COUNT(*) FROM patient GROUP BY site", [(0,)]),
        ("SELECT COUNT(*) FROM patient WHERE FALSE", [(0,)]),
    ],
)
def test_an_empty_table_is_an_answer(sql: str, rows: list[tuple[object, ...]], nobody: Beside) -> None:
    assert nobody.ask(sql).rows == rows


def test_types_and_names_do_not_depend_on_the_data(both: Beside, nobody: Beside) -> None:
    sql = "SELECT city, COUNT(*), SUM(score), AVG(age), SUM(age), SUM(income) FROM patient GROUP BY city"
    assert both.ask(sql).columns == nobody.ask(sql).columns


# --- keys ---------------------------------------------------------------------------------------------------------------


def test_every_declared_key_appears_null_last_and_no_other(tmp_path: Path) -> None:
    data = crowded(3)
    rows = [list(row) for row in data["patient"]]
    for row in rows[:5]:
        row[1] = 7
    for row in rows[5:8]:
        row[1] = None
    for row in rows:
        row[7] = "zz" if row[7] == "b" else row[7]
    opened = beside(tmp_path, {**data, "patient": [tuple(row) for row in rows]})
    counts = {k: sum(row[1] == k for row in rows) for k in (1, 2, 3)}
    assert opened.ask("SELECT site, COUNT(*) FROM patient GROUP BY site").rows == list(counts.items())
    cities = {k: sum(row[7] == k for row in rows) for k in ("a", "b", "c", None)}
    assert cities["b"] == 0
    assert opened.ask("SELECT city, COUNT(*) FROM patient GROUP BY city").rows == list(cities.items())
    added_up = opened.ask("SELECT COUNT(*) FROM patient")
    # both are as exact, and which of the two is added up is no promise
    assert added_up.rows in ([(sum(counts.values()),)], [(sum(cities.values()),)])
    assert added_up.cached and "left out" in added_up.notes[0]
    assert opened.ask("/* dpsql: fresh */ SELECT COUNT(*) FROM patient").rows == [(60,)]
    opened.close()


@pytest.mark.parametrize(
    ("key", "where", "values"),
    [
        ("site", "site IN (1, 3)", [1, 3]),
        ("site", "site >= 2", [2, 3]),
        ("site", "site = 2", [2]),
        ("city", "city IN ('a', 'b')", ["a", "b"]),
        ("site % 2", "TRUE", [0, 1]),
        ("age // 40", "TRUE", [0, 1, 2]),
        ("CAST(FLOOR(income / 50) AS INTEGER)", "TRUE", [-1, 0, 1, 2]),
        ("age > 40", "TRUE", [False, True]),
        ("CASE WHEN age < 30 THEN 'young' WHEN age < 95 THEN 'old' END", "TRUE", ["old", "young", None]),
        ("EXTRACT(YEAR FROM born)", "born < DATE '1992-01-01'", [1990, 1991]),
        ("site * 10", "TRUE", [10, 20, 30]),
    ],
)
def test_which_keys_appear(key: str, where: str, values: list[object], both: Beside) -> None:
    sql = f"SELECT {key} AS k, COUNT(*) AS n FROM patient WHERE {where} GROUP BY k"
    answer = both.ask(sql)
    assert [row[0] for row in answer.rows] == values
    expected = dict(both.expect(sql))
    assert dict(answer.rows) == {k: expected.get(k, 0) for k in values}


def test_selected_keys_are_those_of_two_people_in_their_own_order(both: Beside) -> None:
    for key in ("note", "code"):
        sql = f"SELECT {key}, COUNT(*), SUM(age) FROM patient GROUP BY {key}"
        enough = f" HAVING COUNT(DISTINCT patient_id) >= 2 ORDER BY {key} NULLS LAST"
        assert both.ask(sql).rows == both.expect(sql + enough)


# --- NULL and NaN -------------------------------------------------------------------------------------------------------


def test_nan_counts_like_null(tmp_path: Path) -> None:
    chance = random.Random(5)
    data = crowded(5)
    holes = {
        name: [
            tuple(clinic.NAN if i in places and chance.random() < 0.3 else v for i, v in enumerate(r))
            for r in data[name]
        ]
        for name, places in (("patient", (3, 4)), ("visit", (3,)))
    }
    nulls = {name: [tuple(None if v != v else v for v in row) for row in rows] for name, rows in holes.items()}
    opened = beside(tmp_path, {**data, **holes}, plain={**data, **nulls})
    for sql in (
        "SELECT COUNT(*), COUNT(income), SUM(income), AVG(income) FROM patient",
        "SELECT COUNT(weight), AVG(weight) FROM patient",
        "SELECT SUM(income) FROM patient",
        "SELECT SUM(income * 2), AVG(ABS(weight)), SUM(-income) FROM patient",
        "SELECT site, COUNT(income), SUM(weight), COUNT(*) FROM patient GROUP BY site",
        "SELECT COUNT(cost), SUM(cost), COUNT(*) FROM visit",
        "SELECT year, AVG(cost), COUNT(*) FROM visit GROUP BY year",
        "SELECT SUM(CAST(income AS INTEGER)) FROM patient",
    ):
        opened.check(sql)
    opened.close()


# --- generated ----------------------------------------------------------------------------------------------------------


def generated(chance: random.Random) -> tuple[str, int]:
    """A grouped statement, and its number of keys."""
    table = chance.choice(["patient", "visit", "item"])
    argument = value(chance, table)
    keys = chance.sample(
        [k for k in KEYS[table] if k not in ("note", "code", "tag", "batch")], chance.choice([0, 1, 1, 2])
    )
    aggregates = ["COUNT(*)", f"COUNT({argument})", f"SUM({argument})", f"AVG({argument})"]
    if table in UNITS:
        aggregates.append(f"COUNT(DISTINCT {UNITS[table]})")
    chosen = chance.sample(aggregates, chance.choice([1, 2, 3]))
    where = " AND ".join(chance.sample(CONDITIONS[table], chance.choice([0, 0, 1, 2])))
    columns = [f"{key} AS g{i}" for i, key in enumerate(keys)] + [f"{a} AS c{i}" for i, a in enumerate(chosen)]
    sql = f"SELECT {', '.join(columns)} FROM {table}" + (f" WHERE {where}" if where else "")
    return sql + (f" GROUP BY {', '.join(str(i + 1) for i in range(len(keys)))}" if keys else ""), len(keys)


@pytest.mark.slow
def test_generated_statements(both: Beside) -> None:
    chance = random.Random(2)
    checked = 0
    for _ in range(220):
        sql, keys = generated(chance)
        try:
            answer = both.ask(sql)
        except Error as refused:
            assert int(refused.code.removeprefix("DPSQL-")) < 500, sql
            continue
        compare(both, sql, keys, answer.rows)
        checked += 1
    assert checked > 180


def compare(both: Beside, sql: str, keys: int, rows: list[tuple[object, ...]]) -> None:
    """Every group of DuckDB is there with its values; the others are empty."""
    expected = {row[:keys]: row[keys:] for row in both.expect(sql)}
    found = {_key(row[:keys]): row[keys:] for row in rows}
    allowed = tolerances(both.session, sql, (), both.rows)[keys:]
    assert len(found) == len(rows), sql
    assert {_key(k) for k in expected} <= set(found), sql
    by_key = {_key(k): v for k, v in expected.items()}
    for key, cells in found.items():
        for position, cell in enumerate(cells):
            other = by_key[key][position] if key in by_key else None
            if other is None and cell is not None:
                assert cell == 0, f"{sql} {key} {cells}"
            else:
                assert close(cell, other, allowed[position]), f"{sql}\n{key} {cell!r} {other!r} {allowed[position]}"


def _key(values: tuple[object, ...]) -> tuple[object, ...]:
    """Dates and timestamps of a day, and whole numbers of any type, are one key."""
    return tuple(
        float(v) if isinstance(v, Decimal | float) else str(v)[:10] if hasattr(v, "year") else v for v in values
    )


# --- limits -------------------------------------------------------------------------------------------------------------


def clamped(number: object, low: float, high: float) -> float | None:
    if number is None or number != number:
        return None
    assert isinstance(number, int | float)
    return min(max(number, low), high)


@pytest.mark.few(1)
@pytest.mark.parametrize("limit", [1, 2, 3])
@pytest.mark.parametrize("seed", range(6))
def test_the_cut_of_an_ungrouped_statement_is_the_documented_one(seed: int, limit: int, tmp_path: Path) -> None:
    data = clinic.database(random.Random(seed), wild=True)
    opened = beside(tmp_path, data)
    by_unit: dict[object, list[clinic.Row]] = {}
    for visit in data["visit"]:
        if visit[1] is not None:
            by_unit.setdefault(visit[1], []).append(visit)
    rows = sum(min(len(visits), limit) for visits in by_unit.values())
    total = count = 0
    for visits in by_unit.values():
        days = [d for d in (clamped(v[4], -3, 30) for v in visits) if d is not None]
        kept = min(len(days), limit)
        count += kept
        if kept:
            whole = int(sum(days))
            scaled = whole if kept == len(days) else int(whole * kept / len(days))
            total += max(-3 * kept, min(30 * kept, scaled))
    option = f"/* dpsql: max_rows={limit} */ "
    assert opened.ask(option + "SELECT COUNT(*) FROM visit").rows == [(rows,)]
    assert opened.ask(option + "SELECT COUNT(days) FROM visit").rows == [(count,)]
    assert opened.ask(option + "SELECT SUM(days) FROM visit").rows == [(total,)]
    assert opened.ask(option + "SELECT SUM(days), COUNT(days) FROM visit").rows == [(total, count)]
    assert opened.ask(option + "SELECT COUNT(DISTINCT patient_id) FROM visit").rows == [(len(by_unit),)]
    grouped = opened.ask(option + "SELECT year, COUNT(*) AS n FROM visit GROUP BY year").rows
    inside = {unit: sum(v[2] in (1, 2, 3, 4) for v in visits) for unit, visits in by_unit.items()}
    assert sum(int(str(row[1])) for row in grouped) == sum(min(n, limit) for n in inside.values())
    opened.close()


def test_the_pair_keeps_its_share_of_rows_with_a_value(tmp_path: Path) -> None:
    """COUNT(*), COUNT(x) and SUM(x) of a unit of 6 rows, 4 with a value, cut to 3: 3 rows, 2 values, half the total."""
    visits: list[clinic.Row] = [(i, 1000, 1, 10.0, None if i < 2 else 10, "t1") for i in range(6)]
    data = {**crowded(1), "visit": visits, "item": []}
    opened = beside(tmp_path, data)
    sql = "/* dpsql: max_rows=3 */ SELECT COUNT(*), COUNT(days), SUM(days), AVG(days) FROM visit"
    assert opened.ask(sql).rows == [(3, 2, 20, 10.0)]
    opened.close()


# --- options and settings -----------------------------------------------------------------------------------------------


def test_settings_are_spent_and_forgotten(tmp_path: Path) -> None:
    opened = beside(tmp_path, crowded(1))
    assert opened.ask("SELECT COUNT(*) FROM patient").receipt.loss.epsilon == 10000
    opened.ask("SET dp_epsilon = 0.5")
    assert float(opened.ask("SELECT COUNT(*) FROM visit").receipt.loss.epsilon) == 0.5
    opened.ask("set DP_EPSILON to 0.25")
    assert float(opened.ask("SELECT COUNT(*) FROM item").receipt.loss.epsilon) == 0.25
    assert float(opened.ask("/* dpsql: epsilon=2 */ SELECT COUNT(*) FROM item").receipt.loss.epsilon) == 2
    sql = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 3, max_groups_contributed=1) year, COUNT(*) FROM visit GROUP BY 1"
    assert float(opened.ask("/* dpsql: epsilon=2 */ " + sql).receipt.loss.epsilon) == 3
    opened.ask("RESET dp_epsilon")
    assert opened.ask("SELECT SUM(age) FROM patient").receipt.loss.epsilon == 10000
    opened.close()


# --- the bundled examples -----------------------------------------------------------------------------------------------


BY_TOLERANCE = (
    "VAR_POP",
    "MEDIAN",
    "CORR",
    "MIN(income), MAX(income) FROM person GROUP",
    "dp_randomized_response",
    "MODE(",
)
"""Aggregates on a grid, chosen or turned round at random: tests/semantics/test_spread_and_rank.py has the tolerance of each."""


@pytest.mark.few(3)
@pytest.mark.parametrize(
    "sql",
    [
        s.sql
        for s in read("accept.sql")
        if s.schema == "randhie" and not s.parameters and not any(word in s.sql for word in BY_TOLERANCE)
    ]
    + [
        "SELECT plan, COUNT(*) FROM person GROUP BY plan",
        "SELECT child, AVG(age), COUNT(*) FROM person_year GROUP BY child",
    ],
)
def test_randhie(sql: str) -> None:
    _example("randhie", ("person", "person_year", "plan"), sql)


@pytest.mark.few(3)
@pytest.mark.parametrize(
    "sql",
    [
        *(s.sql for s in read("accept.sql") if s.schema == "nhefs"),
        "SELECT sex, COUNT(*) AS n, AVG(age) FROM patients GROUP BY sex ORDER BY sex",
        "SELECT CAST(education AS INTEGER) AS level, AVG(cholesterol) FROM patients GROUP BY 1 ORDER BY 1",
        "SELECT age // 10 * 10 AS decade, COUNT(*) FILTER (WHERE died_by_1992) AS died, COUNT(*) FROM patients GROUP BY 1 ORDER BY 1",
        "SELECT quit_smoking, AVG(weight_1982_kg - weight_1971_kg) FROM patients GROUP BY ALL ORDER BY ALL",
        "SELECT income_band, COUNT(*) FROM patients GROUP BY income_band ORDER BY 1",
    ],
)
def test_nhefs(sql: str) -> None:
    _example("nhefs", ("patients",), sql)


def _example(name: str, tables: tuple[str, ...], sql: str) -> None:
    """Answers that no limit and no threshold touches are DuckDB's own."""
    schema = read_schema(EXAMPLES / name / "schema.toml")
    # which would hide what is expected to be about few
    unguarded = replace(schema, guard=replace(schema.guard, mode="off"))
    session = open_session(unguarded, None, ":memory:", noise=ZeroNoise())
    try:
        answer = session.execute(sql)
        declared = ("SET", "EXPLAIN", "SHOW", "DESCRIBE", "SELECT MIN(income), MAX(income) FROM person;")
        unread = sql.startswith(declared) or "family_size" in sql or "information_schema" in sql
    except Error:
        unread = True
    if not unread:
        connection = duckdb.connect()
        for table in tables:
            connection.execute(f"CREATE VIEW {table} AS FROM '{EXAMPLES / name / table}.parquet'")
        plain = guarded(_as_plain(sql))
        expected = connection.execute(plain).fetchall()
        rows = 30_000
        margins = tolerances(session, sql, (), rows, len(answer.columns)) or [0.0] * len(answer.columns)
        order = (lambda r: r) if "ORDER BY" in sql else (lambda r: sorted(r, key=str))
        for one, other in zip(order(_present(expected, answer.rows)), order(expected), strict=True):
            assert all(close(a, b, t + 1e-6 * (t > 0)) for a, b, t in zip(one, other, margins, strict=True)), (
                one,
                other,
            )
        connection.close()
    session.close()


def _present(expected: list[tuple[object, ...]], found: list[tuple[object, ...]]) -> list[tuple[object, ...]]:
    """The rows found, without the declared keys that have no rows: DuckDB does not show those."""
    keys = {row[0] for row in expected}
    return [row for row in found if row[0] in keys or len(row) == 1 or any(v not in (0, None) for v in row[1:])]


def _as_plain(sql: str) -> str:
    """The statement without what only dpsql knows."""
    if "OPTIONS(" in sql:
        sql = sql.replace("WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=0.2, max_groups_contributed=1) ", "")
    return sql.replace("dp_sum(medical_usd, lower := 0, upper := 5000)", "SUM(LEAST(GREATEST(medical_usd, 0), 5000))")


def test_the_shell_gives_null_where_the_engine_would_raise() -> None:
    """Integer division by a released zero and casts that do not fit: the price is paid, so an answer comes back."""
    session = open_session(EXAMPLES / "randhie/schema.toml", None, ":memory:", ZeroNoise())
    sql = "SELECT 7 // COUNT(*) AS a, 7 % COUNT(*) AS b, CAST(COUNT(*) + 70000 AS SMALLINT) AS c FROM person WHERE income > 29999"
    assert session.execute(sql).rows == [(None, None, None)]
    session.close()


def test_keys_that_a_cast_makes_equal_are_one_group(both: Beside) -> None:
    """The outer query's values are not integers, so they equal no site: counts of nobody, and one key for all."""
    outer = "SELECT 2.0 + drug / 10 AS x FROM drug"
    answer = both.ask(f"SELECT x, (SELECT COUNT(*) FROM patient p WHERE p.site = q.x) FROM ({outer}) q")
    assert sorted(str(row[1]) for row in answer.rows) == ["0", "0", "0"]


def test_totals_of_a_sum_that_may_be_missing_are_refused(both: Beside) -> None:
    with pytest.raises(Error) as refused:
        both.ask("SELECT site, dp_sum(age, bounds := 'auto') FROM patient GROUP BY ROLLUP (site)")
    assert refused.value.code == "DPSQL-102"


# --- totals of one unit on a coarser grid than their type ------------------------------------------------------------------


@pytest.fixture(scope="module")
def stepped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    """An integer column whose declared step is 3, and values of that grid."""
    text = UNLIMITED.replace("bounds = [-3, 30]", "bounds = [-3, 30], step = 3")
    data = crowded(11)
    data["visit"] = [
        (*row[:4], row[4] if row[4] is None else int(str(row[4])) // 3 * 3, row[5]) for row in data["visit"]
    ]
    opened = beside(tmp_path_factory.mktemp("stepped"), data, text=text)
    yield opened
    opened.close()


WIDE = "CAST(year AS DECIMAL(38,30))"


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*) FROM (SELECT patient_id, SUM(days) AS m FROM visit GROUP BY patient_id) AS p WHERE m > 18",
        "SELECT COUNT(*) FROM (SELECT SUM(days) OVER (PARTITION BY patient_id) AS m FROM visit) AS p WHERE m > 18",
        f"SELECT COUNT(*) FROM (SELECT SUM({WIDE}) OVER (PARTITION BY patient_id) AS m FROM visit) AS p WHERE m > 8",
        f"SELECT COUNT(*) FROM (SELECT patient_id, SUM({WIDE}) AS m FROM visit GROUP BY patient_id) AS p WHERE m > 8",
        f"SELECT COUNT(*) FROM (SELECT patient_id, SUM({WIDE}) AS m FROM visit GROUP BY patient_id) AS p WHERE m BETWEEN 2 AND 8",
    ],
)
def test_a_total_of_one_unit_is_in_the_unit_of_its_values(sql: str, stepped: Beside) -> None:
    stepped.check(sql)
