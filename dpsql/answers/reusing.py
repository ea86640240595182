"""reusing: derived answers, which are read off stored ones, free.

Every statistic of a stored release is one integer vector with noise, kept under the *question* that it answers: which statistic, of
which rows, on which data version; the group keys and the price apart. A release whose statistics all have such a vector is not bought:

1. the same cells, bought at least as dearly and at least as exact: given as they are
2. finer cells: added up over the keys that are not asked. Only what is additive (numbers of rows, sums, pairs, moments), only over
   declared keys, and only where no unit's groups were cut. What the finer keys leave out (NULL or a value that is not declared)
   stays left out, a unit's rows are cut in the finer groups, and a note says both (rule 41). A sum of very many
   cells is much less exact than what could be bought: then it is bought
3. columns of a stored vector of several values: free, unless it is much less exact than what could be bought, and a note says how
   much; and a statement of several values, of what is stored of each
4. AVG(x) of a stored SUM(x) and COUNT(x) of the same rows, never of COUNT(*); SUM(x) beside COUNT(*) of a stored one of each
5. what a condition on declared values keeps, such as site = 1: the groups with these values of a stored answer without the condition
   that has their column among its keys, and as in 2

Each of them is post-processing of released numbers, with the noise that is really in them. What is stored with Gaussian noise at a
smaller price is sharpened for the difference (refining.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import chain

from dpsql.accounting.vectors import Vector
from dpsql.aggregates.apart import ways_apart
from dpsql.aggregates.base import Statistic
from dpsql.aggregates.record import Aggregate
from dpsql.answers.questions import Questions, StatisticsKey, is_whole
from dpsql.answers.standing import LEVEL, Again, StoredVector, Wanted, columns_of, parts_apart, relative_error
from dpsql.core.errors import error
from dpsql.mechanisms.additive import AdditiveNoise
from dpsql.mechanisms.calibration import noise_of
from dpsql.mechanisms.side_by_side import SideBySide
from dpsql.mechanisms.summed import summed
from dpsql.plan.compiled import CompiledRelease
from dpsql.plan.releases import Output, Release
from dpsql.plan.tables import KeyValue, NoisyTable
from dpsql.planner.limit import key_count
from dpsql.planner.slices import Slice, slices

WIDER = 4
"""Largest error of a sum of stored cells, or of what shares them with other columns, in errors of what would be bought, so that it is
given instead, free."""


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Stored answers that will do for one that would be bought.

    error    the most that they may err, in errors of what would be bought
    cheaper  whether they may have cost less
    """

    error: float
    cheaper: bool = False


@dataclass(frozen=True, slots=True)
class Reused:
    """A release that is read off stored answers.

    part          the release with the noise that is in its cells
    table         the cells
    fingerprints  of the answers that it was read off
    note          what the reader of it has to know, or None
    cube          the name of the cube that it was read off, or ""
    fewest        of a cube, rows of the group that has the fewest by the noisy number; 0 where there is no group
    narrow        whether its noise is so narrow that a difference from other answers could be read
    """

    part: CompiledRelease
    table: NoisyTable
    fingerprints: tuple[str, ...]
    note: str | None = None
    cube: str = ""
    fewest: int = 0
    narrow: bool = False


class Reusing:
    """Looks for stored vectors that a release can be read off."""

    def __init__(self, questions: Questions) -> None:
        self._questions = questions

    def find(self, part: CompiledRelease, within: Tolerance) -> Reused | None:
        """A release that is read off what is stored; None where it has to be bought."""
        if part.release.chosen:
            return None
        for one in chain([Slice(part.release, ())], slices(part.release)):
            found = self._read_off(part, one, within)
            if found is not None:
                return found
        return None

    def _read_off(self, part: CompiledRelease, one: Slice, within: Tolerance) -> Reused | None:
        """A release that is read off what is stored of it without some of its conditions."""
        release = part.release
        asked = self._questions.asked(replace(part, release=one.release))
        if asked is None:
            return None
        chosen = tuple((self._questions.key(one.release, subject.key), subject.allowed) for subject in one.subjects)
        asked = replace(asked, chosen=chosen, whole=is_whole(release))
        again = Again(release)
        for place in range(len(release.measures)):
            if not self._found(again, asked, place, within):
                return None
        found = again.found
        columns = [self._cells(release, each) for each in found]
        if any(column is None for column in columns):
            return None
        groups = key_count(release.keys) if release.keys else 1
        keys = declared_columns(release)
        table = NoisyTable(keys, tuple(cell for column in columns for cell in column or ()), groups)
        names = tuple(dict.fromkeys(each.vector.fingerprint for each in found))
        return Reused(replace(part, release=again.release), table, names, _note(found, release))

    def _found(self, again: Again, asked: StatisticsKey, place: int, within: Tolerance) -> bool:
        """True if what is made of a measure can be read off what is stored: it is added to the others."""
        release = again.asked
        measure = release.measures[place]
        wanted = Wanted(measure.statistic, measure.noise, measure.loss.rho, tuple(columns_of(release, place)))
        best = self._best(asked, release, wanted, asked.questions[place], within)
        if best is not None:
            again.add(place, wanted, best)
            return True
        if again.is_present(place) or asked.chosen:
            return False
        if columns_of(release, place) and all(
            ways_apart(measure.statistic, a, cut=release.limited.enforced) for _, a in columns_of(release, place)
        ):
            return all(self._column(again, asked, place, column, within) for column in columns_of(release, place))
        apart = self._sum_and_count(asked, release, place) if within.error > 1 else None
        if apart is None:
            return False
        again.add_apart(place, apart)
        return True

    def _column(
        self, again: Again, asked: StatisticsKey, place: int, column: tuple[Output, Aggregate], within: Tolerance
    ) -> bool:
        """True if one column of a joint vector can be read off what is stored of it apart, as exact as it would be."""
        release, (output, aggregate) = again.asked, column
        measure = release.measures[place]
        for statistics, estimate in ways_apart(measure.statistic, aggregate, cut=release.limited.enforced):
            if estimate is None:
                wanted = Wanted(statistics[0], measure.noise, Fraction(0), (column,), apart=True)
                question = self._questions.question(release, statistics[0])
                best = self._best(asked, release, wanted, question, within)
                if best is not None:
                    again.add(place, wanted, best)
                    return True
                continue
            both = [self._same(asked, release, statistic, Fraction(0)) for statistic in statistics]
            first, second = both[0], both[-1]
            if within.error <= 1 or first is None or second is None:
                continue
            noise = SideBySide(first.noise, second.noise)
            if relative_error(estimate, noise, output.estimate, measure.noise) <= 1:
                again.add_two(place, output, estimate, list(zip(statistics, (first, second), strict=True)))
                return True
        return False

    def _best(
        self, asked: StatisticsKey, release: Release, wanted: Wanted, question: str, within: Tolerance
    ) -> StoredVector | None:
        """The stored vector with the smallest error that may stand for a statistic."""
        found: list[StoredVector] = []
        for vector in self._questions.vectors.find(question):
            noise = noise_of(vector.noise)
            if noise is None or (vector.rho < wanted.rho and not within.cheaper):
                continue
            if sorted(vector.keys) == sorted(asked.keys) and not asked.chosen:
                error_of = wanted.error(vector, noise)
                most = within.error if vector.forms or within.cheaper else 1
                if vector.limits == asked.limits and error_of <= most:
                    in_order = None if vector.keys == asked.keys else asked.keys
                    found.append(StoredVector(vector, noise, error_of, in_order))
                continue
            wider = self._rolled_up(asked, release, wanted, vector, noise)
            if wider is not None and wider.error <= within.error:
                found.append(wider)
        return min(found, key=lambda one: one.error, default=None)

    def _rolled_up(
        self, asked: StatisticsKey, release: Release, wanted: Wanted, vector: Vector, noise: AdditiveNoise
    ) -> StoredVector | None:
        """A vector by more keys, added up; None where it is not the same sum."""
        additive = wanted.statistic.adds_up(one_row=not release.limited.enforced)
        needed = {*asked.keys, *(key for key, _ in asked.chosen)}
        if not needed <= set(vector.keys) or not vector.whole or not asked.whole:
            return None
        table = self._questions.answers.get(vector.fingerprint)
        if table is None:
            return None
        kept = _chosen_rows(table, vector, asked.chosen)
        # a group that a condition leaves out holds nobody, and is 0 where it is shown
        groups = _reached(table, vector, asked.keys, kept) if asked.chosen else key_count(release.keys)
        if not kept or len(kept) % groups or (len(kept) > groups and not additive):
            return None
        sum_of = summed(noise, len(kept) // groups) if len(kept) > groups else noise
        return (
            None
            if sum_of is None
            else StoredVector(vector, sum_of, wanted.error(vector, sum_of), asked.keys, asked.chosen)
        )

    def _sum_and_count(self, asked: StatisticsKey, release: Release, place: int) -> list[StoredVector] | None:
        """A sum and a number of rows, each bought at least as dearly as the pair would be."""
        parts, measure = parts_apart(release, place), release.measures[place]
        found = [self._same(asked, release, statistic, measure.loss.rho) for statistic in parts.values()]
        known = [one for one in found if one is not None]
        return known if known and len(known) == len(found) else None

    def _same(self, asked: StatisticsKey, release: Release, statistic: Statistic, rho: Fraction) -> StoredVector | None:
        """The most exact vector of a statistic, with cells of its own, by the same keys."""
        same = [
            StoredVector(v, noise, float(noise.half_width(LEVEL)))
            for v in self._questions.same(asked, self._questions.question(release, statistic))
            if v.rho >= rho and (noise := noise_of(v.noise)) is not None
        ]
        return min(same, key=lambda one: one.error, default=None)

    def _cells(self, release: Release, found: StoredVector) -> tuple[Sequence[int], ...] | None:
        """The cells of a found vector for the groups of a release, in their order."""
        table = self._questions.answers.get(found.vector.fingerprint)
        if table is None:
            return None
        cells = table.known(*found.vector.cells)
        if found.kept is None:
            return cells
        places = [found.vector.keys.index(key) for key in found.kept]
        order: dict[tuple[KeyValue, ...], int] = {(): 0}
        if places:
            order = {key: i for i, key in enumerate(zip(*declared_columns(release), strict=True))}
        keys, cells_of = [list(table.keys[place]) for place in places], [cell.tolist() for cell in cells]
        whole = tuple([0] * len(order) for _ in cells)
        for row in _chosen_rows(table, found.vector, found.chosen):
            i = order.get(tuple(column[row] for column in keys))
            if i is None:
                raise error(901, "a stored group is none of the declared ones")
            for target, cell in zip(whole, cells_of, strict=True):
                target[i] += cell[row]
        return whole


def _chosen_rows(table: NoisyTable, vector: Vector, chosen: Sequence[tuple[str, frozenset[KeyValue]]]) -> Sequence[int]:
    """The places of the groups with the values that are asked for."""
    kept: Sequence[int] = range(table.groups)
    for key, allowed in chosen:
        column = list(table.keys[vector.keys.index(key)])
        kept = [row for row in kept if column[row] in allowed]
    return kept


def _reached(table: NoisyTable, vector: Vector, keys: Sequence[str], rows: Sequence[int]) -> int:
    """Number of groups by some of the keys among these."""
    columns = [list(table.keys[vector.keys.index(key)]) for key in keys]
    return len({tuple(column[row] for column in columns) for row in rows})


def declared_columns(release: Release) -> tuple[list[KeyValue], ...]:
    """All combinations of the declared keys, in their order."""
    return combinations_of([key.values or () for key in release.keys])


def combinations_of(lists: Sequence[Sequence[KeyValue]]) -> tuple[list[KeyValue], ...]:
    """All combinations of some values, the last one first to change."""
    columns: list[list[KeyValue]] = [[] for _ in lists]
    rows: list[tuple[KeyValue, ...]] = [()]
    for values in lists:
        rows = [(*row, value) for row in rows for value in values]
    for row in rows:
        for column, value in zip(columns, row, strict=True):
            column.append(value)
    return tuple(columns)


def _note(found: Sequence[StoredVector], release: Release) -> str | None:
    if any(one.chosen or (one.kept is not None and len(one.kept) < len(one.vector.keys)) for one in found):
        limited = ", each group is after its own limits" if release.limited.enforced else ""
        return (
            f"made of stored answers by more keys: rows without a declared key of theirs are left out{limited}, and the error is that "
            "of the sum; write /* dpsql: fresh */ to ask and pay anew"
        )
    wider = max((one.error for one in found if one.vector.forms), default=0.0)
    if wider <= 1:
        return None
    return (
        f"read off a stored answer with other columns: the error is up to {wider:.1f} times that of asking this alone; "
        "write /* dpsql: fresh */ to ask and pay anew"
    )
