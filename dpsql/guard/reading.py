"""reading: a condition -> the region for which it is true and the one for which it is false; for the rest it is NULL.

AND, OR, NOT, CASE, COALESCE and IS are taken apart with SQL's three values. What is left compares one column with constants: then the
region is a set of its values, or it is evaluated at every declared value by DuckDB, over tables of declared values alone, so that
LIKE, casts and functions mean here what they mean there. Columns of public tables are looked up by the key that they are joined by.
What can be taken apart in neither way is *opaque*: a column of its own, named by its canonical text, whose share nobody knows.
"""

from __future__ import annotations

import math
import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from math import prod

from dpsql.core.cancellation import check
from dpsql.core.domains import Categories, Interval, Value, integers
from dpsql.core.errors import Error
from dpsql.expressions import logic
from dpsql.expressions.literals import NULL, boolean_literal, integer_literal, literal
from dpsql.expressions.scalar import Scalar
from dpsql.expressions.scalar import column as stored_column
from dpsql.guard.points import MOST_PIECES, MOST_POINTS, Grid, Points, cells_of, region_of
from dpsql.guard.regions import EVERYTHING, NOTHING, Region, Tangled, both, box_of, but_not, either, joined, others
from dpsql.guard.rows import Lookup, Rows
from dpsql.guard.steps import ORDERED, arithmetic, conversion, defined_at, matching
from dpsql.guard.texts import RELEASED, TOKEN, declares, digest, looked_for, mentions, replaced, said, short
from dpsql.guard.values import Axis, Opaque, Ranged, Values, ranged
from dpsql.plan.resolved import Bound
from dpsql.schema.model import RESERVED, Schema, Table
from dpsql.sql.duckdb import printed, quoted
from dpsql.sql.nodes import Aggregate, Bare, Binary, Column, Exists, Node, Number, QueryValue
from dpsql.sql.queries import Beside, Select

MOST_REFERRED = 20_000
"""Values of a public table that list the column that refers to them."""
MOST_KEPT = 512
"""Questions whose rows are remembered."""
MOST_BESIDE = 4
"""Places in FROM of one table with several rows a unit: columns of further ones are not known again after a restart."""
MOST_DEPTH = 60
"""Levels of conditions and columns inside each other."""
MOST_WORK = 20_000
"""Boxes that are made for one statement, before all that is left of it is opaque."""
_COMPARED = ("=", "<>", *ORDERED)
_STRICT = frozenset(
    [
        "cast",
        "convert",
        "+",
        "-",
        "*",
        "/",
        "//",
        "%",
        "abs",
        "round",
        "floor",
        "ceil",
        "upper",
        "lower",
        "length",
        "trim",
        "||",
        "extract",
        "date_trunc",
    ]
)
"""Functions that are NULL where an operand is."""
_ENDED = ("DPSQL-110", "DPSQL-703", "DPSQL-711")
"""The statement has ended, whatever the condition says."""
Evaluate = Callable[[str, Sequence[str]], list[tuple[object, ...]]]
"""Rows of a question over constants and the public tables that are named."""


@dataclass(frozen=True, slots=True)
class Truth:
    """Where a condition is true, and where it is false; elsewhere it is NULL."""

    true: Region
    false: Region


ALWAYS, NEVER, UNKNOWN = Truth(EVERYTHING, NOTHING), Truth(NOTHING, EVERYTHING), Truth(NOTHING, NOTHING)


@dataclass(slots=True)
class Context:
    """What conditions of one block are read against, and what was noticed on the way.

    bounds    the bound tables that the statement has
    released  names of those that hold released values, and
    middles   for those that hold a mean or a median of many people, of which declared column
    unsized   columns that tell people apart, in conditions that could not be taken apart (R5)
    depth     how far inside other conditions the one is that is read
    work      how many boxes were made so far
    matching  whether columns of the side of an outer join are read as if it was there
    within    the EXISTS that was read as a condition on a row
    truths    what was read, by its text, and
    chosen    the branches of values
    """

    rows: Rows
    bounds: Mapping[str, Bound] = field(default_factory=dict)
    released: frozenset[str] = frozenset()
    middles: Mapping[str, str] = field(default_factory=dict)
    unsized: list[Scalar] = field(default_factory=list)
    depth: int = 0
    work: int = 0
    matching: bool = False
    within: str = ""
    truths: dict[str, Truth] = field(default_factory=dict)
    chosen: dict[str, list[tuple[Region, Scalar]]] = field(default_factory=dict)


class Reader:
    """Reads conditions; what was evaluated is remembered, as it depends on the declared schema alone."""

    def __init__(self, schema: Schema, evaluate: Evaluate) -> None:
        self._schema = schema
        self._evaluate = evaluate
        self._known: OrderedDict[str, list[object]] = OrderedDict()
        self._axes: dict[str, Axis] = {}
        self._declared: dict[str, Axis] = {}
        self._listed: dict[str, tuple[Value, ...]] = {}

    # --- conditions ---------------------------------------------------------------------------------------------------

    def truth(self, condition: Scalar, context: Context) -> Truth:
        """The regions of a condition; a condition of too many boxes or levels is opaque as a whole."""
        known = context.truths.get(said(condition))
        if known is not None:
            return known
        check()
        context.depth += 1
        try:
            if context.depth > MOST_DEPTH or context.work > MOST_WORK:
                raise Tangled
            found = self._truth(condition, context)
        except (Tangled, Opaque):
            found = self.opaque(condition, context)
        finally:
            context.depth -= 1
        context.work += 1 + len(found.true) + len(found.false)
        context.truths[said(condition)] = found
        return found

    def _truth(self, s: Scalar, context: Context) -> Truth:
        if s.is_literal:
            return UNKNOWN if s.value is None else ALWAYS if s.value else NEVER
        match s.function:
            case "and" | "or":
                parts = [self.truth(part, context) for part in s.args]
                while len(parts) > 1:
                    # in pairs, so that what is alike grows together first
                    pairs = [_joined(s.function, parts[i : i + 2]) for i in range(0, len(parts), 2)]
                    context.work += sum(len(one.true) + len(one.false) for one in pairs)
                    if context.work > MOST_WORK:
                        raise Tangled
                    parts = pairs
                return parts[0]
            case "not":
                one = self.truth(s.args[0], context)
                return Truth(one.false, one.true)
            case "is true" | "is false":
                one = self.truth(s.args[0], context)
                true = one.true if s.function == "is true" else one.false
                return Truth(true, others(true))
            case "case" | "coalesce":
                return self._of_pieces(s, context, lambda value: value)
            case "exists" if s.args:
                return self._exists(s, context)
            case "column":
                inner = self._behind(s, context)
                if inner is not s and said(s) not in context.rows.matched:
                    return self.truth(inner, context)
                return self._leaf(logic.compare("=", s, boolean_literal(True)), context)
            case "is null" if s.args[0].sqltype.is_boolean and not s.args[0].is_column:
                one = self.truth(s.args[0], context)
                known = either(one.true, one.false)
                return Truth(others(known), known)
        return self._leaf(s, context)

    def _leaf(self, s: Scalar, context: Context) -> Truth:
        """A condition that is no combination of others; on columns of the side of an outer join that may stay away, only where it is
        there. Raises Opaque."""
        if len(s.args) == 2 and s.args[0].is_literal:
            # IS DISTINCT FROM keeps its order
            s = replace(s, args=s.args[::-1])
        sides = {said(m): m for leaf in s.leaves() if (m := context.rows.matched.get(said(leaf))) is not None}
        if not sides or context.matching:
            return self._plain(s, context)
        if s.args and _branches(s.args[0]) and all(arg.is_literal for arg in s.args[1:]):
            return self._plain(s, context)
        distinct = s.function in ("is distinct from", "is not distinct from")
        known = distinct or s.function in (*_COMPARED, "in", "like", "ilike", "is null", "not")
        if not known or not all(map(_is_strict, s.args)) or (distinct and not s.args[1].is_literal):
            raise Opaque
        with self._there(sides.values(), context) as there:
            one = self._plain(s, context)
        true, false = both(there, one.true), both(there, one.false)
        if s.function == "is null" or (
            distinct and (s.args[1].value is None) == (s.function == "is not distinct from")
        ):
            return Truth(others(false), false)
        return Truth(true, others(true)) if distinct else Truth(true, false)

    @contextmanager
    def _there(self, sides: Iterable[Scalar], context: Context) -> Iterator[Region]:
        """Where sides of outer joins are there; meanwhile their columns are read as if they were. Raises Opaque, Tangled."""
        context.matching = True
        try:
            there = EVERYTHING
            for side in sides:
                there = both(there, self._truth(side, context).true)
            yield there
        finally:
            context.matching = False

    def _plain(self, s: Scalar, context: Context) -> Truth:
        """The same where every column is there."""
        if s.args and s.function in (
            *_COMPARED,
            "in",
            "is null",
            "like",
            "ilike",
            "is distinct from",
            "is not distinct from",
        ):
            first, rest = s.args[0], s.args[1:]
            if _branches(self._behind(first, context)) and all(arg.is_literal for arg in rest):
                return self._of_pieces(first, context, lambda value: _again(s.function, value, list(rest)))
            try:
                return self._compared(
                    replace(s, args=(first, *(self._constant(arg, context) for arg in rest))), context
                )
            except Opaque:
                pass
        return self._evaluated(s, context)

    def _constant(self, s: Scalar, context: Context) -> Scalar:
        """What is computed of constants alone, such as the first day of a month, as a constant. Raises Opaque."""
        if s.is_literal or any(True for _ in s.leaves()) or not s.args or s.function == "exists":
            return s
        of_type = {"TIMESTAMP": "epoch_us({})", "DATE": "(({}) - DATE '1970-01-01')"}
        (value,) = self._answers(f"SELECT {of_type.get(s.sqltype.name, '{}').format(said(s))}", context)
        if value is None or isinstance(value, int | str):
            return literal(value, s.sqltype)
        if isinstance(value, float | Decimal) and math.isfinite(value):
            return literal(Fraction(value), s.sqltype)
        return s

    def _of_pieces(self, s: Scalar, context: Context, condition: Callable[[Scalar], Scalar]) -> Truth:
        """A condition on a value that is chosen from branches: in each branch the condition on that one's value."""
        true, false = NOTHING, NOTHING
        for where, value in self.pieces(s, context):
            try:
                asked = condition(value)
            except Error:
                # NULL takes the type of what it stands beside, and the branches of one value are of one type
                raise Opaque from None
            one = self.truth(asked, context)
            true = (*true, *both(where, one.true))
            false = (*false, *both(where, one.false))
        return Truth(joined(true), joined(false))

    def pieces(self, s: Scalar, context: Context) -> list[tuple[Region, Scalar]]:
        """A value that is chosen from branches: where it is which of them. Raises Tangled."""
        if said(s) not in context.rows.matched or context.matching:
            s = self._behind(s, context)
        # NULLs of two types have one text
        name = f"{said(s)} {s.sqltype}"
        known = context.chosen.get(name)
        if known is not None:
            return known
        context.depth += 1
        try:
            if context.depth > MOST_DEPTH or context.work > MOST_WORK:
                raise Tangled
            found = self._pieces(s, context)
        finally:
            context.depth -= 1
        context.work += sum(len(where) for where, _ in found)
        context.chosen[name] = found
        return found

    def _pieces(self, s: Scalar, context: Context) -> list[tuple[Region, Scalar]]:
        if s.function == "case":
            return self._cases(s, context)
        if s.function == "coalesce":
            return self._first_known(s, context)
        if s.function == "nullif":
            equal = self.truth(logic.compare("=", *s.args), context).true
            return [*self._within(others(equal), s.args[0], context), (equal, NULL)]
        if s.sqltype.is_boolean and not s.is_column and not s.is_literal:
            return self._three(s, context, boolean_literal)
        if s.function in ("cast", "convert") and s.sqltype.is_number and s.args[0].sqltype.is_boolean:
            return self._three(s.args[0], context, lambda value: integer_literal(int(value)))
        if s.function == "convert" and _branches(s.args[0]) and s.sqltype.is_number:
            return self.pieces(s.args[0], context)
        return [(EVERYTHING, s)]

    def _cases(self, s: Scalar, context: Context) -> list[tuple[Region, Scalar]]:
        rest, found = EVERYTHING, []
        pairs = len(s.args) // 2
        for condition, value in zip(s.args[0 : 2 * pairs : 2], s.args[1 : 2 * pairs : 2], strict=True):
            true = self.truth(condition, context).true
            found += self._within(both(rest, true), value, context)
            rest = but_not(rest, true)
        default = s.args[-1] if len(s.args) % 2 else literal(None, s.sqltype)
        return found + self._within(rest, default, context)

    def _first_known(self, s: Scalar, context: Context) -> list[tuple[Region, Scalar]]:
        rest, found = EVERYTHING, []
        for value in s.args:
            unknown = self.truth(logic.is_null(value), context)
            found += self._within(both(rest, unknown.false), value, context)
            rest = both(rest, unknown.true)
        return [*found, (rest, literal(None, s.sqltype))]

    def _three(self, s: Scalar, context: Context, of: Callable[[bool], Scalar]) -> list[tuple[Region, Scalar]]:
        one = self.truth(s, context)
        unknown = others(either(one.true, one.false))
        return [(one.true, of(True)), (one.false, of(False)), (unknown, NULL)]

    def _within(self, where: Region, value: Scalar, context: Context) -> list[tuple[Region, Scalar]]:
        if not where:
            return []
        return [(met, one) for region, one in self.pieces(value, context) if (met := both(where, region))]

    def _exists(self, s: Scalar, context: Context) -> Truth:
        """A row of the same person that meets conditions, as if everybody had one: where those are true. Raises Opaque.

        Why  one such condition alone: two rows of one person may meet two of them, and no one row both
        """
        conditions = [part for part in s.args if part.sqltype.is_boolean]
        if (
            looked_for(said(s)) is None
            or any(part.is_column for part in conditions)
            or context.within not in ("", said(s))
        ):
            raise Opaque
        context.within = said(s)
        true = EVERYTHING
        for condition in conditions:
            true = both(true, self.truth(condition, context).true)
        return Truth(true, others(true))

    # --- one column and constants -------------------------------------------------------------------------------------

    def _compared(self, s: Scalar, context: Context) -> Truth:
        """A comparison of a column, or of what a few steps of arithmetic make of it, with constants. Raises Opaque."""
        if not all(arg.is_literal for arg in s.args[1:]):
            raise Opaque
        column, steps = self._steps(s.args[0], context)
        axis = self._axis(column, context)
        if axis is None:
            raise Opaque
        null = axis.null
        if s.function == "is null":
            defined = defined_at(axis, steps) if axis.ranged else null.others()
            if steps and not axis.ranged:
                raise Opaque
            return Truth(box_of(defined.others()), box_of(defined))
        constants = [arg.value for arg in s.args[1:]]
        distinct = s.function in ("is distinct from", "is not distinct from")
        if s.function not in (*_COMPARED, "in") and not distinct:
            raise Opaque
        self._note(column, axis, context)
        asked = [constant for constant in constants if constant is not None or distinct]
        found = _united(axis, [matching(axis, steps, s.function, constant) for constant in asked])
        if distinct:
            if steps:
                raise Opaque
            found = found if s.function == "is not distinct from" else found.others()
            return Truth(box_of(found), box_of(found.others()))
        defined = defined_at(axis, steps) if axis.ranged else null.others()
        found = found.both(defined)
        rest = found.others().both(defined)
        if any(constant is None for constant in constants):
            return Truth(box_of(found) if s.function == "in" else NOTHING, NOTHING)
        return Truth(box_of(rest), box_of(found)) if s.function == "<>" else Truth(box_of(found), box_of(rest))

    def _steps(self, s: Scalar, context: Context) -> tuple[Scalar, list[tuple[str, Fraction]]]:
        """The column that a value is made of, and what is done with it, the last step first. Raises Opaque."""
        s = self._behind(s, context)
        if s.is_column:
            return s, []
        step: list[tuple[str, Fraction]] | None = None
        literals = [arg for arg in s.args if arg.is_literal]
        other = next((arg for arg in s.args if not arg.is_literal), None)
        number = literals[0].value if len(literals) == 1 and len(s.args) == 2 else None
        if other is None:
            raise Opaque
        if s.function in ("convert", "cast") and len(s.args) == 1:
            step = conversion(other.sqltype, s.sqltype)
        elif s.function in ("floor", "ceil") and len(s.args) == 1:
            step = [(s.function, Fraction(0))]
        elif number is not None and not isinstance(number, str | bool) and other.sqltype.is_number:
            step = arithmetic(s.function, Fraction(number), s.args[0] is other)
        if step is None:
            raise Opaque
        column, before = self._steps(other, context)
        return column, [*step, *before]

    def values(self, s: Scalar, context: Context) -> list[Region]:
        """The regions of the values that a scalar can have. Raises Opaque, Tangled."""
        sides = {said(m): m for leaf in s.leaves() if (m := context.rows.matched.get(said(leaf))) is not None}
        if sides and not context.matching:
            if not _is_strict(s):
                raise Opaque
            away = self.truth(logic.is_null(s), context).true
            with self._there(sides.values(), context) as there:
                found = [but_not(both(there, region), away) for region in self.values(s, context)]
            return [region for region in (*found, away) if region]
        try:
            column, steps = self._steps(s, context)
            axis = self._axis(column, context)
        except Opaque:
            column, steps, axis = s, [], None
        if axis is not None:
            if not steps and not axis.ranged and axis.values:
                return [box_of(axis.of(value)) for value in (*axis.values, *([None] if axis.nullable else []))]
            listed = integers(s.domain) if s.integral or s.sqltype.name == "DATE" else None
            if axis.ranged and listed is not None and len(listed.values) <= MOST_PIECES:
                found = [box_of(matching(axis, steps, "=", value)) for value in listed.values]
                return [*found, box_of(axis.null)] if axis.nullable else found
        cells, answers = self.table(s, context)
        if len(cells) != 1:
            by_value: dict[object, list[bool]] = {}
            for i, answer in enumerate(answers):
                by_value.setdefault(answer, [False] * len(answers))[i] = True
                if len(by_value) > MOST_PIECES // 10:
                    raise Tangled
            return [region_of(cells, holds) for holds in by_value.values()]
        groups: dict[object, list[int]] = {}
        for place, answer in enumerate(answers):
            groups.setdefault(answer, []).append(place)
        return [box_of(cells[0].of(places)) for places in groups.values()]

    # --- columns ------------------------------------------------------------------------------------------------------

    def _behind(self, s: Scalar, context: Context) -> Scalar:
        """What a column stands for: through derived tables, and through the half of a UNION."""
        for _ in range(MOST_DEPTH):
            if not s.is_column or said(s) in context.rows.unclear:
                return s
            inner = context.rows.stands_for.get(said(s))
            if inner is None and s.renames:
                inner = s.args[0]
            if inner is None:
                return s
            s = inner
        raise Tangled

    def _axis(self, column: Scalar, context: Context) -> Axis | None:
        """The axis of a stored column, or of one that a per-unit block computes; None for a column of a public table."""
        if said(column) in context.rows.unclear:
            return None
        prefix, _, name = said(column).rpartition(".")
        table = next((table for before, table in context.rows.scans if before == prefix), None)
        nullable, stored = column.nullable, None
        if table is not None:
            key = f"{table}.{name[1:-1]}"
            declared = self._schema.table(table)
            stored = declared.column(name[1:-1]) if declared is not None else None
            # after an outer join it may be NULL as well, and is the same column
            nullable = stored.nullable if stored is not None else nullable
            places = [before for before, other in context.rows.scans if other == table]
            if declared is not None and not self._schema.one_row_per_unit(declared) and places.index(prefix):
                key += f" {places.index(prefix) + 1}"
        elif context.within and column.origin and prefix in (looked_for(context.within) or ()):
            return self._axis_within(column)
        elif said(column) in context.rows.computed:
            key = f"computed {digest(self._named(context.rows.computed[said(column)], context))}"
            nullable = nullable and said(column) not in context.rows.sure
        else:
            return None
        if key not in self._axes:
            shown = (
                name[1:-1] if table is not None else short(self._named(context.rows.computed[said(column)], context))
            )
            # the declared values: a column of a block may be left with those that its WHERE lets through
            like = (
                column
                if stored is None
                else stored_column(
                    Column("", stored.name), stored.sqltype, stored.domain, step=stored.step, length=stored.longest
                )
            )
            self._axes[key] = _axis(
                key, shown, like, nullable, self._referred(self._schema.table(table or ""), name[1:-1])
            )
        return self._axes[key]

    def _axis_within(self, column: Scalar) -> Axis | None:
        """The axis of a column of a row that EXISTS looks for: the person's own, where they have one row."""
        table, _, name = column.origin.rpartition(".")
        declared = self._schema.table(table)
        stored = declared.column(name) if declared is not None else None
        if declared is None or stored is None or declared.public:
            return None
        one = self._schema.one_row_per_unit(declared)
        key = column.origin if one else f"{column.origin} within"
        if key not in self._axes:
            self._axes[key] = _axis(key, name, column, stored.nullable, self._referred(declared, name))
        return self._axes[key]

    def _is_public(self, column: Scalar) -> bool:
        declared = self._schema.table(column.origin.rpartition(".")[0])
        return declared is not None and declared.public

    def _referred(self, table: Table | None, name: str) -> tuple[Value, ...]:
        """The values that a column refers to in a public table: they list it, where no declaration does; () for none, or too many."""
        reference = table.reference(name) if table is not None else None
        target = self._schema.table(reference.table) if reference is not None else None
        if target is None or reference is None or not target.public:
            return ()
        key = f"{target.name}.{reference.target}"
        if key not in self._listed:
            column = quoted(reference.target)
            source = f"{quoted(target.name)} WHERE {column} IS NOT NULL"
            sql = f"SELECT DISTINCT {column} FROM {source} ORDER BY ALL LIMIT {MOST_REFERRED + 1}"
            found = [row[0] for row in self._evaluate(sql, [target.name])]
            plain = len(found) <= MOST_REFERRED and all(isinstance(value, int | str) for value in found)
            self._listed[key] = tuple(found) if plain else ()  # type: ignore[arg-type]
        return self._listed[key]

    def declared_axes(self) -> Mapping[str, Axis]:
        """The axes of all stored columns, by their keys."""
        if not self._declared:
            for table in self._schema.tables:
                for c in table.columns if not table.public else ():
                    like = stored_column(Column("", c.name), c.sqltype, c.domain, step=c.step, length=c.longest)
                    places = ("", *(f" {place}" for place in range(2, MOST_BESIDE + 1)), " within")
                    for key in (f"{table.name}.{c.name}{place}" for place in places):
                        axis = _axis(key, c.name, like, c.nullable, self._referred(table, c.name))
                        self._declared[axis.key] = axis
        return self._declared

    def _note(self, column: Scalar, axis: Axis, context: Context) -> None:
        """R5: a condition on a column without declared values says nothing about how many people it is about."""
        if column.role == "quasi" and axis.bounds is None and not axis.values:
            context.unsized.append(column)

    # --- evaluated at every declared value ----------------------------------------------------------------------------

    def _evaluated(self, s: Scalar, context: Context) -> Truth:
        """A condition that reads few columns, at all of their declared values. Raises Opaque."""
        cells, answers = self.table(s, context)
        return Truth(
            region_of(cells, [answer is True for answer in answers]),
            region_of(cells, [answer is False for answer in answers]),
        )

    def table(self, s: Scalar, context: Context) -> tuple[list[Points | Grid], list[object]]:
        """For each column that a value reads its cells, and the value for every combination of them. Raises Opaque."""
        if any(part.function == "exists" for part in s.walk()):
            raise Opaque
        columns: dict[str, Scalar] = {}
        text = self._text(s, context, columns)
        if any(mentions(text, name) for name in context.released):
            raise Opaque
        axes: dict[str, tuple[Axis, Scalar]] = {}
        for column in columns.values():
            axis = self._axis(column, context)
            if axis is None:
                raise Opaque
            axes.setdefault(axis.key, (axis, column))
        # a value that something is compared with may be one that is not declared; a pattern of LIKE is none
        compared = [part for part in s.walk() if part.function in (*_COMPARED, "in") or "distinct" in part.function]
        constants = [arg for part in compared for arg in part.args if arg.is_literal]
        listed = [cells_of(axis, column.sqltype, constants) for axis, column in axes.values()]
        if prod(len(cells) for cells in listed) > MOST_POINTS:
            raise Opaque
        places = {axis.key: i for i, (axis, _) in enumerate(axes.values())}
        named = {
            sql: f'"{RESERVED}{places[found.key]}"."v"'
            for sql, column in columns.items()
            if (found := self._axis(column, context)) is not None
        }
        sources = ", ".join(f'({cells.sql}) AS "{RESERVED}{i}"(i, v)' for i, cells in enumerate(listed))
        order = ", ".join(f'"{RESERVED}{i}".i' for i in range(len(listed)))
        sql = f"SELECT {replaced(text, named)}" + (f" FROM {sources} ORDER BY {order}" if listed else "")
        return listed, self._answers(self._with(sql, context), context)

    def _answers(self, sql: str, context: Context) -> list[object]:
        found = self._known.get(sql)
        if found is None:
            public = [t.name for t in self._schema.tables if t.public and mentions(sql, t.name)]
            try:
                found = [row[0] for row in self._evaluate(sql, public)]
            except Error as problem:
                check()
                if problem.code in _ENDED:
                    raise
                found = None
            if found is None:
                raise Opaque
            if len(found) <= MOST_POINTS:
                self._known[sql] = found
        self._known.move_to_end(sql)
        while len(self._known) > MOST_KEPT:
            self._known.popitem(last=False)
        return found

    def _text(self, s: Scalar, context: Context, columns: dict[str, Scalar]) -> str:
        """A value's text over stored columns alone, which are added to `columns`; public columns are looked up. Raises Tangled."""
        leaves = {said(leaf): leaf for leaf in s.leaves()}
        needed: list[Lookup] = []
        texts: dict[str, str] = {}
        waiting = list(leaves.values())
        while waiting:
            leaf = waiting.pop()
            if said(leaf) in texts or said(leaf) in columns:
                continue
            inner = self._behind(leaf, context)
            if inner is not leaf:
                texts[said(leaf)] = f"({self._text(inner, context, columns)})"
                continue
            lookup = next((look for look in context.rows.lookups if _holds(look, leaf)), None)
            if lookup is None:
                columns[said(leaf)] = leaf
            elif lookup not in needed:
                needed.append(lookup)
                waiting += [part for one, _ in lookup.pairs for part in one.leaves()]
        tree = QueryValue(_beside((Aggregate("max", (s.tree,)),), needed)) if needed else s.tree
        return replaced(printed(tree), texts)

    def required(self, lookup: Lookup, context: Context) -> Truth:
        """Where rows have a match in a public relation that they are joined with, through others that it is joined by."""
        chain = [lookup]
        columns: dict[str, Scalar] = {}
        for one in chain:
            for leaf in (leaf for mine, _ in one.pairs for leaf in mine.leaves()):
                through = next((other for other in context.rows.lookups if _holds(other, leaf)), None)
                if through is None:
                    columns[said(leaf)] = leaf
                elif through not in chain:
                    chain.append(through)
        tree = Exists(_beside((Number(1),), chain))
        return self.truth(Scalar("matches", tuple(columns.values()), tree, boolean_literal(True).sqltype), context)

    def _with(self, sql: str, context: Context) -> str:
        """A question with the bound tables that it reads."""
        used: list[str] = []
        waiting = [name for name in context.bounds if mentions(sql, name)]
        while waiting:
            name = waiting.pop()
            if name not in used:
                used.append(name)
                waiting += context.bounds[name].reads
        if any(name in context.released or name not in context.bounds for name in used):
            raise Opaque
        parts = [
            f'"{name}"({", ".join(column for column, _ in bound.columns)}) AS ({bound.sql}\n)'
            for name, bound in context.bounds.items()
            if name in used
        ]
        return f"WITH {', '.join(parts)} {sql}" if parts else sql

    # --- what cannot be taken apart -----------------------------------------------------------------------------------

    def opaque(self, s: Scalar, context: Context) -> Truth:
        """A condition that is a column of its own."""
        columns: dict[str, Scalar] = {}
        try:
            text = self._text(s, context, columns)
        except Tangled:
            text, columns = said(s), {said(leaf): leaf for leaf in s.leaves()}
        released = any(mentions(text, name) for name in context.released)
        if not released:
            # rule 34: a condition on released values may be about any column
            # of identifiers R1 has said what there is to say
            inside = [part for part in s.walk() if part.is_column]
            context.unsized += [c for c in (*columns.values(), *inside) if c.role == "quasi" and not self._is_public(c)]
        key = f"opaque {digest(self._named(text, context))}"
        shown, halved = self._shown(text, context), _at_the_middle(s, context)
        axis = Axis(key, shown, (False, True), nullable=True, opaque=True, released=released, halved=halved)
        return Truth(box_of(axis.of(True)), box_of(axis.of(False)))

    def derived(self, s: Scalar, context: Context) -> Axis:
        """A value with declared results as a column of its own."""
        assert isinstance(s.domain, Categories)
        columns: dict[str, Scalar] = {}
        try:
            text = self._text(s, context, columns)
        except Tangled:
            text = said(s)
        key = f"derived {digest(self._named(text, context))}"
        return Axis(key, self._shown(text, context), s.domain.values, nullable=s.nullable)

    def _shown(self, text: str, context: Context) -> str:
        """A text for people: what its columns are computed from, in place of their names, and no conversions."""
        computed = {name: made.partition(" of ")[0] for name, made in context.rows.computed.items()}
        named = RELEASED.sub("a released value", self._named(replaced(text, computed), context))
        return short(named)

    def _named(self, text: str, context: Context) -> str:
        """A text in which columns are called after their tables, and bound tables after what they hold."""
        tables = dict(context.rows.scans)
        aliases: dict[str, str] = {}

        def name(found: re.Match[str]) -> str:
            whole = found["name"]
            if whole is None:
                return found[0]
            prefix, _, column = whole.rpartition(".")
            bound = context.bounds.get((prefix or whole)[1:-1])
            if bound is not None:
                return f'"{digest(self._named(bound.sql, context))}".{column}'
            if not prefix:
                return whole
            if prefix in tables:
                places = [before for before, table in context.rows.scans if table == tables[prefix]]
                number = places.index(prefix)
                return f"{tables[prefix]}{number + 1 if number else ''}.{column[1:-1]}"
            return f"{aliases.get(prefix, prefix)}.{column}"

        for found in TOKEN.finditer(text):
            prefix = (found["name"] or "").rpartition(".")[0]
            if prefix and prefix not in tables and prefix[1:-1] not in context.bounds:
                aliases.setdefault(prefix, f'"#{len(aliases)}"')
        text = TOKEN.sub(lambda found: aliases.get(found[0], found[0]) if declares(text, found) else found[0], text)
        return TOKEN.sub(name, text)


def _joined(function: str, parts: Sequence[Truth]) -> Truth:
    """One or two conditions joined by AND or OR. Raises Tangled."""
    if len(parts) == 1:
        return parts[0]
    one, other = parts
    if function == "and":
        return Truth(joined(both(one.true, other.true)), joined(either(one.false, other.false)))
    return Truth(joined(either(one.true, other.true)), joined(both(one.false, other.false)))


def _axis(key: str, name: str, column: Scalar, nullable: bool, referred: tuple[Value, ...] = ()) -> Axis:
    """The axis of a column; with other declared values it is another one.

    referred  the values of the public table that it refers to
    """
    sqltype, domain = column.sqltype, column.domain
    if referred and not isinstance(domain, Categories):
        domain = Categories(referred)
    whole = sqltype.is_integer or sqltype.name == "DATE" or column.integral
    finest = Fraction(1, 10**sqltype.scale) if sqltype.is_decimal else column.step
    step = Fraction(1) if whole else finest
    integral = whole or sqltype.is_decimal
    key = f"{key} {digest(repr((domain, step, nullable)))}"
    if isinstance(domain, Categories):
        return Axis(key, name, domain.values, nullable=nullable)
    if not (sqltype.is_number or sqltype.is_temporal):
        return Axis(key, name, nullable=nullable)
    bounds = (domain.lower, domain.upper) if isinstance(domain, Interval) else None
    return Axis(
        key, name, (), bounds, step, nullable, True, integral, temporal=sqltype.name if sqltype.is_temporal else ""
    )


def _united(axis: Axis, sets: Sequence[Values]) -> Values:
    """What is in one of some sets."""
    if axis.ranged:
        numbers = [found for found in sets if isinstance(found, Ranged)]
        return ranged(
            axis, [piece for found in numbers for piece in found.pieces], any(found.null for found in numbers)
        )
    rest = axis.whole
    for found in sets:
        rest = rest.both(found.others())
    return rest.others()


def _branches(s: Scalar) -> bool:
    """Whether a value is chosen from branches."""
    if s.function in ("case", "coalesce", "nullif"):
        return True
    if s.function in ("cast", "convert"):
        return s.sqltype.is_number and (
            s.args[0].sqltype.is_boolean or (s.function == "convert" and _branches(s.args[0]))
        )
    return s.sqltype.is_boolean and not s.is_column and not s.is_literal


def _at_the_middle(s: Scalar, context: Context) -> bool:
    """Whether a column, as it is, is compared with its own mean or median of many people, as it is."""
    if s.function not in ORDERED:
        return False
    one, other = (_as_it_is(side) for side in s.args)
    if one.function == "released":
        one, other = other, one
    of = {
        column
        for name, column in context.middles.items()
        if other.function == "released" and mentions(said(other), name)
    }
    return one.is_column and one.origin in of


def _as_it_is(s: Scalar) -> Scalar:
    """What is only converted or called otherwise."""
    while s.renames or (s.function in ("cast", "convert") and len(s.args) == 1):
        s = s.args[0]
    return s


def _is_strict(s: Scalar) -> bool:
    """Whether NULL in one of its columns makes it NULL."""
    return s.is_column or s.is_literal or (s.function in _STRICT and all(map(_is_strict, s.args)))


def _again(function: str, value: Scalar, rest: list[Scalar]) -> Scalar:
    """The same condition on another value."""
    match function:
        case "in":
            return logic.in_list(value, rest)
        case "is null":
            return logic.is_null(value)
        case "like" | "ilike":
            return logic.like(value, rest[0], rest[1] if len(rest) > 1 else None, function == "ilike")
        case "is distinct from" | "is not distinct from":
            return logic.distinct_from(value, rest[0], function != "is distinct from")
    return logic.compare(function, value, rest[0])


def _holds(lookup: Lookup, column: Scalar) -> bool:
    return any(said(c.scalar) == said(column) for c in lookup.public.columns) or said(column) in {
        said(right) for _, right in lookup.pairs
    }


def _beside(items: tuple[Node, ...], lookups: Sequence[Lookup]) -> Select:
    """A SELECT from public relations, tied to the rows beside them."""
    conditions = [Bare(Binary("=", one.tree, other.tree)) for look in lookups for one, other in look.pairs]
    more = [c.tree for look in lookups for c in look.public.where]
    return Select(items, Beside(tuple(look.public.read() for look in lookups)), (*conditions, *more))
