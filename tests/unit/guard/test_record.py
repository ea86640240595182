"""Records of statements read back as they were, and those of an earlier version are told apart."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsql.guard import record
from dpsql.guard.cells import HASH_BITS, Keys, cells
from dpsql.guard.history import BlockQuestion

keys = st.lists(st.integers(0, 2**26), unique=True, max_size=50).map(lambda k: np.array(sorted(k), dtype=np.uint32))
fine = st.sampled_from([(), (("", ("person.city",)),), (("", ()), ("person.age", ("0.12", "0.81+")))])
statistics = st.lists(st.tuples(st.tuples(st.sampled_from(["adds", "max of x"]), keys), fine), max_size=4).map(
    lambda found: cells([one for one, _ in found], [told for _, told in found])
)
statements = st.lists(
    st.builds(
        BlockQuestion,
        statistics,
        st.floats(0, 1e9),
        st.integers(0, 10**9),
        st.integers(1, 9),
        st.text(),
    ),
    max_size=4,
)


@given(statements)
def test_it_reads_back_as_the_same(asked: list[BlockQuestion]) -> None:
    text = record.written(asked, "units")
    found = record.read(text, "units", lambda place: record.keys(text)[place])
    assert found is not None and len(found) == len(asked)
    for one, other in zip(found, asked, strict=True):
        assert (one.spread, one.people, one.groups, one.about) == (
            other.spread,
            other.people,
            other.groups,
            other.about,
        )
        assert (one.cells.kinds, one.cells.fine) == (other.cells.kinds, other.cells.fine)
        assert one.cells.marks.tobytes() == other.cells.marks.tobytes()
        assert all(np.array_equal(one.cells.load(i), other.cells.load(i)) for i in range(len(other.cells)))


def unread(place: int) -> Keys:
    raise AssertionError("keys are read only where they are needed")


def test_a_record_of_other_sample_units_is_evaluated_anew() -> None:
    asked = [BlockQuestion(cells([]), 2.5, 100)]
    text = record.written(asked, "units")
    assert record.read(text, "other units", unread) is None and record.spreads(text) == [2.5]


@pytest.mark.parametrize(
    "text, spread",
    [
        (json.dumps({"version": 2, "columns": [], "questions": [[["person"], 14.1, []]]}), 14.1),
        (json.dumps([[], [[["person"], 14.0, []]]]), 7.0),
        (json.dumps({"version": 6, "sample": "units", "marks": "", "asked": [[1.5, 9, 1, "everybody", []]]}), 1.5),
    ],
)
def test_an_earlier_version_is_evaluated_anew(text: str, spread: float) -> None:
    assert record.read(text, "units", unread) is None and record.spreads(text) == [spread]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        '{"version": 5}',
        '{"version": 8, "sample": "units", "marks": "", "asked": [[1]]}',
        '{"version": 8, "sample": "units", "marks": "eNoDAAAAAAE=", "asked": [[1, 1, 1, "", [["adds", [], 9], ["adds", [], -9]]]]}',
        '{"version": 8, "sample": "units", "marks": "AAAA", "asked": [[1, 1, 1, "", [["adds", [], 1]]]]}',
        "17",
    ],
)
def test_what_is_none_of_ours_is_told(text: str) -> None:
    with pytest.raises((ValueError, TypeError, LookupError)):
        assert record.read(text, "units", unread) is not None or record.spreads(text)


@pytest.mark.parametrize("line", ["x", "AAAA", "\u00e9"])
def test_keys_that_are_none_are_told(line: str) -> None:
    with pytest.raises(ValueError):
        record.keys('{"version": 8, "marks": "eNoDAAAAAAE="}\n' + line)


def test_cells_without_keys_are_told() -> None:
    many, few = (
        record.written([BlockQuestion(cells([("adds", np.arange(n, dtype=np.uint32))]), 1.0, 1)], "units")
        for n in (9, 7)
    )
    with pytest.raises(ValueError, match="cells without keys"):
        record.keys("\n".join([many.split("\n")[0], few.split("\n")[1]]))


def test_a_total_is_short() -> None:
    """A hundred statements of two cells of 20,000 sample units take less than a megabyte, where they only count."""
    everybody = np.arange(20_000, dtype=np.uint32) << np.uint32(HASH_BITS)
    half = np.sort(np.random.default_rng(1).choice(everybody, 10_000, replace=False))
    sizes = [
        len(record.written([BlockQuestion(cells([("adds", k | np.uint32(77))]), 1.0, 1)], "units"))
        for k in (everybody, half)
    ]
    assert sizes[0] < 1_200 and sizes[1] < 6_000, sizes


def test_the_keys_of_equal_cells_are_written_once() -> None:
    keys = np.sort(np.random.default_rng(1).choice(2**26, 10_000, replace=False)).astype(np.uint32)
    other = keys[:-1]
    once = record.written([BlockQuestion(cells([("adds", keys), ("adds", other)]), 1.0, 1)], "units")
    several = [("adds", keys), ("adds", other), ("adds", keys.copy()), ("max of x", other.copy())]
    asked = [BlockQuestion(cells(several), 1.0, 1), BlockQuestion(cells(several[1:3]), 1.0, 1)]
    text = record.written(asked, "units")
    assert text.partition("\n")[2] == once.partition("\n")[2]
    assert [len(found) for found in record.keys(text)] == [10_000, 9_999, 10_000, 9_999, 9_999, 10_000]


def test_the_version_before_is_evaluated_anew() -> None:
    """It has no cells of what is added in proportion: twice a sum would be another question than the sum."""
    text = record.written([BlockQuestion(cells([("adds", np.arange(9, dtype=np.uint32))]), 1.0, 1)], "units")
    before = text.replace(f'"version":{record.VERSION}', f'"version":{record.VERSION - 1}')
    assert record.is_of(text, "units") and before != text
    assert not record.is_of(before, "units") and record.read(before, "units", record.keys(text).__getitem__) is None


def test_many_small_cells_are_short() -> None:
    """Cells of few sample units, as of a breakdown by many values: a fifth of the bytes that their marks take."""
    many = cells([("adds", np.arange(i, i + 3, dtype=np.uint32) << np.uint32(HASH_BITS)) for i in range(0, 9_000, 3)])
    assert 5 * len(record.written([BlockQuestion(many, 1.0, 1)], "units")) < many.marks.nbytes
