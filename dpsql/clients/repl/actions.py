"""Commands of the prompt, on the desk of the session."""

from __future__ import annotations

import difflib
import re
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TextIO

from dpsql.clients import declared
from dpsql.clients.output.prices import number
from dpsql.clients.output.table import MOST_ROWS, fitted, vertical
from dpsql.clients.repl.desk import Desk
from dpsql.clients.repl.scanner import entries
from dpsql.clients.terminal import show as output
from dpsql.clients.terminal.statements import read_text
from dpsql.core.errors import Error
from dpsql.schema import qualifiers
from dpsql.schema.model import Table

SECONDS = 2.0
"""Between two repeats of `\\watch`."""
SHORTEST, LONGEST = 0.1, 86_400.0
DEEPEST = 8
"""Files that may read one another."""
_NUMBER = re.compile(r"\d{1,9}(?:\.\d{0,9})?|\.\d{1,9}")


class Leave(Exception):
    """The session ends."""


class Stopped(Exception):
    """A file is not read further."""


def leave(desk: Desk, argument: str) -> None:
    raise Leave


# --- the declared schema ----------------------------------------------------------------------------------------------------


def describe(desk: Desk, argument: str) -> None:
    """The tables, or the columns of one."""
    name = ".".join(_parts(argument))
    if not name:
        _draw(desk, *declared.tables(desk.schema))
        first = desk.schema.tables[0].name if desk.schema.tables else "TABLE"
        desk.screen.tell(f"\\d {first} shows its columns.", "faint")
        return
    table = _table(desk, name)
    if table is not None:
        _draw(desk, *declared.columns(table))
        desk.screen.tell(declared.limits(table, desk.schema) + ".", "faint")


def describe_more(desk: Desk, argument: str) -> None:
    """The tables with the limits of one person in them, and the columns that lead to the person."""
    if argument:
        describe(desk, argument)
        return
    _draw(desk, *declared.tables_with_limits(desk.schema))


def domain(desk: Desk, argument: str) -> None:
    """Everything that is declared of a column."""
    *owner, name = _parts(argument)
    if not owner:
        desk.screen.tell("Write \\domain TABLE.COLUMN; \\d lists the tables.", "error")
        return
    table = _table(desk, ".".join(owner))
    if table is None:
        return
    column = table.column(name)
    if column is None:
        hint = _meant(name, [c.name for c in table.columns], f"\\d {table.name} lists its columns")
        desk.screen.tell(f"There is no column {name[:60]!r} in {table.name}; {hint}", "error")
        return
    desk.screen.tell("\n".join(declared.domain(column, table)))


def _parts(argument: str) -> list[str]:
    return [part.strip('"') for part in argument.split(".")]


def _table(desk: Desk, name: str) -> Table | None:
    """The declared table of that name; else say which there are."""
    found = qualifiers.meant(desk.schema, *name.split(".")[-3:])
    table = found[0] if len(found) == 1 else None
    if table is None:
        names = [t.name for t in desk.schema.tables]
        several = f"write {' or '.join(t.name for t in found)}"
        hint = several if found else _meant(name, names, f"the tables are {', '.join(names)}")
        desk.screen.tell(f"There is no table {name[:60]!r}; {hint}", "error")
    return table


def _meant(name: str, names: Sequence[str], otherwise: str) -> str:
    near = difflib.get_close_matches(name.lower(), names, 1, 0.7)
    return f"did you mean {near[0]}?" if near else otherwise


def _draw(desk: Desk, names: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    drawn = fitted(names, rows, None, desk.screen.width, colour=desk.screen.colour)
    desk.screen.say(drawn if drawn is not None else "".join(vertical(names, rows)).rstrip("\n"))


# --- prices -------------------------------------------------------------------------------------------------------------------

_BUDGET = (
    "SELECT holder, epsilon AS total, spent_epsilon AS spent, remaining_epsilon AS one_statement_may_cost, "
    "statements_left FROM dpsql.budget"
)


def budget(desk: Desk, argument: str) -> None:
    """Show the budget, spent and remaining, as this analyst sees it."""
    cursor = desk.run(_BUDGET)
    if cursor is not None:
        with cursor:
            how = output.ResultStyle(width=desk.screen.width, colour=desk.screen.colour)
            output.show(cursor, "table", desk.screen.out, how)
        default = number(desk.schema.privacy.query.epsilon)
        desk.screen.tell(
            f"In epsilon. statements_left are those of the owner's price, {default}; SHOW LEDGER; lists yours.", "faint"
        )


def explain(desk: Desk, argument: str) -> None:
    """The plan of a statement, or of the last one."""
    sql = (argument or desk.last).rstrip("; \n")
    if not sql:
        desk.screen.tell("Write \\explain SELECT ...", "error")
        return
    desk.plan(sql)


def price(desk: Desk, argument: str) -> None:
    """The price of the statements that follow."""
    if argument and not _NUMBER.fullmatch(argument):
        desk.screen.tell("Write \\eps 0.2", "error")
        return
    cursor = desk.run(f"SET dp_epsilon = {argument}" if argument else "RESET dp_epsilon")
    if cursor is not None:
        cursor.close()
        costs = argument or number(desk.schema.privacy.query.epsilon)
        desk.screen.tell(f"A statement costs epsilon {costs} from now on, unless it names a price itself.")


# --- how results look -----------------------------------------------------------------------------------------------------------


def _switch(name: str, setting: str, on: str, off: str) -> Callable[[Desk, str], None]:
    """A command that turns a setting of the desk on or off."""

    def act(desk: Desk, argument: str) -> None:
        chosen = _switched(desk, argument, getattr(desk, setting), name)
        if chosen is not None:
            setattr(desk, setting, chosen)
            desk.screen.tell(on if chosen else off)

    return act


def expanded(desk: Desk, argument: str) -> None:
    if argument.lower() == "auto":
        desk.mode, desk.auto = "table", True
        desk.screen.tell("Results have one line a row, and one line a value where that is wider than the screen.")
        return
    chosen = _switched(desk, argument, desk.mode == "vertical", "\\x")
    if chosen is not None:
        desk.mode, desk.auto = "vertical" if chosen else "table", False
        desk.screen.tell(f"Results have one line a {'value' if chosen else 'row'}.")


def most_rows(desk: Desk, argument: str) -> None:
    """The most rows of a table that are drawn."""
    if argument and not (argument.isascii() and argument.isdigit() and int(argument[:9]) > 0 and len(argument) < 10):
        desk.screen.tell("Write \\maxrows 100", "error")
        return
    desk.most = int(argument or MOST_ROWS)
    desk.screen.tell(f"A table shows at most {desk.most:,} rows; files and the other modes have all of them.")


def _switched(desk: Desk, argument: str, now: bool, name: str) -> bool | None:
    """Value that a switch is turned to: the other way without an argument; None where the argument is neither on nor
    off."""
    if argument.lower() in ("", "on", "off"):
        return not now if not argument else argument.lower() == "on"
    desk.screen.tell(f"Write {name} on or {name} off", "error")
    return None


accuracy = _switch(
    "\\accuracy",
    "bars",
    "The 95 % error stands beside each number.",
    "The 95 % error stands under the result alone.",
)
timing = _switch("\\timing", "timing", "Timing is on.", "Timing is off.")
paging = _switch("\\pager", "pages", "What is taller than the screen goes through the pager.", "Results are not paged.")


def mode(desk: Desk, argument: str) -> None:
    name, modes = argument.lower(), f"there are {', '.join(output.MODES)}"
    if name in output.MODES:
        desk.mode = name
        desk.screen.tell(f"Results are written as {name}.")
    elif not name:
        desk.screen.tell(f"Results are written as {desk.mode}; {modes}.")
    else:
        desk.screen.tell(f"There is no mode {name[:30]!r}; {_meant(name, output.MODES, modes)}", "error")


def output_to(desk: Desk, argument: str) -> None:
    """Results to a file, until another `\\o`; what stands under them stays on the screen."""
    out = opened(desk, argument) if argument else desk.screen.out
    if out is not None:
        desk.results_to(out)
        desk.screen.tell(
            f"Results go to {argument}; \\o brings them back." if argument else "Results go to the screen."
        )


def opened(desk: Desk, argument: str) -> TextIO | None:
    """The file that an argument names, to be written; None where it cannot be, which was said."""
    try:
        return open(path_of(argument), "w", encoding="utf-8")
    except OSError as problem:
        desk.screen.tell(f"{argument} cannot be written: {problem.strerror}", "error")
        return None


# --- statements again -------------------------------------------------------------------------------------------------------------


def read(desk: Desk, argument: str) -> None:
    """The statements and commands of a file, up to the first that is not answered."""
    path = path_of(argument)
    if not argument:
        desk.screen.tell("Write \\i FILE", "error")
        return
    try:
        text = read_text(str(path))
    except Error as problem:
        desk.screen.tell(f"{problem.message}; {problem.hint}", "error")
        raise Stopped from None
    if desk.reading >= DEEPEST:
        desk.screen.tell(f"{path} is not read: more than {DEEPEST} files read one another", "error")
        raise Stopped
    desk.reading += 1
    try:
        for entry in entries(text):
            if not desk.take(entry):
                desk.screen.tell(f"{path} is read no further.", "error")
                raise Stopped
    finally:
        desk.reading -= 1


def path_of(argument: str) -> Path:
    """The file that an argument names."""
    return Path(argument.strip("'\"")).expanduser()


def watch(desk: Desk, argument: str) -> None:
    """The last statement again and again, as long as that is free."""
    seconds = SECONDS
    if argument:
        seconds = float(argument) if _NUMBER.fullmatch(argument) else 0.0
    if not SHORTEST <= seconds <= LONGEST:
        desk.screen.tell("Write \\watch 2, in seconds", "error")
        return
    if not desk.last:
        desk.screen.tell("Nothing was answered yet; ask a statement first, then \\watch", "error")
        return
    desk.screen.tell(
        f"Every {seconds:g} s; Ctrl-C ends. A repeat is the stored answer, free: it stays the same until the data or the "
        "statement changes."
    )
    try:
        while desk.is_free(desk.last) and desk.ask(desk.last):
            with desk.interrupts.raised():
                threading.Event().wait(seconds)
    except KeyboardInterrupt:
        desk.screen.say()
