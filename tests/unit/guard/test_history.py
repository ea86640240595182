"""Answers close to an earlier one are found, and nothing else is refused."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpsql.guard import cells as of_cells
from dpsql.guard import sketches as of_sketches
from dpsql.guard.arrays import Places
from dpsql.guard.cells import HASH_BITS, Keys, Marks, cells, differences
from dpsql.guard.history import BlockQuestion, History
from dpsql.guard.leaving_out import Policy
from dpsql.guard.sketches import Sketches, _distances

POLICY = Policy(20, 1.0)


def keys(units: Iterable[int], adds: int = 1) -> Keys:
    return (np.array(sorted(units), dtype=np.uint32) << np.uint32(HASH_BITS)) | np.uint32(adds)


def differing(one: Keys, other: Keys) -> int:
    return len(np.unique(np.setxor1d(one, other) >> np.uint32(HASH_BITS)))


def asked(units: range | list[int], spread: float = 0.1, adds: int = 1, kind: str = "adds") -> BlockQuestion:
    return BlockQuestion(cells([(kind, keys(units, adds))]), spread, len(units))


def history(*earlier: BlockQuestion) -> History:
    found = History(POLICY, 10, lambda charge, place: earlier[charge - 1].cells.load(place))
    for charge, one in enumerate(earlier, 1):
        found.remember([one], charge)
    return found


@pytest.mark.parametrize(
    "earlier, now, people",
    [
        (range(1_000), range(999), 1),
        (range(999), range(1_000), 1),
        (range(1_000), range(981), 19),
        (range(1_000), range(980), None),
        (range(1_000), range(1_000), None),
        (range(1_000), range(10, 1_009), 19),
        (range(1_000), range(2_000, 3_000), None),
        (range(19), range(18), 1),
        (range(5), range(5, 10), None),
    ],
)
def test_a_pair_of_which_few_are_the_difference(earlier: range, now: range, people: int | None) -> None:
    found = history(asked(earlier)).conflict([asked(now)])
    assert (found.people if found is not None else None) == people


def test_what_is_added_counts_and_kinds_are_apart() -> None:
    many = list(range(1_000))
    assert history(asked(many)).conflict([asked(many, adds=2)]) is None, "everybody adds something else"
    one_more = BlockQuestion(cells([("adds", np.sort(np.r_[keys(many[1:]), keys(many[:1], adds=7)]))]), 0.1, 1_000)
    assert history(asked(many)).conflict([one_more]) is not None
    assert history(asked(many)).conflict([asked(many[1:], kind="max of x")]) is None


def test_noise_decides_whether_a_difference_can_be_read() -> None:
    few = list(range(999))
    assert history(asked(range(1_000), spread=8.0)).conflict([asked(few, spread=8.0)]) is None
    assert history(asked(range(1_000), spread=7.0)).conflict([asked(few, spread=7.0)]) is not None
    many = [asked(range(1_000), spread=13.0) for _ in range(4)]
    assert history(*many).conflict([asked(few, spread=7.0)]) is not None, (
        "the mean of equal answers is what is compared"
    )
    assert history(*many[:1]).conflict([asked(few, spread=7.0)]) is None


def test_parts_of_one_statement_are_a_pair() -> None:
    found = history().conflict([asked(range(1_000)), asked(range(999))])
    assert found is not None and found.earlier is None


@pytest.mark.parametrize("many", [64, 1], ids=["by size", "by buckets"])
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40), st.integers(1, 2)), min_size=2, max_size=12),
    st.integers(1, 20),
    st.integers(0, 12),
)
def test_nothing_close_is_missed(
    many: int, monkeypatch: pytest.MonkeyPatch, ranges: list[tuple[int, int, int]], most: int, first: int
) -> None:
    """The sizes and the sketches leave out only what differs by more, however the cells came."""
    monkeypatch.setattr("dpsql.guard.sketches._MANY", many)
    found = [keys(range(low, low + many), adds) for low, many, adds in ranges]
    marks, sketches = cells([("adds", one) for one in found]).marks, Sketches()
    sketches.add(marks[:first])
    sketches.add(marks[first:])
    ones, others = sketches.near(np.ones(len(found), dtype=np.bool_), marks, most)
    near = list(zip(ones.tolist(), others.tolist(), strict=True))
    every = itertools.product(range(len(found)), repeat=2)
    assert {(i, j) for i, j in every if differing(found[i], found[j]) < most} <= set(near)
    assert near == sorted(set(near))


@settings(max_examples=30, deadline=None)
@given(
    st.integers(0, 2**32),
    st.sampled_from([1, 2, 4, 8]),
    st.sampled_from([(0, 4), (1, 9), (4, 36), (30, 45), (150, 170), (0, 390)]),
)
def test_many_cells_are_found_by_buckets_and_parts_as_others_by_their_size(
    seed: int, most: int, sizes: tuple[int, int]
) -> None:
    """Cells of some of 400 units, so that many share buckets, each with another that lacks some of its units and has some more."""
    found = almost_alike(seed, 60, 400, sizes)
    marks, sketches = cells([("adds", one) for one in found]).marks, Sketches()
    sketches.add(marks)
    able = np.arange(len(found)) % 7 > 0
    by_size = _near(sketches, able, marks, most, 32, len(found) + 1)
    assert len(by_size[0]) >= able.sum()
    for small in (-1, 32, 400):
        assert np.array_equal(_near(sketches, able, marks, most, small, 1), by_size)


def _near(
    sketches: Sketches, able: npt.NDArray[np.bool_], marks: Marks, most: int, small: int, many: int
) -> tuple[Places, Places]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dpsql.guard.sketches._SMALL", small)
        patch.setattr("dpsql.guard.sketches._MANY", many)
        return sketches.near(able, marks, most)


def test_pairs_that_share_no_low_bucket_would_be_missed_where_fewer_are_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Cells of seven units, of which they share four: the fault that the test above must catch."""
    found = [keys(range(7)), keys(range(3, 10))]
    marks, sketches = cells([("adds", one) for one in found]).marks, Sketches()
    sketches.add(marks)
    able, known = np.ones(2, dtype=np.bool_), of_sketches._lowest
    assert len(_near(sketches, able, marks, 4, 32, 1)[0]) == 4
    monkeypatch.setattr(of_sketches, "_lowest", lambda words, most: known(words, 1))
    assert len(_near(sketches, able, marks, 4, 32, 1)[0]) == 2


def test_pairs_that_agree_in_no_part_would_be_missed_where_there_are_fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cells of a hundred units that differ by three: the other fault that the test above must catch."""
    found = [keys(range(100)), keys(range(3, 103))]
    marks, sketches = cells([("adds", one) for one in found]).marks, Sketches()
    sketches.add(marks)
    able, known = np.ones(2, dtype=np.bool_), of_sketches._agreeing
    assert len(_near(sketches, able, marks, 7, 32, 1)[0]) == 4
    monkeypatch.setattr(of_sketches, "_agreeing", lambda own, others, most: known(own, others, 1))
    assert len(_near(sketches, able, marks, 7, 32, 1)[0]) == 2


def almost_alike(seed: int, many: int, units: int, sizes: tuple[int, int]) -> list[Keys]:
    draw = np.random.default_rng(seed)
    found = [draw.choice(units, int(draw.integers(*sizes)), replace=False).tolist() for _ in range(many)]
    others = [
        [*one[int(draw.integers(0, 3)) :], *draw.choice(10**5, int(draw.integers(0, 3))).tolist()] for one in found
    ]
    return [keys(dict.fromkeys(one)) for one in (*found, *others)]


@given(st.integers(0, 2**32))
def test_differences_of_many_are_those_of_each(seed: int) -> None:
    draw = np.random.default_rng(seed)
    found = almost_alike(seed, 5, 40, (0, 30))
    adding = [np.sort(one ^ draw.integers(0, 2, len(one), dtype=np.uint32)) for one in found]
    every = [*found, *adding]
    ones, others = draw.integers(0, len(every), (2, 50))
    expected = [differing(every[one], every[other]) for one, other in zip(ones, others, strict=True)]
    assert differences(every, ones, others).tolist() == expected


def test_bits_are_counted_alike_by_earlier_versions_of_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    ones = np.random.default_rng(1).integers(0, 2**64, (4, 9), dtype=np.uint64)
    expected = [sum((word ^ int(ones[k, 0])).bit_count() for k, word in enumerate(row)) for row in ones.T.tolist()]
    assert _distances(ones.T, ones.T[:1]).tolist() == expected
    monkeypatch.delattr(np, "bitwise_count", raising=False)
    assert _distances(ones.T, ones.T[:1]).tolist() == expected


def test_where_one_sample_unit_stands_for_enough_people_no_difference_is_looked_for() -> None:
    """One sample unit of 30 people: what differs by one differs by more than 20."""
    found = History(Policy(20, 30.0), 10, lambda charge, place: keys(range(1_000)))
    found.remember([asked(range(1_000))], 1)
    assert found.conflict([asked(range(999))]) is None
    closer = History(Policy(20, 19.0), 10, lambda charge, place: keys(range(1_000)))
    closer.remember([asked(range(1_000))], 1)
    assert closer.conflict([asked(range(999))]) is not None


@given(st.lists(st.lists(st.integers(0, 2**20), unique=True, max_size=30), max_size=20))
def test_sketches_that_are_made_together_are_those_of_each(units: list[list[int]]) -> None:
    found = [keys(one) for one in units]
    marks = cells([("adds", one) for one in found]).marks
    assert [mark.tobytes() for mark in marks["sketch"]] == [of_cells._sketches([one]).tobytes() for one in found]
