"""Running totals: windows, clocks that go back, and the text that keeps them."""

from __future__ import annotations

import json
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsql.accounting.totals import NOTHING, WINDOWS, Spent, combined, largest, loss_of, loss_texts, spent_of, start_of
from dpsql.core.loss import NO_LOSS, PrivacyLoss
from dpsql.mechanisms.conversions import choice, gaussian, pure

ZERO = Fraction(0)
TENTH = pure(Fraction(1, 10))
LOSSES = st.one_of(
    st.builds(pure, st.fractions(0, 5, max_denominator=10**9), st.sampled_from([ZERO, Fraction(1, 10**9)])),
    st.builds(choice, st.fractions(0, 5, max_denominator=10**9)),
    st.builds(lambda rho: gaussian(rho, ZERO), st.fractions(0, 5, max_denominator=10**9)),
)
DAYS = st.dates().map(lambda day: f"{day.isoformat()}T12:00:00.000+00:00")


def at(day: str, time: str = "12:00:00.000") -> str:
    return f"{day}T{time}+00:00"


@pytest.mark.parametrize(
    ("window", "last", "first"),
    [
        ("day", at("2026-11-21", "23:59:59.999"), at("2026-11-22", "00:00:00.000")),
        ("day", at("2028-02-28", "23:59:59.999"), at("2028-02-29", "00:00:00.000")),
        ("week", at("2026-11-22", "23:59:59.999"), at("2026-11-23", "00:00:00.000")),  # Sunday, Monday
        ("week", at("2026-12-27", "23:59:59.999"), at("2026-12-28", "00:00:00.000")),
        ("month", at("2026-11-30", "23:59:59.999"), at("2026-12-01", "00:00:00.000")),
        ("month", at("2026-12-31", "23:59:59.999"), at("2027-01-01", "00:00:00.000")),
        ("month", at("2028-02-29", "23:59:59.999"), at("2028-03-01", "00:00:00.000")),
    ],
)
def test_a_window_refills_at_midnight(window: str, last: str, first: str) -> None:
    before = NOTHING.plus(TENTH, last)
    assert before.within(window, last) == TENTH
    assert before.within(window, first) == NO_LOSS
    after = before.plus(TENTH, first)
    assert after.within(window, first) == TENTH
    assert after.ever == after.within(None, first) == TENTH + TENTH and after.charges == 2


@pytest.mark.parametrize(
    ("window", "moments"),
    [
        ("day", [at("2026-11-21", "00:00:00.000"), at("2026-11-21", "23:59:59.999")]),
        ("week", [at("2026-11-16", "00:00:00.000"), at("2026-11-22", "23:59:59.999")]),
        ("week", [at("2026-12-28"), at("2027-01-03")]),  # over the turn of the year
        ("month", [at("2026-11-01", "00:00:00.000"), at("2026-11-30", "23:59:59.999")]),
    ],
)
def test_within_a_window_everything_counts(window: str, moments: list[str]) -> None:
    first, last = moments
    assert NOTHING.plus(TENTH, first).plus(TENTH, last).within(window, last) == TENTH + TENTH
    assert start_of(window, first) == start_of(window, last)


@given(DAYS, DAYS, LOSSES, LOSSES, st.sampled_from(WINDOWS))
def test_a_clock_that_goes_back_opens_no_new_window(
    one: str, other: str, loss: PrivacyLoss, more: PrivacyLoss, window: str
) -> None:
    earlier, later = sorted((one, other))
    spent = NOTHING.plus(loss, later)
    assert spent.within(window, earlier) == loss
    back = spent.plus(more, earlier)
    assert back.within(window, earlier) == back.within(window, later) == loss + more
    assert back.windows[WINDOWS.index(window)].start == start_of(window, later)


@pytest.mark.slow
@given(st.lists(st.tuples(LOSSES, DAYS), max_size=8))
def test_text_round_trips(charges: list[tuple[PrivacyLoss, str]]) -> None:
    spent = NOTHING
    for loss, now in charges:
        spent = spent.plus(loss, now)
    assert spent_of(spent.text) == spent and spent_of(spent.text).text == spent.text  # type: ignore[union-attr]
    assert spent.charges == len(charges)


@given(LOSSES)
def test_the_text_of_a_loss_round_trips(loss: PrivacyLoss) -> None:
    assert loss_of(loss_texts(loss)) == loss == loss_of(json.loads(json.dumps(loss_texts(loss))))


KEPT = json.loads(NOTHING.plus(TENTH, at("2026-11-21")).text)


@pytest.mark.parametrize(
    "text",
    [
        None,
        7,
        b"\xff",
        "",
        "[]",
        "{}",
        "[" * 100_000,
        json.dumps([-1, *KEPT[1:]]),
        json.dumps([True, *KEPT[1:]]),
        json.dumps(["1", *KEPT[1:]]),
        json.dumps([1.0, *KEPT[1:]]),
        json.dumps([KEPT[0], KEPT[1][:4], KEPT[2]]),
        json.dumps([KEPT[0], ["-1", *KEPT[1][1:]], KEPT[2]]),
        json.dumps([KEPT[0], ["nan", *KEPT[1][1:]], KEPT[2]]),
        json.dumps([KEPT[0], ["inf", *KEPT[1][1:]], KEPT[2]]),  # its square is not
        json.dumps([KEPT[0], [*KEPT[1][:3], "inf", KEPT[1][4]], KEPT[2]]),
        json.dumps([KEPT[0], [KEPT[1][0], "inf", *KEPT[1][2:]], KEPT[2]]),
        json.dumps([KEPT[0], [1, *KEPT[1][1:]], KEPT[2]]),
        json.dumps([KEPT[0], KEPT[1], KEPT[2][:2]]),
        json.dumps([KEPT[0], KEPT[1], [*KEPT[2], KEPT[2][0]]]),
        json.dumps([*KEPT, 1]),
    ],
)
def test_other_text_is_no_total(text: object) -> None:
    assert spent_of(text) is None


@pytest.mark.parametrize("texts", [None, 7, "11111", [], ["1"] * 4, ["1"] * 6, ["-1", *["1"] * 4], [1.5, *["1"] * 4]])
def test_other_texts_are_no_loss(texts: object) -> None:
    assert loss_of(texts) is None


@given(LOSSES, LOSSES, DAYS, DAYS)
def test_scopes_combine_by_sum_and_by_the_larger(one: PrivacyLoss, other: PrivacyLoss, first: str, now: str) -> None:
    left, right = NOTHING.plus(one, first), NOTHING.plus(other, now)
    both = combined(left, right, now)
    assert both.ever == one + other
    most = largest([left, right], now)
    assert one.within(most.ever) and other.within(most.ever) and most.ever.within(one + other)
    for window in WINDOWS:
        assert both.within(window, now) == left.within(window, now) + right.within(window, now)
        assert left.within(window, now).within(most.within(window, now))
        assert right.within(window, now).within(most.within(window, now))


def test_what_is_largest_is_so_in_each_measure() -> None:
    now = at("2026-11-21")
    found = largest([NOTHING.plus(pure(Fraction(1)), now), NOTHING.plus(gaussian(Fraction(1, 10), ZERO), now)], now)
    assert found.ever == PrivacyLoss(None, ZERO, None, pure(Fraction(1)).rho, pure(Fraction(1)).mu_squared)
    assert isinstance(found, Spent)
