"""A statement that what is stored answers with a larger error: the question whether it is bought, and the statement with the answer."""

from __future__ import annotations

from typing import TypeGuard

from dpsql.core.errors import Error


def is_asked_back(problem: BaseException | None) -> TypeGuard[Error]:
    """True of the error that asks whether a statement is to be bought; nothing was charged for it."""
    return isinstance(problem, Error) and problem.code == "DPSQL-505" and "buy=on" in (problem.hint or "")


def question(problem: Error) -> str:
    """The question, whose usual answer costs nothing."""
    return f"{problem.message[:1].upper()}{problem.message[1:]}. Buy it? [y/N, which reads it off] "


def answered(sql: str, *, bought: bool) -> str:
    """The statement with what was said."""
    return f"/* dpsql: buy={'on' if bought else 'off'} */ {sql}"
