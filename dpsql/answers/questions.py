"""Identity of a statistic among stored vectors: the statistic, of which rows, on which data version; group keys and
price apart."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from dpsql.accounting.answers import Answers
from dpsql.accounting.vectors import Vector, Vectors
from dpsql.accounting.versions import TableVersions
from dpsql.aggregates.base import Statistic
from dpsql.aggregates.record import value_key
from dpsql.expressions.scalar import Scalar, tree_of
from dpsql.mechanisms.calibration import noise_of
from dpsql.plan.compiled import CompiledRelease
from dpsql.plan.releases import BoundedBlock, Release
from dpsql.plan.resolved import GroupKey
from dpsql.plan.tables import KeyValue
from dpsql.planner.lower.cutting import groups_kept
from dpsql.planner.measure import Identities
from dpsql.sql.trees import Spelling, numbered, spelled


@dataclass(frozen=True, slots=True)
class StatisticsKey:
    """Identity of the statistics of a release among stored vectors.

    questions  one for each measure
    keys       one for each group key
    chosen     keys of which some values are asked for, with these
    """

    questions: tuple[str, ...]
    keys: tuple[str, ...]
    limits: str
    whole: bool
    chosen: tuple[tuple[str, frozenset[KeyValue]], ...] = ()


@dataclass(frozen=True, slots=True)
class RowsKey:
    """Identity of some rows.

    question  a hash
    names     of the aliases of their source: what is asked of them is spelled with these
    """

    question: str
    names: Mapping[str, str]

    def value(self, value: Scalar) -> str:
        """A hash of a value that is added up, with its bounds."""
        return self._hash("value", value_key(value))

    def key(self, key: GroupKey) -> str:
        """A hash of a group key, with its declared values."""
        return self._hash("key", (key.scalar.tree, key.values))

    def _hash(self, kind: str, what: Hashable) -> str:
        text = "\n".join([self.question, kind, spelled(what, self.names)])
        return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()


class AnswerScope:
    """Versions of the data, and whose answers are shared.

    alone  text that names the analyst whose answers are shared with nobody; else ""
    """

    def __init__(self, versions: TableVersions, alone: str) -> None:
        self._versions, self._alone, self._known = versions, alone, dict[Hashable, str]()

    def of(self, release: Release) -> str:
        """Text that is equal only while the tables that a release depends on have the same versions: all, where it names none. Of a
        table with periods it is those of the periods that are read.

        Why  a row of any other period meets a condition that is not true for it (relations/periods.py)
        """
        reads = release.reads if release.tables else tuple((name,) for name in sorted(self._versions.tables))
        if reads not in self._known:
            versions = [(read[0] if len(read) == 1 else read, self._versions.of(*read)) for read in reads]
            self._known[reads] = hashlib.sha256(repr(versions).encode()).hexdigest()[:32] + self._alone
        return self._known[reads]


class Questions:
    """Stored vectors, and what the statistics of a release are known by among them.

    identities  of the declared schema
    scope       of the answers
    """

    def __init__(self, answers: Answers, vectors: Vectors, identities: Identities, scope: AnswerScope) -> None:
        self.answers, self.vectors, self.scope = answers, vectors, scope
        self._identities = identities
        self._begun: tuple[BoundedBlock, Spelling] | None = None
        self._known: tuple[Release, tuple[str, ...], StatisticsKey | None] | None = None

    def kept(self, part: CompiledRelease) -> list[Vector]:
        """Vectors of the cells of a release, for those that come after."""
        asked, release = self.asked(part), part.release
        found: list[Vector] = []
        more: list[Vector] = []
        start = 0
        for place, measure in enumerate(release.measures):
            end = start + measure.statistic.cells
            noise = measure.noise.kept
            if asked is not None and noise is not None:
                question = asked.questions[place]
                cells, rho = (start, end), measure.loss.rho
                found.append(Vector(question, asked.keys, asked.limits, asked.whole, cells, noise, rho))
                more += self._within(release, measure.statistic, found[-1])
            start = end
        return [*found, *more]

    def _within(self, release: Release, statistic: Statistic, vector: Vector) -> list[Vector]:
        """The same cells under the questions of the statistics that can be read off them."""
        return [
            replace(
                vector,
                question=self.question(release, one),
                forms=tuple(tuple(map(Fraction, form.weights)) for form in forms),
            )
            for one, forms in statistic.same(cut=release.limited.enforced)
        ]

    def asked(self, part: CompiledRelease) -> StatisticsKey | None:
        """Identity of the question of a release; None where keys are selected privately, cells may be suppressed, or
        released values take part."""
        known = self._known
        if known is None or known[0] is not part.release or known[1] != part.bounds:
            known = self._known = part.release, part.bounds, self._asked(part)
        return known[2]

    def _asked(self, part: CompiledRelease) -> StatisticsKey | None:
        release = part.release
        block, limits = release.limited.block, release.limited.limits
        if release.selection is not None or release.suppressed or part.bounds or block.lists or not release.measures:
            return None
        return StatisticsKey(
            tuple(self.question(release, m.statistic) for m in release.measures),
            tuple(self.key(release, key) for key in release.keys),
            f"{limits.rows} {limits.groups} {release.limited.enforced}",
            is_whole(release),
        )

    def question(self, release: Release, statistic: Statistic) -> str:
        """A hash of a statistic and of the rows that it is of."""
        return self._hash(release, statistic.identity)

    def rows(self, release: Release) -> RowsKey:
        """Identity of the rows of a release and of what one unit may contribute; not of what is asked of them."""
        return RowsKey(self._hash(release, "rows of a cube"), numbered(release.limited.block.source.read()))

    def key(self, release: Release, key: GroupKey) -> str:
        """A hash of a group key, with its declared values."""
        return self._hash(release, (key.scalar.tree, key.values))

    def _hash(self, release: Release, what: Hashable) -> str:
        return self._rows(release.limited).fingerprint(
            what, self._identities.of(release.tables), self.scope.of(release)
        )

    def _rows(self, limited: BoundedBlock) -> Spelling:
        """The rows of a block and what one unit may contribute, of the block that was asked about last without spelling them anew."""
        if self._begun is None or self._begun[0] is not limited:
            source = limited.block.source
            unit = tree_of(source.unit.column) if source.unit is not None else None
            where = frozenset(condition.tree for condition in source.where)
            self._begun = limited, Spelling(source.read(), unit, where, (limited.limits.rows, limited.enforced))
        return self._begun[1]

    def own(self, part: CompiledRelease, fingerprint: str) -> CompiledRelease:
        """A stored release with the noise that it was drawn with: what "auto" would take now may be another."""
        measures = part.release.measures
        stored = [noise_of(vector.noise) for vector in self.vectors.of(fingerprint) if not vector.forms]
        if len(stored) != len(measures) or any(noise is None for noise in stored):
            return part
        again = tuple(replace(m, noise=noise) for m, noise in zip(measures, stored, strict=True) if noise is not None)
        return part if again == measures else replace(part, release=replace(part.release, measures=again))

    def same(self, asked: StatisticsKey, question: str) -> list[Vector]:
        """The stored vectors of a question by the same keys, with the same limits, whose cells are its own."""
        same = [v for v in self.vectors.find(question) if v.keys == asked.keys and v.limits == asked.limits]
        return [vector for vector in same if not vector.forms]


def is_whole(release: Release) -> bool:
    """True if a unit's groups are never cut: there are no more than it may have, or all of its rows are in one."""
    return not release.limited.enforced or groups_kept(release)
