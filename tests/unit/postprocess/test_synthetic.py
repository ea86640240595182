"""Rows drawn from tables by two columns: as near to them as they are said to be, and the same for the same seed."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from dpsql.postprocess import synthetic
from dpsql.postprocess.synthetic import Codes, PairTables, drawn, information, pairs_of, projected, tree

SIZES = (3, 4, 2, 5)


def correlated(rows: int = 20_000) -> Codes:
    """Columns of which each is the one before it, half of the time."""
    random = np.random.default_rng(8)
    codes = np.zeros((len(SIZES), rows), dtype=np.int32)
    for i, size in enumerate(SIZES):
        fresh = random.integers(0, size, rows)
        codes[i] = np.where(random.random(rows) < 0.5, codes[i - 1] % size, fresh) if i else fresh
    return codes


def tables_of(codes: Codes) -> PairTables:
    noisy = {}
    for i, j in pairs_of(len(SIZES)):
        table = np.zeros((SIZES[i], SIZES[j]))
        np.add.at(table, (codes[i], codes[j]), 1)
        noisy[i, j] = table
    return PairTables.projected(SIZES, noisy)


TABLES = tables_of(correlated())


def test_no_table_of_shares_is_nearer_than_the_projected_one() -> None:
    random = np.random.default_rng(3)
    for scale in (0.1, 1.0, 50.0):
        for shift in (-1.0, 0.0, 1.0):
            table = scale * (random.normal(size=(3, 2)) + shift)
            found, whole = projected(table), table.sum()
            assert np.all(found >= 0) and found.sum() == pytest.approx(1)
            shares = table / whole if whole > 0 else table
            near = np.square(found - shares).sum()
            others = random.dirichlet(np.full(6, 0.5), 500).reshape(-1, 3, 2)
            # beside any, and beside those that are a little off it
            for other in (others, 0.99 * found + 0.01 * others):
                assert np.all(np.square(other - shares).sum(axis=(1, 2)) >= near - 1e-9)


def test_the_tree_has_the_most_information_of_all() -> None:
    weights = {pair: information(table) for pair, table in TABLES.of.items()}
    edges = tree(TABLES)
    found = sum(weights[min(edge), max(edge)] for edge in edges)
    assert found == pytest.approx(
        max(sum(weights[e] for e in some) for some in combinations(weights, 3) if spans(some))
    )
    assert [edge for edge in edges if edge[0] + 1 == edge[1]] == edges


def spans(edges: tuple[tuple[int, int], ...]) -> bool:
    inside = {0}
    for _ in edges:
        inside |= {one for edge in edges if inside & set(edge) for one in edge}
    return len(inside) == len(SIZES)


def test_rows_have_the_tables_that_they_are_drawn_from() -> None:
    codes = drawn(TABLES, 20_000, b"1")
    assert codes.shape == (4, 20_000)
    assert all(column.min() >= 0 and column.max() < size for column, size in zip(codes, SIZES, strict=True))
    assert TABLES.off(codes) < 0.002
    # of 100 rows no table can be nearer than to whole rows
    assert TABLES.off(drawn(TABLES, 100, b"1")) < 0.1


def test_without_updates_the_pairs_off_the_tree_are_farther(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(synthetic, "SWEEPS", 0)
    assert TABLES.off(drawn(TABLES, 20_000, b"1")) > 0.004


def test_the_same_seed_draws_the_same_rows() -> None:
    one, same, other = (drawn(TABLES, 500, seed) for seed in (b"12", b"12", b"13"))
    assert np.array_equal(one, same) and not np.array_equal(one, other)


@pytest.mark.parametrize("rows", [1, 2, 7])
def test_few_rows_are_drawn_too(rows: int) -> None:
    assert drawn(TABLES, rows, b"0").shape == (4, rows)


def test_tables_of_noise_alone_are_drawn_from_all_the_same() -> None:
    """Nothing above 0, and columns of one value."""
    noisy = {
        (0, 1): np.full((1, 3), -2.0),
        (0, 2): np.full((1, 2), -5.0),
        (1, 2): np.array([[-1.0, -9], [-9, -9], [-9, -9]]),
    }
    tables = PairTables.projected((1, 3, 2), noisy)
    codes = drawn(tables, 50, b"4")
    assert set(codes[0].tolist()) == {0} and 0 <= codes[1].min() <= codes[1].max() < 3
