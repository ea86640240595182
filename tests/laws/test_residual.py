"""Privacy of a cube's coefficients: for one row of any cell the squares over the variances add up to the same, and several rows
of a unit to no more than is charged. Exact, for every cell of small shapes; symbolic along an axis of any length.

Planted: a wrong norm, an axis forgotten, the rows of a unit ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import combinations, combinations_with_replacement, product
from math import prod

import pytest

from dpsql.core.errors import Error
from dpsql.mechanisms import helmert
from dpsql.mechanisms.residual import Axes, Residual, residual

RHO = Fraction(1, 40)
SHAPES = [(2,), (7,), (2, 2), (3, 5), (1, 3), (2, 3, 4), (3, 3, 2, 2)]


def loss(made: Residual, rows: Sequence[tuple[int, ...]]) -> Fraction:
    """rho of one unit with a row in each of these cells: half of the sum of its coefficients' squares over their variances."""
    cells = [sum(row == place for row in rows) for place in product(*map(range, made.shape))]
    found = Fraction(0)
    for place, coefficient in zip(
        product(*map(range, made.shape)), helmert.coefficients(cells, made.shape), strict=True
    ):
        axes = frozenset(i for i, k in enumerate(place) if k)
        if axes in made.squared:
            found += Fraction(coefficient**2, prod(k * (k + 1) for k in place if k)) / (2 * made.squared[axes])
    return found


def losses(shape: tuple[int, ...], ways: int) -> tuple[set[Fraction], Fraction]:
    """Of a row of each cell, and what is charged."""
    made = residual(shape, ways, RHO, 1)
    return {loss(made, [cell]) for cell in product(*map(range, shape))}, made.rho(1)


@pytest.mark.parametrize("shape", SHAPES)
def test_every_cell_loses_what_is_charged(shape: tuple[int, ...]) -> None:
    for ways in range(1, len(shape) + 1):
        found, charged = losses(shape, ways)
        assert found == {charged} and charged <= RHO


@pytest.mark.parametrize("rows", [2, 3])
@pytest.mark.parametrize("shape", [(3,), (2, 3)])
def test_several_rows_of_a_unit_lose_no_more_than_is_charged(shape: tuple[int, ...], rows: int) -> None:
    made = residual(shape, len(shape), RHO, rows)
    cells = list(product(*map(range, shape)))
    found = [loss(made, chosen) for chosen in combinations_with_replacement(cells, rows)]
    assert max(found) == made.rho(rows) <= RHO
    assert len(set(found)) > 1


def apart_losses(shape: tuple[int, ...], ways: int, rows: int, apart: int) -> tuple[list[Fraction], Fraction]:
    """Of every unit whose rows are apart on an axis, and what is charged."""
    made = residual(shape, ways, RHO, rows, apart)
    cells = list(product(*map(range, shape)))
    units = [
        chosen
        for size in range(1, rows + 1)
        for chosen in combinations(cells, size)
        if len({cell[apart] for cell in chosen}) == size
    ]
    return [loss(made, chosen) for chosen in units], made.rho(rows, apart)


@pytest.mark.parametrize(
    ("shape", "rows", "apart"), [((3,), 3, 0), ((4, 2), 3, 0), ((2, 3), 2, 1), ((3, 2, 2), 3, 0), ((2, 3), 9, 1)]
)
def test_rows_that_are_apart_lose_no_more_than_is_charged(shape: tuple[int, ...], rows: int, apart: int) -> None:
    for ways in range(1, len(shape) + 1):
        found, charged = apart_losses(shape, ways, rows, apart)
        assert max(found) == charged <= RHO
        most = min(rows, shape[apart])
        assert charged < residual(shape, ways, RHO, rows, apart).rho(most)


def test_apart_the_variances_are_smaller_by_a_known_part() -> None:
    """(1 + 1 / K) / 2, for every marginal alike, where the axis is told with all others."""
    for rows in (2, 5):
        some, other = residual((6, 5, 3), 3, RHO, rows, 1), residual((6, 5, 3), 3, RHO, rows)
        for axes in some.squared:
            assert float(some.squared[axes] / other.squared[axes]) == pytest.approx((1 + 1 / rows) / 2)


def test_rows_that_are_not_apart_are_noticed() -> None:
    """Planted: two rows of a unit have one value of the axis."""
    made = residual((3, 2), 2, RHO, 2, 0)
    assert loss(made, [(1, 0), (1, 0)]) > made.rho(2, 0)


def test_a_planted_loss_of_rows_apart_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: what is lost together on A and A + y is forgotten."""
    honest = Residual._apart
    monkeypatch.setattr(Residual, "_apart", lambda made, axes, rows, apart: honest(made, axes, 1, apart) * rows)
    with pytest.raises((AssertionError, Error)):
        test_rows_that_are_apart_lose_no_more_than_is_charged((4, 2), 3, 0)


def test_along_an_axis_the_sum_telescopes() -> None:
    """For y > 0: y^2 / (y (y + 1)) of k = y, and 1 / k - 1 / (k + 1) of every later k: together 1 - 1 / n."""
    for n in (2, 3, 10, 1000):
        shares = [Fraction(1, k * (k + 1)) for k in range(1, n)]
        assert all(share == Fraction(1, k) - Fraction(1, k + 1) for k, share in enumerate(shares, 1))
        later = Fraction(0)
        for y in range(n - 1, -1, -1):
            own = Fraction(y * y, y * (y + 1)) if y else Fraction(0)
            assert own + later == 1 - Fraction(1, n)
            later += shares[y - 1] if y else 0


def _squares_of_one(made: Residual, axes: Axes) -> Fraction:
    """Planted: each axis has the norm 1."""
    return Fraction(1)


def _without_the_last(made: Residual, axes: Axes) -> Fraction:
    """Planted: the last axis is forgotten."""
    last = len(made.shape) - 1
    return prod((1 - Fraction(1, made.shape[axis]) for axis in axes if axis != last), start=Fraction(1))


def _halved(made: Residual, axes: Axes) -> Fraction:
    """Planted: what is charged is half."""
    return prod((1 - Fraction(1, made.shape[axis]) for axis in axes), start=Fraction(1)) / 2


@pytest.mark.parametrize("planted", [_squares_of_one, _without_the_last, _halved])
def test_a_planted_norm_is_noticed(
    planted: Callable[[Residual, Axes], Fraction], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Residual, "share", planted)
    with pytest.raises((AssertionError, Error)):
        test_every_cell_loses_what_is_charged((2, 3, 4))


def test_rows_that_are_ignored_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = Residual.rho
    monkeypatch.setattr(Residual, "rho", lambda made, rows, apart=None: honest(made, 1))
    with pytest.raises(AssertionError):
        test_several_rows_of_a_unit_lose_no_more_than_is_charged((2, 3), 2)


def test_a_planted_contrast_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: an axis is not contrasted at all, so that its cells are released as they are."""
    honest = helmert._contrasted
    monkeypatch.setattr(helmert, "_contrasted", lambda tensor, axis: tensor if axis == 1 else honest(tensor, axis))
    with pytest.raises(AssertionError):
        test_every_cell_loses_what_is_charged((2, 3, 4))
