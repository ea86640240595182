"""The exponential mechanism and report noisy max: the most common value, and the three most common.

Mechanism    permute-and-flip over the declared values, scored by how many people have each: the values in random order,
             each taken with probability exp(epsilon (score - best score)). It equals report noisy max with exponential
             noise, and is never worse than the exponential mechanism. The three most common are three choices at
             epsilon / 3 each, of what is left (peeling).
Sensitivity  of a score: 1. Scores are counts, so a person added raises one and lowers none (monotone): that saves a factor 2.
Guarantee    (epsilon, 0)-differential privacy. Only the winner is released, not its count; the margin grows with the
             logarithm of the number of candidates.
Source       Dwork, Roth 2014, section 3.3 (report noisy max, claim 3.9) and section 3.4 (the exponential mechanism, theorems
             3.10 and 3.11); McKenna, Sheldon 2020 (permute-and-flip); Durfee, Rogers 2019 (peeling).

The alternative is a noisy histogram: each count gets noise, and sorting what was released is free. As a person is in one
group only it costs one epsilon too, and it shows the counts. Truth: DuckDB on the public example file.
"""

from math import ceil, log

from show import ask, connect, explain, truth

EPSILON, VALUES, LEVEL = 0.1, 18, 0.95
MODE = "SELECT MODE(plan) AS top FROM person"
TOP = "SELECT APPROX_TOP_K(plan, 3) AS top FROM person"
HISTOGRAM = "SELECT plan, COUNT(*) AS people FROM person GROUP BY plan ORDER BY COUNT(*) DESC LIMIT 3"


def main() -> None:
    connection = connect()

    print("-- the choices: EXPLAIN says how far behind the largest count a chosen value may be")
    for sql in (MODE, TOP):
        explain(connection, sql, "choice", "one row changes", "rate", "of the largest")
        ask(connection, sql)

    print("\n-- the noisy histogram: the same price for the counts of all 18 plans, and sorting is post-processing")
    explain(connection, HISTOGRAM, "group key", "one person changes", "scale", "half-width")
    ask(connection, HISTOGRAM)

    # all counts are within t of the truth at once with 95 %: 18 exp(-t epsilon) = 5 %; two of them change places within 2 t
    all_at_once = log(VALUES / (1 - LEVEL)) / EPSILON
    choice = log((VALUES - 1) / (1 - LEVEL)) / EPSILON
    print(f"\n-- how far a value's count is behind that of the value which belongs in its place, with {LEVEL:.0%}")
    print(f"  one choice                       {ceil(choice):5}")
    print(f"  each of three choices            {ceil(3 * choice):5}")
    print(f"  any place of a sorted histogram  {ceil(2 * all_at_once):5}")
    print("  so for one winner a choice is better, and from three on, where nobody is in two groups, the histogram is")

    exact = truth("SELECT plan, COUNT(*) FROM '{randhie}/person.parquet' GROUP BY plan ORDER BY 2 DESC LIMIT 5")
    gap = exact[0][1] - exact[1][1]
    print(f"\n  truth, from the public file, (plan, people): {exact}")
    print(f"  the first leads by {gap}: MODE gives the second with probability at most exp(-{EPSILON:g} x {gap})")


if __name__ == "__main__":
    main()
