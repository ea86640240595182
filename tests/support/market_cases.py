"""Does one person change a statement's exact vectors by no more than its plan claims, where there are two ways to a person?

The second family of the neighbour test (neighbours.py): its schemas are drawn too, their paths agreeing or not. What is read is asked,
what is refused is counted. A statement is run on a database and on the same without one person, whose rows are found by walking the
paths in Python, in another order of rows and on other threads; other people's rows must stay, bit for bit.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path

import duckdb

from dpsql.core.domains import UNBOUNDED
from dpsql.core.errors import SchemaError
from dpsql.core.sqltypes import SqlType, parse_type
from dpsql.engines.duckdb.views import unit_view
from dpsql.plan.compiled import Compiled
from dpsql.schema.model import ROW, Column, Schema, Table
from tests.support import market, market_rows, tallies
from tests.support.differences import check_noise, check_selection, compare_all
from tests.support.market import COLUMNS, UNITS, Database, Market
from tests.support.market_sql import asked
from tests.support.neighbours import ACCOUNTINGS, accepted
from tests.support.nested_neighbours import _check_charges, _check_locality, _check_unique
from tests.support.vectors import exact

Pair = tuple[duckdb.DuckDBPyConnection, duckdb.DuckDBPyConnection]
A_ROUND = 14
"""Statements on one pair of databases."""


@dataclass(slots=True)
class MarketCases:
    """A stream of generated schemas, databases and statements.

    refused      statements that the planner did not take
    disagreeing  schemas that were not read, because their paths disagree
    tally        how many checked releases have each form
    types        how many have each type of the unit's key
    hops         how many read a table that is so far from the unit [references]
    """

    folder: Path
    seed: int
    row_level: float = 0.08
    checked: int = 0
    refused: int = 0
    disagreeing: int = 0
    tally: Counter[str] = field(default_factory=Counter)
    types: Counter[str] = field(default_factory=Counter)
    hops: Counter[int] = field(default_factory=Counter)

    def run(self, count: int) -> None:
        """Check `count` accepted cases. Raises Violation."""
        chance = random.Random(f"market {self.seed}")
        while self.checked < count:
            shape, schema = self.read(chance)
            with opened(shape, schema) as pair:
                for _ in range(3):
                    self._round(chance, shape, schema, pair)

    def read(self, chance: random.Random) -> tuple[Market, Schema]:
        """A schema of the family that is read."""
        while True:
            level = "row" if chance.random() < self.row_level else "person"
            ways = () if level == "row" else market.ways(chance)
            shape = Market(chance.choice(UNITS), chance.choice(["BIGINT", "VARCHAR"]), ways, level)
            try:
                return shape, with_public(shape.schema(self.folder, accounting=chance.choice(ACCOUNTINGS)))
            except SchemaError:
                self.disagreeing += 1

    def _round(self, chance: random.Random, shape: Market, schema: Schema, pair: Pair) -> None:
        data = market_rows.database(chance, shape, wild=chance.random() < 0.8)
        neighbour, gone = somebody_gone(chance, shape, data)
        market_rows.fill(pair[0], shape, data)
        market_rows.fill(pair[1], shape, shuffled(chance, neighbour))
        for _ in range(A_ROUND):
            sql, used = asked(chance, row_level=shape.level == "row")
            compiled = accepted(sql, schema)
            if compiled is None or compiled.bounds:
                self.refused += 1
            else:
                check(sql, compiled, pair, gone, schema)
                self._count(compiled, used, shape, schema)

    def _count(self, compiled: Compiled, used: frozenset[str], shape: Market, schema: Schema) -> None:
        for part in compiled.releases:
            self.checked += 1
            self.tally.update(used)
            self.types[shape.type] += 1
            self.hops[
                max((len(schema.path_to_unit(t)) for t in part.release.limited.block.source.tables), default=0)
            ] += 1


def check(sql: str, compiled: Compiled, pair: Pair, gone: object, schema: Schema) -> None:
    """One statement on a pair of neighbours. Raises Violation."""
    _check_charges(compiled, sql)
    for part in (p for p in compiled.releases if p.release.parts):
        one, other = (exact(connection, part, sql) for connection in pair)
        compare_all(part, one, other, sql)
        check_noise(part, sql)
        tallies.check_choices(part, sql)
        check_selection(part, sql)
        _check_unique(pair[0], part.release.limited.block.source, sql)
        if schema.privacy.unit != ROW:
            _check_locality(pair, part, gone, sql)


@contextmanager
def opened(shape: Market, schema: Schema) -> Iterator[Pair]:
    """Two empty databases with the views that the engine has; the second runs on several threads."""
    pair = duckdb.connect(config={"threads": "1"}), duckdb.connect(config={"threads": "2"})
    pair[1].execute("PRAGMA verify_parallelism")
    try:
        for connection in pair:
            market_rows.fill(connection, shape, {name: [] for name in COLUMNS})
            for table in schema.tables:
                if not table.public and schema.privacy.unit != ROW and schema.unit_column(table) is None:
                    connection.execute(unit_view(schema, table))
        yield pair
    finally:
        for connection in pair:
            connection.close()


def with_public(schema: Schema) -> Schema:
    """With the columns of the public table, as opening fills them in."""
    columns = (
        Column("region", _type("INTEGER"), UNBOUNDED, True, ""),
        Column("name", _type("VARCHAR"), UNBOUNDED, True, ""),
    )

    def filled(table: Table) -> Table:
        return replace(table, columns=columns) if table.public else table

    return replace(schema, tables=tuple(map(filled, schema.tables)))


def _type(text: str) -> SqlType:
    found = parse_type(text)
    assert found is not None
    return found


def somebody_gone(chance: random.Random, shape: Market, data: Database) -> tuple[Database, object]:
    """A neighbour, and who is gone, as DuckDB shows them: often who has most rows, now and then one that no row of person is of."""
    if shape.level == "row":
        return (market_rows.without_row(data, chance.randrange(len(data["person"]))) if data["person"] else data), None
    rows = Counter(
        o for name in COLUMNS if name != "region" for o in market_rows.owners(data, shape, name) if o is not None
    )
    if not rows:
        return data, None
    heaviest = rows.most_common(1)[0][0]
    gone = chance.choice([*sorted(rows, key=str), heaviest, heaviest])
    shown = Decimal(str(gone)) if shape.type.startswith("DECIMAL") else gone
    return market_rows.without(data, shape, gone), shown


def shuffled(chance: random.Random, data: Database) -> Database:
    return {name: chance.sample(rows, len(rows)) for name, rows in data.items()}
