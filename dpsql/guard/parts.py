"""parts: what of a statement decides whom it is about, each to be set to something else.

A boolean part is a comparison, a list, a pattern, an EXISTS or a boolean column, wherever it stands: WHERE, ON, FILTER, HAVING per
unit, CASE, a cast, a GROUP BY key, a nested SELECT. A number part is computed of numbers or a condition with a constant, and may be the
same for all but a few: CASE, ABS, LEAST, GREATEST, a product, a quotient.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from dpsql.core.domains import Categories, Value, hull
from dpsql.core.sqltypes import BOOLEAN
from dpsql.expressions.scalar import Scalar, goes_with
from dpsql.plan.resolved import Block
from dpsql.sql.nodes import Binary, Case, Is, Literal, Node
from dpsql.sql.trees import rewritten

MOST = 60
"""Parts of one statement that are looked at; more are refused with the fix."""
TRUE, FALSE = Literal(True, BOOLEAN), Literal(False, BOOLEAN)
_JOINED = ("and", "or", "not")
_KEPT = ("column", "case", "coalesce", "least", "greatest", "cast", "convert")
"""Functions that make no NULL of their own."""
_CHOSEN = ("column", "case", "coalesce", "nullif", "cast", "convert")
"""Functions whose choice, if any, is told by their conditions and by what is NULL; and columns, which hide what they are of."""
_LINEAR = ("+", "-", "convert")
"""Functions that tell as many values apart as they are of."""


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """One part, by the tree that it is in the query, which knows its hash: a value may be made of itself twice, thirty times."""

    scalar: Scalar

    @property
    def tree(self) -> Node:
        return self.scalar.tree

    def __hash__(self) -> int:
        return hash(self.tree)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Part) and self.tree == other.tree


@dataclass(frozen=True, slots=True)
class Change:
    """Number of sample units that a part decides about.

    value  what it was set to
    units  [sample units] whose rows then differ; at the first look only some of them
    """

    part: Part
    value: bool
    units: int


@dataclass(frozen=True, slots=True)
class Shares:
    """A number part.

    other  [sample units] with another value than most rows that have one
    units  [sample units] with a row
    most   [sample units] with the value of most rows
    """

    part: Part
    other: int
    units: int
    most: int


def boolean_parts(block: Block) -> list[Part]:
    """Each once, in the order of the statement."""
    return [Part(s) for s in _distinct(_booleans(block))]


def number_parts(block: Block) -> list[Part]:
    """Numbers with a constant in what is aggregated, grouped by or filtered by here, each once; what a nested query computes is for its
    boolean parts to tell."""
    return [Part(s) for s in _distinct(s for s in _here(block) if _is_number_part(s))]


def losing_parts(block: Block) -> list[tuple[Part, Node]]:
    """Values here that may be NULL where what they are computed of is not, each once, with the condition that they are: NULLIF, a
    quotient, a logarithm. A CASE has boolean parts for that, and of a conversion only what is out of all range is NULL."""
    found = _distinct(s for s in _here(block) if s.nullable and s.args and _may_lose(s))
    known = [[Is(leaf, "NOT NULL") for leaf in {leaf.tree for leaf in s.leaves()}] for s in found]
    return [(Part(s), all_of([Is(s.tree, "NULL"), *own])) for s, own in zip(found, known, strict=True)]


def altering_parts(block: Block) -> list[tuple[Part, Node]]:
    """Values here that a constant may make of one that they are computed of, each once, with the condition that a row is kept and has
    another than that: REPLACE, LEAST, %."""
    found = []
    made = (s for s in _here(block) if s.args and not s.is_column and s.function not in (*_CHOSEN, "+", "-", "*", "/"))
    for s in _distinct(made):
        of = next((arg for arg in s.args if not arg.is_literal), s)
        alike = (of.sqltype.is_text and s.sqltype.is_text) or (of.sqltype.is_number and s.sqltype.is_number)
        if alike and any(part.is_literal for part in s.walk()):
            found.append((Part(s), all_of([*kept_by(block), Binary("IS DISTINCT FROM", s.tree, of.tree)])))
    return found


def all_of(conditions: Sequence[Node]) -> Node:
    found = conditions[0]
    for condition in conditions[1:]:
        found = Binary("AND", found, condition)
    return found


def kept_by(block: Block) -> tuple[Node, ...]:
    return tuple(c.tree for c in block.source.where)


def _may_lose(scalar: Scalar) -> bool:
    *_, last = scalar.args
    match scalar.function:
        case "nullif" if last.is_literal:
            return _may_be(scalar.args[0], last.value)
        case "/" | "//" | "%":
            return _may_be(last, 0)
        case "nullif":
            return True
    counted = scalar.sqltype.is_number and all(arg.sqltype.is_number for arg in scalar.args)
    return counted and scalar.function not in _KEPT and not any(arg.nullable for arg in scalar.args)


def _may_be(scalar: Scalar, value: Value | None) -> bool:
    """True if a value may be that one, as declared."""
    span, domain = hull(scalar.domain), scalar.domain
    if span is not None:
        return value in span
    return value in domain if isinstance(domain, Categories) else True


def set_to(query: Node, part: Part, value: bool) -> Node:
    """The query with a boolean part that is always true, or always false, wherever it is not NULL.

    Why  whose value is not known are left out with the few: by them a part that leaves out one would pass for one of many
    """
    known: Node = TRUE if value else FALSE
    if part.scalar.nullable:
        known = Case(((Is(part.tree, "NOT NULL"), known),), None)
    return rewritten(query, {part.tree: known})


def _all(block: Block) -> Iterator[Scalar]:
    for expression in block.expressions:
        yield from expression.walk()


def _here(block: Block) -> Iterator[Scalar]:
    """Scalars computed of the columns that the block itself sees."""
    asked = (part for a in block.aggregates for part in (*a.values, a.condition) if part is not None)
    waiting = [*asked, *(key.scalar for key in block.keys), *block.source.where]
    while waiting:
        part = waiting.pop()
        yield part
        if not part.is_column and part.function != "exists":
            waiting += part.args


def _booleans(block: Block) -> Iterator[Scalar]:
    for scalar in _all(block):
        if scalar.sqltype.is_boolean and scalar.function not in _JOINED and not _says_nothing(scalar):
            yield scalar


def _says_nothing(scalar: Scalar) -> bool:
    """True if a part is a constant, or only says which rows go together."""
    if scalar.function == "=" and goes_with(*scalar.args):
        return True
    return not any(part.is_column for part in scalar.walk())


def _is_number_part(scalar: Scalar) -> bool:
    if not scalar.sqltype.is_number or scalar.function in _LINEAR or scalar.is_column:
        return False
    if scalar.function in ("*", "/") and (
        scalar.args[-1].is_literal or (scalar.function == "*" and scalar.args[0].is_literal)
    ):
        # twice a value tells as many apart as the value
        return False
    if all(arg.sqltype.is_text or arg.sqltype.is_temporal for arg in scalar.args if not arg.is_literal):
        return False
    parts = list(scalar.walk())
    return any(p.is_literal for p in parts) and any(p.is_column for p in parts)


def _distinct(scalars: Iterable[Scalar]) -> list[Scalar]:
    found: dict[Node, Scalar] = {}
    for scalar in scalars:
        found.setdefault(scalar.tree, scalar)
    return list(found.values())
