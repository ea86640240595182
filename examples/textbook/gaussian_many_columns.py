"""The Gaussian mechanism: when L2 beats L1.

Mechanism    answer + N(0, sigma^2) in each of k cells, here the discrete Gaussian; against Laplace of scale Delta_1 / epsilon
Sensitivity  one person may be in all k groups of a statement: they change k counts by 1 each, so Delta_1 = k, but only
             Delta_2 = sqrt(k). Laplace noise grows like k, Gaussian noise like sqrt(k) times a constant near
             sqrt(2 ln(1 / delta)).
Guarantee    Laplace (epsilon, 0); Gaussian (epsilon, delta), through concentrated differential privacy
Source       Dwork, Roth 2014, theorem 3.22 and appendix A; Bun, Steinke 2016, proposition 1.3; Canonne, Kamath, Steinke 2020.
             Laplace: theorem 3.6.

The k questions are thresholds of income: how many people have at least t dollars? Whoever is rich is in all the groups.
"""

from show import ask, connect, explain, half_width

OPTIONS = "/* dpsql: epsilon=0.5, delta=1e-8, mechanism={} */"


def thresholds(k: int) -> str:
    """One statement, k groups, one person in up to k of them."""
    lines = [30000 * i // (k + 1) for i in range(1, k + 1)]
    parts = " UNION ALL ".join(f"SELECT person_id, {t} AS dollars FROM person WHERE income >= {t}" for t in lines)
    return f"{OPTIONS} SELECT dollars, COUNT(DISTINCT person_id) AS people FROM ({parts}) GROUP BY dollars"


def columns(k: int) -> str:
    """The same questions as k aggregates side by side."""
    lines = [30000 * i // (k + 1) for i in range(1, k + 1)]
    counts = ", ".join(f"COUNT_IF(income >= {t}) AS from_{t}" for t in lines)
    return f"{OPTIONS} SELECT {counts} FROM person"


def main() -> None:
    # where epsilon and delta are added up; by rho both kinds of noise have the same price, and Gaussian noise is always less wide
    connection = connect(accounting="sequential")

    print("-- one person in k groups: 95 % half-width of each count at epsilon 0.5 (Gaussian: delta 1e-8)")
    print("     k   laplace  gaussian  better")
    for k in (1, 2, 5, 10, 20, 40):
        laplace, gaussian = (half_width(connection, thresholds(k).format(m)) for m in ("laplace", "gaussian"))
        print(f"  {k:4}  {laplace:8.0f}  {gaussian:8.0f}  {'gaussian (L2)' if gaussian < laplace else 'laplace (L1)'}")

    print("\n-- five of them, as EXPLAIN has it")
    for mechanism in ("laplace", "gaussian"):
        explain(connection, thresholds(5).format(mechanism), "one person changes", "scale", "sigma", "half-width")

    print("\n-- where a person is in one group only, L1 = L2 = 1 and Laplace is better")
    for mechanism in ("laplace", "gaussian"):
        sql = f"{OPTIONS.format(mechanism)} SELECT site, COUNT(*) AS people FROM person GROUP BY site"
        explain(connection, sql, "one person changes", "half-width")

    print("\n-- mechanism=auto takes the better one, by what EXPLAIN would say of both: the data has no part in it")
    for k in (5, 20):
        explain(connection, thresholds(k).format("auto"), "mechanism:", "half-width")

    print("\n-- as k aggregates side by side each is a statistic with its equal share of (epsilon, delta)")
    for k in (5, 20):
        widths = (half_width(connection, columns(k).format(m)) for m in ("laplace", "gaussian"))
        print("  k = {}: laplace {:.0f}, gaussian {:.0f}".format(k, *widths))

    print("\n-- an answer")
    ask(connection, thresholds(20).format("gaussian"), most=5)


if __name__ == "__main__":
    main()
