"""measure: BoundedBlock -> Release. The statistics of all aggregates (statistics.py) get a share of the price and their noise."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from dpsql.aggregates.base import Statistic
from dpsql.aggregates.count import Rows
from dpsql.aggregates.count_distinct import Units
from dpsql.core.loss import NO_LOSS
from dpsql.expressions.scalar import Scalar, tree_of
from dpsql.mechanisms.calibration import BY_NAME
from dpsql.plan.releases import BoundedBlock, NoisyCount, Output, Read, Release, SmallCell, Suppression
from dpsql.plan.resolved import Block
from dpsql.planner.buying import buy_one
from dpsql.planner.request import Parts, Request
from dpsql.planner.statistics import Statistics, statistics_of, ways_of
from dpsql.schema.model import Schema, Table, with_unit
from dpsql.schema.moving import undated
from dpsql.sql.nodes import Node
from dpsql.sql.trees import VERSION, fingerprint


@dataclass(frozen=True, slots=True)
class MinimumCellSize:
    """Minimum cell size: aggregates are shown only where the noisy number of people with a row that they are about is
    at least `k`."""

    small: tuple[SmallCell, ...]
    k: int


NOWHERE = MinimumCellSize((), 0)


def measure(
    limited: BoundedBlock, request: Request, identity: str, reads: Mapping[str, str], few: MinimumCellSize = NOWHERE
) -> Release:
    """The release of a limited block on the terms of a request.

    identity  hash of the declarations that the block depends on, part of the fingerprint
    reads     what each input table is made of, by its name: the fingerprint holds it
    few       where a number of people decides what is shown: it is one of the statistics, and paid for like them

    Raises 104 (weights or an accuracy that do not fit), 201 (a sum without bounds), 202 (noise too wide), 502 (an accuracy above the
    cap).
    """
    block = limited.block
    deciding = {name: tree_of(one.condition) for one in few.small for name in one.outputs}
    if request.weights is None:
        ways = ways_of(limited, request.units, deciding, _counted(limited, few))
    else:
        ways = [statistics_of(limited, request.units, deciding)]
    counts = [[_number(limited, way, small.condition) for small in few.small] for way in ways]
    present = [_present(limited, way) if block.present else None for way in ways]
    asked = [way.parts() for way in ways]
    if not len(asked[0]):
        return Release(limited, (), None, (), NO_LOSS, _fingerprint(asked[0], request, identity, reads, few))
    taken, bought = buy_one(asked, request)
    parts, small = asked[taken], zip(counts[taken], few.small, strict=True)
    return Release(
        limited,
        bought.measures,
        bought.selection,
        tuple(Output(a.name, place, estimate) for a, place, estimate in parts.reads),
        bought.loss,
        _fingerprint(parts, request, identity, reads, few),
        bought.chosen,
        tuple(Read(a.name, place, reading) for a, place, reading in parts.readings),
        bought.compared,
        raised=bought.raised,
        present=present[taken],
        suppressed=tuple(Suppression(count, few.k, one.outputs) for count, one in small),
    )


def _people(limited: BoundedBlock, condition: Scalar | None) -> Statistic:
    """The number of people in a group, or of those with a row that a condition keeps; as COUNT(*) of them asks for it, if it does."""
    return Units(condition) if limited.enforced or (limited.block.selects and condition is None) else Rows(condition)


def _number(limited: BoundedBlock, way: Statistics, condition: Scalar | None) -> NoisyCount:
    """The number of people with a row that a condition keeps, by which it is decided whether what is about them is shown."""
    people, tree = _people(limited, condition), tree_of(condition)
    return way.count(people, way.joined.get((tree, tree)) if not people.counts_units else None)


def _present(limited: BoundedBlock, way: Statistics) -> NoisyCount:
    """The count by which a group is there: one that is asked for anyway, else the number of people."""
    asked = [one for one in (Rows(None), Units(None)) if one.identity in way.found]
    people = _people(limited, None)
    joint = next((joint for (condition, _), joint in way.joined.items() if condition is None), None)
    return way.count(asked[0], None) if asked else way.count(people, joint if not people.counts_units else None)


def _counted(limited: BoundedBlock, few: MinimumCellSize) -> frozenset[Node | None]:
    """The conditions of rows whose number is needed, as that of the people who have them, or as what says that a group is there."""
    found = {tree_of(small.condition) for small in few.small if not _people(limited, small.condition).counts_units}
    return frozenset(found | ({None} if limited.block.present and not _people(limited, None).counts_units else set()))


def _fingerprint(asked: Parts, request: Request, identity: str, reads: Mapping[str, str], few: MinimumCellSize) -> str:
    """Fingerprint of the question; no scale, threshold or mechanism that was taken, which follow from it (rule 40).

    Why  the statistics alone do not say which aggregate a weight belongs to, nor which columns must be as exact as was asked
    """
    limited, block = asked.limited, asked.limited.block
    unit = block.source.unit
    source, where = block.source.read(), frozenset(condition.tree for condition in block.source.where)
    keys = tuple((key.scalar.tree, key.values) for key in block.keys)
    statistics = tuple(statistic.identity for statistic in asked.statistics)
    over_histogram = tuple(over_histogram.identity for over_histogram in asked.over_histogram)
    by_aggregate = request.weights is not None or request.accuracy_target is not None
    return fingerprint(
        source,
        VERSION,
        tree_of(unit.column) if unit is not None else None,
        where,
        keys,
        tuple((listed.keys, listed.bound) for listed in block.lists),
        (limited.limits.rows, limited.limits.groups, limited.enforced),
        statistics,
        over_histogram,
        tuple(aggregate.asked for aggregate in block.aggregates) if by_aggregate else (),
        request.text,
        tuple((few.k, tree_of(small.condition), small.outputs) for small in few.small),
        # what is chosen has the error of its own terms: with another accountant it is another question
        str(request.accounted)
        if not _is_pure(request.mechanism) and (block.selects or asked.over_histogram or reads)
        else "",
        _used(block, reads) if reads else (),
        identity,
    )


def _used(block: Block, reads: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Sources of the input tables that a block reads."""
    read = block.reads
    return tuple((name, made) for name, made in reads.items() if name in read)


def _is_pure(mechanism: str) -> bool:
    return mechanism in BY_NAME and BY_NAME[mechanism].pure


# --- identity of declarations in the names of stored answers -------------------------------------------------------------


def schema_identity(schema: Schema) -> str:
    """A hash of everything declared that can decide what a statement means."""
    return _hash(schema, schema.tables)


class Identities:
    """Hashes of what is declared.

    whole  schema_identity of the schema
    """

    def __init__(self, schema: Schema) -> None:
        self._known = dict[frozenset[str], str]()
        # what a statement takes of the day on which bounds of such a table end stands in its own text: other periods grow by it alone
        self._schema = undated(schema, [table.name for table in schema.tables if table.period is not None])
        self.whole = schema_identity(schema)

    def of(self, names: frozenset[str]) -> str:
        """A hash of what is declared of some tables, of the unit, and of how many units there are."""
        if names not in self._known:
            self._known[names] = _hash(self._schema, [t for t in self._schema.tables if t.name in names])
        return self._known[names]


def _hash(schema: Schema, declared: Iterable[Table]) -> str:
    kept = tuple(declared)
    names = {table.name for table in kept}
    more = (found for found in schema.unshown if found[0] in names)
    return hashlib.sha256(repr((schema.privacy.unit, schema.privacy.units, kept, *more)).encode()).hexdigest()


def depends_on(block: Block, schema: Schema, stored: frozenset[str] = frozenset()) -> frozenset[str]:
    """Declared tables of which the rows or the declarations can decide what a block releases (rule 61).

    Why  its rows are those of the tables that it reads, each with the unit that its references lead to; what one unit may contribute is
         declared of these tables. Public tables decide before that: their rows give lists of keys, how often a join repeats a row, and
         which conditions are dropped, so all of them count. Where it reads an input table, which earlier releases and statements over
         public tables have made, every table counts.

    stored  tables whose rows are read with the unit that is stored in them: what they refer to takes no part by that
    """
    by_name = {name: table for table in schema.tables for name in (table.name, with_unit(table.name))}
    found = {table.name for table in schema.tables if table.public}
    unit = schema.privacy.unit_table
    waiting = [*block.reads, *([unit] if unit is not None and not block.reads <= stored | found else [])]
    while waiting:
        table = by_name.get(waiting.pop())
        if table is None:
            return frozenset(t.name for t in schema.tables)
        if table.name not in found:
            found.add(table.name)
            waiting += [reference.table for reference in table.references if table.name not in stored]
    return frozenset(found)


def unread(limited: BoundedBlock, tables: frozenset[str], schema: Schema) -> frozenset[str]:
    """Those of the tables that it depends on, of which no row takes part: they are referred to by rows that hold their unit themselves,
    in a table with periods (rule 62).

    Why  such a row is kept with the unit that it had when its period closed, whatever becomes of the table that the unit is the key of
    """
    held = {read.table.name for read in limited.periods if schema.unit_column(read.table) is not None}
    return tables - depends_on(limited.block, schema, frozenset(held)) if held else frozenset()
