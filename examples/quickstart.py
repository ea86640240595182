"""A first session: three questions with their error bars and prices, one asked again, a refusal, and what is left.

    python examples/quickstart.py

The numbers differ from run to run: that is the noise.
"""

from __future__ import annotations

from pathlib import Path

import dpsql
from dpsql.clients.dbapi.cursor import Cursor

SCHEMA = Path(__file__).parent / "randhie/schema.toml"
INCOME = "SELECT COUNT(*) AS people, AVG(income) AS mean_income FROM person"
SITES = "SELECT site, COUNT(*) AS people FROM person GROUP BY site ORDER BY site"
NEVER = """
SELECT coinsurance_pct, COUNT(*) AS people, 100 * COUNT_IF(visits = 0) / COUNT(*) AS percent
FROM (SELECT person_id, SUM(md_visits) AS visits FROM person_year GROUP BY person_id) AS seen
JOIN person USING (person_id) JOIN plan USING (plan)
GROUP BY coinsurance_pct ORDER BY coinsurance_pct /* dpsql: epsilon=0.5 */"""
QUESTIONS = {
    "How many people, and what do they earn?": INCOME,
    "Where do they live?": SITES,
    "Who pays a share of the bill, and how many of them never saw a doctor?": NEVER,
    "Where do they live, once more?": SITES,
}


def main() -> None:
    # A ledger in memory forgets what was spent; without `ledger` it is a file beside the schema, and remembers.
    with dpsql.connect(SCHEMA, ledger=":memory:") as connection:
        for title, sql in QUESTIONS.items():
            print(f"{title}\n")
            cursor = connection.execute(sql)
            show(cursor)
            privacy = cursor.privacy
            price = "the stored answer, free" if privacy.cached else f"price: epsilon {float(privacy.epsilon)}"
            print(f"\n  {price}; remaining: epsilon {float(privacy.remaining)}\n")

        print("A sum over values without bounds is refused, and costs nothing:\n")
        try:
            connection.execute("SELECT SUM(family_size) FROM person_year")
        except dpsql.Error as refusal:
            print(f"{refusal}\n")

        left, statements = connection.execute("SELECT remaining_epsilon, statements_left FROM dpsql.budget").fetchall()[
            0
        ]
        print(f"Left of the budget: epsilon {left}, enough for {statements} more statements at the usual price.")


def show(cursor: Cursor) -> None:
    """The rows, each released value with the distance that holds the exact one in 95 of 100 cases."""
    for row, accuracy in zip(cursor.fetchall(), cursor.accuracy, strict=True):
        cells = []
        for (name, *_), value, interval in zip(cursor.description or [], row, accuracy, strict=True):
            if interval is None:
                cells.append(f"{name} {value}")
            else:
                places = 0 if isinstance(value, int) else 1
                cells.append(f"{name} {value:,.{places}f} +-{(interval.high - interval.low) / 2:,.{places}f}")
        print("  " + "   ".join(cells))


if __name__ == "__main__":
    main()
