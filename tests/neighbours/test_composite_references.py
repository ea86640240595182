"""References over several columns: one person moves answers by no more than is claimed, and faults in whose row it is are caught.

An order's number says nothing without its store: the same number is another person's order in the next one. Some rows refer to nothing,
or have a NULL in one part of the key.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

from dpsql.core.domains import UNBOUNDED
from dpsql.core.sqltypes import BIGINT, VARCHAR
from dpsql.engines.duckdb.views import unit_view
from dpsql.expressions import scalar as scalars
from dpsql.expressions.scalar import Scalar
from dpsql.planner.resolve import memberships, subqueries
from dpsql.relations import declared, joins
from dpsql.schema.model import Column, Schema, Table
from dpsql.schema.paths import HeldPart, held_parts
from dpsql.schema.toml import read_schema
from dpsql.session.opening import open_session
from tests.support import clinic
from tests.support.market_cases import Pair, check
from tests.support.neighbours import accepted
from tests.support.noise import ZeroNoise
from tests.support.violation import Violation

Patch = pytest.MonkeyPatch
Row = tuple[object, ...]
Database = dict[str, list[Row]]
SCHEMA = """
[dataset]
name = "chain"
source = "chain.duckdb"
[privacy]
unit = "customer.customer_id"
epsilon = 20.0
delta = 0.5
query = { epsilon = 1.0, delta = 1e-3 }
caps = { epsilon = 20.0, delta = 0.4 }
[guard]
mode = "off"
[tables.customer]
key = ["customer_id"]
[tables.customer.columns]
customer_id = { type = "BIGINT" }
region = { type = "BIGINT", domain = [0, 1, 2] }
[tables.orders]
key = ["order_no", "store_id"]
references = { customer_id = "customer.customer_id" }
max_rows_per_unit = 3
[tables.orders.columns]
store_id = { type = "BIGINT", domain = [0, 1] }
order_no = { type = "VARCHAR" }
price = { type = "DOUBLE", bounds = [0, 50], step = 1 }
[tables.line]
key = ["shop", "number", "line_no"]
references = { "shop, number" = ["orders.store_id", "orders.order_no"] }
max_rows_per_unit = 4
[tables.line.columns]
shop = { type = "BIGINT", domain = [0, 1] }
line_no = { type = "BIGINT", domain = [0, 1, 2] }
amount = { type = "DOUBLE", bounds = [0, 9], step = 1 }
[tables.mark]
references = { "shop, number, line_no" = ["line.shop", "line.number", "line.line_no"] }
max_rows_per_unit = 5
[tables.mark.columns]
shop = { type = "BIGINT", domain = [0, 1] }
line_no = { type = "BIGINT", domain = [0, 1, 2] }
grade = { type = "BIGINT", bounds = [0, 3] }
[tables.shelf]
public = true
key = ["shop", "line_no"]
"""
TABLES = {
    "customer": "customer_id BIGINT, region BIGINT",
    "orders": "store_id BIGINT, order_no VARCHAR, price DOUBLE, customer_id BIGINT",
    "line": "shop BIGINT, line_no BIGINT, amount DOUBLE, number VARCHAR",
    "mark": "shop BIGINT, line_no BIGINT, grade BIGINT, number VARCHAR",
    "shelf": "shop BIGINT, line_no BIGINT, label VARCHAR",
}
STATEMENTS = [
    "SELECT COUNT(*), SUM(amount) FROM line",
    "SELECT line_no, SUM(grade) FROM mark GROUP BY line_no",
    "SELECT SUM(amount), SUM(price) FROM line l JOIN orders o ON l.shop = o.store_id AND l.number = o.order_no",
    "SELECT COUNT(*) FROM orders o LEFT JOIN line l ON l.number = o.order_no AND l.shop = o.store_id",
    "SELECT region, SUM(grade) FROM mark m JOIN line l USING (shop, number, line_no) "
    "JOIN orders o ON o.store_id = l.shop AND o.order_no = l.number JOIN customer USING (customer_id) GROUP BY region",
    "SELECT COUNT(*), SUM(s) FROM (SELECT shop, number, SUM(amount) AS s FROM line GROUP BY shop, number)",
    "SELECT COUNT(*) FROM (SELECT DISTINCT number, shop FROM line)",
    "SELECT COUNT(*) FROM orders o WHERE EXISTS "
    "(SELECT 1 FROM line l WHERE l.shop = o.store_id AND l.number = o.order_no AND amount > 4)",
    "SELECT SUM(amount) FROM line l WHERE NOT EXISTS "
    "(SELECT 1 FROM mark m WHERE m.shop = l.shop AND m.number = l.number AND m.line_no = l.line_no)",
    "SELECT SUM(r) FROM (SELECT rank() OVER (PARTITION BY shop, number ORDER BY amount) AS r FROM line) WHERE r BETWEEN 0 AND 3",
    "SELECT COUNT(*), SUM(amount) FROM line JOIN shelf USING (shop, line_no) WHERE label <> '01'",
    "SELECT COUNT(*), SUM(amount) FROM line l, orders o, customer c "
    "WHERE l.shop = o.store_id AND l.number = o.order_no AND o.customer_id = l.line_no AND l.line_no = c.customer_id",
    "SELECT COUNT(*) FROM (SELECT store_id, order_no FROM orders EXCEPT SELECT shop, number FROM line WHERE amount > 4)",
    "SELECT line_no, COUNT(*) FROM (SELECT number, shop, line_no FROM line INTERSECT "
    "SELECT number, shop, line_no FROM mark) GROUP BY 1",
    # refused, unless a fault takes parts for the whole
    "SELECT COUNT(*) FROM orders o JOIN line l ON l.number = o.order_no",
    "SELECT COUNT(*) FROM orders o WHERE EXISTS (SELECT 1 FROM line l WHERE l.number = o.order_no)",
    "SELECT COUNT(*), SUM(s) FROM (SELECT number, SUM(amount) AS s FROM line GROUP BY number)",
    "SELECT COUNT(*) FROM (SELECT order_no, 0 AS s FROM orders EXCEPT SELECT number, shop FROM line WHERE amount > 4)",
    "SELECT COUNT(*) FROM (SELECT a.store_id AS s, b.order_no AS n FROM orders a JOIN orders b USING (customer_id)) AS x "
    "JOIN line l ON x.s = l.shop AND x.n = l.number",
    "SELECT COUNT(*), SUM(c) FROM (SELECT s, n, COUNT(*) AS c FROM (SELECT a.store_id AS s, b.order_no AS n "
    "FROM orders a JOIN orders b USING (customer_id)) AS x GROUP BY s, n)",
]  # fmt: skip


def schema(folder: Path) -> Schema:
    (folder / "schema.toml").write_text(SCHEMA, encoding="utf-8")
    shelf = [Column(n, t, UNBOUNDED, True, "") for n, t in [("shop", BIGINT), ("line_no", BIGINT), ("label", VARCHAR)]]
    read = read_schema(folder / "schema.toml")
    return replace(read, tables=tuple(replace(t, columns=tuple(shelf)) if t.public else t for t in read.tables))


def database(chance: random.Random) -> Database:
    """Few stores and numbers, so that most numbers are several people's; now and then a part is NULL, or refers to nothing."""
    people = list(range(chance.choice([1, 3, 6])))
    numbers = ["a", "A", "1", "01", None]
    orders = [
        (store, number, float(chance.randint(-9, 60)), chance.choice([*people, *people, None]))
        for store in (0, 1, None)
        for number in numbers
        if chance.random() < 0.8
    ]
    lines = [
        (store, n, float(chance.randint(0, 12)), number)
        for store in (0, 1, 7, None)
        for number in numbers
        for n in (0, 1, 2, None)
        if chance.random() < 0.5
    ]
    marks = [(s, n, chance.randint(0, 4), number) for s, n, _, number in lines * 2 if chance.random() < 0.6]
    shelf = [(s, n, f"{s}{n % 2}") for s in (0, 1) for n in (0, 1, 2)]
    found: Database = {
        "customer": [(p, chance.randint(0, 3)) for p in people],
        "orders": [*orders],
        "line": [*lines],
        "mark": [*marks],
    }
    return {**{name: chance.sample(rows, len(rows)) for name, rows in found.items()}, "shelf": [*shelf]}


def owner(data: Database, table: str, row: Row) -> object:
    """The owner of a row, by walking the references; None for nobody."""
    if table == "customer":
        return row[0]
    if table == "orders":
        return row[3]
    above, mine = ("orders", (row[0], row[3])) if table == "line" else ("line", (row[0], row[3], row[1]))
    key = {"orders": (0, 1), "line": (0, 3, 1)}[above]
    met = [r for r in data[above] if None not in mine and tuple(r[i] for i in key) == mine]
    return owner(data, above, met[0]) if met else None


def without(data: Database, person: object) -> Database:
    return {
        name: rows if name == "shelf" else [row for row in rows if owner(data, name, row) != person]
        for name, rows in data.items()
    }


def fill(connection: duckdb.DuckDBPyConnection, data: Database) -> None:
    for name, rows in data.items():
        connection.execute(f"DELETE FROM {name}")
        if rows:
            connection.execute(f"INSERT INTO {name} VALUES {clinic.listed(rows)}")


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    found = duckdb.connect(config={"threads": "1"}), duckdb.connect(config={"threads": "2"})
    for connection in found:
        for name, columns in TABLES.items():
            connection.execute(f"CREATE TABLE {name} ({columns})")
    yield found
    for connection in found:
        connection.close()


def run(folder: Path, pair: Pair, rounds: int) -> set[str]:
    """Check every statement that is accepted on pairs of neighbours; those that were. Raises Violation."""
    known, chance = schema(folder), random.Random(7)
    asked = {sql: compiled for sql in STATEMENTS if (compiled := accepted(sql, known)) is not None}
    for connection in pair:
        for table in known.tables:
            if not table.public and known.unit_column(table) is None:
                connection.execute(unit_view(known, table))
    for _ in range(rounds):
        data = database(chance)
        gone = chance.choice(data["customer"])[0]
        fill(pair[0], data)
        fill(pair[1], without(data, gone))
        for sql, compiled in asked.items():
            check(sql, compiled, pair, gone, known)
    return set(asked)


@pytest.mark.slow
def test_one_person_moves_answers_by_no_more_than_is_claimed(tmp_path: Path, pair: Pair) -> None:
    assert run(tmp_path, pair, 12) == set(STATEMENTS[:-6])


DIFFERENCES = [
    "SELECT COUNT(*) FROM (SELECT store_id, order_no FROM orders EXCEPT SELECT shop, number FROM line)",
    "SELECT COUNT(*) FROM (SELECT store_id, order_no FROM orders INTERSECT SELECT shop, number FROM line WHERE amount > 4)",
    "SELECT line_no, COUNT(*) FROM (SELECT line_no, number, shop FROM line EXCEPT SELECT line_no, number, shop FROM mark) GROUP BY 1",
]


@pytest.mark.parametrize("sql", DIFFERENCES)
def test_rows_of_the_same_keys_are_those_of_plain_sql(sql: str, tmp_path: Path) -> None:
    """The same number is another order in the next store; a line with several marks is one line."""
    data: Database = {
        "customer": [(p, p % 3) for p in range(4)],
        "orders": [(s, n, 9.0, p) for s, n, p in [(0, "a", 0), (1, "a", 1), (0, "b", 1), (1, "b", 2), (0, "c", 3)]],
        "line": [(0, 0, 5.0, "a"), (0, 1, 2.0, "a"), (1, 0, 3.0, "b"), (0, 0, 6.0, "c"), (0, 2, 7.0, "b")],
        "mark": [(0, 0, 1, "a"), (0, 0, 3, "a"), (1, 0, 2, "b"), (0, 2, 2, "b")],
        "shelf": [],
    }
    schema(tmp_path)
    with duckdb.connect(str(tmp_path / "chain.duckdb")) as connection:
        for name, columns in TABLES.items():
            connection.execute(f"CREATE TABLE {name} ({columns})")
        fill(connection, data)
        plain = connection.execute(f"{sql} ORDER BY ALL").fetchall()
    with closing(open_session(tmp_path / "schema.toml", None, ":memory:", ZeroNoise())) as session:
        found = session.execute(sql).rows
    assert [row for row in sorted(found) if row[-1]] == plain != [(0,)]


def a_part_is_the_whole_key(patch: Patch) -> None:
    def any_part(pairs: Iterator[tuple[Scalar, Scalar]]) -> bool:
        return any(scalars.same_key(a, b) or any(True for _ in scalars.same_parts(a, b)) for a, b in pairs)

    for module in (joins, memberships, subqueries):
        patch.setattr(module, "equate_keys", any_part)


def parts_of_different_rows_are_a_key(patch: Patch) -> None:
    def anywhere(schema: Schema, table: Table, row: str) -> dict[str, frozenset[HeldPart]]:
        return held_parts(schema, table, "")

    patch.setattr(declared, "held_parts", anywhere)


def _viewed(patch: Patch, change: Callable[[str], str]) -> None:
    true = unit_view
    patch.setitem(globals(), "unit_view", lambda known, table: change(true(known, table)))


def the_way_up_compares_one_column(patch: Patch) -> None:
    _viewed(patch, lambda sql: re.sub(r"ON .*? AND (?=t\d\.\"[^\"]*\" = t\d\.\"[^\"]*\"( JOIN|$))", "ON ", sql))


def a_null_part_refers_to_somebody(patch: Patch) -> None:
    """Rows that reach no order are given to the first person there is."""

    def given(sql: str) -> str:
        items, _, source = sql.replace(" JOIN ", " LEFT JOIN ").rpartition(' AS "dpsql unit"')
        before, _, unit = items.rpartition(", ")
        return f'{before}, COALESCE({unit}, (SELECT min(customer_id) FROM customer)) AS "dpsql unit"{source}'

    _viewed(patch, given)


FAULTS: list[Callable[[Patch], None]] = [
    a_part_is_the_whole_key,
    parts_of_different_rows_are_a_key,
    the_way_up_compares_one_column,
    a_null_part_refers_to_somebody,
]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
@pytest.mark.few(2)
def test_a_planted_fault_is_caught(
    fault: Callable[[Patch], None], tmp_path: Path, pair: Pair, monkeypatch: Patch
) -> None:
    fault(monkeypatch)
    with pytest.raises(Violation):
        run(tmp_path, pair, 12)
