"""practising: a folder with invented data and a total that does not end, for analysts to write statements against and dashboards to be
built on before anything is spent. Made from the declarations and the public tables alone: it tells nothing of people."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import duckdb

from dpsql.accounting.ledger import Ledger
from dpsql.core.errors import error
from dpsql.core.loss import EpsilonDelta
from dpsql.dataset.opening import Dataset, open_dataset
from dpsql.engines.writing import name
from dpsql.guard.columns import constants
from dpsql.guard.drawing import people
from dpsql.guard.units import SampleUnits
from dpsql.planner.measure import Identities
from dpsql.planner.pricing import accounted
from dpsql.relations.relations import product_bound
from dpsql.schema.by_period import count
from dpsql.schema.model import RESERVED, UNIT_COLUMN, Privacy, Schema, Table, with_unit
from dpsql.schema.toml import to_toml
from dpsql.session.world import sample_units

_DRAWN = f"{RESERVED}drawn"
FILE, SCHEMA = "practice.duckdb", "schema.toml"
PLENTY = EpsilonDelta(Fraction(10**6), Fraction(1, 2))
"""A total that no practice comes near to."""


def practice(schema: Schema, ledger: Ledger, folder: Path) -> Path:
    """Write a practice dataset into a new folder, and return the path of its schema.

    Why     the private tables are the guard's sample units, a function of the declarations and the public tables; the private files are
            opened beside these, and no value of theirs is read
    Errors  708 the data is not approved; 802 the folder is there, or cannot be written
    """
    with closing(open_dataset(schema, ledger, approve=schema.analysts is None)) as dataset:
        try:
            folder.mkdir(parents=True)
        except OSError as problem:
            what = "is there already" if isinstance(problem, FileExistsError) else "cannot be made"
            raise error(
                802, f"the folder {folder} {what}", hint="name a new one: dpsql practice SCHEMA FOLDER"
            ) from None
        with closing(sample_units(dataset, Identities(dataset.schema).whole, {})) as units:
            write_invented(dataset, units, folder / FILE, int(people(dataset.schema)))
    path = folder / SCHEMA
    path.write_text(f"{_HEAD}\n{to_toml(_for_practice(dataset.schema))}")
    return path


_HEAD = """\
# Practice: every row of its private tables is invented, from declarations alone. Statements cost and err as those over the data do;
# its total is so large that practice does not end it.
"""


def _for_practice(schema: Schema) -> Schema:
    """The same declarations over the invented tables, for anybody, with a total that does not end."""
    return over_invented(replace(schema, privacy=_endless(schema.privacy)), FILE)


def over_invented(schema: Schema, source: str) -> Schema:
    """The same declarations over invented tables, for anybody."""
    tables = tuple(replace(_without_periods(table), source=table.name) for table in schema.tables)
    return replace(
        schema,
        source=source,
        ledger=None,
        tables=tables,
        analysts=None,
        roles=(),
        reservations=(),
    )


def _without_periods(table: Table) -> Table:
    """A table with the limits of all of its periods together: practice has no yesterday. What is asked of few periods errs less over
    data than it does here."""
    if table.period is None:
        return table
    rows, groups = (
        product_bound(limit, count(table)) for limit in (table.max_rows_per_unit, table.max_groups_per_unit)
    )
    return replace(table, period=None, max_rows_per_unit=rows, max_groups_per_unit=groups)


def _endless(privacy: Privacy) -> Privacy:
    """The promise with another total, under an accounting that divides prices alike: in rho, or in epsilon."""
    accounting = "zcdp" if accounted(privacy).by_rho else "sequential"
    return replace(privacy, budget=PLENTY, accounting=accounting, window=None, partition=None)


def write_invented(dataset: Dataset, units: SampleUnits, file: Path, most: int) -> None:
    """Write the tables into a DuckDB file, with so many people at most."""
    with closing(duckdb.connect(str(file))) as connection:
        for table in dataset.schema.tables:
            shown = table.name if table.public else with_unit(table.name)
            few = "" if table.public else f" WHERE {name(UNIT_COLUMN)} <= {most}"
            # as text, which holds every value of every type exactly
            columns = ", ".join(f"CAST({name(c.name)} AS VARCHAR) AS {name(c.name)}" for c in table.columns)
            drawn = units.ask(f"SELECT {columns} FROM {name(shown)}{few}", constants([]), [shown])
            connection.register(_DRAWN, drawn)
            items = ", ".join(f"CAST({name(c.name)} AS {c.sqltype}) AS {name(c.name)}" for c in table.columns)
            connection.execute(f"CREATE TABLE {name(table.name)} AS SELECT {items} FROM {name(_DRAWN)}")
            connection.unregister(_DRAWN)
