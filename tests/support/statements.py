"""Reading the lists of statements in tests/fixtures: one statement a paragraph, comments above it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from dpsql.core.errors import Error

FIXTURES = Path(__file__).parents[1] / "fixtures"


@dataclass(frozen=True, slots=True)
class Statement:
    """sql and what its comment says: the schema it is over, the number of releases, bound parameters.

    says      parts of the message of a refused one, of which one stands there
    followed  the statement after one did what it says
    """

    sql: str
    schema: str
    releases: int | None
    parameters: tuple[int, ...]
    comment: str
    says: tuple[str, ...] = ()
    followed: str = ""


def read(name: str) -> list[Statement]:
    """The statements of tests/fixtures/NAME."""
    found = []
    for paragraph in (FIXTURES / name).read_text().split("\n\n"):
        lines = paragraph.strip().split("\n")
        told = [line.removeprefix("--> ") for line in lines if line.startswith("-->")]
        comment = " ".join(
            line.removeprefix("--").strip() for line in lines if line.startswith("--") and not line.startswith("-->")
        )
        sql = "\n".join(line for line in lines if not line.startswith("--")).strip()
        if not sql:
            continue
        schema = re.search(r"schema: (\w+)", comment)
        releases = re.search(r"releases: (\d+)", comment)
        parameters = re.search(r"parameters: \[([^\]]*)\]", comment)
        found.append(
            Statement(
                sql,
                schema[1] if schema else "randhie",
                int(releases[1]) if releases else None,
                tuple(int(p) for p in parameters[1].split(",")) if parameters else (),
                comment,
                tuple(told[0].split(" | ")) if told else (),
                told[1] if told else "",
            )
        )
    return found


def useful(problem: Error) -> bool:
    """Tell whether the first line of a refusal is one that a person can act on, and nobody else's words."""
    first = str(problem).split("\n")[0]
    foreign = ("sqlglot", "duckdb", "traceback", "\x1b", "exception", "exp.", "none")
    code = int(problem.code.removeprefix("DPSQL-"))
    return (
        100 < code < 700
        and first.startswith(problem.code + ": ")
        and "; " in first
        and len(first) < 220
        and not any(word in first.lower() for word in foreign)
    )
