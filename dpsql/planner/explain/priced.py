"""What a statement costs, for whom, and the mechanism that was taken at that price."""

from __future__ import annotations

from fractions import Fraction
from math import expm1, inf

from dpsql.loss import PrivacyLoss
from dpsql.plan import Compiled, Release
from dpsql.planner.explain.words import number
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
    if len(paid) > 1:
        lines += [f"  {release.name}: {_loss(release.loss)}" for release in paid]
    if household is not None:
        lines.append(f"  a household of {household} together: {_loss_of_several(plan.loss, household)}")
    return lines


def _loss(loss: PrivacyLoss) -> str:
    return f"epsilon {number(loss.epsilon)}, delta {number(loss.delta or Fraction(0))}"


def _loss_of_several(loss: PrivacyLoss, people: int) -> str:
    """k epsilon, and delta (e^(k epsilon) - 1) / (e^epsilon - 1): the loss of k units, added or removed one after the other (rule 30).

    Why  with P <= e^epsilon Q + delta at each of the k steps, delta is multiplied by 1 + e^epsilon + ... + e^((k - 1) epsilon)
    """
    delta = float(loss.delta) * _growth(float(loss.epsilon), people) if loss.delta else 0.0
    return f"epsilon {number(people * loss.epsilon)}, delta {number(min(1.0, delta))}"


def _growth(epsilon: float, people: int) -> float:
    if people * epsilon > 700:
        return inf
    return expm1(people * epsilon) / expm1(epsilon) if epsilon > 0 else float(people)
