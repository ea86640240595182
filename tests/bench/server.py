"""A server and its clients: statements a second that are bought, and that are stored, beside the same in one process; and whether what
200 clients were told they paid is what the ledger holds."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import dpsql
from tests.bench.timing import heading, show
from tests.support.crowd import SQL, Crowd, ask, conditions, spent
from tests.support.served import dataset, served

CLIENTS, STATEMENTS, CROWD = 20, 20, 200
USERS = tuple(f"user{number}" for number in range(20))


def measure() -> None:
    heading("a server: small statements [a second], two workers")
    with tempfile.TemporaryDirectory() as folder:
        path = dataset(Path(folder), analysts=USERS, budget=5000.0)
        with served(path, "--workers", "2") as server:
            ask(server, 2, 1, USERS, fresh=True)
            begun = len(spent(path))
            bought, seconds = _timed(lambda: ask(server, CLIENTS, STATEMENTS, USERS, fresh=True))
            stored, again = _timed(lambda: ask(server, CLIENTS, STATEMENTS, USERS, fresh=False))
            crowd = ask(server, CROWD, STATEMENTS, USERS, fresh=True)
        prices = [float(price) for price in (*bought.prices, *crowd.prices)]
        kept = spent(path)[begun:]
        rows = [
            (
                f"{CLIENTS} clients x {STATEMENTS}, bought",
                f"{CLIENTS * STATEMENTS / seconds:,.0f}",
                f"{len(bought.refused)} refused",
            ),
            (
                f"{CLIENTS} clients x {STATEMENTS}, stored",
                f"{CLIENTS * STATEMENTS / again:,.0f}",
                f"{stored.stored} stored",
            ),
            ("in one process, bought", f"{_inside(path, fresh=True):,.0f}", ""),
            ("in one process, stored", f"{_inside(path, fresh=False):,.0f}", ""),
        ]
        show(("", "a second", ""), rows)
        same = "as in the ledger" if sorted(prices) == sorted(kept) else "NOT as in the ledger"
        print(
            f"{CROWD} clients x {STATEMENTS}: {len(crowd.prices):,} bought, {len(crowd.refused)} refused; receipts are {same}"
        )


def _timed(work: object) -> tuple[Crowd, float]:
    assert callable(work)
    began = time.monotonic()
    found: Crowd = work()
    return found, time.monotonic() - began


def _inside(path: Path, *, fresh: bool) -> float:
    """Statements a second of one connection that asks the same."""
    listed, count = conditions(), 100
    with dpsql.connect(path, analyst=USERS[0]) as connection:
        began = time.monotonic()
        for at in range(count):
            sql = SQL.format(client=0, number=at, condition=listed[at % len(listed)])
            connection.execute(("/* dpsql: fresh */ " if fresh else "") + sql).fetchall()
        return count / (time.monotonic() - began)


if __name__ == "__main__":
    measure()
