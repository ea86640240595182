"""Statement as resolved against the declared schema."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Protocol

from dpsql.aggregates.record import Aggregate
from dpsql.core.domains import Value, hull
from dpsql.core.spans import Span
from dpsql.core.sqltypes import SqlType, smallest_integer
from dpsql.expressions.scalar import Scalar, limits_of
from dpsql.plan.tables import KeyValue, PublicTable
from dpsql.relations.relations import Relation
from dpsql.sql.trees import table_names


@dataclass(frozen=True, slots=True)
class AccuracyTarget:
    """An accuracy in place of a price: each column is at most `error` off with this confidence.

    error     in the column's own unit, or, where `relative`, a share of the declared number of people
    """

    error: Fraction
    relative: bool
    confidence: Fraction

    @property
    def words(self) -> str:
        error = f"{float(100 * self.error):g}%" if self.relative else f"{float(self.error):g}"
        return f"{error} with {float(100 * self.confidence):g} %"


@dataclass(frozen=True, slots=True)
class GroupKey:
    """One grouping expression.

    values    the declared keys in the order in which they are shown, NULL last where it is one; None: selected privately, or
              listed by an input table
    selected  of a cube the values that were selected privately before: the rows of all others are one level more, the last
    """

    name: str
    scalar: Scalar
    values: tuple[KeyValue, ...] | None = None
    span: Span | None = field(default=None, compare=False)
    selected: tuple[KeyValue, ...] | None = None

    @property
    def listed(self) -> tuple[KeyValue, ...] | None:
        """The values that are known before the release."""
        return self.values if self.values is not None else self.selected

    @property
    def levels(self) -> int:
        """Number of values that are told apart; 1 where they are not known yet."""
        return len(self.listed or ()) + (self.values is None)

    def released_type(self, asked: SqlType) -> SqlType:
        """The type asked for if it holds every key, else a wider one: keys are computed wider than DuckDB names them."""
        possible = limits_of(self.scalar) if self.values is None else hull(self.scalar.domain)
        held = asked.range
        if held is None or possible is None or (possible.lower in held and possible.upper in held):
            return asked
        return (smallest_integer(possible) if self.scalar.integral else None) or self.scalar.sqltype


@dataclass(frozen=True, slots=True)
class KeyList:
    """Group keys that a public table lists together: its columns c0, c1, ... are the keys at `keys`.

    bound   the name of the input table
    groups  [groups] how many rows it has; None where a release decides
    """

    keys: tuple[int, ...]
    bound: str
    groups: int | None = None


@dataclass(frozen=True, slots=True)
class InputTable:
    """A public table that a release reads: computed from public tables and earlier releases before the release runs.

    sql      over tables named as the blocks and as other input tables; its columns are `columns`
    public   declared public tables that it reads
    reads    the blocks and input tables that it reads, each earlier
    one_row  whether more than one row is an error, as in a scalar subquery
    unique   sets of column positions that no two rows may agree in: people's rows are joined by them
    shows    for each column the table's column that it shows unchanged, or None; () where nothing is known
    chooses  whether constants may choose among its rows
    cuts     whether its values cut people into parts of about equal size, whatever they are ordered by
    """

    name: str
    sql: str
    columns: tuple[tuple[str, SqlType], ...]
    public: tuple[str, ...]
    reads: tuple[str, ...]
    one_row: bool = False
    unique: frozenset[frozenset[int]] = frozenset()
    shows: tuple[tuple[str, str] | None, ...] = ()
    chooses: bool = True
    cuts: bool = False

    def repeats(self, table: PublicTable) -> bool:
        """True if rows agree where they must not; what the engine takes for equal counts as equal."""
        return any(_repeats([table.data[i] for i in positions], len(table.data[0])) for positions in self.unique)


def _repeats(columns: Sequence[Sequence[object]], rows: int) -> bool:
    seen = {tuple("NaN" if x != x else x for x in row) for row in zip(*columns, strict=True)} if columns else {()}
    return len(seen) < rows


@dataclass(frozen=True, slots=True)
class Block:
    """A SELECT block that aggregates a private relation over people: what becomes a release.

    lists  keys that input tables list
    whole  whether every key must have a list, because what is released is added up
    present  whether groups that seem to be empty are left out, because something is computed over the others
    kept     whether every listed group is there, whoever is in it
    """

    name: str
    source: Relation
    keys: tuple[GroupKey, ...]
    aggregates: tuple[Aggregate, ...]
    lists: tuple[KeyList, ...] = ()
    whole: bool = False
    present: bool = False
    kept: bool = False

    def is_selected(self, position: int) -> bool:
        """True if a key is selected privately."""
        return self.keys[position].listed is None and all(position not in listed.keys for listed in self.lists)

    @property
    def selects(self) -> bool:
        return any(self.is_selected(i) for i in range(len(self.keys)))

    @property
    def groups(self) -> int | None:
        """[groups] How many there are by declaration; None where a key is selected privately, or a release decides."""
        if self.selects or any(one.groups is None for one in self.lists):
            return None
        single = (key.levels for key in self.keys if key.listed is not None)
        return math.prod([*single, *(one.groups for one in self.lists if one.groups is not None)])

    @property
    def reads(self) -> frozenset[str]:
        """The tables that it reads, by their names; among them those of input tables."""
        return frozenset({*self.places, *(one.bound for one in self.lists)})

    @property
    def places(self) -> tuple[str, ...]:
        """The name of a table for each place in people's rows at which it is read; one may be told twice."""
        trees = (self.source.read(), *(part.tree for part in (*self.source.where, *self.expressions)))
        return tuple(name for tree in trees for name in table_names(tree))

    @property
    def expressions(self) -> tuple[Scalar, ...]:
        """Every expression over people's rows that decides what is counted: what rule R1 looks at."""
        asked = (part for a in self.aggregates for part in (*a.values, a.condition) if part is not None)
        return (*self.source.predicates, *(key.scalar for key in self.keys), *asked)


@dataclass(frozen=True, slots=True)
class SortKey:
    """A released column that rows are sorted by."""

    column: str
    descending: bool
    nulls_first: bool


@dataclass(frozen=True, slots=True)
class Listing:
    """The rows of one release as they are, in an order: a post-processing query that computes nothing.

    columns  released ones, in the order of the result
    order    () for that of the release
    limit    [rows] the most that are shown, after `offset`; None: all
    """

    columns: tuple[str, ...]
    order: tuple[SortKey, ...]
    limit: int | None
    offset: int


@dataclass(frozen=True, slots=True)
class PostQuery:
    """The query over released and public tables that makes the answer.

    sql         over tables named as the blocks; its last column is the released row's number where `traced`; of `totals` a list
                of these
    plain_sql   the statement as the caller wrote it, without our clauses: what columns are named after; None where it is
                named after itself
    public      declared public tables that it reads
    direct      for each output column the released column that it shows unchanged, or None
    computed    for each output column its text over a redrawn table, where it is computed from one row of a release; or None
    release     the block whose rows it shows one by one, or adds up, or None
    totals      whether each row adds up rows of the release: `direct` and `computed` are then of the sums
    listing     the same question, where it computes nothing; or None
    notes       what is to be known of the answer, by the text alone
    written     the statement for people, where it holds what only dpsql knows and `plain_sql` does not; or None
    notes       what the reader of the answer has to know, by the declarations alone
    empty       whether it is answered from the declared tables alone, which are empty
    catalog     whether it asks information_schema: it is told each table in its SQL schema
    spent       the tables of what was spent that it reads (schema/spent.py); then it reads nothing else but the catalog
    """

    sql: str
    plain_sql: str | None
    public: tuple[str, ...]
    direct: tuple[tuple[str, str] | None, ...]
    traced: bool
    empty: bool = False
    catalog: bool = False
    spent: tuple[str, ...] = ()
    computed: tuple[str | None, ...] = ()
    release: str | None = None
    listing: Listing | None = None
    written: str | None = None
    notes: tuple[str, ...] = ()
    totals: bool = False


@dataclass(frozen=True, slots=True)
class Resolved:
    """Names, types and domains are known; private blocks are set apart from the post_query.

    blocks  each after those that it reads
    bounds  each after what it reads
    """

    blocks: tuple[Block, ...]
    bounds: tuple[InputTable, ...]
    post_query: PostQuery


class PublicTuples(Protocol):
    """Tuples that a query over constants and declared public tables gives; planning reads nothing else."""

    def tuples(
        self, sql: str, types: Sequence[SqlType], public: Sequence[str]
    ) -> Sequence[tuple[Value | None, ...]] | None:
        """Its rows, as domains hold values; None where they are too many, or it fails.

        types   of its columns
        public  the declared tables that it reads
        """
        ...


class PublicTypes(Protocol):
    """Names and types of a query over public tables, by DuckDB; it is not run."""

    def describe_public(self, sql: str, empty: Sequence[PublicTable]) -> tuple[tuple[str, SqlType], ...]:
        """(name, type) of each column.

        empty  released tables that it reads, without rows

        Raises 106 where it does not bind, or a type is none that dpsql computes with.
        """
        ...
