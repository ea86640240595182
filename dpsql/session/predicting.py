"""ML.WEIGHTS, ML.PREDICT, ML.EVALUATE and the others of _FORMS: text -> text, each call as the SQL that it stands for.

Weights and moments are released, so what is left is a question like any other: about people it is bounded, judged and charged; over
public rows and released values it is free. A question is known by this SQL: by what a model is, not by its name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from sqlglot.errors import TokenError
from sqlglot.tokens import Token  # type: ignore[attr-defined]

from dpsql.accounting.models import StoredModel, Weights
from dpsql.core.errors import Error, error
from dpsql.core.wording import counted
from dpsql.planner.model_terms import LINEAR, PCA
from dpsql.planner.parse import DUCKDB, LONGEST
from dpsql.release.staging import Columns
from dpsql.session import principal
from dpsql.sql.duckdb import quoted

Form = Callable[[StoredModel, Sequence[str]], str]
"""Of a model and what stands behind it, the SQL."""
MOST_CALLS = 100
MOST_ODDS = 30
"""The most that log odds count, as in training."""


def expanded(text: str, known: Callable[[str], StoredModel]) -> str:
    """The text with SQL in place of each call; the innermost ones first. Raises 104, 105 (no such model), 107."""
    for _ in range(MOST_CALLS):
        try:
            tokens = list(DUCKDB.tokenize(text))
        except TokenError:
            return text
        starts = [i for i in range(len(tokens) - 3) if _is_call(tokens, i)]
        if not starts:
            return text
        start = starts[-1]
        begin, end, made = _call(text, tokens, start, known)
        text = text[:begin] + made + text[end:]
        if len(text) > LONGEST:
            break
    raise error(107, f"the statement calls models more than {MOST_CALLS} times, or too large ones", hint="call fewer")


def _is_call(tokens: Sequence[Token], i: int) -> bool:
    words = [token.text.upper() for token in tokens[i : i + 4]]
    return words[0] == "ML" and words[1] == "." and words[2] in _FORMS and words[3] == "("


def _call(text: str, tokens: Sequence[Token], start: int, known: Callable[[str], StoredModel]) -> tuple[int, int, str]:
    """The place of a call, and the SQL that it stands for."""
    name, depth, commas = tokens[start + 2].text.upper(), 0, list[int]()
    for i in range(start + 3, len(tokens)):
        depth += tokens[i].text in ("(", "[", "{")
        depth -= tokens[i].text in (")", "]", "}")
        if depth == 1 and tokens[i].text == ",":
            commas.append(i)
        if depth == 0:
            break
    else:
        raise error(101, f"ML.{name}( is never closed", hint="close it")
    first = tokens[start + 4 : (commas or [i])[0]]
    if len(first) != 2 or first[0].text.upper() != "MODEL":
        raise error(104, f"ML.{name} begins with MODEL and a name", hint=f"write ML.{name}(MODEL m, ...)")
    model = known(first[1].text)
    if (model.kind == PCA) != (name in _OF_PCA):
        raise _unfit(name, model)
    ends = [*commas, i]
    # a comment that ends with its line must not reach what stands behind it
    args = [f"{text[tokens[a].end + 1 : tokens[b].start].strip()}\n" for a, b in pairwise(ends)]
    return tokens[start].start, tokens[i].end + 1, _FORMS[name](model, args)


def _unfit(call: str, model: StoredModel) -> Error:
    """A call that is not of its type of model."""
    calls = " or ".join(f"ML.{name}" for name in _FORMS if (name in _OF_PCA) == (model.kind == PCA))
    return error(104, f"{model.name} is a {model.kind}, which has no ML.{call}", hint=f"write {calls}")


def _table(call: str, columns: Columns, rows: Callable[[StoredModel], list[tuple[object, ...]]]) -> Form:
    """Rows that a model says, as a subquery."""
    names = ", ".join(name for name, _ in columns)

    def written(model: StoredModel, args: Sequence[str]) -> str:
        if args:
            raise _given(call, model, "nothing behind the model", "")
        of = (", ".join(_value(*cell) for cell in zip(row, columns, strict=True)) for row in rows(model))
        return f"(SELECT * FROM (VALUES {', '.join(f'({row})' for row in of)}) AS found({names}))"

    return written


def _value(value: object, column: tuple[str, str]) -> str:
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, str):
        return _text(value)
    return f"CAST(NULL AS {column[1]})" if value is None else str(value)


def _predict(model: StoredModel, args: Sequence[str]) -> str:
    score = _score(model, args, "PREDICT")
    if model.kind == LINEAR:
        low, high = map(_number, model.bounds)
        return f"LEAST(GREATEST({score}, {low}), {high})"
    return f"({score} >= 0e0)"


def _predict_proba(model: StoredModel, args: Sequence[str]) -> str:
    if model.kind == LINEAR:
        raise error(104, "a linear_reg predicts no probability", hint="write ML.PREDICT")
    score = _score(model, args, "PREDICT_PROBA")
    return f"(1e0 / (1e0 + EXP(LEAST(GREATEST(0e0 - {score}, -{MOST_ODDS}e0), {MOST_ODDS}e0))))"


def _evaluate(model: StoredModel, args: Sequence[str]) -> str:
    """Errors over rows, each column by its name."""
    if len(args) != 1 or not args[0].startswith("("):
        raise error(
            104, "ML.EVALUATE takes a model and a query", hint="write ML.EVALUATE(MODEL m, (SELECT x, y FROM t))"
        )
    columns = [quoted(one.name) for one in model.features]
    label, rows = quoted(model.label), f"{args[0]} AS evaluated"
    if model.kind == LINEAR:
        inner = f"(SELECT {label} AS y, {_predict(model, columns)} AS p FROM {rows}) AS predicted"
        errors = f"(SELECT AVG(ABS(y - p)) AS mae, AVG((y - p) * (y - p)) AS mse, VAR_POP(y) AS spread FROM {inner}) AS found"
        named = "mae AS mean_absolute_error, mse AS mean_squared_error, 1 - mse / spread AS r2_score"
        return f"(SELECT {named} FROM {errors})"
    inner = f"(SELECT {label} AS y, {_predict_proba(model, columns)} AS p FROM {rows}) AS predicted"
    right = "CASE WHEN y = (p >= 0.5e0) THEN 1 ELSE 0 END"
    square = "CASE WHEN y THEN (1e0 - p) * (1e0 - p) ELSE p * p END"
    return f"(SELECT AVG({right}) AS accuracy, AVG({square}) AS mean_squared_error FROM {inner})"


def _score(model: StoredModel, args: Sequence[str], call: str) -> str:
    if len(args) != len(model.features):
        names = ", ".join(one.name for one in model.features)
        raise _given(call, model, counted(len(model.features), "value"), f", {names}")
    parts = [_part(one, arg) for one, arg in zip(model.features, args, strict=True)]
    return f"({' + '.join([_number(model.intercept), *parts])})"


def _part(one: Weights, arg: str) -> str:
    if not one.levels:
        return f"{_number(one.weights[0])} * ({arg})"
    cases = (f"WHEN {level} THEN {_number(weight)}" for level, weight in zip(one.levels, one.weights, strict=True))
    return f"CASE ({arg}) {' '.join(cases)} END"


def _given(call: str, model: StoredModel, what: str, more: str) -> Error:
    return error(104, f"ML.{call} of {model.name} takes {what}", hint=f"write ML.{call}(MODEL {model.name}{more})")


def _number(value: float) -> str:
    """A DOUBLE, whatever stands around it."""
    text = repr(value)
    return f"({text})" if "e" in text else f"({text}e0)"


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


_FORMS: dict[str, Form] = {
    "WEIGHTS": _table("WEIGHTS", principal.WEIGHTS, principal.weights),
    "PREDICT": _predict,
    "PREDICT_PROBA": _predict_proba,
    "EVALUATE": _evaluate,
    "PRINCIPAL_COMPONENTS": _table("PRINCIPAL_COMPONENTS", principal.COMPONENTS, principal.component_rows),
    "PRINCIPAL_COMPONENT_INFO": _table("PRINCIPAL_COMPONENT_INFO", principal.INFO, principal.info),
    "CORRELATIONS": _table("CORRELATIONS", principal.CORRELATIONS, principal.correlation_rows),
}
_OF_PCA = ("PRINCIPAL_COMPONENTS", "PRINCIPAL_COMPONENT_INFO", "CORRELATIONS")
