"""The pages of grammar_notes as fences, and the cases that are made of them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
NOTES = ROOT / "grammar_notes"
GENERATED = ("text plan", "text relations", "text sensitivity", "text answer")
_MARK = re.compile(r"^```(.*)$")
_CODE = re.compile(r"DPSQL-\d{3}")


@dataclass(frozen=True, slots=True)
class Fence:
    """One fenced block.

    info   what stands after the opening marks
    first  index of the first line of its body in the page's lines; the opening marks stand one line above
    """

    info: str
    body: str
    first: int

    @property
    def kind(self) -> str:
        """The info without its arguments."""
        return " ".join(self.info.split(maxsplit=2)[:2])

    @property
    def argument(self) -> str:
        """The words after the kind: a code, or parameters as a Python literal."""
        return " ".join(self.info.split(maxsplit=2)[2:])

    @property
    def code(self) -> str:
        found = _CODE.match(self.argument)
        return found[0] if found else ""

    @property
    def parameters(self) -> list[object] | dict[str, object]:
        text = self.argument.removeprefix(self.code).strip()
        found: list[object] | dict[str, object] = ast.literal_eval(text) if text else []
        return found


@dataclass(frozen=True, slots=True)
class Case:
    """A fence that is executed by itself, and the fences below it that show what came of it."""

    page: Path
    schema: str
    fence: Fence
    shown: tuple[Fence, ...]

    @property
    def name(self) -> str:
        return f"{self.page.relative_to(NOTES)}:{self.fence.first}"


def pages() -> list[Path]:
    return sorted(NOTES.rglob("*.md"))


def fences(text: str) -> Iterator[Fence]:
    """The fenced blocks of a page. Raises ValueError where one is never closed."""
    lines = text.split("\n")
    opened: tuple[str, int] | None = None
    for number, line in enumerate(lines):
        mark = _MARK.match(line)
        if mark is None:
            continue
        if opened is None:
            opened = mark[1].strip(), number + 1
        else:
            yield Fence(opened[0], "\n".join(lines[opened[1] : number]), opened[1])
            opened = None
    if opened is not None:
        raise ValueError(f"the fence at line {opened[1]} is never closed")


def schema_of(text: str) -> str:
    """The dataset that a page's first lines name; RAND where they name none."""
    found = re.search(r"^schema: \[?(\w+)", "\n".join(text.split("\n")[:4]), re.MULTILINE)
    return found[1] if found else "randhie"


def cases(page: Path) -> list[Case]:
    """The cases of a page. Raises ValueError for a fence of an unknown kind, or one that shows something of nothing."""
    text = page.read_text(encoding="utf-8")
    schema = schema_of(text)
    found: list[Case] = []
    for fence in fences(text):
        above = found[-1].fence.kind if found else ""
        if fence.kind in ("sql accept", "sql refuse", "session", "toml"):
            found.append(Case(page, schema, fence, ()))
        elif (fence.kind in GENERATED and above == "sql accept") or (
            fence.kind == "text message" and above == "sql refuse"
        ):
            last = found.pop()
            found.append(Case(page, schema, last.fence, (*last.shown, fence)))
        else:
            raise ValueError(f"{page}, line {fence.first}: a fence {fence.info!r} after {above!r}")
    return found


def all_cases() -> list[Case]:
    return [case for page in pages() for case in cases(page)]
