"""Rows whose tables by one and two columns are near to given ones: post-processing of released numbers, which costs nothing.

    1. each table is projected on what a table of shares can be: nothing below 0, and 1 in all;
    2. the pairs with the most mutual information that make a tree: rows are drawn along it, each column given the one before;
    3. gradual updates: pair after pair, rows of cells with too many become rows of cells with too few, half of them as copies of such
       rows, so that what they have in other columns goes together, and half with the two values changed alone. Each sweep over all
       pairs moves a smaller part of what is left.

Nothing but the tables and the key is read: the same of both give the same rows, on any machine.

Source  Chow, Liu 1968, Approximating Discrete Probability Distributions with Dependence Trees; Zhang and others 2021, PrivSyn:
        Differentially Private Data Synthesis (gradual updates)
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt

from dpsql.core.cancellation import current

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int32]
"""Of each column and row the place of its value: columns first."""
Places = npt.NDArray[np.intp]
Pair = tuple[int, int]

SWEEPS = 20
SLOWER = 0.85
"""The part that a sweep moves of what is left, in that of the sweep before."""
COPIED = 0.5
"""Share of the rows that are moved as copies."""


@dataclass(frozen=True, slots=True)
class PairTables:
    """Shares of all rows by two columns, for all pairs of columns.

    sizes  number of values of each column
    of     by pair, the first column below the second, a table of its values that adds up to 1
    """

    sizes: tuple[int, ...]
    of: Mapping[Pair, Floats]

    @staticmethod
    def projected(sizes: Sequence[int], noisy: Mapping[Pair, Floats]) -> PairTables:
        """The nearest tables of shares, of noisy numbers of rows."""
        return PairTables(tuple(sizes), {pair: projected(table) for pair, table in noisy.items()})

    def oriented(self, first: int, second: int) -> Floats:
        """A table with the first column's values down, and the second's across."""
        return self.of[first, second] if first < second else self.of[second, first].T

    def alone(self, column: int) -> Floats:
        """The shares of one column's values: the mean of what its tables say."""
        others = (i for i in range(len(self.sizes)) if i != column)
        found: Floats = np.mean([self.oriented(column, other).sum(axis=1) for other in others], axis=0)
        return found

    def off(self, codes: Codes) -> float:
        """The total variation between these tables and those of some rows, the mean over all pairs."""
        rows = codes.shape[1]
        each = [
            np.abs(np.bincount(self.cells(pair, codes), minlength=table.size) / rows - table.ravel()).sum() / 2
            for pair, table in self.of.items()
        ]
        return float(np.mean(each))

    def cells(self, pair: Pair, codes: Codes) -> Places:
        """Of each row its cell."""
        found: Places = codes[pair[0]].astype(np.intp) * self.sizes[pair[1]] + codes[pair[1]]
        return found


def projected(table: Floats) -> Floats:
    """The nearest table of shares in Euclidean distance, of any numbers; even where they are all below 0.

    >>> projected(np.array([3.0, -1.0, 1.0])).tolist()
    [1.0, 0.0, 0.0]
    """
    whole = table.sum()
    shares = table / whole if whole > 0 else table
    falling = np.sort(shares.ravel())[::-1]
    over = (np.cumsum(falling) - 1) / np.arange(1, falling.size + 1)
    kept = np.maximum(shares - over[np.flatnonzero(falling > over)[-1]], 0.0)
    found: Floats = kept / kept.sum()
    return found


def information(table: Floats) -> float:
    """The mutual information of the two columns of a table [nats]."""
    alone = table.sum(axis=1, keepdims=True) * table.sum(axis=0, keepdims=True)
    some = table > 0
    return float((table[some] * np.log(table[some] / alone[some])).sum())


def tree(tables: PairTables) -> list[Pair]:
    """A maximum spanning tree of mutual information: of each edge a column that is there before, and the one that it brings."""
    weights = {pair: information(table) for pair, table in tables.of.items()}
    inside, edges = [0], list[Pair]()
    while len(inside) < len(tables.sizes):
        others = [j for j in range(len(tables.sizes)) if j not in inside]
        _, best = max((weights[min(i, j), max(i, j)], (i, j)) for i in inside for j in others)
        inside.append(best[1])
        edges.append(best)
    return edges


class KeyedNumbers:
    """Numbers that a key decides: SHAKE-256 of it and of a count. They protect nothing, and need not be secret."""

    def __init__(self, key: bytes) -> None:
        self._key, self._count = key, 0

    def _words(self, size: int) -> npt.NDArray[np.uint64]:
        self._count += 1
        drawn = hashlib.shake_256(self._key + self._count.to_bytes(8, "little")).digest(8 * size)
        return np.frombuffer(drawn, dtype="<u8").astype(np.uint64)

    def uniform(self, size: int) -> Floats:
        """Numbers in [0, 1)."""
        return (self._words(size) >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def order(self, size: int) -> Places:
        """So many places in any order."""
        return np.argsort(self._words(size), kind="stable")


def drawn(tables: PairTables, rows: int, key: bytes) -> Codes:
    """So many rows, along the tree and then updated. Raises 703 where the statement was ended."""
    random = KeyedNumbers(key)
    return _updated(tables, _along_tree(tables, rows, random), random)


def _along_tree(tables: PairTables, rows: int, random: KeyedNumbers) -> Codes:
    codes = np.zeros((len(tables.sizes), rows), dtype=np.int32)
    codes[0] = np.repeat(np.arange(tables.sizes[0]), _shared(tables.alone(0), rows, random))
    for known, new in tree(tables):
        table = tables.oriented(known, new)
        for value in range(tables.sizes[known]):
            places = np.flatnonzero(codes[known] == value)
            counts = _shared(table[value], len(places), random)
            codes[new, places[random.order(len(places))]] = np.repeat(np.arange(tables.sizes[new]), counts)
    return codes


def _shared(weights: Floats, count: int, random: KeyedNumbers) -> Places:
    """Whole numbers that add up to `count`, each one of the two beside its share: those of equal steps from a random place."""
    whole = weights.sum()
    ends = np.cumsum(weights / whole if whole > 0 else np.full(weights.size, 1 / weights.size)) * count
    # the last end is `count`, whatever rounding made of it
    ends[-1] = count
    below = np.floor(ends[:-1] + random.uniform(1))
    return np.diff(np.concatenate([[0], np.minimum(below, count), [count]])).astype(np.intp)


def _updated(tables: PairTables, codes: Codes, random: KeyedNumbers) -> Codes:
    pairs, part = list(tables.of), 1.0
    for _ in range(SWEEPS):
        current().check()
        codes = codes[:, random.order(codes.shape[1])]
        for place in random.order(len(pairs)).tolist():
            _move(tables, pairs[place], codes, part, random)
        part *= SLOWER
    return codes


def _move(tables: PairTables, pair: Pair, codes: Codes, part: float, random: KeyedNumbers) -> None:
    """Move a part of the rows that cells of a pair have too many of."""
    of_rows, (first, second) = tables.cells(pair, codes), pair
    wanted = tables.of[pair].ravel() * codes.shape[1]
    counts = np.bincount(of_rows, minlength=wanted.size)
    missing = np.maximum(wanted - counts, 0.0)
    leaving = np.minimum(
        np.floor(np.maximum(counts - wanted, 0.0) * part + random.uniform(wanted.size)), counts
    ).astype(np.intp)
    moved = int(leaving.sum())
    if not moved or not missing.any():
        return
    # a stable sort of short numbers takes no comparisons
    short = of_rows.astype(np.uint16) if wanted.size <= 2**16 else of_rows
    order, starts = np.argsort(short, kind="stable"), np.cumsum(counts) - counts
    # rows stand in a random order, so that the first of a cell are any of them
    within = np.arange(moved) - np.repeat(np.cumsum(leaving) - leaving, leaving)
    places = order[np.repeat(starts, leaving) + within][random.order(moved)]
    to = np.repeat(np.arange(wanted.size), _shared(missing, moved, random))
    copies = (counts[to] > 0) & (random.uniform(moved) < COPIED)
    like = order[starts[to[copies]] + (random.uniform(int(copies.sum())) * counts[to[copies]]).astype(np.intp)]
    copied = codes[:, like]
    codes[first, places[~copies]], codes[second, places[~copies]] = np.divmod(to[~copies], tables.sizes[second])
    codes[:, places[copies]] = copied


def pairs_of(columns: int) -> Iterator[Pair]:
    """All pairs of columns, the first below the second."""
    return combinations(range(columns), 2)
