"""Filters: what each accountant admits, that joined ones admit at least as much, and that what is left is what still fits."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.accountants.filters import Filter, filter_of
from dpsql.core.loss import EpsilonDelta, PrivacyLoss, Sums, added, only_delta, total
from dpsql.mechanisms.conversions import approximate, choice, gaussian, pure, rho_at_most
from tests.support.accounts import Adding

ZERO = Fraction(0)
ACCOUNTINGS = ["sequential", "advanced", "zcdp", "gdp", "rdp", "auto"]
NAMES = {"sequential": ("pure",), "advanced": ("advanced",), "zcdp": ("zcdp",), "gdp": ("gdp",), "rdp": ("rdp",)} | {
    "auto": ("pure", "zcdp", "gdp")
}
PRICES = st.fractions(Fraction(1, 1000), 3, max_denominator=10**6)
DELTAS = st.sampled_from([ZERO, Fraction(1, 10**9), Fraction(1, 10**7)])
LOSSES = st.one_of(
    st.builds(pure, PRICES, DELTAS),
    st.builds(choice, PRICES),
    st.builds(lambda price, delta: gaussian(rho_at_most(price), delta), PRICES, DELTAS),
    st.builds(lambda price, delta: approximate(EpsilonDelta(price, delta), rho_at_most(price)), PRICES, DELTAS),
    DELTAS.map(only_delta),
)
TOTALS = st.builds(
    EpsilonDelta,
    st.fractions(Fraction(1, 100), 20, max_denominator=1000),
    st.sampled_from([Fraction(1, 10**9), Fraction(1, 10**6), Fraction(1, 100)]),
)


def of(epsilon: str, delta: str) -> EpsilonDelta:
    return EpsilonDelta(Fraction(epsilon), Fraction(delta))


@pytest.mark.parametrize("accounting", ACCOUNTINGS)
def test_each_accounting_has_its_accountants_and_its_shares_of_delta(accounting: str) -> None:
    whole = of("1", "1e-6")
    adding, found = Adding(whole, accounting), filter_of(whole, accounting)
    assert found == adding.keeps
    assert found.alive(adding.nothing) == NAMES[accounting] and found.admits(adding.nothing)
    assert found.delta == (whole.delta if accounting == "sequential" else whole.delta / 2)
    if accounting in ("zcdp", "gdp"):
        both = {each.accountant: each.most for each in filter_of(whole, "auto").accounts}
        (alone,) = found.accounts
        quarter = filter_of(EpsilonDelta(whole.epsilon, whole.delta / 2), accounting)
        assert both[accounting] < alone.most and both[accounting] == quarter.accounts[0].most


def test_an_accounting_that_does_not_exist_is_a_fault() -> None:
    with pytest.raises(KeyError):
        filter_of(of("1", "1e-6"), "renyi")


# the most releases of epsilon 0.01 under a total of (1, 1e-6), half of delta being for the accountants
@pytest.mark.parametrize(
    ("accounting", "count"),
    [("sequential", 100), ("advanced", 333), ("zcdp", 458), ("gdp", 334), ("rdp", 462), ("auto", 433)],
)
def test_how_many_releases_fit(accounting: str, count: int) -> None:
    adding, one = Adding(of("1", "1e-6"), accounting), pure(Fraction(1, 100))
    assert adding.keeps.admits(adding.all([one] * count)) and not adding.keeps.admits(adding.all([one] * (count + 1)))


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(TOTALS, st.lists(LOSSES, max_size=20))
def test_joined_accountants_admit_what_one_of_them_admits(whole: EpsilonDelta, losses: list[PrivacyLoss]) -> None:
    """Each with its own share of delta: the pure one needs none, the others a quarter of it."""
    spent = Sums.of(total(losses))
    quarter = EpsilonDelta(whole.epsilon, whole.delta / 2)
    joined = filter_of(whole, "auto")
    alone = [Filter(filter_of(quarter, name).accounts, joined.delta) for name in ("zcdp", "gdp")]
    one = Filter(filter_of(whole, "sequential").accounts, joined.delta)
    assert joined.admits(spent) == any(keeps.admits(spent) for keeps in (one, *alone))


@settings(max_examples=60, deadline=None)
@given(TOTALS, st.lists(LOSSES, min_size=1, max_size=15), st.sampled_from(ACCOUNTINGS))
def test_the_accountants_that_are_alive_only_get_fewer(
    whole: EpsilonDelta, losses: list[PrivacyLoss], accounting: str
) -> None:
    adding = Adding(whole, accounting)
    keeps, spent = adding.keeps, adding.nothing
    alive, admitted, price = set(keeps.alive(spent)), True, keeps.price_left(spent)
    for loss in losses:
        spent = added(spent, adding(loss))
        now = set(keeps.alive(spent))
        assert now <= alive and (admitted or not keeps.admits(spent)) and keeps.price_left(spent) <= price
        assert keeps.delta_left(spent) >= 0
        alive, admitted, price = now, keeps.admits(spent), keeps.price_left(spent)


@pytest.mark.parametrize("accounting", ACCOUNTINGS)
def test_gaussian_noise_ends_what_adds_up_epsilons(accounting: str) -> None:
    adding = Adding(of("1", "1e-6"), accounting)
    keeps, little = adding.keeps, adding(gaussian(Fraction(1, 10**30), ZERO))
    assert set(keeps.alive(little)) == set(NAMES[accounting]) - {"pure", "advanced"}
    assert keeps.admits(little) == (accounting not in ("sequential", "advanced"))
    # and for good
    assert keeps.alive(little + adding(pure(Fraction(1, 10**9)))) == keeps.alive(little)


@pytest.mark.parametrize("accounting", ACCOUNTINGS)
def test_gaussian_noise_at_its_epsilon_and_delta_ends_none(accounting: str) -> None:
    loss = approximate(of("0.01", "1e-8"), rho_at_most(Fraction(1, 100)))
    adding = Adding(of("1", "1e-6"), accounting)
    assert adding.keeps.alive(adding(loss)) == NAMES[accounting]


@pytest.mark.slow
@settings(max_examples=120, deadline=None)
@given(TOTALS, st.lists(LOSSES, max_size=6), st.sampled_from(ACCOUNTINGS))
def test_the_price_that_is_left_fits_and_a_little_more_does_not(
    whole: EpsilonDelta, losses: list[PrivacyLoss], accounting: str
) -> None:
    adding = Adding(whole, accounting)
    keeps, spent = adding.keeps, adding.nothing
    for loss in losses:
        if keeps.admits(added(spent, adding(loss))):
            spent = added(spent, adding(loss))
    left = keeps.price_left(spent)
    assert left == 0 or keeps.admits(added(spent, adding(pure(left))))
    assert not keeps.admits(added(spent, adding(pure(more(left)))))
    of_gaussian = keeps.price_left(spent, adding(gaussian(Fraction(1), ZERO)))
    assert of_gaussian == 0 or keeps.admits(added(spent, adding(gaussian(rho_at_most(of_gaussian), ZERO))))
    assert not keeps.admits(added(spent, adding(gaussian(rho_at_most(more(of_gaussian)), ZERO))))


@settings(max_examples=60, deadline=None)
@given(TOTALS, PRICES, PRICES, st.sampled_from(ACCOUNTINGS))
def test_the_price_that_is_left_for_choices_beside_gaussian_noise_fits(
    whole: EpsilonDelta, noise: Fraction, chosen: Fraction, accounting: str
) -> None:
    """The mu of a choice is larger than its rho says."""
    adding, like = Adding(whole, accounting), gaussian(rho_at_most(noise), ZERO) + choice(chosen)
    fits = adding.keeps.price_left(adding.nothing, adding(like))
    left = rho_at_most(fits) / like.rho
    scaled = PrivacyLoss(None, ZERO, None, left * like.rho, left * like.mu_squared)
    assert fits == 0 or adding.keeps.admits(adding(scaled))


def more(price: Fraction) -> Fraction:
    """A little more than twelve digits, or twelve places, of a price; for nothing, something."""
    return price * (1 + Fraction(1, 10**10)) + Fraction(1, 10**11)


@pytest.mark.parametrize("accounting", ACCOUNTINGS)
def test_what_is_left_without_a_delta_is_what_pure_accounting_has(accounting: str) -> None:
    adding = Adding(of("1", "0"), accounting)
    keeps = adding.keeps
    expected = Fraction(1) if accounting in ("sequential", "auto") else ZERO
    assert keeps.price_left(adding.nothing) == expected and keeps.delta_left(adding.nothing) == 0
    assert keeps.price_left(adding.nothing, adding(gaussian(Fraction(1), ZERO))) == 0


@given(st.lists(LOSSES, max_size=8))
def test_sums_are_exact_or_rounded_up(losses: list[PrivacyLoss]) -> None:
    sums = Sums.nothing()
    for loss in [*losses, pure(Fraction(1, 3**400)), pure(Fraction(1, 7**200))]:
        sums = added(sums, Sums.of(loss))
    spent = sums.loss
    exact = total([*losses, pure(Fraction(1, 3**400)), pure(Fraction(1, 7**200))])
    assert exact.within(spent)
    assert spent.rho - exact.rho < Fraction(1, 2**500) and spent.delta == exact.delta
    assert spent.rho.denominator <= 2**512
