"""The exponential mechanism over values: the median and other quantiles.

Mechanism    every value v of the declared grid (income: 0 to 30,000 dollars in steps of 1) is a candidate. Its cost is how many
             ranks v is away from the middle, and the release is a choice by cost (permute-and-flip, which is never worse
             than probabilities proportional to exp(-rate x cost)). Values that nobody has are candidates too.
Sensitivity  noise on the median itself would need its sensitivity, up to the whole range of 30,000: one person can
             move it from one end to the other. The *cost* of a value moves by at most 1 (in half ranks), so the rate is epsilon / 2.
Guarantee    (epsilon, 0)-differential privacy. A quarter of the price goes to the interval: noisy numbers of people
             around the released value.
Source       Dwork, Roth 2014, section 3.4 (the exponential mechanism, theorems 3.10 and 3.11); McSherry, Talwar 2007; Smith 2011
             for quantiles.

The truth is computed here by DuckDB from the public example file.
"""

from show import ask, connect, explain, truth


def main() -> None:
    connection = connect()

    print("-- what is promised: a rank, not a distance; where people are dense the value is near")
    median = "SELECT MEDIAN(income) AS middle FROM person"
    explain(connection, median, "choice", "changes each cost", "rate", "ranks")
    ((value,),), _ = ask(connection, median)
    ((exact, below, people),) = truth(f"""SELECT MEDIAN(income), COUNT(*) FILTER (WHERE income < {value}), COUNT(*)
        FROM '{{randhie}}/person.parquet'""")
    print(f"  truth, from the public file: {exact:,.0f}; {below} of {people} are below the released value")

    print("\n-- five times the price: a fifth of the ranks")
    dear = f"/* dpsql: epsilon=0.5 */ {median}"
    explain(connection, dear, "rate", "ranks")
    ask(connection, dear)

    print("\n-- a list is three choices at a third of the price each; as columns they have intervals")
    ask(connection, "/* dpsql: epsilon=0.5 */ SELECT QUANTILE_CONT(income, [0.25, 0.5, 0.75]) AS quartiles FROM person")
    columns = ", ".join(f"QUANTILE_CONT(income, {q}) AS q{100 * q:.0f}" for q in (0.25, 0.5, 0.75))
    ask(connection, f"/* dpsql: epsilon=0.5 */ SELECT {columns} FROM person")
    ((quartiles,),) = truth("SELECT QUANTILE_CONT(income, [0.25, 0.5, 0.75]) FROM '{randhie}/person.parquet'")
    print(f"  truth, from the public file: {quartiles}")

    print("\n-- per group: each person is in one group, so six medians cost what one does")
    ask(connection, "/* dpsql: epsilon=0.5 */ SELECT site, MEDIAN(income) AS middle FROM person GROUP BY site")


if __name__ == "__main__":
    main()
