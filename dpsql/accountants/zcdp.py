"""zcdp: rho of zero-concentrated differential privacy adds up, and is converted tightly.

Source  Feldman, Zrnic 2021, Individual Privacy Accounting via a Renyi Filter, remark 4.4; Canonne, Kamath, Steinke 2020
"""

from __future__ import annotations

from dpsql.accountants.record import Measure, of_one
from dpsql.mechanisms.conversions import epsilon_at_most_rho
from dpsql.mechanisms.prices import about_rho
from dpsql.mechanisms.reach import largest_rho

ZCDP = of_one(
    "zcdp",
    "zcdp",
    Measure(
        "rho",
        lambda event: event.loss.rho,
        largest_rho,
        about_rho,
        epsilon_at_most_rho,
        epsilon_at_most_rho,
    ),
)
