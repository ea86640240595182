"""Blocks whose rows of one unit are limited, and their releases with noise: what is bought, and what it costs."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from dpsql.aggregates.base import Estimate, Limits, Sensitivity, Statistic
from dpsql.aggregates.histogram import OverHistogram, Reading, Terms
from dpsql.core.errors import error
from dpsql.core.events import Event
from dpsql.core.loss import EpsilonDelta, PrivacyLoss, total
from dpsql.expressions.scalar import Scalar
from dpsql.mechanisms.additive import AdditiveNoise
from dpsql.mechanisms.events import threshold
from dpsql.mechanisms.prices import costs_at_most
from dpsql.mechanisms.threshold import delta_per_group
from dpsql.plan.resolved import AccuracyTarget, Block, GroupKey, InputTable, PostQuery
from dpsql.relations.periods import ReadPeriods
from dpsql.schema.by_period import key

if TYPE_CHECKING:
    from dpsql.aggregates.gradients import Fit


@dataclass(frozen=True, slots=True)
class BoundedBlock:
    """A block with what one unit may contribute to it.

    limits     enforced by the engine SQL
    enforced   False only where the declared keys give a unit one row (verified structure): there is nothing to cut
    periods    that are read of each table which has some
    intervals  whether quantiles are bought with their intervals
    """

    block: Block
    limits: Limits
    enforced: bool
    periods: tuple[ReadPeriods, ...] = ()
    intervals: bool = True


@dataclass(frozen=True, slots=True)
class SmallCell:
    """Aggregates that are in some group expected to be about few people.

    condition  on the rows that they are about; None: all rows
    outputs    their names
    """

    condition: Scalar | None
    outputs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Bounded:
    """A resolved statement whose blocks are limited.

    blocks  each after those that it reads
    bounds  each after what it reads
    """

    blocks: tuple[BoundedBlock, ...]
    bounds: tuple[InputTable, ...]
    post_query: PostQuery


@dataclass(frozen=True, slots=True)
class NoisyStatistic:
    """One statistic with the noise that its sensitivity and its loss call for."""

    name: str
    statistic: Statistic
    sensitivity: Sensitivity
    noise: AdditiveNoise
    loss: PrivacyLoss

    @property
    def events(self) -> tuple[Event, ...]:
        return (self.noise.event(self.sensitivity.l1, self.loss),)

    def describe(self) -> str:
        return self.noise.describe()


@dataclass(frozen=True, slots=True)
class Selected:
    """Something released of a histogram, and on what terms."""

    name: str
    over_histogram: OverHistogram
    terms: Terms

    @property
    def events(self) -> tuple[Event, ...]:
        return self.over_histogram.events(self.terms)

    @property
    def loss(self) -> PrivacyLoss:
        return total(event.loss for event in self.events)

    def describe(self) -> str:
        return self.over_histogram.describe(self.terms)


@dataclass(frozen=True, slots=True)
class Selection:
    """Private key selection: a group is released iff its noisy number of units (the measure at `measure`) reaches tau.

    delta  [probability] of the threshold: that any group is released that only one unit is in, at most; 0 where the noise is
           cut off, and pays for it
    """

    measure: int
    tau: int
    delta: Fraction


@dataclass(frozen=True, slots=True)
class Comparison:
    """Reason for a mechanism that was not asked for by name.

    mechanism  "laplace" or "gaussian"
    share      of what is compared, its own over the other's; None where the other is not possible
    what       what is compared
    """

    mechanism: str
    share: Fraction | None
    what: str


@dataclass(frozen=True, slots=True)
class Output:
    """A column of the released table: an estimate over the noisy cells of one measure, or of two that were released apart."""

    name: str
    measure: int
    estimate: Estimate
    beside: int | None = None

    @property
    def measures(self) -> tuple[int, ...]:
        return (self.measure,) if self.beside is None else (self.measure, self.beside)


@dataclass(frozen=True, slots=True)
class Read:
    """A column of the released table: made of what the part at `chosen` released."""

    name: str
    chosen: int
    reading: Reading


@dataclass(frozen=True, slots=True)
class NoisyCount:
    """A noisy number of people or rows, read off the cells of one measure.

    of  identity of the statistic that this number is
    """

    measure: int
    estimate: Estimate
    of: Hashable = None


@dataclass(frozen=True, slots=True)
class Suppression:
    """Groups with too few people are shown without their values (rule 44).

    count    the noisy number of people that decides
    k        [people] where it is smaller, the columns of `outputs` are NULL
    outputs  names of released columns
    """

    count: NoisyCount
    k: int
    outputs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Release:
    """One noisy table: the cells of its measures, then those of what is chosen.

    fingerprint  canonical text of everything that decides its distribution, hashed; without the data version
    compared     why it has its mechanism, where "auto" took it
    entries      the values of the partition column that it is about, as the ledger names them; None: any
    suppressed   what is not shown where the noisy number of people is too small
    present      the noisy number that says that a group is there; None: every listed group is
    raised       whether it costs the owner's least, which is more than the accuracy that was asked needs
    tables       the declared ones that it depends on: it stays stored while their versions stay the same
    unread       those of them of which only the declarations count
    is_cube      whether its cells are the coefficients of a cube, which have no group keys
    marginals    the keys of each group of cells that a cube is made of; (): its cells are those of all keys
    is_table     whether its cells are the reports of a randomized table
    fit          how a model is fitted by it: its measures are asked one after the other, each at what was made of those before
    """

    limited: BoundedBlock
    measures: tuple[NoisyStatistic, ...]
    selection: Selection | None
    outputs: tuple[Output, ...]
    loss: PrivacyLoss
    fingerprint: str
    chosen: tuple[Selected, ...] = ()
    read: tuple[Read, ...] = ()
    compared: Comparison | None = None
    entries: tuple[str, ...] | None = None
    suppressed: tuple[Suppression, ...] = ()
    raised: bool = False
    present: NoisyCount | None = None
    tables: frozenset[str] = frozenset()
    unread: frozenset[str] = frozenset()
    is_cube: bool = False
    marginals: tuple[tuple[int, ...], ...] = ()
    is_table: bool = False
    fit: Fit | None = None

    @property
    def stands_alone(self) -> bool:
        """True if no other release is read off it, nor it off any."""
        return self.is_cube or self.is_table or self.fit is not None

    @property
    def reads(self) -> tuple[tuple[str, ...], ...]:
        """The tables whose rows it depends on; of one with periods each that is read: (table, its declared periods, the name)."""
        names = sorted(self.tables - self.unread - {read.table.name for read in self.limited.periods})
        periods = ((read.table.name, key(read.table), name) for read in self.limited.periods for name in read.names)
        return (*((name,) for name in names), *periods)

    @property
    def parts(self) -> tuple[NoisyStatistic | Selected, ...]:
        """Parts that are paid for; () where only declared keys are shown, which is free."""
        return (*self.measures, *self.chosen)

    @property
    def events(self) -> tuple[Event, ...]:
        """All that runs: its parts, and the selection of private keys where that spends a delta of its own."""
        selecting = threshold(self.selection.delta) if self.selection is not None else ()
        return (*(event for part in self.parts for event in part.events), *selecting)

    @property
    def name(self) -> str:
        return self.limited.block.name

    @property
    def cell_starts(self) -> list[int]:
        """Positions at which the cells of each part begin in the released table, and the end."""
        counts = [*(m.statistic.cells for m in self.measures), *(c.over_histogram.cells for c in self.chosen)]
        return [sum(counts[:i]) for i in range(len(counts) + 1)]

    def read_by(self, outputs: Sequence[str]) -> set[int]:
        """The parts that columns are made of, by their place among all."""
        measured = {m for output in self.outputs if output.name in outputs for m in output.measures}
        return measured | {len(self.measures) + read.chosen for read in self.read if read.name in outputs}

    @property
    def keys(self) -> tuple[GroupKey, ...]:
        return self.limited.block.keys


@dataclass(frozen=True, slots=True)
class Plan:
    """Releases of a statement, their price, and the post-processing query that computes the answer.

    price  what the caller asked for the whole statement; the loss is within it, checked here before anything runs
    accuracy_target   the accuracy that was asked instead: then the price is the most that it may cost
    """

    releases: tuple[Release, ...]
    post_query: PostQuery
    loss: PrivacyLoss
    price: EpsilonDelta
    accuracy_target: AccuracyTarget | None = None

    def __post_init__(self) -> None:
        if len({release.name for release in self.releases}) < len(self.releases):
            raise error(901, "two releases have one name")
        for release in self.releases:
            for measure in release.measures:
                if not measure.noise.covers(measure.sensitivity.l1, measure.sensitivity.l2_squared, measure.loss):
                    raise error(901, "a measure's noise does not cover its sensitivity at its loss")
            if any(part.terms.limits != release.limited.limits for part in release.chosen):
                raise error(901, "something is chosen on other limits than those that are enforced")
            if not _selects_enough(release):
                raise error(901, "a threshold does not hold its delta")
            if any(total(event.loss for event in part.events) != part.loss for part in release.parts):
                raise error(901, "a part's loss is not that of what runs")
            if total(event.loss for event in release.events) != release.loss:
                raise error(901, "a release's loss is not the sum of its parts")
        if total(r.loss for r in self.releases) != self.loss or not costs_at_most(self.loss, self.price):
            raise error(901, "the plan does not spend what was asked")


def _selects_enough(release: Release) -> bool:
    """True if a group of one unit is shown with no more than what is paid for: by the threshold, or by noise that is cut off.

    Why  cut-off noise pays for the probability of its largest value itself; a threshold beyond it spends nothing (rule 29)
    """
    selection = release.selection
    cut = [i for i, measure in enumerate(release.measures) if measure.noise.shows_from is not None]
    if selection is None:
        return not cut
    measure = release.measures[selection.measure]
    if measure.noise.shows_from is not None:
        return cut == [selection.measure] and selection.tau >= measure.noise.shows_from and selection.delta == 0
    share = delta_per_group(measure.sensitivity.l0, selection.delta)
    return not cut and measure.noise.tail(selection.tau - 1) <= share
