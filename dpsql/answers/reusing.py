"""reusing: what of a release can be read off stored answers, free, or sharpened for the difference in price.

Every statistic of a stored release is one integer vector with noise, kept under the *question* that it answers: which statistic, of
which rows, on which data version; the group keys and the price apart. A release whose statistics all have such a vector is not bought:

1. the same cells, bought at least as dearly and at least as exact: given as they are
2. finer cells: added up over the keys that are not asked. Only what is additive (numbers of rows, sums, pairs, moments), only over
   declared keys, and only where no unit's groups were cut. What the finer keys leave out (NULL or a value that is not declared)
   stays left out, a unit's rows are cut in the finer groups, and a note says both (rule 41). A sum of very many
   cells is much less exact than what could be bought: then it is bought
3. AVG(x) of a stored SUM(x) and COUNT(x) of the same rows, never of COUNT(*); SUM(x) beside COUNT(*) of a stored one of each
4. what a condition on declared values keeps, such as site = 1: the groups with these values of a stored answer without the condition
   that has their column among its keys, and as in 2

Each of them is post-processing of released numbers, with the noise that is really in them. And

5. the same cells with Gaussian noise at a smaller price: the difference in rho is bought, and the two draws are averaged, weighted by
   their rho. Both are of the same integer vector: same question, limits, and data version, the same cut by the same secret (rule 42)

Why 5  with y1 = x + N(0, D^2 / (2 rho1)) released, y2 = x + N(0, D^2 / (2 rho2)) is a release of its own: together they lose
       rho1 + rho2. Their average weighted by rho has variance D^2 / (2 (rho1 + rho2)): that of one draw at the sum
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import chain

from dpsql.accounting.answers import Answers
from dpsql.accounting.vectors import Vector, Vectors
from dpsql.aggregates.apart import AvgOfTwo
from dpsql.aggregates.avg import AvgOf, Pair
from dpsql.aggregates.base import Statistic
from dpsql.aggregates.count import CountOf, Rows
from dpsql.aggregates.count_distinct import Units
from dpsql.aggregates.moments import Moments
from dpsql.aggregates.sum import SumOf, Total
from dpsql.core.errors import error
from dpsql.core.loss import total
from dpsql.expressions.scalar import tree_of
from dpsql.mechanisms.additive import AdditiveNoise
from dpsql.mechanisms.gaussian import DiscreteGaussian
from dpsql.mechanisms.laplace import DiscreteLaplace
from dpsql.mechanisms.summed import summed
from dpsql.plan.compiled import CompiledRelease
from dpsql.plan.releases import Measure, Output, Release
from dpsql.plan.resolved import GroupKey
from dpsql.plan.tables import KeyValue, NoisyTable
from dpsql.planner.limit import key_count
from dpsql.planner.noises import WIDEST_SCALE
from dpsql.planner.pricing import NO_MU
from dpsql.planner.slices import Slice, slices
from dpsql.planner.statistics import counted_rows
from dpsql.sql.identity import fingerprint

_ADDITIVE = (Rows, Total, Pair, Moments)
WIDER = 4
"""How many times the error of what would be bought a sum of stored cells may have, so that it is given instead, free."""
_LEVEL = Fraction(95, 100)


@dataclass(frozen=True, slots=True)
class Asked:
    """What identifies the statistics of a release among stored vectors.

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
class Reused:
    """A release that is read off stored answers.

    part          the release with the noise that is in its cells
    table         the cells
    fingerprints  of the answers that it was read off
    note          what the reader of it has to know, or None
    """

    part: CompiledRelease
    table: NoisyTable
    fingerprints: tuple[str, ...]
    note: str | None = None


@dataclass(frozen=True, slots=True)
class TopUp:
    """A release that was bought at a smaller price with Gaussian noise.

    part    what is bought in addition
    first   what was bought before: the cells of each measure, and their rho
    names   fingerprints of the answers that it was bought in
    """

    part: CompiledRelease
    first: tuple[tuple[tuple[list[int], ...], Fraction], ...]
    names: tuple[str, ...]

    def combined(self, second: NoisyTable) -> NoisyTable:
        """The averages of both, weighted by their rho, to the nearest integer."""
        cells: list[list[int]] = []
        for measure, (before, rho) in zip(self.part.release.measures, self.first, strict=True):
            share = rho / (rho + measure.loss.rho)
            one, whole = share.numerator, share.denominator
            other, half = whole - one, whole // 2
            for x, y in zip(before, second.known(len(cells), len(cells) + len(before)), strict=True):
                cells.append([(one * a + other * b + half) // whole for a, b in zip(x, y, strict=True)])
        return replace(second, cells=tuple(cells))


class Reusing:
    """Looks for stored vectors.

    identity  of the declared schema
    version   of the data, and whose answers are shared, as the session's fingerprints hold it
    """

    def __init__(self, answers: Answers, vectors: Vectors, identity: str, version: str) -> None:
        self._answers, self._vectors = answers, vectors
        self._identity, self._version = identity, version

    # --- what is kept -------------------------------------------------------------------------------------------------

    def vectors(self, part: CompiledRelease) -> list[Vector]:
        """What the cells of a release are, for those that come after."""
        asked, release = self._asked(part), part.release
        found: list[Vector] = []
        start = 0
        for place, measure in enumerate(release.measures):
            end = start + measure.statistic.cells
            noise = _written(measure.noise)
            if asked is not None and noise is not None:
                question = asked.questions[place]
                found.append(
                    Vector(question, asked.keys, asked.limits, asked.whole, (start, end), noise, measure.loss.rho)
                )
            start = end
        return found

    def _asked(self, part: CompiledRelease) -> Asked | None:
        """None where keys are selected privately, cells may be suppressed, or released values take part."""
        release = part.release
        block, limits = release.limited.block, release.limited.limits
        if release.selection is not None or release.suppressed or part.bounds or block.lists or not release.measures:
            return None
        return Asked(
            tuple(self.question(release, m.statistic) for m in release.measures),
            tuple(self._key(release, i) for i in range(len(release.keys))),
            f"{limits.rows} {limits.groups} {release.limited.enforced}",
            _is_whole(release),
        )

    def question(self, release: Release, statistic: Statistic) -> str:
        """A hash of a statistic and of the rows that it is of."""
        return self._hash(release, statistic.identity)

    def _key(self, release: Release, i: int) -> str:
        return self._key_of(release, release.keys[i])

    def _key_of(self, release: Release, key: GroupKey) -> str:
        return self._hash(release, (key.scalar.tree, key.values))

    def _hash(self, release: Release, what: Hashable) -> str:
        source, limited = release.limited.block.source, release.limited
        return fingerprint(
            source.read(),
            tree_of(source.unit.column) if source.unit is not None else None,
            frozenset(condition.tree for condition in source.where),
            (limited.limits.rows, limited.enforced),
            what,
            self._identity,
            self._version,
        )

    def own(self, part: CompiledRelease, fingerprint: str) -> CompiledRelease:
        """A stored release with the noise that it was drawn with: what "auto" would take now may be another."""
        measures = part.release.measures
        stored = [_read(vector.noise) for vector in self._vectors.of(fingerprint)]
        if len(stored) != len(measures) or any(noise is None for noise in stored):
            return part
        again = tuple(replace(m, noise=noise) for m, noise in zip(measures, stored, strict=True) if noise is not None)
        return part if again == measures else replace(part, release=replace(part.release, measures=again))

    # --- what is found ------------------------------------------------------------------------------------------------

    def find(self, part: CompiledRelease, exact: bool) -> Reused | None:
        """A release that is read off what is stored; None where it has to be bought.

        exact  whether an accuracy was asked, so that nothing wider will do
        """
        if part.release.chosen:
            return None
        for one in chain([Slice(part.release, ())], slices(part.release)):
            found = self._read_off(part, one, exact)
            if found is not None:
                return found
        return None

    def _read_off(self, part: CompiledRelease, one: Slice, exact: bool) -> Reused | None:
        """A release that is read off what is stored of it without some of its conditions."""
        release = part.release
        asked = self._asked(replace(part, release=one.release))
        if asked is None:
            return None
        chosen = tuple((self._key_of(one.release, subject.key), subject.allowed) for subject in one.subjects)
        asked = replace(asked, chosen=chosen, whole=_is_whole(release))
        found: list[_Found] = []
        measures: list[Measure] = []
        outputs: dict[int, list[Output]] = {}
        for place, measure in enumerate(release.measures):
            best = self._best(asked, release, measure, asked.questions[place], exact)
            if best is not None:
                outputs[place] = [replace(o, measure=len(measures)) for o in release.outputs if o.measure == place]
                measures.append(replace(measure, noise=best.noise))
                found.append(best)
                continue
            apart = self._apart(asked, release, place) if not exact and not asked.chosen else None
            if apart is None:
                return None
            outputs[place] = _outputs_apart(release, place, measure, len(measures))
            for statistic, cell in zip(_apart(release, place), apart, strict=True):
                measures.append(replace(measure, statistic=statistic, noise=cell.noise))
                found.append(cell)
        columns = [self._cells(release, each) for each in found]
        if any(column is None for column in columns):
            return None
        groups = key_count(release.keys) if release.keys else 1
        keys = _declared(release)
        table = NoisyTable(keys, tuple(cell for column in columns for cell in column or ()), groups)
        again = replace(
            release, measures=tuple(measures), outputs=tuple(o for own in outputs.values() for o in own), compared=None
        )
        names = tuple(dict.fromkeys(each.vector.fingerprint for each in found))
        return Reused(replace(part, release=_in_order(again, release)), table, names, _note(found, release))

    def top_up(self, part: CompiledRelease) -> TopUp | None:
        """A release whose price is above that of the same cells with Gaussian noise: what is to be bought in addition."""
        asked, release = self._asked(part), part.release
        if asked is None or release.chosen:
            return None
        first: list[tuple[tuple[list[int], ...], Fraction]] = []
        measures: list[Measure] = []
        names: list[str] = []
        for place, measure in enumerate(release.measures):
            vector = self._cheaper(asked, measure, asked.questions[place])
            cells = self._stored(vector) if vector is not None else None
            if vector is None or cells is None or not isinstance(measure.noise, DiscreteGaussian):
                return None
            rest = DiscreteGaussian.for_rho(measure.sensitivity.l2_squared, measure.loss.rho - vector.rho)
            if rest.sigma_squared > WIDEST_SCALE**2:
                return None
            measures.append(_with_rho(measure, measure.loss.rho - vector.rho))
            first.append((cells, vector.rho))
            names.append(vector.fingerprint)
        bought = replace(release, measures=tuple(measures), loss=total(m.loss for m in measures))
        return TopUp(replace(part, release=bought), tuple(first), tuple(dict.fromkeys(names)))

    def dearer(self, part: CompiledRelease, topped: TopUp, factor: Fraction) -> tuple[CompiledRelease, TopUp]:
        """A release and what is bought of it in addition, for so many times the price; the release has the noise that is then in it."""
        more: list[Measure] = []
        whole: list[Measure] = []
        pairs = zip(part.release.measures, topped.part.release.measures, topped.first, strict=True)
        for asked, bought, (_, first) in pairs:
            own = _with_rho(bought, bought.loss.rho * factor)
            more.append(own)
            whole.append(_with_rho(asked, first + own.loss.rho))
        again = replace(part, release=replace(part.release, measures=tuple(whole), loss=total(m.loss for m in whole)))
        release = replace(topped.part.release, measures=tuple(more), loss=total(m.loss for m in more), raised=True)
        return again, replace(topped, part=replace(topped.part, release=release))

    def _cheaper(self, asked: Asked, measure: Measure, question: str) -> Vector | None:
        """The dearest stored vector of the same cells with Gaussian noise that is cheaper than this measure."""
        if not isinstance(measure.noise, DiscreteGaussian) or measure.loss.epsilon is not None:
            return None
        same = [
            v
            for v in self._vectors.find(question)
            if v.keys == asked.keys
            and v.limits == asked.limits
            and v.noise[0] == "gaussian"
            and v.rho < measure.loss.rho
        ]
        return max(same, key=lambda v: v.rho, default=None)

    def _best(self, asked: Asked, release: Release, measure: Measure, question: str, exact: bool) -> _Found | None:
        """The stored vector with the smallest error that may stand for a measure."""
        found: list[_Found] = []
        most = measure.noise.half_width(_LEVEL)
        for vector in self._vectors.find(question):
            noise = _read(vector.noise)
            if noise is None or vector.rho < measure.loss.rho:
                continue
            if sorted(vector.keys) == sorted(asked.keys) and not asked.chosen:
                if vector.limits == asked.limits and noise.half_width(_LEVEL) <= most:
                    in_order = None if vector.keys == asked.keys else asked.keys
                    found.append(_Found(vector, noise, noise.half_width(_LEVEL), in_order))
                continue
            wider = self._rolled_up(asked, release, measure, vector, noise)
            if wider is not None and wider.half_width <= (1 if exact else WIDER) * most:
                found.append(wider)
        return min(found, key=lambda one: one.half_width, default=None)

    def _rolled_up(
        self, asked: Asked, release: Release, measure: Measure, vector: Vector, noise: AdditiveNoise
    ) -> _Found | None:
        """A vector by more keys, added up; None where it is not the same sum."""
        additive = isinstance(measure.statistic, _ADDITIVE) or (
            isinstance(measure.statistic, Units) and not release.limited.enforced
        )
        needed = {*asked.keys, *(key for key, _ in asked.chosen)}
        if not needed <= set(vector.keys) or not vector.whole or not asked.whole:
            return None
        table = self._answers.get(vector.fingerprint)
        if table is None:
            return None
        kept = _chosen_rows(table, vector, asked.chosen)
        # a group that a condition leaves out holds nobody, and is 0 where it is shown
        groups = _reached(table, vector, asked.keys, kept) if asked.chosen else key_count(release.keys)
        if not kept or len(kept) % groups or (len(kept) > groups and not additive):
            return None
        sum_of = summed(noise, len(kept) // groups) if len(kept) > groups else noise
        return None if sum_of is None else _Found(vector, sum_of, sum_of.half_width(_LEVEL), asked.keys, asked.chosen)

    def _apart(self, asked: Asked, release: Release, place: int) -> tuple[_Found, _Found] | None:
        """A sum and a number of rows, each bought at least as dearly as the pair would be."""
        parts, measure = _apart(release, place), release.measures[place]
        if not parts:
            return None
        found = []
        for statistic in parts:
            question = self.question(release, statistic)
            same = [
                _Found(v, noise, noise.half_width(_LEVEL))
                for v in self._vectors.find(question)
                if v.keys == asked.keys
                and v.limits == asked.limits
                and v.rho >= measure.loss.rho
                and (noise := _read(v.noise)) is not None
            ]
            if not same:
                return None
            found.append(min(same, key=lambda one: one.half_width))
        return found[0], found[1]

    def _stored(self, vector: Vector) -> tuple[list[int], ...] | None:
        table = self._answers.get(vector.fingerprint)
        return table.known(*vector.cells) if table is not None else None

    def _cells(self, release: Release, found: _Found) -> tuple[list[int], ...] | None:
        """The cells of a found vector for the groups of a release, in their order."""
        table = self._answers.get(found.vector.fingerprint)
        if table is None:
            return None
        cells = table.known(*found.vector.cells)
        if found.kept is None:
            return cells
        places = [found.vector.keys.index(key) for key in found.kept]
        order: dict[tuple[KeyValue, ...], int] = {(): 0}
        if places:
            order = {key: i for i, key in enumerate(zip(*_declared(release), strict=True))}
        whole = tuple([0] * len(order) for _ in cells)
        for row in _chosen_rows(table, found.vector, found.chosen):
            i = order.get(tuple(table.keys[place][row] for place in places))
            if i is None:
                raise error(901, "a stored group is none of the declared ones")
            for target, cell in zip(whole, cells, strict=True):
                target[i] += cell[row]
        return whole


def _with_rho(measure: Measure, rho: Fraction) -> Measure:
    """A measure with the Gaussian noise that costs this."""
    noise = DiscreteGaussian.for_rho(measure.sensitivity.l2_squared, rho)
    cost = noise.rho(measure.sensitivity.l2_squared)
    claimed = NO_MU if measure.loss.mu_squared == NO_MU else 2 * cost
    return replace(measure, noise=noise, loss=replace(measure.loss, rho=cost, mu_squared=claimed))


@dataclass(frozen=True, slots=True)
class _Found:
    """A stored vector that may be read, with the noise of what is read.

    kept    the keys that are left; None: all of them
    chosen  keys of which some values are read
    """

    vector: Vector
    noise: AdditiveNoise
    half_width: int
    kept: tuple[str, ...] | None = None
    chosen: tuple[tuple[str, frozenset[KeyValue]], ...] = ()


def _chosen_rows(table: NoisyTable, vector: Vector, chosen: Sequence[tuple[str, frozenset[KeyValue]]]) -> Sequence[int]:
    """The places of the groups with the values that are asked for."""
    kept: Sequence[int] = range(table.groups)
    for key, allowed in chosen:
        column = table.keys[vector.keys.index(key)]
        kept = [row for row in kept if column[row] in allowed]
    return kept


def _reached(table: NoisyTable, vector: Vector, keys: Sequence[str], rows: Sequence[int]) -> int:
    """How many groups by some of the keys there are among these."""
    columns = [table.keys[vector.keys.index(key)] for key in keys]
    return len({tuple(column[row] for column in columns) for row in rows})


def _is_whole(release: Release) -> bool:
    """Whether a unit's groups are never cut: there are no more than it may have, or all of its rows are in one."""
    limits = release.limited.limits
    groups = key_count(release.keys) if release.keys else 1
    constant = all(key.scalar.is_constant for key in release.keys)
    return not release.limited.enforced or constant or limits.groups >= min(limits.rows, groups)


def _declared(release: Release) -> tuple[list[KeyValue], ...]:
    """All combinations of the declared keys, in their order."""
    columns: list[list[KeyValue]] = [[] for _ in release.keys]
    rows: list[tuple[KeyValue, ...]] = [()]
    for key in release.keys:
        rows = [(*row, value) for row in rows for value in key.values or ()]
    for row in rows:
        for column, value in zip(columns, row, strict=True):
            column.append(value)
    return tuple(columns)


def _apart(release: Release, place: int) -> tuple[Statistic, ...]:
    """SUM(x) and COUNT(x) that stand for a pair, or SUM(x) and COUNT(*) for one that nothing else is read off; () for anything else."""
    statistic = release.measures[place].statistic
    if not isinstance(statistic, Pair):
        return ()
    if not statistic.with_rows:
        return Total(statistic.term, statistic.counted), Rows(counted_rows(statistic.term.scalar, statistic.counted))
    read = [output.estimate for output in release.outputs if output.measure == place]
    if any(isinstance(e, AvgOf) or (isinstance(e, CountOf) and e.used < statistic.cells) for e in read):
        return ()
    return Total(statistic.term, statistic.counted), Rows(statistic.counted)


def _outputs_apart(release: Release, place: int, measure: Measure, first: int) -> list[Output]:
    """The columns of a pair, read off the sum at `first` and the count after it."""
    assert isinstance(measure.statistic, Pair)
    term = measure.statistic.term
    found: list[Output] = []
    for output in release.outputs:
        if output.measure == place:
            if isinstance(output.estimate, AvgOf):
                found.append(Output(output.name, first, AvgOfTwo(term), first + 1))
            elif isinstance(output.estimate, CountOf):
                found.append(Output(output.name, first + 1, CountOf(1, sqltype=output.estimate.sqltype)))
            else:
                found.append(Output(output.name, first, SumOf(term.quantum, output.estimate.sqltype)))
    return found


def _in_order(again: Release, release: Release) -> Release:
    """The columns in the order in which the release has them."""
    order = {output.name: i for i, output in enumerate(release.outputs)}
    return replace(again, outputs=tuple(sorted(again.outputs, key=lambda output: order[output.name])))


def _note(found: Sequence[_Found], release: Release) -> str | None:
    if not any(one.chosen or (one.kept is not None and len(one.kept) < len(one.vector.keys)) for one in found):
        return None
    limited = ", each group is after its own limits" if release.limited.enforced else ""
    return (
        f"made of stored answers by more keys: rows without a declared key of theirs are left out{limited}, and the error is that of "
        "the sum; write /* dpsql: fresh */ to ask and pay anew"
    )


def _written(noise: AdditiveNoise) -> tuple[str, Fraction] | None:
    if isinstance(noise, DiscreteGaussian):
        return "gaussian", noise.sigma_squared
    return ("laplace", noise.scale) if isinstance(noise, DiscreteLaplace) else None


def _read(written: tuple[str, Fraction]) -> AdditiveNoise | None:
    kind, parameter = written
    if kind == "gaussian":
        return DiscreteGaussian(parameter)
    return DiscreteLaplace(parameter) if kind == "laplace" else None
