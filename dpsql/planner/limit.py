"""limit: Block -> BoundedBlock. What one unit may contribute is made finite, or the block is refused; group keys get their lists."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from fractions import Fraction
from typing import cast

from dpsql.aggregates.base import Limits
from dpsql.aggregates.record import Aggregate
from dpsql.core import domains
from dpsql.core.domains import Categories
from dpsql.core.errors import Error, error
from dpsql.core.sqltypes import SqlType
from dpsql.expressions.literals import shortest
from dpsql.expressions.scalar import Scalar
from dpsql.expressions.temporal import moment, moment_text
from dpsql.plan.releases import BoundedBlock
from dpsql.plan.resolved import Block, GroupKey
from dpsql.plan.tables import KeyValue
from dpsql.planner.options import Options
from dpsql.relations.periods import ReadPeriods, read_periods
from dpsql.relations.relations import Relation
from dpsql.schema.model import Schema
from dpsql.sql.duckdb import EPOCH, decimal_text


def limit(block: Block, options: Options, schema: Schema, ways: int | None = None) -> BoundedBlock:
    """The block with listed keys and with limits that the engine SQL enforces.

    ways  of at most how many keys groups are told together; None: of all

    Raises 303 (a key that can neither be listed nor selected), 304 (too many declared groups), 401 (no limit on rows or groups).
    """
    listed = {i for bound in block.lists for i in bound.keys}
    keys = tuple(key if i in listed else as_listed(key) for i, key in enumerate(block.keys))
    block = _within(replace(block, keys=keys), schema.privacy.max_cells, ways)
    groups = _declared_groups(block, schema, ways)
    source = block.source
    if source.unit is None:
        raise error(901, "a relation without a unit reached the limits")
    if block.whole and block.selects:
        raise _not_whole(block)
    periods = read_periods(source, block.places) if source.has_periods else ()
    if source.one_row_per_unit:
        return BoundedBlock(block, Limits(1, 1, 1), False, periods, options.has_intervals)
    rows = _least(source.unit.max_rows, options.max_rows)
    # Keys that are functions of the unit give it one group: "customer determines nation" (rule 8). Where that is only declared, the cut
    # to one group enforces it, and is never left out (rules 35, 60).
    constant = 1 if all(key.scalar.is_steady for key in keys) else None
    most_groups = _least(options.max_groups, _most_groups(source, periods), rows, groups, constant)
    if rows is None and any(counts_rows(a) for a in block.aggregates):
        raise _no_limit("rows", source)
    if most_groups is None:
        raise _no_limit("groups", source)
    limits = Limits(rows if rows is not None else most_groups, most_groups, options.max_values)
    return BoundedBlock(block, limits, True, periods, options.has_intervals)


def counts_rows(aggregate: Aggregate) -> bool:
    """True if one unit's weight in an aggregate grows with its rows: not where people are counted, or totals are bounded."""
    if aggregate.record.units:
        return False
    bounded = aggregate.argument is not None and aggregate.argument.unit_bounds is not None
    return not (bounded and aggregate.record.unit_total is not None)


def _most_groups(source: Relation, periods: Sequence[ReadPeriods]) -> int | None:
    """The declared limit on a unit's groups, of each period that is read; the loosest one where several tables are joined."""
    times = {read.table.name: read.count for read in periods}
    declared = [
        t.max_groups_per_unit * times.get(t.name, 1) for t in source.tables if t.max_groups_per_unit is not None
    ]
    return max(declared, default=None)


def _least(*limits: int | None) -> int | None:
    known = [x for x in limits if x is not None]
    return min(known) if known else None


def _not_whole(block: Block) -> Error:
    key = next(key for i, key in enumerate(block.keys) if block.is_selected(i))
    return error(
        303,
        "ROLLUP, CUBE and GROUPING SETS add up all groups, so all of their keys must be declared",
        hint="declare a domain for the column, or GROUP BY it alone",
        span=key.span,
    )


def _no_limit(what: str, source: Relation) -> Error:
    open_tables = [t.name for t in source.tables if t.max_rows_per_unit is None] or [t.name for t in source.tables]
    names = " and ".join(dict.fromkeys(open_tables))
    return error(
        401,
        f"nothing limits how many {what} of {names} one person has",
        hint=f"declare max_{what}_per_unit for {names}, or write /* dpsql: max_{what}=5 */",
    )


def _declared_groups(block: Block, schema: Schema, ways: int | None) -> int | None:
    """Number of groups if every key is declared; None where one is selected privately, or listed later."""
    sizes = [one.groups for one in block.lists if one.groups is not None]
    for key in block.keys:
        sizes.append(len(key.values) if key.values is not None else 1)
        if _together(sizes, ways) > schema.privacy.max_cells:
            raise error(
                304,
                f"the declared keys make more than {schema.privacy.max_cells:,} groups",
                hint="group by fewer or coarser columns",
                span=key.span,
            )
    return block.groups


def _together(sizes: Sequence[int], ways: int | None) -> int:
    """The most groups that are told together, by the numbers of values of all keys."""
    return math.prod(sizes if ways is None else sorted(sizes)[-ways:])


def _within(block: Block, most: int, ways: int | None) -> Block:
    """The block with at most so many declared groups: the keys with the longest lists of their own are selected privately instead.

    Why  declarations alone say which keys these are, and what a selected key shows has passed the threshold (rule 29), whatever
         list it had; the other keys keep their lists, so that their rows off the list are dropped before the cut (rule 13)
    """
    keys = list(block.keys)
    for i in sorted(range(len(keys)), key=lambda i: -len(keys[i].values or ())):
        sizes = [one.groups or 1 for one in block.lists] + [len(key.values or (None,)) for key in keys]
        if block.whole or _together(sizes, ways) <= most:
            break
        keys[i] = replace(keys[i], values=None)
    return replace(block, keys=tuple(keys))


def as_listed(key: GroupKey) -> GroupKey:
    """The key with its declared values; without a finite domain it is selected privately."""
    scalar = key.scalar
    listed = isinstance(scalar.domain, Categories)
    found = domains.integers(scalar.domain) if (scalar.integral or scalar.sqltype.name == "DATE") else None
    if found is None and (listed or scalar.sqltype.is_boolean):
        assert isinstance(scalar.domain, Categories)
        found = scalar.domain
    if found is not None:
        values = _wires(found.values, scalar, travels_as_text(scalar, True))
        return replace(key, values=(*values, None) if scalar.nullable else values)
    return key


_AS_THEY_ARE = frozenset((int, bool, str))


def _wires(values: tuple[domains.Value, ...], scalar: Scalar, as_text: bool) -> tuple[KeyValue, ...]:
    """All values of a list as they travel: most lists as they are, with one look at their types."""
    kinds = set(map(type, values))
    whole = scalar.sqltype.is_integer and not as_text
    if kinds <= {str, bool} or (whole and kinds <= _AS_THEY_ARE):
        return cast("tuple[KeyValue, ...]", values)
    # numbers that differ may be one in the type of the key: 16777217 and 16777216 as FLOAT
    return tuple(dict.fromkeys(wire(v, scalar, as_text) for v in values))


def wire(value: domains.Value, scalar: Scalar, as_text: bool) -> KeyValue:
    """A declared key as it travels: integers, booleans and text as they are, other types as the engine's text of them."""
    if isinstance(value, str | bool):
        return value
    sqltype = scalar.sqltype
    if sqltype.name == "DATE":
        return str(EPOCH + timedelta(days=int(value)))
    if sqltype.name == "TIMESTAMP":
        whole, point, fraction = str(moment(scalar, Fraction(value))).partition(".")
        return f"{whole}{point}{fraction.rstrip('0')}"
    if sqltype.is_float and not scalar.integral:
        return shortest(value, sqltype)
    if sqltype.name == "TIME":
        whole, point, fraction = moment_text(Fraction(value), sqltype).partition(".")
        return f"{whole}{point}{fraction.rstrip('0')}"
    if sqltype.is_decimal and not scalar.integral:
        return decimal_text(Fraction(value), sqltype.scale)
    return str(int(value)) if as_text else int(value)


def travels_as_text(scalar: Scalar, listed: bool) -> bool:
    """True if a key crosses from the engine as text."""
    sqltype: SqlType = scalar.sqltype
    if scalar.integral:
        bounds = domains.hull(scalar.domain) if listed else scalar.limits
        return bounds is None or bounds.lower < -(2**63) or bounds.upper >= 2**63
    return not (sqltype.is_boolean or sqltype.is_text)


def key_count(keys: tuple[GroupKey, ...]) -> int:
    """The number of declared groups."""
    return math.prod(len(key.values) for key in keys if key.values is not None)
