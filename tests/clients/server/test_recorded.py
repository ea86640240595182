"""Recorded statements of clients about the catalog: each is answered as it was then, free."""

from __future__ import annotations

import pytest

from tests.support.raw_client import RawClient
from tests.support.recorded import CLIENTS, load
from tests.support.served import Served, dump


@pytest.mark.parametrize("name", CLIENTS)
def test_what_was_recorded_is_answered(name: str, server: Served, client: RawClient) -> None:
    client.query("SHOW BUDGET")
    before = dump(server.ledger)
    recorded = load(name)
    assert recorded
    for one, came in recorded:
        assert one.said(client) == came, one.sql
    assert not any("error" in came for _, came in recorded)
    assert dump(server.ledger) == before
