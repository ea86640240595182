"""Terms of CREATE RANDOMIZED TABLE name OPTIONS (epsilon = 1) AS SELECT column FROM t, by their words alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

from sqlglot import exp
from sqlglot.tokens import Token  # type: ignore[attr-defined]

from dpsql.core.errors import Error, error
from dpsql.core.loss import EpsilonDelta
from dpsql.core.spans import Span, span_of
from dpsql.mechanisms.randomized_response import MOST
from dpsql.planner.cube_terms import CubeTerms, name_at, read_head
from dpsql.schema.model import Schema
from dpsql.schema.write import exact

_SHAPE = "write CREATE RANDOMIZED TABLE name OPTIONS (epsilon = 1) AS SELECT column FROM t"
COUNTS = ("reports", "estimate", "half_width")
"""Columns of every randomized table, beside its own."""
_ALONE = ("joins", "laterals", "where", "group", "having", "order", "limit", "offset", "distinct", "qualify", "windows")


@dataclass(frozen=True, slots=True)
class TableTerms(CubeTerms):
    """Terms of one randomized table: its price has no delta."""

    NOUN: ClassVar[str] = "randomized table"
    SHAPE: ClassVar[str] = _SHAPE
    NAMES: ClassVar[tuple[str, ...]] = ("epsilon",)
    delta: Fraction | None = Fraction(0)

    def price(self, schema: Schema) -> EpsilonDelta:
        """The price asked for. Raises 502 above the owner's cap of a cube, 503 below the least of a statement."""
        asked, least = self.within_cap(schema), schema.privacy.floor
        if self.epsilon is None:
            asked = replace(asked, epsilon=min(asked.epsilon, MOST))
        if asked.epsilon < least:
            what = f"epsilon = {float(asked.epsilon):g} is below the owner's least of {exact(least)} for one statement"
            raise error(503, what, hint=f"write OPTIONS (epsilon = {exact(least)}) or more")
        return asked


@dataclass(frozen=True, slots=True)
class DropTable:
    """DROP RANDOMIZED TABLE."""

    name: str
    span: Span


def read_drop_table(tokens: Sequence[Token]) -> DropTable:
    """Read DROP RANDOMIZED TABLE and a name. Raises 101."""
    name, end = name_at(tokens, 3, TableTerms.NOUN, "write DROP RANDOMIZED TABLE and a name")
    if end < len(tokens):
        span = Span(tokens[end].start, tokens[end].end + 1)
        raise error(101, "nothing stands behind DROP RANDOMIZED TABLE and a name", hint="leave it out", span=span)
    return DropTable(name, Span(tokens[3].start, tokens[3].end + 1))


def read_table(tokens: Sequence[Token]) -> tuple[str, TableTerms, list[Token]]:
    """Name, terms, and the tokens of the question. Raises 101, 104."""
    return read_head(tokens, TableTerms())


def asked_column(tree: exp.Expression) -> tuple[exp.Expression, str]:
    """The question of a randomized table as one that counts its rows and its column, and the column's name.

    Why  then name, type, list, and who may be asked about are found as of any statement; nothing is counted by it

    Raises 104 for anything but one named column of every row of a table.
    """
    if not isinstance(tree, exp.Select) or tree.args.get("with_") or tree.args.get("with"):
        raise _misshapen("one SELECT", span_of(tree))
    more = next((part for part in _ALONE if tree.args.get(part)), None)
    source = tree.find(exp.From)
    if more is not None or source is None or not isinstance(source.this, exp.Table):
        raise _misshapen("every row of one table, whoever it is about", span_of(tree))
    column = tree.expressions[0]
    if len(tree.expressions) != 1 or column.is_star or not column.alias_or_name:
        raise _misshapen("one column with a name", span_of(column))
    if column.alias_or_name.lower() in COUNTS:
        what = f"every randomized table has {', '.join(COUNTS[:-1])} and {COUNTS[-1]}, and this is called so too"
        raise error(104, what, hint="write another name behind AS", span=span_of(column))
    found, count = tree.copy(), exp.Count(this=column.unalias().copy())
    count.meta.update(column.unalias().meta)
    found.set("expressions", [exp.Count(this=exp.Star()), count])
    return found, column.alias_or_name


def _misshapen(what: str, span: Span | None) -> Error:
    return error(104, f"a randomized table is made of {what}", hint=_SHAPE, span=span)
