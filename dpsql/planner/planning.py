"""bound and calibrate: what one unit may contribute, then noise that fits it, at the price that was asked."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from math import ceil
from types import MappingProxyType

from dpsql.core.errors import Error, error
from dpsql.core.loss import EpsilonDelta, total
from dpsql.core.spans import Span
from dpsql.mechanisms.conversions import rho_at_most
from dpsql.plan.compiled import Compiled
from dpsql.plan.releases import Bounded, BoundedBlock, Plan, Release, Selected, SmallCell
from dpsql.plan.resolved import InputTable, Resolved
from dpsql.plan.tables import redrawn_table
from dpsql.planner import accurate
from dpsql.planner.limit import limit
from dpsql.planner.lower import lower
from dpsql.planner.measure import Identities, MinimumCellSize, depends_on, measure, unread
from dpsql.planner.options import Options
from dpsql.planner.parse import Query
from dpsql.planner.partition import entries
from dpsql.planner.pricing import accounted, too_wide
from dpsql.planner.request import Request
from dpsql.schema.model import RESERVED, Schema
from dpsql.sql.duckdb import quoted


def bound(query: Query, resolved: Resolved, schema: Schema, ways: int | None = None) -> Bounded:
    """Each block with what one unit may contribute to it.

    ways  of at most how many keys groups are told together; None: of all

    Raises 104 for options that do not go together, or not with this statement; 303, 304, 401.
    """
    options = query.settled
    blocks = tuple(limit(block, options, schema, ways) for block in resolved.blocks)
    _check_together(query.options, options, blocks)
    if options.is_joint:
        _check_joint(blocks)
    if options.is_joint or options.is_of_sample:
        option = "jointly" if options.is_joint else "sampling"
        _check_redrawn(blocks, [resolved.post_query.sql, *(table.sql for table in resolved.bounds)], option)
    if options.is_of_sample:
        _check_sampled(blocks)
    if options.accuracy_target is not None:
        accurate.check_statement(blocks, resolved.post_query)
    return Bounded(blocks, resolved.bounds, resolved.post_query)


def calibrate(
    bounded: Bounded,
    options: Options,
    schema: Schema,
    identities: Identities,
    small: Mapping[str, tuple[SmallCell, ...]] = MappingProxyType({}),
) -> Compiled:
    """The releases with their noise, and with their engine SQL. Raises 104, 2xx, 3xx for what has no price or no noise.

    options     of the statement over those of the session
    identities  of the schema
    small       by block, aggregates that the number of people in a group decides about
    """
    price = options.price(schema)
    count = max(1, _paid(bounded.blocks))
    privacy = schema.privacy
    request = Request(
        EpsilonDelta(price.epsilon / count, price.delta / count),
        rho_at_most(price.epsilon) / count,
        accounted(privacy),
        options.mechanism or privacy.mechanism,
        options.weights,
        options.accuracy_target,
        privacy.units,
        privacy.floor,
    )
    releases: list[Release] = []
    for part in bounded.blocks:
        few = MinimumCellSize(small.get(part.block.name, ()), schema.guard.k)
        of = depends_on(part.block, schema)
        release = measure(part, request, identities.of(of), _made_of(bounded.bounds, releases), few)
        releases.append(
            replace(release, entries=entries(part.block.source, schema), tables=of, unread=unread(part, of, schema))
        )
    for release in releases:
        check_price(release, price)
    plan = Plan(tuple(releases), bounded.post_query, total(r.loss for r in releases), price, options.accuracy_target)
    return Compiled(plan, tuple(lower(release, bounded.bounds) for release in releases), bounded.bounds)


def _check_together(own: Options, options: Options, limited: Sequence[BoundedBlock]) -> None:
    """Refuse options that do not go together, or not with this statement. Raises 104."""
    if own.confidence is not None and options.accuracy_target is None:
        raise error(104, "confidence is that of an error, which is not asked", hint="write error=50, confidence=0.95")
    if options.weights is not None and options.accuracy_target is not None:
        raise error(
            104, "an error decides how the price is shared", hint="leave weights out, or name a price: epsilon=0.1"
        )
    paid = _paid(limited)
    if options.weights is not None and paid > 1:
        what = f"weights are for the aggregates of one release, and this statement has {paid}"
        raise error(104, what, hint="leave weights out, or ask them one by one")


def _check_joint(blocks: Sequence[BoundedBlock]) -> None:
    """Refuse what has no error bars that hold together: the noise of several releases. Raises 104."""
    if _paid(blocks) > 1:
        what = f"error bars hold jointly within one release, and this statement has {_paid(blocks)}"
        raise error(104, what, hint="ask them one by one, or write /* dpsql: jointly=off */")


def _check_redrawn(blocks: Sequence[BoundedBlock], texts: Sequence[str], option: str) -> None:
    """Refuse ends that are drawn anew, which are of the noise of each cell alone. Raises 104."""
    if any(quoted(redrawn_table(part.block.name)) in text for part in blocks for text in texts):
        what = "dp_low and dp_high of what is computed hold for the noise of each cell alone"
        raise error(104, what, hint=f"ask them of the aggregates themselves, or write /* dpsql: {option}=off */")


def _check_sampled(blocks: Sequence[BoundedBlock]) -> None:
    """Refuse people with several rows, of which a random sample of people is none. Raises 104."""
    if any(part.limits.rows > 1 for part in blocks):
        what = "the sampling error is known where one person has one row, and here one may have more"
        raise error(104, what, hint="group by the person's key in a subquery, or write /* dpsql: sampling=off */")


def _paid(blocks: Sequence[BoundedBlock]) -> int:
    """Number of those that cost something: keys alone do where they are selected privately."""
    return sum(bool(part.block.aggregates) or part.block.selects for part in blocks)


def _made_of(bounds: tuple[InputTable, ...], releases: list[Release]) -> dict[str, str]:
    """Origins of the input tables: text, with releases by their fingerprints, so that a name is no question."""
    known = {release.name: release.fingerprint for release in releases}
    made: dict[str, str] = {}
    for bound in bounds:
        reads = [known.get(name) or made.get(name, "") for name in bound.reads]
        text = renamed(bound.sql, {name: f"{RESERVED}{i}" for i, name in enumerate(bound.reads)})
        made[bound.name] = hashlib.sha256("\n".join([text, *reads]).encode()).hexdigest()
    return made


_TOKEN = re.compile(r"""'(?:[^']|'')*'|(?P<name>"(?:[^"]|"")*")""")


def renamed(sql: str, names: dict[str, str]) -> str:
    r"""Text of the sandbox with some quoted identifiers replaced, outside of texts.

    >>> renamed('SELECT "a" FROM "t" WHERE "a" = \'"t"\'', {"t": "u"})
    'SELECT "a" FROM "u" WHERE "a" = \'"t"\''
    """
    written = {quoted(old): quoted(new) for old, new in names.items()}
    return _TOKEN.sub(lambda found: written.get(found[0], found[0]), sql)


LEAST = Fraction(1, 2**48)
"""[nats] For each row of a unit: a few times its inverse is still a scale that can be drawn."""
_MORE = Fraction(6, 5)


def check_price(release: Release, price: EpsilonDelta) -> None:
    """Refuse what this price is too small for.

    price  of the whole statement

    Raises 104 (reports that cost more than their part), 202 (noise too wide).
    """
    for place, part in enumerate(release.chosen):
        aggregates = {a.name: a for a in release.limited.block.aggregates}
        span = next((aggregates[r.name].span for r in release.read if r.chosen == place), None)
        if part.over_histogram.of_each_row and part.terms.per_row - part.over_histogram.of_each_row < LEAST:
            raise _too_cheap(part, price, span)
        if part.terms.per_row < LEAST:
            raise too_wide(span)


def _too_cheap(part: Selected, price: EpsilonDelta, span: Span | None) -> Error:
    epsilon, rows = part.over_histogram.of_each_row, part.terms.limits.rows
    share = part.terms.epsilon / price.epsilon
    each = "for a row" if rows == 1 else f"for each of up to {rows:,} rows of one person"
    return error(
        104,
        f"the reports cost epsilon {float(epsilon):g} {each}, and noise on their number is bought beside that: "
        f"this part of the price is {float(part.terms.epsilon):.3g}",
        hint=f"write /* dpsql: epsilon={_short(_MORE * epsilon * rows / share)} */, or a smaller second argument",
        span=span,
    )


def _short(number: Fraction) -> str:
    """Two digits, rounded up.

    >>> _short(Fraction(6, 5)), _short(Fraction(1234)), _short(Fraction(1, 3))
    ('1.2', '1300', '0.34')
    """
    unit = Fraction(1)
    while number / unit >= 100:
        unit *= 10
    while number / unit <= 10:
        unit /= 10
    return f"{float(ceil(number / unit) * unit):g}"
