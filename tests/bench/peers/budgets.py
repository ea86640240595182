"""The question to a library's accounting, and the answer of its script: how many statements of a cycle fit one budget.

Every peer has an environment of its own, so its script imports this file as a neighbour: only the standard library here.

A question has a 95 % half-width, and costs what the library asks for that. `range` is that of its values, which begin at 0. An
average is a sum over a count: at a mean of m its error is about (sum's noise - m count's noise) / rows; `half_width` is that of the
numerator.
"""

from __future__ import annotations

import itertools
import json
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

ALPHA = 0.05
Z = 1.959963984540054
"""Of a normal distribution, at ALPHA."""
MOST = 100_000


@dataclass(frozen=True, slots=True)
class Question:
    kind: str
    half_width: float
    range: float = 1.0
    mean: float = 0.0


@dataclass(frozen=True, slots=True)
class Total:
    epsilon: float
    delta: float


@dataclass(frozen=True, slots=True)
class Request:
    """A cycle of statements, as indices of questions; and totals, and how often each statement is asked."""

    questions: tuple[Question, ...]
    cycle: tuple[int, ...]
    totals: tuple[Total, ...]
    refreshes: tuple[int, ...]

    def write(self, file: Path) -> None:
        file.write_text(json.dumps(asdict(self)))

    @classmethod
    def read(cls, file: Path) -> Request:
        found = json.loads(file.read_text())
        questions = tuple(Question(**each) for each in found["questions"])
        totals = tuple(Total(**each) for each in found["totals"])
        return cls(questions, tuple(found["cycle"]), totals, tuple(found["refreshes"]))


Admits = Callable[[Question], bool]
"""Charge one statement: whether it still fits."""
Opens = Callable[[Total], Sequence[Admits]]
"""A new budget; several of them where the library has a choice, and the one that admits most counts."""


def serve(ways: Mapping[str, Opens], distributions: Sequence[str], notes: Sequence[str] = ()) -> None:
    """Answer a request: the first argument is its file, the second the file to write."""
    request = Request.read(Path(sys.argv[1]))
    found = []
    for name, opens in ways.items():
        counts = [
            [max(_answered(request, admits, refresh) for admits in opens(total)) for refresh in request.refreshes]
            for total in request.totals
        ]
        found.append({"name": name, "counts": counts})
    versions = ", ".join(f"{name} {version(name)}" for name in distributions)
    Path(sys.argv[2]).write_text(json.dumps({"versions": versions, "ways": found, "notes": list(notes)}))


def _answered(request: Request, admits: Admits, refresh: int) -> int:
    """The number of statements of the endless cycle that fit, each asked and paid so many times."""
    statements = itertools.islice(itertools.cycle(request.cycle), MOST)
    for answered, index in enumerate(statements):
        if not all(admits(request.questions[index]) for _ in range(refresh)):
            return answered
    return MOST


def laplace_width(first: float, second: float) -> float:
    """The 95 % half-width of a sum of two Laplace variables of different scales.

    >>> round(laplace_width(1.0, 1e-9), 4) == round(-math.log(ALPHA), 4)
    True
    """
    low, high = 0.0, 10 * (first + second)
    for _ in range(100):
        middle = (low + high) / 2
        tail = first**2 * math.exp(-middle / first) - second**2 * math.exp(-middle / second)
        low, high = (middle, high) if tail > ALPHA * (first**2 - second**2) else (low, middle)
    return high


def halvings(found: Callable[[float], bool], low: float, high: float) -> float:
    """About the least number between two from which on something holds."""
    for _ in range(60):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if found(middle) else (middle, high)
    return high


def shares() -> Iterator[float]:
    """Of what a price is split by."""
    return (i / 200 for i in range(1, 200))
