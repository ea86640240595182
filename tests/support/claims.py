"""Two answers without noise, of data with and without one person, beside what is claimed of one person."""

from __future__ import annotations

import re

from dpsql.session.session import Session


def moved(sql: str, sessions: list[Session]) -> float:
    """[l1] By how much the two answers differ."""
    before, after = ({row[:-1]: float(str(row[-1])) for row in session.execute(sql).rows} for session in sessions)
    return sum(abs(after[key] - before.get(key, 0)) for key in after)


def claimed(sql: str, session: Session) -> float:
    """[l1] That is said of one person."""
    told = " ".join(str(row[0]) for row in session.execute(f"EXPLAIN {sql}").rows)
    found = re.search(r"one person changes l0 \d+, linf \d+, l1 (\d+)", told)
    assert found is not None
    return float(found[1])
