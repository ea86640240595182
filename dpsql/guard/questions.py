"""questions: a block -> whom it asks about, as regions, before anything runs.

A block asks about its rows (WHERE, joins, the conditions inside its sources), in each group of its declared keys, and there again
only about those that FILTER keeps, or for which a value chosen by CASE is neither 0 nor NULL. Keys that are selected privately are
not known yet: they count as the whole domain (rule 34).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from math import prod

from dpsql.core.domains import Categories
from dpsql.core.sqltypes import BOOLEAN
from dpsql.expressions import logic
from dpsql.expressions.conditional import case as case_of
from dpsql.expressions.literals import boolean_literal, literal
from dpsql.expressions.scalar import Scalar
from dpsql.guard import regions
from dpsql.guard.reading import Context, Reader, Truth
from dpsql.guard.regions import (
    EVERYTHING,
    MOST_BOXES,
    NOTHING,
    Region,
    Tangled,
    both,
    box_of,
    but_not,
    or_nothing,
    share,
)
from dpsql.guard.rows import Lookup, Rows, rows_of
from dpsql.guard.texts import mentions, projected, said
from dpsql.guard.values import Axis, Listed, Opaque, Values
from dpsql.plan.resolved import Aggregate, Block, Bound
from dpsql.schema.model import Schema
from dpsql.sql.duckdb import printed

MOST_CELLS = 1_000
"""Of one block that are compared one by one; a breakdown into more is compared as a whole, and cell by cell with what asks for one."""
MOST_INNER = 8
"""Conditions inside one value that are looked at one by one."""
ASSUMED = 100
"""Times k: how many people there are taken to be where the owner declares no number."""
HALF = 0.5
"""Of the people, whom a condition of unknown share is expected to keep, where a cell alone is judged."""


@dataclass(frozen=True)
class Shape:
    """One set of rows that a block reads, cut into cells.

    base     the rows
    keys     for each declared key the regions of its values
    selects  what is asked of each cell: the region of FILTER and CASE; EVERYTHING where all of it is asked
    """

    base: Region
    keys: tuple[tuple[Region, ...], ...] = ()
    selects: tuple[Region, ...] = (EVERYTHING,)

    @property
    def cells(self) -> int:
        return prod(len(key) for key in self.keys)

    def whole(self) -> Iterator[Region]:
        """All cells together: what adds up to it."""
        return self._asked([self.base])

    def parts(self) -> Iterator[Region]:
        """Every cell; none of too many."""
        return self._asked(self._cells(self.keys)) if self.keys and self.cells <= MOST_CELLS else iter(())

    def cell_of(self, region: Region) -> Iterator[Region]:
        """Of too many cells those that a region is in, by every key."""
        if self.cells > MOST_CELLS:
            inside = [[part for part in parts if regions.within(region, part)] for parts in self._around(region)]
            if all(len(parts) == 1 for parts in inside):
                yield from self._asked(self._cells(inside))

    def _around(self, region: Region) -> Iterator[Sequence[Region]]:
        """Of each key the values that a region may be inside of.

        Why  to try each of a list of thousands for every earlier question would be quadratic; values of a list have nothing in common,
             so a region is inside of the one that its boxes have, or of none
        """
        known = regions.without_void(region)
        for key, listed in zip(self.keys, self._listed, strict=True):
            if listed is None:
                yield key
                continue
            axis, places = listed
            values = known[0].get(axis.key, axis.whole) if known else axis.nothing
            place = places.get(_declared_bits(values))
            yield [] if place is None else [key[place]]

    @cached_property
    def _listed(self) -> list[tuple[Axis, dict[int, int]] | None]:
        """Of each key whose regions are one value each of one list the column, and which region has which value; else None."""
        return [_one_by_one(key) for key in self.keys]

    def cell_shares(self) -> tuple[float, float]:
        """Between which shares those of the cells lie, if the rows do not choose among the keys."""
        base = share(self.base)
        shares = [[share(part) for part in key] for key in self.keys]
        return base * prod(min(key) for key in shares), base * prod(max(key) for key in shares)

    def _cells(self, keys: Sequence[Sequence[Region]]) -> list[Region]:
        """The rows with each combination of values; what is too tangled is left to the others."""
        found = [self.base]
        for key in keys:
            found = [cell for one in found for part in key if (cell := or_nothing(both, one, part, MOST_BOXES))]
        return found

    def _asked(self, cells: Iterable[Region]) -> Iterator[Region]:
        """What is asked of some cells, each once, if somebody can be in it."""
        found: dict[object, Region] = {}
        for cell in cells:
            for select in self.selects:
                region = regions.joined(or_nothing(both, cell, select, MOST_BOXES))
                if regions.without_void(region):
                    found.setdefault(regions.identity(region), region)
        yield from found.values()


@dataclass(frozen=True, slots=True)
class Question:
    """Whom a block asks about.

    tables   the private tables that it reads, in their order by name; those that others refer to are part of them
    shapes   one for each half of a UNION
    unsized  columns that R5 protects and that are in conditions which say nothing about how many people they are about
    conditions  the regions of what each aggregate asks of a cell, by the text of its condition, for R2, and
    restricted  these conditions on the rows that it is about, by its name; None: all rows
    spread   the standard deviation of the noise, in the largest part that one person can have of an answer
    plain    whether it is about everybody, alone or in groups of listed columns, and counts rows or adds up columns as they are
    """

    tables: tuple[str, ...]
    shapes: tuple[Shape, ...]
    unsized: tuple[Scalar, ...] = field(default=(), compare=False)
    conditions: tuple[tuple[str, Region], ...] = field(default=(), compare=False)
    restricted: tuple[tuple[str, Scalar | None], ...] = field(default=(), compare=False)
    spread: float = 0.0
    plain: bool = field(default=False, compare=False)

    def whole(self) -> list[Region]:
        found = [region for shape in self.shapes for region in shape.whole()]
        together = self._together() if len(self.shapes) > 1 else NOTHING
        return [*found, together] if together else found

    def _together(self) -> Region:
        """The rows of all halves of a UNION, where they have none in common, so that they add up."""
        found = NOTHING
        try:
            for shape in self.shapes:
                if regions.meet(found, shape.base):
                    return NOTHING
                found = regions.joined((*found, *shape.base))
        except Tangled:
            return NOTHING
        return found

    def parts(self) -> list[Region]:
        return [region for shape in self.shapes for region in shape.parts()]

    def smallest(self, condition: str) -> float:
        """Of the people, the share that the smallest cell of what one FILTER keeps is expected to hold."""
        select = dict(self.conditions).get(condition, EVERYTHING)
        return min((_smallest(shape, select) for shape in self.shapes), default=1.0)


def people(schema: Schema) -> float:
    """How many people there are, as far as the owner says (rule 38)."""
    privacy = schema.privacy
    if privacy.units is not None:
        return float(privacy.units)
    declared = [t.population for t in schema.tables if t.population is not None]
    return float(max(declared)) if declared else float(ASSUMED * schema.guard.k)


class Asking:
    """Works out whom blocks ask about."""

    def __init__(self, schema: Schema, reader: Reader) -> None:
        self._schema = schema
        self._reader = reader

    def question(
        self,
        block: Block,
        bounds: Sequence[Bound],
        blocks: Mapping[str, str],
        middles: Mapping[tuple[str, str], str] | None = None,
    ) -> Question:
        """Whom a block asks about.

        bounds   the bound tables of the statement
        blocks   canonical texts of its blocks, by their names, for conditions on what they release
        middles  for blocks and their columns that are means or medians of many people, of which declared column
        """
        named, released = _bounds(bounds, blocks)
        read = {bound.name: projected(bound.sql) for bound in bounds} if middles else {}
        held = {
            name: middles[column]
            for name, column in read.items()
            if middles and column is not None and column in middles
        }
        shapes: list[Shape] = []
        unsized: list[Scalar] = []
        conditions: dict[str, Region] = {}
        counted: tuple[str, ...] = ()
        halves = rows_of(block.source)
        away = {text for rows in halves for text in (*rows.unclear, *rows.matched)}
        restricted = {aggregate.name: _restricted(aggregate, away) for aggregate in block.aggregates}
        for rows in halves:
            context = Context(rows, named, released, held)
            # conditions first: what is computed within a person has all of its values there
            parts = self._conditions(rows, context)
            cells = {
                said(key.scalar): regions
                for i, key in enumerate(block.keys)
                if not block.is_selected(i) and (regions := self._key(key.scalar, context))
            }
            base = self._base(rows, parts, cells, context)
            selects, own = self._selects(block.aggregates, restricted, context)
            shapes.append(Shape(base, tuple(cells.values()), selects))
            for text, region in own.items():
                conditions[text] = (*conditions.get(text, NOTHING), *region)
            unsized += context.unsized
            counted += rows.counted
        tables, shown = self._tables(counted), tuple(restricted.items())
        return Question(
            tables, tuple(shapes), tuple(unsized), tuple(conditions.items()), shown, plain=_is_plain(block, shapes)
        )

    def middles(self, block: Block, question: Question) -> dict[tuple[str, str], str]:
        """A block and its columns that are means or medians of at least 2 k people, so that k are expected on each side; for each its
        declared column."""
        many = 2 * self._schema.guard.k / people(self._schema)
        if block.keys or sum(_share(shape.base) for shape in question.shapes) < many:
            return {}
        values = {a.name: a.argument.origin for a in block.aggregates if a.argument is not None and a.condition is None}
        whole = [a for a in block.aggregates if a.function == "avg" or (a.function == "quantile" and a.number == HALF)]
        return {(block.name, a.name): values[a.name] for a in whole if values.get(a.name)}

    def _conditions(self, rows: Rows, context: Context) -> list[tuple[Lookup | Scalar, Truth]]:
        """What rows must meet: matches in public relations, and conditions."""
        looks = [look for look in rows.lookups if look.required and look.pairs]
        found: list[tuple[Lookup | Scalar, Truth]] = [(look, self._reader.required(look, context)) for look in looks]
        return [*found, *((one, self._reader.truth(one, context)) for one in rows.conditions)]

    def _base(
        self, rows: Rows, parts: Sequence[tuple[Lookup | Scalar, Truth]], keys: Collection[str], context: Context
    ) -> Region:
        """The rows that meet all conditions, but for those that only choose among the cells.

        Why  a list of released values that is compared with group keys alone, such as the greatest groups of a chart, keeps each cell
             whole or leaves it out: whichever it is, nobody is asked about who is not in a breakdown by these keys

        keys  the texts of the group keys whose cells are known
        """
        asked = [truth for part, truth in parts if not _chooses_cells(part, keys, context.released)]
        return self._all(asked, list(rows.conditions), context)

    def _all(self, parts: Sequence[Truth], conditions: Sequence[Scalar], context: Context) -> Region:
        """Where all conditions are true; where that is too tangled, an opaque condition of all of them."""
        base = EVERYTHING
        try:
            for part in parts:
                base = both(base, part.true)
        except Tangled:
            return self._reader.opaque(logic.conjunction(list(conditions)), context).true
        return regions.joined(base)

    # --- group keys ---------------------------------------------------------------------------------------------------

    def _key(self, scalar: Scalar, context: Context) -> tuple[Region, ...]:
        """The regions of a key's values; () where they are not known."""
        try:
            found = self._values(scalar, context)
        except (Tangled, Opaque):
            found = self._apart(scalar, context)
        return tuple(region for region in found if region)

    def _values(self, scalar: Scalar, context: Context) -> list[Region]:
        """Raises Tangled, Opaque."""
        if scalar.sqltype.is_boolean:
            one = self._reader.truth(scalar, context)
            return [one.true, one.false, regions.others(regions.either(one.true, one.false))]
        pieces = self._reader.pieces(scalar, context)
        if len(pieces) == 1:
            return self._reader.values(pieces[0][1], context)
        if not all(value.is_literal for _, value in pieces):
            return self._reader.values(scalar, context)
        by_value: dict[str, Region] = {}
        for where, value in pieces:
            by_value[said(value)] = (*by_value.get(said(value), NOTHING), *where)
        return [regions.joined(region) for region in by_value.values()]

    def _apart(self, scalar: Scalar, context: Context) -> list[Region]:
        """The values of a key that cannot be told from columns: a column of its own."""
        if not isinstance(scalar.domain, Categories):
            return []
        axis = self._reader.derived(scalar, context)
        return [box_of(axis.of(value)) for value in (*axis.values, None)]

    # --- aggregates ---------------------------------------------------------------------------------------------------

    def _selects(
        self, aggregates: Sequence[Aggregate], restricted: Mapping[str, Scalar | None], context: Context
    ) -> tuple[tuple[Region, ...], dict[str, Region]]:
        """What aggregates ask of each cell, each once; and the regions of their FILTERs."""
        found: dict[object, Region] = {}
        filters: dict[str, Region] = {}
        for aggregate in aggregates:
            kept = EVERYTHING
            if aggregate.condition is not None:
                kept = self._reader.truth(aggregate.condition, context).true
            asked = restricted[aggregate.name]
            if asked is not None:
                filters[said(asked)] = self._reader.truth(asked, context).true
            for value in aggregate.values or (None,):
                for part in self._levels(aggregate, value, context):
                    try:
                        region = regions.joined(both(kept, part))
                    except Tangled:
                        region = kept
                    found.setdefault(regions.identity(region), region)
        return tuple(found.values()) or (EVERYTHING,), filters

    def _levels(self, aggregate: Aggregate, value: Scalar | None, context: Context) -> list[Region]:
        """Where an aggregated value counts: everywhere, for a column; where it is not 0 or NULL, for one that chooses."""
        if value is None:
            return [EVERYTHING]
        # that a column may be NULL is no choice of who asks; that a side of an outer join is not there may be one
        unclear = any(said(leaf) in (*context.rows.unclear, *context.rows.matched) for leaf in value.leaves())
        if not _chooses(value) and not (unclear and _has_default(value)):
            if unclear:
                return [self._reader.truth(logic.is_null(value), context).false]
            return [self._computed(value, context)]
        try:
            pieces = self._reader.pieces(value, context)
        except Tangled:
            return [self._reader.opaque(logic.is_null(value), context).false]
        if len(pieces) == 1:
            whole = self._counts(value, aggregate, context)
            return [whole, *self._inner(value, context)]
        found: list[Region] = []
        whole = NOTHING
        for where, one in pieces:
            try:
                part = both(where, self._counts(one, aggregate, context))
            except Tangled:
                part = where
            if part:
                whole = (*whole, *part)
                found.append(part)
        return [regions.joined(whole), *(found if len(found) > 1 else [])]

    def _computed(self, value: Scalar, context: Context) -> Region:
        """Where a value is not NULL if its columns are not: 1 % (age - 41) is NULL for those of 41. Not known: everybody."""
        if value.is_column or not value.nullable:
            return EVERYTHING
        columns = {said(leaf): logic.negation(logic.is_null(leaf)) for leaf in value.leaves() if leaf.nullable}
        gone = self._reader.truth(logic.conjunction([logic.is_null(value), *columns.values()]), context)
        return (
            EVERYTHING
            if regions.is_unknown(gone.true)
            else or_nothing(but_not, EVERYTHING, gone.true, MOST_BOXES) or EVERYTHING
        )

    def _inner(self, value: Scalar, context: Context) -> list[Region]:
        """Where the conditions inside a value are true, and where they are not: SUM(1 + CASE ...) is of all rows, and of those."""
        inner = [part for part in value.walk() if part.sqltype == BOOLEAN and not part.is_literal]
        found: list[Region] = []
        for part in inner[:MOST_INNER]:
            one = self._reader.truth(part, context)
            found += [region for region in (one.true, one.false) if region]
        return found

    def _counts(self, value: Scalar, aggregate: Aggregate, context: Context) -> Region:
        """Where one value is neither NULL nor, where values are added up, 0."""
        if value.is_literal:
            nothing = value.value is None or (value.value == 0 and aggregate.function != "count")
            return NOTHING if nothing else EVERYTHING
        if not _chooses(value):
            return EVERYTHING
        if aggregate.function == "count" or not value.sqltype.is_number:
            return self._reader.truth(logic.is_null(value), context).false
        return self._reader.truth(_is_something(value), context).true

    # --- tables -------------------------------------------------------------------------------------------------------

    def _tables(self, names: Sequence[str]) -> tuple[str, ...]:
        """The tables whose rows are counted: one that another refers to has a row for each of that one's, and adds nothing."""
        above = {up for name in names for up in self._above(name)}
        found: list[str] = []
        for name in names:
            table = self._schema.table(name)
            once = table is not None and self._schema.one_row_per_unit(table)
            if name not in above and not (once and name in found):
                found.append(name)
        return tuple(sorted(found)) or tuple(sorted(set(names)))

    def _above(self, name: str) -> set[str]:
        table = self._schema.table(name)
        found: set[str] = set()
        waiting = [table] if table is not None else []
        while waiting:
            for reference in waiting.pop().references:
                target = self._schema.table(reference.table)
                if target is not None and not target.public and target.name not in found:
                    found.add(target.name)
                    waiting.append(target)
        return found - {name}


def _declared_bits(values: Values) -> int:
    """The declared values of a listed set, NULL where it is declared to occur."""
    count = len(values.axis.values) + values.axis.nullable
    return values.bits & ((1 << count) - 1) if isinstance(values, Listed) else 0


def _one_by_one(key: Sequence[Region]) -> tuple[Axis, dict[int, int]] | None:
    """The column of a key's regions, where each is one declared value of it, and each value's place among them."""
    places: dict[int, int] = {}
    sets = [next(iter(region[0].values())) for region in key if len(region) == 1 and len(region[0]) == 1]
    axes = {values.axis for values in sets}
    for place, values in enumerate(sets):
        bits = _declared_bits(values)
        if bits.bit_count() == 1:
            places[bits] = place
    return (axes.pop(), places) if len(axes) == 1 and len(places) == len(key) else None


def _smallest(shape: Shape, select: Region) -> float:
    """The share of the smallest cell that anybody is expected in; of what is not known a half."""
    if shape.cells > MOST_CELLS:
        least = prod(min(_share(region) for region in key) for key in shape.keys)
        return _share(shape.base) * least
    shares = []
    for chosen in product(*shape.keys):
        try:
            region = shape.base
            for part in (*chosen, select):
                region = both(region, part)
        except Tangled:
            continue
        kept = regions.without_void(region)
        if kept or not chosen:
            shares.append(_share(region))
    return min(shares, default=1.0)


def _share(region: Region) -> float:
    """The share of a region, of what is opaque a half."""
    return sum(prod(HALF if v.axis.opaque and not v.is_whole else v.share for v in box.values()) for box in region)


def _is_plain(block: Block, shapes: Sequence[Shape]) -> bool:
    """Whether a block asks for what everybody would see first: no condition, listed columns as keys, columns as they are."""
    values = [value for aggregate in block.aggregates for value in aggregate.values]
    keys = [key.scalar.is_column and not block.is_selected(i) for i, key in enumerate(block.keys)]
    whole = all(shape.base == EVERYTHING and shape.selects == (EVERYTHING,) for shape in shapes)
    return whole and len(shapes) == 1 and all(keys) and all(value.is_column for value in values)


def _restricted(aggregate: Aggregate, away: Collection[str]) -> Scalar | None:
    """The rows that an aggregate is about: those that its FILTER keeps, and for which a value chosen by CASE is neither NULL nor 0.

    away  texts of columns that are NULL where a side of an outer join stays away, or of which nothing can be said
    """
    parts = [aggregate.condition] if aggregate.condition is not None else []
    for value in aggregate.values:
        if _chooses(value) or any(said(leaf) in away for leaf in value.leaves()):
            added = value.sqltype.is_number and aggregate.function != "count"
            parts.append(_is_something(value) if added else logic.negation(logic.is_null(value)))
    return logic.conjunction(parts) if parts else None


def _is_something(value: Scalar) -> Scalar:
    """Whether a number is neither NULL nor 0."""
    different = logic.compare("<>", value, literal(0, value.sqltype))
    return case_of([(logic.is_null(value), boolean_literal(False))], different)


def _chooses(value: Scalar) -> bool:
    """Whether a condition decides what a value is."""
    return any((part.sqltype == BOOLEAN and not part.is_literal) or part.function == "nullif" for part in value.walk())


def _has_default(value: Scalar) -> bool:
    """Whether a value takes the place of NULL."""
    return any(part.function == "coalesce" for part in value.walk())


def _chooses_cells(part: Lookup | Scalar, keys: Collection[str], released: Collection[str]) -> bool:
    """Whether group keys are compared with released values, and nothing else of a row is looked at."""
    if isinstance(part, Lookup):
        by_keys = not part.public.where and all(said(mine) in keys for mine, _ in part.pairs)
        return by_keys and _holds_one(printed(part.public.read()), released)
    return _holds_one(said(part), released) and _of_keys(part, keys)


def _holds_one(text: str, names: Collection[str]) -> bool:
    return any(mentions(text, name) for name in names)


def _of_keys(s: Scalar, keys: Collection[str]) -> bool:
    if said(s) in keys or s.is_literal or s.function == "released":
        return True
    return not s.is_column and s.function != "exists" and bool(s.args) and all(_of_keys(arg, keys) for arg in s.args)


def _bounds(bounds: Sequence[Bound], blocks: Mapping[str, str]) -> tuple[dict[str, Bound], frozenset[str]]:
    """The bound tables by name; and the names of those that hold released values.

    Why  conditions read those tables alone: what is called like a block in their texts is a table or a column of the caller's
    """
    released: set[str] = set(blocks)
    for bound in bounds:
        if any(read in released for read in bound.reads):
            released.add(bound.name)
    return {bound.name: bound for bound in bounds}, frozenset(released - set(blocks))
