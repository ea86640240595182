"""Faults of a dialect that conformance catches: each is planted, and one of the statements here then differs or fails."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence

import pytest

from dpsql.engines.dialects import casts, functions, queries
from dpsql.engines.dialects.expressions import RULES
from dpsql.engines.dialects.words import DialectWords
from dpsql.engines.postgres.words import PostgresWords
from dpsql.engines.spark.words import SparkWords
from tests.engines import conformance
from tests.support import clinic

STATEMENTS = (
    "SELECT SUM(age // 7), SUM(-age // 7) FROM patient",
    "SELECT SUM(CAST(CAST(weight AS DOUBLE) AS INTEGER)) FROM patient WHERE CAST(weight AS INTEGER) BETWEEN 40 AND 200",
    "SELECT SUM(CAST(score AS INTEGER)) FROM patient WHERE CAST(score AS INTEGER) BETWEEN 10 AND 90",
    "SELECT SUM(score) FROM patient",
    "SELECT COUNT(*) FROM patient WHERE SUBSTRING(note, 2, 1) = '1'",
    "SELECT COUNT(*) FROM patient LEFT JOIN drug ON site = drug WHERE label IS NULL",
    "SELECT city, COUNT(*) FROM patient GROUP BY city",
    "SELECT COUNT(*) FROM patient WHERE note LIKE '%\\%%'",
    "SELECT MEDIAN(days) FROM visit",
    "SELECT site, MEDIAN(cost) FROM visit JOIN patient USING (patient_id) GROUP BY site",
    "SELECT COUNT(*) FROM patient WHERE CAST(income * 1e6 AS INTEGER) > 3",
    "SELECT SUM(TRY_CAST(score AS DECIMAL(3,1))) FROM patient",
    "SELECT year, SUM(cost) FROM visit GROUP BY year",
    "SELECT year, SUM(cost), AVG(cost), SUM(days), AVG(days), COUNT(*) FROM visit GROUP BY year",
)


def outcomes(opened: conformance.Both) -> Iterator[str]:
    """Each is written anew, and no stored answer stands in its place."""
    opened.other._world.release._texts._checked.cache_clear()
    return (opened.ask(f"/* dpsql: fresh */ {sql}") for sql in STATEMENTS)


def _patched(patch: pytest.MonkeyPatch, name: str, of_postgres: str, of_spark: str) -> None:
    """A word in which {0}, {1} ... are the texts that it is made of."""
    for words, text in ((PostgresWords, of_postgres), (SparkWords, of_spark)):
        patch.setattr(words, name, lambda words, *asked, text=text: text.format(*asked))


def _div_that_rounds_down(patch: pytest.MonkeyPatch) -> None:
    """In Spark by way of DOUBLE, as its own `/` goes."""
    down = (
        "floor(({1.text})::numeric / NULLIF({2.text}, 0))::bigint",
        "CAST(floor(CAST({1.text} AS DOUBLE) / NULLIF({2.text}, 0L)) AS BIGINT)",
    )
    _patched(patch, "divided", *down)


def _truncating(patch: pytest.MonkeyPatch) -> None:
    """In Spark as its casts are; in PostgreSQL of all numbers."""
    real = casts._as_integer

    def truncated(words: DialectWords, value: str, *rest: object) -> str:
        cut = f"trunc({value})" if isinstance(words, PostgresWords) else value
        return real(words, cut, *rest)  # type: ignore[arg-type]

    patch.setattr(casts, "_as_integer", truncated)
    patch.setattr(SparkWords, "nearest", lambda words, value: f"TRY_CAST({value} AS BIGINT)")


def _shifted_index(patch: pytest.MonkeyPatch) -> None:
    real = functions._substring

    def shifted(words: DialectWords, texts: Sequence[str], *rest: object) -> str:
        return real(words, [texts[0], f"{texts[1]} + 1", *texts[2:]], *rest)  # type: ignore[arg-type]

    patch.setitem(functions.FUNCTIONS, "substring", shifted)  # type: ignore[arg-type]


def _raising(patch: pytest.MonkeyPatch) -> None:
    """TRY_CAST that raises."""
    real = {PostgresWords: "({})::int::bigint", SparkWords: "CAST(CAST({} AS INT) AS BIGINT)"}
    patch.setattr(casts, "_of_double", lambda words, value, *_: real[type(words)].format(value))


def _a_point(patch: pytest.MonkeyPatch) -> None:
    _patched(patch, "digits", "({0} + 0.0)", "({0} + 0.0BD)")


def _joins_that_fill(patch: pytest.MonkeyPatch) -> None:
    real = queries._join

    def filled(*asked: object) -> str:
        return real(*asked).replace("LEFT JOIN", "JOIN")  # type: ignore[arg-type]

    patch.setattr(queries, "_join", filled)


def _case_mapping(patch: pytest.MonkeyPatch) -> None:
    real: Callable[..., str] = RULES["Literal"]
    patch.setitem(RULES, "Literal", lambda *asked: real(*asked).replace("'a'", "'A'"))  # type: ignore[arg-type]


def _of_the_largest(patch: pytest.MonkeyPatch) -> None:
    """The values of a unit, sorted: the largest in place of each."""
    all_alike = "(SELECT array_agg(m) FROM (SELECT max(e) OVER () AS m FROM unnest({0}) AS e) AS held)"
    _patched(patch, "ordered", all_alike, "transform({0}, v -> array_max({0}))")


def _the_place_before(patch: pytest.MonkeyPatch) -> None:
    """Of a list, as the parser counts its places where it knows their type."""
    real = {words: words.picked for words in (PostgresWords, SparkWords)}
    for words, picked in real.items():
        patch.setattr(words, "picked", lambda own, values, place, picked=picked: picked(own, values, f"({place} - 1)"))


def _nothing_tried(patch: pytest.MonkeyPatch) -> None:
    """A number in place of NULL where a value does not fit."""
    real = {words: words.tried for words in (PostgresWords, SparkWords)}
    for words, tried in real.items():
        patch.setattr(words, "tried", lambda own, *asked, tried=tried: f"coalesce({tried(own, *asked)}, 90)")


def _another_key(patch: pytest.MonkeyPatch) -> None:
    """Of the cut: other rows of a unit stay."""
    for words in (PostgresWords, SparkWords):
        patch.setattr(words, "secret", "'another'")


def _no_unit_numbered(patch: pytest.MonkeyPatch) -> None:
    """A fault of both halves of a cut in one, which PostgreSQL is made to write too: all stand as those within the limits."""
    real = queries._numbered_half
    patch.setattr(PostgresWords, "kept", "")
    patch.setattr(queries, "_numbered_half", lambda node: real(node) and node.this.unnest())


FAULTS = (
    _no_unit_numbered,
    _of_the_largest,
    _the_place_before,
    _nothing_tried,
    _another_key,
    _div_that_rounds_down,
    _truncating,
    _shifted_index,
    _raising,
    _a_point,
    _joins_that_fill,
    _case_mapping,
)


@pytest.fixture(scope="module", params=["postgres", "spark"])
def opened(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[conformance.Both]:
    url: str = request.getfixturevalue(request.param)
    folder = tmp_path_factory.mktemp("planted")
    clinic.write(folder, database())
    with conformance.both(clinic.schema(folder), url, "planted") as found:
        yield found


def database() -> clinic.Database:
    data = clinic.database(random.Random(5), wild=True)
    more = [clinic._patient(random.Random(i), 100 + i, True) for i in range(60)]
    return {**data, "patient": [*data["patient"], *more]}


@pytest.mark.slow
def test_without_a_fault_all_are_equal_or_refused(opened: conformance.Both) -> None:
    assert [outcome for outcome in outcomes(opened) if outcome.startswith("DIFFERENT")] == []


@pytest.mark.slow
def test_a_cut_in_one_is_that_in_two_halves(opened: conformance.Both, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PostgresWords, "kept", "")
    assert [outcome for outcome in outcomes(opened) if outcome.startswith("DIFFERENT")] == []


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__.strip("_"))
def test_a_planted_fault_is_caught(
    opened: conformance.Both, monkeypatch: pytest.MonkeyPatch, fault: Callable[..., None]
) -> None:
    fault(monkeypatch)
    assert any(outcome.startswith("DIFFERENT") for outcome in outcomes(opened))
