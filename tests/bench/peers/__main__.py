"""The error of dpsql beside other libraries at equal epsilon, in one run: python -m tests.bench.peers --cache FOLDER.

How many statements fit one budget is asked by python -m tests.bench.peers.workload.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from tests.bench.peers import environments, tasks
from tests.bench.peers.environments import PEERS
from tests.bench.peers.tasks import Data, Task
from tests.bench.timing import heading, show

PERSON = Path(__file__).parents[3] / "examples" / "randhie" / "person.parquet"
OURS = "dpsql"
RESAMPLES = 1_000
NEAR = 1.05
Typical = Callable[[Task, np.ndarray], np.ndarray]
"""One number for many errors, along the last axis."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One line of the table."""

    task: Task
    data: Data
    epsilon: float


@dataclass(frozen=True, slots=True)
class Answered:
    """One library's answer to one cell: errors, or why there are none."""

    errors: np.ndarray
    said: str
    ranked: bool

    def typical(self, task: Task) -> float:
        return float(tasks.typical(task, self.errors))


@dataclass(frozen=True, slots=True)
class Row:
    """A cell with all answers, and the errors that dpsql's are compared with.

    The best ranked peer is chosen by every other answer of each, and compared by its rest: of several equal ones the luckiest is
    chosen, and its luck would count against dpsql.
    """

    cell: Cell
    answers: dict[str, Answered]
    best: str | None
    rest: np.ndarray

    def ratio(self, typical: Typical = tasks.typical) -> float | None:
        """dpsql's error over the best peer's; None where one of them has no answer or no error."""
        ours, task = self.answers[OURS].errors, self.cell.task
        if not len(ours) or not len(self.rest):
            return None
        over, under = float(typical(task, ours)), float(typical(task, self.rest))
        return over / under if over > 0 and under > 0 else None

    def resampled(self, chance: np.random.Generator, typical: Typical) -> np.ndarray:
        """The logarithm of the ratio over samples of the repeats, which tells how certain it is."""
        task, found = self.cell.task, []
        for errors in (self.answers[OURS].errors, self.rest):
            picked = errors[chance.integers(0, len(errors), (RESAMPLES, len(errors)))]
            found.append(np.log(np.maximum(typical(task, picked), typical(task, errors) / 10)))
        return found[0] - found[1]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.peers", description=__doc__)
    cache = Path(tempfile.gettempdir()) / "dpsql-bench" / "peers"
    parser.add_argument("--cache", type=Path, default=cache, help=f"where environments are kept (default {cache})")
    parser.add_argument(
        "--peers", nargs="*", default=[peer.name for peer in PEERS], help="which peers; all if not named"
    )
    kinds = sorted({task.kind for task in tasks.TASKS})
    parser.add_argument("--kinds", nargs="*", choices=kinds, default=kinds, help="which tasks; all if not named")
    parser.add_argument("--repeats", type=int, default=400, help="most answers of one cell (default 400)")
    parser.add_argument("--least", type=int, default=30, help="fewest answers of one cell (default 30)")
    parser.add_argument("--seconds", type=float, default=1.0, help="of one cell, after its fewest (default 1)")
    options = parser.parse_args()
    print(f"Python {platform.python_version()}, {platform.machine()}")
    cells = [cell for cell in _cells() if cell.task.kind in options.kinds]
    with tempfile.TemporaryDirectory() as scratch:
        _ask(Path(scratch), cells, options)
        found = dict(_asked(Path(scratch), cells, options))
    _report([_row(cell, {name: answers[i] for name, answers in found.items()}) for i, cell in enumerate(cells)])


def _cells() -> list[Cell]:
    """All lines, in the order in which the libraries are asked: one set of rows after the other."""
    every = [_person(), *tasks.generated()]
    return [Cell(task, data, epsilon) for data in every for task in tasks.TASKS for epsilon in tasks.EPSILONS]


def _person() -> Data:
    """The example's people: income, the insurance plan, and a health index in tenths as the item of no public list."""
    sql = "SELECT income AS value, plan::BIGINT AS category, round(10 * mental_health_index)::BIGINT AS item"
    columns = duckdb.execute(f"{sql} FROM read_parquet('{PERSON}') ORDER BY person_id").fetchnumpy()
    return Data("randhie", 0.0, 30_000.0, 19, 6_000, **{name: np.asarray(column) for name, column in columns.items()})


def _ask(folder: Path, cells: list[Cell], options: argparse.Namespace) -> None:
    """Write the request and the data, as every script reads them."""
    for data in {cell.data.name: cell.data for cell in cells}.values():
        data.write(folder)
    asked = [
        {"data": c.data.name, "task": c.task.name, "kind": c.task.kind, "level": c.task.level, "epsilon": c.epsilon}
        for c in cells
    ]
    request = {"cells": asked, "most": options.repeats, "least": options.least, "seconds": options.seconds}
    (folder / "request.json").write_text(json.dumps(request))


def _asked(folder: Path, cells: list[Cell], options: argparse.Namespace) -> Iterator[tuple[str, list[Answered]]]:
    """The answers of dpsql and of every peer that can be installed and runs, each with a line of what it is."""
    ours = [sys.executable, "-m", "tests.bench.peers.dpsql_peer"]
    commands: list[tuple[str, Callable[[], list[str]]]] = [(OURS, lambda: ours)]
    for peer in PEERS:
        if peer.name in options.peers:
            script = str(Path(__file__).with_name(peer.script))
            commands.append(
                (peer.name, lambda peer=peer, script=script: [str(environments.python(peer, options.cache)), script])
            )
    for name, command in commands:
        target = folder / f"{name}.json"
        try:
            environments.run([*command(), str(folder), str(target)])
        except (subprocess.CalledProcessError, OSError) as failed:
            if name == OURS:
                raise SystemExit(getattr(failed, "stderr", None) or str(failed)) from None
            print(f"{name} is left out: {environments.reason(failed)}", flush=True)
            continue
        found = json.loads(target.read_text())
        answers = [_errors(cell, answer) for cell, answer in zip(cells, found["answers"], strict=True)]
        repeats = sorted(len(answer.errors) for answer in answers if len(answer.errors))
        print(f"{name}: {found['versions']}; {repeats[0]} to {repeats[-1]} answers a cell", flush=True)
        for note in found["notes"]:
            print(f"  {note}", flush=True)
        yield name, answers


def _errors(cell: Cell, answer: dict[str, Any]) -> Answered:
    errors = tasks.errors(cell.task, cell.data, answer["values"])
    return Answered(errors, answer["said"], bool(len(errors)) and not answer["public_size"])


def _row(cell: Cell, answers: dict[str, Answered]) -> Row:
    ranked = {name: answer.errors for name, answer in answers.items() if answer.ranked and name != OURS}
    if not ranked:
        return Row(cell, answers, None, np.array([]))
    best = min(ranked, key=lambda name: float(tasks.typical(cell.task, ranked[name][::2])))
    return Row(cell, answers, best, ranked[best][1::2] if len(ranked) > 1 else ranked[best])


def _report(rows: list[Row]) -> None:
    heading("error [%]; dpsql over the best ranked peer")
    print(tasks.MEANING)
    print(
        "(in parentheses: for a public number of rows only, not ranked)   -: not offered   !: not answered, see below"
    )
    names = list(rows[0].answers)
    body = []
    for row in rows:
        cells = (_shown(row.answers[name], row.cell.task) for name in names)
        ratio = "" if (found := row.ratio()) is None else f"{found:.2f}"
        about = row.cell.task.name, row.cell.data.name, f"{row.cell.data.rows:,}", f"{row.cell.epsilon:g}"
        body.append((*about, *cells, ratio, row.best or ""))
    order = [task.name for task in tasks.TASKS]
    body.sort(key=lambda line: order.index(line[0]))
    show(("task", "data", "rows", "epsilon", *names, "ratio", "best peer"), body)
    _unanswered(rows, names)
    _means(rows)
    _worse(rows)


def _shown(answer: Answered, task: Task) -> str:
    if not len(answer.errors):
        return "-" if answer.said == "not offered" else "!"
    error = f"{100 * answer.typical(task):.3g}"
    return error if answer.ranked else f"({error})"


def _unanswered(rows: list[Row], names: list[str]) -> None:
    """The reasons in place of an answer, each only once."""
    said: dict[tuple[str, str, str], None] = {}
    for row in rows:
        for name in names:
            if (why := row.answers[name].said) not in ("", "not offered"):
                said[name, row.cell.task.name, why] = None
    if said:
        heading("not answered")
        show(("", "task", ""), list(said))


def _means(rows: list[Row]) -> None:
    """Geometric means of the ratio over groups of lines, with what the repeats leave uncertain."""
    quantiles = [row for row in rows if row.cell.task.kind == "quantile" and row.cell.data.name != "randhie"]
    groups: list[tuple[str, list[Row], Typical]] = [
        ("all", rows, tasks.typical),
        ("AVG and VAR", [row for row in rows if row.cell.task.kind in ("mean", "variance")], tasks.typical),
        ("quantiles of the generated rows", quantiles, tasks.typical),
        ("the same by median errors", quantiles, _median),
    ]
    groups += [(task.name, [row for row in rows if row.cell.task == task], tasks.typical) for task in tasks.TASKS]
    heading("geometric mean of dpsql's error over the best ranked peer's, of the lines where both have one")
    body = []
    for name, group, typical in groups:
        ratios = [(row, ratio) for row in group if (ratio := row.ratio(typical)) is not None]
        mean, sure = "", ""
        if ratios:
            mean = f"{math.exp(np.mean([math.log(ratio) for _, ratio in ratios])):.3f}"
            sure = "{:.3f} to {:.3f}".format(*_interval([row for row, _ in ratios], typical))
        body.append((name, mean, sure, f"{len(ratios)} of {len(group)}", ""))
    show(("", "mean", "95 % of resamples", "lines", ""), body)


def _median(task: Task, found: np.ndarray) -> np.ndarray:
    return np.median(found, axis=-1)


def _interval(rows: Sequence[Row], typical: Typical) -> tuple[float, float]:
    chance = np.random.default_rng(tasks.SEED)
    sampled = np.mean([row.resampled(chance, typical) for row in rows], axis=0)
    low, high = np.exp(np.quantile(sampled, (0.025, 0.975)))
    return float(low), float(high)


def _worse(rows: list[Row]) -> None:
    """The lines where dpsql's error is more than NEAR times the best peer's; whether surely, or within the repeats' chance."""
    body = []
    for row in rows:
        if (ratio := row.ratio()) is not None and ratio > NEAR:
            low, high = _interval([row], tasks.typical)
            about = row.cell.task.name, row.cell.data.name, f"{row.cell.epsilon:g}", f"{ratio:.2f}"
            body.append((*about, f"{low:.2f} to {high:.2f}", "" if low > NEAR else "may be chance"))
    heading(f"lines above {NEAR:g}: {len(body)}")
    if body:
        show(("task", "data", "epsilon", "ratio", "95 % of resamples", ""), body)


if __name__ == "__main__":
    main()
