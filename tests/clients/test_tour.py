"""examples/tour.ipynb runs from the first cell to the last. IPython alone runs it, without a kernel."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import dpsql
from tests.notes.transcript import desk

NOTEBOOK = Path(__file__).parents[2] / "examples/tour.ipynb"


def cells(kind: str) -> list[str]:
    found = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in found if cell["cell_type"] == kind]


def test_every_cell_runs(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    shell_of = pytest.importorskip("IPython.core.interactiveshell").InteractiveShell
    pytest.importorskip("matplotlib").use("Agg")
    from traitlets.config import Config

    with desk():
        monkeypatch.setenv("IPYTHONDIR", str(Path("ipython").absolute()))
        shell = shell_of(config=Config({"HistoryManager": {"enabled": False}}))
        tables = []
        for source in cells("code"):
            result = shell.run_cell(source)
            assert result.success, f"{source}\n{result.error_before_exec or result.error_in_exec}"
            tables += [result.result._repr_html_()] if isinstance(result.result, dpsql.Cursor) else []
    assert len(tables) == 5 and all("<table" in html for html in tables)
    printed = capsys.readouterr().out
    for said in ("stored: True", "DPSQL-301", "half-width", "more statements at the usual price"):
        assert said in printed


def test_it_is_text_and_code_without_results() -> None:
    found = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    code = [cell for cell in found["cells"] if cell["cell_type"] == "code"]
    assert len(cells("markdown")) >= 8 and len(code) >= 10
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)
