"""Blocks whose rows of one unit are limited, and what they may show of few."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from dpsql.aggregates.base import Limits
from dpsql.expressions.scalar import Scalar
from dpsql.plan.resolved import Block, Bound


@dataclass(frozen=True, slots=True)
class Limited:
    """A block with what one unit may contribute to it.

    limits    enforced by the engine SQL
    enforced  False only where the declared keys give a unit one row (verified structure): there is nothing to cut
    """

    block: Block
    limits: Limits
    enforced: bool


@dataclass(frozen=True, slots=True)
class Small:
    """Aggregates that are in some group expected to be about few people.

    condition  on the rows that they are about; None: all rows
    outputs    their names
    """

    condition: Scalar | None
    outputs: tuple[str, ...]


class SmallCells(Protocol):
    """Whom a block asks about: the guard's view of it, from the text and the declared schema alone."""

    def small(self, limited: Sequence[Limited], bounds: Sequence[Bound]) -> dict[str, tuple[Small, ...]]:
        """For each block, by its name, which of its aggregates are in some group about fewer people than the owner lets be shown."""
        ...
