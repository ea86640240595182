"""Operators and functions of a private block -> total scalars. What is not in the tables below is refused."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from dpsql.core.errors import Error, error
from dpsql.core.spans import span_of
from dpsql.core.sqltypes import SqlType, parse_type
from dpsql.expressions import arithmetic, buckets, casting, conditional, division, logic
from dpsql.expressions.functions import BY_NAME, calendar, documents, numbers, patterns, text
from dpsql.expressions.literals import NULL, boolean_literal, number_literal, text_literal
from dpsql.expressions.scalar import Scalar
from dpsql.planner.calls import arguments, function_of
from dpsql.planner.grammar import unsupported
from dpsql.planner.resolve.intervals import Build, apart, interval_of, moved, part_between, period_of, shifted
from dpsql.planner.resolve.syntax import false_as_null, flat
from dpsql.planner.walks import every

Builder = Callable[[exp.Expression, Build], Scalar]


def builder_of(node: exp.Expression) -> Builder:
    """Builder of the scalar of an operator, a function or a constant. Raises 102 for what is in no table."""
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
        if operator in "+-" and (interval_of(right) or interval_of(left)):
            return shifted(operator, left, right, build)
        a, b = build(left), build(right)
        if operator in "+-" and a.sqltype.is_counted:
            return moved(operator, a, b)
        return arithmetic.add_subtract_multiply(operator, a, b)

    return built


def _compare(operator: str) -> Builder:
    def built(node: exp.Expression, build: Build) -> Scalar:
        left, right = node.args["this"], node.args["expression"]
        if isinstance(right, exp.Any):
            if operator != "=":
                raise error(102, f"{operator} ANY is not supported", hint="write x = ANY([1, 2]), or x IN (1, 2)")
            column = right.this.unnest()
            if isinstance(column, exp.Column) and false_as_null(node):
                return build(exp.Anonymous(this="list_contains", expressions=[column.copy(), left.copy()]))
            return logic.in_list(build(left), [build(option) for option in _listed(right)])
        if isinstance(right, exp.All):
            if operator != "<>":
                raise error(102, f"{operator} ALL is not supported", hint="write x <> ALL([1, 2]), or x NOT IN (1, 2)")
            return logic.negation(logic.in_list(build(left), [build(option) for option in _listed(right)]))
        if isinstance(left, exp.Tuple) and isinstance(right, exp.Tuple):
            if operator not in ("=", "<>"):
                raise error(102, f"rows are not compared by {operator}", hint="write a < 1 OR (a = 1 AND b < 2)")
            found = _row(left, right, build)
            return found if operator == "=" else logic.negation(found)
        with_interval = isinstance(left, exp.Interval) or isinstance(right, exp.Interval)
        far = apart(operator, left, right, build) if with_interval else None
        return far if far is not None else logic.compare(operator, build(left), build(right))

    return built


def _listed(node: exp.Any | exp.All) -> list[exp.Expression]:
    """The constants of ANY([1, 2]) and ANY(ARRAY[1, 2])."""
    inner, word = node.this.unnest(), type(node).__name__.upper()
    if not isinstance(inner, exp.Array) or not inner.expressions:
        what = "x = ANY([1, 2]), or LIST_CONTAINS(l, x) of a list l" if word == "ANY" else "x <> ALL([1, 2])"
        raise error(102, f"{word} takes a list of constants", hint=f"write {what}")
    return list(inner.expressions)


def _row(left: exp.Tuple, right: exp.Tuple, build: Build) -> Scalar:
    """(a, b) = (1, 2)"""
    if len(left.expressions) != len(right.expressions):
        raise error(106, "two rows of different length are compared", hint="write (a, b) = (1, 2)")
    pairs = zip(left.expressions, right.expressions, strict=True)
    return logic.conjunction([logic.compare("=", build(a), build(b)) for a, b in pairs])


def _in(node: exp.Expression, build: Build) -> Scalar:
    options = node.args.get("expressions") or []
    if not options:
        raise error(101, "IN needs at least one value", hint="write x IN (1, 2)")
    row = node.args["this"]
    if isinstance(row, exp.Tuple):
        rows = [option for option in options if isinstance(option, exp.Tuple)]
        if len(rows) < len(options):
            raise error(106, "a row is compared with what is none", hint="write (a, b) IN ((1, 2), (3, 4))")
        return logic.disjunction([_row(row, other, build) for other in rows])
    return logic.in_list(build(row), [build(option) for option in options])


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
            hint="use BIGINT, DOUBLE, DECIMAL, VARCHAR, BOOLEAN, DATE, TIMESTAMP or TIME",
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


def _extract(node: exp.Expression, build: Build) -> Scalar:
    part, of = node.this.name, node.args["expression"]
    return part_between(part, of, build) or calendar.part(part, build(of))


def _cast(node: exp.Expression, build: Build) -> Scalar:
    return casting.cast(build(node.args["this"]), sqltype_of(node.args["to"]))


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
    for node in every(tree, exp.WidthBucket):
        problem: Error | None = None
        try:
            _buckets(node)
        except Error as found:
            problem = found
        if problem is not None:
            problem.span = span_of(node)
            raise problem


def _trim(node: exp.Expression, build: Build) -> Scalar:
    side = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(str(node.args.get("position") or "").upper(), "trim")
    letters = node.args.get("expression")
    return text.change(side, build(node.args["this"]), build(letters) if letters is not None else None)


def _unary(function: Callable[[Scalar], Scalar]) -> Builder:
    return lambda node, build: function(build(node.args["this"]))


def _two(function: Callable[[Scalar, Scalar], Scalar]) -> Builder:
    return lambda node, build: function(build(node.args["this"]), build(node.args["expression"]))


def _anonymous(node: exp.Expression, build: Build) -> Scalar:
    """A function by its record."""
    function = function_of(node)
    if function is None:
        raise unsupported(node)
    args: list[object] = []
    for place, part in enumerate(node.expressions):
        kind = function.kind(place)
        args.append(period_of(part) if kind == "period" else part.name if kind == "word" else build(part))
    return function.build(*args)


def _called(node: exp.Expression, build: Build) -> Scalar:
    """A function that the parser has a form for, with its arguments."""
    function = function_of(node)
    assert function is not None
    return function.build(*map(build, arguments(node)))


def _record(name: str, *parts: str) -> Builder:
    """A function that the parser has a form for, with the parts that are its arguments."""

    def built(node: exp.Expression, build: Build) -> Scalar:
        args = [node.args.get(part) for part in parts]
        return BY_NAME[name].build(*(build(arg) for arg in args if arg is not None))

    return built


def _document(node: exp.Expression, build: Build) -> Scalar:
    """text ->> 'path', text -> 'path' ->> 'path', with casts to JSON, which change nothing."""
    at, inner = documents.path(node.expression.name), node.this
    while isinstance(inner, exp.Paren | exp.JSONExtract) or (isinstance(inner, exp.Cast) and inner.to.is_type("json")):
        if isinstance(inner, exp.JSONExtract):
            at = documents.inside(documents.path(inner.expression.name), at)
        inner = inner.this
    return documents.extract(build(inner), text_literal(at))


def _similar(node: exp.Expression, build: Build) -> Scalar:
    pattern = build(node.args["expression"])
    if not isinstance(pattern.value, str):
        raise error(102, "the pattern of SIMILAR TO must be a constant text", hint="write x SIMILAR TO 'a.*'")
    patterns.groups_of(pattern.value)
    return patterns.matches("regexp_full_match", build(node.args["this"]), pattern)


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
    exp.Pow: _two(numbers.power),
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
    exp.Glob: _two(logic.glob),
    exp.Escape: _escape,
    exp.Case: _case,
    exp.If: _if,
    exp.Coalesce: lambda node, build: conditional.coalesce(_arguments(node, build)),
    exp.Nullif: _two(conditional.nullif),
    exp.Least: lambda node, build: conditional.extreme("least", _arguments(node, build)),
    exp.Greatest: lambda node, build: conditional.extreme("greatest", _arguments(node, build)),
    exp.Cast: _cast,
    exp.TryCast: _cast,
    exp.WidthBucket: lambda node, build: buckets.width_bucket(build(node.this), _buckets(node)),
    exp.Trim: _trim,
    exp.Substring: _called,
    exp.StrPosition: _record("strpos", "this", "substr"),
    exp.StartsWith: _record("starts_with", "this", "expression"),
    exp.JSONExtractScalar: _document,
    exp.AtTimeZone: _called,
    exp.SimilarTo: _similar,
    exp.Extract: _extract,
}
