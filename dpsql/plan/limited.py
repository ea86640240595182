"""Blocks whose rows of one unit are limited, and what they may show of few."""

from __future__ import annotations

from dataclasses import dataclass

from dpsql.aggregates.base import Limits
from dpsql.expressions.scalar import Scalar
from dpsql.plan.resolved import Block, Bound, Shell


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


@dataclass(frozen=True, slots=True)
class Bounded:
    """A resolved statement whose blocks are limited.

    blocks  each after those that it reads
    bounds  each after what it reads
    """

    blocks: tuple[Limited, ...]
    bounds: tuple[Bound, ...]
    shell: Shell
