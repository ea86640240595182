"""The accuracy of models for people whom they have not seen: the passes of a fit with their noise, over splits of the examples' data.

The exact sums are numpy's and not an engine's, so that people can be held out; scaling, clipping, passes, shares of rho and the weights
that are made of them are the product's own.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from fractions import Fraction
from importlib import import_module
from itertools import chain
from math import sqrt
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb
import numpy as np
import numpy.typing as npt

import dpsql
from dpsql.aggregates.design import INTERCEPT, LISTED
from dpsql.aggregates.gradients import LABEL, SQUARES
from dpsql.core.loss import EpsilonDelta
from dpsql.mechanisms.reach import largest_rho
from dpsql.planner.model_terms import LINEAR, LOGISTIC, PCA
from dpsql.planner.models import CLIP, OF_MEANS, OF_MOMENTS, PASSES, REACH
from dpsql.postprocess.descent import Descent, centre_of
from dpsql.postprocess.principal import NoisyMoments, components, correlations

Floats = npt.NDArray[np.float64]
Method = Callable[[Floats, Floats, float, np.random.Generator], Floats]
EXAMPLES = Path(__file__).parents[2] / "examples"
SPLITS, SHARE, SHOWN = 20, 0.7, 3
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

    def data(self) -> tuple[Floats, float, Floats]:
        """z, its first column's value, and the label in [-1, 1]; people without one of the values are left out."""
        found = duckdb.sql(self.rows).df().dropna()
        columns, squares = [np.full(len(found), INTERCEPT)], INTERCEPT**2
        for name, low, high in self.numbers:
            weight = LISTED if (low, high) == (0, 1) else 1.0
            columns.append(_scaled(found[name], low, high) * weight)
            squares += weight**2
        for name in self.lists:
            columns += [(found[name] == level).to_numpy(float) * LISTED for level in sorted(found[name].unique())]
            squares += LISTED**2
        scale = 1 / sqrt(squares)
        return np.stack(columns, 1) * scale, INTERCEPT * scale, _scaled(found[self.label[0]], *self.label[1:])


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


def fitted(z: Floats, intercept: float, label: Floats, kind: str, rho: float, chance: np.random.Generator) -> Floats:
    """The weights of one fit: as release/fitting.py goes from pass to pass."""
    logistic, clip, reach = kind == LOGISTIC, float(CLIP[kind]), float(REACH[kind])
    means, moments = float(OF_MEANS) * rho, float(OF_MOMENTS) * rho
    sums = np.append(z.sum(0), label.sum() * LABEL) + chance.normal(0, sqrt(SQUARES / (2 * means)), z.shape[1] + 1)
    centre = centre_of(list(sums), intercept, LABEL)
    x = z - np.array([0.0, *centre[:-1]])
    lengths = np.linalg.norm(x, axis=1)
    a, unit = x * np.minimum(1, reach / lengths)[:, None], reach**2
    if not logistic:
        a = np.column_stack([a, np.clip(label - centre[-1], -LABEL * reach, LABEL * reach)])
        unit *= SQUARES
    sigma = unit / sqrt(2 * moments)
    triangle = (a.T @ a)[np.triu_indices(a.shape[1])]
    descent = Descent(
        logistic, intercept, sums[0] / intercept, centre, list(triangle + chance.normal(0, sigma, len(triangle))), sigma
    )
    noise, scales = clip * sqrt(PASSES[kind] / (2 * (rho - means - moments))), np.array(descent.scales)
    scaled = x * scales
    most = clip / np.linalg.norm(scaled, axis=1)
    for _ in range(PASSES[kind]):
        predicted = x @ np.array(descent.point)
        errs = (
            1 / (1 + np.exp(-np.clip(predicted, -30, 30))) - (label + 1) / 2
            if logistic
            else np.clip(predicted + centre[-1], -1, 1) - label
        )
        descent.step(list(scaled.T @ np.clip(errs, -most, most) + chance.normal(0, noise, z.shape[1])))
    return np.array(descent.weights)


def axes(z: Floats, intercept: float, rho: float, chance: np.random.Generator) -> NoisyMoments:
    """The parts of a pca."""
    means, reach = float(OF_MEANS) * rho, float(REACH[PCA])
    centre = centre_of(list(z.sum(0) + chance.normal(0, 1 / sqrt(2 * means), z.shape[1])), intercept, None)
    x = z - np.array([0.0, *centre])
    a, sigma = x * np.minimum(1, reach / np.linalg.norm(x, axis=1))[:, None], reach**2 / sqrt(2 * (rho - means))
    triangle = (a.T @ a)[np.triu_indices(a.shape[1])]
    return NoisyMoments(tuple(triangle + chance.normal(0, sigma, len(triangle))), intercept, sigma)


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


def textbook() -> dict[str, Method]:
    """The perturbations of the textbook's example, of log odds."""
    folder = str(EXAMPLES / "textbook")
    sys.path.insert(0, folder)
    try:
        learning = import_module("learning")
    finally:
        sys.path.remove(folder)
    return {name: getattr(learning, name) for name in ("output", "objective", "descent")}


def lines() -> Iterator[str]:
    """A line a case: scores of people held out, mean and deviation over the splits, at each epsilon and without noise."""
    others = textbook()
    for case in CASES:
        z, intercept, label = case.data()
        found: dict[str, list[float]] = {}
        for split in range(SPLITS):
            chance = np.random.default_rng(split)
            order = chance.permutation(len(label))
            train, test = np.split(order, [int(SHARE * len(order))])

            weights = {"exact": exactly(z[train], label[train], case.kind)}
            for epsilon in EPSILONS:
                rho, name = float(largest_rho(EpsilonDelta(epsilon, DELTA))), f"{float(epsilon):g}"
                weights[f"epsilon {name}"] = fitted(z[train], intercept, label[train], case.kind, rho, chance)
                for other, method in others.items() if case.kind == LOGISTIC and epsilon <= 1 else ():
                    weights[f"{other} {name}"] = method(z[train], label[train], float(epsilon), chance)
            for name, of_one in weights.items():
                found.setdefault(name, []).append(score(z[test], label[test], case.kind, of_one))
        measure = "R2" if case.kind == LINEAR else "AUC"
        scores = "; ".join(f"{name} {np.mean(all_):.3f} +-{np.std(all_):.3f}" for name, all_ in found.items())
        yield f"{case.name}, {measure} of {len(label) - int(SHARE * len(label))} held out of {len(label)}: {scores}"


def components_lines() -> Iterator[str]:
    """Of the columns of some cases the variance of people held out along the first components, over that of all, and how far
    correlations are off: each at every epsilon, and without noise and clip."""
    for case in (CASES[0], CASES[4]):
        z, intercept, _ = case.data()
        along: dict[str, list[float]] = {}
        off: dict[str, list[float]] = {}
        for split in range(SPLITS):
            chance = np.random.default_rng(split)
            train, test = np.split(chance.permutation(len(z)), [int(SHARE * len(z))])
            exact, held = (np.cov(z[rows, 1:].T) for rows in (train, test))
            shown = {"exact": np.linalg.eigh(exact)[1].T[::-1][:SHOWN]}
            for epsilon in EPSILONS:
                moments = axes(z[train], intercept, float(largest_rho(EpsilonDelta(epsilon, DELTA))), chance)
                shown[f"epsilon {float(epsilon):g}"] = np.array([c.entries for c in components(moments)[:SHOWN]])
                true = np.corrcoef(z[train, 1:].T)
                errs = [abs(c.value - true[c.first, c.second]) for c in correlations(moments) if c.value is not None]
                off.setdefault(f"epsilon {float(epsilon):g}", []).append(float(np.mean(errs)) if errs else np.nan)
            for name, entries in shown.items():
                along.setdefault(name, []).append(float(np.trace(entries @ held @ entries.T) / np.trace(held)))
        shares = "; ".join(f"{name} {np.mean(all_):.3f} +-{np.std(all_):.3f}" for name, all_ in along.items())
        errors = "; ".join(f"{name} {np.nanmean(all_):.3f}" for name, all_ in off.items())
        yield f"{case.name.split()[0]}, pca of {z.shape[1] - 1} columns, variance held out along {SHOWN} components: {shares}"
        yield f"{case.name.split()[0]}, correlations off by, where there are any: {errors}"


WIDE = """
[dataset]
name = "wide"
source = "."
[privacy]
unit = "row"
accounting = "zcdp"
epsilon = 20
delta = 1e-6
query = { epsilon = 1, delta = 1e-8 }
[tables.t]
source = "t.parquet"
[tables.t.columns]
"""
COLUMNS, ROWS = 12, 1_000_000


def seconds() -> Iterator[str]:
    """Time to fit a wide table: of the processors together, which other work of the machine does not change much."""
    names = [f"x{i}" for i in range(COLUMNS)]
    with TemporaryDirectory() as folder:
        columns = "".join(f'{name} = {{ type = "INTEGER", bounds = [0, 100] }}\n' for name in names)
        (Path(folder) / "schema.toml").write_text(WIDE + columns)
        drawn = ", ".join(f"CAST(100 * random() AS INTEGER) AS {name}" for name in names)
        duckdb.sql(f"COPY (SELECT {drawn} FROM range({ROWS})) TO '{folder}/t.parquet'")
        with closing(dpsql.connect(f"{folder}/schema.toml", ledger=":memory:")) as connection:
            for kind, label in ((LINEAR, "x0"), (LOGISTIC, "x0 > 50"), (PCA, "x0")):
                began, used = time.perf_counter(), time.process_time()
                of = "" if kind == PCA else ", input_label_cols = ['y']"
                connection.execute(
                    f"CREATE MODEL {kind} OPTIONS (model_type = '{kind}'{of}, epsilon = 1) AS "
                    f"SELECT {', '.join(names[1:])}, {label} AS y FROM t"
                )
                took, used = time.perf_counter() - began, time.process_time() - used
                yield f"{kind} of {ROWS:,} x {COLUMNS}: {used:.1f} s of processors, {took:.1f} s on {os.cpu_count()}"


def report() -> None:
    for line in chain(lines(), components_lines(), seconds()):
        sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    report()
