"""The second family of neighbours: schemas with two ways to a person, stored in every form, and data that change under a ledger.

`python -m tests.long neighbours --pairs 20000` asks more of the same; DPSQL_PAIRS is the number for these tests.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support import market, market_rows
from tests.support.cases import some
from tests.support.market import BUYERS, CROSSED, TWO, Market
from tests.support.market_cases import MarketCases
from tests.support.market_stored import StoredCases

PAIRS = int(os.environ.get("DPSQL_PAIRS", "160"))
"""Statements and neighbours in all."""


@pytest.mark.slow
@pytest.mark.parametrize("seed", some(range(2)))
def test_one_person_moves_a_vector_by_at_most_what_is_claimed(seed: int, tmp_path: Path) -> None:
    cases = MarketCases(tmp_path, seed)
    cases.run(PAIRS // 2)
    assert cases.checked >= PAIRS // 2
    assert cases.disagreeing > 0, "a schema whose paths disagree is drawn, and is not read"
    assert len(cases.types) > 1 and cases.hops[2] > 0


@pytest.mark.slow
def test_one_row_moves_a_vector_by_at_most_what_is_claimed(tmp_path: Path) -> None:
    cases = MarketCases(tmp_path, 0, row_level=1)
    cases.run(PAIRS // 4)
    assert cases.tally["row level"] == cases.checked


@pytest.mark.slow
def test_files_snapshots_and_verified_sql_move_nothing(tmp_path: Path) -> None:
    cases = StoredCases(tmp_path, 1)
    cases.run(PAIRS // 8)
    assert sum(cases.ran.values()) == cases.checked


@pytest.mark.slow
def test_data_that_change_under_an_open_ledger_show_nobody(tmp_path: Path) -> None:
    cases = StoredCases(tmp_path, 2)
    cases.change(max(1, PAIRS // 500))
    assert cases.histories >= 1


def test_a_neighbour_is_made_by_walking_the_path() -> None:
    """The order of a buyer who is gone is gone, and with it what goes over it, unless that has a way of its own."""
    ann, bob = 1000, 1001
    data: market.Database = {
        "person": [(ann, 1, 1, 1, "1"), (bob, 1, 1, 1, "1")],
        "card": [(ann, "a", 1)],
        "orders": [(1, ann, bob, 1, "1"), (2, None, ann, 1, "1"), (3, 999, ann, 1, "1")],
        "line": [(10, 1, bob, "x", 1), (11, 2, ann, "x", 1), (12, 77, bob, "x", 1), (13, None, ann, "x", 1)],
        "mark": [(10, 1, "1"), (13, 1, "1"), (99, 1, "1")],
        "parcel": [(1, 1, 1.0), (2, 1, 1.0)],
        "region": [],
    }
    assert market_rows.owners(data, Market(ways=BUYERS), "orders") == [ann, None, 999]
    assert market_rows.owners(data, Market(ways=BUYERS), "line") == [ann, None, None, None]
    assert market_rows.owners(data, Market(ways=BUYERS), "mark") == [ann, None, None]
    assert market_rows.owners(data, Market(ways=TWO), "line") == [bob, ann, bob, ann]
    assert market_rows.owners(data, Market(ways=TWO), "mark") == [bob, ann, None]
    assert market_rows.owners(data, Market(ways=CROSSED), "line") == [bob, ann, None, None]
    gone = market_rows.without(data, Market(ways=BUYERS), ann)
    assert [len(gone[t]) for t in ("person", "card", "orders", "line", "mark", "parcel")] == [1, 0, 2, 3, 2, 1]
    stays = market_rows.without(data, Market(ways=TWO), bob)
    assert [len(stays[t]) for t in ("person", "card", "orders", "line", "mark", "parcel")] == [1, 1, 3, 2, 2, 2]
