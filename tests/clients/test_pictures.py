"""The pictures are what their scripts make, small, and shown where a reader begins."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

import dpsql
from tests.support.copies import unused

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "grammar_notes/pictures"
LARGEST = 150_000
"""[bytes] of a picture."""


@pytest.mark.slow
def test_the_script_draws_them_beside_data_that_was_asked_in_place(tmp_path: Path) -> None:
    for needed in ("matplotlib", "rich", "prompt_toolkit"):
        pytest.importorskip(needed)
    examples, drawn = tmp_path / "examples", tmp_path / "pictures"
    drawn.mkdir()
    schema = unused(ROOT / "examples/randhie", examples / "randhie") / "schema.toml"
    shutil.copy(ROOT / "examples/pictures.py", examples)
    with dpsql.connect(schema) as connection:
        connection.execute("SELECT COUNT(*) FROM person")
    assert (examples / "randhie/randhie.ledger").exists() and list((examples / "randhie").glob(".*.dpsql"))
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    subprocess.run(
        [sys.executable, examples / "pictures.py", drawn], env={**os.environ, "PYTHONPATH": path}, check=True
    )
    assert sorted(file.name for file in drawn.iterdir()) == ["session.svg", "visits.png"]
    assert (drawn / "visits.png").read_bytes().startswith(b"\x89PNG")
    text = "".join(ElementTree.parse(drawn / "session.svg").getroot().itertext()).replace("\xa0", " ")
    for said in ("price: epsilon 0.1; remaining: epsilon 3.9", "DPSQL-301", "Nothing was charged", "statements_left"):
        assert said in text


def test_they_are_small_and_shown() -> None:
    pictures = sorted(PICTURES.iterdir())
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [file.name for file in pictures] == ["dashboard.png", "session.svg", "visits.png"]
    assert all(file.stat().st_size < LARGEST and f"](grammar_notes/pictures/{file.name})" in page for file in pictures)


def test_they_load_nothing() -> None:
    assert "url(http" not in (PICTURES / "session.svg").read_text(encoding="utf-8")
