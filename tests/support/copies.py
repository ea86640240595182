"""Copies of data that no other test has bound to a ledger."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "randhie"
CLINIC = ROOT / "tests" / "notes" / "clinic"

# A ledger, its files, and the mark that binds the data to it: left beside the data by whoever opened it in place.
_USED = shutil.ignore_patterns("*.ledger*", "*.dpsql")


def unused(source: Path, target: Path) -> Path:
    """A copy of a folder without what its use left there; the target may exist."""
    shutil.copytree(source, target, dirs_exist_ok=True, ignore=_USED)
    return target


def linked(source: Path, target: Path) -> Path:
    """The same without copying a byte, for data that nobody writes: hard links."""
    shutil.copytree(source, target, ignore=_USED, copy_function=os.link)
    return target


def copied(folder: Path) -> Path:
    """The schema's file of a copy of the bundled example in a folder."""
    return unused(EXAMPLE, folder / "randhie") / "schema.toml"
