"""Messages that nobody would send: no trace, no end, no growth. `python -m tests.long server` says a million."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.fuzzed import fuzz
from tests.support.served import dataset, served


@pytest.mark.parametrize(("messages", "seed"), [(2_000, 1), pytest.param(10_000, 2, marks=pytest.mark.slow)])
def test_any_messages(tmp_path: Path, messages: int, seed: int) -> None:
    with served(dataset(tmp_path)) as server:
        found = fuzz(server, messages, seed)
    assert found.messages >= messages
    assert found.connections > 20
    assert found.problems == []
