"""Coins of a rational probability, counted over every two digits that can be drawn: exact, where a fit would only be near."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from dpsql.mechanisms import exact_sampler
from dpsql.mechanisms.exact_sampler import Flags, Integers

PROBABILITIES = [(0, 1), (1, 2), (1, 3), (2, 3), (255, 256), (1, 256), (1, 65536), (1, 2**52), (2**52 - 1, 2**52)]
PROBABILITIES += [(10**9 + 7, 2**51 + 12345), (2**51, 2**51 + 1), (12345, 65537)]


class Digits:
    """Every two digits to the base 256, each pair once; then zeros, so that a pair stands for the least number that begins with it."""

    def __init__(self) -> None:
        self.calls = 0

    def urandom(self, size: int) -> bytes:
        self.calls += 1
        match self.calls:
            case 1:
                assert size == 2**16
                return bytes(i >> 8 for i in range(2**16))
            case 2:
                assert size == 2**8
                return bytes(range(2**8))
        # a number that is the probability itself is not below it; it is only told apart from it by what never ends
        return bytes(size) if self.calls < 20 else b"\xff" * size


def successes(patch: pytest.MonkeyPatch, coins: Callable[[Integers, int], Flags], top: int, bottom: int) -> int:
    patch.setattr(exact_sampler, "os", Digits())
    return int(coins(np.full(2**16, top, dtype=np.int64), bottom).sum())


@pytest.mark.parametrize(("top", "bottom"), PROBABILITIES)
def test_a_coin_succeeds_for_the_numbers_below_its_probability(
    monkeypatch: pytest.MonkeyPatch, top: int, bottom: int
) -> None:
    assert successes(monkeypatch, exact_sampler.coins, top, bottom) == -(-top * 2**16 // bottom)


def with_ties(tops: Integers, bottom: int) -> Flags:
    """Planted: a tie of the first digit is a success."""
    drawn = np.frombuffer(exact_sampler.os.urandom(tops.size), dtype=np.uint8)
    found: Flags = drawn <= tops * 256 // bottom
    return found


def of_one_digit(tops: Integers, bottom: int) -> Flags:
    """Planted: a tie of the first digit is a failure."""
    drawn = np.frombuffer(exact_sampler.os.urandom(tops.size), dtype=np.uint8)
    found: Flags = drawn < tops * 256 // bottom
    return found


def of_a_float(tops: Integers, bottom: int) -> Flags:
    """Planted: the probability is rounded to single precision."""
    return exact_sampler.coins((tops / np.float32(bottom) * 2**16).astype(np.int64), 2**16)


@pytest.mark.parametrize("planted", [with_ties, of_one_digit, of_a_float])
def test_a_biased_coin_is_noticed(monkeypatch: pytest.MonkeyPatch, planted: Callable[[Integers, int], Flags]) -> None:
    found = [successes(monkeypatch, planted, top, bottom) == -(-top * 2**16 // bottom) for top, bottom in PROBABILITIES]
    assert not all(found)


@pytest.mark.parametrize("bottom", [1, 3, 2**52])
def test_coins_of_nothing_fail_and_of_nearly_one_succeed(bottom: int) -> None:
    assert not exact_sampler.coins(np.zeros(10_000, dtype=np.int64), bottom).any()
    assert exact_sampler.coins(np.zeros(0, dtype=np.int64), bottom).size == 0
    assert exact_sampler.coins(np.full(1000, 2**52 - 1, dtype=np.int64), 2**52).all()
