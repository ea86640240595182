"""Nested statements on pairs of neighbouring databases: what is asked of all, and of other people's rows, uniqueness and charges."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

import duckdb

from dpsql.core.errors import Error
from dpsql.engines.duckdb.loading import load_beside
from dpsql.plan.compiled import Compiled, CompiledRelease
from dpsql.planner import lower
from dpsql.relations.relations import Relation
from dpsql.schema.model import Schema
from dpsql.sql.duckdb import printed
from tests.support import clinic, losses, staging, tallies
from tests.support.differences import check_noise, check_selection, compare_all
from tests.support.neighbours import ACCOUNTINGS, accepted, modest, neighbour_of
from tests.support.nested import nested
from tests.support.vectors import Cells, Tables, exact, vectors
from tests.support.violation import Violation


@dataclass(slots=True)
class NestedCases:
    """A stream of generated nested cases; one of `unit` "patient" or "row".

    close   only statements that stand close to a rule, which are a fifth of all otherwise
    tally   how many checked cases have each construct
    """

    folder: Path
    seed: int
    unit: str = "patient"
    close: bool = False
    refused: int = 0
    checked: int = 0
    statements: int = 0
    tally: Counter[str] = field(default_factory=Counter)
    chance: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.chance = random.Random(f"nested {self.unit} {self.seed}")

    def run(self, count: int) -> None:
        """Check cases until `count` were accepted in all; what is run again goes on. Raises Violation."""
        chance = self.chance
        schemas = [
            modest(staging.schema(self.folder, unit=self.unit, accounting=accounting)) for accounting in ACCOUNTINGS
        ]
        with Bench(schemas[0], chance) as bench:
            while self.checked < count:
                bench.schema = chance.choice(schemas)
                bench.refill()
                for _ in range(12):
                    self._one(bench, chance)

    def _one(self, bench: Bench, chance: random.Random) -> None:
        sql, used = nested(chance, row_level=self.unit == "row", close=self.close)
        compiled = accepted(sql, bench.schema, bench.types, bench.types.sandbox)
        if compiled is None:
            self.refused += 1
            return
        bench.check(sql, compiled)
        self.statements += 1
        self.checked += len(compiled.releases)
        self.tally.update({word: len(compiled.releases) for word in used})


class Bench:
    """Two pairs of neighbouring databases, each database in a connection of its own: one wild, one as declared.

    The neighbours have their rows in another order, and more threads: neither may show.
    """

    def __init__(self, schema: Schema, chance: random.Random) -> None:
        self.schema = schema
        self.chance = chance
        self.types = staging.Types()
        self.wild = (staging.opened(schema, threads=1), staging.opened(schema, threads=4))
        self.declared = (staging.opened(schema, threads=1), staging.opened(schema, threads=1))
        self.gone: dict[str, object] = {}

    def __enter__(self) -> Bench:
        return self

    def __exit__(self, *_: object) -> None:
        for connection in (*self.wild, *self.declared):
            connection.close()
        self.types.sandbox.close()

    def refill(self) -> None:
        """Other databases, and another person gone."""
        wild = clinic.database(self.chance, wild=self.chance.random() < 0.8)
        for name, pair, data in (("wild", self.wild, wild), ("declared", self.declared, _declared_only(self.chance))):
            neighbour = neighbour_of(data, self.chance, self.schema)
            left = {row[0] for row in neighbour["patient"]}
            self.gone[name] = next((row[0] for row in data["patient"] if row[0] not in left), None)
            clinic.fill(pair[0], data)
            clinic.fill(pair[1], _shuffled(neighbour, self.chance))

    def check(self, sql: str, compiled: Compiled) -> None:
        """One statement on both pairs. Raises Violation."""
        _check_charges(compiled, sql)
        self._check_pair(sql, compiled, self.wild, "wild")
        if any(part.verified or any(t.verified for t in part.histograms) for part in compiled.releases):
            self._check_verified(sql, compiled)

    def bound(self, sql: str, compiled: Compiled, pair: tuple[duckdb.DuckDBPyConnection, ...]) -> None:
        """Compute the input tables on the first database, and show them to both."""
        if not compiled.bounds:
            return
        problem = ""
        tables: Tables = {}
        try:
            tables = staging.input_tables(
                compiled,
                lambda part, bound: staging.exact(pair[0], part, bound),
                self.types,
                staging.noise_for(self.chance),
            )
        except (Error, duckdb.Error) as raised:
            problem = str(raised)
        if problem:
            raise Violation(f"an input table could not be computed in {sql}: {problem}")
        for table in tables.values():
            for connection in pair:
                load_beside(connection, table)

    def _check_pair(self, sql: str, compiled: Compiled, pair: tuple[duckdb.DuckDBPyConnection, ...], name: str) -> None:
        self.bound(sql, compiled, pair)
        for part in (p for p in compiled.releases if p.release.parts):
            one, other = (exact(connection, part, sql) for connection in pair)
            compare_all(part, one, other, sql)
            check_noise(part, sql)
            tallies.check_choices(part, sql)
            check_selection(part, sql)
            _check_unique(pair[0], part.release.limited.block.source, sql)
            if self.schema.privacy.unit != "row":
                _check_locality(pair, part, self.gone[name], sql)

    def _check_verified(self, sql: str, compiled: Compiled) -> None:
        """On data that is as declared the shorter SQL gives the same sums, and so moves as little."""
        self.bound(sql, compiled, self.declared)
        for part in compiled.releases:
            for connection in self.declared:
                tallies.check_verified(connection, part, sql)
                if not part.verified:
                    continue
                expected = [_shown(cells) for cells in vectors(connection, part, sql)]
                for short in part.verified:
                    found = [_shown(cells) for cells in vectors(connection, replace(part, sql=short.sql), sql)]
                    if found != expected:
                        raise Violation(f"verified SQL is not the identity in {sql}: {short.sql}")


def _shown(cells: Cells) -> Cells:
    """The groups that hold anything."""
    return {key: values for key, values in cells.items() if any(values)}


def _declared_only(chance: random.Random) -> clinic.Database:
    """A database for which everything that is declared holds: values, keys, references, rows per patient."""
    data = clinic.database(chance, wild=False)
    visits, rows = [], Counter[object]()
    for visit in data["visit"]:
        rows[visit[1]] += 1
        if rows[visit[1]] <= 3:
            visits.append(visit)
    owner = {visit[0]: visit[1] for visit in visits}
    items, rows = [], Counter()
    for item in (i for i in data["item"] if i[0] in owner):
        rows[owner[item[0]]] += 1
        if rows[owner[item[0]]] <= 4:
            items.append(item)
    return {**data, "visit": visits, "item": items}


def _shuffled(data: clinic.Database, chance: random.Random) -> clinic.Database:
    return {name: chance.sample(rows, len(rows)) for name, rows in data.items()}


def _check_charges(compiled: Compiled, sql: str) -> None:
    """Every release is read, is there once, and is charged; the charges fit the price."""
    plan = compiled.plan
    losses.check_plan(plan, sql)
    for part in compiled.releases:
        if part.release.parts and not part.release.loss.rho > 0:
            raise Violation(f"a release is not charged in {sql}")
    prints = [part.release.fingerprint for part in compiled.releases]
    if len(prints) != len(set(prints)):
        raise Violation(f"the same release is charged twice in {sql}")
    known = {part.release.name for part in compiled.releases} | {bound.name for bound in compiled.bounds}
    read = {name for bound in compiled.bounds for name in bound.reads}
    missing = read - known
    unread = {p.release.name for p in compiled.releases if f'"{p.release.name}"' not in plan.post_query.sql} - read
    if missing or unread:
        raise Violation(f"releases {sorted(missing)} are not charged, or {sorted(unread)} not read in {sql}")


def _check_unique(connection: duckdb.DuckDBPyConnection, source: Relation, sql: str) -> None:
    """Public relations that were joined hold no two rows that agree in what the plan takes for unique."""
    for public in source.publics:
        for columns in public.unique:
            listed = ", ".join(sorted(map(printed, columns))) or "1"
            rows = f"SELECT {listed} FROM {printed(public.read())}"
            repeated = (
                f"SELECT count(*) FROM ({rows} GROUP BY ALL HAVING count(*) > 1)"
                if columns
                else (f"SELECT count(*) FROM (SELECT 1 FROM {printed(public.read())} LIMIT 2) HAVING count(*) > 1")
            )
            if connection.execute(repeated).fetchall() not in ([], [(0,)]):
                raise Violation(f"{printed(public.read())} repeats ({listed}), which is taken for unique, in {sql}")
        for column, rows in public.multiplicity:
            most = f"SELECT max(n) FROM (SELECT count(*) AS n FROM {printed(public.read())} GROUP BY {printed(column)})"
            if any((found or 0) > rows for (found,) in connection.execute(most).fetchall()):
                raise Violation(f"{printed(column)} has more than {rows} rows a value in {sql}")


def _check_locality(pair: tuple[duckdb.DuckDBPyConnection, ...], part: CompiledRelease, gone: object, sql: str) -> None:
    """Other people's rows are the same with and without one person, bit for bit (rule 10)."""
    read = [
        lower.inputs_of([m.statistic for m in part.release.measures])[1],
        *(list(t.histogram.inputs) for t in part.histograms),
    ]
    for inputs in read:
        rows = printed(lower.rows_of(part.release, inputs, unit=True))
        found = [
            Counter(repr(row[1:]) + repr(row[0]) for row in c.execute(rows).fetchall() if row[0] != gone) for c in pair
        ]
        if found[0] != found[1]:
            raise Violation(f"other people's rows changed in {sql}: {found[0] - found[1]} {found[1] - found[0]}")
