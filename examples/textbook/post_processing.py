"""Post-processing: what is computed from an answer costs nothing.

Mechanism    none: any function of a released answer, without looking at the data again
Sensitivity  none
Guarantee    if M is (epsilon, delta)-differentially private, so is f(M) for every f, also a random one
Source       Dwork, Roth 2014, proposition 2.1

In SQL that is everything *after* the aggregation: HAVING, ORDER BY, LIMIT, arithmetic, windows over groups, queries around
the query. dpsql releases the groups once and computes the rest from noisy numbers alone: releases 0, price 0. The
same holds for asking again, also in other words.
"""

from show import ask, connect

FIRST = "SELECT site, COUNT(*) AS people FROM person GROUP BY site"
AFTERWARDS = {
    "again": FIRST,
    "in other words": "SELECT COUNT(*) AS n, p.site AS place FROM person AS p GROUP BY 2",
    "HAVING": f"{FIRST} HAVING COUNT(*) > 1000",
    "ORDER BY and LIMIT": f"{FIRST} ORDER BY people DESC LIMIT 1",
    "arithmetic": "SELECT site, COUNT(*) / 6000.0 AS share, SQRT(ABS(COUNT(*))) AS root FROM person GROUP BY site",
    "a window": "SELECT site, RANK() OVER (ORDER BY COUNT(*) DESC) AS place FROM person GROUP BY site",
    "a query around it": f"SELECT MAX(people) - MIN(people) AS gap FROM ({FIRST}) AS found",
    "totals": "SELECT site, COUNT(*) AS people FROM person GROUP BY ROLLUP (site)",
    "with itself": f"WITH a AS ({FIRST}) SELECT COUNT(*) AS pairs FROM a AS x JOIN a AS y ON x.people > y.people",
}
NEW = {
    "a condition on people's rows": "SELECT site, COUNT(*) AS people FROM person WHERE female GROUP BY site",
    "another price, so other noise": f"/* dpsql: epsilon=0.2 */ {FIRST}",
}


def main() -> None:
    connection = connect()

    print("-- the release")
    ask(connection, FIRST, most=3)

    print("\n-- functions of it: releases 0, price 0")
    for title, sql in AFTERWARDS.items():
        print(f"\n-- {title}", end="")
        ask(connection, sql, most=3)

    print("\n-- not post-processing: what looks at people's rows in another way is another question")
    for title, sql in NEW.items():
        print(f"\n-- {title}", end="")
        ask(connection, sql, most=3)


if __name__ == "__main__":
    main()
