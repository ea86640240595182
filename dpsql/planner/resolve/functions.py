"""Operators and functions of a private block -> total scalars. What is not in the tables below is refused."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from dpsql.core.errors import Error, error
from dpsql.core.spans import span_of
from dpsql.core.sqltypes import SqlType, parse_type
from dpsql.expressions import arithmetic, buckets, casting, conditional, division, logic, mathematical, temporal, text
from dpsql.expressions.literals import NULL, boolean_literal, number_literal, text_literal
from dpsql.expressions.scalar import Scalar
from dpsql.planner.grammar import unsupported
from dpsql.planner.resolve.syntax import flat

Build = Callable[[exp.Expression], Scalar]
Builder = Callable[[exp.Expression, Build], Scalar]


def builder_of(node: exp.Expression) -> Builder:
    """What makes the scalar of an operator, a function or a constant. Raises 102 for what is in no table."""
    builder = _anonymous if isinstance(node, exp.Anonymous) else BUILDERS.get(type(node))
    if builder is None:
        raise unsupported(node)
    return builder


def _literal(node: exp.Expression, build: Build) -> Scalar:
    assert isinstance(node, exp.Literal)
    return text_literal(node.this) if node.is_string else number_literal(node.this)


def _binary(operator: str) -> Builder:
    def built(node: exp.Expression, build: Build) -> Scalar:
        left, right = node.args["this"], node.args["expression"]
        if operator in "+-" and (isinstance(right, exp.Interval) or isinstance(left, exp.Interval)):
            return _shift(operator, left, right, build)
        a, b = build(left), build(right)
        if operator in "+-" and a.sqltype.is_temporal:
            return _temporal(operator, a, b)
        return arithmetic.add_subtract_multiply(operator, a, b)

    return built


def _temporal(operator: str, left: Scalar, right: Scalar) -> Scalar:
    if operator == "-" and right.sqltype.is_temporal:
        return temporal.days_between(left, right)
    if right.is_literal and isinstance(right.value, int) and left.sqltype.name == "DATE":
        shifted = temporal.shift(left, right.value if operator == "+" else -right.value, "day")
        return casting.cast(shifted, left.sqltype)
    raise error(106, "a date can be shifted by a constant only", hint="write d + INTERVAL 7 DAY")


def _shift(operator: str, left: exp.Expression, right: exp.Expression, build: Build) -> Scalar:
    if isinstance(left, exp.Interval):
        if operator == "-" or isinstance(right, exp.Interval):
            raise error(106, "an interval can be added to a date only", hint="write d + INTERVAL 7 DAY")
        left, right = right, left
    amount = right.this
    digits = amount.name if isinstance(amount, exp.Literal) else ""
    unit = right.args.get("unit")
    if unit is None and " " in digits.strip():
        digits, _, word = digits.strip().partition(" ")
        unit = exp.Var(this=word)
    if unit is None or not digits.removeprefix("-").isdigit() or len(digits) > 6:
        raise error(106, "an interval must be a constant whole number of one unit", hint="write INTERVAL 7 DAY")
    return temporal.shift(build(left), int(digits) * (1 if operator == "+" else -1), unit.name)


def _compare(operator: str) -> Builder:
    return lambda node, build: logic.compare(operator, build(node.args["this"]), build(node.args["expression"]))


def _in(node: exp.Expression, build: Build) -> Scalar:
    options = [build(option) for option in node.args.get("expressions") or []]
    if not options:
        raise error(101, "IN needs at least one value", hint="write x IN (1, 2)")
    return logic.in_list(build(node.args["this"]), options)


def _is(node: exp.Expression, build: Build) -> Scalar:
    value, other = build(node.args["this"]), node.args["expression"]
    if isinstance(other, exp.Null):
        return logic.is_null(value)
    if isinstance(other, exp.Boolean):
        return logic.is_truth(value, bool(other.this))
    raise error(106, "IS needs NULL, TRUE or FALSE", hint="write x IS NOT DISTINCT FROM y")


def _like(ignore_case: bool, escape: Scalar | None = None) -> Builder:
    def built(node: exp.Expression, build: Build) -> Scalar:
        found = logic.like(build(node.args["this"]), build(node.args["expression"]), escape, ignore_case)
        return logic.negation(found) if node.args.get("negate") else found

    return built


def _escape(node: exp.Expression, build: Build) -> Scalar:
    inner = node.args["this"]
    negated = isinstance(inner, exp.Not)
    inner = inner.this if negated else inner
    if not isinstance(inner, exp.Like | exp.ILike):
        raise error(106, "ESCAPE belongs to LIKE", hint="write x LIKE '...' ESCAPE '!'")
    found = _like(isinstance(inner, exp.ILike), build(node.args["expression"]))(inner, build)
    return logic.negation(found) if negated else found


def _case(node: exp.Expression, build: Build) -> Scalar:
    subject = node.args.get("this")
    branches = []
    for branch in node.args["ifs"]:
        when = build(branch.args["this"])
        condition = logic.compare("=", build(subject), when) if subject is not None else when
        branches.append((condition, build(branch.args["true"])))
    default = node.args.get("default")
    return conditional.case(branches, build(default) if default is not None else None)


def _if(node: exp.Expression, build: Build) -> Scalar:
    default = node.args.get("false")
    branch = (build(node.args["this"]), build(node.args["true"]))
    return conditional.case([branch], build(default) if default is not None else None)


def _arguments(node: exp.Expression, build: Build) -> list[Scalar]:
    first = [node.args["this"]] if node.args.get("this") is not None else []
    return [build(part) for part in [*first, *(node.args.get("expressions") or [])]]


def sqltype_of(node: exp.Expression) -> SqlType:
    """The type that a cast names."""
    parameters = [p.this.name for p in node.expressions if isinstance(p, exp.DataTypeParam)]
    name = node.this.value if hasattr(node.this, "value") else str(node.this)
    found = parse_type(f"{name}({','.join(parameters)})" if parameters and name == "DECIMAL" else _duckdb_name(name))
    if found is None:
        raise error(
            106,
            f"the type {name[:30]} is not supported",
            hint="use BIGINT, DOUBLE, DECIMAL, VARCHAR, BOOLEAN, DATE or TIMESTAMP",
        )
    return found


def _duckdb_name(name: str) -> str:
    """The parser calls some types by its own names."""
    return {
        "INT128": "HUGEINT",
        "TIMESTAMPNTZ": "TIMESTAMP",
        "CHAR": "VARCHAR",
        "NCHAR": "VARCHAR",
        "DECIMAL": "DECIMAL(18,3)",
    }.get(name, name)


def _cast(node: exp.Expression, build: Build) -> Scalar:
    return casting.cast(build(node.args["this"]), sqltype_of(node.args["to"]))


def _round(node: exp.Expression, build: Build) -> Scalar:
    digits = node.args.get("decimals")
    value = build(node.args["this"])
    return arithmetic.round_to(value, build(digits)) if digits is not None else arithmetic.to_integer("round", value)


def _log(node: exp.Expression, build: Build) -> Scalar:
    value = node.args.get("expression")
    if value is None:
        return mathematical.increasing("log10", build(node.args["this"]))
    if node.this.name not in ("2", "10"):
        raise error(102, "LOG is supported to the bases 2 and 10", hint="write LN(x) / LN(3)")
    return mathematical.increasing(f"log{node.this.name}", build(value))


def _buckets(node: exp.Expression) -> buckets.Buckets:
    """The bounds and the number of a width_bucket. Raises 106 where they are no constants."""
    parts = [part for name in ("min_value", "max_value", "num_buckets") if (part := node.args.get(name)) is not None]
    if len(parts) < 3:
        raise error(106, "width_bucket takes 4 arguments", hint="write width_bucket(x, 0, 100, 10)")
    lower, upper, count = (_constant(part) for part in parts)
    return buckets.buckets(lower, upper, count)


def _constant(node: exp.Expression) -> Scalar:
    """The scalar of a node that reads nothing; NULL, which is as little a bound, for any other."""

    def build(part: exp.Expression) -> Scalar:
        return builder_of(part)(part, build)

    try:
        return build(node)
    except Error:
        return NULL


def check_buckets(tree: exp.Expression) -> None:
    """Refuse (106) a width_bucket of a statement without buckets, over released rows too: nothing may fail after the charge."""
    for node in tree.find_all(exp.WidthBucket):
        problem: Error | None = None
        try:
            _buckets(node)
        except Error as found:
            problem = found
        if problem is not None:
            problem.span = span_of(node)
            raise problem


def _part(name: str) -> Builder:
    return lambda node, build: temporal.extract(name, build(node.args["this"]))


def _unit(node: exp.Expression) -> str:
    unit = node.args.get("unit")
    return unit.name if isinstance(unit, exp.Var | exp.Literal) else "day"


def _substring(node: exp.Expression, build: Build) -> Scalar:
    positions = [build(node.args[name]) for name in ("start", "length") if node.args.get(name) is not None]
    return text.part("substring", build(node.args["this"]), positions)


def _trim(node: exp.Expression, build: Build) -> Scalar:
    side = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(str(node.args.get("position") or "").upper(), "trim")
    return text.change(side, build(node.args["this"]))


def _unary(function: Callable[[Scalar], Scalar]) -> Builder:
    return lambda node, build: function(build(node.args["this"]))


def _two(function: Callable[[Scalar, Scalar], Scalar]) -> Builder:
    return lambda node, build: function(build(node.args["this"]), build(node.args["expression"]))


def _anonymous(node: exp.Expression, build: Build) -> Scalar:
    name = str(node.this).lower()
    needed = {"date_part": 2, "datepart": 2, "date_diff": 3, "datediff": 3}.get(name)
    if needed is not None and len(node.expressions) != needed:
        raise error(106, f"{name.upper()} takes {needed} arguments", hint="give exactly that many")
    if name in ("date_part", "datepart"):
        return temporal.extract(node.expressions[0].name, build(node.expressions[1]))
    if name in ("date_diff", "datediff"):
        return temporal.difference(node.expressions[0].name, build(node.expressions[1]), build(node.expressions[2]))
    builder = ANONYMOUS.get(name)
    if builder is None:
        raise unsupported(node)
    args = [build(part) for part in node.expressions]
    if len(args) != builder[0]:
        raise error(
            106, f"{name.upper()} takes {builder[0]} argument{'s' * (builder[0] > 1)}", hint="give exactly that many"
        )
    return builder[1](args)


def _extracting(part: str) -> Callable[[list[Scalar]], Scalar]:
    return lambda a: temporal.extract(part, a[0])


ANONYMOUS: dict[str, tuple[int, Callable[[list[Scalar]], Scalar]]] = {
    "trunc": (1, lambda a: arithmetic.to_integer("trunc", a[0])),
    "isfinite": (1, lambda a: mathematical.float_test("isfinite", a[0])),
    "isinf": (1, lambda a: mathematical.float_test("isinf", a[0])),
    "strlen": (1, lambda a: text.length(a[0])),
    "ends_with": (2, lambda a: text.contains("ends_with", a[0], a[1])),
    "suffix": (2, lambda a: text.contains("ends_with", a[0], a[1])),
    "prefix": (2, lambda a: text.contains("starts_with", a[0], a[1])),
    "starts_with": (2, lambda a: text.contains("starts_with", a[0], a[1])),
    "contains": (2, lambda a: text.contains("contains", a[0], a[1])),
    **{part: (1, _extracting(part)) for part in ("dow", "isodow", "weekday", "doy", "dayofyear", "weekofyear")},
}
BUILDERS: dict[type[exp.Expression], Builder] = {
    exp.Literal: _literal,
    exp.Null: lambda node, build: NULL,
    exp.Boolean: lambda node, build: boolean_literal(bool(node.this)),
    exp.Paren: lambda node, build: build(node.this),
    exp.Neg: _unary(arithmetic.negative),
    exp.Add: _binary("+"),
    exp.Sub: _binary("-"),
    exp.Mul: _binary("*"),
    exp.Div: _two(division.divide),
    exp.IntDiv: _two(division.integer_divide),
    exp.Mod: _two(division.modulo),
    exp.Pow: _two(mathematical.power),
    exp.DPipe: _two(text.concatenate),
    exp.EQ: _compare("="),
    exp.NEQ: _compare("<>"),
    exp.GT: _compare(">"),
    exp.GTE: _compare(">="),
    exp.LT: _compare("<"),
    exp.LTE: _compare("<="),
    exp.NullSafeEQ: _two(lambda a, b: logic.distinct_from(a, b, True)),
    exp.NullSafeNEQ: _two(lambda a, b: logic.distinct_from(a, b, False)),
    exp.And: lambda node, build: logic.conjunction([build(p) for p in flat(node, exp.And)]),
    exp.Or: lambda node, build: logic.disjunction([build(p) for p in flat(node, exp.Or)]),
    exp.Not: _unary(logic.negation),
    exp.Is: _is,
    exp.In: _in,
    exp.Between: lambda node, build: logic.between(*(build(node.args[name]) for name in ("this", "low", "high"))),
    exp.Like: _like(False),
    exp.ILike: _like(True),
    exp.Escape: _escape,
    exp.Case: _case,
    exp.If: _if,
    exp.Coalesce: lambda node, build: conditional.coalesce(_arguments(node, build)),
    exp.Nullif: _two(conditional.nullif),
    exp.Least: lambda node, build: conditional.extreme("least", _arguments(node, build)),
    exp.Greatest: lambda node, build: conditional.extreme("greatest", _arguments(node, build)),
    exp.Cast: _cast,
    exp.TryCast: _cast,
    exp.Abs: _unary(arithmetic.absolute),
    exp.Sign: _unary(arithmetic.sign),
    exp.Floor: _unary(lambda a: arithmetic.to_integer("floor", a)),
    exp.Ceil: _unary(lambda a: arithmetic.to_integer("ceil", a)),
    exp.Round: _round,
    exp.Sqrt: _unary(lambda a: mathematical.increasing("sqrt", a)),
    exp.Ln: _unary(lambda a: mathematical.increasing("ln", a)),
    exp.Exp: _unary(lambda a: mathematical.increasing("exp", a)),
    exp.Log: _log,
    exp.WidthBucket: lambda node, build: buckets.width_bucket(build(node.this), _buckets(node)),
    exp.IsNan: _unary(lambda a: mathematical.float_test("isnan", a)),
    exp.IsInf: _unary(lambda a: mathematical.float_test("isinf", a)),
    exp.Length: _unary(text.length),
    exp.Lower: _unary(lambda a: text.change("lower", a)),
    exp.Upper: _unary(lambda a: text.change("upper", a)),
    exp.Trim: _trim,
    exp.Substring: _substring,
    exp.Left: lambda node, build: text.part("left", build(node.this), [build(node.expression)]),
    exp.Right: lambda node, build: text.part("right", build(node.this), [build(node.expression)]),
    exp.StartsWith: _two(lambda a, b: text.contains("starts_with", a, b)),
    exp.EndsWith: _two(lambda a, b: text.contains("ends_with", a, b)),
    exp.Contains: _two(lambda a, b: text.contains("contains", a, b)),
    exp.Extract: lambda node, build: temporal.extract(node.this.name, build(node.expression)),
    exp.DateTrunc: lambda node, build: temporal.truncate(_unit(node), build(node.this)),
    exp.TimestampTrunc: lambda node, build: temporal.truncate(_unit(node), build(node.this)),
    exp.DateDiff: lambda node, build: temporal.difference(_unit(node), build(node.expression), build(node.this)),
    exp.Year: _part("year"),
    exp.Quarter: _part("quarter"),
    exp.Month: _part("month"),
    exp.Day: _part("day"),
    exp.DayOfMonth: _part("day"),
    exp.DayOfWeek: _part("dayofweek"),
    exp.DayOfWeekIso: _part("isodow"),
    exp.DayOfYear: _part("dayofyear"),
    exp.WeekOfYear: _part("week"),
    exp.Week: _part("week"),
    exp.Hour: _part("hour"),
    exp.Minute: _part("minute"),
    exp.Second: _part("second"),
}
if hasattr(exp, "Trunc"):  # The lower end of the supported parser versions keeps TRUNC by its name.
    BUILDERS[exp.Trunc] = _unary(lambda a: arithmetic.to_integer("trunc", a))
