"""Synthetic data: rows of nobody, drawn from noisy marginals.

Mechanism    every table by two columns, released with Gaussian noise (one cube); rows are drawn along the tree of pairs with the
             most mutual information, and moved until all other pairs fit too: post-processing
Sensitivity  that of the cube: a person is in one cell of each table (grammar_notes/query/cubes.md)
Guarantee    that of the cube alone: rho, (epsilon, delta) by its conversion; rows cost nothing, however many are drawn
Source       Barak and others 2007 (marginals); Zhang and others 2021, PrivSyn; McKenna, Miklau, Sheldon 2021 (trees of marginals)

A histogram of all columns together could be released and sampled from as well, but its cells are many times the people. Tables by two
columns say less, and that well; what three columns have together is a guess.
"""

from itertools import combinations

from show import ask, connect, truth

COLUMNS = {"site": 6, "female": 2, "plan": 18, "FLOOR(income / 2000)": 16, "FLOOR(mental_health_index / 10)": 11}
"""Keys with the number of values that they may have."""
NAMES = ["site", "female", "plan", '"floor((income / 2000))"', '"floor((mental_health_index / 10))"']
EXACT = "FROM '{randhie}/person.parquet'"


def shares(rows: list[tuple]) -> dict[tuple, float]:
    """The share of each group, of rows that end with its number."""
    whole = sum(row[-1] for row in rows)
    return {row[:-1]: row[-1] / whole for row in rows}


def off(one: list[tuple], other: list[tuple]) -> float:
    """Total variation: the most by which the two differ about any set of groups."""
    first, second = shares(one), shares(other)
    return sum(abs(first.get(key, 0) - second.get(key, 0)) for key in first.keys() | second.keys()) / 2


def main() -> None:
    """Print how far the rows are from the truth, by one, two and three columns."""
    connection = connect()
    keys = ", ".join(COLUMNS)
    print("-- bought once")
    ask(
        connection,
        f"CREATE PRIVATE CUBE pairs OPTIONS (epsilon = 1, ways = 2) AS SELECT COUNT(*) FROM person GROUP BY CUBE ({keys})",
        most=2,
    )
    print("\n-- as many rows as one likes, free")
    ask(connection, "CREATE SYNTHETIC TABLE people AS SELECT * FROM pairs")
    ask(
        connection,
        "SELECT site, AVG(plan) AS plan, COUNT(*) AS people FROM synthetic.people GROUP BY site ORDER BY site",
        most=3,
    )

    print("\n-- total variation from the truth: the mean, and the largest")
    named = dict(zip(COLUMNS, NAMES, strict=True))
    for size in (1, 2, 3):
        found = []
        for chosen in combinations(COLUMNS, size):
            exact, own = ", ".join(chosen), ", ".join(named[key] for key in chosen)
            drawn = connection.execute(f"SELECT {own}, COUNT(*) FROM synthetic.people GROUP BY {own}").fetchall()
            found.append(off(drawn, truth(f"SELECT {exact}, COUNT(*) {EXACT} GROUP BY {exact}")))
        print(f"  by {size} of {len(COLUMNS)} columns: {sum(found) / len(found):.3f}   {max(found):.3f}")
    cells = 1
    for values in COLUMNS.values():
        cells *= values
    print(f"\n-- all columns together have {cells:,} cells, for {truth(f'SELECT COUNT(*) {EXACT}')[0][0]:,} people")


if __name__ == "__main__":
    main()
