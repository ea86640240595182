"""Messages of PostgreSQL's protocol before and after login, right and wrong ones, said to a running server."""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from tests.support.fuzzed import fuzz
from tests.support.served import dataset, served

STEP = 50_000


def main(arguments: list[str]) -> int:
    """Say that many; 1 where a process ends or grows, leaves a trace, or answers no more."""
    parser = argparse.ArgumentParser("python -m tests.long server", description=__doc__)
    parser.add_argument("--messages", type=int, default=1_000_000, help="how many (default 1,000,000)")
    parser.add_argument("--seed", type=int, default=1, help="of the first fifty thousand (default 1)")
    asked = parser.parse_args(arguments)
    problems, began = 0, time.monotonic()
    with tempfile.TemporaryDirectory() as folder, served(dataset(Path(folder))) as server:
        for at, start in enumerate(range(0, asked.messages, STEP)):
            found = fuzz(server, min(STEP, asked.messages - start), asked.seed + at)
            server.lines.clear()
            problems += len(found.problems)
            said = f"{start + found.messages:,} messages, {problems} problems, {time.monotonic() - began:,.0f} s"
            print(said, *found.problems, sep="\n", flush=True)
    return 1 if problems else 0
