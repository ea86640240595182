"""A leaderboard that cannot be played: scores with noise, for contestants who ask again and again.

Mechanism    a contest keeps the labels of its test set secret and shows the score of each submission. Who submits 1,000 random
             guesses, keeps those that did well, and lets them vote has learned the test set and nothing else: its score climbs, and
             new data are guessed no better than by a coin. Here scores are numbers of right guesses with Gaussian noise
Sensitivity  one person's label changes each score by 1, all k of them together by sqrt(k) in L2
Guarantee    rho in all: sigma^2 = k / (2 rho). What was learned through (epsilon, delta)-private scores carries over to new
             people of the same kind, up to about epsilon: an answer that hardly depends on anybody cannot depend on these people
Source       Blum, Hardt 2015, The Ladder: A Reliable Leaderboard for Machine Learning Competitions (the attack);
             Dwork, Feldman, Hardt, Pitassi, Reingold, Roth 2015, The Reusable Holdout (why noise helps)

The labels are those of NHEFS: who had died by 1992. Nobody looks at a feature.
"""

from fractions import Fraction

import numpy as np
from show import truth

from dpsql.core.loss import EpsilonDelta
from dpsql.mechanisms.gaussian import DiscreteGaussian, rho_of_loss
from dpsql.mechanisms.source import SystemNoise

SUBMISSIONS = 1000


def play(labels: np.ndarray, fresh: np.ndarray, scores: np.ndarray, guesses: np.ndarray) -> tuple[float, float]:
    """The vote of the better half of the guesses: how often right on the leaderboard's people, and on others."""
    signs = np.where(scores >= np.median(scores), 1, -1)
    vote = (signs @ (2 * guesses - 1)) > 0
    people = len(labels)
    return (vote[:people] == labels).mean(), (vote[people:] == fresh).mean()


def main() -> None:
    """Print what the attacker's vote scores, by the noise of the leaderboard."""
    died = np.array(
        [row[0] for row in truth("SELECT died_by_1992 FROM '{nhefs}/patients.parquet' ORDER BY patient_id")]
    )
    random = np.random.default_rng()
    balanced = np.concatenate([random.permutation(np.flatnonzero(died == value))[:300] for value in (True, False)])
    random.shuffle(balanced)
    labels, fresh = died[balanced[:300]], died[balanced[300:]]
    guesses = random.random((SUBMISSIONS, 600)) < 0.5
    right = (guesses[:, :300] == labels).sum(axis=1)
    print(f"-- {SUBMISSIONS:,} random submissions about {len(labels)} people, and the vote of the better half")
    print("  leaderboard              sigma   its score   on new people")
    boards: list[tuple[str, Fraction | None]] = [("exact", None)]
    for epsilon in (30, 10, 3, 1):
        boards.append((f"epsilon {epsilon}", rho_of_loss(EpsilonDelta(Fraction(epsilon), Fraction(1, 10**6)))))
    for name, rho in boards:
        noisy, sigma = right, 0.0
        if rho is not None:
            noise = DiscreteGaussian.for_rho(SUBMISSIONS, rho)
            noisy = right + np.array(list(noise.sample(SystemNoise(), SUBMISSIONS)))
            sigma = float(noise.sigma_squared) ** 0.5
        shown, real = play(labels, fresh, noisy, guesses)
        print(f"  {name:22} {sigma:7.0f}   {100 * shown:7.0f} %   {100 * real:11.0f} %")
    print(
        "\n-- 50 % is a coin: what the vote scores beyond it on the leaderboard, it took from these people and from nowhere else"
    )


if __name__ == "__main__":
    main()
