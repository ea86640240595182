"""The way of one statement: session/answer.py calls the stages, in order, and each of them once."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import pytest

from dpsql.session.opening import open_session
from dpsql.session.session import Session
from tests.support.noise import ZeroNoise

ROOT = Path(__file__).parents[2]
SQL = "SELECT site, AVG(income) AS mean FROM person GROUP BY site HAVING COUNT(*) > {} ORDER BY mean"
MOST_FILES = 99
"""Of the package, that one warm SELECT runs: it goes down."""
STAGES = ("parse", "resolve", "bound", "judge", "calibrate", "describe", "look_up", "buy")


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    opened = open_session(ROOT / "examples/randhie/schema.toml", None, ":memory:", noise=ZeroNoise())
    opened.execute(SQL.format(1))
    yield opened
    opened.close()


def traced(session: Session, sql: str) -> list[tuple[str, str, str]]:
    """Each call of a function of dpsql while a statement is answered: (file, function, the file that calls it)."""
    calls: list[tuple[str, str, str]] = []

    def told(frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and f"{ROOT}/dpsql/" in frame.f_code.co_filename:
            caller = frame.f_back.f_code.co_filename if frame.f_back is not None else ""
            calls.append((frame.f_code.co_filename, frame.f_code.co_name, caller))

    sys.setprofile(told)
    try:
        session.execute(sql)
    finally:
        sys.setprofile(None)
    return calls


def test_the_stages_are_called_in_order_and_once(session: Session) -> None:
    here = f"{ROOT}/dpsql/session/answer.py"
    called = [name for _, name, caller in traced(session, SQL.format(2)) if caller == here and name in STAGES]
    assert tuple(called) == STAGES


def test_a_stored_answer_is_not_charged_again(session: Session) -> None:
    """A stage that was skipped, or an option left out of what an answer is known by, would show here."""
    session.execute(SQL.format(3))
    names = [name for _, name, _ in traced(session, SQL.format(3))]
    assert "buy" not in names and "resolve" not in names, "the newest answer to the same text"
    session.execute("SET dp_epsilon = 0.01")
    names = [name for _, name, _ in traced(session, SQL.format(3))]
    session.execute("RESET dp_epsilon")
    assert "look_up" in names, "at another price it is another question"


def test_a_statement_runs_few_files(session: Session) -> None:
    """A file that runs for one trivial function belongs to a neighbour."""
    files = {name for name, _, _ in traced(session, SQL.format(4))}
    assert len(files) <= MOST_FILES, sorted(files)


def test_only_the_audit_of_invented_tables_draws_a_release_many_times() -> None:
    """A charge pays for one release: whoever draws more of what people left in the data gives it away."""
    named = re.compile(r"\brepeated\b.*\(|import .*\brepeated\b")
    files = (file for file in (ROOT / "dpsql").rglob("*.py") if named.search(file.read_text("utf-8")))
    users = [file.relative_to(ROOT).as_posix() for file in files]
    assert sorted(users) == ["dpsql/release/noisy.py", "dpsql/session/auditing.py"]
