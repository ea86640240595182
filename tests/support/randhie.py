"""A copy of the bundled example, whose data no other test has bound to a ledger."""

from __future__ import annotations

import shutil
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "randhie"


def copied(folder: Path) -> Path:
    """The schema's file of a copy in a folder."""
    shutil.copytree(EXAMPLE, folder / "randhie", ignore=shutil.ignore_patterns("*.ledger*", "*.dpsql"))
    return folder / "randhie" / "schema.toml"
