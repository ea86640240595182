"""Lines that are edited: prompt_toolkit's keys, with our words, colours and completion."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text.utils import split_lines
from prompt_toolkit.history import FileHistory, InMemoryHistory
from prompt_toolkit.lexers import Lexer
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.shortcuts import CompleteStyle
from prompt_toolkit.styles import Style

from dpsql.clients.repl.commands import candidates, split
from dpsql.clients.repl.completion import complete
from dpsql.clients.repl.scanner import Token, is_command, is_complete, tokens
from dpsql.clients.repl.screen import Screen
from dpsql.clients.repl.words import FUNCTIONS, KEYWORDS
from dpsql.core.escaping import harmless
from dpsql.schema.model import Schema

STYLE = {
    "prompt": "bold",
    "more": "ansibrightblack",
    "keyword": "ansicyan bold",
    "function": "ansiblue",
    "text": "ansigreen",
    "number": "ansimagenta",
    "comment": "ansibrightblack italic",
    "command": "ansiyellow",
}
_FUNCTIONS = frozenset(name.upper() for name in FUNCTIONS)
MENU_LINES = 7


class Editor:
    """One prompt with its history."""

    def __init__(self, schema: Schema, screen: Screen, prompt: str) -> None:
        self._prompt = prompt
        path = _history_file()
        tall = screen.lines > 2 * MENU_LINES
        self._session: PromptSession = PromptSession(
            history=_Kept(path) if path is not None else InMemoryHistory(),
            multiline=Condition(lambda: not is_complete(self._session.default_buffer.document.text)),
            prompt_continuation=_continued,
            lexer=_Colours(),
            completer=_Completions(schema),
            # A menu needs lines below the prompt; where there are few, the text is worth more.
            complete_while_typing=tall,
            complete_style=CompleteStyle.COLUMN if tall else CompleteStyle.READLINE_LIKE,
            reserve_space_for_menu=MENU_LINES if tall else 0,
            search_ignore_case=True,
            enable_suspend=True,
            style=Style.from_dict(STYLE),
            color_depth=None if screen.colour else ColorDepth.DEPTH_1_BIT,
            include_default_pygments_style=False,
        )
        self._questions = PromptSession(history=InMemoryHistory())

    def read(self) -> str:
        return str(self._session.prompt([("class:prompt", self._prompt)]))

    def remembered(self) -> list[str]:
        history = self._session.history
        return list(reversed(list(history.load_history_strings()))) or history.get_strings()

    def confirm(self, question: str) -> bool:
        try:
            return str(self._questions.prompt(question)).strip().lower() in ("y", "yes")
        except (EOFError, KeyboardInterrupt):
            return False


def _continued(width: int, line: int, wrapped: int) -> list[tuple[str, str]]:
    """Prompt before the second line and those after it; nothing where a line only goes on because it is long."""
    return [("class:more", f"{'' if wrapped else '... ':>{width}}"[-width:] if width else "")]


def _history_file() -> Path | None:
    """The file, made where it is not there yet; None where it cannot be written: then a session remembers itself alone."""
    try:
        home = os.environ.get("XDG_STATE_HOME")
        folder = (Path(home) if home else Path.home() / ".local/state") / "dpsql"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = folder / "history"
        # A statement may hold what is nobody else's business.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600))
        return path
    except (OSError, RuntimeError):
        return None


class _Kept(FileHistory):  # type: ignore[misc]
    """A file of history that a full disk does not end a session with."""

    def __init__(self, path: Path) -> None:
        super().__init__(str(path))

    def load_history_strings(self) -> Iterable[str]:
        with suppress(OSError):
            return list(super().load_history_strings())
        return []

    def store_string(self, string: str) -> None:
        with suppress(OSError):
            super().store_string(string)


class _Completions(Completer):  # type: ignore[misc]
    """Our candidates, as prompt_toolkit shows them."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._paths = PathCompleter(expanduser=True)

    def get_completions(self, document: Document, event: CompleteEvent) -> Iterator[Completion]:
        text = document.text
        if is_command(text) and split(text)[0] in ("i", "o", "read", "output") and " " in text:
            argument = document.text_before_cursor.partition(" ")[2].lstrip()
            yield from self._paths.get_completions(Document(argument), event)
            return
        for found in complete(text, document.cursor_position, self._schema, candidates):
            yield Completion(found.text, -found.replaced, harmless(found.text), harmless(found.about))


class _Colours(Lexer):  # type: ignore[misc]
    """Keywords, functions, texts, numbers, comments and commands."""

    def lex_document(self, document: Document) -> Callable[[int], list[tuple[str, str]]]:
        lines = list(split_lines(fragments(document.text)))
        return lambda number: lines[number] if number < len(lines) else []


def fragments(text: str) -> list[tuple[str, str]]:
    """The text in pieces, each with its style."""
    if is_command(text) and not text.lstrip()[1:].lower().startswith("explain "):
        return [("class:command", text)]
    return [(_style(token), token.text) for token in tokens(text)]


def _style(token: Token) -> str:
    match token.kind:
        case "comment" | "text" | "number":
            return f"class:{token.kind}"
        case "word" if token.upper in KEYWORDS:
            return "class:keyword"
        case "word" if token.upper in _FUNCTIONS:
            return "class:function"
    return ""
