"""Scalars as people read them: columns under the names that the statement gives them, without what only makes it
safe."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from dpsql.expressions.scalar import Scalar
from dpsql.relations.relations import Named, Relation
from dpsql.schema.model import RESERVED, UNIT_COLUMN
from dpsql.sql.duckdb import decimal_text, printed
from dpsql.sql.nodes import (
    Aggregate,
    Bare,
    Between,
    Binary,
    Call,
    Case,
    Cast,
    Column,
    Exists,
    InQuery,
    Literal,
    Node,
    Number,
    Own,
    QueryValue,
    own,
)
from dpsql.sql.queries import Derived, Item, Select, Table
from dpsql.sql.trees import mapped, rewritten, walk

HIDDEN = re.compile(rf"{RESERVED}subquery (\d+)")
"""Name that resolve/correlated.py gives a subquery that it made a join."""
MOST_DEPTH = 20
"""Blocks inside one another through which a column is told."""


def tree(relation: Relation) -> Iterator[Relation]:
    """A relation and everything that it was made of, the first steps first."""
    if relation.made is not None:
        for source in relation.made.sources:
            yield from tree(source)
    yield relation


@dataclass(slots=True)
class Words:
    """The names of one release.

    names        of columns
    sources      names with their source before them, for conditions in which another query has names of its own
    computed     what a column stands for that has no name
    expressions  the names that a subquery's SELECT list gives, by what they stand for
    """

    names: dict[Node, str] = field(default_factory=dict)
    sources: dict[Node, str] = field(default_factory=dict)
    computed: dict[Node, Node] = field(default_factory=dict)
    expressions: dict[Node, str] = field(default_factory=dict)

    @staticmethod
    def of_relation(relation: Relation) -> Words:
        found = Words()
        relations = list(tree(relation))
        double = _double(
            [c for part in relations if part.made is None or part.made.step == "scan" for c in part.columns]
        )
        double |= {name for part in relations for name in _double(part.columns)}
        for part in relations:
            found._add(part, double)
        return found

    def _add(self, relation: Relation, double: set[str]) -> None:
        if relation.made is not None:
            self.computed |= dict(relation.made.computed)
        for column in relation.columns:
            if HIDDEN.fullmatch(column.source):
                name = (
                    f"the {'key' if column.name.startswith(f'{RESERVED}c') else 'value'} of {subquery(column.source)}"
                )
            else:
                name = f"{column.source}.{column.name}" if column.source and column.name in double else column.name
            if column.scalar.is_column:
                self.names[column.scalar.tree] = name
                self.sources[column.scalar.tree] = f"{column.source}.{column.name}" if column.source else name
            elif any(True for _ in column.scalar.leaves()):
                self.expressions[column.scalar.tree] = name

    def expression(self, scalar: Scalar) -> str:
        """An expression over the release's columns."""
        within = any(isinstance(part, Exists) for part in walk(scalar.tree))
        named = self._named(scalar.tree, self.sources if within else self.names)
        plain = mapped(named, _plain)
        return printed(Bare(plain.inner if isinstance(plain, Bare) else plain))

    def _named(self, tree: Node, names: dict[Node, str]) -> Node:
        """A tree in which all names are those that people know."""
        whole = rewritten(tree, {made: own(name) for made, name in self.expressions.items()})
        return mapped(whole, lambda part: self._shown(part, names, 0))

    def _shown(self, part: Node, names: dict[Node, str], depth: int) -> Node:
        match part:
            case Column(name=name, relation=""):
                return own(name)
            case Column(name=name) if name == UNIT_COLUMN:
                return own("the privacy unit")
            case Column(relation=relation, name=name):
                if part in names:
                    return own(names[part])
                if part in self.computed and depth < MOST_DEPTH:
                    return mapped(self.computed[part], lambda inner: self._shown(inner, names, depth + 1))
                return own(f"{relation}.{name}")
            case QueryValue(query=Select(items=(Column(relation=""),), source=Table(name=name))):
                return own(name)
            case InQuery(inner=inner, query=Select(source=Table(name=name))):
                return Binary("IN", inner, own(name))
            case Table(name=name, alias=alias):
                same = not alias or HIDDEN.fullmatch(alias) or alias.startswith(name)
                return Table(Own(name)) if same else Table(Own(name), Own(alias))
            case Derived(query=query, alias=alias):
                return Derived(query, Own(alias))
            case Item(inner=inner, name=name):
                return Item(inner, Own(name))
        return part


def _plain(part: Node) -> Node:
    """A node without what only makes it total or wide enough; what is below it is plain already."""
    match part:
        case Literal(value=None):
            return own("NULL")
        case Literal(value=int() | Fraction() as value, type=sqltype) if sqltype.is_float or sqltype.is_decimal:
            text = decimal_text(Fraction(value), sqltype.scale) if sqltype.is_decimal else repr(float(Fraction(value)))
            return own(text.removesuffix(".0"))
        case Cast(inner=Number() as inner):
            return inner
        case Cast(inner=Literal(value=int(value), type=sqltype)) if sqltype.is_integer and value >= 0:
            return Number(value)
        case Cast(inner=inner, type=sqltype, tries=False) if sqltype.is_number:
            # a caller's own conversion is one that tries
            return inner.inner if isinstance(inner, Bare) else inner
        case Case(branches=((Bare(inner=Between(inner=value)), _), (Bare(), _), (Bare(), _)), default=None):
            return value
        case Case(branches=((Call(name="isnan", args=(value,)), _), _), default=same) if value == same:
            return value
        case Case(branches=((Bare(), Call(name="row") as combination),), default=None):
            return combination
        case Case(default=Call(name="LEAST", args=(_, Number() as count))):
            return _bucket(part.branches, count)
        case Binary(operator="*", left=Aggregate(name="sum") as total):
            return total
        case Binary(operator="/", left=Bare(inner=Aggregate(name="sum") as total)):
            return Aggregate("avg", total.args, where=total.where)
    return part


def _bucket(branches: Sequence[tuple[Node, Node]], count: Node) -> Node:
    """width_bucket, of what stands for it."""
    below, above = (when.inner for when, _ in branches[1:] if isinstance(when, Bare))
    assert isinstance(below, Binary) and isinstance(above, Binary)
    value = below.left.inner if isinstance(below.left, Cast) else below.left
    return Call("width_bucket", (Bare(value), below.right, above.right, count))


def _double(columns: Iterable[Named]) -> set[str]:
    """The names that stand for two different columns."""
    first: dict[str, Node] = {}
    return {c.name for c in columns if first.setdefault(c.name.lower(), c.scalar.tree) != c.scalar.tree}


def subquery(source: str) -> str:
    """Name of a hidden source: the subqueries of a statement are numbered."""
    found = HIDDEN.fullmatch(source)
    return f"subquery {int(found[1]) + 1}" if found else source
