"""SmartNoise SQL: its odometer (Kairouz, Oh, Viswanath, theorem 3.5), at the prices whose noise has the wanted half-widths.

A statement costs what the reader says it costs, column by column. The odometer is for prices that are fixed in advance.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any

import budgets
import pandas as pd
import snsql
from budgets import Question, Total
from snsql.sql.odometer import OdometerHeterogeneous
from snsql.sql.privacy import Mechanism, Stat

STATEMENTS = {
    "count": "SELECT COUNT(*) AS v FROM s.t",
    "sum": "SELECT site, SUM(value) AS v FROM s.t GROUP BY site",
    "mean": "SELECT AVG(value) AS v FROM s.t",
}
DELTAS = (1e-15, 1e-12, 1e-10, 1e-9, 1e-8, 1e-7)
"""Candidates for the delta of a Privacy object: some of its mechanisms charge it, and its odometer puts no more aside."""


def odometers(total: Total) -> Sequence[budgets.Admits]:
    found = []
    for delta in DELTAS:
        odometer = OdometerHeterogeneous(snsql.Privacy(epsilon=total.epsilon, delta=2 * total.delta))
        found.append(partial(_admits, odometer, delta, total))
    return found


def _admits(odometer: OdometerHeterogeneous, delta: float, total: Total, question: Question) -> bool:
    for epsilon, charged in _costs(question, delta):
        odometer.spend(snsql.Privacy(epsilon=epsilon, delta=charged))
    epsilon, spent = odometer.spent
    # the last digits of rounding are let pass
    return epsilon <= total.epsilon * (1 + 1e-9) and spent <= total.delta * (1 + 1e-6)


@lru_cache
def _costs(question: Question, delta: float) -> Sequence[tuple[float, float]]:
    sql = STATEMENTS[question.kind]
    reader = _reader(_epsilon(question, delta), delta, question.range)
    return [cost for cost in reader._get_mechanism_costs(sql) if cost]


@lru_cache
def _epsilon(question: Question, delta: float) -> float:
    """Laplace's half-widths are in proportion to 1 / epsilon."""
    reader = _reader(1.0, delta, question.range)
    if question.kind != "mean":
        return float(reader.get_simple_accuracy(STATEMENTS[question.kind], budgets.ALPHA)[-1]) / question.half_width
    widths = reader.get_simple_accuracy("SELECT SUM(value) AS s, COUNT(value) AS n FROM s.t", budgets.ALPHA)
    one = budgets.laplace_width(1.0, 1e-9)
    return budgets.laplace_width(widths[0] / one, question.mean * widths[1] / one) / question.half_width


def _reader(epsilon: float, delta: float, upper: float, gaussian: bool = False) -> Any:
    columns = {"value": {"type": "int", "lower": 0, "upper": int(upper)}, "site": {"type": "int"}}
    table = {"row_privacy": True, "rows": 6000, "censor_dims": False, "clamp_counts": False, **columns}
    privacy = snsql.Privacy(epsilon=epsilon, delta=delta)
    if gaussian:
        for stat in (Stat.count, Stat.sum_int, Stat.sum_large_int):
            privacy.mechanisms.map[stat] = Mechanism.gaussian
    nothing = pd.DataFrame({name: [] for name in columns})
    return snsql.from_connection(nothing, privacy=privacy, metadata={"": {"s": {"t": table}}})


def _of_gaussian() -> str:
    """The fate of its Gaussian mechanism."""
    try:
        count = _reader(0.1, 1e-9, 1, gaussian=True)
        width = count.get_simple_accuracy(STATEMENTS["count"], budgets.ALPHA)[-1]
        said = f"Gaussian: half-width {width:.3g} of a count at epsilon 0.1 and delta 1e-9 a statement"
        _reader(0.1, 1e-9, 30_000, gaussian=True).get_simple_accuracy(STATEMENTS["sum"], budgets.ALPHA)
    except Exception as failed:  # whatever the library raises is what is said of it
        return f"{said}; a sum of [0, 30000] fails: {str(failed).partition('.')[0]}"
    return said


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    budgets.serve({"Laplace, its odometer": odometers}, ("smartnoise-sql", "opendp"), [_of_gaussian()])
