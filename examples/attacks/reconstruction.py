"""Reconstruction: everybody's secret out of counts that are each about many people.

The data       128 people with a secret bit, a fair coin each, and 64 public columns of 8 values: a town, a school, a birth month
               ...
The attacker   knows the public columns of everybody, and asks of each column how many people with the secret there are in each of
               its values: 512 counts, each a sum of the secrets of about 16 known people. They are linear equations, which least
               squares solves.
Why it works   with errors far below sqrt(n) and many questions, hardly anybody's bit fits the answers but the true one (Dinur,
               Nissim 2003). Rounding and leaving out small cells are errors of that kind
dpsql          the same 64 statements at an epsilon each, 64 times that in all: noise that grows with the number of questions, so
               that all of them together say no more of one bit than e^epsilon allows
Source         Dinur, Nissim 2003, Revealing information while preserving privacy, theorem 5; Dwork, Roth 2014, section 8.1

python examples/attacks/reconstruction.py [--quick] [--svg FILE]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from show import LEGACY, Outcome, bound, opened, options, tell

PEOPLE, COLUMNS, VALUES = 128, 64, 8
EPSILONS, QUICK = (0.5, 1, 2, 4, 8, 16, 64, 256), (1, 256)
Answers = Callable[[int], np.ndarray]


def schema() -> str:
    columns = "\n".join(f"a{i} = {{ type = 'INTEGER', domain = {list(range(VALUES))} }}" for i in range(COLUMNS))
    return f"""[dataset]
name = "secrets"
source = "."
[privacy]
unit = "people.id"
epsilon = 1000
delta = 1e-6
units = {PEOPLE}
caps = {{ epsilon = 1000 }}
accounting = "sequential"
[guard]
mode = "off"
[tables.people]
source = "people.csv"
key = ["id"]
[tables.people.columns]
id = {{ type = "INTEGER" }}
secret = {{ type = "BOOLEAN" }}
{columns}
"""


def attack(public: np.ndarray, answers: Answers) -> np.ndarray:
    """Guess every secret: the bits that fit all answers best."""
    rows, sums = [], []
    for column in range(COLUMNS):
        found = answers(column)
        for value in range(VALUES):
            rows.append(public[:, column] == value)
            sums.append(found[value])
    solved, *_ = np.linalg.lstsq(np.array(rows, dtype=float), np.array(sums), rcond=None)
    return solved > 0.5


def published(public: np.ndarray, secret: np.ndarray, protect: Callable[[int], float]) -> Answers:
    def answers(column: int) -> np.ndarray:
        return np.array([protect(int(secret[public[:, column] == value].sum())) for value in range(VALUES)])

    return answers


def outcomes(quick: bool) -> Iterator[Outcome]:
    random = np.random.default_rng(1)
    public = random.integers(0, VALUES, (PEOPLE, COLUMNS))
    secret = random.integers(0, 2, PEOPLE).astype(bool)
    for name, protect in LEGACY.items():
        yield Outcome(name, float((attack(public, published(public, secret, protect)) == secret).mean()))
    lines = [f"{i},{str(bool(secret[i])).lower()},{','.join(map(str, public[i]))}" for i in range(PEOPLE)]
    text = "\n".join([f"id,secret,{','.join(f'a{i}' for i in range(COLUMNS))}", *lines])
    for epsilon in QUICK if quick else EPSILONS:
        with opened(schema(), {"people.csv": text}) as connection:

            def answers(column: int) -> np.ndarray:
                price = f"/* dpsql: epsilon={epsilon / COLUMNS:g} */"  # noqa: B023
                sql = f"{price} SELECT a{column}, COUNT(*) FROM people WHERE secret GROUP BY 1 ORDER BY 1"
                return np.array([row[1] for row in connection.execute(sql).fetchall()], dtype=float)

            right = float((attack(public, answers) == secret).mean())
        yield Outcome(f"dpsql, epsilon {epsilon:g} in all", right, bound(epsilon))


def main() -> None:
    given = options(__doc__ or "")
    tell(
        f"reconstruction of {PEOPLE} secret bits from {COLUMNS * VALUES} counts", list(outcomes(given.quick)), given.svg
    )


if __name__ == "__main__":
    main()
