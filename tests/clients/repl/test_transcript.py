"""The session in examples/session.md is what the prompt does."""

from __future__ import annotations

from tests.clients.repl.transcript import entered, replayed, session


def test_the_session_in_the_examples_is_true() -> None:
    body = session().body
    assert len(entered(body)) > 5
    assert replayed(body) == body
