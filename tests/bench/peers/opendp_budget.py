"""OpenDP: its privacy filter over fully adaptive composition, in pure epsilons with Laplace and in zCDP with Gaussian noise.

A grouped sum costs what the sum of one group costs, since groups are disjoint. An average is a sum and a count, the price between
them as it is least.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

import budgets
import opendp.prelude as dp
from budgets import Question, Total

SPACE = dp.vector_domain(dp.atom_domain(T="i64")), dp.symmetric_distance()
ROWS = [1, 2, 3]
"""Rows to ask about: a price does not depend on them."""


def pure(total: Total) -> Sequence[budgets.Admits]:
    return [partial(_admits, _filter(dp.max_divergence(), total.epsilon), _laplace)]


def concentrated(total: Total) -> Sequence[budgets.Admits]:
    return [partial(_admits, _filter(dp.zero_concentrated_divergence(), _rho(total)), _gaussian)]


def _filter(measure: Any, most: float) -> Any:
    odometer = dp.c.make_fully_adaptive_composition(*SPACE, measure)
    return dp.c.make_privacy_filter(odometer, d_in=1, d_out=most)(ROWS)


def _rho(total: Total) -> float:
    """The largest that its conversion to (epsilon, delta) allows."""

    def beyond(rho: float) -> bool:
        noisy = dp.c.make_zCDP_to_approxDP(_count() >> dp.m.then_gaussian(scale=(2 * rho) ** -0.5))
        return bool(noisy.map(1).epsilon(delta=total.delta) > total.epsilon)

    return budgets.halvings(beyond, 1e-6, 100.0) * (1 - 1e-9)


def _admits(queryable: Any, made: Callable[[Question], tuple[Any, ...]], question: Question) -> bool:
    try:
        for measurement in made(question):
            queryable(measurement)
    except dp.OpenDPException as refused:
        if "exhausted" not in str(refused):
            raise
        return False
    return True


@lru_cache
def _laplace(question: Question) -> tuple[Any, ...]:
    if question.kind != "mean":
        scale = dp.accuracy_to_discrete_laplacian_scale(float(question.half_width), budgets.ALPHA)
        return (_kind(question) >> dp.m.then_laplace(scale=scale),)

    def epsilon(share: float) -> float:
        """Of the whole, where this share goes into the sum."""
        sum_scale, count_scale = question.range / share, question.mean / (1 - share)
        return budgets.laplace_width(sum_scale, count_scale * (1 + 1e-9)) / question.half_width

    share = min(budgets.shares(), key=epsilon)
    whole = epsilon(share)
    return (
        _sum(question) >> dp.m.then_laplace(scale=question.range / (share * whole)),
        _count() >> dp.m.then_laplace(scale=1 / ((1 - share) * whole)),
    )


@lru_cache
def _gaussian(question: Question) -> tuple[Any, ...]:
    if question.kind != "mean":
        scale = dp.accuracy_to_discrete_gaussian_scale(float(question.half_width), budgets.ALPHA)
        return (_kind(question) >> dp.m.then_gaussian(scale=scale),)
    # of r / share + m / (1 - share), with squares of ranges over variances, the least is at share = R / (R + m)
    share = question.range / (question.range + question.mean)
    whole = ((question.range + question.mean) * budgets.Z / question.half_width) ** 2 / 2
    return (
        _sum(question) >> dp.m.then_gaussian(scale=question.range / (2 * share * whole) ** 0.5),
        _count() >> dp.m.then_gaussian(scale=1 / (2 * (1 - share) * whole) ** 0.5),
    )


def _kind(question: Question) -> Any:
    return _count() if question.kind == "count" else _sum(question)


def _count() -> Any:
    return SPACE >> dp.t.then_count(TO="i64")


def _sum(question: Question) -> Any:
    return SPACE >> dp.t.then_clamp((0, int(question.range))) >> dp.t.then_sum()


if __name__ == "__main__":
    dp.enable_features("contrib")
    budgets.serve({"Laplace, pure filter": pure, "Gaussian, zCDP filter": concentrated}, ("opendp",))
