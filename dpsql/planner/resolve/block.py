"""One SELECT over one private relation -> a block of aggregates and keys, and the shell over its released rows."""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlglot import exp

from dpsql.algebra.logic import truth
from dpsql.algebra.relations import Filter, Relation, Scan, reach_unit
from dpsql.algebra.scalar import Scalar, finite_hull
from dpsql.errors import Error, error
from dpsql.plan import Block, GroupKey, Resolved, Shell
from dpsql.planner.grammar import AGGREGATES
from dpsql.planner.parse import DUCKDB
from dpsql.planner.resolve.aggregates import Collector, is_aggregate
from dpsql.planner.resolve.scalars import scalar
from dpsql.planner.resolve.scope import Scope, scope_of
from dpsql.schema.model import Schema, Table
from dpsql.spans import span_of

RELEASE = "release_0"
ROW_NUMBER = "release_row"


@dataclass(slots=True)
class _Rewriter:
    """Turns the SELECT list, HAVING, QUALIFY and ORDER BY into expressions over the released table."""

    scope: Scope
    keys: dict[str, GroupKey]
    collector: Collector
    aliases: dict[str, exp.Expression]
    open_aliases: set[str] = field(default_factory=set)

    def rewrite(self, node: exp.Expression) -> exp.Expression:
        """`node` with each aggregate and each group key replaced by its released column. Raises 305 for a bare column."""
        if is_aggregate(node):
            return _released(self.collector.add(node).name)
        key = self._key(node)
        if key is not None:
            return _released(key.name)
        if isinstance(node, exp.Column):
            return self._column(node)
        if isinstance(node, exp.Star) and not isinstance(node.parent, exp.Count):
            raise error(
                301, "* would show rows of people", hint="aggregate, such as SELECT COUNT(*)", span=span_of(node)
            )
        # A new node around new parts: a copy would take all that is below it along, once on every level.
        return _total(type(node)(**{name: self._rewritten(value) for name, value in node.args.items()}))

    def _rewritten(self, value: object) -> object:
        if isinstance(value, list):
            return [self._rewritten(part) for part in value]
        return self.rewrite(value) if isinstance(value, exp.Expression) else value

    def _key(self, node: exp.Expression) -> GroupKey | None:
        """The group key that a node is another spelling of."""
        if not self.keys or isinstance(
            node, exp.Literal | exp.Null | exp.Boolean | exp.Identifier | exp.DataType | exp.Var
        ):
            return None
        try:
            return self.keys.get(scalar(node, self.scope).sql)
        except Error:
            return None

    def _column(self, node: exp.Column) -> exp.Expression:
        name = node.name.lower()
        if not node.table and name in self.aliases and name not in self.open_aliases:
            self.open_aliases.add(name)
            found = self.rewrite(self.aliases[name])
            self.open_aliases.discard(name)
            return exp.Paren(this=found)
        column = self.scope.column(node)
        if column is None:
            raise self.scope.unknown(node)
        raise error(
            305,
            f"{node.name} is neither grouped nor aggregated, so it would show rows of people",
            hint=_instead(node.name, column),
            span=span_of(node),
        )


def _total(node: exp.Expression) -> exp.Expression:
    """Casts and integer division over released values give NULL where the engine would raise: the price is paid by then."""
    if type(node) is exp.Cast:
        return exp.TryCast(this=node.this, to=node.args["to"])
    if isinstance(node, exp.IntDiv | exp.Mod):
        node.set("expression", exp.Nullif(this=node.expression, expression=exp.Literal.number(0)))
    return node


def _instead(name: str, column: Scalar) -> str:
    if column.role == "identifier":
        return "leave it out, or write COUNT(*)"
    averaged = column.sqltype.is_number and finite_hull(column) is not None
    return f"add it to GROUP BY, or write {'AVG' if averaged else 'COUNT'}({name})"


def _released(name: str) -> exp.Column:
    return exp.column(exp.to_identifier(name, quoted=True), table=exp.to_identifier(RELEASE, quoted=True))


def resolve_block(select: exp.Select, table: Table, schema: Schema) -> Resolved:
    """The release and the shell of one SELECT over one private table."""
    source = select.args["from_"].this
    # The engine knows the table by its declared name, so that an alias or its case makes no other question of it.
    scan = Scan(schema, table, table.name)
    relation: Relation = reach_unit(scan)
    scope = scope_of(relation, source.alias_or_name or table.name, table)
    aliases = {p.alias.lower(): p.this for p in select.expressions if isinstance(p, exp.Alias)}
    where = select.args.get("where")
    if where is not None:
        condition = _condition(where.this, scope, aliases)
        relation = Filter(relation, condition)
        scope = scope.narrowed(condition)
    unit = relation.unit.column.sql if relation.unit is not None and relation.unit.column is not None else None
    keys = _keys(select, scope, aliases)
    collector = Collector(scope, unit)
    rewriter = _Rewriter(scope, {key.scalar.sql: key for key in keys}, collector, aliases)
    tree, direct, traced = _shell_tree(select, rewriter, keys)
    _check_people(select, keys, collector, table)
    block = Block(RELEASE, relation, tuple(keys), tuple(collector.found.values()))
    # Comments stay behind: another parser may read their ends differently.
    shell, plain = DUCKDB.generate(tree, comments=False), DUCKDB.generate(_plain(select), comments=False)
    return Resolved((block,), Shell(shell, plain, (), direct, traced))


def _plain(select: exp.Select) -> exp.Expression:
    """The statement without our own functions, for the engine to name its columns."""

    def replaced(node: exp.Expression) -> exp.Expression:
        if isinstance(node, exp.Anonymous) and str(node.this).lower() == "dp_sum":
            return exp.Sum(this=node.expressions[0].copy())
        return node

    return select.transform(replaced)


def _condition(node: exp.Expression, scope: Scope, aliases: dict[str, exp.Expression]) -> Scalar:
    """WHERE, where an alias of the SELECT list may stand for its expression if no column has that name."""

    def expanded(part: exp.Expression) -> exp.Expression:
        if isinstance(part, exp.Column) and not part.table and part.name.lower() not in scope.columns:
            return aliases.get(part.name.lower(), part).copy()
        return part

    nested = node.find(*AGGREGATES)
    if nested is not None:
        raise error(109, "WHERE cannot use an aggregate", hint="write it in HAVING", span=span_of(nested))
    return truth(scalar(node.transform(expanded), scope))


def _keys(select: exp.Select, scope: Scope, aliases: dict[str, exp.Expression]) -> list[GroupKey]:
    group = select.args.get("group")
    nodes: list[exp.Expression] = []
    if group is not None:
        nodes = [_grouping(node, select, scope, aliases) for node in group.expressions]
        if group.args.get("all"):
            nodes += [_unaliased(p) for p in select.expressions if not _aggregates(p)]
    elif select.args.get("distinct") is not None and not any(_aggregates(p) for p in select.expressions):
        nodes = [_unaliased(p) for p in select.expressions]
    keys: dict[str, GroupKey] = {}
    for node in nodes:
        if isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star)):
            raise error(301, "* would show rows of people", hint="name the columns to group by", span=span_of(node))
        found = scalar(node, scope)
        if not found.is_literal:
            keys.setdefault(found.sql, GroupKey(f"k{len(keys)}", found, None, span_of(node)))
    return list(keys.values())


def _unaliased(node: exp.Expression) -> exp.Expression:
    return node.this if isinstance(node, exp.Alias) else node


def _aggregates(node: exp.Expression) -> bool:
    """Whether a projection aggregates or windows, so that GROUP BY ALL does not group by it."""
    return any(isinstance(p, exp.Window) or (isinstance(p, exp.Expression) and is_aggregate(p)) for p in node.walk())


def _grouping(
    node: exp.Expression, select: exp.Select, scope: Scope, aliases: dict[str, exp.Expression]
) -> exp.Expression:
    """What GROUP BY 2, GROUP BY alias or GROUP BY expression groups by; a column comes before an alias of its name."""
    if isinstance(node, exp.Literal) and not node.is_string:
        position = int(node.name) if node.name.isdigit() else 0
        if not 1 <= position <= len(select.expressions):
            raise error(
                305,
                f"GROUP BY {node.name[:20]} names no column",
                hint=f"write 1 to {len(select.expressions)}",
                span=span_of(node),
            )
        node = _unaliased(select.expressions[position - 1])
    elif isinstance(node, exp.Column) and not node.table and node.name.lower() not in scope.columns:
        node = aliases.get(node.name.lower(), node)
    if _aggregates(node):
        raise error(109, "GROUP BY cannot use an aggregate", hint="group by columns", span=span_of(node))
    return node


def _check_people(select: exp.Select, keys: list[GroupKey], collector: Collector, table: Table) -> None:
    """Refuse rows of people (301) and groups that are people (302)."""
    for key in keys:
        if any(part.role == "identifier" for part in key.scalar.walk()):
            raise error(
                302,
                "a group would be one person, because it is keyed by an identifier",
                hint="group by what people share, or leave the identifier out of GROUP BY",
                span=key.span,
            )
    columns = {
        part.sql.rpartition(".")[2].strip('"').lower()
        for key in keys
        for part in key.scalar.walk()
        if part.function == "column"
    }
    if table.key and {name.lower() for name in table.key} <= columns:
        raise error(
            302,
            "each group would be one row, because the keys hold the table's key",
            hint="group by fewer columns",
            span=span_of(select),
        )
    if not keys and not collector.found:
        raise error(
            301,
            "the result would be rows of people",
            hint="aggregate, such as SELECT COUNT(*)",
            span=span_of(select.expressions[0]),
        )


def _shell_tree(
    select: exp.Select, rewriter: _Rewriter, keys: list[GroupKey]
) -> tuple[exp.Select, tuple[tuple[str, str] | None, ...], bool]:
    """SELECT ... FROM the released table, with HAVING as WHERE, and the released row's number as a hidden last column."""
    projections = [_named(p, rewriter) for p in select.expressions]
    shell = exp.Select(expressions=projections)
    shell.set("from_", exp.From(this=exp.Table(this=exp.to_identifier(RELEASE, quoted=True))))
    having = select.args.get("having")
    if having is not None:
        shell.set("where", exp.Where(this=rewriter.rewrite(having.this)))
    for part in ("qualify", "order", "windows", "limit", "offset", "distinct"):
        value = select.args.get(part)
        if value is not None:
            shell.set(part, _part(part, value, rewriter, select))
    direct = tuple(_direct(p) for p in projections)
    traced = select.args.get("distinct") is None
    if traced:
        row = exp.column(exp.to_identifier(ROW_NUMBER, quoted=True), table=exp.to_identifier(RELEASE, quoted=True))
        shell.append("expressions", exp.alias_(row, ROW_NUMBER, quoted=True))
    return shell, direct, traced


def _named(projection: exp.Expression, rewriter: _Rewriter) -> exp.Expression:
    if isinstance(projection, exp.Alias):
        return exp.Alias(this=rewriter.rewrite(projection.this), alias=projection.args["alias"].copy())
    return rewriter.rewrite(projection)


def _direct(projection: exp.Expression) -> tuple[str, str] | None:
    node = _unaliased(projection)
    return (RELEASE, node.name) if isinstance(node, exp.Column) else None


def _part(name: str, value: object, rewriter: _Rewriter, select: exp.Select) -> object:
    if isinstance(value, list):
        return [rewriter.rewrite(v) for v in value]
    assert isinstance(value, exp.Expression)
    if name in ("limit", "offset"):
        if value.find(exp.Column) or value.find(*AGGREGATES):
            raise error(106, f"{name.upper()} needs a constant", hint=f"write {name.upper()} 10", span=span_of(value))
        return value.copy()
    if name == "order":
        return exp.Order(expressions=[_ordered(o, rewriter, select) for o in value.expressions])
    return rewriter.rewrite(value) if name != "distinct" else _distinct(value)


def _distinct(value: exp.Expression) -> exp.Expression:
    if value.expressions or value.args.get("on"):
        raise error(102, "DISTINCT ON is not supported", hint="write DISTINCT", span=span_of(value))
    return value.copy()


def _ordered(node: exp.Expression, rewriter: _Rewriter, select: exp.Select) -> exp.Expression:
    """ORDER BY 2, ORDER BY ALL and ORDER BY alias keep their meaning: the shell has the same columns, and one more at the end."""
    inner = node.this
    keeps = isinstance(inner, exp.Literal | exp.Var)
    keeps = keeps or (isinstance(inner, exp.Column) and not inner.table and inner.name.lower() in rewriter.aliases)
    copy = node.copy()
    if not keeps:
        copy.set("this", rewriter.rewrite(inner))
    return copy
