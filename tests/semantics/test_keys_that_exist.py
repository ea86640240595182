"""The groups of a release are those that declarations and public tables allow: without noise the rows are plain DuckDB's, none more.

Every tuple that is allowed has rows here, but for those that a test names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import duckdb
import pytest

from dpsql.core.errors import Error
from dpsql.planner.resolve import key_inputs, key_lists, key_tuples
from dpsql.postprocess.sandbox import Sandbox
from dpsql.session.opening import open_session
from dpsql.session.session import Session
from tests.support.noise import ZeroNoise

SCHEMA = """
[dataset]
name = "shop"
source = "shop.duckdb"

[guard]
mode = "off"

[privacy]
unit = "customer.c_id"
epsilon = 1e12
delta = 0.9
query = { epsilon = 1000.0, delta = 1e-6 }
caps = { epsilon = 1e6, delta = 0.1 }
least = 1e-3

[tables.customer]
key = ["c_id"]
references = { country = "country.k_id" }
[tables.customer.columns]
c_id = { type = "BIGINT" }
country = { type = "INTEGER" }
site = { type = "INTEGER", domain = [1, 2, 3, 4, 5, 6] }
age = { type = "INTEGER", bounds = [0, 99] }
female = { type = "BOOLEAN", nullable = true }
city = { type = "VARCHAR", domain = ["a", "b", "c"], nullable = true }
rate = { type = "DECIMAL(4,2)", domain = [0.25, 0.5, 1.5] }
weight = { type = "DOUBLE", bounds = [0, 100] }

[tables.sale]
references = { c_id = "customer.c_id", item = "item.i_id", day = "calendar.d_id" }
max_rows_per_unit = 1000
[tables.sale.columns]
c_id = { type = "BIGINT" }
item = { type = "BIGINT" }
day = { type = "BIGINT" }
status = { type = "INTEGER", domain = [0, 1, 2, 3] }
sold_at = { type = "TIMESTAMP", bounds = [2023-01-01T00:00:00, 2024-12-31T23:59:59] }
sold_on = { type = "DATE", bounds = [2023-01-01, 2024-12-31] }

[tables.country]
public = true
key = ["k_id"]
[tables.item]
public = true
key = ["i_id"]
[tables.kind]
public = true
key = ["kind"]
[tables.calendar]
public = true
key = ["d_id"]
[tables.note]
public = true
key = ["status"]
"""
DATA = """
CREATE TABLE country AS SELECT range::INTEGER AS k_id, 'country ' || range AS k_name, 
    ['ASIA', 'EUROPE'][(range % 2 + 1)::INTEGER] AS k_region FROM range(8);
CREATE TABLE kind AS SELECT * FROM (VALUES ('book', 'paper'), ('map', 'paper'), ('song', 'sound')) AS t(kind, family);
CREATE TABLE item AS SELECT range AS i_id, ['book', 'map', 'song'][(range % 3 + 1)::INTEGER] AS kind, 'brand ' || (range % 6) AS brand
    FROM range(18);
CREATE TABLE calendar AS SELECT range AS d_id, DATE '2023-01-01' + range::INTEGER AS d_date,
    year(DATE '2023-01-01' + range::INTEGER)::INTEGER AS d_year, month(DATE '2023-01-01' + range::INTEGER)::INTEGER AS d_month
    FROM range(731);
CREATE TABLE note AS SELECT * FROM (VALUES (0, 'new'), (1, 'paid'), (2, 'sent')) AS t(status, told);
CREATE TABLE customer AS SELECT range AS c_id, (range % 8)::INTEGER AS country, (range % 6 + 1)::INTEGER AS site,
    (range * 7 % 100)::INTEGER AS age, [true, false, NULL][(range // 6 % 3 + 1)::INTEGER] AS female,
    ['a', 'b', 'c', NULL][(range // 18 % 4 + 1)::INTEGER] AS city, [0.25, 0.5, 1.5][(range % 3 + 1)::INTEGER]::DECIMAL(4,2) AS rate,
    (range * 13 % 101)::DOUBLE AS weight FROM range(1440);
CREATE TABLE sale AS SELECT range % 1440 AS c_id, (range * 5 + range // 1440 * 7) % 18 AS item, range % 731 AS day,
    (range // 1440 % 4)::INTEGER AS status,
    TIMESTAMP '2023-01-01' + to_minutes((range * 37 % 1052640)::INTEGER) AS sold_at,
    DATE '2023-01-01' + (range % 731)::INTEGER AS sold_on FROM range(60000);
"""


@dataclass(frozen=True, slots=True)
class Beside:
    session: Session
    plain: duckdb.DuckDBPyConnection

    def check(self, sql: str) -> list[str]:
        """EXPLAIN's words on the groups, after the rows were compared."""
        found, expected = self.session.execute(sql).rows, self.plain.execute(sql).fetchall()
        assert sorted(map(repr, found)) == sorted(map(repr, expected)), f"{sql}\n{found}\n{expected}"
        return [line.strip() for line in self.session.explain(sql).splitlines() if "group" in line]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    folder = tmp_path_factory.mktemp("shop")
    (folder / "shop.toml").write_text(SCHEMA)
    with duckdb.connect(str(folder / "shop.duckdb")) as connection:
        connection.execute(DATA)
    session = open_session(folder / "shop.toml", None, ":memory:", noise=ZeroNoise())
    plain = duckdb.connect(config={"threads": 1})
    plain.execute(DATA)
    yield Beside(session, plain)
    session.close()
    plain.close()


PUBLIC = [
    "SELECT k_name, COUNT(*) FROM customer, country WHERE country = k_id AND k_region = 'ASIA' GROUP BY 1",
    "SELECT k_name, k_region, COUNT(*) FROM customer JOIN country ON country = k_id GROUP BY ALL",
    "SELECT country, COUNT(*) FROM customer JOIN country ON country = k_id WHERE k_region = 'ASIA' GROUP BY ALL",
    "SELECT country, COUNT(*) FROM customer JOIN country ON country = k_id WHERE country < 3 GROUP BY ALL",
    "SELECT k_name, COUNT(*) FROM customer JOIN country ON country = k_id WHERE country % 3 = 1 GROUP BY ALL",
    "SELECT d_year, d_month, COUNT(*) FROM sale JOIN calendar ON day = d_id WHERE d_date >= DATE '2024-11-01' GROUP BY ALL",
    "SELECT d_month, COUNT(*) FROM sale JOIN calendar ON day = d_id WHERE d_year = 2024 AND d_month BETWEEN 1 AND 6 GROUP BY 1",
    "SELECT d_date, COUNT(*) FROM sale JOIN calendar ON day = d_id WHERE d_year = 2024 AND d_month = 2 GROUP BY 1",
    "SELECT brand, kind, COUNT(*) FROM sale JOIN item ON item = i_id GROUP BY ALL",
    "SELECT brand, item.kind, family, COUNT(*) FROM sale JOIN item ON item = i_id JOIN kind ON item.kind = kind.kind GROUP BY ALL",
    "SELECT brand, COUNT(*) FROM sale, item, kind WHERE item = i_id AND item.kind = kind.kind AND family = 'sound' GROUP BY ALL",
    "SELECT brand, d_year, COUNT(*) FROM sale, item, calendar WHERE item = i_id AND day = d_id AND kind = 'map' GROUP BY ALL",
    """SELECT a.k_name, b.brand, COUNT(*) FROM sale JOIN customer USING (c_id) JOIN country a ON country = k_id
        JOIN item b ON item = i_id WHERE (a.k_id = 1 AND b.kind = 'book') OR (a.k_id = 3 AND b.brand = 'brand 1') GROUP BY ALL""",
    "SELECT UPPER(told), COUNT(*) FROM sale JOIN note USING (status) GROUP BY 1",
    "SELECT told, COUNT(*) FROM sale LEFT JOIN note ON sale.status = note.status GROUP BY 1",
    "SELECT told, COUNT(*) FROM sale LEFT JOIN note ON sale.status = note.status WHERE told IS NULL GROUP BY 1",
    "SELECT told, COUNT(*) FROM sale LEFT JOIN note ON sale.status = note.status WHERE COALESCE(told, 'old') < 'o' GROUP BY 1",
    "SELECT COALESCE(told, 'none'), COUNT(*) FROM sale LEFT JOIN note ON sale.status = note.status GROUP BY 1",
]
CONDITIONS = [
    "SELECT site, COUNT(*) FROM customer WHERE site % 2 = 0 GROUP BY 1",
    "SELECT site, COUNT(*) FROM customer WHERE site = 1 OR site = 4 GROUP BY 1",
    "SELECT site, COUNT(*) FROM customer WHERE NOT (site BETWEEN 2 AND 5) GROUP BY 1",
    "SELECT site, COUNT(*) FROM customer WHERE CAST(site AS VARCHAR) IN ('1', '3') GROUP BY 1",
    "SELECT site, rate, COUNT(*) FROM customer WHERE site % 3 + 1 = 1 AND rate > 1 GROUP BY ALL",
    "SELECT rate, COUNT(*) FROM customer WHERE rate * 2 >= 1 GROUP BY 1",
    "SELECT city, COUNT(*) FROM customer WHERE city IS NULL OR city = 'c' GROUP BY 1",
    "SELECT city, COUNT(*) FROM customer WHERE city IS NOT NULL GROUP BY 1",
    "SELECT city, female, COUNT(*) FROM customer WHERE female IS NULL AND city > 'a' GROUP BY ALL",
    "SELECT female, COUNT(*) FROM customer WHERE female IS NOT FALSE GROUP BY 1",
    "SELECT site, city, COUNT(*) FROM customer WHERE (site = 1 AND city = 'a') OR (site = 2 AND city IS NULL) GROUP BY ALL",
    "SELECT site, status, COUNT(*) FROM sale JOIN customer USING (c_id) WHERE (site, status) IN ((1, 2), (2, 3)) GROUP BY ALL",
    "SELECT site, COUNT(*) FROM (SELECT * FROM customer WHERE site > 2) t WHERE site <> 4 GROUP BY 1",
    "SELECT site, COUNT(*) FROM (SELECT site + 1 AS site FROM customer) t WHERE site % 2 = 0 GROUP BY 1",
    "SELECT sold_on, COUNT(*) FROM sale WHERE month(sold_on) = 2 AND year(sold_on) = 2024 GROUP BY 1",
    "SELECT date_trunc('month', sold_at), COUNT(*) FROM sale WHERE sold_at >= DATE '2024-10-01' GROUP BY 1",
    "SELECT date_trunc('month', sold_at), COUNT(*) FROM sale WHERE year(sold_at) = 2024 GROUP BY 1",
    "SELECT date_trunc('month', sold_at), COUNT(*) FROM sale WHERE CAST(sold_at AS DATE) > DATE '2024-10-31' GROUP BY 1",
    "SELECT date_trunc('month', sold_at), COUNT(*) FROM sale WHERE sold_at > TIMESTAMP '2024-11-30 12:00:00' GROUP BY 1",
    "SELECT date_trunc('month', sold_at), COUNT(*) FROM sale WHERE sold_at < DATE '2023-02-01' OR year(sold_at) = 2024 GROUP BY 1",
    "SELECT month(sold_at), COUNT(*) FROM sale WHERE sold_at < DATE '2023-02-01' OR sold_at > '2024-12-31 12:00:00' GROUP BY 1",
    "SELECT year(sold_at), month(sold_at), COUNT(*) FROM sale WHERE sold_at >= DATE '2024-11-01' GROUP BY ALL",
    "SELECT hour(sold_at), COUNT(*) FROM sale WHERE hour(sold_at) < 6 GROUP BY 1",
    "SELECT CAST(sold_at AS DATE), COUNT(*) FROM sale WHERE dayofweek(sold_at) = 0 AND year(sold_at) = 2023 GROUP BY 1",
    "SELECT FLOOR(weight / 10), COUNT(*) FROM customer WHERE weight >= 35 GROUP BY 1",
    "SELECT FLOOR(weight / 10), COUNT(*) FROM customer WHERE FLOOR(weight / 10) <> 3 AND FLOOR(weight / 10) < 9 GROUP BY 1",
    # what a text computes of a number ends with the bounds; a fraction below a number is not that number
    "SELECT (age // 10 * 10) || '-' || (age // 10 * 10 + 9) AS band, COUNT(*) FROM customer GROUP BY 1",
    "SELECT CONCAT('from ', age // 50) AS band, COUNT(*) FROM customer WHERE age >= 50 GROUP BY 1",
    "SELECT YEAR(sold_on) || ' Q' || QUARTER(sold_on) AS q, COUNT(*) FROM sale GROUP BY 1",
    "SELECT FLOOR(weight / 10) * 10 AS band, COUNT(*) FROM customer WHERE weight < 50 GROUP BY 1",
    "SELECT CAST(CEIL(weight / 10) AS INTEGER) AS band, COUNT(*) FROM customer WHERE weight > 10.0 AND weight <= 90 GROUP BY 1",
    "SELECT CAST(FLOOR(weight) AS INTEGER) % 2 AS odd, COUNT(*) FROM customer WHERE weight >= 7 AND weight < 8 GROUP BY 1",
]
IMAGES = [
    "SELECT LEAST(age // 5 * 5, 85), COUNT(*) FROM customer GROUP BY 1",
    "SELECT LEAST(age // 5 * 5, 85), female, COUNT(*) FROM customer WHERE female GROUP BY ALL",
    "SELECT site * site, COUNT(*) FROM customer GROUP BY 1",
    "SELECT site % 2, site // 2, COUNT(*) FROM customer GROUP BY ALL",
    "SELECT CASE WHEN site < 3 THEN 'low' WHEN site < 9 THEN 'high' ELSE '-' END, COUNT(*) FROM customer GROUP BY 1",
    "SELECT CASE WHEN age < 18 THEN 'young' WHEN age < 65 THEN 'adult' ELSE 'old' END, COUNT(*) FROM customer WHERE age < 9 GROUP BY 1",
    "SELECT 10 // (site - 3), COUNT(*) FROM customer WHERE site <> 3 GROUP BY 1",
    "SELECT NULLIF(site, 2), COUNT(*) FROM customer GROUP BY 1",
    "SELECT age // 10, age % 10 // 5, COUNT(*) FROM customer WHERE age < 25 GROUP BY ALL",
    "SELECT age > 50, COUNT(*) FROM customer WHERE age > 60 GROUP BY 1",
    "SELECT quarter(sold_on), month(sold_on), COUNT(*) FROM sale GROUP BY ALL",
]
TEXTS = [
    ("SELECT UPPER(city), COUNT(*) FROM customer GROUP BY 1", 4),
    ("SELECT REPLACE(city, 'b', 'a') AS c, COUNT(*) FROM customer GROUP BY c", 3),
    ("SELECT city || '-' || CAST(female AS VARCHAR), COUNT(*) FROM customer GROUP BY 1", 7),
    ("SELECT CONCAT(city, '-', site) AS k, COUNT(*) FROM customer WHERE site < 3 GROUP BY k", 8),
    ("SELECT site || ' ' || city AS k, city, COUNT(*) FROM customer WHERE city > 'a' GROUP BY ALL", 12),
    (
        "SELECT LPAD(CAST(age // 10 AS VARCHAR), 2, '0') || 's' AS decade, COUNT(*) FROM customer WHERE age < 30 GROUP BY ALL",
        3,
    ),
    (
        "SELECT SUBSTRING(k_name, 9) || city AS k, COUNT(*) FROM customer JOIN country ON country = k_id WHERE k_id < 2 GROUP BY 1",
        7,
    ),
    ("SELECT LEFT(monthname(sold_on), 3), COUNT(*) FROM sale GROUP BY 1", 12),
]
"""Texts that are computed of columns with lists, and how many there are."""


@pytest.mark.parametrize("sql", [*PUBLIC, *CONDITIONS, *IMAGES])
@pytest.mark.few(15)
def test_the_groups_are_those_of_plain_duckdb(sql: str, both: Beside) -> None:
    both.check(sql)


@pytest.mark.parametrize(("sql", "groups"), TEXTS)
def test_a_text_of_listed_columns_is_listed(sql: str, groups: int, both: Beside) -> None:
    told = both.check(sql)
    assert "privately" not in " ".join(told)
    assert len(both.session.execute(sql).rows) == groups


def test_texts_of_too_many_combinations_are_selected_privately(both: Beside, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_lists, "MOST_TRIED", 5)
    told = both.check("SELECT city || site AS k, city, COUNT(*) FROM customer WHERE city = 'a' GROUP BY ALL")
    assert "group key city || TRY_CAST(site AS VARCHAR): selected privately" in told


def test_values_that_are_free_to_list_are_so_as_texts(both: Beside) -> None:
    answer = both.session.execute("SELECT DISTINCT UPPER(city) AS c FROM customer ORDER BY c")
    assert (answer.rows, answer.receipt.loss.epsilon) == ([("A",), ("B",), ("C",), (None,)], 0)


@pytest.mark.parametrize(
    ("sql", "groups"),
    [
        (PUBLIC[0], 4),
        (CONDITIONS[0], 3),
        (CONDITIONS[10], 2),
        (CONDITIONS[16], 12),
        (CONDITIONS[20], 2),
        (IMAGES[0], 18),
    ],
)
def test_one_person_is_in_no_more_groups_than_are_listed(sql: str, groups: int, both: Beside) -> None:
    told = both.session.explain(sql)
    (limit,) = re.findall(r"cut to .* and (\d+) groups?", told) or re.findall(r"changes l0 (\d+)", told)
    assert int(limit) <= groups


def test_a_condition_that_bounds_rule_out_leaves_raw_values_their_label(both: Beside) -> None:
    """Bounds decide nothing: a label for what lies beyond them is shown."""
    shown = both.session.execute(
        "SELECT CASE WHEN age > 120 THEN 'wrong' ELSE 'right' END, COUNT(*) FROM customer GROUP BY 1"
    ).rows
    assert shown == [("right", 1440), ("wrong", 0)]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT site, COUNT(*) FROM customer WHERE age > 50 GROUP BY 1",
        "SELECT site, COUNT(*) FROM customer WHERE EXISTS (SELECT 1 FROM sale s WHERE s.c_id = customer.c_id) GROUP BY 1",
        "SELECT site, COUNT(*) FROM customer WHERE site > 0 OR weight > 50 GROUP BY 1",
        "SELECT date_trunc('month', sold_at), COUNT(*) FROM sale WHERE epoch(sold_at) > 0 GROUP BY 1",
    ],
)
def test_other_conditions_leave_the_list_as_it_is(sql: str, both: Beside) -> None:
    listed = int(re.findall(r"(\d+) declared values", both.session.explain(sql))[0])
    assert listed == len(both.plain.execute(sql).fetchall())


def test_a_list_of_pairs_is_no_list_of_all_combinations(both: Beside) -> None:
    told = both.check(CONDITIONS[10])
    assert "groups: 2, all shown, with noise where there is nobody" in told


def test_keys_that_would_take_too_many_trials_keep_their_own_lists(
    both: Beside, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_lists, "MOST_TRIED", 10)
    sql = "SELECT site, status, COUNT(*) FROM sale JOIN customer USING (c_id) WHERE site + status = 3 GROUP BY ALL"
    assert "groups: 24, all shown, with noise where there is nobody" in both.session.explain(sql)


def test_rows_of_public_tables_that_no_equality_ties_are_not_paired(
    both: Beside, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A day that no key reads, before another: of 731 by 18 pairs none is looked at, as nothing but their number would grow."""
    asked: list[str] = []
    rows = Sandbox.rows
    monkeypatch.setattr(Sandbox, "rows", lambda self, sql: (asked.append(sql), rows(self, sql))[1])
    tables = "sale JOIN calendar a ON day = a.d_id JOIN item ON item = i_id JOIN calendar b ON i_id = b.d_id"
    sql = f"SELECT b.d_month, COUNT(*) FROM {tables} WHERE b.d_date < a.d_date AND a.d_month < 3 GROUP BY 1"
    assert "group key b.d_month: 1 declared value, all shown; other rows are left out" in both.check(sql)
    assert any("d_month" in text for text in asked) and not any("d_date" in text for text in asked)


def test_a_list_longer_than_planned_is_refused(both: Beside, monkeypatch: pytest.MonkeyPatch) -> None:
    planned = key_lists._bound
    monkeypatch.setattr(key_lists, "_bound", lambda *args: key_lists.replace(planned(*args), groups=1))
    with pytest.raises(Error, match="DPSQL-901"):
        both.session.execute(CONDITIONS[10].replace("'a'", "'b'"))


# --- groups that seem to be empty -----------------------------------------------------------------------------------

SEVEN = "FROM customer WHERE age = 7 GROUP BY 1"
"""They are of the sites 2, 4 and 6."""
COMPUTED = [
    f"SELECT AVG(n), MIN(n), COUNT(*) FROM (SELECT site, COUNT(*) AS n {SEVEN})",
    f"SELECT COUNT(*), AVG(n) FROM (SELECT site, AVG(weight) AS n {SEVEN})",
    f"SELECT COUNT(*), MAX(n) FROM (SELECT site, MAX(age) AS n {SEVEN})",
    f"SELECT site, SUM(age) {SEVEN} ORDER BY 1 LIMIT 2",
    f"SELECT site, SUM(age) {SEVEN} ORDER BY 1 LIMIT 4 OFFSET 1",
    f"SELECT site, SUM(age), RANK() OVER (ORDER BY SUM(age) DESC, site) {SEVEN}",
    f"SELECT site, COUNT(*) {SEVEN} UNION ALL SELECT site, COUNT(*) FROM customer WHERE site > 4 GROUP BY 1",
    f"SELECT site FROM (SELECT site, COUNT(*) {SEVEN}) EXCEPT SELECT 2",
    f"WITH a AS (SELECT site, COUNT(*) AS n {SEVEN}), b AS (SELECT site, COUNT(*) AS n FROM customer GROUP BY 1) "
    "SELECT b.site, a.n, b.n FROM b LEFT JOIN a ON a.site = b.site",
    f"SELECT COUNT(*) FROM customer WHERE site IN (SELECT site FROM (SELECT site, COUNT(*) AS n {SEVEN}))",
]


@pytest.mark.parametrize("sql", COMPUTED)
def test_what_is_computed_over_groups_is_computed_over_those_that_are_there(sql: str, both: Beside) -> None:
    told = both.check(sql)
    assert any("may be 0 are left out of what is computed over them; groups=all keeps them" in line for line in told)


@pytest.mark.parametrize("end", ["", " ORDER BY 2 DESC", " LIMIT 6", " HAVING COUNT(*) > -1"])
@pytest.mark.parametrize(
    "around",
    ["{}", "SELECT * FROM ({}) AS q WHERE n < 9 LIMIT 1000", "SELECT site, n + 1 AS n FROM (SELECT * FROM ({}))"],
)
def test_groups_that_are_shown_stay(around: str, end: str, both: Beside) -> None:
    rows = both.session.execute(around.format(f"SELECT site, COUNT(*) AS n {SEVEN}{end}")).rows
    assert sorted(site for site, _ in rows) == [1, 2, 3, 4, 5, 6]


def test_all_groups_can_be_asked_for(both: Beside) -> None:
    asked = COMPUTED[0]
    assert both.session.execute(f"/* dpsql: groups=all */ {asked}").rows == [(2.5, 0, 6)]
    both.session.execute("SET dp_groups = 'all'")
    assert both.session.execute(asked).rows == [(2.5, 0, 6)]
    both.session.execute("RESET dp_groups")
    assert both.session.execute(asked).rows == [(5.0, 5, 3)]
    with pytest.raises(Error, match="DPSQL-104"):
        both.session.execute(f"/* dpsql: groups=some */ {asked}")


@pytest.mark.parametrize(
    ("asked", "more"), [("AVG(weight)", 0), ("MAX(age)", 1), ("SUM(age)", 1), ("COUNT(DISTINCT city)", 1)]
)
def test_the_count_is_bought_where_it_is_not_asked_for(asked: str, more: int, both: Beside) -> None:
    """As a statistic of its own, unless the sums hold it already, in one vector: not where a lone sum has no error at this price."""
    sql = f"SELECT COUNT(*), MAX(n) FROM (SELECT site, {asked} AS n {SEVEN})"
    one, other = (both.session.explain(f"/* dpsql: groups={which} */ {sql}") for which in ("present", "all"))
    assert one.count("measure m") == other.count("measure m") + more
    assert more or "one vector" in one
    assert one.count("price: epsilon 1,000") == other.count("price: epsilon 1,000") == 1


def test_a_group_within_its_half_width_of_zero_is_taken_for_empty(both: Beside) -> None:
    sql = "SELECT COUNT(*) FROM (SELECT site, COUNT(*) AS n FROM customer WHERE age < {} GROUP BY 1)"
    assert both.session.execute(f"/* dpsql: epsilon=0.1 */ {sql.format(8)}").rows == [(0,)]
    assert both.session.execute(f"/* dpsql: epsilon=0.1 */ {sql.format(60)}").rows == [(6,)]


# --- faults -------------------------------------------------------------------------------------------------------


def forgotten_null_tuple(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        key_tuples, "of_extended", lambda part, needed, number: key_inputs.of_public((part,), (), needed, number)
    )


def forgotten_null(patch: pytest.MonkeyPatch) -> None:
    original = key_inputs.of_column
    patch.setattr(
        key_tuples, "of_column", lambda leaf, *rest: original(key_inputs.replace(leaf, nullable=False), *rest)
    )


def one_time_a_day_for_hours(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(key_inputs, "steps_of", lambda leaf, read_by: 86_400_000_000)


def constants_are_no_steps(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(key_inputs, "compared_with", lambda scalar, leaf: iter(()))


def conditions_of_public_tables_alone_forgotten(patch: pytest.MonkeyPatch) -> None:
    original = key_tuples.of_public
    patch.setattr(key_tuples, "of_public", lambda parts, conditions, *rest: original(parts, (), *rest))


@pytest.mark.parametrize(
    "fault",
    [
        forgotten_null_tuple,
        forgotten_null,
        one_time_a_day_for_hours,
        constants_are_no_steps,
        conditions_of_public_tables_alone_forgotten,
    ],
    ids=lambda fault: fault.__name__,
)
@pytest.mark.few(1)
def test_a_planted_fault_loses_a_true_row_or_shows_another(
    fault: object, both: Beside, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert callable(fault)
    fault(monkeypatch)
    both.session._world.sandbox._known.clear()
    with pytest.raises(AssertionError):
        for sql in [*PUBLIC, *CONDITIONS]:
            both.check(f"/* dpsql: fresh */ {sql}")
    both.session._world.sandbox._known.clear()


def test_the_null_of_a_text_is_lost_where_that_of_its_column_is_forgotten(
    both: Beside, monkeypatch: pytest.MonkeyPatch
) -> None:
    forgotten_null(monkeypatch)
    both.session._world.sandbox._known.clear()
    with pytest.raises(AssertionError):
        both.check(f"/* dpsql: fresh */ {TEXTS[0][0]}")
    both.session._world.sandbox._known.clear()
