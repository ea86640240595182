"""commons: what the sessions of one thread keep together, so that several analysts of a server cost little more than one.

Why    answers that are stored are the dataset's, and are given to whoever asks the same (rule 73). A plan is a function of the
       declarations, the text, its parameters and the options, and of the public tables that keys are listed from: it is kept by all of
       these and by the versions of the data, and nothing of who asked is in it. Sample units are a function of the declarations and of
       released histograms, and whom a statement asks about is one of it and of them; what an analyst asked before is each session's own
Limit  nothing is shared where the owner lets answers not be: how long a statement takes could tell that somebody else asked it
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

from dpsql.answers.recent import Newest, Shelf
from dpsql.guard.units import SampleUnits
from dpsql.plan.releases import Bounded
from dpsql.planner.parse import Parses, Query
from dpsql.session.result import Answer


@dataclass(slots=True)
class Commons:
    """Answers and plans by the versions of the data, parsed statements, and sample units."""

    answers: Shelf[Answer] = field(default_factory=Shelf)
    plans: Newest[tuple[Query, Bounded]] = field(default_factory=Newest)
    parses: Parses = field(default_factory=Parses)
    _units: dict[Hashable, SampleUnits] = field(default_factory=dict)

    def same(self, public: Hashable, units: SampleUnits) -> SampleUnits:
        """Sample units that are drawn from the same as these, beside the same public tables; these, where there are none yet."""
        return self._units.setdefault((public, units.identity), units)

    def close(self) -> None:
        """Let go of the sample units; the sessions are closed before."""
        for units in self._units.values():
            units.close()
        self._units.clear()
