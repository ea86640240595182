"""Replays the session in examples/session.md, without noise: python -m tests.clients.repl.transcript rewrites it."""

from __future__ import annotations

import argparse
import io
import os
import re
from pathlib import Path
from unittest.mock import patch

import dpsql
from dpsql.clients.repl.actions import Leave
from dpsql.clients.repl.banner import banner
from dpsql.clients.repl.commands import act
from dpsql.clients.repl.desk import Desk
from dpsql.clients.repl.interrupts import Interrupts
from dpsql.clients.repl.plain import Plain
from dpsql.clients.repl.scanner import is_complete
from dpsql.clients.repl.screen import Screen
from tests.notes.pages import ROOT, Fence, fences
from tests.notes.transcript import desk

PAGE = ROOT / "examples/session.md"
SCHEMA = "examples/randhie/schema.toml"
PROMPT, MORE = "randhie> ", "     ... "
COMMAND = f"$ dpsql {SCHEMA}"


def session(page: Path = PAGE) -> Fence:
    """The fence that holds the session."""
    return next(f for f in fences(page.read_text(encoding="utf-8")) if f.body.startswith(COMMAND))


def entered(body: str) -> list[str]:
    """The lines that were written at the prompts."""
    found: list[str] = []
    for line in body.split("\n"):
        if line.startswith(PROMPT):
            found.append(line.removeprefix(PROMPT))
        elif line.startswith(MORE) and found and not is_complete(found[-1]):
            found[-1] += "\n" + line.removeprefix(MORE)
    return found


def replayed(body: str) -> str:
    """The session as it comes out now; how long a statement took stays as it is written."""
    out = io.StringIO()
    out.write(COMMAND + "\n")
    with desk(), dpsql.connect(SCHEMA) as connection, patch.dict(os.environ, {"COLUMNS": "100"}):
        screen = Screen(out, colour=False, moves=False)
        here = Desk(connection, connection.schema, "default", screen, Plain(PROMPT, Interrupts()), act, results=out)
        screen.tell(banner(here))
        for entry in entered(body):
            out.write(PROMPT + entry.replace("\n", "\n" + MORE) + "\n")
            try:
                here.take(entry)
            except Leave:
                break
    seconds = iter(re.findall(r" in \d+\.\d\d s", body))
    return re.sub(r" in \d+\.\d\d s", lambda found: next(seconds, found[0]), out.getvalue().rstrip("\n"))


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    text, body = PAGE.read_text(encoding="utf-8"), session().body
    PAGE.write_text(text.replace(body, replayed(body)), encoding="utf-8")


if __name__ == "__main__":
    main()
