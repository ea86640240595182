"""Places of cells by their digests: the same as of a dictionary, however many come at once."""

from __future__ import annotations

import numpy as np
import pytest

from dpsql.guard import sketches
from dpsql.guard.sketches import CellPlaces


@pytest.mark.parametrize("late", [1, 7, 1_024])
@pytest.mark.parametrize("seed", range(4))
def test_cells_are_numbered_as_they_first_come(late: int, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few and many at once, with repeats within and between, and the least and the largest digest."""
    monkeypatch.setattr(sketches, "_LATE", late)
    chance, places, known = np.random.default_rng(seed), CellPlaces(), dict[int, int]()
    for size in (1, 3, 0, 40, 2, 5, 300, 1, 9, 9, 2_000, 4):
        digests = chance.integers(0, 1_500, size, dtype=np.uint64) * np.uint64(2**53)
        digests[: size // 9] = np.uint64(2**64 - 1)
        expected = [known.get(one, -1) for one in digests.tolist()]
        assert places.find(digests).tolist() == expected
        assert places.add(digests).tolist() == [known.setdefault(one, len(known)) for one in digests.tolist()]
        assert len(places) == len(known)
    every = np.array([*known], dtype=np.uint64)
    assert places.find(every).tolist() == [*known.values()]
