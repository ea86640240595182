"""The commands and snippets of README.md and of the examples' pages do what they say."""

from __future__ import annotations

import ast
import re
import shlex
import tomllib
from pathlib import Path

import pytest

from dpsql.clients.cli.main import VERBS, main
from tests.notes.pages import ROOT, Fence, fences
from tests.notes.transcript import desk

README = ROOT / "README.md"
PAGES = [p for p in [README, *sorted((ROOT / "examples").rglob("*.md"))] if p.exists()]
ANSWERED = 0
_SHELL = ("", "sh", "bash", "console", "shell", "session")
_LINK = re.compile(r"\]\(([^)#\s]+)(#[^)\s]*)?\)")


def commands(fence: Fence) -> list[str]:
    """The command lines of a fence, joined where a backslash ends a line or a quote is open; with prompts, the lines that have one."""
    lines: list[str] = []
    for line in fence.body.replace("\\\n", " ").split("\n"):
        if lines and lines[-1].count('"') % 2:
            lines[-1] += f"\n{line}"
        elif line.strip() and not line.startswith("#"):
            lines.append(line)
    prompted = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    return prompted or lines


def dpsql_words(command: str) -> list[str]:
    """The arguments of the `dpsql ...` part of a command line; [] where there is none."""
    part: list[str] = []
    for word in [*shlex.shlex(command, posix=True, punctuation_chars=True), ";"]:
        if not word.strip("&;|"):
            arguments = _arguments(part)
            if arguments:
                return arguments
            part = []
        else:
            part.append(word)
    return []


def _arguments(words: list[str]) -> list[str]:
    if words[1:3] == ["-m", "dpsql"]:
        return words[3:]
    return words[1:] if words and Path(words[0]).name == "dpsql" else []


def is_here(words: list[str]) -> bool:
    """Tell whether a command's file comes with the repository; else it stands for the reader's own."""
    return Path(words[1] if words[0] in VERBS else words[0]).exists()


def shell_fences() -> list[object]:
    found = [(p, f) for p in PAGES for f in fences(p.read_text(encoding="utf-8")) if f.info in _SHELL]
    return [pytest.param(f, id=f"{p.relative_to(ROOT)}:{f.first}") for p, f in found]


def snippets(kind: str) -> list[object]:
    found = [(p, f) for p in PAGES for f in fences(p.read_text(encoding="utf-8")) if f.info == kind]
    return [pytest.param(f, id=f"{p.relative_to(ROOT)}:{f.first}") for p, f in found]


@pytest.mark.few(2)
@pytest.mark.parametrize("fence", shell_fences())
def test_each_dpsql_command_is_answered(fence: Fence, capsys: pytest.CaptureFixture[str]) -> None:
    with desk():
        for command in commands(fence):
            words = dpsql_words(command)
            if words and is_here(words):
                assert main(words) == ANSWERED, capsys.readouterr().err


@pytest.mark.parametrize("fence", snippets("python"))
def test_python_snippets_are_python(fence: Fence) -> None:
    with desk() as names:
        exec(compile(ast.parse(fence.body), "README", "exec"), names)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_schema_snippets_are_toml(page: Path) -> None:
    assert all(tomllib.loads(f.body) for f in fences(page.read_text(encoding="utf-8")) if f.info == "toml")


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    links = [target for target, _ in _LINK.findall(page.read_text(encoding="utf-8")) if "://" not in target]
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.skipif(not README.exists(), reason="there is no README yet")
def test_the_first_two_commands_run_the_job_and_the_tests() -> None:
    lines = [c for f in fences(README.read_text(encoding="utf-8")) if f.info in _SHELL for c in commands(f)]
    assert dpsql_words(lines[0])[:2] == ["examples/randhie/schema.toml", "-c"]
    assert "pytest" in lines[1]
