"""ROLLUP, CUBE and GROUPING SETS under one price: group once by every key, then add up what was released.

Why      every grouping set is a coarser view of the finest groups, so sums over released cells cost nothing more
Refuses  102 an aggregate that cannot be added up (COUNT(DISTINCT ...), MIN, MEDIAN, ...)
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from itertools import islice

from sqlglot import exp

from dpsql.core.errors import Error, error
from dpsql.core.spans import span_of
from dpsql.planner.calls import spelt_out
from dpsql.planner.grammar import is_aggregate, name_of, record_of
from dpsql.planner.resolve.scalars import arguments
from dpsql.planner.resolve.syntax import unaliased
from dpsql.sql.duckdb import advised

GROUPED = "grouped"
ALL_KEYS_DECLARED = "all_keys_declared"
"""Marks the inner SELECT: a total of privately selected groups would leave out the groups that were not selected."""

_SETS = (exp.Rollup, exp.Cube, exp.GroupingSets)
_SET_PARTS = ("rollup", "cube", "grouping_sets")
_OUTER_PARTS = ("having", "qualify", "windows", "distinct", "order")
_KEPT_PARTS = ("limit", "offset", "with_")


def flatten(select: exp.Select, columns: Collection[str] = ()) -> exp.Select | None:
    """The nested statement that gives the same rows; None where GROUP BY has no ROLLUP, CUBE or GROUPING SETS.

    columns  lower-case names of the columns of FROM, as far as they are known: a column comes before an alias of its name

    Raises 102 (an aggregate that cannot be added up), 109, 301, 305. The argument stays as it is.
    """
    group = select.args.get("group")
    if group is None or not any(isinstance(node, _SETS) for node in _elements(group)):
        return None
    if group.args.get("all"):
        raise error(101, "GROUP BY ALL names its keys itself", hint="write GROUP BY ROLLUP (a, b)", span=span_of(group))
    return _Levels.of(select, columns).nested(select, group)


def _elements(group: exp.Expression) -> list[exp.Expression]:
    """Elements of GROUP BY. Older parsers keep the sets apart by kind; their order decides nothing, the product is the
    same."""
    listed = list(group.expressions)
    return [*listed, *(node for part in _SET_PARTS for node in group.args.get(part) or [])]


@dataclass(slots=True)
class _Levels:
    """The keys and additive parts of one SELECT, collected while its outer half is written.

    aliases    of the SELECT list
    columns    known names of FROM
    ambiguous  column names that the statement qualifies in more than one way
    keys       the inner keys by their canonical text, named k0, k1, ...
    parts      the inner aggregates by their canonical text, named a0, a1, ...
    kinds      node types of the keys, and
    largest    the most nodes that one of them has: nothing else needs to be compared with them
    """

    select: exp.Select
    aliases: dict[str, exp.Expression]
    columns: frozenset[str]
    ambiguous: frozenset[str]
    keys: dict[str, exp.Expression] = field(default_factory=dict)
    parts: dict[str, exp.Expression] = field(default_factory=dict)
    kinds: set[type[exp.Expression]] = field(default_factory=set)
    largest: int = 0
    open_aliases: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, select: exp.Select, columns: Collection[str]) -> _Levels:
        aliases = {p.alias.lower(): p.this for p in select.expressions if isinstance(p, exp.Alias)}
        qualifiers: dict[str, set[str]] = {}
        for column in select.find_all(exp.Column):
            qualifiers.setdefault(column.name.lower(), set()).add(column.table.lower())
        ambiguous = frozenset(name for name, found in qualifiers.items() if len(found - {""}) > 1)
        return cls(select, aliases, frozenset(name.lower() for name in columns), ambiguous)

    def nested(self, select: exp.Select, group: exp.Expression) -> exp.Select:
        sets = [self.grouping(node) for node in _elements(group)]
        outer = exp.Select(expressions=[self.projection(p) for p in select.expressions])
        for name in _OUTER_PARTS:
            if select.args.get(name):
                outer.set(name, self.rewritten(select.args[name]))
        for name in _KEPT_PARTS:
            if select.args.get(name):
                outer.set(name, select.args[name].copy())
        outer.set("group", exp.Group(expressions=sets))
        alias = exp.TableAlias(this=exp.to_identifier(GROUPED, quoted=True))
        outer.set("from_", exp.From(this=exp.Subquery(this=self.inner(select), alias=alias)))
        return outer

    def inner(self, select: exp.Select) -> exp.Select:
        """One group per combination of keys, with the parts of every aggregate."""
        named = [("k", self.keys), ("a", self.parts)]
        items = [
            exp.alias_(node.copy(), f"{letter}{i}", quoted=True)
            for letter, nodes in named
            for i, node in enumerate(nodes.values())
        ]
        inner = exp.Select(expressions=items or [exp.Literal.number(1)])
        for name in ("from_", "joins"):
            value = select.args.get(name)
            if value:
                inner.set(name, value)
        if select.args.get("where"):
            inner.set("where", self.expanded(select.args["where"]))
        if self.keys:
            # By position: neither an alias nor a literal key can be taken for anything else.
            inner.set("group", exp.Group(expressions=[exp.Literal.number(i + 1) for i in range(len(self.keys))]))
        inner.meta[ALL_KEYS_DECLARED] = True
        return inner

    # --- keys -----------------------------------------------------------------------------------------------------------

    def grouping(self, node: exp.Expression) -> exp.Expression:
        """An element of GROUP BY over the inner keys."""
        if isinstance(node, _SETS) and not node.expressions:
            hint = "write GROUP BY ROLLUP (a, b)"
            raise error(101, "WITH ROLLUP is not read here", hint=hint, span=span_of(self.select))
        if isinstance(node, (*_SETS, exp.Tuple)):
            return type(node)(expressions=[self.grouping(part) for part in node.expressions])
        if isinstance(node, exp.Paren):
            return exp.Paren(this=self.grouping(node.this))
        key = self.expanded(self.named_key(node))
        if any(isinstance(part, exp.Window) or is_aggregate(part) for part in _walk(key)):
            raise error(109, "GROUP BY cannot use an aggregate", hint="group by columns", span=span_of(node))
        if isinstance(key, exp.Star) or (isinstance(key, exp.Column) and isinstance(key.this, exp.Star)):
            raise _rows_of_people(node)
        self.kinds.add(type(_unwrapped(key)))
        self.largest = max(self.largest, _size(key, None))
        self.keys.setdefault(self.canonical(key), key)
        return _grouped(f"k{list(self.keys).index(self.canonical(key))}")

    def named_key(self, node: exp.Expression) -> exp.Expression:
        """Expression that a position or an alias in GROUP BY stands for."""
        projections = self.select.expressions
        if isinstance(node, exp.Literal) and not node.is_string:
            position = int(node.name) if node.name.isdigit() else 0
            if not 1 <= position <= len(projections):
                words = f"GROUP BY {node.name[:20]} names no column"
                raise error(
                    305, words, hint=f"name one, or write its number, at most {len(projections)}", span=span_of(node)
                )
            return unaliased(projections[position - 1])
        return self.alias_of(node) or node

    def alias_of(self, node: exp.Expression) -> exp.Expression | None:
        """The expression that a bare name stands for as an alias; a column comes before an alias of its name."""
        if not isinstance(node, exp.Column) or node.table or isinstance(node.this, exp.Star):
            return None
        name = node.name.lower()
        found = self.aliases.get(name)
        if found is None or name in self.columns or name in self.open_aliases:
            return None
        # An alias that reads a column of its own name shows that there is one.
        itself = not self.columns and any(c.name.lower() == name for c in found.find_all(exp.Column))
        return None if itself else found

    def expanded(self, node: exp.Expression) -> exp.Expression:
        """A copy in which aliases, which the inner SELECT does not have, are written out."""

        def replaced(part: exp.Expression) -> exp.Expression:
            found = self.alias_of(part)
            if found is None:
                return part
            name = part.name.lower()
            self.open_aliases.add(name)
            whole = self.expanded(found)
            self.open_aliases.discard(name)
            return whole if _is_single(whole) else exp.Paren(this=whole)

        return node.copy().transform(replaced, copy=False)

    def canonical(self, node: exp.Expression) -> str:
        """One text for all spellings of an expression: case, quotes, needless qualifiers and needless parentheses."""

        def plain(part: exp.Expression) -> exp.Expression:
            if isinstance(part, exp.Column) and not isinstance(part.this, exp.Star):
                table = part.table.lower() if part.name.lower() in self.ambiguous else None
                return exp.column(part.name.lower(), table=table or None, quoted=True)
            return part

        return _bare(node).transform(plain, copy=False).sql(dialect="duckdb", comments=False)

    def key_of(self, node: exp.Expression) -> exp.Expression | None:
        """The inner key that a node is another spelling of."""
        if type(_unwrapped(node)) not in self.kinds or _size(node, self.largest + 1) > self.largest:
            return None
        text = self.canonical(node)
        return _grouped(f"k{list(self.keys).index(text)}") if text in self.keys else None

    # --- the outer half -------------------------------------------------------------------------------------------------

    def projection(self, node: exp.Expression) -> exp.Expression:
        if isinstance(node, exp.Alias):
            return exp.Alias(this=self.rewrite(node.this), alias=node.args["alias"].copy())
        found = self.rewrite(node)
        if isinstance(node, exp.Column):
            return exp.Alias(this=found, alias=exp.to_identifier(node.name, quoted=True))
        return found

    def rewritten(self, value: object) -> object:
        if isinstance(value, list):
            return [self.rewritten(part) for part in value]
        return self.rewrite(value) if isinstance(value, exp.Expression) else value

    def rewrite(self, node: exp.Expression) -> exp.Expression:
        """`node` over the inner columns. Raises 305 for a column that is neither grouped nor aggregated."""
        if isinstance(node, exp.Grouping | exp.GroupingId):
            return type(node)(expressions=[self.grouped_argument(part) for part in node.expressions])
        if is_aggregate(node):
            return self.added_up(node)
        key = self.key_of(node)
        if key is not None:
            return key
        if isinstance(node, exp.Column):
            return self.column(node)
        if isinstance(node, exp.Star):
            raise _rows_of_people(node)
        if isinstance(node, exp.Ordered) and self.is_result_column(node.this):
            return node.copy()
        if isinstance(node, exp.Query) or not any(True for _ in node.iter_expressions()):
            return node.copy()
        built = type(node)(**{name: self.rewritten(value) for name, value in node.args.items()})
        built.meta.update(node.meta)
        return built

    def is_result_column(self, node: exp.Expression) -> bool:
        """ORDER BY 2, ALL or an alias: the outer SELECT has the same columns."""
        if isinstance(node, exp.Column) and not node.table:
            return node.name.lower() in self.aliases or node.name.upper() == "ALL"
        return isinstance(node, exp.Literal | exp.Var)

    def grouped_argument(self, node: exp.Expression) -> exp.Expression:
        key = self.key_of(node) or self.key_of(self.expanded(node))
        if key is None:
            raise error(109, "GROUPING() takes what GROUP BY names", hint="name a grouped column", span=span_of(node))
        return key

    def column(self, node: exp.Column) -> exp.Expression:
        name = node.name.lower()
        found = self.aliases.get(name) if not node.table and name not in self.open_aliases else None
        if isinstance(node.this, exp.Star):
            raise _rows_of_people(node)
        if found is None:
            words = f"{node.name} is neither grouped nor aggregated, so it would show rows of people"
            raise error(
                305, words, hint=f"add it to GROUP BY, or write COUNT({advised(node.name)})", span=span_of(node)
            )
        self.open_aliases.add(name)
        whole = self.rewrite(found)
        self.open_aliases.discard(name)
        return exp.Paren(this=whole)

    # --- aggregates -----------------------------------------------------------------------------------------------------

    def added_up(self, node: exp.Expression) -> exp.Expression:
        """The outer expression that makes an aggregate of its parts in the finest groups. Raises 102 where there is none."""
        condition = node.expression if isinstance(node, exp.Filter) else None
        call = node.this if isinstance(node, exp.Filter) else node
        argument = call.expressions[0] if isinstance(call, exp.Anonymous) and call.expressions else call.this
        if isinstance(argument, exp.Distinct):
            raise _not_additive(node, f"{name_of(call)} of DISTINCT values")
        if isinstance(call, exp.Count):
            return _count(exp.TryCast(this=self.total(call, condition), to=exp.DataType.build("BIGINT")))
        if isinstance(call, exp.CountIf):
            return self.total(call, condition)
        record = record_of(call)
        match record.over_parts if record is not None else "":
            case "sum":
                return self.total(call, condition)
            case "mean" if len(arguments(call)) == 1:
                return self.mean(call, argument, condition)
        if record is not None and record.plain:
            return self.rewrite(spelt_out(record.plain, argument, condition))
        raise _not_additive(node, name_of(call))

    def mean(self, call: exp.Expression, argument: exp.Expression, condition: exp.Expression | None) -> exp.Expression:
        """SUM / COUNT of the same values, where there is at least one."""
        parts: list[exp.Expression] = [exp.Sum(this=argument.copy()), exp.Count(this=argument.copy(), big_int=True)]
        for part in parts:
            part.meta.update(call.meta)
        values, count = (self.total(part, condition) for part in parts)
        some = exp.GTE(this=count, expression=exp.Literal.number(1))
        return exp.Case(ifs=[exp.If(this=some, true=exp.Div(this=values, expression=count.copy()))])

    def total(self, call: exp.Expression, condition: exp.Expression | None) -> exp.Expression:
        """SUM of one additive part over the finest groups."""
        part = self.expanded(call)
        if condition is not None:
            part = exp.Filter(this=part, expression=self.expanded(condition))
        text = self.canonical(part)
        self.parts.setdefault(text, part)
        return exp.Sum(this=_grouped(f"a{list(self.parts).index(text)}"))


def _count(total: exp.Expression) -> exp.Expression:
    """The grand total of no groups at all is 0, not NULL."""
    some = exp.GT(this=exp.Count(this=exp.Star(), big_int=True), expression=exp.Literal.number(0))
    return exp.Case(ifs=[exp.If(this=some, true=total)], default=exp.Literal.number(0))


def _grouped(name: str) -> exp.Column:
    return exp.column(exp.to_identifier(name, quoted=True), table=exp.to_identifier(GROUPED, quoted=True))


def _walk(node: exp.Expression) -> list[exp.Expression]:
    return [part for part in node.walk() if isinstance(part, exp.Expression)]


def _unwrapped(node: exp.Expression) -> exp.Expression:
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def _bare(node: exp.Expression) -> exp.Expression:
    """A copy without the parentheses around single values."""
    whole = exp.Paren(this=node.copy())
    for part in reversed(list(whole.find_all(exp.Paren))):
        if part is not whole and _is_single(part.this):
            part.replace(part.this)
    return _unwrapped(whole).copy()


def _is_single(node: exp.Expression) -> bool:
    """True if a node needs no parentheses anywhere; the parser counts AND and OR among its functions."""
    return isinstance(node, exp.Column | exp.Literal | exp.Func) and not isinstance(node, exp.Binary)


def _size(node: exp.Expression, most: int | None) -> int:
    """The nodes of an expression, counted up to `most`; identifiers and parentheses are only spelling."""
    counted = (part for part in node.walk() if not isinstance(part, exp.Identifier | exp.Paren))
    return sum(1 for _ in islice(counted, most))


def _rows_of_people(node: exp.Expression) -> Error:
    return error(301, "* would show rows of people", hint="name the columns to group by", span=span_of(node))


def _not_additive(node: exp.Expression, words: str) -> Error:
    return error(
        102,
        f"{words} cannot be added up from groups to their totals",
        hint="write one SELECT per level, each with its own GROUP BY",
        span=span_of(node),
    )
