"""Running totals: windows, clocks that go back, and the text that keeps them."""

from __future__ import annotations

import json
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsql.accounting.totals import WINDOWS, Spent, combined, largest, spent_of, start_of, sums_of, texts
from dpsql.core.loss import LOSS, PrivacyLoss, Sums
from dpsql.mechanisms.conversions import choice, gaussian, pure

ZERO = Fraction(0)
TENTH = Sums.of(pure(Fraction(1, 10)), {"renyi 2": Fraction(1, 100)})
NO_SUMS = Sums.nothing(["renyi 2"])
NOTHING = Spent.nothing(NO_SUMS)
LOSSES = st.builds(
    lambda loss, more: Sums.of(loss, {"renyi 2": more}),
    st.one_of(
        st.builds(pure, st.fractions(0, 5, max_denominator=10**9), st.sampled_from([ZERO, Fraction(1, 10**9)])),
        st.builds(choice, st.fractions(0, 5, max_denominator=10**9)),
        st.builds(lambda rho: gaussian(rho, ZERO), st.fractions(0, 5, max_denominator=10**9)),
    ),
    st.fractions(0, 5, max_denominator=10**9),
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
    assert before.within(window, first) == NO_SUMS
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
def test_a_clock_that_goes_back_opens_no_new_window(one: str, other: str, loss: Sums, more: Sums, window: str) -> None:
    earlier, later = sorted((one, other))
    spent = NOTHING.plus(loss, later)
    assert spent.within(window, earlier) == loss
    back = spent.plus(more, earlier)
    assert back.within(window, earlier) == back.within(window, later) == loss + more
    assert back.windows[WINDOWS.index(window)].start == start_of(window, later)


@pytest.mark.slow
@given(st.lists(st.tuples(LOSSES, DAYS), max_size=8))
def test_text_round_trips(charges: list[tuple[Sums, str]]) -> None:
    spent = NOTHING
    for loss, now in charges:
        spent = spent.plus(loss, now)
    assert spent_of(spent.text) == spent and spent_of(spent.text).text == spent.text  # type: ignore[union-attr]
    assert spent.charges == len(charges)


@given(LOSSES)
def test_the_texts_of_sums_round_trip(sums: Sums) -> None:
    names = list(sums.names)
    assert sums_of(names, texts(sums)) == sums == sums_of(names, json.loads(json.dumps(texts(sums))))
    assert texts(Sums.of(sums.loss)) == texts(sums)[: len(LOSS)]


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
        json.dumps([*KEPT[:2], KEPT[2][:4], KEPT[3]]),
        json.dumps([*KEPT[:2], ["-1", *KEPT[2][1:]], KEPT[3]]),
        json.dumps([*KEPT[:2], ["nan", *KEPT[2][1:]], KEPT[3]]),
        json.dumps([*KEPT[:2], ["inf", *KEPT[2][1:]], KEPT[3]]),  # its square is not
        json.dumps([*KEPT[:2], [*KEPT[2][:3], "inf", *KEPT[2][4:]], KEPT[3]]),
        json.dumps([*KEPT[:2], [KEPT[2][0], "inf", *KEPT[2][2:]], KEPT[3]]),
        json.dumps([*KEPT[:2], [1, *KEPT[2][1:]], KEPT[3]]),
        json.dumps([KEPT[0], *KEPT[2:]]),  # without names, as layout 5 had it
        json.dumps([KEPT[0], KEPT[1][:5], *KEPT[2:]]),
        json.dumps([KEPT[0], KEPT[1][1:], KEPT[2][1:], [[start, each[1:]] for start, each in KEPT[3]]]),
        json.dumps([KEPT[0], [*KEPT[1][:5], "rho"], *KEPT[2:]]),
        json.dumps([KEPT[0], [*KEPT[1][:5], 7], *KEPT[2:]]),
        json.dumps([*KEPT[:3], KEPT[3][:2]]),
        json.dumps([*KEPT[:3], [*KEPT[3], KEPT[3][0]]]),
        json.dumps([*KEPT, 1]),
    ],
)
def test_other_text_is_no_total(text: object) -> None:
    assert spent_of(text) is None


@pytest.mark.parametrize("found", [None, 7, "11111", [], ["1"] * 4, ["1"] * 6, ["-1", *["1"] * 4], [1.5, *["1"] * 4]])
def test_other_texts_are_no_sums(found: object) -> None:
    assert sums_of(list(LOSS), found) is None


def test_sums_of_other_names_do_not_add_up() -> None:
    """None of them is left out, nor taken for zero."""
    for names in ((), ("renyi 3",), ("renyi 2", "renyi 3")):
        with pytest.raises(ValueError, match="other amounts"):
            TENTH + Sums.nothing(names)
        with pytest.raises(ValueError, match="other amounts"):
            NOTHING.plus(Sums.nothing(names), at("2026-11-21"))
    with pytest.raises(ValueError):
        TENTH["renyi 3"]


@given(LOSSES, LOSSES, DAYS, DAYS)
def test_scopes_combine_by_sum_and_by_the_larger(one: Sums, other: Sums, first: str, now: str) -> None:
    left, right = NOTHING.plus(one, first), NOTHING.plus(other, now)
    both = combined(left, right, now)
    assert both.ever == one + other
    most = largest([left, right], now)
    assert within(one, most.ever) and within(other, most.ever) and within(most.ever, one + other)
    for window in WINDOWS:
        assert both.within(window, now) == left.within(window, now) + right.within(window, now)
        assert within(left.within(window, now), most.within(window, now))
        assert within(right.within(window, now), most.within(window, now))


def within(one: Sums, other: Sums) -> bool:
    """Tell whether each amount is at most the other's."""
    pairs = zip(one.amounts, other.amounts, strict=True)
    return all(most is None or (amount is not None and amount <= most) for amount, most in pairs)


def test_what_is_largest_is_so_in_each_measure() -> None:
    now = at("2026-11-21")
    losses = (pure(Fraction(1)), gaussian(Fraction(1, 10), ZERO))
    none = Spent.nothing(Sums.nothing())
    found = largest([none.plus(Sums.of(loss), now) for loss in losses], now)
    assert found.ever.loss == PrivacyLoss(None, ZERO, None, pure(Fraction(1)).rho, pure(Fraction(1)).mu_squared)
    assert isinstance(found, Spent)
