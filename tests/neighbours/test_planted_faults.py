"""A test of the tests: each of these faults, planted in the planner, is caught by the neighbour test."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path

import pytest

from dpsql import domains
from dpsql.aggregates import avg, base
from dpsql.aggregates import sum as sums
from dpsql.aggregates.avg import Pair
from dpsql.aggregates.base import Statistic, UnitSums
from dpsql.aggregates.sum import Total
from dpsql.aggregates.term import Term
from dpsql.domains import Interval
from dpsql.plan import Release
from dpsql.planner import lower, measure
from tests.support.neighbours import Cases, Violation

Patch = pytest.MonkeyPatch
MOST_CASES = 1200


def no_clamp(patch: Patch) -> None:
    patch.setattr(
        Term, "own_sql", lambda self, x: f"TRY_CAST(TRY_CAST({x} AS DOUBLE) / {float(self.quantum)!r} AS BIGINT)"
    )
    patch.setattr(
        Term, "quanta_sql", lambda self, x: f"TRY_CAST(TRY_CAST({x} AS DOUBLE) / {float(self.quantum)!r} AS BIGINT)"
    )


def _without(patch: Patch, *pieces: tuple[str, str]) -> None:
    """Take pieces out of the SQL of a clamped value."""
    own, quanta = Term.own_sql, Term.quanta_sql

    def changed(original: Callable[[Term, str], str]) -> Callable[[Term, str], str]:
        def sql(self: Term, x: str) -> str:
            text = original(self, x)
            for old, new in pieces:
                text = text.replace(old.format(x=x), new.format(x=x))
            return text

        return sql

    patch.setattr(Term, "own_sql", changed(own))
    patch.setattr(Term, "quanta_sql", changed(quanta))


def no_lower_clamp(patch: Patch) -> None:
    def sql(self: Term, x: str) -> str:
        scaled = f"TRY_CAST(TRY_CAST({x} AS DOUBLE) / {float(self.quantum)!r} AS BIGINT)"
        return (
            f"CASE WHEN isnan(TRY_CAST({x} AS DOUBLE)) OR {x} IS NULL THEN NULL ELSE LEAST({self.upper}, {scaled}) END"
        )

    patch.setattr(Term, "own_sql", sql)
    patch.setattr(Term, "quanta_sql", sql)


def forgotten_quantum(patch: Patch) -> None:
    patch.setattr(Term, "width", property(lambda self: max(1, int((self.upper - self.lower) * self.quantum))))
    patch.setattr(
        Term, "magnitude", property(lambda self: max(1, int(max(abs(self.lower), abs(self.upper)) * self.quantum)))
    )


def magnitude_ignores_the_lower_bound(patch: Patch) -> None:
    patch.setattr(Term, "magnitude", property(lambda self: max(1, abs(self.upper))))


def count_star_in_the_pair(patch: Patch) -> None:
    original = Pair.row_sums

    def row_sums(self: Pair, names: Sequence[str]) -> tuple[str, ...]:
        found = original(self, names)
        return (f"count(*){sums.filtered(names[1:])}", *found[1:])

    patch.setattr(Pair, "row_sums", row_sums)


def total_and_count_clamped_apart(patch: Patch) -> None:
    def apart(term: Term, total: str, n: str, cut: str) -> str:
        low, high = f"CAST({term.lower} AS HUGEINT)", f"CAST({term.upper} AS HUGEINT)"
        return f"GREATEST({low} * 3, LEAST({high} * 3, COALESCE({total}, 0)))"

    patch.setattr(avg, "clamped_total", apart)
    patch.setattr(sums, "clamped_total", apart)


def keys_folded_after_the_cut(patch: Patch) -> None:
    """Undeclared keys are not dropped before the limits; afterwards they join the first declared key."""
    original = lower._per_unit

    def folded(release: Release, statistics: list[Statistic], names: list[list[str]], rows: str) -> str:
        whole = [key for key in release.keys if key.values is not None and isinstance(key.values[0], int)]
        for key in whole:
            rows = rows.replace(lower._declared(key), "true")
        sql = original(release, statistics, names, rows)
        for key in whole:
            assert key.values is not None
            listed = ", ".join(str(int(v)) for v in key.values if v is not None)
            fold = f"CASE WHEN {key.name} IN ({listed}) THEN {key.name} ELSE {key.values[0]} END"
            sql = sql.replace(f"{key.name}, ", f"{fold} AS {key.name}, ", 1)
        return sql.rpartition(" GROUP BY ")[0] + " GROUP BY ALL" if whole else sql

    patch.setattr(lower, "_per_unit", folded)


def null_guard_missing(patch: Patch) -> None:
    own, quanta = Term.own_sql, Term.quanta_sql
    patch.setattr(Term, "own_sql", lambda self, x: f"COALESCE({own(self, x)}, 0)")
    patch.setattr(Term, "quanta_sql", lambda self, x: f"COALESCE({quanta(self, x)}, 0)")


def nan_guard_missing(patch: Patch) -> None:
    _without(patch, (" AND NOT isnan({x})", ""))


def two_corners_only(patch: Patch) -> None:
    def multiply(a: Interval, b: Interval) -> Interval:
        low, high = sorted((a.lower * b.lower, a.upper * b.upper))
        return Interval(low, high)

    from dpsql.algebra import arithmetic

    patch.setattr(domains, "multiply", multiply)
    patch.setitem(arithmetic._INTERVALS, "*", multiply)


def threshold_off_by_one(patch: Patch) -> None:
    original = measure.threshold
    patch.setattr(measure, "threshold", lambda noise, l0, delta: original(noise, l0, delta) - 1)


def cut_by_other_people(patch: Patch) -> None:
    """The groups that a unit keeps depend on how many people are in them."""
    original = lower._ordered

    def ordered(by_unit: str, keys: list[str], limits: base.Limits, parts: int) -> str:
        sql = original(by_unit, keys, limits, parts)
        return sql.replace("PARTITION BY u ORDER BY md5(", "ORDER BY md5(")

    patch.setattr(lower, "_ordered", ordered)


def no_limit_on_groups(patch: Patch) -> None:
    original = lower._cut
    patch.setattr(lower, "_cut", lambda sql, limits, parts: original(sql, base.Limits(limits.rows, 1000), parts))


def no_limit_on_rows(patch: Patch) -> None:
    original = lower._cut
    patch.setattr(lower, "_cut", lambda sql, limits, parts: original(sql, base.Limits(10**6, limits.groups), parts))


def rows_cut_in_each_group_anew(patch: Patch) -> None:
    original = lower._ordered

    def ordered(by_unit: str, keys: list[str], limits: base.Limits, parts: int) -> str:
        sql = original(by_unit, keys, limits, parts)
        for i in range(parts):
            sql = sql.replace(f" AS before{i}", f" * 0 AS before{i}")
        return sql

    patch.setattr(lower, "_ordered", ordered)


def third_cell_beside_values(patch: Patch) -> None:
    """COUNT(*) counted in full beside the pair, instead of the rows without a value."""
    original = Pair.to_cells

    def to_cells(self: Pair, found: Sequence[list[int]]) -> tuple[list[int], ...]:
        cells = original(self, found)
        return (*cells[:2], [self.term.width * m for m in found[2]]) if self.with_rows else cells

    patch.setattr(Pair, "to_cells", to_cells)


def clamp_of_nothing(patch: Patch) -> None:
    """A unit without a value adds a clamped zero."""
    original = Total.unit_sums

    def unit_sums(self: Total, names: Sequence[str]) -> UnitSums:
        found = original(self, names)
        return UnitSums(
            found.rows, found.inner, (f"GREATEST({self.term.lower}, LEAST({self.term.upper}, {found.outer[0]}))",)
        )

    patch.setattr(Total, "unit_sums", unit_sums)


def noise_divided(patch: Patch) -> None:
    from dpsql.mechanisms.laplace import DiscreteLaplace

    def for_loss(l1: int, epsilon: Fraction) -> DiscreteLaplace:
        return DiscreteLaplace(l1 / epsilon * Fraction(10, 13))

    patch.setattr(DiscreteLaplace, "for_loss", staticmethod(for_loss))


FAULTS = [
    no_clamp,
    no_lower_clamp,
    forgotten_quantum,
    magnitude_ignores_the_lower_bound,
    count_star_in_the_pair,
    total_and_count_clamped_apart,
    keys_folded_after_the_cut,
    null_guard_missing,
    nan_guard_missing,
    two_corners_only,
    threshold_off_by_one,
    cut_by_other_people,
    no_limit_on_groups,
    no_limit_on_rows,
    rows_cut_in_each_group_anew,
    third_cell_beside_values,
    clamp_of_nothing,
    noise_divided,
]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_planted_fault_is_caught(fault: Callable[[Patch], None], tmp_path: Path, monkeypatch: Patch) -> None:
    fault(monkeypatch)
    with pytest.raises(Violation):
        Cases(tmp_path, 100).run(MOST_CASES)
