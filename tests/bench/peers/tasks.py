"""The questions to every library: data, tasks, exact answers and errors; and how a peer's script answers.

Every peer has an environment of its own, so its script imports this file as a neighbour: only the standard library and numpy here.
One row is one person, neighbours differ by one row that is added or removed, and bounds are public.
"""

from __future__ import annotations

import itertools
import json
import math
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

SEED = 20240229
EPSILONS = (0.1, 1.0)
DELTA = 1e-9
"""The delta that unknown keys cost beside epsilon."""
SIZES = (1_000, 20_000, 1_000_000)
ITEMS = 2_000


@dataclass(frozen=True, slots=True)
class Task:
    """One aggregate; `level` is that of a quantile."""

    name: str
    kind: str
    level: float = 0.5


TASKS = (
    Task("COUNT", "count"),
    Task("SUM", "sum"),
    Task("AVG", "mean"),
    Task("VAR", "variance"),
    Task("median", "quantile", 0.5),
    Task("0.95 quantile", "quantile", 0.95),
    Task("COUNT(DISTINCT)", "distinct"),
    Task("MODE", "mode"),
    Task("unknown keys", "keys"),
)


@dataclass(frozen=True)
class Data:
    """The rows: a bounded number, a category of a public list, and an item of no public list."""

    name: str
    lower: float
    upper: float
    categories: int
    about: int
    value: np.ndarray
    category: np.ndarray
    item: np.ndarray

    @property
    def rows(self) -> int:
        return len(self.value)

    @property
    def range(self) -> float:
        return self.upper - self.lower

    @cached_property
    def ordered(self) -> np.ndarray:
        return np.sort(self.value)

    @cached_property
    def by_category(self) -> np.ndarray:
        """The number of rows of each category 1, 2, ..."""
        return np.bincount(self.category, minlength=self.categories + 1)[1:]

    @cached_property
    def by_item(self) -> dict[int, int]:
        items, counts = np.unique(self.item, return_counts=True)
        return dict(zip(items.tolist(), counts.tolist(), strict=True))

    @cached_property
    def exact(self) -> dict[str, float]:
        """The answers without noise, of the tasks that have one number."""
        return {
            "count": self.rows,
            "sum": float(self.value.sum()),
            "mean": float(self.value.mean()),
            "variance": float(self.value.var()),
            "distinct": len(self.by_item),
        }

    def write(self, folder: Path) -> None:
        about = {name: getattr(self, name) for name in ("name", "lower", "upper", "categories", "about")}
        (folder / f"{self.name}.json").write_text(json.dumps(about))
        np.savez(folder / f"{self.name}.npz", value=self.value, category=self.category, item=self.item)

    @classmethod
    def read(cls, folder: Path, name: str) -> Data:
        with np.load(folder / f"{name}.npz") as columns:
            return cls(**json.loads((folder / f"{name}.json").read_text()), **columns)


def generated() -> list[Data]:
    """Rows of a public seed; the smaller sets are the first rows of the largest."""
    chance = np.random.default_rng(SEED)
    most = max(SIZES)
    value = np.minimum(chance.gamma(2.0, 100.0, most), 1000.0)
    shares = np.linspace(1.05, 0.95, 20)
    category = chance.choice(np.arange(1, 21), most, p=shares / shares.sum())
    popular = 1 / np.arange(1, ITEMS + 1)
    item = chance.choice(np.arange(1, ITEMS + 1) * 7919, most, p=popular / popular.sum())
    return [Data(f"rows-{n}", 0.0, 1000.0, 20, n, value[:n], category[:n], item[:n]) for n in SIZES]


def errors(task: Task, data: Data, released: Sequence[Any]) -> np.ndarray:
    """The error of every released answer, as a share: of the exact answer, of the range, or of the rows."""
    return np.array([_error(task, data, answer) for answer in released])


def _error(task: Task, data: Data, answer: Any) -> float:
    if task.kind == "keys":
        return _group_error(data, {int(item): count for item, count in answer})
    if answer is None or math.isnan(answer):
        return 1.0
    if task.kind == "quantile":
        below, until = (np.searchsorted(data.ordered, answer, side) / data.rows for side in ("left", "right"))
        return float(max(0.0, below - task.level, task.level - until))
    if task.kind == "mode":
        return float(data.by_category.max() - data.by_category[int(answer) - 1]) / data.rows
    exact = data.exact[task.kind]
    scale = {"mean": data.range, "variance": data.range**2}.get(task.kind, abs(exact))
    return abs(answer - exact) / scale


def _group_error(data: Data, found: Mapping[int, float]) -> float:
    """The distance of the shown counts from the exact ones, all groups together; a group that is not shown counts as 0."""
    exact = data.by_item
    return sum(abs(found.get(item, 0) - exact.get(item, 0)) for item in exact.keys() | found.keys()) / data.rows


def typical(task: Task, found: np.ndarray) -> np.ndarray:
    """One number for the errors of many answers, along the last axis."""
    if task.kind in ("mode", "keys"):
        return np.mean(found, axis=-1)
    return np.sqrt(np.mean(found**2, axis=-1))


MEANING = """\
COUNT, SUM, COUNT(DISTINCT): root mean square error / exact answer
AVG, VAR: root mean square error / (upper - lower), / (upper - lower)^2
quantiles: root mean square distance in rank / rows
MODE: mean of how many fewer rows the answer has than the most common value / rows
unknown keys: mean of the summed distances of all groups' counts, 0 for a group that is not shown / rows"""

Offer = Callable[[Data, Task, float], Iterator[Any]]
"""Endless independent answers of one task at one epsilon; the work before the first may be shared by all."""


class Refused(Exception):
    """The library knows the aggregate and does not answer."""


def serve(
    offers: Mapping[str, Offer],
    distributions: Sequence[str],
    public_size: Sequence[str] = (),
    notes: Collection[str] = (),
) -> None:
    """Answer a request: the first argument is the folder with it and the data, the second the file to write.

    `public_size` names the kinds that the library answers with a promise for a fixed, public number of rows only;
    `notes` are read after the last answer.
    """
    folder = Path(sys.argv[1])
    request = json.loads((folder / "request.json").read_text())
    answers = []
    for name, cells in itertools.groupby(request["cells"], key=lambda cell: cell["data"]):
        data = Data.read(folder, name)
        answers += [
            _answer(offers, data, cell, request) | {"public_size": cell["kind"] in public_size} for cell in cells
        ]
    versions = ", ".join(f"{name} {_version(name)}" for name in distributions)
    Path(sys.argv[2]).write_text(
        json.dumps({"versions": versions, "answers": answers, "notes": sorted(notes)}, default=_plain)
    )


def _answer(offers: Mapping[str, Offer], data: Data, cell: dict[str, Any], request: dict[str, Any]) -> dict[str, Any]:
    task = Task(cell["task"], cell["kind"], cell["level"])
    if task.kind not in offers:
        return {"said": "not offered", "values": []}
    try:
        return {"said": "", "values": list(_drawn(offers[task.kind](data, task, cell["epsilon"]), request))}
    except Exception as error:  # whatever another library raises is what the table says of it
        said = str(error) if isinstance(error, Refused) else f"{type(error).__name__}: {error}"
        return {"said": said.partition("\n")[0], "values": []}


def _drawn(answers: Iterator[Any], request: dict[str, Any]) -> Iterator[Any]:
    """As many answers as are wanted, or as fit into the time, but never fewer than the least."""
    yield next(answers)
    start = time.perf_counter()
    for drawn in range(1, request["most"]):
        if drawn >= request["least"] and time.perf_counter() - start > request["seconds"]:
            return
        yield next(answers)


def _version(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return "of this folder"


def _plain(value: Any) -> Any:
    """numpy's numbers as JSON has them."""
    return value.item() if isinstance(value, np.generic) else list(value)
