"""Messages of PostgreSQL's protocol before and after login, or requests of HTTP, right and wrong ones, said to a running server."""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from tests.support import fuzzed_http
from tests.support.fuzzed import fuzz
from tests.support.served import dataset, served

STEP = 50_000


def main(arguments: list[str]) -> int:
    """Say that many; 1 where a process ends or grows, leaves a trace, or answers no more."""
    parser = argparse.ArgumentParser("python -m tests.long server", description=__doc__)
    parser.add_argument("--messages", type=int, default=1_000_000, help="how many (default 1,000,000)")
    parser.add_argument("--seed", type=int, default=1, help="of the first fifty thousand (default 1)")
    parser.add_argument("--http", action="store_true", help="requests of HTTP in their place")
    asked = parser.parse_args(arguments)
    problems, began = 0, time.monotonic()
    options = ("--http", "127.0.0.1:0") if asked.http else ()
    with tempfile.TemporaryDirectory() as folder, served(dataset(Path(folder)), *options) as server:
        token = server.token() if asked.http else ""
        for at, start in enumerate(range(0, asked.messages, STEP)):
            count, seed = min(STEP, asked.messages - start), asked.seed + at
            found = fuzzed_http.fuzz(server, count, seed, token) if asked.http else fuzz(server, count, seed)
            server.lines.clear()
            problems += len(found.problems)
            said = f"{start + found.messages:,} messages, {problems} problems, {time.monotonic() - began:,.0f} s"
            print(said, *found.problems, sep="\n", flush=True)
    return 1 if problems else 0
