"""Columns hold what lists would, and compute what Python's integers would."""

from __future__ import annotations

import doctest
import math
import pickle
import random
from decimal import Context, Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsql.core import columns
from dpsql.core.columns import Column, Decimals, ResultRows, combined, ones, whole

WIDE = st.integers(-(2**70), 2**70)
EDGES = st.sampled_from([0, 1, -1, 2**31, -(2**31), 2**62, -(2**62), 2**63 - 1, -(2**63), 2**63, -(2**63) - 1, 2**64])
NUMBERS = st.lists(WIDE | EDGES)
VALUES = st.lists(st.none() | WIDE | EDGES | st.booleans() | st.text() | st.floats(allow_nan=False))


def test_the_examples_of_the_docstrings_hold() -> None:
    assert doctest.testmod(columns).failed == 0


@given(VALUES)
def test_a_column_is_the_list_that_it_was_made_of(values: list[object]) -> None:
    column = Column.of(values)
    assert (column.tolist(), list(column), len(column)) == (values, values, len(values))
    assert [column[i] for i in range(len(values))] == values
    assert list(map(type, column)) == list(map(type, values))
    assert [type(column[i]) for i in range(len(values))] == list(map(type, values))
    assert column == values
    assert Column.of(column) is column
    assert column[1:3] == values[1:3]
    assert column.take(np.arange(len(values))[::-1]) == values[::-1]


@given(st.lists(VALUES))
def test_joined_columns_are_their_lists_one_after_another(pieces: list[list[object]]) -> None:
    assert Column.joined([Column.of(piece) for piece in pieces]).tolist() == [
        value for piece in pieces for value in piece
    ]


@given(VALUES, st.lists(st.booleans()))
def test_nothing_is_left_where_a_value_is_suppressed(values: list[object], hidden: list[bool]) -> None:
    places = np.array([*hidden, *[False] * len(values)], dtype=np.bool_)[: len(values)]
    found = Column.of(values).without(places)
    assert found == [None if gone else value for value, gone in zip(values, places.tolist(), strict=True)]
    assert not any(found.values[places].tolist())


@given(st.lists(st.integers(-(2**63), 2**63 - 1)), st.integers(1, 18), st.data())
def test_decimals_are_their_digits(values: list[int], scale: int, data: st.DataObject) -> None:
    nulls = np.array([data.draw(st.booleans()) for _ in values], dtype=np.bool_)
    found = Decimals(np.array(values, dtype=np.int64), scale, nulls)
    known = [
        None if gone else Decimal(value).scaleb(-scale, Context(prec=30))
        for value, gone in zip(values, nulls, strict=True)
    ]
    for column, expected in ((found, known), (found[1:], known[1:]), (found.take(nulls), [None] * int(nulls.sum()))):
        assert [None if text is None else Decimal(text) for text in column] == expected
        assert list(column) == [column[i] for i in range(len(column))] == np.asarray(column).tolist()


def test_rows_are_made_of_their_columns() -> None:
    rows = ResultRows((Column.of([1, 2, 3]), Column.of(["a", None, "b"])))
    assert rows == [(1, "a"), (2, None), (3, "b")] == list(rows)
    assert (rows[-1], rows[1:], len(rows), repr(rows[:1])) == ((3, "b"), [(2, None), (3, "b")], 3, "[(1, 'a')]")


@pytest.mark.parametrize("size", [0, 1, 1023, 1024, 1025, 5000])
def test_single_rows_are_those_of_the_whole(size: int) -> None:
    rows = ResultRows((Column.of(list(range(size))), Column.of([str(i) for i in range(size)])))
    expected = [(i, str(i)) for i in range(size)]
    places = random.Random(size).choices(range(-size, size), k=200) if size else []
    assert [rows[i] for i in range(size)] == expected
    assert [rows[i] for i in places] == [expected[i] for i in places]
    for beyond in (size, -size - 1):
        with pytest.raises(IndexError):
            rows[beyond]


def test_columns_of_other_lengths_are_not_added_up() -> None:
    with pytest.raises(ValueError, match="as long as"):
        combined((1, [1, 2]), (1, [3]))


@given(st.lists(st.none() | WIDE))
def test_an_order_is_that_of_the_values_and_null_is_last(values: list[int | None]) -> None:
    expected = sorted(range(len(values)), key=lambda i: (values[i] is None, values[i] or 0))
    assert Column.of(values).order().tolist() == expected
    texts = [None if value is None else str(value) for value in values]
    assert Column.of(texts).order().tolist() == sorted(
        range(len(texts)), key=lambda i: (texts[i] is None, texts[i] or "")
    )


def test_text_is_ordered_by_code_point() -> None:
    assert Column.of(["\U0001f600", "\uffff", "Z", "a", ""]).order().tolist() == [4, 2, 3, 1, 0]


@given(st.lists(st.tuples(WIDE | EDGES, st.lists(WIDE | EDGES, min_size=3, max_size=3)), min_size=1, max_size=4))
def test_sums_of_columns_are_those_of_python(parts: list[tuple[int, list[int]]]) -> None:
    expected = [sum(factor * values[i] for factor, values in parts) for i in range(3)]
    assert combined(*parts) == expected


@given(st.lists(st.tuples(EDGES, st.lists(EDGES, min_size=1, max_size=1)), min_size=1, max_size=4))
def test_sums_at_the_edges_of_int64_are_exact(parts: list[tuple[int, list[int]]]) -> None:
    assert combined(*parts) == [sum(factor * values[0] for factor, values in parts)]


def test_small_numbers_are_held_in_eight_bytes_and_large_ones_whole() -> None:
    chance = random.Random(1)
    small = [chance.randrange(-(2**62), 2**62) for _ in range(1000)]
    assert Column.of(small).values.nbytes == 8000
    assert combined((3, small)).values.dtype == np.object_
    assert combined((1, small), (-1, small)) == ones(1000) == [0] * 1000
    assert ones(1, 2**70) == [2**70]
    assert combined((2**80, [])) == []
    assert combined((2**80, [0]), (1, [3])) == [3]


def test_null_is_no_whole_number() -> None:
    assert Column.of([1, 2]).without(np.array([False, True])) == [1, None]
    for values in ([1, None], [1.5], [True]):
        with pytest.raises(TypeError):
            whole(values)  # type: ignore[arg-type]


def test_numpy_reads_a_column_as_its_list() -> None:
    assert np.array(Column.of([1, 2**60 + 1]), dtype=float).tolist() == [1.0, float(2**60 + 1)]
    assert np.asarray(Column.of([1, None])).tolist() == [1, None]
    assert math.isnan(Column.of([math.nan, None])[0])  # type: ignore[arg-type]


def test_a_column_prints_none_of_its_values() -> None:
    column = Column.of([987654321])
    assert "987654321" not in f"{column!r}{column}"
    assert pickle.loads(pickle.dumps(column)) == [987654321]
