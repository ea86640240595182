"""parse: text -> Parsed. One statement, every node type allowed, options lifted out, parameters bound as constants."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TypeVar

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError, TokenError
from sqlglot.parser import Parser
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]

from dpsql.core.errors import error
from dpsql.core.spans import Span
from dpsql.planner.calls import check_calls, hidden, is_foreign, parser, settled, with_tops
from dpsql.planner.cube_terms import CubeTerms, NamedCube, Synthetic, check_alone, read_named, read_terms
from dpsql.planner.grammar import check_nodes, check_number
from dpsql.planner.model_terms import DropModel, ModelTerms, asked_columns, read_drop, read_model
from dpsql.planner.options import Options, lift_clause, option_named, read_comment, set_option
from dpsql.planner.parameters import Parameters, apart, bind, is_text, names_the_moment, numbered
from dpsql.planner.table_terms import DropTable, TableTerms, asked_column, read_drop_table, read_table
from dpsql.planner.unreadable import not_a_question, unreadable
from dpsql.planner.walks import Skeletons, every, unchanged
from dpsql.schema import spent

LONGEST = 200_000
DEEPEST = 60
MOST_TOKENS = 40_000
DUCKDB = Dialect.get_or_raise("duckdb")
Result = TypeVar("Result")
QUESTIONS = ("SELECT", "WITH", "FROM", "(", "VALUES", "TABLE", "PIVOT")


@dataclass(frozen=True, slots=True)
class Query:
    """One question about the data.

    sql      the caller's text; all spans point into it
    tree     what was parsed, with the parameters' values in it
    options  from comments and OPTIONS(...)
    plain    the query as it was written, for DuckDB to name its columns; None where it holds what only dpsql knows
    timed    whether it names the present moment
    session  the options that SET has left
    """

    sql: str
    tree: exp.Expression
    options: Options
    plain: str | None = None
    timed: bool = False
    session: Options = field(default_factory=Options)

    @property
    def settled(self) -> Options:
        """The statement's own options, and those of the session where it says nothing."""
        return self.options.over(self.session)


@dataclass(frozen=True, slots=True)
class CreateCube:
    """CREATE PRIVATE CUBE.

    query  its question, grouped by its keys
    """

    name: str
    terms: CubeTerms
    query: Query


@dataclass(frozen=True, slots=True)
class CreateModel:
    """CREATE MODEL.

    query    its question, as one that counts each of its columns
    columns  their names
    """

    name: str
    terms: ModelTerms
    query: Query
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CreateTable:
    """CREATE RANDOMIZED TABLE.

    query   its question, as one that counts its column
    column  its name
    """

    name: str
    terms: TableTerms
    query: Query
    column: str


Kept = CreateCube | NamedCube | CreateModel | DropModel | CreateTable | DropTable | Synthetic
"""Statements about what is kept under a name."""


@dataclass(frozen=True, slots=True)
class Explain:
    """EXPLAIN of a query, or of what makes what is kept under a name."""

    query: Query | Kept


@dataclass(frozen=True, slots=True)
class Setting:
    """SET or RESET of one option of the session.

    name     of the option, without `dp_`
    options  what SET sets; None for RESET
    """

    name: str
    options: Options | None


@dataclass(frozen=True, slots=True)
class Catalog:
    """A question about the declared tables themselves.

    table  the parts of the name that DESCRIBE names; none for SHOW TABLES
    """

    sql: str
    table: tuple[str, ...] = ()


Parsed = Query | Explain | Setting | Catalog | Kept
_Read = tuple[Options, tuple[int, int] | None, bool]
Parses = Skeletons[_Read]


def parse(sql: str, parameters: Parameters = (), now: datetime | None = None, kept: Parses | None = None) -> Parsed:
    """Read one statement.

    parameters  values for `?` and `$1` (a sequence) or `:name` and `$name` (a mapping)
    now         what CURRENT_DATE and CURRENT_TIMESTAMP stand for; bound once
    kept        trees of the statements before, and of this one from now on

    Raises 101 (unreadable), 102, 103 (not a question), 104 (options), 106 (a number), 107 (too large), 108 (parameters).
    """
    return _shallow(lambda: _parse(sql, parameters, now or datetime.now(UTC).replace(tzinfo=None), kept))


def unbound(sql: str) -> exp.Expression | None:
    """A question with its placeholders as they stand, `?` as `$1`, ...; None of what takes no parameters. Raises as `parse`."""

    def work() -> exp.Expression | None:
        tokens = _one_statement(_tokens(sql))
        if tokens[0].text.upper() == "EXPLAIN":
            tokens = _explained(sql, tokens[0])
        return _unbound(sql, tokens)[0] if tokens[0].text.upper() in QUESTIONS else None

    return _shallow(work)


def _shallow(work: Callable[[], Result]) -> Result:
    try:
        return work()
    except RecursionError:
        pass
    raise error(107, "the statement is nested too deeply", hint="write fewer nested expressions")


def _parse(sql: str, parameters: Parameters, now: datetime, kept: Parses | None) -> Parsed:
    found = kept.find(sql) if kept is not None else None
    if found is not None:
        return _bound(sql, *found, parameters, now)
    tokens = _one_statement(_tokens(sql))
    first = tokens[0].text.upper()
    if first in ("SET", "RESET"):
        return _setting(first, tokens)
    if first in ("SHOW", "DESCRIBE", "DESC"):
        return _catalog(sql, first, tokens)
    if first == "EXPLAIN":
        inner = _explained(sql, tokens[0])
        return Explain(_kept(sql, inner, parameters, now) or _query(sql, inner, parameters, now))
    return _kept(sql, tokens, parameters, now) or _query(sql, tokens, parameters, now, kept)


def _kept(sql: str, tokens: list[Token], parameters: Parameters, now: datetime) -> Kept | None:
    """A statement about what is kept under a name; None for any other."""
    words = [token.text.upper() for token in tokens[:3]]
    if words[:2] in (["DROP", "CUBE"], ["REFRESH", "CUBE"]):
        return read_named(tokens)
    if words[:2] == ["DROP", "MODEL"]:
        return read_drop(tokens)
    if words == ["DROP", "RANDOMIZED", "TABLE"]:
        return read_drop_table(tokens)
    if words == ["CREATE", "RANDOMIZED", "TABLE"]:
        check_alone(_comment_options(tokens), bool(parameters), TableTerms.NOUN)
        name, of_table, rest = read_table(tokens)
        query = _query(sql, rest, parameters, now)
        tree, column = asked_column(query.tree)
        return CreateTable(name, of_table, replace(query, tree=tree, plain=None), column)
    if words == ["CREATE", "PRIVATE", "CUBE"]:
        check_alone(_comment_options(tokens), bool(parameters))
        name, terms, rest = read_terms(tokens)
        return CreateCube(name, terms, _query(sql, rest, parameters, now))
    if words[:2] == ["CREATE", "MODEL"]:
        check_alone(_comment_options(tokens), bool(parameters), "model")
        name, of_model, rest = read_model(tokens)
        query = _query(sql, rest, parameters, now)
        tree, columns = asked_columns(query.tree)
        return CreateModel(name, of_model, replace(query, tree=tree, plain=None), columns)
    if words[1:] == ["SYNTHETIC", "TABLE"] and words[0] in ("CREATE", "DROP"):
        from dpsql.planner.synthetic_terms import NOUN, read_drop_synthetic, read_synthetic

        check_alone(_comment_options(tokens), bool(parameters), NOUN)
        return read_drop_synthetic(tokens) if words[0] == "DROP" else read_synthetic(sql, tokens)
    return None


def _query(sql: str, tokens: list[Token], given: Parameters, now: datetime, kept: Parses | None = None) -> Query:
    if tokens[0].text.upper() not in QUESTIONS:
        raise not_a_question(tokens[0])
    tree, read = _unbound(sql, tokens)
    if kept is not None:
        kept.keep(sql, tree, read)
    return _bound(sql, tree, read, given, now)


def _unbound(sql: str, tokens: list[Token]) -> tuple[exp.Expression, _Read]:
    """A question with its placeholders; beside it its options, its place in the text where the engine may read it, and Query.timed."""
    written, (tokens, options) = tokens, lift_clause(tokens, _comment_options(tokens))
    topped = with_tops(tokens)
    tree = _tree(sql, numbered(topped))
    own = _respelt(tree) or len(tokens) < len(written) or any(t.token_type == TokenType.TOP for t in topped)
    check_nodes(tree)
    with unchanged(tree):
        own = own or bool(every(tree, exp.Placeholder, exp.Parameter, exp.PropertyEQ))
        timed = names_the_moment(tree)
    return tree, (options, None if own else (written[0].start, written[-1].end + 1), timed)


def _bound(sql: str, tree: exp.Expression, read: _Read, parameters: Parameters, now: datetime) -> Query:
    options, place, timed = read
    bound = bind(tree, parameters, now)
    check_calls(bound)
    return Query(sql, bound, options, None if place is None else sql[slice(*place)], timed)


def _tokens(sql: str) -> list[Token]:
    if len(sql) > LONGEST:
        what = f"the statement has {len(sql):,} characters; at most {LONGEST:,} are read"
        raise error(107, what, hint="split it into several")
    if not is_text(sql):
        what = "the statement holds a character that is no text (NUL, or half a surrogate pair)"
        raise error(101, what, hint="remove it")
    tokens: list[Token] | None
    try:
        tokens = list(DUCKDB.tokenize(apart(sql)))
    except TokenError:
        tokens = None
    if tokens is None:
        raise error(101, "a quote or comment is opened and never closed", hint="close it")
    if len(tokens) > MOST_TOKENS:
        what = f"the statement has {len(tokens):,} words; at most {MOST_TOKENS:,} are read"
        raise error(107, what, hint="split it into several")
    _check_tokens(tokens)
    return tokens


def _check_tokens(tokens: list[Token]) -> None:
    """Raises 101 for what is no number, 106 for one beyond every type, 107 for parentheses nested too deep."""
    depth = 0
    for token in tokens:
        if token.token_type == TokenType.NUMBER:
            check_number(token.text, _span(token))
        if token.text in ("(", "[", "{") and token.token_type != TokenType.STRING:
            depth += 1
        depth -= token.text in (")", "]", "}")
        if depth > DEEPEST:
            what = f"parentheses are nested more than {DEEPEST} deep"
            raise error(107, what, hint="write fewer nested expressions", span=_span(token))


def _span(token: Token) -> Span:
    return Span(token.start, token.end + 1)


def _comment_options(tokens: list[Token]) -> Options:
    options = Options()
    for token in tokens:
        for comment in token.comments:
            options = read_comment(comment, options)
    return options


def _one_statement(tokens: list[Token]) -> list[Token]:
    while tokens and tokens[-1].token_type == TokenType.SEMICOLON:
        tokens = tokens[:-1]
    while tokens and tokens[0].token_type == TokenType.SEMICOLON:
        tokens = tokens[1:]
    if not tokens:
        raise error(101, "there is no statement", hint="write SELECT ...")
    for token in tokens:
        if token.token_type == TokenType.SEMICOLON:
            raise error(101, "there is more than one statement", hint="send them one at a time", span=_span(token))
    return tokens


def _explained(sql: str, word: Token) -> list[Token]:
    """The tokens after EXPLAIN, which the tokenizer would swallow whole; positions stay those of the text."""
    start = sql.upper().index("EXPLAIN", word.start)
    tokens = _one_statement(_tokens(sql[:start] + " " * len("EXPLAIN") + sql[start + len("EXPLAIN") :]))
    if tokens[0].text.upper() == "ANALYZE":
        raise error(
            103,
            "EXPLAIN ANALYZE would run the statement and show facts about the data",
            hint="write EXPLAIN SELECT ...",
        )
    return tokens


def _setting(word: str, tokens: list[Token]) -> Setting:
    """SET dp_epsilon = 0.2 and RESET dp_epsilon."""
    text = " ".join(t.text for t in tokens[1:])
    match = re.fullmatch(r"(?:SESSION\s+)?(\w+)(?:\s*(?:=|TO)\s*(.+))?", text, re.IGNORECASE)
    if not match or not match[1].lower().startswith("dp_") or (word == "SET") != bool(match[2]):
        raise error(103, f"{word} can only change dp_ options of this session", hint="write SET dp_epsilon = 0.2")
    name = match[1].lower().removeprefix("dp_")
    if name == "weights":
        raise error(104, "weights belong to one statement", hint="write /* dpsql: weights=2:1 */ in it")
    if word == "RESET":
        return Setting(option_named(name), None)
    return Setting(name, set_option(Options(), name, match[2].replace(" ", "")))


def _catalog(sql: str, word: str, tokens: list[Token]) -> Query | Catalog:
    """SHOW TABLES and DESCRIBE t; whether the table is declared is not known here.

    SHOW of what was spent is the query that it means.
    """
    rest, options, shown = tokens[1:], _comment_options(tokens), ""
    if word == "SHOW":
        shown = " ".join(t.text.upper() if t.token_type == TokenType.VAR else "?" for t in rest)
        if shown == "TABLES":
            return Catalog(sql)
        if shown == "FUNCTIONS" or shown in spent.SHOWN:
            from dpsql.planner.functions import listing

            text = listing() if shown == "FUNCTIONS" else spent.SHOWN[shown]
            return Query(sql, _tree(text, _tokens(text)), options, text)
    else:
        names, dots = rest[::2], rest[1::2]
        named = all(t.token_type in (*Parser.ID_VAR_TOKENS, TokenType.IDENTIFIER) for t in names)
        if named and len(dots) == len(names) - 1 < 3 and all(t.token_type == TokenType.DOT for t in dots):
            return Catalog(sql, tuple(t.text for t in names))
    others = ", ".join(name for name in spent.NAMES if name not in ("TABLES", "BUDGET"))
    shows = f"SHOW TABLES, SHOW BUDGET, or SHOW with {others}"
    raise error(
        103,
        f"{word} can only name the declared tables and what was spent",
        hint=f"write {'DESCRIBE and the name of one' if word != 'SHOW' or 'COLUMNS' in shown else shows}",
        span=Span(tokens[0].start, tokens[-1].end + 1),
    )


def _tree(sql: str, tokens: list[Token]) -> exp.Expression:
    if tokens[0].text.upper() == "PIVOT":
        from dpsql.planner.spellings import from_pivot

        tokens = from_pivot(tokens)
    problem: ParseError | None = None
    try:
        trees = parser().parse(hidden(tokens), sql)
    except ParseError as failure:
        problem = failure
    if problem is not None:
        raise unreadable(tokens, problem)
    if len(trees) != 1 or trees[0] is None:
        raise error(101, "this is not one statement", hint="send one SELECT at a time")
    tree = trees[0]
    assert isinstance(tree, exp.Expression)
    while isinstance(tree, exp.Subquery) and {name for name, value in tree.args.items() if value} == {"this"}:
        tree = tree.this
    settled(tree, sql)
    return tree


def _respelt(tree: exp.Expression) -> bool:
    """Give functions of other engines the names that they have here, and parts of dates their quotes; whether there were any."""
    if not any(
        map(is_foreign, every(tree, exp.Anonymous, exp.Extract, exp.ArrayOverlaps, exp.ArrayContainsAll, exp.Distinct))
    ):
        return False
    from dpsql.planner.spellings import first_rows, respell

    first_rows(tree)
    return respell(tree)
