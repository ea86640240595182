"""The market as people have it: in CSV, Parquet and DuckDB files, with a prepared snapshot and without, changed while a ledger is open.

Beside what the neighbour test asks (market_cases.py) the exact sums of a stored database must be those of the plain one: no source, no
snapshot and no shorter SQL for verified data may move a row.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import duckdb

from dpsql.accounting.ledger import Ledger
from dpsql.core.errors import Error
from dpsql.dataset import owner
from dpsql.dataset.opening import Dataset, open_dataset
from dpsql.engines.base import ExactTable
from dpsql.plan.compiled import Compiled, CompiledRelease, Verified
from dpsql.release.noisy import _sums as exact_sums
from dpsql.schema.model import Schema
from dpsql.session.opening import ledger_identity, open_session
from dpsql.session.session import Session
from tests.support import market, market_rows, staging
from tests.support.differences import compare_all
from tests.support.market import UNITS, Database, Market
from tests.support.market_cases import opened, shuffled, somebody_gone
from tests.support.market_sql import asked
from tests.support.neighbours import accepted
from tests.support.noise import ZeroNoise
from tests.support.vectors import Exact, Vectors
from tests.support.violation import Violation

KINDS = ("csv", "parquet", "duckdb")
A_DATABASE = 10
"""Statements on one stored pair."""


@dataclass(slots=True)
class StoredCases:
    """A stream of stored databases; `ran` tells how many releases each kind of storage gave, `histories` how many data changed."""

    folder: Path
    seed: int
    checked: int = 0
    databases: int = 0
    histories: int = 0
    ran: Counter[str] = field(default_factory=Counter)

    def run(self, count: int) -> None:
        """Check `count` accepted cases on stored files. Raises Violation."""
        chance = random.Random(f"stored {self.seed}")
        while self.checked < count:
            shape = _shape(chance, chance.choice(["person", "person", "person", "row"]))
            kind, prepared = chance.choice(KINDS), chance.random() < 0.6 and shape.level != "row"
            before = self.checked
            self._one(chance, shape, kind, prepared)
            self.ran[f"{kind}{' prepared' if prepared else ''}"] += self.checked - before

    def _one(self, chance: random.Random, shape: Market, kind: str, prepared: bool) -> None:
        data = market_rows.database(chance, shape, wild=chance.random() < 0.5)
        neighbour, _ = somebody_gone(chance, shape, data)
        # some databases have no release
        self.databases += 1
        with (
            stored(self.folder / f"{self.databases} one", shape, data, kind, prepared) as one,
            stored(
                self.folder / f"{self.databases} other", shape, shuffled(chance, neighbour), kind, prepared
            ) as other,
            opened(shape, one.schema) as (plain, _),
        ):
            market_rows.fill(plain, shape, _as_read(data, kind))
            for _ in range(A_DATABASE):
                sql, _ = asked(chance, row_level=shape.level == "row")
                compiled = accepted(sql, one.schema)
                for part in _parts(compiled):
                    found = cells(one, part)
                    compare_all(part, Exact(found, []), Exact(cells(other, part), []), sql)
                    if found != _plain(plain, part):
                        raise Violation(
                            f"{kind} files, prepared {prepared}, give other sums than the plain tables in {sql}"
                        )
                    self.checked += 1

    def change(self, count: int) -> None:
        """Ask the same of `count` pairs of neighbouring histories, in which the data change under an open ledger. Raises Violation."""
        chance = random.Random(f"changing {self.seed}")
        while self.histories < count:
            shape, kind = _shape(chance, "person"), chance.choice(KINDS)
            first, second = (market_rows.database(chance, shape, wild=False) for _ in range(2))
            gone = market_rows.person_key(shape, chance.randrange(3))
            asking = [sql for sql in (asked(chance)[0] for _ in range(7)) if "ROLLUP" not in sql]
            without = tuple(market_rows.without(data, shape, gone) for data in (first, second))
            if (without[0] == without[1]) != (first == second):
                # that the contents changed between two publications is public (rule 37)
                continue
            again = _history(self.folder / f"history {self.histories} one", shape, kind, (first, second), asking)
            told = _history(self.folder / f"history {self.histories} other", shape, kind, without, asking)
            if again != told:
                differing = [(a, b) for a, b in zip(again, told, strict=True) if a != b]
                raise Violation(f"what is seen of a history depends on one person: {differing[:2]}")
            self.histories += 1


def _as_read(data: Database, kind: str) -> Database:
    """The rows as a kind of file holds them: in CSV an empty text is NULL."""
    if kind != "csv":
        return data
    return {name: [tuple(None if v == "" else v for v in row) for row in rows] for name, rows in data.items()}


def _shape(chance: random.Random, level: str) -> Market:
    ways = chance.choice([market.BUYERS, market.TWO, market.SOLD])
    return Market(chance.choice(UNITS), chance.choice(["BIGINT", "VARCHAR"]), () if level == "row" else ways, level)


def _schema(folder: Path, shape: Market, kind: str) -> Schema:
    if kind == "duckdb":
        return shape.schema(folder, epsilon="1000.0")
    return shape.schema(folder, source=".", files=f".{kind}", epsilon="1000.0")


@contextmanager
def stored(folder: Path, shape: Market, data: Database, kind: str, prepared: bool) -> Iterator[Dataset]:
    """The opened dataset over files that hold this database, checked by its owner."""
    folder.mkdir()
    market_rows.write(folder, shape, data, kind)
    schema = _schema(folder, shape, kind)
    ledger = Ledger.open(folder / "market.ledger", ledger_identity(schema))
    try:
        owner.check(schema, ledger, prepare=prepared)
        dataset = open_dataset(schema, ledger, approve=False)
        try:
            yield dataset
        finally:
            dataset.engine.close()
    finally:
        ledger.close()


def _parts(compiled: Compiled | None) -> list[CompiledRelease]:
    if compiled is None or compiled.bounds:
        return []
    return [part for part in compiled.releases if part.release.parts and not part.histograms]


def cells(dataset: Dataset, part: CompiledRelease) -> Vectors:
    """The exact cells of a release's measures, by the SQL that a session would run."""

    def run(sql: str, verified: tuple[Verified, ...], sums: int) -> ExactTable:
        text = next((v.sql for v in verified if v.facts <= dataset.facts), sql)
        return dataset.engine.exact(text, part.key_columns, sums, (), staging.SECRET)

    sums = run(part.sql, part.verified, part.sum_columns) if part.sql else None
    return _vectors(part, sums, [run(m.sql, m.verified, 3) for m in part.matchings])


def _plain(connection: duckdb.DuckDBPyConnection, part: CompiledRelease) -> Vectors:
    found = staging.exact(connection, part, ())
    return _vectors(part, found.sums, found.matchings)


def _vectors(
    part: CompiledRelease, sums: ExactTable | None, matchings: list[ExactTable] | tuple[ExactTable, ...]
) -> Vectors:
    keys, columns = exact_sums(part, sums, matchings)
    rows = list(zip(*keys, strict=True)) if keys else [()]
    found: Vectors = []
    start = 0
    for measure in part.release.measures:
        own = measure.statistic.to_cells([list(c) for c in columns[start : start + measure.statistic.sums]])
        start += measure.statistic.sums
        listed = dict(zip(rows, zip(*own, strict=True), strict=True))
        found.append({key: values for key, values in listed.items() if any(values)})
    return found


# --- histories ------------------------------------------------------------------------------------------------------


def _history(
    folder: Path, shape: Market, kind: str, versions: tuple[Database, ...], asking: list[str]
) -> list[tuple[object, ...]]:
    """An analyst's view beside numbers and privately selected groups: outcomes, prices and what was stored, version by version.

    Raises Violation where a version shows something of the one before it.
    """
    folder.mkdir()
    seen: list[tuple[object, ...]] = []
    session: Session | None = None
    for number, data in enumerate(versions):
        market_rows.write(folder, shape, data, kind)
        if session is not None:
            seen.append((number, "still open", _seen(session, "SELECT AVG(age) FROM person")[0][0]))
            session.close()
        session = open_session(_schema(folder, shape, kind), None, folder / "market.ledger", ZeroNoise())
        fresh = open_session(_schema(folder, shape, kind), None, ":memory:", ZeroNoise())
        for sql in (*asking, *asking[:4]):
            told, rows = _seen(session, sql)
            again, expected = _seen(fresh, sql)
            seen.append((number, sql, *told))
            if told[:1] == again[:1] and "max_" not in sql and rows != expected and not _cuts(sql, shape):
                raise Violation(f"an answer is not that of this version in {sql}: {rows} and {expected}")
        fresh.close()
    if session is not None:
        session.close()
    return seen


def _cuts(sql: str, shape: Market) -> bool:
    """Tell whether the ledger's own secret may decide which rows stay, so that two ledgers differ."""
    return any(name in sql for name in ("orders", "line", "mark", "parcel"))


def _seen(session: Session, sql: str) -> tuple[tuple[object, ...], list[tuple[object, ...]]]:
    """(outcome, price, whether it was stored), and the rows."""
    refused = None
    try:
        answer = session.execute(sql)
    except Error as raised:
        refused = raised.code
    if refused is not None:
        return (refused,), []
    return (None, answer.receipt.remaining, answer.cached), answer.rows
