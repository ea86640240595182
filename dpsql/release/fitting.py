"""fitting: the passes of a model, one after the other, each at the weights that are made of those released before it.

What is made between two passes is made of released numbers alone (postprocess/descent.py); the exact sums of a pass are seen by the
stage that adds its noise, and by nothing else. Every pass was charged before the first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import sqrt

from dpsql.aggregates.gradients import LABEL, UNIT, Fit
from dpsql.core.errors import error
from dpsql.plan.compiled import CompiledRelease
from dpsql.plan.releases import NoisyStatistic, Release
from dpsql.plan.tables import NoisyTable
from dpsql.planner.lower import lower
from dpsql.postprocess.descent import Descent, centre_of

Cell = Sequence[int | None]
"""Of one group, of which a model has no other."""


def fitted(release: Release, fit: Fit, ask: Callable[[CompiledRelease], NoisyTable]) -> NoisyTable:
    """All cells of a model: its means, its second moments, then the gradients in their order.

    ask  the noisy cells of one pass
    """
    means, moments, *passes = release.measures
    found = list(ask(_alone(release, means)).cells)
    centre = _centre(fit, found)
    found += ask(_alone(release, replace(moments, statistic=fit.moments(centre)))).cells
    if not passes:
        return NoisyTable((), tuple(found), 1)
    descent = _begun(release, fit, found)
    for measure in passes:
        cells = ask(
            _alone(release, replace(measure, statistic=fit.gradient(centre, descent.scales, descent.point)))
        ).cells
        descent.step(_values(cells))
        found += cells
    return NoisyTable((), tuple(found), 1)


def weights_of(release: Release, fit: Fit, cells: Sequence[Cell]) -> tuple[float, ...]:
    """The weights that the cells of a model lead to, which are released."""
    descent = _begun(release, fit, cells)
    size = fit.design.columns
    for start in range(sum(one.cells for one in fit.statistics[:2]), len(cells), size):
        descent.step(_values(cells[start : start + size]))
    return descent.weights


def _centre(fit: Fit, cells: Sequence[Cell]) -> tuple[float, ...]:
    means = [value * fit.means.unit for value in _values(cells[: fit.means.cells])]
    return centre_of(means, fit.design.intercept, None if fit.design.label is None else LABEL)


def _alone(release: Release, measure: NoisyStatistic) -> CompiledRelease:
    """One pass of a model as a release of its own, with its engine SQL."""
    return lower(replace(release, measures=(measure,), fit=None))


def moments_of(release: Release, fit: Fit, cells: Sequence[Cell]) -> tuple[list[float], float]:
    """The released second moments less a centre, as their upper triangle, and the deviation of their noise."""
    moments, start = fit.moments(()), fit.means.cells
    triangle = [value * moments.unit for value in _values(cells[start : start + moments.cells])]
    return triangle, sqrt(release.measures[1].noise.squared_scale) / UNIT * moments.unit


def _begun(release: Release, fit: Fit, cells: Sequence[Cell]) -> Descent:
    rows = _values(cells[:1])[0] * fit.means.unit / fit.design.intercept
    return Descent(fit.logistic, fit.design.intercept, rows, _centre(fit, cells), *moments_of(release, fit, cells))


def _values(cells: Sequence[Cell]) -> list[float]:
    found = [cell[0] for cell in cells]
    if None in found:
        raise error(901, "a pass of a model gave no number")
    return [float(number) / UNIT for number in found if number is not None]
