"""The accuracy of models for people whom they have not seen: the passes of a fit with their noise, over splits of the examples' data.

The exact sums are numpy's and not an engine's, so that people can be held out; scaling, clipping, passes, shares of rho and the weights
that are made of them are the product's own.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import sqrt
from pathlib import Path

import duckdb
import numpy as np
import numpy.typing as npt

from dpsql.core.loss import EpsilonDelta
from dpsql.mechanisms.reach import largest_rho
from dpsql.planner.model_terms import LINEAR, LOGISTIC
from dpsql.planner.models import CLIP, OF_MOMENTS, PASSES
from dpsql.postprocess.descent import Descent

Floats = npt.NDArray[np.float64]
EXAMPLES = Path(__file__).parents[2] / "examples"
SPLITS, SHARE = 20, 0.7
DELTA = Fraction(1, 10**6)
EPSILONS = (Fraction(1, 2), Fraction(1), Fraction(3))


@dataclass(frozen=True, slots=True)
class Case:
    """A label by features: numbers with their bounds, and lists."""

    name: str
    kind: str
    rows: str
    label: tuple[str, float, float]
    numbers: tuple[tuple[str, float, float], ...]
    lists: tuple[str, ...]

    def data(self) -> tuple[Floats, Floats]:
        """z and the label in [-1, 1]; people without one of the values are left out."""
        found = duckdb.sql(self.rows).df().dropna()
        columns = [np.ones(len(found)), *(_scaled(found[n], low, high) for n, low, high in self.numbers)]
        for name in self.lists:
            columns += [(found[name] == level).to_numpy(float) for level in sorted(found[name].unique())]
        scale = 1 / sqrt(1 + len(self.numbers) + len(self.lists))
        return np.stack(columns, 1) * scale, _scaled(found[self.label[0]], *self.label[1:])


def _scaled(column: object, low: float, high: float) -> Floats:
    values = np.clip(np.asarray(column, dtype=np.float64), low, high)
    return (2 * values - low - high) / (high - low)


NHEFS = f"SELECT * FROM '{EXAMPLES}/nhefs/patients.parquet'"
_SMOKERS = (
    ("age", 25, 74), ("school_years", 0, 17), ("height_cm", 120, 220), ("weight_1971_kg", 30, 200), ("cigarettes_per_day", 0, 100),
    ("smoking_years", 0, 70), ("systolic_bp", 60, 260), ("asthma", 0, 1), ("quit_smoking", 0, 1),
)  # fmt: skip
RAND = f"""SELECT p.*, y.* EXCLUDE (person_id), y.md_visits > 0 AS visited, p.physical_limitation > 0 AS limited
FROM '{EXAMPLES}/randhie/person.parquet' AS p JOIN '{EXAMPLES}/randhie/person_year.parquet' AS y USING (person_id)
WHERE y.year = 1 AND person_id % 4 = 0"""
_OF_PERSON = (("education_years", 0, 25), ("female", 0, 1), ("mental_health_index", 0, 100))
CASES = (
    Case("RAND age", LINEAR, RAND, ("age", 0, 100),
         (*_OF_PERSON, ("child", 0, 1), ("md_visits", 0, 80), ("income", 0, 30000)), ("site",)),
    Case("RAND income", LINEAR, RAND, ("income", 0, 30000), (*_OF_PERSON, ("age", 0, 100), ("md_visits", 0, 80)), ("site",)),
    Case("RAND visited", LOGISTIC, RAND, ("visited", 0, 1), (*_OF_PERSON, ("age", 0, 100), ("income", 0, 30000)), ("site",)),
    Case("RAND limited", LOGISTIC, RAND, ("limited", 0, 1), (*_OF_PERSON, ("age", 0, 100), ("md_visits", 0, 80)), ("site",)),
    Case("NHEFS weight_1982_kg", LINEAR, NHEFS, ("weight_1982_kg", 30, 200), _SMOKERS, ("sex", "race")),
    Case("NHEFS died_by_1992", LOGISTIC, NHEFS, ("died_by_1992", 0, 1), _SMOKERS, ("sex", "race")),
)  # fmt: skip


def fitted(z: Floats, label: Floats, kind: str, rho: float, chance: np.random.Generator) -> Floats:
    """The weights of one fit: as release/fitting.py goes from pass to pass."""
    logistic, clip, passes = kind == LOGISTIC, float(CLIP[kind]), PASSES[kind]
    beside = z if logistic else np.column_stack([z, label]) / sqrt(2)
    sigma = 1 / sqrt(2 * float(OF_MOMENTS) * rho)
    places = np.triu_indices(beside.shape[1])
    moments = (beside.T @ beside)[places] + chance.normal(0, sigma, len(places[0]))
    descent = Descent(z.shape[1], logistic, list(moments), sigma)
    noise, most = clip * sqrt(passes / (2 * (1 - float(OF_MOMENTS)) * rho)), clip / np.linalg.norm(z, axis=1)
    for _ in range(passes):
        predicted = z @ np.array(descent.point)
        errs = (
            1 / (1 + np.exp(-np.clip(predicted, -30, 30))) - (label + 1) / 2
            if logistic
            else np.clip(predicted, -1, 1) - label
        )
        descent.step(list(z.T @ np.clip(errs, -most, most) + chance.normal(0, noise, z.shape[1])))
    return np.array(descent.weights)


def score(z: Floats, label: Floats, kind: str, weights: Floats) -> float:
    """R2 of a linear model; the area under the curve (AUC) of a logistic one."""
    predicted = z @ weights
    if kind == LINEAR:
        errs = np.clip(predicted, -1, 1) - label
        return float(1 - (errs**2).mean() / label.var())
    order, positive = np.argsort(np.argsort(predicted)), label > 0
    ones = positive.sum()
    return float((order[positive].sum() - ones * (ones - 1) / 2) / (ones * (len(label) - ones)))


def exactly(z: Floats, label: Floats, kind: str) -> Floats:
    """Weights without noise: least squares, or Newton's steps."""
    if kind == LINEAR:
        return np.asarray(np.linalg.lstsq(z, label, rcond=None)[0])
    weights = np.zeros(z.shape[1])
    for _ in range(25):
        p = 1 / (1 + np.exp(-np.clip(z @ weights, -30, 30)))
        hessian = (z * (p * (1 - p))[:, None]).T @ z + 1e-4 * np.eye(z.shape[1])
        weights = weights - np.linalg.solve(hessian, z.T @ (p - (label + 1) / 2))
    return weights


def lines() -> Iterator[str]:
    """A line a case: scores of people held out, mean and deviation over the splits, at each epsilon and without noise."""
    for case in CASES:
        z, label = case.data()
        found: dict[str, list[float]] = {}
        for split in range(SPLITS):
            chance = np.random.default_rng(split)
            order = chance.permutation(len(label))
            train, test = np.split(order, [int(SHARE * len(order))])
            for epsilon in EPSILONS:
                rho = float(largest_rho(EpsilonDelta(epsilon, DELTA)))
                weights = fitted(z[train], label[train], case.kind, rho, chance)
                found.setdefault(f"epsilon {float(epsilon):g}", []).append(
                    score(z[test], label[test], case.kind, weights)
                )
            weights = exactly(z[train], label[train], case.kind)
            found.setdefault("exact", []).append(score(z[test], label[test], case.kind, weights))
        measure = "R2" if case.kind == LINEAR else "AUC"
        scores = "; ".join(f"{name} {np.mean(all_):.3f} +-{np.std(all_):.3f}" for name, all_ in found.items())
        yield f"{case.name}, {measure} of {len(label) - int(SHARE * len(label))} held out of {len(label)}: {scores}"


def report() -> None:
    for line in lines():
        sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    report()
