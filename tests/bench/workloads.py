"""Published dashboards and benchmarks: how many of their statements are answered with the guard, and without it.

Their texts are not bundled. A workload is a folder with `tables/*.sql`, which create its tables, and `queries/*.sql`; statements in one
file are parted by semicolons. Its tables stay empty: the guard decides by declarations alone. What a text does not say is declared
plainly: each row is a unit, numbers lie in [0, 1,000,000], dates in 2000 to 2025, and texts have no list.
"""

from __future__ import annotations

import re
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

import duckdb

from dpsql.core.errors import Error
from dpsql.schema.model import Schema
from dpsql.schema.toml import read_schema
from dpsql.session.opening import open_session
from tests.bench.timing import Aim, heading
from tests.support.noise import ZeroNoise

HEAD = """
[dataset]
name = "published"
source = "data.duckdb"
[privacy]
unit = "row"
epsilon = 1000000.0
delta = 1e-3
units = 1000000
query = { epsilon = 0.1, delta = 1e-9 }
caps = { epsilon = 10.0, delta = 1e-8 }
"""
BOUNDS = {
    "DATE": "[2000-01-01, 2025-12-31]",
    "TIMESTAMP": "[2000-01-01T00:00:00, 2025-12-31T00:00:00]",
    "TINYINT": "[0, 100]",
    "SMALLINT": "[0, 10000]",
}
LEFT_OUT = ("TIME", "BLOB", "INTERVAL")
FEWER = Aim(2, " % fewer")


@dataclass(frozen=True, slots=True)
class Asked:
    """What became of one statement: "" or the code of its refusal, and how long that took [seconds]."""

    code: str
    seconds: float


def compare(folder: Path) -> None:
    """Ask every workload in a folder, with the guard off and in its default mode."""
    heading("Published statements, with the guard off and on")
    answered, refused, lost = Counter[str](), Counter[str](), Counter[str]()
    took: dict[str, list[float]] = {"off": [], "block": []}
    for workload in sorted(path for path in folder.iterdir() if (path / "queries").is_dir()):
        with tempfile.TemporaryDirectory() as place:
            schema = _declared(Path(place), [path.read_text() for path in sorted((workload / "tables").glob("*.sql"))])
            texts = [text for path in sorted((workload / "queries").glob("*.sql")) for text in _statements(path)]
            off, block = (_asked(schema, mode, texts) for mode in took)
        for one, other in zip(off, block, strict=True):
            answered["all"] += 1
            answered["off"] += not one.code
            answered["block"] += not other.code
            refused[one.code] += bool(one.code)
            if not one.code:
                took["off"].append(one.seconds)
                took["block"].append(other.seconds)
                lost[workload.name] += bool(other.code)
    fewer = 100 * (1 - answered["block"] / max(answered["off"], 1))
    without, kept = answered["off"], answered["block"]
    print(
        f"  {answered['all']} statements: {without} answered without the guard, {kept} with it; {FEWER.verdict(fewer)}"
    )
    print(f"  refused without it: {', '.join(f'{code} {n}' for code, n in refused.most_common() if n)}")
    print(f"  by the guard alone: {', '.join(f'{name} {n}' for name, n in lost.most_common() if n) or 'none'}")
    print("  each takes " + ", ".join(f"{1000 * median(t):.0f} ms with {mode}" for mode, t in took.items() if t))


def _statements(path: Path) -> list[str]:
    return [text for text in re.split(r";\s*\n|;\s*\Z", path.read_text()) if text.strip()]


def _asked(schema: Schema, mode: str, texts: Sequence[str]) -> list[Asked]:
    guarded = replace(schema, guard=replace(schema.guard, mode=mode))
    found = []
    with closing(open_session(guarded, None, ":memory:", ZeroNoise())) as session:
        for text in texts:
            begun, code = time.perf_counter(), ""
            try:
                session.execute(text)
            except Error as problem:
                code = problem.code
            found.append(Asked(code, time.perf_counter() - begun))
    return found


def _declared(folder: Path, creating: Sequence[str]) -> Schema:
    """Empty tables, and their schema."""
    lines = [HEAD]
    with duckdb.connect(str(folder / "data.duckdb")) as connection:
        for text in creating:
            connection.execute(text)
        shown = "SELECT table_name, column_name, data_type, is_nullable FROM information_schema.columns"
        columns = connection.execute(f"{shown} ORDER BY table_name, ordinal_position").fetchall()
    for table in dict.fromkeys(row[0] for row in columns):
        lines += [f"[tables.{_quoted(table)}]", f"[tables.{_quoted(table)}.columns]"]
        lines += [_column(name, kind, null) for t, name, kind, null in columns if t == table and kind not in LEFT_OUT]
    (folder / "schema.toml").write_text("\n".join(lines))
    return read_schema(folder / "schema.toml")


def _column(name: str, kind: str, nullable: str) -> str:
    declared = [f'type = "{kind}"']
    if kind not in ("VARCHAR", "BOOLEAN"):
        digits = [int(n) for n in re.findall(r"\d+", kind)] if kind.startswith("DECIMAL") else []
        most = min(10**6, 10 ** (digits[0] - digits[1]) - 1) if digits else 10**6
        declared.append(f"bounds = {BOUNDS.get(kind, f'[0, {most}]')}")
    declared += ["nullable = true"] if nullable == "YES" else []
    return f"{_quoted(name)} = {{ {', '.join(declared)} }}"


def _quoted(name: str) -> str:
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'
