"""Linkage: names were removed, and yet everybody who knows a little of a person finds their row.

The data       the 1,629 people of the bundled survey. Its secret is a fair coin for each, made here: what an attacker gets right of
               it beyond one half can come from that person's own row alone, and from no pattern among people
The attacker   knows sex, age, race, marital state, education and height of one person. In published rows they look for that person:
               where all rows that fit have one secret it is known, else a coin is thrown
Legacy         rows without names; with great ages and heights as their last tenth begins (top-coding); with ages in bands of
               ten and heights left out; rows that fewer than 5 share left out (k-anonymity); one secret in ten swapped with
               another row's
dpsql          no rows, but the best there is to ask: how many such people there are with the secret, and how many without, in one
               GROUP BY over all that is known. The larger one is guessed
Source         Sweeney 2002, k-anonymity; Machanavajjhala and others 2007, l-diversity, for groups that share their secret

python examples/attacks/linkage.py [--quick] [--svg FILE]
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import duckdb
import numpy as np
from show import Outcome, bound, opened, options, tell

PATIENTS = Path(__file__).resolve().parents[1] / "nhefs/patients.parquet"
EPSILONS, QUICK = (0.1, 0.5, 1, 2, 4, 8), (1, 8)
K = 5
SCHEMA = """[dataset]
name = "survey"
source = "."
[privacy]
unit = "survey.id"
epsilon = 1000
delta = 1e-6
units = 1600
caps = { epsilon = 1000 }
max_cells = 1000000
[guard]
mode = "off"
[tables.survey]
source = "survey.csv"
key = ["id"]
[tables.survey.columns]
id = { type = "INTEGER" }
known = { type = "INTEGER", bounds = [0, 2000] }
secret = { type = "BOOLEAN" }
"""
Row = tuple[object, ...]


def people() -> tuple[list[Row], np.ndarray]:
    """(sex, age, race, marital, education, height) of everybody, and a coin each."""
    sql = f"SELECT sex, age, race, marital, education, height_cm::INTEGER FROM '{PATIENTS}' ORDER BY patient_id"
    rows = duckdb.sql(sql).fetchall()
    return rows, np.random.default_rng(3).integers(0, 2, len(rows)).astype(bool)


def matched(known: Sequence[Row], published: Sequence[Row], secrets: Sequence[bool]) -> np.ndarray:
    """The chance that the guess of each person is right that looks up their row: certain where all that fit agree, else a coin."""
    found: dict[Row, list[bool]] = defaultdict(list)
    for row, secret in zip(published, secrets, strict=True):
        found[row].append(secret)
    guesses = [found.get(row, []) for row in known]
    return np.array([float(g[0]) if g and len(set(g)) == 1 else 0.5 for g in guesses])


def correct(chances: np.ndarray, secrets: np.ndarray) -> float:
    """The chance that a guess that says "yes" with these chances is right."""
    return float(np.where(secrets, chances, 1 - chances).mean())


def legacy(rows: list[Row], secrets: np.ndarray) -> Iterator[Outcome]:
    yield Outcome("rows without names", correct(matched(rows, rows, secrets), secrets))
    old, tall = (sorted(int(str(row[i])) for row in rows)[-len(rows) // 10] for i in (1, 5))
    topped = [(sex, min(int(str(age)), old), *more, min(int(str(cm)), tall)) for sex, age, *more, cm in rows]
    yield Outcome("top-coded", correct(matched(topped, topped, secrets), secrets))
    coarse = [(sex, int(str(age)) // 10, race, marital, education) for sex, age, race, marital, education, _ in rows]
    yield Outcome("coarser", correct(matched(coarse, coarse, secrets), secrets))
    often = Counter(coarse)
    kept = [i for i, row in enumerate(coarse) if often[row] >= K]
    published, told = [coarse[i] for i in kept], [bool(secrets[i]) for i in kept]
    yield Outcome(f"coarser, and {K}-anonymous", correct(matched(coarse, published, told), secrets))
    random = np.random.default_rng(5)
    swapped = secrets.copy()
    places = random.choice(len(rows), len(rows) // 10, replace=False)
    swapped[places] = swapped[random.permutation(places)]
    yield Outcome("a tenth swapped", correct(matched(rows, rows, swapped), secrets))


def asked(rows: list[Row], secrets: np.ndarray, epsilon: float) -> float:
    numbers = {row: i for i, row in enumerate(sorted(set(rows), key=repr))}
    lines = [f"{i},{numbers[row]},{str(bool(secrets[i])).lower()}" for i, row in enumerate(rows)]
    with opened(SCHEMA, {"survey.csv": "\n".join(["id,known,secret", *lines])}) as connection:
        sql = f"""/* dpsql: epsilon={epsilon:g} */ SELECT known, COUNT(*) FILTER (WHERE secret), COUNT(*) FILTER (WHERE NOT secret)
            FROM survey GROUP BY 1"""
        found = {row[0]: row[1] - row[2] for row in connection.execute(sql).fetchall()}
    more = np.array([found[numbers[row]] for row in rows])
    return correct(np.where(more > 0, 1.0, np.where(more < 0, 0.0, 0.5)), secrets)


def outcomes(quick: bool) -> Iterator[Outcome]:
    rows, secrets = people()
    yield from legacy(rows, secrets)
    for epsilon in QUICK if quick else EPSILONS:
        yield Outcome(f"dpsql, epsilon {epsilon:g}", asked(rows, secrets, epsilon), bound(epsilon))


def main() -> None:
    given = options(__doc__ or "")
    tell("a coin of each of 1,629 people, told by what is known of them", list(outcomes(given.quick)), given.svg)


if __name__ == "__main__":
    main()
