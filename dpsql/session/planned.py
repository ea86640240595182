"""Planned statements: up to their noise, before anything is charged."""

from __future__ import annotations

from dataclasses import dataclass

from dpsql.guard.guarding import Judged
from dpsql.plan.compiled import Compiled
from dpsql.planner.parse import Query


@dataclass(frozen=True, slots=True)
class Planned:
    """A query up to its noise."""

    query: Query
    judged: Judged
    plan: Compiled
