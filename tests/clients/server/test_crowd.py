"""Many clients at once: what they were told they paid is what the ledger holds. `python -m tests.bench server` has 200 of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.crowd import ask, spent
from tests.support.served import ANALYSTS, dataset, served

CLIENTS, STATEMENTS = 12, 4


@pytest.mark.slow
def test_receipts_are_the_ledger(tmp_path: Path) -> None:
    path = dataset(tmp_path)
    with served(path) as server:
        found = ask(server, CLIENTS, STATEMENTS, ANALYSTS, fresh=True)
        assert found.refused == []
        assert len(found.prices) == CLIENTS * STATEMENTS
        again = ask(server, CLIENTS, STATEMENTS, ANALYSTS, fresh=False)
        assert (again.prices, again.stored) == ([], CLIENTS * STATEMENTS)
    assert spent(path) == [float(price) for price in found.prices]
