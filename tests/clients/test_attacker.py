"""The attacker of examples/nhefs wins without the guard at a large epsilon, and never has both halves with it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "examples/nhefs/attacker.py"
_LINE = re.compile(
    r"^ *([\d.]+)  (off|block) +(\d+)%  .*both halves of (\d+) of (\d+) pairs(.*); spent ([\d.e+]+)$", re.MULTILINE
)
_ENDED = re.compile(
    r"^  (by the identifier|asked directly|\w+ tracker|total minus one|in [\w ]+?)  +(\S.*)$", re.MULTILINE
)


@cache
def output(folder: Path) -> str:
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, SCRIPT, "--quick", "--svg", folder / "plot.svg"],
        capture_output=True,
        encoding="utf-8",
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path, "PYTHONIOENCODING": "utf-8", "PYTHONDONTWRITEBYTECODE": "1"},
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    folder = tmp_path_factory.mktemp("attacker")
    return output(folder), folder


@pytest.mark.slow
def test_without_the_guard_a_large_epsilon_gives_everybody_away(printed: tuple[str, Path]) -> None:
    """12 targets: at epsilon 10 the average of three differences is wrong about one with less than 10^-4; at 0.01 it is a coin."""
    right = {e: int(share) for e, mode, share, *_ in _LINE.findall(printed[0]) if mode == "off"}
    assert right["10"] == 100
    assert right["0.01"] < 100


@pytest.mark.slow
def test_with_the_guard_no_pair_is_complete_whatever_epsilon_is(printed: tuple[str, Path]) -> None:
    lines = _LINE.findall(printed[0])
    assert [mode for _, mode, *_ in lines] == ["off", "block"] * 3
    for _, mode, _, complete, tried, refused, spent in lines:
        assert int(tried) == 36
        assert int(complete) == (36 if mode == "off" else 0)
        assert ("R3 refuses" in refused and "first at statement 1" in refused) == (mode == "block")
        assert float(spent) > 0


@pytest.mark.slow
def test_the_schema_as_it_is_ends_every_tracker(printed: tuple[str, Path]) -> None:
    """Asked directly, a noisy number of people of 20 or more shows the noise instead: once in about twelve runs."""
    ended = dict(_ENDED.findall(printed[0]))
    assert re.match(r"R2 does not show|answered: [2-9]\d", ended.pop("asked directly"))
    assert ended == {
        "by the identifier": "R1 refuses statement 1 of 1",
        "total minus one": "R3 refuses statement 2 of 2",
        "in other words": "R3 refuses statement 2 of 2",
        "in one statement": "R3 refuses statement 1 of 1",
        "individual tracker": "R3 refuses statement 2 of 2",
        "general tracker": "R3 refuses statement 1 of 4",
        "double tracker": "R3 refuses statement 3 of 4",
    }


@pytest.mark.slow
def test_nothing_but_the_plot_is_left(printed: tuple[str, Path]) -> None:
    files = list(printed[1].iterdir())
    assert [file.name for file in files] == ["plot.svg"]
    lines = ElementTree.parse(files[0]).getroot().findall("{http://www.w3.org/2000/svg}polyline")
    assert [len(one.attrib["points"].split()) for one in lines] == [3, 3]


def test_the_examples_page_names_it() -> None:
    assert "`nhefs/attacker.py`" in (ROOT / "examples/README.md").read_text(encoding="utf-8")
