"""Sessions of analysts who attack nobody, and how many people their statements truly set apart.

A refusal is wrong where nothing that the statement tells, alone or beside an earlier one, is about fewer than k people and about
somebody. Here that is decided from the true data, in plain DuckDB, by the sets of people that the fixtures name; the guard, which may
not look at the data, is measured against it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, lru_cache
from pathlib import Path

import duckdb
from sqlglot import exp, parse_one

from dpsql.core.errors import Error
from dpsql.core.loss import EpsilonDelta
from dpsql.schema.model import Schema
from dpsql.schema.toml import read_schema
from dpsql.session.session import Session
from tests.support.noise import ZeroNoise
from tests.support.opened import Data
from tests.support.statements import FIXTURES

EXAMPLES = Path(__file__).parents[2] / "examples"
DATASETS = ("randhie", "nhefs")
SESSION = re.compile(r"-- session: (?P<name>[^()]+) \((?P<doing>.+)\)")
PEOPLE = "-- people: "
AMPLE = EpsilonDelta(Fraction(10**6), Fraction(1, 2))
"""A budget that no session uses up."""

Row = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Asked:
    """A statement, and plain SQL for those whom it is about: one query for each condition that it counts under."""

    sql: str
    people: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HonestSession:
    """The statements of one analyst about one dataset, in the order in which they are asked."""

    dataset: str
    name: str
    doing: str
    asked: tuple[Asked, ...]


@dataclass(frozen=True, slots=True)
class Narrow:
    """A few people whom a statement truly sets apart, and the query beside its own that shows them."""

    people: int
    beside: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """A statement that was not answered, and its true narrow differences: where it has none, the refusal is wrong."""

    session: HonestSession
    asked: Asked
    error: Error
    narrow: tuple[Narrow, ...]

    @property
    def guarded(self) -> bool:
        return self.error.code.startswith("DPSQL-6")

    @property
    def wrong(self) -> bool:
        return not self.narrow


@cache
def sessions(dataset: str) -> tuple[HonestSession, ...]:
    """The sessions of tests/fixtures/guard/honest_DATASET.sql."""
    text = (FIXTURES / "guard" / f"honest_{dataset}.sql").read_text()
    starts = [*SESSION.finditer(text)]
    ends = [start.start() for start in starts[1:]] + [len(text)]
    return tuple(
        HonestSession(dataset, start["name"], start["doing"], tuple(_asked(text[start.end() : end])))
        for start, end in zip(starts, ends, strict=True)
    )


def _asked(text: str) -> Iterator[Asked]:
    for paragraph in text.strip().split("\n\n"):
        lines = paragraph.split("\n")
        people = tuple(line.removeprefix(PEOPLE) for line in lines if line.startswith(PEOPLE))
        yield Asked("\n".join(line for line in lines if not line.startswith("--")), people)


def declared(dataset: str) -> Schema:
    """The schema of a bundled dataset, with a budget that no session uses up."""
    schema = read_schema(EXAMPLES / dataset / "schema.toml")
    return replace(schema, privacy=replace(schema.privacy, budget=AMPLE))


def unguarded(schema: Schema) -> Schema:
    return replace(schema, guard=replace(schema.guard, mode="off"))


def priced(schema: Schema, price: EpsilonDelta) -> Schema:
    """The schema where a statement that names no price has this one."""
    return replace(schema, privacy=replace(schema.privacy, query=price))


def refusals(data: Data, session: HonestSession, k: int) -> list[Refusal]:
    """The refusals of a session that is asked without noise, each beside all that was asked before it."""
    with closing(data.session(ZeroNoise())) as opened:
        errors = [_refused(opened, asked.sql) for asked in session.asked]
    if not any(errors):
        return []
    found = zip(session.asked, errors, truth(session, k), strict=True)
    return [Refusal(session, asked, error, narrow) for asked, error, narrow in found if error is not None]


def _refused(session: Session, sql: str) -> Error | None:
    try:
        session.execute(sql)
    except Error as refused:
        return refused
    return None


def truth(session: HonestSession, k: int) -> list[tuple[Narrow, ...]]:
    """The narrow differences of each statement: whom it is about, whom a part of its condition takes in or leaves out, and whom it
    sets apart from an earlier statement, where they are fewer than k people [units] and not nobody."""
    return [
        tuple(_alone(session.dataset, asked, k)) + tuple(_beside_earlier(session, number, k))
        for number, asked in enumerate(session.asked)
    ]


def _alone(dataset: str, asked: Asked, k: int) -> Iterator[Narrow]:
    for sql in asked.people:
        if (size := len({row[0] for row in people(dataset, sql)})) < k:
            yield Narrow(size, sql)
        for other in without_parts(sql):
            yield from _narrow(dataset, sql, other, k)


def _beside_earlier(session: HonestSession, number: int, k: int) -> Iterator[Narrow]:
    """Narrow differences from what was asked before of the same measure, of the same kind of rows."""
    own = session.asked[number]
    for earlier in session.asked[:number]:
        if measures(own.sql).isdisjoint(measures(earlier.sql)):
            continue
        for sql in own.people:
            for other in earlier.people:
                if width(session.dataset, sql) == width(session.dataset, other):
                    yield from _narrow(session.dataset, sql, other, k)


def _narrow(dataset: str, one: str, other: str, k: int) -> Iterator[Narrow]:
    for apart in (set_apart(dataset, one, other), set_apart(dataset, other, one)):
        if 0 < apart < k:
            yield Narrow(apart, other)


@cache
def set_apart(dataset: str, one: str, other: str) -> int:
    """[units] How many have a row in one query that they do not have in the other."""
    return len({row[0] for row in people(dataset, one) - people(dataset, other)})


@lru_cache(maxsize=100)
def people(dataset: str, sql: str) -> frozenset[Row]:
    """The rows of a query about people: the unit, and what tells its rows apart where it may have several."""
    return frozenset(plain(dataset).execute(sql).fetchall())


@cache
def width(dataset: str, sql: str) -> int:
    """The number of columns that tell the rows of a query apart: one where they are units."""
    return len(plain(dataset).execute(f"DESCRIBE {sql}").fetchall())


@cache
def plain(dataset: str) -> duckdb.DuckDBPyConnection:
    """The true data in plain DuckDB."""
    connection = duckdb.connect()
    for file in (EXAMPLES / dataset).glob("*.parquet"):
        connection.execute(f"CREATE TABLE {file.stem} AS FROM read_parquet('{file}')")
    return connection


@cache
def without_parts(sql: str) -> tuple[str, ...]:
    """The query with its condition, and with each part of it alone, set to TRUE and to FALSE."""
    tree = parse_one(sql, read="duckdb").transform(_two_sided)
    found = []
    for number in range(len(_parts(tree))):
        for value in (exp.true(), exp.false()):
            changed = tree.copy()
            _parts(changed)[number].replace(value)
            found.append(changed.sql("duckdb"))
    return tuple(dict.fromkeys(found))


def _two_sided(node: exp.Expression) -> exp.Expression:
    """BETWEEN is two conditions."""
    if not isinstance(node, exp.Between):
        return node
    low, high = node.args["low"], node.args["high"]
    return exp.paren(exp.and_(exp.GTE(this=node.this, expression=low), exp.LTE(this=node.this.copy(), expression=high)))


def _parts(tree: exp.Expression) -> list[exp.Expression]:
    """The conditions of the outermost SELECT, then all that they are made of."""
    whole = [tree.args[name].this for name in ("where", "having") if tree.args.get(name)]
    return whole + [part for condition in whole for part in _made_of(condition)]


def _made_of(condition: exp.Expression) -> Iterator[exp.Expression]:
    if isinstance(condition, exp.Connector | exp.Not | exp.Paren):
        for inner in condition.iter_expressions():
            yield from _made_of(inner)
    else:
        yield condition


@cache
def measures(sql: str) -> frozenset[str]:
    """The amounts that a statement adds up, as far as two of them can be subtracted: counts from counts, sums and averages from
    those of the same columns, any other aggregate from itself."""
    if not sql.upper().startswith(("SELECT", "WITH", "FROM", "PIVOT", "/*")):
        return frozenset()
    return frozenset(_measure(found) for found in parse_one(sql, read="duckdb").find_all(exp.AggFunc))


def _measure(aggregate: exp.AggFunc) -> str:
    columns = " ".join(sorted({column.name for column in _added(aggregate)}))
    match aggregate:
        case exp.Count(this=exp.Distinct(expressions=[exp.Column(this=this)])) if not this.name.endswith("_id"):
            return f"distinct {columns}"
        case exp.Count() | exp.CountIf():
            return "count"
        case exp.Sum() | exp.Avg():
            return f"sum {columns}" if columns else "count"
        case _:
            return f"{aggregate.key} {columns}"


def _added(aggregate: exp.AggFunc) -> Iterator[exp.Column]:
    """The columns whose values an aggregate takes in: of a CASE, those in its branches."""
    case = aggregate.this
    if not isinstance(case, exp.Case):
        yield from aggregate.find_all(exp.Column)
        return
    for branch in [*(found.args["true"] for found in case.args["ifs"]), case.args.get("default")]:
        if branch is not None:
            yield from branch.find_all(exp.Column)
