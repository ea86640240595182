"""neighbouring: two invented databases that differ in one unit, made to hurt: for the audit of what statements release.

D' has a few of the guard's sample units, and D one more, who keeps to no limit: values far outside the bounds, and rows beyond every
limit. So a clamp or a cut that is left out shows. Both are made from the declarations and the public tables alone.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb

from dpsql.accounting.ledger import Ledger
from dpsql.core.domains import Interval, Unbounded
from dpsql.dataset.opening import Dataset, open_dataset
from dpsql.engines.writing import name
from dpsql.planner.measure import Identities
from dpsql.schema.model import ROW, Column, Schema, Table
from dpsql.session.opening import ledger_identity
from dpsql.session.practising import over_invented, write_invented
from dpsql.session.world import sample_units

UNITS = 200
TRIED = 2
"""Units that are taken away in turn: a statement may not be about the first."""
MOST_ROWS = 200
_FAR, _OWN = 10, 97
_FIRST = "first.duckdb"
INSIDE = "inside"
_UNIT = "audited_unit"


@contextmanager
def neighbours(dataset: Dataset, declared: Schema) -> Iterator[list[tuple[Dataset, Dataset]]]:
    """Pairs of opened databases (D, D'), one for each way in which the unit's values lie.

    dataset   for the public tables
    declared  by which both are opened
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="dpsql-audit-")))
        with closing(sample_units(dataset, Identities(dataset.schema).whole, {})) as units:
            write_invented(dataset, units, folder / _FIRST, UNITS)

        def opened(place: int, way: str | None) -> Dataset:
            file = folder / f"{place} {way or 'without'}.duckdb"
            shutil.copy(folder / _FIRST, file)
            with closing(duckdb.connect(str(file))) as connection:
                _change(connection, dataset.schema, place, way)
            schema = replace(over_invented(declared, file.name), folder=folder)
            ledger = stack.enter_context(closing(Ledger.open(":memory:", ledger_identity(schema))))
            return stack.enter_context(closing(open_dataset(schema, ledger, approve=True)))

        found = []
        for place in range(TRIED):
            without = opened(place, None)
            found += [(opened(place, way), without) for way in ("high", "low", INSIDE)]
        yield found


def _change(connection: duckdb.DuckDBPyConnection, schema: Schema, place: int, way: str | None) -> None:
    """Take a unit away, where there is no way, or spread it out."""
    _name_unit(connection, schema, place)
    private = [table for table in schema.tables if not table.public]
    # those that refer to others first: a row is its unit's by the rows that it refers to
    for table in sorted(private, key=lambda table: -len(schema.path_to_unit(table))):
        rows = _rows_of_unit(schema, table, place)
        if way is None:
            connection.execute(f"DELETE FROM {name(table.name)} WHERE {rows}")
            continue
        set_to = [f"{name(c.name)} = {to}" for c in _free(schema, table) if way != INSIDE and (to := _far(c, way))]
        if set_to:
            connection.execute(f"UPDATE {name(table.name)} SET {', '.join(set_to)} WHERE {rows}")
        _multiply(connection, schema, table, rows)


def _name_unit(connection: duckdb.DuckDBPyConnection, schema: Schema, place: int) -> None:
    """Keep the unit at a place as the table _UNIT; those with most rows come first."""
    column, owner = schema.privacy.unit_column, schema.privacy.unit_table
    if column is None or owner is None:
        return
    own = [(table, schema.unit_column(table)) for table in schema.tables if not table.public]
    rows = (f"(SELECT COUNT(*) FROM {name(t.name)} AS t WHERE t.{name(c)} = u)" for t, c in own if c is not None)
    connection.execute(
        f"CREATE TEMP TABLE {_UNIT} AS SELECT u FROM (SELECT DISTINCT {name(column)} AS u FROM {name(owner)}) "
        f"WHERE u IS NOT NULL ORDER BY {' + '.join(rows)} DESC, u LIMIT 1 OFFSET {place}"
    )


def _rows_of_unit(schema: Schema, table: Table, place: int) -> str:
    """A condition on the rows of one unit; of rows that are units, on the one at a place."""
    if schema.privacy.unit == ROW:
        return f"rowid = {place}"
    assert schema.privacy.unit_column is not None
    condition = f"{name(schema.privacy.unit_column)} IN (SELECT u FROM {_UNIT})"
    for reference in reversed(schema.path_to_unit(table)):
        own, targets = (", ".join(map(name, part)) for part in (reference.columns, reference.targets))
        condition = f"({own}) IN (SELECT ({targets}) FROM {name(reference.table)} WHERE {condition})"
    return condition


def _free(schema: Schema, table: Table) -> list[Column]:
    """Columns whose values nothing else hangs on."""
    held = {*table.key, *(c for r in table.references for c in r.columns)}
    held |= {c for one in table.determines for c in (*one.columns, *one.determined)}
    held |= {c for other in schema.tables for r in other.references if r.table == table.name for c in r.targets}
    return [c for c in table.columns if c.name not in held]


def _far(column: Column, way: str) -> str | None:
    """A value far outside the bounds, or the bound itself where the type has none; without bounds and list a value of nobody else,
    which is a private key of its own. None for other columns."""
    domain, sqltype = column.domain, column.sqltype
    if isinstance(domain, Interval) and not sqltype.is_temporal:
        end, sign = (domain.upper, 1) if way == "high" else (domain.lower, -1)
        beyond = int(end + sign * _FAR * (domain.upper - domain.lower + 1))
        return f"COALESCE(TRY_CAST({beyond} AS {sqltype}), CAST({float(end)!r} AS {sqltype}))"
    is_own = isinstance(domain, Unbounded) and (sqltype.is_number or sqltype.is_text)
    return f"TRY_CAST({_OWN} AS {sqltype})" if is_own else None


def _multiply(connection: duckdb.DuckDBPyConnection, schema: Schema, table: Table, rows: str) -> None:
    """More rows of the unit, where it may have several: other ones by the key, equal ones where there is none."""
    if schema.privacy.unit == ROW or schema.one_row_per_unit(table) or not schema.path_to_unit(table):
        return
    referring = {c for r in table.references for c in r.columns}
    key = next((c for c in table.columns if c.name in {*table.key} - referring and c.sqltype.is_integer), None)
    if table.key and key is None:
        return
    other = "" if key is None else f"REPLACE (CAST({name(key.name)} + 1000 * i AS {key.sqltype}) AS {name(key.name)})"
    copies = min(MOST_ROWS, 3 * (table.max_rows_per_unit or 1))
    connection.execute(
        f"INSERT INTO {name(table.name)} SELECT t.* {other} FROM {name(table.name)} AS t, range(1, {copies + 1}) AS r(i) WHERE {rows}"
    )
