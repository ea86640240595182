"""resolve: Query -> Resolved. Names, types and domains; queries over people become releases, the rest becomes the post_query.

query.py          which queries are private and which public; a SELECT over people's rows: rows (unit_windows.py), groups within a
                  unit (unit_groups.py), both with unit_aggregates.py, or a release
sources.py        FROM: tables, WITH queries, subqueries; joined.py joins them, in an order of its own
people.py         a release, and the query over its released rows; key_lists.py: where its group keys come from
public.py         a SELECT over public tables and releases
subqueries.py     EXISTS, IN and scalar subqueries about a row; correlated.py makes joins of correlated ones
scalars.py, functions.py, aggregates.py, scope.py   expressions and the names in them
ends.py           the ends of intervals as columns
listing.py        the final query as a plain list of released rows
free.py, catalog.py, grouping_sets.py, pivot.py   statements that are answered, or written out, as others
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from sqlglot import exp

from dpsql.core.domains import UNBOUNDED, Categories
from dpsql.core.errors import Error, error
from dpsql.plan.resolved import PostQuery, PublicTuples, PublicTypes, Resolved
from dpsql.planner.options import ALL
from dpsql.planner.parse import DUCKDB, Query
from dpsql.planner.resolve.catalog import quoted_columns, reads_catalog, spending_tables
from dpsql.planner.resolve.ends import computed
from dpsql.planner.resolve.free import free_answer
from dpsql.planner.resolve.functions import check_buckets
from dpsql.planner.resolve.listing import listing
from dpsql.planner.resolve.people import traced
from dpsql.planner.resolve.pivot import unpivoted, with_values
from dpsql.planner.resolve.query import query
from dpsql.planner.resolve.rows_of_people import rows_of_people
from dpsql.planner.resolve.sources import check_tables
from dpsql.planner.resolve.statement import Env, Private, Public, Statement, plain_text, total_text
from dpsql.planner.resolve.syntax import without_own_functions
from dpsql.planner.resolve.totals import totals, within_bounds
from dpsql.planner.walks import every, unchanged
from dpsql.schema.model import Column, Schema, Table
from dpsql.schema.spent import IS_SYNTHETIC, is_synthetic


def resolve(
    asked: Query, schema: Schema, types: PublicTypes | None = None, lists: PublicTuples | None = None
) -> Resolved:
    """Classify the statement's queries and set the private ones apart.

    types  tells the types of public queries that private ones read
    lists  tells which values group keys can have together

    Raises 102-109 (names, types, misplaced aggregates), 204 (text that could grow too long), 3xx (rows or groups that are people),
    402 (joins and subqueries).
    """
    try:
        return _resolve(asked, schema, types, lists)
    except RecursionError:
        pass
    except Error as raised:
        if raised.code != TOO_LONG:
            raise
        problem = helped(raised, asked.tree, schema, lambda other: _resolve(asked, other, types, lists))
        raise problem.with_traceback(None) from None
    raise error(107, "the statement is nested too deeply", hint="write fewer nested expressions")


def _resolve(asked: Query, schema: Schema, types: PublicTypes | None, lists: PublicTuples | None) -> Resolved:
    tree = asked.tree
    with unchanged(tree):
        check_tables(tree, schema)
        check_buckets(tree)
        spent, catalog = spending_tables(tree, schema), reads_catalog(tree)
        free = free_answer(tree, schema) if not spent else None
        shown, pivots, written = without_own_functions(tree), every(tree, exp.Pivot), len(every(tree, exp.Expression))
    if spent:
        text = plain_text(quoted_columns(shown, spent))
        notes = (IS_SYNTHETIC,) * any(is_synthetic(name.partition(".")[0]) for name in spent)
        own = PostQuery(text, text, (), (), traced=False, empty=True, catalog=catalog, spent=spent, notes=notes)
        return Resolved((), (), own)
    plain, is_own = plain_text(shown), shown is not tree
    if free is not None:
        text, notes = DUCKDB.generate(free[0], comments=False), free[1]
        return Resolved((), (), PostQuery(text, plain, (), (), traced=False, empty=True, catalog=catalog, notes=notes))
    if pivots:
        listed = partial(declared_values, schema)
        tree, plain = unpivoted(tree, listed), plain_text(without_own_functions(with_values(tree, listed)))
        is_own, written = True, len(every(tree, exp.Expression))
    statement = Statement(schema, types, lists, asked.settled.groups == ALL, tree, written=written)
    statement.query = partial(query, statement)
    found = statement.query(tree, Env(top=True))
    if isinstance(found, Private):
        raise rows_of_people(found, tree)
    post_query = _post_query(statement, found, plain)
    asked_text = plain_text(asked.tree) if is_own else plain
    notes = tuple(dict.fromkeys(statement.notes))
    post_query = replace(post_query, written=asked_text if asked_text != plain else None, notes=notes)
    needed = statement.needed(found.tree)
    blocks = tuple(block for block in statement.blocks if block.name in needed)
    return Resolved(blocks, tuple(bound for bound in statement.bounds if bound.name in needed), post_query)


def declared_values(
    schema: Schema, source: exp.Expression, column: exp.Expression
) -> tuple[int | str | bool, ...] | None:
    """The declared domain of a column of something in FROM; None where it has none that is a list."""
    statement = Statement(schema, None)
    statement.query = partial(query, statement)
    select = exp.Select(expressions=[column.copy()])
    select.set("from_", exp.From(this=source.copy()))
    found = statement.query(select, Env())
    if isinstance(found, Private):
        domain = found.relation.columns[0].scalar.domain
    else:
        table = schema.table(source.name) if isinstance(source, exp.Table) else None
        declared = table.column(column.name) if table is not None and isinstance(column, exp.Column) else None
        domain = declared.domain if declared is not None else UNBOUNDED
    values = domain.values if isinstance(domain, Categories) else ()
    listed = tuple(v for v in values if isinstance(v, int | str))
    return listed if listed and len(listed) == len(values) else None


def _post_query(statement: Statement, found: Public, plain: str) -> PostQuery:
    """The query that makes the answer; where it shows a release row by row, the row's number goes with it."""
    tree = found.tree
    if any(block.whole for block in statement.blocks):
        within_bounds(tree, statement.blocks)
    rows = listing(tree, found.release, found.direct) if found.release is not None else None
    numbered = found.release is not None and traced(tree, found.release)
    public, _ = statement.reads(tree)
    if found.release is None and (sums := totals(tree)) is not None:
        texts = tuple(total_text(node) if node is not None else None for node in sums.computed)
        text, name = statement.text(tree), sums.release
        return PostQuery(text, plain, public, sums.direct, False, computed=texts, release=name, totals=True)
    if not numbered or found.release is None:
        return PostQuery(statement.text(tree), plain, public, found.direct, numbered)
    block = next(b for b in statement.blocks if b.name == found.release)
    texts = tuple(total_text(node) if node is not None else None for node in computed(tree, block, found.direct))
    text, direct = statement.text(tree), found.direct
    return PostQuery(text, plain, public, direct, numbered, computed=texts, release=found.release, listing=rows)


TOO_LONG = "DPSQL-204"
_LENGTHS = (128, 64, 32, 16, 8, 4)
"""Lengths that are tried, the largest that helps is named."""
_MOST_COLUMNS = 4


def helped(problem: Error, tree: exp.Expression, schema: Schema, resolves: Callable[[Schema], object]) -> Error:
    """The refusal with what to declare, found by trying it; as it is where no shorter column helps.

    resolves  reads the statement with another schema, and raises where it is refused
    """
    for table, column in _texts(tree, schema):
        if not _answers(_shortened(schema, table, column, _LENGTHS[-1]), resolves):
            continue
        shorter = [length for length in _LENGTHS if length < (column.longest or 0)]
        fits = next((n for n in shorter if _answers(_shortened(schema, table, column, n), resolves)), _LENGTHS[-1])
        what = f"declare length = {fits} for {table.name}.{column.name}"
        problem.hint = f"{what} in the schema if no value is longer, or append fewer texts to each other"
        break
    return problem


def _texts(tree: exp.Expression, schema: Schema) -> Iterator[tuple[Table, Column]]:
    """Text columns of people's tables that the statement names, the longest first, and only a few."""
    named = {node.name.lower() for node in tree.find_all(exp.Column)}
    found = [
        (table, column)
        for table in schema.tables
        if not table.public
        for column in table.columns
        if column.sqltype.is_text and column.name.lower() in named
    ]
    yield from sorted(found, key=lambda one: -(one[1].longest or 0))[:_MOST_COLUMNS]


def _shortened(schema: Schema, table: Table, column: Column, length: int) -> Schema:
    shorter = replace(table, columns=tuple(replace(c, length=length) if c is column else c for c in table.columns))
    return replace(schema, tables=tuple(shorter if t is table else t for t in schema.tables))


def _answers(schema: Schema, resolves: Callable[[Schema], object]) -> bool:
    """True if the length was all that was wrong."""
    try:
        resolves(schema)
    except Error as other:
        return other.code != TOO_LONG
    return True
