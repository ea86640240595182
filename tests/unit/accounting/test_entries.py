"""Charges on values of the partition column: the units of one value lose nothing by what is released of another."""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.accounting import Ledger
from dpsql.core.errors import BudgetError
from dpsql.core.loss import NO_LOSS, EpsilonDelta, PrivacyLoss, Sums, total
from dpsql.mechanisms.conversions import gaussian, pure
from dpsql.plan.charges import Budget, ChargeRequest, Portion

Asks = Callable[..., ChargeRequest]
ZERO = Fraction(0)


def entry(value: str, column: str = "person.site 1") -> str:
    """The name of a value of the partition column, under its list of values."""
    return json.dumps([column, value])


NORTH, SOUTH, OTHER = entry("north"), entry("south"), entry("other")
OLD_NORTH, OLD_EAST = entry("north", "person.site 0"), entry("east", "person.site 0")


def of(epsilon: str, delta: str = "0", accounting: str = "sequential") -> Budget:
    return Budget(EpsilonDelta(Fraction(epsilon), Fraction(delta)), accounting)


def granted(ledger: Ledger, request: ChargeRequest, budget: Budget) -> bool:
    try:
        return ledger.charge(request, budget) is not None
    except BudgetError:
        return False


@pytest.mark.parametrize("before", [None, (SOUTH,), (OLD_NORTH,)])
def test_rule_32_the_first_charge_on_a_value_must_fit(
    ledger: Ledger, asks: Asks, before: tuple[str, ...] | None
) -> None:
    """Also where nothing, only another value, or only an old list was ever charged."""
    assert not granted(ledger, asks("1.1", entries=(NORTH,)), of("1"))
    ledger.charge(asks("0.5", entries=before), of("1"))
    assert not granted(ledger, asks("1.1", entries=(NORTH,)), of("1"))
    assert not granted(ledger, asks("0.1", "1e-9", entries=(NORTH, SOUTH)), of("1"))
    assert ledger.spent().epsilon == Fraction(1, 2) and len(ledger.history()) == 1


def test_rule_32_different_values_take_the_maximum(ledger: Ledger, asks: Asks) -> None:
    ledger.charge(asks("0.6", "1e-9", entries=(NORTH,)), of("1", "1e-8"))
    ledger.charge(asks("0.9", "2e-9", entries=(SOUTH,)), of("1", "1e-8"))
    assert ledger.spent() == pure(Fraction(9, 10), Fraction(2, 10**9))
    assert ledger.entries() == {NORTH: pure(Fraction(6, 10), Fraction(1, 10**9)), SOUTH: ledger.spent()}
    # an analyst's cap counts all of it
    assert ledger.spent("default").epsilon == Fraction("1.5")
    assert granted(ledger, asks("0.4", entries=(NORTH,)), of("1", "1e-8"))
    assert not granted(ledger, asks("0.2", entries=(SOUTH,)), of("1", "1e-8"))
    assert ledger.verify() == 3


def test_rule_32_a_charge_on_several_values_is_on_each(ledger: Ledger, asks: Asks) -> None:
    ledger.charge(asks("0.6", entries=(NORTH, SOUTH)), of("1"))
    assert ledger.spent().epsilon == Fraction("0.6")
    with pytest.raises(BudgetError, match=r"0\.4 is left of the dataset's total 1; epsilon=0\.4 would fit"):
        ledger.charge(asks("0.5", entries=(OTHER, SOUTH)), of("1"))
    assert granted(ledger, asks("0.5", entries=(OTHER,)), of("1"))


def test_rule_32_a_charge_on_everybody_is_on_all_values(ledger: Ledger, asks: Asks) -> None:
    ledger.charge(asks("0.5", "1e-9", entries=(NORTH,)), of("1", "2e-9"))
    ledger.charge(asks("0.4", "1e-9"), of("1", "2e-9"))
    assert {name: spent.epsilon for name, spent in ledger.entries().items()} == {NORTH: Fraction("0.9")}
    assert ledger.spent() == pure(Fraction(1, 2), Fraction(1, 10**9)) + pure(Fraction(2, 5), Fraction(1, 10**9))
    assert not granted(ledger, asks("0.2"), of("1", "2e-9"))
    assert not granted(ledger, asks("0.2", entries=(NORTH,)), of("1", "2e-9"))
    assert not granted(ledger, asks("0.05", "1e-9"), of("1", "2e-9"))  # delta too
    assert not granted(ledger, asks("0.05", "1e-9", entries=(NORTH,)), of("1", "2e-9"))
    assert granted(ledger, asks("0.6", "1e-9", entries=(SOUTH,)), of("1", "2e-9"))
    assert granted(ledger, asks("0.1", entries=(NORTH,)), of("1", "2e-9"))
    assert ledger.spent().epsilon == 1 and ledger.remaining(of("1"), "default").epsilon == 0


def test_rule_32_a_value_that_was_never_charged_alone_has_what_everybody_has(ledger: Ledger, asks: Asks) -> None:
    """NULL and what is not declared are one more value, OTHER, and nothing makes it free."""
    ledger.charge(asks("0.7"), of("1"))
    assert not granted(ledger, asks("0.4", entries=(OTHER,)), of("1"))
    ledger.charge(asks("0.3", entries=(NORTH,)), of("1"))
    assert granted(ledger, asks("0.3", entries=(OTHER,)), of("1"))
    assert not granted(ledger, asks("1/1000000", entries=(OTHER,)), of("1"))


def test_rule_32_portions_of_one_statement_each_count_where_they_are(ledger: Ledger) -> None:
    """Releases of one statement on two values take the maximum; one on everybody adds to both."""
    tenth = pure(Fraction(1, 10))
    portions = (Portion(tenth, (NORTH,)), Portion(tenth, (SOUTH,)), Portion(tenth), Portion(tenth, (NORTH, SOUTH)))
    request = ChargeRequest("a", "v", "s", ("f",), ("m",), portions)
    with pytest.raises(BudgetError, match=r"this costs epsilon 0\.3, 0\.2 is left"):
        ledger.charge(request, of("0.2"))
    receipt = ledger.charge(request, of("0.3"))
    assert receipt is not None and receipt.loss == total([tenth] * 4) and receipt.remaining.epsilon == 0
    assert ledger.spent() == total([tenth] * 3) and ledger.spent("a") == total([tenth] * 4)
    (listed,) = ledger.history()
    assert listed.loss == total([tenth] * 4) and listed.releases == 4


def test_rule_32_entries_of_an_old_column_or_list_are_added(ledger: Ledger, asks: Asks) -> None:
    """A unit has a value in each partition that ever was."""
    ledger.charge(asks("0.3", "1e-9", entries=(OLD_NORTH,)), of("1", "1e-8"))
    ledger.charge(asks("0.2", "2e-9", entries=(OLD_EAST,)), of("1", "1e-8"))
    ledger.charge(asks("0.1"), of("1", "1e-8"))
    # the name says "north" in both, and they may be different people
    assert not granted(ledger, asks("0.7", entries=(NORTH,)), of("1", "1e-8"))
    assert not granted(ledger, asks("0.1", "9e-9", entries=(NORTH,)), of("1", "1e-8"))
    assert granted(ledger, asks("0.6", "8e-9", entries=(NORTH,)), of("1", "1e-8"))
    assert ledger.spent().epsilon == 1 and ledger.spent().delta == Fraction(10, 10**9)
    assert ledger.entries()[NORTH].epsilon == 1
    assert ledger.entries()[OLD_EAST].epsilon == Fraction("0.9")  # 0.2 + 0.1 + the largest of the others, 0.6
    assert not granted(ledger, asks("0.01"), of("1", "1e-8"))
    assert granted(ledger, asks("0.6", entries=(SOUTH,)), of("1", "1e-8"))
    assert ledger.verify() == 5


def test_rule_32_gaussian_noise_on_one_value_leaves_epsilons_to_others(ledger: Ledger, asks: Asks, loses: Asks) -> None:
    budget = of("1", "1e-6", "auto")
    ledger.charge(loses(gaussian(Fraction(1, 1000), ZERO), entries=(NORTH,)), budget)
    assert granted(ledger, asks("1", entries=(SOUTH,)), budget)
    assert not granted(ledger, asks("0.9", entries=(NORTH,)), budget)
    assert ledger.spent().epsilon is None and ledger.entries()[SOUTH].epsilon == 1


def test_rule_32_entries_outlive_the_connection(ledger: Ledger, asks: Asks, path: Path) -> None:
    ledger.charge(asks("0.6", entries=(NORTH, SOUTH)), of("1"))
    found = ledger.entries()
    ledger.close()
    again = Ledger.open(path, "example")
    assert again.entries() == found and again.scope("entry", NORTH).ever.loss == pure(Fraction(6, 10))
    assert again.verify() == 1
    again.close()


CHARGES = st.lists(
    st.tuples(
        st.sampled_from(
            [pure(Fraction(1, 10), Fraction(1, 10**9)), pure(Fraction(3, 10)), gaussian(Fraction(1, 100), ZERO)]
        ),
        st.none() | st.sets(st.sampled_from([NORTH, SOUTH, OTHER]), min_size=1).map(lambda names: tuple(sorted(names))),
    ),
    max_size=8,
)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(CHARGES, st.sampled_from(["sequential", "zcdp", "auto"]))
def test_rule_32_a_charge_is_granted_where_it_fits_every_unit_it_is_about(
    charges: list[tuple[PrivacyLoss, tuple[str, ...] | None]], accounting: str
) -> None:
    """The same as a ledger for each value, which everybody's charges go to as well."""
    ledger, budget = Ledger.open(":memory:", "example"), of("0.5", "1e-5", accounting)
    apart = dict.fromkeys((NORTH, SOUTH, OTHER), NO_LOSS)
    keeps = {name: Ledger.open(":memory:", name) for name in apart}
    for loss, entries in charges:
        about = list(apart) if entries is None else list(entries)
        fits = all(_fits(keeps[name], loss, budget) for name in about)
        assert granted(ledger, ChargeRequest("a", "v", "s", (), (), (Portion(loss, entries),)), budget) == fits
        for name in about if fits else ():
            keeps[name].charge(ChargeRequest("a", "v", "s", (), (), (Portion(loss),)), budget)
            apart[name] = apart[name] + loss
    assert all(spent == apart[name] for name, spent in ledger.entries().items())
    assert all(spent.within(ledger.spent()) for spent in apart.values())


def _fits(ledger: Ledger, loss: PrivacyLoss, budget: Budget) -> bool:
    (limit,) = ledger.limits(budget, "a")
    return limit.keeps.admits(limit.spent + Sums.of(loss))
