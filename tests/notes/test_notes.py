"""Every fence of grammar_notes is executed; what it shows must be what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.notes import engine_texts
from tests.notes.datasets import opened
from tests.notes.pages import NOTES, Case, all_cases, cases, pages
from tests.notes.show import message, refusal, schema_mistakes, shown
from tests.notes.transcript import as_written, desk, replayed
from tests.support import stages
from tests.support.sql_lines import on_lines, on_one_line

CASES = all_cases()
_LINK = re.compile(r"\]\(([^)#\s]*)(#[^)\s]*)?\)")
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
_ANCHOR = re.compile(r'<a id="([^"]+)">')
_APART = re.compile(r"^```.*?^```$|^(?:#|    ).*?$|\[[^\]]*\]\([^)]*\)|`[^`]*`", re.MULTILINE | re.DOTALL)
_NAMED = re.compile(r"\b(?:[Rr]ules?\s+\d+|DPSQL-\d{3})")


def of_kind(kind: str) -> list[object]:
    return [pytest.param(case, id=case.name) for case in CASES if case.fence.kind == kind]


@pytest.mark.few(4)
@pytest.mark.parametrize("case", of_kind("sql accept"))
def test_an_accepted_statement_is_answered_as_shown(case: Case) -> None:
    opened(case.schema).session.execute(case.fence.body, case.fence.parameters)
    for fence in case.shown:
        now = shown(case, fence)
        assert fence.body == now, f"{case.name}: {fence.info} is now\n{now}"


@pytest.mark.few(82)
@pytest.mark.parametrize("case", of_kind("sql refuse"))
def test_a_refused_statement_says_what_is_shown(case: Case) -> None:
    refused = refusal(case)
    assert refused.code == case.fence.code
    assert [fence.body for fence in case.shown] == [message(refused)] * len(case.shown)


@pytest.mark.parametrize("case", of_kind("toml"))
def test_a_schema_snippet_is_a_schema(case: Case) -> None:
    assert schema_mistakes(case) == []


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "page", [p for p in pages() if any(c.fence.kind == "session" for c in cases(p))], ids=lambda p: p.name
)
def test_a_transcript_goes_as_shown(page: Path) -> None:
    with desk() as names:
        for case in cases(page):
            if case.fence.kind == "session":
                assert replayed(case.fence.body, names) == case.fence.body


@pytest.mark.parametrize("page", pages(), ids=lambda p: str(p.relative_to(NOTES)))
def test_the_links_of_a_page_lead_somewhere(page: Path) -> None:
    links = [link for link in _LINK.findall(page.read_text(encoding="utf-8")) if "://" not in link[0]]
    assert [link for link in links if not _leads(page.parent / link[0] if link[0] else page, link[1][1:])] == []


def _leads(target: Path, anchor: str) -> bool:
    """True if a page, and the place in it, are there."""
    return target.exists() and (not anchor or anchor in _anchors(target))


def _anchors(page: Path) -> set[str]:
    """Names of the places of a page: of its headings, as GitHub makes them, and those that are written."""
    text = page.read_text(encoding="utf-8")
    headings = (re.sub(r"<[^>]*>|[^\w\- ]", "", title).strip().lower() for title in _HEADING.findall(text))
    return {heading.replace(" ", "-") for heading in headings} | set(_ANCHOR.findall(text))


@pytest.mark.parametrize("page", pages(), ids=lambda p: str(p.relative_to(NOTES)))
def test_rules_and_codes_that_a_page_names_are_links(page: Path) -> None:
    prose = _APART.sub(" ", page.read_text(encoding="utf-8"))
    assert _NAMED.findall(prose) == []


def test_the_index_lists_every_page() -> None:
    index = (NOTES / "README.md").read_text(encoding="utf-8")
    listed = {(NOTES / target).resolve() for target, _ in _LINK.findall(index)}
    assert {page for page in pages() if page.name != "README.md"} <= listed


@pytest.mark.few(8)
@pytest.mark.parametrize(
    ("dataset", "case"),
    [
        pytest.param(path.stem, case, id=f"{path.stem}: {case.sql[:70]}")
        for path in engine_texts.files()
        for case in stages.read(path)
    ],
)
def test_the_engine_runs_the_expected_text(dataset: str, case: stages.Case) -> None:
    now = engine_texts.texts(dataset, case)
    assert on_one_line(" ".join(now)) == on_one_line(" ".join(case.expected)), "\n".join(now)


def test_lines_of_sql_are_the_sql_again() -> None:
    sql = """SELECT k0, sum(x) AS s0 FROM (SELECT 'a  b' AS k0 FROM "t  u" WHERE (1 = 1)) AS q GROUP BY k0"""
    assert on_one_line(on_lines(sql)) == sql
    assert on_lines(sql).split("\n")[1:3] == ["FROM (SELECT 'a  b' AS k0", '  FROM "t  u"']


def test_a_page_is_rewritten_without_the_frames_of_an_exception() -> None:
    expected = "Traceback (most recent call last):\n    ...\nValueError: "
    with desk() as names:
        assert replayed(f">>> int('x')\n{expected}another", names).startswith(
            f">>> int('x')\n{expected}invalid literal"
        )


def test_what_varies_stays_as_it_is_written() -> None:
    written = "total  4\n  2  ...  default\n  1  ...  default"
    now = "total  5\na guess  98 %\n  2  15:44  default\n  1  15:43  default"
    assert as_written(now, written) == "total  5\na guess  98 %\n  2  ...  default\n  1  ...  default"
