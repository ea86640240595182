"""charging: what the ledger is asked about a statement, and what is certified of it. Reads the plan and the declared schema alone."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from fractions import Fraction

from dpsql.accounting.totals import texts
from dpsql.core.loss import EpsilonDelta, PrivacyLoss, Sums
from dpsql.mechanisms.calibration import BY_NAME, LAPLACE, Moved, Target
from dpsql.mechanisms.conversions import pure, rho_at_most
from dpsql.plan.charges import Budget, Cap, ChargeRequest, Portion, ReservedBudget
from dpsql.plan.compiled import Compiled, CompiledRelease
from dpsql.plan.releases import Release
from dpsql.planner.pricing import accounted
from dpsql.schema.model import RESERVED, ROW, Analyst, Privacy, Role, Schema
from dpsql.schema.purchases import BUYER


def budget_of(schema: Schema, analyst: Analyst | None = None) -> Budget:
    """Budget that a charge of this analyst is checked against; None: the dataset's total alone."""
    privacy = schema.privacy
    held = tuple(ReservedBudget(r.name, r.analyst, r.refreshes, pure(r.epsilon, r.delta)) for r in schema.reservations)
    caps: list[Cap] = []
    if analyst is not None and analyst.dashboard is not None and privacy.reserve is not None:
        # nobody has this name, so that none of it is ever spent as a reservation
        held = (*held, ReservedBudget("reserve", f"{RESERVED}reserve", 1, pure(privacy.reserve, Fraction(0))))
    if analyst is not None:
        role = next((r for r in schema.roles if r.name == analyst.role), None)
        caps = [cap for scope, who in (("analyst", analyst), ("role", role)) if who for cap in _cap(scope, who, schema)]
    usual = default_loss(privacy)
    buyer = schema.refresh if analyst is not None and analyst.name == BUYER else None
    a_version = buyer.epsilon if buyer is not None else None
    return Budget(
        privacy.budget, privacy.accounting, tuple(caps), held, privacy.window, privacy.floor, usual, a_version
    )


def default_loss(privacy: Privacy) -> PrivacyLoss:
    """The loss of a statement of the default price, without a threshold: of one number, with the noise that is the default."""
    price, counted = privacy.query, accounted(privacy)
    noise = BY_NAME.get(privacy.mechanism, LAPLACE)
    by_rho = counted.by_rho and not noise.pure
    amount = rho_at_most(price.epsilon) if by_rho else price.epsilon
    _, loss = noise.calibrate(Moved(1, 1, 1), Target(amount, by_rho, price.delta, Fraction(1), counted.epsilon))
    return loss


def _cap(scope: str, who: Analyst | Role, schema: Schema) -> list[Cap]:
    """The cap that the owner wrote; what is not written of it is the dataset's."""
    if who.epsilon is None and who.delta is None:
        return []
    whole = schema.privacy.budget
    epsilon = whole.epsilon if who.epsilon is None else who.epsilon
    return [Cap(scope, who.name, EpsilonDelta(epsilon, whole.delta if who.delta is None else who.delta))]


def request_of(
    compiled: Compiled,
    missing: Sequence[CompiledRelease],
    fingerprints: Sequence[str],
    analyst: Analyst,
    version: str,
    certificates: Sequence[str],
    fresh: bool,
    asked: str,
    key: str,
) -> ChargeRequest:
    """The request to charge some releases of a statement."""
    return ChargeRequest(
        analyst.name,
        version,
        statement_of(compiled),
        tuple(fingerprints),
        tuple(part.describe() for one in missing for part in one.release.parts),
        tuple(Portion(one.release.loss, one.release.entries, one.release.events) for one in missing),
        analyst.role,
        tuple(certificates),
        fresh,
        asked,
        key,
    )


def statement_of(compiled: Compiled) -> str:
    """The statement, for the history."""
    post_query = compiled.plan.post_query
    return post_query.written or post_query.plain_sql or post_query.sql


def certificate(release: Release, fingerprint: str, compiled: Compiled, schema: Schema, identity: str) -> str:
    """Certificate of a release as JSON: its question and rows, the noise that was added, and its price.

    identity  schema_identity(schema)

    Holds nothing of the data. Amounts are exact, as text: epsilon, delta, the squares of epsilons, rho and mu squared.
    """
    unit = "one row" if schema.privacy.unit == ROW else f"one value of {schema.privacy.unit}, with all of its rows"
    fingerprint, version = fingerprint.split(":")[:2]
    found = {
        "dataset": schema.name,
        "schema": identity,
        "data_version": version,
        "statement": hashlib.sha256(statement_of(compiled).encode("utf-8", "backslashreplace")).hexdigest(),
        "release": fingerprint,
        "neighbours": f"differ by {unit}, added or removed",
        "accounting": schema.privacy.accounting,
        "partition": release.entries,
        "mechanisms": [{"name": p.name, "noise": p.describe(), "loss": named(p.loss)} for p in release.parts],
        "events": [event.fields for event in release.events],
        "loss": named(release.loss),
    }
    return json.dumps(found)


def named(spent: Sums | PrivacyLoss) -> dict[str, str]:
    """Each amount by its name, as exact text."""
    sums = Sums.of(spent) if isinstance(spent, PrivacyLoss) else spent
    return dict(zip(sums.names, texts(sums), strict=True))
