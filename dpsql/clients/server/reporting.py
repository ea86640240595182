"""Spending as it stands in the ledger, as JSON for the server's page: everything for the owner, and for an analyst their own."""

from __future__ import annotations

from datetime import datetime

from dpsql.accounting.cubes import CUBES
from dpsql.accounting.ledger import Ledger
from dpsql.accounting.named import Names
from dpsql.accounting.reporting import report
from dpsql.accounting.spending import BudgetTotal
from dpsql.clients.dbapi.packed import Json, pack
from dpsql.clients.server.frames import Message
from dpsql.core.escaping import harmless
from dpsql.core.loss import PrivacyLoss
from dpsql.mechanisms.prices import nominal
from dpsql.schema.model import Schema
from dpsql.session.cubes import numbers_of
from dpsql.session.result import Answer
from dpsql.session.session import Session

MOST_CHARGES = 20_000
"""The newest charges that the page draws."""
LONGEST_STATEMENT = 300


def of_owner(schema: Schema, ledger: Ledger, session: Session) -> Message:
    """Budget, analysts, charges, failures, versions and cubes of one dataset."""
    found = report(schema, ledger)
    return {
        "dataset": schema.name,
        "promise": found.privacy.accounting,
        "window": found.privacy.window,
        "totals": [_total(one) for one in found.totals],
        "analysts": [
            {
                "name": one.name, "cap": None if one.epsilon is None else float(one.epsilon), "spent": _epsilon(one.spent.loss),
                "remaining": float(one.remaining.epsilon), "charges": one.charges,
            }
            for one in found.spenders
        ],
        "charges": [
            [one.id, one.time, one.analyst, _epsilon(one.loss), _short(one.statement)] for one in found.charges[-MOST_CHARGES:]
        ],
        "failures": [{"charge": one.charge, "time": one.time, "analyst": one.analyst, "kind": one.kind} for one in found.failures],
        "versions": _rows(session.execute("SHOW VERSIONS")),
        "cubes": _cubes(schema, ledger),
    }  # fmt: skip


def of_analyst(schema: Schema, analyst: str, session: Session) -> Message:
    """The same as the analyst's own SQL shows it: their charges, and the totals that apply to them."""
    charges = session.execute("SELECT id, time, analyst, epsilon, statement FROM dpsql.ledger ORDER BY id")
    totals = session.execute("SELECT holder, epsilon, spent_epsilon, remaining_epsilon FROM dpsql.budget")
    own = session.execute("SELECT analyst, epsilon, spent_epsilon, remaining_epsilon, charges FROM dpsql.analysts")
    return {
        "dataset": schema.name,
        "promise": schema.privacy.accounting,
        "window": schema.privacy.window,
        "totals": [
            {"holder": pack(name), "epsilon": pack(whole), "spent": pack(gone), "remaining": pack(left)}
            for name, whole, gone, left in totals.rows
        ],
        "analysts": [
            {"name": pack(name), "cap": pack(cap), "spent": pack(gone), "remaining": pack(left), "charges": pack(count)}
            for name, cap, gone, left, count in own.rows
            if name == analyst
        ],
        "charges": [
            [pack(number), _written(time), pack(who), pack(epsilon), _short(str(statement))]
            for number, time, who, epsilon, statement in list(charges.rows)[-MOST_CHARGES:]
            if who == analyst
        ],
        "failures": [],
        "versions": [],
        "cubes": [],
    }  # fmt: skip


def _cubes(schema: Schema, ledger: Ledger) -> Json:
    """Everybody's cubes: where answers are not shared each analyst has their own, and sees no other."""
    whose = [""] if schema.privacy.shared_answers else [one.name for one in schema.analysts or ()]
    found = sorted((cube for name in whose for cube in Names(ledger, CUBES, name).all()), key=lambda cube: cube.name)
    return [[c.name, ", ".join(c.told), ", ".join(numbers_of(c)), float(c.price[0]), c.time] for c in found]


def _total(one: BudgetTotal) -> Json:
    return {
        "holder": one.holder,
        "epsilon": float(one.total.epsilon),
        "spent": _epsilon(one.spent.loss),
        "remaining": float(one.remaining.epsilon),
    }


def _epsilon(loss: PrivacyLoss) -> float:
    return float(nominal(loss))


def _rows(found: Answer) -> Json:
    return [[pack(value) for value in row] for row in found.rows]


def _written(time: object) -> str:
    return time.isoformat(timespec="milliseconds") if isinstance(time, datetime) else str(time)


def _short(statement: str) -> str:
    text = harmless(" ".join(statement.split()))
    return text if len(text) <= LONGEST_STATEMENT else text[: LONGEST_STATEMENT - 3] + "..."
