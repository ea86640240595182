"""Models of a ledger: the names under which fitted weights are read, and what is known of each (named.py)."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from fractions import Fraction

from dpsql.accounting import layout
from dpsql.accounting.amounts import from_text, to_text
from dpsql.accounting.named import Register


@dataclass(frozen=True, slots=True)
class Weights:
    """The weights of one feature.

    name     of the feature
    levels   of a list the SQL text of each value; () for a number
    weights  of a number one, of a list one a value [the label's own unit, or log odds]; () of a pca
    """

    name: str
    levels: tuple[str, ...]
    weights: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class StoredModel:
    """A model as it is known by its name.

    name, analyst  who made it under what name
    statement      what it was made by
    fingerprint    of the stored answer that it was fitted by
    kind           linear_reg, logistic_reg or pca
    label          name of the label; "" of a pca
    bounds         of a linear model's label: what it predicts is clamped to them
    rows           [rows] of one unit, at most
    price          (epsilon, delta, rho)
    time           when it was made
    moments        of a pca the released second moments, as their upper triangle
    sigma          deviation of their noise; the intercept is then the value of their first column
    """

    name: str
    analyst: str
    statement: str
    fingerprint: str
    kind: str
    label: str
    bounds: tuple[float, float]
    intercept: float
    features: tuple[Weights, ...]
    rows: int
    price: tuple[Fraction, Fraction, Fraction]
    time: str = ""
    moments: tuple[float, ...] = ()
    sigma: float = 0.0


def written(model: StoredModel) -> str:
    """A model as the ledger keeps it."""
    words = [model.name, model.analyst, model.statement, model.fingerprint, model.kind, model.label]
    numbers = [list(model.bounds), model.intercept, model.rows, [to_text(amount) for amount in model.price]]
    features = [[one.name, list(one.levels), list(one.weights)] for one in model.features]
    of_pca = [list(model.moments), model.sigma] if model.moments else []
    return json.dumps([words, numbers, features, model.time or layout.now(), *of_pca], separators=(",", ":"))


def read(body: str) -> StoredModel | None:
    """The model that was written; None if this is anything else."""
    try:
        words, ((low, high), intercept, rows, amounts), listed, time, *of_pca = json.loads(body)
        features = tuple(Weights(str(n), tuple(map(str, of)), tuple(map(_finite, found))) for n, of, found in listed)
        name, analyst, statement, fingerprint, kind, label = map(str, words)
        epsilon, delta, rho = (from_text(amount) for amount in amounts)
        if epsilon is None or delta is None or rho is None:
            return None
        whose = (name, analyst, statement, fingerprint, kind, label)
        bounds, price = (_finite(low), _finite(high)), (epsilon, delta, rho)
        moments, sigma = of_pca or ((), 0.0)
        second = tuple(map(_finite, moments)), _finite(sigma)
        return StoredModel(*whose, bounds, _finite(intercept), features, int(rows), price, str(time), *second)
    except (ValueError, TypeError, LookupError, RecursionError):
        return None


def _finite(number: object) -> float:
    if not isinstance(number, int | float) or not math.isfinite(number):
        raise ValueError
    return float(number)


MODELS = Register("model", written, read)
