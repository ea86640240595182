"""Many clients of one server at once, each with statements of its own."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

from dpsql.accounting.ledger import Ledger
from dpsql.dataset import owner
from dpsql.mechanisms.prices import nominal
from dpsql.schema.toml import read_schema
from dpsql.session.opening import default_ledger, ledger_identity
from tests.support.raw_client import RawClient, errors, fields, rows
from tests.support.served import Served

SQL = "SELECT COUNT(*) AS n_{client}_{number} FROM person WHERE {condition}"


@dataclass
class Crowd:
    """Answers of all clients: prices of what they bought, what was refused, and what was asked again and stored."""

    prices: list[Decimal] = field(default_factory=list)
    stored: int = 0
    refused: list[str] = field(default_factory=list)


def conditions() -> list[str]:
    """Statements that each are about many people, and differ by many."""
    yes = ("female", "NOT female", "physical_limitation > 0", "education_years > 12", "mental_health_index > 75")
    return (
        [f"site = {site} AND {one}" for site in range(1, 7) for one in yes]
        + [f"site = {site}" for site in range(1, 7)]
        + list(yes)
    )


def ask(
    server: Served, clients: int, statements: int, users: tuple[str, ...], *, fresh: bool, alike: bool = False
) -> Crowd:
    """Each client asks its statements in turn.

    fresh  each statement is bought, also where others asked the same
    alike  all clients ask the same, as those who look at one dashboard do
    """
    found, turn = Crowd(), threading.Lock()

    def one(number: int) -> None:
        with RawClient(server.port) as client:
            client.login(users[number % len(users)])
            for at in range(statements):
                listed = conditions()
                who = 0 if alike else number
                sql = SQL.format(client=who, number=at, condition=listed[(who * statements + at) % len(listed)])
                said = client.query(("/* dpsql: fresh */ " if fresh else "") + sql)
                with turn:
                    _count(found, said)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def _count(found: Crowd, said: list[tuple[bytes, bytes]]) -> None:
    found.refused += [told["C"] + " " + told["M"] for told in errors(said)]
    notices = [fields(body) for kind, body in said if kind == b"N"]
    for told in notices:
        if "D" in told and len(rows(said)) == 1:
            price = json.loads(told["D"])
            if price["releases"]:
                found.prices.append(Decimal(str(price["epsilon"])))
            found.stored += price["cached"]


def spent(path: Path) -> list[float]:
    """The prices in the ledger of a dataset, in order."""
    schema = read_schema(path)
    ledger = Ledger.open(default_ledger(schema), ledger_identity(schema))
    try:
        return [float(nominal(entry.loss)) for entry in owner.budget(schema, ledger).charges]
    finally:
        ledger.close()
