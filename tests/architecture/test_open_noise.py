"""A mechanism and an accountant that come as one record each work everywhere: tests/support/made_up_noise.py adds them, in its own
process, and this says what the house has to say of them. Outside their folders no accountant is told apart by its name.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from dpsql.accountants.registry import accountings
from tests.support.parsed import nodes_of

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def said() -> dict[str, Any]:
    run = subprocess.run(
        [sys.executable, "-m", "tests.support.made_up_noise"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr[-2000:]
    found: dict[str, Any] = json.loads(run.stdout)
    return found


def test_the_mechanism_is_listed_and_named_in_hints(said: dict[str, Any]) -> None:
    assert said["listed"] == ["laplace", "gaussian", "wide", "auto"] and said["kind"]
    assert "write mechanism=laplace, mechanism=gaussian, mechanism=wide or mechanism=auto" in said["no such noise"]


@pytest.mark.parametrize(
    ("name", "events", "noise"),
    [
        ("alone", ["wide noise"], "wide noise, width 2"),
        ("groups", ["wide noise"], "wide noise, width 160"),
        ("private keys", ["wide noise", "threshold"], "wide noise, width 1/50"),
        ("a choice", ["pure"], "permute-and-flip at rate 100"),
        ("with an accuracy", ["wide noise"], "wide noise, width 200/167"),
        ("beside Laplace noise", ["discrete Laplace"], "discrete Laplace, scale 1"),
        ("Gaussian noise", ["discrete Gaussian at epsilon"], "discrete Gaussian, sigma 5.34998"),
    ],
)
def test_it_is_charged_as_what_ran(name: str, events: list[str], noise: str, said: dict[str, Any]) -> None:
    assert said[name]["events"] == events and said[name]["noises"] == [noise] and not said[name]["cached"]


def test_answers_are_the_engines_own(said: dict[str, Any]) -> None:
    assert said["alone"]["rows"] == [["9"]] and [row[1] for row in said["groups"]["rows"]] == ["4", "3", "2"]
    assert said["again"]["rows"] == said["alone"]["rows"] and said["again"]["cached"]


def test_nothing_is_read_off_its_answers_where_its_record_says_so(said: dict[str, Any]) -> None:
    assert not said["a sum of stored groups"]["cached"] and said["a sum of stored groups"]["events"] == ["wide noise"]
    assert said["a sum of those"]["cached"] and not said["finer groups with Laplace noise"]["cached"]


def test_it_is_explained(said: dict[str, Any]) -> None:
    lines = [line.strip() for (line,) in said["explained"]["rows"]]
    assert "wide noise, width 2; epsilon 1" in lines and "COUNT(*): 95 % half-width 6" in lines


def test_the_accountant_keeps_the_total(said: dict[str, Any]) -> None:
    spent = {name: Fraction(amount) for name, amount in said["spent"].items()}
    assert spent["thrice epsilon"] == 3 * spent["epsilon"] and said["json"] == said["spent"]
    assert Fraction(said["budget"]["remaining"]) == 1000 - spent["epsilon"]
    assert said["too dear"].startswith("DPSQL-501: this costs epsilon 900, ")
    assert "promise    threefold accounting, kept by thrice" in said["report"]
    assert said["verified"] == 10 and said["renyi"]


def test_it_is_named_for_good_and_in_hints(said: dict[str, Any]) -> None:
    refused = said["accounting rdp"]
    assert refused.startswith("DPSQL-504: ") and "keeps its promise by threefold accounting" in refused
    assert "one of auto, sequential, advanced, zcdp, gdp, rdp, threefold, not" in said["accounting narrow"]


def _named(node: ast.AST) -> set[str]:
    return {part.value for part in ast.walk(node) if isinstance(part, ast.Constant) and isinstance(part.value, str)} & {
        *accountings(),
        "pure",
    }


def test_no_accountant_is_told_apart_by_its_name() -> None:
    """`pure` is an event's kind too, and `auto` a mechanism's."""
    found = []
    for path in sorted((ROOT / "dpsql").rglob("*.py")):
        if path.parent.name == "accountants":
            continue
        for node in nodes_of(path.read_text()):
            compared: list[ast.AST] = []
            if isinstance(node, ast.Compare):
                compared = [node]
            elif isinstance(node, ast.Match):
                compared = [case.pattern for case in node.cases]
            found += [
                f"{path.relative_to(ROOT)}:{node.lineno}"  # type: ignore[attr-defined]
                for each in compared
                if _named(each) - {"auto"} or ("auto" in _named(each) and "accounting" in ast.unparse(node))
            ]
    assert found == []
