"""Random expressions, and statements with them in every clause; each problem is printed with the text that shows it."""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from tests.support.totality import World, expressions, statements

STEP = 10_000


def main(arguments: list[str]) -> int:
    """Run that many; 1 where the engine raises, or a proof or a guard is wrong."""
    parser = argparse.ArgumentParser("python -m tests.long totality", description=__doc__)
    parser.add_argument("--expressions", type=int, default=1_000_000, help="how many (default 1,000,000)")
    parser.add_argument(
        "--statements", type=int, default=500, help="expressions that stand in every clause (default 500)"
    )
    parser.add_argument("--seed", type=int, default=1, help="of the first ten thousand (default 1)")
    asked = parser.parse_args(arguments)
    return 1 if totality(asked.expressions, asked.statements, asked.seed) else 0


def totality(count: int, clauses: int, seed: int) -> int:
    """The number of problems that the fuzzer finds; each is printed once it is found."""
    found, began = 0, time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder))
        for start in range(0, count, STEP):
            problems = expressions(world, seed + start // STEP, min(STEP, count - start))
            found += len(problems)
            print(f"{start + STEP:,} expressions, {found} problems, {time.monotonic() - began:,.0f} s", flush=True)
            print(*problems, sep="\n", end="\n" if problems else "", flush=True)
        taken, problems = statements(world, seed, clauses)
        print(f"{taken:,} statements, {len(problems)} problems, {time.monotonic() - began:,.0f} s", *problems, sep="\n")
        world.close()
    return found + len(problems)
