"""Completion at the cursor: tables after FROM, columns of the tables in scope, declared values in quotes, functions,
options.

Everything comes from the declared schema and the text itself. The data is never asked, so that completion says nothing about it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from dpsql.clients import declared
from dpsql.clients.repl import words
from dpsql.clients.repl.scanner import Token, is_command, meaning, tokens
from dpsql.clients.repl.scope import FromItem, NamedColumn, Tokens, is_name, sources, with_queries
from dpsql.core.domains import Categories
from dpsql.planner.resolve.catalog import CATALOG, CATALOG_TABLES
from dpsql.schema import qualifiers, spent
from dpsql.schema.model import Column, Schema, mechanisms

MOST_VALUES = 500
_COMPARES = ("=", "==", "<>", "!=")
_HEADS = (
    "SELECT", "FROM", "JOIN", "ON", "USING", "WHERE", "BY", "HAVING", "QUALIFY", "LIMIT", "OFFSET", "SET", "RESET",
    "SHOW", "AS",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Candidate:
    """A text that can stand at the cursor in place of the `replaced` characters before it, and a word about it."""

    text: str
    replaced: int
    about: str = ""


@dataclass(frozen=True, slots=True)
class Place:
    """Place of the cursor in a statement.

    before  the words of the statement before the word that is being written
    prefix  that word, as far as it goes
    known   all words of the statement, also behind the cursor
    """

    before: Sequence[Token]
    prefix: str
    known: Tokens

    def last(self, number: int = 1) -> str:
        """A word before the cursor, in capitals; "" where there is none."""
        return self.before[-number].upper if len(self.before) >= number else ""

    @property
    def first(self) -> str:
        return self.before[0].upper if self.before else ""

    def head(self) -> tuple[str, int]:
        """The keyword that decides what stands here, and how many words behind it are written; parentheses that are closed do not
        count."""
        depth = 0
        for back, token in enumerate(reversed(self.before)):
            depth += (token.text == ")") - (token.text == "(")
            if depth <= 0 and token.kind == "word" and token.upper in _HEADS and not self._is_part(back):
                return token.upper, back
            depth = max(depth, 0)
        return "", len(self.before)

    def _is_part(self, back: int) -> bool:
        """True if a word only looks like a clause: the FROM of EXTRACT or of IS DISTINCT FROM, or the AS of an alias before."""
        at = len(self.before) - 1 - back
        token = self.before[at]
        before = self.before[at - 1].upper if at else ""
        if token.upper == "FROM":
            return before == "DISTINCT" or (at >= 3 and self.before[at - 3].upper == "EXTRACT")
        return token.upper == "AS" and back > 0

    def sources(self, schema: Schema) -> list[FromItem]:
        return sources(self.known, len(self.before), schema)


def complete(text: str, cursor: int, schema: Schema, commands: Completing) -> list[Candidate]:
    """The candidates at a place of the text, without doubles, in the order that they are most likely meant.

    commands  what completes a line that begins with a backslash or a point
    """
    found = commands(text[:cursor], schema) if is_command(text[:cursor]) else _in_sql(text, cursor, schema)
    unique: dict[str, Candidate] = {}
    for candidate in found:
        unique.setdefault(candidate.text, candidate)
    return list(unique.values())


Completing = Callable[[str, Schema], Iterable[Candidate]]


def _in_sql(text: str, cursor: int, schema: Schema) -> Iterator[Candidate]:
    pieces = tokens(text[:cursor])
    if pieces and pieces[-1].kind == "comment":
        yield from _comment(pieces[-1])
        return
    place = _place(text, cursor, pieces)
    opened = pieces[-1] if pieces and pieces[-1].is_open else None
    if opened is not None and opened.kind == "text":
        yield from _values(place, schema, opened)
    elif opened is not None:
        # A name in quotes: what would stand without them, in quotes.
        quoted = replace(place, prefix=opened.value)
        for found in _plain(quoted, schema):
            name = found.text if found.text.startswith('"') else f'"{found.text}"'
            if found.about != "keyword" and len(opened.value) == found.replaced:
                yield Candidate(name, len(opened.text), found.about)
    else:
        yield from _plain(place, schema)


def _place(text: str, cursor: int, pieces: list[Token]) -> Place:
    """The words before the cursor, and those of its whole statement."""
    writing = pieces[-1] if pieces and (pieces[-1].kind in ("word", "number") or pieces[-1].is_open) else None
    before = meaning(pieces[:-1] if writing is not None else pieces)
    start = next((i + 1 for i in range(len(before) - 1, -1, -1) if before[i].text == ";"), 0)
    after = meaning(tokens(text[cursor:]))
    # The rest of the word that is being written is none of its own.
    if writing is not None and after and text[cursor : cursor + 1].strip() and is_name(after[0]):
        after = after[1:]
    end = next((i for i, token in enumerate(after) if token.text == ";"), len(after))
    known = Tokens.of([*before[start:], *after[:end]])
    return Place(before[start:], writing.text if writing is not None else "", known)


# --- SQL ------------------------------------------------------------------------------------------------------------------


def _plain(place: Place, schema: Schema) -> Iterator[Candidate]:
    """Outside quotes and comments."""
    if place.last() == ".":
        yield from _qualified(place, schema)
        return
    if place.first == "EXPLAIN" and len(place.before) == 1:
        yield from _keywords(place, ("SELECT", "WITH", "FROM"))
        return
    if place.first in ("DESCRIBE", "DESC"):
        yield from _tables(place, schema)
        return
    if place.first == "SHOW":
        yield from _keywords(place, words.SHOWN)
        return
    if place.first in ("SET", "RESET"):
        yield from _setting(place)
        return
    head, written = place.head()
    if head in ("FROM", "JOIN") and (written == 0 or place.last() == ","):
        yield from _tables(place, schema)
        yield from _keywords(place, ("SELECT",))
        return
    if not place.before or (place.last() in (";", "(") and head == ""):
        yield from _keywords(place, words.BEGINNINGS)
        return
    if head == "AS" and written == 0:
        return
    if head in ("FROM", "JOIN"):
        yield from _keywords(place, (*words.JOINS, *words.CLAUSES))
        return
    yield from _values(place, schema, None)
    yield from _columns(place, schema)
    if head != "USING":
        yield from _functions(place, aggregates=head not in ("WHERE", "ON"))
        begun = ("SELECT",) if place.last() == "(" else ()
        yield from _keywords(place, (*begun, *words.CLAUSES, *words.INSIDE, *words.JOINS))


def _matching(place: Place, found: Iterable[tuple[str, str]]) -> Iterator[Candidate]:
    """Those that begin with what is written; then those that have it in them."""
    prefix, late = place.prefix.lower(), []
    for text, about in found:
        name = text.strip('"').lower()
        if name.startswith(prefix):
            yield Candidate(text, len(place.prefix), about)
        elif len(prefix) > 1 and (f"_{prefix}" in name or f".{prefix}" in name):
            late.append(Candidate(text, len(place.prefix), about))
    yield from late


def _keywords(place: Place, phrases: Sequence[str]) -> Iterator[Candidate]:
    """Keywords, once a letter of them is written, or where nothing else can stand."""
    few = len(phrases) <= max(len(words.BEGINNINGS), len(words.SHOWN))
    if place.prefix or few:
        yield from _matching(place, ((phrase, "keyword") for phrase in phrases))


def _tables(place: Place, schema: Schema) -> Iterator[Candidate]:
    queries = [(declared.name_sql(q.name), "WITH query") for q in with_queries(place.known, schema).values()]
    listed = [(declared.table_sql(t.name), declared.kind(t, schema)) for t in schema.tables]
    own = [(name, "what was spent, free") for name in spent.full_names()]
    catalog = [(f"{CATALOG}.{name}", "declared names, free") for name in CATALOG_TABLES] if place.prefix else []
    yield from _matching(place, [*queries, *listed, *own, *catalog])


def _qualified(place: Place, schema: Schema) -> Iterator[Candidate]:
    """Behind a point: columns of that source, or tables of that SQL schema."""
    before, owners = place, list[str]()
    while before.last() == "." and len(before.before) > 1 and is_name(before.before[-2]):
        owners.insert(0, before.before[-2].value.lower())
        before = replace(before, before=before.before[:-2])
    head, written = before.head()
    if before.first in ("DESCRIBE", "DESC") or (head in ("FROM", "JOIN") and (written == 0 or before.last() == ",")):
        yield from _matching(place, [(declared.name_sql(name), "table") for name in _tables_in(owners, schema)])
        return
    source = next((s for s in place.sources(schema) if s.name.lower() == owners[-1]), None) if owners else None
    yield from _matching(place, map(_shown, source.columns) if source is not None else ())


def _tables_in(owners: list[str], schema: Schema) -> list[str]:
    """The tables behind some words and points."""
    named = {spent.SCHEMA: list(spent.TABLES), CATALOG: list(CATALOG_TABLES)}.get(".".join(owners), [])
    return named + [qualifiers.place(t.name)[1] for t in (qualifiers.tables_in(schema, *owners) if owners else ())]


def _columns(place: Place, schema: Schema) -> Iterator[Candidate]:
    """Columns of what is in FROM; while there is no FROM, of every declared table. Names of several sources with their source."""
    found = place.sources(schema)
    if not found:
        named = [(qualifiers.place(t.name)[1], t) for t in schema.tables]
        found = [FromItem(name, tuple(NamedColumn(c.name, t.name, c) for c in t.columns)) for name, t in named]
    listed = [c for source in found for c in source.columns]
    yield from _matching(place, [_shown(c) for c in listed])
    yield from _matching(place, [(declared.name_sql(s.name), "source") for s in found] if place.prefix else ())


def _shown(named: NamedColumn) -> tuple[str, str]:
    if named.column is None:
        return declared.name_sql(named.name), named.source
    about = [named.source, str(named.column.sqltype), declared.domain_text(named.column, 3)]
    return declared.name_sql(named.name), "  ".join(filter(None, about))


def _functions(place: Place, *, aggregates: bool) -> Iterator[Candidate]:
    known = words.FUNCTIONS if aggregates else words.SCALARS
    if place.prefix:
        named = ((n if n in words.WITHOUT_PARENTHESES else f"{n}(", about) for n, about in known.items())
        yield from _matching(place, named)


# --- declared values ------------------------------------------------------------------------------------------------------


def _values(place: Place, schema: Schema, opened: Token | None) -> Iterator[Candidate]:
    """Declared values of the column that is compared here: inside quotes, or with them.

    opened  the quoted text that the cursor is in, or None
    """
    column = _compared(place, schema)
    if column is None or not isinstance(column.domain, Categories):
        return
    written = opened.value if opened is not None else place.prefix
    for value in column.domain.values:
        quoted = isinstance(value, str) or column.sqltype.is_counted
        shown = declared.value_text(value, column.sqltype)
        if (opened is not None and not quoted) or not shown.lower().startswith(written.lower()):
            continue
        replaced = len(opened.text) if opened is not None else len(place.prefix)
        yield Candidate(declared.value_sql(value, column.sqltype), replaced, f"declared of {column.name}")


def _compared(place: Place, schema: Schema) -> Column | None:
    """The column whose value stands at the cursor: left of = or <>, of IN ( and of LIKE."""
    end = len(place.before)
    if place.last() in _COMPARES or place.last() in ("LIKE", "ILIKE"):
        end -= 1
    else:
        opening = _opening_of_list(place)
        if opening is None or place.before[opening - 1].upper != "IN":
            return None
        end = opening - 1
    if end and place.before[end - 1].upper == "NOT":
        end -= 1
    if not end or not is_name(place.before[end - 1]):
        return None
    name = place.before[end - 1].value.lower()
    owner = place.before[end - 3].value.lower() if end > 2 and place.before[end - 2].text == "." else ""
    named = (c for s in place.sources(schema) if owner in ("", s.name.lower()) for c in s.columns)
    return next((c.column for c in named if c.name.lower() == name), None)


def _opening_of_list(place: Place) -> int | None:
    """The index of the parenthesis before values that have commas between them."""
    for i in range(len(place.before) - 1, 0, -1):
        token = place.before[i]
        if token.text == "(":
            return i
        if token.text != "," and token.kind not in ("text", "number"):
            return None
    return None


# --- options --------------------------------------------------------------------------------------------------------------


def _setting(place: Place) -> Iterator[Candidate]:
    """SET dp_epsilon = 0.2, RESET dp_epsilon."""
    if len(place.before) == 1:
        listed = [(f"dp_{name}", about) for name, about in words.OPTIONS.items() if name not in words.OF_ONE_STATEMENT]
        yield from _matching(place, listed)
    elif place.first == "SET" and place.before[1].upper == "DP_MECHANISM" and place.last() in ("=", "TO"):
        yield from _matching(place, [(name, "mechanism") for name in mechanisms()])


def _comment(comment: Token) -> Iterator[Candidate]:
    """/* dpsql: epsilon=0.2 */"""
    head, colon, rest = comment.text.removeprefix("/*").removeprefix("--").partition(":")
    if head.strip().lower() != spent.SCHEMA or not colon or comment.text.endswith("*/"):
        return
    piece = rest.rpartition(",")[2].lstrip()
    name, equals, value = piece.partition("=")
    if not equals:
        for option, about in words.OPTIONS.items():
            if option.startswith(name.strip().lower()):
                yield Candidate(option if option == "fresh" else f"{option}=", len(name), about)
    elif name.strip().lower() == "mechanism":
        for mechanism in mechanisms():
            if mechanism.startswith(value.strip().lower()):
                yield Candidate(mechanism, len(value), "mechanism")
