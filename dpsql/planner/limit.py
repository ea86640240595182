"""limit: Block -> Limited. What one unit may contribute is made finite, or the block is refused; group keys get their lists."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import timedelta
from fractions import Fraction

from dpsql import domains
from dpsql.aggregates.base import Limits
from dpsql.algebra.relations import Relation, Scan
from dpsql.algebra.scalar import EPOCH, Scalar, decimal_text
from dpsql.algebra.temporal import moment
from dpsql.domains import Categories
from dpsql.errors import Error, error
from dpsql.plan import Block, GroupKey, KeyValue, Limited
from dpsql.planner.options import Options
from dpsql.schema.model import Schema, Table
from dpsql.sqltypes import SqlType


def limit(block: Block, options: Options, schema: Schema) -> Limited:
    """The block with listed keys and with limits that the engine SQL enforces.

    Raises 303 (a key that can neither be listed nor selected), 304 (too many declared groups), 401 (no limit on rows or groups).
    """
    keys = tuple(_listed(key) for key in block.keys)
    groups = _declared_groups(keys, schema)
    block = replace(block, keys=keys)
    table = table_of(block.source)
    bound = block.source.unit
    if bound is None:
        raise error(901, "a relation without a unit reached the limits")
    one_row = bound.max_rows == 1 and schema.one_row_per_unit(table)
    if one_row:
        return Limited(block, Limits(1, 1), enforced=False)
    rows = _least(bound.max_rows, options.max_rows)
    most_groups = _least(options.max_groups, table.max_groups_per_unit, rows, groups)
    needs_rows = any(a.function != "units" for a in block.aggregates)
    if needs_rows and rows is None:
        raise _no_limit("rows", table)
    if most_groups is None:
        raise _no_limit("groups", table)
    return Limited(block, Limits(rows if rows is not None else most_groups, most_groups), enforced=True)


def table_of(relation: Relation) -> Table:
    """The table that a relation's rows come from."""
    return relation.table if isinstance(relation, Scan) else table_of(relation.source)


def _least(*limits: int | None) -> int | None:
    known = [x for x in limits if x is not None]
    return min(known) if known else None


def _no_limit(what: str, table: Table) -> Error:
    return error(
        401,
        f"nothing limits how many {what} of {table.name} one person has",
        hint=f"declare max_{what}_per_unit for {table.name}, or write /* dpsql: max_{what}=5 */",
    )


def _declared_groups(keys: tuple[GroupKey, ...], schema: Schema) -> int | None:
    """How many groups there are if every key is listed; None where one is selected privately."""
    groups = 1
    for key in keys:
        if key.values is None:
            return None
        groups *= len(key.values)
        if groups > schema.privacy.max_cells:
            raise error(
                304,
                f"the declared keys make more than {schema.privacy.max_cells:,} groups",
                hint="group by fewer or coarser columns",
                span=key.span,
            )
    return groups


def _listed(key: GroupKey) -> GroupKey:
    """The key with its declared values; without a finite domain it must be of a type that can be selected privately."""
    scalar = key.scalar
    whole = scalar.integral or scalar.sqltype.is_text or scalar.sqltype.is_boolean or scalar.sqltype.is_temporal
    listed = isinstance(scalar.domain, Categories) and not scalar.sqltype.is_float
    found = domains.integers(scalar.domain) if (scalar.integral or scalar.sqltype.name == "DATE") else None
    if found is None and (listed or scalar.sqltype.is_boolean):
        assert isinstance(scalar.domain, Categories)
        found = scalar.domain
    if found is not None and (whole or listed):
        values: list[KeyValue] = [wire(v, scalar) for v in found.values]
        return replace(key, values=tuple(values) + ((None,) if scalar.nullable else ()))
    if scalar.sqltype.is_integer or scalar.sqltype.is_text or scalar.sqltype.name == "DATE":
        return key
    raise error(
        303,
        f"a value of type {scalar.sqltype} cannot be a group key by itself",
        hint="group by a band, such as CAST(FLOOR(x / 10) AS INTEGER) of a bounded column, or DATE_TRUNC('month', ...)",
        span=key.span,
    )


def wire(value: domains.Value, scalar: Scalar) -> KeyValue:
    """A declared key as it travels: integers, booleans and text as they are, other types as the engine's text of them."""
    if isinstance(value, str | bool):
        return value
    sqltype = scalar.sqltype
    if sqltype.name == "DATE":
        return str(EPOCH + timedelta(days=int(value)))
    if sqltype.name == "TIMESTAMP":
        return str(moment(scalar, Fraction(value)))
    if sqltype.is_decimal and not scalar.integral:
        return decimal_text(Fraction(value), sqltype.scale)
    return int(value)


def travels_as_text(scalar: Scalar, listed: bool) -> bool:
    """Whether a key crosses from the engine as text."""
    sqltype: SqlType = scalar.sqltype
    if scalar.integral:
        bounds = scalar.limits
        small = bounds is not None and bounds.lower >= -(2**63) and bounds.upper < 2**63
        return not (listed or small)
    return not (sqltype.is_boolean or sqltype.is_text)


def key_count(keys: tuple[GroupKey, ...]) -> int:
    """The number of declared groups."""
    return math.prod(len(key.values) for key in keys if key.values is not None)
