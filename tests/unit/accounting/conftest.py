"""A ledger to charge, and requests to charge it with."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path

import pytest

from dpsql.accounting import Ledger
from dpsql.loss import PrivacyLoss
from dpsql.plan import ChargeRequest

Asks = Callable[..., ChargeRequest]
Script = Callable[[str], list[str]]


def request_of(
    epsilon: str | Fraction, delta: str = "0", analyst: str = "default", statement: str = "SELECT 1"
) -> ChargeRequest:
    """A request of one statement at this price."""
    loss = PrivacyLoss(Fraction(epsilon), Fraction(delta))
    return ChargeRequest(analyst, "version", statement, ("fingerprint",), ("laplace scale=10",), loss)


@pytest.fixture(scope="session")
def asks() -> Asks:
    return request_of


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "example.ledger"


@pytest.fixture
def ledger(path: Path) -> Iterator[Ledger]:
    opened = Ledger.open(path, "example")
    yield opened
    opened.close()


PREAMBLE = """
import sys
from fractions import Fraction
from dpsql.accounting import Ledger
from dpsql.errors import Error
from dpsql.loss import PrivacyLoss
from dpsql.plan import Budget, ChargeRequest
PRICE = PrivacyLoss(Fraction(1, 100), Fraction(0))
REQUEST = ChargeRequest("default", "version", "SELECT 1", ("f",), ("laplace",), PRICE)
def budget(statements):
    return Budget(PrivacyLoss(Fraction(statements, 100), Fraction(0)))
"""


@pytest.fixture(scope="session")
def script() -> Script:
    """The command line of a Python process that runs some lines after PREAMBLE, from the project's folder."""

    def command(body: str) -> list[str]:
        return [sys.executable, "-c", PREAMBLE + body]

    return command
