"""units: the sample units of a schema, in a database of their own, and what a statement makes of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
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
from dpsql.plan.tables import PublicTable
from dpsql.postprocess.walled import Walled
from dpsql.schema.model import ROW, UNIT_COLUMN, Schema, Table, with_unit

SAMPLE = "dpsql sample "
"""What the stored tables are called: a statement sees them through WITH, under their own names."""
ROW_NUMBER = "dpsql row"
_PLACE = "dpsql place "
_INPUT = "dpsql input"


class SampleUnits(Walled):
    """Invented rows of every private table, and the public tables as they are.

    Why   drawn from the declarations alone: what is decided by them is the same on every database of people

    people    [units] that there are as declared
    identity  of the declared schema
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
    ) -> None:
        super().__init__(self._drawn_tables, None)
        self._schema, self.identity, self._people = schema, identity, people
        self._views, self._files, self._loaded = views, files, loaded
        self.units = count(schema, people)
        self._columns: dict[str, list[tuple[str, SqlType, str]]] = {}

    @property
    def scale(self) -> float:
        """[units] that a sample unit stands for."""
        return self._people / self.units

    def ask(self, query: str, constants: Constants, tables: Iterable[str]) -> dict[str, npt.NDArray[np.generic]]:
        """The columns of a query over sample tables, with the constants of the statement that it is of."""
        connection = self._connection
        shown = [self._shown(table, constants) for table in dict.fromkeys(tables)]
        text = f"WITH {', '.join(part for group in shown for part in group)} {query}" if shown else query
        with self._turn:
            return self._walled(
                lambda: run(connection, lambda: connection.execute(one_select(connection, text)).fetchnumpy()), 106
            )

    def keep(self, table: str, query: str, constants: Constants, tables: Iterable[str]) -> None:
        """Keep what a query gives as a table, in place of any of that name."""
        shown = [self._shown(one, constants) for one in dict.fromkeys(tables)]
        text = f"WITH {', '.join(part for group in shown for part in group)} {query}" if shown else query
        with self._turn:
            make = f"CREATE OR REPLACE TEMP TABLE {name(table)} AS {text}"
            self._walled(lambda: run(self._connection, lambda: self._connection.execute(make)), 106)

    def _shown(self, table: str, constants: Constants) -> list[str]:
        """The queries of WITH that show a sample table."""
        if table not in self._columns:
            return []
        items = []
        for column, sqltype, place in self._columns[table]:
            items.append((column, columns.sql(name(place), sqltype, constants) if place else name(column)))
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
            drawing = Drawing(self._schema, self.identity, self._people, lambda t, c: _listed(connection, t, c))
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
        known: list[tuple[str, SqlType, str]] = []
        for i, column in enumerate(table.columns):
            found = drawn[column.name]
            if found.values is None:
                arrays[f"p{i}"] = found.places if found.places is not None else np.zeros(len(rows))
                items.append(f"p{i} AS {name(_PLACE + column.name)}")
            else:
                arrays[f"v{i}"] = found.values
                items.append(f"{_item(f'v{i}', column.sqltype, found, arrays, i)} AS {name(column.name)}")
            known.append((column.name, column.sqltype, _PLACE + column.name if found.values is None else ""))
        items += [f"unit AS {name(UNIT_COLUMN)}", f"row AS {name(ROW_NUMBER)}"]
        connection.register(_INPUT, arrays)
        try:
            stored = f"CREATE TABLE main.{name(SAMPLE + table.name)} AS SELECT {', '.join(items)} FROM {name(_INPUT)}"
            connection.execute(stored)
        finally:
            connection.unregister(_INPUT)
        number = table.column(self._schema.unit_column(table) or "") or None
        sqltype = number.sqltype if number is not None else SqlType("BIGINT")
        known.append((ROW_NUMBER, SqlType("BIGINT"), ""))
        self._columns[table.name] = known
        if self._schema.privacy.unit != ROW and self._schema.unit_column(table) is None:
            known = [*known, (UNIT_COLUMN, sqltype, "")]
            connection.execute(
                f"CREATE VIEW main.{name(SAMPLE + with_unit(table.name))} AS FROM main.{name(SAMPLE + table.name)}"
            )
            self._columns[with_unit(table.name)] = known


def _item(array: str, sqltype: SqlType, drawn: Drawn, arrays: dict[str, npt.NDArray[np.generic]], i: int) -> str:
    """SQL that makes a column of its drawn values: days and microseconds are dates and timestamps."""
    value = f"CAST({array} AS {sqltype})"
    if sqltype.name == "DATE":
        value = f"DATE '1970-01-01' + CAST({array} AS INTEGER)"
    elif sqltype.name == "TIMESTAMP":
        value = f"make_timestamp(CAST({array} AS BIGINT))"
    elif sqltype.is_boolean:
        value = f"{array} <> 0"
    if drawn.nulls is not None:
        arrays[f"n{i}"] = drawn.nulls
        value = f"CASE WHEN NOT n{i} THEN {value} END"
    return value


def _listed(connection: duckdb.DuckDBPyConnection, table: str, column: str) -> Sequence[object]:
    rows = connection.execute(f"SELECT DISTINCT {name(column)} AS v FROM main.{name(table)} ORDER BY v").fetchall()
    return [row[0] for row in rows if row[0] is not None]
