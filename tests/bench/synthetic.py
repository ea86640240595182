"""Rows drawn from a cube of two keys at a time: how far their tables by two columns are from those of the data.

100,000 people, ten columns of 5 to 12 values that are cut from a chain of Gaussians, 24 million cells together: at (1, 10^-6).
"""

from __future__ import annotations

from contextlib import closing
from itertools import combinations
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time

import duckdb
import numpy as np
import numpy.typing as npt

import dpsql
from tests.bench.timing import Aim, heading, ms, show

SIZES = (5, 8, 10, 4, 6, 12, 3, 2, 7, 5)
PEOPLE = (100_000, 10_000, 3_000, 2_000)
AIM = Aim(0.006, "")
ROUNDS = 3
Codes = npt.NDArray[np.int64]


def measure() -> None:
    """Print the mean total variation over all pairs of columns, of releases of the whole product."""
    heading("synthetic tables: 10 columns, 45 pairs, epsilon 1 and delta 1e-6")
    rows = []
    with TemporaryDirectory() as scratch:
        for people in PEOPLE:
            exact = chain(people)
            found = [_of_one(Path(scratch), exact) for _ in range(ROUNDS)]
            off = float(np.mean([one[0] for one in found]))
            told = float(np.mean([one[1] for one in found]))
            alone = mean_variation(
                np.stack([np.random.default_rng(i).permutation(c) for i, c in enumerate(exact)]), exact
            )
            rows.append(
                (f"{people:,}", f"{off:.4f}", f"{told:.4f}", f"{alone:.4f}", *(ms(found[0][place]) for place in (2, 3)))
            )
            if people == PEOPLE[0]:
                print(f"mean total variation by two columns {off:.4f}; {AIM.verdict(off)}")
    show(("people", "off the data", "noise, as told", "columns one by one", "cube", "drawn"), rows)


def chain(people: int) -> Codes:
    """Of each column and person a value."""
    random = np.random.default_rng(24)
    shared, found = random.normal(size=people), list[npt.NDArray[np.float64]]()
    for i in range(len(SIZES)):
        own = random.normal(size=people)
        found.append(0.6 * shared + 0.8 * own if i % 3 == 2 else 0.7 * found[-1] + 0.7 * own if i else own)
    cut = [np.clip(np.floor((x + 2.5) / 5 * n), 0, n - 1) for x, n in zip(found, SIZES, strict=True)]
    return np.stack(cut).astype(np.int64)


def mean_variation(one: Codes, other: Codes) -> float:
    """The total variation of the shares of rows by two columns, the mean over all pairs."""
    each = []
    for i, j in combinations(range(len(SIZES)), 2):
        shares = [np.bincount(c[i] * SIZES[j] + c[j], minlength=SIZES[i] * SIZES[j]) / c.shape[1] for c in (one, other)]
        each.append(np.abs(shares[0] - shares[1]).sum() / 2)
    return float(np.mean(each))


def _of_one(folder: Path, exact: Codes) -> tuple[float, float, float, float]:
    """Distance from the data, the noise that was told, and processor time of the cube and of the table."""
    names = [f"c{i}" for i in range(len(SIZES))]
    columns = {"person": np.arange(exact.shape[1]), **dict(zip(names, exact, strict=True))}
    with closing(duckdb.connect()) as writing:
        writing.register("rows", columns)
        writing.execute(f"COPY rows TO '{folder / 'people.parquet'}' (FORMAT parquet)")
    (folder / "schema.toml").write_text(_schema(names, exact.shape[1]))
    listed = ", ".join(names)
    with closing(dpsql.connect(folder / "schema.toml", ledger=":memory:")) as connection:
        begun = process_time()
        connection.execute(
            f"CREATE PRIVATE CUBE pairs OPTIONS (epsilon = 1, delta = 1e-6, ways = 2) AS SELECT COUNT(*) FROM people "
            f"GROUP BY CUBE ({listed})"
        )
        bought = process_time()
        _, _, _, noise, _ = connection.execute("CREATE SYNTHETIC TABLE rows AS SELECT * FROM pairs").fetchone()
        made = process_time()
        drawn = np.array(connection.execute(f"SELECT {listed} FROM synthetic.rows").fetchall(), dtype=np.int64).T
    return mean_variation(drawn, exact), float(noise), bought - begun, made - bought


def _schema(names: list[str], people: int) -> str:
    columns = "\n".join(
        f"{c} = {{ type = 'BIGINT', bounds = [0, {n - 1}] }}" for c, n in zip(names, SIZES, strict=True)
    )
    return f"""
[dataset]
name = "chain"
source = "."
[privacy]
unit = "people.person"
epsilon = 1000.0
delta = 0.1
units = {people}
query = {{ epsilon = 0.1, delta = 1e-9 }}
caps = {{ epsilon = 10.0, delta = 1e-6 }}
[tables.people]
source = "people.parquet"
key = ["person"]
[tables.people.columns]
person = {{ type = "BIGINT" }}
{columns}
"""
