"""Rule 46: a held key carries its whole path to the unit. Tables may lead to people by different ways; no join mixes them up."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

import dpsql
from dpsql.accounting.ledger import Ledger
from dpsql.clients.dbapi.connection import Connection
from dpsql.core.errors import SchemaError
from dpsql.dataset import owner
from dpsql.planner.options import Options
from dpsql.planner.parse import parse
from dpsql.relations.declared import scan
from dpsql.relations.joins import Equality, equates_units
from dpsql.schema.model import Schema
from dpsql.schema.toml import read_schema
from dpsql.session.opening import ledger_identity
from tests.support.market import BUYERS, CROSSED, SOLD, TWO, Database, Market, Row, Ways
from tests.support.market_rows import person_key, without, write
from tests.support.planning import compile_statement

MANY = 300
SHARP = "/* dpsql: epsilon=10000 */ "
VICTIM = 1
SHARPLY = {"accounting": "sequential", "epsilon": "1000000.0"}


def crowded(market: Market, *, victim: str) -> Database:
    """Many orders of different people, each with a line; the victim buys all of them, or sells all of them and all lines."""
    one = person_key(market, VICTIM)
    others = [person_key(market, 10 + n) for n in range(MANY)]
    people: list[Row] = [(key, 1, 40, 0, "0") for key in (one, *others)]
    orders: list[Row] = [
        (n, one, key, 1, "1") if victim == "buyer" else (n, key, one, 1, "1") for n, key in enumerate(others)
    ]
    lines: list[Row] = [(n, n, key if victim == "buyer" else one, "x", 1) for n, key in enumerate(others)]
    marks: list[Row] = [(n, 1, "1") for n in range(MANY)]
    parcels: list[Row] = [(n, 1, 1.0) for n in range(MANY)]
    found: Database = {"person": people, "card": [(key, "a", 1) for key in others], "orders": orders, "line": lines}
    return {**found, "mark": marks, "parcel": parcels, "region": []}


def claimed(schema: Schema, sql: str) -> int:
    """By how much one unit may move the statement's one count."""
    (part,) = compile_statement(parse(sql), Options(), schema).releases
    return max(measure.sensitivity.linf for measure in part.release.measures)


@contextmanager
def asked(folder: Path, ways: Ways) -> Iterator[Callable[[str], bool]]:
    """A question about statements: are they answered, and do they move by what is claimed where they are? False: refused.

    Each of two victims, who buys all orders or sells them, is in one database and gone from another.
    """
    market = Market(ways=ways)
    connections: list[Connection] = []

    def opened() -> list[Connection]:
        for victim in ("buyer", "seller"):
            data = crowded(market, victim=victim)
            for rows in (data, without(data, market, person_key(market, VICTIM))):
                place = folder / f"{victim} {len(connections)}"
                place.mkdir()
                write(place, market, rows)
                connections.append(dpsql.connect(market.schema(place, **SHARPLY), ledger=":memory:"))
        return connections

    def holds(sql: str) -> bool:
        try:
            most = claimed(market.schema(folder, **SHARPLY), sql)
        except dpsql.Error as refused:
            assert refused.code in ("DPSQL-801", "DPSQL-402", "DPSQL-302", "DPSQL-301"), refused
            return False
        found = [c.execute(SHARP + sql).fetchall()[0][0] for c in connections or opened()]
        moved = abs(found[0] - found[1]), abs(found[2] - found[3])
        assert max(moved) <= most + 1, (sql, moved, most)
        return True

    try:
        yield holds
    finally:
        for connection in connections:
            connection.close()


ONE_KEY = [
    "SELECT COUNT(*) FROM orders JOIN line ON orders.o_id = line.o_id",
    "SELECT COUNT(*) FROM orders JOIN line USING (o_id)",
    "SELECT COUNT(*) FROM orders NATURAL JOIN line",
    "SELECT COUNT(*) FROM orders o, line l WHERE o.o_id = l.o_id",
    "SELECT COUNT(*) FROM line l, orders o WHERE (o.o_id = l.o_id AND l.quantity > 0) OR (o.o_id = l.o_id AND o.o_day = 1)",
    "SELECT COUNT(*) FROM orders o LEFT JOIN line l ON o.o_id = l.o_id",
    "SELECT COUNT(*) FROM orders o RIGHT JOIN line l ON o.o_id = l.o_id",
    "SELECT COUNT(*) FROM orders o FULL JOIN line l ON o.o_id = l.o_id",
    "SELECT COUNT(*) FROM orders o WHERE EXISTS (SELECT 1 FROM line l WHERE l.o_id = o.o_id)",
    "SELECT COUNT(*) FROM orders o WHERE NOT EXISTS (SELECT 1 FROM line l WHERE l.o_id = o.o_id)",
    "SELECT COUNT(*) FROM orders WHERE o_id IN (SELECT o_id FROM line)",
    "SELECT COUNT(*) FROM line WHERE o_id IN (SELECT o_id FROM orders)",
    "SELECT COUNT(*) FROM orders o SEMI JOIN line l ON o.o_id = l.o_id",
    "SELECT COUNT(*) FROM orders o ANTI JOIN line l ON o.o_id = l.o_id",
    "SELECT COUNT(*) FROM orders o WHERE (SELECT COUNT(*) FROM line l WHERE l.o_id = o.o_id) > 0",
    "SELECT COUNT(*) FROM line a JOIN line b ON a.o_id = b.o_id",
    "SELECT COUNT(*) FROM line l JOIN parcel p ON l.o_id = p.o_id",
    "SELECT COUNT(*) FROM orders o JOIN (SELECT o_id, COUNT(*) AS n FROM line GROUP BY o_id) AS l ON l.o_id = o.o_id",
    "SELECT COUNT(*) FROM orders o JOIN (SELECT DISTINCT o_id FROM line) AS l ON l.o_id = o.o_id",
    "SELECT COUNT(*) FROM orders o JOIN (SELECT o_id, ROW_NUMBER() OVER (PARTITION BY l_id ORDER BY quantity) AS r FROM line) AS l "
    "ON l.o_id = o.o_id WHERE r = 1",
    "SELECT COUNT(*) FROM orders o JOIN (SELECT o_id FROM line UNION ALL SELECT o_id FROM line) AS l ON l.o_id = o.o_id",
]
"""Two tables on the order that both refer to, in every form of a join; or one on it with itself."""

WITHIN = [
    "SELECT COUNT(*) FROM line",
    "SELECT COUNT(*) FROM mark",
    "SELECT COUNT(*) FROM line JOIN mark USING (l_id)",
    "SELECT COUNT(*) FROM line WHERE l_id IN (SELECT l_id FROM mark)",
    "SELECT COUNT(*) FROM (SELECT l_id, COUNT(*) AS n FROM mark GROUP BY l_id)",
    "SELECT COUNT(*) FROM (SELECT o_id, COUNT(*) OVER (PARTITION BY o_id) AS n FROM orders) WHERE n = 1",
    "SELECT COUNT(*) FROM orders JOIN parcel USING (o_id)",
    "SELECT COUNT(*) FROM person JOIN card USING (p_id)",
    "SELECT COUNT(*) FROM person WHERE p_id NOT IN (SELECT p_id FROM card)",
    "SELECT COUNT(DISTINCT p_id) FROM card",
    "SELECT COUNT(DISTINCT o_id) FROM orders",
    "SELECT COUNT(*) FROM (SELECT o_day FROM orders UNION ALL SELECT grade FROM mark)",
]
"""Tables that never leave one way to the unit."""


BOTH = [
    "SELECT COUNT(*) FROM orders o JOIN line l ON o.o_id = l.o_id AND o.o_buyer = l.l_seller",
    "SELECT COUNT(*) FROM orders o JOIN line l ON o.o_buyer = l.l_seller",
    "SELECT COUNT(*) FROM orders o LEFT JOIN line l ON o.o_id = l.o_id AND o.o_buyer = l.l_seller",
    "SELECT COUNT(*) FROM orders o WHERE EXISTS (SELECT 1 FROM line l WHERE l.o_id = o.o_id AND l.l_seller = o.o_buyer)",
    "SELECT COUNT(*) FROM orders o WHERE NOT EXISTS (SELECT 1 FROM line l WHERE l.o_id = o.o_id AND l.l_seller = o.o_buyer)",
    "SELECT COUNT(*) FROM orders WHERE o_buyer IN (SELECT l_seller FROM line)",
    "SELECT COUNT(*) FROM person p JOIN orders o ON p.p_id = o.o_buyer JOIN line l ON l.l_seller = p.p_id AND l.o_id = o.o_id",
    "SELECT COUNT(*) FROM (SELECT o_buyer AS who FROM orders UNION ALL SELECT l_seller FROM line) AS w JOIN person p ON p.p_id = w.who",
]
"""Joins of two ways that state both: the unit of each side is equated."""

NEITHER = [
    "SELECT COUNT(*) FROM orders o JOIN line l ON o.o_id = l.o_id AND o.o_seller = l.l_seller",
    "SELECT COUNT(*) FROM orders o JOIN line l ON o.o_seller = l.l_seller",
    "SELECT COUNT(*) FROM orders o JOIN person p ON o.o_seller = p.p_id",
    "SELECT COUNT(*) FROM orders o JOIN mark m ON o.o_id = m.l_id",
    "SELECT COUNT(*) FROM orders WHERE o_id NOT IN (SELECT o_id FROM line)",
    "SELECT COUNT(*) FROM person p WHERE p_id IN (SELECT o_seller FROM orders)",
    "SELECT COUNT(*) FROM orders a JOIN orders b ON a.o_buyer = b.o_seller",
]
"""Joins that equate people, but not those whose rows these are."""


def test_rule_46_lines_over_somebody_elses_order_move_nothing_unclaimed(tmp_path: Path) -> None:
    """The buyer owns the order, the seller the lines over it: one seller moved a count of 4 by as many lines as they have."""
    with asked(tmp_path, CROSSED) as answered:
        assert not any(answered(sql) for sql in [*ONE_KEY, *WITHIN])


@pytest.mark.parametrize("ways", [TWO, SOLD], ids=["orders of buyers", "orders of sellers"])
def test_rule_46_one_order_is_not_one_person(ways: Ways, tmp_path: Path) -> None:
    """Lines of the seller that they name refer to the same orders: the order equates nobody."""
    with asked(tmp_path, ways) as answered:
        assert not any(answered(sql) for sql in ONE_KEY)


@pytest.mark.slow
def test_rule_46_one_way_for_all_is_answered(tmp_path: Path) -> None:
    with asked(tmp_path, BUYERS) as answered:
        assert all(answered(sql) for sql in ONE_KEY[:-1])


@pytest.mark.slow
def test_rule_46_what_keeps_to_one_way_or_states_both_is_answered(tmp_path: Path) -> None:
    with asked(tmp_path, TWO) as answered:
        assert all(answered(sql) for sql in [*WITHIN, *BOTH])


def test_rule_46_equal_people_are_not_enough(tmp_path: Path) -> None:
    with asked(tmp_path, TWO) as answered:
        assert not any(answered(sql) for sql in NEITHER)


def test_rule_46_a_refused_join_says_which_ways_there_are(tmp_path: Path) -> None:
    schema = Market(ways=TWO).schema(tmp_path)
    with pytest.raises(dpsql.Error) as refused:
        claimed(schema, "SELECT COUNT(*) FROM orders JOIN line USING (o_id)")
    assert refused.value.code == "DPSQL-402"
    assert "rows of orders belong to people by orders.o_buyer, rows of line by line.l_seller" in str(refused.value)
    assert "add orders.o_buyer = line.l_seller" in refused.value.hint


# --- reading and approving ------------------------------------------------------------------------------------------


def test_rule_46_reading_says_which_path_to_write(tmp_path: Path) -> None:
    """Each of the paths that the message offers makes the schema one that is read, once every table has been told."""
    with pytest.raises(SchemaError) as refused:
        Market(ways=CROSSED).schema(tmp_path)
    assert refused.value.code == "DPSQL-801"
    found = str(refused.value)
    assert 'table line: its path to the privacy unit goes on over orders by "o_seller"' in found
    assert 'rows of orders belong to people by "o_buyer"' in found
    assert 'write unit_path = ["o_id", "o_buyer"], or unit_path = ["o_seller"] for orders' in found
    path = tmp_path / "market.toml"
    followed = path.read_text().replace('"o_id", "o_seller"', '"o_id", "o_buyer"')
    path.write_text(followed)
    assert read_schema(path).path_to_unit
    path.write_text(
        followed.replace("o_buyer", "o_seller")
        .replace("o_seller = { type", "o_buyer = { type", 1)
        .replace('o_seller = "p', 'o_buyer = "p', 1)
    )
    assert read_schema(path).path_to_unit


def test_rule_46_a_choice_of_paths_offers_those_that_agree(tmp_path: Path) -> None:
    path = tmp_path / "market.toml"
    path.write_text(Market(ways=BUYERS).text().replace('unit_path = ["o_id", "o_buyer"]\n', ""))
    with pytest.raises(SchemaError) as refused:
        read_schema(path)
    assert 'write unit_path = ["o_id", "o_buyer"] or unit_path = ["l_seller"]' in str(refused.value)
    assert '"o_id", "o_seller"' not in str(refused.value)


def crossed(folder: Path) -> Schema:
    """The schema that cannot be read, put together in Python."""
    schema = Market(ways=BUYERS).schema(folder)
    ways = dict(CROSSED)
    return replace(schema, tables=tuple(replace(t, unit_path=ways.get(t.name)) for t in schema.tables))


def test_rule_46_a_schema_made_in_python_is_refused_too(tmp_path: Path) -> None:
    """Opening and the owner's check look again; so do joins, which compare the whole path."""
    market = Market(ways=BUYERS)
    write(tmp_path, market, crowded(market, victim="seller"))
    schema = crossed(tmp_path)
    with pytest.raises(SchemaError, match="goes on over orders"):
        dpsql.connect(schema, ledger=":memory:")
    ledger = Ledger.open(":memory:", ledger_identity(schema))
    with pytest.raises(SchemaError, match="goes on over orders"):
        owner.check(schema, ledger)
    ledger.close()
    for sql in ONE_KEY[:-1]:
        if "line a JOIN line b" not in sql:
            with pytest.raises(dpsql.Error) as refused:
                compile_statement(parse(sql), Options(), schema)
            assert refused.value.code == "DPSQL-402", sql


def test_rule_46_keys_of_one_name_are_equal_by_their_paths_alone(tmp_path: Path) -> None:
    honest, other = Market(ways=BUYERS).schema(tmp_path), crossed(tmp_path)

    def order_of(schema: Schema, table: str) -> dpsql.expressions.scalar.Scalar:
        declared = schema.table(table)
        assert declared is not None
        return next(c.scalar for c in scan(schema, declared, table).columns if c.name == "o_id")

    assert equates_units([Equality(order_of(honest, "orders"), order_of(honest, "line"))])
    assert not equates_units([Equality(order_of(other, "orders"), order_of(other, "line"))])
    assert equates_units([Equality(order_of(other, "orders"), order_of(other, "parcel"))])


DOTTED = """
[dataset]
name = "dotted"
source = "dotted.duckdb"
[guard]
mode = "off"
[privacy]
unit = "a.b.c"
epsilon = 1000000.0
delta = 0.5
query = { epsilon = 1.0, delta = 1e-3 }
caps = { epsilon = 1000000.0, delta = 0.4 }
[tables."a.b"]
key = ["c"]
[tables."a.b".columns]
c = { type = "BIGINT" }
[tables.a]
key = ["b.c"]
references = { who = "a.b.c" }
max_rows_per_unit = 2
[tables.a.columns]
"b.c" = { type = "BIGINT" }
who = { type = "BIGINT" }
"""


def test_rule_46_a_key_is_a_table_and_a_column_not_their_names_with_a_dot(tmp_path: Path) -> None:
    """`a.b.c` is column c of table a.b and column b.c of table a: the number of a row is not a person."""
    path = tmp_path / "dotted.toml"
    path.write_text(DOTTED)
    with duckdb.connect(str(tmp_path / "dotted.duckdb")) as writer:
        writer.execute('CREATE TABLE "a.b" AS SELECT i AS c FROM range(50) r(i)')
        writer.execute('CREATE TABLE a AS SELECT i AS "b.c", 7 AS who FROM range(50) r(i)')
    connection = dpsql.connect(path, ledger=":memory:")
    for sql in (
        'SELECT COUNT(*) FROM "a.b" AS p JOIN a ON a."b.c" = p.c',
        'SELECT COUNT(*) FROM "a.b" WHERE c IN (SELECT "b.c" FROM a)',
        'SELECT COUNT(*) FROM "a.b" WHERE c NOT IN (SELECT "b.c" FROM a)',
    ):
        with pytest.raises(dpsql.Error) as refused:
            connection.execute(sql)
        assert refused.value.code == "DPSQL-402", sql
    ((rows,),) = connection.execute(SHARP + 'SELECT COUNT(*) FROM "a.b" AS p JOIN a ON a.who = p.c').fetchall()
    assert rows == 2
    connection.close()


def test_rule_46_two_different_keys_tie_nobody(tmp_path: Path) -> None:
    """A line's number beside an order's number is a condition on identifiers, though both are private keys: the guard is told."""
    write(tmp_path, Market(ways=BUYERS), crowded(Market(ways=BUYERS), victim="buyer"))
    text = Market(ways=BUYERS).text(**SHARPLY).replace('mode = "off"', 'mode = "block"')
    (tmp_path / "market.toml").write_text(text)
    connection = dpsql.connect(tmp_path / "market.toml", ledger=":memory:")
    sql = "SELECT COUNT(*) FROM orders o WHERE EXISTS (SELECT 1 FROM line l WHERE l.o_id = o.o_id AND l.l_id = o.o_id)"
    with pytest.raises(dpsql.Error, match="R1"):
        connection.execute(sql)
    connection.execute(sql.replace(" AND l.l_id = o.o_id", ""))
    connection.close()
