"""Syntax trees: the parts of an expression that are its own, the queries inside it, and the tree with some nodes replaced."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sqlglot import exp

from dpsql.aggregates.record import ANY_NUMBER
from dpsql.aggregates.registry import BY_SPELLING
from dpsql.core.errors import Error
from dpsql.core.spans import span_of
from dpsql.planner import calls
from dpsql.planner.calls import is_unnest
from dpsql.planner.grammar import END_NAMES, OF_PEOPLE
from dpsql.planner.walks import children, every


def is_query(node: exp.Expression) -> bool:
    """True if a node is a query inside an expression: a subquery, EXISTS, or IN over one."""
    return isinstance(node, _QUERIES) or bool(node.args.get("query"))


_QUERIES = (exp.Subquery, exp.Exists, exp.Select, exp.SetOperation)


def parts_of(node: exp.Expression) -> Iterator[exp.Expression]:
    """A node and what is below it, without what stands inside a query; the parts of a SELECT are those of its clauses."""
    waiting = [node]
    while waiting:
        part = waiting.pop()
        yield part
        if is_query(part) and not (part is node and isinstance(part, exp.Select)):
            if part.args.get("query") and isinstance(part.this, exp.Expression):
                waiting.append(part.this)
            continue
        waiting += reversed(children(part))


def unnests(select: exp.Select) -> list[exp.Expression]:
    """Every UNNEST of a SELECT that is its own."""
    named = any(map(is_unnest, every(select, exp.Anonymous)))
    return [part for part in parts_of(select) if is_unnest(part)] if named else []


def of_many(select: exp.Select) -> exp.Anonymous | None:
    """The first aggregate, of the SELECT list where there is one, that takes any number of values."""
    clauses = (*select.expressions, *(select.args.get(part) for part in ("having", "qualify", "order")))
    for part in (part for clause in clauses if clause is not None for part in every(clause, exp.Anonymous)):
        record = BY_SPELLING.get(str(part.this).lower())
        if record is not None and record.takes == ANY_NUMBER and part.parent_select is select:
            return part
    return None


def no_unnest(node: exp.Expression) -> Error:
    problem = calls.no_unnest()
    problem.span = span_of(node)
    return problem


def check_no_unnest(select: exp.Select) -> None:
    """Refuse (102) UNNEST where rows are grouped, aggregated or public."""
    for node in unnests(select):
        raise no_unnest(node)


def unaliased(node: exp.Expression) -> exp.Expression:
    """A projection without its name."""
    return node.this if isinstance(node, exp.Alias) else node


def aliases_of(select: exp.Select) -> dict[str, exp.Expression]:
    """The expressions of a SELECT list by their names, in lower case."""
    return {p.alias.lower(): p.this for p in select.expressions if isinstance(p, exp.Alias)}


def output_name(projection: exp.Expression) -> str:
    """Name that DuckDB gives a column: its alias or name, else its text with the function in lower case."""
    if isinstance(projection, exp.Alias | exp.Column):
        return projection.alias_or_name
    if isinstance(projection, exp.Count) and isinstance(projection.this, exp.Star):
        return "count_star()"
    written = projection.transform(_as_written)
    name, parenthesis, rest = written.sql(dialect="duckdb", comments=False).partition("(")
    return name.lower() + parenthesis + rest if name.replace("_", "").isalnum() else name + parenthesis + rest


def _as_written(node: exp.Expression) -> exp.Expression:
    """Expression as the printer would write it with parts that nobody wrote: BOOL_OR of a cast, COUNT(DISTINCT a, b)
    with CASE."""
    if isinstance(node, exp.LogicalAnd | exp.LogicalOr):
        return exp.Anonymous(this=node.sql_names()[1].lower(), expressions=[node.this])
    if isinstance(node, exp.Distinct) and len(node.expressions) > 1:
        listed = ", ".join(part.sql(dialect="duckdb") for part in node.expressions)
        return exp.Distinct(expressions=[exp.Var(this=listed)])
    return node


def without_own_functions(tree: exp.Expression) -> exp.Expression:
    """A copy for the engine, which names and types dp_sum(x, ...) as SUM(x), and the others as a DOUBLE of their name; what it does not
    read as it is written has a name of its own. The tree itself where nothing is replaced."""

    def replaced(node: exp.Expression) -> exp.Expression:
        call = node.this if isinstance(node, exp.Filter) else node
        inner = call.this if isinstance(call, exp.Count) else call
        if isinstance(inner, exp.Expression) and _as_written(inner) is not inner:
            return _called(node.copy(), node)
        if not isinstance(call, exp.Anonymous):
            return node
        word = str(call.this).lower()
        plain = _of_engine(word)
        if word in OF_PEOPLE and not plain and call.expressions:
            double = exp.DataType.build("DOUBLE")
            counted: exp.Expression = exp.Sum(this=exp.Cast(this=call.expressions[0].copy(), to=double))
            if node is not call:
                counted = exp.Filter(this=counted, expression=node.expression.copy())
            return _called(counted, node)
        if node is not call:
            return node
        if plain and call.expressions:
            made = exp.func(plain, call.expressions[0].copy())
            assert isinstance(made, exp.Expression)
            return made
        if word in END_NAMES:
            return _called(exp.Cast(this=exp.Null(), to=exp.DataType.build("DOUBLE")), node)
        return node

    return tree if all(replaced(node) is node for node in every(tree, *_OWN)) else tree.transform(replaced)


_OWN = exp.Anonymous, exp.Count, exp.Distinct, exp.Filter, exp.LogicalAnd, exp.LogicalOr
"""Nodes in place of which the engine may read something else."""


def _of_engine(word: str) -> str:
    """The engine's own name of an aggregate that dpsql has another call for; "" where there is none."""
    record = BY_SPELLING.get(word) if word in OF_PEOPLE else None
    return record.name if record is not None and not record.plain and record.name in BY_SPELLING else ""


def _called(value: exp.Expression, node: exp.Expression) -> exp.Expression:
    """A value in place of a node, under the node's name where it is shown."""
    shown = isinstance(node.parent, exp.Select) and node.arg_key == "expressions"
    return exp.Alias(this=value, alias=exp.to_identifier(output_name(node), quoted=True)) if shown else value


def unparenthesised(node: exp.Expression) -> exp.Expression:
    """A query without the parentheses around it."""
    while isinstance(node, exp.Subquery):
        node = node.this
    return node


def flat(node: exp.Expression, kind: type[exp.Expression]) -> list[exp.Expression]:
    """The operands of a chain of ANDs or ORs, without recursion along the chain."""
    found: list[exp.Expression] = []
    waiting = [node]
    while waiting:
        part = waiting.pop()
        if isinstance(part, exp.Paren):
            waiting.append(part.this)
        elif type(part) is kind:
            listed = part.args.get("expressions") or [part.args["this"], part.args["expression"]]
            waiting.extend(reversed(listed))
        else:
            found.append(part)
    return found


def flat_conjuncts(node: exp.Expression) -> list[exp.Expression]:
    """The top-level AND parts of a condition."""
    return flat(node, exp.And)


def where_parts(select: exp.Select) -> list[exp.Expression]:
    """The top-level AND parts of WHERE; [] without one."""
    where = select.args.get("where")
    return flat_conjuncts(where.this) if where is not None else []


def all_of(conditions: Iterable[exp.Expression]) -> exp.Expression:
    """One or more conditions as one."""
    found, *rest = conditions
    for condition in rest:
        found = exp.And(this=found, expression=condition)
    return found


def replaced(node: exp.Expression, values: dict[int, exp.Expression]) -> exp.Expression:
    """The tree with some nodes replaced, by id; what is not above one of them is shared, not copied."""
    if id(node) in values:
        return values[id(node)]

    def part(value: object) -> object:
        if isinstance(value, list):
            return [part(v) for v in value]
        return replaced(value, values) if isinstance(value, exp.Expression) else value

    changed = {name: part(value) for name, value in node.args.items()}
    if all(_same(changed[name], value) for name, value in node.args.items()):
        return node
    copy = type(node)(**changed)
    copy.meta.update(node.meta)
    return copy


def _same(one: object, other: object) -> bool:
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(a is b for a, b in zip(one, other, strict=True))
    return one is other


def false_as_null(node: exp.Expression) -> bool:
    """True if FALSE and NULL come to the same where a condition stands: among the AND and OR parts of what rows must fulfil.

    Elsewhere, under NOT above all, a NULL among the values of IN would decide, which EXISTS does not know (rule 2).
    """
    above = node.parent
    while isinstance(above, exp.And | exp.Or | exp.Paren):
        node, above = above, above.parent
    if isinstance(above, exp.If):
        return node.arg_key == "this"
    return isinstance(above, exp.Where | exp.Having | exp.Qualify | exp.Join)
