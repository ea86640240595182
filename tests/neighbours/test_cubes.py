"""Cubes of data with and without one person: the coefficients, each over its own deviation, are no farther apart than what is charged.

Without noise what is released are the exact coefficients of both databases; 2 rho is at least the sum of the squares of their
differences, each over the variance that its noise would have had. For a person in whose rows all values are at one bound, it is equal.

Planted: the rows of a person ignored, a value's width told too small, an axis whose values are not told apart in the norm.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from fractions import Fraction
from math import prod

import pytest

from dpsql.aggregates.joint import ValueCells
from dpsql.core.loss import PrivacyLoss
from dpsql.mechanisms.cube_noise import ResidualGaussian
from dpsql.mechanisms.residual import Axes, Residual, residual
from dpsql.release import noisy
from dpsql.session.session import Session
from tests.support import clinic
from tests.support.noise import ZeroNoise
from tests.support.opened import clinic_data
from tests.unit.mechanisms.test_residual import places

TEXT = clinic.schema_text()
OTHERS: list[clinic.Row] = [(i, i % 8, 1 + i % 4, 5.0 + i, i % 30 if i % 4 else None, None) for i in range(40)]
CUBES = {
    "one row": "SELECT site, female, COUNT(*), SUM(income), SUM(weight) FROM patient GROUP BY CUBE (site, female)",
    "rows": "SELECT year, COUNT(*), SUM(cost), SUM(days) FROM visit GROUP BY CUBE (year)",
    "joined": "SELECT year, site, COUNT(*), AVG(cost) FROM visit JOIN patient USING (patient_id) GROUP BY CUBE (year, site)",
    "filtered": "SELECT year, COUNT(days), SUM(days) FROM visit WHERE cost > 20 GROUP BY CUBE (year)",
}
HERS: dict[str, list[clinic.Row]] = {
    "at one bound, in one year": [(900 + i, 9, 2, 50.0, 30, None) for i in range(3)],
    "more rows than are declared": [(900 + i, 9, 1 + i % 4, 90.0 - i, i, None) for i in range(25)],
    "values beyond the bounds": [(900, 9, 1, 1e9, 10**6, None), (901, 9, 3, -1e9, -(10**6), None)],
    "values that are missing": [(900, 9, 4, float("nan"), None, None), (901, 9, 4, 30.0, None, None)],
    "years off the list": [(900, 9, 7, 30.0, 5, None), (901, 9, None, 30.0, 5, None), (902, 9, 1, 30.0, 5, None)],
}


def _person(number: int) -> clinic.Row:
    wild = (float("inf"), None) if number == 9 else (float(number), 60.0)
    return (number, 1 + number % 3, None if number == 9 else True, *wild, 30, None, "a", None, "1995-01-01", None)


def opened(visits: list[clinic.Row], people: int, text: str) -> Session:
    data: clinic.Database = {"patient": [_person(i) for i in range(people)], "visit": visits, "item": [], "drug": []}
    return clinic_data(text, data).session(ZeroNoise())


def distance(
    cube: str, hers: list[clinic.Row], others: list[clinic.Row] = OTHERS, text: str = TEXT, ways: int = 9
) -> tuple[Fraction, PrivacyLoss]:
    """Half of the squared distance of two releases, each coefficient over its variance; and what was charged."""
    tables = []
    charged: PrivacyLoss | None = None
    statement = f"CREATE PRIVATE CUBE c OPTIONS (epsilon = 1, delta = 1e-6, ways = {ways}) AS {cube}"
    for session in (opened(others, 9, text), opened([*others, *hers], 10, text)):
        with closing(session):
            answer = session.execute(statement)
            known = session._world.stored.cubes.names.get("c")
            assert known is not None
            table = session._world.stored.questions.answers.get(known.fingerprint)
            assert table is not None
            tables.append([cell.tolist() for cell in table.known()])
            charged = answer.receipt.loss
    assert charged is not None
    weights = [(one.residual, weight) for one in known.statistics for weight in one.weights]
    found = Fraction(0)
    for before, after, (made, weight) in zip(*tables, weights, strict=True):
        for place, one, other in zip(places(made), before, after, strict=True):
            axes = frozenset(i for i, k in enumerate(place) if k)
            variance = made.squared[axes] * weight**2 * prod(k * (k + 1) for k in place if k)
            found += Fraction((one - other) ** 2) / (2 * variance)
    return found, charged


def cases() -> Iterator[tuple[str, str]]:
    yield from ((cube, hers) for cube in CUBES for hers in HERS)


@pytest.mark.parametrize(("cube", "hers"), list(cases()))
@pytest.mark.few(8)
def test_one_person_moves_a_cube_by_no_more_than_is_charged(cube: str, hers: str) -> None:
    found, charged = distance(CUBES[cube], HERS[hers])
    assert 0 < found <= charged.rho or (found == 0 and cube == "filtered")


BY_ONE = {
    "one row": "SELECT site, female, COUNT(*), SUM(income) FROM patient GROUP BY CUBE (site, female)",
    "joined": CUBES["joined"],
    "three keys": """SELECT year, site, city, COUNT(*), SUM(cost) FROM visit JOIN patient USING (patient_id)
    GROUP BY CUBE (year, site, city)""",
}
"""Cubes of which no more than some keys are told together: no table of all keys is made."""


@pytest.mark.parametrize(
    "hers", ["at one bound, in one year", "more rows than are declared", "values that are missing"]
)
@pytest.mark.parametrize(("cube", "ways"), [("one row", 1), ("joined", 1), ("three keys", 1), ("three keys", 2)])
@pytest.mark.few(4)
def test_one_person_moves_marginals_by_no_more_than_is_charged(cube: str, ways: int, hers: str) -> None:
    found, charged = distance(BY_ONE[cube], HERS[hers], ways=ways)
    assert 0 < found <= charged.rho
    if hers == "at one bound, in one year" and cube != "one row":
        assert float(found) == pytest.approx(float(charged.rho), rel=1e-9)


def test_rows_that_stand_in_a_marginal_twice_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: what the marginals are summed of is told twice."""
    honest = noisy._summed
    monkeypatch.setattr(noisy, "_summed", lambda *given: [2 * column for column in honest(*given)])
    with pytest.raises(AssertionError):
        test_one_person_moves_marginals_by_no_more_than_is_charged("three keys", 2, "at one bound, in one year")


def test_a_set_of_keys_that_is_forgotten_in_the_norm_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: marginals by two keys are released, and charged as if those by one were all."""

    def by_one(shape: tuple[int, ...], ways: int, rho: Fraction, rows: int, apart: int | None) -> Residual:
        own = residual(shape, 1, rho, rows, apart)
        sets = {axes: own.squared.get(axes, own.squared[frozenset()]) for axes in residual(shape, ways, rho, 1).squared}
        return Residual(shape, sets)

    monkeypatch.setattr("dpsql.planner.cubes.residual", by_one)
    monkeypatch.setattr("dpsql.mechanisms.cube_noise.ResidualGaussian.rho", _of_one_way)
    with pytest.raises(AssertionError):
        test_one_person_moves_marginals_by_no_more_than_is_charged("three keys", 2, "at one bound, in one year")


def _of_one_way(noise: ResidualGaussian, _: int) -> Fraction:
    made = noise.residual
    return Residual(made.shape, {axes: s for axes, s in made.squared.items() if len(axes) < 2}).rho(noise.rows)


def test_the_claim_is_reached() -> None:
    """Three rows of one year, with every value at its upper bound."""
    found, charged = distance(CUBES["rows"], HERS["at one bound, in one year"])
    assert float(found) == pytest.approx(float(charged.rho), rel=1e-9)


def _reached() -> None:
    found, charged = distance(CUBES["rows"], HERS["at one bound, in one year"])
    assert found <= charged.rho * (1 + Fraction(1, 10**9))


def test_rows_of_a_person_that_are_ignored_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    _reached()
    monkeypatch.setattr("dpsql.mechanisms.cube_noise.ResidualGaussian.rho", lambda noise, _: noise.residual.rho(1))
    monkeypatch.setattr("dpsql.planner.cubes.residual", _of_one_row)
    with pytest.raises(AssertionError):
        _reached()


def _of_one_row(shape: tuple[int, ...], ways: int, rho: Fraction, rows: int, apart: int | None) -> Residual:
    return residual(shape, ways, rho, 1)


def test_a_width_that_is_told_too_small_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ValueCells, "weight", property(lambda one: one.term.width // 2))
    monkeypatch.setattr("dpsql.mechanisms.cube_noise.ResidualGaussian.rho", lambda noise, _: noise.residual.rho(3))
    with pytest.raises(AssertionError):
        _reached()


def test_an_axis_that_is_forgotten_in_the_norm_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def forgetting(made: Residual, axes: Axes) -> Fraction:
        return Fraction(1, 4) if axes else Fraction(1)

    monkeypatch.setattr(Residual, "share", forgetting)
    with pytest.raises(AssertionError):
        _reached()


_BEFORE, _, _AFTER = TEXT.partition("[tables.item]")
YEARLY = _BEFORE.replace('key = ["visit_id"]', 'key = ["patient_id", "year"]') + _AFTER[_AFTER.index("[tables.drug]") :]
"""A row a person and year at most, as is verified. The others have no more than three: which of four stay is each ledger's secret."""
APART = [(i, i % 8, 1 + i // 8, 5.0 + i, i % 30, None) for i in range(24)]
HERS_APART: dict[str, list[clinic.Row]] = {
    "at one bound": [(900 + i, 9, 1 + i, 50.0, 30, None) for i in range(3)],
    "more years than are declared": [(900 + i, 9, 1 + i, 90.0 - i, i, None) for i in range(4)],
    "at both bounds": [(900 + i, 9, 1 + i, -1e9 if i % 2 else 1e9, None, None) for i in range(3)],
}


@pytest.mark.parametrize("hers", HERS_APART)
@pytest.mark.parametrize("cube", ["rows", "joined"])
@pytest.mark.few(3)
def test_one_person_of_a_row_a_year_moves_a_cube_by_no_more_than_is_charged(cube: str, hers: str) -> None:
    found, charged = distance(CUBES[cube], HERS_APART[hers], APART, YEARLY)
    assert 0 < found <= charged.rho
    if hers == "at one bound" and cube == "rows":
        assert float(found) == pytest.approx(float(charged.rho), rel=1e-9)


def test_a_table_without_that_key_is_not_taken_for_one_that_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: years are taken to be apart where nothing says so."""
    monkeypatch.setattr("dpsql.planner.cubes._apart", lambda block: 0)
    with pytest.raises(AssertionError):
        _reached()
