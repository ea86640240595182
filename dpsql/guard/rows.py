"""Which rows a relation holds, for the guard: the conditions that every row of it meets, and what its columns stand for.

Reads how a relation was made (relations/relations.py). A condition inside a derived table, a WITH query or a per-unit block is a
condition on the rows that are counted; one in the ON of an outer join is not, since rows stay without it; the two halves of a UNION
are two sets of rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from dpsql.core.errors import error
from dpsql.expressions.logic import conjunction, disjunction
from dpsql.expressions.scalar import Scalar
from dpsql.guard.texts import said
from dpsql.relations.relations import Relation
from dpsql.sql.duckdb import printed

_SAME_ROWS = ("derived", "projected", "renamed", "per_unit", "distinct", "windowed")


@dataclass(frozen=True, slots=True)
class Lookup:
    """A public relation that rows are joined with.

    pairs     what must be equal: of the rows, and of the public relation
    required  whether rows without a match are left out
    """

    public: Relation
    pairs: tuple[tuple[Scalar, Scalar], ...]
    required: bool


@dataclass(frozen=True, slots=True)
class Rows:
    """One set of rows of a relation.

    conditions  that all of them meet
    lookups     the public relations beside them
    stands_for  for a column of a UNION, by its text, the column of this half
    computed    for a column that an aggregate or a window of one unit's rows made, by its text, what it is
    unclear     texts of columns of which nothing can be said: those that a condition inside a per-unit block decides
    matched     for a column of the side of an outer join that may stay away, by its text, where it is there
    sure        texts of such columns that are never NULL where they are there
    scans       the texts before the dot of every private table's columns, in order, with the table's name
    counted     the private tables whose rows there is at least one of in each: not those beside an outer join
    """

    conditions: tuple[Scalar, ...] = ()
    lookups: tuple[Lookup, ...] = ()
    stands_for: dict[str, Scalar] = field(default_factory=dict)
    computed: dict[str, str] = field(default_factory=dict)
    unclear: frozenset[str] = frozenset()
    matched: dict[str, Scalar] = field(default_factory=dict)
    sure: frozenset[str] = frozenset()
    scans: tuple[tuple[str, str], ...] = ()
    counted: tuple[str, ...] = ()

    def beside(self, other: Rows) -> Rows:
        """The rows joined with others, all of which meet the conditions of both."""
        return Rows(
            (*self.conditions, *other.conditions),
            (*self.lookups, *other.lookups),
            {**self.stands_for, **other.stands_for},
            {**self.computed, **other.computed},
            self.unclear | other.unclear,
            {**self.matched, **other.matched},
            self.sure | other.sure,
            (*self.scans, *other.scans),
            (*self.counted, *other.counted),
        )

    def optional(self, relation: Relation, on: Sequence[Scalar]) -> Rows:
        """The rows as the side of an outer join whose columns are NULL where none meets its conditions and those of ON."""
        lookups = tuple(replace(each, required=False) for each in self.lookups)
        conditions = [*self.conditions, *on]
        matched = {}
        if conditions:
            matched = {said(c.scalar): conjunction(conditions) for c in relation.columns}
        sure = self.sure | {said(c.scalar) for c in relation.columns if not c.scalar.nullable}
        return replace(self, conditions=(), lookups=lookups, matched={**self.matched, **matched}, sure=sure)


def rows_of(relation: Relation) -> list[Rows]:
    """The sets of rows that a private relation is the union of."""
    return [replace(rows, conditions=(*rows.conditions, *relation.where)) for rows in _made_of(relation)]


def _made_of(relation: Relation) -> Iterator[Rows]:
    made = relation.made
    if made is None:
        raise error(901, "a relation of people does not say how it was made")
    match made.step:
        case "scan":
            prefixes = dict.fromkeys(said(c.scalar).rpartition(".")[0] for c in relation.columns)
            name = relation.tables[0].name
            yield Rows(scans=tuple((prefix, name) for prefix in prefixes), counted=(name,))
        case "inner_join" | "left_join" | "full_join":
            left, right = made.sources
            inner = made.step == "inner_join"
            for one in rows_of(left):
                if not right.is_private:
                    beside = Rows() if inner else Rows().optional(right, _on(relation))
                    look = Lookup(right, made.pairs, inner)
                    yield replace(one.beside(beside), lookups=(*one.lookups, look))
                    continue
                for other in rows_of(right):
                    yield _joined(relation, one, other)
        case "union_all":
            for half in made.sources:
                pairs = zip(relation.columns, half.columns, strict=True)
                stands_for = {said(c.scalar): own.scalar for c, own in pairs}
                for rows in rows_of(half):
                    yield replace(rows, stands_for={**rows.stands_for, **stands_for})
        case step if step in _SAME_ROWS:
            source = made.sources[0]
            where = sorted(said(c) for c in source.where)
            behind = " ".join([printed(source.read()), *where, *sorted(said(key) for key in made.keys)])
            computed = (
                {printed(new): f"{printed(old)} of {behind}" for new, old in made.computed}
                if step in ("per_unit", "windowed")
                else {}
            )
            for rows in rows_of(source):
                unclear = rows.unclear | frozenset(map(printed, made.chosen))
                yield replace(rows, computed={**rows.computed, **computed}, unclear=unclear)
        case _:
            raise error(901, "the guard does not know a step of the plan")


def _on(relation: Relation) -> list[Scalar]:
    """What ON of an outer join asks for beside the equalities: after the conditions of both sides, and before those of WHERE."""
    made = relation.made
    assert made is not None
    where = {said(condition) for condition in relation.where}
    before = sum(len(source.predicates) for source in made.sources)
    return [c for c in relation.predicates[before:] if said(c) not in where]


def _joined(relation: Relation, one: Rows, other: Rows) -> Rows:
    """The rows of a join of people's rows. Rows of an outer join meet the conditions of the side that is always there; of a FULL JOIN
    those of one of the two."""
    made = relation.made
    assert made is not None
    left, right = made.sources
    if made.step == "inner_join":
        return one.beside(other)
    on = _on(relation)
    if made.step == "left_join":
        return replace(one.beside(other.optional(right, on)), counted=one.counted)
    beside = one.optional(left, on).beside(other.optional(right, on))
    if not one.conditions or not other.conditions:
        return beside
    sides = [conjunction(list(rows.conditions)) for rows in (one, other)]
    return replace(beside, conditions=(disjunction(sides),))
