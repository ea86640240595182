"""memory: the statements of the ledger -> what the guard compares with. Keys of long ago are read again where a cell is close."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from dpsql.accounting import remembered
from dpsql.accounting.entries import GuardEntry as Row
from dpsql.accounting.ledger import Ledger
from dpsql.guard import record
from dpsql.guard.cells import Keys
from dpsql.guard.history import BlockQuestion, Past

MOST_BYTES = 32_000_000
"""[bytes] of keys that are held at a time."""
_FOREIGN = (ValueError, TypeError, LookupError, ArithmeticError, AttributeError, RecursionError)
"""What a text that is none of ours raises."""


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
            asked = record.read(row.asked, self._identity, partial(self._keys, row.charge))
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

    def _keys(self, charge: int, place: int) -> Keys:
        """The keys of one cell. Raises 705."""
        held = self._held.pop(charge, None)
        if held is None:
            held = self._read(charge)
            self._bytes += sum(keys.nbytes for keys in held)
        if place >= len(held):
            raise self._ledger.store.damaged()
        self._held[charge] = held
        while self._bytes > MOST_BYTES and len(self._held) > 1:
            self._bytes -= sum(keys.nbytes for keys in self._held.popitem(last=False)[1])
        return held[place]

    def _read(self, charge: int) -> list[Keys]:
        """The keys of a charge's cells; evaluated anew where others have written theirs, of other sample units, since it was loaded."""
        statement, text = remembered.asked_of(self._ledger, charge)
        try:
            if record.is_of(text, self._identity):
                return record.keys(text)
        except _FOREIGN:
            raise self._ledger.store.damaged() from None
        return [one.cells.load(i) for one in self._anew(statement) for i in range(len(one.cells))]
