"""Values read off stored answers are those of plain SQL, without noise: added up, divided, or given again; and what never is."""

from __future__ import annotations

import math
import os
import random
from collections.abc import Iterator, Sequence
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import duckdb
import pytest

from dpsql.core.errors import Error
from dpsql.session.opening import open_session
from dpsql.session.result import Answer
from dpsql.session.session import Session
from tests.support.copies import unused
from tests.support.noise import RecordedNoise, ZeroNoise
from tests.support.opened import data_of

DECLARED = """
[dataset]
name = "reused"
source = "."
[privacy]
unit = "person.id"
epsilon = 1000000.0
delta = 0.1
query = { epsilon = 0.1, delta = 1e-3 }
caps = { epsilon = 1000000.0, delta = 0.1 }
[guard]
mode = "off"
[tables.person]
source = "person.csv"
key = ["id"]
[tables.person.columns]
id = { type = "BIGINT", role = "identifier" }
a = { type = "INTEGER", domain = [1, 2, 3] }
b = { type = "VARCHAR", domain = ["x", "y"] }
c = { type = "BOOLEAN" }
v = { type = "DOUBLE", bounds = [-10, 10], step = 0.5, nullable = true }
w = { type = "INTEGER", bounds = [0, 20] }
[tables.visit]
source = "visit.csv"
references = { id = "person.id" }
max_rows_per_unit = 4
[tables.visit.columns]
id = { type = "BIGINT" }
year = { type = "INTEGER", domain = [1, 2, 3] }
kind = { type = "VARCHAR", domain = ["p", "q"] }
cost = { type = "DOUBLE", bounds = [0, 50], step = 0.5 }
[tables.place]
source = "place.csv"
public = true
key = ["a"]
"""
RANDHIE = Path(__file__).parents[2] / "examples" / "randhie"
PEOPLE = 400
NOTE = "made of stored answers by more keys"


def write(folder: Path, seed: int = 1) -> Path:
    """People, each with 1 to 4 visits; every key is declared and there."""
    chance = random.Random(seed)
    people = [
        (
            i,
            chance.randint(1, 3),
            chance.choice("xy"),
            chance.choice(["true", "false"]),
            chance.choice(["", chance.randint(-20, 20) / 2, chance.randint(-20, 20) / 2]),
            chance.randint(0, 20),
        )
        for i in range(PEOPLE)
    ]
    visits = [
        (person[0], chance.randint(1, 3), chance.choice("pq"), chance.randint(0, 100) / 2)
        for person in people
        for _ in range(chance.randint(1, 4))
    ]
    for name, columns, rows in (
        ("person", "id,a,b,c,v,w", people),
        ("visit", "id,year,kind,cost", visits),
        ("place", "a,label", [(1, "one"), (2, "two"), (3, "two")]),
    ):
        lines = [columns, *(",".join(map(str, row)) for row in rows)]
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")
    path = folder / "schema.toml"
    path.write_text(DECLARED)
    return path


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("people"))


@pytest.fixture
def session(written: Path) -> Iterator[Session]:
    with data_of(written).without_noise() as opened:
        yield opened


@pytest.fixture
def own_session(tmp_path: Path) -> Iterator[Session]:
    """One over files that may be changed."""
    with closing(open_session(write(tmp_path), None, ":memory:", noise=ZeroNoise())) as opened:
        yield opened


@pytest.fixture(scope="module")
def plain(written: Path) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    for name in ("person", "visit", "place"):
        connection.execute(f"CREATE TABLE {name} AS FROM read_csv('{written.with_name(name)}.csv', nullstr='')")
    return connection


def same(found: Sequence[Sequence[object]], expected: Sequence[Sequence[object]], *, ordered: bool) -> bool:
    def key(row: Sequence[object]) -> list[tuple[bool, str]]:
        return [(v is None, f"{v:.6f}" if isinstance(v, float) else str(v)) for v in row]

    one, other = (list(rows) if ordered else sorted(rows, key=key) for rows in (found, expected))
    return len(one) == len(other) and all(
        len(x) == len(y) and all(_close(p, q) for p, q in zip(x, y, strict=True))
        for x, y in zip(one, other, strict=True)
    )


def _close(p: object, q: object) -> bool:
    if isinstance(p, float) and isinstance(q, float):
        return math.isclose(p, q, rel_tol=1e-9, abs_tol=1e-9)
    return p == q


def free(answer: Answer) -> bool:
    return answer.cached and answer.releases == 0 and answer.receipt.id is None


def rolled_up(answer: Answer) -> bool:
    return free(answer) and any(NOTE in note for note in answer.notes)


KEYS = ("a", "b", "c")
AGGREGATES = [
    "COUNT(*)",
    "COUNT(v)",
    "SUM(v)",
    "SUM(w)",
    "AVG(w)",
    "AVG(v)",
    "VAR_POP(w)",
    "STDDEV_SAMP(v)",
    "COVAR_POP(w, v)",
    "COUNT(DISTINCT id)",
    "COUNT(*) FILTER (WHERE w > 7)",
    "SUM(w) FILTER (WHERE v > 2)",
    "AVG(w) FILTER (WHERE a <> 2)",
    "COUNT_IF(w > 3)",
]
CONDITIONS = ["", "", " WHERE w > 4", " WHERE v IS NOT NULL", " WHERE w < 18 AND w <> 3"]
AFTER = ["", " HAVING COUNT(*) > 40", " ORDER BY COUNT(*) DESC, {keys}", " ORDER BY {keys} DESC LIMIT 3"]


@pytest.mark.few(3)
@pytest.mark.parametrize("seed", range(24))
def test_rule_41_a_roll_up_is_what_plain_sql_answers(
    session: Session, plain: duckdb.DuckDBPyConnection, seed: int
) -> None:
    """A statement by all keys, then the same by every part of them: free, and as without noise."""
    chance = random.Random(seed)
    asked = ["COUNT(*)", *chance.sample(AGGREGATES[1:], chance.randint(1, 4))]
    where, order = chance.choice(CONDITIONS), chance.sample(KEYS, 3)
    listed = ", ".join(asked)
    assert not session.execute(f"SELECT {', '.join(order)}, {listed} FROM person{where} GROUP BY ALL").cached
    for size in (2, 1, 0):
        keys = chance.sample(KEYS, size)
        after = chance.choice(AFTER).format(keys=", ".join(keys)) if keys else ""
        grouped = f" GROUP BY {', '.join(keys)}" if keys else ""
        whole = "/* dpsql: groups=all */ " if "LIMIT" in after else ""
        sql = f"{whole}SELECT {', '.join([*keys, listed])} FROM person{where}{grouped}{after}"
        answer = session.execute(sql)
        assert same(answer.rows, plain.execute(sql).fetchall(), ordered="ORDER" in after), sql
        assert rolled_up(answer), sql


CHOICES = {
    "a": ["a = 1", "a IN (1, 3)", "a <> 2", "a NOT IN (2, 3)", "3 = a", "a IN (1, 2) AND a <> 2"],
    "b": ["b = 'x'", "b <> 'x'", "NOT b IN ('y')"],
    "c": ["c", "NOT c", "c = true", "c <> true"],
}


@pytest.mark.few(2)
@pytest.mark.parametrize("seed", range(24))
def test_rule_41_a_slice_is_what_plain_sql_answers(
    session: Session, plain: duckdb.DuckDBPyConnection, seed: int
) -> None:
    """A statement by all keys, then some of its groups, chosen by conditions: free, and as without noise."""
    chance = random.Random(seed)
    once = [aggregate for aggregate in AGGREGATES[1:] if "a <> 2" not in aggregate]
    listed = ", ".join(["COUNT(*)", *chance.sample(once, chance.randint(1, 4))])
    also = chance.choice(["", "w > 4 AND "])
    session.execute(f"SELECT a, b, c, {listed} FROM person WHERE {also}true GROUP BY ALL")
    for size in (2, 1, 0):
        keys, chosen = chance.sample(KEYS, size), chance.sample(KEYS, chance.randint(1, 3))
        conditions = " AND ".join(chance.choice(CHOICES[key]) for key in chosen)
        grouped = f" GROUP BY {', '.join(keys)}" if keys else ""
        sql = f"SELECT {', '.join([*keys, listed])} FROM person WHERE {also}{conditions}{grouped}"
        answer = session.execute(sql)
        assert same(answer.rows, plain.execute(sql).fetchall(), ordered=False), sql
        assert rolled_up(answer), sql


@pytest.mark.parametrize("what", ["COUNT(*)", "SUM(cost)", "COUNT(DISTINCT id)"])
def test_rule_41_one_group_of_rows_that_are_cut_is_asked_anew(session: Session, what: str) -> None:
    """All groups share a person's limit: what is left in one of them is less than the statement itself would leave."""
    session.execute(f"/* dpsql: max_rows=2 */ SELECT year, {what} FROM visit GROUP BY year")
    for sql in (
        f"SELECT {what} FROM visit WHERE year = 2",
        f"SELECT year, {what} FROM visit WHERE year = 2 GROUP BY 1",
    ):
        assert not session.execute(f"/* dpsql: max_rows=2 */ {sql}").cached


@pytest.mark.few(1)
@pytest.mark.parametrize("what", ["COUNT(*)", "SUM(medical_usd)", "AVG(md_visits)"])
def test_rule_41_one_group_where_a_key_allows_no_more_rows(tmp_path: Path, what: str) -> None:
    """A person and a year, of five declared ones: nobody has more than the five rows that are allowed."""
    copied = unused(RANDHIE, tmp_path / "data")
    with closing(open_session(copied / "schema.toml", None, ":memory:", noise=ZeroNoise())) as session:
        session.execute(f"SELECT year, child, {what} FROM person_year GROUP BY ALL")
        plain = duckdb.connect()
        plain.execute(f"CREATE VIEW person_year AS FROM '{copied / 'person_year.parquet'}'")
        for where in ("year = 2 AND child", "year IN (1, 3) AND NOT child"):
            sql = f"SELECT year, {what} FROM person_year WHERE {where} GROUP BY year"
            answer = session.execute(sql)
            found = [(row[0], pytest.approx(row[1], rel=1e-3)) for row in plain.execute(f"{sql} ORDER BY 1").fetchall()]
            assert answer.cached and answer.rows == found


@pytest.mark.parametrize("what", ["CORR(v, w)", "REGR_SLOPE(w, v)", "REGR_R2(v, w)"])
def test_rule_41_moments_of_one_and_two_values(session: Session, plain: duckdb.DuckDBPyConnection, what: str) -> None:
    """At a price at which they have signal."""
    session.execute("SET dp_epsilon = 5000")
    session.execute(f"SELECT a, b, c, {what} FROM person GROUP BY ALL")
    for sql in (f"SELECT b, c, {what} FROM person GROUP BY ALL", f"SELECT {what} FROM person"):
        answer = session.execute(sql)
        assert rolled_up(answer) and same(answer.rows, plain.execute(sql).fetchall(), ordered=False), sql


@pytest.mark.few(2)
@pytest.mark.parametrize("seed", range(4))
def test_rule_41_rows_of_people_with_several(session: Session, plain: duckdb.DuckDBPyConnection, seed: int) -> None:
    """Nobody has more rows than are allowed: what is added up is exact, too."""
    chance = random.Random(seed)
    listed = ", ".join(["COUNT(*)", *chance.sample(["SUM(cost)", "AVG(cost)", "VAR_POP(cost)", "SUM(year)"], 2)])
    session.execute(f"SELECT year, kind, {listed} FROM visit GROUP BY year, kind")
    for keys in ("kind, ", "year, ", ""):
        sql = f"SELECT {keys}{listed} FROM visit" + (f" GROUP BY {keys[:-2]}" if keys else "")
        answer = session.execute(sql)
        assert rolled_up(answer) and same(answer.rows, plain.execute(sql).fetchall(), ordered=False), sql


@pytest.mark.few(6)
@pytest.mark.parametrize(
    ("finer", "coarser"),
    [
        (
            f"SELECT {keys}, {what} FROM {table} GROUP BY ALL",
            f"SELECT {keys[: keys.index(',')]}, {what} FROM {table} GROUP BY 1",
        )
        for table, keys, aggregates in (
            (
                "person",
                "a, b",
                ["MEDIAN(w)", "QUANTILE_DISC(w, 0.1)", "MODE(b)", "MIN(w)", "MAX(v)", "COUNT(DISTINCT w)"],
            ),
            (
                "visit",
                "year, kind",
                ["COUNT(DISTINCT id)", "MEDIAN(cost)", "COUNT(DISTINCT kind)", "COUNT(DISTINCT cost)"],
            ),
            (
                "visit",
                "year, kind",
                ["dp_sum(cost, unit_lower := 0, unit_upper := 60)", "dp_sum(cost, bounds := 'auto')"],
            ),
        )
        for what in [*aggregates, f"COUNT(*), {aggregates[0]}"]
    ],
)
def test_rule_41_what_does_not_add_up_is_asked_anew(session: Session, finer: str, coarser: str) -> None:
    try:
        session.execute(finer)
    except Error as refused:
        pytest.skip(str(refused))
    answer = session.execute(coarser)
    assert not answer.cached and answer.releases == 1 and not answer.notes


@pytest.mark.few(5)
@pytest.mark.parametrize(
    ("finer", "coarser"),
    [
        # a unit's groups are cut in the finer statement, or in the coarser one
        ("/* dpsql: max_groups=1 */ SELECT year, COUNT(*) FROM visit GROUP BY year", "SELECT COUNT(*) FROM visit"),
        ("/* dpsql: max_groups=2 */ SELECT year, kind, COUNT(*) FROM visit GROUP BY ALL", "SELECT COUNT(*) FROM visit"),
        (
            "SELECT year, kind, COUNT(*) FROM visit GROUP BY ALL",
            "/* dpsql: max_groups=1 */ SELECT year, COUNT(*) FROM visit GROUP BY 1",
        ),
        # other limits
        ("/* dpsql: max_rows=2 */ SELECT kind, COUNT(*) FROM visit GROUP BY kind", "SELECT COUNT(*) FROM visit"),
        ("SELECT kind, COUNT(*) FROM visit GROUP BY kind", "/* dpsql: max_rows=2 */ SELECT COUNT(*) FROM visit"),
        # other rows
        ("SELECT a, COUNT(*) FROM person WHERE w > 4 GROUP BY a", "SELECT COUNT(*) FROM person"),
        ("SELECT a, COUNT(*) FROM person GROUP BY a", "SELECT COUNT(*) FROM person WHERE w > 4"),
        # a value that no group has, a condition on what is no key, a key that is not there, at a higher price
        ("SELECT a, COUNT(*) FROM person GROUP BY a", "SELECT COUNT(*) FROM person WHERE a IN (1, 7) AND w > 0"),
        ("SELECT a, COUNT(*) FROM person GROUP BY a", "SELECT COUNT(*) FROM person WHERE a = 1 AND w > 4"),
        ("SELECT a, COUNT(*) FROM person GROUP BY a", "SELECT COUNT(*) FROM person WHERE a = 1 AND c"),
        ("SELECT a, COUNT(*) FROM person GROUP BY a", "SELECT COUNT(*) FROM person WHERE a = 1 OR c"),
        ("SELECT a, COUNT(*), SUM(w) FROM person GROUP BY a", "SELECT COUNT(*) FROM person WHERE a = 1"),
        ("SELECT a, COUNT(*) FROM person WHERE a <> 3 GROUP BY a", "SELECT COUNT(*) FROM person WHERE a = 3"),
        (
            "SELECT year, COUNT(DISTINCT id) FROM visit GROUP BY year",
            "SELECT COUNT(DISTINCT id) FROM visit WHERE year < 3",
        ),
        (
            "SELECT year, COUNT(DISTINCT id) FROM visit GROUP BY year",
            "SELECT COUNT(DISTINCT id) FROM visit WHERE year <> 3",
        ),
        ("SELECT a, COUNT(*) FROM person GROUP BY a", "SELECT COUNT(*) FILTER (WHERE b = 'x') FROM person"),
        ("SELECT a, COUNT(v) FROM person GROUP BY a", "SELECT COUNT(*) FROM person"),
        ("SELECT a, COUNT(*) FROM person GROUP BY a", "SELECT COUNT(v) FROM person"),
        ("SELECT year, COUNT(*) FROM visit GROUP BY year", "SELECT COUNT(*) FROM visit JOIN person USING (id)"),
        # other keys
        ("SELECT a, COUNT(*) FROM person GROUP BY a", "SELECT b, COUNT(*) FROM person GROUP BY b"),
        ("SELECT a, b, COUNT(*) FROM person GROUP BY ALL", "SELECT a % 2, COUNT(*) FROM person GROUP BY 1"),
        ("SELECT COUNT(*) FROM person", "SELECT a, COUNT(*) FROM person GROUP BY a"),
        # bought at less
        ("/* dpsql: epsilon=0.05 */ SELECT a, COUNT(*) FROM person GROUP BY a", "SELECT COUNT(*) FROM person"),
        # AVG of rows that are not those of the sum
        ("SELECT SUM(v), COUNT(*) FROM person", "/* dpsql: epsilon=0.03 */ SELECT AVG(v) FROM person"),
        ("SELECT SUM(w), COUNT(v) FROM person", "/* dpsql: epsilon=0.03 */ SELECT AVG(w) FROM person"),
        (
            "SELECT SUM(v), COUNT(v) FILTER (WHERE c) FROM person",
            "/* dpsql: epsilon=0.03 */ SELECT AVG(v) FROM person",
        ),
    ],
)
def test_rule_41_what_is_of_other_rows_is_asked_anew(session: Session, finer: str, coarser: str) -> None:
    try:
        session.execute(finer)
    except Error as refused:
        pytest.skip(str(refused))
    session.execute("SET dp_buy = on")
    answer = session.execute(coarser)
    assert not answer.cached and answer.releases == 1


def test_rule_41_a_sum_of_very_many_cells_is_bought(session: Session) -> None:
    """It would be more than four times as wide as what could be bought."""
    session.execute("SELECT a, b, c, w, COUNT(*) FROM person GROUP BY ALL")
    assert not session.execute("/* dpsql: buy=on */ SELECT a, b, c, COUNT(*) FROM person GROUP BY ALL").cached
    assert rolled_up(session.execute("SELECT a, b, COUNT(*) FROM person GROUP BY a, b"))


@pytest.mark.parametrize("where", ["", " WHERE w > 4"])
def test_rule_41_avg_is_made_of_the_sum_and_the_count_of_the_same_value(
    session: Session, plain: duckdb.DuckDBPyConnection, where: str
) -> None:
    session.execute(f"SELECT a, SUM(v) FROM person{where} GROUP BY a")
    session.execute(f"SELECT a, COUNT(v) FROM person{where} GROUP BY a")
    sql = f"SELECT AVG(v), a, COUNT(v), SUM(v) FROM person{where} GROUP BY a"
    answer = session.execute(sql)
    assert free(answer) and same(answer.rows, plain.execute(sql).fetchall(), ordered=False)


def test_rule_41_a_geometric_mean_is_made_of_logarithms_alone(
    session: Session, plain: duckdb.DuckDBPyConnection
) -> None:
    """The values' own answers say nothing of it; the sum and the count of their logarithms do."""
    for sql in ("SELECT SUM(w + 1) FROM person", "SELECT COUNT(w + 1) FROM person"):
        assert not free(session.execute(sql))
    assert free(session.execute("SELECT AVG(w + 1) FROM person"))
    bought = session.execute("SELECT GEOMEAN(w + 1) FROM person")
    for sql in ("SELECT SUM(LN(w + 2)) FROM person", "SELECT COUNT(LN(w + 2)) FROM person"):
        assert not free(session.execute(sql))
    made = session.execute("SELECT GEOMEAN(w + 2) FROM person")
    assert not free(bought) and free(made)
    for more, answer in ((1, bought), (2, made)):
        expected = plain.execute(f"SELECT GEOMEAN(w + {more}) FROM person").fetchone()
        assert expected is not None and answer.rows[0][0] == pytest.approx(expected[0], rel=1e-5)


def test_rule_41_a_sum_beside_a_count_is_read_off_one_of_each(
    session: Session, plain: duckdb.DuckDBPyConnection
) -> None:
    for sql in ("SELECT a, COUNT(*) FROM person GROUP BY a", "SELECT a, SUM(w) FROM person GROUP BY a"):
        assert session.execute(sql).releases == 1
    sql = "SELECT a, SUM(w), COUNT(*) FROM person GROUP BY a ORDER BY a"
    answer = session.execute(sql)
    assert answer.releases == 0 and answer.rows == plain.execute(sql).fetchall()
    assert session.execute("SELECT a, SUM(w), COUNT(*), AVG(w) FROM person GROUP BY a").releases == 1


def test_rule_41_what_is_left_out_of_the_finer_keys_stays_left_out(tmp_path: Path) -> None:
    """A key that is not declared, or NULL where none is: in no group, and in no sum of them; and that is said."""
    path = write(tmp_path)
    people = (tmp_path / "person.csv").read_text()
    (tmp_path / "person.csv").write_text(people + "9000,7,x,true,1,1\n9001,,y,true,1,1\n")
    session = open_session(path, None, ":memory:", noise=ZeroNoise())
    session.execute("SELECT a, COUNT(*) FROM person GROUP BY a")
    answer = session.execute("SELECT COUNT(*) FROM person")
    assert answer.rows == [(PEOPLE,)] and rolled_up(answer)
    assert session.execute("/* dpsql: fresh */ SELECT COUNT(*) FROM person").rows == [(PEOPLE + 2,)]
    assert session.execute("SELECT COUNT(*) FROM person").rows == [(PEOPLE + 2,)], "the newer answer of its own stands"
    session.close()


def test_rule_41_a_sum_of_what_was_limited_says_so(session: Session) -> None:
    """Cut rows make finer groups keep other rows of a unit than all of them together would."""
    session.execute("/* dpsql: max_rows=1, epsilon=50 */ SELECT kind, SUM(cost) FROM visit GROUP BY kind")
    answer = session.execute("/* dpsql: max_rows=1, epsilon=50 */ SELECT SUM(cost) FROM visit")
    anew = session.execute("/* dpsql: max_rows=1, epsilon=50, fresh */ SELECT SUM(cost) FROM visit")
    own = answer.accuracy[0][0]
    assert free(answer) and own is not None
    assert own.low <= anew.rows[0][0] <= own.high or any("limit" in note for note in answer.notes)  # type: ignore[operator]


def test_rule_41_keys_that_may_be_null_add_up_to_everybody(tmp_path: Path) -> None:
    path = write(tmp_path)
    path.write_text(DECLARED.replace("domain = [1, 2, 3] }\nb", "domain = [1, 2, 3], nullable = true }\nb"))
    (tmp_path / "person.csv").write_text((tmp_path / "person.csv").read_text() + "9001,,y,true,1,1\n9002,,x,true,1,1\n")
    session = open_session(path, None, ":memory:", noise=ZeroNoise())
    session.execute("SELECT a, b, COUNT(*) FROM person GROUP BY a, b")
    assert session.execute("SELECT COUNT(*) FROM person").rows == [(PEOPLE + 2,)]
    rows = session.execute("SELECT a, COUNT(*) FROM person GROUP BY a").rows
    assert dict(rows)[None] == 2 and sum(n for _, n in rows) == PEOPLE + 2  # type: ignore[misc]
    session.close()


# --- the newest answers of a session ------------------------------------------------------------------------------


def test_rule_40_the_same_text_again_is_the_same_answer(session: Session) -> None:
    sql = "SELECT a, COUNT(*), AVG(w) FROM person GROUP BY a ORDER BY a"
    first = session.execute(sql)
    for _ in range(3):
        again = session.execute(sql)
        assert again.rows == first.rows and again.columns == first.columns and free(again)
        assert list(again.accuracy) == list(first.accuracy) and again.receipt.loss.epsilon == 0


@pytest.mark.few(1)
@pytest.mark.parametrize("values", [[1, True, "1", 1.0], [1.0, 1, None, 2.5]])
def test_rule_40_parameters_of_other_types(session: Session, written: Path, values: list[object]) -> None:
    """Whatever was asked before, each is answered, or refused, as a session that has seen nothing answers it."""

    def asked(on: Session, sql: str, value: object) -> object:
        try:
            return on.execute(sql, [value]).rows
        except Error as refused:
            return refused.code

    for sql in (
        "SELECT COUNT(*) FROM person WHERE w > ?",
        "SELECT a, COUNT(*) + ? AS n FROM person GROUP BY a ORDER BY a",
    ):
        found = [asked(session, sql, value) for value in values]
        for value, one in zip(values, found, strict=True):
            alone = data_of(written).session(ZeroNoise())
            assert repr(asked(alone, sql, value)) == repr(one), (sql, value)
            alone.close()


def test_rule_40_options_between_two_equal_texts(session: Session) -> None:
    sql = "SELECT COUNT(*), SUM(w) FROM person"
    session.execute(sql)
    for setting, cached in (
        ("SET dp_epsilon = 0.2", False),
        ("SET dp_epsilon = 0.2", True),
        ("SET dp_epsilon = 0.05", True),
        ("RESET dp_epsilon", True),
        ("SET dp_epsilon = 0.9", False),
    ):
        session.execute(setting)
        assert session.execute(sql).cached is cached, setting


def test_what_the_caller_does_with_a_list_in_a_row_stays_there(session: Session) -> None:
    sql = "SELECT QUANTILE_DISC(w, [0.25, 0.75]) FROM person"
    first = session.execute(sql).rows[0][0]
    assert isinstance(first, list)
    expected = list(first)
    first.append(999)
    assert session.execute(sql).rows == [(expected,)]


def test_what_the_caller_does_with_the_rows_stays_there(session: Session) -> None:
    sql = "SELECT a, COUNT(*) FROM person GROUP BY a"
    expected = list(session.execute(sql).rows)
    for _ in range(3):
        rows = session.execute(sql).rows
        assert rows == expected
        rows.clear()


def test_rule_40_fresh_is_asked_anew_every_time_and_then_stands(session: Session) -> None:
    sql = "SELECT COUNT(*) FROM person"
    assert not session.execute(sql).cached and session.execute(sql).cached
    for _ in range(3):
        assert session.execute(f"/* dpsql: fresh */ {sql}").releases == 1
    assert session.execute(sql).cached


class Counting(ZeroNoise):
    """Each draw is larger than the one before it."""

    def __init__(self) -> None:
        self.drawn = 0

    def laplace(self, scale: Fraction, size: int) -> list[int]:
        self.drawn += 1000
        return [self.drawn] * size


def test_rule_40_the_fresh_answer_of_another_session(tmp_path: Path) -> None:
    """A newer answer takes the place of the older one in every session, and of what was added up of it."""
    path, noise = write(tmp_path), Counting()
    one, other = (open_session(path, None, tmp_path / "x.ledger", noise=noise) for _ in range(2))
    finer, coarser = "SELECT a, COUNT(*) FROM person GROUP BY a", "SELECT COUNT(*) FROM person"
    assert one.execute(finer).rows == other.execute(finer).rows == one.execute(finer).rows
    assert one.execute(coarser).rows == other.execute(coarser).rows == [(PEOPLE + 3 * 1000,)]
    other.execute(f"/* dpsql: fresh */ {finer}")
    assert one.execute(finer).rows == other.execute(finer).rows
    assert one.execute(coarser).rows == other.execute(coarser).rows == [(PEOPLE + 3 * 2000,)]
    other.execute(f"/* dpsql: fresh */ {coarser}")
    assert one.execute(coarser).rows == other.execute(coarser).rows == [(PEOPLE + 3000,)]
    for session in (one, other):
        session.close()


def test_rule_40_the_present_moment_is_read_every_time(session: Session) -> None:
    noise = RecordedNoise()
    session._world.release._noise = noise
    texts = {
        str(session.execute("SELECT COUNT(*) AS n, CURRENT_TIMESTAMP AS t FROM person").rows[0][1]) for _ in range(3)
    }
    assert len(texts) == 3 and len(noise.drawn) == 1


def changed(path: Path) -> None:
    before = path.stat()
    path.write_text(path.read_text().replace("two", "one"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 10**9))


JOINED = "SELECT label, n FROM place JOIN (SELECT a, COUNT(*) AS n FROM person GROUP BY a) AS t USING (a)"
BOUND = "SELECT COUNT(*) FROM person WHERE a IN (SELECT a FROM place WHERE label = 'two')"


@pytest.mark.parametrize(
    "sql",
    [
        JOINED,
        BOUND,
    ],
)
def test_rule_40_a_public_table_that_changed_on_disk(own_session: Session, tmp_path: Path, sql: str) -> None:
    """The same text is refused just as another text of the same question is."""
    own_session.execute(sql)
    changed(tmp_path / "place.csv")
    for text in (f"{sql} ", sql):
        with pytest.raises(Error, match="DPSQL-708"):
            own_session.execute(text)


def test_what_was_spent_is_read_every_time(session: Session) -> None:
    sql = "SELECT * FROM dpsql.budget"
    try:
        first = session.execute(sql).rows
    except Error as refused:
        pytest.skip(str(refused))
    session.execute("SELECT COUNT(*) FROM person")
    assert session.execute(sql).rows != first


def test_rule_41_keys_in_another_order_are_the_same_cells(session: Session) -> None:
    first = session.execute("SELECT a, b, COUNT(*) FROM person GROUP BY a, b")
    other = session.execute("SELECT b, a, COUNT(*) FROM person GROUP BY b, a")
    assert free(other) and not other.notes
    assert {(a, b): n for a, b, n in first.rows} == {(a, b): n for b, a, n in other.rows}


@pytest.mark.parametrize("first, second", [("b", "c"), ("c", "b")])
def test_of_equally_exact_answers_the_older_is_read(tmp_path: Path, first: str, second: str) -> None:
    """Whatever their hashes are: two cells each, so that either would do."""
    with closing(open_session(write(tmp_path), None, ":memory:")) as session:
        older = session.execute(f"SELECT {first}, COUNT(*) FROM person GROUP BY ALL").rows
        newer = session.execute(f"SELECT {second}, COUNT(*) FROM person GROUP BY ALL").rows
        total = session.execute("SELECT COUNT(*) FROM person")
        assert total.releases == 0
        assert total.rows == [(sum(number for _, number in older),)], newer  # type: ignore[misc]
