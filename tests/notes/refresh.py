"""Rewrite what is generated on the pages, and the engine's texts of their statements: python -m tests.notes.refresh [PAGE ...]

A human reads the difference: a fence that changed says that the code does something else than it did.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from dpsql.core.errors import Error
from tests.notes import engine_texts
from tests.notes.pages import NOTES, Case, Fence, cases, pages
from tests.notes.show import shown
from tests.notes.transcript import desk, replayed
from tests.support import stages

Change = tuple[Fence, str]


def changes(page: Path) -> list[Change]:
    """The fences of a page that hold something else than they should, with what they should hold."""
    found: list[Change] = []
    listed = cases(page)
    for case in listed:
        found += [(fence, body) for fence in case.shown if fence.body != (body := _shown(case, fence))]
    sessions = [case.fence for case in listed if case.fence.kind == "session"]
    if sessions:
        with desk() as names:
            found += [(fence, body) for fence in sessions if (body := replayed(fence.body, names)) != fence.body]
    return found


def _shown(case: Case, fence: Fence) -> str:
    try:
        return shown(case, fence)
    except (Error, AssertionError) as problem:
        sys.stderr.write(f"{case.name}: {problem}\n")
        return fence.body


def rewrite(page: Path) -> int:
    """Rewrite a page; how many of its fences changed."""
    lines = page.read_text(encoding="utf-8").split("\n")
    found = sorted(changes(page), key=lambda change: -change[0].first)
    for fence, body in found:
        old = fence.body.split("\n") if fence.first < len(lines) and lines[fence.first] != "```" else []
        lines[fence.first : fence.first + len(old)] = body.split("\n") if body else []
    if found:
        page.write_text("\n".join(lines), encoding="utf-8")
    return len(found)


def main(arguments: Sequence[str]) -> int:
    for page in [Path(a).resolve() for a in arguments] or pages():
        changed = rewrite(page)
        if changed:
            sys.stdout.write(f"{page.relative_to(NOTES)}: {changed} fences rewritten\n")
    for path in [] if arguments else engine_texts.files():
        if stages.rewrite(path, partial(engine_texts.texts, path.stem)):
            sys.stdout.write(f"{path.name} rewritten\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
