"""A server and its clients: statements a second that are bought, and that are stored, beside the same in one process; and whether what
200 clients were told they paid is what the ledger holds."""

from __future__ import annotations

import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import dpsql
from tests.bench.timing import heading, show
from tests.support.crowd import SQL, Crowd, ask, conditions, spent
from tests.support.served import Served, children, dataset, served

CLIENTS, STATEMENTS, CROWD = 20, 20, 200
USERS = tuple(f"user{number}" for number in range(20))


def measure() -> None:
    heading("a server: small statements, two workers")
    with tempfile.TemporaryDirectory() as folder:
        path = dataset(Path(folder), analysts=USERS, budget=5000.0)
        with served(path, "--workers", "2") as server:
            # sessions of all analysts are open in both workers
            ask(server, CLIENTS, 4, USERS, fresh=True)
            begun = len(spent(path))
            asked = [
                _timed(server, name, fresh=fresh, alike=alike)
                for name, fresh, alike in (
                    ("bought", True, False),
                    ("stored, each its own", False, False),
                    ("stored, each its own again", False, False),
                    ("stored, one dashboard", False, True),
                    ("stored, one dashboard again", False, True),
                )
            ]
            crowd = ask(server, CROWD, STATEMENTS, USERS, fresh=True)
        prices = [float(price) for price in (*asked[0].crowd.prices, *crowd.prices)]
        kept = spent(path)[begun:]
        rows = [one.row for one in asked]
        rows += [(f"in one process, {name}", f"{_inside(path, fresh=fresh):,.0f}", "", "", "") for name, fresh in
                 (("bought", True), ("stored", False))]  # fmt: skip
        show(("", "a second", "front [ms]", "workers [ms]", "a second of two cores"), rows)
        same = "as in the ledger" if sorted(prices) == sorted(kept) else "NOT as in the ledger"
        print(
            f"{CROWD} clients x {STATEMENTS}: {len(crowd.prices):,} bought, {len(crowd.refused)} refused; receipts are {same}"
        )


@dataclass
class Asked:
    """Statements of a crowd, the time that they took, and the processor's time of front and workers [seconds]."""

    name: str
    crowd: Crowd
    seconds: float
    front: float
    workers: float

    @property
    def row(self) -> tuple[str, ...]:
        """Statements a second as it was, and as two cores can that do nothing else."""
        count = CLIENTS * STATEMENTS
        front, workers = self.front / count * 1000, self.workers / count * 1000
        most = 2000 / max(front + workers, 1e-3)  # a tick of the clock is longer than few statements take
        return self.name, f"{count / self.seconds:,.0f}", f"{front:.1f}", f"{workers:.1f}", f"{most:,.0f}"


def _timed(server: Served, name: str, *, fresh: bool, alike: bool) -> Asked:
    began, before = time.monotonic(), _processor(server)
    found = ask(server, CLIENTS, STATEMENTS, USERS, fresh=fresh, alike=alike)
    seconds, after = time.monotonic() - began, _processor(server)
    return Asked(name, found, seconds, after[0] - before[0], after[1] - before[1])


def _processor(server: Served) -> tuple[float, float]:
    """[seconds] of front and workers since they started."""
    front, workers = 0.0, 0.0
    for pid, line in children(server.process.pid):
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        seconds = (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")
        front, workers = (front + seconds, workers) if "server.front" in line else (front, workers + seconds)
    return front, workers


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
