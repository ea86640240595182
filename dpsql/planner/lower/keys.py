"""Group keys on their way to the engine and back, and the conditions that keep those that are declared."""

from __future__ import annotations

from dpsql.core.domains import Categories, Value, integers
from dpsql.core.sqltypes import BIGINT, BOOLEAN, DOUBLE, VARCHAR
from dpsql.expressions.scalar import Scalar, one_form
from dpsql.plan.releases import Release
from dpsql.plan.resolved import GroupKey
from dpsql.plan.tables import KeyValue
from dpsql.planner.limit import travels_as_text
from dpsql.sql.nodes import (
    Aggregate,
    Bare,
    Between,
    Binary,
    Case,
    Cast,
    Chain,
    In,
    Is,
    Literal,
    Node,
    Number,
    Star,
    own,
)


def key_columns(release: Release) -> list[Node]:
    """The columns of the keys."""
    return [own(key.name) for key in release.keys]


def travelling(key: GroupKey) -> Node:
    """A key in the form in which it travels; fractions of either size as the shortest digits of a DOUBLE."""
    scalar = key.scalar
    if travels_as_text(scalar, key.values is not None):
        whole = one_form(scalar).tree
        return Cast(Cast(whole, DOUBLE) if scalar.sqltype.is_float else whole, VARCHAR, tries=False)
    return Cast(scalar.tree, BIGINT) if scalar.integral and not scalar.sqltype.is_boolean else scalar.tree


def declared(key: GroupKey) -> Node:
    """The condition that a row's key is on the declared list."""
    scalar = key.scalar
    listed = integers(scalar.domain) if scalar.integral or scalar.sqltype.name == "DATE" else scalar.domain
    assert isinstance(listed, Categories)
    inside = _inside(scalar, listed.values)
    return Chain("OR", (inside, Bare(Is(scalar.tree, "NULL")))) if scalar.nullable else inside


def _inside(scalar: Scalar, values: tuple[Value, ...]) -> Node:
    numbers = [v for v in values if isinstance(v, int) and not isinstance(v, bool)]
    whole = scalar.integral or scalar.sqltype.name == "DATE"
    listed = tuple(Literal(v, scalar.sqltype) for v in values)
    # Only where nothing lies between the values: 1.5 is not on the list 1, 2, 3.
    if whole and len(numbers) == len(values) > 2 and numbers[-1] - numbers[0] == len(values) - 1:
        return Between(scalar.tree, listed[0], listed[-1])
    return In(scalar.tree, listed)


def only_declared(keys: tuple[GroupKey, ...]) -> Node | None:
    """Leave out the groups whose key is not declared, where nothing is cut and so no row has to go before.

    Why  a condition on rows costs more than the sums. As it stands DuckDB cannot move this one below GROUP BY; it is
         always the condition itself, because every group has a row
    """
    conditions = tuple(_among(own(key.name), key.values) for key in keys if key.values is not None)
    there = Bare(Binary(">", Aggregate("count", (Star(),)), Number(0)))
    return Bare(Case(((there, Bare(Chain("AND", conditions))),))) if conditions else None


def _among(key: Node, values: tuple[KeyValue, ...]) -> Node:
    """The condition that a key, in the form in which it travels, is one of some values."""
    listed = [v for v in values if v is not None]
    numbers = [v for v in listed if isinstance(v, int) and not isinstance(v, bool)]
    inside: Node = Literal(False, BOOLEAN)
    if len(numbers) == len(listed) > 2 and max(numbers) - min(numbers) == len(set(numbers)) - 1:
        inside = Bare(Between(key, _wire(min(numbers)), _wire(max(numbers))))
    elif listed:
        inside = Bare(In(key, tuple(map(_wire, listed))))
    return Chain("OR", (inside, Bare(Is(key, "NULL"))) if None in values else (inside,))


def travels_whole(key: GroupKey) -> bool:
    """Whether different values stay different on their way: what no BIGINT holds would travel as NULL."""
    held = key.scalar.sqltype.range if key.scalar.sqltype.is_integer else None
    small = held is not None and held.lower >= -(2**63) and held.upper < 2**63
    return small or not key.scalar.integral or key.scalar.sqltype.is_boolean


def _wire(value: int | str | bool) -> Node:
    return Literal(value, BOOLEAN if isinstance(value, bool) else VARCHAR if isinstance(value, str) else BIGINT)
