"""A listed fraction is found by its text as a group key: the engine writes a DOUBLE as Python does, and widens a FLOAT exactly."""

from __future__ import annotations

import random
import struct

import duckdb
import numpy as np
import pytest

COUNT = 100_000


def doubles(chance: random.Random) -> list[float]:
    """Any bits, powers of ten, and short decimals of every size."""
    bits = [struct.unpack("<d", chance.randbytes(8))[0] for _ in range(COUNT)]
    short = [chance.randint(-(10**k), 10**k) / 10 ** chance.randint(0, 8) for k in range(1, 20) for _ in range(1000)]
    return [x for x in [*bits, *short, *(10.0**k for k in range(-30, 30))] if np.isfinite(x)]


@pytest.mark.parametrize(("kind", "sqltype"), [(np.float64, "DOUBLE"), (np.float32, "FLOAT")])
def test_the_engine_writes_the_same_digits(kind: type, sqltype: str) -> None:
    with np.errstate(over="ignore"):
        values = np.array(doubles(random.Random(3)), dtype=kind)
    values = values[np.isfinite(values)]
    with duckdb.connect() as connection:
        connection.register("given", {"x": values})
        query = f"SELECT CAST(CAST(CAST(x AS {sqltype}) AS DOUBLE) AS VARCHAR) FROM given"
        found = [text for (text,) in connection.execute(query).fetchall()]
    assert found == [repr(float(value)) for value in values]
