"""Many error bars at once: 95 % of each is not 95 % of all.

Mechanism    discrete Laplace noise in every group of one GROUP BY
Sensitivity  one person is in one group, so every cell has the same noise, whatever the number of groups
Guarantee    (epsilon, 0) for all groups together. Of the error: each cell is within h_95 with 95 %; all m of them are within the
             half-width of level 1 - 0.05 / m with 95 %, as the chances to miss add up at most. It grows with ln(m) alone
Source       Dwork, Roth 2014, theorem 3.8 (the largest of many draws of Laplace noise); Boole's inequality
"""

from fractions import Fraction

from show import connect, truth

from dpsql.mechanisms.laplace import DiscreteLaplace

KEYS = "site, CAST(mental_health_index AS INTEGER)"
SCALE = Fraction(10)


def main() -> None:
    """Print how many cells miss their own bar, and how many miss the joint one."""
    connection = connect()
    exact = {
        row[:2]: row[2] for row in truth(f"SELECT {KEYS}, COUNT(*) FROM '{{randhie}}/person.parquet' GROUP BY ALL")
    }
    cursor = connection.execute(f"SELECT {KEYS}, COUNT(*) AS people FROM person GROUP BY 1, 2")
    rows = cursor.fetchall()
    errors = [abs(people - exact.get((site, index), 0)) for site, index, people in rows]
    noise = DiscreteLaplace(SCALE)
    one, every = (noise.half_width(level) for level in (Fraction(19, 20), 1 - Fraction(1, 20) / len(rows)))
    print(f"-- {len(rows)} counts at epsilon 0.1, scale {float(SCALE):g}, one answer")
    print(
        f"  the bar of each, +-{one}: missed by {sum(error > one for error in errors)}, about {0.05 * len(rows):.0f} are expected"
    )
    print(
        f"  all together, +-{every}: missed by {sum(error > every for error in errors)}; a miss is expected in 1 of 20 answers"
    )
    print("\n-- the joint half-width grows with the logarithm of the number of cells")
    for cells in (1, 10, 100, 1000, 10_000, 100_000):
        print(f"  {cells:7,}: +-{noise.half_width(1 - Fraction(1, 20) / cells)}")


if __name__ == "__main__":
    main()
