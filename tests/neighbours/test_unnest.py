"""One person's lists change an answer by no more than is claimed, and by as much where they are as long as they may be."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

from dpsql.planner.resolve import unnests
from dpsql.relations.relations import Relation, UnitBound
from dpsql.session.opening import open_session
from dpsql.session.session import Session
from tests.support.claims import claimed, moved
from tests.support.noise import ZeroNoise

SCHEMA = """
[dataset]
name = "club"
source = "."
[privacy]
unit = "member.id"
epsilon = 1e9
delta = 1e-3
units = 100
caps = { epsilon = 1e6, delta = 1e-4 }
query = { epsilon = 1e3, delta = 1e-6 }
[guard]
mode = "off"
[tables.member]
source = "member.parquet"
key = ["id"]
[tables.member.columns]
id = { type = "BIGINT" }
tags = { type = "VARCHAR[]", length = 4, domain = ["a", "b", "c", "d", "e"], nullable = true }
[tables.visit]
source = "visit.parquet"
references = { id = "member.id" }
max_rows_per_unit = 2
[tables.visit.columns]
id = { type = "BIGINT" }
codes = { type = "INTEGER[]", length = 3, bounds = [0, 9] }
"""
OTHERS = "SELECT i::BIGINT AS id, CASE WHEN i % 3 > 0 THEN ['a', 'b'] END AS tags FROM range(40) AS r(i)"
VISITS = "SELECT i::BIGINT AS id, [1, 2]::INTEGER[] AS codes FROM range(40) AS r(i)"
STATEMENTS = {
    "tags": "SELECT tag, COUNT(*) AS n FROM member, UNNEST(tags) AS u(tag) GROUP BY tag",
    "codes": "SELECT SUM(code) AS n FROM visit, UNNEST(visit.codes) AS u(code)",
    "length": "SELECT SUM(LEN(tags)) AS n FROM member",
    "both": "SELECT COUNT(*) AS n FROM member AS m JOIN visit AS v ON m.id = v.id, UNNEST(m.tags) AS u(t), UNNEST(v.codes) AS w(c)",
}


@pytest.fixture(scope="module", params=["whole", "longer", "more rows"])
def sides(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, list[Session]]]:
    """Without and with one person: their lists as long as they may be, longer, or in more rows than are counted."""
    tags = {
        "whole": "['a', 'a', 'a', 'a']",
        "longer": "['a', 'a', 'a', 'a', 'a']",
        "more rows": "['a', 'b', 'c', 'd']",
    }[request.param]
    codes = {"whole": ("[9, 9, 9]", 2), "longer": ("[9, 9, 9, 9]", 2), "more rows": ("[9, 99, 9]", 50)}[request.param]
    sessions = []
    for extra in ("", "with"):
        folder = tmp_path_factory.mktemp("club")
        _written(folder, "member", OTHERS + (f" UNION ALL SELECT 1000, {tags}" if extra else ""))
        _written(
            folder, "visit", VISITS + (f" UNION ALL SELECT 1000, {codes[0]} FROM range({codes[1]})" if extra else "")
        )
        (folder / "schema.toml").write_text(SCHEMA)
        sessions.append(open_session(folder / "schema.toml", None, ":memory:", noise=ZeroNoise()))
    yield request.param, sessions
    for session in sessions:
        session.close()


def _written(folder: Path, table: str, rows: str) -> None:
    with duckdb.connect() as connection:
        connection.execute(f"COPY ({rows}) TO '{folder / f'{table}.parquet'}' (FORMAT parquet)")


@pytest.mark.parametrize("asked", STATEMENTS)
@pytest.mark.few(6)
def test_lists_move_answers_by_no_more_than_is_claimed(asked: str, sides: tuple[str, list[Session]]) -> None:
    kind, sessions = sides
    sql = STATEMENTS[asked]
    most, found = claimed(sql, sessions[0]), moved(sql, sessions)
    assert found <= most
    if kind != "more rows":
        assert found == (most if kind == "whole" else 0), (
            "as much as claimed, and nothing where no list may be that long"
        )


def test_a_list_that_counts_as_one_row_is_found(
    sides: tuple[str, list[Session]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: the rows of a list are forgotten, so the unit is taken to be unique still and nothing is cut."""
    kind, sessions = sides
    true = unnests.unnested

    def forgetful(*args: object) -> tuple[Relation, object]:
        relation, value = true(*args)  # type: ignore[arg-type]
        assert relation.unit is not None and relation.unit.column is not None
        unit = relation.unit.column
        return replace(relation, unit=UnitBound(unit, 1), unique=frozenset({frozenset({unit.tree})})), value

    monkeypatch.setattr(unnests, "unnested", forgetful)
    sql = f"{STATEMENTS['tags']} HAVING COUNT(*) >= 0"
    assert (moved(sql, sessions) > claimed(sql, sessions[0])) == (kind != "longer")
