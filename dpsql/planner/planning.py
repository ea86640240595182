"""plan: the stages after parse in their order, as one function."""

from __future__ import annotations

import hashlib
import re
from dataclasses import replace

from dpsql.core.errors import error
from dpsql.core.loss import EpsilonDelta, total
from dpsql.mechanisms.conversions import rho_at_most
from dpsql.plan.compiled import Compiled
from dpsql.plan.limited import Limited, SmallCells
from dpsql.plan.releases import Plan, Release
from dpsql.plan.resolved import Bound, PublicTypes
from dpsql.planner import accurate
from dpsql.planner.least_price import check_price
from dpsql.planner.limit import limit
from dpsql.planner.lower import lower
from dpsql.planner.measure import Few, measure
from dpsql.planner.options import Options
from dpsql.planner.parse import Parsed
from dpsql.planner.partition import entries
from dpsql.planner.pricing import accounted
from dpsql.planner.request import Request
from dpsql.planner.resolve import resolve
from dpsql.schema.model import RESERVED, Schema
from dpsql.sql.duckdb import quoted


def compile_statement(
    parsed: Parsed,
    session: Options,
    schema: Schema,
    identity: str,
    types: PublicTypes | None = None,
    guard: SmallCells | None = None,
) -> Compiled:
    """A parsed query as releases with their engine SQL, and the shell; reads only the text and the declared schema.

    session   the options that SET has left
    identity  schema_identity(schema)
    types     tells the types of public queries that private ones read; None where there are none
    guard     tells in which groups the number of people decides what is shown; None: in none
    """
    options = parsed.options.over(session)
    price = options.price(schema)
    resolved = resolve(parsed, schema, types)
    limited = [limit(block, options, schema) for block in resolved.blocks]
    count = max(1, sum(bool(part.block.aggregates) for part in limited))
    share = EpsilonDelta(price.epsilon / count, price.delta / count)
    _check_together(parsed.options, options, limited)
    if options.goal is not None:
        accurate.check_statement(limited, resolved.shell)
    privacy = schema.privacy
    request = Request(
        share,
        rho_at_most(price.epsilon) / count,
        accounted(privacy),
        options.mechanism or privacy.mechanism,
        options.weights,
        options.goal,
        privacy.units,
        privacy.floor,
    )
    small = guard.small(limited, resolved.bounds) if guard is not None else {}
    releases: list[Release] = []
    for part in limited:
        few = Few(small.get(part.block.name, ()), schema.guard.k)
        release = measure(part, request, identity, _made_of(resolved.bounds, releases), few)
        releases.append(replace(release, entries=entries(part.block.source, schema)))
    for release in releases:
        check_price(release, price)
    plan = Plan(tuple(releases), resolved.shell, total(r.loss for r in releases), price, options.goal)
    return Compiled(plan, tuple(lower(release, resolved.bounds) for release in releases), resolved.bounds)


def _check_together(own: Options, options: Options, limited: list[Limited]) -> None:
    """Refuse options that do not go together, or not with this statement. Raises 104."""
    if own.confidence is not None and options.goal is None:
        raise error(104, "confidence is that of an error, which is not asked", hint="write error=50, confidence=0.95")
    if options.weights is not None and options.goal is not None:
        raise error(
            104, "an error decides how the price is shared", hint="leave weights out, or name a price: epsilon=0.1"
        )
    paid = sum(bool(part.block.aggregates) for part in limited)
    if options.weights is not None and paid > 1:
        what = f"weights are for the aggregates of one release, and this statement has {paid}"
        raise error(104, what, hint="leave weights out, or ask them one by one")


def _made_of(bounds: tuple[Bound, ...], releases: list[Release]) -> dict[str, str]:
    """What each bound table is computed from: its text, with releases by their fingerprints, so that a name is no question."""
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


def schema_identity(schema: Schema) -> str:
    """A hash of everything declared that can decide what a statement means."""
    return hashlib.sha256(repr((schema.privacy.unit, schema.privacy.units, schema.tables)).encode()).hexdigest()
