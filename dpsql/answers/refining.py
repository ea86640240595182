"""Refinement of cells that were bought with Gaussian noise at a smaller price: the difference in rho is bought, and the two draws are
averaged, weighted by their rho. Both are of the same integer vector: same question, limits, and data version, the same cut by the same
secret (rule 42).

Why  with y1 = x + N(0, D^2 / (2 rho1)) released, y2 = x + N(0, D^2 / (2 rho2)) is a release of its own: together they lose
     rho1 + rho2. Their average weighted by rho has variance D^2 / (2 (rho1 + rho2)): that of one draw at the sum
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from dpsql.accounting.vectors import Vector
from dpsql.answers.questions import Questions, StatisticsKey
from dpsql.core.errors import error
from dpsql.core.loss import total
from dpsql.mechanisms.calibration import NO_MU
from dpsql.plan.compiled import CompiledRelease
from dpsql.plan.releases import NoisyStatistic
from dpsql.plan.tables import NoisyTable
from dpsql.planner.pricing import WIDEST_SCALE


@dataclass(frozen=True, slots=True)
class Refinement:
    """A release that was bought at a smaller price with Gaussian noise.

    part    what is bought in addition
    first   what was bought before: the cells of each measure, and their rho
    names   fingerprints of the answers that it was bought in
    """

    part: CompiledRelease
    first: tuple[tuple[tuple[Sequence[int], ...], Fraction], ...]
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


def refine(questions: Questions, part: CompiledRelease) -> Refinement | None:
    """A release whose price is above that of the same cells with Gaussian noise: what is to be bought in addition."""
    asked, release = questions.asked(part), part.release
    if asked is None or release.chosen:
        return None
    first: list[tuple[tuple[Sequence[int], ...], Fraction]] = []
    measures: list[NoisyStatistic] = []
    names: list[str] = []
    for place, measure in enumerate(release.measures):
        vector = _cheaper(questions, asked, measure, asked.questions[place])
        table = questions.answers.get(vector.fingerprint) if vector is not None else None
        if vector is None or table is None:
            return None
        rest = measure.noise.at_rho(measure.sensitivity.l2_squared, measure.loss.rho - vector.rho)
        if rest is None or rest.squared_scale > WIDEST_SCALE**2:
            return None
        measures.append(_with_rho(measure, measure.loss.rho - vector.rho))
        first.append((table.known(*vector.cells), vector.rho))
        names.append(vector.fingerprint)
    bought = replace(release, measures=tuple(measures), loss=total(m.loss for m in measures))
    return Refinement(replace(part, release=bought), tuple(first), tuple(dict.fromkeys(names)))


def dearer(part: CompiledRelease, topped: Refinement, factor: Fraction) -> tuple[CompiledRelease, Refinement]:
    """A release and what is bought of it in addition, for so many times the price; the release has the noise that is then in it."""
    more: list[NoisyStatistic] = []
    whole: list[NoisyStatistic] = []
    pairs = zip(part.release.measures, topped.part.release.measures, topped.first, strict=True)
    for asked, bought, (_, first) in pairs:
        own = _with_rho(bought, bought.loss.rho * factor)
        more.append(own)
        whole.append(_with_rho(asked, first + own.loss.rho))
    again = replace(part, release=replace(part.release, measures=tuple(whole), loss=total(m.loss for m in whole)))
    release = replace(topped.part.release, measures=tuple(more), loss=total(m.loss for m in more), raised=True)
    return again, replace(topped, part=replace(topped.part, release=release))


def _cheaper(questions: Questions, asked: StatisticsKey, measure: NoisyStatistic, question: str) -> Vector | None:
    """The dearest stored vector of the same cells with noise of this kind that is cheaper than this measure."""
    kept = measure.noise.kept
    if kept is None or measure.loss.epsilon is not None:
        return None
    same = [v for v in questions.same(asked, question) if v.noise[0] == kept[0] and v.rho < measure.loss.rho]
    return max(same, key=lambda v: v.rho, default=None)


def _with_rho(measure: NoisyStatistic, rho: Fraction) -> NoisyStatistic:
    """A measure with the noise that costs this."""
    noise = measure.noise.at_rho(measure.sensitivity.l2_squared, rho)
    if noise is None:
        raise error(901, "what is bought in addition has noise of another kind")
    cost = Fraction(measure.sensitivity.l2_squared) / (2 * noise.squared_scale)
    claimed = NO_MU if measure.loss.mu_squared == NO_MU else 2 * cost
    return replace(measure, noise=noise, loss=replace(measure.loss, rho=cost, mu_squared=claimed))
