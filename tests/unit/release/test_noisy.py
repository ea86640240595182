"""From exact sums to a noisy table: which groups there are, in which order, and what of them is shown. Without noise."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dpsql.aggregates.count import CountOf
from dpsql.core.columns import Column, objects
from dpsql.core.errors import Error
from dpsql.engines.base import ExactTable
from dpsql.plan.compiled import CompiledRelease
from dpsql.plan.releases import NoisyCount, Suppression
from dpsql.planner.options import Options
from dpsql.planner.parse import parse
from dpsql.release.noisy import _Dimension, release, sieve
from tests.support.noise import RecordedNoise, ZeroNoise
from tests.support.planning import compile_statement
from tests.support.stages import schema_of


def compiled(sql: str) -> CompiledRelease:
    return compile_statement(parse(sql), Options(), schema_of("patient")).releases[0]


def test_declared_groups_are_all_there_in_their_order_and_no_other() -> None:
    exact = ExactTable(([3, 9, 1],), ([30, 90, 10],))
    found = release(compiled("SELECT site, COUNT(*) FROM patient GROUP BY site"), exact, ZeroNoise())
    assert (found.keys, list(found.cells), found.groups) == (([1, 2, 3],), [[10, 0, 30]], 3)


def test_empty_groups_have_noise_too() -> None:
    noise = RecordedNoise()
    release(compiled("SELECT site, COUNT(*) FROM patient GROUP BY site"), ExactTable(([],), ([],)), noise)
    assert [size for _, _, size in noise.drawn] == [3]


def test_groups_of_which_nothing_is_summed_are_all_there_too() -> None:
    part = compiled("SELECT site, MODE(female) AS female FROM patient GROUP BY site")
    assert not part.release.measures and part.release.chosen
    histogram = ExactTable(([3, 3], [0, 1]), ([90, 10],))
    found = release(part, None, ZeroNoise(), histograms=[histogram])
    assert (found.keys, found.groups) == (([1, 2, 3],), 3) and len(found.cells[0]) == 3


def test_without_groups_there_is_one() -> None:
    found = release(compiled("SELECT COUNT(*) FROM patient"), ExactTable((), ([],)), ZeroNoise())
    assert list(found.cells) == [[0]]


def test_a_selected_group_reaches_the_threshold_and_groups_are_sorted() -> None:
    part = compiled("SELECT code, COUNT(*) FROM patient GROUP BY code")
    assert part.release.selection is not None
    tau = part.release.selection.tau
    exact = ExactTable(([None, 7, 5, 6, 4],), ([tau, tau, tau + 1, tau - 1, 0],))
    found = release(part, exact, ZeroNoise())
    assert (found.keys, list(found.cells)) == (([5, 7, None],), [[tau + 1, tau, tau]])


def test_candidates_that_come_in_batches_are_drawn_once_and_give_the_same() -> None:
    """The number of units of each, and everything else of those alone that are left."""
    part = compiled("SELECT code, COUNT(*), SUM(income) FROM patient GROUP BY code")
    assert part.release.selection is not None
    tau, chosen = part.release.selection.tau, sieve(part, noise := RecordedNoise())
    assert chosen is not None
    keys, units, sums = [None, 7, 5, 6, 4], [tau, tau, tau + 1, tau - 1, 0], [10, 20, 30, 40, 50]
    whole = ExactTable((keys,), (units, sums))
    batches = [ExactTable((keys[i : i + 2],), (units[i : i + 2], sums[i : i + 2])) for i in (0, 2, 4)]
    left = ExactTable.joined([chosen(batch) for batch in batches])
    assert [*map(len, left.open_exact()[1])] == [3, 3]
    found = release(part, left, noise)
    assert found == release(part, whole, ZeroNoise()) and found.groups == 3
    assert [size for _, _, size in noise.drawn] == [2, 2, 1, 3]


def test_a_failure_among_candidates_tells_nothing_of_them() -> None:
    class Broken(ZeroNoise):
        def laplace(self, scale: object, size: int) -> list[int]:
            raise ValueError("size")

    chosen = sieve(compiled("SELECT code, COUNT(*) FROM patient GROUP BY code"), Broken())
    assert chosen is not None
    with pytest.raises(Error, match=r"DPSQL-901") as raised:
        chosen(ExactTable(([7],), ([1],)))
    assert raised.value.__context__ is None


@pytest.mark.parametrize("sql", ["SELECT site, COUNT(*) FROM patient GROUP BY site", "SELECT COUNT(*) FROM patient"])
def test_declared_groups_are_all_needed(sql: str) -> None:
    assert sieve(compiled(sql), ZeroNoise()) is None


def test_a_group_with_nobody_is_not_selected_whatever_its_noise() -> None:
    class Loud(ZeroNoise):
        def laplace(self, scale: object, size: int) -> list[int]:
            return [1000] * size

    found = release(
        compiled("SELECT code, COUNT(*) FROM patient GROUP BY code"), ExactTable(([1, 2],), ([0, 1],)), Loud()
    )
    assert found.keys == ([2],)


def test_what_too_few_people_are_in_is_not_shown() -> None:
    part = compiled("SELECT site, COUNT(*) FROM patient GROUP BY site")
    one = Suppression(NoisyCount(0, CountOf(1)), 5, (part.release.outputs[0].name,))
    part = replace(part, release=replace(part.release, suppressed=(one,)))
    found = release(part, ExactTable(([1, 2, 3],), ([4, 5, 6],)), ZeroNoise())
    assert list(found.cells) == [[None, 5, 6]]


def test_whole_numbers_are_found_in_their_list_as_any_value_is() -> None:
    listed, keys = [7, -3, 2**62, 0], [0, 5, -3, 2**62, 7, 7, None]
    fast = _Dimension((0,), (Column.of(listed),)).found((Column.of(keys),))
    slow = _Dimension((0,), (Column(objects(listed)),)).found((Column.of(keys),))
    assert fast.tolist() == slow.tolist() == [3, -1, 1, 2, 0, 0, -1]
    with pytest.raises(Error, match="stands there twice"):
        _Dimension((0,), (Column.of([1, 1]),)).found((Column.of([1]),))
