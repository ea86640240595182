"""Truncated Laplace noise: its probabilities, its promise with keys shown, and how soon a group is shown.

Thirteen p-values, each refused below 10^-9; bounds from 10^5 outputs are wrong with a probability of at most 6 * 10^-9,
rates with 10^-8: false alarms below 3 * 10^-7 in all. A planted fault is missed with a probability below 10^-6.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from itertools import combinations_with_replacement
from math import exp

import numpy as np
import numpy.typing as npt
import pytest

from dpsql.core.loss import EpsilonDelta
from dpsql.mechanisms.conversions import pure
from dpsql.mechanisms.gaussian import DiscreteGaussian
from dpsql.mechanisms.laplace import DiscreteLaplace
from dpsql.mechanisms.lower_bound import eps_lower, rate_above
from dpsql.mechanisms.rounding import drawn_scale
from dpsql.mechanisms.source import MOST_BY_OPENDP, SystemNoise
from dpsql.mechanisms.threshold import delta_per_group, release, threshold
from dpsql.mechanisms.truncated import TruncatedLaplace
from tests.noise.goodness import Above, dependence, p_value
from tests.support.cases import some

ALARM = 1e-9
ALPHA = 1e-9
RUNS = 100_000
NOISE = SystemNoise()
NARROW = Fraction(13, 10)
DIGITS = Context(prec=60)
HIDDEN = -(10**6)

SHAPES = [
    TruncatedLaplace(Fraction(3, 10), 2),
    TruncatedLaplace(Fraction(1), 3),
    TruncatedLaplace(Fraction(1), 14),
    TruncatedLaplace(Fraction(10, 3), 5),
    TruncatedLaplace(Fraction(10), 5),
    TruncatedLaplace(Fraction(1000, 3), 900),
]
EDGES = [TruncatedLaplace(Fraction(1), 4), TruncatedLaplace(Fraction(2), 7), TruncatedLaplace(Fraction(10, 3), 5)]
LOSSES = [
    EpsilonDelta(Fraction(epsilon), Fraction(delta))
    for epsilon in ("1/10", "1", "2")
    for delta in ("1/10", "1/1000", "1/1000000", "1/1000000000")
]
LEVELS = [Fraction(0), Fraction(1, 2), Fraction(95, 100), Fraction(999, 1000), 1 - Fraction(1, 10**12)]


def name(value: object) -> str:
    if isinstance(value, EpsilonDelta):
        return f"{float(value.epsilon)}-{float(value.delta)}"
    return value.describe() if isinstance(value, TruncatedLaplace) else str(value)


def probabilities(noise: TruncatedLaplace) -> dict[int, Decimal]:
    """P(Z = z) for the drawn scale, term by term in 60 digits."""
    with localcontext(DIGITS):
        drawn = drawn_scale(noise.scale)
        width = Decimal(drawn.numerator) / drawn.denominator
        weights = {z: (-abs(z) / width).exp() for z in range(-noise.most, noise.most + 1)}
        whole = sum(weights.values())
        return {z: weight / whole for z, weight in weights.items()}


def above(noise: TruncatedLaplace) -> Above:
    points = probabilities(noise)
    return lambda m: float(sum(p for z, p in points.items() if z >= m))


# --- the distribution


@pytest.mark.parametrize("noise", SHAPES, ids=name)
def test_long_vectors_have_the_distribution(noise: TruncatedLaplace) -> None:
    samples = noise.sample(NOISE, RUNS)
    assert len(samples) == RUNS and max(map(abs, samples)) <= noise.most
    assert p_value(samples, above(noise), float(noise.scale)) > ALARM


@pytest.mark.slow
@pytest.mark.parametrize("noise", some(SHAPES), ids=name)
def test_short_vectors_have_the_distribution(noise: TruncatedLaplace) -> None:
    samples = [z for _ in range(RUNS // MOST_BY_OPENDP) for z in noise.sample(NOISE, MOST_BY_OPENDP)]
    assert len(samples) == RUNS and max(map(abs, samples)) <= noise.most
    assert p_value(samples, above(noise), float(noise.scale)) > ALARM


@pytest.mark.parametrize("noise", SHAPES[1:], ids=name)
def test_the_fit_notices_a_scale_that_is_too_small(noise: TruncatedLaplace) -> None:
    faulty = TruncatedLaplace(noise.scale / NARROW, noise.most)
    assert p_value(faulty.sample(NOISE, RUNS), above(noise), float(noise.scale)) < ALARM


@pytest.mark.parametrize("noise", [SHAPES[1], SHAPES[3], SHAPES[4], SHAPES[5]], ids=name)
def test_the_fit_notices_draws_that_are_moved_to_the_edge(noise: TruncatedLaplace) -> None:
    """Not drawn again, as they must be."""
    moved = [max(-noise.most, min(noise.most, z)) for z in NOISE.laplace(noise.scale, RUNS)]
    assert p_value(moved, above(noise), float(noise.scale)) < ALARM


def test_neighbours_in_a_vector_are_independent_though_some_are_drawn_again() -> None:
    assert dependence(TruncatedLaplace(Fraction(1000), 900).sample(NOISE, RUNS)) > ALARM


@pytest.mark.parametrize("size", [0, 1, MOST_BY_OPENDP, MOST_BY_OPENDP + 1])
def test_sizes_and_types(size: int) -> None:
    drawn = TruncatedLaplace(Fraction(5), 4).sample(NOISE, size)
    assert len(drawn) == size and all(type(z) is int for z in drawn)


# --- tails and widths


@pytest.mark.parametrize("noise", [*SHAPES, *EDGES], ids=name)
def test_tail_is_the_sum_and_never_below_it(noise: TruncatedLaplace) -> None:
    points = probabilities(noise)
    for m in range(-noise.most - 2, noise.most + 1, max(1, noise.most // 20)):
        with localcontext(DIGITS):
            exact = Fraction(sum(p for z, p in points.items() if z >= m))
        assert -Fraction(1, 10**50) <= noise.tail(m) - exact <= Fraction(1, 10**45)
        assert noise.tail(m) / exact >= 1 - Fraction(1, 10**45)
    assert noise.tail(noise.most + 1) == 0 == noise.tail(10**30)
    assert noise.tail(-noise.most) == 1 == noise.tail(-(10**30))


def test_extreme_tails_are_still_upper_bounds() -> None:
    assert 0 < TruncatedLaplace(Fraction(1), 10**12).tail(10**12) < Fraction(1, 10**999)
    assert 0 < TruncatedLaplace(Fraction(1, 10**30), 1).tail(1) < Fraction(1, 10**999)
    assert TruncatedLaplace(Fraction(2**52), 1).tail(1) == pytest.approx(1 / 3)


@pytest.mark.parametrize("noise", [*SHAPES, *EDGES], ids=name)
def test_half_width_is_the_smallest(noise: TruncatedLaplace) -> None:
    points = probabilities(noise)
    for level in LEVELS:
        h = noise.half_width(level)
        assert outside(points, h) <= float(1 - level) + 1e-15
        assert h == 0 or outside(points, h - 1) > float(1 - level)
        assert h == noise.half_width_of_sum(1, level) <= noise.most


def outside(points: dict[int, Decimal], h: float) -> float:
    return float(sum(p for z, p in points.items() if abs(z) > h))


@pytest.mark.parametrize("noise", [*SHAPES[:5], *EDGES, TruncatedLaplace(Fraction(50), 300)], ids=name)
def test_half_widths_of_sums_are_upper_bounds(noise: TruncatedLaplace) -> None:
    single = np.array([float(p) for p in probabilities(noise).values()])
    total = single
    for copies in (2, 3):
        total = np.convolve(total, single)
        sizes = np.abs(np.arange(len(total)) - len(total) // 2)
        for level in LEVELS:
            h = noise.half_width_of_sum(copies, level)
            assert total[sizes > h].sum() <= float(1 - level) + 1e-14
            assert h <= min(copies * noise.most, DiscreteLaplace(noise.scale).half_width_of_sum(copies, level))


@pytest.mark.parametrize("weights", [(1.0, 1.0), (0.3, -2.0), (5.0, 0.01), (1.0, 0.7), (0.0, 3.0)], ids=str)
@pytest.mark.parametrize("noise", [*SHAPES[:5], *EDGES], ids=name)
def test_half_widths_of_weighted_sums_are_upper_bounds(noise: TruncatedLaplace, weights: tuple[float, float]) -> None:
    points = np.arange(-noise.most, noise.most + 1)
    single = np.array([float(p) for p in probabilities(noise).values()])
    sizes = np.abs(weights[0] * points[:, None] + weights[1] * points[None, :])
    for level in LEVELS:
        h = noise.half_width_of_weights(weights, level)
        assert np.outer(single, single)[sizes > h + 1e-9].sum() <= float(1 - level) + 1e-14


@pytest.mark.parametrize("noise", [*SHAPES, *EDGES], ids=name)
def test_quantiles_are_those_of_the_noise_up_to_a_step(noise: TruncatedLaplace) -> None:
    """The point where P(Z <= z) is reached is z or a neighbour of it; the cells of continuous noise differ a little in mass."""
    points = probabilities(noise)
    sums = np.cumsum([float(p) for p in points.values()])
    levels = np.array([1e-30, 1e-6, 0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99, 1 - 1e-6])
    found = noise.at(levels)
    exact = np.searchsorted(sums, np.minimum(levels, sums[-1])) - noise.most
    assert np.all(np.abs(found - exact) <= 1) and np.all(np.abs(found) <= noise.most + 0.5)
    assert np.all(np.diff(found) > 0) and found[5] == 0
    assert np.allclose(noise.at(1 - levels[1:]), -found[1:], atol=1e-6 * noise.most)


@pytest.mark.parametrize(
    ("copies", "level"), [(0, Fraction(1, 2)), (4, Fraction(1, 2)), (1, Fraction(1)), (2, Fraction(-1))]
)
def test_half_width_needs_a_sensible_question(copies: int, level: Fraction) -> None:
    with pytest.raises(ValueError):
        EDGES[0].half_width_of_sum(copies, level)


# --- the promise, exactly


def shown_or_hidden(noise: TruncatedLaplace, n: int) -> dict[int, Decimal]:
    """Probabilities of what a group of n units looks like."""
    result: dict[int, Decimal] = {}
    with localcontext(DIGITS):
        for z, p in probabilities(noise).items():
            seen = n + z if release(n + z, noise.most + 1) else HIDDEN
            result[seen] = result.get(seen, Decimal(0)) + p
    return result


def excess(first: dict[int, Decimal], second: dict[int, Decimal], epsilon: Fraction) -> Fraction:
    """The smallest delta with P(first in S) <= exp(epsilon) P(second in S) + delta for all S."""
    with localcontext(DIGITS):
        factor = (Decimal(epsilon.numerator) / epsilon.denominator).exp()
        zero = Decimal(0)
        return Fraction(sum((max(zero, p - factor * second.get(y, zero)) for y, p in first.items()), zero))


@pytest.mark.parametrize("noise", [*SHAPES[:5], *EDGES], ids=name)
def test_neighbouring_groups_of_every_size_keep_epsilon_and_delta(noise: TruncatedLaplace) -> None:
    """Groups far from the threshold, all of whose counts are shown, lie above n = 2 most + 1: they are all alike."""
    edge, tiny = noise.tail(noise.most), Fraction(1, 10**50)
    for n in range(4 * noise.most + 1):
        fewer, more = shown_or_hidden(noise, n), shown_or_hidden(noise, n + 1)
        assert excess(more, fewer, noise.epsilon(1)) <= edge + tiny
        assert excess(fewer, more, noise.epsilon(1)) <= edge + tiny
    assert shown_or_hidden(noise, 0).keys() == {HIDDEN}
    assert abs(excess(shown_or_hidden(noise, 1), shown_or_hidden(noise, 0), noise.epsilon(1)) - edge) < tiny


@pytest.mark.parametrize("loss", [x for x in LOSSES if x.delta >= Fraction(1, 1000)], ids=name)
def test_the_noise_for_a_loss_keeps_it_and_one_step_less_does_not(loss: EpsilonDelta) -> None:
    noise = TruncatedLaplace.for_loss(1, loss)
    for n in range(2 * noise.most + 3):
        fewer, more = shown_or_hidden(noise, n), shown_or_hidden(noise, n + 1)
        assert max(excess(more, fewer, loss.epsilon), excess(fewer, more, loss.epsilon)) <= loss.delta
    if noise.most > 1:
        short = TruncatedLaplace(noise.scale, noise.most - 1)
        assert excess(shown_or_hidden(short, 1), shown_or_hidden(short, 0), loss.epsilon) > loss.delta


Masses = npt.NDArray[np.float64]


def aligned(noise: TruncatedLaplace, n: int) -> tuple[Masses, Masses]:
    """The same over all outcomes of n and n + 1."""
    fewer, more = shown_or_hidden(noise, n), shown_or_hidden(noise, n + 1)
    seen = sorted(fewer.keys() | more.keys())
    return np.array([float(fewer.get(y, 0)) for y in seen]), np.array([float(more.get(y, 0)) for y in seen])


def joint_excess(noise: TruncatedLaplace, sizes: tuple[int, ...], epsilon: Fraction) -> tuple[float, float]:
    """Both directions of `excess` for groups of these sizes, each of which gets one unit more."""
    fewer, more = np.ones(1), np.ones(1)
    for n in sizes:
        without, with_unit = aligned(noise, n)
        fewer, more = np.outer(fewer, without).ravel(), np.outer(more, with_unit).ravel()
    factor = exp(epsilon)
    return float(np.maximum(more - factor * fewer, 0).sum()), float(np.maximum(fewer - factor * more, 0).sum())


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("l0", "loss"),
    [
        (2, EpsilonDelta(Fraction(1), Fraction(1, 10))),
        (2, EpsilonDelta(Fraction(3), Fraction(1, 100))),
        (3, EpsilonDelta(Fraction(2), Fraction(1, 4))),
        (3, EpsilonDelta(Fraction(6), Fraction(1, 50))),
    ],
    ids=name,
)
def test_several_groups_together_keep_epsilon_and_delta(l0: int, loss: EpsilonDelta) -> None:
    """One unit that is alone in all its groups spends 1 - (1 - p)^l0 exactly, so `most` cannot be smaller."""
    noise = TruncatedLaplace.for_loss(l0, loss)
    assert noise.covers(l0, l0, pure(loss.epsilon, loss.delta))
    for sizes in combinations_with_replacement(range(2 * noise.most + 3), l0):
        assert max(joint_excess(noise, sizes, loss.epsilon)) <= float(loss.delta)
    alone = joint_excess(noise, (0,) * l0, loss.epsilon)[0]
    assert alone == pytest.approx(1 - (1 - float(noise.tail(noise.most))) ** l0, rel=1e-12)
    short = TruncatedLaplace(noise.scale, noise.most - 1)
    assert max(joint_excess(short, (0,) * l0, loss.epsilon)) > loss.delta


# --- the promise, from outputs


def outputs(noise: TruncatedLaplace, n: int, tau: int) -> npt.NDArray[np.int64]:
    noisy = np.array(noise.sample(NOISE, RUNS)) + n
    return np.where(noisy >= tau, noisy, HIDDEN)


def measured(noise: TruncatedLaplace, n: int, tau: int, delta: Fraction) -> float:
    return eps_lower([outputs(noise, n + 1, tau)], [outputs(noise, n, tau)], float(delta), ALPHA)


@pytest.mark.parametrize("n", [0, 4, 20])
def test_neighbours_keep_epsilon_and_delta(n: int) -> None:
    loss = EpsilonDelta(Fraction(1), Fraction(1, 100))
    noise = TruncatedLaplace.for_loss(1, loss)
    assert measured(noise, n, noise.most + 1, loss.delta) <= 1


def test_the_bound_is_near_epsilon_for_large_groups() -> None:
    noise = TruncatedLaplace.for_loss(1, EpsilonDelta(Fraction(1), Fraction(1, 10**6)))
    assert 0.8 < measured(noise, 20, noise.most + 1, Fraction(1, 10**6)) <= 1


@pytest.mark.parametrize("delta", [Fraction(1, 100), Fraction(1, 10**6)], ids=float)
def test_less_noise_is_noticed(delta: Fraction) -> None:
    noise = TruncatedLaplace.for_loss(1, EpsilonDelta(Fraction(1), delta))
    faulty = TruncatedLaplace(noise.scale / NARROW, noise.most)
    assert measured(faulty, 20, noise.most + 1, delta) > 1


def shown_alone(noise: TruncatedLaplace, tau: int) -> float:
    """A lower bound of the rate at which a group with one unit is shown."""
    return rate_above(sum(release(1 + z, tau) for z in noise.sample(NOISE, RUNS)), RUNS, 1e-8)


@pytest.mark.parametrize("noise", EDGES, ids=name)
def test_a_group_of_one_is_shown_at_the_rate_delta(noise: TruncatedLaplace) -> None:
    delta = tight_delta(noise)
    assert 0.5 * float(delta) < shown_alone(noise, noise.most + 1) <= delta


@pytest.mark.parametrize("noise", EDGES, ids=name)
def test_a_cut_or_a_threshold_that_is_one_too_small_is_noticed(noise: TruncatedLaplace) -> None:
    delta = tight_delta(noise)
    assert shown_alone(TruncatedLaplace(noise.scale, noise.most - 1), noise.most) > delta
    assert shown_alone(noise, noise.most) > delta


@pytest.mark.parametrize("noise", EDGES, ids=name)
def test_a_group_of_none_is_never_shown(noise: TruncatedLaplace) -> None:
    assert not any(release(z, noise.most + 1) for z in noise.sample(NOISE, RUNS))


def tight_delta(noise: TruncatedLaplace) -> Fraction:
    """A delta that P(Z = most) just meets."""
    return noise.tail(noise.most) * (1 + Fraction(1, 10**6))


# --- how soon a group is shown


def best(loss: EpsilonDelta, largest: int) -> list[float]:
    """The highest probability of showing a group of 0, 1, 2... units of any (epsilon, delta)-DP selection, l0 = 1.

    Source  Desfontaines, Voss, Gipson, Mandayam 2022, Differentially Private Partition Selection, theorem 1
    """
    up, down, delta = exp(loss.epsilon), exp(-loss.epsilon), float(loss.delta)
    found = [0.0]
    for _ in range(largest):
        found.append(min(up * found[-1] + delta, 1 - down * (1 - found[-1] - delta), 1.0))
    return found


def chance(noise: TruncatedLaplace, n: int) -> float:
    """The probability that a group of n units is shown."""
    return float(noise.tail(noise.most + 1 - n))


@pytest.mark.parametrize("loss", LOSSES, ids=name)
def test_no_selection_shows_more_where_delta_is_spent_in_full(loss: EpsilonDelta) -> None:
    noise = TruncatedLaplace.for_loss(1, loss)
    spent = EpsilonDelta(loss.epsilon, noise.tail(noise.most))
    assert TruncatedLaplace.for_loss(1, spent) == noise
    for n, optimum in enumerate(best(spent, 2 * noise.most + 3)):
        assert chance(noise, n) == pytest.approx(optimum, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("loss", LOSSES, ids=name)
def test_elsewhere_it_is_at_most_one_unit_behind_the_optimum_and_never_ahead(loss: EpsilonDelta) -> None:
    noise = TruncatedLaplace.for_loss(1, loss)
    for n, optimum in enumerate(best(loss, 2 * noise.most + 3)):
        assert chance(noise, n) <= optimum * (1 + 1e-9) + 1e-12
        assert chance(noise, n + 1) >= optimum - 2 * float(loss.delta)


@pytest.mark.parametrize(
    ("l0", "truncated", "laplace", "gaussian", "optimum"),
    [(1, 15, 15, 29, 14), (3, 41, 45, 50, 40), (10, 133, 156, 94, 132), (100, 1314, 1775, 316, 1313)],
)
def test_units_that_are_shown_every_second_time(
    l0: int, truncated: int, laplace: int, gaussian: int, optimum: int
) -> None:
    """At epsilon 1 and delta 10^-6; Gaussian noise with half of delta each for noise and threshold. Symmetric noise
    shows n = tau with a probability above one half and n = tau - 1 below it. The optimum is for each group apart."""
    loss = EpsilonDelta(Fraction(1), Fraction(1, 10**6))
    noise = TruncatedLaplace.for_loss(l0, loss)
    assert noise.most + 1 == truncated
    assert chance(noise, truncated) > 0.5 > chance(noise, truncated - 1)
    assert threshold(DiscreteLaplace.for_loss(l0, loss.epsilon), l0, loss.delta) == laplace
    wide = DiscreteGaussian.for_loss(l0, EpsilonDelta(loss.epsilon, loss.delta / 2))
    assert threshold(wide, l0, loss.delta / 2) == gaussian
    chances = best(EpsilonDelta(loss.epsilon / l0, delta_per_group(l0, loss.delta)), 2 * truncated)
    assert next(n for n, p in enumerate(chances) if p >= 0.5) == optimum


def test_one_group_at_a_millionth() -> None:
    """14 units would be enough for the optimum, not for a whole number of steps: P(Z = 13) is just above delta."""
    loss = EpsilonDelta(Fraction(1), Fraction(1, 10**6))
    noise = TruncatedLaplace.for_loss(1, loss)
    assert [round(p, 3) for p in best(loss, 15)[13:]] == [0.257, 0.7, 0.89]
    assert [round(chance(noise, n), 3) for n in (13, 14, 15)] == [0.099, 0.269, 0.731]
    assert float(TruncatedLaplace(Fraction(1), 13).tail(13)) == pytest.approx(1.0445e-6, rel=1e-4)


# --- what it refuses


@pytest.mark.parametrize("l0", [1, 2, 10, 1000])
@pytest.mark.parametrize("loss", LOSSES, ids=name)
def test_noise_covers_its_own_loss_and_nothing_less(l0: int, loss: EpsilonDelta) -> None:
    noise = TruncatedLaplace.for_loss(l0, loss)
    edge = 1 - (1 - float(noise.tail(noise.most))) ** l0
    assert noise.scale == l0 / loss.epsilon and edge <= float(loss.delta) * (1 + 1e-9)
    charged = pure(loss.epsilon, loss.delta)
    assert noise.covers(l0, l0, charged)
    assert not noise.covers(l0 + 1, l0 + 1, charged)
    assert not noise.covers(l0, l0, replace(charged, epsilon=loss.epsilon - Fraction(1, 10**30)))
    assert not noise.covers(l0, l0, replace(charged, delta=noise.tail(noise.most) * (1 - Fraction(1, 10**6))))
    assert not noise.covers(l0, l0, replace(charged, rho=charged.rho * Fraction(999, 1000)))
    assert not noise.covers(l0, l0, replace(charged, mu_squared=charged.mu_squared * Fraction(999, 1000)))
    if noise.most > 1:
        assert not TruncatedLaplace(noise.scale, noise.most - 1).covers(l0, l0, charged)


@pytest.mark.parametrize(("l1", "l2_squared"), [(2, 4), (2, 1), (0, 0), (-1, -1), (3, 9), (1, 2)])
def test_only_counts_of_units_are_covered(l1: int, l2_squared: int) -> None:
    noise = TruncatedLaplace.for_loss(10, EpsilonDelta(Fraction(1), Fraction(1, 100)))
    assert not noise.covers(l1, l2_squared, pure(Fraction(10), Fraction(9, 10)))


def test_pure_privacy_is_not_covered() -> None:
    assert not EDGES[0].covers(1, 1, pure(Fraction(100)))


@pytest.mark.parametrize(
    ("l0", "epsilon", "delta"),
    [
        (0, Fraction(1), Fraction(1, 2)),
        (-1, Fraction(1), Fraction(1, 2)),
        (1, Fraction(0), Fraction(1, 2)),
        (1, Fraction(1), Fraction(0)),
        (1, Fraction(1), Fraction(1, 10**1001)),
        (1, Fraction(1, 10**16), Fraction(1, 2)),
        (1, Fraction(1, 10**400), Fraction(1, 2)),
    ],
    ids=range(7),
)
def test_noise_for_a_loss_needs_a_group_an_epsilon_and_a_delta(l0: int, epsilon: Fraction, delta: Fraction) -> None:
    with pytest.raises(ValueError, match="truncated noise"):
        TruncatedLaplace.for_loss(l0, EpsilonDelta(epsilon, delta))


@pytest.mark.parametrize(("scale", "most"), [(0, 1), (-1, 1), (1, 0), (1, -1), (2**52 + 1, 1)])
def test_the_noise_needs_a_scale_and_a_step(scale: int, most: int) -> None:
    with pytest.raises(ValueError, match="truncated noise"):
        TruncatedLaplace(Fraction(scale), most)


@pytest.mark.parametrize("delta", [Fraction(1, 10**30), Fraction(1, 10**300), Fraction(9, 10), Fraction(999, 1000)])
@pytest.mark.parametrize("epsilon", [Fraction(1, 10**12), Fraction(1, 3), Fraction(50)], ids=float)
def test_extreme_losses_have_a_smallest_cut(epsilon: Fraction, delta: Fraction) -> None:
    noise = TruncatedLaplace.for_loss(1, EpsilonDelta(epsilon, delta))
    assert noise.tail(noise.most) <= delta
    assert noise.most == 1 or TruncatedLaplace(noise.scale, noise.most - 1).tail(noise.most - 1) > delta


def test_description() -> None:
    assert TruncatedLaplace(Fraction(10, 3), 41).describe() == "truncated Laplace, scale 10/3, at most 41"
