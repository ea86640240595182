"""A caller's objects reach no DuckDB object and no exact value, unless by names that start with an underscore."""

from __future__ import annotations

import copy
import datetime
import pickle
import traceback
import types
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import duckdb
import pytest

import dpsql
from dpsql.accounting.failures import MOST
from dpsql.accounting.ledger import Ledger
from dpsql.engines.base import ExactTable
from dpsql.engines.duckdb.engine import DuckDBEngine
from dpsql.mechanisms.source import SystemNoise
from dpsql.schema.toml import read_schema
from dpsql.session.opening import open_session
from dpsql.session.session import Session

RANDHIE = Path(__file__).parents[2] / "examples/randhie/schema.toml"
DECLARED = read_schema(RANDHIE)
CHEAP = replace(DECLARED, privacy=replace(DECLARED.privacy, least=Fraction(1, 10**4)))
"""Statements may cost next to nothing."""
COUNT = "/* dpsql: epsilon=0.0001 */ SELECT COUNT(*) FROM person"
"""Its noise is of the order of 10,000, so that the exact number comes out by chance once in 20,000 times."""
ATOMS = (str, bytes, bool, float, type(None), Decimal, Fraction, datetime.date, datetime.time, Path)
CODE = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.CodeType)


def inside(thing: object) -> Iterator[tuple[str, object]]:
    """The content of one object: items, the variables of frames, and attributes without an underscore."""
    if isinstance(thing, types.FrameType):
        yield from ((f".{name}", value) for name, value in thing.f_locals.items() if not name.startswith("_"))
    elif isinstance(thing, Mapping):
        yield from ((f"[{key!r}]", value) for key, value in thing.items())
        yield from (("[key]", key) for key in thing)
    elif isinstance(thing, list | tuple | set | frozenset):
        yield from ((f"[{i}]", value) for i, value in enumerate(thing))
    for name in dir(thing):
        if not name.startswith("_") and not name.startswith("f_"):
            try:
                yield f".{name}", getattr(thing, name)
            except Exception as problem:
                yield f".{name}", problem


def reached(roots: Iterable[tuple[str, object]]) -> Iterator[tuple[str, object]]:
    """Everything that can be had, with the way to it."""
    waiting, seen, kept = list(roots), set[int](), []
    while waiting:
        path, thing = waiting.pop()
        yield path, thing
        if isinstance(thing, (*ATOMS, *CODE, int)) or id(thing) in seen:
            continue
        seen.add(id(thing))
        kept.append(thing)  # else another object may get its id
        assert len(seen) < 50_000
        if isinstance(thing, BaseException):
            waiting += [(f"{path}.frame", frame) for frame, _ in traceback.walk_tb(thing.__traceback__) if ours(frame)]
            waiting += [(f"{path}.cause", thing.__cause__), (f"{path}.context", thing.__context__)]
        waiting += [(path + step, value) for step, value in inside(thing)]


def ours(frame: types.FrameType) -> bool:
    return frame.f_globals.get("__name__", "").split(".")[0] == "dpsql"


def is_raw(thing: object) -> bool:
    return isinstance(thing, ExactTable | DuckDBEngine | Ledger) or type(thing).__module__.lstrip("_").startswith(
        "duckdb"
    )


def holes(exact: int, *roots: tuple[str, object]) -> list[str]:
    return [path for path, thing in reached(roots) if is_raw(thing) or (type(thing) is int and thing == exact)]


@pytest.fixture(scope="module")
def exact() -> int:
    row = duckdb.connect().execute(f"SELECT COUNT(*) FROM '{RANDHIE.parent}/person.parquet'").fetchone()
    assert row is not None
    return int(row[0])


@pytest.fixture
def connection() -> Iterator[dpsql.Connection]:
    with dpsql.connect(CHEAP, ledger=":memory:") as opened:
        yield opened


def test_the_walk_finds_what_is_there() -> None:
    """Otherwise the tests below would say nothing."""

    class Holder:
        def __init__(self) -> None:
            self.raw = duckdb.connect(":memory:")
            self._private = self.raw

    holder = Holder()
    assert holes(7, ("a", {"x": [holder]})) == ["a['x'][0].raw"]
    del holder.raw
    assert holes(7, ("a", holder)) == [] and holes(7, ("a", [(5, 7)])) == ["a[0][1]"]


def test_connections_cursors_and_results(connection: dpsql.Connection, exact: int) -> None:
    cursor = connection.execute(COUNT)
    grouped = connection.execute("SELECT site, COUNT(*) AS n, AVG(income) AS a FROM person GROUP BY site")
    held = {
        "connection": connection,
        "cursor": cursor,
        "grouped": grouped,
        "rows": cursor.fetchall(),
        "accuracy": grouped.accuracy,
        "certificates": cursor.certificates,
        "html": grouped._repr_html_(),
        "frame": grouped.fetch_arrow_table().to_pydict(),
        "budget": connection.execute("SHOW BUDGET").fetchall(),
    }
    assert holes(exact, *held.items()) == []
    connection.close()
    assert holes(exact, *held.items()) == []


def test_nothing_exact_is_in_what_is_printed_copied_or_pickled(connection: dpsql.Connection, exact: int) -> None:
    """print() of a cursor shows what was released, and nothing else."""
    cursor = connection.execute(COUNT)
    assert str(connection) == repr(connection) and holes(exact, ("printed", str(cursor))) == []
    for thing in (connection, cursor):
        assert repr(thing) == f"<dpsql.{type(thing).__name__} open>"
        for copier in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match="cannot be copied or pickled"):
                copier(thing)


def problems(connection: dpsql.Connection, *statements: str) -> Iterator[dpsql.Error]:
    for sql in statements:
        with pytest.raises(dpsql.Error) as raised:
            connection.execute(sql)
        yield raised.value


def test_tracebacks_of_refusals(connection: dpsql.Connection, exact: int) -> None:
    refused = ["SELECT * FROM person", "SELECT", "SELECT COUNT(*) FROM persn", "DROP TABLE person"]
    refused += ["/* dpsql: epsilon=3 */ SELECT COUNT(*) FROM person", "SELECT 1 + 'a'"]
    connection.execute(COUNT)
    for problem in problems(connection, *refused):
        assert holes(exact, ("problem", problem)) == []


class Failing(SystemNoise):
    """Stops in the middle of a release, when the exact sums are there."""

    def __init__(self, fault: BaseException) -> None:
        super().__init__()
        self._fault = fault

    def laplace(self, scale: Fraction, size: int) -> list[int]:
        raise self._fault


@pytest.mark.parametrize("fault", [ValueError, KeyboardInterrupt, MemoryError])
def test_tracebacks_of_a_release_that_fails(exact: int, fault: type[BaseException]) -> None:
    session = open_session(CHEAP, None, ":memory:", Failing(fault()))
    with dpsql.Connection(session) as connection:
        for problem in problems(connection, COUNT):
            assert problem.code in ("DPSQL-901", "DPSQL-703")
            assert holes(exact, ("problem", problem)) == []


def test_tracebacks_of_an_engine_that_fails(
    connection: dpsql.Connection, exact: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = DuckDBEngine.exact

    def broken(engine: DuckDBEngine, sql: str, keys: int, sums: int, *_: object) -> object:
        return original(engine, "SELECT CAST('x' || COUNT(*) AS INTEGER) FROM person", keys, sums)

    monkeypatch.setattr(DuckDBEngine, "exact", broken)
    for times, problem in enumerate(problems(connection, COUNT)):
        assert problem.code == ("DPSQL-701" if times < MOST else "DPSQL-709") and str(exact) not in str(problem)
        assert holes(exact, ("problem", problem)) == []


def test_public_names_are_those_that_are_known(connection: dpsql.Connection) -> None:
    """A new public name is looked at here before it can lead somewhere."""
    errors = {name for name in dpsql.__all__ if isinstance(getattr(dpsql, name), type) and name.endswith("Error")}
    known = {"close", "commit", "cursor", "execute", "executemany", "explain", "interrupt", "price", "rollback"}
    known |= {"analyst", "schema", "Warning", "messages", "in_memory", "describe", "sql"}
    assert {name for name in dir(connection) if name[0] != "_"} - errors == known
    assert {name for name in dir(connection.cursor()) if name[0] != "_"} == {
        *(
            "accuracy",
            "arraysize",
            "certificates",
            "close",
            "connection",
            "description",
            "errors",
            "execute",
            "executemany",
        ),
        *("fetch_arrow_table", "fetch_df", "fetch_polars", "fetchall", "fetchmany", "fetchone", "lastrowid"),
        *("messages", "notes", "plan", "privacy", "rowcount", "rownumber", "scroll", "setinputsizes", "setoutputsize"),
        *("arrow", "df", "pl", "with_ends"),
    }
    assert not any(isinstance(value, Session) for _, value in inside(connection))
