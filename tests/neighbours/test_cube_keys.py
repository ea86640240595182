"""Cubes by keys without a list, of data with and without one person: of the same selected values the coefficients are no farther apart
than what is charged for them; a person's part in a selection is that of private selection of this key alone.

Planted: rows with values that were not selected are taken to be apart, since their values are; the limit on a person's values is
forgotten in the selection; what the selection costs is not taken off the price.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from fractions import Fraction

import pytest

from dpsql.engines.base import ExactTable
from dpsql.mechanisms.reach import largest_rho
from dpsql.plan.releases import BoundedBlock, Release
from dpsql.plan.resolved import Block
from dpsql.planner import cube_keys, cubes
from dpsql.planner.options import Options
from dpsql.planner.parse import CreateCube, parse
from dpsql.release import noisy
from dpsql.session.cubes import KIND
from tests.neighbours.test_cubes import TEXT, YEARLY, distance, opened
from tests.support import clinic

TAGGED: list[clinic.Row] = [
    (i, i % 8, 1 + i % 4, 5.0 + i % 40, i % 30 if i % 4 else None, f"t{i % 2}") for i in range(40)
]
BY_TAG = "SELECT tag, COUNT(*), SUM(days) FROM visit GROUP BY CUBE (tag)"
BY_BOTH = "SELECT year, tag, COUNT(*), SUM(cost) FROM visit GROUP BY CUBE (year, tag)"
HERS: dict[str, list[clinic.Row]] = {
    "three rare values": [(900 + i, 9, 2, 50.0, 30, f"hers{i}") for i in range(3)],
    "one selected value": [(900 + i, 9, 2, 50.0, 30, "t1") for i in range(3)],
    "more rows than are declared": [(900 + i, 9, 1 + i % 4, 90.0 - i, i, f"t{i % 5}") for i in range(25)],
    "no value": [(900 + i, 9, 1 + i, 50.0, None, None) for i in range(3)],
}
RARE = HERS["three rare values"]


@pytest.fixture(autouse=True)
def one_threshold(monkeypatch: pytest.MonkeyPatch) -> None:
    """The two values that others have are selected, however few people a test has."""
    honest = cube_keys._values

    def selected(table: object) -> tuple[object, ...]:
        return ("t0", "t1") if table is not None else honest(None)

    monkeypatch.setattr(cube_keys, "_values", selected)


def _charged(cube: str, hers: list[clinic.Row], ways: int = 9, text: str = TEXT) -> tuple[Fraction, Fraction]:
    """The squared distance of both releases, in half, and the rho of the cube alone."""
    found, charged = distance(cube, hers, TAGGED, text, ways)
    return found, charged.rho * (1 - cube_keys.RHO)


@pytest.mark.parametrize("hers", HERS)
@pytest.mark.parametrize(("cube", "ways"), [(BY_TAG, 9), (BY_BOTH, 9), (BY_BOTH, 1)])
@pytest.mark.few(4)
def test_one_person_moves_a_cube_by_no_more_than_is_charged_for_its_cells(cube: str, ways: int, hers: str) -> None:
    found, charged = _charged(cube, HERS[hers], ways)
    assert 0 < found <= charged * (1 + Fraction(1, 10**9))
    if hers == "three rare values" and cube == BY_TAG:
        # all of her rows are on the level of all others, with their values at one bound
        assert float(found) == pytest.approx(float(charged), rel=1e-9)


OPEN_YEARS = YEARLY.replace(
    'year = { type = "BIGINT", domain = [1, 2, 3, 4] }', 'year = { type = "BIGINT", role = "measure" }'
)
BY_YEAR = "SELECT year, COUNT(*), SUM(cost) FROM visit GROUP BY CUBE (year)"
OTHERS_APART = [(i, i % 8, 1 + i // 8, 5.0 + i, i % 30, None) for i in range(24)]
RARE_YEARS = [(900 + i, 9, 70 + i, 50.0, 30, None) for i in range(3)]


def _of_rare_years() -> None:
    found, charged = distance(BY_YEAR, RARE_YEARS, OTHERS_APART, OPEN_YEARS)
    own = charged.rho * (1 - cube_keys.RHO) * (1 + Fraction(1, 10**9))
    assert own * Fraction(99, 100) < found <= own


def test_rows_of_different_rare_values_are_on_one_level(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row a person and year: three years that few share are one value of the cube, and no closer to being apart."""
    monkeypatch.setattr(cube_keys, "_values", lambda table: (1, 2, 3) if table is not None else ())
    _of_rare_years()
    honest = cubes._apart
    monkeypatch.setattr(cubes, "_apart", lambda block: honest(_as_if_listed(block)))
    with pytest.raises(AssertionError):
        _of_rare_years()


def _as_if_listed(block: Block) -> Block:
    keys = tuple(replace(key, selected=None, scalar=replace(key.scalar, nullable=False)) for key in block.keys)
    return replace(block, keys=keys)


def _of_a_selection(hers: list[clinic.Row]) -> tuple[int, int]:
    """By how much a person moves all numbers that values are selected by, and by how much they may."""
    tables = []
    for visits, people in ((TAGGED, 9), ([*TAGGED, *hers], 10)):
        with closing(opened(visits, people, TEXT)) as session:
            made = f"CREATE PRIVATE CUBE c OPTIONS (epsilon = 1, delta = 1e-6, max_groups = 2) AS {BY_TAG}"
            session.execute(made)
            parsed = parse(made, ())
            assert isinstance(parsed, CreateCube)
            selection = KIND.plan(parsed, session._world).selections[0]
            table = session._world.stored.look_up(selection, Options(cube="off")).tables["release_0"]
            tables.append(dict(zip(table.keys[0], table.known()[0].tolist(), strict=True)))
    before, after = tables
    return sum(abs(after.get(value, 0) - before.get(value, 0)) for value in {*before, *after}), 2


def test_one_person_counts_in_as_many_values_as_the_limit_says(monkeypatch: pytest.MonkeyPatch) -> None:
    reaching = noisy._reaching

    def from_one_on(asked: Release, *more: object) -> ExactTable:
        assert asked.selection is not None
        return reaching(replace(asked, selection=replace(asked.selection, tau=1)), *more)  # type: ignore[arg-type]

    monkeypatch.setattr(noisy, "_reaching", from_one_on)
    moved, most = _of_a_selection(HERS["more rows than are declared"])
    assert 0 < moved <= most
    honest = cube_keys._alone

    def unlimited(*given: object) -> BoundedBlock:
        part = honest(*given)  # type: ignore[arg-type]
        return replace(part, limits=replace(part.limits, groups=3, rows=3))

    monkeypatch.setattr(cube_keys, "_alone", unlimited)
    moved, most = _of_a_selection(HERS["more rows than are declared"])
    assert moved > most


def test_what_selections_cost_is_taken_off_the_price(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = largest_rho(cubes.EpsilonDelta(Fraction(1), Fraction(1, 10**6)))
    assert distance(BY_TAG, RARE, TAGGED)[1].rho <= whole
    honest = cube_keys.selections

    def forgetting(bounded: object, places: object, terms: object, price: cubes.CubePrice, *more: object) -> object:
        return honest(bounded, places, terms, price, *more)[0], price  # type: ignore[arg-type]

    monkeypatch.setattr(cube_keys, "selections", forgetting)
    with closing(opened(TAGGED, 9, TEXT)) as session:
        made = session.execute(f"CREATE PRIVATE CUBE c OPTIONS (epsilon = 1, delta = 1e-6) AS {BY_TAG}")
        assert made.receipt.loss.rho > whole
