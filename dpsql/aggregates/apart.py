"""AVG(x) of a stored SUM(x) and a stored COUNT(x) of the same rows, bought apart: S / n within the bounds.

The interval is Fieller's, as in avg.py: the r with |S - r n| <= h(r), where h(r) covers Z_S - r Z_n.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dpsql.aggregates.base import Column, Floats, Noise
from dpsql.aggregates.ends import Ends
from dpsql.aggregates.term import Term
from dpsql.sqltypes import DOUBLE, SqlType

_STEPS = 32


@dataclass(frozen=True, slots=True)
class AvgOfTwo:
    """AVG(x) of the cells (S, n); NULL where the noisy count is below 1."""

    term: Term
    sqltype: SqlType = DOUBLE

    def half_width(self, noise: Noise, level: Fraction) -> None:
        return None

    def column(self, cells: Sequence[list[int]], noise: Noise, level: Fraction) -> Column:
        low, high, quantum = float(self.term.lower), float(self.term.upper), float(self.term.quantum)
        s, n = (np.array(cell, dtype=float) for cell in cells)
        shown = n >= 1
        whole = np.where(shown, n, 1.0)
        ratios = np.linspace(low, high, _STEPS + 1)
        widths = [noise.half_width_of_weights((1.0, r), level) for r in ratios.tolist()]

        def h(ratio: Floats) -> Floats:
            return np.interp(ratio, ratios, widths)

        below = above = s / whole
        for _ in range(8):
            below, above = (s - h(below)) / whole, (s + h(above)) / whole
        value, below, above = (np.clip(part, low, high) * quantum for part in (s / whole, below, above))
        values: list[object] = [v if known else None for v, known in zip(value.tolist(), shown.tolist(), strict=True)]
        return Column(values, Ends(np.where(shown, below, np.nan), np.where(shown, above, np.nan)))
