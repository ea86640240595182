"""Request for one release: its parts before they have a price, and the terms on which they are bought."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from dpsql.aggregates.base import Estimate, Statistic
from dpsql.aggregates.histogram import OverHistogram, Reading
from dpsql.aggregates.record import Aggregate
from dpsql.core.loss import EpsilonDelta
from dpsql.mechanisms.calibration import BY_NAME
from dpsql.plan.releases import BoundedBlock
from dpsql.plan.resolved import AccuracyTarget
from dpsql.planner.pricing import Accounted, Pricing

FOR_GRIDS = Fraction(1, 1024)
"""Of a statement's delta, where Gaussian noise is priced in rho."""


@dataclass(frozen=True, slots=True)
class Request:
    """The terms of one release.

    price      what it costs; with a accuracy_target, the most that it may cost
    rho        what Gaussian noise may cost of it instead, where rho is added up
    accounted  how losses are added up
    mechanism  "laplace", "gaussian" or "auto"
    weights    one for each aggregate, in their order; None: planner/shares.py decides
    accuracy_target       an accuracy in place of the price
    units      how many units the owner declares there to be, or None
    least      the least epsilon that it may cost, where an accuracy decides
    """

    price: EpsilonDelta
    rho: Fraction
    accounted: Accounted
    mechanism: str = "laplace"
    weights: tuple[Fraction, ...] | None = None
    accuracy_target: AccuracyTarget | None = None
    units: int | None = None
    least: Fraction = Fraction(0)

    @property
    def text(self) -> str:
        """Canonical text of what was asked, never of what follows from it (rule 40)."""
        if self.accuracy_target is not None:
            error = f"{self.accuracy_target.error} {'of the people' if self.accuracy_target.relative else ''}"
            return f"error {error} at {self.accuracy_target.confidence}, delta {self.price.delta} {self.mechanism}"
        weights = f" weights {':'.join(map(str, self.weights))}" if self.weights is not None else ""
        return f"price {self.price.epsilon} {self.price.delta} {self.mechanism}{weights}"

    def pricing(self, parts: Parts, mechanism: str) -> Pricing:
        """Pricing that the budget is divided in. Where nothing has noise added, everything has an epsilon."""
        by_rho = self.accounted.by_rho and not BY_NAME[mechanism].pure and bool(parts.statistics)
        grid = self.price.delta * FOR_GRIDS / max(1, len(parts.statistics))
        return Pricing(mechanism, by_rho, parts.delta(self.price, mechanism, by_rho), grid, self.accounted.epsilon)

    def amount(self, pricing: Pricing) -> Fraction:
        """The whole price."""
        return self.rho if pricing.by_rho else self.price.epsilon


@dataclass(frozen=True, slots=True)
class Parts:
    """Parts that are paid for in one release, each part once, and which aggregate reads which.

    statistics  where private keys are selected, the first is the number of units
    reads       an aggregate, the place of its statistic, and the estimate that it is
    readings    an aggregate, the place of what is released of a histogram, and the reading that it is
    """

    limited: BoundedBlock
    statistics: tuple[Statistic, ...]
    over_histogram: tuple[OverHistogram, ...]
    reads: tuple[tuple[Aggregate, int, Estimate], ...]
    readings: tuple[tuple[Aggregate, int, Reading], ...]

    def __len__(self) -> int:
        return len(self.statistics) + len(self.over_histogram)

    @property
    def selects(self) -> bool:
        return self.limited.block.selects

    def delta(self, price: EpsilonDelta, mechanism: str, by_rho: bool) -> Fraction:
        """The equal share of delta of each part that spends some: Gaussian noise, and the selection of private keys.

        by_rho  Gaussian noise then spends next to nothing of it: it stands for noise that is not on a grid
        """
        count = len(self.statistics) * (not BY_NAME[mechanism].pure and not by_rho) + self.selects
        rest = price.delta * (1 - FOR_GRIDS) if by_rho else price.delta
        return rest / count if count else Fraction(0)

    def estimates(self, place: int) -> list[Estimate]:
        """The columns that are made of one statistic."""
        return [estimate for _, found, estimate in self.reads if found == place]
