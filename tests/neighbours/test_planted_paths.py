"""A test of the tests: faults in what says whose row it is, each caught by the neighbours with two ways to a person."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dpsql.core.sqltypes import DOUBLE, VARCHAR
from dpsql.expressions import scalar as scalars
from dpsql.expressions.scalar import Scalar
from dpsql.planner.resolve import not_joined
from dpsql.relations import declared
from dpsql.schema import checks, paths
from dpsql.schema.model import Reference, Schema, Table
from dpsql.schema.paths import Disagreement, HeldKey, named_keys
from dpsql.sql.nodes import Call, Cast, Node
from tests.support import market_cases
from tests.support.cases import some
from tests.support.market_cases import MarketCases
from tests.support.violation import Violation

Patch = pytest.MonkeyPatch
MOST_CASES = 900
SEED = 41
SEEDS = {
    "a_name_in_place_of_a_path": 42,
    "the_declared_path_is_dropped": 42,
    "a_dangling_reference_belongs_to_somebody": 48,
}
"""Seeds with which a fault is met early; the number of cases that are tried is the same for all."""


def a_name_in_place_of_a_path(patch: Patch) -> None:
    """Every reference holds the key that it names, as if the key had one way to go: its own table's."""

    def held(schema: Schema, table: Table) -> dict[str, frozenset[HeldKey]]:
        def key(name: tuple[str, str]) -> HeldKey:
            far = schema.table(name[0])
            assert far is not None
            return HeldKey(name[0], name[1:], schema.path_to_unit(far))

        return {column: frozenset(map(key, names)) for column, names in named_keys(schema, table).items()}

    patch.setattr(declared, "held_keys", held)


def names_are_compared(patch: Patch) -> None:
    """Two columns hold the same key where its name is the same; paths that disagree are read."""

    def same_name(one: Scalar, other: Scalar) -> bool:
        return bool({(k.table, k.columns) for k in one.held} & {(k.table, k.columns) for k in other.held})

    patch.setattr(checks, "disagreements", lambda schema: iter(()))
    for module in (scalars, not_joined):
        patch.setattr(module, "same_key", same_name)


def a_path_may_leave_that_of_its_tables(patch: Patch) -> None:
    """Joins compare whole paths, but reading lets a path lead over rows of other people."""
    patch.setattr(checks, "disagreements", lambda schema: iter(()))


def only_the_end_of_a_path_is_compared(patch: Patch) -> None:
    """All paths end at the same person's key: the columns on the way are dropped from what is compared."""

    def ends(schema: Schema) -> Iterator[Disagreement]:
        for found in paths.disagreements(schema):
            if (found.path[-1].table, found.path[-1].targets) != (found.own[-1].table, found.own[-1].targets):
                yield found

    patch.setattr(checks, "disagreements", ends)


def the_declared_path_is_dropped(patch: Patch) -> None:
    """The first path that leads to the unit is taken, whatever the owner chose."""

    def first(self: Schema, table: Table) -> tuple[Reference, ...]:
        found = self.paths_to_unit(table)
        return found[0] if found and table.name != self.privacy.unit_table else ()

    patch.setattr(Schema, "path_to_unit", first)


def the_last_step_of_a_path_is_dropped(patch: Patch) -> None:
    """A value one step from the unit is taken for the unit: an order's number for its buyer."""
    original = Schema.unit_column

    def near(self: Schema, table: Table) -> str | None:
        path = self.path_to_unit(table)
        return path[0].columns[0] if len(path) == 2 else original(self, table)

    patch.setattr(Schema, "unit_column", near)


def a_dangling_reference_belongs_to_somebody(patch: Patch) -> None:
    """Rows whose way breaks off are given to the first person there is."""
    original = market_cases.unit_view

    def view(schema: Schema, table: Table) -> str:
        sql = original(schema, table).replace(" JOIN ", " LEFT JOIN ")
        items, _, name = sql.rpartition(' AS "dpsql unit"')
        before, _, unit = items.rpartition(", ")
        return f'{before}, COALESCE({unit}, (SELECT min(p_id) FROM person)) AS "dpsql unit"{name}'

    patch.setattr(market_cases, "unit_view", view)


def _unit_read_as(patch: Patch, read: Callable[[Node], Node]) -> None:
    original = declared._unit

    def unit(schema: Schema, table: Table, alias: str) -> Scalar:
        found = original(schema, table, alias)
        return replace(found, tree=read(found.tree))

    patch.setattr(declared, "_unit", unit)


def a_unit_is_read_as_a_double(patch: Patch) -> None:
    """Keys of 2^100 and more, and DECIMALs with many digits, are then one person."""
    _unit_read_as(patch, lambda key: Call("COALESCE", (Cast(Cast(key, DOUBLE), VARCHAR), Cast(key, VARCHAR))))


def units_that_look_alike_are_one(patch: Patch) -> None:
    _unit_read_as(patch, lambda key: Call("trim", (Call("lower", (Cast(key, VARCHAR),)),)))


FAULTS = [
    a_name_in_place_of_a_path,
    names_are_compared,
    a_path_may_leave_that_of_its_tables,
    only_the_end_of_a_path_is_compared,
    the_declared_path_is_dropped,
    the_last_step_of_a_path_is_dropped,
    a_dangling_reference_belongs_to_somebody,
    a_unit_is_read_as_a_double,
    units_that_look_alike_are_one,
]


@pytest.mark.parametrize("fault", some(FAULTS, 2), ids=lambda fault: fault.__name__)
def test_a_planted_fault_of_a_path_is_caught(
    fault: Callable[[Patch], None], tmp_path: Path, monkeypatch: Patch
) -> None:
    fault(monkeypatch)
    with pytest.raises(Violation) as caught:
        MarketCases(tmp_path, SEEDS.get(fault.__name__, SEED), row_level=0).run(MOST_CASES)
    assert "the planner failed" not in str(caught.value) and "the engine raised" not in str(caught.value)
