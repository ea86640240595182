"""Desk of a session at the prompt: a connection, how results are shown, and the last statement."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Protocol, TextIO, TypeVar

from dpsql.clients.output.prices import amounts, budget_left, left, number
from dpsql.clients.output.table import MOST_ROWS
from dpsql.clients.repl import running
from dpsql.clients.repl.interrupts import Interrupts
from dpsql.clients.repl.scanner import is_command
from dpsql.clients.repl.screen import HeldText, Screen, page
from dpsql.clients.terminal import show as output
from dpsql.clients.terminal.show import answered, is_asked_back, question
from dpsql.clients.terminal.statements import split
from dpsql.core.errors import Error
from dpsql.core.escaping import harmless

if TYPE_CHECKING:
    from dpsql.clients.dbapi.connection import Connection
    from dpsql.clients.dbapi.cursor import Cursor
    from dpsql.clients.output.prices import StatementPrice
    from dpsql.schema.model import Schema

LARGE = Fraction(1, 4)
"""The share of what is left from which a price is asked back."""
FIRST = (
    "The 95 % error says how far noise may have moved a number: in 95 of 100 cases the exact one is no further away. "
    "The same statement again is the stored answer, free. \\accuracy on writes the error beside each number."
)
Result = TypeVar("Result")


class Act(Protocol):
    """Does what a line with a command says."""

    def __call__(self, desk: Desk, line: str) -> None: ...


class Reader(Protocol):
    """Source of the lines that are typed."""

    def read(self) -> str:
        """The next entry. Raises EOFError where there is no more, KeyboardInterrupt where it was given up."""
        ...

    def confirm(self, question: str) -> bool:
        """True if the answer is yes."""
        ...

    def remembered(self) -> list[str]:
        """Entries so far, the latest last."""
        ...


@dataclass(slots=True)
class Desk:
    """One session.

    analyst  who asks
    editor   where lines come from
    act      does what a line with a command says
    mode     one of output.MODES
    bars     whether error bars are drawn in the table
    auto     whether a table that is wider than the screen has one line a value
    most     the most rows of a table that are drawn
    pages    whether what is taller than the screen goes through the pager
    timing   whether the status says how long it took
    results  where results go: the screen's output, or a file
    last     the last question that was answered, or ""
    written  the last statements that were written, answered or not, or ""
    told     whether it was said what an error is
    reading  how many files are being read, one inside another
    interrupts  the handler of Ctrl-C
    """

    connection: Connection
    schema: Schema
    analyst: str
    screen: Screen
    editor: Reader
    act: Act
    mode: str = "table"
    bars: bool = False
    auto: bool = False
    most: int = MOST_ROWS
    pages: bool = True
    timing: bool = True
    results: TextIO = field(default_factory=lambda: sys.stdout)
    last: str = ""
    written: str = ""
    told: bool = False
    reading: int = 0
    interrupts: Interrupts = field(default_factory=Interrupts)

    @property
    def to_file(self) -> bool:
        return self.results is not self.screen.out

    def work(self, task: Callable[[], Result]) -> running.Outcome[Result]:
        """Do what may take long; Ctrl-C stops it."""
        try:
            pressed, cancel = lambda: self.interrupts.pressed, self.connection.interrupt
            return running.run(task, pressed, cancel, self.screen.running)
        finally:
            self.screen.stopped()

    def take(self, entry: str) -> bool:
        """Do what was entered: commands, or statements up to the first that is not answered; whether all of it was done."""
        if is_command(entry):
            self.act(self, entry)
            return True
        if entry.strip() and not self.reading:
            self.written = entry
        return not entry.strip() or all(self.ask(one.sql, explained=one.explains) for one in split(entry))

    def ask(self, sql: str, *, explained: bool = False) -> bool:
        """Answer one statement, once its price is agreed to; whether it was answered.

        explained  whether it is an EXPLAIN, whose lines are shown as they are
        """
        priced = self.work(lambda: self.connection.price(sql))
        if priced.problem is not None:
            return self._failed(priced)
        price = priced.result()
        if not self._agreed(price):
            self.screen.tell("Not asked; nothing was charged.")
            return False
        before = self._charges() if price.releases else None
        outcome = self.work(lambda: self.connection.execute(sql))
        if is_asked_back(outcome.problem):
            bought = self.editor.confirm(question(outcome.problem))
            told = answered(sql, bought=bought)
            outcome = self.work(lambda: self.connection.execute(told))
        if outcome.problem is not None:
            return self._failed(outcome, before)
        with outcome.result() as cursor:
            with self.interrupts.raised():
                self._show(cursor, outcome.seconds, explained=explained)
            if cursor.description is not None and not explained:
                self.last = sql
        return True

    def run(self, sql: str) -> Cursor | None:
        """The answer of a statement that is free; None where it failed, which was said."""
        return self._told(self.work(lambda: self.connection.execute(sql)))

    def is_free(self, sql: str) -> bool:
        """True if a statement costs nothing now; else say what it would."""
        price = self._told(self.work(lambda: self.connection.price(sql)))
        if price is not None and price.releases:
            costs = number(price.epsilon)
            self.screen.tell(
                f"Not repeated: this statement is asked anew, and a repeat would cost epsilon {costs}.", "error"
            )
        return price is not None and not price.releases

    def plan(self, sql: str) -> None:
        """Show the plan of a statement, or why there is none."""
        text = self._told(self.work(lambda: self.connection.explain(sql)))
        if text is not None:
            self.page(harmless(text, kept="\n") + "\n")

    def _told(self, outcome: running.Outcome[Result]) -> Result | None:
        """The result of some work; None where it failed, which was said."""
        if outcome.problem is not None:
            self._failed(outcome)
            return None
        return outcome.result()

    def results_to(self, out: TextIO) -> None:
        """Write results there from now on."""
        before, self.results = self.results, out
        if before is not self.screen.out:
            before.close()

    def page(self, text: str) -> None:
        """Show a text, through the pager where it is taller than the screen."""
        if self.pages:
            page(text, self.screen)
        else:
            self.screen.out.write(text)
            self.screen.out.flush()

    def left(self) -> StatementPrice:
        """Remaining budget now; a statement about the declared tables tells."""
        with self.connection.execute("SHOW TABLES") as cursor:
            return cursor.privacy

    def _charges(self) -> int:
        """Number of charges to this analyst."""
        with self.connection.execute("SELECT charges FROM dpsql.analysts") as cursor:
            row = cursor.fetchone()
            return int(str(row[0])) if row is not None else 0

    def _agreed(self, price: StatementPrice) -> bool:
        """True if a price that is a large part of what is left is meant; what does not fit is refused without a question."""
        pairs = ((price.epsilon, price.remaining), (price.delta, price.remaining_delta))
        fits = all(asked <= left for asked, left in pairs)
        if not price.releases or not fits or not any(asked > left * LARGE for asked, left in pairs):
            return True
        return self.editor.confirm(f"This costs {amounts(price)} of what is left, {left(price)}. Ask it? [y/N] ")

    # --- what is shown ------------------------------------------------------------------------------------------------

    def _show(self, cursor: Cursor, seconds: float, *, explained: bool) -> None:
        if cursor.description is None:
            self.screen.say("set for this session")
            return
        taken = seconds if self.timing else None
        held = HeldText(self.screen) if not self.to_file and (explained or self.mode in output.FOR_PEOPLE) else None
        rows = self._write(cursor, held or self.results, explained=explained)
        self.results.flush()
        if held is not None:
            self.page(held.getvalue())
        self.screen.say(output.status(cursor, rows, taken), "faint")
        for note in cursor.notes:
            self.screen.tell(f"note: {note}")
        if cursor.privacy.releases and not self.told:
            self.told = True
            self.screen.tell(FIRST, "faint")

    def _write(self, cursor: Cursor, out: TextIO, *, explained: bool) -> int:
        """Write the rows of a result, and return their number."""
        if explained:
            lines = [str(row[0]) for row in cursor.fetchall()]
            out.write(harmless("\n".join(lines), kept="\n") + "\n")
            return len(lines)
        width = None if self.to_file else self.screen.width
        colour = self.screen.colour and not self.to_file
        how = output.ResultStyle(self.bars, width, colour, self.most, self.auto)
        return output.show(cursor, self.mode, out, how)

    def complain(self, problem: Error) -> None:
        """An error: what is wrong, where, and what to write instead; whether it cost anything, and what is left."""
        first, _, rest = harmless(str(problem), kept="\n\t").partition("\n")
        self.screen.tell(first, "error")
        if rest:
            self.screen.say(rest)
        if problem.code < "DPSQL-7":
            self.screen.tell(f"Nothing was charged; {budget_left(self.left())}.", "faint")

    def _failed(self, outcome: running.Outcome[Result], before: int | None = None) -> bool:
        """Say why there is no answer. Raises what is no error of dpsql's.

        before  how often this analyst was charged before; None where nothing could be
        """
        problem = outcome.problem
        if not isinstance(problem, Error):
            assert problem is not None
            raise problem
        if outcome.cancelled and problem.code == "DPSQL-703":
            self._cancelled(outcome.seconds, charged=before is not None and self._charges() > before)
        else:
            self.complain(problem)
        return False

    def _cancelled(self, seconds: float, *, charged: bool) -> None:
        left = budget_left(self.left())
        what = f"the charge stands: it was made before the data was read; {left}" if charged else "nothing was charged"
        self.screen.tell(f"Cancelled after {seconds:.1f} s; {what}.")
