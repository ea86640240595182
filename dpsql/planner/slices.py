"""slices: conditions that choose among declared values, such as a click on a bar -> the same release without them, and the values.

SELECT COUNT(*) FROM person WHERE site = 1 is one group of SELECT site, COUNT(*) FROM person GROUP BY site: what was released of all
groups answers it (answers/reusing.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations
from math import prod
from operator import ge, gt, le, lt

from dpsql.core.domains import Categories, Value, hull, integers
from dpsql.expressions.scalar import Scalar
from dpsql.plan.releases import Release
from dpsql.plan.resolved import GroupKey
from dpsql.plan.tables import KeyValue
from dpsql.planner.limit import as_listed, travels_as_text, wire
from dpsql.sql.nodes import Node

MOST_SUBJECTS = 4
"""Columns whose conditions are looked at."""
MOST_VALUES = 10_000
"""Of a column that is listed by its bounds."""
_ORDERED: Mapping[str, Callable[[Fraction | int, Fraction | int], bool]] = {"<": lt, "<=": le, ">": gt, ">=": ge}


@dataclass(frozen=True, slots=True)
class Subject:
    """A column with declared values, and the values that the conditions on it leave.

    key         the column as a group key of all its values
    allowed     those that are left, as they travel
    conditions  what they compute
    """

    key: GroupKey
    allowed: frozenset[KeyValue]
    conditions: frozenset[Node]


@dataclass(frozen=True, slots=True)
class Slice:
    """A release without some of its conditions.

    release   all of it; its keys have all of their values
    subjects  the columns whose conditions were left out
    """

    release: Release
    subjects: tuple[Subject, ...]


def slices(release: Release) -> Iterator[Slice]:
    """The release without the conditions on declared values: on all such columns at once first, then on fewer.

    Why  only where nobody's rows are cut: else those of all groups share one limit, and what is left of one group is not what the
         statement itself would leave of it
    """
    if _cuts_nobody(release):
        yield from every_slice(release)


def every_slice(release: Release, *, named: bool = False) -> Iterator[Slice]:
    """The same wherever such conditions stand: what is left of one group is then after the limits of all of them.

    named  also of columns without a list, where a condition names the values that it leaves
    """
    subjects = _subjects(release, named)
    for size in range(len(subjects), 0, -1):
        for chosen in combinations(subjects, size):
            yield Slice(_without(release, chosen), chosen)


def _cuts_nobody(release: Release) -> bool:
    """True if a person cannot have more rows than are allowed, by a declared key whose other columns have declared values."""
    limited = release.limited
    source = limited.block.source
    if not limited.enforced:
        return True
    unit = source.unit.column.tree if source.unit is not None and source.unit.column is not None else None
    values = {
        c.scalar.tree: len(c.scalar.domain.values) for c in source.columns if isinstance(c.scalar.domain, Categories)
    }
    keys = [key - {unit} for key in source.unique if unit in key]
    return any(key <= values.keys() and prod(values[name] for name in key) <= limited.limits.rows for key in keys)


def _subjects(release: Release, named: bool) -> list[Subject]:
    found: dict[Node, Subject] = {}
    for condition in release.limited.block.source.where:
        subject, values = _chosen(condition)
        if subject is None and named:
            subject, values = _named(condition)
        if subject is None:
            continue
        key = as_listed(GroupKey("", subject))
        as_text = travels_as_text(subject, key.values is not None)
        allowed = frozenset(wire(value, subject, as_text) for value in values)
        known = found.get(subject.tree)
        if known is not None:
            allowed &= known.allowed
        trees = {condition.tree} | (known.conditions if known is not None else set())
        found[subject.tree] = Subject(key, allowed, frozenset(trees))
    return [one for one in found.values() if one.allowed][:MOST_SUBJECTS]


def _chosen(condition: Scalar) -> tuple[Scalar | None, tuple[Value, ...]]:
    """The column, or the expression of columns, that a condition chooses declared values of, and these; (None, ()) for any other.

    Why  only where every value that `=`, `<>` and IN name is a declared one: the rows that a condition keeps are then those of these
         groups, up to rows with an undeclared value, which no group holds
    """
    negated = condition.function == "not"
    inner = condition.args[0] if negated else condition
    subject = inner if inner.is_column else inner.args[0] if inner.args else inner
    declared = _declared(subject)
    if not declared:
        return None, ()
    if subject is inner:
        return (subject, (not negated,)) if subject.sqltype.is_boolean else (None, ())
    named = [arg.value for arg in inner.args[1:]]
    if not all(arg.is_literal for arg in inner.args[1:]):
        return None, ()
    if inner.function in _ORDERED:
        return _beyond(subject, declared, inner.function, named[0], negated)
    if inner.function not in ("=", "<>", "in"):
        return None, ()
    if not all(value in declared for value in named):
        return None, ()
    left_out = negated != (inner.function == "<>")
    return subject, tuple(value for value in declared if (value in named) != left_out)


def _named(condition: Scalar) -> tuple[Scalar | None, tuple[Value, ...]]:
    """A whole number or text without a list, and the values that a condition names of it; (None, ()) for any other."""
    values = condition.args[1:]
    if condition.function not in ("=", "in") or not all(arg.is_literal and arg.value is not None for arg in values):
        return None, ()
    subject = condition.args[0]
    is_plain = subject.sqltype.is_text or subject.sqltype.is_integer
    if not is_plain or not any(True for _ in subject.leaves()) or as_listed(GroupKey("", subject)).values is not None:
        return None, ()
    return subject, tuple(arg.value for arg in values if arg.value is not None)


def _declared(subject: Scalar) -> tuple[Value, ...]:
    """The listed values of a column, or of what is computed of columns; () where it has none that its groups could have.

    Why  a key that is computed, such as a band of ages, is listed by GROUP BY just as a column is, and what a row has of it is the same
         in its group as in a condition: both are the same tree over the same row
    """
    if subject.sqltype.is_float or not any(True for _ in subject.leaves()):
        return ()
    if isinstance(subject.domain, Categories):
        return subject.domain.values
    within = hull(subject.domain)
    if not subject.integral or within is None or within.upper - within.lower > MOST_VALUES:
        return ()
    found = integers(subject.domain)
    return found.values if found is not None else ()


def _beyond(
    subject: Scalar, declared: tuple[Value, ...], function: str, end: Value | None, negated: bool
) -> tuple[Scalar | None, tuple[Value, ...]]:
    """The numbers among declared values that a comparison keeps; text has an order of its own in each engine."""
    numbers = [value for value in declared if isinstance(value, int | Fraction) and not isinstance(value, bool)]
    if len(numbers) < len(declared) or not isinstance(end, int | Fraction) or isinstance(end, bool):
        return None, ()
    return subject, tuple(value for value in numbers if _ORDERED[function](value, end) != negated)


def _without(release: Release, subjects: tuple[Subject, ...]) -> Release:
    gone = frozenset().union(*(one.conditions for one in subjects))
    full = {one.key.scalar.tree: one.key for one in subjects}
    block = release.limited.block
    source = replace(block.source, where=tuple(c for c in block.source.where if c.tree not in gone))
    keys = tuple(
        replace(key, scalar=full[key.scalar.tree].scalar, values=full[key.scalar.tree].values)
        if key.scalar.tree in full
        else key
        for key in block.keys
    )
    return replace(release, limited=replace(release.limited, block=replace(block, source=source, keys=keys)))
