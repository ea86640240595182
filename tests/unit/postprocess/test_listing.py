"""Rows that are read off a released table are those that the sandbox gives for the same question."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dpsql.core.cancellation import Cancellation, under
from dpsql.core.columns import Decimals, ResultRows
from dpsql.core.errors import Error
from dpsql.core.sqltypes import BIGINT, parse_type
from dpsql.plan.resolved import Listing, PostQuery, SortKey
from dpsql.plan.tables import PublicTable
from dpsql.planner.parse import Query, parse
from dpsql.postprocess import listing
from dpsql.postprocess.listing import listed
from dpsql.postprocess.sandbox import Sandbox
from dpsql.release.staging import Columns, Staged, describe
from dpsql.session.session import Session
from tests.support import clinic
from tests.support.opened import clinic_data, data_of
from tests.support.planning import compiled_by
from tests.support.statements import Statement, read

EXAMPLES = Path(__file__).parents[3] / "examples"
ORDERS = (
    "",
    "ORDER BY 1",
    "ORDER BY n DESC, 1",
    "ORDER BY key DESC NULLS FIRST",
    "ORDER BY key NULLS FIRST LIMIT 2",
    "ORDER BY COUNT(*), key DESC LIMIT 3 OFFSET 1",
    "ORDER BY SUM(income), 1",
    "ORDER BY total DESC, mean",
    "LIMIT 2 OFFSET 1",
    "OFFSET 40",
    "ORDER BY AVG(score) DESC, n LIMIT 5",
)
YEAR = "date_trunc('year', born)"
KEYS = ("site", "female", "city", YEAR, "weight > 70", "site + 0.5")
CONVERTED = (YEAR, "site + 0.5")
"""Keys that travel as text of another type."""
DEARLY = "/* dpsql: epsilon=500 */"
"""At this price no group seems to be empty."""
VALUES = "COUNT(*) AS n, SUM(income) AS total, AVG(weight) AS mean, SUM(score) AS points, MEDIAN(age) AS half"
UNLIKE = (
    "SELECT site + 1, COUNT(*) FROM patient GROUP BY site",
    "SELECT site, COUNT(*) FROM patient GROUP BY site HAVING COUNT(*) > 2",
    "SELECT site, COUNT(*) FROM patient GROUP BY site ORDER BY -COUNT(*)",
    "SELECT site, COUNT(*) FROM patient GROUP BY site ORDER BY ALL",
    "SELECT DISTINCT site, COUNT(*) FROM patient GROUP BY site",
    "SELECT site, COUNT(*), ROW_NUMBER() OVER (ORDER BY site) FROM patient GROUP BY site",
    "SELECT site, COUNT(*) FROM patient GROUP BY site LIMIT 1 + 1",
    "SELECT a.n FROM (SELECT site, COUNT(*) AS n FROM patient GROUP BY site) AS a JOIN (SELECT 1 AS x) AS b ON a.site = b.x",
)
"""Statements that the sandbox has to compute."""


class Both:
    """The rows of final queries both ways.

    seen    the questions that were answered without the sandbox
    unlike  those of them that it answers otherwise
    left    questions that are none but lists, and are left to it
    """

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.unlike: list[str] = []
        self.left: list[str] = []

    def rows(self, staged: Staged, asked: PostQuery) -> ResultRows:
        found = None
        if asked.listing is not None:
            part = next(part for part in staged._compiled.releases if part.release.name == asked.release)
            found = listed(staged.estimated(part).table, asked.listing, staged._max_rows)
        for part in staged._compiled.releases:
            staged.load(part)
        expected = staged._sandbox.run(asked.sql)
        if found is None:
            self.left += [asked.sql] if asked.listing is not None else []
            return expected
        self.seen.append(asked.sql)
        if repr(found) != repr(expected):
            self.unlike.append(f"{asked.sql}\n{found}\n{expected}")
        return found


@pytest.fixture
def both(monkeypatch: pytest.MonkeyPatch) -> Both:
    found = Both()
    monkeypatch.setattr(Staged, "rows", lambda staged, asked: found.rows(staged, asked))
    return found


@pytest.mark.few(12)
@pytest.mark.parametrize("statement", read("accept.sql"), ids=lambda one: one.sql[:60])
def test_accepted_statements_have_the_same_rows_both_ways(statement: Statement, both: Both) -> None:
    with data_of(EXAMPLES / statement.schema / "schema.toml").without_noise() as session:
        session.execute(statement.sql, statement.parameters)
    assert both.unlike == []


def described(session: Session, sql: str, parameters: Sequence[object] = ()) -> tuple[Columns, Columns] | None:
    """The columns of a list, and those that the sandbox tells of it; None of what is no list."""
    asked = parse(sql, parameters)
    compiled = compiled_by(session, asked) if isinstance(asked, Query) else None
    if compiled is None or compiled.plan.post_query.listing is None:
        return None
    computed = replace(compiled.plan, post_query=replace(compiled.plan.post_query, listing=None))
    world = session._world
    found = [
        describe(each, asked.plain, world.catalog, world.sandbox)  # type: ignore[union-attr]
        for each in (compiled, replace(compiled, plan=computed))
    ]
    return found[0], found[1]


@pytest.mark.parametrize("schema", ["randhie", "nhefs"])
def test_accepted_lists_have_the_columns_that_the_sandbox_tells(schema: str) -> None:
    with data_of(EXAMPLES / schema / "schema.toml").without_noise() as session:
        asked = [one for one in read("accept.sql") if one.schema == schema and not one.sql.startswith("SET")]
        found = [pair for one in asked if (pair := described(session, one.sql, one.parameters)) is not None]
    assert found and all(own == told for own, told in found)


def test_lists_have_the_columns_that_the_sandbox_tells(session: Session) -> None:
    more = f"{VALUES}, MIN(born), MAX(age), COUNT(DISTINCT code), VAR_POP(score), MODE(city), SUM(age)"
    for key in KEYS:
        pair = described(session, f"{DEARLY} SELECT {key}, {more} FROM patient GROUP BY {key} ORDER BY 1")
        assert pair is not None and pair[0] == pair[1]


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with clinic_data(clinic.schema_text(), clinic.database(random.Random(3))).without_noise() as opened:
        yield opened


@pytest.mark.parametrize("key", KEYS)
def test_lists_have_the_same_rows_both_ways(key: str, session: Session, both: Both) -> None:
    for order in ORDERS:
        session.execute(f"{DEARLY} SELECT {key} AS key, {VALUES} FROM patient GROUP BY {key} {order}")
    assert both.unlike == []
    assert len(both.seen) == len(ORDERS) if key not in CONVERTED else both.left


def test_a_list_without_keys_or_of_two_has_the_same_rows_both_ways(session: Session, both: Both) -> None:
    session.execute(f"{DEARLY} SELECT {VALUES} FROM patient")
    for order in ORDERS:
        ordered = order.replace("key", "city")
        session.execute(f"{DEARLY} SELECT city, {VALUES}, site FROM patient GROUP BY site, city {ordered}")
    assert both.unlike == [] and len(both.seen) == len(ORDERS) + 1


@pytest.mark.parametrize("sql", UNLIKE)
def test_what_computes_is_no_list(sql: str, session: Session, both: Both) -> None:
    session.execute(sql)
    assert not both.seen and not both.left


def test_a_list_reaches_no_sandbox(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = "SELECT city, COUNT(*) AS n FROM patient WHERE age > {} GROUP BY city ORDER BY n LIMIT 2"
    # what a question of this shape shows is seen once
    session.execute(f"{DEARLY} {asked.format(11)}")
    reached: list[str] = []
    monkeypatch.setattr(Sandbox, "load", lambda self, table: reached.append(table.name))
    monkeypatch.setattr(Sandbox, "run", lambda self, sql: reached.append(sql))
    assert session.execute(f"{DEARLY} {asked.format(12)}").rows
    assert not reached


# --- one released table -------------------------------------------------------------------------------------------


def table(sqltype: str, values: Sequence[object]) -> PublicTable:
    found = parse_type(sqltype)
    assert found is not None
    return PublicTable("release_0", (("a0", found), ("release_row", BIGINT)), (values, list(range(len(values)))))


ALL = Listing(("a0",), (), None, 0)
HELD: list[tuple[str, Sequence[object]]] = [
    ("TINYINT", [5, None, -128]),
    ("BIGINT", [2**63 - 1, -(2**63), 0]),
    ("DOUBLE", [1.5, None, float("nan"), -0.0, float("inf")]),
    ("BOOLEAN", [True, None, False]),
    ("VARCHAR", ["b", None, "a\0", "", "\U0001f600", "\ufffd"]),
    ("DECIMAL(38,2)", Decimals(np.array([-5, 2**63 - 1, 0]), 2)),
    ("DECIMAL(19,4)", Decimals(np.array([7, -(2**63), 12345]), 4, np.array([True, False, False]))),
    ("BIGINT", []),
]
NOT_HELD: list[tuple[str, Sequence[object]]] = [
    ("TINYINT", [128]),
    ("HUGEINT", [2**70]),
    ("FLOAT", [0.1]),
    ("DOUBLE", ["0.1"]),
    ("DOUBLE", [1]),
    ("DATE", ["2020-01-31"]),
    ("DECIMAL(18,2)", Decimals(np.array([2**63 - 1]), 2)),
    ("DECIMAL(38,3)", Decimals(np.array([5]), 2)),
    ("DECIMAL(9,3)", ["1.500"]),
    ("BIGINT", [1.5]),
    ("VARCHAR", [1]),
]


SORTED = (
    ((), ""),
    ((SortKey("a0", False, False),), "ORDER BY a0"),
    ((SortKey("a0", False, True),), "ORDER BY a0 NULLS FIRST"),
    ((SortKey("a0", True, False),), "ORDER BY a0 DESC"),
    ((SortKey("a0", True, True),), "ORDER BY a0 DESC NULLS FIRST"),
    ((SortKey("release_row", True, False),), "ORDER BY release_row DESC"),
)


def unlike(sqltype: str, values: Sequence[object]) -> list[str]:
    """The orders in which a column comes otherwise from the sandbox."""
    with closing(Sandbox()) as sandbox:
        sandbox.load(table(sqltype, values))
        return [
            words
            for order, words in SORTED
            if repr(listed(table(sqltype, values), Listing(("a0",), order, None, 0), None))
            != repr(sandbox.run(f"SELECT a0, release_row FROM release_0 {words}"))
        ]


@pytest.mark.parametrize(("sqltype", "values"), HELD)
def test_a_type_s_own_values_are_as_the_sandbox_gives_them(sqltype: str, values: Sequence[object]) -> None:
    assert not unlike(sqltype, values)


def test_planted_orders_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """NULL on the other side, or the values the other way round."""
    order = listing._order
    monkeypatch.setattr(listing, "_order", lambda column, down, first: order(column, down, not first))
    assert len(unlike("TINYINT", [5, None, -128])) == 4
    monkeypatch.setattr(listing, "_order", lambda column, down, first: order(column, not down, first))
    assert len(unlike("TINYINT", [5, None, -128])) == 5


@pytest.mark.parametrize(("sqltype", "values"), NOT_HELD)
def test_what_the_sandbox_would_convert_or_refuse_is_left_to_it(sqltype: str, values: Sequence[object]) -> None:
    assert listed(table(sqltype, values), ALL, None) is None


def test_equal_rows_keep_the_order_of_the_release() -> None:
    found = listed(table("BIGINT", [2, 1, 2, 1, 2]), Listing(("a0",), (SortKey("a0", True, False),), 4, 0), None)
    assert found is not None and list(found) == [(2, 0), (2, 2), (2, 4), (1, 1)]


def test_more_rows_than_the_owner_allows_are_refused() -> None:
    values = table("BIGINT", [1, 2, 3])
    assert len(listed(values, ALL, 3) or ()) == len(listed(values, Listing(("a0",), (), 2, 0), 2) or ()) + 1 == 3
    with under(Cancellation()), pytest.raises(Error, match="DPSQL-712"):
        listed(values, ALL, 2)
