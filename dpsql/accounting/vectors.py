"""Identities of the cells of stored answers: statistic, rows, keys and noise; so that they can be read off."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from dpsql.accounting import chain
from dpsql.accounting.amounts import from_text, to_text
from dpsql.accounting.ledger import Ledger
from dpsql.accounting.store import clean

_PUT = "INSERT OR REPLACE INTO vector VALUES (?, ?, ?, ?)"
_FIND = """SELECT vector.fingerprint, place, question, body FROM vector LEFT JOIN answer USING (fingerprint)
WHERE question = ? ORDER BY charge, place"""
_OF = "SELECT fingerprint, place, question, body FROM vector WHERE fingerprint = ? ORDER BY place"


@dataclass(frozen=True, slots=True)
class Vector:
    """The noisy cells of one statistic in one stored answer.

    question     hash of the statistic and of the rows that it is of, data version and declared schema included; not of the keys
    keys         a hash of each group key's expression, and of its declared values in their order
    limits       of one unit, as text
    whole        whether no unit's groups were cut, so that the cells of several groups add up to those of all of them
    cells        where its cells begin and end in the answer
    noise        (kind, parameter) of the noise in each cell
    rho          what it cost
    fingerprint  of the answer
    forms        where the statistic is read off cells that it shares with others: the weights of these by which its columns are made
    """

    question: str
    keys: tuple[str, ...]
    limits: str
    whole: bool
    cells: tuple[int, int]
    noise: tuple[str, Fraction]
    rho: Fraction
    fingerprint: str = ""
    forms: tuple[tuple[Fraction, ...], ...] = ()

    @property
    def body(self) -> str:
        kind, parameter = self.noise
        parts = [
            list(self.keys),
            self.limits,
            self.whole,
            list(self.cells),
            kind,
            to_text(parameter),
            to_text(self.rho),
            *([[[*map(to_text, form)] for form in self.forms]] if self.forms else []),
        ]
        return json.dumps(parts, separators=(",", ":"))


def read(question: str, body: object, fingerprint: str) -> Vector | None:
    """The vector that was written; None if this is anything else."""
    try:
        keys, limits, whole, (start, end), kind, parameter, rho, *more = json.loads(body)  # type: ignore[arg-type]
        forms = [[_weight(text) for text in form] for found in more for form in found]
    except (ValueError, TypeError, AttributeError, RecursionError):
        return None
    known = tuple(tuple(weight for weight in form if weight is not None) for form in forms)
    if any(len(form) != end - start for form in known):
        return None
    amounts = (from_text(parameter), from_text(rho))
    if amounts[0] is None or amounts[1] is None or not all(isinstance(k, str) for k in keys):
        return None
    if type(start) is not int or type(end) is not int or type(whole) is not bool:
        return None
    noise = str(kind), amounts[0]
    return Vector(question, tuple(keys), str(limits), whole, (start, end), noise, amounts[1], fingerprint, known)


def _weight(text: str) -> Fraction | None:
    """A weight, which may be negative."""
    found = from_text(text.removeprefix("-"))
    return found if found is None or not text.startswith("-") else -found


def write(connection: sqlite3.Connection, secret: bytes, fingerprint: str, vectors: Sequence[Vector]) -> None:
    """Put the vectors of an answer, in the transaction that stores it."""
    for place, vector in enumerate(vectors):
        sealed = chain.sealed(secret, fingerprint, str(place), vector.question, vector.body).hex()
        body = json.dumps([vector.body, sealed])
        connection.execute(_PUT, (fingerprint, place, clean(vector.question), body))


class Vectors:
    """The vectors of the answers in one ledger. Errors  704, 705, 802 as the ledger's."""

    def __init__(self, ledger: Ledger) -> None:
        self._store = ledger.store

    def find(self, question: str) -> list[Vector]:
        """Every stored vector of a question, by whatever keys and at whatever price; the oldest first: of equally exact ones it
        is read, whatever the hashes are."""
        return self._all(_FIND, question)

    def of(self, fingerprint: str) -> list[Vector]:
        """The vectors of one stored answer, in the order of its cells."""
        return self._all(_OF, fingerprint)

    def _all(self, query: str, name: str) -> list[Vector]:
        found = [self._opened(*row) for row in self._store.rows(query, clean(name))]
        if any(vector is None for vector in found):
            raise self._store.damaged()
        return [vector for vector in found if vector is not None]

    def _opened(self, fingerprint: str, place: int, question: str, kept: object) -> Vector | None:
        try:
            body, sealed = json.loads(kept)  # type: ignore[arg-type]
        except (ValueError, TypeError, RecursionError):
            return None
        if sealed != chain.sealed(self._store.secret, fingerprint, str(place), question, str(body)).hex():
            return None
        return read(question, body, fingerprint)
