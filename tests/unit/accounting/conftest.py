"""A ledger to charge, and requests to charge it with."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path

import pytest

from dpsql.accounting import Ledger
from dpsql.core.loss import PrivacyLoss
from dpsql.mechanisms.conversions import pure
from dpsql.plan.charges import ChargeRequest, Portion

Asks = Callable[..., ChargeRequest]
Script = Callable[[str], list[str]]


def request_of(
    epsilon: str | Fraction,
    delta: str = "0",
    analyst: str = "default",
    statement: str = "SELECT 1",
    *,
    entries: tuple[str, ...] | None = None,
    role: str | None = None,
    fingerprint: str = "fingerprint",
    fresh: bool = False,
) -> ChargeRequest:
    """A request of one statement with one release without Gaussian noise, at this price."""
    return asking(
        pure(Fraction(epsilon), Fraction(delta)),
        analyst,
        statement,
        entries=entries,
        role=role,
        fingerprint=fingerprint,
        fresh=fresh,
    )


def asking(
    loss: PrivacyLoss,
    analyst: str = "default",
    statement: str = "SELECT 1",
    *,
    entries: tuple[str, ...] | None = None,
    role: str | None = None,
    fingerprint: str = "fingerprint",
    fresh: bool = False,
) -> ChargeRequest:
    """A request of one statement with one release of this loss."""
    return ChargeRequest(
        analyst,
        "version",
        statement,
        (fingerprint,),
        ("laplace scale=10",),
        (Portion(loss, entries),),
        role,
        ('{"release": "fingerprint"}',),
        fresh,
    )


@pytest.fixture(scope="session")
def asks() -> Asks:
    """Requests by their price."""
    return request_of


@pytest.fixture(scope="session")
def loses() -> Asks:
    """Requests by their loss."""
    return asking


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
from dpsql.core.errors import Error
from dpsql.core.loss import EpsilonDelta
from dpsql.mechanisms.conversions import pure
from dpsql.plan.charges import Budget, ChargeRequest, Portion
PRICE = Portion(pure(Fraction(1, 100)))
REQUEST = ChargeRequest("default", "version", "SELECT 1", ("f",), ("laplace",), (PRICE,))
def budget(statements):
    return Budget(EpsilonDelta(Fraction(statements, 100), Fraction(0)))
"""


@pytest.fixture(scope="session")
def script() -> Script:
    """The command line of a Python process that runs some lines after PREAMBLE, from the project's folder."""

    def command(body: str) -> list[str]:
        return [sys.executable, "-c", PREAMBLE + body]

    return command
