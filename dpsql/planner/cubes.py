"""cubes: Bounded -> Compiled. A cube is one release of a block, whose noise is that of its coefficients (mechanisms/residual.py).

What one unit can change
  1. The block is that of SELECT keys, COUNT(*), ... GROUP BY keys, with declared keys alone: rows with other keys are dropped,
     and a unit with more than K rows is cut to K, as in any statement.
  2. A row is in one cell of the cube. There it adds 1 to the number of rows and, of each value, at most W to the centred sum or
     to W times the number of rows without one (aggregates/joint.py).
  3. Each of these statistics is released as the coefficients of its cells. Over their deviations, squared, they add up to the
     same for every cell, and for K rows to at most K^2 times that: rho, in closed form. Where a unit has no value of some key twice,
     as of the year in a table with a row a person and year, it is (1 + 1 / K) / 2 of that.
     With `ways` below the number of keys it is no matter how these cells come about: the engine's rows, one for each combination of
     keys that somebody has, are summed to the marginals, and the coefficients are made of these. The cut of 1. is one and the same
     for all marginals, so that the K rows which move one of them are those that move the others.
  4. The rho of several statistics is the sum of theirs. With k values the number of rows has 1 / (sqrt k + 1) of it, and each
     value 1 / (k + sqrt k).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from math import comb, isqrt, prod

from dpsql.aggregates.base import Limits, Statistic
from dpsql.aggregates.count import Rows
from dpsql.aggregates.joint import Joint, of_cube
from dpsql.aggregates.record import Aggregate, value_key
from dpsql.core.errors import Error, error
from dpsql.core.loss import EpsilonDelta, total
from dpsql.expressions.scalar import Scalar, tree_of
from dpsql.mechanisms.calibration import NO_MU
from dpsql.mechanisms.conversions import rho_at_most
from dpsql.mechanisms.cube_noise import ResidualGaussian
from dpsql.mechanisms.reach import largest_rho
from dpsql.mechanisms.residual import MOST_AXES, MOST_SETS, residual, subsets
from dpsql.plan.compiled import Compiled
from dpsql.plan.releases import Bounded, BoundedBlock, NoisyStatistic, Plan, Release
from dpsql.plan.resolved import Block
from dpsql.planner.cube_terms import CubeTerms
from dpsql.planner.limit import as_listed
from dpsql.planner.lower import lower
from dpsql.planner.measure import Identities, depends_on, unread
from dpsql.planner.partition import entries
from dpsql.planner.pricing import WIDEST_SCALE, accounts_for_rho, too_wide
from dpsql.planner.request import FOR_GRIDS
from dpsql.schema.model import Schema
from dpsql.schema.write import exact
from dpsql.sql.trees import VERSION, fingerprint

WIDEST_OF_CUBE = 2**20
"""Most quanta between the bounds of a value: its noise is many times as wide as rounding to them."""
_PARTS = 10**6
LESS = 1 - Fraction(1, 2**50)
"""Room for what is charged to be rounded up."""


@dataclass(frozen=True, slots=True)
class CalibratedCube:
    """A cube up to its noise.

    noise  of each statistic of its release
    """

    compiled: Compiled
    noise: tuple[ResidualGaussian, ...]


def calibrate_cube(
    bounded: Bounded, terms: CubeTerms, price: CubePrice, schema: Schema, identities: Identities
) -> CalibratedCube:
    """The release of a cube at its price, and its engine SQL. Raises 106, 201, 202, 303, 304.

    price  what is left of it, where values of keys were selected
    """
    part = _only_block(bounded)
    ways = _ways(part.block, terms, schema)
    of = depends_on(part.block, schema)
    statistics = list(_statistics(part.block))
    noise = _noise(part, statistics, ways, price.rho * LESS)
    release = _measured(part, statistics, noise, price.asked.delta * FOR_GRIDS / len(statistics), schema)
    name = _fingerprint(part, release, ways, price, identities.of(of))
    release = replace(release, fingerprint=name, entries=entries(part.block.source, schema), tables=of)
    release = replace(release, unread=unread(part, of, schema))
    compiled = Compiled(Plan((release,), bounded.post_query, release.loss, price.asked), (lower(release),))
    return CalibratedCube(compiled, noise)


@dataclass(frozen=True, slots=True)
class CubePrice:
    """The price of a cube.

    asked  what was asked for
    rho    that its cells cost
    """

    asked: EpsilonDelta
    rho: Fraction


def price_of(terms: CubeTerms, schema: Schema) -> CubePrice:
    """The price of a cube whose keys are declared. Raises 104, 502, 503."""
    price = terms.price(schema)
    if not accounts_for_rho(schema.privacy):
        what = "a cube costs rho, and this dataset adds up epsilon alone"
        raise error(104, what, hint='its owner may write accounting = "auto" or "zcdp" in a new ledger\'s schema')
    require_least(price, schema, terms.NOUN)
    return CubePrice(price, rho_of(price))


def rho_of(price: EpsilonDelta) -> Fraction:
    """The rho that a price of epsilon and delta buys.

    Why  with a delta that is large beside its epsilon the conversion gives more than the rho that any price of this epsilon stands for,
         which is the most that a statement may cost
    """
    return min(largest_rho(price), rho_at_most(price.epsilon))


def require_least(price: EpsilonDelta, schema: Schema, noun: str) -> None:
    """Raises 503 for a cube, or a model, that costs less than the owner lets any statement cost, both as rho (rule 74)."""
    least = rho_at_most(schema.privacy.floor)
    if rho_of(price) >= least:
        return
    enough = price.epsilon
    while rho_of(replace(price, epsilon=enough)) < least:
        enough *= Fraction(21, 20)
    what = f"a {noun} at epsilon = {float(price.epsilon):g} and delta = {float(price.delta):g} costs less than"
    told = f"{what} the owner's least of {exact(schema.privacy.floor)} for one statement, both as rho"
    raise error(503, told, hint=f"write OPTIONS (epsilon = {_upwards(enough)}) or more, within what the owner allows")


def _upwards(amount: Fraction) -> str:
    """Three digits, rounded up."""
    context = Context(prec=3, rounding=ROUND_CEILING)
    return f"{context.divide(Decimal(amount.numerator), Decimal(amount.denominator)):g}"


def _only_block(bounded: Bounded) -> BoundedBlock:
    together = next((one for part in bounded.blocks for one in part.block.lists if len(one.keys) > 1), None)
    if len(bounded.blocks) == 1 and together is not None:
        what = (
            "each key of a cube has a list of its own, and some of these are listed together, for one decides another"
        )
        span = bounded.blocks[0].block.keys[together.keys[-1]].span
        raise error(303, what, hint="leave one of them out, and make another cube with it", span=span)
    if len(bounded.blocks) != 1 or bounded.bounds:
        what = "a cube is made of one SELECT over people's rows, and this is made of several"
        raise error(104, what, hint="write SELECT keys, COUNT(*) FROM t GROUP BY CUBE (keys)")
    part = bounded.blocks[0]
    block = part.block
    for key in block.keys:
        if key.listed is None and as_listed(key).values is not None:
            what = "all keys together make more groups than the owner's max_cells"
            raise error(304, what, hint="write OPTIONS (ways = 2) for groups by two of them at a time", span=key.span)
        if key.listed is None:
            raise error(303, "a public table lists this key", hint="declare a domain for the column", span=key.span)
    if not block.keys or not block.aggregates:
        what = "a cube has keys, and numbers of their groups"
        raise error(104, what, hint="write SELECT key, COUNT(*) FROM t GROUP BY CUBE (key)")
    for aggregate in block.aggregates:
        _check_additive(aggregate)
    # what a cube is of is rows: which groups a unit is in is no matter
    limits = Limits(part.limits.rows, part.limits.rows)
    return replace(part, limits=limits if part.enforced else part.limits)


def _check_additive(aggregate: Aggregate) -> None:
    """Raises 106 for what no cube holds."""
    if aggregate.record.of_cube is None:
        raise _not_held(aggregate, "COUNT(*), COUNT(x), SUM(x) and AVG(x)")
    if aggregate.condition is not None:
        raise _not_held(aggregate, "numbers of all of its rows, without FILTER")
    if aggregate.argument is not None and aggregate.argument.unit_bounds is not None:
        raise _not_held(aggregate, "sums within the bounds of a value, not of a person's total")


def _not_held(aggregate: Aggregate, what: str) -> Error:
    hint = "leave it out of the cube, and ask it as a statement"
    return error(106, f"a cube holds {what}", hint=hint, span=aggregate.span)


def _ways(block: Block, terms: CubeTerms, schema: Schema) -> int:
    """Of at most how many keys groups are told together. Raises 304 for too many groups in all."""
    keys = len(block.keys)
    ways = min(keys, terms.ways or keys)
    if sum(comb(keys, size) for size in range(ways + 1)) > MOST_SETS:
        what = f"a cube has groups by at most {MOST_SETS} sets of keys, and {keys} keys have more by {ways}"
        hint = f"leave keys out: all of {MOST_AXES} may be told together" + ", or write ways = 2" * (ways > 2)
        raise error(304, what, hint=hint, span=block.keys[min(MOST_AXES, keys - 1)].span)
    if coefficients([key.levels for key in block.keys], ways) > schema.privacy.max_cells:
        what = f"the declared keys make more than {schema.privacy.max_cells:,} cells by {ways}"
        raise error(304, what, hint="write fewer ways, or fewer or coarser columns", span=block.keys[-1].span)
    return ways


def coefficients(shape: Sequence[int], ways: int) -> int:
    """Number of coefficients of a cube."""
    return sum(prod(shape[axis] - 1 for axis in axes) for axes in subsets(len(shape), ways))


def values_of(block: Block) -> dict[Hashable, Aggregate]:
    """The values that sums are needed of, each with an aggregate of it."""
    found: dict[Hashable, Aggregate] = {}
    for aggregate in block.aggregates:
        if aggregate.argument is not None:
            found.setdefault(value_key(aggregate.argument), aggregate)
    return found


def centred(aggregate: Aggregate, value: Scalar) -> Joint:
    """The statistic of a value in a cube. Raises 201."""
    return of_cube(aggregate.term(value, WIDEST_OF_CUBE))


@dataclass(frozen=True, slots=True)
class CubePart:
    """A statistic of a cube, and the most that a row adds to each of its cells; the first cell's is the largest."""

    statistic: Statistic
    weights: tuple[int, ...]


def _statistics(block: Block) -> Iterator[CubePart]:
    yield CubePart(Rows(None), (1,))
    for aggregate in values_of(block).values():
        assert aggregate.argument is not None
        one = centred(aggregate, aggregate.argument)
        yield CubePart(one, (one.blocks[0].weight,) * one.cells)


def _shares(values: int) -> list[Fraction]:
    """Shares of rho: of the number of rows, and of each value.

    Why  with them the errors of all, each over the most that a row moves it, are as small together as one vector's (rule 67)
    """
    if not values:
        return [Fraction(1)]
    root = Fraction(isqrt(values * _PARTS**2), _PARTS)
    first = 1 / (root + 1)
    return [first, *[(1 - first) / values] * values]


def _noise(
    part: BoundedBlock, statistics: Sequence[CubePart], ways: int, rho: Fraction
) -> tuple[ResidualGaussian, ...]:
    """Raises 202 where it would be too wide."""
    shape = tuple(key.levels for key in part.block.keys)
    rows, apart = part.limits.rows, _apart(part.block)
    found = tuple(
        ResidualGaussian(residual(shape, ways, rho * share, rows, apart), one.weights, rows, apart)
        for one, share in zip(statistics, _shares(len(statistics) - 1), strict=True)
    )
    largest = sorted(max(1, n * (n - 1)) for n in shape)[-ways:]
    if any(one.squared_scale * prod(largest) > WIDEST_SCALE**2 for one in found):
        raise too_wide()
    return found


def _apart(block: Block) -> int | None:
    """The place of a key of which a unit has no value twice; None where none is known.

    Why  a declared key of the unit and one column is verified like all structure (rule 36), and is kept by what joins keep. Rows with
         values that were not selected are on one level, however many values these are: of such a key nothing is known
    """
    source = block.source
    unit = source.unit.column.tree if source.unit is not None and source.unit.column is not None else None
    columns = frozenset().union(*(key - {unit} for key in source.unique if unit in key and len(key) == 2))
    listed = ((place, key.scalar) for place, key in enumerate(block.keys) if key.selected is None)
    keys = (place for place, scalar in listed if scalar.tree in columns and not scalar.nullable)
    return next(keys, None)


def _measured(
    part: BoundedBlock,
    statistics: Sequence[CubePart],
    noise: Sequence[ResidualGaussian],
    for_grid: Fraction,
    schema: Schema,
) -> Release:
    """The release of a cube.

    for_grid  [probability] the most that the grid of each statistic's noise may spend; where it needs more, no mu is claimed
    """
    measures: list[NoisyStatistic] = []
    for i, (one, own) in enumerate(zip(statistics, noise, strict=True)):
        sensitivity = one.statistic.sensitivity(part.limits)
        loss = own.loss(sensitivity.l2_squared, schema.privacy.budget.epsilon)
        if loss.delta > for_grid:
            loss = replace(loss, delta=Fraction(0), mu_squared=NO_MU)
        measures.append(NoisyStatistic(f"m{i}", one.statistic, sensitivity, own, loss))
    made = noise[0].residual
    marginals = () if made.is_whole else tuple(tuple(sorted(axes)) for axes in made.squared)
    loss = total(m.loss for m in measures)
    return Release(part, tuple(measures), None, (), loss, "", is_cube=True, marginals=marginals)


def _fingerprint(part: BoundedBlock, release: Release, ways: int, price: CubePrice, identity: str) -> str:
    """Fingerprint of the question: no variance, which follows from it."""
    block, source = part.block, part.block.source
    return fingerprint(
        source.read(),
        VERSION,
        "cube of even variances",
        tree_of(source.unit.column) if source.unit is not None else None,
        frozenset(condition.tree for condition in source.where),
        # what selections leave of the price hangs on their limits on one unit's values too
        tuple(
            (key.scalar.tree, key.values if key.selected is None else ("selected", key.selected, str(price.rho)))
            for key in block.keys
        ),
        (part.limits.rows, part.enforced, _apart(block)),
        tuple(measure.statistic.identity for measure in release.measures),
        ways,
        f"{price.asked.epsilon} {price.asked.delta}",
        identity,
    )
