"""Cubes of a ledger: the names under which stored coefficients are read, and what is known of each (named.py)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dpsql.accounting import layout
from dpsql.accounting.amounts import from_text, to_text
from dpsql.accounting.named import Names, Register
from dpsql.mechanisms.residual import Residual
from dpsql.plan.tables import KeyValue


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
    selected       of each key the values that were selected privately, where it has no list; (): all have one
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
    selected: tuple[tuple[KeyValue, ...] | None, ...] = ()

    def values_of(self, axis: int) -> tuple[KeyValue, ...] | None:
        """The selected values of an axis, before the level of all others; None where it has a list."""
        return self.selected[axis] if self.selected else None

    @property
    def shape(self) -> tuple[int, ...]:
        return self.statistics[0].residual.shape

    @property
    def size(self) -> int:
        """Number of coefficients of each cell."""
        return self.statistics[0].residual.size


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
    more = [cube.selected] if cube.selected else []
    return json.dumps([*words, *numbers, cube.time or layout.now(), statistics, *more], separators=(",", ":"))


def read(body: str) -> StoredCube | None:
    """The cube that was written; None if this is anything else."""
    try:
        *words, keys, told, rows, ways, amounts, shape, time, statistics, selected = _whole(json.loads(body))
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
        chosen = tuple(None if values is None else tuple(values) for values in selected)
        return StoredCube(name, analyst, statement, fingerprint, rows_of, *of_keys, price, found, str(time), chosen)
    except (ValueError, TypeError, LookupError, ZeroDivisionError, RecursionError):
        return None


_FIELDS = 13


def _whole(fields: list[object]) -> list[Any]:
    """The fields of a cube: of one whose keys are all declared the last one is not written."""
    return [*fields, []] if len(fields) == _FIELDS else fields


def _amount(text: object) -> Fraction:
    found = from_text(text) if isinstance(text, str) else None
    if found is None:
        raise ValueError
    return found


CUBES = Register("cube", written, read)
CubeNames = Names[StoredCube]
