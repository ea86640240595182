# ruff: noqa: B018, E402 - cells show their last expression, and import where something is used first
"""Does who pays see the doctor less often? A notebook as a script: open it in an editor that knows cells, or run it as it is.

    pip install "dpsql[examples]"
    python examples/notebook.py

As a program it prints what a notebook would show, and draws visits.png in the working folder.
"""

# %% [markdown]
# The RAND Health Insurance Experiment gave families insurance plans by lot. `coinsurance_pct` is the share of a bill that they paid
# themselves. Every answer about people has noise, so every number comes with its error bar; the budget says how much may be asked.

# %%
from pathlib import Path

import pandas as pd

import dpsql

EXAMPLES = Path(globals().get("__file__", "examples/notebook.py")).resolve().parent
# this ledger forgets; real work leaves the argument out, so that what was spent stays spent
connection = dpsql.connect(EXAMPLES / "randhie/schema.toml", ledger=":memory:")
budget = connection.execute("SELECT epsilon, spent_epsilon, remaining_epsilon FROM dpsql.budget").fetch_df()
print(budget.to_string(index=False))

# %% [markdown]
# What would it cost, and how exact would it be? A plan is free. A person has at most 80 visits a year by declaration, and noise
# covers the whole range; few have more than 20, so less noise buys a small, known distortion.

# %%
VISITS = """
SELECT coinsurance_pct, COUNT(*) AS years, AVG(LEAST(md_visits, 20)) AS visits
FROM person_year JOIN person USING (person_id) JOIN plan USING (plan)
GROUP BY coinsurance_pct ORDER BY coinsurance_pct"""
for line in connection.explain(VISITS).split("\n"):
    if "half-width" in line or "price:" in line:
        print(line.strip())

# %% [markdown]
# Asked once, at a larger price. A notebook shows the cursor as a table with plus-minus in each cell.

# %%
cursor = connection.execute(f"/* dpsql: epsilon=0.5 */ {VISITS}")
cursor

# %% [markdown]
# As a data frame, with what the noise may be off by, with 95 % probability.

# %%
bars = [row[2] for row in cursor.accuracy]
frame = cursor.fetch_df().assign(low=[bar.low for bar in bars], high=[bar.high for bar in bars])
print(frame.round(2).to_string(index=False))
print(f"price: epsilon {float(cursor.privacy.epsilon):g}; left: {float(cursor.privacy.remaining):g}")

# %% [markdown]
# The plot. A longer bar is a smaller group, not a worse plan; where bars overlap, the difference may be noise.

# %%
import matplotlib.pyplot as plt

figure, axes = plt.subplots(figsize=(6, 3.5), layout="constrained")
ends = [frame["visits"] - frame["low"], frame["high"] - frame["visits"]]
axes.errorbar(frame["coinsurance_pct"], frame["visits"], yerr=[end.clip(lower=0) for end in ends], fmt="o", capsize=4)
axes.set(xlabel="share of the bill that people pay [%]", ylabel="visits to physicians a year", ylim=(0, None))
axes.set_title("95 % error of the noise, epsilon 0.5", fontsize="medium")
figure.savefig("visits.png", dpi=150)

# %% [markdown]
# What is computed from released numbers is free: here, everybody who pays against those who do not.

# %%
frame["pays"] = frame["coinsurance_pct"] > 0
frame["total"] = frame["visits"] * frame["years"]
by_pay = frame.groupby("pays")[["total", "years"]].sum()
print((by_pay["total"] / by_pay["years"]).round(2).rename("visits").reset_index().to_string(index=False))

# %% [markdown]
# So is what was asked before, and pandas, polars and Arrow read from the connection themselves.

# %%
again = connection.execute(f"/* dpsql: epsilon=0.5 */ {VISITS}")
same = pd.DataFrame(again.fetchall(), columns=[column[0] for column in again.description])
print("asked again:", "stored answer, free;" if again.privacy.cached else "new;", len(same), "rows")
connection.close()
