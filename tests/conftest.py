"""What every test has: a state folder of its own, never that of whoever runs the tests."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

STATE = "XDG_STATE_HOME"


def pytest_configure(config: pytest.Config) -> None:
    """For whatever is opened outside of a test."""
    os.environ[STATE] = tempfile.mkdtemp(prefix="dpsql-tests-state-")


@pytest.fixture(autouse=True)
def state(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The state folder of one test."""
    folder = tmp_path_factory.getbasetemp() / "state" / os.urandom(8).hex()
    monkeypatch.setenv(STATE, str(folder))
    yield folder
