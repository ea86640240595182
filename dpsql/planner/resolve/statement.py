"""State of one statement while it is being resolved: its releases, its input tables, the names it has used up."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from sqlglot import exp

from dpsql.core.cancellation import check
from dpsql.core.domains import UNBOUNDED, Value
from dpsql.core.errors import error
from dpsql.core.spans import span_of
from dpsql.core.sqltypes import BIGINT, DOUBLE, SqlType
from dpsql.expressions.lengths import LONGEST_BOUND
from dpsql.expressions.scalar import Scalar, column, tree_of
from dpsql.plan.resolved import Block, InputTable, PublicTuples, PublicTypes
from dpsql.plan.tables import ROW_NUMBER, PublicTable, end_column, intervals_table, redrawn_table
from dpsql.planner.calls import function_of
from dpsql.planner.grammar import record_of
from dpsql.planner.parse import DUCKDB
from dpsql.planner.resolve.provenance import chooses, shows
from dpsql.planner.resolve.scope import Scope
from dpsql.planner.walks import copied, every
from dpsql.relations.per_unit import distinct, holds_unit
from dpsql.relations.relations import From, Named, Relation, distinct_names
from dpsql.schema.model import RESERVED, Schema
from dpsql.schema.qualifiers import MAIN
from dpsql.sql.duckdb import quoted
from dpsql.sql.nodes import Column
from dpsql.sql.queries import Table
from dpsql.sql.trees import fingerprint

CUT = f"{RESERVED}q"
"""Begins the names of the values that NTILE cuts people at; no statement has such a name."""
MOST_NODES = 10_000
"""Number of syntax nodes that a public query may have more than the statement."""
MOST_TABLES = 200
MOST_WRITTEN = 1_000
"""[rows] Of a table that the statement writes out and that people's rows meet by other than a key."""


@dataclass(frozen=True, slots=True)
class Public:
    """A query whose rows are public: over public tables and releases. What the sandbox runs.

    tree     the query
    unique   sets of column positions that no two rows agree in
    direct   for each column the released column that it shows unchanged, or None
    release  the block that the query shows row by row, or None
    names    what its columns are called as they were written; () where the tree itself says so
    """

    tree: exp.Expression
    unique: frozenset[frozenset[int]] = frozenset()
    direct: tuple[tuple[str, str] | None, ...] = ()
    release: str | None = None
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Private:
    """A query whose rows are people's: it can only be read by a query that aggregates it.

    grouped  what the unit is grouped by, or None; for the message where this would be the result
    """

    relation: Relation
    node: exp.Expression
    grouped: exp.Expression | None = None


Query = Public | Private


@dataclass(slots=True)
class Cte:
    """A WITH query, resolved when it is read; `public` once for all, where its rows are public."""

    node: exp.Expression
    names: tuple[str, ...]
    env: Env
    public: Public | None = None


@dataclass(frozen=True, slots=True)
class Env:
    """Environment of a query: the WITH queries that it may name, and the scope of the block that it stands in.

    top  whether it is the statement itself, whose rows would be shown
    """

    ctes: dict[str, Cte] = field(default_factory=dict)
    outer: Scope | None = None
    top: bool = False

    def inside(self, outer: Scope | None) -> Env:
        return replace(self, outer=outer, top=False)


@dataclass(slots=True)
class Statement:
    """One statement's state.

    lists    tells which values group keys can have; None where each key has its own list alone
    all_groups  whether groups that seem to be empty take part in what is computed over groups
    root        the statement itself
    written  how many syntax nodes the statement has
    notes    what the reader of the answer has to know, by the declarations alone
    query    resolves a query node; it is set where the resolver is put together
    asked    by each block, as far as a later one was compared with them
    glanced  what was looked at before it is read: (node, WITH queries, source) by the ids of the first two, which stay alive here
    """

    schema: Schema
    types: PublicTypes | None
    lists: PublicTuples | None = None
    all_groups: bool = False
    root: exp.Expression | None = None
    written: int = 0
    query: Callable[[exp.Expression, Env], Query] = field(init=False)
    blocks: list[Block] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    bounds: list[InputTable] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    used: set[str] = field(default_factory=set)
    glanced: dict[tuple[int, int], tuple[object, object, object]] = field(default_factory=dict)

    def alias(self, name: str) -> str:
        """A name for the engine that nothing else in the statement has: the table's own the first time."""
        declared = {t.name.lower() for t in self.schema.tables}
        if len(self.used) > MOST_TABLES:
            raise error(
                107,
                f"the statement reads people's tables more than {MOST_TABLES} times",
                hint="read each WITH query once",
            )
        count, found = 1, name
        while found.lower() in self.used or (count > 1 and found.lower() in declared):
            count += 1
            found = f"{name}_{count}"
        self.used.add(found.lower())
        return found

    # --- releases -------------------------------------------------------------------------------------------------

    def release(self, block: Block) -> str:
        """The name of a block: of an equal one, if the statement has it already (rule 33), whatever its tables are called."""
        self.asked += map(_asked, self.blocks[len(self.asked) :])
        asked = _asked(block) if self.blocks else ""
        if asked in self.asked:
            at = self.asked.index(asked)
            known = self.blocks[at]
            self.blocks[at] = replace(known, present=known.present or block.present)
            return known.name
        taken = {known.name for known in self.blocks}
        free = (f"release_{i}" for i in itertools.count(len(self.blocks)))
        name = next(one for one in free if one not in taken and self.schema.table(one) is None)
        self.blocks.append(replace(block, name=name))
        return name

    def empty(self, name: str) -> PublicTable:
        """A released table without rows, or a bound one."""
        bound = next((b for b in self.bounds if b.name == name), None)
        if bound is not None:
            return PublicTable(name, bound.columns, tuple([] for _ in bound.columns))
        beside = next((b for b in self.blocks if name == intervals_table(b.name)), None)
        if beside is not None:
            ends = [(end_column(a.name, low), DOUBLE) for a in beside.aggregates for low in (True, False)]
            return PublicTable(name, (*ends, (ROW_NUMBER, BIGINT)), tuple([] for _ in range(len(ends) + 1)))
        block = next(b for b in self.blocks if name in (b.name, redrawn_table(b.name)))
        keys = [(key.name, key.released_type(key.scalar.sqltype)) for key in block.keys]
        columns = (*keys, *((a.name, a.sqltype) for a in block.aggregates), (ROW_NUMBER, BIGINT))
        return PublicTable(name, columns, tuple([] for _ in columns))

    def distinct(self, relation: Relation, node: exp.Expression) -> Relation:
        """The rows without repeats, for DISTINCT and UNION. Raises 402 where one person's row would stand for another's."""
        if not holds_unit(relation):
            raise error(
                402,
                "leaving out repeats would compare the rows of different people",
                hint="select the privacy unit too, or for UNION write UNION ALL",
                span=span_of(node),
            )
        return distinct(relation, self.alias("distinct_rows"))

    # --- public queries -------------------------------------------------------------------------------------------

    def text(self, tree: exp.Expression) -> str:
        """The SQL of a public query; over released values it is total."""
        return total_text(tree) if self.reads(tree)[1] else plain_text(tree)

    def sized(self, query: Public) -> Public:
        """The query, unless WITH queries that read each other twice have made it too large (107)."""
        for count, _ in enumerate(every(query.tree, exp.Expression)):
            if count > self.written + MOST_NODES:
                raise error(
                    107, "the statement grows too large when its WITH queries are written out", hint="read each once"
                )
        return query

    def reads(self, tree: exp.Expression) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """(declared public tables, blocks and input tables) that a public query reads."""
        check()
        names = {node.name for node in every(tree, exp.Table) if not node.db or node.db.lower() == MAIN}
        own = {block.name for block in self.blocks} | {bound.name for bound in self.bounds}
        own |= {table(block.name) for block in self.blocks for table in (intervals_table, redrawn_table)}
        declared = {t.name for t in (self.schema.table(n) for n in names - own) if t is not None}
        return tuple(sorted(declared)), tuple(sorted(names & own))

    def made(self, tree: exp.Expression) -> tuple[str, ...]:
        """The blocks and input tables that a public query reads, or reads the intervals of."""
        beside = {table(b.name): b.name for b in self.blocks for table in (intervals_table, redrawn_table)}
        return tuple(dict.fromkeys(beside.get(name, name) for name in self.reads(tree)[1]))

    def needed(self, tree: exp.Expression) -> set[str]:
        """The blocks and input tables that a final query needs, itself or by what it reads.

        Why  what nothing reads is not sold: a block may have been resolved for a part that declarations leave out (rule 53); which they
             are is told by the text and the declarations alone
        """
        reads = {block.name: tuple(block.reads) if self.bounds else () for block in self.blocks} | {
            one.name: one.reads for one in self.bounds
        }
        found: set[str] = set()
        waiting = list(self.made(tree))
        while waiting:
            name = waiting.pop()
            if name in reads and name not in found:
                found.add(name)
                waiting += reads[name]
        return found

    def described(self, tree: exp.Expression) -> tuple[tuple[str, SqlType], ...]:
        """(name, type) of the columns of a public query."""
        if self.types is None:
            raise error(901, "nothing can tell the types of a public query")
        _, own = self.reads(tree)
        return self.types.describe_public(self.text(tree), [self.empty(name) for name in own])

    def names(self, query: Public) -> tuple[str, ...]:
        """Names of a public query's columns."""
        return query.names or _written_names(query.tree) or tuple(name for name, _ in self.described(query.tree))

    def bind(
        self, query: Public, kind: str = "table", *, one_row: bool = False, types: tuple[SqlType, ...] | None = None
    ) -> tuple[str, tuple[SqlType, ...]]:
        """A public query as an input table: its name and the types of its columns c0, c1, ..., or those asked for."""
        typed = self.described(query.tree)
        if types is not None and len(types) == len(typed):
            typed = tuple((name, wanted) for (name, _), wanted in zip(typed, types, strict=True))
        listed = ", ".join(quoted(f"c{i}") for i in range(len(typed)))
        # The planned types are kept whatever the values are: what is proved of an expression rests on them.
        items = ", ".join(_bound_item(quoted(f"c{i}"), t) for i, (_, t) in enumerate(typed))
        # keys that the cast has made equal are one group
        once = "DISTINCT " if kind == "keys" else ""
        sql = f"SELECT {once}{items} FROM ({self.text(query.tree)}) AS bound({listed})"
        public, own = self.reads(query.tree)[0], self.made(query.tree)
        columns = tuple((f"c{i}", sqltype) for i, (_, sqltype) in enumerate(typed))
        values = {(b.name, a.name) for b in self.blocks for a in b.aggregates}
        shown = shows(query.tree, len(columns))
        cuts = any(one.name.startswith(CUT) for one in query.tree.find_all(exp.Identifier))
        bound = InputTable(
            "", sql, columns, public, own, one_row, query.unique, shown, chooses(query.tree, values), cuts
        )
        return self.bound(bound, kind), tuple(t for _, t in typed)

    def bound(self, asked: InputTable, kind: str) -> str:
        """The name of an input table: of an equal one, if there is one."""
        for known in self.bounds:
            if replace(known, name="") == asked:
                return known.name
        name = f"dpsql {kind} {len(self.bounds)}"
        self.bounds.append(replace(asked, name=name))
        return name

    def bound_relation(self, query: Public, source: str, names: tuple[str, ...] = ()) -> Relation:
        """A public query as a relation that a private block can join."""
        shown = distinct_names(self.names(query), names)
        name, types = self.bind(query)
        alias = self.alias(source)
        columns = tuple(
            Named(source, column, bound_column(alias, f"c{i}", t))
            for i, (column, t) in enumerate(zip(shown, types, strict=True))
        )
        unique = frozenset(frozenset(columns[i].scalar.tree for i in positions) for positions in query.unique)
        here = Table(name, alias)
        return Relation(columns, None, unique, From(here, here), written=self._written(query, types))

    def _written(self, query: Public, types: tuple[SqlType, ...]) -> tuple[tuple[Value | None, ...], ...] | None:
        """The rows of a query that reads no table, and so has the same ones on all databases; None where they are many."""
        if self.lists is None or any(isinstance(t.this, exp.Identifier) for t in every(query.tree, exp.Table)):
            return None
        rows = self.lists.tuples(self.text(query.tree), types, ())
        return tuple(rows) if rows is not None and len(rows) <= MOST_WRITTEN else None


def _asked(block: Block) -> str:
    """Everything that a block asks."""
    unit = block.source.unit
    return fingerprint(
        block.source.read(),
        tree_of(unit.column) if unit is not None else None,
        frozenset(condition.tree for condition in block.source.where),
        tuple((key.scalar.tree, key.scalar.domain, key.scalar.nullable) for key in block.keys),
        tuple((a.name, a.asked) for a in block.aggregates),
        tuple((listed.keys, listed.bound) for listed in block.lists),
        block.whole,
        block.kept,
    )


def _written_names(tree: exp.Expression) -> tuple[str, ...]:
    """The names of a SELECT whose columns all have one; () where the engine has to be asked."""
    if not isinstance(tree, exp.Select):
        return ()
    named = [p for p in tree.expressions if isinstance(p, exp.Alias) or (isinstance(p, exp.Column) and not p.is_star)]
    return tuple(p.alias_or_name for p in named) if len(named) == len(tree.expressions) else ()


def plain_text(tree: exp.Expression) -> str:
    """The SQL of a query as it stands. Comments stay behind: another parser may read their ends differently."""
    return DUCKDB.generate(copied(tree), copy=False, comments=False)


def total_text(tree: exp.Expression) -> str:
    """The SQL of what is computed from released values.

    Casts and integer division give NULL where the engine would raise, for the price is paid by then; a ratio over a noisy zero is NULL
    as well, not inf: it says nothing.
    """
    made = copied(tree)
    # what is inside is made total before what is around it, which may copy it
    for node in reversed(every(made, exp.Expression)):
        other = _total(node)
        if node is made:
            made = other
        elif other is not node:
            node.replace(other)
    return DUCKDB.generate(made, copy=False, comments=False)


def _total(node: exp.Expression) -> exp.Expression:
    if type(node) is exp.Cast:
        return exp.TryCast(this=node.this, to=node.args["to"])
    if isinstance(node, exp.Div | exp.IntDiv | exp.Mod) and not _is_another_number(node.expression):
        node.set("expression", exp.Nullif(this=node.expression, expression=exp.Literal.number(0)))
    record = record_of(node)
    if record is not None and record.largest < math.inf:
        _within(node, record.largest)
    return exp.Try(this=copied(node)) if _is_tried(node) and not any(map(_is_tried, _above(node))) else node


def _is_tried(node: exp.Expression) -> bool:
    function = function_of(node)
    return function is not None and function.tried and node.find(exp.AggFunc, exp.Window) is None


def _above(node: exp.Expression) -> Iterator[exp.Expression]:
    while isinstance(node.parent, exp.Expression):
        node = node.parent
        yield node


def _is_another_number(node: exp.Expression) -> bool:
    """True if a divisor is a number other than zero."""
    return isinstance(node, exp.Literal) and not node.is_string and node.to_py() != 0


def _within(node: exp.Expression, largest: float) -> None:
    """Leave out of an aggregate what its engine's own form raises on: its powers are beyond DOUBLE."""
    value = node.expressions[0] if isinstance(node, exp.Anonymous) else node.this
    size = exp.Abs(this=exp.TryCast(this=value.copy(), to=exp.DataType.build("DOUBLE")))
    fits = exp.LTE(this=size, expression=exp.Literal.number(f"{largest:g}"))
    kept = exp.Case(ifs=[exp.If(this=fits, true=value.copy())])
    node.set(*("expressions", [kept]) if isinstance(node, exp.Anonymous) else ("this", kept))


def _bound_item(name: str, sqltype: SqlType) -> str:
    """A column of an input table in its planned type; text that is too long to compute with is NULL."""
    value = f"TRY_CAST({name} AS {sqltype})"
    if sqltype.is_text:
        value = f"CASE WHEN length({value}) <= {LONGEST_BOUND} THEN {value} END"
    return f"{value} AS {name}"


def bound_column(alias: str, name: str, sqltype: SqlType) -> Scalar:
    """A column of an input table: any value of its type, and NULL."""
    return column(Column(alias, name), sqltype, UNBOUNDED, nullable=True, role="", length=LONGEST_BOUND)
