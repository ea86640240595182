"""Words for what the grammar does not have, as it is written in SQL and not as the parser calls it, and what to write instead."""

from __future__ import annotations

from sqlglot import exp

Words = tuple[str, str]
"""Refused constructs, and what to write instead."""

LEAVE_OUT = "leave it out"
LISTED = "SHOW FUNCTIONS lists what there is"
_TYPES = "write BIGINT, DOUBLE, DECIMAL(18, 2), VARCHAR, DATE, TIMESTAMP or TIME"
_ALL_ROWS = "ask over all rows; the noise already protects people"
_BITS = "write // and % instead"
_TEXT = "a text written like this", "write it in single quotes: 'text'"
_LIST = "a list in [...]", "write x IN (1, 2)"
_ARROW = "-> or a lambda", "write a ->> '$.key.of_it' for a part of a document"
_ROW_LIMIT = "WITH TIES or PERCENT", "write LIMIT and a number"
_SHOWN = "name the columns that are to be shown"

CONSTRUCTS: dict[str, Words] = {
    "Abs": ("@", "write abs(x), or ? for a parameter"),
    "All": ("ALL over a query", "compare with one value"),
    "Array": _LIST,
    "BitString": _TEXT,
    "BitwiseAnd": ("&", _BITS),
    "BitwiseLeftShift": ("<<", _BITS),
    "BitwiseNot": ("~", _BITS),
    "BitwiseOr": ("|", _BITS),
    "BitwiseRightShift": (">>", _BITS),
    "BitwiseXor": ("xor", _BITS),
    "Bracket": ("x[i]", "leave it out; a column that is declared as a list is asked by LIST_CONTAINS(x, 'a')"),
    "ByteString": _TEXT,
    "Collate": ("COLLATE", LEAVE_OUT),
    "ColumnDef": ("a type with fields", _TYPES),
    "Comprehension": _LIST,
    "Dot": ("a field of a value", "dpsql reads no structs: leave it out"),
    "Fetch": _ROW_LIMIT,
    "Heredoc": _TEXT,
    "HexString": _TEXT,
    "HistogramAgg": ("HISTOGRAM()", "GROUP BY width_bucket(x, 0, 100, 10)"),
    "Interval": ("an INTERVAL by itself", "add it to a date, such as d + INTERVAL 1 DAY"),
    "Into": ("SELECT INTO", "leave INTO out: dpsql keeps no tables"),
    "Kwarg": ("=>", "write name := value"),
    "Lambda": _ARROW,
    "Lateral": ("LATERAL of what is no query", "leave LATERAL out: FROM t, UNNEST(t.tags) AS u(tag)"),
    "LimitOptions": _ROW_LIMIT,
    "List": _LIST,
    "Lock": ("FOR UPDATE", LEAVE_OUT),
    "National": _TEXT,
    "Overlaps": ("OVERLAPS", "write a < d AND c < b of the times a to b and c to d"),
    "PositionalColumn": ("#1 for a column", "name the column"),
    "RawString": _TEXT,
    "RegexpILike": ("~*", "write regexp_matches(x, 'pattern', 'i')"),
    "RegexpFullMatch": ("~", "write regexp_matches(x, 'pattern')"),
    "RegexpLike": ("~", "write regexp_matches(x, 'pattern')"),
    "Sample": ("a sample", _ALL_ROWS),
    "Star": ("* among the arguments", "name a column, or write COUNT(*)"),
    "Struct": ("{...}", "write ? for a parameter, and give its value beside the statement"),
    "TableSample": ("a sample", _ALL_ROWS),
    "ToMap": ("MAP", LEAVE_OUT),
    "Tuple": ("a row (a, b)", "write its columns one by one"),
    "UnicodeString": _TEXT,
}  # fmt: skip
"""By the parser's name of a node."""

PARTS: dict[str, Words] = {
    "except_": ("EXCLUDE", _SHOWN),
    "expressions": ("more than one argument", "write one"),
    "field": ("IN without parentheses", "write x IN (?, ?), with one ? for each value"),
    "kind": ("this type", _TYPES),
    "materialized": ("MATERIALIZED", LEAVE_OUT),
    "on": ("DISTINCT ON without ORDER BY", "write GROUP BY, or ORDER BY behind it, which says which row stays"),
    "recursive": ("RECURSIVE", "write out the steps, each as a WITH query of its own"),
    "rename": ("RENAME", _SHOWN),
    "replace": ("REPLACE", _SHOWN),
    "totals": ("WITH TOTALS", "write GROUP BY ROLLUP (a, b)"),
}
"""By the parser's name of a node's part."""

_OCCURS = "ask how often each value occurs: SELECT x, COUNT(*) FROM t GROUP BY x"
_ANEW = "leave it out: it would give another answer each time"
_NOWHERE = "leave it out: nothing of the machine is shown"
_SHOW_VALUES = """
    any_value arbitrary arg_max arg_min argmax argmin array_agg first group_concat last list listagg max_by min_by string_agg"""
_CHANGE = "gen_random_uuid newid nextval rand random setseed uuid"
_OF_MACHINE = """
    current_catalog current_database current_role current_schema current_setting current_user getenv session_user user version"""
FUNCTIONS: dict[str, str] = {
    **dict.fromkeys(_SHOW_VALUES.split(), _OCCURS),
    **dict.fromkeys(_CHANGE.split(), _ANEW),
    **dict.fromkeys(_OF_MACHINE.split(), _NOWHERE),
    "approx_quantiles": "write QUANTILE_CONT(x, [0.25, 0.5, 0.75])",
    "average": "write AVG(x)",
    "dateadd": "write d + INTERVAL 1 DAY",
    "dp_avg": "write AVG(x): all aggregates over people have noise",
    "dp_count": "write COUNT(*): all aggregates over people have noise",
    "histogram": CONSTRUCTS["HistogramAgg"][1],
    "generate_series": "join a public table that holds the values",
    "isnull": "write x IS NULL, or COALESCE(x, 0)",
    "ratio_to_report": "write SUM(x) / SUM(SUM(x)) OVER ()",
    "to_char": "write strftime(d, '%Y-%m'), or CAST(x AS VARCHAR)",
    "to_number": "write TRY_CAST(x AS DOUBLE)",
    "unnest": "JOIN a public table that holds the values",
}  # fmt: skip
"""Hints: what to write instead of a function, by its name."""


SPELLINGS = {
    "PercentileCont": "QUANTILE_CONT",
    "PercentileDisc": "QUANTILE_DISC",
    "Stddev": "STDDEV",
    "Variance": "VARIANCE",
    "GroupConcat": "STRING_AGG",
}
"""DuckDB's names of what the parser has another name for."""


def construct(node: exp.Expression) -> Words:
    """Name a construct for a refusal, by the word that the caller wrote where there is one."""
    if isinstance(node, exp.IgnoreNulls | exp.RespectNulls) and isinstance(node.this, exp.Expression):
        return construct(node.this)
    kind, written = type(node).__name__, node.meta.get("word")
    if kind in CONSTRUCTS and written is None:
        return CONSTRUCTS[kind]
    if isinstance(node, exp.Func):
        word = str(written or SPELLINGS.get(kind) or node.sql_name())
        return f"{word.upper()[:40]}()", FUNCTIONS.get(word.lower(), LISTED)
    return "this operator" if isinstance(node, exp.Binary | exp.Unary) else "this", LEAVE_OUT
