"""Times with a zone are read in UTC, wherever the program runs."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

READ = """
from contextlib import closing
from dpsql.engines.duckdb.locked import connect
with closing(connect(None)) as connection, closing(connection.cursor()) as cursor:
    for reader in (connection, cursor):
        print(*reader.execute("SELECT CAST(TIMESTAMPTZ '2020-01-01 12:00:00+00' AS TIMESTAMP)").fetchone())
"""


@pytest.mark.parametrize("zone", ["Asia/Tokyo", "America/New_York"])
def test_a_cursor_reads_times_with_a_zone_in_utc(zone: str) -> None:
    """The program's own zone is that of its start, so it is another one."""
    told = subprocess.run(
        [sys.executable, "-c", READ], env={**os.environ, "TZ": zone}, capture_output=True, text=True, check=True
    )
    assert told.stdout.split("\n")[:2] == ["2020-01-01 12:00:00"] * 2
