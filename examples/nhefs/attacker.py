"""An attacker who knows somebody's sex, age and years of school, and wants to know whether they had died by 1992.

The tracker      count the dead of some education levels, then the dead of the same levels without the one person who has that sex, age
                 and schooling: the difference is 1 or 0. A repeat is the stored answer, so to average the noise away the attacker takes
                 other levels each time. The person is guessed dead where the average difference is above a half.
Who is attacked  people of the public file whom these three columns single out, half of them dead: a coin is right about half of them
Without guard    a copy of the schema with `mode = "off"` and a budget that never ends. At a small epsilon a statement the noise alone
                 makes the attack as good as a coin; at an absurd epsilon it is right nearly always. Nothing but the budget says no,
                 and here it never does: the budget is the protection, which is why the real one is 4 for everybody together.
With the guard   the same, with `mode = "block"`: the statement that would complete a pair is refused, whatever epsilon is, so the
                 attacker never has both halves and throws a coin
As declared      the schema as it is: by which rule, and at which statement, each kind of tracker ends
What is not      "block" compares two answers at a time: a person who is a combination of three or more is found by "audit" alone
shown here       (grammar_notes/session/trackers.md, limits). There, and everywhere, it is noise and budget that protect.
Source           Denning, Denning, Schwartz 1979, The Tracker; Dwork, Roth 2014, section 1.1 (large sets are no protection)

python examples/nhefs/attacker.py [--quick] [--svg FILE]
"""

from __future__ import annotations

import argparse
import dataclasses
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations
from math import log10
from pathlib import Path

import duckdb

import dpsql
from dpsql.clients.dbapi.connection import Connection
from dpsql.core.loss import EpsilonDelta

FOLDER = Path(__file__).resolve().parent
EPSILONS = ("0.01", "0.1", "1", "3", "10")
QUICK = ("0.01", "1", "10")
LEVELS = ("1", "2", "3", "4", "5")
SECRET = "died_by_1992"
COUNT = "SELECT COUNT(*) FROM patients WHERE"
BAR = 40  # columns


@dataclasses.dataclass(frozen=True)
class Target:
    """A person, as the attacker knows them, and the truth."""

    patient_id: int
    condition: str
    sex: str
    education: str
    secret: bool


@dataclasses.dataclass
class Outcome:
    """The result of one attack on all targets.

    right    targets guessed rightly
    pairs    pairs of which both halves were answered
    tried    pairs
    refused  how often each rule said no
    first    the statement that was the first to be refused; 0: none
    spent    epsilon, of all statements
    """

    targets: int
    right: int = 0
    pairs: int = 0
    tried: int = 0
    statements: int = 0
    refused: Counter[str] = dataclasses.field(default_factory=Counter)
    first: int = 0
    spent: Fraction = Fraction(0)

    @property
    def share(self) -> float:
        return self.right / self.targets


def targets(count: int) -> list[Target]:
    """People whom sex, age and schooling single out, as many dead as alive. An attacker knows them from elsewhere."""
    rows = duckdb.sql(
        "SELECT any_value(patient_id), sex, age, school_years, any_value(education), any_value(died_by_1992) "
        f"FROM '{FOLDER / 'patients.parquet'}' GROUP BY sex, age, school_years HAVING count(*) = 1 ORDER BY 1"
    ).fetchall()
    found = [
        Target(number, f"(sex = '{sex}' AND age = {age} AND school_years = {years})", sex, education, died)
        for number, sex, age, years, education, died in rows
    ]
    random.Random(1992).shuffle(found)
    dead, alive = ([t for t in found if t.secret is truth] for truth in (True, False))
    return [*dead[: count // 2], *alive[: count - count // 2]]


def connect(mode: str) -> Connection:
    """NHEFS without a limit on what is spent, the guard in this mode, and a ledger that forgets."""
    declared = dpsql.read_schema(FOLDER / "schema.toml")
    plenty = EpsilonDelta(Fraction(10**9), Fraction(1, 2))
    privacy = dataclasses.replace(declared.privacy, budget=plenty, caps=plenty)
    guard = dataclasses.replace(declared.guard, mode=mode)
    return dpsql.connect(dataclasses.replace(declared, privacy=privacy, guard=guard), ledger=":memory:")


def groups(education: str) -> Iterator[str]:
    """Sets of education levels that a person is in, as conditions."""
    for size in (2, 3, 1, 4):
        for levels in combinations(LEVELS, size):
            if education in levels:
                yield f"education IN ({', '.join(repr(level) for level in levels)})"


def attack(mode: str, epsilon: str, victims: Sequence[Target], pairs: int) -> Outcome:
    """Guess the secret of every target from differences of answers at this epsilon each."""
    coin, outcome = random.Random(), Outcome(len(victims))
    with connect(mode) as connection:
        for victim in victims:
            differences = []
            for i, group in zip(range(pairs), groups(victim.education), strict=False):
                total = f"{COUNT} {SECRET} AND {group}"
                halves = [total, f"{total} AND NOT {victim.condition}"]
                # which half comes first makes no difference to the guard
                found = {sql: ask(connection, sql, epsilon, outcome) for sql in (halves if i % 2 else halves[::-1])}
                outcome.tried += 1
                with_, without = found[halves[0]], found[halves[1]]
                if with_ is not None and without is not None:
                    outcome.pairs += 1
                    differences.append(with_ - without)
            average = sum(differences) / len(differences) if differences else 0.5
            guess = coin.random() < 0.5 if average == 0.5 else average > 0.5
            outcome.right += guess == victim.secret
    return outcome


def ask(connection: Connection, sql: str, epsilon: str, outcome: Outcome) -> float | None:
    """The answer; None where it is refused, or not shown."""
    outcome.statements += 1
    try:
        cursor = connection.execute(f"/* dpsql: epsilon={epsilon} */ {sql}")
    except dpsql.NotSupportedError as refused:
        outcome.refused[rule(refused)] += 1
        outcome.first = outcome.first or outcome.statements
        return None
    outcome.spent += cursor.privacy.epsilon
    return cursor.fetchone()[0]


def rule(refused: dpsql.Error) -> str:
    """R1 of "rule R1: ..."; else the code."""
    _, found, rest = str(refused).partition("rule ")
    return rest[:2] if found else refused.code


# --- the schema as it is ----------------------------------------------------------------------------------------------


def trackers(victim: Target) -> Iterator[tuple[str, list[str]]]:
    """Ways to one person, each as the statements that it needs. The others share the person's sex."""
    one, others = victim.condition, f"sex = '{victim.sex}'"
    dead = f"{COUNT} {SECRET}"
    yield "by the identifier", [f"{dead} AND patient_id = {victim.patient_id}"]
    yield "asked directly", [f"{dead} AND {one}"]
    yield "total minus one", [dead, f"{dead} AND NOT {one}"]
    yield "in other words", [dead, f"{dead} AND CASE WHEN {one} THEN 'x' ELSE 'y' END LIKE 'y%'"]
    yield (
        "in one statement",
        [f"SELECT COUNT(*), COUNT(*) FILTER (WHERE NOT {one}) FROM patients WHERE {SECRET}"],
    )
    yield "individual tracker", [f"{dead} AND {others}", f"{dead} AND {others} AND NOT {one}"]
    yield (
        "general tracker",
        [
            f"{dead} AND ({one} OR {others})",
            f"{dead} AND ({one} OR NOT {others})",
            f"{dead} AND {others}",
            f"{dead} AND NOT {others}",
        ],
    )
    yield (
        "double tracker",
        [
            f"{dead} AND age < 60",
            f"{dead} AND age < 40",
            f"{dead} AND (age < 40 OR {one})",
            f"{dead} AND age < 60 AND NOT (age < 40 AND {one})",
        ],
    )


def ended(statements: Sequence[str]) -> str:
    """End a tracker with the schema as it is and a new ledger."""
    with dpsql.connect(FOLDER / "schema.toml", ledger=":memory:") as connection:
        for number, sql in enumerate(statements, 1):
            try:
                answer = connection.execute(sql).fetchone()[0]
            except dpsql.NotSupportedError as refused:
                return f"{rule(refused)} refuses statement {number} of {len(statements)}"
        if answer is None:
            return f"R2 does not show the answer to statement {number} of {len(statements)}"
        return f"answered: {answer}"


# --- to look at -------------------------------------------------------------------------------------------------------


def svg(epsilons: Sequence[str], lines: dict[str, Sequence[float]]) -> str:
    """Shares of right guesses against epsilon, on a logarithmic axis."""
    width, height, left, top = 480, 260, 50, 30
    first, last = log10(float(epsilons[0])), log10(float(epsilons[-1]))
    across = [left + (width - 2 * left) * (log10(float(e)) - first) / (last - first) for e in epsilons]
    down = [height - top - (height - 2 * top) * share for share in (0, 0.5, 1)]
    found = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="11">'
    ]
    for y, label in zip(down, ("0", "coin", "1"), strict=True):
        found.append(f'<path d="M{left} {y:g}H{width - left}" stroke="#ccc"/><text x="8" y="{y + 4:g}">{label}</text>')
    for x, epsilon in zip(across, epsilons, strict=True):
        found.append(f'<text x="{x:.1f}" y="{height - 8}" text-anchor="middle">{epsilon}</text>')
    for (name, shares), colour in zip(lines.items(), ("#c0392b", "#2471a3"), strict=True):
        points = [(x, height - top - (height - 2 * top) * share) for x, share in zip(across, shares, strict=True)]
        found.append(
            f'<polyline fill="none" stroke="{colour}" points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in points)}"/>'
        )
        found.append(f'<text x="{left + 10}" y="{points[0][1] - 8:.1f}" fill="{colour}">{name}</text>')
    return "\n".join(
        [*found, f'<text x="{left}" y="16">share of right guesses; epsilon of each statement</text></svg>', ""]
    )


def line(epsilon: str, mode: str, outcome: Outcome) -> str:
    bar = "#" * round(BAR * outcome.share)
    said = "".join(
        f", {name} refuses {count}, first at statement {outcome.first}" for name, count in outcome.refused.items()
    )
    return (
        f"{epsilon:>7}  {mode:5}  {outcome.share:5.0%}  {bar[: BAR // 2]:{BAR // 2}}|{bar[BAR // 2 :]:{BAR // 2}}|"
        f"  both halves of {outcome.pairs} of {outcome.tried} pairs{said}; spent {float(outcome.spent):g}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Play an attacker against NHEFS, without and with the guard.")
    parser.add_argument("--quick", action="store_true", help="fewer values of epsilon and fewer targets")
    parser.add_argument("--svg", metavar="FILE", type=Path, help="draw the shares of right guesses there as well")
    options = parser.parse_args()
    epsilons, victims, pairs = (QUICK, targets(12), 3) if options.quick else (EPSILONS, targets(40), 3)

    print(
        f"-- {len(victims)} people, {pairs} pairs of statements each; a coin is right about half of them (the middle of the bar)"
    )
    print("epsilon  guard  right")
    shares: dict[str, list[float]] = {"off": [], "block": []}
    for epsilon in epsilons:
        for mode, found in shares.items():
            outcome = attack(mode, epsilon, victims, pairs)
            found.append(outcome.share)
            print(line(epsilon, mode, outcome))
    print(
        "  off: what fails at a small epsilon works at an absurd one; block: no pair is ever complete, whatever epsilon is"
    )

    print("\n-- the schema as it is: epsilon 0.1 a statement, 4 for all of them together, block, k = 20")
    for name, statements in trackers(victims[0]):
        print(f"  {name:20}{ended(statements)}")
    print("  what was answered before a refusal was charged; a refusal is free")
    if options.svg is not None:
        options.svg.write_text(
            svg(epsilons, {"guard off": shares["off"], "guard on": shares["block"]}), encoding="utf-8"
        )
        print(f"\nwritten: {options.svg}")


if __name__ == "__main__":
    main()
