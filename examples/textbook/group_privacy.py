"""Group privacy: what a promise about one person says about a household of k.

Mechanism    any. What is (epsilon, 0)-differentially private for one person is (k epsilon, 0)-differentially private for
             every group of k: walk from one database to the other, one person at a time.
Sensitivity  a count changes by at most k if a household of k leaves
Guarantee    k epsilon; with delta, also (e^(k epsilon) - 1) / (e^epsilon - 1) times delta: e^epsilon more at each step
Source       Dwork, Roth 2014, theorem 2.2; Vadhan 2017, *The Complexity of Differential Privacy*, lemma 2.2, for delta

With `household = 4` under [privacy], as in household.toml, EXPLAIN states it beside the price. It changes neither noise nor
price: for a promise of epsilon to households, ask at epsilon / k. Where a household has a number of its own in the data,
declare *it* as the unit.
"""

from math import exp

from show import ask, connect, explain, half_width

EPSILON = 0.1
COUNT = "SELECT COUNT(*) AS people FROM person"


def laplace(z: int, epsilon: float) -> float:
    """The probability of noise z: discrete Laplace of scale 1 / epsilon."""
    return (1 - exp(-epsilon)) / (1 + exp(-epsilon)) * exp(-epsilon * abs(z))


def main() -> None:
    connection = connect("textbook/household.toml")

    print(f"-- k people at epsilon {EPSILON:g}: how much likelier an answer can be with them than without")
    print("     k  k epsilon  at most   in fact, for a noisy count")
    for k in (1, 2, 4, 8):
        # without them the count is n - k, so the answer n + z needs noise z + k
        worst = max(laplace(z, EPSILON) / laplace(z + k, EPSILON) for z in range(-100, 101))
        print(f"  {k:4}  {k * EPSILON:9.1f}  {exp(k * EPSILON):7.3f}   {worst:.3f}")

    print("\n-- dpsql states it, where the schema says how many belong together")
    explain(connection, COUNT, "household", "scale", "price:")
    ask(connection, COUNT)

    print("\n-- a promise of 0.4 to households of 4 is one of 0.1 to persons: four times the error")
    for epsilon in (0.4, 0.1):
        width = half_width(connection, f"/* dpsql: epsilon={epsilon:g} */ {COUNT}")
        print(f"  epsilon {epsilon:g} for a person, {4 * epsilon:g} for a household: +-{width:g}")


if __name__ == "__main__":
    main()
