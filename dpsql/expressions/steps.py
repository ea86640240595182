"""Steps of a time: within which unit of the calendar an expression has one value."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dpsql.core.sqltypes import DATE
from dpsql.expressions.scalar import Scalar
from dpsql.expressions.temporal import FIXED_UNITS
from dpsql.sql.nodes import Call, Literal
from dpsql.sql.trees import walk

_COMPARED = ("=", "<>", "<", "<=", ">", ">=", "in")


def steps_of(leaf: Scalar, read_by: Iterable[Scalar]) -> int | None:
    """[microseconds] The shortest unit of the calendar that reads a time; None where something is not constant within one."""
    units = [_unit(user, leaf) for scalar in read_by for user in _users(scalar, leaf)]
    known = [unit for unit in units if unit is not None]
    return min(known, default=FIXED_UNITS["day"]) if len(known) == len(units) else None


def _users(scalar: Scalar, leaf: Scalar) -> Iterator[Scalar]:
    """The operations that read a column itself; the column, where it stands alone."""
    if scalar.tree == leaf.tree:
        yield scalar
    elif not scalar.is_column:
        for part in (*scalar.args, *scalar.ties):
            if part.tree == leaf.tree:
                yield scalar
            else:
                yield from _users(part, leaf)


def _unit(user: Scalar, leaf: Scalar) -> int | None:
    """[microseconds] The unit of the calendar within which an operation on a time has one result, constants apart."""
    day = FIXED_UNITS["day"]
    match user.function:
        case "extract" | "date_trunc":
            names = [
                n.args[0] for n in walk(user.tree) if isinstance(n, Call) and n.name in ("date_part", "date_trunc")
            ]
            parts = [str(name.value) for name in names if isinstance(name, Literal)]
            return min((*(FIXED_UNITS.get(part, day) for part in parts), day)) if parts else None
        case "cast" if user.sqltype == DATE:
            return day
    constant = all(not list(part.leaves()) for part in user.args if part.tree != leaf.tree)
    return day if user.function in (*_COMPARED, "is null") and constant else None


def compared_with(scalar: Scalar, leaf: Scalar) -> Iterator[Scalar]:
    """The constants that a time is compared with."""
    for user in _users(scalar, leaf):
        if user.function in _COMPARED:
            yield from (part for part in user.args if part.tree != leaf.tree and not part.is_null)
