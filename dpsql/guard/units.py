"""units: the sample units of a schema, in a database of their own, and what a statement makes of them.

Of a table only those columns are drawn that some statement has named.
"""

from __future__ import annotations

import hashlib
import re
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt

from dpsql.core.cancellation import check
from dpsql.core.wording import listed as in_words
from dpsql.engines.duckdb.loading import load, load_beside
from dpsql.engines.duckdb.locked import connect, lock, one_select, run
from dpsql.engines.writing import name
from dpsql.expressions.buckets import MACRO
from dpsql.guard import columns
from dpsql.guard.columns import Constants
from dpsql.guard.drawing import Drawing, Drawn, count
from dpsql.guard.sizes import Bought, Share
from dpsql.plan.tables import PublicTable
from dpsql.postprocess.sandbox import Walled
from dpsql.schema.model import UNIT_COLUMN, Column, Schema, Table, with_unit

SAMPLE = "dpsql sample "
"""Names of the stored tables: a statement sees them through WITH, under their own names."""
ROW_NUMBER = "dpsql row"
_PLACE, _OTHER = "dpsql place ", "dpsql other "
_EVERY = re.compile(r"(?<!count\()\*(?! )", re.IGNORECASE)
"""Names every column of a table: no product, no count of rows."""
_TOLD = re.compile(r"'(?:[^']|'')*'" + '|"(?:[^"]|"")*"')
"""Constants and names, in which a star is a letter."""
_INPUT = "dpsql input"


@dataclass(frozen=True, slots=True)
class _Shown:
    """A column of a stored table; `places` are those of its places, and of its other values, where its values are those of a
    statement."""

    column: Column
    places: tuple[str, ...] = ()
    known: tuple[Share, ...] = ()


class SampleUnits(Walled):
    """Invented rows of every private table, and the public tables as they are.

    Why   drawn from the declarations alone: what is decided by them is the same on every database of people

    people    [units] that there are as declared
    identity  of the declared schema, and of
    bought    the released histograms that values are drawn from
    views     that show the public tables, and
    files     all that these read
    loaded    the public tables where they cannot be shown so
    passed    what a guard knows of statements that pass by these units alone, whoever asked them
    """

    def __init__(
        self,
        schema: Schema,
        identity: str,
        people: float,
        views: Sequence[str] = (),
        files: Sequence[Path] = (),
        loaded: Callable[[], Iterable[PublicTable]] = tuple,
        bought: Bought | None = None,
    ) -> None:
        super().__init__(self._drawn_tables, None)
        self._schema, self._seed, self._people, self._bought = schema, identity, people, bought or {}
        self.identity = _identity(schema, identity, self._bought)
        self._views, self._files, self._loaded = views, files, loaded
        self.units = count(schema, people)
        private = [table for table in schema.tables if not table.public]
        self._private = {shown: table for table in private for shown in (table.name, with_unit(table.name))}
        self._stored: dict[str, dict[str, _Shown]] = {}
        self.passed: OrderedDict[Hashable, Any] = OrderedDict()

    @property
    def scale(self) -> float:
        """[units] that a sample unit stands for."""
        return self._people / self.units

    @property
    def enough(self) -> float:
        """[sample units] that stand for k people."""
        return self._schema.guard.k / self.scale

    @property
    def fewest(self) -> float:
        """[sample units] that a group of a breakdown has at least to be compared; an audit looks at all of them."""
        return self.enough if self._schema.guard.mode != "audit" else 0.0

    @property
    def public(self) -> frozenset[str]:
        """Names of the public tables."""
        return frozenset(table.name for table in self._schema.tables if table.public)

    def is_nullable(self, origin: str) -> bool:
        """True if a column "table.column" may be NULL as declared."""
        return any(
            column.nullable
            for table in self._schema.tables
            for column in table.columns
            if f"{table.name}.{column.name}" == origin
        )

    @property
    def source(self) -> str:
        """Describe in words where the numbers of people come from."""
        if self._bought:
            return f"by {in_words(sorted({one.source for one in self._bought.values()}))}"
        usual = any(column.usual for table in self._schema.tables for column in table.columns)
        return "as the owner expects" if usual else "as declared"

    def ask(self, query: str, constants: Constants, tables: Iterable[str]) -> dict[str, npt.NDArray[np.generic]]:
        """The columns of a query over sample tables, with the constants of the statement that it is of."""

        def asked() -> dict[str, npt.NDArray[np.generic]]:
            # making the connection makes the drawing that `_over` reads
            connection, text = self._connection, self._over(query, constants, tables)
            return run(connection, lambda: connection.execute(one_select(connection, text)).fetchnumpy())

        with self._turn:
            return self._walled(asked, 106)

    def keep(self, table: str, query: str, constants: Constants, tables: Iterable[str]) -> None:
        """Keep what a query gives as a table, in place of any of that name."""

        def kept() -> None:
            connection, text = self._connection, self._over(query, constants, tables)
            run(connection, lambda: connection.execute(f"CREATE OR REPLACE TEMP TABLE {name(table)} AS {text}"))

        with self._turn:
            self._walled(kept, 106)

    def hold(self, table: PublicTable) -> None:
        """Keep a released table as it is, in place of any of that name."""
        with self._turn:
            self._walled(lambda: load_beside(self._connection, table), 106)

    def _over(self, query: str, constants: Constants, tables: Iterable[str]) -> str:
        """A query with the sample tables that it reads, of which it sees the columns that it names."""
        shown = [part for table in dict.fromkeys(tables) for part in self._shown(table, query, constants)]
        return f"WITH {', '.join(shown)} {query}" if shown else query

    def _shown(self, shown: str, query: str, constants: Constants) -> list[str]:
        table = self._private.get(shown)
        if table is None:
            return []
        every = _EVERY.search(_TOLD.sub("", query)) is not None
        asked = [column for column in table.columns if every or name(column.name) in query]
        missing = [column for column in asked if column.name not in self._stored.get(table.name, {})]
        if missing or table.name not in self._stored:
            self._store(table, missing)
        items = []
        for one in (self._stored[table.name][column.name] for column in asked):
            items.append((one.column.name, self._value(one, f"{table.name}.{one.column.name}", constants)))
        items += [(own, name(own)) for own in (ROW_NUMBER, UNIT_COLUMN) if every or name(own) in query]
        return [columns.shown(shown, f"{SAMPLE}{table.name}", items)]

    def _value(self, one: _Shown, origin: str, constants: Constants) -> str:
        if not one.places:
            return name(one.column.name)
        known = columns.compared(constants, origin)
        slots = columns.parts(self._people, self._schema.guard.k)
        place, other = map(name, one.places)
        if one.column.element is not None:
            return columns.listed(place, one.column.element, one.column.length or 0, known, slots)
        return columns.sql(place, one.column.sqltype, known, slots, one.known, other)

    def _drawn_tables(self) -> duckdb.DuckDBPyConnection:
        connection = connect(None, threads=1)
        try:
            connection.execute(MACRO)
            for view in self._views:
                connection.execute(view)
            lock(connection, self._files)
            for public in self._loaded():
                load(connection, public)
            listed = partial(_listed, connection)
            self._drawing, self._stored = Drawing(self._schema, self._seed, self._people, listed, self._bought), {}
        except BaseException:
            connection.close()
            raise
        return connection

    def _store(self, table: Table, asked: Sequence[Column]) -> None:
        """Draw more columns of a table; the first time the numbers of its units and rows too."""
        rows = self._drawing.rows_of(table)
        sample, stored = f"main.{name(SAMPLE + table.name)}", self._stored.get(table.name)
        drawn = dict(stored or {})
        arrays: dict[str, npt.NDArray[np.generic]] = {"dpsql u": rows.unit + 1, "dpsql r": np.arange(len(rows)) + 1}
        items = [f"{name('dpsql u')} AS {name(UNIT_COLUMN)}", f"{name('dpsql r')} AS {name(ROW_NUMBER)}"]
        items += [f"stored.{name(shown)}" for one in drawn.values() for shown in one.places or (one.column.name,)]
        for i, column in enumerate(asked):
            check()
            found = self._drawing.column(table, column)
            # beside the stored columns, whose names are any that a schema may have
            value, null = f"dpsql v{i}", f"dpsql n{i}"
            arrays[value] = found.values if found.values is not None else _places(found, len(rows))
            places = (_PLACE + column.name, _OTHER + column.name) if found.values is None else ()
            texts = {column.name: name(value) if found.is_key else columns.item(name(value), column.sqltype)}
            if places:
                texts = dict(
                    zip(places, (name(value), columns.others(name(value), column.sqltype, found.known)), strict=True)
                )
            if found.nulls is not None:
                arrays[null] = found.nulls
                texts = {shown: f"CASE WHEN NOT {name(null)} THEN {text} END" for shown, text in texts.items()}
            items += [f"{text} AS {name(shown)}" for shown, text in texts.items()]
            drawn[column.name] = _Shown(column, places, found.known)
        source = name(_INPUT) if stored is None else f"{name(_INPUT)} POSITIONAL JOIN {sample} AS stored"
        self._connection.register(_INPUT, arrays)
        try:
            self._connection.execute(f"CREATE OR REPLACE TABLE {sample} AS SELECT {', '.join(items)} FROM {source}")
        finally:
            self._connection.unregister(_INPUT)
        self._stored[table.name] = drawn


def _places(drawn: Drawn, size: int) -> npt.NDArray[np.generic]:
    return drawn.places if drawn.places is not None else np.zeros(size)


def _identity(schema: Schema, identity: str, bought: Bought) -> str:
    """Of everything that the sample units are drawn from."""
    usual: list[tuple[object, ...]] = [(t.name, c.name, c.usual) for t in schema.tables for c in t.columns if c.usual]
    # of references NULL is drawn, too
    usual += [
        (t.name, c.name) for t in schema.tables for c in t.columns if c.nullable and t.reference(c.name) is not None
    ]
    released = sorted((key, repr(found)) for key, found in bought.items())
    return hashlib.sha256(repr((identity, schema.guard.k, usual, released)).encode()).hexdigest()


def _listed(connection: duckdb.DuckDBPyConnection, table: str, column: str) -> Sequence[object]:
    rows = connection.execute(f"SELECT DISTINCT {name(column)} AS v FROM main.{name(table)} ORDER BY v").fetchall()
    return [row[0] for row in rows if row[0] is not None]
