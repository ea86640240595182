"""Membership inference: was this person in the study? Out of nothing but how many participants have each of 200 diagnoses.

The data       60 participants, each with 200 yes-or-no diagnoses of known frequencies in the population
The attacker   knows those frequencies and the diagnoses of one person, who was a participant or is somebody like them. The
               published counts lean a little towards each participant, in all 200 at once: the inner product of (person -
               frequency) and (published - frequency) tells (Homer and others 2008 did it with genomes). Guessed a member where it
               is above what is half way
Who is asked   all participants and as many others, in several studies: a coin is right about half of the time
dpsql          one statement, a GROUP BY over the diagnoses; a person has up to 200 rows in 200 groups, so the noise is for all of
               them together
Source         Homer and others 2008, PLoS Genetics 4(8); Dwork, Smith, Steinke, Ullman, Vadhan 2015, Robust traceability from trace
               amounts

python examples/attacks/membership.py [--quick] [--svg FILE]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from show import DELTA, LEGACY, Outcome, bound, opened, options, tell

PEOPLE, DIAGNOSES = 60, 200
EPSILONS, QUICK = (0.5, 1, 2, 4, 16, 64), (1, 64)
STUDIES, FEW = 6, 2
Publish = Callable[[np.ndarray], np.ndarray]

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
[tables.diagnosed]
references = {{ person = "person.person" }}
source = "diagnosed.csv"
max_rows_per_unit = {DIAGNOSES}
max_groups_per_unit = {DIAGNOSES}
[tables.diagnosed.columns]
person = {{ type = "INTEGER" }}
diagnosis = {{ type = "INTEGER", domain = {list(range(DIAGNOSES))} }}
"""


def asked(epsilon: float) -> Publish:
    """Counts of each diagnosis, by dpsql."""

    def publish(study: np.ndarray) -> np.ndarray:
        rows = [f"{person},{diagnosis}" for person, diagnosis in zip(*np.nonzero(study), strict=True)]
        text = "\n".join(["person,diagnosis", *rows])
        everybody = "\n".join(["person", *map(str, range(PEOPLE))])
        with opened(SCHEMA, {"diagnosed.csv": text, "person.csv": everybody}) as connection:
            price = f"/* dpsql: epsilon={epsilon:g}, mechanism=gaussian */"
            sql = f"{price} SELECT diagnosis, COUNT(*) FROM diagnosed GROUP BY 1 ORDER BY 1"
            return np.array([row[1] for row in connection.execute(sql).fetchall()], dtype=float)

    return publish


def attack(frequencies: np.ndarray, counts: np.ndarray, people: np.ndarray) -> np.ndarray:
    """Guess of each person whether they are among the counted."""
    leaning = (people - frequencies) @ (counts / PEOPLE - frequencies)
    of_a_member = (frequencies * (1 - frequencies)).sum() / PEOPLE
    return leaning > of_a_member / 2


def right(publish: Publish, studies: int) -> float:
    random = np.random.default_rng(7)
    found = []
    for _ in range(studies):
        frequencies = random.uniform(0.1, 0.5, DIAGNOSES)
        study, others = (random.random((PEOPLE, DIAGNOSES)) < frequencies for _ in range(2))
        counts = publish(study)
        found += [attack(frequencies, counts, study), ~attack(frequencies, counts, others)]
    return float(np.concatenate(found).mean())


def outcomes(quick: bool) -> Iterator[Outcome]:
    studies = FEW if quick else STUDIES
    for name, protect in LEGACY.items():
        yield Outcome(name, right(lambda study: np.array([protect(int(n)) for n in study.sum(0)]), studies))  # noqa: B023
    for epsilon in QUICK if quick else EPSILONS:
        yield Outcome(f"dpsql, epsilon {epsilon:g}", right(asked(epsilon), studies), bound(epsilon, DELTA))


def main() -> None:
    given = options(__doc__ or "")
    title = f"membership of {PEOPLE} people told by {DIAGNOSES} counts"
    tell(title, list(outcomes(given.quick)), given.svg)


if __name__ == "__main__":
    main()
