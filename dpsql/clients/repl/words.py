"""Words of the language that completion offers: keywords by where they stand, functions with how they are called.

tests/clients/repl/test_completion.py sends every function through the planner's grammar.
"""

from __future__ import annotations

from dpsql.aggregates.registry import RECORDS
from dpsql.expressions.functions import FUNCTIONS as REGISTERED
from dpsql.schema import spent

SHOWN = spent.NAMES
BEGINNINGS = ("SELECT", "WITH", "FROM", "EXPLAIN", "SHOW", "DESCRIBE", "SET", "RESET", "PIVOT", "VALUES")
CLAUSES = (
    "FROM", "WHERE", "GROUP BY", "HAVING", "QUALIFY", "ORDER BY", "LIMIT", "OFFSET", "UNION", "UNION ALL", "INTERSECT", "EXCEPT",
)  # fmt: skip
JOINS = ("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "SEMI JOIN", "ANTI JOIN", "CROSS JOIN", "ON", "USING", "AS")
INSIDE = (
    "AND", "OR", "NOT", "IN", "BETWEEN", "LIKE", "ILIKE", "IS NULL", "IS NOT NULL", "IS DISTINCT FROM", "CASE", "WHEN", "THEN",
    "ELSE", "END", "AS", "DISTINCT", "EXISTS", "FILTER (WHERE", "OVER", "PARTITION BY", "WITHIN GROUP", "INTERVAL", "NULL", "TRUE",
    "FALSE", "ASC", "DESC", "NULLS FIRST", "NULLS LAST", "ROLLUP", "CUBE", "GROUPING SETS", "WITH DIFFERENTIAL_PRIVACY",
)  # fmt: skip
_OTHERS = ("BY", "ROWS", "RANGE", "TO", "VALUES", "ALL", "OPTIONS")
_PHRASES = (*BEGINNINGS, *CLAUSES, *JOINS, *INSIDE, *SHOWN, *_OTHERS)
KEYWORDS = frozenset(word for phrase in _PHRASES for word in phrase.replace("(", "").split())

AGGREGATES: dict[str, str] = {
    **{call.partition("(")[0]: call for record in reversed(RECORDS) for call in record.calls},
    "COUNT": "COUNT(*), COUNT(x), COUNT(DISTINCT x)",
    "dp_low": "dp_low(n), the lower end of a column's 95 % error",
    "dp_high": "dp_high(n), the upper end",
}
SCALARS: dict[str, str] = {
    "CAST": "CAST(x AS INTEGER)",
    "TRY_CAST": "TRY_CAST(a AS INTEGER)",
    "EXTRACT": "EXTRACT(year FROM d)",
    "WIDTH_BUCKET": "WIDTH_BUCKET(x, 0, 100, 10)",
    "CURRENT_DATE": "CURRENT_DATE",
    **{function.name.upper(): function.example for function in REGISTERED},
}
OVER_RESULTS: dict[str, str] = {
    "DENSE_RANK": "DENSE_RANK() OVER (ORDER BY n)",
    "LAG": "LAG(n) OVER (ORDER BY k)",
    "LEAD": "LEAD(n) OVER (ORDER BY k)",
    "NTILE": "NTILE(4) OVER (ORDER BY n)",
    "RANK": "RANK() OVER (ORDER BY n)",
    "ROW_NUMBER": "ROW_NUMBER() OVER (ORDER BY n)",
}
FUNCTIONS: dict[str, str] = {**AGGREGATES, **SCALARS, **OVER_RESULTS}
WITHOUT_PARENTHESES = ("CURRENT_DATE",)

OPTIONS: dict[str, str] = {
    "epsilon": "the price of a statement, such as 0.2",
    "delta": "what thresholds may cost, such as 1e-9",
    "max_rows": "the most rows of one person that count",
    "max_groups": "the most groups that one person counts in",
    "max_values": "the most different values of one person in a group",
    "mechanism": "laplace, gaussian or auto",
    "error": "an accuracy in place of a price: 50, or 5%",
    "confidence": "with which the error is kept, such as 0.95",
    "weights": "how aggregates share the price, such as 2:1",
    "groups": "all, or present: those that do not seem to be empty",
    "fresh": "ask and pay anew what is stored",
    "cube": "off: ask anew what a cube could tell",
    "buy": "on: buy what could be read off what is stored; off: buy nothing",
    "jointly": "on: the error bars of all cells hold together",
    "sampling": "on: error bars hold the error of a random sample too",
    "interval": "off: quantiles without their intervals, which cost a share of the price",
}
OF_ONE_STATEMENT = ("weights", "fresh")
"""Options that SET does not have."""
