"""memory: the statements of the ledger -> what the guard compares with. Keys of long ago are read again where a cell is close.

What was read of many statements is packed in the ledger, so that the next process reads it at once. What is packed for other sample
units, another policy or by another version, and what is not as it was written, is left: its statements are read one by one, as all that
were charged since. A statement is never left out.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from dpsql.accounting import remembered
from dpsql.accounting.entries import GuardEntry as Row
from dpsql.accounting.ledger import Ledger
from dpsql.accounting.remembered import Packing
from dpsql.guard import record
from dpsql.guard.cells import Keys
from dpsql.guard.history import FORM, BlockQuestion, History, PastAnswers

MOST_BYTES = 32_000_000
"""[bytes] of keys that are held at a time."""
LATE = 64
"""Statements that are packed together at least."""
_FOREIGN = (ValueError, TypeError, LookupError, ArithmeticError, AttributeError, RecursionError)
"""Exceptions that a text raises which is none of ours."""


@dataclass(frozen=True, slots=True)
class Past:
    """A charged statement."""

    charge: int
    analyst: str
    statement: str
    asked: tuple[BlockQuestion, ...]


class Memory:
    """Memory of earlier questions, as the ledger keeps it.

    identity  of the sample units
    anew      whom a statement of the ledger is about on these; nobody where it cannot be read any more
    """

    def __init__(self, ledger: Ledger, identity: str, anew: Callable[[str], Sequence[BlockQuestion]]) -> None:
        self._ledger, self._identity, self._anew = ledger, identity, anew
        self._evaluated: dict[int, str] = {}
        self._held: OrderedDict[int, list[Keys]] = OrderedDict()
        self._bytes = 0

    def past(self, row: Row) -> Past:
        """A charged statement; evaluated anew where its record is of other sample units. Raises 705 where it is none of ours."""
        try:
            asked = record.read(row.asked, self._identity, partial(self.keys, row.charge))
            spreads = record.spreads(row.asked) if asked is None else []
        except _FOREIGN:
            raise self._ledger.store.damaged() from None
        if asked is None:
            spread = min(spreads, default=0.0)
            asked = tuple(replace(one, spread=spread) for one in self._anew(row.statement))
            self._evaluated[row.charge] = record.written(asked, self._identity)
        return Past(row.charge, row.analyst, row.statement, asked)

    def keep(self) -> None:
        """Write down what was evaluated anew, so that it is so once; outside of a charge."""
        if self._evaluated:
            remembered.keep_evaluated(self._ledger, self._evaluated)
            self._evaluated = {}

    def statement(self, charge: int) -> str:
        return remembered.asked_of(self._ledger, charge)[0]

    def keys(self, charge: int, place: int) -> Keys:
        """The keys of one cell. Raises 705."""
        held = self._held.pop(charge, None)
        if held is None:
            held = self._read(charge)
            self._bytes += sum(keys.nbytes for keys in held)
        self._held[charge] = held
        while self._bytes > MOST_BYTES and len(self._held) > 1:
            self._bytes -= sum(keys.nbytes for keys in self._held.popitem(last=False)[1])
        # of a record that was corrected since it was loaded, a cell may be gone
        return held[place] if place < len(held) else np.zeros(0, dtype=np.uint32)

    def _read(self, charge: int) -> list[Keys]:
        """The keys of a charge's cells; evaluated anew where others have written theirs, of other sample units, since it was loaded."""
        statement, text = remembered.asked_of(self._ledger, charge)
        try:
            if record.is_of(text, self._identity):
                return record.keys(text)
        except _FOREIGN:
            raise self._ledger.store.damaged() from None
        return [one.cells.load(i) for one in self._anew(statement) for i in range(len(one.cells))]


class Packs:
    """The packed answers of a history, which is empty, or begins after a charge.

    whose      the analyst; "" where there are none
    depends    beside the sample units, on what the answers depend that are compared
    known      what was told anew as these were read
    """

    def __init__(
        self, ledger: Ledger, history: History, whose: str, depends: Hashable, begun: int, known: tuple[int, int]
    ) -> None:
        self._ledger, self._history, self._known = ledger, history, known
        self._form = Packing(whose, repr((FORM, record.VERSION, depends)))
        # the last charges of the packed parts, and the number of answers with each
        self._ends = [(begun, len(history))]

    def recall(self, own: int) -> int:
        """Add what is packed to an empty history, as far as it is whole, and before a charge of one's own, 0 for none. Output: the last
        charge of it."""
        for since, last, body in remembered.packed(self._ledger, self._form):
            try:
                found = PastAnswers.unpacked(body) if since == self._ends[-1][0] and not 0 < own <= last else None
            except _FOREIGN:
                found = None
            if found is None:
                break
            self._history.add(found)
            self._ends.append((last, len(self._history)))
        return self._ends[-1][0]

    def pack(self, last: int) -> None:
        """Pack the answers up to a charge that are not yet, with packed parts that are no larger: there are few parts, and none is
        written often."""
        while len(self._ends) > 1 and self._ends[-1][1] - self._ends[-2][1] <= len(self._history) - self._ends[-1][1]:
            self._ends.pop()
        since, begun = self._ends[-1]
        packed = self._history.since(begun).packed()
        remembered.keep_packed(self._ledger, self._form, since, last, packed, self._known)
        self._ends.append((last, len(self._history)))
