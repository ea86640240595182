"""Randomized response: the oldest mechanism, and what a trusted curator saves.

Mechanism    each person tells the truth with probability p = e^epsilon / (1 + e^epsilon), else the opposite. Of n answers
             with y times yes, (y - n (1 - p)) / (2 p - 1) estimates how many would truthfully say yes.
Sensitivity  of one answer: it can be the opposite, and that is all. Noise is in it before anything is added up.
Guarantee    (epsilon, 0)-differential privacy of every single answer. The textbook's two coins (heads: the truth; tails: a
             second coin decides) have p = 3/4, so epsilon = ln 3.
Source       Warner 1965; Dwork, Roth 2014, section 3.2, claim 3.5

The textbook's answers hide what a person says, not that they were asked: n is known. dpsql promises to hide that too, so the
price is that of an answer and of Laplace noise on the numbers of answers, 0.4 + 0.1 here. The error of randomized response
grows like sqrt(n); that of a count with noise, by a curator whom all trust, is of the order of 1 / epsilon whatever n
is. The truth, and the coins that this script tosses itself, use the public example file.
"""

from math import exp, log, sqrt
from random import SystemRandom

from show import ask, connect, explain, truth

ANSWER, PRICE = 0.4, 0.5


def kept(epsilon: float) -> float:
    """The chance that the truth is told."""
    return exp(epsilon) / (1 + exp(epsilon))


def by_hand(bits: list[bool], epsilon: float) -> tuple[float, float]:
    """The estimate of how many bits are true, and its 95 % half-width (a normal approximation)."""
    coin, p, n = SystemRandom(), kept(epsilon), len(bits)
    said = [bit if coin.random() < p else not bit for bit in bits]
    return (sum(said) - n * (1 - p)) / (2 * p - 1), 1.96 * sqrt(n * p * (1 - p)) / (2 * p - 1)


def main() -> None:
    bits = [female for (female,) in truth("SELECT female FROM '{randhie}/person.parquet'")]

    print("-- the textbook's coins, tossed here for each person of the public file")
    for name, epsilon in (("two fair coins, epsilon ln 3", log(3)), (f"epsilon {ANSWER:g}", ANSWER)):
        estimate, width = by_hand(bits, epsilon)
        print(f"  {name}: the truth with {kept(epsilon):.0%}; women {estimate:,.0f} +-{width:,.0f}")

    connection = connect()
    option = f"/* dpsql: epsilon={PRICE:g} */"
    print("\n-- in SQL: dpsql tosses the coins")
    sql = f"{option} SELECT dp_randomized_response(female, {ANSWER:g}) AS women FROM person"
    explain(connection, sql, "randomised", "half-width", "price:")
    ask(connection, sql)

    print("\n-- a noisy count at the same price")
    ask(connection, f"{option} SELECT COUNT_IF(female) AS women FROM person")

    print(f"\n  truth, from the public file: {sum(bits):,} women of {len(bits):,}")


if __name__ == "__main__":
    main()
