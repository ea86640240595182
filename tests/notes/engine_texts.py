"""Statements of the pages beside the text that the engine runs, and the post-processing query: tests/fixtures/dialects/duckdb/pages.

A file a dataset. Lines may be broken anywhere; `python -m tests.notes.refresh` writes them anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.notes.datasets import opened
from tests.support.sql_lines import on_lines
from tests.support.stages import Case
from tests.support.statements import FIXTURES

FOLDER = FIXTURES / "dialects" / "duckdb" / "pages"


def files() -> list[Path]:
    return sorted(FOLDER.glob("*.sql"))


def texts(dataset: str, case: Case) -> tuple[str, ...]:
    return tuple(_texts(dataset, case.sql.removesuffix(";")))


def _texts(dataset: str, sql: str) -> Iterator[str]:
    compiled = opened(dataset).compile(sql, [])
    for text in [text for part in compiled.releases for text in part.texts]:
        yield "engine:"
        yield from on_lines(text).split("\n")
    yield "shell:"
    yield from on_lines(compiled.plan.post_query.sql).split("\n")
