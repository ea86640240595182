"""The Laplace mechanism: a count, a clamped sum, and what the noise looks like.

Mechanism    answer + Lap(Delta / epsilon), here on integers (the discrete Laplace or two-sided geometric distribution)
Sensitivity  a count: one person with one row changes it by at most Delta = 1. A sum of values clamped to [0, U]: by at
             most Delta = U. The clamp is what makes it finite; the bounds are declared, never taken from the data.
Guarantee    (epsilon, 0)-differential privacy for one person added or removed
Source       Dwork, Roth 2014, section 3.3: definitions 3.1 and 3.3, theorem 3.6; examples 3.1 (counting queries) and
             3.2 (histograms). Ghosh, Roughgarden, Sundararajan 2009 for the discrete distribution.

How wide is the noise? Asking again shows nothing: the same question gets the stored answer, free and identical, else
an average over many repetitions would wear the noise off. So the spread is measured over the many groups of one
histogram: each has noise of its own, and all of them together cost one epsilon, as a person is in one group only.
"""

from show import ask, connect, explain, truth

EPSILON = 0.1
HISTOGRAM = """SELECT site, CAST(mental_health_index AS INTEGER) AS health, COUNT(*) AS people
FROM {person} GROUP BY site, health"""


def main() -> None:
    connection = connect()

    print("-- scale = sensitivity / epsilon, before anything is spent")
    words = ("one person changes", "scale", "half-width")
    explain(connection, "/* dpsql: epsilon=0.1 */ SELECT COUNT(*) AS people FROM person", *words)
    explain(connection, "/* dpsql: epsilon=0.2 */ SELECT COUNT(*) AS people FROM person", *words)
    explain(connection, "/* dpsql: epsilon=0.1 */ SELECT SUM(income) AS dollars FROM person", *words)
    half = "/* dpsql: epsilon=0.1 */ SELECT dp_sum(income, lower := 0, upper := 15000) AS dollars FROM person"
    explain(connection, half, *words)

    print("\n-- half the clamp has half the noise, and cuts off what is above: a bias that no interval shows")
    for sql in ("SELECT COUNT(*) AS people FROM person", "SELECT SUM(income) AS dollars FROM person", half):
        ask(connection, sql)
    ((people, dollars, clamped),) = truth("""SELECT COUNT(*), SUM(LEAST(income, 30000)), SUM(LEAST(income, 15000))
        FROM '{randhie}/person.parquet'""")
    print(f"  truth, from the public file: people {people}, dollars {dollars:,.0f}, clamped {clamped:,.0f}")

    print("\n-- asked three times: one price, one answer")
    for _ in range(3):
        cursor = connection.execute("SELECT COUNT(*) AS women FROM person WHERE female")
        print(f"  {cursor.fetchone()} at epsilon {float(cursor.privacy.epsilon):g}")

    print("\n-- the noise of 606 groups, at the price of one statement")
    rows, _ = ask(connection, HISTOGRAM.format(person="person"), most=3)
    exact = {(s, h): n for s, h, n in truth(HISTOGRAM.format(person="'{randhie}/person.parquet'"))}
    noise = [n - exact.get((site, health), 0) for site, health, n in rows]
    covered = sum(abs(z) <= 30 for z in noise) / len(noise)
    print(f"  noise = answer - truth (from the public file) in {len(noise)} groups")
    print(f"  mean {sum(noise) / len(noise):+.2f} (expected 0)")
    print(f"  mean of |noise| {sum(map(abs, noise)) / len(noise):.2f} (expected: the scale, {1 / EPSILON:g})")
    print(f"  within +-30: {covered:.1%} (expected: a little more than 95 %)")


if __name__ == "__main__":
    main()
