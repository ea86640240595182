"""rdp: one order, fixed with the first charge; what it adds up follows from events; caps; and ledgers asked for another one."""

from __future__ import annotations

import random
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest

from dpsql.accountants.filters import Promise, filter_of
from dpsql.accountants.rdp import RDP
from dpsql.accountants.registry import ACCOUNTANTS, accountings, joined, measure, sums_of
from dpsql.accounting import Ledger, books
from dpsql.clients.cli.main import main
from dpsql.core.errors import BudgetError, Error, InternalError
from dpsql.core.loss import LOSS, EpsilonDelta, Sums, total
from dpsql.mechanisms import laplace, renyi
from dpsql.mechanisms.conversions import CHOICE, GAUSSIAN, PURE, gaussian, pure
from dpsql.mechanisms.events import threshold
from dpsql.plan.charges import Budget, Cap, ChargeRequest, Portion
from dpsql.session.opening import open_session
from tests.support import clinic

TOTAL = EpsilonDelta(Fraction(1), Fraction(1, 10**6))
WHOLE = Budget(TOTAL, "rdp")
PROMISE = Promise.under(TOTAL, "rdp")
EVENTS = (
    laplace.EVENT.event(3, 100),
    CHOICE.event(Fraction(1, 20)),
    PURE.event(Fraction(1, 50)),
    GAUSSIAN.event(Fraction(1, 10**4), 0, Fraction(2, 10**4)),
    *threshold(Fraction(1, 10**9)),
)


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    opened = Ledger.open(tmp_path / "ledger", "example")
    yield opened
    opened.close()


def request(*events: object, analyst: str = "ann") -> ChargeRequest:
    ran = tuple(events)
    portion = Portion(total(event.loss for event in ran), None, ran)  # type: ignore[attr-defined, arg-type]
    return ChargeRequest(analyst, "v", "s", (), (), (portion,))


def test_every_measure_is_found_by_its_name() -> None:
    assert accountings() == ("auto", "sequential", "advanced", "zcdp", "gdp", "rdp")
    for each in ACCOUNTANTS:
        for name in each.names(TOTAL):
            assert measure(name).name == name and [m.name for m in each.of([name])] == [name]
    with pytest.raises(KeyError):
        measure("nothing of the kind")
    with pytest.raises(KeyError):
        joined("renyi")
    for accounting in accountings()[:-1]:
        assert Promise.under(TOTAL, accounting).more == ()


def test_sums_are_those_of_the_events() -> None:
    """The measures of a loss too: what is charged is the sum of what runs."""
    for accountant in ACCOUNTANTS:
        for name in accountant.names(TOTAL):
            amounts = [measure(name).adds(event) for event in EVENTS]
            expected = None if None in amounts else sum(amount for amount in amounts if amount is not None)
            found = sums_of(total(event.loss for event in EVENTS), EVENTS, [n for n in (name,) if n not in LOSS])
            assert found[name] == expected


def test_rule_64_the_order_is_that_of_the_total_of_the_first_charge(ledger: Ledger) -> None:
    names = PROMISE.more
    assert names == RDP.names(EpsilonDelta(Fraction(1), Fraction(1, 2 * 10**6))) and len(names) == 3
    ledger.charge(request(*EVENTS), WHOLE)
    spent = ledger.scope("dataset", "").ever
    assert spent.names == (*LOSS, *names) and ledger.accounting == "rdp"
    for name in names:
        assert spent[name] == sum(renyi.of_event(Fraction(name.split()[1]), event) for event in EVENTS)
    # another total: the order stays, and is only another one's best
    raised = Budget(EpsilonDelta(Fraction(4), Fraction(1, 10**6)), "rdp")
    assert Promise.under(raised.total, "rdp").more[0] != names[0]
    (limit,) = ledger.limits(raised, "ann")
    assert [account.measure.name for account in limit.keeps.accounts] == [names[0]]
    assert limit.keeps.accounts[0].most < filter_of(raised.total, "rdp").accounts[0].most * 10
    lowered = Budget(EpsilonDelta(Fraction(1, 100), Fraction(1, 10**6)), "rdp")
    assert ledger.remaining(lowered, "ann").epsilon == 0
    with pytest.raises(BudgetError, match="DPSQL-501"):
        ledger.charge(request(EVENTS[0]), lowered)


def test_a_cap_is_kept_by_the_order_that_admits_most(ledger: Ledger) -> None:
    small = EpsilonDelta(Fraction(1, 10), Fraction(1, 10**6))
    budget = Budget(TOTAL, "rdp", (Cap("analyst", "ann", small),))
    _, cap = ledger.limits(budget, "ann")
    assert cap.keeps.accounts[0].measure.name in PROMISE.more[1:] and cap.epsilon_left() > Fraction(1, 50)
    assert cap.keeps.accounts[0].most == max(
        measure(n).most(EpsilonDelta(small.epsilon, small.delta / 2)) for n in PROMISE.more
    )
    with pytest.raises(BudgetError, match="cap of analyst 'ann'"):
        for _ in range(100):
            ledger.charge(request(laplace.EVENT.event(1, 50)), budget)
    assert ledger.charge(request(laplace.EVENT.event(1, 50), analyst="bob"), WHOLE) is not None


def test_what_is_left_fits(ledger: Ledger) -> None:
    """The price of a message is charged for Laplace and for Gaussian noise, and a little more is not."""
    ledger.charge(request(*EVENTS), WHOLE)
    left = ledger.remaining(WHOLE, "ann").epsilon
    with pytest.raises(BudgetError):
        ledger.charge(request(PURE.event(left * (1 + Fraction(1, 10**6)))), WHOLE)
    receipt = ledger.charge(request(PURE.event(left)), WHOLE)
    assert receipt is not None and receipt.remaining.epsilon < Fraction(1, 100)


def test_it_goes_on_after_opening_again_and_is_verified(tmp_path: Path) -> None:
    for count in range(1, 4):
        ledger = Ledger.open(tmp_path / "ledger", "example")
        ledger.charge(request(*EVENTS), WHOLE)
        assert ledger.verify() == count
        ledger.close()


def test_laplace_noise_on_large_sums_costs_less_than_its_epsilon_says() -> None:
    """rdp reads l1 and scale: rho is that of the worst mechanism of this epsilon."""
    many, one = laplace.EVENT.event(30000, 30000), laplace.EVENT.event(1, 1)
    assert renyi.of_event(Fraction(2), many) < Fraction(9, 10) * renyi.of_event(Fraction(2), one)
    assert many.loss == one.loss == pure(Fraction(1))


def test_charges_that_only_have_a_loss_are_bounded_by_it(ledger: Ledger) -> None:
    loss = pure(Fraction(1, 10)) + gaussian(Fraction(1, 10**4), Fraction(0))
    ledger.charge(ChargeRequest("ann", "v", "s", (), (), (Portion(loss),)), WHOLE)
    name = PROMISE.more[0]
    order = Fraction(name.split()[1])
    assert (
        order * loss.rho
        <= (ledger.scope("analyst", "ann").ever[name] or 0)
        <= order * loss.rho * (1 + Fraction(1, 2**60))
    )


def test_events_that_lose_something_else_than_is_charged_are_no_charge(ledger: Ledger) -> None:
    less = Portion(pure(Fraction(1, 5)), None, (laplace.EVENT.event(1, 10),))
    with pytest.raises(InternalError, match="DPSQL-901: what runs loses something else"):
        ledger.charge(ChargeRequest("ann", "v", "s", (), (), (less,)), WHOLE)
    assert ledger.history() == [] and ledger.accounting is None


def test_a_refused_first_charge_names_nothing(ledger: Ledger) -> None:
    with pytest.raises(BudgetError, match="DPSQL-501"):
        ledger.charge(request(PURE.event(9)), WHOLE)
    assert ledger.accounting is None
    ledger.charge(request(PURE.event(Fraction(1, 10))), Budget(TOTAL, "zcdp"))
    assert ledger.accounting == "zcdp"


@pytest.mark.parametrize("text", ["'x'", "'[]'", "replace(promise, 'rdp', 'zcdp')", "replace(promise, '23', '24')"])
def test_an_edited_promise_is_damage(ledger: Ledger, text: str) -> None:
    ledger.charge(request(*EVENTS), WHOLE)
    ledger.store.write(lambda connection: connection.execute(f"UPDATE meta SET promise = {text}"))
    with pytest.raises(Error, match=r"DPSQL-705: .* is damaged"):
        ledger.charge(request(*EVENTS), WHOLE)
    with pytest.raises(Error, match=r"DPSQL-705: .* is damaged"):
        Ledger.open(ledger.store.path, "example").close()


def test_a_promise_that_is_wiped_is_damage(ledger: Ledger) -> None:
    """Its totals add up what nobody promised."""
    ledger.charge(request(*EVENTS), WHOLE)
    ledger.store.write(lambda connection: connection.execute("UPDATE meta SET promise = ''"))
    for budget in (WHOLE, Budget(TOTAL, "zcdp")):
        with pytest.raises(Error, match=r"DPSQL-(705|504)"):
            ledger.charge(request(*EVENTS), budget)


# --- a schema that names another accounting ---------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    clinic.write(tmp_path, clinic.database(random.Random(1), wild=False))
    return tmp_path


def ask(folder: Path, accounting: str, ledger: str = "ledger", sql: str = "SELECT COUNT(*) FROM patient") -> object:
    session = open_session(clinic.schema(folder, accounting=accounting), None, folder / ledger)
    try:
        return session.execute(sql).rows
    finally:
        session.close()


@pytest.mark.parametrize(("first", "then"), [("rdp", "auto"), ("auto", "rdp"), ("zcdp", "gdp"), ("sequential", "zcdp")])
@pytest.mark.few(2)
def test_rule_64_another_accounting_is_refused_at_opening_and_its_hints_work(
    folder: Path, first: str, then: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = ask(folder, first)
    with pytest.raises(BudgetError) as caught:
        ask(folder, then)
    said = str(caught.value)
    assert said.startswith("DPSQL-504: the ledger ")
    assert f'keeps its promise by {first} accounting, and the schema names {then}; write accounting = "{first}"' in said
    assert "\n" not in said
    # back to that: as before
    assert ask(folder, first) == before
    # the owner's report of the other one
    text = clinic.schema_text(accounting=then)
    (folder / "schema.toml").write_text(text)
    schema = str(folder / "schema.toml")
    assert main(["budget", schema, "--ledger", str(folder / "ledger")]) == 0
    report = capsys.readouterr().out
    assert (
        f"this ledger's is kept by {first} accounting" in report
        and f"is what {then} says of the same charges" in report
    )
    # a new ledger
    assert main(["check", schema, "--ledger", str(folder / "new"), "--new-ledger"]) == 0
    capsys.readouterr()
    assert ask(folder, then, "new") is not None
    opened = Ledger.open(folder / "new", "clinic (patient.patient_id)")
    assert opened.accounting == then and len(opened.history()) == 1
    opened.close()


def test_rule_64_a_report_says_what_a_ledger_of_that_accounting_would(folder: Path) -> None:
    """The same charges, kept and reckoned."""
    schema = clinic.schema(folder, accounting="rdp")
    ledger = Ledger.open(folder / "one", "example")
    other = Ledger.open(folder / "other", "example")
    budget = Budget(schema.privacy.budget, "rdp")
    for each in (EVENTS[:2], EVENTS[2:], EVENTS):
        ledger.charge(request(*each), budget)
        other.charge(request(*each), Budget(schema.privacy.budget, "zcdp"))
    kept, reckoned = (one.reckon(budget, lambda books: books.limits(budget, "ann")) for one in (ledger, other))
    assert kept == reckoned
    assert not ledger.reckon(budget, lambda books: books.is_report) and other.reckon(
        budget, lambda books: books.is_report
    )
    assert isinstance(kept[0].spent, Sums)
    ledger.close()
    other.close()


def test_the_hint_for_charges_of_before(ledger: Ledger) -> None:
    """They are there in the measures of a loss alone."""
    ledger.charge(request(*EVENTS), Budget(TOTAL, "zcdp"))
    ledger.store.write(lambda connection: connection.execute("UPDATE meta SET promise = ''"))
    found = ledger.store.read(lambda connection: books.promise_of(connection, ledger.store, WHOLE))
    assert isinstance(found, Error) and 'write accounting = "auto"' in str(found)
    ledger.charge(request(*EVENTS), Budget(TOTAL, "auto"))
    assert ledger.accounting == "auto" and ledger.verify() == 2
