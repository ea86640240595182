"""COUNT(DISTINCT x): one unit moves the counts by no more than claimed, and where no limit binds they are the plain counts."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from itertools import product
from pathlib import Path

import duckdb
import pytest

from dpsql.aggregates.base import Limits
from dpsql.aggregates.distinct_values import DistinctValues, combination, declared_values, matched
from dpsql.core.domains import UNBOUNDED, Categories
from dpsql.core.errors import Error
from dpsql.core.sqltypes import BOOLEAN, INTEGER, VARCHAR
from dpsql.engines import base
from dpsql.engines.base import ExactTable
from dpsql.engines.duckdb import fetch
from dpsql.engines.duckdb.locked import ask
from dpsql.expressions import scalar
from dpsql.mechanisms.laplace import DiscreteLaplace
from dpsql.plan.compiled import CompiledRelease
from dpsql.plan.tables import KeyValue
from dpsql.planner.options import Options
from dpsql.planner.parse import parse
from dpsql.release.noisy import _taken
from dpsql.session.opening import open_session
from tests.support import clinic, staging
from tests.support.noise import RecordedNoise, ZeroNoise
from tests.support.opened import clinic_data
from tests.support.planning import compile_statement
from tests.support.trees import X

# --- the matching itself ------------------------------------------------------------------------------------------

Lists = dict[int, list[set[int]]]
"""Of each unit the values that it brings to each group."""
Taking = Callable[[list[int], list[int], list[int]], int]
ROWS, MOST = 4, 2


def capacities(own: list[set[int]]) -> list[int]:
    """Of one unit in each group: at most MOST, and at most ROWS in all; a function of its own values."""
    left, found = ROWS, []
    for values in own:
        found.append(min(len(values), MOST, left))
        left -= found[-1]
    return found


def by_value(lists: Lists, group: int) -> dict[int, int]:
    """The values in a fixed order that has nothing to do with the data."""
    return {value: value * 7 % 11 for own in lists.values() for value in own[group]}


def by_frequency(lists: Lists, group: int) -> dict[int, int]:
    """A fault: what most units bring comes first."""
    times = Counter(value for own in lists.values() for value in own[group])
    ordered = sorted(times, key=lambda value: (-times[value], value))
    return {value: i for i, value in enumerate(ordered)}


def counts(lists: Lists, order: Callable[[Lists, int], dict[int, int]], take: Taking) -> list[int]:
    """The counts of each group."""
    found = []
    for group in range(len(next(iter(lists.values()), []))):
        numbers = order(lists, group)
        entries = [
            (numbers[value], capacities(own)[group], unit * 5 % 13)
            for unit, own in lists.items()
            for value in own[group]
        ]
        entries = [entry for entry in entries if entry[1]]
        random.Random(group).shuffle(entries)
        found.append(take([e[0] for e in entries], [e[1] for e in entries], [e[2] for e in entries]))
    return found


def violations(order: Callable[[Lists, int], dict[int, int]], take: Taking, cases: int) -> int:
    """In how many cases removing one unit moves the counts otherwise than by 0 to its capacities."""
    chance, found = random.Random(0), 0
    for _ in range(cases):
        groups, different = chance.randint(1, 4), chance.choice([3, 6, 11])
        lists = {
            unit: [{value for value in range(different) if chance.random() < 0.4} for _ in range(groups)]
            for unit in range(chance.randint(1, 9))
        }
        whole = counts(lists, order, take)
        for unit, own in lists.items():
            rest = counts({u: values for u, values in lists.items() if u != unit}, order, take) or [0] * groups
            moved = [before - after for before, after in zip(whole, rest, strict=True)]
            claimed = capacities(own)
            if any(not 0 <= m <= c for m, c in zip(moved, claimed, strict=True)) or sum(claimed) > ROWS:
                found += 1
                break
    return found


def test_one_unit_moves_each_group_by_its_capacity_at_most() -> None:
    assert violations(by_value, matched, 400) == 0


def test_planted_faults_are_caught() -> None:
    """An order that others decide; a capacity that nobody looks at."""
    assert violations(by_frequency, matched, 400) > 0
    assert violations(by_value, lambda values, _, turns: matched(values, [99] * len(values), turns), 400) > 0


def test_all_values_are_counted_where_capacity_reaches_and_at_least_half_of_what_could_be_else() -> None:
    chance = random.Random(1)
    for _ in range(200):
        pairs = [(chance.randint(0, 9), unit) for unit in range(6) for _ in range(chance.randint(1, 6))]
        chance.shuffle(pairs)
        values, units = [v for v, _ in pairs], [u for _, u in pairs]
        assert matched(values, [9] * len(pairs), units) == len(set(values))
        one_each = matched(values, [1] * len(pairs), units)
        assert min(len(set(values)), len(set(units))) / 2 <= one_each <= min(len(set(values)), len(set(units)))
    assert matched([], [], []) == 0


# --- through the engine -------------------------------------------------------------------------------------------


def compiled(folder: Path, sql: str, unit: str = "patient") -> CompiledRelease:
    return compile_statement(parse(sql), Options(), clinic.schema(folder, unit=unit)).releases[0]


def taken(connection: duckdb.DuckDBPyConnection, part: CompiledRelease, sql: str) -> dict[tuple[KeyValue, ...], int]:
    """The counts of each group, from engine SQL."""
    columns = fetch.columns(ask(connection, sql, "5e"), part.key_columns + 3)
    keys, numbers = columns[: part.key_columns], columns[part.key_columns :]
    return _taken(ExactTable(tuple(map(base.key_column, keys)), tuple(map(base.integers, numbers))))


ASKED = [
    "SELECT COUNT(DISTINCT tag) FROM visit",
    "SELECT year, COUNT(DISTINCT tag) FROM visit GROUP BY year",
    "SELECT tag, COUNT(DISTINCT days) FILTER (WHERE cost > 10) FROM visit GROUP BY tag",
    "SELECT site, COUNT(DISTINCT cost + days) FROM patient JOIN visit USING (patient_id) GROUP BY site",
    "SELECT drug, COUNT(DISTINCT batch) FROM item GROUP BY drug",
    "SELECT year, COUNT(DISTINCT city) FROM patient JOIN visit USING (patient_id) GROUP BY year",
    "SELECT COUNT(DISTINCT tag, days) FROM visit",
    "SELECT year, COUNT(DISTINCT (tag, cost)) FILTER (WHERE days > 5) FROM visit GROUP BY year",
]
LIMITS = ["", "max_rows=2", "max_values=1", "max_rows=3, max_groups=2, max_values=2", "max_rows=9"]


@pytest.mark.slow
@pytest.mark.parametrize("sql", ASKED)
def test_one_person_moves_the_engines_counts_by_what_is_claimed(sql: str, tmp_path: Path) -> None:
    """All of it: DISTINCT, the cut of capacities, the two orders, over generated databases with heavy patients."""
    chance = random.Random(len(sql))
    parts = [compiled(tmp_path, f"/* dpsql: {limits} */ {sql}" if limits else sql) for limits in LIMITS]
    connection, moves = staging.opened(clinic.schema(tmp_path), threads=1), 0
    for _ in range(12):
        data = clinic.database(chance)
        clinic.fill(connection, data)
        whole = [taken(connection, part, part.matchings[0].sql) for part in parts]
        for person in data["patient"]:
            clinic.fill(connection, clinic.without(data, person[0]))
            for part, before in zip(parts, whole, strict=True):
                after = taken(connection, part, part.matchings[0].sql)
                moved = [before.get(key, 0) - after.get(key, 0) for key in {*before, *after}]
                claimed = part.release.measures[-1].sensitivity
                assert all(0 <= m <= claimed.linf for m in moved), (sql, moved)
                assert sum(m > 0 for m in moved) <= claimed.l0 and sum(moved) <= claimed.l1, (sql, moved)
                assert sum(m * m for m in moved) <= claimed.l2_squared, (sql, moved)
                moves += sum(moved)
    assert moves


def ample(chance: random.Random) -> clinic.Database:
    """A database in which nobody has more rows than are declared, and values and keys are as odd as they may be."""
    data = clinic.database(chance)
    visits, rows = [], Counter[object]()
    for visit in data["visit"]:
        rows[visit[1]] += 1
        if rows[visit[1]] <= 3:
            visits.append(visit)
    return {**data, "visit": visits, "item": []}


PLAIN = [
    "COUNT(DISTINCT tag)",
    "COUNT(DISTINCT upper(tag))",
    "COUNT(DISTINCT days)",
    "COUNT(DISTINCT days % 2)",
    "COUNT(DISTINCT days > 5)",
    "COUNT(DISTINCT tag) FILTER (WHERE days > 5)",
    "COUNT(DISTINCT CASE WHEN days > 0 THEN tag END)",
    "COUNT(DISTINCT visit_id)",
    "COUNT(DISTINCT 1)",
    "COUNT(DISTINCT NULL)",
    "COUNT(DISTINCT cost) FILTER (WHERE NOT isnan(cost))",
    "COUNT(DISTINCT -cost * 0) FILTER (WHERE isfinite(cost))",
    "COUNT(DISTINCT cost > 20)",
    "COUNT(DISTINCT tag), COUNT(*), COUNT(DISTINCT patient_id)",
    "COUNT(DISTINCT (tag, days))",
    "COUNT(DISTINCT (tag, days, year)) FILTER (WHERE days > 5), COUNT(DISTINCT tag)",
    "COUNT(DISTINCT ((tag)))",
    "COUNT(DISTINCT (tag, NULL))",
]


Both = list[tuple[clinic.Database, duckdb.DuckDBPyConnection]]


@pytest.fixture(scope="module")
def databases() -> Both:
    chance = random.Random(7)
    found = [(ample(chance), duckdb.connect(config={"threads": 1})) for _ in range(8)]
    for data, connection in found:
        clinic.fill(connection, data)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("asked", PLAIN)
def test_where_no_limit_binds_it_is_the_plain_count(asked: str, databases: Both) -> None:
    for data, connection in databases:
        known = "FROM visit WHERE patient_id IS NOT NULL"
        total = connection.execute(f"SELECT {asked} {known}").fetchall()
        years = f"SELECT year, {asked} {known} AND year <= 4 GROUP BY year ORDER BY year"
        by_year = connection.execute(years).fetchall()
        with clinic_data(clinic.schema_text(), data).without_noise() as session:
            assert session.execute(f"SELECT {asked} FROM visit").rows == total
            shown = session.execute(f"SELECT year, {asked} FROM visit GROUP BY year ORDER BY year").rows
        assert [row for row in shown if any(row[1:])] == [row for row in by_year if any(row[1:])]


def test_a_value_that_is_nan_is_none_and_there_is_one_zero(tmp_path: Path) -> None:
    rows: list[clinic.Row] = [
        (i, 1000 + i, 1, value, 1, None) for i, value in enumerate([clinic.NAN, 0.0, -0.0, None, 7.0, clinic.INF])
    ]
    people = clinic.database(random.Random(3), wild=False)["patient"]
    people = [(1000 + i, *people[0][1:]) for i in range(6)]
    clinic.write(tmp_path, {"patient": people, "visit": rows, "item": [], "drug": []})
    session = open_session(clinic.schema(tmp_path), None, ":memory:", noise=ZeroNoise())
    assert session.execute("SELECT COUNT(DISTINCT cost), COUNT(DISTINCT tag), COUNT(cost) FROM visit").rows == [
        (3, 0, 4)
    ]
    session.close()


@pytest.mark.parametrize("kept", ["", " FILTER (WHERE days > 5)"])
def test_several_values_are_none_where_one_is_null(kept: str, databases: Both) -> None:
    """As other engines have it; DuckDB takes one value alone."""
    for data, connection in databases:
        there = "tag IS NOT NULL AND days IS NOT NULL AND NOT isnan(cost) AND patient_id IS NOT NULL"
        plain = f"SELECT COUNT(DISTINCT (tag, days, cost)){kept} FROM visit WHERE {there}"
        with clinic_data(clinic.schema_text(), data).without_noise() as session:
            found = session.execute(f"SELECT COUNT(DISTINCT tag, days, cost){kept} FROM visit")
            assert found.rows == connection.execute(plain).fetchall()
            # as tools send it that print it for DuckDB
            case = "CASE WHEN tag IS NULL THEN NULL WHEN days IS NULL THEN NULL WHEN cost IS NULL THEN NULL ELSE (tag, days, cost) END"
            assert session.execute(f"SELECT COUNT(DISTINCT {case}){kept} FROM visit").rows == found.rows
            in_one = session.execute(
                "SELECT SUM(n) FROM (SELECT patient_id, COUNT(DISTINCT tag, days) AS n FROM visit GROUP BY 1)"
            )
            by_person = f"SELECT COUNT(DISTINCT (tag, days)) AS n FROM visit WHERE {there} GROUP BY patient_id"
            both = connection.execute(f"SELECT SUM(n) FROM ({by_person.replace('NOT isnan(cost)', 'TRUE')})").fetchall()
            assert in_one.rows == [(int(row[0] or 0),) for row in both]
        assert found.columns[0][0] == f"count(DISTINCT tag, days, cost){kept.replace('FILTER (', 'FILTER(')}"


def test_with_keys_that_are_selected(tmp_path: Path) -> None:
    """Counts of the groups that are shown; those of the others are not."""
    visits: list[clinic.Row] = [
        (i, 1000 + i % 40, 1 + i % 2, 10.0, i % 5, "t1" if i % 40 < 30 else f"rare{i}") for i in range(80)
    ]
    patient = clinic.database(random.Random(3), wild=False)["patient"][0]
    people = [(1000 + i, *patient[1:]) for i in range(40)]
    clinic.write(tmp_path, {"patient": people, "visit": visits, "item": [], "drug": []})
    session = open_session(clinic.schema(tmp_path), None, ":memory:", noise=ZeroNoise())
    sql = "/* dpsql: epsilon=20, delta=0.1, max_groups=1 */ SELECT tag, COUNT(DISTINCT days), COUNT(*) FROM visit GROUP BY tag"
    assert session.execute(sql).rows == [("t1", 5, 60)]
    session.close()


# --- sensitivity and noise ----------------------------------------------------------------------------------------


@pytest.mark.few(5)
@pytest.mark.parametrize(
    ("limits", "asked", "claimed"),
    [
        ("", "SELECT COUNT(DISTINCT tag) FROM visit", (1, 3, 3, 9)),
        ("max_values=1", "SELECT COUNT(DISTINCT tag) FROM visit", (1, 1, 1, 1)),
        ("max_values=2", "SELECT year, COUNT(DISTINCT tag) FROM visit GROUP BY year", (3, 2, 3, 6)),
        ("max_values=1", "SELECT year, COUNT(DISTINCT tag) FROM visit GROUP BY year", (3, 1, 3, 3)),
        ("max_values=1, max_groups=2", "SELECT year, COUNT(DISTINCT tag) FROM visit GROUP BY year", (2, 1, 2, 2)),
        ("max_values=9", "SELECT COUNT(DISTINCT tag) FROM visit", (1, 3, 3, 9)),
        # two values are declared, so nobody brings a third
        ("", "SELECT COUNT(DISTINCT days > 3) FROM visit", (1, 2, 2, 4)),
        # two truth values, or none
        ("", "SELECT COUNT(DISTINCT days > 3, cost > 9) FROM visit", (1, 3, 3, 9)),
        # one person has one city
        (
            "",
            "SELECT year, COUNT(DISTINCT city) FROM patient JOIN visit USING (patient_id) GROUP BY year",
            (3, 1, 3, 3),
        ),
        # one person is one row
        ("", "SELECT COUNT(DISTINCT city) FROM patient", (1, 1, 1, 1)),
        ("max_values=5", "SELECT site, COUNT(DISTINCT note) FROM patient GROUP BY site", (1, 1, 1, 1)),
    ],
)
def test_the_scale_is_the_smaller_of_rows_and_values_times_groups(
    limits: str, asked: str, claimed: tuple[int, ...], tmp_path: Path
) -> None:
    sql = f"/* dpsql: {'epsilon=0.5' + (', ' + limits if limits else '')} */ {asked}"
    part = compiled(tmp_path, sql)
    (measure,) = part.release.measures
    s = measure.sensitivity
    assert (s.l0, s.linf, s.l1, s.l2_squared) == claimed
    assert measure.noise == DiscreteLaplace(claimed[2] / Fraction(1, 2))
    noise = RecordedNoise()
    session = clinic_data(clinic.schema_text(), clinic.database(random.Random(2))).session(noise)
    rows = session.execute(sql).rows
    session.close()
    assert noise.drawn == [("laplace", claimed[2] / Fraction(1, 2), len(rows))]


def test_several_values_have_as_many_combinations_as_are_declared() -> None:
    """NULL is one more of each."""
    truth = scalar.column(X, BOOLEAN, UNBOUNDED, nullable=True)
    site = scalar.column(X, INTEGER, Categories(tuple(map(Fraction, (1, 2, 3)))))
    assert declared_values(combination([truth, site], whole=True)) == 12
    assert declared_values(combination([truth, scalar.column(X, VARCHAR, UNBOUNDED, length=9)], whole=True)) is None


def test_row_level(tmp_path: Path) -> None:
    part = compiled(tmp_path, "SELECT site, COUNT(DISTINCT note) FROM patient GROUP BY site", "row")
    assert part.release.measures[0].sensitivity.l1 == 1 and not part.matchings and part.sum_columns == 1


def test_the_price_is_shared_and_gaussian_noise_takes_l2(tmp_path: Path) -> None:
    sql = "/* dpsql: mechanism=gaussian, max_values=2 */ SELECT year, COUNT(DISTINCT tag), COUNT(*) FROM visit GROUP BY year"
    part = compiled(tmp_path, sql)
    first, second = part.release.measures
    assert first.loss == second.loss and first.loss.rho > 0
    assert first.sensitivity.l2_squared == 6 and second.sensitivity.l2_squared == 9
    assert part.sum_columns == 1 and [m.measure for m in part.matchings] == [0]


def test_the_claim_is_the_most_that_capacities_allow() -> None:
    """Over all capacities of at most `most` in each of some groups, and of at most `rows` in all."""
    value = scalar.column(X, VARCHAR, UNBOUNDED, length=9)
    for rows, groups, most in product(range(1, 5), range(1, 5), range(1, 5)):
        s = DistinctValues(value, None, most).sensitivity(Limits(rows, groups))
        vectors = [v for v in product(range(most + 1), repeat=groups) if sum(v) <= rows]
        assert s.l0 == max(sum(n > 0 for n in v) for v in vectors)
        assert s.linf == max(max(v) for v in vectors) and s.l1 == max(sum(v) for v in vectors)
        assert max(sum(n * n for n in v) for v in vectors) <= s.l2_squared <= s.linf * s.l1


# --- verified data ------------------------------------------------------------------------------------------------


@pytest.mark.few(2)
@pytest.mark.parametrize("seed", range(4))
def test_shorter_sql_counts_the_same(seed: int, tmp_path: Path) -> None:
    chance, connection = random.Random(seed), duckdb.connect()
    compared = 0
    for asked in ASKED[:4]:
        part = compiled(tmp_path, asked)
        clinic.fill(connection, {**ample(chance), "item": []})
        connection.execute(
            "DELETE FROM visit WHERE patient_id NOT IN (SELECT patient_id FROM patient) OR patient_id IS NULL"
        )
        (matching,) = part.matchings
        for short in matching.verified:
            both = [taken(connection, part, text) for text in (matching.sql, short.sql)]
            shown = [{key: n for key, n in one.items() if n} for one in both]
            assert shown[0] == shown[1], asked
            compared += 1
    assert compared
    short_of = [compiled(tmp_path, f"/* dpsql: {x} */ {ASKED[0]}") for x in ("max_rows=2", "max_values=2")]
    assert not any(part.matchings[0].verified for part in short_of)


# --- what is refused ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ("SELECT COUNT(DISTINCT tag, *) FROM visit", "101"),
        ("SELECT COUNT(DISTINCT patient_id, tag) FROM visit", "102"),
        ("SELECT COUNT(DISTINCT *) FROM visit", "101"),
        ("SELECT COUNT(DISTINCT patient_id + 0) FROM visit", "102"),
        (
            "SELECT COUNT(DISTINCT v.patient_id + 1) FROM patient p LEFT JOIN visit v ON v.patient_id = p.patient_id",
            "102",
        ),
        ("SELECT COUNT(DISTINCT SUM(days)) FROM visit", "109"),
        ("SELECT year, COUNT(DISTINCT tag) FROM visit GROUP BY ROLLUP (year)", "102"),
        ("/* dpsql: max_values=0 */ SELECT COUNT(DISTINCT tag) FROM visit", "104"),
        ("/* dpsql: epsilon=1e-17 */ SELECT COUNT(DISTINCT tag) FROM visit", "202"),
    ],
)
def test_refused(sql: str, code: str, tmp_path: Path) -> None:
    with pytest.raises(Error) as refused:
        compiled(tmp_path, sql)
    assert refused.value.code == f"DPSQL-{code}"
