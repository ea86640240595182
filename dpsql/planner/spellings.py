"""Functions of other engines -> the same in ours, before a statement is read any further.

A spelling is the SQL that a call stands for, of its arguments a, b and c; where words or formats differ too it is a function of their
trees. What has no exact counterpart keeps its name, and is refused with what to write instead.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from sqlglot import exp
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]

from dpsql.expressions.temporal import FIXED_UNITS, MONTHS, part_name
from dpsql.planner.calls import filled, function_of
from dpsql.planner.walks import every

Spelling = str | Callable[..., exp.Expression | None]
_PARAMETERS = {"a", "b", "c"}
_TAKES_ANY = 4
"""The flag of a function's code that it takes any number of arguments."""
_PARTS = {*FIXED_UNITS, *MONTHS}
_MOMENT = """(YEAR({0}) * 10000 + MONTH({0}) * 100 + DAY({0})) * 86400000000 + HOUR({0}) * 3600000000 + MINUTE({0}) * 60000000
    + MICROSECOND({0})"""
"""The calendar's year, month and day as digits, and the microseconds of the day behind them: it grows with time."""
YEARS_OF_AGE = f"(({_MOMENT.format('a')} - ({_MOMENT.format('b')})) // 864000000000000)"
"""EXTRACT(year FROM AGE(a, b)), whose years begin at the same month, day and time."""


def _filled(text: str, args: Sequence[exp.Expression]) -> exp.Expression:
    """SQL with arguments in the places of a, b and c, those that operators could tear apart in parentheses."""
    closed = [
        exp.Paren(this=arg) if isinstance(arg, exp.Binary | exp.Unary | exp.Between | exp.In) else arg for arg in args
    ]
    return filled(text, dict(zip("abc", closed, strict=False)))


def _word(node: exp.Expression) -> str:
    """The part of a date that an argument names, with quotes or without; "" where it is something else."""
    bare = isinstance(node, exp.Column) and not node.table
    quoted = isinstance(node, exp.Literal) and node.is_string
    return part_name(node.name) if bare or quoted or isinstance(node, exp.Var) else ""


def _added(part: exp.Expression, amount: exp.Expression, date: exp.Expression) -> exp.Expression | None:
    if _word(part) not in _PARTS:
        return None
    if isinstance(date, exp.Literal) and date.is_string:
        date = exp.Cast(this=date, to=exp.DataType.build("timestamp"))
    step = exp.Interval(this=exp.Literal.number(1), unit=exp.Var(this=_word(part)))
    return _filled("(a + b * c)", [date, exp.Paren(this=amount), step])


def _named(part: exp.Expression, date: exp.Expression) -> exp.Expression | None:
    name = {"month": "MONTHNAME(a)", "weekday": "DAYNAME(a)", "dayofweek": "DAYNAME(a)"}.get(_word(part))
    return _filled(name, [date]) if name else None


def _between(part: exp.Expression, date: exp.Expression) -> exp.Expression | None:
    """A part of what lies between two times, as EXTRACT takes it."""
    return exp.Extract(this=exp.Var(this=part.name), expression=date) if isinstance(date.unnest(), exp.Sub) else None


def _in_words(function: str, size: int) -> Callable[..., exp.Expression | None]:
    """A call whose part of a date stands last, without quotes."""

    def made(*args: exp.Expression) -> exp.Expression | None:
        if len(args) != size:
            return None
        *rest, part = args
        bare = not (isinstance(part, exp.Literal) or isinstance(rest[0], exp.Literal))
        if not bare or _word(part) not in _PARTS or _word(rest[0]) in _PARTS:
            return None
        return exp.Anonymous(this=function, expressions=[exp.Literal.string(_word(part)), *reversed(rest)])

    return made


_DIGITS = {
    "YYYY": "%Y", "YY": "%y", "MM": "%m", "DDD": "%j", "DD": "%d", "HH24": "%H", "HH12": "%I", "HH": "%I", "MI": "%M", "SS": "%S",
}  # fmt: skip
_FORMATS: Mapping[str, Mapping[str, str]] = {
    "to_char": {
        **_DIGITS, **{word.lower(): meant for word, meant in _DIGITS.items()},
        "FMMonth": "%B", "Mon": "%b", "FMDay": "%A", "Dy": "%a", "AM": "%p", "PM": "%p",
    },
    "date_format": {
        **{f"%{letter}": f"%{letter}" for letter in "YymdHjpab"},
        "%i": "%M", "%M": "%B", "%W": "%A", "%s": "%S", "%S": "%S", "%c": "%-m", "%e": "%-d", "%k": "%-H", "%h": "%I",
    },
}  # fmt: skip
"""By function what its formats are called here; not those that pad with blanks, such as Month, or write capitals."""
_BESIDE = re.compile(r"[-/., :_]|\"([^\"%]+)\"")
"""Letters between the words of a format, and texts in quotes, without what STRFTIME would read as a part."""


def _formatted(function: str) -> Callable[..., exp.Expression | None]:
    words = sorted(_FORMATS[function], key=len, reverse=True)
    read = re.compile("|".join([*map(re.escape, words), _BESIDE.pattern]))

    def made(date: exp.Expression, form: exp.Expression) -> exp.Expression | None:
        text = form.name if isinstance(form, exp.Literal) and form.is_string else ""
        found = list(read.finditer(text))
        if not text or sum(len(one[0]) for one in found) < len(text):
            return None
        told = "".join(_FORMATS[function].get(one[0]) or one[1] or one[0] for one in found)
        return _filled("STRFTIME(a, b)", [date, exp.Literal.string(told)])

    return made


def _contains(kind: type[exp.Or] | type[exp.And]) -> Callable[..., exp.Expression | None]:
    """LIST_CONTAINS of each of the constants of a list."""

    def made(listed: exp.Expression, values: exp.Expression) -> exp.Expression | None:
        known = list(values.expressions) if isinstance(values, exp.Array) else []
        if not known or not all(isinstance(value, exp.Literal) for value in known):
            return None
        parts: list[exp.Expression] = [
            exp.Anonymous(this="list_contains", expressions=[listed.copy(), value.copy()]) for value in known
        ]
        found = parts[0]
        for part in parts[1:]:
            found = kind(this=found, expression=part)
        return exp.Paren(this=found)

    return made


_HAS_ANY, _HAS_ALL = _contains(exp.Or), _contains(exp.And)
_DIFFERENCE, _TRUNCATED = _in_words("date_diff", 3), _in_words("date_trunc", 2)
SPELLINGS: Mapping[str, Sequence[Spelling]] = {
    "stdev": ("STDDEV(a)",),
    # MySQL's is of all rows, SQL Server's STDEV of a sample
    **dict.fromkeys(("std", "stdevp"), ("STDDEV_POP(a)",)),
    "var": ("VARIANCE(a)",),
    "varp": ("VAR_POP(a)",),
    **dict.fromkeys(("fsum", "sumkahan", "kahan_sum"), ("SUM(a)",)),
    **dict.fromkeys(("favg", "average"), ("AVG(a)",)),
    "every": ("BOOL_AND(a)",),
    "ndv": ("COUNT(DISTINCT a)",),
    **dict.fromkeys(("percentile", "approx_percentile"), (lambda x, q: exp.ApproxQuantile(this=x, quantile=q),)),
    "mid": ("SUBSTRING(a, b, c)",),
    "btrim": ("TRIM(a)",),
    "isnull": ("(a IS NULL)", "COALESCE(a, b)"),
    "zeroifnull": ("COALESCE(a, 0)",),
    "nullifzero": ("NULLIF(a, 0)",),
    "some": (lambda x: exp.Any(this=x),),
    "all": (lambda x: exp.All(this=x),),
    "nvl": ("COALESCE(a, b)",),
    "nvl2": ("CASE WHEN a IS NOT NULL THEN b ELSE c END",),
    "iff": ("IF(a, b, c)",),
    "safe_divide": ("(a / NULLIF(b, 0))",),
    "div0": ("CASE WHEN b = 0 THEN 0 ELSE a / b END",),
    "charindex": ("STRPOS(b, a)",),
    "eomonth": ("LAST_DAY(a)",),
    "date_sub": ("(a - b)", "DATESUB(a, b, c)"),
    "convert_timezone": ("(c AT TIME ZONE a AT TIME ZONE b)",),
    "dateadd": (_added,),
    "date_add": (_added,),
    "datename": (_named,),
    "date_part": (_between,),
    "datepart": (_between,),
    "epoch": (lambda date: _between(exp.Literal.string("epoch"), date),),
    "date_diff": (_DIFFERENCE,),
    "date_trunc": (_TRUNCATED,),
    **dict.fromkeys(("timestamp_trunc", "datetime_trunc"), (_TRUNCATED,)),
    **dict.fromkeys(("format_date", "format_timestamp", "format_datetime"), ("STRFTIME(b, a)",)),
    "list_has_all": (_HAS_ALL,),
    "to_char": (_formatted("to_char"),),
    "date_format": (_formatted("date_format"),),
}
"""By the names of functions of ours in other engines, and older ones: a spelling for each number of arguments."""


def _is_of_engine(node: exp.Expression) -> bool:
    """True if the engine knows a call itself, and the names of what it gives."""
    if not isinstance(node, exp.Anonymous):
        return True
    name = str(node.this).lower()
    return name in ("date_part", "datepart", "year", "epoch", "list_has_all") or (name, len(node.expressions)) == (
        "date_sub",
        3,
    )


def respell(tree: exp.Expression) -> bool:
    """Give the functions of other engines in a tree the names that they have here, and parts of dates their quotes; whether there were
    any that the engine does not know."""
    found = False
    # the innermost first: what a spelling repeats is copied as it is by then
    for node in reversed(every(tree, exp.Anonymous, exp.Extract, exp.ArrayOverlaps, exp.ArrayContainsAll)):
        made = _years_of_age(node) or _spelt(node)
        if made is None:
            found = _quoted(node) or found
            continue
        made.meta.update(node.meta)
        node.replace(made)
        found = found or not _is_of_engine(node)
    return found


def from_pivot(tokens: list[Token]) -> list[Token]:
    """PIVOT ... ORDER BY ... as FROM (PIVOT ...) ORDER BY ..., the one of which the parser reads."""
    depth = 0
    for place, token in enumerate(tokens):
        depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
        if not depth and token.token_type in (TokenType.ORDER_BY, TokenType.LIMIT):
            first, last = tokens[0], tokens[place - 1]
            begun = [(TokenType.FROM, "FROM"), (TokenType.L_PAREN, "(")]
            opened = [Token(kind, text, first.line, first.col, first.start, first.start) for kind, text in begun]
            closed = Token(TokenType.R_PAREN, ")", last.line, last.col, last.end, last.end)
            return [*opened, *tokens[:place], closed, *tokens[place:]]
    return tokens


def first_rows(tree: exp.Expression) -> None:
    """DISTINCT ON (k) ... ORDER BY k, x -> the first row of each k: QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY k, x) = 1.

    Left as it is, and refused, without ORDER BY, with which of the rows stays would be left to chance; and beside a QUALIFY, which
    comes before it
    """
    for select in every(tree, exp.Select):
        distinct, order = select.args.get("distinct"), select.args.get("order")
        on = distinct.args.get("on") if distinct is not None else None
        if on is None or order is None or select.args.get("qualify") is not None:
            continue
        keys = [_meant(key, select).copy() for key in (on.expressions if isinstance(on, exp.Tuple) else [on.unnest()])]
        ordered = [exp.Ordered(**{**one.args, "this": _meant(one.this, select).copy()}) for one in order.expressions]
        within = [one for one in ordered if one.this not in keys]
        window = exp.Window(this=exp.RowNumber(), partition_by=keys)
        window.set("order", exp.Order(expressions=within) if within else None)
        select.set("distinct", None)
        select.set("qualify", exp.Qualify(this=exp.EQ(this=window, expression=exp.Literal.number(1))))


def _meant(node: exp.Expression, select: exp.Select) -> exp.Expression:
    """The expression that a position or a name of the SELECT list stands for."""
    shown: list[exp.Expression] = list(select.expressions)
    meant = node
    if isinstance(node, exp.Literal) and node.name.isdigit() and 1 <= int(node.name) <= len(shown):
        meant = shown[int(node.name) - 1]
    elif isinstance(node, exp.Column) and not node.table:
        named = (one for one in shown if isinstance(one, exp.Alias) and one.alias.lower() == node.name.lower())
        meant = next(named, node)
    return meant.this if isinstance(meant, exp.Alias) else meant


def _spelt(node: exp.Expression) -> exp.Expression | None:
    if not isinstance(node, exp.Anonymous):
        has = _HAS_ALL if isinstance(node, exp.ArrayContainsAll) else _HAS_ANY
        return has(node.this, node.expression) if not isinstance(node, exp.Extract) else None
    args, known = list(node.expressions), SPELLINGS.get(str(node.this).lower(), ())
    for spelling in known:
        if isinstance(spelling, str):
            if len(args) == len(_PARAMETERS.intersection(re.findall(r"\b\w\b", spelling))):
                return _filled(spelling, args)
        elif len(args) == spelling.__code__.co_argcount or spelling.__code__.co_flags & _TAKES_ANY:
            return spelling(*args)
    return None


def _years_of_age(node: exp.Expression) -> exp.Expression | None:
    """EXTRACT(year FROM AGE(d, e)), of one argument up to today."""
    if isinstance(node, exp.Extract):
        part, age = node.this, node.expression
    elif isinstance(node, exp.Anonymous) and str(node.this).lower() in ("date_part", "year") and node.expressions:
        *parts, age = node.expressions
        part = parts[0] if parts else exp.Literal.string("year")
    else:
        return None
    age = age.unnest()
    if _word(part) != "year" or not isinstance(age, exp.Anonymous) or str(age.this).lower() != "age":
        return None
    args = list(age.expressions)
    args = [exp.CurrentDate(), *args] if len(args) == 1 else args
    return _filled(YEARS_OF_AGE, args) if len(args) == 2 else None


def _quoted(node: exp.Expression) -> bool:
    """Put quotes around the parts of dates in a call that are bare words, as the engine would read the names of columns; whether there
    are any."""
    function = function_of(node) if isinstance(node, exp.Anonymous) else None
    found = False
    for place, arg in enumerate(node.expressions if function is not None else ()):
        assert function is not None
        if function.kind(place) == "word" and isinstance(arg, exp.Column) and not arg.table:
            arg.replace(exp.Literal.string(arg.name))
            found = True
    return found
