"""plan: the stages after parse in their order, as one function."""

from __future__ import annotations

import hashlib

from dpsql.loss import PrivacyLoss, total
from dpsql.plan import Bound, Compiled, Plan, PublicTypes, Release
from dpsql.planner.canonical import renamed
from dpsql.planner.limit import limit
from dpsql.planner.lower import lower
from dpsql.planner.measure import measure
from dpsql.planner.options import Options
from dpsql.planner.parse import Parsed
from dpsql.planner.resolve import resolve
from dpsql.schema.model import RESERVED, Schema


def compile_statement(
    parsed: Parsed, session: Options, schema: Schema, identity: str, types: PublicTypes | None = None
) -> Compiled:
    """A parsed query as releases with their engine SQL, and the shell; reads only the text and the declared schema.

    session   the options that SET has left
    identity  schema_identity(schema)
    types     tells the types of public queries that private ones read; None where there are none
    """
    options = parsed.options.over(session)
    price = options.price(schema)
    resolved = resolve(parsed, schema, types)
    limited = [limit(block, options, schema) for block in resolved.blocks]
    count = max(1, sum(bool(part.block.aggregates) for part in limited))
    share = PrivacyLoss(price.epsilon / count, price.delta / count)
    mechanism = options.mechanism or "laplace"
    releases: list[Release] = []
    for part in limited:
        releases.append(
            measure(part, share, mechanism, identity, _made_of(resolved.bounds, releases), schema.privacy.units)
        )
    plan = Plan(tuple(releases), resolved.shell, total(r.loss for r in releases), price)
    return Compiled(plan, tuple(lower(release, resolved.bounds) for release in releases), resolved.bounds)


def _made_of(bounds: tuple[Bound, ...], releases: list[Release]) -> dict[str, str]:
    """What each bound table is computed from: its text, with releases by their fingerprints, so that a name is no question."""
    known = {release.name: release.fingerprint for release in releases}
    made: dict[str, str] = {}
    for bound in bounds:
        reads = [known.get(name) or made.get(name, "") for name in bound.reads]
        text = renamed(bound.sql, {name: f"{RESERVED}{i}" for i, name in enumerate(bound.reads)})
        made[bound.name] = hashlib.sha256("\n".join([text, *reads]).encode()).hexdigest()
    return made


def schema_identity(schema: Schema) -> str:
    """A hash of everything declared that can decide what a statement means."""
    return hashlib.sha256(repr((schema.privacy.unit, schema.tables)).encode()).hexdigest()
