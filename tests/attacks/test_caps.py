"""No option costs more than the owner's caps allow, whatever is asked: a price, an accuracy, weights or a mechanism."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from dpsql.core.errors import BudgetError, Error
from dpsql.core.loss import NO_LOSS, EpsilonDelta
from dpsql.mechanisms.prices import nominal
from dpsql.planner.options import Options, read_comment
from dpsql.planner.parse import parse
from dpsql.schema.model import Schema
from dpsql.session.opening import open_session
from dpsql.session.session import Session
from tests.attacks.observing import ordinary
from tests.support import clinic, losses
from tests.support.noise import ZeroNoise
from tests.support.planning import compile_statement

CAPS = EpsilonDelta(Fraction(1, 2), Fraction(1, 10**4))
QUERY = EpsilonDelta(Fraction(1, 10), Fraction(1, 10**6))
SELECTS = [
    "SELECT COUNT(*) FROM patient",
    "SELECT site, COUNT(*), SUM(age) FROM patient GROUP BY site",
    "SELECT note, COUNT(*), SUM(income) FROM patient GROUP BY note",
    "SELECT tag, COUNT(DISTINCT patient_id), SUM(days) FROM visit GROUP BY tag",
    "SELECT AVG(age), COUNT(age), COUNT(*) FROM patient",
    "SELECT COUNT(*), MEDIAN(age) FROM patient",
]


def capped(folder: Path, accounting: str = "auto") -> Schema:
    found = clinic.schema(folder, accounting=accounting)
    return replace(found, privacy=replace(found.privacy, units=500, query=QUERY, caps=CAPS))


def options(chance: random.Random) -> str:
    """Options of all kinds, in and out of range."""
    found = [
        f"epsilon={chance.choice(['0.1', '0.5', '0.5000001', '7', '1e9', '1e-9'])}",
        f"delta={chance.choice(['1e-9', '1e-4', '0.5', '1e-30'])}",
        f"error={chance.choice(['1e-9', '0.1', '3', '50', '1e6', '1e15', '5%', '0.001%', '900%'])}",
        f"confidence={chance.choice(['0.5', '0.95', '0.999'])}",
        f"mechanism={chance.choice(['laplace', 'gaussian', 'auto'])}",
        f"weights={':'.join(chance.choice(['1', '999999', '0.000001']) for _ in range(chance.choice([1, 2, 2, 3])))}",
    ]
    return ", ".join(chance.sample(found, chance.choice([1, 1, 2, 3, 4])))


@pytest.mark.slow
@pytest.mark.parametrize("accounting", ["sequential", "zcdp"])
@pytest.mark.parametrize("seed", range(4))
def test_every_plan_is_within_the_caps_or_refused(seed: int, accounting: str, tmp_path: Path) -> None:
    """In epsilon, or in the rho of a pure mechanism of that epsilon."""
    chance, schema = random.Random(f"caps {seed}"), capped(tmp_path, accounting)
    planned = refused = 0
    for _ in range(60):
        own, above = options(chance), options(chance) if chance.random() < 0.3 else ""
        try:
            session = read_comment(f"dpsql: {above}", Options()) if above else Options()
            plan = compile_statement(parse(f"/* dpsql: {own} */ {chance.choice(SELECTS)}"), session, schema).plan
        except Error as problem:
            assert problem.code in ("DPSQL-104", "DPSQL-202", "DPSQL-502"), (own, problem)
            assert problem.hint
            refused += 1
            continue
        planned += 1
        assert losses.fits(plan.loss, CAPS) and plan.loss.rho > 0
        for release in plan.releases:
            assert all(part.loss.rho > 0 for part in release.parts)
    assert planned > 5 and refused > 5


@pytest.mark.few(1)
@pytest.mark.parametrize("accounting", ["sequential", "advanced", "zcdp", "gdp", "auto"])
@pytest.mark.parametrize("mechanism", ["laplace", "gaussian", "auto"])
def test_no_accuracy_costs_more_than_the_cap(mechanism: str, accounting: str, tmp_path: Path) -> None:
    """From far below it to far above, each is priced within the cap or refused, in the unit that is added up."""
    schema, planned = capped(tmp_path, accounting), set[bool]()
    for error in (500, 100, 50, 30, 20, 15, 12, 10, 8, 6, 5, 4, 3, 2, 1):
        sql = f"/* dpsql: error={error}, mechanism={mechanism} */ SELECT COUNT(*) FROM patient"
        try:
            plan = compile_statement(parse(sql), Options(), schema).plan
        except BudgetError:
            planned.add(False)
            continue
        planned.add(True)
        assert losses.fits(plan.loss, CAPS), (error, plan.loss)
    assert planned == {True, False}


def opened(folder: Path) -> Session:
    clinic.write(folder, ordinary())
    return open_session(capped(folder), None, folder / "caps.ledger", noise=ZeroNoise())


def test_an_accuracy_above_the_cap_costs_nothing(tmp_path: Path) -> None:
    session = opened(tmp_path)
    before = session.execute("SELECT 1").receipt.remaining
    session.execute("SET dp_error = 1")
    for sql in (SELECTS[0], "/* dpsql: error=0.5 */ " + SELECTS[0]):
        with pytest.raises(BudgetError, match=r"above the owner's cap of 0.5"):
            session.execute(sql)
    assert session.execute("SELECT 1").receipt.remaining == before
    session.close()


def test_an_accuracy_is_charged_what_explain_says(tmp_path: Path) -> None:
    session = opened(tmp_path)
    for sql in ("/* dpsql: error=600 */ " + SELECTS[1], "/* dpsql: error=600, mechanism=auto */ " + SELECTS[3]):
        price = next(line for line in session.explain(sql).splitlines() if line.startswith("price: "))
        answer = session.execute(sql)
        assert f"epsilon {float(nominal(answer.receipt.loss)):g}," in price
        assert 0 < nominal(answer.receipt.loss) <= CAPS.epsilon and losses.fits(answer.receipt.loss, CAPS)
        assert all(cell is None or cell.high - cell.low <= 1201 for row in answer.accuracy for cell in row)
        again = session.execute(sql)
        assert again.receipt.loss == NO_LOSS and again.rows == answer.rows
    session.close()


def test_an_accuracy_within_the_cap_may_be_more_than_is_left(tmp_path: Path) -> None:
    """The ledger decides over it as over any price."""
    clinic.write(tmp_path, ordinary())
    schema = capped(tmp_path)
    schema = replace(schema, privacy=replace(schema.privacy, budget=EpsilonDelta(Fraction(3, 10), Fraction(1, 100))))
    session = open_session(schema, None, tmp_path / "caps.ledger", noise=ZeroNoise())
    with pytest.raises(BudgetError) as refused:
        session.execute("/* dpsql: error=7 */ SELECT COUNT(*) FROM patient")
    assert refused.value.code == "DPSQL-501"
    session.close()
