"""Joins, and what makes them sound.

Two private relations may meet only where their units are equated: by the unit itself, or by a private key that both sides hold along
their declared references (`l_orderkey = o_orderkey`), which has one unit (rules 2, 36). A public relation joins by a unique key of its
own, so that it adds no rows, or by one value that it holds once for all. How many rows a unit can then have is rule 5.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from dpsql.core.errors import error
from dpsql.expressions.conditional import coalesce
from dpsql.expressions.conversion import convert
from dpsql.expressions.logic import compare
from dpsql.expressions.scalar import NO_KEYS, NO_PARTS, Scalar, equate_keys, goes_with
from dpsql.relations.relations import From, Made, Named, Relation, Step, UnitBound, bare, check_growth, product_bound
from dpsql.sql.nodes import Bare, Binary, Node
from dpsql.sql.queries import Join
from dpsql.sql.trees import sorted_trees


@dataclass(frozen=True, slots=True)
class Equality:
    """left = right, where left is of the first relation and right of the second. Neither may be converted by the engine."""

    left: Scalar
    right: Scalar


def equates_units(equalities: Sequence[Equality]) -> bool:
    """True if they hold the same private key on both sides, by the same path to the unit (rule 46)."""
    return equate_keys((e.left, e.right) for e in equalities)


def keyed(relation: Relation, equalities: Sequence[Equality], *, right: bool = True) -> bool:
    """True if the equalities cover a unique set of one side, so that a row of the other side meets at most one of it.

    Where units are equated, the unit's own column counts as equated too.
    """
    sides = [e.right if right else e.left for e in equalities]
    fixed = {side.tree for side in sides if side.is_column}
    if relation.unit is not None and relation.unit.column is not None and equates_units(equalities):
        fixed.add(relation.unit.column.tree)
    return any(columns <= fixed for columns in relation.unique)


def matches(relation: Relation, equalities: Sequence[Equality]) -> int | None:
    """The most rows of a public relation that one row of the other side meets [rows]; None where nothing says."""
    if keyed(relation, equalities):
        return 1
    fixed = {e.right.tree for e in equalities if e.right.is_column}
    known = [relation.met] if relation.met is not None else []
    return min([*known, *(rows for column, rows in relation.multiplicity if column in fixed)], default=None)


def meets_few(left: Relation, right: Relation, equalities: Sequence[Equality]) -> bool:
    """True if a row meets no more rows of a public relation than can be bounded: by a limit on the unit's rows, and at row
    level, where no unit is left that rows could be cut by, one."""
    rows = matches(right, equalities)
    return rows == 1 or (rows is not None and left.unit is not None and left.unit.column is not None)


def public_equality(private: Scalar, public: Scalar) -> Equality | None:
    """An equality on a bare public column under which its key stays unique (rule 9): casts on the private side alone.

    None where the engine would have to convert the public column.
    """
    if not public.is_column:
        return None
    if private.sqltype == public.sqltype:
        return Equality(private, public)
    if private.sqltype.is_integer and public.sqltype.is_integer:
        return Equality(replace(convert(private, public.sqltype), nullable=True), public)
    return None


def inner_join(
    left: Relation, right: Relation, equalities: Sequence[Equality], residual: Sequence[Scalar] = ()
) -> Relation:
    """Each row of `left` beside the rows of `right` that equal it, where more conditions on both are true.

    Stability  private with private: the units are equal, so a pair of rows is of one unit; rows Ka * Kb, or those of one side
               where the other is met by a unique key. Private with public: the rows of a unit stay its own, and by a unique
               key they are no more                                                                               [rows]
    Refuses    901 (the planner asks `equates_units` and `keyed` before)
    """
    _check(left, right, equalities)
    if not right.is_private:
        right = _determined(right, equalities)
    from_right = _takes_unit_from(left, right)
    taken = right.unit if from_right else left.unit
    assert taken is not None
    return Relation(
        (
            *_totals_kept(left, keyed(right, equalities) or right.met == 1),
            *_totals_kept(right, keyed(left, equalities, right=False)),
        ),
        UnitBound(taken.column, _rows_of_pairs(left, right, equalities)),
        _unique_of_pairs(left, right, equalities),
        _joined("", left, right, _on(equalities, residual), from_right),
        (*left.where, *right.where),
        (*left.predicates, *right.predicates, *residual, *_looked_up(equalities)),
        (*left.tables, *right.tables),
        left.facts | right.facts,
        (*left.publics, *(right.publics if right.is_private else (right,))),
        (*left.links, *right.links, *(compare("=", e.left, e.right) for e in equalities if not right.is_private)),
        (*left.extended, *right.extended),
        _made("inner_join", left, right, equalities),
    )


def left_join(
    left: Relation, right: Relation, equalities: Sequence[Equality], residual: Sequence[Scalar] = ()
) -> Relation:
    """Every row of `left`, beside the rows of `right` that equal it or beside NULLs.

    Input      `right` is bare (relations.py), so that its columns are NULL where it has no row
    Stability  as the inner join, and a row without a match stays once: Ka where a row meets at most one of `right`; where a
               row of `right` meets at most one of `left`, Kb pairs and Ka - 1 rows without any; else max(Ka * Kb, Ka)    [rows]
    Why        the unit is the kept side's. The other side's columns can be NULL: they are nobody's unit, hold no private key,
               and are constant per unit only where the whole ON condition is (rules 2, 8)
    """
    _check(left, right, equalities, residual)
    assert left.unit is not None
    once = keyed(right, equalities) or right.met == 1
    fixed = keyed(right, equalities) and all(
        s.is_constant for e in equalities for s in (e.left, *_sides(e.right, right))
    )
    fixed = fixed and all(part.is_constant for part in residual)
    rows = left.unit.max_rows if once else _rows_kept(left, right, equalities)
    return Relation(
        (*_totals_kept(left, once), *_null_extended(right, constant=fixed)),
        UnitBound(left.unit.column, rows),
        left.unique if once else frozenset(),
        _joined("LEFT", left, right, _on(equalities, residual), False),
        left.where,
        (*left.predicates, *right.predicates, *residual, *_looked_up(equalities)),
        (*left.tables, *right.tables),
        left.facts | right.facts,
        left.publics,
        left.links,
        (*left.extended, *(() if right.is_private else (right,))),
        _made("left_join", left, right, equalities),
    )


def full_join(
    left: Relation, right: Relation, equalities: Sequence[Equality], residual: Sequence[Scalar] = ()
) -> Relation:
    """The rows of both, beside each other where they equal; both private and bare.

    Stability  the unit is the one of the two that is there, COALESCE of both (rule 2); rows max(Ka * Kb, Ka + Kb) [rows]
    """
    _check(left, right, equalities, residual)
    if not right.is_private or not bare(left) or left.unit is None or right.unit is None:
        raise error(901, "a full join needs people on both sides")
    assert left.unit.column is not None and right.unit.column is not None
    both = coalesce([left.unit.column, right.unit.column])
    ka, kb = left.unit.max_rows, right.unit.max_rows
    pairs = _rows_of_pairs(left, right, equalities)
    rows = max(pairs, ka + kb) if pairs is not None and ka is not None and kb is not None else None
    return Relation(
        (*_null_extended(left), *_null_extended(right)),
        UnitBound(
            replace(both, role="identifier", keys=left.unit.column.keys & right.unit.column.keys, constant=True), rows
        ),
        frozenset(),
        _full(left, right, _on(equalities, residual)),
        (),
        (*left.predicates, *right.predicates, *residual, *_looked_up(equalities)),
        (*left.tables, *right.tables),
        left.facts | right.facts,
        made=_made("full_join", left, right, equalities),
    )


# --- what the three have in common --------------------------------------------------------------------------------


def _made(step: Step, left: Relation, right: Relation, equalities: Sequence[Equality]) -> Made:
    return Made(step, (left, right), tuple((e.left, e.right) for e in equalities), becomes=right.met or 1)


def _check(
    left: Relation, right: Relation, equalities: Sequence[Equality], residual: Sequence[Scalar] | None = None
) -> None:
    check_growth(left, right, becomes=right.met or 1)
    if not left.is_private:
        raise error(901, "a join starts with a private relation")
    if right.is_private and not equates_units(equalities):
        raise error(901, "private relations meet only where their units are equal")
    if not right.is_private and not meets_few(left, right, equalities):
        raise error(901, "a public relation joins by a unique key, or a column of declared multiplicity")
    if residual is not None and not bare(right):
        raise error(901, "the side of an outer join that can be NULL must be bare")


def _looked_up(equalities: Sequence[Equality]) -> tuple[Scalar, ...]:
    """Scalars that a join compares identifiers with: constants of a public table, or computed values. The guard is
    told; the same private key on both sides only says whose rows they are."""
    return tuple(
        compare("=", e.left, e.right)
        for e in equalities
        if (e.left.is_identifying or e.right.is_identifying) and not goes_with(e.left, e.right)
    )


def _sides(scalar: Scalar, relation: Relation) -> tuple[Scalar, ...]:
    """A public side has one value a key, whatever the unit."""
    return (scalar,) if relation.is_private else ()


def _rows_of_pairs(left: Relation, right: Relation, equalities: Sequence[Equality]) -> int | None:
    """The most rows of a unit after an inner join (rule 5)."""
    assert left.unit is not None
    if right.unit is None:
        return product_bound(left.unit.max_rows, matches(right, equalities))
    bounds = []
    if keyed(right, equalities):
        bounds.append(left.unit.max_rows)
    if keyed(left, equalities, right=False):
        bounds.append(right.unit.max_rows)
    known = [b for b in bounds or [product_bound(left.unit.max_rows, right.unit.max_rows)] if b is not None]
    return min(known) if known else None


def _rows_kept(left: Relation, right: Relation, equalities: Sequence[Equality]) -> int | None:
    """The most rows of a unit after a left join that may meet several rows."""
    assert left.unit is not None
    ka, pairs = left.unit.max_rows, _rows_of_pairs(left, right, equalities)
    if ka is None or pairs is None:
        return None
    return pairs + ka - 1 if right.is_private and keyed(left, equalities, right=False) else max(pairs, ka)


def _unique_of_pairs(left: Relation, right: Relation, equalities: Sequence[Equality]) -> frozenset[frozenset[Node]]:
    """Unique sets of one side stay unique where each of its rows meets at most one of the other."""
    kept: frozenset[frozenset[Node]] = frozenset()
    if keyed(right, equalities) or right.met == 1:
        kept |= left.unique
    if right.is_private and keyed(left, equalities, right=False):
        kept |= right.unique
    return kept


def _determined(right: Relation, equalities: Sequence[Equality]) -> Relation:
    """The public side, its columns constant per unit where the unit's rows all meet the same row of it, or rows that agree (rule 8).

    Why  what is equated with a constant of the unit has one value in all rows that the unit meets, and what that determines has too:
         a dependence of a public table is verified at each opening (rule 60). A DOUBLE that is equal may group as another
    """
    whole = keyed(right, equalities) and all(e.left.is_constant for e in equalities)
    steady = keyed(right, equalities) and all(e.left.is_steady for e in equalities)
    fixed = frozenset(e.right.tree for e in equalities if e.left.is_constant and not e.right.sqltype.is_float)
    for _ in right.determines:
        fixed = fixed.union(*(others for columns, others in right.determines if columns <= fixed))
    told = bool(right.determines)
    return replace(
        right,
        columns=tuple(_said(c, whole or (told and c.scalar.tree in fixed), steady) for c in right.columns),
    )


def _said(column: Named, constant: bool, steady: bool) -> Named:
    if (column.scalar.constant, column.scalar.steady) == (constant, steady):
        return column
    return replace(column, scalar=replace(column.scalar, constant=constant, steady=steady))


def _null_extended(relation: Relation, constant: bool = False) -> tuple[Named, ...]:
    """The columns of a side that can be NULL: no key of anybody (rule 2), though one where it is not NULL."""
    return tuple(replace(c, scalar=_or_null(c.scalar, constant)) for c in relation.columns)


def _or_null(column: Scalar, constant: bool) -> Scalar:
    return replace(
        column,
        nullable=True,
        keys=NO_KEYS,
        parts=NO_PARTS,
        steady=False,
        names=frozenset(),
        maybe=column.held_or_null,
        constant=constant,
        unit_bounds=None,
    )


def _totals_kept(relation: Relation, once: bool) -> tuple[Named, ...]:
    """The columns of one side; rows that are met several times no longer add up to the total that was declared for a unit."""
    if once or all(c.scalar.unit_bounds is None for c in relation.columns):
        return relation.columns
    return tuple(replace(c, scalar=replace(c.scalar, unit_bounds=None)) for c in relation.columns)


def _takes_unit_from(left: Relation, right: Relation) -> bool:
    """True if the right side has the unit at hand while the left would have to join further up to reach it."""
    if right.unit is None:
        return False
    return left.source.plain != left.source.with_unit and right.source.plain == right.source.with_unit


def _on(equalities: Sequence[Equality], residual: Sequence[Scalar] = ()) -> tuple[Node, ...]:
    parts = [*(Bare(Binary("=", e.left.tree, e.right.tree)) for e in equalities), *(part.tree for part in residual)]
    return sorted_trees(dict.fromkeys(parts))


def _joined(kind: str, left: Relation, right: Relation, on: tuple[Node, ...], from_right: bool) -> From:
    def read(unit: bool) -> Node:
        first, second = left.read(unit and not from_right), right.read(unit and from_right)
        return Join(kind if on else "CROSS", first, second, on)

    return From(read(False), read(True), single=False)


def _full(left: Relation, right: Relation, on: tuple[Node, ...]) -> From:
    """Both sides with their units: either can be the one that is there."""
    tree = Join("FULL", left.read(), right.read(), on)
    return From(tree, tree, single=False)
