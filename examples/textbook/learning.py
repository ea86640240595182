"""Private empirical risk minimisation: output, objective and gradient perturbation of one logistic regression.

Mechanism    J(w) = (1 / N) sum of log(1 + exp(-y z.w)) + (LAMBDA / 2) |w|^2, N public, each |z| <= 1 by declared bounds
             output     w* + noise, w* the minimum of J
             objective  the minimum of J(w) + b.w / N + (REST / (2 N)) |w|^2, b the noise
             gradient   T steps of noisy gradient descent ("DP-SGD" with every row in every batch), each row's gradient clipped to C
Sensitivity  output     |w* - w*'| <= 1 / (N LAMBDA): J is LAMBDA-strongly convex, and one row moves its gradient by at most 1 / N
             objective  the noise that makes w a minimum differs by a vector of length at most 1; its density by a factor more, which
                        REST >= 2 (1/4) / epsilon keeps small
             gradient   a sum of clipped gradients moves by at most C
Guarantee    output and gradient: rho = T D^2 / (2 sigma^2), D and T as above, and (epsilon, delta) by its conversion; objective:
             (epsilon, delta) with b Gaussian of variance (8 ln(2 / delta) + 4 epsilon) / epsilon^2, for the exact minimum
Source       Chaudhuri, Monteleoni, Sarwate 2011, Differentially Private Empirical Risk Minimization; Kifer, Smith, Thakurta 2012
             (Gaussian objective perturbation); Bassily, Smith, Thakurta 2014, and Abadi and others 2016 (gradients)

Floats here, not the exact integers of dpsql's own releases: minima are found up to rounding, so this is the lecture and not a release.
Who had died by 1992, of age, sex and ten more columns; half of the people to learn from, the others to test on.
"""

from math import log

import numpy as np
from show import truth

LAMBDA, STEPS, CLIP, RATE = 0.01, 40, 1.0, 2.0
DELTA = 1e-6
EPSILONS = (0.5, 1.0, 3.0)
SPLITS = 5
BOUNDS = {
    "age": (25, 74), "sex = 'male'": (0, 1), "race = 'white'": (0, 1), "school_years": (0, 17), "height_cm": (120, 220),
    "weight_1971_kg": (30, 200), "cigarettes_per_day": (0, 100), "smoking_years": (0, 70), "asthma": (0, 1),
    "marital = 2": (0, 1), "education = '5'": (0, 1), "quit_smoking": (0, 1),
}  # fmt: skip
"""Columns with their declared bounds, which scale them: nothing is scaled by data."""


def data() -> tuple[np.ndarray, np.ndarray]:
    """Rows in the unit ball, an intercept included, and labels of -1 and 1."""
    columns = ", ".join(f"CAST({name} AS DOUBLE)" for name in BOUNDS)
    rows = np.array(
        truth(f"SELECT {columns}, CAST(died_by_1992 AS DOUBLE) FROM '{{nhefs}}/patients.parquet'"), dtype=float
    )
    low, high = np.array(list(BOUNDS.values()), dtype=float).T
    scaled = 2 * (np.clip(rows[:, :-1], low, high) - low) / (high - low) - 1
    z = np.column_stack([scaled, np.ones(len(rows))]) / np.sqrt(len(BOUNDS) + 1)
    return z, 2 * rows[:, -1] - 1


def gradient(w: np.ndarray, z: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The gradient of each row's loss, one a row; at most 1 long."""
    return -(y / (1 + np.exp(y * (z @ w))))[:, None] * z


def minimum(z: np.ndarray, y: np.ndarray, more: float, tilt: np.ndarray) -> np.ndarray:
    """The minimum of J(w) + tilt.w / N + (more / 2) |w|^2, by Newton's method."""
    w = np.zeros(z.shape[1])
    for _ in range(30):
        p = 1 / (1 + np.exp(-(z @ w)))
        slope = gradient(w, z, y).sum(axis=0) / len(y) + (LAMBDA + more) * w + tilt / len(y)
        curve = (z * (p * (1 - p))[:, None]).T @ z / len(y) + (LAMBDA + more) * np.eye(len(w))
        w = w - np.linalg.solve(curve, slope)
    return w


def rho_of(epsilon: float) -> float:
    """About the largest rho whose loss is (epsilon, DELTA) (Bun, Steinke 2016: epsilon = rho + 2 sqrt(rho ln(1 / delta)))."""
    return (np.sqrt(log(1 / DELTA) + epsilon) - np.sqrt(log(1 / DELTA))) ** 2


def output(z: np.ndarray, y: np.ndarray, epsilon: float, random: np.random.Generator) -> np.ndarray:
    """The minimum and noise."""
    w = minimum(z, y, 0.0, np.zeros(z.shape[1]))
    return w + random.normal(0, 1 / (len(y) * LAMBDA) / np.sqrt(2 * rho_of(epsilon)), len(w))


def objective(z: np.ndarray, y: np.ndarray, epsilon: float, random: np.random.Generator) -> np.ndarray:
    """The minimum of what was tilted by noise."""
    b = random.normal(0, np.sqrt(8 * log(2 / DELTA) + 4 * epsilon) / epsilon, z.shape[1])
    return minimum(z, y, 2 * 0.25 / epsilon / len(y), b)


def descent(z: np.ndarray, y: np.ndarray, epsilon: float, random: np.random.Generator) -> np.ndarray:
    """The mean of the last half of the steps."""
    sigma = CLIP * np.sqrt(STEPS / (2 * rho_of(epsilon)))
    w, path = np.zeros(z.shape[1]), []
    for _ in range(STEPS):
        each = gradient(w, z, y)
        clipped = each * np.minimum(1, CLIP / np.maximum(np.linalg.norm(each, axis=1), 1e-12))[:, None]
        noisy = clipped.sum(axis=0) + random.normal(0, sigma, len(w))
        w = w - RATE * (noisy / len(y) + LAMBDA * w)
        path.append(w)
    return np.mean(path[STEPS // 2 :], axis=0)


def auc(w: np.ndarray, z: np.ndarray, y: np.ndarray) -> float:
    """The chance that of two people, one of whom died, that one has the higher score."""
    scores = z @ w
    ranks = np.empty(len(scores))
    ranks[np.argsort(scores)] = np.arange(1, len(scores) + 1)
    died = y > 0
    return (ranks[died].sum() - died.sum() * (died.sum() + 1) / 2) / (died.sum() * (~died).sum())


def main() -> None:
    """Print the held-out AUC of each, by epsilon."""
    z, y = data()
    random = np.random.default_rng()
    halves = np.random.default_rng(1)
    splits = [np.split(halves.permutation(len(y)), [len(y) // 2]) for _ in range(SPLITS)]
    exact = [auc(minimum(z[a], y[a], 0.0, np.zeros(z.shape[1])), z[b], y[b]) for a, b in splits]
    longest = np.linalg.norm(z, axis=1).max()
    print(
        f"-- {len(y) // 2} people to learn from, {z.shape[1]} weights, the mean of {SPLITS} splits; longest row {longest:.3f}"
    )
    print(f"  without noise   {np.mean(exact):.3f}")
    print("  epsilon         " + "  ".join(f"{epsilon:5g}" for epsilon in EPSILONS))
    for method in (output, objective, descent):
        found = [[auc(method(z[a], y[a], e, random), z[b], y[b]) for a, b in splits] for e in EPSILONS]
        print(f"  {method.__name__:14}  " + "  ".join(f"{np.mean(scores):.3f}" for scores in found))
    print("\n-- 0.5 is a coin")


if __name__ == "__main__":
    main()
