"""Terms of CREATE PRIVATE CUBE name OPTIONS (...) AS SELECT ... GROUP BY CUBE (...), by their words alone."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from typing import ClassVar, TypeVar

from sqlglot.parser import Parser
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]

from dpsql.core.errors import Error, error
from dpsql.core.loss import EpsilonDelta
from dpsql.core.spans import Span
from dpsql.planner.options import Options, set_option
from dpsql.schema.model import Schema

_SHAPE = "write CREATE PRIVATE CUBE name OPTIONS (epsilon = 1) AS SELECT key, COUNT(*) FROM t GROUP BY CUBE (key)"
LONGEST_NAME = 60


@dataclass(frozen=True, slots=True)
class CubeTerms:
    """Terms of one cube; None is "not asked for".

    epsilon, delta  what its rho is converted from; None: the most that a cube may cost
    ways            how many of its keys its marginals have at most; None: all
    max_rows        [rows] of one unit
    max_groups      [values] of one unit, of each key whose values are selected privately
    """

    NOUN: ClassVar[str] = "cube"
    SHAPE: ClassVar[str] = _SHAPE
    NAMES: ClassVar[tuple[str, ...]] = ("epsilon", "delta", "max_rows", "max_groups", "ways")
    epsilon: Fraction | None = None
    delta: Fraction | None = None
    ways: int | None = None
    max_rows: int | None = None
    max_groups: int | None = None

    def price(self, schema: Schema) -> EpsilonDelta:
        """The price asked for. Raises 104 without a delta, 502 above the owner's cap of a cube."""
        asked = self.within_cap(schema)
        if not asked.delta:
            what = f"a {self.NOUN} is bought with Gaussian noise, which spends delta, and this price has none"
            raise error(104, what, hint="write OPTIONS (delta = 1e-9), within what the owner allows")
        return asked

    def within_cap(self, schema: Schema) -> EpsilonDelta:
        """The price asked for, with a delta or without. Raises 502."""
        cap = schema.privacy.cube or schema.privacy.caps
        asked = EpsilonDelta(self.epsilon or cap.epsilon, cap.delta if self.delta is None else self.delta)
        for name, value, most in (("epsilon", asked.epsilon, cap.epsilon), ("delta", asked.delta, cap.delta)):
            if value > most:
                what = f"{name} = {float(value):g} is above the owner's cap of {float(most):g} for one {self.NOUN}"
                raise error(502, what, hint=f"write OPTIONS ({name} = {float(most):g}) or less")
        return asked


Terms = TypeVar("Terms", bound=CubeTerms)


@dataclass(frozen=True, slots=True)
class NamedCube:
    """DROP CUBE and REFRESH CUBE, by their first word."""

    verb: str
    name: str
    span: Span


@dataclass(frozen=True, slots=True)
class CreateSynthetic:
    """CREATE SYNTHETIC TABLE.

    sql      the statement
    cube     name of the cube that its rows are drawn from, which begins at `span`
    columns  the keys of it, as they were written; () for all
    rows     how many; None: as many as the cube has, at most so many
    seed     that they are drawn by; None: one that the statement and the cube decide
    """

    name: str
    sql: str
    cube: str
    span: Span
    columns: tuple[str, ...]
    rows: int | None = None
    seed: int | None = None


@dataclass(frozen=True, slots=True)
class DropSynthetic:
    """DROP SYNTHETIC TABLE."""

    name: str
    span: Span


Synthetic = CreateSynthetic | DropSynthetic


def read_named(tokens: Sequence[Token]) -> NamedCube:
    """Read DROP CUBE and a name, or REFRESH CUBE. Raises 101."""
    verb = tokens[0].text.upper()
    name, end = name_at(tokens, 2)
    if end < len(tokens):
        span = Span(tokens[end].start, tokens[end].end + 1)
        raise error(101, f"nothing stands behind {verb} CUBE and a name", hint="leave it out", span=span)
    return NamedCube(verb, name, Span(tokens[2].start, tokens[2].end + 1))


def check_alone(options: Options, has_parameters: bool, noun: str = "cube") -> None:
    """Refuse what a cube, or a model, is not told by. Raises 104 for options of statements, 108 for parameters."""
    if options != Options():
        raise error(104, f"a {noun} has options of its own", hint="write OPTIONS (epsilon = 1) after its name")
    if has_parameters:
        what = f"a {noun} is kept by its statement, which has no parameters"
        raise error(108, what, hint="write the values themselves")


def name_at(tokens: Sequence[Token], after: int, noun: str = "cube", shape: str = _SHAPE) -> tuple[str, int]:
    """The name of a cube or a model, and where it ends. Raises 101."""
    token = tokens[after] if after < len(tokens) else tokens[-1]
    if after >= len(tokens) or token.token_type not in (*Parser.ID_VAR_TOKENS, TokenType.IDENTIFIER):
        raise misshapen(token, f"the name of the {noun} is missing", shape)
    if len(token.text) > LONGEST_NAME or not token.text.isprintable():
        raise misshapen(token, f"a {noun}'s name has at most {LONGEST_NAME} letters", shape)
    return token.text, after + 1


def read_terms(tokens: Sequence[Token]) -> tuple[str, CubeTerms, list[Token]]:
    """Name, terms, and the tokens of the question, which is grouped by the keys themselves. Raises 101, 104."""
    name, terms, rest = read_head(tokens, CubeTerms())
    return name, terms, _without_cube(rest, tokens[-1])


def read_head(tokens: Sequence[Token], terms: Terms) -> tuple[str, Terms, list[Token]]:
    """Name, terms, and the tokens of the question, behind three words. Raises 101, 104.

    terms  that nothing is asked of
    """
    name, at = name_at(tokens, 3, terms.NOUN, terms.SHAPE)
    words = [token.text.upper() for token in tokens]
    if words[at : at + 2] == ["OPTIONS", "("]:
        close = next((i for i in range(at, len(words)) if words[i] == ")"), None)
        if close is None:
            raise error(101, "OPTIONS( is never closed", hint="write OPTIONS (epsilon = 1)")
        text = " ".join(token.text for token in tokens[at + 2 : close])
        for piece in filter(None, (part.strip() for part in text.split(","))):
            terms = _with(terms, piece)
        at = close + 1
    if words[at : at + 1] != ["AS"] or len(words) == at + 1:
        raise misshapen(tokens[min(at, len(tokens) - 1)], "AS and the question are missing", terms.SHAPE)
    return name, terms, list(tokens[at + 1 :])


def _with(terms: Terms, piece: str) -> Terms:
    name, _, value = (part.strip() for part in piece.partition("="))
    if name.lower() not in terms.NAMES:
        what = f"a {terms.NOUN} has no option {name[:40]!r}"
        raise error(104, what, hint=f"the options of a {terms.NOUN} are {', '.join(terms.NAMES)}")
    if name.lower() == "ways":
        if not re.fullmatch(r"[1-9]\d?", value):
            raise error(104, "ways must be a whole number from 1 to 99", hint="write ways = 2")
        return replace(terms, ways=int(value))
    found = set_option(Options(), name, value.replace(" ", ""))
    return replace(
        terms,
        epsilon=found.epsilon or terms.epsilon,
        delta=terms.delta if found.delta is None else found.delta,
        max_rows=found.max_rows or terms.max_rows,
        max_groups=found.max_groups or terms.max_groups,
    )


def _without_cube(tokens: list[Token], last: Token) -> list[Token]:
    """The question with GROUP BY a, b in place of GROUP BY CUBE (a, b)."""
    pairs = enumerate(pairwise(tokens), 1)
    places = [i for i, two in pairs if [t.token_type for t in two] == [TokenType.GROUP_BY, TokenType.CUBE]]
    at = places[-1] if places else None
    opened = at is not None and [t.text for t in tokens[at + 1 : at + 2]] == ["("]
    if at is None or not opened or tokens[-1].text != ")":
        raise misshapen(last, "a cube ends with GROUP BY CUBE (...), and nothing stands behind it")
    return [*tokens[:at], *tokens[at + 2 : -1]]


def misshapen(token: Token, what: str, shape: str = _SHAPE) -> Error:
    return error(101, what, hint=shape, span=Span(token.start, token.end + 1))
