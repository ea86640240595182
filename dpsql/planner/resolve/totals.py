"""Totals of ROLLUP, CUBE and GROUPING SETS: which columns add up a released one, and of which released rows each total is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from dpsql.aggregates.record import Aggregate
from dpsql.core.domains import hull
from dpsql.plan.resolved import Block
from dpsql.plan.tables import ROW_NUMBER, redrawn_table
from dpsql.planner.resolve.grouping_sets import GROUPED
from dpsql.planner.resolve.syntax import is_query, parts_of, unaliased
from dpsql.planner.walks import copied

_CLAUSES = {"expressions", "from_", "where"}


@dataclass(frozen=True, slots=True)
class TotalColumns:
    """Columns of a query that adds up the groups of one release.

    direct    for each the released column whose sum it shows, or None
    computed  for each its expression over a redrawn table of totals, where it is computed of sums alone; or None
    """

    release: str
    direct: tuple[tuple[str, str] | None, ...]
    computed: tuple[exp.Expression | None, ...]


def totals(tree: exp.Expression) -> TotalColumns | None:
    """Add a list of the released rows' numbers as a last column, where each row of the result adds up some; what they are sums of.

    Why  the result may be sorted, cut and filtered, and may not show its keys: the list says of which groups each row is
    """
    inner = _inner(tree)
    source = inner.args["from_"].this if inner is not None and inner.args.get("from_") is not None else None
    if (
        inner is None
        or not isinstance(tree, exp.Select)
        or not isinstance(source, exp.Table)
        or not _lists(inner, source.name)
    ):
        return None
    names = {p.alias: p.this.name for p in inner.expressions}
    found = [_shown(unaliased(p), source.name, names) for p in tree.expressions]
    _numbered(tree, inner, source.name)
    direct = tuple((source.name, column) if column is not None else None for column, _ in found)
    return TotalColumns(source.name, direct, tuple(computed for _, computed in found))


def within_bounds(tree: exp.Expression, blocks: Sequence[Block]) -> None:
    """Clamp averages of totals to the bounds of their values, as those of single groups are.

    Why  a total of few rows is a noisy sum over a noisy number of rows: post-processing, whose interval is drawn of the clamped one
    """
    for select in tree.find_all(exp.Select):
        inner = _inner(select)
        source = inner.args["from_"].this if inner is not None and inner.args.get("from_") is not None else None
        block = next((b for b in blocks if isinstance(source, exp.Table) and b.name == source.name), None)
        if inner is None or block is None or not _lists(inner, block.name):
            continue
        known = {a.name: a for a in block.aggregates}
        named = {p.alias: known[p.this.name] for p in inner.expressions if p.this.name in known}
        for case in list(select.find_all(exp.Case)):
            _clamp(case, named)


def _clamp(case: exp.Case, named: dict[str, Aggregate]) -> None:
    """Clamp a quotient, where it is that of a SUM and the COUNT of the same values that grouping_sets.py makes of an AVG.

    Why  a person's own text never has the bare sum of a released COUNT
    """
    one = case.args["ifs"][0]
    quotient = one.args["true"]
    if len(case.args["ifs"]) != 1 or case.args.get("default") is not None or not isinstance(quotient, exp.Div):
        return
    values, count = _summed(quotient.this, named), _summed(one.this.this, named)
    if values is None or count is None or values.argument is None or count.record.of_cube is None:
        return
    same = (values.argument, values.condition) == (count.argument, count.condition)
    bounds = hull(values.argument.domain) if same and count.record.of_cube[0] == ("count",) else None
    if bounds is not None:
        low, high = (exp.cast(exp.Literal.number(repr(float(end))), "DOUBLE") for end in (bounds.lower, bounds.upper))
        below, above = exp.LT(this=quotient.copy(), expression=low), exp.GT(this=quotient.copy(), expression=high)
        ends = [exp.If(this=below, true=low.copy()), exp.If(this=above, true=high.copy())]
        one.set("true", exp.Case(ifs=ends, default=quotient.copy()))


def _summed(node: exp.Expression, named: dict[str, Aggregate]) -> Aggregate | None:
    """The released aggregate whose bare sum a node is."""
    column = node.this if isinstance(node, exp.Sum) else None
    return named.get(column.name) if isinstance(column, exp.Column) and column.table == GROUPED else None


def _inner(tree: exp.Expression) -> exp.Select | None:
    """The query below a query that grouping_sets.py made."""
    if not isinstance(tree, exp.Select) or tree.args.get("distinct") is not None or tree.args.get("group") is None:
        return None
    source = tree.args["from_"].this if tree.args.get("from_") is not None else None
    inner = source.this if isinstance(source, exp.Subquery) and source.alias == GROUPED else None
    return inner if isinstance(inner, exp.Select) else None


def _lists(inner: exp.Select, release: str) -> bool:
    """True if a query shows columns of a released table as they are."""
    columns = all(isinstance(p, exp.Alias) and isinstance(p.this, exp.Column) for p in inner.expressions)
    named = {name for name, part in inner.args.items() if part}
    return columns and not named - _CLAUSES and all(p.this.table == release for p in inner.expressions)


def _numbered(tree: exp.Select, inner: exp.Select, release: str) -> None:
    number = exp.to_identifier(ROW_NUMBER, quoted=True)
    column = exp.column(number.copy(), table=exp.to_identifier(release, quoted=True))
    inner.append("expressions", exp.alias_(column, ROW_NUMBER, quoted=True))
    alias = tree.args["from_"].this.args["alias"]
    if alias.args.get("columns"):
        alias.append("columns", number.copy())
    listed = exp.Anonymous(
        this="list", expressions=[exp.column(number.copy(), table=exp.to_identifier(GROUPED, quoted=True))]
    )
    tree.append("expressions", exp.alias_(listed, ROW_NUMBER, quoted=True))


def _shown(value: exp.Expression, release: str, names: dict[str, str]) -> tuple[str | None, exp.Expression | None]:
    """The released column whose sum a column shows as it is; else its expression over a redrawn table, where it has one."""
    moved: exp.Expression = copied(value)
    for part in list(moved.find_all(exp.AggFunc, exp.Anonymous)):
        column = part.this if isinstance(part, exp.Sum) else None
        if isinstance(column, exp.Column) and column.table == GROUPED and column.name in names:
            own = (exp.to_identifier(name, quoted=True) for name in (names[column.name], redrawn_table(release)))
            new: exp.Expression = exp.column(next(own), table=next(own))
        elif isinstance(part, exp.Count) and isinstance(part.this, exp.Star):
            new = exp.Literal.number(1)
        else:
            return None, None
        moved = new if moved == part else moved
        part.replace(new)
    columns = list(moved.find_all(exp.Column))
    computes = any(is_query(part) or isinstance(part, exp.Window) for part in parts_of(moved))
    if computes or not columns or any(column.table != redrawn_table(release) for column in columns):
        return None, None
    alone = _of_count(moved)
    return (alone.name, None) if isinstance(alone, exp.Column) else (None, moved)


def _of_count(node: exp.Expression) -> exp.Expression:
    """The sum in a sum of counts, without what makes 0 of no groups at all, and BIGINT of HUGEINT."""
    while isinstance(node, exp.Paren):
        node = node.this
    if not isinstance(node, exp.Case) or node.this is not None or len(node.args["ifs"]) != 1:
        return node
    one, default = node.args["ifs"][0], node.args.get("default")
    is_count = one.this == exp.GT(this=exp.Literal.number(1), expression=exp.Literal.number(0))
    value = one.args["true"]
    return value.this if is_count and default == exp.Literal.number(0) and isinstance(value, exp.TryCast) else node
