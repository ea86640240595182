"""Read, answer, show, until somebody leaves."""

from __future__ import annotations

import argparse
import sys
from contextlib import suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING

from dpsql.clients.repl.actions import Leave, Stopped
from dpsql.clients.repl.banner import banner
from dpsql.clients.repl.commands import act
from dpsql.clients.repl.desk import Desk, Reader
from dpsql.clients.repl.interrupts import Interrupts
from dpsql.clients.repl.plain import Plain
from dpsql.clients.repl.screen import Screen
from dpsql.core.errors import Error
from dpsql.schema.model import Schema

if TYPE_CHECKING:
    from dpsql.clients.dbapi.connection import Connection

MISSING = 'Editing, history, completion and colours: pip install "dpsql[repl]"'


def run(connection: Connection, options: argparse.Namespace) -> int:
    """A session on a connection, until its end. Returns the exit code.

    options  of the command line: mode and accuracy are read, where they are there
    """
    screen = Screen.here()
    schema = connection.schema
    interrupts = Interrupts()
    desk = Desk(
        connection,
        schema,
        connection.analyst,
        screen,
        _editor(schema, screen, interrupts),
        act,
        mode=getattr(options, "mode", None) or "table",
        bars=bool(getattr(options, "accuracy", False)),
        results=screen.out,
        interrupts=interrupts,
    )
    with interrupts.listening():
        try:
            screen.tell(banner(desk))
            _rounds(desk)
        finally:
            desk.results_to(screen.out)
    return 0


def _rounds(desk: Desk) -> None:
    """Entries until the end."""
    goes_on = True
    while goes_on:
        # prompt_toolkit has Python's own handler put back for a moment
        with suppress(KeyboardInterrupt):
            desk.interrupts.listen()
            goes_on = _round(desk)


def _editor(schema: Schema, screen: Screen, interrupts: Interrupts) -> Reader:
    """Open the reader of this terminal; where it could be better, say so."""
    shown = f"{schema.name}> "
    prompt = shown if len(shown) <= screen.width // 3 else "> "
    if not screen.moves or not sys.stdin.isatty():
        return Plain(prompt, interrupts)
    if find_spec("prompt_toolkit") is None:
        screen.tell(MISSING)
        return Plain(prompt, interrupts)
    from dpsql.clients.repl.editor import Editor

    return Editor(schema, screen, prompt)


def _round(desk: Desk) -> bool:
    """One entry; False at the end."""
    try:
        entry = desk.editor.read()
        desk.interrupts.pressed = False
        desk.take(entry)
    except KeyboardInterrupt:
        desk.screen.tell("(\\q or Ctrl-D leaves)", "faint")
    except (EOFError, Leave):
        return False
    except Stopped:
        pass
    except Error as problem:
        desk.complain(problem)
    except OSError as problem:
        with suppress(OSError):
            desk.results_to(desk.screen.out)
        desk.screen.tell(f"The result cannot be written: {problem.strerror}; results go to the screen again.", "error")
    return True
