"""Charts of a dashboard -> the statements that Superset sends for them: as it is opened, and filtered.

Its generic query is built here: columns, metrics, conditions, HAVING, order and limit, over a table or a query in FROM. Not built are
the pages of a series limit and what a plugin computes of the answer, neither of which changes what is bought.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from functools import cache

from sqlglot import parse_one
from sqlglot.errors import SqlglotError

from dpsql.clients.superset.exported import (
    ExportedChart,
    ExportedDashboard,
    ExportedFilter,
    Table,
    items,
    quoted,
    read_export,
    table,
    words,
)
from dpsql.clients.superset.parsing import Dpsql
from dpsql.core.errors import Error
from dpsql.session.session import Session

Listed = Callable[[str], Sequence[object]]
"""A question for a column's values -> the values, where they are declared and so free; else none."""

GRAINS = {"PT1H": "hour", "P1D": "day", "P1W": "week", "P1M": "month", "P3M": "quarter", "P1Y": "year"}
_COLUMNS = ("x_axis", "groupby", "columns", "groupbyRows", "groupbyColumns", "series", "entity", "source", "target")
_METRICS = ("metrics", "metric", "metric_2", "secondary_metric", "percent_metrics", "x", "y", "size")
_NUMBERS = ("INT", "DOUBLE", "FLOAT", "REAL", "DECIMAL", "NUMERIC")
_COMPARED = ("=", "!=", "<>", "<", "<=", ">", ">=", "LIKE", "ILIKE")
_NO_RANGE = ("", "No filter")


@dataclass(slots=True)
class DashboardStatements:
    """Statements of a dashboard.

    sql      each with its chart in a comment
    left     what could not be said, for whoever reads the proposal
    """

    sql: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)

    def leave(self, what: str) -> None:
        if what not in self.left:
            self.left.append(what)


@dataclass(frozen=True, slots=True)
class _Query:
    """A query of a chart; columns and metrics are (what they are in SQL, their name)."""

    relation: str
    columns: tuple[tuple[str, str], ...]
    metrics: tuple[tuple[str, str], ...]
    where: tuple[str, ...]
    having: tuple[str, ...]
    order: str
    limit: str
    single_rows: bool

    def sql(self) -> str:
        """As Superset writes it: what it read of the text, without comments."""
        shown = ", ".join(f"{sql} AS {quoted(name)}" for sql, name in (*self.columns, *self.metrics))
        grouped = [] if self.single_rows else [sql for sql, _ in self.columns]
        text = f"SELECT {shown} FROM {self.relation}"
        text += f" WHERE {' AND '.join(self.where)}" if self.where else ""
        text += f" GROUP BY {', '.join(grouped)}" if grouped else ""
        text += f" HAVING {' AND '.join(self.having)}" if self.having else ""
        text += f" ORDER BY {self.order} DESC" if self.order else ""
        text += f" LIMIT {self.limit}" if self.limit else ""
        try:
            return str(parse_one(text, dialect=Dpsql).sql(dialect=Dpsql, comments=False))
        except SqlglotError:
            return text


def statements_of(path: str, session: Session) -> DashboardStatements:
    """The statements of an exported dashboard. Nothing is charged: values of filters are asked where they are declared.

    Raises 802 where the file is no export.
    """

    def declared(sql: str) -> Sequence[object]:
        try:
            _, releases = session.price(sql)
            return [] if releases else [row[0] for row in session.execute(sql).rows]
        except Error:
            return []

    return statements(read_export(path), cache(declared))


def statements(dashboards: Sequence[ExportedDashboard], listed: Listed) -> DashboardStatements:
    """Statements of every chart: as its dashboard is opened, with a value chosen in every filter that reaches it, and with one more
    group of another chart clicked on.

    A filter's value is its first: whichever is chosen, the statement is read off the same cube.
    """
    found = DashboardStatements()
    for board in dashboards:
        for chart in board.charts:
            queries = [query for part in ("", "_b") for query in _queries(chart, part, found)]
            if not queries:
                found.leave(f"the chart {chart.title!r}: it asks nothing that is read here")
            for query in queries:
                _asked(query, chart, board, listed, found)
    return found


def _asked(
    query: _Query, chart: ExportedChart, board: ExportedDashboard, listed: Listed, found: DashboardStatements
) -> None:
    """Add a query of a chart, and what filters make of it."""
    opened, filtered = list(query.where), list(query.where)
    names: list[str] = []
    for one in board.filters:
        if not one.reaches(chart):
            continue
        standing, chosen = _filtered(one, chart, listed, found)
        opened += standing
        filtered += chosen or standing
        names += [one.name] * bool(chosen)
    _add(found, chart.title, replace(query, where=tuple(opened)))
    if names:
        _add(found, f"{chart.title}, filtered by {', '.join(names)}", replace(query, where=tuple(filtered)))
    for expression, name in _clicked(chart, query, board) if board.crossed else ():
        value = _first(expression, chart, listed)
        if value is not None:
            where = (*filtered, f"{expression} IN ({_literal(value, '')})")
            _add(found, f"{chart.title}, a click on {name}", replace(query, where=where))


def _add(found: DashboardStatements, title: str, query: _Query) -> None:
    """Add a query behind its title in a comment, which neither ends early nor is one of options."""
    text, said = query.sql(), " ".join(title.replace("*", "").split())
    said = f"chart {said}" if said.lower().startswith("dpsql") else said
    if not any(one.endswith(f"*/ {text}") for one in found.sql):
        found.sql.append(f"/* {said} */ {text}")


def _clicked(chart: ExportedChart, query: _Query, board: ExportedDashboard) -> Iterator[tuple[str, str]]:
    """Columns that other charts of the same dataset are grouped by, and this one is not."""
    known = {sql for sql, _ in query.columns}
    for other in board.charts:
        if other is not chart and other.dataset == chart.dataset:
            for one in _queries(other, "", DashboardStatements()):
                yield from (column for column in one.columns if column[0] not in known and not one.single_rows)
                known |= {sql for sql, _ in one.columns}


def _filtered(
    one: ExportedFilter, chart: ExportedChart, listed: Listed, found: DashboardStatements
) -> tuple[list[str], list[str]]:
    """The conditions of a filter when the dashboard is opened, and when a value is chosen; the second is empty where none can be."""
    if one.kind == "filter_time":
        column = _time_of(chart)
        return (_range(column, one.time_range, chart, found) if column else []), []
    if one.kind not in ("filter_select", "filter_range"):
        found.leave(f"the filter {one.name!r}: what it changes is no condition")
        return [], []
    if one.column not in chart.dataset.columns:
        return [], []
    standing = [text for told in one.chosen for text in [_condition(told, "col", "op", "val", chart, found)] if text]
    if standing:
        return standing, standing
    expression = _column_sql(one.column, chart)
    value = _first(expression, chart, listed)
    if value is None:
        found.leave(f"the filter {one.name!r}: {one.column} has no declared values, so no cube answers it")
        return [], []
    shown = _literal(value, "")
    return [], [f"{expression} IN ({shown})" if one.kind == "filter_select" else f"{expression} >= {shown}"]


def _first(expression: str, chart: ExportedChart, listed: Listed) -> object | None:
    """The first declared value of a column, asked as the box of a filter asks."""
    values = listed(f"SELECT {expression} AS value FROM {chart.dataset.relation} GROUP BY {expression} LIMIT 1000")
    return next((value for value in values if value is not None), None)


# --- the query of a chart


def _queries(chart: ExportedChart, part: str, found: DashboardStatements) -> list[_Query]:
    """The query of a chart, or the second one of a chart that has two.

    part  behind the names of its settings
    """
    params = chart.params
    told = [params.get(f"{name}{part}") for name in _METRICS]
    metrics = [_metric(one, chart) for own in told for one in items(own)]
    named = [one for name in _COLUMNS for one in items(params.get(f"{name}{part}" if name != "x_axis" else name))]
    columns = [_column(one, chart) for one in named if not isinstance(one, (int, float))]
    single = part == "" and params.get("query_mode") == "raw"
    if single:
        metrics, columns = [], [_column(one, chart) for one in items(params.get("all_columns"))]
    since = words(params.get("granularity_sqla"))
    if since and not params.get("x_axis") and words(params.get("viz_type")) not in ("table", "big_number_total"):
        columns = [(_grained(since, words(params.get("time_grain_sqla")), chart), "__timestamp"), *columns]
    if not metrics and not (single and columns) and (part or not columns):
        return []
    where, having = _conditions(chart, part, found)
    order = next((_metric(one, chart)[0] for one in items(params.get(f"timeseries_limit_metric{part}"))), "")
    limit = words(params.get(f"row_limit{part}"))
    kept = tuple(dict.fromkeys(columns)), tuple(dict.fromkeys(metrics))
    return [
        _Query(chart.dataset.relation, *kept, tuple(where), tuple(having), order, limit * limit.isdecimal(), single)
    ]


def _metric(told: object, chart: ExportedChart) -> tuple[str, str]:
    """A metric of the dataset, by its name, or one of the chart's own."""
    own = table(told)
    if not own:
        name = words(told)
        return chart.dataset.metrics.get(name, name), name
    if own.get("expressionType") == "SQL":
        sql = words(own.get("sqlExpression"))
    else:
        function = words(own.get("aggregate")).upper()
        argument = _column_sql(words(table(own.get("column")).get("column_name")), chart)
        sql = f"COUNT(DISTINCT {argument})" if function == "COUNT_DISTINCT" else f"{function}({argument})"
    return sql, words(own.get("label")) or sql


def _column(told: object, chart: ExportedChart) -> tuple[str, str]:
    own, grain = table(told), words(chart.params.get("time_grain_sqla"))
    if not own:
        return _grained(words(told), grain, chart), words(told)
    sql = words(own.get("sqlExpression"))
    grain = words(own.get("timeGrain")) or (grain if own.get("columnType") == "BASE_AXIS" else "")
    name = words(own.get("label")) or sql
    return (_grained(sql, grain, chart) if sql in chart.dataset.columns else sql), name


def _grained(name: str, grain: str, chart: ExportedChart) -> str:
    """A column; one of time by its grain."""
    column = chart.dataset.columns.get(name)
    sql = _column_sql(name, chart)
    return f"DATE_TRUNC('{GRAINS[grain]}', {sql})" if column is not None and column.is_time and grain in GRAINS else sql


def _column_sql(name: str, chart: ExportedChart) -> str:
    column = chart.dataset.columns.get(name)
    return column.sql if column is not None and column.sql else quoted(name)


# --- conditions


def _conditions(chart: ExportedChart, part: str, found: DashboardStatements) -> tuple[list[str], list[str]]:
    """Of WHERE and of HAVING."""
    where: list[str] = []
    having: list[str] = []
    for told in map(table, items(chart.params.get(f"adhoc_filters{part}"))):
        if told.get("expressionType") == "SQL":
            text = f"({words(told.get('sqlExpression'))})"
        else:
            text = _condition(told, "subject", "operator", "comparator", chart, found)
        if text:
            (having if told.get("clause") == "HAVING" else where).append(text)
    since = words(chart.params.get("granularity_sqla"))
    if since:
        where += _range(since, words(chart.params.get("time_range")), chart, found)
    return where, having


def _condition(
    told: Table, subject: str, operator: str, value: str, chart: ExportedChart, found: DashboardStatements
) -> str:
    """A condition on one column; "" where it leaves all rows, or cannot be said."""
    name, sign, against = words(told.get(subject)), words(told.get(operator)).upper(), told.get(value)
    column = _column_sql(name, chart)
    kind = chart.dataset.columns[name].type if name in chart.dataset.columns else ""
    sign = {"==": "=", "TEMPORAL RANGE": "TEMPORAL_RANGE"}.get(sign, sign)
    if sign == "TEMPORAL_RANGE":
        return " AND ".join(_range(name, words(against), chart, found))
    if sign.startswith("IS "):
        return f"{column} {sign}"
    values = [_literal(one, kind) for one in items(against)]
    if sign in ("IN", "NOT IN") and values:
        return f"{column} {sign} ({', '.join(values)})"
    if sign in _COMPARED and values:
        return f"{column} {sign} {values[0]}"
    found.leave(f"a condition of the chart {chart.title!r}: {name} {sign}")
    return ""


def _range(name: str, told: str, chart: ExportedChart, found: DashboardStatements) -> list[str]:
    """A range of time, its end left out.

    Why  one that moves from day to day is another question every day, which no cube over it answers for long
    """
    if told in _NO_RANGE:
        return []
    ends = [_moment(end.strip()) for end in told.split(" : ")]
    if len(ends) != 2 or None in ends:
        found.leave(
            f"the time range {told!r} of the chart {chart.title!r}: it moves; a cube by that time answers each of its values"
        )
        return []
    column = _column_sql(name, chart)
    return [f"{column} {sign} {_literal(end, '')}" for sign, end in zip((">=", "<"), ends, strict=True) if end]


def _moment(text: str) -> datetime | str | None:
    """A time, "" where there is no end, None where it is something else."""
    if not text:
        return ""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def _time_of(chart: ExportedChart) -> str:
    """The column that a dashboard's range of time is about."""
    for told in map(table, items(chart.params.get("adhoc_filters"))):
        if words(told.get("operator")).upper() in ("TEMPORAL_RANGE", "TEMPORAL RANGE"):
            return words(told.get("subject"))
    axis = words(chart.params.get("x_axis"))
    on_axis = axis if axis in chart.dataset.columns and chart.dataset.columns[axis].is_time else ""
    return words(chart.params.get("granularity_sqla")) or on_axis


def _literal(value: object, kind: str) -> str:
    """A value in SQL.

    kind  the type of the column; a number is written as text by some charts
    """
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, int):
        return words(value)
    if isinstance(value, (float, Decimal)):
        return str(value)
    if isinstance(value, datetime):
        return f"TIMESTAMP '{value:%Y-%m-%d %H:%M:%S.%f}'"
    if isinstance(value, date):
        return f"DATE '{value:%Y-%m-%d}'"
    text = words(value)
    if any(word in kind for word in _NUMBERS) and _is_number(text):
        return text
    if kind.startswith("BOOL") and text.lower() in ("true", "false"):
        return text.upper()
    return "'" + text.replace("'", "''") + "'"


def _is_number(text: str) -> bool:
    try:
        return Decimal(text).is_finite()
    except InvalidOperation:
        return False
