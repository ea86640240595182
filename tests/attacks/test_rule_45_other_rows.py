"""Rule 45: what is computed of a row hangs on that row alone, not on what the engine knows of the column's other values.

DuckDB cuts parts of texts by another routine where it knows that every text of a column is ASCII. In 1.x the two read positions below
zero otherwise: `SUBSTRING(name, -3, 1) = ''` held of everybody called Al as soon as one other name had an accent, and of nobody before.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import duckdb
import pytest

from dpsql.core.errors import Error
from dpsql.planner.total import total
from dpsql.sql.nodes import Call, Number
from tests.attacks.expressions import BINARY, UNARY
from tests.support import extremes
from tests.support.functions import templates
from tests.support.totality import World, printed
from tests.support.trees import text as text_of
from tests.support.versions import cuts_by_other_texts

TEXTS = ("", "a", "ab", "Abc", "abcd", "b-a-c", " aB ", "12", "2020-02-29", "%_", None)
OTHERS = ("éü中", "\U0001f600", "x" * 40)
"""Texts of somebody else: beyond ASCII, beyond two bytes, and longer than all others."""
PLACES = range(-6, 8)
_NUMBER = re.compile(r"(?<=, )\d+(?=[,)])")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    found = World(tmp_path_factory.mktemp("extremes"))
    yield found
    found.close()


def _calls() -> Iterator[str]:
    """Every function of texts, with every constant number replaced by small ones of both signs."""
    for template in templates():
        text = template.format("l_varchar", "r_varchar")
        made = {text}
        for found in _NUMBER.finditer(text):
            made |= {
                f"{one[: found.start()]}{n}{one[found.end() :]}" for one in list(made) for n in PLACES if one == text
            }
        yield from sorted(made)
    yield from (f"SUBSTRING(l_varchar, {start}, {count})" for start in PLACES for count in PLACES)
    yield "l_varchar || r_varchar"
    yield from (f"l_varchar {operator} r_varchar" for operator in ("<", "=", "LIKE", "ILIKE"))


def _rows(texts: list[str], others: tuple[str, ...]) -> list[tuple[object, ...]]:
    """The value of one statement over the rows of TEXTS, beside some rows of others."""
    items = ", ".join(f"{text} AS c{i}" for i, text in enumerate(texts))
    with duckdb.connect() as engine:
        engine.execute("CREATE TABLE extreme (place INTEGER, l_varchar VARCHAR, r_varchar VARCHAR)")
        rows = [(n, a, b) for n, (a, b) in enumerate((a, b) for a in TEXTS for b in (*TEXTS[:4], None))]
        engine.executemany("INSERT INTO extreme VALUES (?, ?, ?)", rows)
        engine.executemany(
            "INSERT INTO extreme VALUES (-1, ?, ?)", [(other, other) for other in others] or [("a", "a")]
        )
        return engine.execute(f"SELECT place, {items} FROM extreme WHERE place >= 0 ORDER BY place").fetchall()


def _changed(texts: list[str]) -> set[str]:
    """The texts that give another value for a row once others are there."""
    alone = _rows(texts, ())
    return {
        texts[column - 1]
        for other in OTHERS
        for row, beside in zip(alone, _rows(texts, (other,)), strict=True)
        for column in range(1, len(row))
        if row[column] != beside[column]
    }


def test_no_function_hangs_on_the_texts_of_others(world: World) -> None:
    made = [form for form in map(world.built, _calls()) if form is not None]
    texts = list(dict.fromkeys(text_of(form.scalar) for form in made))
    assert len(texts) > 180
    assert _changed(texts) == set()


@cuts_by_other_texts
def test_positions_below_zero_would(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: SUBSTRING is printed as it is written."""
    monkeypatch.setattr(
        "dpsql.expressions.functions.parts._window",
        lambda text, start, count: Call("substring", (text, Number(start), Number(count))),
    )
    form = world.built("SUBSTRING(l_varchar, -3, 1)")
    assert form is not None and _changed([text_of(form.scalar)])


def test_the_checker_knows_no_position_below_zero(world: World) -> None:
    def guarded(positions: str) -> bool:
        return "TRY(" in total(
            f'SELECT substring("extreme"."l_varchar", {positions}) AS x FROM "extreme"', world.tables
        )

    assert not guarded("3, 1")
    for positions in ("(-3), 1", "3, (-1)"):
        with pytest.raises(Error):
            guarded(positions)


TAME = {
    "VARCHAR": ["''", "'a'", "'12'", "'2020-01-01'", "' 1 '", "'1.5e2'", "'true'"],
    "DATE": ["'1970-01-01'", "'2020-02-29'", "'0001-01-01'"],
    "TIMESTAMP": ["'1970-01-01'", "'2020-02-29 12:30:00'", "'9999-12-30'"],
    "TIME": ["'08:00:00'", "'12:30:00.5'"],
}
"""Values of which an engine may know much: short ASCII, small numbers, whole days."""


def _tame(sqltype: str) -> list[str]:
    return TAME.get(sqltype) or [v for v in extremes.VALUES[sqltype] if v in ("0", "1", "0.5", "0.01", "true", "false")]


def _filled(engine: duckdb.DuckDBPyConnection) -> None:
    """`alone.extreme`, pairs of tame values, and `beside.extreme`, the same with all extremes below them."""
    extremes.fill(engine)
    columns = [
        (
            extremes.column(side, sqltype),
            [*(f"CAST({v} AS {sqltype})" for v in _tame(sqltype)), f"CAST(NULL AS {sqltype})"],
            index,
        )
        for sqltype in extremes.TYPES
        for side, index in (("l", "i"), ("r", "j"))
    ]
    items = ", ".join(f"[{', '.join(cells)}][1 + {index} % {len(cells)}] AS {name}" for name, cells, index in columns)
    names = ", ".join(name for name, _, _ in columns)
    engine.execute("CREATE SCHEMA alone").execute("CREATE SCHEMA beside")
    rows = "(SELECT i, j FROM range(8) AS a(i), range(8) AS b(j))"
    engine.execute(f"CREATE TABLE alone.extreme AS SELECT i * 8 + j AS person_id, {items} FROM {rows}")
    below = f"SELECT -1 - row_number() OVER () AS person_id, {names} FROM main.extreme"
    engine.execute(f"CREATE TABLE beside.extreme AS FROM alone.extreme UNION ALL {below}")


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_no_operator_hangs_on_the_values_of_others(world: World, part: int) -> None:
    texts = printed(world, (*UNARY, *BINARY))[part::4]
    assert len(texts) > 250
    found = []
    with duckdb.connect(config={"threads": "1"}) as engine:
        _filled(engine)
        for start in range(0, len(texts), 100):
            asked = texts[start : start + 100]
            items = ", ".join(f"{text} AS c{i}" for i, text in enumerate(asked))
            sql = total(f'SELECT "person_id" AS place, {items} FROM "extreme" AS "extreme"', world.tables)
            shown = ", ".join(f"CAST(c{i} AS VARCHAR)" for i in range(len(asked)))
            answers = []
            for schema in ("alone", "beside"):
                engine.execute(f"SET schema = '{schema}'")
                answers.append(
                    engine.execute(f"SELECT place, {shown} FROM ({sql}) WHERE place >= 0 ORDER BY 1").fetchall()
                )
            for row, beside in zip(*answers, strict=True):
                found += [asked[i - 1] for i in range(1, len(row)) if row[i] != beside[i]]
    assert set(found) == set()
