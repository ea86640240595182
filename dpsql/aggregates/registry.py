"""The records of all aggregates over people."""

from __future__ import annotations

from collections.abc import Collection

from dpsql.aggregates.argmax import ARGMAX
from dpsql.aggregates.auto_sum import AUTO_SUM
from dpsql.aggregates.existence import BOOL_AND, BOOL_OR
from dpsql.aggregates.extreme import MAX, MIN
from dpsql.aggregates.geomean import GEOMEAN
from dpsql.aggregates.mode import MODE, TOP
from dpsql.aggregates.quantile import CONTINUOUS, DISCRETE, MEDIAN
from dpsql.aggregates.randomized_response import RANDOMIZED_RESPONSE
from dpsql.aggregates.record import Record
from dpsql.aggregates.shared import AVG, BOUNDED_SUM, CLAMPED, COUNT, DISTINCT, OF_TWO, ROWS, SPREADS, SUM, UNITS

RECORDS: tuple[Record, ...] = (
    ROWS, UNITS, COUNT, DISTINCT, SUM, BOUNDED_SUM, AVG, CLAMPED, MIN, MAX, MEDIAN, CONTINUOUS, DISCRETE, MODE, TOP, *SPREADS, GEOMEAN,
    *OF_TWO, BOOL_AND, BOOL_OR, AUTO_SUM, RANDOMIZED_RESPONSE, ARGMAX,
)  # fmt: skip
BY_SPELLING: dict[str, Record] = {}
"""By what SQL calls it; where several are called alike, the first."""
for _record in RECORDS:
    for _spelling in _record.spellings:
        BY_SPELLING.setdefault(_spelling, _record)


def called(name: str, named: Collection[str] = ()) -> Record | None:
    """Record of the aggregate that is called so, with arguments of these names: of several, the last whose own call has
    one of them, else the first."""
    first = BY_SPELLING.get(name.lower())
    if first is None or not named:
        return first
    alike = (record for record in reversed(RECORDS) if name.lower() in record.spellings)
    return next((record for record in alike if set(record.named) & set(named)), first)
