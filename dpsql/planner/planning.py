"""plan: the stages after parse in their order, as one function."""

from __future__ import annotations

import hashlib

from dpsql.loss import PrivacyLoss, total
from dpsql.plan import Compiled, Plan
from dpsql.planner.limit import limit
from dpsql.planner.lower import lower
from dpsql.planner.measure import measure
from dpsql.planner.options import Options
from dpsql.planner.parse import Parsed
from dpsql.planner.resolve import resolve
from dpsql.schema.model import Schema


def compile_statement(parsed: Parsed, session: Options, schema: Schema, identity: str) -> Compiled:
    """A parsed query as releases with their engine SQL, and the shell; reads only the text and the declared schema.

    session   the options that SET has left
    identity  schema_identity(schema)
    """
    options = parsed.options.over(session)
    price = options.price(schema)
    resolved = resolve(parsed, schema)
    limited = [limit(block, options, schema) for block in resolved.blocks]
    count = max(1, sum(bool(part.block.aggregates) for part in limited))
    share = PrivacyLoss(price.epsilon / count, price.delta / count)
    mechanism = options.mechanism or "laplace"
    releases = tuple(measure(part, share, mechanism, identity) for part in limited)
    plan = Plan(releases, resolved.shell, total(r.loss for r in releases), price)
    return Compiled(plan, tuple(lower(release) for release in releases))


def schema_identity(schema: Schema) -> str:
    """A hash of everything declared that can decide what a statement means."""
    return hashlib.sha256(repr((schema.privacy.unit, schema.tables)).encode()).hexdigest()
