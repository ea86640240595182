"""What is kept of a statement reads back as it was, and what an earlier version wrote is told apart."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsql.guard import record
from dpsql.guard.evaluating import Cell
from dpsql.guard.history import Asked

keys = st.lists(st.integers(0, 2**63), unique=True, max_size=50).map(lambda k: np.array(sorted(k), dtype=np.uint64))
cells = st.builds(Cell, st.sampled_from(["adds", "max of x"]), keys)
statements = st.lists(
    st.builds(
        Asked,
        st.lists(cells, max_size=4).map(tuple),
        st.floats(0, 1e9),
        st.integers(0, 10**9),
        st.integers(1, 9),
        st.text(),
    ),
    max_size=4,
)


@given(statements)
def test_it_reads_back_as_the_same(asked: list[Asked]) -> None:
    found = record.read(record.written(asked, "units"), "units")
    assert found is not None and len(found) == len(asked)
    for one, other in zip(found, asked, strict=True):
        assert (one.spread, one.people, one.groups, one.about) == (
            other.spread,
            other.people,
            other.groups,
            other.about,
        )
        assert [c.kind for c in one.cells] == [c.kind for c in other.cells]
        assert all(np.array_equal(a.keys, b.keys) for a, b in zip(one.cells, other.cells, strict=True))


def test_a_record_of_other_sample_units_is_evaluated_anew() -> None:
    asked = [Asked((), 2.5, 100)]
    text = record.written(asked, "units")
    assert record.read(text, "other units") is None and record.spreads(text) == [2.5]


@pytest.mark.parametrize(
    "text, spread",
    [
        (json.dumps({"version": 2, "columns": [], "questions": [[["person"], 14.1, []]]}), 14.1),
        (json.dumps([[], [[["person"], 14.0, []]]]), 7.0),
    ],
)
def test_an_earlier_version_is_evaluated_anew(text: str, spread: float) -> None:
    assert record.read(text, "units") is None and record.spreads(text) == [spread]


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"version": 3}', '{"version": 3, "sample": "units", "asked": [[1]]}', "17"]
)
def test_what_is_none_of_ours_is_told(text: str) -> None:
    with pytest.raises((ValueError, TypeError, LookupError)):
        assert record.read(text, "units") is not None or record.spreads(text)


def test_a_total_is_short() -> None:
    """A hundred statements of two cells of 20,000 sample units take less than ten megabytes."""
    everybody = np.arange(20_000, dtype=np.uint64) << np.uint64(32)
    half = np.sort(np.random.default_rng(1).choice(everybody, 10_000, replace=False))
    sizes = [
        len(record.written([Asked((Cell("adds", k | np.uint64(77)),), 1.0, 1)], "units")) for k in (everybody, half)
    ]
    assert sizes[0] < 1_000 and sizes[1] < 12_000, sizes
