"""A test of the tests: faults in joint vectors, each caught by the neighbour test."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from dpsql.aggregates import joint
from dpsql.aggregates.base import CUT, Limits, Sensitivity, UnitSums, sensitivity_of_rows
from dpsql.aggregates.joint import LAYOUTS, Joint, ValueCells
from dpsql.aggregates.moments import Moments
from dpsql.core.columns import combined
from dpsql.planner import statistics
from dpsql.planner.options import Options
from dpsql.planner.parse import parse
from dpsql.schema.model import Schema
from dpsql.sql.nodes import Bare, Case, Node, own
from tests.support import clinic, staging
from tests.support.cases import some
from tests.support.neighbours import check
from tests.support.planning import compile_statement
from tests.support.vectors import Part
from tests.support.violation import Violation

Patch = pytest.MonkeyPatch
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


def squares_that_weigh_nothing(patch: Patch) -> None:
    """A row is taken to move the centred cell alone."""
    original = ValueCells.moved.fget

    def moved(self: ValueCells) -> tuple[int, int]:
        weight = self.scale * self.term.width
        return (weight, weight**2) if self.square else original(self)

    patch.setattr(ValueCells, "moved", property(moved))


def squares_not_around_their_middle(patch: Patch) -> None:
    """Q in place of Q - H n."""
    original = Joint.to_cells

    def to_cells(self: Joint, sums: Sequence[Sequence[int]]) -> tuple[Sequence[int], ...]:
        return original(replace(self, blocks=tuple(replace(b, middle=0) for b in self.blocks)), sums)

    patch.setattr(Joint, "to_cells", to_cells)


def squares_of_a_unit_not_cut(patch: Patch) -> None:
    """The sum of p^2 of all rows beside that of p of some."""
    patch.setattr(joint, "clamped_square", lambda width, above, square, n, cut: square)


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
    squares_that_weigh_nothing,
    squares_not_around_their_middle,
    squares_of_a_unit_not_cut,
    units_not_cut,
]


STATEMENTS = (
    "SELECT COUNT(*), SUM(days), SUM(cost) FROM visit",
    "SELECT year, SUM(cost - 5), SUM(days + 3), AVG(days) FROM visit GROUP BY year",
    "/* dpsql: max_rows=2 */ SELECT COUNT(*), AVG(cost), SUM(days) FROM visit",
    "SELECT COUNT(*), COUNT(income), SUM(income), SUM(age), SUM(weight) FROM patient",
    "SELECT site, COUNT(*) FILTER (WHERE age > 30), SUM(age) FILTER (WHERE age > 30), SUM(score) FILTER (WHERE age > 30) FROM patient "
    "GROUP BY site",
)
SQUARES = (
    "/* dpsql: max_rows=2 */ SELECT COUNT(*), STDDEV(cost), VAR_POP(days), AVG(days) FROM visit",
    "SELECT site, COUNT(*), STDDEV(age), STDDEV(income), AVG(weight) FROM patient GROUP BY site",
)


def parts(schema: Schema, patch: Patch) -> list[Part]:
    """Releases of the statements in each layout, whatever errs less."""
    found: list[Part] = []
    original = statistics.ways_of
    for layout in LAYOUTS:
        with patch.context() as one:
            one.setattr(statistics, "LAYOUTS", (layout,))
            one.setattr("dpsql.planner.measure.ways_of", lambda *given: [w for w in original(*given) if w.joined])
            for sql in SQUARES if layout.squares else STATEMENTS:
                found += [(sql, part) for part in compile_statement(parse(sql), Options(), schema).releases]
    assert all(isinstance(part.release.measures[0].statistic, Joint) for _, part in found)
    return found


def run(folder: Path, patch: Patch, databases: int) -> None:
    """One person removed, from some databases. Raises Violation."""
    schema, chance = clinic.schema(folder), random.Random(SEED)
    with closing(staging.opened(schema, threads=1)) as connection:
        asked = parts(schema, patch)
        for _ in range(databases):
            check(connection, asked, clinic.database(chance, wild=chance.random() < 0.7), chance, schema)


@pytest.mark.parametrize("fault", some(FAULTS), ids=lambda fault: fault.__name__)
def test_a_planted_fault_is_caught(fault: Callable[[Patch], None], tmp_path: Path, monkeypatch: Patch) -> None:
    fault(monkeypatch)
    with pytest.raises(Violation):
        run(tmp_path, monkeypatch, 12)


OF_TWO = (
    "SELECT CORR(weight, income), STDDEV(weight), VAR_POP(income) FROM patient",
    "SELECT site, COUNT(*), COVAR_POP(income, age), SUM(age), COUNT(income) FROM patient GROUP BY site",
    "/* dpsql: max_rows=2 */ SELECT REGR_SLOPE(days, cost), VAR_POP(cost), AVG(days), COUNT(*) FROM visit",
)


def one_value_beside_both(patch: Patch) -> None:
    """A row with both values is also in the cells of rows with one of them."""
    original = Moments._products

    def products(self: Moments, names: Sequence[Node]) -> list[Node]:
        found = original(self, names)
        return [
            one.inner.branches[0][1] if isinstance(one, Bare) and isinstance(one.inner, Case) else one for one in found
        ]

    patch.setattr(Moments, "_products", products)


def one_value_without_the_weight_of_the_other(patch: Patch) -> None:
    """A row is taken to move the cells by the weight of its first value alone."""

    def sensitivity(self: Moments, limits: Limits) -> Sensitivity:
        return sensitivity_of_rows(limits, self.terms[0].width ** self.degrees[0], self.cells)

    patch.setattr(Moments, "sensitivity", sensitivity)


def one_value_is_none(patch: Patch) -> None:
    """A row with one of two values counts as one without a value, too."""
    original = Moments._without_value
    patch.setattr(Moments, "_without_value", lambda self, names: original(replace(self, lone=False), names))


def cells_of_both(folder: Path, databases: int) -> None:
    """Statistics of one value that are read off the moments of two; one person removed. Raises Violation."""
    schema, chance = clinic.schema(folder), random.Random(SEED)
    asked = [(sql, part) for sql in OF_TWO for part in compile_statement(parse(sql), Options(), schema).releases]
    assert all(
        isinstance(m.statistic, Moments) and m.statistic.lone for _, part in asked for m in part.release.measures
    )
    with closing(staging.opened(schema, threads=1)) as connection:
        for _ in range(databases):
            check(connection, asked, clinic.database(chance, wild=chance.random() < 0.7), chance, schema)


@pytest.mark.parametrize(
    "fault",
    [one_value_beside_both, one_value_without_the_weight_of_the_other, one_value_is_none],
    ids=lambda f: f.__name__,
)
def test_a_planted_fault_in_moments_of_two_is_caught(
    fault: Callable[[Patch], None], tmp_path: Path, monkeypatch: Patch
) -> None:
    fault(monkeypatch)
    with pytest.raises(Violation):
        cells_of_both(tmp_path, 12)


def test_moments_of_two_move_by_at_most_what_is_claimed(tmp_path: Path) -> None:
    cells_of_both(tmp_path, 8)


@pytest.mark.slow
def test_every_layout_moves_by_at_most_what_is_claimed(tmp_path: Path, monkeypatch: Patch) -> None:
    run(tmp_path, monkeypatch, 12)
