"""An average: composition of a sum and a count, against the shared pair.

Mechanism    by composition: SUM(x) at epsilon / 2 and COUNT(x) at epsilon / 2, each with Laplace noise, then the quotient.
             The shared pair: two cells A = sum(x - L) and B = sum(U - x), both with Laplace noise at the *whole* epsilon,
             and AVG = L + (U - L) A / (A + B).
Sensitivity  SUM: U = 30,000. COUNT: 1. The pair: a row adds x - L to A and U - x to B, together exactly W = U - L whatever x
             is, so the L1 sensitivity of (A, B) is W and the count comes for free.
Guarantee    (epsilon, 0)-differential privacy, the same epsilon in both
Source       Dwork, Roth 2014: theorem 3.6 on a vector, theorem 3.16 (composition), proposition 2.1 (the quotient is
             post-processing). Kulesza, Suresh, Wang 2024 (arXiv 2312.06658) for the pair.

The truth is computed here by DuckDB from the public example file.
"""

from show import ask, connect, explain, truth

EPSILON = 0.1


def main() -> None:
    connection = connect()
    halves = f"/* dpsql: epsilon={EPSILON / 2:g} */"
    whole = f"/* dpsql: epsilon={EPSILON:g} */"

    print("-- by composition: two statements at half the price each")
    ((dollars,),), ((total,),) = ask(connection, f"{halves} SELECT SUM(income) AS dollars FROM person")
    ((people,),), ((count,),) = ask(connection, f"{halves} SELECT COUNT(income) AS people FROM person")
    # the corners of both intervals: right at once with at least 90 %, so not even as sure as the 95 % of the pair
    low, high = total.low / count.high, total.high / count.low
    composed = (high - low) / 2
    print(f"  quotient {dollars / people:,.0f} [{low:,.0f}, {high:,.0f}]")

    print("\n-- the shared pair: one statement at the whole price")
    pair = f"{whole} SELECT AVG(income) AS mean FROM person"
    explain(connection, pair, "sum and count", "one person changes", "scale", "half-width", "about")
    _, ((interval,),) = ask(connection, pair)
    shared = (interval.high - interval.low) / 2

    print("\n-- at the same total epsilon")
    print(f"  by composition +-{composed:,.0f} (at least 90 %)")
    print(f"  shared pair    +-{shared:,.0f} (at least 95 %): {shared / composed:.0%} of it")

    print("\n-- the count and the sum beside the average are read off the same pair: no further price")
    ask(connection, f"{whole} SELECT AVG(income) AS mean, SUM(income) AS dollars, COUNT(income) AS people FROM person")
    ((mean,),) = truth("SELECT AVG(LEAST(income, 30000)) FROM '{randhie}/person.parquet'")
    print(f"\n  truth, from the public file: {mean:,.0f}")


if __name__ == "__main__":
    main()
