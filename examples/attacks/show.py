"""Common parts of the attacks: a dataset in a folder that is thrown away, legacy protections of counts, and a table with a picture.

The guard is off and budgets are as large as an attack wants: what protects here is noise at a price, and nothing else.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import exp
from pathlib import Path

import dpsql
from dpsql.clients.dbapi.connection import Connection

DELTA = 1e-6
Protect = Callable[[int], float]
LEGACY: dict[str, Protect] = {
    "exact": float,
    "rounded to 5": lambda count: 5.0 * round(count / 5),
    "cells below 5 are 0": lambda count: float(count) if count >= 5 else 0.0,
}


@dataclass(frozen=True)
class Outcome:
    """An attacker's rate of success. bound: the most that is possible, by what is promised; None where nothing is."""

    protection: str
    right: float
    bound: float | None = None


@contextmanager
def opened(schema: str, files: dict[str, str]) -> Iterator[Connection]:
    """A connection over CSV files, by their names, whose ledger forgets."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            Path(folder, name).write_text(text)
        path = Path(folder, "schema.toml")
        path.write_text(schema)
        with dpsql.connect(path, ledger=":memory:") as connection:
            yield connection


def bound(epsilon: float, delta: float = 0.0) -> float:
    """The most often that an attacker is right who holds two databases equally likely: (e^epsilon + delta) / (1 + e^epsilon)."""
    return (exp(epsilon) + delta) / (1 + exp(epsilon))


def options(text: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=text.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer settings, for a look")
    parser.add_argument("--svg", metavar="FILE", help="draw it (needs matplotlib)")
    return parser.parse_args()


def tell(title: str, outcomes: Sequence[Outcome], svg: str | None) -> None:
    """A table, and a picture where one is asked for."""
    width = max(len(one.protection) for one in outcomes)
    print(f"{title}\n{'protection':<{width}}  right  at most")
    for one in outcomes:
        print(
            f"{one.protection:<{width}}  {one.right:5.0%}  {'' if one.bound is None else f'{one.bound:7.1%}'}".rstrip()
        )
    if svg:
        draw(title, outcomes, svg)


def draw(title: str, outcomes: Sequence[Outcome], file: str) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 0.5 + 0.4 * len(outcomes)), layout="constrained")
    axes = figure.add_subplot()
    places = range(len(outcomes), 0, -1)
    colours = ["tab:red" if one.bound is None else "tab:blue" for one in outcomes]
    axes.barh(places, [one.right for one in outcomes], color=colours, height=0.6)
    for place, one in zip(places, outcomes, strict=True):
        if one.bound is not None:
            axes.plot([one.bound, one.bound], [place - 0.4, place + 0.4], color="black", linewidth=2)
    axes.axvline(0.5, color="grey", linestyle=":")
    axes.set_yticks(list(places), [one.protection for one in outcomes])
    axes.set_xlim(0, 1)
    axes.set_xlabel("how often the attacker is right; dotted: a coin; black: at most, by the promise")
    axes.set_title(title, fontsize=10)
    figure.savefig(file)
