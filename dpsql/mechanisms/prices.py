"""A loss as a price: people ask and read prices in epsilon, also of Gaussian noise, which has none without a delta."""

from __future__ import annotations

from fractions import Fraction
from math import tanh

from dpsql.core.loss import EpsilonDelta, PrivacyLoss
from dpsql.mechanisms.conversions import epsilon_at_least_rho, rho_at_most


def nominal(loss: PrivacyLoss) -> Fraction:
    """The epsilon of a loss; without one, the epsilon that a pure mechanism of the same rho may have, for showing."""
    return loss.epsilon if loss.epsilon is not None else epsilon_at_least_rho(loss.rho)


def costs_at_most(loss: PrivacyLoss, price: EpsilonDelta) -> bool:
    """True if a loss is within a price: by its epsilon; where it has none, by the rho that a price of epsilon stands for."""
    if loss.epsilon is not None:
        return loss.delta <= price.delta and loss.epsilon <= price.epsilon
    return loss.delta <= price.delta and loss.rho <= rho_at_most(price.epsilon)


def about_rho(epsilon: float) -> float:
    """About the rho of a nominal epsilon, for what no promise depends on."""
    return epsilon * tanh(epsilon / 2)


def about_mu_squared(epsilon: float) -> float:
    """The least that its mu squared may be, about: twice rho."""
    return 2 * about_rho(epsilon)
