"""Engine SQL as people read it: columns under the names that the statement gives them, without the engine's quotes and casts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction

from dpsql.expressions.scalar import Scalar
from dpsql.relations.relations import Named, Relation
from dpsql.schema.model import RESERVED, UNIT_COLUMN
from dpsql.sql.duckdb import printed, quoted
from dpsql.sql.nodes import Node

HIDDEN = re.compile(rf"{RESERVED}subquery (\d+)")
"""What resolve/correlated.py calls a subquery that it made a join."""
_PART = r'"(?:[^"]|"")*"'
_COLUMN = re.compile(rf"({_PART})\.({_PART})|({_PART}) AS ({_PART})|({_PART})")
_TYPE = r"[A-Z]+(?:\(\d+,\d+\))?"
_NUMBER = re.compile(rf"\b(?:TRY_)?CAST\((-?\d[\d.]*(?:e[+-]?\d+)?) AS {_TYPE}\)")
_WIDER = re.compile(rf"\bCAST\(((?:[^()]|\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))*?) AS {_TYPE}\)")
"""A caller's own CAST is printed as TRY_CAST; this one only makes room for the result."""
_WHOLE = re.compile(r"(?<![\w.])(-?\d+)\.0(?![\w.])")
_CLAMP = re.compile(
    r"CASE WHEN (\S+) BETWEEN \S+ AND \S+ THEN (?:CAST\(\1 AS \w+\)|\1) WHEN \1 < \S+ THEN \S+ WHEN \1 > \S+ THEN \S+ END"
)
_GRID = re.compile(
    r"CASE WHEN (\S+) BETWEEN \S+ AND \S+ THEN (?:GREATEST\([^()]*LEAST\([^()]*)?CAST\(\1 [*/] \S+ AS BIGINT\)(?:\)\))?"
    r" WHEN \1 < \S+ THEN \S+ WHEN \1 > \S+ AND NOT isnan\(\1\) THEN \S+ END"
)
_BUCKET = re.compile(
    r"CASE WHEN (.+?) IS NULL OR isnan\(\1\) THEN NULL WHEN \1 < (\S+) THEN 0 WHEN \1 >= (\S+) THEN \d+ "
    r"ELSE LEAST\(GREATEST\(TRY_CAST\(1 \+ floor\(\(\1 - \2\) \* (\d+) / \(\3 - \2\)\) AS INTEGER\), 1\), \4\) END"
)
_DOUBLE = re.compile(r"TRY_CAST\((.*) AS DOUBLE\)")
_AVERAGE = re.compile(r"\(CAST\(sum\(([^()]*)\) AS DOUBLE\) \* \S+ / NULLIF\(count\([^()]*\), 0\)\)")
_SUM = re.compile(r"\(CAST\(sum\(([^()]*)\) AS DOUBLE\) \* [^\s()]+\)")
_TEXT = re.compile(r"('(?:[^']|'')*')")


def tree(relation: Relation) -> Iterator[Relation]:
    """A relation and everything that it was made of, the first steps first."""
    if relation.made is not None:
        for source in relation.made.sources:
            yield from tree(source)
    yield relation


@dataclass(slots=True)
class Words:
    """The names of one release.

    names        of columns, by their engine text
    sources      names with their source before them, for conditions in which another query has names of its own
    computed     what a column stands for that has no name, by its engine text
    expressions  the names that a subquery's SELECT list gives, by the engine text of what they stand for
    """

    names: dict[str, str] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    computed: dict[str, str] = field(default_factory=dict)
    expressions: dict[str, str] = field(default_factory=dict)

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
            self.computed |= {printed(column): printed(made) for column, made in relation.made.computed}
        for column in relation.columns:
            if HIDDEN.fullmatch(column.source):
                name = (
                    f"the {'key' if column.name.startswith(f'{RESERVED}c') else 'value'} of {subquery(column.source)}"
                )
            else:
                name = f"{column.source}.{column.name}" if column.source and column.name in double else column.name
            if column.scalar.is_column:
                self.names[printed(column.scalar.tree)] = name
                self.sources[printed(column.scalar.tree)] = f"{column.source}.{column.name}" if column.source else name
            elif any(True for _ in column.scalar.leaves()):
                self.expressions[printed(column.scalar.tree)] = name

    def expression(self, scalar: Scalar) -> str:
        """An expression over the release's columns."""
        return self.text(printed(scalar.tree))

    def text(self, sql: str) -> str:
        for text, name in sorted(self.expressions.items(), key=lambda pair: -len(pair[0])):
            sql = sql.replace(text, quoted(name))
        names = self.sources if "EXISTS (SELECT" in sql else self.names
        return unparenthesised(self._plain(sql, names))

    def _plain(self, sql: str, names: dict[str, str], depth: int = 0) -> str:
        parts = _TEXT.split(bound_values(sql))
        # Texts stand at the odd places.
        return "".join(part if i % 2 else self._part(part, names, depth) for i, part in enumerate(parts))

    def _part(self, sql: str, names: dict[str, str], depth: int) -> str:
        named = _COLUMN.sub(lambda found: self._name(found, names, depth), sql)
        short = _WHOLE.sub(r"\1", _NUMBER.sub(r"\1", named))
        clamped = _buckets(_GRID.sub(r"\1", _CLAMP.sub(r"\1", short)))
        added = _SUM.sub(r"sum(\1)", _AVERAGE.sub(r"avg(\1)", clamped))
        return _narrow(added)

    def _name(self, found: re.Match[str], names: dict[str, str], depth: int) -> str:
        table, name, declared, alias, alone = found.groups()
        if alone is not None:
            return unquoted(alone)
        if declared is not None:
            same = HIDDEN.fullmatch(unquoted(alias)) or unquoted(alias).startswith(unquoted(declared))
            return unquoted(declared) if same else f"{unquoted(declared)} AS {unquoted(alias)}"
        if name == quoted(UNIT_COLUMN):
            return "the privacy unit"
        if found[0] in names:
            return names[found[0]]
        if found[0] in self.computed and depth < 20:
            return self._plain(self.computed[found[0]], names, depth + 1)
        return f"{unquoted(table)}.{unquoted(name)}"


def _buckets(sql: str) -> str:
    """SQL with width_bucket for what stands for it, one inside another too."""

    def named(found: re.Match[str]) -> str:
        cast = _DOUBLE.fullmatch(found[1])
        value = unparenthesised(cast[1] if cast else found[1])
        return f"width_bucket({value}, {found[2]}, {found[3]}, {found[4]})"

    while (shorter := _BUCKET.sub(named, sql)) != sql:
        sql = shorter
    return sql


def _narrow(sql: str) -> str:
    """SQL without the casts that make room for a result, however deep."""

    def inside(found: re.Match[str]) -> str:
        whole = " " not in found[1] or unparenthesised(found[1]) != found[1]
        return found[1] if whole else f"({found[1]})"

    while (shorter := _WIDER.sub(inside, sql)) != sql:
        sql = shorter
    return sql


def _double(columns: Iterable[Named]) -> set[str]:
    """The names that stand for two different columns."""
    first: dict[str, Node] = {}
    return {c.name for c in columns if first.setdefault(c.name.lower(), c.scalar.tree) != c.scalar.tree}


def subquery(source: str) -> str:
    """What a hidden source is called: the subqueries of a statement are numbered."""
    found = HIDDEN.fullmatch(source)
    return f"subquery {int(found[1]) + 1}" if found else source


def bound_values(sql: str) -> str:
    """SQL with each value, and each list, that a bound table holds as the table's name."""
    listed = re.sub(r'\(SELECT ("dpsql \w+ \d+")\."c0" FROM \1\)', r"\1", sql)
    return re.sub(r'\(SELECT "c0" FROM ("dpsql \w+ \d+") LIMIT 1\)', r"\1", listed)


def unquoted(name: str) -> str:
    return name[1:-1].replace('""', '"')


def unparenthesised(sql: str) -> str:
    """Text without one pair of parentheses around the whole of it.

    >>> unparenthesised("(a = 1)"), unparenthesised("(a) + (b)")
    ('a = 1', '(a) + (b)')
    """
    if not (sql.startswith("(") and sql.endswith(")")):
        return sql
    depth = 0
    for i, character in enumerate(_TEXT.sub(lambda found: " " * len(found[0]), sql)):
        depth += (character == "(") - (character == ")")
        if depth == 0:
            return sql[1:-1] if i == len(sql) - 1 else sql
    return sql


def counted(number: int, what: str, many: str = "") -> str:
    return f"{number:,} {what if number == 1 else many or what + 's'}"


def listed(words: list[str]) -> str:
    """
    >>> listed(["a"]), listed(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def number(value: Fraction | float) -> str:
    """Six digits, with separators where that is how people write it.

    >>> number(Fraction(30000)), number(Fraction(1, 10**9)), number(0.5)
    ('30,000', '1e-09', '0.5')
    """
    near = float(value)
    if near == int(near) or abs(near) >= 10**5:
        return f"{near:,.0f}" if abs(near) < 10**15 else f"{near:.6g}"
    return f"{near:,.6g}"
