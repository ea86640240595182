"""The parts of a session that the neighbour test needs, without one: declared tables, types of public queries, input tables."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path

import duckdb

from dpsql.core.domains import UNBOUNDED
from dpsql.core.errors import error
from dpsql.core.sqltypes import SqlType, parse_type
from dpsql.engines import base
from dpsql.engines.base import ExactTable
from dpsql.engines.duckdb import fetch
from dpsql.engines.duckdb.loading import load_beside
from dpsql.engines.duckdb.locked import ask
from dpsql.engines.duckdb.views import unit_view
from dpsql.mechanisms.source import NoiseSource
from dpsql.plan.compiled import Compiled, CompiledRelease
from dpsql.plan.tables import PublicTable
from dpsql.postprocess.sandbox import Sandbox
from dpsql.release.estimating import estimate
from dpsql.release.noisy import key_list, release, wire_columns
from dpsql.schema.model import Column, Schema, Table
from dpsql.schema.toml import read_schema
from tests.support import clinic
from tests.support.nested_tables import MORE_TABLES, PUBLIC, PUBLIC_ROWS
from tests.support.noise import ZeroNoise

SECRET = "5ec2e7"


class LoudNoise(ZeroNoise):
    """So much noise that every privately selected group is released: other values are as possible as the exact ones.

    Choices are those of no noise.
    """

    def laplace(self, scale: Fraction, size: int) -> list[int]:
        return [1000] * size

    def gaussian(self, sigma_squared: Fraction, size: int) -> list[int]:
        return [1000] * size


def schema(folder: Path, *, unit: str = "patient", accounting: str = "auto") -> Schema:
    """The clinic with more public tables, whose columns are filled in as opening fills them in."""
    found = clinic.schema(folder, unit=unit, accounting=accounting)
    path = folder / f"{unit} nested.toml"
    path.write_text((folder / f"{unit}.toml").read_text() + PUBLIC)
    found = read_schema(path)
    return replace(found, tables=tuple(_filled(table) for table in found.tables))


def _filled(table: Table) -> Table:
    if not table.public:
        return table
    columns = PUBLIC_ROWS[table.name][0]
    return replace(table, columns=tuple(Column(n, _type(t), UNBOUNDED, True, "") for n, t in columns))


def _type(text: str) -> SqlType:
    found = parse_type(text)
    assert found is not None
    return found


def opened(declared: Schema, *, threads: int) -> duckdb.DuckDBPyConnection:
    """A connection with the public tables and the views of units further up; `clinic.fill` brings the private rows.

    With several threads DuckDB is told to use them on small tables too.
    """
    connection = duckdb.connect(config={"threads": str(threads)})
    if threads > 1:
        connection.execute("PRAGMA verify_parallelism")
    clinic.fill(connection, {name: [] for name in clinic.DDL})
    connection.execute(MORE_TABLES)
    if declared.table("item") is not None:
        item = declared.table("item")
        assert item is not None
        connection.execute(unit_view(declared, item))
    return connection


@dataclass(slots=True)
class Types:
    """PublicTypes over a sandbox with the public tables, as a session has it."""

    sandbox: Sandbox = field(default_factory=Sandbox)

    def __post_init__(self) -> None:
        for name, (columns, rows) in PUBLIC_ROWS.items():
            typed = tuple((n, _type(t)) for n, t in columns)
            data = tuple([row[i] for row in rows] for i in range(len(columns)))
            self.sandbox.load(PublicTable(name, typed, data))

    def describe_public(self, sql: str, empty: Sequence[PublicTable]) -> tuple[tuple[str, SqlType], ...]:
        for table in empty:
            self.sandbox.load(table)
        described = [(name, parse_type(text)) for name, text in self.sandbox.describe(sql)]
        if any(sqltype is None for _, sqltype in described):
            raise error(106, "a type that cannot be used beside people's rows", hint="cast it")
        return tuple((name, sqltype) for name, sqltype in described if sqltype is not None)


@dataclass(frozen=True, slots=True)
class Exact:
    """The rows of one release that the engine hands on."""

    sums: ExactTable | None
    tallies: tuple[ExactTable, ...]
    matchings: tuple[ExactTable, ...]


def input_tables(
    compiled: Compiled,
    run: Callable[[CompiledRelease, Sequence[PublicTable]], Exact],
    types: Types,
    noise: NoiseSource,
) -> dict[str, PublicTable]:
    """Every input table that a release reads, once: computed from the releases before it, as a session computes it.

    Why  a release is adaptive: what it reads of earlier releases is the same on both databases
    """
    staged = _Staged(compiled, run, types.sandbox, noise)
    for part in compiled.releases:
        for name in part.bounds:
            staged.bound(name)
    return staged.tables


@dataclass(slots=True)
class _Staged:
    compiled: Compiled
    run: Callable[[CompiledRelease, Sequence[PublicTable]], Exact]
    sandbox: Sandbox
    noise: NoiseSource
    tables: dict[str, PublicTable] = field(default_factory=dict)
    loaded: set[str] = field(default_factory=set)

    def bound(self, name: str) -> PublicTable:
        if name not in self.tables:
            bound = next(b for b in self.compiled.bounds if b.name == name)
            for read in bound.reads:
                part = next((p for p in self.compiled.releases if p.release.name == read), None)
                if part is not None:
                    self.released(part)
                else:
                    self.sandbox.load(self.bound(read))
            self.tables[name] = self.sandbox.table(name, bound.sql)
        return self.tables[name]

    def released(self, part: CompiledRelease) -> None:
        """An earlier release, as a table of the sandbox."""
        if part.release.name in self.loaded:
            return
        self.loaded.add(part.release.name)
        lists = {b.bound: wire_columns(self.bound(b.bound)) for b in part.release.limited.block.lists}
        if part.release.parts:
            found = self.run(part, [self.bound(name) for name in part.bounds])
            noisy = release(part, found.sums, self.noise, lists, found.tallies, found.matchings)
        else:
            noisy = key_list(part.release, lists)
        self.sandbox.load(estimate(part.release, noisy, Fraction(95, 100), {}).table)


def noise_for(chance: random.Random) -> NoiseSource:
    return chance.choice([ZeroNoise(), LoudNoise()])


def exact(connection: duckdb.DuckDBPyConnection, part: CompiledRelease, bound: Sequence[PublicTable]) -> Exact:
    """Everything exact of a release, in the form in which the engine hands it on."""
    for table in bound:
        load_beside(connection, table)
    keys = part.key_columns
    return Exact(
        _table(connection, part.sql, keys, part.sum_columns) if part.sql else None,
        tuple(_table(connection, t.sql, keys + t.valued, t.sums) for t in part.histograms),
        tuple(_table(connection, m.sql, keys, 3) for m in part.matchings),
    )


def _table(connection: duckdb.DuckDBPyConnection, sql: str, keys: int, sums: int) -> ExactTable:
    columns = fetch.columns(ask(connection, sql, SECRET), keys + sums)
    return ExactTable(
        tuple(base.key_column(column) for column in columns[:keys]),
        tuple(base.integers(column) for column in columns[keys:]),
    )
