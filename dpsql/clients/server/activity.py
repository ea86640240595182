"""Statements that a server was asked since it started: numbers for Prometheus, and the newest for the owner's page.

Why     nothing here follows from the data: who asked, when, a hash of the text, the code that came of it, and the price. No rows, no
        sizes, no times of the engine
"""

from __future__ import annotations

import hashlib
from collections import Counter, deque
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fractions import Fraction

MOST_KEPT = 500
GOOD = "00000"
_LABEL = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


@dataclass(frozen=True, slots=True)
class Told:
    """One statement that was answered or refused.

    code     GOOD, or the SQLSTATE of what came of it
    epsilon  [nats] its price as text; "" where it has none
    sql      its text, where the owner wants that written down; else None
    """

    time: str
    user: str
    dataset: str
    statement: str
    code: str
    epsilon: str
    sql: str | None = None

    @staticmethod
    def now(user: str, dataset: str, sql: str, code: str, epsilon: str, *, with_text: bool) -> Told:
        hashed = hashlib.sha256(sql.encode("utf-8", "backslashreplace")).hexdigest()[:16]
        time = datetime.now(UTC).isoformat(timespec="milliseconds")
        return Told(time, user, dataset, hashed, code, epsilon, sql if with_text else None)


@dataclass(slots=True)
class Activity:
    """Counts since the server started.

    codes   statements by dataset and code
    epsilon [nats] of what they cost, by dataset
    """

    codes: Counter[tuple[str, str]] = field(default_factory=Counter)
    epsilon: dict[str, Fraction] = field(default_factory=dict)
    newest: deque[Told] = field(default_factory=lambda: deque(maxlen=MOST_KEPT))

    def add(self, told: Told) -> None:
        self.codes[told.dataset, told.code] += 1
        if told.epsilon:
            self.epsilon[told.dataset] = self.epsilon.get(told.dataset, Fraction(0)) + Fraction(told.epsilon)
        self.newest.appendleft(told)

    def metrics(self, dataset: str, clients: int) -> str:
        """The numbers of one dataset in Prometheus's text format.

        clients  connections now, of all datasets
        """
        name = dataset.translate(_LABEL)
        lines = [
            "# HELP dpsql_statements_total Statements since the start, by what came of them.",
            "# TYPE dpsql_statements_total counter",
        ]
        for (of, code), count in sorted(self.codes.items()):
            if of == dataset:
                lines.append(f'dpsql_statements_total{{dataset="{name}",code="{code}"}} {count}')
        lines += [
            "# HELP dpsql_epsilon_total Epsilon that statements cost since the start.",
            "# TYPE dpsql_epsilon_total counter",
            f'dpsql_epsilon_total{{dataset="{name}"}} {float(self.epsilon.get(dataset, Fraction(0))):.9g}',
            "# HELP dpsql_clients Connections of PostgreSQL's protocol now.",
            "# TYPE dpsql_clients gauge",
            f"dpsql_clients {clients}",
        ]
        return "\n".join(lines) + "\n"
