"""The joint vector: how far one row moves it, and what its cells say, beside a solver that knows nothing of either."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from dpsql.aggregates.base import Limits
from dpsql.aggregates.forms import Form
from dpsql.aggregates.joint import LAYOUTS, Joint, Layout, joint
from dpsql.aggregates.term import Term
from dpsql.core.domains import UNBOUNDED
from dpsql.core.sqltypes import BIGINT, DOUBLE
from dpsql.expressions.scalar import column
from dpsql.mechanisms.gaussian import DiscreteGaussian
from dpsql.mechanisms.laplace import DiscreteLaplace
from dpsql.sql.nodes import Column

BOUNDS = ((0, 3), (-2, 2), (5, 9), (-7, -3))


def term(name: str, bounds: tuple[int, int], *, gaps: bool) -> Term:
    value = column(Column("t", name), DOUBLE if gaps else BIGINT, UNBOUNDED)
    return Term(value, *bounds, Fraction(1))


def vectors(values: int, gaps: tuple[bool, ...], squared: int = 0) -> list[Joint]:
    terms = [term(f"x{i}", BOUNDS[i], gaps=gaps[i]) for i in range(values)]
    found = [
        joint(terms, None, layout, values + 1, terms[:squared]) for layout in LAYOUTS if layout.squares or not squared
    ]
    return list({one.identity: one for one in found}.values())


SHAPES = [one for k in (1, 2, 3) for gaps in product([False, True], repeat=k) for one in vectors(k, gaps)]
WITH_SQUARES = [
    one
    for k in (1, 2)
    for gaps in product([False, True], repeat=k)
    for some in (1, k)
    for one in vectors(k, gaps, some)
]


def cells(one: Joint, rows: list[tuple[int | None, ...]]) -> list[int]:
    """The cells of one group of these rows."""
    sums: list[list[int]] = [[len(rows)]]
    for i, block in enumerate(one.blocks):
        known = [value for row in rows if (value := row[i]) is not None]
        above = [value - block.term.lower for value in known]
        sums += [[len(known)], *([[sum(above)], [sum(v * v for v in above)]] if block.square else [[sum(known)]])]
    return [cell[0] for cell in one.to_cells(sums)]


@pytest.mark.parametrize("one", SHAPES, ids=lambda one: str(one.identity)[-80:])
def test_a_row_moves_it_by_what_is_claimed_and_some_row_does(one: Joint) -> None:
    """Every row there is, a value that is missing where it was declared to be there among them (rule 57)."""
    ranges = [(None, *range(b.term.lower, b.term.upper + 1)) for b in one.blocks]
    claimed = one.sensitivity(Limits(1, 1))
    found = [cells(one, [row]) for row in product(*ranges)]
    assert max(sum(map(abs, row)) for row in found) == claimed.l1
    assert max(sum(cell * cell for cell in row) for row in found) == claimed.l2_squared
    assert max(abs(cell) for row in found for cell in row) == claimed.linf
    assert all(len(row) == one.cells == claimed.l0 for row in found)


@pytest.mark.parametrize("one", WITH_SQUARES, ids=lambda one: str(one.identity)[-80:])
def test_squares_are_moved_by_at_most_what_is_claimed_and_in_l2_by_that(one: Joint) -> None:
    """In L1 the furthest may be between two whole numbers: nine tenths of what is claimed are reached."""
    ranges = [(None, *range(b.term.lower, b.term.upper + 1)) for b in one.blocks]
    claimed = one.sensitivity(Limits(1, 1))
    found = [cells(one, [row]) for row in product(*ranges)]
    assert claimed.l1 * 0.9 <= max(sum(map(abs, row)) for row in found) <= claimed.l1
    most = max(sum(cell * cell for cell in row) for row in found)
    assert claimed.l2_squared * 0.9 <= most <= claimed.l2_squared
    assert max(abs(cell) for row in found for cell in row) <= claimed.linf
    assert all(len(row) == one.cells == claimed.l0 for row in found)


@pytest.mark.parametrize("one", WITH_SQUARES, ids=lambda one: str(one.identity)[-80:])
def test_moments_are_read_off_squares(one: Joint) -> None:
    """Exactly."""
    rows = [
        tuple(None if b.gaps and r % 5 == i else b.term.lower + (3 * r + i) % 4 for i, b in enumerate(one.blocks))
        for r in range(23)
    ]
    found = np.array(cells(one, rows), dtype=float)
    for i, block in enumerate(one.blocks):
        if not block.square:
            continue
        held, forms = one.moments_of(block.term.scalar)
        p = np.array([row[i] - block.term.lower for row in rows if row[i] is not None], dtype=float)
        q = block.term.width - p
        exact = (np.sum(q * q), np.sum(2 * p * q), np.sum(p * p))
        assert held.degrees == (2,) and [float(np.dot(f.weights, found)) for f in forms] == pytest.approx(
            exact, rel=1e-9
        )
        read = (one.all_rows, one.count_of(i), one.sum_of(i))
        totals = (len(rows), len(p), p.sum() + block.term.lower * len(p))
        assert [float(np.dot(f.weights, found)) for f in read] == pytest.approx(totals, rel=1e-9)


@pytest.mark.parametrize("one", SHAPES[::5], ids=lambda one: str(one.identity)[-80:])
def test_rows_of_a_unit_move_it_by_so_many_times_as_much(one: Joint) -> None:
    ranges = [(None, b.term.lower, b.term.upper) for b in one.blocks]
    claimed = one.sensitivity(Limits(2, 2))
    pairs = product(product(*ranges), repeat=2)
    moved = [[cells(one, [first]), cells(one, [second]), cells(one, [first, second])] for first, second in pairs]
    apart = [[*a, *b] for a, b, _ in moved]
    for vectors_of in ([together for *_, together in moved], apart):
        assert max(sum(map(abs, row)) for row in vectors_of) <= claimed.l1
        assert max(sum(cell * cell for cell in row) for row in vectors_of) <= claimed.l2_squared
    assert max(sum(map(abs, together)) for *_, together in moved) == claimed.l1


@pytest.mark.parametrize("one", SHAPES, ids=lambda one: str(one.identity)[-80:])
def test_what_is_read_off_is_exact_without_noise_and_of_least_variance(one: Joint) -> None:
    """Beside ordinary least squares over the unknowns: M, then n where there are gaps, and T."""
    unknown: list[dict[str, int]] = []
    names = ["M"] + [f"{what}{i}" for i, b in enumerate(one.blocks) for what in (("n", "T") if b.gaps else ("T",))]
    if one.rows:
        unknown.append({"M": one.rows})
    for i, b in enumerate(one.blocks):
        s, low, high, n = b.scale, b.term.lower, b.term.upper, f"n{i}" if b.gaps else "M"
        if b.split:
            unknown += [{f"T{i}": s, n: -s * low}, {n: s * high, f"T{i}": -s}]
        else:
            unknown.append({f"T{i}": 2 * s, n: -s * (low + high)})
        if b.gaps:
            unknown.append({"M": b.weight, n: -b.weight})
    matrix = np.array([[float(row.get(name, 0)) for name in names] for row in unknown])
    best = np.linalg.pinv(matrix)
    wanted = [("M", one.all_rows)]
    for i, b in enumerate(one.blocks):
        wanted += [(f"n{i}" if b.gaps else "M", one.count_of(i)), (f"T{i}", one.sum_of(i))]
    for name, form in wanted:
        weights = form.weights
        assert np.allclose(np.array(weights), best[names.index(name)], rtol=1e-6, atol=1e-9 * max(map(abs, weights)))
    exact = {"M": 40, **{f"n{i}": 31 + i for i in range(3)}, **{f"T{i}": -17 * i + 50 for i in range(3)}}
    found = [sum(Fraction(weight) * exact[name] for name, weight in row.items()) for row in unknown]
    for name, form in wanted:
        read = sum(w * float(cell) for w, cell in zip(form.weights, found, strict=True))
        assert read == pytest.approx(exact[name], rel=1e-12, abs=1e-9)


def test_wide_bounds_have_scales_that_noise_can_still_be_added_at() -> None:
    wide = term("x", (0, 2**40), gaps=False)
    one = joint([wide, term("y", (0, 3), gaps=False)], None, Layout("all", 0), 2)
    assert [b.scale for b in one.blocks] == [1, 2**40 // 3]


def test_a_form_bounds_its_half_width() -> None:
    level = Fraction(95, 100)
    for noise in (DiscreteLaplace(Fraction(10**6)), DiscreteGaussian(Fraction(10**12))):
        for weights in ((1, 1), (1, 1, 1), (3, 1), (1,) * 9, (5, 1, 1, 1)):
            form = Form(tuple(map(float, weights)))
            assert form.half_width(noise, level) <= form.at_most(noise, level) * (1 + 1e-4) + 10
