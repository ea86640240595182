"""calls: functions keep the name and the order of arguments that they are written with, in every version of the parser.

The parser has nodes of its own for many functions, each with parts of other names, and other ones in other versions. So a name that is
in the registry is hidden from it behind a word that no function has, and comes back as a call by name.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.parser import Parser
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]

from dpsql.core.errors import Error, error
from dpsql.core.spans import span_of
from dpsql.core.sqltypes import VARCHAR
from dpsql.expressions.functions import BY_NAME, REFUSED, documents, zones
from dpsql.expressions.functions.record import Function
from dpsql.expressions.literals import literal
from dpsql.planner.walks import every, unchanged

_DUCKDB = Dialect.get_or_raise("duckdb")
_HIDDEN = "function "
"""A blank is in no word of SQL."""
_UNNEST = "unnest"
BY_PLAIN_NAME = frozenset(name for name, function in BY_NAME.items() if not function.syntax) | {*REFUSED, _UNNEST}
"""The functions that the parser has no form of its own for."""
_WITH_SYNTAX: dict[type[exp.Expression], str] = {
    exp.Substring: "substring",
    exp.JSONExtractScalar: "json_extract_string",
    exp.JSONExtract: "json_extract",
    exp.AtTimeZone: "convert_timezone",
}
_ARROWS = (TokenType.ARROW, TokenType.DARROW)

_OTHERS = """
    all average btrim charindex convert_timezone date_add date_format date_sub dateadd datename datetime_trunc div0 eomonth every
    favg format_date format_datetime format_timestamp fsum iff isnull kahan_sum list_has_all mid ndv nullifzero nvl nvl2 percentile
    approx_percentile safe_divide some std stdev stdevp sumkahan timestamp_trunc to_char var varp zeroifnull"""
OTHERS = frozenset(_OTHERS.split())
"""Names that functions of ours have in other engines (spellings.py)."""
_HIDDEN_NAMES = BY_PLAIN_NAME | OTHERS - {"all", "some"}
"""These two are the parser's own words."""


def is_foreign(node: exp.Expression) -> bool:
    """True if a call may be another engine's, an operator of lists, or one with a part of a date, which may have no quotes."""
    if isinstance(node, exp.ArrayOverlaps | exp.ArrayContainsAll | exp.Distinct):
        return not isinstance(node, exp.Distinct) or node.args.get("on") is not None
    function = function_of(node)
    return _name_of(node) in OTHERS or (function is not None and "word" in function.takes) or _is_of_age(node)


def _is_of_age(node: exp.Expression) -> bool:
    """True if a call is of an AGE, or of a difference."""
    parts = [node.expression] if isinstance(node, exp.Extract) else node.expressions[-1:]
    return any(_name_of(part.unnest()) == "age" or isinstance(part.unnest(), exp.Sub) for part in parts)


def _is_called(tokens: Sequence[Token], place: int) -> bool:
    return place + 1 < len(tokens) and tokens[place + 1].token_type == TokenType.L_PAREN


def hidden(tokens: Sequence[Token], names: Container[str] = _HIDDEN_NAMES) -> list[Token]:
    """Tokens with the names of functions, where they are called, hidden from the parser."""
    found: list[Token] = []
    for place, token in enumerate(tokens):
        name = token.text.lower()
        called = token.token_type not in _QUOTED and _is_called(tokens, place)
        if called and name in names and not (name == "replace" and _is_star(tokens, place - 1)):
            token = Token(TokenType.VAR, _HIDDEN + name, token.line, token.col, token.start, token.end, token.comments)
        elif token.token_type == TokenType.STRING and place and tokens[place - 1].token_type in _ARROWS:
            # read as a path it would lose its spelling, and a path of a form of its own is an error of the parser
            token = Token(TokenType.IDENTIFIER, _HIDDEN + token.text, token.line, token.col, token.start, token.end)
        found.append(token)
    return found


def with_tops(tokens: list[Token]) -> list[Token]:
    """The TOP of SELECT TOP 10 ... as the word that it is in other engines, which stands for LIMIT."""
    return [_retyped(t, TokenType.TOP) if _is_top(tokens, place) else t for place, t in enumerate(tokens)]


def _is_top(tokens: list[Token], position: int) -> bool:
    """True if a word is the TOP of SELECT TOP 10 ..., and no column's name."""
    before, after = tokens[position - 1 : position], tokens[position + 1 : position + 5]
    if tokens[position].text.upper() != "TOP" or [t.text.upper() for t in before] not in (["SELECT"], ["DISTINCT"]):
        return False
    kinds = [token.token_type for token in after]
    if kinds[:1] == [TokenType.L_PAREN] and kinds[2:3] == [TokenType.R_PAREN]:
        kinds = [kinds[1], *kinds[3:]]
    return kinds[:1] == [TokenType.NUMBER] and kinds[1:2] not in ([], [TokenType.COMMA], [TokenType.FROM])


def _retyped(token: Token, kind: TokenType) -> Token:
    return Token(kind, token.text, token.line, token.col, token.start, token.end)


_QUOTED = (TokenType.IDENTIFIER, TokenType.STRING)


def _is_star(tokens: Sequence[Token], place: int) -> bool:
    """True if the star of `* REPLACE (...)` stands there, which is no call; what is multiplied has something before the star."""
    before = tokens[place - 1].text.upper() if place > 0 else ""
    return (
        place >= 0
        and tokens[place].token_type == TokenType.STAR
        and before in ("", "SELECT", "DISTINCT", "ALL", ",", ".")
    )


def restored(tree: exp.Expression) -> None:
    """Give the hidden functions of a tree their names back, a relation may be called by one too; and documents' paths their text."""
    for node in every(tree, exp.Anonymous, exp.Identifier, exp.JSONExtract, exp.JSONExtractScalar):
        if isinstance(node, exp.Anonymous | exp.Identifier):
            if isinstance(node.this, str) and node.this.startswith(_HIDDEN):
                node.set("this", node.this.removeprefix(_HIDDEN))
            continue
        path = node.args["expression"]
        if isinstance(path, exp.JSONPath):
            # of a number, which the parser makes $[n] of
            node.set("expression", exp.Literal.string(path.sql("duckdb").strip("'")))
        elif path.name.startswith(_HIDDEN):
            node.set("expression", exp.Literal.string(path.name.removeprefix(_HIDDEN)))


def parser() -> Parser:
    """The parser, with % as close as * and /: the lower end of the supported versions reads 1 + x % 3 as (1 + x) % 3."""
    parser = _DUCKDB.parser()
    if TokenType.MOD in parser.TERM:
        tables: Any = parser
        tables.TERM = {kind: node for kind, node in parser.TERM.items() if kind != TokenType.MOD}
        tables.FACTOR = {**parser.FACTOR, TokenType.MOD: exp.Mod}
    return parser


def filled(text: str, values: Mapping[str, exp.Expression]) -> exp.Expression:
    """SQL as a tree, with copies of values in the places of names."""
    tree = parser().parse(hidden(_DUCKDB.tokenize(text)), text)[0]
    assert isinstance(tree, exp.Expression)
    restored(tree)
    return tree.transform(lambda node: values[node.name].copy() if isinstance(node, exp.Column) else node)


def spelt_out(text: str, x: exp.Expression, condition: exp.Expression | None = None) -> exp.Expression:
    """SQL of one value x as a tree, with a value in its place; its aggregates of the rows of a WHERE."""

    def filtered(node: exp.Expression) -> exp.Expression:
        held = condition is not None and isinstance(node, exp.AggFunc)
        return exp.Filter(this=node, expression=condition.copy()) if held and condition is not None else node

    return filled(text, {"x": x}).transform(filtered)


def settled(tree: exp.Expression, sql: str) -> None:
    """Give what was parsed the names that the caller wrote, for messages too, and each node the form that it stands for."""
    with unchanged(tree):  # but for names, and the texts of paths
        restored(tree)
        _keep_words(tree, sql)
        others = every(tree, exp.Fetch, exp.ApproxDistinct, exp.ApproxTopK)
    for node in others:
        other = _meant(node)
        if other is not None:
            other.meta.update(node.meta)
            node.replace(other)


def _keep_words(tree: exp.Expression, sql: str) -> None:
    """Functions keep the name that the caller wrote, for messages: the parser has names of its own for some."""
    for node in every(tree, exp.Expression):
        if (
            isinstance(node, exp.Func)
            and "start" in node.meta
            and sql[node.meta["start"] : node.meta["end"] + 1].isidentifier()
        ):
            node.meta["word"] = sql[node.meta["start"] : node.meta["end"] + 1]


def _meant(node: exp.Expression) -> exp.Expression | None:
    """The form that a node stands for; None where it keeps its own."""
    if isinstance(node, exp.Fetch):
        return _limit_of(node)
    if isinstance(node, exp.ApproxDistinct):
        return exp.Count(this=exp.Distinct(expressions=[node.this]))
    # by its name: the parser's own printing of it warns
    parts = [value for value in node.args.values() if isinstance(value, exp.Expression)]
    return exp.Anonymous(this="approx_top_k", expressions=parts)


def _limit_of(fetch: exp.Fetch) -> exp.Limit | None:
    """FETCH NEXT 10 ROWS ONLY as LIMIT 10, without a number LIMIT 1; None for a share of the rows, or with ties."""
    count, how = fetch.args.get("count"), fetch.args.get("limit_options")
    if how is not None and (how.args.get("percent") or how.args.get("with_ties")):
        return None
    if count is None or (isinstance(count, exp.Identifier) and count.name.lower() in ("row", "rows")):
        count = exp.Literal.number(1)
    return exp.Limit(expression=count) if isinstance(count, exp.Literal) else None


def function_of(node: exp.Expression) -> Function | None:
    """The record of a call by name, or by a form of the parser's own."""
    return BY_NAME.get(_name_of(node))


def _name_of(node: exp.Expression) -> str:
    """The function that is called, by its name or by a form of the parser's own; "" for what is none."""
    return str(node.this).lower() if isinstance(node, exp.Anonymous) else _WITH_SYNTAX.get(type(node), "")


def is_unnest(node: object) -> bool:
    return isinstance(node, exp.Anonymous) and _name_of(node) == _UNNEST


def no_unnest() -> Error:
    """The refusal of UNNEST where it has no rows of people to stand beside, or no list."""
    what = "UNNEST stands in FROM, or in the SELECT list of a query of rows"
    return error(
        102, what, hint="write FROM t, UNNEST(t.tags) AS u(tag), where tags is a column that is declared as a list"
    )


def check_calls(tree: exp.Expression) -> None:
    """Raise 102 or 106 for calls with another number of arguments, and with constants that cannot be taken; nothing may fail after the
    charge, over released rows too."""
    for node in every(tree, exp.Anonymous, *_WITH_SYNTAX):
        name = _name_of(node)
        problem: Error | None = None
        try:
            _check(name, node)
        except Error as found:
            problem = found
        if problem is not None:
            problem.span = span_of(node)
            raise problem


def _check(name: str, node: exp.Expression) -> None:
    if isinstance(node, exp.JSONExtract) and isinstance(around(node), exp.JSONExtract | exp.JSONExtractScalar):
        documents.path(_value(node.expression))
    elif name in REFUSED:
        why, hint = REFUSED[name]
        raise error(102, f"{name.upper()}() is not supported: {why}", hint=hint)
    stands = node.parent.parent if isinstance(node.parent, exp.Alias) else node.parent
    if is_unnest(node) and not (isinstance(stands, exp.Table | exp.Select) and len(node.expressions) == 1):
        raise no_unnest()
    function = BY_NAME.get(name)
    if function is None:
        return
    if isinstance(node, exp.AtTimeZone) and not isinstance(around(node), exp.AtTimeZone) and _zones(node) % 2:
        what = "one AT TIME ZONE gives a moment, whose text depends on where a program runs"
        raise error(102, what, hint=zones.INSTEAD)
    args = arguments(node)
    word = str(node.meta.get("word") or name)
    function.check_count(word, len(args))
    for place, arg in enumerate(args):
        if function.kind(place) == "constant" and _value(arg) is None and function.check is None:
            raise error(
                102, f"the argument {place + 1} of {word.upper()} must be a constant", hint=f"write {function.example}"
            )
        if function.kind(place) == "period" and not isinstance(arg, exp.Interval):
            raise error(106, f"{word.upper()} needs a constant interval", hint=f"write {function.example}")
    if function.check is not None:
        function.check([_value(arg) for arg in args])


def _zones(node: exp.Expression) -> int:
    """Number of AT TIME ZONE that stand behind each other."""
    found = 0
    while isinstance(node, exp.AtTimeZone):
        found, node = found + 1, node.this.unnest()
    return found


def around(node: exp.Expression) -> object:
    """Parent of a node, whatever parentheses are around it."""
    above = node.parent
    while isinstance(above, exp.Paren):
        above = above.parent
    return above


def arguments(node: exp.Expression) -> list[exp.Expression]:
    """The arguments of a call, in the order of SQL."""
    if isinstance(node, exp.Anonymous):
        return list(node.expressions)
    if isinstance(node, exp.AtTimeZone):
        inner = node.this.unnest()
        zone = inner.args["zone"] if isinstance(inner, exp.AtTimeZone) else node.args["zone"]
        return [zone, node.args["zone"], inner.this]
    return [
        part
        for name in ("this", "start", "length", "expression")
        if isinstance(part := node.args.get(name), exp.Expression)
    ]


def _value(node: exp.Expression) -> object:
    """The value of a constant; None for anything else."""
    if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal) and not node.this.is_string:
        return -int(node.this.name) if node.this.name.isdigit() else None
    if not isinstance(node, exp.Literal):
        return _folded(node)
    return node.name if node.is_string else int(node.name) if node.name.isdigit() else float(node.name)


def _folded(node: exp.Expression) -> str | None:
    """The text that a function of constant texts gives, such as LOWER('A'); None for anything else."""
    function = function_of(node)
    if isinstance(node, exp.Paren):
        found = _value(node.this)
        return found if isinstance(found, str) else None
    if isinstance(node, exp.DPipe):
        left, right = _value(node.this), _value(node.expression)
        return left + right if isinstance(left, str) and isinstance(right, str) else None
    values = [_value(arg) for arg in arguments(node)] if function is not None else []
    if function is None or not all(isinstance(value, str) for value in values):
        return None
    made = function.build(*(literal(str(value), VARCHAR) for value in values)).value
    return made if isinstance(made, str) else None
