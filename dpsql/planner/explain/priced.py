"""What a statement costs, for whom, and the mechanism that was taken at that price."""

from __future__ import annotations

from dpsql.core.loss import PrivacyLoss
from dpsql.core.wording import listed, number
from dpsql.mechanisms.conversions import together
from dpsql.mechanisms.prices import nominal
from dpsql.plan.compiled import Compiled
from dpsql.plan.releases import Release
from dpsql.planner.partition import in_words
from dpsql.schema.model import Schema

_NAMES = {"laplace": "discrete Laplace", "gaussian": "discrete Gaussian"}


def mechanism(release: Release) -> list[str]:
    """What "auto" took, and why; nothing where the caller named one."""
    found = release.compared
    if found is None:
        return []
    name, other = _NAMES[found.mechanism], "Gaussian" if found.mechanism == "laplace" else "Laplace"
    if found.share is None:
        return [f"mechanism: {name}, as {other} noise would be too large at this price"]
    return [f"mechanism: {name}, its {found.what} is {number(float(f'{float(found.share):.2g}'))} of the {other}'s"]


def price(compiled: Compiled, schema: Schema) -> list[str]:
    """The loss of the statement, of each of its releases, and of several people together."""
    plan, household = compiled.plan, schema.privacy.household
    paid = [r for r in plan.releases if r.parts]
    if not paid:
        return ["price: free"]
    lines = [f"price: {_loss(plan.loss)} for the statement; free where the answer is stored"]
    if plan.goal is not None:
        lines.append(f"  for an error of at most {plan.goal.words}: each column at its least epsilon, in three digits")
    if any(release.raised for release in paid):
        lines.append(
            f"  raised to the owner's least price, epsilon {number(schema.privacy.floor)}: the error is smaller"
        )
    if len(paid) > 1:
        lines += [f"  {release.name}: {_loss(release.loss)}" for release in paid]
    for release in paid:
        if release.entries is not None and schema.privacy.partition is not None:
            column, values = ".".join(schema.privacy.partition), listed(list(in_words(release.entries)))
            lines.append(f"  {release.name} is charged to those whose {column} is {values} alone")
    if household is not None:
        lines.append(f"  a household of {household} together: {_loss_of_several(plan.loss, household)}")
    return lines


def _loss(loss: PrivacyLoss) -> str:
    found = f"epsilon {number(nominal(loss))}, delta {number(loss.delta)}"
    return (
        found
        if loss.epsilon is not None
        else f"{found} (Gaussian noise: rho {number(loss.rho)}, no epsilon without a delta)"
    )


def _loss_of_several(loss: PrivacyLoss, people: int) -> str:
    """The loss of k units, added or removed one after the other (rule 30)."""
    several = together(loss, people)
    if several.epsilon is None:
        return f"rho {number(several.rho)}"
    return f"epsilon {number(several.epsilon)}, delta {number(several.delta)}"
