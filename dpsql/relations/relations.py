"""Relations: private ones, in which each row belongs to one privacy unit, and public ones.

The invariant of a private relation is *locality*: the rows of one unit are a function of that unit's stored rows and of public
data. Whoever is added or removed, everyone else's rows stay, bit for bit. Every function below (and in declared.py, joins.py and
per_unit.py) says why it keeps it, and refuses what would not.

The bound on rows per unit that a relation carries chooses the plan. What enforces it is the last step before the sums
(planner/lower), so a bound that was wrong would cost accuracy, not privacy; the exception is structure that cannot be enforced
(unique keys on the path to the unit, one row per unit), which the owner's `check` verifies for each data version.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import reduce
from typing import Literal

from dpsql.core.domains import Value
from dpsql.core.errors import error
from dpsql.expressions.lengths import LONGEST
from dpsql.expressions.logic import conjuncts, truth
from dpsql.expressions.scalar import NO_KEYS, NO_PARTS, Scalar
from dpsql.schema.model import UNIT_COLUMN, Table
from dpsql.sql.nodes import Column as ColumnNode
from dpsql.sql.nodes import Node, Number
from dpsql.sql.queries import Derived, Item, Join, Select
from dpsql.sql.trees import sorted_trees


@dataclass(frozen=True, slots=True)
class UnitBound:
    """Unit of each row, and the number of rows that one unit can have.

    column    the unit's value; None at row level, where each row is its own unit
    max_rows  [rows] of one unit; None where nothing bounds them yet
    """

    column: Scalar | None
    max_rows: int | None


@dataclass(frozen=True, slots=True)
class Named:
    """A visible column: the name of the source that it came with, its own name, and what stands behind both."""

    source: str
    name: str
    scalar: Scalar


@dataclass(frozen=True, slots=True)
class From:
    """FROM: without and with the unit's column, which may take a join up the references to reach.

    single  whether it is one table, which needs no parentheses inside a join
    """

    plain: Node
    with_unit: Node
    single: bool = True


Step = Literal[
    "public", "scan", "inner_join", "left_join", "full_join", "per_unit", "distinct", "windowed", "union_all", "derived", "projected",
    "renamed", "unnested",
]  # fmt: skip
"""Origin of a relation: the function's name, or "public" for one that no step is told of."""


@dataclass(frozen=True, slots=True)
class Made:
    """Origin of a relation: references only, nothing is put into words before it is asked for.

    step      the function that made it
    sources   the relations that it was made of
    pairs     what a join equates, left and right
    keys      what rows are grouped by
    computed  (a column, what it stands for)
    chosen    those columns whose values a condition decides
    becomes   [rows] the most that one row of the source becomes by UNNEST, or beside rows that the statement writes out
    """

    step: Step
    sources: tuple[Relation, ...] = ()
    pairs: tuple[tuple[Scalar, Scalar], ...] = ()
    keys: tuple[Scalar, ...] = ()
    computed: tuple[tuple[Node, Node], ...] = ()
    chosen: tuple[Node, ...] = ()
    becomes: int = 1


@dataclass(frozen=True, slots=True)
class Relation:
    """Rows with typed columns.

    columns     in the order in which `*` shows them
    unit        None: public
    unique      sets of columns that no two rows agree in
    source      FROM
    where       conditions that the enclosing SELECT has to apply
    predicates  every condition over people's rows, however deep: for the guard
    tables      the private tables read, in order
    facts       what a data version must be verified for so that `max_rows` holds there and every row has its unit
    publics     the public relations that were joined, and
    links       the equalities between them: where lists of group keys can come from
    extended    the public relations that an outer join may have no row of
    multiplicity  (column, rows) of a public relation: the most rows with one value of the column
    determines    (columns, columns) of a public relation: rows that agree in the first agree in the second
    written       rows of a public relation that the statement itself writes out, as domains hold values
    met           [rows] of these the most that one row can meet in the join at hand
    numbered    columns that number the rows of each unit: no two of one unit agree in one of them
    made        how it came about, for EXPLAIN to tell and for the guard to see which rows there are
    """

    columns: tuple[Named, ...]
    unit: UnitBound | None
    unique: frozenset[frozenset[Node]]
    source: From
    where: tuple[Scalar, ...] = ()
    predicates: tuple[Scalar, ...] = ()
    tables: tuple[Table, ...] = ()
    facts: frozenset[str] = frozenset()
    publics: tuple[Relation, ...] = ()
    links: tuple[Scalar, ...] = ()
    extended: tuple[Relation, ...] = ()
    made: Made | None = field(default=None, compare=False, repr=False)
    multiplicity: tuple[tuple[Node, int], ...] = ()
    determines: tuple[tuple[frozenset[Node], frozenset[Node]], ...] = ()
    numbered: tuple[Node, ...] = ()
    written: tuple[tuple[Value | None, ...], ...] | None = field(default=None, compare=False, repr=False)
    met: int | None = None

    @property
    def is_private(self) -> bool:
        return self.unit is not None

    @property
    def one_row_per_unit(self) -> bool:
        """True if a unit has at most one row by construction: at row level, or because the unit is unique.

        Why  nothing below enforces it. At row level a row is read once, or once beside the one row that it meets; the unit is
             unique where a declared key says so, which is verified (rule 36), after GROUP BY the unit, and through joins with
             what has at most one row to meet (rules 5, 9)
        """
        if self.unit is None:
            return False
        if self.unit.column is None:
            return self.unit.max_rows == 1
        return frozenset({self.unit.column.tree}) in self.unique

    @property
    def has_periods(self) -> bool:
        """True if a table with periods is read."""
        return any(table.period is not None for table in self.tables)

    def read(self, unit: bool = True) -> Node:
        """Item of FROM, with the unit's column or without."""
        return self.source.with_unit if unit else self.source.plain

    def sources(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(c.source for c in self.columns))


def filtered(source: Relation, condition: Scalar) -> Relation:
    """The rows for which a condition is true.

    Stability  a row stays or goes by its own values, and by what its own unit's rows say (EXISTS within the unit): one unit
               changes its own rows only; of rows that are numbered within the unit no more stay than there are numbers let
               through, whatever the data                                                                         [rows]
    """
    parts = conjuncts(truth(condition))
    kept = replace(source, where=(*source.where, *parts), predicates=(*source.predicates, *parts))
    told = ([part for part in parts if part.args and part.args[0].tree == number] for number in source.numbered)
    most = min(map(_numbers, told), default=math.inf)
    unit = source.unit
    if unit is None or unit.column is None or most >= (math.inf if unit.max_rows is None else unit.max_rows):
        return kept
    unique = kept.unique | {frozenset({unit.column.tree})} if most == 1 else kept.unique
    return replace(kept, unit=replace(unit, max_rows=int(most)), unique=unique)


def _numbers(conditions: Sequence[Scalar]) -> float:
    """[rows] The most whole numbers from 1 for which comparisons of one with constants are true."""
    listed, first, last = math.inf, 1.0, math.inf
    for condition in conditions:
        values = [part.value for part in condition.args[1:] if part.is_literal]
        if len(values) < len(condition.args) - 1 or not values:
            continue
        if condition.function in ("=", "in"):
            listed = min(listed, len(values))
        elif isinstance(end := values[0], int | Fraction):
            if condition.function in ("<", "<="):
                last = min(last, math.floor(end))
            elif condition.function in (">", ">="):
                first = max(first, math.floor(end) + 1 if condition.function == ">" else math.ceil(end))
    return min(listed, max(1.0, last - first + 1))


def projected(source: Relation, columns: tuple[Named, ...]) -> Relation:
    """The same rows, seen through other columns; the unit is carried along whether it is selected or not.

    Why  no boundary is printed: a derived table, a CTE and a view are the same text to the engine as what they stand for
    """
    return replace(source, columns=columns, made=Made("projected", (source,)))


def renamed(source: Relation, alias: str, names: tuple[str, ...] = ()) -> Relation:
    """The columns under one source's name, and under new names where a list of them is given."""
    shown = distinct_names([c.name for c in source.columns], names)
    columns = (Named(alias, name, c.scalar) for name, c in zip(shown, source.columns, strict=True))
    return replace(source, columns=tuple(columns), made=Made("renamed", (source,)))


def distinct_names(names: Sequence[str], listed: Sequence[str] = ()) -> list[str]:
    """The names under which DuckDB shows columns: those of an alias list first, and repeated ones numbered from 1.

    >>> distinct_names(["x", "x", "x_1"]), distinct_names(["a", "b"], ["c"])
    (['x', 'x_1', 'x_1_1'], ['c', 'b'])
    """
    found: dict[str, str] = {}
    for name in (*listed, *names[len(listed) :]):
        count, shown = 0, name
        while shown.lower() in found:
            count += 1
            shown = f"{name}_{count}"
        found[shown.lower()] = shown
    return list(found.values())


def side_by_side(parts: Sequence[Relation]) -> Relation:
    """Every combination of the rows of public relations."""
    if any(part.is_private for part in parts):
        raise error(901, "people's rows are joined by their unit")
    columns = tuple(column for part in parts for column in part.columns)
    tree = reduce(lambda one, other: Join("CROSS", one, other), (part.read() for part in parts))
    where = tuple(c for part in parts for c in part.where)
    return Relation(columns, None, frozenset(), From(tree, tree, len(parts) == 1), where)


def bare(relation: Relation) -> bool:
    """True if a relation is one table without conditions, whose columns can become NULL in an outer join as they are."""
    return relation.source.single and not relation.where and all(c.scalar.is_column for c in relation.columns)


def derived(source: Relation, alias: str) -> Relation:
    """The relation as a derived table: a boundary in the text, where one is needed (outer joins, UNION, windows)."""
    columns = tuple(replace(c, scalar=derived_column(alias, f"c{i}", c.scalar)) for i, c in enumerate(source.columns))
    moved = {c.scalar.tree: d.scalar.tree for c, d in zip(source.columns, columns, strict=True)}
    items = [Item(c.scalar.tree, f"c{i}") for i, c in enumerate(source.columns)]
    unit = source.unit
    carried = None
    if unit is not None and unit.column is not None:
        carried = replace(derived_column(alias, UNIT_COLUMN, unit.column), keys=unit.column.keys, constant=True)
        moved[unit.column.tree] = carried.tree
    return Relation(
        columns,
        UnitBound(carried, unit.max_rows) if unit is not None else None,
        translated(source.unique, moved),
        boundary(source, alias, items, carried is not None),
        predicates=source.predicates,
        tables=source.tables,
        facts=source.facts,
        made=Made("derived", (source,), computed=tuple((new, old) for old, new in moved.items())),
    )


def boundary(
    source: Relation, alias: str, items: Sequence[Node], carries_unit: bool, group: tuple[Node, ...] = ()
) -> From:
    """(SELECT items FROM source WHERE ...) AS alias, without and with the unit's column."""
    conditions = applied(source.where)

    def read(unit: bool) -> Node:
        listed = list(items)
        if carries_unit and unit:
            assert source.unit is not None and source.unit.column is not None
            listed.append(Item(source.unit.column.tree, UNIT_COLUMN))
        return Derived(Select(tuple(listed) or (Number(1),), source.read(unit), conditions, group), alias)

    return From(read(False), read(True))


def applied(conditions: Iterable[Scalar]) -> tuple[Node, ...]:
    """The parts of a WHERE, in an order that does not depend on how they were written."""
    return sorted_trees(condition.tree for condition in conditions)


def derived_column(alias: str, name: str, inner: Scalar) -> Scalar:
    """A column of a derived table, with all that is known of the expression behind it."""
    return Scalar(
        "column",
        (inner,),
        ColumnNode(alias, name),
        inner.sqltype,
        inner.domain,
        inner.limits,
        inner.nullable,
        inner.integral,
        role=inner.role,
        step=inner.step,
        unit_bounds=inner.unit_bounds,
        origin=inner.origin if inner.is_column else "",
        declared=inner.declared if inner.is_column else None,
        keys=inner.held,
        parts=inner.parts if inner.is_column else NO_PARTS,
        names=inner.names if inner.is_column else frozenset(),
        maybe=inner.maybe if inner.is_column else NO_KEYS,
        constant=inner.is_constant,
        steady=inner.is_steady,
        length=inner.length,
    )


def computed_column(alias: str, name: str, like: Scalar, parts: tuple[Scalar, ...] = ()) -> Scalar:
    """A column of a derived table that an aggregate or a window made; `like` is what it is worth.

    parts  whose values it shows, so that an identifier stays one
    """
    return replace(
        like,
        function="column",
        args=parts,
        tree=ColumnNode(alias, name),
        value=None,
        step=None,
        origin="",
        declared=None,
        keys=NO_KEYS,
        parts=NO_PARTS,
        names=frozenset(),
        maybe=NO_KEYS,
        steady=False,
    )


def translated(unique: frozenset[frozenset[Node]], moved: dict[Node, Node]) -> frozenset[frozenset[Node]]:
    """The unique sets whose columns all have a new name, under it."""
    return frozenset(frozenset(moved[c] for c in columns) for columns in unique if columns <= moved.keys())


def check_growth(*parts: Relation, becomes: int = 1) -> None:
    """Raise 204 where the lists of one row of each part, put beside each other, could be too many rows.

    becomes  what one row becomes besides

    Why  lists multiply: n of a thousand elements are 1000^n rows of whoever has them, and time and memory would say that they are
         there, long before any cut (rule 47)
    """
    waiting = list(parts)
    while waiting:
        made = waiting.pop().made
        if made is not None:
            becomes *= made.becomes
            waiting += made.sources
    if becomes > LONGEST:
        what = f"one row of a person could become {becomes:,} rows beside lists, and at most {LONGEST:,} are made"
        raise error(204, what, hint="ask about one list at a time, or about shorter ones")


def product_bound(*bounds: int | None) -> int | None:
    """The product of bounds on rows; None where one of them is not known."""
    result = 1
    for bound in bounds:
        if bound is None:
            return None
        result *= bound
    return result
