"""Composition: sequential, parallel and advanced.

Mechanism    any k mechanisms, one after the other, each chosen after seeing the answers before it
Sensitivity  beside each other in one GROUP BY: a person who is in one group only moves one cell
Guarantee    sequential: k releases at (e_i, d_i) are together (sum of e_i, sum of d_i). This is what the ledger does.
             parallel: releases about disjoint sets of people cost the largest of their prices. dpsql sees that as
             sensitivity, inside one statement: one price whatever the number of groups.
             advanced: k releases at epsilon each are, for any d > 0, also (epsilon', k delta + d) with
             epsilon' = epsilon sqrt(2 k ln(1 / d)) + k epsilon (e^epsilon - 1):
             of many cheap releases, about sqrt(k) epsilon instead of k epsilon. What it costs is d.
Source       Dwork, Roth 2014: theorem 3.16 (sequential), theorem 3.20 (advanced; Dwork, Rothblum, Vadhan 2010); McSherry
             2009, theorem 4 (parallel); Rogers, Roth, Ullman, Vadhan 2016 for prices that are chosen on the way.

The ledger adds up; the advanced bound is computed here, beside it, and buys nothing.
"""

from math import exp, log, sqrt

from show import ask, connect


def advanced(epsilon: float, k: int, slack: float) -> float:
    """Theorem 3.20, for k mechanisms of the same epsilon."""
    return epsilon * sqrt(2 * k * log(1 / slack)) + k * epsilon * (exp(epsilon) - 1)


def main() -> None:
    connection = connect()

    print("-- sequential: the ledger adds up")
    for site in range(1, 4):
        ask(connection, f"SELECT COUNT(*) AS people FROM person WHERE site = {site}")
    print("  three disjoint sets of people, but three statements: each is charged")

    print("\n-- parallel, inside one GROUP BY: one price for 6 groups, for 18, for 606")
    for keys in ("site", "plan", "site, CAST(mental_health_index AS INTEGER)"):
        cursor = connection.execute(f"SELECT COUNT(*) AS people FROM person GROUP BY {keys}")
        print(f"  GROUP BY {keys}: {cursor.rowcount} groups, epsilon {float(cursor.privacy.epsilon):g}")
    print("  not parallel: a person is in up to five years, so l1 is 5 and the noise is five times as wide")
    cursor = connection.execute("SELECT year, COUNT(DISTINCT person_id) AS people FROM person_year GROUP BY year")
    near = cursor.accuracy[0][1]
    print(f"  GROUP BY year: {cursor.rowcount} groups, +-{(near.high - near.low) / 2:g} instead of +-30, epsilon 0.1")

    print("\n-- many cheap releases: how many people have at least t dollars, at epsilon 0.01 each")
    cheap, k, slack = 0.01, 100, 1e-6
    before = cursor.privacy.remaining
    for i in range(k):
        statement = f"/* dpsql: epsilon={cheap} */ SELECT COUNT(*) AS people FROM person WHERE income >= ?"
        cursor = connection.execute(statement, [200 * (i + 1)])
    print(f"  {k} statements; the ledger charged epsilon {float(before - cursor.privacy.remaining):g}")
    print(f"  theorem 3.20 at d = {slack:g} would say epsilon {advanced(cheap, k, slack):.3f}")

    print(f"\n-- the bounds for k releases, d = {slack:g}: for few or dear ones plain addition is smaller")
    print("  epsilon      k  sequential  advanced")
    for epsilon in (0.1, 0.01):
        for k in (10, 30, 100, 1000):
            print(f"  {epsilon:7}  {k:5}  {epsilon * k:10.2f}  {advanced(epsilon, k, slack):8.2f}")


if __name__ == "__main__":
    main()
