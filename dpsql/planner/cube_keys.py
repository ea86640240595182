"""cube_keys: keys of a cube that have no list -> one private selection of the values of each, which is released before the cube.

What one unit can change
  1. A selection is the release of SELECT key FROM ... GROUP BY key: it loses what private selection of that key alone does, with the
     same limit on how many values one unit counts in, and delta is that of its threshold.
  2. What it released is public when the cube is made. Which level of an axis a row is on, that of its value or the last one, of all
     others, is a function of the row and of the list alone; so a row is on one level of every axis, as with declared keys, and
     nothing is dropped. The cube's loss is that of a cube with these levels.
  3. The cube's noise is chosen after the selections are released, with what their losses leave of the price: losses that are fixed
     before each of them runs add up (rule 33). Each is charged before it runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from dpsql.core.errors import error
from dpsql.core.loss import EpsilonDelta
from dpsql.mechanisms.conversions import epsilon_at_most_rho, rho_at_most
from dpsql.plan.compiled import Compiled, CompiledRelease
from dpsql.plan.releases import Bounded, BoundedBlock, Plan
from dpsql.plan.resolved import GroupKey
from dpsql.plan.tables import KeyValue, NoisyTable
from dpsql.planner.cube_terms import CubeTerms
from dpsql.planner.cubes import CubePrice, coefficients, rho_of
from dpsql.planner.limit import as_listed, limit
from dpsql.planner.lower import lower
from dpsql.planner.measure import Identities, depends_on, measure, unread
from dpsql.planner.options import Options
from dpsql.planner.partition import entries
from dpsql.planner.pricing import Accounted
from dpsql.planner.request import Request
from dpsql.schema.model import Schema

RHO, DELTA = Fraction(1, 4), Fraction(1, 2)
"""The part of its rho and of its delta that all selections of a cube have together."""
_EITHER = ("gaussian", "laplace")


def unlisted(bounded: Bounded) -> tuple[int, ...]:
    """The places of the keys that have no list, nor could have one."""
    if len(bounded.blocks) != 1:
        return ()
    block = bounded.blocks[0].block
    return tuple(i for i, key in enumerate(block.keys) if block.is_selected(i) and as_listed(key).values is None)


def selections(
    bounded: Bounded, places: Sequence[int], terms: CubeTerms, price: CubePrice, schema: Schema, identities: Identities
) -> tuple[tuple[Compiled, ...], CubePrice]:
    """The selection of each key at some places, and what is left of the price for the cube. Raises 202, 303, 401."""
    if not places:
        return (), price
    delta = price.asked.delta * DELTA
    whole = rho_of(replace(price.asked, delta=price.asked.delta - delta))
    own = EpsilonDelta(epsilon_at_most_rho(whole * RHO / len(places)), delta / len(places))
    accounted = Accounted(schema.privacy.budget.epsilon, True, _EITHER)
    request = Request(own, rho_at_most(own.epsilon), accounted, "auto")
    found = tuple(_selection(bounded, place, terms, request, schema, identities) for place in places)
    left = whole - sum((one.plan.loss.rho for one in found), Fraction(0))
    if left <= 0:
        raise error(901, "selections cost more than the cube")
    return found, CubePrice(replace(price.asked, delta=delta), left)


def _selection(
    bounded: Bounded, place: int, terms: CubeTerms, request: Request, schema: Schema, identities: Identities
) -> Compiled:
    part = _alone(bounded, place, terms, schema)
    of = depends_on(part.block, schema)
    release = measure(part, request, identities.of(of), {})
    release = replace(release, entries=entries(part.block.source, schema), tables=of, unread=unread(part, of, schema))
    return Compiled(Plan((release,), bounded.post_query, release.loss, request.price), (lower(release),))


def _alone(bounded: Bounded, place: int, terms: CubeTerms, schema: Schema) -> BoundedBlock:
    """The block with one of its keys, and nothing else asked."""
    block = bounded.blocks[0].block
    alone = replace(block, keys=(block.keys[place],), aggregates=())
    return limit(alone, Options(max_rows=terms.max_rows, max_groups=terms.max_groups), schema)


def with_selected(
    bounded: Bounded, released: Mapping[int, NoisyTable | None], ways: int | None, schema: Schema
) -> Bounded:
    """The question of a cube with the values that were released of some keys: of one that is not released yet, none."""
    if not released:
        return bounded
    (part,) = bounded.blocks
    keys = list(part.block.keys)
    for place, table in released.items():
        keys[place] = replace(keys[place], selected=_values(table))
    _fit(keys, released, ways or len(keys), schema.privacy.max_cells)
    return replace(bounded, blocks=(replace(part, block=replace(part.block, keys=tuple(keys))),))


def _values(table: NoisyTable | None) -> tuple[KeyValue, ...]:
    return tuple(table.keys[0]) if table is not None else ()


def _fit(keys: list[GroupKey], released: Mapping[int, NoisyTable | None], ways: int, most: int) -> None:
    """Leave out the rarest values of the longest lists until the cube has at most so many cells.

    Why  which are the rarest is read off the noisy numbers of people that selected them, which were released
    """
    while coefficients([key.levels for key in keys], min(ways, len(keys))) > most:
        place = max(released, key=lambda i: keys[i].levels)
        values = keys[place].selected
        if not values:
            # its declared keys alone have too many
            return
        table = released[place]
        assert table is not None
        often = dict(zip(table.keys[0], table.known()[0].tolist(), strict=True))
        common = sorted(values, key=lambda value: -often[value])[: len(values) - 1 - len(values) // 16]
        keys[place] = replace(keys[place], selected=tuple(value for value in values if value in common))


def tau_of(selection: CompiledRelease) -> int:
    """[people] The noisy number from which a value is selected."""
    chosen = selection.release.selection
    assert chosen is not None
    return chosen.tau
