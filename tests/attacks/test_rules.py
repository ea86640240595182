"""The numbered rules (grammar_notes/rules.md), one test each and more; what does not exist yet is refused for nothing."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from math import tanh
from pathlib import Path

import duckdb
import pytest

import dpsql
from dpsql.accounting.ledger import Ledger
from dpsql.aggregates.auto_sum import AutoSum
from dpsql.aggregates.avg import Pair
from dpsql.aggregates.distinct_values import matched
from dpsql.aggregates.randomized_response import Responses
from dpsql.aggregates.sum import Total
from dpsql.dataset import owner
from dpsql.engines.duckdb.engine import DuckDBEngine
from dpsql.engines.duckdb.locked import ask
from dpsql.mechanisms.gaussian import DiscreteGaussian
from dpsql.mechanisms.truncated import TruncatedLaplace
from dpsql.plan.compiled import CompiledRelease
from dpsql.planner.options import Options
from dpsql.planner.parse import parse
from dpsql.session.opening import ledger_identity, open_session
from dpsql.session.session import Session
from dpsql.sql.duckdb import printed
from tests.attacks.observing import (
    PERSON,
    SHARP,
    empty,
    everywhere,
    heavy,
    missing,
    opened,
    ordinary,
    patient,
    poisoned,
    see,
    sharp,
    visit,
)
from tests.support import clinic, losses
from tests.support.clinic import NAN
from tests.support.noise import RecordedNoise, ZeroNoise
from tests.support.planning import compile_statement, compiled_by
from tests.support.trees import SECRET, text

Rows = list[tuple[object, ...]]


def compiled(folder: Path, sql: str, unit: str = "patient", accounting: str = "auto") -> CompiledRelease:
    schema = clinic.schema(folder, unit=unit, accounting=accounting)
    return compile_statement(parse(sql), Options(), schema).releases[0]


def exact(folder: Path, sql: str, data: clinic.Database, unit: str = "patient") -> Rows:
    """A session's answer without noise."""
    clinic.write(folder, data)
    session = open_session(clinic.schema(folder, unit=unit), None, ":memory:", noise=ZeroNoise())
    rows = session.execute(SHARP + sql).rows
    session.close()
    return rows


def refused(folder: Path, statements: list[str]) -> None:
    for sql, found in everywhere(statements, guard="block").items():
        assert found[0].error is not None and found[0].error[1][6] in "123456", (sql, found[0])
        assert found[0].epsilon == found[0].delta == 0 and all(one == found[0] for one in found), sql


SHOP = """
[dataset]
name = "shop"
source = "shop.duckdb"
[guard]
mode = "off"
[privacy]
unit = "customer.c_id"
epsilon = 1000000.0
delta = 0.5
query = { epsilon = 1.0, delta = 1e-3 }
caps = { epsilon = 1000000.0, delta = 0.4 }

[tables.customer]
key = ["c_id"]
references = { c_nation = "nation.n_id" }
[tables.customer.columns]
c_id = { type = "BIGINT" }
c_nation = { type = "INTEGER", domain = [1, 2, 3] }
c_age = { type = "DOUBLE", bounds = [0, 100] }
c_name = { type = "VARCHAR", role = "measure" }

[tables.orders]
key = ["o_id"]
references = { c_id = "customer.c_id" }
max_rows_per_unit = 4
[tables.orders.columns]
o_id = { type = "BIGINT" }
c_id = { type = "BIGINT" }
day = { type = "INTEGER", domain = [1, 2, 3, 4, 5] }

[tables.line]
references = { o_id = "orders.o_id" }
max_rows_per_unit = 8
[tables.line.columns]
o_id = { type = "BIGINT" }
qty = { type = "INTEGER", bounds = [0, 10] }

[tables.yearly]
key = ["c_id", "year"]
references = { c_id = "customer.c_id" }
max_rows_per_unit = 5
[tables.yearly.columns]
c_id = { type = "BIGINT" }
year = { type = "INTEGER", domain = [1, 2, 3, 4, 5] }

[tables.letter]
references = { writer = "customer.c_id", reader = "customer.c_id" }
unit_path = ["writer"]
max_rows_per_unit = 3
[tables.letter.columns]
writer = { type = "BIGINT" }
reader = { type = "BIGINT" }

[tables.nation]
public = true
key = ["n_id"]
"""
"""Customers, what hangs on them by one key, by two and by a chain, and letters that hang on two customers."""


def shop(
    folder: Path, text: str = SHOP, nations: Sequence[tuple[object, ...]] = ((1, "a"), (2, "b"), (3, "c"))
) -> Session:
    """A session without noise over a few customers."""
    path = folder / "shop.duckdb"
    path.unlink(missing_ok=True)
    with duckdb.connect(str(path)) as writer:
        writer.execute(
            """
            CREATE TABLE customer AS SELECT i AS c_id, (1 + i % 3)::INTEGER AS c_nation, (20 + i)::DOUBLE AS c_age, 'x' AS c_name
                FROM range(9) r(i);
            CREATE TABLE orders AS SELECT i AS o_id, i % 8 AS c_id, (1 + i % 5)::INTEGER AS day FROM range(20) r(i);
            CREATE TABLE line AS SELECT i % 18 AS o_id, (i % 11)::INTEGER AS qty FROM range(40) r(i);
            CREATE TABLE yearly AS SELECT i % 7 AS c_id, (1 + i // 7)::INTEGER AS year FROM range(28) r(i);
            CREATE TABLE letter AS SELECT i % 6 AS writer, (i * 5) % 7 AS reader FROM range(12) r(i);
            CREATE TABLE nation (n_id INTEGER, n_name VARCHAR);
            """
        )
        writer.executemany("INSERT INTO nation VALUES (?, ?)", [list(row) for row in nations])
    (folder / "shop.toml").write_text(text)
    return open_session(folder / "shop.toml", None, ":memory:", noise=ZeroNoise())


def _compile(session: Session, sql: str) -> CompiledRelease:
    return compiled_by(session, parse(sql)).releases[-1]


def rows_of(session: Session, sql: str) -> int | None:
    """The most rows of one unit in what a statement aggregates; the statement is run, too."""
    session.execute(sql)
    unit = _compile(session, sql).release.limited.block.source.unit
    return unit.max_rows if unit is not None else None


def answered(folder: Path, statements: list[str]) -> None:
    """Answered for a price that follows from the text, or for none: the same on every database."""
    for sql, found in everywhere(statements).items():
        assert all(one.error is None for one in found), (sql, found[0].error)
        assert len({(one.epsilon, one.delta, repr(one.columns)) for one in found}) == 1, sql


@pytest.mark.slow
def test_rule_1_a_private_subquery_anywhere_makes_the_block_private(tmp_path: Path) -> None:
    """A query over people inside a public one is a release of its own, or the statement is refused; it is never read exactly."""
    private = "(SELECT COUNT(*) FROM patient)"
    answered(
        tmp_path,
        [
            f"SELECT label FROM drug WHERE drug > {private}",
            f"SELECT COUNT(*) FROM drug HAVING COUNT(*) > {private}",
            f"SELECT label FROM drug ORDER BY {private}, drug",
            f"WITH n AS {private} SELECT label FROM drug, n",
            f"SELECT {private} AS n",
            f"SELECT COUNT(*) FROM patient WHERE age > {private}",
            f"SELECT CASE WHEN {private} > 3 THEN 1 END AS some",
            "SELECT drug, (SELECT COUNT(*) FROM patient WHERE patient.site = drug.drug) AS n FROM drug",
        ],
    )
    refused(
        tmp_path,
        [
            "SELECT 1 WHERE 77 NOT IN (SELECT age FROM patient)",
            "SELECT 1 WHERE 77 IN (SELECT age FROM patient)",
            "SELECT 1 WHERE 77 = ANY (SELECT age FROM patient)",
            "SELECT 1 WHERE EXISTS (SELECT 1 FROM patient)",
            "SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM patient WHERE age = 77)",
            "SELECT COUNT(*) FROM drug HAVING EXISTS (SELECT 1 FROM patient)",
            "SELECT label FROM drug ORDER BY EXISTS (SELECT 1 FROM patient WHERE patient.site = drug.drug)",
            "SELECT label FROM drug SEMI JOIN patient ON patient.site = drug.drug",
            "SELECT label FROM drug ANTI JOIN patient ON patient.site = drug.drug",
            "SELECT (SELECT age FROM patient LIMIT 1) AS a",
            "SELECT (SELECT age FROM patient) AS a",
            "WITH n AS (SELECT age FROM patient) SELECT * FROM n",
            "WITH n AS (SELECT age FROM patient) SELECT label FROM drug WHERE drug IN (SELECT age FROM n)",
            "SELECT * FROM drug, LATERAL (SELECT age FROM patient WHERE patient.site = drug.drug) t",
        ],
    )


@pytest.mark.slow
def test_rule_2_the_unit_is_the_kept_sides(tmp_path: Path) -> None:
    """A null-extended copy of the unit is nobody's unit: not to group by, partition by or join on."""
    left = "FROM patient p LEFT JOIN visit v ON p.patient_id = v.patient_id AND v.cost > 12"
    refused(
        tmp_path,
        [
            f"SELECT COUNT(*) FROM (SELECT v.patient_id, COUNT(*) AS n {left} GROUP BY v.patient_id)",
            f"SELECT AVG(n) FROM (SELECT p.patient_id, COUNT(*) OVER (PARTITION BY v.patient_id) AS n {left})",
            f"SELECT COUNT(*) {left} JOIN visit w ON w.patient_id = v.patient_id",
            f"SELECT COUNT(*) {left} WHERE v.patient_id IN (SELECT patient_id FROM patient)",
            f"SELECT v.patient_id, COUNT(*) {left} GROUP BY v.patient_id",
            f"SELECT COUNT(*) FROM (SELECT DISTINCT v.patient_id {left})",
        ],
    )
    answered(tmp_path, [f"SELECT COUNT(*), COUNT(DISTINCT p.patient_id), COUNT(DISTINCT v.patient_id) {left}"])


@pytest.mark.slow
def test_rule_2_membership_is_asked_within_one_person(tmp_path: Path) -> None:
    """IN, EXISTS, ALL, ANY over other people's rows are refused, and so are joins on what people share."""
    refused(
        tmp_path,
        [
            "SELECT COUNT(*) FROM patient WHERE site IN (SELECT year FROM visit)",
            "SELECT COUNT(*) FROM patient WHERE site NOT IN (SELECT site FROM patient WHERE age > 70)",
            "SELECT COUNT(*) FROM patient WHERE age >= ALL (SELECT days FROM visit)",
            "SELECT COUNT(*) FROM patient WHERE age = ANY (SELECT days FROM visit)",
            "SELECT COUNT(*) FROM patient WHERE age = SOME (SELECT days FROM visit)",
            "SELECT COUNT(*) FROM patient WHERE EXISTS (SELECT 1 FROM visit)",
            "SELECT COUNT(*) FROM patient p WHERE EXISTS (SELECT 1 FROM visit v WHERE v.year = p.site)",
            "SELECT COUNT(*) FROM patient p WHERE EXISTS (SELECT 1 FROM visit v WHERE v.patient_id = p.patient_id OR v.year = 1)",
            "SELECT COUNT(*) FROM patient p WHERE EXISTS (SELECT 1 FROM visit v WHERE v.patient_id <= p.patient_id)",
            "SELECT COUNT(*) FROM patient p WHERE EXISTS (SELECT 1 FROM visit v WHERE v.patient_id + 0 = p.patient_id)",
            "SELECT COUNT(*) FROM visit WHERE visit_id NOT IN (SELECT visit_id FROM item)",
            "SELECT COUNT(*) FROM patient JOIN visit ON patient.site = visit.year",
            "SELECT COUNT(*) FROM patient p JOIN visit v ON v.visit_id = p.patient_id",
            "SELECT COUNT(*) FROM patient p WHERE patient_id IN (SELECT visit_id FROM visit)",
        ],
    )


@pytest.mark.slow
def test_rule_2_not_in_means_not_exists_over_known_units(tmp_path: Path) -> None:
    """One row of nobody would make `NOT IN` true for nobody at all: that row would change everybody's answer."""
    sql = "SELECT COUNT(*) FROM patient WHERE patient_id NOT IN (SELECT patient_id FROM visit WHERE cost > 12)"
    data = ordinary()
    nobody = {**data, "visit": data["visit"] + [visit(900, None, cost=40.0), visit(901, None)]}
    assert exact(tmp_path, sql, nobody) == exact(tmp_path, sql, data) != [(0,)]
    assert exact(tmp_path, "SELECT COUNT(*), COUNT(DISTINCT patient_id) FROM visit", nobody) == [(36, 12)]
    full = "SELECT COUNT(*) FROM patient FULL JOIN visit USING (patient_id)"
    assert exact(tmp_path, full, nobody) == exact(tmp_path, full, data) == [(36,)]


def test_rule_3_a_diamond_needs_a_path_and_keeps_to_it(tmp_path: Path) -> None:
    """A letter has a writer and a reader: which of them is protected is the owner's word, and joins hold on to that one."""
    with pytest.raises(dpsql.Error, match="more than one"):
        shop(tmp_path, SHOP.replace('unit_path = ["writer"]\n', ""))
    session = shop(tmp_path)
    for sql in (
        "SELECT COUNT(*) FROM letter l JOIN customer c ON l.reader = c.c_id",
        "SELECT COUNT(*) FROM letter l JOIN letter m ON l.reader = m.reader",
        "SELECT COUNT(*) FROM letter l JOIN letter m ON l.writer = m.reader",
        "SELECT COUNT(*) FROM orders o JOIN letter l ON o.c_id = l.reader",
        "SELECT COUNT(*) FROM customer WHERE c_id IN (SELECT reader FROM letter)",
        "SELECT COUNT(*) FROM (SELECT reader, COUNT(*) AS n FROM letter GROUP BY reader)",
        "SELECT COUNT(DISTINCT reader) FROM letter",
    ):
        with pytest.raises(dpsql.Error) as raised:
            session.execute(sql)
        assert raised.value.code[6] in "1346", (sql, raised.value.code)
    assert session.execute("SELECT 1").receipt.remaining.epsilon == 1_000_000
    for sql in (
        "SELECT COUNT(*) FROM letter l JOIN customer c ON l.writer = c.c_id",
        "SELECT COUNT(*) FROM orders o JOIN letter l ON o.c_id = l.writer JOIN customer c ON c.c_id = o.c_id AND c.c_id = l.writer",
        "SELECT COUNT(*) FROM customer WHERE c_id IN (SELECT writer FROM letter)",
    ):
        assert rows_of(session, sql) is not None
    session.close()


def test_rule_4_row_level_is_one_table_one_row(tmp_path: Path) -> None:
    """At row level a row is its own unit: K = 1, and no joins, groups, windows or DISTINCT of rows."""
    release = compiled(tmp_path, "SELECT COUNT(*), SUM(age) FROM patient", "row").release
    assert release.limited.limits.rows == release.limited.limits.groups == 1
    clinic.write(tmp_path, ordinary())
    connection = dpsql.connect(clinic.schema(tmp_path, unit="row"), ledger=":memory:")
    for sql in (
        "SELECT COUNT(*) FROM patient a JOIN patient b USING (site)",
        "SELECT COUNT(*) FROM patient a JOIN patient b USING (patient_id)",
        "SELECT COUNT(*) FROM patient a, patient b WHERE a.patient_id = b.patient_id",
        "SELECT COUNT(*) FROM patient WHERE patient_id IN (SELECT patient_id FROM patient)",
        "SELECT COUNT(*) FROM patient p WHERE EXISTS (SELECT 1 FROM patient q WHERE q.patient_id = p.patient_id)",
        "SELECT AVG(n) FROM (SELECT patient_id, COUNT(*) AS n FROM patient GROUP BY patient_id)",
        "SELECT COUNT(*) FROM (SELECT patient_id, ROW_NUMBER() OVER (PARTITION BY patient_id) AS r FROM patient) WHERE r = 1",
        "SELECT COUNT(*) FROM (SELECT age FROM patient UNION ALL SELECT age FROM patient)",
        "SELECT COUNT(*) FROM (SELECT DISTINCT patient_id, note FROM patient)",
    ):
        seen = see(connection, sql)
        assert seen.error is not None and seen.epsilon == 0 and seen.error[1][6] in "1346", (sql, seen)
    connection.close()


ROWS = [
    ("customer", 1),
    ("orders", 4),
    ("line", 8),
    ("orders WHERE day = 2", 4),
    # inner: Ka * Kb, or the rows of one side where the other is met by a unique key
    ("orders o JOIN yearly y ON o.c_id = y.c_id", 20),
    ("orders o, yearly y WHERE y.c_id = o.c_id", 20),
    ("orders JOIN yearly USING (c_id)", 20),
    ("yearly a JOIN yearly b ON a.c_id = b.c_id", 25),
    ("yearly a JOIN yearly b ON a.c_id = b.c_id AND b.year = a.year + 1", 5),
    ("yearly a JOIN yearly b ON a.c_id = b.c_id AND b.year = 3", 25),
    ("yearly a JOIN yearly b ON a.c_id = b.c_id AND b.year > a.year", 25),
    ("yearly a JOIN orders b ON a.c_id = b.c_id AND a.year = b.day", 4),
    ("customer JOIN orders USING (c_id)", 4),
    ("line JOIN orders USING (o_id)", 8),
    ("orders JOIN line USING (o_id)", 8),
    ("customer c JOIN orders o USING (c_id) JOIN line l USING (o_id)", 8),
    ("orders o JOIN yearly y USING (c_id) JOIN orders p USING (c_id)", 80),
    # outer
    ("orders o LEFT JOIN yearly y ON o.c_id = y.c_id", 20),
    ("customer c LEFT JOIN orders o ON o.c_id = c.c_id", 4),
    ("orders o RIGHT JOIN customer c ON o.c_id = c.c_id", 4),
    ("orders o RIGHT JOIN yearly y ON o.c_id = y.c_id", 20),
    ("orders o LEFT JOIN customer c ON o.c_id = c.c_id", 4),
    ("yearly a LEFT JOIN yearly b ON a.c_id = b.c_id AND b.year = a.year + 1", 5),
    ("customer c FULL JOIN orders o ON o.c_id = c.c_id", 5),
    ("orders o FULL JOIN yearly y ON o.c_id = y.c_id", 20),
    ("yearly a FULL JOIN yearly b ON a.c_id = b.c_id AND b.year = a.year + 1", 10),
    # semi and anti: the rows that there were
    ("orders WHERE c_id IN (SELECT c_id FROM yearly)", 4),
    ("orders o WHERE EXISTS (SELECT 1 FROM yearly y WHERE y.c_id = o.c_id AND y.year > o.day)", 4),
    ("orders o WHERE NOT EXISTS (SELECT 1 FROM yearly y WHERE y.c_id = o.c_id)", 4),
    ("yearly y ANTI JOIN orders o ON y.c_id = o.c_id", 5),
    # public: by a unique key no more rows
    ("customer JOIN nation ON c_nation = n_id", 1),
    ("orders LEFT JOIN nation ON day = n_id", 4),
    ("orders o JOIN nation a ON o.day = a.n_id JOIN customer c USING (c_id) JOIN nation b ON c.c_nation = b.n_id", 4),
    # union, and what is derived again after it
    ("(SELECT c_id FROM orders UNION ALL SELECT c_id FROM yearly)", 9),
    ("(SELECT c_id FROM customer UNION ALL SELECT c_id FROM customer)", 2),
    ("(SELECT c_id, year FROM yearly UNION ALL SELECT c_id, year FROM yearly) a JOIN yearly b ON a.c_id = b.c_id AND "
     "a.year = b.year", 10),
    ("yearly b JOIN (SELECT c_id, year FROM yearly UNION ALL SELECT c_id, year FROM yearly) a ON a.c_id = b.c_id AND "
     "a.year = b.year", 10),
    ("(SELECT c_id FROM orders UNION ALL SELECT c_id FROM orders) a JOIN yearly USING (c_id)", 40),
    ("(SELECT a.c_id FROM orders a JOIN yearly b USING (c_id)) t JOIN orders USING (c_id)", 80),
]  # fmt: skip


@pytest.mark.slow
def test_rule_5_rows_of_a_unit_after_every_join(tmp_path: Path) -> None:
    """Ka Kb, max(Ka Kb, Ka), max(Ka Kb, Ka + Kb), Ka by a unique key, Ka + Kb: derived again after every step."""
    session = shop(tmp_path)
    found = {sql: rows_of(session, f"SELECT COUNT(*) FROM {sql}") for sql, _ in ROWS}
    session.close()
    assert found == dict(ROWS)


def test_rule_6_one_row_per_distinct_group(tmp_path: Path) -> None:
    """A per-unit block has one row a unit only where all keys are functions of the unit; the unit is carried along unseen."""
    session = shop(tmp_path)
    groups = [
        ("SELECT c_id, SUM(day) FROM orders GROUP BY c_id", 1),
        ("SELECT SUM(day) AS s FROM orders GROUP BY c_id", 1),
        ("SELECT c_id, c_nation, COUNT(*) FROM orders JOIN customer USING (c_id) GROUP BY ALL", 1),
        ("SELECT c_id, c_nation % 2, COUNT(*) FROM orders JOIN customer USING (c_id) GROUP BY ALL", 1),
        ("SELECT c_id, day, COUNT(*) FROM orders GROUP BY ALL", 4),
        ("SELECT day, COUNT(*) AS n FROM orders GROUP BY c_id, day", 4),
        ("SELECT c_id, day + c_nation, COUNT(*) FROM orders JOIN customer USING (c_id) GROUP BY ALL", 4),
        ("SELECT c_id, day > 2, COUNT(*) FROM orders GROUP BY ALL", 3),
        ("SELECT c_id, qty > 2, COUNT(*) FROM line JOIN orders USING (o_id) GROUP BY ALL", 3),
        ("SELECT o_id, COUNT(*) FROM line GROUP BY o_id", 8),
        ("SELECT DISTINCT c_id, day FROM orders", 4),
        ("SELECT DISTINCT c_id FROM orders", 1),
    ]
    assert [rows_of(session, f"SELECT COUNT(*) FROM ({sql})") for sql, _ in groups] == [rows for _, rows in groups]
    for sets in ("ROLLUP (c_id, day)", "GROUPING SETS ((c_id, day), (day))", "CUBE (c_id)"):
        with pytest.raises(dpsql.Error) as raised:
            session.execute(f"SELECT AVG(n) FROM (SELECT c_id, COUNT(*) AS n FROM orders GROUP BY {sets})")
        assert raised.value.code[6] in "134", sets
    session.close()


@pytest.mark.slow
def test_rule_7_distinct_is_the_declared_list_or_selected(tmp_path: Path) -> None:
    """DISTINCT of declared keys is free and data-free; with the unit it is within people; of other values it is selected by a number of
    people that is bought and not shown (rule 59), and of quantities it is refused."""
    for found in everywhere(
        [
            "SELECT DISTINCT city FROM patient",
            "SELECT site FROM patient GROUP BY site HAVING site > 1",
            "SELECT COUNT(*) FROM (SELECT DISTINCT site, female FROM patient)",
        ],
    ).values():
        assert len({repr(one.answer) for one in found}) == 1 and found[0].epsilon == 0
    refused(
        tmp_path,
        [
            "SELECT DISTINCT * FROM patient",
            "SELECT SUM(age) FROM (SELECT DISTINCT note, income FROM patient)",
            "SELECT COUNT(*) FROM (SELECT DISTINCT income FROM patient)",
        ],
    )
    listed = compiled(tmp_path, "SELECT COUNT(*) FROM (SELECT DISTINCT note FROM patient)").release
    assert listed.selection is not None and listed.loss.epsilon == 1 and listed.loss.delta > 0
    distinct = "SELECT COUNT(*) FROM (SELECT DISTINCT patient_id, tag FROM visit)"
    assert compiled(tmp_path, distinct).release.limited.limits.rows == 3


def test_rule_8_what_a_unit_determines(tmp_path: Path) -> None:
    """The customer determines the nation, so all its orders lie in one group; what can break that is not taken for granted."""
    session = shop(tmp_path)
    joined = "orders o JOIN customer c ON o.c_id = c.c_id"
    named = f"{joined} JOIN nation n ON c.c_nation = n.n_id"
    groups = [
        (f"SELECT c.c_nation, COUNT(*) FROM {joined} GROUP BY 1", 1),
        (f"SELECT c.c_nation, COUNT(*) FROM {joined} WHERE o.day > 2 GROUP BY 1", 1),
        (f"SELECT c.c_nation % 2, COUNT(*) FROM {joined} GROUP BY 1", 1),
        (f"SELECT n.n_name, COUNT(*) FROM {named} GROUP BY 1", 1),
        (f"SELECT c.c_nation, o.day, COUNT(*) FROM {joined} GROUP BY 1, 2", 4),
        (f"SELECT o.day, COUNT(*) FROM {joined} GROUP BY 1", 4),
        # a public column of what varies: as many groups as the public table has names
        ("SELECT n.n_name, COUNT(*) FROM orders o JOIN nation n ON o.day = n.n_id GROUP BY 1", 3),
        # null-extended: kept only where the whole ON condition is one thing per unit
        ("SELECT c.c_nation, COUNT(*) FROM orders o LEFT JOIN customer c ON o.c_id = c.c_id GROUP BY 1", 1),
        ("SELECT c.c_nation, COUNT(*) FROM orders o LEFT JOIN customer c ON o.c_id = c.c_id AND o.day = 2 GROUP BY 1", 4),
        ("SELECT c.c_nation, COUNT(*) FROM orders o LEFT JOIN customer c ON o.c_id = c.c_id AND c.c_nation = 2 GROUP BY 1", 1),
        # UNION ALL forgets
        ("SELECT k, COUNT(*) FROM (SELECT c_id, c_nation AS k FROM customer UNION ALL SELECT c_id, 1 FROM customer) GROUP BY k", 2),
        ("SELECT k, COUNT(*) FROM (SELECT c_id, c_nation AS k FROM customer UNION ALL SELECT c_id, c_nation FROM "
         "customer) GROUP BY k", 2),
        # a group of one unit's rows keeps it
        ("SELECT k, COUNT(*) FROM (SELECT c.c_id, c.c_nation AS k, o.day, COUNT(*) AS n FROM "
         f"{joined} GROUP BY ALL) GROUP BY k", 1),
    ]  # fmt: skip
    found = [_compile(session, sql).release.limited.limits.groups for sql, _ in groups]
    session.close()
    assert found == [limit for _, limit in groups]


def test_rule_9_a_public_key_is_unique_under_the_equality_of_the_join(tmp_path: Path) -> None:
    """ON must be = on the bare key columns, without a conversion that makes two keys one."""
    session = shop(tmp_path)
    for on in (
        "CAST(n.n_id AS VARCHAR) = CAST(c.c_nation AS VARCHAR)",
        "n.n_id % 10 = c.c_nation",
        "n.n_id + 0 = c.c_nation",
        "CAST(n.n_id AS DOUBLE) = c.c_nation",
        "n.n_id = c.c_age",
        "n.n_name = c.c_name",
        "n.n_id >= c.c_nation",
        "n.n_id = c.c_nation OR n.n_id = 1",
        "COALESCE(n.n_id, 1) = c.c_nation",
        "n.n_id IN (c.c_nation, 1)",
    ):
        with pytest.raises(dpsql.Error) as raised:
            session.execute(f"SELECT COUNT(*) FROM customer c JOIN nation n ON {on}")
        assert raised.value.code == "DPSQL-402", (on, raised.value.code)
    for on in (
        "CAST(a.c_id AS VARCHAR) = CAST(b.c_id AS VARCHAR)",
        "a.c_id + 0 = b.c_id + 0",
        "a.c_id // 10 = b.c_id // 10",
    ):
        with pytest.raises(dpsql.Error) as raised:
            session.execute(f"SELECT COUNT(*) FROM orders a JOIN yearly b ON {on}")
        assert raised.value.code == "DPSQL-402", on
    text = _compile(session, "SELECT COUNT(*) FROM customer c JOIN nation n ON n.n_id = c.c_nation").sql
    assert 'AS BIGINT) = "nation"' not in text or 'CAST("nation"' not in text
    session.close()


@pytest.mark.parametrize("extra", [(2, "again"), (None, "once"), (None, None)])
def test_rule_9_a_key_that_is_not_unique_is_found_at_opening(tmp_path: Path, extra: tuple[object, object]) -> None:
    """Of a public table the data is looked at, with NULL counted as a value: one NULL is a key, two are not."""
    rows = [(1, "a"), (2, "b"), extra, *([extra] if extra == (None, None) else [])]
    if extra == (None, "once"):
        shop(tmp_path, nations=rows).close()
        return
    with pytest.raises(dpsql.Error) as raised:
        shop(tmp_path, nations=rows)
    assert raised.value.code == "DPSQL-804"


ORDER_BOUND = [
    "FIRST(cost)", "LAST(cost)", "ANY_VALUE(cost)", "LIST(cost)", "ARRAY_AGG(cost)", "STRING_AGG(tag, ',')", "ARG_MIN(cost, days)",
    "ARG_MAX(cost, days)", "MAX_BY(cost, days)", "MODE(tag)", "HISTOGRAM(days)",
    "APPROX_QUANTILE(cost, 0.5)", "PRODUCT(cost)", "VAR_POP(cost)", "STDDEV(cost)", "CORR(cost, days)",
    "MAD(cost)", "SUM(cost ORDER BY year)", "SUM(DISTINCT cost)", "RESERVOIR_QUANTILE(cost, 0.5)", "BIT_XOR(days)", "MAX(cost, 2)",
    "MIN(DISTINCT cost)", "GROUP_CONCAT(tag)", "ENTROPY(tag)",
]  # fmt: skip


@pytest.mark.slow
def test_rule_10_aggregates_that_see_an_order_are_refused_within_a_unit(tmp_path: Path) -> None:
    """Only functions of the multiset of one person's rows, bit for bit, are let in."""
    refused(
        tmp_path,
        [
            f"SELECT COUNT(*) FROM (SELECT patient_id, {call} AS x FROM visit GROUP BY patient_id) WHERE x IS NOT NULL"
            for call in ORDER_BOUND
        ],
    )
    windows = [
        "NTILE(2)",
        "LIST(cost)",
        "STRING_AGG(tag, ',')",
        "CUME_DIST()",
        "PERCENT_RANK()",
        "MODE(tag)",
        "NTH_VALUE(cost, 2)",
    ]
    refused(
        tmp_path,
        [
            f"SELECT COUNT(*) FROM (SELECT patient_id, {call} OVER (PARTITION BY patient_id ORDER BY year) AS x FROM visit) "
            "WHERE x IS NOT NULL"
            for call in windows
        ],
    )


@pytest.mark.parametrize(
    "window",
    [
        "ROW_NUMBER() OVER (PARTITION BY patient_id ORDER BY year)",
        "LAG(cost) OVER (PARTITION BY patient_id ORDER BY year DESC)",
        "FIRST_VALUE(days) OVER (PARTITION BY patient_id)",
        "SUM(cost) OVER (PARTITION BY patient_id ORDER BY year ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)",
    ],
)
def test_rule_10_a_windows_order_is_completed_by_all_columns_that_are_read(tmp_path: Path, window: str) -> None:
    """Ties would be broken by stored order: every column that the statement reads stands in ORDER BY."""
    inner = f"SELECT patient_id, cost, days, tag, year, {window} AS x FROM visit"
    sql = f"SELECT COUNT(*) FROM ({inner}) WHERE x > 1 AND tag = 't1' AND cost > days"
    part = compiled(tmp_path, sql)
    over = part.sql.partition("OVER (")[2].partition(") AS ")[0]
    ordered = over.partition("ORDER BY")[2]
    inside = dict(re.findall(r'"visit"\."(\w+)"(?: END)? AS "(c\d+)"', part.sql))
    assert all(f'."{inside[name]}"' in ordered for name in ("year", "cost", "days", "tag")), over


def test_rule_10_one_persons_sums_do_not_depend_on_others_or_order(tmp_path: Path) -> None:
    """Per-unit sums are exact integers: without one person, in any order, everybody else's are the same bits."""
    part = compiled(tmp_path, "/* dpsql: max_rows=2 */ SELECT year, SUM(cost), COUNT(*) FROM visit GROUP BY year")
    per_unit = part.sql.replace(SECRET, "'00'").partition("FROM (")[2].rpartition(") AS limited")[0]
    data = {**ordinary(), "visit": [visit(i, 1000 + i % 12, cost=5 + (i * 7919 % 4500) / 100.7) for i in range(60)]}
    seen = set()
    for stored in (data, clinic.without(data, PERSON), {**data, "visit": data["visit"][::-1]}):
        for threads in (1, 8):
            connection = duckdb.connect(config={"threads": str(threads)})
            clinic.fill(connection, stored)
            rows = connection.execute(f"SELECT * FROM ({per_unit}) WHERE u <> {PERSON}").fetchall()
            seen.add(repr(sorted(map(repr, rows))))
            connection.close()
    assert len(seen) == 1


def test_rule_11_the_cut_is_ordered_by_a_secret_and_the_units_own_groups(tmp_path: Path) -> None:
    """The choice of a person's groups changes with the secret, and never with other people."""
    part = compiled(tmp_path, "/* dpsql: max_groups=1 */ SELECT year, COUNT(*) FROM visit GROUP BY year")
    connection = duckdb.connect()
    kept = set()
    for secret in ("00", "01", "02", "03", "04", "05", "06", "07"):
        clinic.fill(connection, ordinary())
        everybody = dict(ask(connection, part.sql, secret).fetchall())
        clinic.fill(connection, missing())
        others = dict(ask(connection, part.sql, secret).fetchall())
        assert sum(abs(int(everybody[k]) - int(others.get(k, 0))) for k in everybody) <= 3
        kept.add(repr(sorted(everybody.items())))
    assert len(kept) > 1


def test_rule_11_keys_with_null_still_have_one_order(tmp_path: Path) -> None:
    """NULL parts drop out of the hashed text: the keys themselves break the tie."""
    rows = [
        visit(i, 1000, tag=tag, days=days)
        for i, (tag, days) in enumerate([(None, 1), ("1", None), (None, None), ("1", 1)])
    ]
    part = compiled(
        tmp_path, "/* dpsql: max_groups=1, max_rows=1 */ SELECT tag, days, COUNT(*) FROM visit GROUP BY tag, days"
    )
    connection = duckdb.connect()
    seen = set()
    for shift in range(4):
        clinic.fill(connection, {**ordinary(1), "visit": rows[shift:] + rows[:shift]})
        seen.add(repr(ask(connection, part.sql, "7f").fetchall()))
    assert len(seen) == 1


def per_unit_rows(folder: Path, sql: str, data: clinic.Database, threads: int = 1) -> str:
    """The rows that a statement's private block reads, everybody's but PERSON's, as a text that keeps every bit."""
    source = compiled(folder, sql).release.limited.block.source
    where = " AND ".join(text(c) for c in source.where) or "true"
    connection = duckdb.connect(config={"threads": str(threads)})
    clinic.fill(connection, data)
    try:
        found = connection.execute(f"SELECT * FROM {printed(source.read())} WHERE {where}").fetchall()
    finally:
        connection.close()
    return repr(sorted(repr(row) for row in found if row[-1] != PERSON))


def many_visits() -> clinic.Database:
    """Twelve people with five visits each: equal years and costs whose sum in DOUBLE depends on the order."""
    return {
        **ordinary(),
        "visit": [visit(i, 1000 + i % 12, year=1 + i % 2, cost=5 + (i * 7919 % 4500) / 100.7) for i in range(60)],
    }


WITHIN = [
    "SELECT COUNT(*) FROM (SELECT patient_id, SUM(cost) AS s, AVG(cost) AS a FROM visit GROUP BY patient_id HAVING "
    "SUM(cost) > 60) WHERE s > a",
    "SELECT COUNT(*) FROM (SELECT patient_id, year, SUM(cost / 3) AS s, MEDIAN(cost) AS m FROM visit GROUP BY "
    "patient_id, year) WHERE s > m",
    "SELECT COUNT(*) FROM (SELECT patient_id, MIN(cost) AS a, MAX(-cost) AS b, COUNT(DISTINCT tag) AS c FROM visit "
    "GROUP BY patient_id) "
    "WHERE a + b < c",
    "SELECT COUNT(*) FROM (SELECT patient_id, cost, ROW_NUMBER() OVER (PARTITION BY patient_id ORDER BY year) AS r "
    "FROM visit) WHERE r < cost",
    "SELECT COUNT(*) FROM (SELECT patient_id, cost, tag, LAG(cost) OVER (PARTITION BY patient_id ORDER BY year) AS b "
    "FROM visit) WHERE b < cost",
    "SELECT COUNT(*) FROM (SELECT patient_id, cost, AVG(cost) OVER (PARTITION BY patient_id ORDER BY year ROWS "
    "BETWEEN 2 PRECEDING AND CURRENT ROW) "
    "AS b FROM visit) WHERE b < cost",
    "SELECT COUNT(*) FROM (SELECT patient_id, SUM(cost) OVER (PARTITION BY patient_id, year) AS b FROM visit) WHERE b > 30",
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("sql", WITHIN)
def test_rule_12_twenty_orders_and_threads_and_one_unit_removed(tmp_path: Path, sql: str) -> None:
    """Sums with HAVING, averages and windows within a person: everybody else's values stay, bit for bit."""
    chance, data = random.Random(12), many_visits()
    seen = set()
    for turn in range(20):
        stored = {**data, "visit": chance.sample(data["visit"], len(data["visit"]))}
        for kept in (stored, clinic.without(stored, PERSON)):
            seen.add(per_unit_rows(tmp_path, sql, kept, (1, 2, 8)[turn % 3]))
    assert len(seen) == 1 and "NULL" not in seen


def test_rule_13_undeclared_keys_are_dropped_before_the_cut(tmp_path: Path) -> None:
    """A person's rows with undeclared keys must not use up the groups that they may appear in."""
    odd = [visit(i, 1000, year=99 + i) for i in range(3)] + [visit(9, 1000, year=1)]
    rows = exact(tmp_path, "SELECT year, COUNT(*) FROM visit GROUP BY year", {**ordinary(1), "visit": odd})
    assert rows == [(1, 1), (2, 0), (3, 0), (4, 0)]
    limited = (
        "/* dpsql: max_groups=1, max_rows=1 */ SELECT days, COUNT(*) FROM visit WHERE days IN (1, 2, 4) GROUP BY days"
    )
    data = {**ordinary(1), "visit": [visit(i, 1000, days=d) for i, d in enumerate([3, 3, 5, 7, 4])]}
    clinic.write(tmp_path, data)
    session = open_session(clinic.schema(tmp_path), None, ":memory:", noise=ZeroNoise())
    assert session.execute(limited).rows == [(1, 0), (2, 0), (4, 1)]
    session.close()


def test_rule_13_null_is_a_cell_only_where_declared(tmp_path: Path) -> None:
    """A nullable boolean has three cells, a guard that can give NULL adds one, an undeclared NULL is dropped."""
    assert [r[0] for r in exact(tmp_path, "SELECT female, COUNT(*) FROM patient GROUP BY 1", empty())] == [
        False,
        True,
        None,
    ]
    assert [r[0] for r in exact(tmp_path, "SELECT site // (site - 1), COUNT(*) FROM patient GROUP BY 1", ordinary())][
        -1
    ] is None
    assert exact(
        tmp_path, "SELECT site, COUNT(*) FROM patient GROUP BY 1", {**empty(), "patient": [patient(1, site=None)]}
    ) == [(1, 0), (2, 0), (3, 0)]


def test_rule_13_the_number_of_cells_is_capped(tmp_path: Path) -> None:
    """A product of declared domains beyond the owner's cap is refused where it cannot be selected privately."""
    refused(tmp_path, ["SELECT age, born, site, female, COUNT(*) FROM patient GROUP BY CUBE (age, born, site, female)"])


def test_rule_14_null_and_rare_keys_pass_the_threshold_like_any(tmp_path: Path) -> None:
    """Under private selection NULL has no privilege: one person with NULL is not shown, forty are."""
    for people, shown in ((1, False), (40, True)):
        data = {**ordinary(1), "patient": [patient(i, code=None) for i in range(people)], "visit": []}
        rows = exact(tmp_path, "SELECT code, COUNT(*) FROM patient GROUP BY code", data) if shown else None
        if rows is None:
            with opened(data) as connection:
                rows = connection.execute(
                    "/* dpsql: epsilon=1, delta=1e-12 */ SELECT code, COUNT(*) FROM patient GROUP BY code"
                ).fetchall()
        assert (None in [row[0] for row in rows]) == shown


@pytest.mark.parametrize(
    "where",
    [
        "site = 1 OR age > 0",
        "NOT site = 1",
        "site + 0 = 1",
        "(site = 1) = true",
        "(site = 1) IS NOT FALSE",
        "CASE WHEN site = 1 THEN true ELSE true END",
        "site <> 1",
    ],
)
def test_rule_15_only_bare_conjuncts_narrow_a_domain(tmp_path: Path, where: str) -> None:
    """A key list narrowed by OR, NOT or an expression would drop people that the statement asked for."""
    keys = compiled(tmp_path, f"SELECT site, COUNT(*) FROM patient WHERE {where} GROUP BY site").release.keys[0].values
    assert keys is not None and set(keys) >= {1, 2, 3}


def test_rule_15_narrowed_bounds_are_still_enforced(tmp_path: Path) -> None:
    """WHERE chooses a smaller clamp; a value that slips through WHERE is clamped all the same."""
    part = compiled(tmp_path, "SELECT SUM(income) FROM patient WHERE income >= 0 AND income <= 10")
    statistic = part.release.measures[0].statistic
    assert isinstance(statistic, Total) and statistic.term.magnitude * statistic.term.quantum == 10
    assert " BETWEEN " in part.sql.partition("SELECT")[2].partition("FROM")[0]
    assert sharp(poisoned(), "SELECT COUNT(*) FROM patient WHERE income >= 0 AND income <= 10")[0][0] == 2


def test_rule_16_where_and_group_by_see_raw_values(tmp_path: Path) -> None:
    """Bounds make no condition a tautology: people outside them are neither kept nor dropped by declaration."""
    data = {**empty(), "patient": [patient(1, age=2000), patient(2, age=None), patient(3, age=50)]}
    assert exact(tmp_path, "SELECT COUNT(*) FROM patient WHERE age <= 90", data) == [(1,)]
    assert exact(tmp_path, "SELECT COUNT(*) FROM patient WHERE age >= 10", data) == [(2,)]
    assert exact(tmp_path, "SELECT COUNT(*) FROM patient WHERE age IS NULL OR age > 5000", data) == [(1,)]
    assert exact(
        tmp_path, "SELECT COUNT(*) FROM patient WHERE site IN (1, 2, 3)", {**empty(), "patient": [patient(1, site=9)]}
    ) == [(0,)]


@pytest.mark.parametrize("unit", ["patient", "row"])
def test_rule_17_one_row_moves_the_shared_cells_by_the_width(tmp_path: Path, unit: str) -> None:
    """(A, B, N) of a row with, without and beyond a value: always exactly W in L1, also with COUNT(*) beside NULLs."""
    part = compiled(tmp_path, "SELECT AVG(weight), COUNT(weight), COUNT(*), SUM(weight) FROM patient", unit)
    (measure,) = part.release.measures
    assert isinstance(measure.statistic, Pair) and measure.statistic.cells == 3
    connection = duckdb.connect()

    def cells(data: clinic.Database) -> list[int]:
        clinic.fill(connection, data)
        (row,) = connection.execute(part.sql).fetchall()
        return [c[0] for c in measure.statistic.to_cells([[int(cell)] for cell in row])]

    base = cells(ordinary())
    for value in (None, NAN, 40.0, 200.0, 120.5, -1e18, 1e18, float("inf")):
        moved = cells({**ordinary(), "patient": [*ordinary()["patient"], patient(99, weight=value)]})
        assert (
            sum(abs(a - b) for a, b in zip(base, moved, strict=True))
            == measure.statistic.term.width
            == measure.sensitivity.l1
        )


def test_rule_18_totals_and_counts_are_clamped_together(tmp_path: Path) -> None:
    """A heavy person's count and sum are those of some `max_rows` of their rows, inside the bounds of that many."""
    data = {**ordinary(1), "visit": [visit(i, 1000, cost=5.0) for i in range(50)]}
    for sql in (
        "SELECT SUM(cost), COUNT(cost), COUNT(*) FROM visit",
        "SELECT year, SUM(cost), COUNT(cost), COUNT(*) FROM visit GROUP BY year",
    ):
        rows = exact(tmp_path, sql, data)
        total, values, count = (sum(float(row[i]) for row in rows) for i in (-3, -2, -1))  # type: ignore[arg-type]
        assert count == values == 3 and total == pytest.approx(15)
    nothing = {**ordinary(1), "visit": [visit(i, 1000, cost=None) for i in range(50)]}
    assert exact(tmp_path, "SELECT SUM(cost), COUNT(cost) FROM visit", nothing) == [(0.0, 0)]


def test_rule_20_null_and_nan_are_decided_before_any_bound(tmp_path: Path) -> None:
    """A NaN that turns into the upper bound, or a NULL into the lower one, would be somebody's value."""
    odd = {**empty(), "patient": [patient(1, income=NAN, weight=NAN), patient(2, income=None, weight=None)]}
    sql = "SELECT SUM(income), COUNT(income), SUM(weight), COUNT(weight), COUNT(*) FROM patient"
    for unit in ("patient", "row"):
        assert exact(tmp_path, sql, odd, unit) == [(0.0, 0, 0.0, 0, 2)]
    assert exact(tmp_path, "SELECT AVG(income) FROM patient", odd) == [(None,)]


def test_rule_21_noise_is_drawn_for_zeros_and_added_in_python(tmp_path: Path) -> None:
    """Sums beyond BIGINT keep every digit, and the noise source never sees them."""
    data = {**empty(), "patient": [patient(i, age=90) for i in range(10)]}
    clinic.write(tmp_path, data)
    noise = RecordedNoise()
    session = open_session(clinic.schema(tmp_path), None, ":memory:", noise=noise)
    row = session.execute("SELECT SUM(age * 1000000000000000000) FROM patient").rows[0]
    session.close()
    # The grid is coarser than 1, so that scales stay below 2^52; every value lies within one quantum.
    assert abs(int(row[0]) - 900 * 10**18) <= 10 * 2**30  # type: ignore[call-overload]
    assert all(scale <= 2**52 for _, scale, _ in noise.drawn) and [size for *_, size in noise.drawn] == [1]


def taken(connection: duckdb.DuckDBPyConnection, part: CompiledRelease, secret: str) -> dict[tuple[object, ...], int]:
    """COUNT(DISTINCT x) of each group, as the release stage makes it of engine SQL."""
    rows = ask(connection, part.matchings[0].sql, secret).fetchall()
    groups = {row[:-3] for row in rows}
    return {g: matched(*zip(*(row[-3:] for row in rows if row[:-3] == g), strict=True)) for g in groups}


def test_rule_24_a_limit_on_values_is_per_unit_and_group(tmp_path: Path) -> None:
    """Groups multiply it, rows bound all of it together, and NULL is no value."""
    asked = "SELECT year, COUNT(DISTINCT tag) FROM visit GROUP BY year"
    for limits, l1 in (("", 3), ("/* dpsql: max_values=1 */", 3), ("/* dpsql: max_values=1, max_groups=2 */", 2)):
        assert compiled(tmp_path, limits + asked).release.measures[0].sensitivity.l1 == l1
    many = [visit(i, 1000, year=1 + i % 4, tag=f"t{i}") for i in range(200)] + [visit(300, 1001, year=1, tag=None)]
    connection = duckdb.connect()
    clinic.fill(connection, {**ordinary(2), "visit": many})
    for limits, each, whole in (("", 3, 3), ("/* dpsql: max_values=1 */", 1, 3)):
        found = taken(connection, compiled(tmp_path, limits + asked), "00")
        assert sum(found.values()) == whole and max(found.values()) <= each
    assert compiled(tmp_path, "SELECT COUNT(DISTINCT note) FROM patient", "row").release.measures[0].sensitivity.l1 == 1


@pytest.mark.slow
def test_rule_24_a_secret_and_nothing_of_the_rows_order_decides_who_takes_what(tmp_path: Path) -> None:
    """The orders of units and of values are total: rows and threads change nothing, another secret does."""
    part = compiled(tmp_path, "/* dpsql: max_values=1 */ SELECT COUNT(DISTINCT tag) FROM visit")
    chance = random.Random(24)
    rows = [visit(i, 1000 + i % 12, tag=f"t{chance.randrange(14)}") for i in range(30)]
    seen: dict[str, set[int]] = {f"{i:02x}": set() for i in range(12)}
    for threads in (1, 2, 8):
        connection = duckdb.connect(config={"threads": str(threads)})
        for _ in range(5):
            chance.shuffle(rows)
            clinic.fill(connection, {**ordinary(), "visit": rows})
            for secret, found in seen.items():
                found.add(taken(connection, part, secret)[()])
        connection.close()
    assert all(len(found) == 1 for found in seen.values())
    assert len(set.union(*seen.values())) > 1


def test_rule_26_the_charge_is_that_of_the_sampler(tmp_path: Path) -> None:
    """Laplace costs its pure epsilon and no delta; a threshold costs delta beside it."""
    with opened(ordinary()) as connection:
        assert see(connection, "SELECT COUNT(*) FROM patient").delta == 0
        seen = see(connection, "SELECT note, COUNT(*) FROM patient GROUP BY note")
        assert (seen.epsilon, seen.delta) == (1, Fraction(1, 1000))
    for measure in compiled(tmp_path, "SELECT COUNT(*), SUM(days) FROM visit").release.measures:
        assert measure.noise.covers(measure.sensitivity.l1, measure.sensitivity.l2_squared, measure.loss)


@pytest.mark.parametrize("accounting", ["sequential", "advanced"])
def test_rule_27_gaussian_is_charged_by_its_conversion(accounting: str, tmp_path: Path) -> None:
    """Gaussian noise is priced in epsilon and delta where the ledger adds these up, and needs a delta."""
    sql = "/* dpsql: mechanism=gaussian */ SELECT COUNT(*), SUM(days) FROM visit"
    part = compiled(tmp_path, sql, accounting=accounting)
    assert all(isinstance(m.noise, DiscreteGaussian) and m.loss.delta > 0 for m in part.release.measures)
    assert part.release.loss.epsilon == 1 and part.release.loss.delta == Fraction(1, 1000)
    clinic.write(tmp_path, ordinary())
    session = open_session(clinic.schema(tmp_path, accounting=accounting), None, ":memory:", noise=ZeroNoise())
    charged = session.execute("/* dpsql: mechanism=gaussian */ SELECT COUNT(*) FROM visit").receipt.loss
    session.close()
    assert (charged.epsilon, charged.delta) == (1, Fraction(1, 1000))


@pytest.mark.parametrize("accounting", ["zcdp", "gdp"])
def test_rule_27_the_price_of_gaussian_noise_is_its_rho(accounting: str, tmp_path: Path) -> None:
    """epsilon = 1 stands for rho = tanh(1 / 2); no epsilon is charged, as none holds."""
    sql = "/* dpsql: mechanism=gaussian */ SELECT COUNT(*), SUM(days) FROM visit"
    release = compiled(tmp_path, sql, accounting=accounting).release
    assert release.loss.epsilon is None and abs(float(release.loss.rho) - tanh(0.5)) < 1e-12
    for measure in release.measures:
        assert isinstance(measure.noise, DiscreteGaussian)
        assert measure.loss.rho == measure.sensitivity.l2_squared / (2 * measure.noise.sigma_squared)


def test_rule_27_the_receipt_shows_rho_and_no_epsilon(tmp_path: Path) -> None:
    clinic.write(tmp_path, ordinary())
    session = open_session(clinic.schema(tmp_path, accounting="zcdp"), None, ":memory:", noise=ZeroNoise())
    charged = session.execute("/* dpsql: mechanism=gaussian */ SELECT COUNT(*) FROM visit").receipt.loss
    session.close()
    assert charged.epsilon is None and abs(float(charged.rho) - tanh(0.5)) < 1e-12


def test_rule_26_a_choice_costs_an_eighth_of_its_square_by_the_exponential_mechanism_alone(tmp_path: Path) -> None:
    """Permute-and-flip has no bounded range: it costs what any pure mechanism may."""
    sql = "/* dpsql: mechanism={} */ SELECT MODE(city) FROM patient"
    for named, kind, rho in (("gaussian", "exponential", 1 / 8), ("laplace", "permute_and_flip", tanh(0.5))):
        (part,) = compiled(tmp_path, sql.format(named)).release.chosen
        assert part.terms.kind == kind and part.loss.epsilon == 1
        assert 0 <= float(part.loss.rho) - rho < 1e-12


def test_rule_28_what_does_not_fit_changes_nothing() -> None:
    """One accountant: a charge above what is left is refused, and what is left stays the same."""
    with opened(ordinary()) as connection:
        connection.execute("/* dpsql: epsilon=999999 */ SELECT COUNT(*) FROM patient")
        seen = see(connection, "/* dpsql: epsilon=2 */ SELECT SUM(age) FROM patient")
        assert (
            seen.error is not None and seen.error[0] is dpsql.OperationalError.__subclasses__()[0] and seen.epsilon == 0
        )
        assert see(connection, "/* dpsql: epsilon=1 */ SELECT SUM(age) FROM patient").epsilon == 1


@pytest.mark.parametrize("accounting", ["sequential", "zcdp"])
@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_rule_29_a_threshold_holds_delta_with_equality_counted(tmp_path: Path, mechanism: str, accounting: str) -> None:
    """P(1 + Z >= tau) is at most delta over all groups of one unit, and tau - 1 would not do."""
    for table, key in (("patient", "note"), ("visit", "tag")):
        release = compiled(
            tmp_path,
            f"/* dpsql: mechanism={mechanism} */ SELECT {key}, COUNT(*) FROM {table} GROUP BY 1",
            accounting=accounting,
        ).release
        assert release.selection is not None
        units = release.measures[0]
        noise, tau, l0 = units.noise, release.selection.tau, units.sensitivity.l0
        cut = isinstance(noise, TruncatedLaplace)
        # noise that is cut off pays for its end itself, and the threshold beyond it for nothing
        delta = units.loss.delta if cut else release.selection.delta
        assert not (cut and release.selection.delta)
        assert 1 - (1 - noise.tail(tau - 1)) ** l0 <= delta
        if isinstance(noise, TruncatedLaplace):
            less = TruncatedLaplace(noise.scale, noise.most - 1)
            assert 1 - (1 - less.tail(less.most)) ** l0 > delta
            assert tau == noise.most + 1 and noise.tail(tau) == 0
        else:
            assert 1 - (1 - noise.tail(tau - 2)) ** l0 > delta
        assert release.loss.delta <= Fraction(1, 1000)
        assert (release.loss.epsilon is None) == (mechanism == "gaussian" and accounting == "zcdp")


@pytest.mark.slow
def test_rule_33_losses_follow_from_the_text(tmp_path: Path) -> None:
    """The plan's loss is known before the engine, never above the price, and the same release twice is one."""
    for sql in (
        "SELECT COUNT(*), COUNT(*), SUM(age), SUM(age) * 2 FROM patient",
        "SELECT note, COUNT(*), AVG(age) FROM patient GROUP BY 1",
    ):
        plan = compile_statement(parse(sql), Options(), clinic.schema(tmp_path)).plan
        losses.check_plan(plan, sql)
        assert len(plan.releases) == 1
    repeated = "SELECT COUNT(*), COUNT(*) + 1, COUNT(*) * 2 FROM patient HAVING COUNT(*) > 3"
    assert len(compiled(tmp_path, repeated).release.measures) == 1
    several = [
        "SELECT COUNT(*) FROM patient WHERE age > (SELECT AVG(age) FROM patient)",
        "SELECT COUNT(*) FROM patient p WHERE age > (SELECT AVG(age) FROM patient q WHERE q.site = p.site)",
        "SELECT year, COUNT(*) FROM visit JOIN (SELECT year AS top FROM visit GROUP BY year ORDER BY COUNT(*) DESC LIMIT 2) t "
        "ON visit.year = t.top GROUP BY year",
        "SELECT site FROM patient GROUP BY site HAVING COUNT(*) > 3 EXCEPT SELECT site FROM patient GROUP BY site HAVING AVG(age) > 35",
        "SELECT note, (SELECT COUNT(*) FROM visit) AS v FROM patient GROUP BY note HAVING COUNT(*) > 3",
        "SELECT drug, (SELECT COUNT(*) FROM patient WHERE patient.site = drug.drug) AS n FROM drug",
    ]
    for sql, found in everywhere(several).items():
        assert len({(one.error, one.epsilon, one.delta) for one in found}) == 1, sql
        assert found[0].error is None and 0 < found[0].epsilon <= 1 and found[0].delta <= Fraction(1, 1000)


def checked(folder: Path, data: clinic.Database, noise: ZeroNoise) -> Session:
    """A session over data that its owner has checked: what was verified of it is known."""
    clinic.write(folder, data)
    schema = clinic.schema(folder)
    ledger = Ledger.open(folder / "checked.ledger", ledger_identity(schema))
    owner.check(schema, ledger, prepare=True)
    ledger.close()
    return open_session(schema, None, folder / "checked.ledger", noise=noise)


def drawn(folder: Path, sql: str, data: clinic.Database | None = None) -> tuple[Rows, int, int]:
    """(rows, releases charged, draws) of one statement without noise."""
    clinic.write(folder, data if data is not None else ordinary())
    noise = RecordedNoise()
    session = open_session(clinic.schema(folder), None, ":memory:", noise=noise)
    answer = session.execute(sql)
    session.close()
    return answer.rows, answer.releases, len(noise.drawn)


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SELECT (SELECT COUNT(*) FROM patient) + (SELECT COUNT(*) FROM patient) AS twice", [(24,)]),
        ("WITH r AS (SELECT site, COUNT(*) AS n FROM patient GROUP BY site) SELECT a.n, b.n FROM r a JOIN r b USING "
         "(site)", [(4, 4)] * 3),
        ("SELECT COUNT(*) - (SELECT COUNT(*) FROM patient p) AS none FROM patient", [(0,)]),
        ("SELECT COUNT(*) FROM patient UNION ALL SELECT COUNT(*) FROM main.patient AS q", [(12,), (12,)]),
        ("SELECT x - y AS none FROM (SELECT COUNT(*) AS x FROM patient WHERE age > 40), (SELECT COUNT(*) AS y FROM "
         "patient WHERE 40 < age)", [(0,)]),
    ],
)  # fmt: skip
def test_rule_33_the_same_release_twice_is_one_draw_and_one_charge(tmp_path: Path, sql: str, rows: Rows) -> None:
    """Two draws of one question would be two answers, and their average a better one."""
    assert drawn(tmp_path, sql) == (rows, 1, 1)


@pytest.mark.slow
def test_rule_33_a_missing_group_counts_zero(tmp_path: Path) -> None:
    """Correlated subqueries are LEFT JOINs on their keys: COUNT of no rows is 0, every other aggregate NULL."""
    some = {**ordinary(), "item": [(0, 1, "1.000", 1), (1, 1, "2.000", 1)]}
    sql = "SELECT drug, (SELECT COUNT(*) FROM item i WHERE i.drug = d.drug) AS n FROM drug d ORDER BY drug"
    assert exact(tmp_path, sql, some) == [(1, 2), (2, 0), (5, 0)]
    sql = "SELECT drug, (SELECT COUNT(*) FROM patient p WHERE p.site = d.drug) AS n FROM drug d ORDER BY drug"
    assert exact(tmp_path, sql, ordinary()) == [(1, 4), (2, 4), (5, 0)]
    nobody_came = {**ordinary(), "visit": []}
    within = "(SELECT COUNT(*) FROM visit v WHERE v.patient_id = p.patient_id)"
    assert exact(tmp_path, f"SELECT COUNT(*) FROM patient p WHERE {within} = 0", nobody_came) == [(12,)]
    total = "(SELECT SUM(days) FROM visit v WHERE v.patient_id = p.patient_id)"
    assert exact(tmp_path, f"SELECT COUNT(*) FROM patient p WHERE {total} IS NULL", nobody_came) == [(12,)]
    refused(
        tmp_path,
        [
            f"SELECT COUNT(*) FROM patient p WHERE age > (SELECT AVG(age) FROM patient q WHERE q.site {operator} p.site)"
            for operator in ("<", ">=", "<>", "IS DISTINCT FROM", "+ 1 <")
        ],
    )


def test_rule_34_the_guard_decides_once_and_before_the_charge(tmp_path: Path) -> None:
    """A fault of the second release is said before the first is paid for; a released value is an opaque constant."""
    refused(
        tmp_path,
        [
            f"SELECT COUNT(*) FROM patient WHERE age > (SELECT AVG(age) FROM patient WHERE patient_id = {PERSON})",
            f"SELECT COUNT(*) FROM patient WHERE patient_id = {PERSON} AND age > (SELECT AVG(age) FROM patient)",
            "SELECT COUNT(*) FROM patient WHERE patient_id > (SELECT COUNT(*) FROM patient)",
            f"SELECT (SELECT COUNT(*) FROM patient) - (SELECT COUNT(*) FROM patient WHERE patient_id <> {PERSON}) AS one",
            "SELECT COUNT(*) FROM patient UNION ALL SELECT COUNT(*) FROM visit WHERE visit_id = 7",
            f"SELECT COUNT(*) FROM patient p WHERE EXISTS (SELECT 1 FROM visit v WHERE v.patient_id = p.patient_id "
            f"AND v.patient_id = {PERSON})",
            f"SELECT COUNT(*) FROM (SELECT patient_id AS k, age FROM patient) WHERE k = {PERSON}",
            f"SELECT COUNT(*) FROM (SELECT patient_id, MAX(patient_id) AS k FROM visit GROUP BY patient_id) WHERE k = {PERSON}",
            f"SELECT SUM(CASE WHEN k = {PERSON} THEN 1 ELSE 0 END) FROM (SELECT patient_id, LAG(patient_id) OVER "
            "(PARTITION BY patient_id ORDER BY year) AS k FROM visit)",
            f"SELECT COUNT(*) FROM (SELECT patient_id AS k FROM patient UNION ALL SELECT patient_id FROM visit) WHERE k = {PERSON}",
            f"SELECT COUNT(*) FROM patient JOIN visit ON patient.patient_id = visit.patient_id AND visit.patient_id = {PERSON}",
            f"SELECT COUNT(*) FROM patient LEFT JOIN visit ON patient.patient_id = visit.patient_id AND visit.patient_id = {PERSON}",
            f"SELECT COUNT(*) FROM patient p JOIN (SELECT {PERSON} AS k) t ON p.patient_id = t.k",
            f"SELECT COUNT(*) FROM patient WHERE patient_id IN (SELECT {PERSON})",
            f"SELECT COUNT(*) FROM patient WHERE patient_id IN (VALUES ({PERSON}))",
            f"SELECT COUNT(*) FROM patient WHERE EXISTS (SELECT 1 FROM (SELECT {PERSON} AS k) t WHERE t.k = patient.patient_id)",
            "SELECT COUNT(*) FROM patient JOIN drug ON patient.patient_id = drug.drug",
        ],
    )
    clinic.write(tmp_path, ordinary())
    session = open_session(clinic.schema(tmp_path), None, ":memory:", noise=ZeroNoise())
    part = compiled_by(
        session, parse("SELECT COUNT(*) FROM patient WHERE age > (SELECT AVG(age) - 1000 FROM patient)")
    ).releases[1]
    assert [scalar.function for scalar in part.release.limited.block.expressions[-1:]] == [">"]
    assert "released" in {p.function for scalar in part.release.limited.block.expressions for p in scalar.walk()}
    session.close()


def test_rule_35_bounds_are_enforced_whatever_the_data() -> None:
    """Opening does not fail because of a value, and EXPLAIN is the same on data that breaks every declaration."""
    texts = set()
    for data in (ordinary(), poisoned(), empty()):
        with opened(data) as connection:
            texts.add(connection.explain("SELECT year, SUM(cost), COUNT(*) FROM visit GROUP BY year"))
    assert len(texts) == 1 and "enforced" in texts.pop()


@pytest.mark.slow
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT year, SUM(days), COUNT(*) FROM visit GROUP BY year",
        "SELECT COUNT(*), COUNT(DISTINCT patient_id) FROM visit WHERE days > 1",
        "SELECT site, AVG(days), COUNT(*) FROM patient JOIN visit USING (patient_id) GROUP BY site",
    ],
)
def test_rule_35_verified_facts_only_skip_what_is_the_identity(
    tmp_path: Path, sql: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On verified data the engine runs shorter SQL; plan, noise, price, EXPLAIN and fingerprint are the same, and so are the sums."""
    ran: list[str] = []
    original = DuckDBEngine.exact

    def spy(engine: DuckDBEngine, text: str, *rest: object) -> object:
        ran.append(text)
        return original(engine, text, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(DuckDBEngine, "exact", spy)
    found = []
    for name, data in {"verified": ordinary(), "heavy": heavy(50), "poisoned": poisoned()}.items():
        folder = tmp_path / name
        folder.mkdir()
        noise = RecordedNoise()
        session = checked(folder, data, noise)
        part = compiled_by(session, parse(sql)).releases[0]
        loss = session.execute(sql).receipt.loss
        fits = [v.sql for v in part.verified if v.facts <= session._world.dataset.facts]
        assert part.verified and ran[-1] == [*fits, part.sql][0]
        assert (
            {"verified": len(part.verified), "heavy": 0}.get(name, len(fits)) == len(fits) != {"poisoned": 2}.get(name)
        )
        found.append(
            (
                part.sql,
                part.verified,
                part.release.fingerprint,
                part.release.measures,
                loss,
                session.explain(sql),
                noise.drawn,
            )
        )
        session.close()
    assert all(one == found[0] for one in found)


@pytest.mark.few(1)
@pytest.mark.parametrize("seed", range(6))
def test_rule_35_the_shorter_sql_gives_the_same_sums(tmp_path: Path, seed: int) -> None:
    """Whatever is verified of the data, both texts give the same exact table."""
    chance = random.Random(seed)
    session = checked(tmp_path, clinic.database(chance, wild=seed % 2 == 1), ZeroNoise())
    secret = session._world.ledger.secret.hex()
    compared = 0
    for sql in (
        "SELECT year, SUM(days), COUNT(days), COUNT(*) FROM visit GROUP BY year",
        "SELECT tag, COUNT(*), SUM(cost) FROM visit GROUP BY tag",
        "SELECT drug, SUM(amount) FROM item GROUP BY drug",
        "SELECT site, SUM(age), COUNT(*), AVG(score), VARIANCE(weight) FROM patient GROUP BY site",
        "SELECT site, SUM(days), COUNT(*) FROM patient LEFT JOIN visit USING (patient_id) GROUP BY site",
    ):
        part = compiled_by(session, parse(sql)).releases[0]
        for short in part.verified:
            if short.facts <= session._world.dataset.facts:
                both = [
                    session._world.dataset.engine.exact(
                        text, part.key_columns, part.sum_columns, cut=secret
                    ).open_exact()
                    for text in (part.sql, short.sql)
                ]
                rows = [sorted(zip(*keys, *sums, strict=True), key=repr) for keys, sums in both]
                assert [r for r in rows[0] if any(r[part.key_columns :])] == [
                    r for r in rows[1] if any(r[part.key_columns :])
                ], sql
                compared += 1
    session.close()
    assert compared or seed % 2 == 1


def test_rule_36_structure_that_cannot_be_enforced_is_verified(tmp_path: Path) -> None:
    """One row per patient and one visit per number are promises of the keys: data that breaks them is not opened, in words
    without its values."""
    data = ordinary()
    for broken in (
        {**data, "patient": [*data["patient"], patient(3, note="again")]},
        {**data, "visit": [*data["visit"], visit(7, 1001)]},
    ):
        clinic.write(tmp_path, broken)
        with pytest.raises(dpsql.Error) as raised:
            dpsql.connect(clinic.schema(tmp_path), ledger=":memory:")
        assert raised.value.code == "DPSQL-804" and str(PERSON) not in str(raised.value)


def test_rule_36_private_rows_meet_along_verified_keys_only(tmp_path: Path) -> None:
    """`visit_id = visit_id` is one person by the verified key; an undeclared key of the same values is not."""
    assert compiled(tmp_path, "SELECT COUNT(*) FROM visit JOIN item USING (visit_id)").release.limited.limits.rows == 4
    assert (
        compiled(tmp_path, "SELECT COUNT(*) FROM item a JOIN item b USING (visit_id)").release.limited.limits.rows == 16
    )
    refused(
        tmp_path,
        [
            "SELECT COUNT(*) FROM item a JOIN item b ON a.batch = b.batch",
            "SELECT COUNT(*) FROM visit v JOIN item i ON v.year = i.drug",
            "SELECT COUNT(*) FROM visit v JOIN item i ON v.visit_id = i.batch",
        ],
    )


def test_rule_36_declared_analysts_need_the_owners_approval(tmp_path: Path) -> None:
    """Declared analysts need an approval: opening approves nothing by itself."""
    clinic.write(tmp_path, ordinary())
    clinic.schema(tmp_path)
    path = tmp_path / "patient.toml"
    path.write_text(path.read_text() + "\n[analysts.alice]\nepsilon = 1.0\n")
    with pytest.raises(dpsql.Error) as raised:
        dpsql.connect(path, analyst="alice", ledger=tmp_path / "x.ledger")
    assert raised.value.code == "DPSQL-708"
    with pytest.raises(dpsql.Error):
        dpsql.connect(path, analyst=None, ledger=tmp_path / "x.ledger")


def test_rule_37_versions_are_random_and_say_nothing_of_the_contents(tmp_path: Path) -> None:
    """Equal contents under two ledgers have two versions; EXPLAIN and errors name none."""
    clinic.write(tmp_path, ordinary())
    versions = []
    for ledger in ("a.ledger", "b.ledger"):
        session = open_session(clinic.schema(tmp_path), None, tmp_path / ledger)
        version = session._world.dataset.version
        assert version not in session.explain("SELECT COUNT(*) FROM visit")
        versions.append(version)
        session.close()
        for mark in tmp_path.glob(".*.dpsql"):
            mark.unlink()
    assert versions[0] != versions[1]


def test_rule_38_estimates_do_not_use_the_datas_size() -> None:
    """Widths in EXPLAIN and half-widths of counts are those of the noise alone, on 12 rows as on none."""
    texts = set()
    for data in (ordinary(), ordinary(50), empty()):
        with opened(data) as connection:
            texts.add(connection.explain("SELECT site, COUNT(*), AVG(age) FROM patient GROUP BY site"))
    assert len(texts) == 1


@pytest.mark.slow
def test_rule_39_functions_without_a_guard_are_refused(tmp_path: Path) -> None:
    """A function on which DuckDB raises is either guarded (test_totality.py) or not in the grammar."""
    calls = [
        "factorial(age)",
        "age << code",
        "to_timestamp(income)",
        "epoch_ms(code)",
        "regexp_matches(note, '(')",
        "regexp_replace(note, note, '')",
        "format(note, age)",
        "printf(note)",
        "repeat(note, code)",
        "list_extract([1], code)",
        "note::INTEGER[]",
        "note::JSON",
        "age & code",
        "gamma(income)",
        "cot(income)",
        "error(note)",
        "bar(age, 1, 2)",
    ]
    refused(tmp_path, [f"SELECT COUNT(*) FROM patient WHERE {call} IS NULL" for call in calls])


def test_rule_40_the_fingerprint_leaves_out_scales_and_what_was_drawn(tmp_path: Path) -> None:
    """The stored answer is found by the question and the version, in another session with other noise."""
    clinic.write(tmp_path, ordinary())
    rows = []
    for noise in (None, ZeroNoise()):
        session = open_session(clinic.schema(tmp_path), None, tmp_path / "x.ledger", noise=noise)
        answer = session.execute("SELECT site, SUM(age) FROM patient GROUP BY site")
        rows.append(answer.rows)
        session.close()
    assert rows[0] == rows[1] and answer.cached and answer.receipt.loss.epsilon == 0


def test_rule_40_the_charge_is_on_disk_before_the_engine_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that explodes leaves the charge; no answer is stored, and asking again is charged again."""
    with opened(ordinary()) as connection:

        def explode(engine: DuckDBEngine, sql: str, keys: int, sums: int, bound: object = ()) -> object:
            raise dpsql.OperationalError(701, "the engine failed")

        monkeypatch.setattr(DuckDBEngine, "exact", explode)
        for spent in (1, 1):
            assert see(connection, "SELECT COUNT(*) FROM patient").epsilon == spent
        monkeypatch.undo()
        assert see(connection, "SELECT COUNT(*) FROM patient").epsilon == 1
        assert see(connection, "SELECT COUNT(*) FROM patient").epsilon == 0


def tally_of(part: CompiledRelease, data: clinic.Database) -> Counter[tuple[object, ...]]:
    """The number of rows of each group and bucket that the engine hands to the release stage, what is cut being cut."""
    connection = duckdb.connect()
    clinic.fill(connection, data)
    rows = ask(connection, part.histograms[0].sql, "00").fetchall()
    keys = part.key_columns
    return Counter({row[: keys + 1]: row[keys + 1] for row in rows})


@pytest.mark.slow
@pytest.mark.parametrize("limits", ["", "/* dpsql: max_groups=1 */", "/* dpsql: max_rows=2 */"])
def test_rule_23_one_unit_moves_as_many_rows_between_buckets_as_it_may_have(tmp_path: Path, limits: str) -> None:
    """Whatever the values are; every clamped sum then moves by at most that many times the clamp."""
    for sql in (
        "SELECT dp_sum(cost, bounds := 'auto') FROM visit",
        "SELECT year, dp_sum(days, bounds := 'auto') FILTER (WHERE cost > 6) FROM visit GROUP BY year",
        "SELECT dp_randomized_response(year = 2, 0.01) FROM visit",
    ):
        part = compiled(tmp_path, limits + sql)
        most = part.release.limited.limits.rows
        chance = random.Random(23)
        for _ in range(8):
            data = clinic.database(chance)
            people = data["patient"]
            if not people:
                continue
            gone = chance.choice(people)[0]
            fewer = {**data, "visit": [row for row in data["visit"] if row[1] != gone]}
            whole, rest = tally_of(part, data), tally_of(part, fewer)
            assert sum(((whole - rest) + (rest - whole)).values()) <= most, sql


@pytest.mark.slow
def test_rule_23_buckets_follow_from_the_type_and_empty_ones_get_noise(tmp_path: Path) -> None:
    """The same draws on an empty table, on values of one size and on enormous ones; what is not finite is left out."""
    sql = "/* dpsql: epsilon=300 */ SELECT dp_sum(income, bounds := 'auto') AS s FROM patient"
    sizes, values = [], []
    for incomes in ([], [1.0] * 9, [1e300, -1e300, 2.0**-16], [NAN, float("inf"), float("-inf")] * 3, [3.0, NAN]):
        data = {**empty(), "patient": [patient(i, income=x) for i, x in enumerate(incomes)]}
        clinic.write(tmp_path, data)
        noise = RecordedNoise()
        session = open_session(clinic.schema(tmp_path), None, ":memory:", noise=noise)
        values.append(session.execute(sql).rows[0][0])
        session.close()
        sizes.append([size for *_, size in noise.drawn])
    assert [size[0] for size in sizes] == [57] * 5 and [len(size) for size in sizes] == [1, 2, 2, 1, 2]
    assert values == [None, 9.0, pytest.approx(2.0**-16, abs=2.0**-15), None, 3.0]


def test_rule_23_the_clamp_is_chosen_from_noisy_counts_alone(tmp_path: Path) -> None:
    """Its part of the loss is spent before the sum is looked at, and both are the price."""
    release = compiled(tmp_path, "SELECT year, dp_sum(cost, bounds := 'auto') FROM visit GROUP BY year").release
    (chosen,) = release.chosen
    auto, rows = chosen.over_histogram, release.limited.limits.rows
    assert isinstance(auto, AutoSum) and rows == 3
    counting = rows / auto.counting(chosen.terms).scale
    for exponent in range(20):
        noise, grid = auto.summing(exponent, chosen.terms)
        assert counting + Fraction(rows * 2**exponent, grid) / noise.scale == release.loss.epsilon


def test_rule_25_reports_and_the_noise_on_their_number_are_both_charged(tmp_path: Path) -> None:
    """K epsilon for the reports of K rows and the rest for the number of reports; a price without a rest is refused."""
    asked = "SELECT year, dp_randomized_response(tag = 't1', 0.25) FROM visit GROUP BY year"
    release = compiled(tmp_path, asked).release
    (chosen,) = release.chosen
    responses = chosen.over_histogram
    assert isinstance(responses, Responses) and release.limited.limits.rows == 3
    assert 3 * responses.reports.epsilon + 3 / responses.noise(chosen.terms).scale == release.loss.epsilon == 1
    refused(tmp_path, [asked.replace("0.25", "0.34"), "SELECT dp_randomized_response(female, 1.0) FROM patient"])
    refused(tmp_path, ["/* dpsql: epsilon=2 */ SELECT dp_randomized_response(female, 1.0), COUNT(*) FROM patient"])


def test_rule_25_every_row_is_randomised_and_the_number_of_rows_is_not_released(tmp_path: Path) -> None:
    """A coin for each row that has an answer, and noise on both numbers of reports, of every group."""
    data = {**empty(), "patient": [patient(i, site=1 + i % 2, female=[True, False, None][i % 3]) for i in range(12)]}
    clinic.write(tmp_path, data)
    noise = RecordedNoise()
    session = open_session(clinic.schema(tmp_path), None, ":memory:", noise=noise)
    session.execute("SELECT site, dp_randomized_response(female, 0.5) FROM patient GROUP BY site")
    session.close()
    laplace = [(scale, size) for kind, scale, size in noise.drawn if kind == "laplace"]
    coins = sum(parameter.numerator.bit_length() // 64 for kind, parameter, _ in noise.drawn if kind == "below")
    assert laplace == [(2, 6)] and coins == 8
