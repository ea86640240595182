"""What the declared number of people already tells of a release: that no group can be shown, or hardly any value.

The number is an estimate, so it refuses nothing (rule 56). What it says stands in EXPLAIN and beside the answer, whatever the data.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from dpsql.core.wording import number
from dpsql.plan.compiled import Compiled
from dpsql.plan.releases import Release
from dpsql.planner.shares import people
from dpsql.schema.model import Schema

REMEDY = "group by fewer or coarser columns"


def expected(compiled: Compiled, schema: Schema) -> tuple[str, ...]:
    """One sentence for each release that the declared number of people lets show nothing, or little."""
    found = (line for release in compiled.plan.releases for line in _of(release, schema))
    return tuple(dict.fromkeys(found))


def _of(release: Release, schema: Schema) -> Iterator[str]:
    block, selection = release.limited.block, release.selection
    units = people(block.source, schema.privacy.units)
    if units is None:
        return
    if selection is not None and selection.tau > units:
        yield (
            f"a group is shown from {selection.tau:,} people on, and {units:,} are declared: none can be expected; "
            f"{REMEDY}, declare a domain, or spend more epsilon"
        )
    groups, k = block.groups, max((one.k for one in release.suppressed), default=0)
    if groups is None or not groups:
        return
    mean = Fraction(units * release.limited.limits.groups, groups)
    if mean < k:
        yield (
            f"{groups:,} groups and {units:,} declared people leave at most {number(float(f'{float(mean):.2g}'))} for one, and "
            f"values of fewer than {k} are not shown: few can be expected; {REMEDY}"
        )
