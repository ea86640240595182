"""void: proof that a part of a condition decides about nobody, by what is declared, or by what everybody can read.

A sample tells how many a part decides about, never that there is nobody. That is proved where the engine finds the conditions alike
with the part and without it: at all values of one column, as declared, between which no condition on it changes, NULL among them; or at
all rows of one public table, as of a brand that no item has. Of a text or number without a declaration every value is read; of dates
and times also the day, and the year, quarter and month.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from fractions import Fraction
from functools import partial
from itertools import pairwise, takewhile

from dpsql.core.domains import Categories, Interval, Value
from dpsql.core.sqltypes import BOOLEAN, DATE, DOUBLE, HUGEINT, TIMESTAMP, SqlType
from dpsql.expressions.scalar import Scalar
from dpsql.expressions.temporal import DAY, moment
from dpsql.guard.parts import FALSE, TRUE, Part, all_of, set_to
from dpsql.plan.resolved import Block
from dpsql.schema.write import days
from dpsql.sql.nodes import Aggregate, Binary, Call, Case, Cast, Chain, Column, Is, Literal, Node, Number, Own, Star
from dpsql.sql.queries import Derived, Item, Join, Select, Table
from dpsql.sql.trees import tables, walk

Point = Value | None
COUNTED = Own("n")
Counts = Callable[[Select], int]
"""The number that a query has as `n`."""
_LOGIC = ("and", "or", "not")
_COMPARED = ("is null", "in", "=", "<>", "<", "<=", ">", ">=")
"""Functions that change only where what they are of does, or meets a constant."""
_BELOW = frozenset("\0\1")
"""Letters beside which a text with one letter more is not the next."""
_CALENDAR = ("cast", "extract")
"""Functions that are read of a date or time: its day, and what is the same for whole months."""
MOST_POINTS = 2_000
_UNREAD = (TypeError, ValueError, ArithmeticError)
"""Exceptions of a constant that is no value of a column."""


class Proofs:
    """Proofs about the parts of one block."""

    def __init__(self, block: Block, counts: Counts) -> None:
        self._block, self._conditions, self._counts = block, block.source.predicates, counts
        asked = [part for a in block.aggregates for part in (*a.values, a.condition) if part is not None]
        # scalars that the block groups by and aggregates, and its FILTERs
        self._computed = [*(key.scalar for key in block.keys), *asked]

    # --- by what is declared of one column ----------------------------------------------------------------------------

    def is_void(self, part: Scalar, value: bool) -> bool:
        """True if nobody's rows change where a part is always `value`, unless it is NULL, whatever the values of other columns are."""
        if self._is_always(part, value, known=True):
            return True
        if not all(self._is_chosen_alike(whole, part, value) for whole in self._computed):
            return False
        left = [c for c in self._conditions if _holds(c, part) and self._decided(c, part) is None]
        if not left:
            return any(_holds(whole, part) for whole in (*self._conditions, *self._computed))
        column = _column(part)
        if column is None or not all(_is_on(c, column) for c in left):
            return False
        beside = [c for c in self._conditions if _is_on(c, column)]
        return self._is_set_alike(Is(all_of([c.tree for c in beside]), "TRUE"), beside, part, value)

    def is_constant(self, value: Scalar) -> bool:
        """True if a CASE has one constant for everybody who has a value, as declared."""
        if value.is_literal or value.function != "case":
            return value.is_literal
        *branches, default = value.args if len(value.args) % 2 else (*value.args, None)
        for condition, result in zip(branches[::2], branches[1::2], strict=True):
            if result.is_null:  # type: ignore[union-attr]
                continue
            # NULL takes no branch
            if not self._is_always(condition, False, known=True):  # type: ignore[arg-type]
                return self._is_always(condition, True) and self.is_constant(result)  # type: ignore[arg-type]
        return default is None or self.is_constant(default)

    def _decided(self, condition: Scalar, part: Scalar) -> bool | None:
        """Truth of a condition whatever a part of it is, by its other parts that are the same for everybody; None where
        that is unknown."""
        if condition.tree == part.tree:
            return None
        if condition.function == "not":
            inner = self._decided(condition.args[0], part)
            return None if inner is None else not inner
        if condition.function in ("and", "or"):
            decided = condition.function == "or"
            found = [self._decided(arg, part) for arg in condition.args]
            return decided if decided in found else None if None in found else not decided
        return next((value for value in (True, False) if self._is_always(condition, value)), None)

    def _is_chosen_alike(self, whole: Scalar, part: Scalar, value: bool) -> bool:
        """True if a part stands in the conditions of CASEs alone, which choose alike."""
        if whole.tree == part.tree or not _holds(whole, part):
            return whole.tree != part.tree
        args = whole.args
        if whole.function == "case":
            size = len(args) // 2 * 2
            if any(_holds(c, part) for c in args[:size:2]):
                reached = self._reached(whole, None, known=True)
                chosen = Case(tuple((c.tree, Number(i)) for i, c in enumerate(reached)), None)
                if not reached or not self._is_set_alike(chosen, reached, part, value, known=True):
                    return False
            args = (*args[1:size:2], *args[size:])
        return all(self._is_chosen_alike(arg, part, value) for arg in args)

    def _is_always(self, condition: Scalar, value: bool, *, known: bool = False) -> bool:
        """True if a condition on one column has one truth for every declared value.

        known  NULL is left out: so many have it that the sample tells of them
        """
        column = _column(condition)
        if (
            condition.function == "is null"
            and column is not None
            and condition.args[0].is_column
            and not column.nullable
        ):
            return not value
        return self._is_alike(condition.tree, Literal(value, BOOLEAN), [condition], known, None)

    def _is_set_alike(
        self, tree: Node, conditions: Sequence[Scalar], part: Scalar, value: bool, *, known: bool = False
    ) -> bool:
        """True if what is made of conditions on one column is the same with a part of them that is always `value`."""
        other = set_to(tree, Part(part), value)
        is_seen = other != tree or not any(_holds(c, part) for c in conditions)
        return is_seen and self._is_alike(tree, other, conditions, known, part)

    def _is_alike(self, one: Node, other: Node, conditions: Sequence[Scalar], known: bool, part: Scalar | None) -> bool:
        """True if two trees over conditions on one column, or over these with a part set, are alike at its values.

        Why  what is computed of the rows may have narrower bounds, of the conditions that keep these: it is asked only where the very
             same rows are kept with the part set
        """
        column = _column(conditions[0])
        if column is None or not all(
            _is_on(c, column) and self._is_read(c, part) and not tables(c.tree) for c in conditions
        ):
            return False
        try:
            points = [x for x in _points(column, conditions) if x is not None or not known]
            rows = _rows(column, points) if 0 < len(points) <= MOST_POINTS else None
        except _UNREAD:
            return False
        return rows is not None and not _differ(one, other, rows, self._counts)

    def _is_read(self, scalar: Scalar, part: Scalar | None) -> bool:
        """True if a condition on one column, with a part set or without, changes at constants alone, or between days or months."""
        args, is_read = scalar.args, partial(self._is_read, part=part)
        if scalar.is_literal or scalar.is_column:
            return True
        match scalar.function:
            case "isnan" | "isinf" | "isfinite":
                return isinstance(args[0].domain, Interval | Categories) and is_read(args[0])
            case "like":
                return isinstance(args[0].domain, Categories) and len(args) == 2 and all(map(is_read, args))
            case "extract" if args and args[0].sqltype.is_temporal and (args[0].is_column or args[0].is_literal):
                unit = next((n.value for n in walk(scalar.tree) if isinstance(n, Literal) and n.type.is_text), None)
                return unit in ("year", "quarter", "month")
            case "cast" | "convert":
                kinds = {args[0].sqltype, scalar.sqltype}
                return kinds == {DATE, TIMESTAMP} and (args[0].is_column or args[0].is_literal)
            case "case" if not scalar.sqltype.is_boolean:
                reached = len(self._reached(scalar, part))
                # what a branch gives is read too, of those that somebody takes
                given = args[1 : 2 * reached : 2] if reached < len(args) // 2 else args
                return reached > 0 and all(map(is_read, given))
            case name if name in _LOGIC:
                return all(map(is_read, args))
            case name if name in _COMPARED:
                # a truth is read where it is one, not as a value
                return all(is_read(arg) and (arg.is_literal or not arg.sqltype.is_boolean) for arg in args)
        return False

    def _reached(self, case: Scalar, part: Scalar | None, *, known: bool = False) -> Sequence[Scalar]:
        """The conditions of a CASE, up to those of which one is always true, whatever is set; none where another is not read."""
        conditions = case.args[: len(case.args) // 2 * 2 : 2]
        read = list(takewhile(partial(self._is_read, part=part), conditions))
        if not read or len(read) == len(conditions):
            return read
        if part is not None and any(_holds(c, part) for c in read):
            return ()
        met = Chain("OR", tuple(c.tree for c in read)) if len(read) > 1 else read[0].tree
        return read if self._is_alike(met, TRUE, read, known, None) else ()

    # --- by the rows of public tables ---------------------------------------------------------------------------------

    def is_void_in_public(self, part: Part, value: bool, public: frozenset[str]) -> bool:
        """True if a part that is always `value` changes nobody's rows, by the rows of public tables alone.

        Why  every condition, key and value that holds the part is the same with it and without, whatever rows people have: either the
             part stands in what is a function of a row of one public table, which is the same at each of its rows; or it is an
             alternative of what such a function decides at each of them, as is everything beside FALSE. Of a table that an outer join
             may have no row of every column may be NULL, and is tried as that

        public  the names of the public tables
        """
        source = self._block.source.read()
        seen = {alias: table for alias, table in _shown(source) if table in public}
        if any(node == part.tree for node in walk(source)):
            return False
        return all(self._is_alike_in_public(whole, part, value, seen) for whole in self._block.expressions)

    def _is_alike_in_public(self, whole: Scalar, part: Part, value: bool, seen: Mapping[str, str]) -> bool:
        if not _holds(whole, part.scalar):
            return True
        if _alias(whole, seen) is not None:
            return self._is_same_in_public([whole], whole.tree, set_to(whole.tree, part, value), seen)
        if whole.function in ("and", "or") and self._is_decided_in_public(whole, seen):
            return True
        return whole.tree != part.tree and all(self._is_alike_in_public(arg, part, value, seen) for arg in whole.args)

    def _is_decided_in_public(self, whole: Scalar, seen: Mapping[str, str]) -> bool:
        """True if alternatives of one public table make it FALSE in AND or TRUE in OR at each row of that."""
        beside: dict[str, list[Scalar]] = {}
        for arg in whole.args:
            beside.setdefault(_alias(arg, seen) or "", []).append(arg)
        beside.pop("", None)
        joined, decided = ("AND", FALSE) if whole.function == "and" else ("OR", TRUE)
        return any(
            self._is_same_in_public(some, Chain(joined, tuple(one.tree for one in some)), decided, seen)
            for some in beside.values()
        )

    def _is_same_in_public(self, scalars: Sequence[Scalar], one: Node, other: Node, seen: Mapping[str, str]) -> bool:
        """True if two expressions over the columns of scalars are the same at each row of their table."""
        alias = _alias(scalars[0], seen) or ""
        rows: Node = Table(seen[alias], alias)
        if any(leaf.nullable for scalar in scalars for leaf in scalar.leaves()):
            rows = _with_none(rows)
        return not _differ(one, other, rows, self._counts)


def _differ(one: Node, other: Node, rows: Node, counts: Counts) -> bool:
    counted = Item(Aggregate("count", (Star(),)), COUNTED)
    return counts(Select((counted,), rows, (Binary("IS DISTINCT FROM", one, other),))) != 0


def _holds(condition: Scalar, part: Scalar) -> bool:
    return any(inner.tree == part.tree for inner in condition.walk())


def _shown(source: Node) -> Iterator[tuple[str, str]]:
    """The stored tables whose columns a block sees by their aliases."""
    if isinstance(source, Table) and source.alias:
        yield source.alias, source.name
    elif isinstance(source, Join):
        for side in (source.left, source.right):
            yield from _shown(side)


def _alias(scalar: Scalar, seen: Mapping[str, str]) -> str | None:
    """The alias of the one public table whose row a scalar is a function of."""
    found = {leaf.tree.relation if isinstance(leaf.tree, Column) else "" for leaf in scalar.leaves()}
    nested = any(inner.function == "exists" for inner in scalar.walk()) or tables(scalar.tree)
    return found.pop() if len(found) == 1 and found <= seen.keys() and not nested else None


def _with_none(rows: Node) -> Node:
    """The rows of a table, and one of NULLs."""
    there = _unnested([TRUE, FALSE], Own("there"), "dpsql there")
    return Join("LEFT", there, rows, (Column("dpsql there", "there"),))


def _unnested(values: Sequence[Node], name: str, alias: str, sqltype: SqlType = BOOLEAN) -> Node:
    listed = Call("unnest", (Call("list_value", tuple(values)),))
    return Derived(Select((Item(Cast(listed, sqltype), name),)), alias)


# --- the values of a column ---------------------------------------------------------------------------------------


def _column(condition: Scalar) -> Scalar | None:
    """The one column that a condition reads, bare; None where it reads several, or none."""
    found = {leaf.tree: leaf for leaf in condition.leaves()}
    return next(iter(found.values())) if len(found) == 1 else None


def _is_on(condition: Scalar, column: Scalar) -> bool:
    own = _column(condition)
    return own is not None and own.tree == column.tree


def _points(column: Scalar, conditions: Sequence[Scalar]) -> list[Point]:
    """Values of a column between which no condition changes its truth; none where these are not known."""
    domain, marks = column.domain, {m for c in conditions for m in _constants(c)}
    if column.sqltype.element is not None:
        return []
    if isinstance(domain, Categories):
        found: list[Point] = list(domain.values)
    elif column.sqltype.is_text:
        # an undeclared text is one of the constants, or between two: the first of these is a constant with one letter more
        texts = [m for m in marks if isinstance(m, str)]
        found = ["", *texts, *(f"{text}\1" for text in texts)] if not any(_BELOW.intersection(t) for t in texts) else []
    else:
        found = list(_numbers(column, conditions, {m for m in marks if isinstance(m, Fraction)}))
    return [*found, None] if found and column.nullable else found


def _numbers(column: Scalar, conditions: Sequence[Scalar], marks: set[Fraction]) -> Iterator[Fraction | int]:
    """Numbers, days or microseconds, within the declared bounds if there are any."""
    domain = column.domain if isinstance(column.domain, Interval) else None
    if column.sqltype.is_counted and domain is None:
        return
    ends = (
        {domain.lower, domain.upper} if domain is not None else {min(marks, default=0) - 1, max(marks, default=0) + 1}
    )
    marks = {*marks, *ends}
    if not (column.integral or column.sqltype.is_counted):
        inside = sorted(m for m in marks if domain is None or m in domain)
        yield from inside
        yield from ((a + b) / 2 for a, b in pairwise(inside))
        return
    whole = {m.__floor__() + i for m in marks for i in (-1, 0, 1, 2)}
    if domain is None:
        yield from sorted(whole)
        return
    if column.sqltype.is_temporal and any(part.function in _CALENDAR for c in conditions for part in c.walk()):
        whole |= {start - i for start in _months(column, domain) for i in (0, 1)}
    first, last = domain.lower.__ceil__(), domain.upper.__floor__()
    yield from sorted(m for m in whole if first <= m <= last)


def _months(column: Scalar, domain: Interval) -> list[int]:
    """The starts of the months within the bounds of a date or time; where there are too many, more of them than are read."""
    first, last = moment(column, domain.lower), moment(column, domain.upper)
    numbers = range(first.year * 12 + first.month - 1, last.year * 12 + last.month)
    starts = [date(n // 12, n % 12 + 1, 1) for n in numbers[:MOST_POINTS]]
    return [days(start) * (1 if column.sqltype == DATE else DAY) for start in starts]


def _constants(condition: Scalar) -> Iterator[Value]:
    """The constants of a condition on one column, in its own units."""
    kinds = {leaf.sqltype for leaf in condition.leaves()}
    for part in condition.walk():
        if not part.is_literal or part.value is None or isinstance(part.value, bool):
            continue
        if isinstance(part.value, str):
            yield part.value
        elif part.sqltype == DATE and TIMESTAMP in kinds:
            yield from (Fraction(part.value + i) * DAY for i in (0, 1))
        elif part.sqltype == TIMESTAMP and DATE in kinds:
            yield Fraction(part.value // DAY)
        else:
            yield Fraction(part.value)


def _rows(column: Scalar, points: Sequence[Point]) -> Node | None:
    """A table of the values of a column, which the engine then reads in its type."""
    if not isinstance(column.tree, Column):
        return None
    sqltype, literals = column.sqltype, list[Node]()
    for point in points:
        if isinstance(point, Fraction) and sqltype.is_decimal:
            # what lies between two values of its grid is no value
            grid = 10**sqltype.scale
            literals += [
                Literal(Fraction(near, grid), sqltype) for near in (math.floor(point * grid), math.ceil(point * grid))
            ]
        else:
            is_number = isinstance(point, Fraction) and not sqltype.is_counted and not sqltype.is_boolean
            literals.append(Literal(point, DOUBLE if is_number and not sqltype.is_integer else sqltype))
    # of a number that is not declared also what its type does not hold
    return _unnested(literals, column.tree.name, column.tree.relation, HUGEINT if sqltype.is_integer else sqltype)
