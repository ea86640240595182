"""A test of the tests: faults in joint vectors, each caught by the neighbour test."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from dpsql.aggregates.base import CUT, Limits, Sensitivity, UnitSums
from dpsql.aggregates.joint import Joint, ValueCells
from dpsql.core.columns import combined
from dpsql.planner import statistics
from dpsql.sql.nodes import Node, own
from tests.support.cases import some
from tests.support.neighbours import Cases
from tests.support.violation import Violation

Patch = pytest.MonkeyPatch
MOST_CASES = 1200
SEED = 3


def blocks_that_share_one_weight(patch: Patch) -> None:
    """A row is taken to move one block alone."""

    def sensitivity(self: Joint, limits: Limits) -> Sensitivity:
        found = original(self, limits)
        return replace(found, l1=found.linf, l2_squared=found.linf**2)

    original = Joint.sensitivity
    patch.setattr(Joint, "sensitivity", sensitivity)


def rows_weigh_nothing(patch: Patch) -> None:
    """The cell of rows is left out of the norm."""
    original = Joint.sensitivity
    patch.setattr(Joint, "sensitivity", lambda self, limits: original(replace(self, rows=0), limits))


def rows_of_a_unit_taken_for_one(patch: Patch) -> None:
    original = Joint.sensitivity
    patch.setattr(Joint, "sensitivity", lambda self, limits: original(self, Limits(1, limits.groups)))


def gaps_count_all_rows(patch: Patch) -> None:
    """A row with a value is in its block and in the gap."""
    original = Joint.to_cells

    def to_cells(self: Joint, sums: Sequence[Sequence[int]]) -> tuple[Sequence[int], ...]:
        cells = list(original(self, sums))
        start = int(self.rows > 0)
        for block in self.blocks:
            if block.gaps:
                cells[start + block.cells - 1] = combined((block.weight, sums[0]))
            start += block.cells
        return tuple(cells)

    patch.setattr(Joint, "to_cells", to_cells)


def all_rows_taken_to_have_a_value(patch: Patch) -> None:
    """M in place of n, of what was declared to be there (rule 57)."""
    original = Joint.to_cells

    def to_cells(self: Joint, sums: Sequence[Sequence[int]]) -> tuple[Sequence[int], ...]:
        again = list(sums)
        for i, block in enumerate(self.blocks):
            if not block.gaps:
                again[1 + 2 * i] = sums[0]
        return original(self, again)

    patch.setattr(Joint, "to_cells", to_cells)


def a_centred_cell_of_half_its_weight(patch: Patch) -> None:
    """2 T - (L + U) n taken to move by half of the spread."""

    def weight(self: ValueCells) -> int:
        whole = self.scale * self.term.width
        return whole if self.split else whole // 2

    patch.setattr(ValueCells, "weight", property(weight))


def units_not_cut(patch: Patch) -> None:
    original = Joint.unit_sums

    def unit_sums(self: Joint, names: Sequence[Node]) -> UnitSums:
        found = original(self, names)
        return replace(found, outer=(CUT, *(own(name) for name, _ in found.inner)))

    patch.setattr(Joint, "unit_sums", unit_sums)


FAULTS = [
    blocks_that_share_one_weight,
    rows_weigh_nothing,
    rows_of_a_unit_taken_for_one,
    gaps_count_all_rows,
    all_rows_taken_to_have_a_value,
    a_centred_cell_of_half_its_weight,
    units_not_cut,
]


def only_joint(patch: Patch) -> None:
    """Every layout is taken in its turn, whatever errs less: a fault of each is met."""
    layouts = list(statistics.LAYOUTS)
    original = statistics.ways_of

    def ways_of(*given: object) -> list[statistics.Statistics]:
        layouts.append(layouts.pop(0))
        patch.setattr(statistics, "LAYOUTS", (layouts[0],))
        found = original(*given)  # type: ignore[arg-type]
        return [way for way in found if way.joined] or found

    patch.setattr("dpsql.planner.measure.ways_of", ways_of)


@pytest.mark.parametrize("fault", some(FAULTS), ids=lambda fault: fault.__name__)
def test_a_planted_fault_is_caught(fault: Callable[[Patch], None], tmp_path: Path, monkeypatch: Patch) -> None:
    only_joint(monkeypatch)
    fault(monkeypatch)
    with pytest.raises(Violation) as caught:
        Cases(tmp_path, SEED).run(MOST_CASES)
    assert "the planner failed" not in str(caught.value)


@pytest.mark.slow
def test_every_layout_moves_by_at_most_what_is_claimed(tmp_path: Path, monkeypatch: Patch) -> None:
    only_joint(monkeypatch)
    Cases(tmp_path, SEED).run(300)
