"""A relation whose rows of one unit are bounded."""

from __future__ import annotations

from dataclasses import dataclass

from dpsql.aggregates.base import Limits
from dpsql.plan.resolved import Block


@dataclass(frozen=True, slots=True)
class Limited:
    """A block with what one unit may contribute to it.

    limits    enforced by the engine SQL
    enforced  False only where the declared keys give a unit one row (verified structure): there is nothing to cut
    """

    block: Block
    limits: Limits
    enforced: bool
