"""What is written of a question reads back as the same; what is damaged is refused, and a column that changed is another one."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.accounting.ledger import Asked
from dpsql.core.errors import Error
from dpsql.guard import record
from dpsql.guard.guarding import Guarding
from dpsql.guard.questions import Question, Shape
from dpsql.guard.regions import EVERYTHING, Box, Region, but_not, meet, share
from dpsql.guard.values import END, START, Axis, Cut, Listed, Values, ranged
from dpsql.planner.parse import parse
from dpsql.session.opening import open_session
from dpsql.session.session import Session
from tests.support import clinic, generate
from tests.support.noise import ZeroNoise
from tests.support.planning import planned

MODEST = settings(max_examples=40, deadline=None, derandomize=True, database=None)
CITY = Axis("t.city 1", "city", ("a", "b", "c"), nullable=True)
FREE = Axis("t.free 2", "free", nullable=True)
AGE = Axis("t.age 3", "age", (), (Fraction(0), Fraction(99)), Fraction(1), ranged=True, integral=True)
REAL = Axis("t.real 4", "real", (), (Fraction(-1, 3), Fraction(10**20)), Fraction(1, 10), nullable=True, ranged=True)
BORN = Axis("t.born 5", "born", (), None, Fraction(1), ranged=True, integral=True, temporal="DATE")
OPAQUE = Axis("opaque 6", "free LIKE 'x%'", (False, True), nullable=True, opaque=True)
RELEASED = Axis("opaque 7", "a released value", (False, True), nullable=True, opaque=True, released=True)
AXES = (CITY, FREE, AGE, REAL, BORN, OPAQUE, RELEASED)
KNOWN = {axis.key: axis for axis in AXES if not axis.opaque}


# --- generated questions ----------------------------------------------------------------------------------------------


def cuts() -> st.SearchStrategy[Cut]:
    inner = st.tuples(st.fractions(-100, 100, max_denominator=7), st.integers(0, 1))
    return st.one_of(st.just(START), st.just(END), inner, inner)


@st.composite
def values(draw: st.DrawFn, axis: Axis) -> Values:
    if axis.ranged:
        ends = sorted(draw(st.lists(cuts(), max_size=6)))
        return ranged(axis, list(zip(ends[::2], ends[1::2], strict=False)), draw(st.booleans()))
    texts = st.one_of(st.text(max_size=4), st.integers(-5, 5), st.fractions(-1, 1, max_denominator=9))
    odd = draw(st.frozensets(texts.filter(lambda v: v not in axis.values), max_size=3))
    return Listed(axis, draw(st.integers(0, (1 << (len(axis.values) + 2)) - 1)), odd)


@st.composite
def regions(draw: st.DrawFn) -> Region:
    found: list[Box] = []
    for _ in range(draw(st.integers(0, 3))):
        axes = draw(st.lists(st.sampled_from(AXES), max_size=3, unique=True))
        found.append({axis.key: draw(values(axis)) for axis in axes})
    return tuple(found)


@st.composite
def questions(draw: st.DrawFn) -> Question:
    some = st.lists(regions(), max_size=2).map(tuple)
    shapes = draw(st.lists(st.builds(Shape, regions(), st.lists(some, max_size=2).map(tuple), some), max_size=2))
    tables = draw(st.lists(st.sampled_from(["patient", "visit", 'odd " one']), max_size=2).map(tuple))
    return Question(tables, tuple(shapes), spread=draw(st.floats(0, 1e300) | st.just(float("inf"))))


@pytest.mark.slow
@MODEST
@given(st.lists(questions(), max_size=3))
def test_what_is_written_reads_back_as_the_same(asked: list[Question]) -> None:
    text = record.written(asked)
    found = record.read(text, KNOWN)
    assert found == asked
    assert record.written(found) == text


def test_a_record_of_version_1_counts_with_half_of_its_width() -> None:
    """Its noise deviates by more than that, so no old answer counts as noisier than it was."""
    question = Question(("patient",), (Shape(({CITY.key: CITY.of("b")},)),), spread=14.0)
    now = json.loads(record.written([question]))
    assert now["version"] == record.VERSION == 2
    columns = [
        [key, name, count, bounds, step, flags[:5], kind]
        for key, name, count, bounds, step, flags, kind in now["columns"]
    ]
    (before,) = record.read(json.dumps([columns, now["questions"]]), KNOWN)
    assert before == replace(question, spread=7.0)
    with pytest.raises(ValueError, match="version"):
        record.read(json.dumps({**now, "version": 3}), KNOWN)


# --- questions of statements ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Session:
    return edited(tmp_path_factory.mktemp("clinic"), "step = 0.5", "step = 0.5")


def edited(folder: Path, old: str, new: str) -> Session:
    """The clinic, guarded, with something else in its schema."""
    clinic.schema(folder)
    path = folder / "patient.toml"
    text = path.read_text().replace('mode = "off"', 'mode = "block"')
    assert old in text
    path.write_text(text.replace(old, new))
    clinic.write(folder, {name: [] for name in clinic.DDL})
    return open_session(path, None, ":memory:", noise=ZeroNoise())


def asked_of(session: Session, sql: str) -> list[Question]:
    found = planned(session, parse(sql))
    return Guarding.asked(found.judged.questions, found.plan.plan.releases)


@pytest.mark.slow
def test_questions_of_statements_read_back_as_equal_regions(session: Session) -> None:
    chance = random.Random(3)
    conditions, keys = generate.CONDITIONS["patient"], generate.KEYS["patient"]
    for _ in range(60):
        where = f" {chance.choice(['AND', 'OR'])} ".join(chance.sample(conditions, chance.choice([1, 2, 3])))
        sql = f"SELECT COUNT(*), SUM(age) FILTER (WHERE {chance.choice(conditions)}) FROM patient WHERE {where}"
        grouped = f" GROUP BY {chance.choice(keys)}" if chance.random() < 0.5 else ""
        asked = asked_of(session, sql + grouped)
        found = record.read(record.written(asked), session._world.guard._reader.declared_axes())
        assert found == [replace(each, unsized=(), conditions=(), restricted=()) for each in asked]
        for one, other in zip(asked, found, strict=True):
            for region, again in zip(one.whole(), other.whole(), strict=True):
                assert but_not(region, again, 10_000) == () == but_not(again, region, 10_000)
                assert share(region) == share(again)


def test_nothing_but_the_statement_is_written(session: Session) -> None:
    """Declared values are left to the schema; a text that the caller wrote stands there."""
    text = record.written(asked_of(session, "SELECT COUNT(*) FROM patient WHERE city = 'b' AND note = 'Marcus'"))
    assert "Marcus" in text
    assert '"b"' not in text


# --- damaged ----------------------------------------------------------------------------------------------------------

WHOLE = record.written(
    [
        Question(
            ("patient",),
            (Shape(({CITY.key: CITY.of("b"), AGE.key: AGE.of(3)},), ((({FREE.key: FREE.of("x")},),),), (EVERYTHING,)),),
            spread=2.0,
        )
    ]
)
DAMAGED = [
    "",
    "null",
    "[]",
    "7",
    "[1,2,3]",
    "{}",
    WHOLE[:-1],
    WHOLE[: len(WHOLE) // 2],
    WHOLE[1:],
    WHOLE.replace('"patient"', '"patient', 1),
    WHOLE.replace("[[0,", "[[9,"),
    WHOLE.replace('["2"]', '["zz"]'),
    WHOLE.replace('["2"]', "[]"),
    WHOLE.replace('["2"]', "7"),
    WHOLE.replace('["2"]', "[null]"),
    WHOLE.replace('["2"]', '["-3"]'),
    WHOLE.replace('["2"]', '["fffff"]'),
    WHOLE.replace('"3",0', '"x",0'),
    WHOLE.replace('"3",0', '"1/0",0'),
    WHOLE.replace('"3",0', '"nan",0'),
    WHOLE.replace('"3",0', "[],0"),
    WHOLE.replace('"3",0', '"30",0'),
    WHOLE.replace("2.0", '"much"'),
    WHOLE.replace("2.0", "null"),
    "[" * 100_000,
]


def test_the_text_is_damaged_in_every_way_that_is_meant() -> None:
    assert record.read(WHOLE, KNOWN)
    assert len(set(DAMAGED)) == len(DAMAGED) and WHOLE not in DAMAGED


@pytest.mark.parametrize("text", DAMAGED, ids=range(len(DAMAGED)))
def test_damaged_text_is_refused(session: Session, text: str) -> None:
    with pytest.raises(Error) as raised:
        session._world.guard._past(Asked(1, "somebody", "SELECT 1", text))
    assert raised.value.code == "DPSQL-705"


def test_text_with_something_else_in_one_place_is_refused_or_reads_as_sets(session: Session) -> None:
    """Anything but an error of dpsql's own would be 901, and stop every later statement."""
    chance, whole = random.Random(5), json.loads(WHOLE)
    for _ in range(400):
        text = json.dumps(_changed(chance, whole))
        try:
            session._world.guard._load([Asked(1, "somebody", "SELECT 1", text)])
        except Error as problem:
            assert problem.code == "DPSQL-705", text


def _changed(chance: random.Random, part: object) -> object:
    """One place deep inside replaced."""
    if isinstance(part, list) and part and chance.random() < 0.93:
        place = chance.randrange(len(part))
        return [*part[:place], _changed(chance, part[place]), *part[place + 1 :]]
    return chance.choice([None, True, -1, 0, 7, 2.5, "", "x", "inf", [], [[]], {}, ["1", 0], [None]])


# --- a schema that changed --------------------------------------------------------------------------------------------

CHANGES = [
    ("domain = [1, 2, 3]", "domain = [1, 2, 3, 4]", "site = 2"),
    ("domain = [1, 2, 3]", "domain = [0, 1, 2]", "site = 2"),
    ('domain = ["a", "b", "c"]', 'domain = ["b", "c", "d"]', "city = 'b'"),
    ("bounds = [10, 90] }\nscore", "bounds = [0, 90] }\nscore", "age > 30"),
    ("step = 0.5", "step = 0.25", "weight > 50"),
    ("bounds = [1990-01-01, 1999-12-31]", "bounds = [1990-01-01, 2009-12-31]", "born > DATE '1995-01-01'"),
]


@pytest.mark.parametrize(("old", "new", "condition"), CHANGES, ids=[f"{c}: {n}" for _, n, c in CHANGES])
def test_a_column_with_other_declared_values_is_another_column(
    session: Session, tmp_path: Path, old: str, new: str, condition: str
) -> None:
    sql = f"SELECT COUNT(*) FROM patient WHERE {condition}"
    text = record.written(asked_of(session, sql))
    later = edited(tmp_path, old, new)
    (before,) = record.read(text, later._world.guard._reader.declared_axes())
    (now,) = asked_of(later, sql)
    (one,), (other,) = before.shapes[0].base, now.shapes[0].base
    assert not set(one) & set(other)
    assert meet((one,), (other,))
    assert record.written([before]) == text
    later.close()


def test_a_column_that_did_not_change_stays_the_same(session: Session, tmp_path: Path) -> None:
    sql = "SELECT COUNT(*) FROM patient WHERE site = 2 AND age > 30 AND born > DATE '1995-01-01'"
    later = edited(tmp_path, 'domain = ["a", "b", "c"]', 'domain = ["a", "b"]')
    assert record.read(record.written(asked_of(session, sql)), later._world.guard._reader.declared_axes()) == asked_of(
        later, sql
    )
    later.close()
