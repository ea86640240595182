"""The public side of one statement while its releases are made: input tables, estimates and intervals, all of released values; before
the charge, empty tables that its columns are described by."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import overload

from dpsql.aggregates.sampling import OF_SAMPLE
from dpsql.answers.look_up import Held
from dpsql.core import cancellation
from dpsql.core.columns import ResultRows
from dpsql.core.errors import Error, error
from dpsql.core.sqltypes import SqlType, parse_type
from dpsql.plan.compiled import Compiled, CompiledRelease
from dpsql.plan.releases import Release
from dpsql.plan.resolved import PostQuery
from dpsql.plan.suppressing import LEVEL
from dpsql.plan.tables import ROW_NUMBER, Accuracy, NoisyTable, PublicTable, redrawn_table
from dpsql.postprocess.declared import DeclaredTables
from dpsql.postprocess.listing import listed
from dpsql.postprocess.sandbox import Sandbox
from dpsql.release.estimating import Estimated, SideTable, beside, empty, end_of, there, typical, with_bars
from dpsql.release.noisy import KeyTables, key_list, wire_columns
from dpsql.schema.model import RESERVED
from dpsql.sql.duckdb import quoted


class Staged:
    """The public side of one statement while its releases are made: what is released so far, and the input tables of it.

    noisy      released tables, by the name of the release: stored answers, and what is released meanwhile; of groups over which
               something is computed those that are there
    columns    (name, type) of the result
    max_cells  [groups] the most that listed keys may make
    max_rows   [groups] the same, of the owner's limits of one statement
    jointly    whether the intervals of all released cells hold together
    sampling   whether they hold the error of a random sample too
    charged    whether the statement was paid for: then an error says that the charge stands

    Each release is loaded into the sandbox once, when something there reads it.
    """

    def __init__(
        self,
        held: Held,
        columns: tuple[tuple[str, str], ...],
        sandbox: Sandbox,
        max_cells: int,
        max_rows: int | None,
        jointly: bool = False,
        sampling: bool = False,
    ) -> None:
        compiled = self._compiled = held.plan
        self._columns = columns
        self._sandbox = sandbox
        self._max_cells, self._max_rows = max_cells, max_rows
        self._jointly, self._sampling, self._redraws = jointly, sampling, not (jointly or sampling)
        self.notes = (OF_SAMPLE,) if sampling else ()
        self._parts = {part.release.name: part for part in compiled.releases}
        self._bounds = {bound.name: bound for bound in compiled.bounds}
        self._tables: dict[str, PublicTable] = {}
        self._estimated: dict[str, Estimated] = {}
        self._loaded: set[str] = set()
        self.noisy = {name: there(self._parts[name].release, table) for name, table in held.tables.items()}
        self.charged = False

    def add(self, name: str, noisy: NoisyTable) -> None:
        """Add a table that was just released under a name."""
        self.noisy[name] = there(self._parts[name].release, noisy)

    def bind_public(self) -> None:
        """The input tables that are known before anything is released: what is wrong with them costs nothing."""
        for bound in self._bounds.values():
            if all(name in self.noisy or self._is_ready(name) for name in bound.reads):
                self.bound(bound.name)
        for part in self._parts.values():
            if all(name in self._tables for name in part.bounds):
                self._check_cells(part)

    def _is_ready(self, name: str) -> bool:
        return name in self._tables or (name in self._parts and not self._parts[name].release.parts)

    def bound(self, name: str) -> PublicTable:
        """An input table, computed when it is first read. Raises 706 where a scalar subquery has several rows."""
        if name not in self._tables:
            bound = self._bounds[name]
            self._sandbox.still_there(bound.public)
            self._sandbox.need(bound.public)
            for read in bound.reads:
                if read in self._parts:
                    self.load(self._parts[read])
                else:
                    self._sandbox.load(self.bound(read))
            table = self._sandbox.table(name, bound.sql)
            if bound.one_row and table.data and len(table.data[0]) > 1:
                raise self._problem(
                    706, "a subquery used as a value has more than one row", "aggregate, or write LIMIT 1"
                )
            if bound.repeats(table):
                raise error(
                    901, "rows repeat that people's rows were to be joined with; what was charged stays charged"
                )
            self._tables[name] = table
        return self._tables[name]

    def released(self, names: Iterable[str]) -> dict[str, PublicTable]:
        """Of some input tables those that are made of releases, as far as these are known."""
        return {name: self._tables[name] for name in names if name in self._tables and self._is_of_releases(name)}

    def _is_of_releases(self, name: str) -> bool:
        return name in self._parts or any(map(self._is_of_releases, self._bounds[name].reads))

    def lists(self, part: CompiledRelease) -> KeyTables:
        """The input tables that list a release's keys. Raises 304 where they make more groups than the owner allows."""
        self._check_cells(part)
        return self._lists(part)

    def _lists(self, part: CompiledRelease) -> KeyTables:
        names = [listed.bound for listed in part.release.limited.block.lists]
        return {name: wire_columns(self.bound(name)) for name in names}

    def _check_cells(self, part: CompiledRelease) -> None:
        if part.release.marginals:
            # no table of all keys is made, and the plan knows how many cells their marginals have
            return
        groups = 1
        for one in part.release.limited.block.lists:
            rows = len(self.bound(one.bound).data[0]) if self.bound(one.bound).data else 0
            if one.groups is not None and rows > one.groups:
                # what one unit can change was worked out from fewer
                raise error(901, "a list of group keys is longer than planned")
            groups *= rows
        for key in part.release.keys:
            groups *= key.levels
        if groups > self._max_cells:
            what = f"the listed keys make more than {self._max_cells:,} groups"
            raise self._problem(304, what, "group by fewer or coarser columns")
        if self._max_rows is not None and groups > self._max_rows:
            raise cancellation.current().ended(cancellation.COUNTED)

    def _problem(self, code: int, what: str, hint: str = "") -> Error:
        return error(code, f"{what}; what was charged stays charged") if self.charged else error(code, what, hint=hint)

    def load(self, part: CompiledRelease) -> None:
        """Put a release's estimates into the sandbox, and what is read beside them."""
        name = part.release.name
        if name not in self._loaded:
            self._loaded.add(name)
            found = self.estimated(part)
            self._sandbox.load(found.table)
            for table in read_beside(self._compiled, part.release, key_types(self._compiled, part, self._columns)):
                self._sandbox.load(table.make(self._cells(part), found))

    def estimated(self, part: CompiledRelease) -> Estimated:
        """A release's estimates."""
        name = part.release.name
        if name not in self._estimated:
            types = key_types(self._compiled, part, self._columns)
            self._estimated[name] = with_bars(part.release, self._cells(part), types, self._jointly, self._sampling)
        return self._estimated[name]

    def _cells(self, part: CompiledRelease) -> NoisyTable:
        found = self.noisy.get(part.release.name)
        return found if found is not None else key_list(part.release, self._lists(part))

    def rows(self, post_query: PostQuery) -> ResultRows:
        """The rows of the final query: read off the released table where it only lists it, else the sandbox's. Raises 706, 712."""
        releases = self._compiled.releases
        if post_query.listing is not None:
            (part,) = (part for part in releases if part.release.name == post_query.release)
            found = listed(self.estimated(part).table, post_query.listing, self._max_rows)
            if found is not None:
                return found
        for part in releases:
            self.load(part)
        return self._sandbox.run(post_query.sql)

    def accuracies(self, post_query: PostQuery, types: Sequence[str], rows: Sequence[object]) -> Accuracies:
        """The intervals of the result.

        rows  of each, the place of the released row that it shows; of totals the places of those that it adds up
        """
        if not post_query.totals or post_query.release is None:
            tables = {name: self.estimated(part) for name, part in self._parts.items()}
            return Accuracies(tables, post_query.direct, rows, self._computed(post_query, types))
        from dpsql.release.adding_up import added_up

        part = self._parts[post_query.release]
        found, wanted = added_up(part.release, self._cells(part), rows), _wanted(post_query, types)
        again = redrawn_table(post_query.release)
        is_drawn = bool(wanted) and self._redraws
        computed = ComputedIntervals(self._sandbox, lambda: found.redrawn(LEVEL), again, wanted) if is_drawn else None
        totals = found.estimated(jointly=self._jointly)
        if self._sampling:
            totals = replace(totals, intervals=dict.fromkeys(totals.intervals, [None] * len(rows)))
        return Accuracies({part.release.name: totals}, post_query.direct, range(len(rows)), computed)

    def _computed(self, post_query: PostQuery, types: Sequence[str]) -> ComputedIntervals | None:
        """The intervals of what the result computes from the rows of one release; None where it computes nothing, or where they are to
        hold jointly: there are too few draws to tell."""
        wanted = _wanted(post_query, types)
        release = post_query.release
        if (
            not self._redraws
            or not wanted
            or release is None
            or release not in self._parts
            or release not in self.noisy
        ):
            return None
        part = self._parts[release].release
        names = key_types(self._compiled, self._parts[release], self._columns)
        redrawn = next(table for table in beside(part, names, LEVEL) if table.name == redrawn_table(release))
        noisy, estimated = self.noisy[release], self._estimated[release]
        return ComputedIntervals(self._sandbox, lambda: redrawn.make(noisy, estimated), redrawn.name, wanted)


def _wanted(post_query: PostQuery, types: Sequence[str]) -> dict[int, str]:
    """By its place, the text of each number that is computed over a redrawn table."""
    return {
        i: text
        for i, (text, sqltype) in enumerate(zip(post_query.computed, types, strict=False))
        if text is not None and (found := parse_type(sqltype)) is not None and found.is_number
    }


def read_beside(compiled: Compiled, asked: Release, types: dict[str, SqlType]) -> list[SideTable]:
    """The tables about a release that the statement itself reads."""
    texts = [compiled.plan.post_query.sql, *(bound.sql for bound in compiled.bounds)]
    return [table for table in beside(asked, types, LEVEL) if any(quoted(table.name) in text for text in texts)]


def key_types(compiled: Compiled, part: CompiledRelease, columns: tuple[tuple[str, str], ...]) -> dict[str, SqlType]:
    """Keys that are shown as they are take the type that the engine names for them."""
    types: dict[str, SqlType] = {}
    keys = {key.name for key in part.release.keys}
    for source, (_, text) in zip(compiled.plan.post_query.direct, columns, strict=False):
        found = parse_type(text)
        if source is not None and source[0] == part.release.name and source[1] in keys and found is not None:
            types[source[1]] = found
    return types


@dataclass(slots=True)
class ComputedIntervals:
    """Intervals of columns that are computed from released ones, worked out together when the first is read.

    make    the redrawn table
    name    what it is called in `wanted`
    wanted  by its position, the text of each column over that table
    """

    sandbox: Sandbox
    make: Callable[[], PublicTable]
    name: str
    wanted: dict[int, str]
    _known: dict[int, dict[object, tuple[float, float]]] | None = None

    def interval(self, column: int, row: object) -> tuple[float, float] | None:
        if column not in self.wanted:
            return None
        if self._known is None:
            self._known = self._worked_out()
        return self._known[column].get(row)

    def _worked_out(self) -> dict[int, dict[object, tuple[float, float]]]:
        """The middle 95 % of each column's known values; none where more than 2.5 % of the draws are unknown."""
        table = self.make()
        if not table.data[-1]:
            return {column: {} for column in self.wanted}
        # under a name of its own: a later statement may have a release of the same name
        own = f"{RESERVED}accuracy {id(self)}"
        self.sandbox.load(replace(table, name=own))
        outside = float(1 - LEVEL) / 2
        items = ", ".join(
            f"quantile_cont(TRY_CAST({text} AS DOUBLE), [{outside}, {1 - outside}]), count({text}) * 1.0 / count(*)"
            for text in self.wanted.values()
        )
        source = f"{quoted(own)} AS {quoted(self.name)}"
        rows = self.sandbox.rows(f"SELECT {ROW_NUMBER}, {items} FROM {source} GROUP BY {ROW_NUMBER}")
        found: dict[int, dict[object, tuple[float, float]]] = {}
        for i, column in enumerate(self.wanted):
            found[column] = {}
            for row in rows:
                ends, known = row[1 + 2 * i], row[2 + 2 * i]
                if isinstance(ends, list) and isinstance(known, int | float | Decimal) and known > 1 - outside:
                    found[column][row[0]] = (float(ends[0]), float(ends[1]))
        return found


@dataclass(frozen=True, slots=True)
class Accuracies(Sequence[tuple[Accuracy | None, ...]]):
    """The intervals of a result, made row by row when they are read: most callers of a large one never do.

    positions  of every row, the released row that it shows
    computed   the intervals of columns that show no released value as it is, or None
    """

    tables: dict[str, Estimated]
    direct: tuple[tuple[str, str] | None, ...]
    positions: Sequence[object]
    computed: ComputedIntervals | None = None

    @staticmethod
    def nothing(columns: int, rows: int) -> Accuracies:
        """Of values that have no error."""
        return Accuracies({}, (None,) * columns, [0] * rows)

    @property
    def noisy(self) -> tuple[bool, ...]:
        """Of each column, whether its values may have intervals: so by the statement alone."""
        computed = self.computed.wanted if self.computed is not None else ()
        return tuple(
            source[1] in self.tables[source[0]].intervals if source is not None else i in computed
            for i, source in enumerate(self.direct)
        )

    def __len__(self) -> int:
        return len(self.positions)

    @overload
    def __getitem__(self, i: int) -> tuple[Accuracy | None, ...]: ...
    @overload
    def __getitem__(self, i: slice) -> list[tuple[Accuracy | None, ...]]: ...
    def __getitem__(self, i: int | slice) -> tuple[Accuracy | None, ...] | list[tuple[Accuracy | None, ...]]:
        if isinstance(i, slice):
            return [self[j] for j in range(len(self))[i]]
        position = self.positions[i]
        return tuple(self._accuracy(column, source, position) for column, source in enumerate(self.direct))

    def _accuracy(self, column: int, source: tuple[str, str] | None, row: object) -> Accuracy | None:
        if source is not None:
            return _released_accuracy(self.tables[source[0]], source[1], row)
        interval = self.computed.interval(column, row) if self.computed is not None else None
        return Accuracy(interval[0], interval[1], float(LEVEL)) if interval is not None else None


def _released_accuracy(table: Estimated, column: str, row: object) -> Accuracy | None:
    """The interval of a cell that shows a released value unchanged; a group key has none."""
    if column not in table.intervals or not isinstance(row, int):
        return None
    interval = table.intervals[column][row]
    if interval is None:
        return None
    sqltype = dict(table.table.columns)[column]
    low, high = (end_of(number, sqltype) for number in interval)
    return Accuracy(low, high, float(LEVEL))


Columns = tuple[tuple[str, str], ...]
"""(name, DuckDB type) of each column."""


def describe(compiled: Compiled, plain: str | None, catalog: DeclaredTables, sandbox: Sandbox) -> Columns:
    """Names and types of the result. Raises 106 where the final query does not bind, or fails on typical values.

    plain  the query as it was written, which DuckDB names columns after: POW(x, 2) is not POWER(x, 2)
    """
    sandbox.forget()
    post_query = compiled.plan.post_query
    if post_query.plain_sql is None:
        return sandbox.describe(post_query.sql)
    named = catalog.columns(post_query.plain_sql)
    written = _named(plain, catalog) if plain is not None else ()
    if len(written) == len(named):
        named = tuple((name, sqltype) for (name, _), (_, sqltype) in zip(written, named, strict=True))
    if not compiled.releases:
        return named
    if post_query.listing is not None:
        return _as_released(compiled, named)
    sandbox.need(post_query.public)
    tables: list[PublicTable] = []
    for part in compiled.releases:
        types = key_types(compiled, part, named)
        tables += [empty(part.release, types), *(t.empty for t in read_beside(compiled, part.release, types))]
    # what binds may still fail on its values, as a text where a list is asked for; a public table may be large
    shown = sandbox.tried(post_query.sql, tables if post_query.public else [typical(table) for table in tables])
    return tuple((name, sqltype) for (name, _), (_, sqltype) in zip(named, shown, strict=False))


def _as_released(compiled: Compiled, named: Columns) -> Columns:
    """The names, with the types of the released columns that are listed: nothing is computed of them that could fail."""
    post_query = compiled.plan.post_query
    (part,) = (part for part in compiled.releases if part.release.name == post_query.release)
    types = dict(empty(part.release, key_types(compiled, part, named)).columns)
    shown = post_query.listing.columns if post_query.listing is not None else ()
    return tuple((name, str(types[column])) for (name, _), column in zip(named, shown, strict=False))


def _named(plain: str, catalog: DeclaredTables) -> Columns:
    """The columns of the statement as it was written; none where DuckDB does not read it as the parser did."""
    try:
        return catalog.columns(plain)
    except Error:
        return ()
