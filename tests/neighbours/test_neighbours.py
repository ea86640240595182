"""One person changes no exact vector by more than its plan claims: generated databases, generated statements."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.neighbours import Cases


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_one_person_moves_a_vector_by_at_most_what_is_claimed(seed: int, tmp_path: Path) -> None:
    cases = Cases(tmp_path, seed)
    cases.run(260)
    assert cases.checked >= 260
    assert cases.refused < cases.checked
