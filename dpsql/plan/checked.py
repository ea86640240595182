"""Engine SQL that was seen to be total, with what is known of every part of it: what an engine's dialect writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlglot import exp

from dpsql.expressions.known import Known


@dataclass(frozen=True, slots=True)
class Checked:
    """One checked statement.

    text   in DuckDB's words, with its guards
    tree   of that text, as the checker walked it
    known  by the `id` of a node in the tree, what its value can be: type, limits, whether NULL
    """

    text: str
    tree: exp.Expression
    known: Mapping[int, Known]
