"""dpsql: ordinary statements over Parquet files with a declared schema, one row a person.

Small sets are also there many times over, as the groups of a declared key: each group's rows are its own, so one statement has as many
independent answers at its price. Quantiles and unknown keys are asked without groups, since groups could make them coarser. An answer
is stored and would be repeated, so no two statements have the same price: each costs a little less than the one before it, all
together less than a thousandth.
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
from dpsql.clients.dbapi.connection import Connection
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
COPIED = """
[tables.copies]
source = "copies.parquet"
[tables.copies.columns]
copy     = {{ type = "BIGINT", domain = {copies} }}
value    = {{ type = "DOUBLE", bounds = [{lower:g}, {upper:g}] }}
category = {{ type = "INTEGER", domain = {categories} }}
item     = {{ type = "BIGINT" }}
"""
COPIES = 50
MOST_COPIED = 20_000
"""Rows of a set that is copied."""
EXPRESSIONS = {
    "count": "COUNT(*)",
    "sum": "SUM(value)",
    "mean": "AVG(value)",
    "variance": "VAR_POP(value)",
    "distinct": "COUNT(DISTINCT item)",
    "mode": "MODE(category)",
}
SHARE = re.compile(r"its interval takes .* of its price")
"""EXPLAIN's words on a price that does not go into the answer alone."""
_ticks = itertools.count(1)


def main() -> None:
    with TemporaryDirectory() as scratch:
        opened: dict[str, Connection] = {}
        notes: set[str] = set()

        def ask(data: Data, task: Task, epsilon: float) -> Iterator[Any]:
            if data.name not in opened:
                opened[data.name] = _open(Path(scratch, data.name), data)
            return _answers(opened[data.name], data, task, epsilon, notes)

        offers = dict.fromkeys((*EXPRESSIONS, "quantile", "keys"), ask)
        tasks.serve(offers, ("dpsql", "duckdb", "opendp", "numpy"), notes=notes)


def _open(folder: Path, data: Data) -> Connection:
    folder.mkdir()
    columns = {"value": data.value, "category": data.category.astype("int32"), "item": data.item}
    copied = data.rows <= MOST_COPIED
    with duckdb.connect() as engine:
        engine.register("columns", columns)
        engine.execute(f"COPY (SELECT * FROM columns) TO '{folder / 'people.parquet'}'")
        if copied:
            engine.execute(
                f"COPY (SELECT copy, columns.* FROM columns, range({COPIES}) AS r(copy)) TO '{folder / 'copies.parquet'}'"
            )
    text = (SCHEMA + COPIED if copied else SCHEMA).format(
        about=data.about,
        delta=tasks.DELTA,
        lower=data.lower,
        upper=data.upper,
        categories=list(range(1, data.categories + 1)),
        copies=list(range(COPIES)),
    )
    (folder / "schema.toml").write_text(text)
    return dpsql.connect(folder / "schema.toml", ledger=":memory:")


def _statement(data: Data, task: Task) -> str:
    """The last column is the answer."""
    if task.kind == "keys":
        return "SELECT item, COUNT(*) AS v FROM people GROUP BY item"
    if task.kind == "quantile":
        return f"SELECT QUANTILE_CONT(value, {task.level:g}) AS v FROM people"
    if data.rows <= MOST_COPIED:
        return f"SELECT copy, {EXPRESSIONS[task.kind]} AS v FROM copies GROUP BY copy"
    return f"SELECT {EXPRESSIONS[task.kind]} AS v FROM people"


def _answers(connection: Connection, data: Data, task: Task, epsilon: float, notes: set[str]) -> Iterator[Any]:
    sql = _statement(data, task)
    try:
        notes.update(f"{task.name}: {said}" for said in SHARE.findall(connection.explain(sql)))
        while True:
            price = epsilon * (1 - 1e-8 * next(_ticks))
            rows = connection.execute(f"/* dpsql: epsilon={price:.12f} */ {sql}").fetchall()
            yield from [rows] if task.kind == "keys" else [row[-1] for row in rows]
    except dpsql.NotSupportedError as refusal:
        raise tasks.Refused(f"not answered yet: {refusal}") from None


if __name__ == "__main__":
    main()
