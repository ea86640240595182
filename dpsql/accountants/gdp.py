"""gdp: the squares of mu of Gaussian differential privacy add up, and are converted exactly.

Source  Smith, Thakurta 2022; Koskela, Tobaben, Honkela 2023, Individual Privacy Accounting with Gaussian Differential Privacy
"""

from __future__ import annotations

from dpsql.accountants.record import Measure, of_one
from dpsql.mechanisms.conversions import epsilon_at_most_mu, epsilon_at_most_rho
from dpsql.mechanisms.prices import about_mu_squared
from dpsql.mechanisms.reach import largest_mu_squared

GDP = of_one(
    "gdp",
    "gdp",
    Measure(
        "mu_squared",
        lambda event: event.loss.mu_squared,
        largest_mu_squared,
        about_mu_squared,
        epsilon_at_most_mu,
        lambda left: epsilon_at_most_rho(left / 2),
    ),
)
