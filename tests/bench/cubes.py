"""Cubes: how exact all groups of one purchase are, beside what the same statements cost one by one, and how long it all takes.

1,000,000 people of a row each, keys of 8, 20, 12 and 4 values, at (1, 10^-6): COUNT(*) alone, and beside the sum of a bounded value.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Sequence
from contextlib import closing
from fractions import Fraction
from itertools import combinations, cycle
from math import prod, sqrt
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import duckdb
import numpy as np

import dpsql
from dpsql.core.columns import Column
from dpsql.core.loss import EpsilonDelta
from dpsql.mechanisms.reach import largest_rho
from dpsql.mechanisms.residual import read_off, residual
from dpsql.mechanisms.source import SystemNoise
from dpsql.session.opening import open_session
from tests.bench.timing import Aim, Times, heading, ms, show

PEOPLE = 1_000_000
KEYS = {"region": 8, "product": 20, "month": 12, "segment": 4}
PRICE = "epsilon = 1, delta = 1e-6"
RELEASES = 20
STATEMENTS = 100
DEVIATION, DIFFERENCE, SHARE = Aim(22, ""), Aim(5, " %"), Aim(0.25, " of that price")
MOVED = {"COUNT(*)": 1.0, "SUM(amount)": 100.0, "AVG(amount)": 100.0}
"""The most that a row moves what is bought for a column alone: an average as a sum beside a number of rows, each at half the price."""
SCHEMA = f"""
[dataset]
name = "sales"
source = "."
[privacy]
unit = "sales.person"
epsilon = 1000000.0
delta = 0.1
units = {PEOPLE}
query = {{ epsilon = 0.1, delta = 1e-9 }}
caps = {{ epsilon = 1000.0, delta = 1e-3 }}
[tables.sales]
source = "sales.parquet"
key = ["person"]
[tables.sales.columns]
person = {{ type = "BIGINT" }}
{chr(10).join(f"{name} = {{ type = 'INTEGER', bounds = [1, {n}] }}" for name, n in KEYS.items())}
amount = {{ type = "DOUBLE", bounds = [0, 100] }}
"""
FILTERS = "SELECT COUNT(*) FROM sales WHERE region = {} AND month = {}"


def measure() -> None:
    """Print all of it."""
    with TemporaryDirectory() as scratch:
        folder = Path(scratch)
        _written(folder)
        for numbers in ("COUNT(*)", "COUNT(*), SUM(amount)"):
            _exactness(folder, numbers)
        _read(folder)
        for numbers in (["COUNT(*)"], ["COUNT(*)", "SUM(amount)", "COUNT(*)", "AVG(amount)"]):
            _workload(folder, numbers)
    _large()


def _written(folder: Path) -> None:
    (folder / "schema.toml").write_text(SCHEMA)
    keys = ", ".join(f"1 + (hash(i::VARCHAR || '{name}') % {n})::INTEGER AS {name}" for name, n in KEYS.items())
    rows = f"SELECT i AS person, {keys}, (hash(i) % 10001) / 100.0 AS amount FROM range({PEOPLE}) AS t(i)"
    duckdb.execute(f"COPY ({rows}) TO '{folder / 'sales.parquet'}' (FORMAT parquet)")


def _marginals() -> list[tuple[str, ...]]:
    return [keys for size in range(len(KEYS) + 1) for keys in combinations(KEYS, size)]


def _asked(keys: Sequence[str]) -> str:
    listed = ", ".join(keys)
    return f"SELECT {listed}, COUNT(*) AS n FROM sales GROUP BY {listed}" if keys else "SELECT COUNT(*) AS n FROM sales"


def _exactness(folder: Path, numbers: str) -> None:
    """The deviation of COUNT(*) of each marginal: told, and of releases beside the truth; and of fresh statements."""
    heading(f"cube of {', '.join(f'{name} ({n})' for name, n in KEYS.items())}, {numbers}, {PRICE}")
    squares: dict[tuple[str, ...], list[float]] = {keys: [] for keys in _marginals()}
    told: dict[tuple[str, ...], float] = {}
    truth = {keys: _truth(folder, keys) for keys in _marginals()}
    listed = ", ".join(KEYS)
    sql = f"CREATE PRIVATE CUBE c OPTIONS ({PRICE}) AS SELECT {listed}, {numbers} FROM sales GROUP BY CUBE ({listed})"
    created = Times()
    for _ in range(RELEASES):
        with closing(dpsql.connect(folder / "schema.toml", ledger=":memory:")) as connection:
            created.run(lambda connection=connection: connection.execute(sql))  # type: ignore[misc]
            rows = connection.execute(sql).fetchall()
            for keys, row in zip(_marginals(), rows, strict=True):
                told[keys] = float(row[2]) / 1.959963985
                answer = connection.execute(_asked(keys))
                assert answer.privacy.epsilon == 0
                found = np.array([row[-1] for row in sorted(answer.fetchall())], dtype=float)
                squares[keys].append(float(np.mean((found - truth[keys]) ** 2)))
    lines = []
    for keys in _marginals():
        off = sqrt(float(np.mean(squares[keys])))
        lines.append(
            (", ".join(keys) or "()", f"{told[keys]:.2f}", f"{off:.2f}", f"{100 * (off / told[keys] - 1):+.1f} %")
        )
    show(("group by", "deviation told", f"RMSE of {RELEASES} releases", "difference"), lines)
    print(f"largest deviation {max(told.values()):.1f}; {DEVIATION.verdict(max(told.values()))}")
    many = [keys for keys in _marginals() if prod(KEYS[k] for k in keys) >= 96]
    worst = max(abs(100 * (sqrt(float(np.mean(squares[keys]))) / told[keys] - 1)) for keys in many)
    print(f"largest difference of marginals of 96 groups and more {worst:.1f} %; {DIFFERENCE.verdict(worst)}")
    print(f"CREATE: {ms(median(created.passed))} passed, {ms(median(created.processor))} of processor time")


def _truth(folder: Path, keys: Sequence[str]) -> np.ndarray:
    rows = duckdb.execute(_asked(keys).replace("FROM sales", f"FROM '{folder / 'sales.parquet'}'")).fetchall()
    return np.array([row[-1] for row in sorted(rows)], dtype=float)


def _read(folder: Path) -> None:
    """A statement that is read off, every time another one; and the errors of filters beside fresh ones."""
    listed = ", ".join(KEYS)
    sql = f"CREATE PRIVATE CUBE c OPTIONS ({PRICE}) AS SELECT {listed}, COUNT(*), SUM(amount) FROM sales GROUP BY CUBE ({listed})"
    with closing(dpsql.connect(folder / "schema.toml", ledger=":memory:")) as connection:
        connection.execute(sql)
        times = Times()
        for region in range(1, 9):
            for month in range(1, 13):
                text = FILTERS.format(region, month)
                times.run(lambda text=text: _free(connection, text))  # type: ignore[misc]
        print(
            f"a filter that is read off: {ms(median(times.passed))} passed, {ms(median(times.processor))} of processor time; aim 5 ms"
        )
        rows = []
        for text in (FILTERS.format(3, 6), "SELECT region, AVG(amount) FROM sales WHERE month <= 2 GROUP BY region"):
            errors = [connection.execute(f"/* dpsql: cube={which} */ {text}").errors[-1] for which in ("on", "off")]
            rows.append((text, *(f"{error:.3g}" for error in errors)))
        show(("95 % error", "off the cube, free", "bought at epsilon 0.1"), rows)


def _free(connection: dpsql.Connection, sql: str) -> None:
    answer = connection.execute(sql)
    answer.fetchall()
    assert answer.privacy.epsilon == 0 and answer.privacy.cached


def _statements(numbers: Sequence[str]) -> list[str]:
    """100 group-bys and filters of the four keys, each of other groups: first without a condition, then with one or two."""
    single = [
        "region = 3",
        "month = 5",
        "segment = 2",
        "product = 7",
        "month <= 3",
        "region IN (1, 2, 5)",
        "segment <> 1",
    ]
    double = [f"{one} AND {other}" for one, other in combinations(single, 2) if one.split()[0] != other.split()[0]]
    asked = [
        (keys, where)
        for where in ("", *single, *double)
        for keys in _marginals()
        if len(keys) <= 3 and not any(f"{key} " in where for key in keys)
    ]
    found = []
    for (keys, where), number in zip(asked[:STATEMENTS], cycle(numbers), strict=False):
        told = ", ".join([*keys, number])
        condition, grouped = (f" WHERE {where}" if where else ""), (f" GROUP BY {', '.join(keys)}" if keys else "")
        found.append(f"/* dpsql: epsilon=0.05 */ SELECT {told} FROM sales{condition}{grouped}")
    return found


def _workload(folder: Path, numbers: Sequence[str]) -> None:
    """The price of a cube off which each of many statements errs as at epsilon 0.05 alone, or less, beside that of all of them one by
    one where Gaussian noise of these errors is added up in rho, as other libraries' filters do."""
    statements = _statements(numbers)
    with closing(open_session(folder / "schema.toml", None, ":memory:")) as session:
        report = session.workload(statements, Fraction(1))
    (cube,) = report.cubes
    apart = wider = 0.0
    for one in report.statements:
        (column,) = one.columns
        assert column.alone is not None and column.read is not None
        apart += (MOVED[column.name] * 1.959963985 / column.alone) ** 2 / 2
        wider = max(wider, column.read / column.alone)
    needed = float(cube.rho) * wider**2
    total = float(largest_rho(EpsilonDelta(Fraction(4), Fraction(1, 10**6))))
    what = f"{len(set(statements))} group-bys and filters of {len(KEYS)} columns, {', '.join(dict.fromkeys(numbers))}"
    heading(f"{what}, each at the error of epsilon 0.05 alone")
    print(f"one by one, Gaussian: rho {apart:.4f}, all of them {total / apart:.1f} times in (4, 1e-6)")
    print(
        f"off one cube: rho {needed:.4f}, {total / needed:.1f} times, {apart / needed:.1f} as often; {SHARE.verdict(needed / apart)}"
    )


def _large() -> None:
    """10^4 and 10^6 cells: noise on all coefficients, and a marginal."""
    rho = largest_rho(EpsilonDelta(Fraction(1), Fraction(1, 10**6)))
    rows = []
    for shape, aim in (((10, 10, 10, 10), Aim(0.1, " s")), ((100, 100, 100), Aim(3, " s"))):
        made = residual(shape, len(shape), rho, 1)
        cells = Column(np.arange(prod(shape), dtype=np.int64) % 200)
        start, worked = time.perf_counter(), time.process_time()
        released = made.noisy(cells, 1, SystemNoise())
        passed, worked = time.perf_counter() - start, time.process_time() - worked
        tensor = np.asarray(released.values, dtype=np.float64).reshape(shape)
        start = time.process_time()
        read_off(tensor, [None] * len(shape), [0, 1])
        reading = time.process_time() - start
        rows.append(
            (f"{prod(shape):,}", f"{passed:.3f}", f"{worked:.3f}", aim.verdict(worked), f"{1000 * reading:.2f}")
        )
    show(("cells", "release [s]", "processor time [s]", "", "marginal of two keys [ms]"), rows)
    print(f"largest memory of the process {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f} GB; aim 1 GB")
