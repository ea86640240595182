"""dpsql: ordinary statements over a Parquet file with a declared schema, one row a person.

An answer is stored and would be repeated, so no two statements have the same price: each costs a little less than the one before it,
all together less than a thousandth.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb

import dpsql
from dpsql.clients.dbapi import Connection
from tests.bench.peers import tasks
from tests.bench.peers.tasks import Data, Task

SCHEMA = """
[dataset]
name   = "peers"
source = "."

[privacy]
unit    = "row"
epsilon = 1000000.0                           # a bench asks often; nobody is in this data, or it is public
delta   = 0.9
units   = {about}
query   = {{ epsilon = 1.0, delta = {delta} }}
caps    = {{ epsilon = 10.0, delta = 1e-6 }}

[tables.people]
source = "people.parquet"
[tables.people.columns]
value    = {{ type = "DOUBLE", bounds = [{lower:g}, {upper:g}] }}
category = {{ type = "INTEGER", domain = {categories} }}
item     = {{ type = "BIGINT" }}              # without a domain: its groups are selected privately
"""
EXPRESSIONS = {
    "count": "COUNT(*)",
    "sum": "SUM(value)",
    "mean": "AVG(value)",
    "variance": "VAR_POP(value)",
    "distinct": "COUNT(DISTINCT item)",
    "mode": "MODE(category)",
}
SHARE = re.compile(r"its interval takes .* of its price")
"""What EXPLAIN says of a price that does not go into the answer alone."""
_ticks = itertools.count(1)


def main() -> None:
    with TemporaryDirectory() as scratch:
        opened: dict[str, Connection] = {}
        notes: set[str] = set()

        def ask(data: Data, task: Task, epsilon: float) -> Iterator[Any]:
            if data.name not in opened:
                opened[data.name] = _open(Path(scratch, data.name), data)
            return _answers(opened[data.name], task, epsilon, notes)

        offers = dict.fromkeys((*EXPRESSIONS, "quantile", "keys"), ask)
        tasks.serve(offers, ("dpsql", "duckdb", "opendp", "numpy"), notes=notes)


def _open(folder: Path, data: Data) -> Connection:
    folder.mkdir()
    columns = {"value": data.value, "category": data.category.astype("int32"), "item": data.item}
    with duckdb.connect() as engine:
        engine.register("columns", columns)
        engine.execute(f"COPY (SELECT * FROM columns) TO '{folder / 'people.parquet'}'")
    categories = list(range(1, data.categories + 1))
    path = folder / "schema.toml"
    path.write_text(
        SCHEMA.format(about=data.about, delta=tasks.DELTA, lower=data.lower, upper=data.upper, categories=categories)
    )
    return dpsql.connect(path, ledger=":memory:")


def statement(task: Task) -> str:
    if task.kind == "keys":
        return "SELECT item, COUNT(*) AS n FROM people GROUP BY item"
    if task.kind == "quantile":
        return f"SELECT QUANTILE_CONT(value, {task.level:g}) AS v FROM people"
    return f"SELECT {EXPRESSIONS[task.kind]} AS v FROM people"


def _answers(connection: Connection, task: Task, epsilon: float, notes: set[str]) -> Iterator[Any]:
    notes.update(f"{task.name}: {said}" for said in SHARE.findall(_story(connection, statement(task))))
    while True:
        price = epsilon * (1 - 1e-8 * next(_ticks))
        sql = f"/* dpsql: epsilon={price:.12f} */ {statement(task)}"
        try:
            rows = connection.execute(sql).fetchall()
        except dpsql.NotSupportedError as refusal:
            raise tasks.Refused(f"not answered yet: {refusal}") from None
        yield rows if task.kind == "keys" else rows[0][0]


def _story(connection: Connection, sql: str) -> str:
    """What EXPLAIN says; nothing where the statement is refused."""
    try:
        return connection.explain(sql)
    except dpsql.NotSupportedError:
        return ""


if __name__ == "__main__":
    main()
