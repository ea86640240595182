"""What the guard takes from people who attack nobody: at most so many of their statements."""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path

import pytest

from dpsql.session.opening import open_session
from tests.attacks.honest import NHEFS, RAND
from tests.attacks.test_trackers import decision, placed, schema_text
from tests.support.noise import ZeroNoise

ASKED = {"nhefs": NHEFS, "randhie": RAND}
MOST = {"0.1": 3, "0.5": 22}
"""Refused of all, by the price of each: the default of both datasets, and its cap."""


@pytest.mark.slow
@pytest.mark.parametrize("price", MOST)
def test_so_many_statements_are_refused(tmp_path: Path, price: str) -> None:
    refused = []
    for name, asked in ASKED.items():
        folder = tmp_path / name
        folder.mkdir()
        path = placed(folder, name, schema_text(name))
        with closing(open_session(path, None, ":memory:", noise=ZeroNoise())) as session:
            codes = {sql: decision(session, f"/* dpsql: epsilon={price} */ {sql}") for sql in asked}
        assert {code for code in codes.values() if code != "answered"} <= {"DPSQL-602"}
        refused += [sql for sql, code in codes.items() if code != "answered"]
    sys.stdout.write(f"\nat {price}: {len(refused)} of {sum(map(len, ASKED.values()))} refused\n")
    assert len(refused) <= MOST[price], refused
