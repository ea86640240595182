"""The answer to one statement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import overload

from dpsql.plan.charges import Receipt
from dpsql.release.staging import Accuracies


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer of one statement: its rows, receipt and plan.

    columns   (name, DuckDB type)
    rows      in the order of the statement
    accuracy  parallel to the rows: one Accuracy or None per cell, made when it is read
    receipt   what it cost and what is left
    cached    True only where everything came from stored answers
    releases  how many releases were charged
    notes     what the guard warns of, and what was noticed of stored answers
    fingerprints  of the paid releases, under which they are stored
    public    the public tables that it was made of
    remarks   what is to be known of every answer to the statement, by its text alone
    as_of     when the version was approved that it is of, where a table changed since; else ""
    """

    columns: tuple[tuple[str, str], ...]
    rows: Sequence[tuple[object, ...]]
    accuracy: Accuracies
    receipt: Receipt
    cached: bool = False
    releases: int = 0
    notes: tuple[str, ...] = ()
    fingerprints: tuple[str, ...] = ()
    public: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    as_of: str = ""

    def errors(self) -> list[float | None]:
        """Of each column the largest error of its values; None where none has one.

        [the column's own unit; days, of dates and times]
        """
        found: list[float | None] = [None] * len(self.columns)
        for row, accuracy in zip(self.rows, self.accuracy, strict=True):
            for i, cell in enumerate(accuracy):
                error = cell.error(row[i]) if cell is not None else None
                if error is not None:
                    found[i] = max(found[i] or 0.0, error)
        return found

    def with_ends(self) -> Answer:
        """The same result, where each column x that may have errors is followed by x_low and x_high; NULL where a value has none."""
        taken = {name for name, _ in self.columns}
        columns: list[tuple[str, str]] = []
        for (name, sqltype), noisy in zip(self.columns, self.accuracy.noisy, strict=True):
            columns.append((name, sqltype))
            if noisy:
                kind = sqltype if sqltype in ("DATE", "TIMESTAMP") else "DOUBLE"
                columns += [(_free(f"{name}_{end}", taken), kind) for end in ("low", "high")]
        rows = _WithEnds(self.rows, self.accuracy)
        return replace(self, columns=tuple(columns), rows=rows, accuracy=self.accuracy.nothing(len(columns), len(rows)))


def _free(name: str, taken: set[str]) -> str:
    """A name that no column has, and that none has from now on."""
    while name in taken:
        name += "_"
    taken.add(name)
    return name


@dataclass(frozen=True, slots=True)
class _WithEnds(Sequence[tuple[object, ...]]):
    """Rows with the ends of their intervals, each made when it is read."""

    rows: Sequence[tuple[object, ...]]
    accuracy: Accuracies

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, i: int) -> tuple[object, ...]: ...
    @overload
    def __getitem__(self, i: slice) -> list[tuple[object, ...]]: ...
    def __getitem__(self, i: int | slice) -> tuple[object, ...] | list[tuple[object, ...]]:
        if isinstance(i, slice):
            return [self[j] for j in range(len(self))[i]]
        found: list[object] = []
        for value, accuracy, noisy in zip(self.rows[i], self.accuracy[i], self.accuracy.noisy, strict=True):
            found.append(value)
            if noisy:
                found += (None, None) if accuracy is None else (accuracy.low, accuracy.high)
        return tuple(found)
