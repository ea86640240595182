"""SmartNoise SQL: its statements over sums that are handed to it, many equal groups a statement.

A group's rows are its own, so every group has the noise of a statement of its own. The price of a Privacy object is that of one noisy
column, and AVG has two of them, VARIANCE three: they get a half and a third. Values are handed over in [0, 1], since a noise scale
above 10^7 is refused.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import snsql
import tasks
from tasks import Data, Task

BATCH = 100


def count(data: Data, task: Task, epsilon: float) -> Iterator[float]:
    return _released("COUNT(*)", [data.rows], epsilon)


def distinct(data: Data, task: Task, epsilon: float) -> Iterator[float]:
    return _released("COUNT(DISTINCT item)", [len(data.by_item)], epsilon)


def total(data: Data, task: Task, epsilon: float) -> Iterator[float]:
    for share in _released("SUM(value)", [_shares(data).sum()], epsilon):
        yield data.lower * data.rows + share * data.range


def mean(data: Data, task: Task, epsilon: float) -> Iterator[float]:
    for share in _released("AVG(value)", [_shares(data).sum(), data.rows], epsilon):
        yield data.lower + share * data.range


def variance(data: Data, task: Task, epsilon: float) -> Iterator[float]:
    shares = _shares(data)
    for share in _released("VARIANCE(value)", [(shares**2).sum(), data.rows, shares.sum()], epsilon):
        yield share * data.range**2


def keys(data: Data, task: Task, epsilon: float) -> Iterator[list[tuple[int, float]]]:
    reader = _reader(epsilon, censor=True)
    sums = np.array([(n, item) for item, n in data.by_item.items()], dtype=object)
    while True:
        rows = reader.execute("SELECT item, COUNT(*) AS n FROM s.t GROUP BY item", pre_aggregated=sums)
        yield [(item, n) for item, n in rows[1:]]


def _shares(data: Data) -> np.ndarray:
    return (data.value - data.lower) / data.range


def _released(aggregate: str, sums: list[float], epsilon: float) -> Iterator[float]:
    """Answers of one aggregate; `sums` are the statement's noisy columns, in its order."""
    sql = f"SELECT category, {aggregate} AS v FROM s.t GROUP BY category"
    reader = _reader(epsilon / len(sums), censor=False)
    spent, _ = reader.get_privacy_cost(sql)
    if abs(spent - epsilon) > 1e-6:
        raise tasks.Refused(f"{aggregate} costs epsilon {spent:g}")
    groups = np.array([[1, *sums]] * BATCH, dtype=object)
    while True:
        for _, value in reader.execute(sql, pre_aggregated=groups)[1:]:
            yield value


def _reader(epsilon: float, censor: bool) -> Any:
    columns = {
        "value": {"type": "float", "lower": 0.0, "upper": 1.0},
        "category": {"type": "int"},
        "item": {"type": "int"},
    }
    table = {"row_privacy": True, "rows": 1000, "censor_dims": censor, "clamp_counts": False, **columns}
    nothing = pd.DataFrame({name: [] for name in columns})
    privacy = snsql.Privacy(epsilon=epsilon, delta=tasks.DELTA)
    return snsql.from_connection(nothing, privacy=privacy, metadata={"": {"s": {"t": table}}})


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    OFFERS = {"count": count, "sum": total, "mean": mean, "variance": variance, "distinct": distinct, "keys": keys}
    tasks.serve(OFFERS, ("smartnoise-sql", "opendp", "numpy"))
