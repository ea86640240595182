"""The records of all aggregates over people."""

from __future__ import annotations

from dpsql.aggregates.auto_sum import AUTO_SUM
from dpsql.aggregates.existence import BOOL_AND, BOOL_OR
from dpsql.aggregates.extreme import MAX, MIN
from dpsql.aggregates.geomean import GEOMEAN
from dpsql.aggregates.mode import TOP
from dpsql.aggregates.quantile import QUANTILE
from dpsql.aggregates.randomized_response import RANDOMIZED_RESPONSE
from dpsql.aggregates.record import Record
from dpsql.aggregates.shared import AVG, COUNT, DISTINCT, OF_TWO, ROWS, SPREADS, SUM, UNITS

RECORDS: tuple[Record, ...] = (
    ROWS, UNITS, COUNT, DISTINCT, SUM, AVG, MIN, MAX, QUANTILE, TOP, *SPREADS, GEOMEAN, *OF_TWO, BOOL_AND, BOOL_OR,
    AUTO_SUM, RANDOMIZED_RESPONSE,
)  # fmt: skip
BY_SPELLING: dict[str, Record] = {}
"""By what SQL calls it; where several are called alike, the first."""
for _record in RECORDS:
    for _spelling in _record.spellings:
        BY_SPELLING.setdefault(_spelling, _record)
