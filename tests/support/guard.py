"""A guard that remembers nothing."""

from __future__ import annotations

from dpsql.session.session import Session


def forget(session: Session) -> None:
    """Let the guard of a session forget what was asked, for statements that are each tried alone."""
    guarding, charged = session._world.guard, session._world.ledger.asked()
    guarding._history = guarding._audit = None
    guarding._last = charged[-1].charge if charged else 0
