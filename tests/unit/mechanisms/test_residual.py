"""A cube's noise: variances in closed form beside the algebra of what is read off, what is released, and how it is drawn."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import prod, sqrt

import numpy as np
import pytest

from dpsql.core.columns import Column, whole
from dpsql.core.errors import Error
from dpsql.core.loss import EpsilonDelta
from dpsql.mechanisms import exact_sampler, helmert
from dpsql.mechanisms.reach import largest_rho
from dpsql.mechanisms.residual import Residual, Weights, read_off, residual, subsets
from tests.noise.goodness import gaussian_above, p_value
from tests.support.noise import RecordedNoise, ZeroNoise

RHO = Fraction(1, 5000)
SHAPES = [(2,), (5,), (3, 4), (2, 1, 3), (2, 3, 4)]


def weights_of(shape: tuple[int, ...]) -> list[Weights]:
    """Cells of every marginal, and sums over some of their values."""
    one: list[list[list[float] | None]] = [
        [None, [1.0] + [0.0] * (n - 1), [float(i % 2) for i in range(n)], [1.0] * n] for n in shape
    ]
    return [list(found) for found in product(*one)]


def exact_variance(made: Residual, weights: Weights) -> float:
    """Of a linear question: its value for each coefficient alone, squared, times that coefficient's own variance."""
    n = prod(made.shape)
    sigmas, places = made.scales(1)
    variances = (np.asarray(sigmas.values, dtype=float) / 2.0 ** np.asarray(places.values, dtype=float)) ** 2
    values = [read_off(row.reshape(made.shape), weights, [])[0] for row in np.eye(n)]
    return float(np.sum(np.square(values) * variances))


@pytest.mark.parametrize("shape", SHAPES)
def test_the_variance_is_that_of_what_is_read_off(shape: tuple[int, ...]) -> None:
    made = residual(shape, len(shape), RHO, 1)
    for weights in weights_of(shape):
        told, exact = float(made.variance(weights)), exact_variance(made, weights)
        # rounding adds at most 1 / 12 for a sigma of 1 that is 50 here
        assert exact <= told * (1 + 1e-9) and told <= exact * (1 + 1 / 12 / 25) + 1e-9


def marginals(made: Residual, tensor: np.ndarray) -> Column[int]:
    """The cells that coefficients are made of: those of the whole cube, or of the marginal of each A."""
    if made.is_whole:
        return Column(tensor.ravel())
    others = [tuple(i for i in range(tensor.ndim) if i not in axes) for axes in made.squared]
    return Column(np.concatenate([np.atleast_1d(tensor.sum(axis=summed)).ravel() for summed in others]))


def places(made: Residual) -> list[tuple[int, ...]]:
    """Of every coefficient that is released, in order, which contrast it is along each axis."""
    every = list(np.ndindex(made.shape))
    if made.is_whole:
        return every
    return [place for axes in made.squared for place in every if axes == frozenset(i for i, k in enumerate(place) if k)]


@pytest.mark.parametrize("shape", [(3, 4, 2), (2, 1, 3), (1, 1, 1)])
@pytest.mark.parametrize("ways", [1, 2, 3])
def test_what_is_of_so_many_ways_is_released_as_of_the_whole_cube(ways: int, shape: tuple[int, ...]) -> None:
    """The coefficients made of marginals are those made of all cells, whatever int64 holds."""
    made = residual(shape, ways, RHO, 1)
    for factor in (1, 2**58):
        tensor = np.array([factor * ((7 * i) % 11) for i in range(prod(shape))], dtype=object).reshape(shape)
        whole_cube = np.array(helmert.coefficients(Column.of(tensor.ravel().tolist()), shape).tolist()).reshape(shape)
        released = made.noisy(Column.of(marginals(made, tensor).tolist()), 1, ZeroNoise()).tolist()
        assert released == [whole_cube[place] for place in places(made)] and len(released) == made.size
    assert len(places(made)) == sum(sum(k > 0 for k in place) <= ways for place in np.ndindex(shape))
    assert [made.answers(axes) for axes in subsets(3, 3)] == [
        sum(shape[axis] > 1 for axis in axes) <= ways for axes in subsets(3, 3)
    ]


@pytest.mark.parametrize("ways", [1, 2])
def test_marginals_are_read_off_what_holds_no_whole_cube(ways: int) -> None:
    """As of coefficients that are kept as a whole cube, in which nothing stands where nothing was released."""
    shape = (3, 4, 1, 2)
    made = residual(shape, ways, RHO, 1)
    tensor = np.array([(7 * i) % 11 for i in range(24)]).reshape(shape)
    released = np.array(made.noisy(marginals(made, tensor), 1, ZeroNoise()).tolist(), dtype=float)
    kept_whole = np.zeros(shape)
    for place, coefficient in zip(places(made), released, strict=True):
        kept_whole[place] = coefficient
    for axes in subsets(4, ways):
        summed = tensor.sum(axis=tuple(i for i in range(4) if i not in axes)).ravel()
        for known in (released, kept_whole.ravel()):
            assert np.allclose(read_off(made.told(known, axes), [None] * 4, sorted(axes)), summed)
    some: Weights = [[1.0, 0.0, 1.0], None, None, None]
    assert np.allclose(read_off(made.told(released, frozenset({0})), some, []), tensor[[0, 2]].sum())


def test_without_noise_every_marginal_is_exact() -> None:
    shape = (3, 4, 2)
    cells = np.array([(7 * i) % 11 for i in range(24)])
    released = residual(shape, 3, RHO, 1).noisy(Column(cells), 1, ZeroNoise())
    noisy = np.asarray(released.values, dtype=float).reshape(shape)
    tensor = cells.reshape(shape)
    assert np.allclose(read_off(noisy, [None, None, None], [0, 2]), tensor.sum(axis=1).ravel())
    assert np.allclose(read_off(noisy, [None, None, None], [2, 0]), tensor.sum(axis=1).T.ravel())
    some: Weights = [[1, 0, 1], None, None]
    assert np.allclose(read_off(noisy, some, [2]), tensor[[0, 2]].sum(axis=(0, 1)))


@pytest.mark.parametrize("ways", [2, 3])
def test_each_coefficient_is_drawn_at_no_less_than_it_owes(ways: int) -> None:
    shape, noise = (3, 5, 2), RecordedNoise()
    made = residual(shape, ways, RHO, 1)
    made.noisy(marginals(made, np.zeros(shape, dtype=np.int64)), 7, noise)
    _, shifts = made.scales(7)
    for (_, squared, _), place, shift in zip(noise.drawn, places(made), shifts, strict=True):
        axes = frozenset(i for i, k in enumerate(place) if k)
        owed = made.squared[axes] * 49 * prod(k * (k + 1) for k in place if k) * 4**shift
        assert owed <= squared <= owed * (1 + Fraction(1, 2**44))
        assert 2**102 <= squared <= 2**104


def test_a_planted_scale_that_is_rounded_down_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpsql.mechanisms.residual._ABOVE", 1 - 2.0**-40)
    for ways in (2, 3):
        with pytest.raises(AssertionError):
            test_each_coefficient_is_drawn_at_no_less_than_it_owes(ways)


def test_noise_that_is_too_wide_is_refused() -> None:
    made = residual((2, 2), 2, RHO, 1)
    with pytest.raises(Error, match="DPSQL-901"):
        made.scales(2**50)


@pytest.mark.parametrize("rows", [1, 3, 40])
def test_no_more_is_charged_than_asked_and_nearly_all(rows: int) -> None:
    made = residual((8, 20, 12, 4), 4, RHO, rows)
    assert RHO * (1 - Fraction(1, 10**9)) <= made.rho(rows) <= RHO


@pytest.mark.parametrize("shape", [(2, 3, 5), (8, 20, 12, 4), (2, 2), (7,)])
def test_every_group_of_every_marginal_errs_alike(shape: tuple[int, ...]) -> None:
    for ways in range(1, len(shape) + 1):
        made = residual(shape, ways, RHO, 1)
        found = [float(made.of_marginal(axes)) for axes in subsets(len(shape), ways)]
        assert max(found) == pytest.approx(min(found), rel=1e-3)
        least = sum(prod((n - 1) / (n + 1) for n in axes) for axes in _sizes(shape, ways)) / float(2 * RHO)
        assert min(found) == pytest.approx(least, rel=1e-3)


def _sizes(shape: tuple[int, ...], ways: int) -> list[list[int]]:
    return [[shape[axis] for axis in axes] for axes in subsets(len(shape), ways)]


@pytest.mark.parametrize("ways", [2, 3])
def test_of_all_variances_these_have_the_least_maximum(ways: int) -> None:
    """Moved a little, and back to the same rho, the largest variance of a marginal is larger."""
    shape = (2, 3, 5)
    made = residual(shape, ways, RHO, 1)

    def largest(one: Residual) -> float:
        return max(float(one.of_marginal(axes)) for axes in subsets(3, ways))

    for moved in made.squared:
        for factor in (Fraction(4, 5), Fraction(5, 4)):
            other = Residual(shape, {**made.squared, moved: made.squared[moved] * factor})
            scale = other.rho(1) / made.rho(1)
            assert largest(Residual(shape, {axes: s * scale for axes, s in other.squared.items()})) > largest(made)


def test_the_cube_of_the_page_errs_as_it_says() -> None:
    rho = largest_rho(EpsilonDelta(Fraction(1), Fraction(1, 10**6)))
    found = [sqrt(residual((8, 20, 12, 4), 4, part, 1).of_marginal(frozenset())) for part in (rho, rho / 2)]
    assert [round(one, 1) for one in found] == [14.3, 20.3]


SIGMAS = [1, 3, 1000, 2**33 + 12345, 2**51 + 1, 2**52]


@pytest.mark.parametrize("sigma", SIGMAS)
def test_gaussians_of_their_own_sigma_are_distributed_so(sigma: int) -> None:
    """Half of the draws have another sigma, at most twice as large."""
    others = min(2 * sigma, 2**52)
    drawn = exact_sampler.gaussians(np.tile(np.array([sigma, others], dtype=np.int64), 40_000))
    values = whole(drawn)
    for part, own in ((values[::2], sigma), (values[1::2], others)):
        if own < 2**20:
            assert p_value(part.tolist(), gaussian_above(float(own)), float(own)) > 1e-9
        else:
            scaled = np.rint(np.asarray(part, dtype=float) / own * 1000).astype(int).tolist()
            assert p_value(scaled, gaussian_above(1000.0), 1000.0) > 1e-9


def test_sigmas_out_of_range_are_refused() -> None:
    for sigma in (0, -1, 2**52 + 1):
        with pytest.raises(Error, match="DPSQL-901"):
            exact_sampler.gaussians(np.array([5, sigma], dtype=np.int64))
    assert exact_sampler.gaussians(np.zeros(0, dtype=np.int64)).tolist() == []


def test_axes_of_one_value_cost_nothing() -> None:
    one, other = residual((3, 1, 4), 3, RHO, 1), residual((3, 4), 2, RHO, 1)
    assert set(one.squared) == {frozenset(), frozenset({0}), frozenset({2}), frozenset({0, 2})}
    assert one.rho(1) <= RHO and other.rho(1) <= RHO
    assert helmert.supports((1, 2)).ravel().tolist() == [0, 2]
