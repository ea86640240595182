"""units: the sample units of a schema, in a database of their own, and what a statement makes of them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import duckdb
import numpy as np
import numpy.typing as npt

from dpsql.core.sqltypes import SqlType
from dpsql.engines.loading import load
from dpsql.engines.locked import connect, lock, name, one_select, run
from dpsql.expressions.buckets import MACRO
from dpsql.guard import columns
from dpsql.guard.columns import Constants
from dpsql.guard.drawing import Drawing, Drawn, count
from dpsql.guard.sizes import Bought, Share
from dpsql.plan.tables import PublicTable
from dpsql.postprocess.walled import Walled
from dpsql.schema.model import ROW, UNIT_COLUMN, Schema, Table, with_unit

SAMPLE = "dpsql sample "
"""What the stored tables are called: a statement sees them through WITH, under their own names."""
ROW_NUMBER = "dpsql row"
_PLACE = "dpsql place "
_INPUT = "dpsql input"


@dataclass(frozen=True, slots=True)
class _Shown:
    """A column of a stored table; `place` is that of its places where its values are those of a statement."""

    column: str
    sqltype: SqlType
    place: str = ""
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
        self._columns: dict[str, list[_Shown]] = {}

    @property
    def scale(self) -> float:
        """[units] that a sample unit stands for."""
        return self._people / self.units

    @property
    def source(self) -> str:
        """Where the numbers of people come from, in words."""
        if self._bought:
            return "by released sizes"
        usual = any(column.usual for table in self._schema.tables for column in table.columns)
        return "as the owner expects" if usual else "as declared"

    def ask(self, query: str, constants: Constants, tables: Iterable[str]) -> dict[str, npt.NDArray[np.generic]]:
        """The columns of a query over sample tables, with the constants of the statement that it is of."""
        connection = self._connection
        text = self._over(query, constants, tables)
        with self._turn:
            return self._walled(
                lambda: run(connection, lambda: connection.execute(one_select(connection, text)).fetchnumpy()), 106
            )

    def keep(self, table: str, query: str, constants: Constants, tables: Iterable[str]) -> None:
        """Keep what a query gives as a table, in place of any of that name."""
        text = self._over(query, constants, tables)
        with self._turn:
            make = f"CREATE OR REPLACE TEMP TABLE {name(table)} AS {text}"
            self._walled(lambda: run(self._connection, lambda: self._connection.execute(make)), 106)

    def _over(self, query: str, constants: Constants, tables: Iterable[str]) -> str:
        """A query with the sample tables that it reads, of which it sees the columns that it names."""
        shown = [part for table in dict.fromkeys(tables) for part in self._shown(table, query, constants)]
        return f"WITH {', '.join(shown)} {query}" if shown else query

    def _shown(self, table: str, query: str, constants: Constants) -> list[str]:
        if table not in self._columns:
            return []
        items = []
        for one in self._columns[table]:
            if name(one.column) not in query and "*" not in query:
                continue
            text = columns.sql(name(one.place), one.sqltype, constants, one.known) if one.place else name(one.column)
            items.append((one.column, text))
        return [columns.shown(table, f"{SAMPLE}{table}", items)]

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
            drawing = Drawing(self._schema, self._seed, self._people, listed, self._bought)
            for table in self._in_order():
                self._store(connection, table, drawing)
        except BaseException:
            connection.close()
            raise
        return connection

    def _in_order(self) -> list[Table]:
        """The private tables, each after those on its path to the unit."""
        private = [table for table in self._schema.tables if not table.public]
        return sorted(private, key=lambda table: len(self._schema.path_to_unit(table)))

    def _store(self, connection: duckdb.DuckDBPyConnection, table: Table, drawing: Drawing) -> None:
        drawn = drawing.table(table)
        rows = drawing.rows[table.name]
        arrays: dict[str, npt.NDArray[np.generic]] = {"unit": rows.unit + 1, "row": np.arange(len(rows)) + 1}
        items: list[str] = []
        known: list[_Shown] = []
        for i, column in enumerate(table.columns):
            found = drawn[column.name]
            place = _PLACE + column.name if found.values is None else ""
            arrays[f"v{i}"] = found.values if found.values is not None else _places(found, len(rows))
            value = f"v{i}" if place or found.is_key else _item(f"v{i}", column.sqltype)
            if found.nulls is not None:
                arrays[f"n{i}"] = found.nulls
                value = f"CASE WHEN NOT n{i} THEN {value} END"
            items.append(f"{value} AS {name(place or column.name)}")
            known.append(_Shown(column.name, column.sqltype, place, found.known))
        items += [f"unit AS {name(UNIT_COLUMN)}", f"row AS {name(ROW_NUMBER)}"]
        connection.register(_INPUT, arrays)
        try:
            stored = f"CREATE TABLE main.{name(SAMPLE + table.name)} AS SELECT {', '.join(items)} FROM {name(_INPUT)}"
            connection.execute(stored)
        finally:
            connection.unregister(_INPUT)
        number = table.column(self._schema.unit_column(table) or "") or None
        sqltype = number.sqltype if number is not None else SqlType("BIGINT")
        known.append(_Shown(ROW_NUMBER, SqlType("BIGINT")))
        self._columns[table.name] = known
        if self._schema.privacy.unit != ROW and self._schema.unit_column(table) is None:
            known = [*known, _Shown(UNIT_COLUMN, sqltype)]
            connection.execute(
                f"CREATE VIEW main.{name(SAMPLE + with_unit(table.name))} AS FROM main.{name(SAMPLE + table.name)}"
            )
            self._columns[with_unit(table.name)] = known


def _item(array: str, sqltype: SqlType) -> str:
    """SQL that makes a column of its drawn values: days and microseconds are dates and timestamps."""
    if sqltype.name == "DATE":
        return f"DATE '1970-01-01' + CAST({array} AS INTEGER)"
    if sqltype.name == "TIMESTAMP":
        return f"make_timestamp(CAST({array} AS BIGINT))"
    return f"{array} <> 0" if sqltype.is_boolean else f"TRY_CAST({array} AS {sqltype})"


def _places(drawn: Drawn, size: int) -> npt.NDArray[np.generic]:
    return drawn.places if drawn.places is not None else np.zeros(size)


def _identity(schema: Schema, identity: str, bought: Bought) -> str:
    """Of everything that the sample units are drawn from."""
    usual = [(t.name, c.name, c.usual) for t in schema.tables for c in t.columns if c.usual]
    released = sorted((key, repr(found)) for key, found in bought.items())
    return hashlib.sha256(repr((identity, schema.guard.k, usual, released)).encode()).hexdigest()


def _listed(connection: duckdb.DuckDBPyConnection, table: str, column: str) -> Sequence[object]:
    rows = connection.execute(f"SELECT DISTINCT {name(column)} AS v FROM main.{name(table)} ORDER BY v").fetchall()
    return [row[0] for row in rows if row[0] is not None]
