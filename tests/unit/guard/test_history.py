"""What is close to an earlier answer is found, and nothing else is refused."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.guard.cells import HASH_BITS, Keys, apart, cells, differing
from dpsql.guard.history import Asked, History, Past
from dpsql.guard.leaving_out import Policy

POLICY = Policy(20, 1.0)


def keys(units: Iterable[int], adds: int = 1) -> Keys:
    return (np.array(sorted(units), dtype=np.uint32) << np.uint32(HASH_BITS)) | np.uint32(adds)


def asked(units: range | list[int], spread: float = 0.1, adds: int = 1, kind: str = "adds", groups: int = 1) -> Asked:
    return Asked(cells([(kind, keys(units, adds))]), spread, len(units), groups)


def past(one: Asked) -> Past:
    return Past(1, "ann", "SELECT 1", (one,))


def history(*earlier: Asked) -> History:
    found = History(POLICY, 10)
    found.add([(one, past(one)) for one in earlier])
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


def test_small_groups_of_a_breakdown_make_no_pair() -> None:
    """They are suppressed by their noisy number."""
    one, other = (asked(range(size), groups=2) for size in (19, 18))
    assert history(one).conflict([other]) is None


def test_what_is_added_counts_and_kinds_are_apart() -> None:
    many = list(range(1_000))
    assert history(asked(many)).conflict([asked(many, adds=2)]) is None, "everybody adds something else"
    one_more = Asked(cells([("adds", np.sort(np.r_[keys(many[1:]), keys(many[:1], adds=7)]))]), 0.1, 1_000)
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


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 60), st.integers(300, 360), st.integers(1, 2)), min_size=2, max_size=12))
def test_nothing_close_is_missed(ranges: list[tuple[int, int, int]]) -> None:
    """The sketch leaves out only what differs by more."""
    found = [keys(range(low, high), adds) for low, high, adds in ranges]
    marks = cells([("adds", one) for one in found]).marks
    distances = apart(marks["sketch"][1:], marks["sketch"][0])
    for other, distance in zip(found[1:], distances, strict=True):
        assert distance <= 2 * differing(found[0], other)
        assert distance == 0 or differing(found[0], other) > 0
