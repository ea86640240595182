"""Every kind of event that a charge may hold."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from dpsql.core.events import Event, Kind
from dpsql.core.loss import PrivacyLoss, only_delta
from dpsql.mechanisms import conversions
from dpsql.mechanisms.calibration import BY_NAME

THRESHOLD = Kind("threshold", ("delta",), only_delta)
"""Private keys selected by a noisy count (threshold.py)."""
WITHOUT_EPSILON = Kind(
    "charge without epsilon",
    ("delta", "rho", "mu_squared"),
    lambda delta, rho, mu_squared: PrivacyLoss(None, delta, None, rho, mu_squared),
)
WITH_EPSILON = Kind("charge", ("epsilon", "delta", "epsilon_squared", "rho", "mu_squared"), PrivacyLoss)
"""The loss that a charge of an earlier layout kept, of all that ran together."""

KINDS: Mapping[str, Kind] = {
    kind.name: kind
    for kind in (
        *(kind for mechanism in BY_NAME.values() for kind in mechanism.kinds),
        conversions.PURE,
        conversions.CHOICE,
        THRESHOLD,
        WITH_EPSILON,
        WITHOUT_EPSILON,
    )
}


def of_loss(loss: PrivacyLoss) -> Event:
    """A charge of which only the loss is known."""
    if loss.epsilon is None or loss.squares is None:
        return WITHOUT_EPSILON.event(loss.delta, loss.rho, loss.mu_squared)
    return WITH_EPSILON.event(loss.epsilon, loss.delta, loss.squares, loss.rho, loss.mu_squared)


def threshold(delta: Fraction) -> tuple[Event, ...]:
    """Of a selection that spends a delta of its own; none where its noise pays for it."""
    return (THRESHOLD.event(delta),) if delta else ()
