"""Stored vectors that stand for the measures of a release, and the release that they make."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from dpsql.accounting.vectors import Vector
from dpsql.aggregates.apart import PartOfStatistic, statistics_apart
from dpsql.aggregates.base import Estimate, Noise, Statistic
from dpsql.aggregates.forms import Form
from dpsql.aggregates.record import Aggregate, Part, read_off
from dpsql.mechanisms.additive import AdditiveNoise
from dpsql.plan.releases import NoisyCount, NoisyStatistic, Output, Release
from dpsql.plan.tables import KeyValue

LEVEL = Fraction(95, 100)


@dataclass(frozen=True, slots=True)
class StoredVector:
    """A stored vector that may be read, with the noise of what is read.

    error   in that of what would be bought
    kept    the keys that are left; None: all of them
    chosen  keys of which some values are read
    """

    vector: Vector
    noise: AdditiveNoise
    error: float
    kept: tuple[str, ...] | None = None
    chosen: tuple[tuple[str, frozenset[KeyValue]], ...] = ()

    @property
    def source(self) -> Hashable:
        """The stored cells that are read."""
        return self.vector.fingerprint, self.vector.cells, self.kept, self.chosen


@dataclass(frozen=True, slots=True)
class Wanted:
    """A statistic that stands for what is made of a measure.

    noise    of the measure
    rho      the least that it may have cost
    columns  what is made of it
    apart    whether it is another statistic than the measure's
    """

    statistic: Statistic
    noise: AdditiveNoise
    rho: Fraction
    columns: tuple[tuple[Output, Aggregate], ...]
    apart: bool = False

    def read(self, vector: Vector) -> Statistic:
        """The statistic as a vector holds it."""
        if not vector.forms:
            return self.statistic
        return PartOfStatistic(self.statistic, tuple(Form(tuple(map(float, form))) for form in vector.forms))

    def error(self, vector: Vector, noise: AdditiveNoise) -> float:
        """Error of what is read off a vector, in that of what would be bought."""
        if not vector.forms and not self.apart:
            most = self.noise.half_width(LEVEL)
            return noise.half_width(LEVEL) / most if most else float(noise.half_width(LEVEL) > 0) + 1
        found = self.outputs(vector, 0)
        asked = [output for output, _ in self.columns]
        ratios = (relative_error(f.estimate, noise, o.estimate, self.noise) for f, o in zip(found, asked, strict=True))
        return max(ratios, default=1.0)

    def outputs(self, vector: Vector, place: int) -> list[Output]:
        """The columns as they are read off a vector that is the measure at a place."""
        statistic = self.read(vector)
        if statistic is self.statistic and not self.apart:
            return [replace(output, measure=place) for output, _ in self.columns]
        return [Output(output.name, place, read_off(statistic, aggregate)) for output, aggregate in self.columns]


def relative_error(one: Estimate, noise: Noise, other: Estimate, others: Noise) -> float:
    """Error of one estimate in that of another of the same column; 1 where nothing is known of it."""
    pairs = zip(one.errors(noise, LEVEL), other.errors(others, LEVEL), strict=False)
    return max((a / b if b else 1.0 + bool(a) for a, b in pairs), default=1.0)


class Again:
    """A release while its measures are replaced by what is stored."""

    def __init__(self, asked: Release) -> None:
        self.asked = asked
        self.found: list[StoredVector] = []
        self._measures: list[NoisyStatistic] = []
        self._sources: list[Hashable] = []
        self._outputs: list[Output] = []
        self._present: NoisyCount | None = None

    def is_present(self, place: int) -> bool:
        """True if the noisy number that says that a group is there is read off a measure."""
        return self.asked.present is not None and self.asked.present.measure == place

    def add(self, place: int, wanted: Wanted, best: StoredVector) -> None:
        measure = self._put(place, wanted.read(best.vector), best)
        self._outputs += wanted.outputs(best.vector, measure)
        if self.is_present(place) and self.asked.present is not None:
            statistic = wanted.read(best.vector)
            counted = statistic.number if best.vector.forms else self.asked.present.estimate
            self._present = NoisyCount(measure, counted, self.asked.present.of)

    def add_two(
        self, place: int, output: Output, estimate: Estimate, parts: Sequence[tuple[Statistic, StoredVector]]
    ) -> None:
        first, second = (self._put(place, statistic, one) for statistic, one in parts)
        self._outputs.append(Output(output.name, first, estimate, second))

    def add_apart(self, place: int, apart: Sequence[StoredVector]) -> None:
        parts = zip(parts_apart(self.asked, place).values(), apart, strict=True)
        self._outputs += _outputs_apart(self.asked, place, [self._put(place, *part) for part in parts])

    def _put(self, place: int, statistic: Statistic, one: StoredVector) -> int:
        """The measure that the cells are now: of what is read off the same cells one, as they have one noise."""
        if one.source in self._sources:
            return self._sources.index(one.source)
        self._measures.append(replace(self.asked.measures[place], statistic=statistic, noise=one.noise))
        self._sources.append(one.source)
        self.found.append(one)
        return len(self.found) - 1

    @property
    def release(self) -> Release:
        """With the columns in the order in which it was asked."""
        order = {output.name: i for i, output in enumerate(self.asked.outputs)}
        columns = tuple(sorted(self._outputs, key=lambda output: order[output.name]))
        measures = tuple(self._measures)
        return replace(self.asked, measures=measures, outputs=columns, compared=None, present=self._present)


def columns_of(release: Release, place: int) -> list[tuple[Output, Aggregate]]:
    """The columns that are read off a measure, and of what aggregates they are."""
    aggregates = {a.name: a for a in release.limited.block.aggregates}
    return [(output, aggregates[output.name]) for output in release.outputs if output.measure == place]


def parts_apart(release: Release, place: int) -> dict[Part, Statistic]:
    """The sum and the number of rows that stand for a measure; {} where nothing does."""
    asked = [aggregate.record for _, aggregate in columns_of(release, place)]
    return statistics_apart(release.measures[place].statistic, asked)


def _outputs_apart(release: Release, place: int, measures: Sequence[int]) -> list[Output]:
    """The columns of a pair, read off the measures that stand for it."""
    statistic = release.measures[place].statistic
    parts = list(parts_apart(release, place))
    found: list[Output] = []
    for output, aggregate in columns_of(release, place):
        assert aggregate.record.apart is not None
        needed, estimate = aggregate.record.apart
        places = [measures[parts.index(part)] for part in needed]
        found.append(
            Output(
                output.name,
                places[0],
                estimate(aggregate.seen(statistic.terms[0]), output.estimate.sqltype),
                *places[1:],
            )
        )
    return found
