"""One PostgreSQL server for all tests of a process; they are skipped where the machine has none."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.engines import server


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    if server.programs() is None:
        pytest.skip("PostgreSQL is not installed: apt-get install postgresql")
    with server.started() as url:
        yield url
