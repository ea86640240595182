"""Cubes of a ledger: the names under which stored coefficients are read, and what is known of each. They give nothing back.

Why  the coefficients are a stored answer like any other (answers.py), and the charge stands in the chain. What is kept here says how to
     read them: a cube that is dropped, or whose name is lost, is made anew free as long as its answer is stored. So the table is made
     when it is first written to, and no layout speaks of it
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from dataclasses import dataclass
from fractions import Fraction

from dpsql.accounting import layout
from dpsql.accounting.amounts import from_text, to_text
from dpsql.accounting.ledger import Ledger
from dpsql.accounting.store import clean
from dpsql.mechanisms.residual import Residual

_IS_THERE = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'cube'"
_MAKE = """CREATE TABLE IF NOT EXISTS cube (
    name TEXT NOT NULL, whose TEXT NOT NULL, digest BLOB NOT NULL, body TEXT NOT NULL, PRIMARY KEY (name, whose)
) WITHOUT ROWID"""
_ALL = "SELECT name, digest, body FROM cube WHERE whose = ? ORDER BY name"
_PUT = "INSERT OR REPLACE INTO cube VALUES (?, ?, ?, ?)"
_DROP = "DELETE FROM cube WHERE name = ? AND whose = ?"


@dataclass(frozen=True, slots=True)
class CubeStatistic:
    """One statistic of a cube, and its noise.

    question  a hash of the value that its sums are of; of the number of rows ""
    told      in words
    weights   the most that a row adds to each of its cells [quanta]
    residual  the variances, for a row that adds 1
    middle    of the bounds of the value [its own unit]
    quantum   of its grid [its own unit]
    missing   whether a row may be without the value
    """

    question: str
    told: str
    weights: tuple[int, ...]
    residual: Residual
    middle: Fraction = Fraction(0)
    quantum: Fraction = Fraction(1)
    missing: bool = False


@dataclass(frozen=True, slots=True)
class StoredCube:
    """A cube as it is known by its name.

    name, analyst  who made it under what name
    statement      what it was made by
    fingerprint    of the stored answer: one column of coefficients a cell, statistic after statistic
    question       a hash of its rows: relation, conditions, limits, declarations and version
    keys           a hash of each key's expression and of its declared values in their order
    told           its keys in words
    rows           [rows] of one unit, at most
    price          (epsilon, delta, rho)
    time           when it was made
    """

    name: str
    analyst: str
    statement: str
    fingerprint: str
    question: str
    keys: tuple[str, ...]
    told: tuple[str, ...]
    rows: int
    ways: int
    price: tuple[Fraction, Fraction, Fraction]
    statistics: tuple[CubeStatistic, ...]
    time: str = ""

    @property
    def shape(self) -> tuple[int, ...]:
        return self.statistics[0].residual.shape


class CubeNames:
    """The cubes of one ledger, each read once. Errors  704, 705, 802 as the ledger's; 705 too where an entry was edited.

    whose  the analyst whose answers are shared with nobody; else "": names do not depend on case
    """

    def __init__(self, ledger: Ledger, whose: str) -> None:
        self._store, self._whose = ledger.store, clean(whose)
        self._read: dict[bytes, StoredCube] = {}

    def all(self) -> list[StoredCube]:
        """Every cube, by name."""
        return [self._opened(*row) for row in self._store.read(self._rows)]

    def _rows(self, connection: sqlite3.Connection) -> list[tuple[str, bytes, str]]:
        if connection.execute(_IS_THERE).fetchone() is None:
            return []
        return connection.execute(_ALL, (self._whose,)).fetchall()

    def get(self, name: str) -> StoredCube | None:
        return next((cube for cube in self.all() if cube.name.lower() == clean(name).lower()), None)

    def keep(self, cube: StoredCube) -> None:
        """Keep a cube under its name, in place of one that has it."""
        name, body = clean(cube.name).lower(), written(cube)
        row = (name, self._whose, self._digest(name, body), body)

        def work(connection: sqlite3.Connection) -> None:
            connection.execute(_MAKE)
            connection.execute(_PUT, row)

        self._store.write(work)

    def drop(self, name: str) -> None:
        """Forget a name; charge and answer stay."""
        self._store.write(lambda connection: connection.execute(_DROP, (clean(name).lower(), self._whose)))

    def _opened(self, name: str, digest: bytes, body: str) -> StoredCube:
        if digest not in self._read:
            cube = read(body) if digest == self._digest(name, body) else None
            if cube is None:
                raise self._store.damaged()
            self._read[digest] = cube
        return self._read[digest]

    def _digest(self, name: str, body: str) -> bytes:
        """Ties what is kept to its name."""
        tied = f"{name}\0{self._whose}\0{body}".encode()
        return hashlib.blake2b(tied, key=self._store.secret, digest_size=16, person=b"dpsql cubes").digest()


def written(cube: StoredCube) -> str:
    """A cube as the ledger keeps it."""
    statistics = [
        [
            one.question,
            one.told,
            list(one.weights),
            [one.middle.numerator, one.middle.denominator],
            to_text(one.quantum),
            one.missing,
            [[sorted(axes), to_text(squared)] for axes, squared in one.residual.squared.items()],
        ]
        for one in cube.statistics
    ]
    words = [cube.name, cube.analyst, cube.statement, cube.fingerprint, cube.question, list(cube.keys), list(cube.told)]
    numbers = [cube.rows, cube.ways, [to_text(amount) for amount in cube.price], list(cube.shape)]
    return json.dumps([*words, *numbers, cube.time or layout.now(), statistics], separators=(",", ":"))


def read(body: str) -> StoredCube | None:
    """The cube that was written; None if this is anything else."""
    try:
        *words, keys, told, rows, ways, amounts, shape, time, statistics = json.loads(body)
        found = tuple(
            CubeStatistic(
                question,
                name,
                tuple(weights),
                Residual(tuple(shape), {frozenset(axes): _amount(squared) for axes, squared in table}),
                Fraction(*middle),
                _amount(quantum),
                bool(missing),
            )
            for question, name, weights, middle, quantum, missing, table in statistics
        )
        name, analyst, statement, fingerprint, rows_of = map(str, words)
        price = (_amount(amounts[0]), _amount(amounts[1]), _amount(amounts[2]))
        of_keys = (tuple(keys), tuple(told), int(rows), int(ways))
        return StoredCube(name, analyst, statement, fingerprint, rows_of, *of_keys, price, found, str(time))
    except (ValueError, TypeError, LookupError, ZeroDivisionError, RecursionError):
        return None


def _amount(text: object) -> Fraction:
    found = from_text(text) if isinstance(text, str) else None
    if found is None:
        raise ValueError
    return found
