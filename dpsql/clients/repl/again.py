r"""Statements once more: `\g`, `\e`, and `\s`, which lists them."""

from __future__ import annotations

from dpsql.clients.repl.actions import opened, path_of
from dpsql.clients.repl.desk import Desk
from dpsql.clients.repl.scanner import is_complete
from dpsql.clients.repl.screen import edited
from dpsql.clients.terminal.statements import read_text
from dpsql.core.errors import Error

_NOTHING = "Nothing was written yet; write a statement first"


def repeat(desk: Desk, argument: str) -> None:
    """The statement that was written last, once more; with a file its result goes there."""
    if not desk.written:
        desk.screen.tell(_NOTHING, "error")
        return
    out = opened(desk, argument) if argument else desk.results
    if out is None:
        return
    before, desk.results = desk.results, out
    try:
        desk.take(desk.written)
    finally:
        desk.results = before
        if argument:
            out.close()


def edit(desk: Desk, argument: str) -> None:
    """The statement that was written last, or those of a file, in an editor; what comes back is asked."""
    try:
        text = read_text(str(path_of(argument))) if argument else desk.written
        text = edited(text and f"{text.rstrip()}\n").strip()
    except Error as problem:
        desk.screen.tell(f"{problem.message}; {problem.hint}", "error")
        return
    except (OSError, ValueError) as problem:
        said = getattr(problem, "strerror", None) or "it is no text"
        desk.screen.tell(f"Not edited: {said}; EDITOR names the editor", "error")
        return
    if not text:
        desk.screen.tell("Nothing to ask.")
        return
    desk.screen.tell(text, "faint")
    if not is_complete(text):
        desk.written = text
        desk.screen.tell("Not asked: a statement ends with ; and \\e opens it again.")
        return
    desk.take(text)


def history(desk: Desk, argument: str) -> None:
    """Everything that was written, the latest last; with a file there."""
    text = "\n".join(desk.editor.remembered())
    if not argument:
        desk.page(text + "\n" if text else "")
        return
    out = opened(desk, argument)
    if out is None:
        return
    with out:
        out.write(text + "\n")
    desk.screen.tell(f"Written to {argument}.")
