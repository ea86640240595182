"""Windows over one unit's rows: PARTITION BY the unit, in an order that leaves nothing to chance (rule 10)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from sqlglot import exp

from dpsql.aggregates.record import Exact
from dpsql.core.errors import error
from dpsql.core.spans import span_of
from dpsql.expressions.scalar import Scalar, held_together, one_form, same_unit
from dpsql.planner.grammar import name_of, record_of
from dpsql.planner.resolve.scalars import scalar
from dpsql.planner.resolve.scope import Scope
from dpsql.planner.resolve.statement import Statement
from dpsql.planner.resolve.syntax import parts_of
from dpsql.planner.resolve.unit_aggregates import UnitRows, counted, picked
from dpsql.planner.resolve.unit_groups import decides
from dpsql.relations.per_unit import Computed, windowed
from dpsql.relations.relations import Named, Relation, derived
from dpsql.sql.nodes import Call, Frame, Node, Number, Ordered, Over

_RANKS: dict[type[exp.Expression], str] = {exp.RowNumber: "row_number", exp.Rank: "rank", exp.DenseRank: "dense_rank"}
_SHIFTS: dict[type[exp.Expression], str] = {exp.Lag: "lag", exp.Lead: "lead"}
_ENDS: dict[type[exp.Expression], str] = {exp.FirstValue: "first_value", exp.LastValue: "last_value"}
_BY_PLACE = (exp.RowNumber, exp.Lag, exp.Lead, exp.FirstValue, exp.LastValue)
"""Functions whose value a tie would leave to chance."""
_TOTALS: tuple[Exact, ...] = ("sum", "avg", "min", "max")
_OF_RANKS = (exp.Rank, exp.DenseRank, exp.RowNumber, exp.PercentRank, exp.CumeDist, exp.Ntile)
_BY_UNIT = "write PARTITION BY the privacy unit, or aggregate first"
_BY_RANK = "write PARTITION BY the privacy unit, or NTILE(10) OVER (ORDER BY x), which cuts at released values"
_ADVICE = "use ROW_NUMBER, RANK, LAG, LEAD, FIRST_VALUE, LAST_VALUE, COUNT, SUM, AVG, MIN or MAX"

HINT = "what to write instead of this window"
"""By which a window that stands for something else tells the hint of its refusal."""


def has_windows(select: exp.Select) -> bool:
    return bool(windows_of(select))


def windows_of(select: exp.Select) -> list[exp.Window]:
    qualify = select.args.get("qualify")
    nodes = [*select.expressions, *([qualify.this] if qualify is not None else [])]
    return [part for node in nodes for part in parts_of(node) if isinstance(part, exp.Window)]


def unit_windows(statement: Statement, select: exp.Select, source: Relation, scope: Scope) -> tuple[Relation, Scope]:
    """The rows with every window's value beside them, and the scope in which the windows' nodes stand for those values.

    Raises 402 where a window looks beyond one unit.
    """
    nodes = windows_of(select)
    source, scope = _settled(statement, source, scope, {s.tree for s in _read(select, scope)})
    read = _read(select, scope)
    computed = [_computed(whole_window(n, select), n, source, scope, read) for n in nodes]
    different = {c.tree: c for c in computed}
    narrowed = tuple(replace(c, scalar=scope.adjusted(c.scalar)) for c in source.columns)
    alias = statement.alias("unit_windows")
    relation, values = windowed(replace(source, columns=narrowed), alias, list(different.values()))
    places = dict(zip(different, values, strict=True))
    here = moved(scope, source, relation)
    here.known = {id(n): places[c.tree] for n, c in zip(nodes, computed, strict=True)}
    return relation, here


def moved(scope: Scope, source: Relation, relation: Relation) -> Scope:
    """The scope with each column where it stands now."""
    moved = {c.scalar.tree: d.scalar for c, d in zip(source.columns, relation.columns, strict=True)}
    if source.unit is not None and source.unit.column is not None and relation.unit is not None:
        assert relation.unit.column is not None
        moved[source.unit.column.tree] = relation.unit.column
    # Two names may stand for one column.
    names = {(c.source, c.name, c.scalar.tree): d for c, d in zip(source.columns, relation.columns, strict=True)}
    return replace(
        scope,
        columns={place: moved[s.tree] for place, s in scope.columns.items()},
        merged={name: moved[s.tree] for name, s in scope.merged.items()},
        names=tuple(names[c.source, c.name, c.scalar.tree] for c in scope.names),
        narrow={},
        answered={},
    )


def _settled(statement: Statement, source: Relation, scope: Scope, read: set[Node]) -> tuple[Relation, Scope]:
    """The rows behind a boundary where they need one: with what USING merged as columns of their own, and with one zero.

    read  the columns that are read

    Why   two rows that agree in all columns that are read are then the same to every window, so no order of theirs shows
    """
    known = {c.scalar.tree for c in source.columns}
    merged = [Named("", name, s) for name, s in scope.merged.items() if s.tree not in known]
    columns = (*source.columns, *merged)
    settled = {c.scalar.tree for c in columns if c.scalar.sqltype.is_float and (c.scalar.tree in read or c in merged)}
    if not merged and not settled:
        return source, scope
    adjusted = [(c, scope.adjusted(c.scalar)) for c in columns]
    plain = [replace(c, scalar=one_form(s) if c.scalar.tree in settled else s) for c, s in adjusted]
    relation = derived(replace(source, columns=tuple(plain)), statement.alias("unit_rows"))
    return relation, moved(scope, replace(source, columns=columns), relation)


def whole_window(window: exp.Window, select: exp.Select) -> exp.Expression:
    """A window with what it takes over from the named one that it is written upon."""
    named = select.args.get("windows") or ()
    return _whole(window, {w.this.name.lower(): w for w in named if isinstance(w.this, exp.Identifier)})


def _whole(window: exp.Window, named: dict[str, exp.Expression]) -> exp.Expression:
    base = named.get(window.alias.lower()) if window.args.get("alias") else None
    if base is None:
        return window
    rest = {name: found for name, found in named.items() if found is not base}
    whole = _whole(base, rest) if isinstance(base, exp.Window) else base
    found = exp.Window()
    for part in ("partition_by", "order", "spec"):
        found.args[part] = window.args.get(part) or whole.args.get(part)
    return found


def _read(select: exp.Select, scope: Scope) -> list[Scalar]:
    """Every column that can tell two rows apart in what this SELECT shows: those that it names."""
    if any(not isinstance(star.parent, exp.Count) for star in select.find_all(exp.Star)):
        return [c.scalar for c in scope.names]
    names = {c.name.lower() for c in select.find_all(exp.Column)}
    return [c.scalar for c in scope.names if c.name.lower() in names]


def _computed(window: exp.Expression, node: exp.Window, source: Relation, scope: Scope, read: list[Scalar]) -> Computed:
    function = node.this
    if isinstance(function, exp.Filter | exp.IgnoreNulls | exp.RespectNulls):
        raise error(
            102, f"{name_of(function)} inside a window is not supported", hint="write CASE WHEN", span=span_of(node)
        )
    partition = _partition(window, scope)
    unit = source.unit.column if source.unit is not None else None
    if not is_within_unit(partition, source):
        raise error(
            402,
            "a window over rows of more than one person would show them to each other",
            hint=node.meta.get(HINT, _BY_RANK if type(function) in _OF_RANKS else _BY_UNIT),
            span=span_of(node),
        )
    assert unit is not None
    frame = _frame(window.args.get("spec"), node)
    order, ordering = _order(window.args.get("order"), scope)
    told = tuple(s for s in (*partition, *ordering) if s.computes_identifier and not s.held and s.tree != unit.tree)
    whole_order = isinstance(function, _BY_PLACE) or (frame is not None and frame.kind == "ROWS")
    if whole_order:
        order += [s.tree for s in read if s.tree not in {part.tree for part in ordering}]
    by = tuple(dict.fromkeys([unit.tree, *(p.tree for p in partition)]))

    def over(made: Node) -> Node:
        return Over(made, by, tuple(order), frame if order else None)

    value = _function(function, scope, source.unit.max_rows if source.unit is not None else None, over)
    # Within the unit alone: a finer partition begins at 1 again.
    numbers = isinstance(function, exp.RowNumber) and all(p.tree == unit.tree or same_unit(p, unit) for p in partition)
    return replace(value, shows=(*value.shows, *told), chosen=decides(function, scope), numbers=numbers)


def _partition(window: exp.Expression, scope: Scope) -> list[Scalar]:
    """The expressions that a window is partitioned by."""
    return [scalar(part, scope) for part in window.args.get("partition_by") or []]


def is_within_unit(partition: Sequence[Scalar], source: Relation) -> bool:
    """True if rows that agree in some expressions are of one unit."""
    unit = source.unit.column if source.unit is not None else None
    return bool(held_together(partition)) or any(unit is not None and p.tree == unit.tree for p in partition)


def _order(clause: exp.Expression | None, scope: Scope) -> tuple[list[Node], list[Scalar]]:
    """ORDER BY, and what it orders by."""
    found: list[Node] = []
    scalars = []
    for ordered in clause.expressions if clause is not None else []:
        inner = scalar(ordered.this, scope)
        nulls = "FIRST" if ordered.args.get("nulls_first") else "LAST"
        found.append(Ordered(inner.tree, bool(ordered.args.get("desc")), nulls))
        scalars.append(inner)
    return found, scalars


def _frame(spec: exp.Expression | None, node: exp.Expression) -> Frame | None:
    """ROWS frames of constant size; without one, DuckDB's own (the peers up to this row)."""
    if spec is None:
        return None
    kind = str(spec.args.get("kind") or "").upper()
    ends = []
    for end, side in (("start", "start_side"), ("end", "end_side")):
        value = spec.args.get(end)
        if value is None:
            ends.append("CURRENT ROW")
            continue
        text = value if isinstance(value, str) else value.name
        if not (text.upper() in ("UNBOUNDED", "CURRENT ROW") or (text.isdigit() and len(text) < 7)):
            raise error(
                106,
                "a window frame needs constants",
                hint="write ROWS BETWEEN 2 PRECEDING AND CURRENT ROW",
                span=span_of(node),
            )
        ends.append(f"{text.upper()} {spec.args.get(side) or ''}".strip())
    if kind != "ROWS" and set(ends) - {"UNBOUNDED PRECEDING", "CURRENT ROW", "UNBOUNDED FOLLOWING"}:
        raise error(
            102, f"{kind} frames with numbers are not supported", hint="write ROWS BETWEEN ...", span=span_of(node)
        )
    return Frame(kind or "ROWS", ends[0], ends[1])


def _function(node: exp.Expression, scope: Scope, rows: int | None, over: Callable[[Node], Node]) -> Computed:
    """Computation of a window's function, and its bounds."""
    if type(node) in _RANKS:
        return Computed(over(Call(_RANKS[type(node)])), counted(1, rows))
    if type(node) in _SHIFTS or type(node) in _ENDS:
        value = scalar(node.this, scope)
        name = _SHIFTS.get(type(node)) or _ENDS[type(node)]
        return Computed(over(Call(name, (value.tree, *_offset(node)))), picked(value), (value,))
    if isinstance(node.this, exp.Distinct):
        raise error(102, "DISTINCT inside a window is not supported", hint="leave it out", span=span_of(node))
    record = record_of(node)
    if isinstance(node, exp.Count) or (record is not None and record.exact in _TOTALS and record.build is None):
        found = UnitRows(scope, rows, over, framed=True).computed(node)
        if found is not None:
            return found
    raise error(102, f"{name_of(node)} within one person's rows is not supported", hint=_ADVICE, span=span_of(node))


def _offset(node: exp.Expression) -> list[Node]:
    offset = node.args.get("offset")
    if node.args.get("default") is not None:
        raise error(
            102,
            "LAG and LEAD with a default are not supported",
            hint="write COALESCE(LAG(x) OVER (...), 0)",
            span=span_of(node),
        )
    if offset is None:
        return []
    if not (isinstance(offset, exp.Literal) and offset.name.isdigit() and len(offset.name) < 7):
        raise error(106, "the offset of LAG and LEAD must be a constant", hint="write LAG(x, 1)", span=span_of(node))
    return [Number(int(offset.name))]
