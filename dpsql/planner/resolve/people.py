"""A SELECT that aggregates over people -> a block that becomes a release, and the query over its released rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from dpsql.core.cancellation import check
from dpsql.core.errors import Error, error
from dpsql.core.spans import span_of
from dpsql.expressions.scalar import NULL_TYPE, Scalar
from dpsql.plan.resolved import Block, GroupKey
from dpsql.plan.tables import ROW_NUMBER
from dpsql.planner.calls import function_of
from dpsql.planner.grammar import is_aggregate
from dpsql.planner.parse import DUCKDB
from dpsql.planner.resolve.aggregates import Collector
from dpsql.planner.resolve.ends import argument_of, end, is_end, named_after
from dpsql.planner.resolve.free import said_of_groups
from dpsql.planner.resolve.grouping_sets import ALL_KEYS_DECLARED
from dpsql.planner.resolve.key_lists import check_value_list, is_listed, key_lists, leaves_out_empty
from dpsql.planner.resolve.nobody import NAME, check_kept, over_nobody, ruled_out, without_decided
from dpsql.planner.resolve.rows_of_people import bare_columns, rows_of_people
from dpsql.planner.resolve.scalars import NO_KEYS, scalar
from dpsql.planner.resolve.scope import Scope
from dpsql.planner.resolve.sources import beside_sources
from dpsql.planner.resolve.statement import Env, Private, Public, Statement
from dpsql.planner.resolve.syntax import all_of, is_query, output_name, parts_of, unaliased, where_parts
from dpsql.planner.resolve.text_extremes import TextExtremes
from dpsql.planner.resolve.unique import of_release
from dpsql.planner.walks import copied, every
from dpsql.relations.relations import Relation
from dpsql.sql.duckdb import printed
from dpsql.sql.nodes import Cast, Node

MOST_ALIASES = 1_000
"""Number of times that one SELECT may put an expression in the place of its alias."""
PENDING = "\0release"
"""Stands for the released table until the block has its name; no identifier of a statement can hold it."""


@dataclass(slots=True)
class _Rewriter:
    """Turns the SELECT list, HAVING, QUALIFY and ORDER BY into expressions over the released table.

    nested  whether any query stands inside an expression of the SELECT
    """

    statement: Statement
    env: Env
    scope: Scope
    keys: dict[Node, GroupKey]
    collector: Collector
    texts: TextExtremes
    aliases: dict[str, exp.Expression]
    select: exp.Select
    nested: bool = False
    open_aliases: set[str] = field(default_factory=set)
    expanded: int = 0

    def __post_init__(self) -> None:
        self.nested = any(map(is_query, beside_sources(self.select)))

    def rewrite(self, node: exp.Expression) -> exp.Expression:
        """`node` with each aggregate and each group key replaced by its released column. Raises 305 for a bare column."""
        check()
        if isinstance(node, exp.Anonymous) and is_end(node):
            value = self.rewrite(argument_of(node))
            return end(node, value, PENDING, list(self.collector.found.values()))
        if is_aggregate(node):
            extreme = isinstance(node.this if isinstance(node, exp.Filter) else node, exp.Min | exp.Max)
            text = self.texts.column(node) if extreme else None
            if text is not None:
                return text
            asked = self.collector.add(node)
            columns = [_released(aggregate.name) for aggregate in asked.aggregates]
            return exp.Array(expressions=columns) if asked.listed else columns[0]
        key = self._key(node)
        if key is not None:
            return _released(key.name)
        if isinstance(node, exp.Column):
            return self._column(node)
        if is_query(node):
            return self._query(node)
        if isinstance(node, exp.Star) and not isinstance(node.parent, exp.Count):
            raise error(
                301, "* would show rows of people", hint="aggregate, such as SELECT COUNT(*)", span=span_of(node)
            )
        # A new node around new parts: a copy would take all that is below it along, once on every level.
        return type(node)(**{name: self._rewritten(value) for name, value in node.args.items()})

    def _query(self, node: exp.Expression) -> exp.Expression:
        """A query beside the released values: its rows must be public."""
        args, part = dict(node.args), "query" if node.args.get("query") else "this"
        if part == "query":
            args["this"] = self._rewritten(node.this)
        found = self.statement.query(node.args[part], self.env.inside(None))
        if isinstance(found, Private):
            raise rows_of_people(found, node)
        args[part] = found.tree if part == "this" else exp.Subquery(this=found.tree)
        return type(node)(**args)

    def _rewritten(self, value: object) -> object:
        if isinstance(value, list):
            return [self._rewritten(part) for part in value]
        return self.rewrite(value) if isinstance(value, exp.Expression) else value

    def _key(self, node: exp.Expression) -> GroupKey | None:
        """The group key that a node is another spelling of."""
        if not self.keys or isinstance(node, NO_KEYS):
            return None
        # A query that was not met as a key before is none: to resolve it here would leave its tables behind.
        if self.nested and any(is_query(part) and not self.scope.has_answered(part) for part in parts_of(node)):
            return None
        try:
            return self.keys.get(scalar(node, self.scope).tree)
        except Error:
            return None

    def _column(self, node: exp.Column) -> exp.Expression:
        name = node.name.lower()
        if not node.table and name in self.aliases and name not in self.open_aliases:
            self.expanded += 1
            if self.expanded > MOST_ALIASES:
                raise error(
                    107,
                    f"{node.name} grows too large when it is written out",
                    hint="use each alias once",
                    span=span_of(node),
                )
            self.open_aliases.add(name)
            found = self.rewrite(self.aliases[name])
            self.open_aliases.discard(name)
            return exp.Paren(this=found)
        column = self.scope.column(node)
        if column is None:
            raise self.scope.unknown(node)
        if column.is_literal:
            again = column.is_null and column.sqltype != NULL_TYPE
            shown = Cast(column.tree, column.sqltype, tries=False) if again else column.tree
            return exp.maybe_parse(printed(shown), dialect=DUCKDB)
        beside = [p for p in self.select.expressions if self._key(unaliased(p)) is None]
        raise bare_columns(node, column, beside, self.scope)


def _released(name: str) -> exp.Column:
    own, table = (exp.Identifier(this=text, quoted=True) for text in (name, PENDING))
    return exp.Column(this=own, table=table)


def release(
    statement: Statement, select: exp.Select, relation: Relation, scope: Scope, keys: list[GroupKey], env: Env
) -> Public:
    """The block of a SELECT that aggregates a private relation over people, and its query over the released rows."""
    collector = Collector(scope, relation.unit.column if relation.unit is not None else None)
    kept = scope.kept is not None
    found = key_lists(statement, select, keys, relation, env, kept=kept)
    keys, lists = list(found.keys), found.lists
    texts, by_tree = TextExtremes(scope), {key.scalar.tree: key for key in keys}
    rewriter = _Rewriter(statement, env, scope, by_tree, collector, texts, dict(scope.aliases), select)
    listed = {i for one in lists for i in one.keys} | {i for i, key in enumerate(keys) if is_listed(key.scalar)}
    # keys that are selected privately need a count of people, and so may be all that COUNT(*) > 0 is written for
    asked = said_of_groups(select, counted=len(listed) == len(keys))
    tree, names = _released_query(select, asked, rewriter), tuple(output_name(p) for p in select.expressions)
    _check_groups(select, keys, relation, aggregated=bool(collector.found or texts.found))
    if scope.kept is not None:
        check_kept(statement, relation, keys, None if texts.found else listed, collector.found.values(), scope.kept)
    note = ruled_out(statement, relation, found) if (relation.where and not kept) or found.empty else None
    if note is not None:
        statement.notes.append(note)
        over_nobody(tree, PENDING, keys, list(collector.found.values()))
        texts.of_nobody(tree)
        return Public(named_after(tree, PENDING, NAME), names=names)
    if any(a.condition is not None or any(value.args for value in a.values) for a in collector.found.values()):
        without_decided(statement, relation, collector, tree, PENDING)
    if not collector.found and len(listed) < len(keys):
        check_value_list(keys, relation)
        collector.count_people(select)
    whole = bool(select.meta.get(ALL_KEYS_DECLARED))
    counted = len(listed) == len(keys) and bool(collector.found) and not whole
    present = counted and not kept and leaves_out_empty(statement, select, keys, lists, env)
    block = Block("", relation, tuple(keys), tuple(collector.found.values()), lists, whole, present, kept)
    if texts.found:
        _look_up(statement, select, tree, texts, block)
    if not (block.keys or block.aggregates):
        tree.set("from_", None)
        return Public(tree, names=names)
    named_after(tree, PENDING, name := statement.release(block))
    direct = tuple(_direct(p, name) for p in tree.expressions)
    return Public(tree, of_release(tree, name, [key.name for key in keys]), direct, name, names)


def _look_up(statement: Statement, select: exp.Select, tree: exp.Select, texts: TextExtremes, block: Block) -> None:
    texts.without_decided(statement, block.source, tree)
    for text in texts.keys(block.keys):
        _check_groups(select, [*block.keys, text], block.source, aggregated=True)
    texts.look_up(statement, tree, PENDING, block)


def grouping(select: exp.Select, scope: Scope) -> list[exp.Expression]:
    """Grouping of a SELECT: GROUP BY, or the columns of DISTINCT without aggregates; [] where it does not."""
    group = select.args.get("group")
    if group is not None:
        nodes = [_grouping(node, select, scope) for node in group.expressions]
        if group.args.get("all"):
            nodes += [unaliased(p) for p in select.expressions if not aggregates(p)]
        return nodes
    if select.args.get("distinct") is not None and not any(aggregates(p) for p in select.expressions):
        return [unaliased(p) for p in select.expressions]
    return []


def group_keys(nodes: list[exp.Expression], scope: Scope) -> list[GroupKey]:
    """Each grouping expression once; constants group nothing."""
    keys: dict[Node, GroupKey] = {}
    for node in nodes:
        if isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star)):
            raise error(301, "* is no group key", hint="name the columns to group by", span=span_of(node))
        found = scalar(node, scope)
        if not found.is_literal:
            keys.setdefault(found.tree, GroupKey(f"k{len(keys)}", found, None, span_of(node)))
    return list(keys.values())


def aggregates(node: exp.Expression) -> bool:
    """True if a projection aggregates or windows, so that GROUP BY ALL does not group by it."""
    return any(isinstance(p, exp.Window) or is_aggregate(p) or is_end(p) for p in parts_of(node))


def _grouping(node: exp.Expression, select: exp.Select, scope: Scope) -> exp.Expression:
    """Expression that GROUP BY 2, GROUP BY alias or GROUP BY expression groups by; a column comes before an alias of
    its name."""
    if isinstance(node, exp.Literal) and not node.is_string:
        position = int(node.name) if node.name.isdigit() else 0
        if not 1 <= position <= len(select.expressions):
            hint = f"name one, or write its number, at most {len(select.expressions)}"
            raise error(305, f"GROUP BY {node.name[:20]} names no column", hint=hint, span=span_of(node))
        node = unaliased(select.expressions[position - 1])
    elif isinstance(node, exp.Column) and not scope.has(node):
        node = scope.alias(node) or node
    if aggregates(node):
        if isinstance(node, exp.Window):
            hint = "write it as a column of a subquery in FROM, and group by that column"
            raise error(109, "GROUP BY cannot use a window", hint=hint, span=span_of(node))
        raise error(109, "GROUP BY cannot use an aggregate", hint="group by columns", span=span_of(node))
    return node


def _check_groups(select: exp.Select, keys: Sequence[GroupKey], relation: Relation, *, aggregated: bool) -> None:
    """Refuse rows of people (301) and groups that are people (302)."""
    for key in keys:
        if key.scalar.is_identifying:
            raise error(
                302,
                "a group would be one person, because it is keyed by an identifier",
                hint="group by what people share, or leave the identifier out of GROUP BY",
                span=key.span,
            )
    columns = {origin for key in keys for origin in _shown_columns(key.scalar)}
    bare: set[Node] = {key.scalar.tree for key in keys}
    whole = any(t.key and {f"{t.name}.{name}" for name in t.key} <= columns for t in relation.tables)
    if whole or any(unique and unique <= bare for unique in relation.unique):
        raise error(
            302,
            "each group would be one row, because the keys hold the table's key",
            hint="group by fewer columns",
            span=span_of(select),
        )
    if not keys and not aggregated:
        raise error(
            301,
            "the result would be rows of people",
            hint="aggregate, such as SELECT COUNT(*)",
            span=span_of(select.expressions[0]),
        )


def _shown_columns(scalar: Scalar) -> Iterator[str]:
    """The declared columns whose values a key can tell apart; EXISTS only tells whether there is a row."""
    seen: set[int] = set()
    waiting = [scalar]
    while waiting:
        part = waiting.pop()
        if part.function == "exists" or id(part) in seen:
            continue
        seen.add(id(part))
        if part.origin:
            yield part.origin
        waiting += part.args


_TOTAL = (
    exp.And, exp.Or, exp.Not, exp.Paren, exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.In, exp.Between, exp.Is, exp.Like,
    exp.ILike, exp.Glob, exp.Boolean, exp.Literal, exp.Null, exp.Column, exp.Identifier,
)  # fmt: skip
"""Of what conditions are made that the engine cannot fail at, whatever the values are."""


def _said_of_keys(select: exp.Select, rewriter: _Rewriter) -> list[exp.Expression]:
    """The AND parts of WHERE that compare group keys with constants, over the released rows: a group for which one is not true has
    no rows, and would show noise alone.

    Why  it is chosen by the text, and reads released keys alone
    """
    said: list[exp.Expression] = []
    over_keys = replace(rewriter, aliases={})
    read = {leaf.tree for key in rewriter.keys.values() for leaf in key.scalar.leaves()}
    for node in where_parts(select) if rewriter.keys else []:
        try:
            found = over_keys.rewrite(node) if _reads_nothing_else(node, read, rewriter.scope) else None
        except Error:
            continue
        if found is not None and found.find(exp.Column) is not None and all(map(_cannot_fail, parts_of(found))):
            said.append(found)
    return said


def _reads_nothing_else(node: exp.Expression, read: set[Node], scope: Scope) -> bool:
    """True if a condition holds no query, and names no column but those that group keys are made of."""
    if any(is_query(part) for part in parts_of(node)):
        return False
    return all(leaf.tree in read for column in every(node, exp.Column) for leaf in scalar(column, scope).leaves())


def _cannot_fail(node: exp.Expression) -> bool:
    as_text = isinstance(node, exp.Cast) and node.to.is_type("text", "varchar")
    function = function_of(node)
    return as_text or (function is not None and function.safe) or isinstance(node, (*_TOTAL, exp.DataType))


def _released_query(select: exp.Select, having: exp.Expression | None, rewriter: _Rewriter) -> exp.Select:
    """SELECT ... FROM the released table, with HAVING, and what WHERE says of keys, as WHERE."""
    projections = [_named(p, rewriter) for p in select.expressions]
    post_query = exp.Select(expressions=projections)
    post_query.set("from_", exp.From(this=exp.Table(this=exp.to_identifier(PENDING, quoted=True))))
    conditions = _said_of_keys(select, rewriter)
    if having is not None:
        conditions.append(rewriter.rewrite(having))
    if conditions:
        post_query.set(
            "where", exp.Where(this=all_of(exp.Paren(this=c) if len(conditions) > 1 else c for c in conditions))
        )
    for part in ("qualify", "order", "windows", "limit", "offset", "distinct"):
        value = select.args.get(part)
        if value is not None:
            post_query.set(part, _part(part, value, rewriter, select))
    return post_query


def traced(tree: exp.Expression, name: str) -> bool:
    """Add the released row's number as a last column, where each row of the result is one; whether it was."""
    if not isinstance(tree, exp.Select) or tree.args.get("distinct") is not None:
        return False
    row = exp.column(exp.to_identifier(ROW_NUMBER, quoted=True), table=exp.to_identifier(name, quoted=True))
    tree.append("expressions", exp.alias_(row, ROW_NUMBER, quoted=True))
    return True


def _named(projection: exp.Expression, rewriter: _Rewriter) -> exp.Expression:
    if isinstance(projection, exp.Alias):
        return exp.Alias(this=rewriter.rewrite(projection.this), alias=copied(projection.args["alias"]))
    return rewriter.rewrite(projection)


def _direct(projection: exp.Expression, name: str) -> tuple[str, str] | None:
    node = unaliased(projection).unnest()
    return (name, node.name) if isinstance(node, exp.Column) and node.table == name else None


def _part(name: str, value: object, rewriter: _Rewriter, select: exp.Select) -> object:
    if isinstance(value, list):
        return [rewriter.rewrite(v) for v in value]
    assert isinstance(value, exp.Expression)
    if name in ("limit", "offset"):
        if value.find(exp.Column) or any(isinstance(p, exp.Expression) and is_aggregate(p) for p in value.walk()):
            raise error(106, f"{name.upper()} needs a constant", hint=f"write {name.upper()} 10", span=span_of(value))
        return value.copy()
    if name == "order":
        return exp.Order(expressions=[_ordered(o, rewriter) for o in value.expressions])
    return rewriter.rewrite(value) if name != "distinct" else _distinct(value)


def _distinct(value: exp.Expression) -> exp.Expression:
    if value.expressions or value.args.get("on"):
        raise error(102, "DISTINCT ON is not supported", hint="write DISTINCT", span=span_of(value))
    return value.copy()


def _ordered(node: exp.Expression, rewriter: _Rewriter) -> exp.Expression:
    """ORDER BY 2, ORDER BY ALL and ORDER BY alias keep their meaning: the outer query has the same columns, and one more at the end."""
    inner = node.this
    keeps = isinstance(inner, exp.Literal | exp.Var)
    keeps = keeps or (isinstance(inner, exp.Column) and not inner.table and inner.name.lower() in rewriter.aliases)
    copy = copied(node)
    if not keeps:
        copy.set("this", rewriter.rewrite(inner))
    return copy
