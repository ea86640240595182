"""Every refusal code has a page, is raised somewhere, and is named in some test."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from dpsql.core.errors import CODES
from tests.notes.pages import NOTES, ROOT, all_cases

HERE = Path(__file__)
_HEADING = re.compile(r"^## DPSQL-(\d{3})$", re.MULTILINE)
_CLASS = re.compile(r"^## DPSQL-(\d{3})\n\n(\w+)", re.MULTILINE)


def page() -> str:
    return (NOTES / "refusals.md").read_text(encoding="utf-8")


@cache
def sources(folder: str) -> str:
    """All text under a folder of the repository, without the list of codes itself."""
    left_out = {HERE, ROOT / "dpsql/core/errors.py"}
    files = sorted(p for p in (ROOT / folder).rglob("*") if p.suffix in (".py", ".sql", ".md") and p not in left_out)
    return "\n".join(p.read_text(encoding="utf-8") for p in files)


def test_the_codes_have_headings_in_their_order() -> None:
    assert [int(code) for code in _HEADING.findall(page())] == sorted(CODES)


def test_a_heading_names_the_class_of_its_code() -> None:
    said = {int(code): name for code, name in _CLASS.findall(page())}
    assert said == {code: kind.__name__ for code, (kind, _) in CODES.items()}


@pytest.mark.few(28)
@pytest.mark.parametrize("code", sorted(CODES))
def test_a_code_is_raised_somewhere(code: int) -> None:
    assert re.search(rf"\b{code}\b", sources("dpsql"))


@cache
def executed() -> str:
    """The fences of grammar_notes that test_notes.py executes."""
    found = [fence for case in all_cases() for fence in (case.fence, *case.shown)]
    return "\n".join(f"{fence.info}\n{fence.body}" for fence in found)


@pytest.mark.few(32)
@pytest.mark.parametrize("code", sorted(CODES))
def test_a_code_is_met_in_a_test(code: int) -> None:
    assert re.search(rf"\b{code}\b", sources("tests")) or f"DPSQL-{code}" in executed()


def test_only_codes_that_exist_are_written_about() -> None:
    written = {int(code) for code in re.findall(r"DPSQL-(\d{3})\b", sources("grammar_notes"))}
    assert written <= set(CODES)
