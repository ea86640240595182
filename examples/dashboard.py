"""A dashboard that is paid for once: a cube is bought, and ten charts with error bars are read off it, free.

    pip install "dpsql[examples]"
    python examples/dashboard.py

Draws dashboard.png in the working folder. The numbers differ from run to run: that is the noise.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

import dpsql

SCHEMA = Path(__file__).resolve().parent / "randhie/schema.toml"
ROWS = "FROM person_year JOIN person USING (person_id) JOIN plan USING (plan)"
# few have more than 20 visits a year: less noise for a small, known distortion
VISITS = "LEAST(md_visits, 20)"
CUBE = f"""CREATE PRIVATE CUBE visits OPTIONS (epsilon = 1, ways = 2) AS
SELECT coinsurance_pct, site, year, female, COUNT(*), SUM({VISITS}) {ROWS} GROUP BY CUBE (coinsurance_pct, site, year, female)"""
MEAN = f"AVG({VISITS})"
CHARTS = {
    "Visits a year, by share of the bill": f"SELECT coinsurance_pct, {MEAN} {ROWS} GROUP BY coinsurance_pct",
    "... of women": f"SELECT coinsurance_pct, {MEAN} {ROWS} WHERE female GROUP BY coinsurance_pct",
    "... of men": f"SELECT coinsurance_pct, {MEAN} {ROWS} WHERE NOT female GROUP BY coinsurance_pct",
    "... in the first two years": f"SELECT coinsurance_pct, {MEAN} {ROWS} WHERE year <= 2 GROUP BY coinsurance_pct",
    "Visits a year, by place": f"SELECT site, {MEAN} {ROWS} GROUP BY site",
    "Visits a year, by year": f"SELECT year, {MEAN} {ROWS} GROUP BY year",
    "... of who pays nothing": f"SELECT year, {MEAN} {ROWS} WHERE coinsurance_pct = 0 GROUP BY year",
    "Person-years, by place": f"SELECT site, COUNT(*) {ROWS} GROUP BY site",
    "Person-years, by share of the bill": f"SELECT coinsurance_pct, COUNT(*) {ROWS} GROUP BY coinsurance_pct",
    "Places with more than 3,000 person-years": f"SELECT site, COUNT(*) {ROWS} GROUP BY site HAVING COUNT(*) > 3000 ORDER BY 2 DESC",
}


def main() -> None:
    # A ledger in memory forgets what was spent; without `ledger` it is a file beside the schema, and remembers.
    with dpsql.connect(SCHEMA, ledger=":memory:") as connection:
        bought = connection.execute(CUBE).privacy
        print(
            f"the cube: rho {float(bought.rho):.4f}, once; {bought.statements} statements at the default price are left"
        )
        figure = Figure(figsize=(20, 7), layout="constrained")
        paid = Fraction(0)
        for place, (title, sql) in enumerate(CHARTS.items(), start=1):
            cursor = connection.execute(sql)
            draw(figure.add_subplot(2, 5, place), title, cursor)
            paid += cursor.privacy.rho
        print(f"{len(CHARTS)} charts: rho {float(paid):g}")
        figure.savefig("dashboard.png")
        print("written: dashboard.png")


def draw(axes: Axes, title: str, cursor: dpsql.Cursor) -> None:
    """One chart: a point a group, with the distance that holds the exact value in 95 of 100 cases."""
    for (group, value), (_, interval) in zip(cursor.fetchall(), cursor.accuracy, strict=True):
        if value is None or interval is None:
            continue
        low, high = interval.ends
        number = float(value)
        axes.errorbar(
            [str(group)], [number], yerr=[[number - low], [high - number]], fmt="o", color="tab:blue", capsize=3
        )
    axes.set_title(title, fontsize=10)
    axes.set_ylim(bottom=0)


if __name__ == "__main__":
    main()
