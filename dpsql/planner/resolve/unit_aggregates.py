"""Aggregates that are computed exactly of one unit's rows, by GROUP BY or in a window: functions of their multiset, bit
for bit (rule 10).

Counts, sums in exact types or on the integer grid of a clamped DOUBLE, averages of those, least, largest and middle values. What
depends on the order of rows is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import assert_never

from sqlglot import exp

from dpsql.aggregates.record import Exact
from dpsql.aggregates.registry import called
from dpsql.aggregates.sum import sum_type
from dpsql.aggregates.term import term
from dpsql.core.domains import UNBOUNDED, Domain, Interval
from dpsql.core.errors import error
from dpsql.core.spans import span_of
from dpsql.core.sqltypes import BIGINT, DOUBLE, HUGEINT, SqlType
from dpsql.expressions.literals import literal
from dpsql.expressions.logic import BOTH, truth
from dpsql.expressions.scalar import Scalar, finite_hull, one_form
from dpsql.planner.grammar import record_of
from dpsql.planner.resolve.scalars import distinct_value, given, scalar
from dpsql.planner.resolve.scope import Scope
from dpsql.relations.per_unit import Computed
from dpsql.sql.nodes import Aggregate, Bare, Binary, Call, Case, Cast, Chain, Literal, Node, Not, Number, Star

Over = Callable[[Aggregate], Node]


@dataclass(frozen=True, slots=True)
class UnitRows:
    """The rows of one unit that something is computed of.

    most       [rows] of one unit, or None
    over       an aggregate of them, with FILTER or in a window
    condition  of FILTER
    framed     whether they are a part of a group, so that the declared bounds of a group's total say nothing of theirs
    """

    scope: Scope
    most: int | None
    over: Over
    condition: Scalar | None = None
    framed: bool = False

    def computed(self, node: exp.Expression) -> Computed | None:
        """Computation of an aggregate; None for one that is refused. Raises 102, 106, 109, 201 for its argument."""
        if isinstance(node, exp.Count):
            return self._count(node)
        if isinstance(node, exp.CountIf):
            return self._count_if(truth(scalar(node.this, self.scope)))
        # nothing is chosen with noise here: of several with one name it is the first
        record = called(str(node.this)) if isinstance(node, exp.Anonymous) else record_of(node)
        if record is None or not record.exact or (node.expressions and not isinstance(node, exp.Anonymous)):
            return None
        if record.build is not None:
            return self._of(record.exact, record.build(given(record, node, self.scope)).value)
        return self._of(record.exact, self._argument(node, record.exact.upper()))

    def _of(self, exact: Exact, value: Scalar) -> Computed:
        match exact:
            case "sum" | "avg":
                return self._total(exact, value)
            case "min" | "max":
                return self._picked(exact, value, one_form(value).tree)
            case "bool_and" | "bool_or":
                value = truth(value)
                return self._picked(exact, value, value.tree)
            case "median":
                return self._median(value)
        assert_never(exact)

    def _argument(self, node: exp.Expression, word: str) -> Scalar:
        argument = node.expressions[0] if isinstance(node, exp.Anonymous) and len(node.expressions) == 1 else node.this
        if not isinstance(argument, exp.Expression) or isinstance(argument, exp.Distinct | exp.Order):
            raise error(102, f"{word} takes a plain value here", hint=f"write {word}(x)", span=span_of(node))
        return scalar(argument, self.scope)

    def _made(self, name: str, *args: Node) -> Node:
        return self.over(Aggregate(name, args))

    @property
    def _fewer(self) -> bool:
        """True if there may be none of them where the unit has rows."""
        return self.framed or self.condition is not None

    def _count(self, node: exp.Count) -> Computed:
        argument = node.this
        if argument is None or isinstance(argument, exp.Star):
            number = counted(0 if self._fewer else 1, self.most)
            return Computed(self._made("count", Star()), number, _identifying(self.condition))
        different = isinstance(argument, exp.Distinct)
        value = distinct_value(argument, self.scope) if different else scalar(argument, self.scope)
        # to count a bare identifier tells nothing of it
        bare = value.is_column and not value.computes_identifier
        tree = self.over(Aggregate("count", (value.tree,), distinct=different))
        return Computed(tree, counted(0, self.most), _identifying(None if bare else value, self.condition))

    def _count_if(self, tested: Scalar) -> Computed:
        both = Bare(Chain("AND", tuple(c.tree for c in (tested, self.condition) if c is not None)))
        number = Aggregate("count", (Star(),), where=both)
        return Computed(number, counted(0, self.most, HUGEINT), _identifying(tested, self.condition))

    def _picked(self, exact: Exact, value: Scalar, tree: Node) -> Computed:
        like = picked(value, nullable=value.nullable or self._fewer)
        return Computed(self._made(exact, tree), like, (value, *_identifying(self.condition)))

    def _total(self, exact: Exact, value: Scalar) -> Computed:
        """SUM and AVG in integers, so that no order of rows shows (rule 10)."""
        word = exact.upper()
        if not (value.sqltype.is_number or value.sqltype.is_boolean):
            raise error(106, f"{word} needs a number, not {value.sqltype}", hint="count it, or cast it to a number")
        hull = finite_hull(value)
        total, count, scale = self._exact_sum(value, hull, word)
        nullable, shows = value.nullable or self._fewer, _identifying(value, self.condition)
        if exact == "avg":
            tree = Binary("/", Bare(_worth(total, scale)), Call("NULLIF", (count, Number(0))))
            return Computed(tree, _like(DOUBLE, hull if hull is not None else UNBOUNDED, None, nullable), shows)
        sqltype = sum_type(value.sqltype)
        if sqltype.is_float or scale != 1:
            # the grid may be coarser than the type: a declared step, very wide bounds
            sqltype, total = DOUBLE, _worth(total, scale)
        limits = None if sqltype.is_float else sqltype.range
        integral = (value.integral or value.sqltype.is_boolean) and not sqltype.is_float
        return Computed(total, _like(sqltype, self._sum_domain(value, hull), limits, nullable, integral), shows)

    def _sum_domain(self, value: Scalar, hull: Interval | None) -> Domain:
        """A unit's total: as the owner declared it, else what its rows can add up to."""
        if value.unit_bounds is not None and not self.framed:
            return value.unit_bounds
        if hull is None or self.most is None:
            return UNBOUNDED
        low, high = hull.lower, hull.upper
        return Interval(low * self.most if low < 0 else low, high * self.most if high > 0 else high)

    def _exact_sum(self, value: Scalar, hull: Interval | None, word: str) -> tuple[Node, Node, Fraction]:
        """(the sum, the number of values, what one unit of the sum is worth), in an exact type."""
        x = value.tree
        if hull is not None:
            clamped = term(value, word)
            if clamped.is_decimal or clamped.is_integer:
                return self._made("sum", clamped.own(x)), self._made("count", x), Fraction(1)
            quanta = clamped.quanta(x)
            return self._made("sum", quanta), self._made("count", quanta), clamped.quantum
        limits = value.limits
        narrow = value.sqltype.is_integer or (value.sqltype.is_decimal and value.sqltype.width <= 19)
        if value.sqltype.is_boolean:
            return self._made("sum", Cast(x, BIGINT, tries=False)), self._made("count", x), Fraction(1)
        if limits is not None and narrow and limits.lower >= -(2**63) and limits.upper < 2**63:
            return self._made("sum", x), self._made("count", x), Fraction(1)
        raise error(
            201,
            f"{word} within one person's rows needs bounds, so that no order of rows shows in it",
            hint="declare bounds for its columns, or write LEAST(GREATEST(x, 0), 100)",
        )

    def _median(self, value: Scalar) -> Computed:
        if not value.sqltype.is_number:
            raise error(106, f"MEDIAN needs a number, not {value.sqltype}", hint="use MIN or MAX")
        number = one_form(value).tree
        if value.sqltype.is_float:
            number = Bare(Case(((Bare(Not(Call("isnan", (value.tree,)))), number),)))
        hull = finite_hull(value)
        like = _like(DOUBLE, hull if hull is not None else UNBOUNDED, None, value.nullable or self._fewer)
        tree = self._made("median", Cast(number, DOUBLE, tries=False))
        return Computed(tree, like, (value, *_identifying(self.condition)))


def counted(least: int, rows: int | None, sqltype: SqlType = BIGINT) -> Scalar:
    """A number of one unit's rows: within the declared limit by declaration, below 2^63 whatever the data holds."""
    domain: Domain = Interval(Fraction(least), Fraction(rows)) if rows is not None else UNBOUNDED
    return _like(sqltype, domain, Interval(Fraction(least), Fraction(2**63 - 1)), nullable=False, integral=True)


def picked(value: Scalar, *, nullable: bool = True) -> Scalar:
    """One of the values: what MIN and MAX give, and windows that look at another row."""
    chosen = replace(value, nullable=nullable, constant=False, unit_bounds=None)
    return replace(chosen, domain=BOTH) if value.sqltype.is_boolean else chosen


def _like(sqltype: SqlType, domain: Domain, limits: Interval | None, nullable: bool, integral: bool = False) -> Scalar:
    return replace(literal(None, sqltype), domain=domain, limits=limits, nullable=nullable, integral=integral)


def _identifying(*parts: Scalar | None) -> tuple[Scalar, ...]:
    """Identifiers that an aggregate tells about."""
    return tuple(part for part in parts if part is not None and part.is_identifying)


def _worth(total: Node, scale: Fraction) -> Node:
    return Binary("*", Cast(total, DOUBLE, tries=False), Literal(scale, DOUBLE))
