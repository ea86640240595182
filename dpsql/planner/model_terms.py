"""Terms of CREATE MODEL name OPTIONS (...) AS SELECT ..., by their words alone."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import ClassVar

from sqlglot import exp
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]

from dpsql.core.errors import error
from dpsql.core.spans import Span, span_of
from dpsql.planner.cube_terms import CubeTerms, misshapen, name_at
from dpsql.planner.options import Options, set_option

LINEAR, LOGISTIC, PCA = "linear_reg", "logistic_reg", "pca"
_SHAPE = "write CREATE MODEL m OPTIONS (model_type = 'linear_reg', input_label_cols = ['y'], epsilon = 1) AS SELECT x, y FROM t"
_NAMES = ("model_type", "input_label_cols", "epsilon", "delta", "max_rows")


@dataclass(frozen=True, slots=True)
class ModelTerms(CubeTerms):
    """Terms of one model; None is "not asked for".

    kind   linear_reg, logistic_reg or pca
    label  the column that is predicted; "" of pca
    """

    NOUN: ClassVar[str] = "model"
    kind: str = ""
    label: str = ""


@dataclass(frozen=True, slots=True)
class DropModel:
    """DROP MODEL."""

    name: str
    span: Span


def read_drop(tokens: Sequence[Token]) -> DropModel:
    """Read DROP MODEL and a name. Raises 101."""
    name, end = name_at(tokens, 2, "model", _SHAPE)
    if end < len(tokens):
        span = Span(tokens[end].start, tokens[end].end + 1)
        raise error(101, "nothing stands behind DROP MODEL and a name", hint="leave it out", span=span)
    return DropModel(name, Span(tokens[2].start, tokens[2].end + 1))


def read_model(tokens: Sequence[Token]) -> tuple[str, ModelTerms, list[Token]]:
    """Name, terms, and the tokens of the question. Raises 101, 104."""
    name, at = name_at(tokens, 2, "model", _SHAPE)
    words = [token.text.upper() for token in tokens]
    close = next((i for i in range(at, len(words)) if words[i] == ")"), None)
    if words[at : at + 2] != ["OPTIONS", "("] or close is None:
        raise misshapen(
            tokens[min(at, len(tokens) - 1)], "OPTIONS (...) with the type and the label is missing", _SHAPE
        )
    terms = _terms(tokens[at + 2 : close])
    if words[close + 1 : close + 2] != ["AS"] or len(words) == close + 2:
        raise misshapen(tokens[min(close + 1, len(tokens) - 1)], "AS and the question are missing", _SHAPE)
    return name, terms, list(tokens[close + 2 :])


def _terms(tokens: Sequence[Token]) -> ModelTerms:
    terms = ModelTerms()
    for is_comma, piece in groupby(tokens, lambda token: token.token_type == TokenType.COMMA):
        if not is_comma:
            terms = _with(terms, list(piece))
    if terms.kind == PCA and terms.label:
        raise error(104, "a pca has no label", hint="leave input_label_cols out, or write model_type = 'linear_reg'")
    for value, what in ((terms.kind, "model_type"), (terms.label or terms.kind == PCA, "input_label_cols")):
        if not value:
            raise error(104, f"a model needs {what}", hint=_SHAPE)
    return terms


def _with(terms: ModelTerms, piece: Sequence[Token]) -> ModelTerms:
    name, value = piece[0].text.lower(), [token.text for token in piece[2:]]
    if name not in _NAMES:
        raise error(104, f"a model has no option {name[:40]!r}", hint=f"the options of a model are {', '.join(_NAMES)}")
    if [token.text for token in piece[1:2]] != ["="] or not value:
        raise error(104, f"{name} has no value", hint=_SHAPE)
    if name == "model_type":
        kind = "".join(value).lower()
        if kind not in (LINEAR, LOGISTIC, PCA):
            hint = f"write {LINEAR!r}, {LOGISTIC!r} or {PCA!r}"
            raise error(104, f"there is no model of type {kind[:40]!r}", hint=hint)
        return replace(terms, kind=kind)
    if name == "input_label_cols":
        if len(value) != 3 or value[0] != "[" or value[2] != "]":
            raise error(104, "a model has one label", hint="write input_label_cols = ['y']")
        return replace(terms, label=value[1])
    found = set_option(Options(), name, re.sub(r"\s", "", "".join(value)))
    return replace(
        terms,
        epsilon=found.epsilon or terms.epsilon,
        delta=terms.delta if found.delta is None else found.delta,
        max_rows=found.max_rows or terms.max_rows,
    )


def asked_columns(tree: exp.Expression) -> tuple[exp.Expression, tuple[str, ...]]:
    """The question of a model as one that counts its rows and each of its columns, and their names.

    Why  then names, types, bounds, joins and who may be asked about are found as of any statement; nothing is counted by it

    Raises 104 for anything but a SELECT of named columns over rows.
    """
    kept = ("group", "having", "order", "limit", "offset", "distinct", "qualify", "windows")
    if not isinstance(tree, exp.Select) or any(tree.args.get(part) for part in kept):
        hint = "write SELECT x, y FROM t, with joins, WHERE, and a subquery in FROM for what is grouped"
        raise error(104, "a model is fitted to the rows of one SELECT, as they are", hint=hint)
    names = [column.alias_or_name for column in tree.expressions]
    for column, name in zip(tree.expressions, names, strict=True):
        if isinstance(column, exp.Star) or column.is_star or not name:
            hint = "write each column, and what is computed with AS and a name"
            raise error(104, "each column of a model has a name", hint=hint, span=span_of(column))
        if names.count(name) > 1:
            raise error(
                104, "two columns of a model have one name", hint="write AS and another name", span=span_of(column)
            )
    found = tree.copy()
    counts = [exp.Count(this=column.unalias().copy()) for column in tree.expressions]
    for count, column in zip(counts, tree.expressions, strict=True):
        count.meta.update(column.unalias().meta)
    found.set("expressions", [exp.Count(this=exp.Star()), *counts])
    return found, tuple(names)


def summed(tree: exp.Expression, places: Sequence[int]) -> exp.Expression:
    """A question that counts each of its columns with sums of some of them in place, which are true or false.

    Why  the guard takes what COUNT is asked of for a condition on rows, and a sum for what is shown of them all
    """
    found = tree.copy()
    for place in places:
        number = exp.Cast(this=found.expressions[place].this, to=exp.DataType.build("INT"))
        found.expressions[place].replace(exp.Sum(this=number))
    return found
