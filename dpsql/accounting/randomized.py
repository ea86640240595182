"""Randomized tables of a ledger: the names under which reports are read, and what is known of each (named.py)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from fractions import Fraction

from dpsql.accounting import layout
from dpsql.accounting.amounts import from_text, to_text
from dpsql.accounting.named import Register


@dataclass(frozen=True, slots=True)
class RandomizedTable:
    """A randomized table as it is known by its name.

    name, analyst  who made it under what name
    statement      what it was made by
    fingerprint    of the stored answer that holds its reports
    column         its one column
    values         of its list, as SQL text
    reports        number of reports of each value
    epsilon        [nats] its price
    time           when it was made
    """

    name: str
    analyst: str
    statement: str
    fingerprint: str
    column: str
    values: tuple[str, ...]
    reports: tuple[int, ...]
    epsilon: Fraction
    time: str = ""


def written(table: RandomizedTable) -> str:
    """A table as the ledger keeps it."""
    words = [table.name, table.analyst, table.statement, table.fingerprint, table.column]
    rows = [list(table.values), list(table.reports)]
    return json.dumps([words, rows, to_text(table.epsilon), table.time or layout.now()], separators=(",", ":"))


def read(body: str) -> RandomizedTable | None:
    """The table that was written; None if this is anything else."""
    try:
        (name, analyst, statement, fingerprint, column), (values, reports), amount, time = json.loads(body)
        epsilon = from_text(amount)
        if epsilon is None or len(values) != len(reports):
            return None
        texts = (str(name), str(analyst), str(statement), str(fingerprint), str(column))
        return RandomizedTable(*texts, tuple(map(str, values)), tuple(map(int, reports)), epsilon, str(time))
    except (ValueError, TypeError, LookupError, RecursionError):
        return None


RANDOMIZED = Register("response", written, read)
