"""SQLAlchemy's own suite for dialects, as far as it asks and looks around.

The suite creates tables and fills them, which dpsql refuses. So an owner stands beside: what the suite writes becomes the public
tables of a dataset (suite/owner.py), and every question and every look at the tables goes through dpsql. The suite takes over
pytest, so it has a run of its own.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("sqlalchemy", reason="the dialect needs SQLAlchemy")

ROOT = Path(__file__).parents[3]
CONFIGURATION = """
[sqla_testing]
requirement_cls = tests.clients.alchemy.suite.requirements:Requirements
profile_file = profiles.txt

[db]
default = dpsql+suite:///suite.toml
"""
FEWEST = 200
"""Tests of the suite that must pass, in any version of SQLAlchemy."""


@pytest.mark.slow
def test_the_suite_passes(tmp_path: Path) -> None:
    (tmp_path / "setup.cfg").write_text(CONFIGURATION)
    plugin = "tests.clients.alchemy.suite.plugin"
    cases = Path(__file__).parent / "suite/cases.py"
    options = ["-p", plugin, "-c", "setup.cfg", "--rootdir", ".", "-p", "no:cacheprovider", "-q", "--tb=short"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, str(cases)],
        cwd=tmp_path,
        env={**environment, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None and int(passed[1]) >= FEWEST, done.stdout[-2000:]
