"""The exponential mechanism with a utility of one's own: one price for things that cost nothing to copy.

Mechanism    a price of a public list is chosen with a probability proportional to exp(rate x its revenue), where everybody buys whose
             bid is at least the price: dp_argmax(price, SUM(CASE WHEN bid >= price THEN price ELSE 0 END)).
Sensitivity  of the revenue at each price: one bidder adds between 0 and the highest price h of the list, so the rate is epsilon / h.
Guarantee    (epsilon, 0)-differential privacy, and with it truthful bids are nearly best: who bids otherwise changes the chances of no
             price by more than a factor of e^epsilon. Of m prices the revenue is at most h ln(m / beta) / epsilon below the
             best, but with probability beta.
Source       McSherry, Talwar 2007, Mechanism Design via Differential Privacy; Dwork, Roth 2014, section 3.4 (theorem 3.11) and
             chapter 10.

The bids are invented here, so the truth is known.
"""

import math
import random
import tempfile
from pathlib import Path

from show import ask, explain

import dpsql

PRICES = (1, 2, 4, 6, 8, 9, 10, 12, 15, 20)
BIDDERS = 2000
SCHEMA = """
[dataset]
name = "auction"
source = "."

[privacy]
unit = "bids.bidder"
epsilon = 100.0
delta = 1e-6
units = 2000
query = { epsilon = 0.1, delta = 1e-9 }
caps = { epsilon = 5.0, delta = 1e-8 }

[tables.bids]
source = "bids.csv"
key = ["bidder"]
[tables.bids.columns]
bidder = { type = "BIGINT", role = "identifier" }
bid = { type = "INTEGER", bounds = [0, 20] }

[tables.prices]
public = true
source = "prices.csv"
"""
QUESTION = "SELECT dp_argmax(price, SUM(CASE WHEN bid >= price THEN price ELSE 0 END)) AS price FROM bids, prices"
BETA = 0.05
REPEATS = 60


def invented(folder: Path) -> list[int]:
    """Bids around 9, and the files that hold them and the prices."""
    chance = random.Random(3)
    bids = [min(20, max(0, round(chance.gauss(9, 3)))) for _ in range(BIDDERS)]
    (folder / "bids.csv").write_text("bidder,bid\n" + "".join(f"{i},{bid}\n" for i, bid in enumerate(bids)))
    (folder / "prices.csv").write_text("price\n" + "".join(f"{price}\n" for price in PRICES))
    (folder / "schema.toml").write_text(SCHEMA)
    return bids


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        bids = invented(Path(folder))
        revenue = {price: price * sum(bid >= price for bid in bids) for price in PRICES}
        best = max(revenue.values())
        connection = dpsql.connect(f"{folder}/schema.toml", ledger=":memory:")
        print("-- one question")
        explain(connection, QUESTION, "choice", "two scores", "rate", "its score")
        ((price,),), _ = ask(connection, QUESTION)
        print(f"  truth: it earns {revenue[price]:,}; the best price earns {best:,}")
        print(f"\n-- {REPEATS} auctions at each epsilon: how far below the best price the chosen one earns")
        print("  epsilon   mean   worst but 5 %   bound with 95 %")
        for epsilon in (0.01, 0.03, 0.1, 0.3):
            sql = f"/* dpsql: epsilon={epsilon}, fresh */ {QUESTION}"
            short = sorted(best - revenue[connection.execute(sql).fetchone()[0]] for _ in range(REPEATS))
            bound = max(PRICES) * math.log(len(PRICES) / BETA) / epsilon
            worst = short[int((1 - BETA) * REPEATS)]
            print(f"  {epsilon:<7g} {sum(short) / REPEATS:>6,.0f}   {worst:>13,}   {bound:>15,.0f}")
        connection.close()


if __name__ == "__main__":
    main()
