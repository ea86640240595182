"""GROUP BY the privacy unit: one row per group of one unit's rows, still private (rules 6, 10).

Every aggregate here is a function of the multiset of one unit's rows, bit for bit: counts, sums in exact types or on the integer grid
of a clamped DOUBLE, averages of those, least, largest and middle values. What depends on the order of rows is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction

from sqlglot import exp

from dpsql.aggregates.sum import sum_type
from dpsql.aggregates.term import term
from dpsql.core.domains import UNBOUNDED, Domain, Interval
from dpsql.core.errors import error
from dpsql.core.spans import span_of
from dpsql.core.sqltypes import BIGINT, DOUBLE, HUGEINT, SqlType
from dpsql.expressions.literals import literal
from dpsql.expressions.logic import BOTH, truth
from dpsql.expressions.scalar import Scalar, finite_hull, one_form
from dpsql.plan.resolved import GroupKey
from dpsql.planner.grammar import is_aggregate, name_of
from dpsql.planner.resolve.arguments import bounded_by_call, distinct_value
from dpsql.planner.resolve.scalars import scalar
from dpsql.planner.resolve.scope import Scope, scope_of
from dpsql.planner.resolve.statement import Private, Statement
from dpsql.planner.resolve.syntax import parts_of
from dpsql.relations.per_unit import Computed, per_unit
from dpsql.relations.relations import Named, Relation, filtered, projected
from dpsql.sql.nodes import Aggregate, Bare, Binary, Call, Case, Cast, Chain, Literal, Node, Not, Number, Star

_CONDITIONS = (exp.Case, exp.If, exp.Nullif, exp.Predicate)
_ADVICE = "use COUNT, SUM, AVG, MIN, MAX, MEDIAN, BOOL_AND or BOOL_OR within one person's rows"


def unit_groups(
    statement: Statement, select: exp.Select, source: Relation, scope: Scope, keys: list[GroupKey]
) -> Private:
    """The per-unit aggregate of a SELECT: its groups as a relation, HAVING as a filter of them."""
    _refused(select)
    found = _Found(scope, source.unit.max_rows if source.unit is not None else None)
    for part in ("expressions", "having"):
        nodes = select.args.get(part) or []
        for node in nodes if isinstance(nodes, list) else [nodes]:
            for inner in parts_of(node):
                if is_aggregate(inner) and not _inside_aggregate(inner):
                    found.add(inner)
    alias = statement.alias("unit_groups")
    relation, columns, values = per_unit(source, alias, [k.scalar for k in keys], list(found.computed.values()))
    here = scope_of(relation, scope.nested, scope.outer)
    here.aliases = scope.aliases
    here.grouped = (scope, {key.scalar.tree: column for key, column in zip(keys, columns, strict=True)})
    places = dict(zip(found.computed, values, strict=True))
    here.known = {node: places[tree] for node, tree in found.nodes.items()}
    having = select.args.get("having")
    if having is not None:
        relation = filtered(relation, truth(scalar(having.this, here)))
    shown = projected(relation, tuple(_shown(p, i, here) for i, p in enumerate(select.expressions)))
    if select.args.get("distinct") is not None:
        shown = statement.distinct(shown, select)
    grouped = select.args.get("group")
    return Private(shown, select, grouped if grouped is not None else select)


def _shown(projection: exp.Expression, position: int, scope: Scope) -> Named:
    node = projection.this if isinstance(projection, exp.Alias) else projection
    if isinstance(node, exp.Star):
        raise error(305, "* is neither grouped nor aggregated", hint="name the columns", span=span_of(node))
    return Named("", projection.alias_or_name or f"column{position}", scalar(node, scope))


def _inside_aggregate(node: exp.Expression) -> bool:
    """Whether a node is the function inside a FILTER, which stands for both."""
    return isinstance(node.parent, exp.Filter) and node.arg_key == "this"


def _refused(select: exp.Select) -> None:
    for part in ("limit", "offset", "qualify"):
        value = select.args.get(part)
        if value is not None:
            raise error(
                402,
                f"{part.upper()} on one person's groups would let other people decide which of them stay",
                hint="aggregate over people first",
                span=span_of(value) or span_of(select),
            )
    window = next((p for e in select.expressions for p in parts_of(e) if isinstance(p, exp.Window)), None)
    if window is not None:
        raise error(
            402,
            "a window over one person's groups is not supported",
            hint="window the rows in a subquery first",
            span=span_of(window),
        )


def decides(node: exp.Expression, scope: Scope) -> bool:
    """Whether a condition, written here or behind a column, decides what an aggregate of one person's rows is."""
    if isinstance(node, exp.CountIf) or any(isinstance(p, _CONDITIONS) for p in node.walk()):
        return True
    columns = (scalar(c, scope) for c in node.find_all(exp.Column) if not isinstance(c.this, exp.Star))
    return any(part.function in ("case", "nullif") for column in columns for part in column.walk())


@dataclass(slots=True)
class _Found:
    """The aggregates of one unit's rows, each computed once.

    rows      [rows] of one unit at most, or None
    computed  by what they compute
    nodes     what each node computes, by the node's id
    """

    scope: Scope
    rows: int | None
    computed: dict[Node, Computed] = field(default_factory=dict)
    nodes: dict[int, Node] = field(default_factory=dict)

    def add(self, node: exp.Expression) -> None:
        """Raises 102 for what depends on the order of rows, 106, 109, 201 for an argument."""
        inner, condition = node, None
        if isinstance(node, exp.Filter):
            inner, condition = node.this, truth(scalar(node.expression.this, self.scope))
        found = self._computed(inner, condition)
        if found is None:
            raise error(
                102, f"{name_of(inner)} within one person's rows is not supported", hint=_ADVICE, span=span_of(inner)
            )
        found = replace(found, chosen=condition is not None or decides(inner, self.scope))
        self.computed.setdefault(found.tree, found)
        self.nodes[id(node)] = found.tree

    def _computed(self, node: exp.Expression, condition: Scalar | None) -> Computed | None:
        match node:
            case exp.Count():
                return self._count(node, condition)
            case exp.CountIf():
                tested = truth(scalar(node.this, self.scope))
                shown = _identifying(tested, condition)
                both = Bare(Chain("AND", tuple(c.tree for c in (tested, condition) if c is not None)))
                number = Aggregate("count", (Star(),), where=both)
                return Computed(number, counted(0, self.rows, HUGEINT), shown)
            case exp.Sum() | exp.Avg():
                word = "SUM" if isinstance(node, exp.Sum) else "AVG"
                return self._total(word, self._argument(node, word), condition)
            case exp.Anonymous() if str(node.this).lower() == "mean" and len(node.expressions) == 1:
                return self._total("AVG", scalar(node.expressions[0], self.scope), condition)
            case exp.Anonymous() if str(node.this).lower() == "dp_sum":
                return self._total("SUM", bounded_by_call(node, self.scope), condition)
            case exp.Min() | exp.Max() if not node.expressions:
                word = "min" if isinstance(node, exp.Min) else "max"
                value = self._argument(node, word.upper())
                return Computed(
                    _of_rows(condition)(word, one_form(value).tree),
                    picked(value, nullable=value.nullable or condition is not None),
                    (value, *_identifying(condition)),
                )
            case exp.LogicalAnd() | exp.LogicalOr():
                word = "bool_and" if isinstance(node, exp.LogicalAnd) else "bool_or"
                value = truth(self._argument(node, word.upper()))
                return Computed(
                    _of_rows(condition)(word, value.tree),
                    picked(value, nullable=value.nullable or condition is not None),
                    (value, *_identifying(condition)),
                )
            case exp.Median():
                return self._median(self._argument(node, "MEDIAN"), condition)
        return None

    def _argument(self, node: exp.Expression, word: str) -> Scalar:
        if isinstance(node.this, exp.Distinct | exp.Order):
            raise error(102, f"{word} takes a plain value here", hint=f"write {word}(x)", span=span_of(node))
        return scalar(node.this, self.scope)

    def _count(self, node: exp.Count, condition: Scalar | None) -> Computed:
        argument, of_rows = node.this, _of_rows(condition)
        if argument is None or isinstance(argument, exp.Star):
            least = 0 if condition is not None else 1
            return Computed(of_rows("count", Star()), counted(least, self.rows, BIGINT), _identifying(condition))
        if isinstance(argument, exp.Distinct):
            value = distinct_value(argument, self.scope)
            shown = _identifying(None if _is_bare(value) else value, condition)
            return Computed(replace(of_rows("count", value.tree), distinct=True), counted(0, self.rows, BIGINT), shown)
        value = scalar(argument, self.scope)
        shown = _identifying(None if _is_bare(value) else value, condition)
        return Computed(of_rows("count", value.tree), counted(0, self.rows, BIGINT), shown)

    def _total(self, word: str, value: Scalar, condition: Scalar | None) -> Computed:
        """SUM and AVG in integers, so that no order of rows shows (rule 10)."""
        if not (value.sqltype.is_number or value.sqltype.is_boolean):
            raise error(106, f"{word} needs a number, not {value.sqltype}", hint="count it, or cast it to a number")
        hull = finite_hull(value)
        total, count, scale = exact_sum(value, hull, word, _of_rows(condition))
        nullable = value.nullable or condition is not None
        if word == "AVG":
            domain: Domain = hull if hull is not None else UNBOUNDED
            return Computed(
                average(total, count, scale), _like(DOUBLE, domain, None, nullable), _identifying(value, condition)
            )
        sqltype, tree = total_as(value, total, scale)
        limits = None if sqltype.is_float else sqltype.range
        integral = (value.integral or value.sqltype.is_boolean) and not sqltype.is_float
        return Computed(
            tree,
            _like(sqltype, self._sum_domain(value, hull), limits, nullable, integral),
            _identifying(value, condition),
        )

    def _sum_domain(self, value: Scalar, hull: Interval | None) -> Domain:
        """A unit's total: as the owner declared it, else what its rows can add up to."""
        if value.unit_bounds is not None:
            return value.unit_bounds
        return sum_domain(hull, self.rows)

    def _median(self, value: Scalar, condition: Scalar | None) -> Computed:
        if not value.sqltype.is_number:
            raise error(106, f"MEDIAN needs a number, not {value.sqltype}", hint="use MIN or MAX")
        number = one_form(value).tree
        if value.sqltype.is_float:
            number = Bare(Case(((Bare(Not(Call("isnan", (value.tree,)))), number),)))
        tree = _of_rows(condition)("median", Cast(number, DOUBLE, tries=False))
        hull = finite_hull(value)
        domain: Domain = hull if hull is not None else UNBOUNDED
        return Computed(
            tree,
            _like(DOUBLE, domain, None, value.nullable or condition is not None),
            (value, *_identifying(condition)),
        )


def counted(least: int, rows: int | None, sqltype: SqlType = BIGINT) -> Scalar:
    """A number of one unit's rows: within the declared limit by declaration, below 2^63 whatever the data holds."""
    domain: Domain = Interval(Fraction(least), Fraction(rows)) if rows is not None else UNBOUNDED
    return _like(sqltype, domain, Interval(Fraction(least), Fraction(2**63 - 1)), nullable=False, integral=True)


def sum_domain(hull: Interval | None, rows: int | None) -> Domain:
    """What at least one and at most `rows` values can add up to."""
    if hull is None or rows is None:
        return UNBOUNDED
    low, high = hull.lower, hull.upper
    return Interval(low * rows if low < 0 else low, high * rows if high > 0 else high)


def _of_rows(condition: Scalar | None) -> Callable[[str, Node], Aggregate]:
    """An aggregate of the rows that a condition keeps."""
    where = condition.tree if condition is not None else None
    return lambda name, argument: Aggregate(name, (argument,), where=where)


def _like(sqltype: SqlType, domain: Domain, limits: Interval | None, nullable: bool, integral: bool = False) -> Scalar:
    return replace(literal(None, sqltype), domain=domain, limits=limits, nullable=nullable, integral=integral)


def picked(value: Scalar, *, nullable: bool = True) -> Scalar:
    """One of the values: what MIN and MAX give, and windows that look at another row."""
    chosen = replace(value, nullable=nullable, constant=False, unit_bounds=None)
    return replace(chosen, domain=BOTH) if value.sqltype.is_boolean else chosen


def _is_bare(value: Scalar) -> bool:
    """Whether to count a value tells nothing of an identifier: a column that nothing was computed of."""
    return value.is_column and not value.computes_identifier


def _identifying(*parts: Scalar | None) -> tuple[Scalar, ...]:
    """What an aggregate tells about identifiers; to count a bare one tells nothing."""
    return tuple(part for part in parts if part is not None and part.is_identifying)


def exact_sum(
    value: Scalar, hull: Interval | None, word: str, of_rows: Callable[[str, Node], Node]
) -> tuple[Node, Node, Fraction]:
    """(the sum, the number of values, what one unit of the sum is worth), in an exact type.

    of_rows  makes an aggregate of its name and its argument
    """
    x = value.tree
    if hull is not None:
        clamped = term(value, word)
        if clamped.is_decimal or clamped.is_integer:
            return of_rows("sum", clamped.own(x)), of_rows("count", x), Fraction(1)
        quanta = clamped.quanta(x)
        return of_rows("sum", quanta), of_rows("count", quanta), clamped.quantum
    limits = value.limits
    narrow = value.sqltype.is_integer or (value.sqltype.is_decimal and value.sqltype.width <= 19)
    if value.sqltype.is_boolean:
        return of_rows("sum", Cast(x, BIGINT, tries=False)), of_rows("count", x), Fraction(1)
    if limits is not None and narrow and limits.lower >= -(2**63) and limits.upper < 2**63:
        return of_rows("sum", x), of_rows("count", x), Fraction(1)
    raise error(
        201,
        f"{word} within one person's rows needs bounds, so that no order of rows shows in it",
        hint="declare bounds for its columns, or write LEAST(GREATEST(x, 0), 100)",
    )


def total_as(value: Scalar, total: Node, scale: Fraction) -> tuple[SqlType, Node]:
    """A sum in the type that SUM gives; in DOUBLE where the grid is coarser than the type (a declared step, very wide bounds)."""
    sqltype = sum_type(value.sqltype)
    if sqltype.is_float or scale != 1:
        return DOUBLE, _worth(total, scale)
    return sqltype, total


def average(total: Node, count: Node, scale: Fraction) -> Node:
    """A sum over the number of its values; NULL where there is none."""
    return Binary("/", Bare(_worth(total, scale)), Call("NULLIF", (count, Number(0))))


def _worth(total: Node, scale: Fraction) -> Node:
    return Binary("*", Cast(total, DOUBLE, tries=False), Literal(scale, DOUBLE))
