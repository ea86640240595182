"""SUM(x) beside COUNT(*) is bought as one pair where no column errs more by that, and apart otherwise; EXPLAIN's half-widths say so."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from dpsql.aggregates.avg import Pair
from dpsql.core.errors import Error
from dpsql.core.loss import EpsilonDelta
from dpsql.planner import measure
from dpsql.planner.buying import Calibrated, buy_one
from dpsql.planner.explain import explain
from dpsql.planner.options import Options
from dpsql.planner.parse import parse
from dpsql.planner.request import Parts, Request
from dpsql.schema.model import Schema
from dpsql.schema.toml import read_schema
from tests.support import clinic
from tests.support.planning import compile_statement

RANDHIE = read_schema(Path(__file__).parents[3] / "examples/randhie/schema.toml")
BESIDE = [
    "SELECT COUNT(*), SUM(income) FROM person",
    "SELECT SUM(income) / COUNT(*) FROM person",
    "SELECT site, SUM(mental_health_index), COUNT(*) FROM person GROUP BY site",
    "SELECT COUNT(*) FILTER (WHERE female), SUM(income) FILTER (WHERE female) FROM person",
    "SELECT year, COUNT(*), SUM(age) FROM person_year GROUP BY year",
]


def widths(sql: str, schema: Schema) -> dict[str, float]:
    """The 95 % half-width of every column, as EXPLAIN prints it."""
    text = explain(compile_statement(parse(sql), Options(), schema), schema)
    found = re.findall(r"^  (.+): 95 % half-width ([\d,.e+]+)$", text, re.MULTILINE)
    return {name: float(width.replace(",", "")) for name, width in found}


def apart(monkeypatch: pytest.MonkeyPatch, sql: str, schema: Schema) -> dict[str, float]:
    """The same where every statistic is bought by itself."""

    def first(ways: Sequence[Parts], request: Request) -> tuple[int, Calibrated]:
        return buy_one(ways[:1], request)

    with monkeypatch.context() as patched:
        patched.setattr(measure, "buy_one", first)
        return widths(sql, schema)


@pytest.mark.parametrize("sql", BESIDE)
def test_a_sum_beside_count_errs_less_by_half_at_the_same_price(monkeypatch: pytest.MonkeyPatch, sql: str) -> None:
    separate, together = apart(monkeypatch, sql, RANDHIE), widths(sql, RANDHIE)
    assert set(separate) == set(together) and len(together) == 2
    for name, width in together.items():
        assert separate[name] / width > 1.4, name


def test_it_errs_as_beside_an_average() -> None:
    with_average = widths("SELECT COUNT(*), SUM(income), AVG(income) FROM person", RANDHIE)
    for name, width in widths(BESIDE[0], RANDHIE).items():
        assert width == with_average[name]


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian", "auto"])
@pytest.mark.parametrize(
    "asked",
    [
        *BESIDE,
        "SELECT COUNT(*), SUM(income), SUM(mental_health_index) FROM person",
        "SELECT COUNT(*), SUM(income), MEDIAN(income) FROM person",
        "SELECT COUNT(*), COUNT(*) FILTER (WHERE female), SUM(income) FROM person",
        "SELECT COUNT(*), SUM(md_visits) FROM person_year",
        "SELECT family_size, COUNT(*), SUM(age) FROM person_year GROUP BY family_size",
    ],
)
def test_no_column_errs_more(monkeypatch: pytest.MonkeyPatch, asked: str, mechanism: str) -> None:
    sql = f"/* dpsql: mechanism={mechanism} */ {asked}"
    separate, together = apart(monkeypatch, sql, RANDHIE), widths(sql, RANDHIE)
    assert together.keys() == separate.keys() and together
    assert all(together[name] <= separate[name] for name in together)


def test_weights_are_of_statistics_bought_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    sql = f"/* dpsql: weights=1:1 */ {BESIDE[0]}"
    assert widths(sql, RANDHIE) == apart(monkeypatch, sql, RANDHIE)


def test_an_accuracy_costs_less(monkeypatch: pytest.MonkeyPatch) -> None:
    def price(ways: int) -> EpsilonDelta:
        with monkeypatch.context() as patched:
            patched.setattr(measure, "buy_one", lambda asked, request: buy_one(asked[:ways], request))
            parsed = parse("/* dpsql: error=10000 */ SELECT COUNT(*), SUM(mental_health_index) FROM person")
            loss = compile_statement(parsed, Options(), RANDHIE).plan.loss
        assert loss.epsilon is not None
        return EpsilonDelta(loss.epsilon, loss.delta)

    assert price(2).epsilon <= price(1).epsilon


def test_what_cannot_be_bought_says_what_the_first_way_says() -> None:
    sql = "/* dpsql: error=1 */ SELECT COUNT(*), SUM(income) FROM person"
    with pytest.raises(Error) as found:
        compile_statement(parse(sql), Options(), RANDHIE)
    assert found.value.code == "DPSQL-502"


def test_the_pair_has_the_third_cell(tmp_path: Path) -> None:
    schema = clinic.schema(tmp_path)
    compiled = compile_statement(parse("SELECT COUNT(*), SUM(days) FROM visit"), Options(), schema)
    (one,) = compiled.releases[0].release.measures
    assert isinstance(one.statistic, Pair) and one.statistic.with_rows
    assert one.sensitivity.l1 == 3 * 33, "three rows of a person, each as wide as the bounds"
