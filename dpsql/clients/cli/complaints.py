"""Errors on standard error, and the exit code that goes with each."""

from __future__ import annotations

import sys

from dpsql.core.errors import (
    BudgetError,
    Error,
    IntegrityError,
    InterfaceError,
    InternalError,
    OperationalError,
    SchemaError,
)
from dpsql.core.escaping import harmless

REFUSED, USAGE, EXHAUSTED, FAILED, INTERRUPTED = 1, 2, 3, 4, 130


def complain(problem: Error, text: str) -> int:
    """Print an error and choose the exit code."""

    print(harmless(text, kept="\n\t"), file=sys.stderr)
    if problem.code == "DPSQL-703":
        return INTERRUPTED
    if isinstance(problem, BudgetError):
        return EXHAUSTED
    if isinstance(problem, OperationalError | IntegrityError | InternalError):
        return FAILED
    return USAGE if isinstance(problem, SchemaError | InterfaceError) else REFUSED
