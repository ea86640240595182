"""Random choices against exact probabilities, against their promised loss, and against OpenDP's.

Twenty-nine p-values, each refused below 10^-9, and four bounds, each wrong with a probability of at most 6 * 10^-9:
false alarms below 10^-7 in all. A planted fault is missed with a probability below 10^-6.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise, permutations
from math import exp, factorial
from time import perf_counter
from typing import get_args

import numpy as np
import opendp.prelude as dp
import pytest
from scipy.stats import chi2_contingency

from dpsql.core.errors import InternalError
from dpsql.mechanisms import exact_choice
from dpsql.mechanisms.exact_choice import Integers, Kind, below, choose
from dpsql.mechanisms.lower_bound import eps_lower
from dpsql.mechanisms.source import SystemNoise
from tests.noise.goodness import Above, p_value
from tests.support.cases import some

ALARM = 1e-9
RUNS = 100_000
FEWER_RUNS = 20_000
FEWEST_RUNS = 3_000
KINDS: tuple[Kind, ...] = get_args(Kind)
NOISE = SystemNoise()


@dataclass(frozen=True)
class Setting:
    costs: tuple[int, ...]
    weights: tuple[int, ...]
    rate: Fraction

    def __str__(self) -> str:
        return f"{self.costs} {self.weights} {self.rate}"

    def draws(self, kind: Kind, runs: int, fault: Fraction = Fraction(1)) -> Integers:
        """Positions, with a rate that is `fault` times what it should be."""
        costs, weights = np.array(self.costs, dtype=np.int64), np.array(self.weights, dtype=np.int64)
        rate = self.rate * fault
        return np.array([NOISE.choose(costs, weights, rate, kind) for _ in range(runs)])

    def probabilities(self, kind: Kind) -> list[float]:
        return _exponential(self) if kind == "exponential" else _permute_and_flip(self)

    def misfit(self, kind: Kind, draws: Iterable[int]) -> float:
        return p_value(draws, position_above(self.probabilities(kind)), 1.0)


SETTINGS = [
    Setting((3, 0, 1), (1, 1, 1), Fraction(1, 2)),
    Setting((0, 2, 5, 0), (1, 4, 2, 1), Fraction(3, 7)),
    Setting((2**62, 2**62 - 10**15, 2**62 - 3 * 10**15), (3, 2, 1), Fraction(1, 10**15)),
]


def _exponential(setting: Setting) -> list[float]:
    """weight * exp(-rate * cost), over their sum."""
    losses = [float(setting.rate * (cost - min(setting.costs))) for cost in setting.costs]
    odds = [weight * exp(-loss) for weight, loss in zip(setting.weights, losses, strict=True)]
    return [each / sum(odds) for each in odds]


def _permute_and_flip(setting: Setting) -> list[float]:
    """From the definition: every order of every single candidate, and the chance that its coins stop there."""
    runs = [i for i, weight in enumerate(setting.weights) for _ in range(weight)]
    accepted = [exp(-float(setting.rate * (cost - min(setting.costs)))) for cost in setting.costs]
    found = [0.0] * len(setting.costs)
    for order in permutations(runs):
        rest = 1.0
        for i in order:
            found[i] += rest * accepted[i] / factorial(len(runs))
            rest *= 1 - accepted[i]
    return found


def position_above(probabilities: Sequence[float]) -> Above:
    """P(i >= m), as goodness.py wants it."""
    return lambda m: float(sum(probabilities[max(m, 0) :]))


@pytest.mark.few(2)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("setting", SETTINGS, ids=str)
@pytest.mark.parametrize("runs", some([FEWEST_RUNS, RUNS]))
def test_positions_have_the_probabilities_of_the_definition(setting: Setting, kind: Kind, runs: int) -> None:
    assert setting.misfit(kind, setting.draws(kind, runs)) > ALARM


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_the_fit_notices_a_rate_that_is_a_third_too_large(kind: Kind) -> None:
    setting = SETTINGS[1]
    assert setting.misfit(kind, setting.draws(kind, FEWER_RUNS, Fraction(13, 10))) < ALARM


@dataclass(frozen=True)
class Neighbours:
    """Costs on two databases that move by at most 1, and the loss that is promised for that."""

    first: Setting
    second: Setting
    loss: float

    def bound(self, kind: Kind, fault: Fraction = Fraction(1)) -> float:
        return eps_lower([self.first.draws(kind, RUNS, fault)], [self.second.draws(kind, RUNS, fault)], 0.0, 1e-9)


STEEP = Fraction(5, 4)
EITHER_WAY = Neighbours(Setting((0, 2), (3, 1), STEEP), Setting((1, 1), (3, 1), STEEP), 2 * float(STEEP))
ONE_WAY = Neighbours(Setting((0, 1, 2), (6, 1, 1), STEEP), Setting((0, 0, 1), (6, 1, 1), STEEP), float(STEEP))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("pair", [EITHER_WAY, ONE_WAY], ids=["either way", "one way"])
def test_choices_keep_their_epsilon(pair: Neighbours, kind: Kind) -> None:
    """2 * rate if costs move either way, rate if they all move the same way."""
    assert pair.loss / 2 < pair.bound(kind) <= pair.loss


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_rate_that_is_a_third_too_large_breaks_the_promise(kind: Kind) -> None:
    """The loss is tight here: 2 * rate for permute-and-flip, and less than ln(4/3) below that for the exponential."""
    assert EITHER_WAY.bound(kind, Fraction(13, 10)) > EITHER_WAY.loss


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "setting", [SETTINGS[0], Setting((4, 0, 6, 1, 9), (1, 1, 1, 1, 1), Fraction(1, 4))], ids=["three", "five"]
)
def test_opendp_chooses_alike(setting: Setting, kind: Kind) -> None:
    """OpenDP draws the exponential mechanism under zCDP, and permute-and-flip under pure differential privacy."""
    dp.enable_features("contrib")
    measure = dp.zero_concentrated_divergence() if kind == "exponential" else dp.max_divergence()
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.linf_distance(T="i64")
    theirs = dp.m.make_noisy_max(*space, measure, scale=float(1 / setting.rate))
    scores = [-cost for cost in setting.costs]
    drawn = [setting.draws(kind, FEWER_RUNS).tolist(), [theirs(scores) for _ in range(FEWER_RUNS)]]
    counts = np.array([np.bincount(each, minlength=len(scores)) for each in drawn])
    assert chi2_contingency(counts).pvalue > ALARM


REFINED = [("_FIRST_BITS", 1), ("_FIRST_BITS", 8), ("_SLIP", 0.5)]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("name", "value"), REFINED, ids=["1 bit", "8 bits", "wide intervals"])
def test_choices_that_need_more_bits_or_digits_have_the_same_probabilities(
    monkeypatch: pytest.MonkeyPatch, name: str, value: float, kind: Kind
) -> None:
    """A case that the first look leaves open is settled without bias."""
    settle, settled = exact_choice._settled, []

    def counted(contenders: Sequence[exact_choice._Contender]) -> int:
        settled.append(settle(contenders))
        return settled[-1]

    monkeypatch.setattr(exact_choice, name, value)
    monkeypatch.setattr(exact_choice, "_settled", counted)
    assert SETTINGS[0].misfit(kind, SETTINGS[0].draws(kind, FEWEST_RUNS)) > ALARM
    assert len(settled) > FEWEST_RUNS / 20


@pytest.mark.parametrize("kind", KINDS)
def test_a_second_look_at_the_same_bits_chooses_the_same(monkeypatch: pytest.MonkeyPatch, kind: Kind) -> None:
    """Intervals that are too wide leave more to the digits. 63 bits settle it but for less than once in 2^40 draws."""
    rate = Fraction(1, 3)
    costs, weights = np.array([0, 1, 2, 2, 9]), np.array([1, 2, 3, 2**20, 2**52])
    for _ in range(300):
        heads = exact_choice._first_bits(5)
        monkeypatch.setattr(exact_choice, "_first_bits", lambda size, heads=heads: heads)
        first = choose(costs, weights, rate, kind)
        with monkeypatch.context() as wide:
            wide.setattr(exact_choice, "_SLIP", 2.0)
            assert choose(costs, weights, rate, kind) == first
        monkeypatch.undo()


HEADS = [0, 1, 2**20, 2**36 - 1, 2**36, 2**36 + 1, 2**40, 2**60, 2**62 - 1, 2**62, 3 * 2**61]
HEADS += [2**63 - 1 - head for head in HEADS]
LOSSES = [Fraction(0), Fraction(1, 3), Fraction(2047), Fraction(2048), Fraction(10**40)]


@pytest.mark.few(5)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("weight", [1, 2, 1000, 2**52 - 1, 2**52])
def test_the_first_look_is_never_narrower_than_what_is_known(weight: int, kind: Kind) -> None:
    """The margins of floating point hold, with at least half to spare, for fixed and for random first bits."""
    heads = np.array(HEADS + exact_choice._first_bits(50).tolist())
    for loss in LOSSES:
        above, weights = np.ones_like(heads), np.full_like(heads, weight)
        lows, highs = exact_choice._intervals(heads, above, weights, loss or Fraction(1, 10**400), kind)
        for head, low, high in zip(heads.tolist(), lows.tolist(), highs.tolist(), strict=True):
            exact_low, exact_high = exact_choice._Contender(0, weight, loss, head, 63, kind).interval()
            assert Decimal(low) + Decimal(exact_choice._SLIP / 2) <= exact_low
            assert exact_high <= Decimal(high) - Decimal(exact_choice._SLIP / 2)
            if 2**36 <= head < 2**63 - 2**36 and loss < 2048:
                assert high - low < 1e-8


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("head", [0, 1, 2**62, 2**63 - 1])
def test_more_bits_lie_within_what_was_known(head: int, kind: Kind) -> None:
    contender = exact_choice._Contender(0, 5, Fraction(1, 3), head, 63, kind)
    intervals = [contender.interval()]
    for _ in range(3):
        contender.draw_more()
        intervals.append(contender.interval())
    assert contender.bits == 63 + 3 * 64 and contender.head >> 3 * 64 == head
    for (low, high), (inner_low, inner_high) in pairwise(intervals):
        assert low <= inner_low < inner_high <= high


@pytest.mark.parametrize("kind", KINDS)
def test_extremes(kind: Kind) -> None:
    """Wrong with a probability below 10^-15: exp(-37) against weights of 2^52, or less."""

    def chosen(costs: list[int], weights: list[int], rate: Fraction) -> int:
        return NOISE.choose(np.array(costs), np.array(weights), rate, kind)

    assert chosen([2**62], [2**52], Fraction(10**300)) == 0
    assert chosen([2**62, 0], [2**52, 1], Fraction(1)) == 1
    assert chosen([10**9, 0], [2**52, 1], Fraction(1, 10**6)) == 1
    assert chosen([1, 0, 1], [2**52, 1, 2**52], Fraction(10**400)) == 1
    assert {chosen([2**62, 0], [1, 1], Fraction(1, 10**400)) for _ in range(100)} == {0, 1}
    assert chosen([5, 5], [2**52, 1], Fraction(1)) == 0
    assert type(chosen([0, 0], [1, 1], Fraction(1))) is int


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_many_candidates(kind: Kind) -> None:
    """65,536 equal ones, in five cells. A choice takes 5 milliseconds; 100 are granted."""
    costs, weights = np.full(2**16, 7), np.full(2**16, 2**52)
    start = perf_counter()
    drawn = [NOISE.choose(costs, weights, Fraction(1, 3), kind) for _ in range(500)]
    assert perf_counter() - start < 50
    assert p_value((i * 5 // 2**16 for i in drawn), position_above([1 / 5] * 5), 1.0) > ALARM


@pytest.mark.parametrize(
    ("costs", "weights", "rate"),
    [
        ([], [], Fraction(1)),
        ([1], [1, 1], Fraction(1)),
        ([-1], [1], Fraction(1)),
        ([2**62 + 1], [1], Fraction(1)),
        ([1], [0], Fraction(1)),
        ([1], [2**52 + 1], Fraction(1)),
        ([1], [1], Fraction(0)),
    ],
)
def test_what_is_out_of_range_is_refused(costs: list[int], weights: list[int], rate: Fraction) -> None:
    for kind in KINDS:
        with pytest.raises(InternalError, match="DPSQL-901"):
            choose(np.array(costs, dtype=np.int64), np.array(weights, dtype=np.int64), rate, kind)
    with pytest.raises(InternalError, match="DPSQL-901"):
        below(0)


@pytest.mark.parametrize("n", [50, 2**62, 2**62 + 1, 3 * 2**62, 10**40])
def test_uniform_integers_of_any_size(n: int) -> None:
    """Fifty equal parts of the range."""
    drawn = [NOISE.below(n) for _ in range(FEWER_RUNS)]
    assert min(drawn) >= 0 and max(drawn) < n
    assert p_value((z * 50 // n for z in drawn), position_above([1 / 50] * 50), 6.0) > ALARM


def test_a_uniform_integer_below_one_is_zero() -> None:
    assert [below(1) for _ in range(20)] == [0] * 20
    assert {below(2) for _ in range(200)} == {0, 1}
