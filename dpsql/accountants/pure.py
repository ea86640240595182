"""pure: epsilons add up.

Source  Rogers, Roth, Ullman, Vadhan 2016, Privacy Odometers and Filters, section 3
"""

from __future__ import annotations

from fractions import Fraction

from dpsql.accountants.record import Measure, of_one

PURE = of_one(
    "pure",
    "sequential",
    Measure("epsilon", lambda event: event.loss.epsilon, lambda total: total.epsilon, float, Fraction, None),
    shares=0,
)
