r"""The commands of the prompt itself: `\d`, `.tables` and their kin, with what they are for and what they do.

A backslash and a point mean the same, so that what one knows from other prompts works.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from dpsql.clients.declared import domain_text, kind, name_sql, table_sql
from dpsql.clients.repl import actions, again
from dpsql.clients.repl.banner import help_text
from dpsql.clients.repl.completion import Candidate, complete
from dpsql.clients.repl.desk import Desk
from dpsql.clients.terminal.show import MODES
from dpsql.schema.model import Schema


@dataclass(frozen=True, slots=True)
class Command:
    """names without the backslash, the first is shown; argument as help shows it, in brackets where it may be left out."""

    names: tuple[str, ...]
    argument: str
    about: str
    act: Callable[[Desk, str], None]

    @property
    def shown(self) -> str:
        return f"\\{self.names[0]} {self.argument}".strip()


def _help(desk: Desk, argument: str) -> None:
    desk.screen.tell(help_text(desk, [(command.shown, command.about) for command in COMMANDS]))


COMMANDS: tuple[Command, ...] = (
    Command(("d", "dt", "tables", "schema"), "[TABLE]", "the tables, or the columns of one (\\dt, .tables, .schema)", actions.describe),
    Command(("dt+", "d+"), "", "the tables, with limits of one person and the columns that lead to the person", actions.describe_more),
    Command(("domain",), "TABLE.COLUMN", "which values are declared of a column", actions.domain),
    Command(("budget",), "", "what is spent and what is left", actions.budget),
    Command(("explain",), "[SQL]", "price, error and reasons of a statement, before it is asked: free", actions.explain),
    Command(("eps", "epsilon"), "[NUMBER]", "the price of statements from now on; without a number the owner's", actions.price),
    Command(("accuracy",), "[on|off]", "the 95 % error beside each number", actions.accuracy),
    Command(("x", "expanded"), "[on|off|auto]", "one line a value; auto: where a row is wider than the screen", actions.expanded),
    Command(("mode",), "[MODE]", f"how results look: {', '.join(MODES)}", actions.mode),
    Command(("maxrows",), "[NUMBER]", "the most rows that a table shows", actions.most_rows),
    Command(("pager",), "[on|off]", "whether what is taller than the screen goes through $PAGER", actions.paging),
    Command(("o", "output"), "[FILE]", "write results to a file; without one to the screen again", actions.output_to),
    Command(("g",), "[FILE]", "the statement that was written last, once more: the stored answer is free", again.repeat),
    Command(("e", "edit"), "[FILE]", "write it, or a file, in $EDITOR; what comes back is asked", again.edit),
    Command(("s", "history"), "[FILE]", "what was written before", again.history),
    Command(("i", "read"), "FILE", "run the statements of a file", actions.read),
    Command(("timing", "timer"), "[on|off]", "whether the status says how long it took", actions.timing),
    Command(("watch",), "[SECONDS]", "the last statement again and again: the stored answer, free", actions.watch),
    Command(("?", "h", "help"), "", "this page", _help),
    Command(("q", "quit", "exit"), "", "leave, as Ctrl-D does", actions.leave),
)  # fmt: skip
BY_NAME = {name: command for command in COMMANDS for name in command.names}


def split(line: str) -> tuple[str, str]:
    """The name of a command, without its mark, and its argument."""
    text = line.strip()
    if text[:1] not in ("\\", "."):
        return text.rstrip("; ").lower(), ""
    name, _, argument = text[1:].partition(" ") if " " in text else (text[1:], "", "")
    if "\n" in name:
        name, _, argument = text[1:].partition("\n")
    argument = argument.strip()
    return name.rstrip(";").lower(), argument if name.lower() == "explain" else argument.rstrip("; ")


def act(desk: Desk, line: str) -> None:
    """Do what a line says, or say which command is nearest."""
    name, argument = split(line)
    command = BY_NAME.get(name)
    if command is not None:
        command.act(desk, argument)
        return
    near = difflib.get_close_matches(name, list(BY_NAME), 1, 0.5)
    hint = f"did you mean \\{near[0]}?" if near else "\\? lists them"
    desk.screen.tell(f"There is no command \\{name[:30]}; {hint}", "error")


# --- completion -----------------------------------------------------------------------------------------------------------


def candidates(line: str, schema: Schema) -> Iterator[Candidate]:
    """Complete a line that ends at the cursor: the command, or its argument."""
    text = line.lstrip()
    mark, rest = text[:1], text[1:]
    if mark not in ("\\", "."):
        return
    name, space, argument = rest.partition(" ")
    if not space:
        for command in COMMANDS:
            for each in command.names:
                if each.startswith(name.lower()):
                    yield Candidate(f"{mark}{each}", len(text), f"{command.argument}  {command.about}".strip())
        return
    yield from _arguments(name.lower(), argument.lstrip(), schema)


def _words(command: Command | None) -> list[str]:
    """The words that an argument is one of; [] where it is none of some words."""
    return command.argument.strip("[]").split("|") if command is not None and "|" in command.argument else []


def _arguments(name: str, written: str, schema: Schema) -> Iterator[Candidate]:
    command = BY_NAME.get(name)
    match command.names[0] if command is not None else "":
        case "d":
            listed = [(table_sql(t.name), kind(t, schema)) for t in schema.tables]
        case "domain":
            named = [(t, c) for t in schema.tables for c in t.columns]
            listed = [(f"{table_sql(t.name)}.{name_sql(c.name)}", domain_text(c, 3)) for t, c in named]
        case "mode":
            listed = [(mode, "") for mode in MODES]
        case "explain":
            yield from complete(written, len(written), schema, candidates)
            return
        case _:
            listed = [(word, "") for word in _words(command)]
    for text, about in listed:
        if text.lower().startswith(written.lower()):
            yield Candidate(text, len(written), about)
