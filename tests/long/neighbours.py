"""Many statements of the second family of neighbours; each fault is printed with the seed that finds it again."""

from __future__ import annotations

import argparse
import os
import tempfile
from collections import Counter
from pathlib import Path

from tests.support.market_cases import MarketCases
from tests.support.market_stored import StoredCases
from tests.support.violation import Violation

A_SEED = 200
"""Cases of one seed."""


def main(arguments: list[str]) -> int:
    """Check that many pairs of statements and neighbours; 1 where one person moved something by more than is claimed."""
    parser = argparse.ArgumentParser("python -m tests.long neighbours", description=__doc__)
    parser.add_argument("--pairs", type=int, default=20_000, help="statements with a neighbour [releases]")
    parser.add_argument("--seed", type=int, default=1_000, help="the first of the seeds")
    parser.add_argument("--stored", type=int, default=None, help="how many more on files (default: a fiftieth)")
    asked = parser.parse_args(arguments)
    faults: list[str] = []
    checked, tally = _generated(asked.pairs, asked.seed, faults)
    stored, histories = _stored(asked.pairs // 50 if asked.stored is None else asked.stored, asked.seed, faults)
    print(f"{checked:,} pairs, {stored:,} on files, {histories} histories; {len(faults)} faults")
    print(", ".join(f"{word} {count:,}" for word, count in tally.most_common()))
    print("\n".join(faults))
    return 1 if faults else 0


def _generated(pairs: int, seed: int, faults: list[str]) -> tuple[int, Counter[str]]:
    checked, tally = 0, Counter[str]()
    while checked < pairs:
        with tempfile.TemporaryDirectory() as folder:
            cases = MarketCases(Path(folder), seed)
            try:
                cases.run(min(A_SEED, pairs - checked))
            except Violation as found:
                faults.append(f"MarketCases, seed {seed}: {found}")
        checked, seed = checked + max(cases.checked, 1), seed + 1
        tally.update(cases.tally)
        if seed % 10 == 0:
            print(f"{checked:,} pairs, {len(faults)} faults", flush=True)
    return checked, tally


def _stored(count: int, seed: int, faults: list[str]) -> tuple[int, int]:
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_STATE_HOME"] = folder
        cases = StoredCases(Path(folder), seed)
        try:
            cases.run(count)
            cases.change(count // 20)
        except Violation as found:
            faults.append(f"StoredCases, seed {seed}: {found}")
    return cases.checked, cases.histories
