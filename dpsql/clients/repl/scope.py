"""The tables and columns that can be named at a place of a statement that is still being written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dpsql.clients.repl.scanner import Token
from dpsql.schema import qualifiers, spent
from dpsql.schema.model import Column, Schema

_ENDS_FROM = {
    "WHERE", "GROUP", "HAVING", "QUALIFY", "WINDOW", "ORDER", "LIMIT", "OFFSET", "UNION", "INTERSECT", "EXCEPT",
}  # fmt: skip
_NO_ALIAS = _ENDS_FROM | {
    "ON", "USING", "JOIN", "LEFT", "RIGHT", "FULL", "INNER", "OUTER", "CROSS", "SEMI", "ANTI", "NATURAL", "ASOF",
    "SELECT", "FROM", "SET",
}  # fmt: skip
_QUERY = ("SELECT", "FROM", "WITH")


@dataclass(frozen=True, slots=True)
class NamedColumn:
    """A column that can be named: where it comes from, and what is declared of it, if anything."""

    name: str
    source: str
    column: Column | None = None


@dataclass(frozen=True, slots=True)
class FromItem:
    """Item of FROM: its alias, or else its name, and its columns."""

    name: str
    columns: tuple[NamedColumn, ...]


@dataclass(frozen=True, slots=True)
class SelectTokens:
    """One SELECT: its tokens, from `first` up to `last`, and how deep in parentheses they stand."""

    first: int
    last: int
    depth: int


@dataclass(frozen=True, slots=True)
class Tokens:
    """The tokens of one statement, without spaces and comments, and the depth of parentheses that each of them stands in."""

    tokens: Sequence[Token]
    depths: Sequence[int]

    @staticmethod
    def of(tokens: Sequence[Token]) -> Tokens:
        depths, depth = [], 0
        for token in tokens:
            depth -= token.text == ")"
            depths.append(depth)
            depth += token.text == "("
        return Tokens(tokens, depths)

    def closing(self, opening: int) -> int:
        """The index of the parenthesis that closes the one at `opening`; the end where none does."""
        depth = self.depths[opening]
        after = range(opening + 1, len(self.tokens))
        return next((i for i in after if self.depths[i] <= depth), len(self.tokens))

    def is_query(self, opening: int) -> bool:
        """True if a subquery begins behind this parenthesis."""
        following = self.tokens[opening + 1 : opening + 2]
        return bool(following) and following[0].upper in _QUERY

    def blocks(self, place: int) -> list[SelectTokens]:
        """The SELECTs around a place (an index of tokens), the innermost first."""
        edges = [SelectTokens(0, len(self.tokens), 0)]
        for i, token in enumerate(self.tokens[:place]):
            if token.text == "(" and self.is_query(i) and (last := self.closing(i)) >= place:
                edges.append(SelectTokens(i + 1, last, self.depths[i] + 1))
        return [self._between_set_operations(edge, place) for edge in reversed(edges)]

    def _between_set_operations(self, block: SelectTokens, place: int) -> SelectTokens:
        inside = range(block.first, block.last)
        cuts = [i for i in inside if self._is(i, block.depth, "UNION", "INTERSECT", "EXCEPT")]
        first = max([block.first, *(cut + 1 for cut in cuts if cut < place)])
        return SelectTokens(first, min([block.last, *(cut for cut in cuts if cut >= place)]), block.depth)

    def _is(self, index: int, depth: int, *words: str) -> bool:
        token = self.tokens[index]
        return token.kind == "word" and self.depths[index] == depth and token.upper in words


def sources(words: Tokens, place: int, schema: Schema) -> list[FromItem]:
    """Items of FROM around a place, the innermost SELECT first; outer ones can be named by subqueries."""
    queries = with_queries(words, schema)
    return [source for block in words.blocks(place) for source in _from(words, block, queries, schema)]


def with_queries(words: Tokens, schema: Schema) -> dict[str, FromItem]:
    """The WITH queries of a statement by name, in lower case."""
    found: dict[str, FromItem] = {}
    for i in range(len(words.tokens) - 2):
        name, as_, opening = words.tokens[i : i + 3]
        if is_name(name) and as_.upper == "AS" and opening.text == "(" and words.is_query(i + 2):
            found[name.value.lower()] = FromItem(name.value, _outputs(words, i + 2, name.value, found, schema))
    return found


def is_name(token: Token) -> bool:
    return token.kind in ("word", "name")


def _from(words: Tokens, block: SelectTokens, queries: dict[str, FromItem], schema: Schema) -> Iterator[FromItem]:
    """The sources of one FROM."""
    i, inside, expected = block.first, False, False
    while i < block.last:
        token, here = words.tokens[i], words.depths[i] == block.depth
        if here and token.kind == "word" and token.upper in _ENDS_FROM:
            inside = False
        elif here and token.kind == "word" and token.upper in ("FROM", "JOIN"):
            inside = expected = True
        elif here and inside and token.text == ",":
            expected = True
        elif here and expected:
            expected = False
            source, i = _source(words, i, block.last, queries, schema)
            if source is not None:
                yield source
            continue
        i += 1


def _source(
    words: Tokens, i: int, last: int, queries: dict[str, FromItem], schema: Schema
) -> tuple[FromItem | None, int]:
    """One table or subquery with its alias, and the index behind it."""
    token = words.tokens[i]
    if token.text == "(" and words.is_query(i):
        end = words.closing(i) + 1
        alias, after = _alias(words, end, last)
        return (FromItem(alias, _outputs(words, i, alias, queries, schema)) if alias else None), after
    if not is_name(token):
        return None, i + 1
    parts, i = [token.value], i + 1
    while i + 1 < last and words.tokens[i].text == "." and is_name(words.tokens[i + 1]):
        parts.append(words.tokens[i + 1].value)
        i += 2
    alias, after = _alias(words, i, last)
    shown = alias or parts[-1]
    return FromItem(shown, _columns(parts, shown, queries, schema)), after


def _alias(words: Tokens, i: int, last: int) -> tuple[str, int]:
    if i < last and words.tokens[i].upper == "AS":
        i += 1
    if i < last and is_name(words.tokens[i]) and words.tokens[i].upper not in _NO_ALIAS:
        return words.tokens[i].value, i + 1
    return "", i


def _columns(parts: list[str], shown: str, queries: dict[str, FromItem], schema: Schema) -> tuple[NamedColumn, ...]:
    """The columns of a table by its name."""
    if len(parts) == 1 and parts[0].lower() in queries:
        return tuple(NamedColumn(c.name, shown, c.column) for c in queries[parts[0].lower()].columns)
    if len(parts) == 2 and spent.is_one(parts[0], parts[1]):
        return tuple(NamedColumn(name, shown) for name, _ in spent.TABLES[parts[1].lower()])
    table = qualifiers.table(schema, *parts) if len(parts) <= 3 else None
    return tuple(NamedColumn(c.name, shown, c) for c in table.columns) if table is not None else ()


def _outputs(
    words: Tokens, opening: int, shown: str, queries: dict[str, FromItem], schema: Schema
) -> tuple[NamedColumn, ...]:
    """The columns of the subquery in the parentheses at `opening`, as far as its SELECT list names them."""
    first, last, depth = opening + 1, words.closing(opening), words.depths[opening] + 1
    block = words._between_set_operations(SelectTokens(first, last, depth), first)
    read = {c.name.lower(): c for s in _from(words, block, queries, schema) for c in s.columns}
    select = next((i for i in range(first, last) if words._is(i, depth, "SELECT")), None)
    if select is None:
        return tuple(NamedColumn(c.name, shown, c.column) for c in read.values())
    end = next((i for i in range(select, block.last) if words._is(i, depth, "FROM", *_ENDS_FROM)), block.last)
    found: list[NamedColumn] = []
    start = select + 1
    for i in [*(i for i in range(start, end) if words.tokens[i].text == "," and words.depths[i] == depth), end]:
        item, start = words.tokens[start:i], i + 1
        if item and item[-1].text == "*":
            found += [NamedColumn(c.name, shown, c.column) for c in read.values()]
        elif item and is_name(item[-1]) and (len(item) < 2 or item[-2].text != "::"):
            known = (
                read.get(item[-1].value.lower())
                if len(item) in (1, 3) and "AS" not in (t.upper for t in item)
                else None
            )
            renamed = read.get(item[0].value.lower()) if len(item) == 3 and item[1].upper == "AS" else None
            meant = known or renamed
            found.append(NamedColumn(item[-1].value, shown, meant.column if meant else None))
    return tuple(found)
