"""Promises of every engine, asked of DuckDB and of another one over the same rows: python -m tests.engines.conformance URL

The URL is of a server of the kind of engine that is asked, in which databases may be made; of Spark with a folder in which files may
be: sc://HOST:PORT/;folder=PATH. Prints
what is equal, what is refused and
why, and what differs; the exit code is 1 where anything differs.
"""

from __future__ import annotations

import random
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from types import ModuleType

import duckdb

from dpsql.core.errors import Error
from dpsql.core.loss import EpsilonDelta
from dpsql.schema.model import Guard, Schema
from dpsql.schema.toml import read_schema
from dpsql.session.opening import open_session
from dpsql.session.session import Session
from tests.engines import cluster, server
from tests.support import clinic, tpch
from tests.support.noise import ZeroNoise
from tests.support.statements import read

EXAMPLES = Path(__file__).parents[2] / "examples"
Parameters = Sequence[object] | dict[str, object]


@dataclass(frozen=True, slots=True)
class Both:
    """One dataset in two engines, with the same secret, so that the same rows are cut."""

    one: Session
    other: Session

    @property
    def engine(self) -> str:
        return self.other._world.dataset.engine.dialect.engine

    def ask(self, sql: str, parameters: Parameters = ()) -> str:
        """The outcome of a statement: "equal", a refusal by the other engine in its words, or how the two differ."""
        found: list[object] = []
        for session in (self.one, self.other):
            try:
                answer = session.execute(sql, parameters)
                found.append((sorted(map(repr, answer.rows)), answer.columns))
            except Error as problem:
                found.append(str(problem).splitlines()[0])
        if found[0] == found[1]:
            return "equal"
        if (
            isinstance(found[1], str)
            and found[1].startswith("DPSQL-102: ")
            and f" has no form in {self.engine} " in found[1]
        ):
            return found[1]
        return f"DIFFERENT {found}"


def server_of(url: str) -> ModuleType:
    """The module of a test server by its address; each says which types no table has, and which values none: ABSENT, OUTSIDE."""
    return cluster if url.startswith("sc:") else server


@contextmanager
def both(schema: Schema, url: str, name: str) -> Iterator[Both]:
    """A declared dataset, and the same as another engine holds it."""
    rich = EpsilonDelta(Fraction(10**12), schema.privacy.budget.delta)
    here = replace(schema, guard=Guard("off"), privacy=replace(schema.privacy, budget=rich), analysts=None)
    there = replace(moved(here, url, name), guard=here.guard)
    with ExitStack() as stack:
        sessions = [stack.enter_context(closing(open_session(s, None, ":memory:", ZeroNoise()))) for s in (here, there)]
        for session in sessions:
            session._world.ledger.store.secret = b"k" * 32
        yield Both(*sessions)


def moved(schema: Schema, url: str, name: str) -> Schema:
    """The schema over a new database with the rows of its files."""
    if server_of(url) is cluster:
        return cluster.moved(schema, url, name)
    address, path = server.database(url, name), schema.folder / schema.source
    with closing(duckdb.connect()) as connection:
        if path.is_dir():
            queries = {t.name: f"SELECT * FROM '{path / t.source}'" for t in schema.tables}
        else:
            connection.execute(f"ATTACH '{path}' AS held (READ_ONLY)")
            queries = {t.name: f'SELECT * FROM held."{t.source}"' for t in schema.tables}
        server.load(address, queries, connection)
    return replace(schema, source=address, tables=tuple(replace(t, source=t.name) for t in schema.tables))


# --- what is asked ----------------------------------------------------------------------------------------------------


def accepted(url: str) -> Iterator[tuple[str, str]]:
    """Every accepted statement of the fixtures."""
    statements = read("accept.sql")
    for name in dict.fromkeys(statement.schema for statement in statements):
        with both(read_schema(EXAMPLES / name / "schema.toml"), url, f"accept {name}") as opened:
            for statement in (s for s in statements if s.schema == name):
                yield statement.sql, opened.ask(statement.sql, statement.parameters)


def of_the_clinic(url: str, statements: Iterable[str], data: clinic.Database, name: str) -> Iterator[tuple[str, str]]:
    """Statements over a clinic."""
    with tempfile.TemporaryDirectory(prefix="dpsql-clinic-") as folder:
        clinic.write(Path(folder), data)
        with both(clinic.schema(Path(folder)), url, name) as opened:
            for sql in statements:
                yield sql, opened.ask(sql)


def yardstick(url: str, folder: Path) -> Iterator[tuple[str, str]]:
    """The queries of TPC-H that are answered with noise."""
    with both(tpch.schema(tpch.generate(folder)), url, "tpch") as opened:
        for number in tpch.ANSWERED:
            yield f"TPC-H Q{number}", opened.ask(f"/* dpsql: epsilon=50000 */ {tpch.query(number)}")


def told(found: Iterable[tuple[str, str]]) -> tuple[Counter[str], list[str]]:
    """The number of statements that ended in each way, and those that differ."""
    counts: Counter[str] = Counter()
    different = []
    for sql, outcome in found:
        counts[outcome if not outcome.startswith("DIFFERENT") else "DIFFERENT"] += 1
        different += [f"{sql}\n  {outcome}"] if outcome.startswith("DIFFERENT") else []
    return counts, different


def main(url: str) -> int:
    from tests.engines.extremes import extremes, semantics

    bad = 0
    with tempfile.TemporaryDirectory(prefix="dpsql-tpch-") as folder:
        parts = {
            "accepted statements": accepted(url),
            "semantics": of_the_clinic(url, semantics(), clinic.database(random.Random(5), wild=True), "semantics"),
            "functions and extremes": extremes(url),
            "TPC-H": yardstick(url, Path(folder)),
        }
        for name, found in parts.items():
            counts, different = told(found)
            print(f"{name}: {counts.pop('equal', 0)} equal")
            for outcome, count in counts.most_common():
                print(f"  {count} {outcome}")
            for each in different:
                print(f"    {each}")
            bad += len(different)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
