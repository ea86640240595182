"""history: what the guard remembers, for the owner to look at and to let it forget."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass

from dpsql.accounting import remembered
from dpsql.accounting.ledger import Ledger
from dpsql.core.errors import error
from dpsql.core.escaping import harmless
from dpsql.core.wording import counted
from dpsql.dataset.opening import open_dataset
from dpsql.guard.guarding import Remembered
from dpsql.schema.mistakes import printable
from dpsql.schema.model import Analyst, Schema
from dpsql.session.outdated import on_one_line
from dpsql.session.session import Session
from dpsql.session.sizing import OWNER

ALL = "all"
_MOST_DIGITS = 40
MEANING = (
    "Forgetting gives nothing back: charges, answers and what is left stay as they are. The analyst may then ask what differs\n"
    "from a forgotten answer by a few people; noise and budget protect these as before, the guard no longer does."
)


@dataclass(frozen=True, slots=True)
class GuardReport:
    """Memory of the guard. str() is the text for the owner: statements, and numbers that come from the declarations
    alone.

    forgotten  how many statements it was just made to forget
    """

    schema: Schema
    found: tuple[Remembered, ...]
    forgotten: int = 0

    def __str__(self) -> str:
        guard, count = self.schema.guard, len({one.charge for one in self.found})
        known = counted(count, "charged statement")
        told = f"{printable(self.schema.name)}: the guard (mode {guard.mode}, k = {guard.k}) remembers {known}"
        lines = [f"forgotten: {counted(self.forgotten, 'charged statement')}"] if self.forgotten else []
        lines += [told, *map(_line, self.found), *([MEANING] if self.found or self.forgotten else [])]
        return harmless("\n".join(lines), kept="\n")


def guard_report(schema: Schema, ledger: Ledger, forget: str | None = None) -> GuardReport:
    """Report what the guard remembers of everybody.

    forget  charges that it is to forget first, such as "3,5-7", or "all"
    Errors  802 it remembers none of that number; those of opening
    """
    with closing(Session(open_dataset(schema, ledger, approve=False), ledger, Analyst(OWNER))) as session:
        gone = _chosen(forget, {row.charge for row in ledger.asked()}) if forget is not None else []
        count = remembered.forget(ledger, gone)
        return GuardReport(schema, tuple(session.remembered()), count)


def _chosen(text: str, known: set[int]) -> list[int]:
    """The charges of a text. Raises 802."""
    if text.strip().lower() == ALL:
        return sorted(known)
    found: list[int] = []
    for part in text.split(","):
        first, _, last = (each.strip() for each in part.partition("-"))
        if len(part) > _MOST_DIGITS or not first.isdecimal() or not (last.isdecimal() or "-" not in part):
            raise error(
                802, f"{part.strip()!r} is no charge", hint="write numbers, such as --forget 3,5-7, or --forget all"
            )
        found += range(int(first), int(last or first) + 1) if int(last or first) - int(first) < len(known) else [-1]
    missing = next((charge for charge in found if charge not in known), None)
    if missing is not None or not found:
        what = "the guard does not remember all of these charges"
        raise error(802, what, hint="write some that `dpsql guard SCHEMA` lists")
    return found


def _line(one: Remembered) -> str:
    about = (
        f"{one.people:,} people: {on_one_line(one.about)}"
        if one.is_read
        else "cannot be read with this schema, and is compared no more"
    )
    return f"  {one.charge}  {one.analyst}  {on_one_line(one.statement)}\n      {about}"
