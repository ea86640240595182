"""Mistakes that owners make, each a schema in a file: `dpsql check` refuses it or warns, in words that lead to the fix."""

from __future__ import annotations

import contextlib
import io
import shutil
from pathlib import Path

import pytest

from dpsql.clients.cli.main import main

FOLDER = Path(__file__).parents[1] / "fixtures/owners"
RIGHT = FOLDER / "right.toml"
MISTAKES = sorted(path for path in FOLDER.glob("*.toml") if path != RIGHT)
MARK = "# says: "


def checked(schema: Path, folder: Path) -> tuple[int, str]:
    """Exit code of a check of this schema beside the shop's files, and its text."""
    shutil.copytree(FOLDER / "data", folder, dirs_exist_ok=True)
    shutil.copy(schema, folder / "schema.toml")
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        code = main(["check", str(folder / "schema.toml")])
    return code, said.getvalue()


def told(code: int, text: str) -> str:
    """Words that lead to a fix: the refusal, or the notes of an approval."""
    return text if code else "\n".join(line for line in text.splitlines() if line.startswith("note: "))


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.mark.parametrize("schema", MISTAKES, ids=lambda path: path.stem)
def test_a_mistake_is_refused_or_warned_of(schema: Path, tmp_path: Path) -> None:
    says = schema.read_text(encoding="utf-8").splitlines()[0]
    assert says.startswith(MARK)
    code, text = checked(schema, tmp_path / "shop")
    assert says.removeprefix(MARK) in told(code, text), text
    assert "Traceback" not in text


def test_the_right_one_is_approved_without_a_word(tmp_path: Path) -> None:
    code, text = checked(RIGHT, tmp_path / "shop")
    assert (code, told(code, text)) == (0, "") and "is approved" in text


def test_there_are_many_and_each_is_one_mistake() -> None:
    """A mistake is the right schema but for a few lines."""
    right = RIGHT.read_text(encoding="utf-8").splitlines()
    assert len(MISTAKES) >= 30
    for path in MISTAKES:
        lines = path.read_text(encoding="utf-8").splitlines()[1:]
        assert len(set(right) ^ set(lines)) <= 9, path.name
