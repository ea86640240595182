"""CASE, COALESCE, NULLIF, LEAST and GREATEST: values chosen from branches, with the domain that holds every branch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import reduce

from dpsql.core import domains
from dpsql.core.domains import UNBOUNDED, Categories, Domain, Interval, Value
from dpsql.core.errors import error
from dpsql.expressions.conversion import unify
from dpsql.expressions.literals import boolean_literal
from dpsql.expressions.logic import disjunction, is_null, negation, truth
from dpsql.expressions.scalar import Scalar, finite_hull, limits_of_any
from dpsql.sql.nodes import Call, Case


def case(pieces: list[tuple[Scalar, Scalar]], default: Scalar | None) -> Scalar:
    """CASE WHEN condition THEN value ... ELSE default END; without ELSE, NULL."""
    conditions = [truth(condition) for condition, _ in pieces]
    values = [value for _, value in pieces] + ([default] if default is not None else [])
    typed, sqltype = unify(values, "CASE")
    pairs = list(zip(conditions, typed, strict=False))
    branches = tuple((condition.tree, value.tree) for condition, value in pairs)
    tree = Case(branches, typed[-1].tree if default is not None else None)
    args = tuple(part for pair in pairs for part in pair) + ((typed[-1],) if default is not None else ())
    nullable = default is None or any(value.nullable for value in typed)
    chosen = Scalar("case", args, tree, sqltype, nullable=nullable)
    return _holding(chosen, typed)


def coalesce(scalars: list[Scalar]) -> Scalar:
    """The first that is not NULL."""
    typed, sqltype = unify(scalars, "COALESCE")
    tree = Call("COALESCE", tuple(s.tree for s in typed))
    chosen = Scalar("coalesce", tuple(typed), tree, sqltype, nullable=all(s.nullable for s in typed))
    return _holding(chosen, typed)


def nullif(left: Scalar, right: Scalar) -> Scalar:
    """NULL where both are equal, else the first."""
    (left, right), sqltype = unify([left, right], "NULLIF")
    chosen = Scalar("nullif", (left, right), Call("NULLIF", (left.tree, right.tree)), sqltype, nullable=True)
    held = _holding(chosen, [left])
    if isinstance(held.domain, Categories) and right.is_literal and not sqltype.is_boolean:
        rest = tuple(v for v in held.domain.values if v != right.value)
        return replace(held, domain=Categories(rest)) if rest else held
    return held


def _holding(chosen: Scalar, values: list[Scalar]) -> Scalar:
    """`chosen` with the domain and limits that hold every one of `values`."""
    present = [v for v in values if not v.is_null]
    if not present:
        return chosen
    domain = reduce(domains.join, (v.domain for v in present))
    held = limits_of_any(present)
    return replace(chosen, domain=domain, limits=held, integral=all(v.integral for v in present))


def extreme(function: str, scalars: list[Scalar]) -> Scalar:
    """LEAST or GREATEST, which skip NULLs; with a constant inside both, it is an explicit clamp even of an unbounded value."""
    typed, sqltype = unify(scalars, function.upper())
    if not (sqltype.is_number or sqltype.is_counted or sqltype.is_text):
        raise error(106, f"{function.upper()} needs numbers, dates or text", hint="write CASE instead")
    tree = Call(function, tuple(s.tree for s in typed))
    nullable = all(s.nullable for s in typed)
    chosen = _holding(Scalar(function, tuple(typed), tree, sqltype, nullable=nullable), typed)
    if sqltype.is_text:
        return replace(chosen, domain=UNBOUNDED)
    low, high = lowest(chosen), highest(chosen)
    domain: Domain = Interval(low, high) if low is not None and high is not None and low <= high else UNBOUNDED
    return replace(chosen, domain=domain)


def lowest(scalar: Scalar) -> Fraction | None:
    """A lower bound of the declared values, or None. NULL operands are skipped by the engine, so only sure ones raise a bound."""
    return _end(scalar, "greatest", "least", max, min)


def highest(scalar: Scalar) -> Fraction | None:
    """An upper bound of the declared values, or None."""
    return _end(scalar, "least", "greatest", min, max)


_Pick = Callable[[list[Fraction]], Fraction]


def _end(scalar: Scalar, narrows: str, widens: str, narrow: _Pick, wide: _Pick) -> Fraction | None:
    """A bound on one side.

    narrows  the function that takes the narrowest of its operands' bounds there, and
    narrow   which of some that is
    """
    if scalar.function in (narrows, widens):
        found = [(_end(arg, narrows, widens, narrow, wide), arg.nullable) for arg in scalar.args]
        known = [bound for bound, _ in found if bound is not None]
        sure = [bound for bound, nullable in found if bound is not None and not nullable]
        if sure and scalar.function == narrows:
            return narrow(sure)
        return wide(known) if len(known) == len(found) else None
    if scalar.function == "convert" and scalar.sqltype.is_number:
        return _end(scalar.args[0], narrows, widens, narrow, wide)
    bounds = finite_hull(scalar) if not scalar.sqltype.is_counted else domains.hull(scalar.domain)
    return None if bounds is None else wide([bounds.lower, bounds.upper])


def is_chosen(scalar: Scalar) -> bool:
    """True if a condition decides what a value is, somewhere in it."""
    return any(part.function in ("case", "nullif") for part in scalar.walk())


def is_other(value: Scalar, than: frozenset[Value | None]) -> Scalar | None:
    """Condition that is true wherever a value is none of some constants, by how CASE chooses it; None where nothing is known.

    Why  without ELSE, or with one of these constants there, another value is that of a branch, whose condition is true then
    """
    if value.is_literal:
        return boolean_literal(value.value not in than)
    if value.is_bounded:
        return is_other(value.args[0], than)
    default = value.args[-1] if len(value.args) % 2 else None
    if value.function != "case" or not (default is None or (default.is_literal and default.value in than)):
        return None
    pairs = zip(value.args[::2], value.args[1::2], strict=False)
    others = [condition for condition, chosen in pairs if not (chosen.is_literal and chosen.value in than)]
    return disjunction(others) if others else boolean_literal(False)


def unit_there(value: Scalar) -> Scalar | None:
    """Condition under which a value that is its row's own unit or NULL is the unit; None for a value that can be
    anything else.

    Why  a join that equates units puts beside a row its own unit, or NULL where nothing is met; CASE and COALESCE choose among these.
         So the different values that are not NULL are the units with a row for which this is true
    """
    if value.is_unit:
        return boolean_literal(True)
    if value.is_null:
        return boolean_literal(False)
    if any(key.is_unit for key in value.held_or_null):
        return negation(is_null(value))
    if value.function not in ("case", "coalesce"):
        return None
    chosen = value.function == "case"
    conditions = value.args[: len(value.args) // 2 * 2 : 2] if chosen else ()
    there = [unit_there(part) for part in (value.args[1::2] if chosen else value.args)]
    default = unit_there(value.args[-1]) if chosen and len(value.args) % 2 else boolean_literal(False)
    known = [part for part in there if part is not None]
    if default is None or len(known) < len(there):
        return None
    if not chosen:
        always = any(part.value is True for part in known)
        return boolean_literal(True) if always else disjunction(known)
    if all(part.value is True for part in known) and default.value is False:
        return disjunction(list(conditions))
    return case(list(zip(conditions, known, strict=True)), default)
