"""Membership inference against a model: was this person among those it was fitted to? Out of nothing but its published weights.

The data       30 people, each with 24 measurements and an outcome that follows them with some chance
The attacker   knows everything about one person, who was fitted to or is somebody like them, and the weights. A model errs less on the
               people it has seen than on others, the more so the fewer they are beside its weights (Yeom and others 2018). Guessed a
               member where the outcome is nearer to the prediction than most outcomes are
Who is asked   all who were fitted to and as many others, in several studies: a coin is right about half of the time
dpsql          CREATE MODEL, at its price
Source         Shokri, Stronati, Song, Shmatikov 2017; Yeom, Giacomelli, Fredrikson, Jha 2018, Privacy Risk in Machine Learning

python examples/attacks/model.py [--quick] [--svg FILE]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from show import DELTA, Outcome, bound, opened, options, tell

PEOPLE, FEATURES, CHANCE = 30, 24, 0.3
EPSILONS, QUICK = (1, 16, 64), (1,)
STUDIES, FEW = 4, 2
Fit = Callable[[np.ndarray, np.ndarray], np.ndarray]
NAMES = [f"x{i}" for i in range(FEATURES)]

SCHEMA = f"""[dataset]
name = "study"
source = "."
[privacy]
unit = "person.person"
epsilon = 1000
delta = {DELTA}
units = {PEOPLE}
query = {{ epsilon = 1, delta = {DELTA / 10} }}
caps = {{ epsilon = 1000, delta = {DELTA / 2} }}
[guard]
mode = "off"
[tables.person]
source = "person.csv"
key = ["person"]
[tables.person.columns]
person = {{ type = "INTEGER" }}
y = {{ type = "DOUBLE", bounds = [-3, 3] }}
""" + "\n".join(f'{name} = {{ type = "DOUBLE", bounds = [-1, 1] }}' for name in NAMES)


def least_squares(ridge: float, digits: int = 17) -> Fit:
    """The intercept and the weights without noise, drawn towards 0 by a ridge, and rounded."""

    def fit(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        z = np.column_stack([np.ones(len(x)), x])
        found = np.linalg.solve(z.T @ z + ridge * np.eye(z.shape[1]), z.T @ y)
        return np.array([float(f"{weight:.{digits}g}") for weight in found])

    return fit


def asked(epsilon: float) -> Fit:
    """The intercept and the weights, by dpsql."""

    def fit(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        rows = [",".join(map(repr, [i, *row])) for i, row in enumerate(np.column_stack([y, x]).tolist())]
        terms = f"model_type = 'linear_reg', input_label_cols = ['y'], epsilon = {epsilon:g}, delta = {DELTA / 2}"
        with opened(SCHEMA, {"person.csv": "\n".join([",".join(["person", "y", *NAMES]), *rows])}) as connection:
            sql = f"CREATE MODEL outcome OPTIONS ({terms}) AS SELECT {', '.join([*NAMES, 'y'])} FROM person"
            return np.array([weight for _, _, weight in connection.execute(sql).fetchall()], dtype=float)

    return fit


def attack(weights: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Guess of each person whether the model has seen them: where it errs less than on half of all people."""
    errors = np.abs(y - weights[0] - x @ weights[1:])
    return errors < np.median(errors)


def right(fit: Fit, studies: int) -> float:
    random = np.random.default_rng(7)
    found = []
    for _ in range(studies):
        slopes = random.normal(0, 0.3, FEATURES)
        x = random.uniform(-1, 1, (2 * PEOPLE, FEATURES))
        y = np.clip(x @ slopes + random.normal(0, CHANCE, 2 * PEOPLE), -3, 3)
        guessed = attack(fit(x[:PEOPLE], y[:PEOPLE]), x, y)
        found.append(np.concatenate([guessed[:PEOPLE], ~guessed[PEOPLE:]]))
    return float(np.concatenate(found).mean())


def outcomes(quick: bool) -> Iterator[Outcome]:
    studies = FEW if quick else STUDIES
    legacy = {
        "exact": least_squares(0),
        "two digits of each weight": least_squares(0, 2),
        "a ridge of 10": least_squares(10),
    }
    for name, fit in legacy.items():
        yield Outcome(name, right(fit, studies))
    for epsilon in QUICK if quick else EPSILONS:
        yield Outcome(f"dpsql, epsilon {epsilon:g}", right(asked(epsilon), studies), bound(epsilon, DELTA))


def main() -> None:
    given = options(__doc__ or "")
    tell(f"{PEOPLE} people a model of {FEATURES + 1} weights was fitted to", list(outcomes(given.quick)), given.svg)


if __name__ == "__main__":
    main()
