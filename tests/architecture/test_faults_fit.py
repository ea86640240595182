"""Planted faults stand where functions of today stand: each takes what that takes, and gives what that gives."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
FILES = sorted(file.relative_to(TESTS.parent) for file in TESTS.rglob("test_planted_*.py"))
Setting = tuple[object, str, object]
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class Recorder:
    """Takes the place of a MonkeyPatch, and changes nothing."""

    def __init__(self) -> None:
        self.settings: list[Setting] = []

    def setattr(self, target: object, name: str, value: object) -> None:
        assert hasattr(target, name), f"there is no {name} in {target}"
        self.settings.append((target, name, value))

    def setitem(self, *_: object) -> None:
        """Values of a table have no signature."""


def planted(file: Path) -> list[Callable[[Recorder], None]]:
    """The faults of a file: its functions of a MonkeyPatch alone."""
    module = import_module(".".join(file.with_suffix("").parts))
    functions = [f for f in vars(module).values() if inspect.isfunction(f) and f.__module__ == module.__name__]
    return [f for f in functions if [p.annotation for p in inspect.signature(f).parameters.values()] == ["Patch"]]


def mistake(original: object, value: object) -> str:
    """Tell why one cannot stand for the other; "" where it can."""
    if not (inspect.isfunction(original) and inspect.isfunction(value)):
        return ""
    had, has = inspect.signature(original), inspect.signature(value)
    kinds = {p.kind for p in has.parameters.values()}
    if inspect.Parameter.VAR_POSITIONAL not in kinds:
        most = sum(p.kind in _POSITIONAL for p in has.parameters.values())
        if most < sum(p.kind in _POSITIONAL for p in had.parameters.values()):
            return f"takes {has}, in place of {had}"
    gives, gave = (re.sub(r"\w+\.", "", str(one.return_annotation)) for one in (has, had))
    is_told = not {"object", re.sub(r"\w+\.", "", str(inspect.Signature.empty))} & {gives, gave}
    return f"gives {gives}, in place of {gave}" if is_told and gives != gave else ""


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_faults_stand_for_functions_of_today(file: Path) -> None:
    mistakes = []
    for fault in planted(file):
        recorder = Recorder()
        fault(recorder)
        for target, name, value in recorder.settings:
            told = mistake(inspect.getattr_static(target, name), value)
            if told:
                mistakes.append(f"{fault.__name__}: {name} {told}")
    assert mistakes == []


def test_what_does_not_fit_is_found() -> None:
    def original(a: int, b: int = 0) -> int:
        return a + b

    def shorter(a: int) -> int:
        return a

    def other(a: int, b: int = 0) -> str:
        return f"{a}{b}"

    assert mistake(original, original) == "" and mistake(original, lambda *given: given) == ""
    assert "takes" in mistake(original, shorter) and "gives" in mistake(original, other)
