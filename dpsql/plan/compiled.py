"""A plan with the text that the engine runs."""

from __future__ import annotations

from dataclasses import dataclass

from dpsql.aggregates.base import Statistic
from dpsql.aggregates.histogram import Histogram
from dpsql.plan.releases import Plan, Release
from dpsql.plan.resolved import InputTable
from dpsql.sql.duckdb import printed
from dpsql.sql.nodes import Node


@dataclass(frozen=True, slots=True)
class Verified:
    """Shorter SQL, without what is the identity where `facts` were verified for the data version (rule 35): written
    only then."""

    tree: Node
    facts: frozenset[str]

    @property
    def sql(self) -> str:
        return printed(self.tree)


@dataclass(frozen=True, slots=True)
class CompiledHistogram:
    """The engine SQL of one histogram: group keys first, then the value, the number of rows, and their sum where it is summed.
    Of scores there is no value, and as many sums as there are candidates.

    valued  whether there is a value
    sums    number of columns behind it
    """

    histogram: Histogram | Statistic
    valued: bool
    sums: int
    sql: str
    verified: tuple[Verified, ...] = ()


@dataclass(frozen=True, slots=True)
class CompiledMatching:
    """The engine SQL of units that take values: group keys first, then the value's number, the unit's capacity and its turn.

    measure  whose exact sum is how many values are taken
    """

    measure: int
    sql: str
    verified: tuple[Verified, ...] = ()


@dataclass(frozen=True, slots=True)
class CompiledRelease:
    """A release and its engine SQL; its parameter `$cut` is the secret that orders what a limit cuts.

    sql       of the measures' exact sums; "" where no measure has any of its own
    bounds    names of the input tables that the SQL or a key list reads
    verified  shorter SQL for verified data, the one that needs most first
    """

    release: Release
    sql: str
    bounds: tuple[str, ...] = ()
    verified: tuple[Verified, ...] = ()
    histograms: tuple[CompiledHistogram, ...] = ()
    matchings: tuple[CompiledMatching, ...] = ()

    @property
    def texts(self) -> tuple[str, ...]:
        """All engine SQL that runs, on data that is not verified."""
        texts = (self.sql, *(m.sql for m in self.matchings), *(t.sql for t in self.histograms))
        return tuple(text for text in texts if text)

    @property
    def sources(self) -> tuple[tuple[str, tuple[Verified, ...]], ...]:
        """All engine SQL, each text with the shorter ones for verified data."""
        matched = tuple((part.sql, part.verified) for part in self.matchings)
        over_histogram = tuple((part.sql, part.verified) for part in self.histograms)
        return tuple(source for source in ((self.sql, self.verified), *matched, *over_histogram) if source[0])

    @property
    def key_columns(self) -> int:
        """Number of group keys in the SQL: the first columns."""
        return len(self.release.keys)

    @property
    def sum_columns(self) -> int:
        """Number of exact sums in the SQL: the rest of its columns."""
        matched = {matching.measure for matching in self.matchings}
        return sum(m.statistic.sums for i, m in enumerate(self.release.measures) if i not in matched)


@dataclass(frozen=True, slots=True)
class Compiled:
    """Everything that runs. releases and bounds: each after what it reads."""

    plan: Plan
    releases: tuple[CompiledRelease, ...]
    bounds: tuple[InputTable, ...] = ()
