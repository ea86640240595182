"""Words of EXPLAIN for the parts of statistics and histograms."""

from __future__ import annotations

from collections.abc import Callable

from dpsql.aggregates.term import Term
from dpsql.core.wording import number
from dpsql.expressions.scalar import Scalar

Say = Callable[[Scalar], str]
"""An expression under the names that the statement gives its columns."""


def where(condition: Scalar | None, say: Say) -> str:
    return f" where {say(condition)}" if condition is not None else ""


def bounds(term: Term) -> str:
    return f"[{number(term.lower * term.quantum)}, {number(term.upper * term.quantum)}]"


def clamped(term: Term, say: Say) -> str:
    return f"{say(term.scalar)} clamped to {bounds(term)} in quanta of {number(term.quantum)}"


def has_bounds(term: Term, say: Say) -> str:
    return f"{say(term.scalar)} has bounds, {bounds(term)}"
