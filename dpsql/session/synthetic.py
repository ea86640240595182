"""Statements about synthetic tables: CREATE SYNTHETIC TABLE, DROP, SHOW SYNTHETIC TABLES, EXPLAIN, and the rows of a statement's FROM.

Rows are drawn from what a cube has released, and from nothing else: post-processing, which no accountant is asked about. They are
kept, so that a table stays the same while the name stands for it. What decides them is the cube's answer, the statement and its seed,
none of which is a secret; nothing would be safer if they were drawn by one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import pi, sqrt

import numpy as np
from sqlglot import exp

from dpsql.accounting.cubes import StoredCube
from dpsql.accounting.synthetic import SYNTHETIC, StoredSynthetic, SyntheticColumn
from dpsql.core import cancellation
from dpsql.core.columns import Column
from dpsql.core.errors import error
from dpsql.core.loss import NO_LOSS
from dpsql.core.wording import counted, listed, number
from dpsql.plan.tables import PublicTable
from dpsql.planner.cube_terms import CreateSynthetic, NamedCube
from dpsql.planner.parse import Catalog, Query
from dpsql.planner.resolve.catalog import check_columns
from dpsql.planner.walks import every
from dpsql.postprocess.synthetic import PairTables, drawn, pairs_of
from dpsql.release.staging import Accuracies, Columns
from dpsql.schema import spent
from dpsql.schema.mistakes import printable
from dpsql.session import cubes, naming
from dpsql.session.naming import Buy, NamedKind, Row
from dpsql.session.result import Answer
from dpsql.session.world import World

_MADE: Columns = (
    ("name", "VARCHAR"),
    ("rows", "BIGINT"),
    ("columns", "BIGINT"),
    ("noise", "DOUBLE"),
    ("fit", "DOUBLE"),
)
MOST_TABLES = 50
"""Tables that one analyst may have made: they are free, and the rows of each stand in the ledger. Of each alone, so that nobody takes
them from others (rule 52)."""
USUAL_ROWS = 100_000
"""Rows of a table that does not say how many, at most."""
MOST_NOISE = 0.2
"""The largest total variation that the noise of a cube may make of its tables by two keys: of ten columns that go together as those of
tests/bench/synthetic.py do, rows are then farther from the data than rows whose columns are drawn one by one."""


@dataclass(frozen=True, slots=True)
class PlannedRows:
    """A synthetic table up to its rows.

    axes   of the cube, a column each
    units  number of rows that the cube has released of everybody
    noise  total variation by two columns that the cube's noise makes, the mean over all pairs
    """

    statement: CreateSynthetic
    cube: StoredCube
    axes: tuple[int, ...]
    columns: tuple[SyntheticColumn, ...]
    units: float
    noise: float

    @property
    def rows(self) -> int:
        return self.statement.rows or min(USUAL_ROWS, max(1, round(self.units)))

    @property
    def key(self) -> bytes:
        """Decided by the cube's answer and by the statement."""
        parts = (self.cube.fingerprint, [one.name for one in self.columns], self.rows, self.statement.seed)
        return hashlib.blake2b(repr(parts).encode(), digest_size=32, person=b"dpsql synthetic").digest()

    @property
    def fingerprint(self) -> str:
        return self.key.hex()


class SyntheticKind(NamedKind[StoredSynthetic]):
    """Synthetic tables, as CREATE SYNTHETIC TABLE makes them; all of it is free."""

    noun, register, table, creates = "synthetic table", SYNTHETIC, spent.SYNTHETIC, CreateSynthetic

    def create(self, statement: CreateSynthetic, world: World, buy: Buy, key: str) -> Answer:
        with cancellation.current().planning():
            planned = self.plan(statement, world)
            warned = _judged(planned, world)
            one = self.names(world).get(statement.name)
            self.require_free(one, planned.fingerprint)
            if one is None:
                self._require_room(world)
                one = _drawn(planned, world)
                self.names(world).keep(one)
        row = (one.name, one.rows, len(one.columns), one.noise, one.fit)
        notes = (*warned, spent.IS_SYNTHETIC)
        return Answer(_MADE, [row], Accuracies.nothing(len(_MADE), 1), world.receipt(NO_LOSS), notes=notes)

    def _require_room(self, world: World) -> None:
        if sum(one.analyst == world.analyst.name for one in self.names(world).all()) >= MOST_TABLES:
            what = f"you made {MOST_TABLES} {self.noun}s already"
            raise error(304, what, hint=f"write DROP {self.noun.upper()} and a name")

    def answers(self, statement: CreateSynthetic, world: World) -> Columns:
        return _MADE

    def story(self, statement: CreateSynthetic, world: World) -> Iterator[str]:
        planned = self.plan(statement, world)
        keys = listed([f"{one.name} ({len(one.values):,})" for one in planned.columns])
        yield f"synthetic table {printable(statement.name)}: {counted(planned.rows, 'row')} of {keys}"
        cube, units = printable(planned.cube.name), number(round(planned.units))
        yield f"  drawn from the groups by two keys of the cube {cube}, of {units} rows"
        yield "price: free, for it reads released numbers alone"
        yield f"  noise moves {planned.noise:.2%} of the rows in a table by two columns, on the average"
        yield f"note: {spent.IS_SYNTHETIC}"

    def row(self, one: StoredSynthetic) -> Row:
        told = ", ".join(column.name for column in one.columns)
        return (one.name, one.cube, told, one.rows, one.noise, one.fit)

    def plan(self, statement: CreateSynthetic, world: World) -> PlannedRows:
        """A table up to its rows. Raises 104, 105, 304."""
        named = NamedCube("REFRESH", statement.cube, statement.span)
        known = cubes.KIND.plan(cubes.KIND.meant(named, world), world)
        cube = cubes.KIND.names(world).get(statement.cube)
        if cube is None or cube.fingerprint != known.fingerprint:
            what = (
                f"the cube {printable(statement.cube)} is of an earlier version of the data, or of other declarations"
            )
            raise error(105, what, hint=f"write REFRESH CUBE {statement.cube} before", span=statement.span)
        axes = _axes(statement, cube)
        for axis in axes:
            if cube.values_of(axis) is not None:
                what = f"values of {cube.told[axis]} were selected privately, and the rows of all others have none to be drawn"
                raise error(104, what, hint="name the other keys of the cube", span=statement.span)
        keys = [(cube.told[axis], known.release.keys[axis]) for axis in axes]
        made = tuple(SyntheticColumn(told, key.scalar.sqltype, tuple(key.values or ())) for told, key in keys)
        units = float(world.stored.cubes.counts(cube, ())[0])
        planned = PlannedRows(statement, cube, axes, made, units, _noise(cube, axes) / max(units, 1.0))
        _check(planned)
        return planned


KIND = SyntheticKind()


def _axes(statement: CreateSynthetic, cube: StoredCube) -> tuple[int, ...]:
    """The axes of the columns. Raises 104, 105."""
    if cube.ways < 2:
        what = "rows are drawn from the groups by two keys, and this cube has none"
        raise error(104, what, hint="make a cube with ways = 2", span=statement.span)
    told = [name.lower() for name in cube.told]
    for name in statement.columns:
        if name.lower() not in told:
            raise error(
                105,
                f"{name[:60]!r} is no key of the cube {printable(cube.name)}",
                hint=f"its keys are {', '.join(cube.told)}",
            )
    axes = tuple(told.index(name.lower()) for name in statement.columns) or tuple(range(len(told)))
    if len(axes) < 2 or len({told[axis] for axis in axes}) < len(axes):
        raise error(
            104,
            "a synthetic table has at least two columns, each of its own name",
            hint="name different keys of the cube",
        )
    return axes


def _noise(cube: StoredCube, axes: Sequence[int]) -> float:
    """Rows that the noise of the tables by two keys moves, the mean over all pairs: half of its mean size in each cell."""
    residual = cube.statistics[0].residual
    each = [
        cube.shape[i] * cube.shape[j] * sqrt(2 / pi * residual.of_marginal(frozenset((i, j)))) / 2
        for i, j in ((axes[a], axes[b]) for a, b in pairs_of(len(axes)))
    ]
    return sum(each) / len(each)


def _check(planned: PlannedRows) -> None:
    """Raises 304 for rows that would be noise."""
    if planned.noise > MOST_NOISE:
        what = (
            f"noise moves {planned.noise:.0%} of the rows of the cube's tables by two keys, more than {MOST_NOISE:.0%}: rows drawn "
            "from them would say no more than columns drawn one by one"
        )
        hint = "name fewer keys, or make a cube of fewer or coarser keys, or at a larger epsilon"
        raise error(304, what, hint=hint, span=planned.statement.span)


def _judged(planned: PlannedRows, world: World) -> tuple[str, ...]:
    """Notes of the guard. Raises 602 for noise that could tell about one person, where the guard blocks.

    Why  what is read off such a cube is compared with earlier answers, statement by statement (rule 69), and a table of rows answers
         any that comes later
    """
    if world.schema.guard.mode == "off" or world.stored.cubes.deviates(planned.cube):
        return ()
    what = f"the noise of the cube {printable(planned.cube.name)} is narrower than the guard's readable: what is read off it is judged"
    hint = "ask the cube itself, or make one of more keys or at a smaller epsilon"
    return tuple(map(str, world.guard.settled([error(602, what, hint=hint, span=planned.statement.span)])))


def _drawn(planned: PlannedRows, world: World) -> StoredSynthetic:
    cube, axes = planned.cube, planned.axes
    sizes = [cube.shape[axis] for axis in axes]
    noisy = {
        (a, b): world.stored.cubes.counts(cube, (axes[a], axes[b])).reshape(sizes[a], sizes[b])
        for a, b in pairs_of(len(axes))
    }
    tables = PairTables.projected(sizes, noisy)
    codes = drawn(tables, planned.rows, planned.key)
    statement = planned.statement
    return StoredSynthetic(
        statement.name, world.analyst.name, naming.written(statement.sql), cube.name, planned.fingerprint, planned.columns, codes,
        planned.noise, tables.off(codes),
    )  # fmt: skip


# --- reading ------------------------------------------------------------------------------------------------------------


def load(statement: Query | Catalog, world: World) -> None:
    """Put the rows of the synthetic tables that a statement reads where it is answered. Raises 105."""
    if isinstance(statement, Catalog):
        is_one = len(statement.table) == 2 and spent.is_synthetic(statement.table[0])
        found = [KIND.known(statement.table[1], world)] if is_one else []
    else:
        read = every(statement.tree, exp.Table)
        found = [
            KIND.known(node.name, world) for node in read if isinstance(node, exp.Table) and spent.is_synthetic(node.db)
        ]
        if len(found) == len(read):
            named = [column.name for table in found for column in table.columns]
            check_columns(statement.tree, [f"{spent.ROWS}.{printable(table.name)}" for table in found], named)
    for table in found:
        pairs = zip(table.columns, table.codes, strict=True)
        rows = tuple(Column.of(one.values).take(code.astype(np.intp)) for one, code in pairs)
        shown = PublicTable(table.name, tuple((one.name, one.sqltype) for one in table.columns), rows)
        world.catalog.hold(spent.ROWS, shown, (table.fingerprint, table.time))
