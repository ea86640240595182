"""A plan that can be built is sound: noise covers its sensitivity, a threshold holds its delta, losses are what runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import pytest

from dpsql.core.errors import InternalError
from dpsql.plan.releases import Plan, Release
from dpsql.planner.options import Options
from dpsql.planner.parse import parse
from tests.support.planning import compile_statement
from tests.support.stages import schema_of

COUNT = "SELECT COUNT(*) FROM visit"
CHOSEN = "SELECT MODE(year) FROM visit"
SELECTED = "SELECT code, COUNT(*) FROM patient GROUP BY code"


def plan_of(sql: str) -> Plan:
    return compile_statement(parse(sql), Options(), schema_of("patient")).plan


def _more_sensitive(release: Release) -> Release:
    (measure,) = release.measures
    sensitivity = replace(measure.sensitivity, l1=measure.sensitivity.l1 + 1)
    return replace(release, measures=(replace(measure, sensitivity=sensitivity),))


def _on_other_limits(release: Release) -> Release:
    limits = replace(release.limited.limits, rows=release.limited.limits.rows + 1)
    return replace(release, limited=replace(release.limited, limits=limits))


def _from_fewer_units(release: Release) -> Release:
    assert release.selection is not None
    return replace(release, selection=replace(release.selection, tau=release.selection.tau - 1))


def _cheaper(release: Release) -> Release:
    assert release.loss.epsilon is not None
    return replace(release, loss=replace(release.loss, epsilon=release.loss.epsilon / 2))


@pytest.mark.parametrize(
    ("sql", "change", "says"),
    [
        (COUNT, _more_sensitive, "does not cover its sensitivity"),
        (CHOSEN, _on_other_limits, "chosen on other limits"),
        (SELECTED, _from_fewer_units, "does not hold its delta"),
        (COUNT, _cheaper, "not the sum of its parts"),
    ],
)
def test_an_unsound_release_is_in_no_plan(sql: str, change: Callable[[Release], Release], says: str) -> None:
    plan = plan_of(sql)
    (release,) = plan.releases
    with pytest.raises(InternalError, match=says):
        replace(plan, releases=(change(release),))


def test_a_plan_costs_what_was_asked_and_its_releases_have_names_of_their_own() -> None:
    plan = plan_of(COUNT)
    with pytest.raises(InternalError, match="does not spend what was asked"):
        replace(plan, price=replace(plan.price, epsilon=Fraction(1, 2)))
    with pytest.raises(InternalError, match="one name"):
        replace(plan, releases=plan.releases * 2)
