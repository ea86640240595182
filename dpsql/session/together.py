"""Several answers to one statement, each with other parameters, as one answer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain
from typing import overload

from dpsql.core.loss import total
from dpsql.plan.tables import Accuracy
from dpsql.release.staging import Accuracies
from dpsql.session.result import Answer


def together(answers: Sequence[Answer]) -> Answer:
    """The rows of all of them, one after the other, at the price of all of them.

    answers  at least one, of the same columns; the last one's receipt says what is left
    """
    last = answers[-1]
    loss = total(answer.receipt.loss for answer in answers)
    return replace(
        last,
        rows=[row for answer in answers for row in answer.rows],
        accuracy=_JoinedAccuracies({}, (), (), parts=tuple(answer.accuracy for answer in answers)),
        receipt=replace(last.receipt, loss=loss),
        cached=all(answer.cached for answer in answers),
        releases=sum(answer.releases for answer in answers),
        notes=_once(answer.notes for answer in answers),
        fingerprints=_once(answer.fingerprints for answer in answers),
        remarks=_once(answer.remarks for answer in answers),
    )


def _once(texts: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(chain.from_iterable(texts)))


@dataclass(frozen=True)
class _JoinedAccuracies(Accuracies):
    """The intervals of several results, one after the other."""

    parts: tuple[Accuracies, ...] = ()

    @property
    def noisy(self) -> tuple[bool, ...]:
        return tuple(map(any, zip(*(part.noisy for part in self.parts), strict=True)))

    def __len__(self) -> int:
        return sum(map(len, self.parts))

    @overload
    def __getitem__(self, i: int) -> tuple[Accuracy | None, ...]: ...
    @overload
    def __getitem__(self, i: slice) -> list[tuple[Accuracy | None, ...]]: ...
    def __getitem__(self, i: int | slice) -> tuple[Accuracy | None, ...] | list[tuple[Accuracy | None, ...]]:
        if isinstance(i, slice):
            return [self[j] for j in range(len(self))[i]]
        place = range(len(self))[i]
        for part, after in zip(self.parts, accumulate(map(len, self.parts)), strict=True):
            if place < after:
                return part[place - after + len(part)]
        raise IndexError(i)
