"""Reading [limits]: what one statement of an analyst may take."""

from __future__ import annotations

from dpsql.schema.model import Limits
from dpsql.schema.section import Section
from dpsql.schema.sizes import size

LIMITS = {"seconds": "60", "memory": '"2GB"', "rows": "1000000", "plan_seconds": "5"}
LEAST_MEMORY, MOST_MEMORY = 64 * 10**6, 10**15
"""[bytes] with less DuckDB opens next to nothing."""


def read_limits(top: Section) -> Limits:
    """The limits as they are written; each that is not has its default."""
    section = top.inner("limits", LIMITS, "[limits]")
    if section is None:
        return Limits()
    own = Limits()
    return Limits(
        section.positive("seconds") or own.seconds,
        _memory(section) or own.memory,
        section.count("rows") or own.rows,
        section.positive("plan_seconds") or own.plan_seconds,
    )


def _memory(section: Section) -> int | None:
    """[bytes]; None where it is absent or wrong (reported)."""
    written = section.text("memory")
    if written is None:
        return None
    found = size(written)
    if found is None or not LEAST_MEMORY <= found <= MOST_MEMORY:
        section.misfit("memory", "a size, 64MB or more")
        return None
    return found
