"""Reading [tables]: each table, its references, and its columns with their types."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from dpsql.core.domains import UNBOUNDED
from dpsql.core.sqltypes import VARCHAR, SqlType
from dpsql.schema.columns import COLUMN, column_name, declared_type, read_column
from dpsql.schema.mistakes import printable, shown
from dpsql.schema.model import Column, Dependence, Reference, Table
from dpsql.schema.periods import EVERY, Period
from dpsql.schema.section import Section
from dpsql.schema.write import quoted

PER_UNIT = {"unit_path": '["person_id"]', "max_rows_per_unit": "5", "max_groups_per_unit": "3", "population": "10000"}
PERIODS = {"period": '"ordered_at"', "every": '"month"'}
TABLE = (
    PER_UNIT
    | PERIODS
    | {
        "source": '"person.parquet"',
        "key": '["person_id"]',
        "references": '{ person_id = "person.person_id" }',
        "public": "true",
        "determines": '{ order_id = ["person_id"] }',
        "multiplicity": "{ region = 3 }",
        "columns": '{ income = { type = "DOUBLE", bounds = [0, 30000] } }',
    }
)
Place = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Declared:
    """A table whose columns are not read yet.

    columns  the sections of its columns by name, in the order of the file; None for one that is wrong (reported)
    broken   whether a reference could not be read (reported), so that nothing can be said of its paths
    """

    table: Table
    section: Section
    columns: dict[str, Section | None]
    broken: bool


def read_tables(top: Section, dataset_source: str | None) -> list[Declared]:
    """Every table, its names spelt as they are declared: SQL names do not depend on case."""
    section = top.free("tables", "[tables]", "{ ... }")
    if section is None or not section.values:
        if section is not None or "tables" not in top:
            top.wrong(
                "no table is declared", 'write [tables.person] with source = "person.parquet", key = ["person_id"]'
            )
        return []
    section.refuse_bad_names("table")
    found = [_declared(section, name, dataset_source) for name in section.values]
    tables = [d for d in found if d is not None]
    return [replace(d, table=_spelt(d, tables)) for d in tables]


def read_columns(tables: list[Declared]) -> list[Table]:
    """The tables with their columns; a role is "" where none is declared."""
    types = _types(tables)
    return [replace(d.table, columns=tuple(_column(d, name, types, tables) for name in d.columns)) for d in tables]


def spelt(name: str, names: Iterable[str]) -> str:
    """A name as it is declared, or unchanged where no such name is."""
    return next((n for n in names if n.lower() == name.lower()), name)


def spelt_column(table: str, column: str, tables: list[Declared]) -> Place:
    """A table and a column of it as they are declared; of a public table only the key is known."""
    found = next((d for d in tables if d.table.name.lower() == table.lower()), None)
    if found is None:
        return table, column
    return found.table.name, spelt(column, found.table.key if found.table.public else found.columns)


# --- tables -------------------------------------------------------------------------------------------------------


def _declared(tables: Section, name: str, dataset_source: str | None) -> Declared | None:
    section = tables.inner(name, TABLE, f"table {printable(name)}")
    if section is None:
        return None
    public = section.flag("public")
    references = _references(section)
    columns = {} if public else _sections(section, references)
    if public:
        _refuse_privacy(section)
    table = Table(
        name=name,
        source=_source(section, name, dataset_source),
        public=public,
        key=section.names("key"),
        columns=(),
        references=tuple(r for r in references.values() if r is not None),
        unit_path=section.names("unit_path") or None,
        max_rows_per_unit=section.count("max_rows_per_unit"),
        max_groups_per_unit=section.count("max_groups_per_unit"),
        population=section.count("population"),
        multiplicity=_multiplicity(section),
        determines=_determines(section),
        period=_period(section),
    )
    return Declared(table, section, columns, None in references.values() or _is_no_table(section, "references"))


def _is_no_table(section: Section, key: str) -> bool:
    return key in section and not isinstance(section.values[key], dict)


def _refuse_privacy(section: Section) -> None:
    """A public table is about nobody, and shows all its columns."""
    for key in (*PER_UNIT, *PERIODS):
        section.refuse(key, "makes no sense for a public table", f"remove {key}, or public = true")
    section.refuse(
        "columns", "is not for a public table, which shows all its columns", "remove columns, or public = true"
    )


def _source(section: Section, name: str, dataset_source: str | None) -> str:
    """Source of the table inside the dataset. In a database it is found by its name, but a folder holds files."""
    written = section.text("source")
    if written is not None or "source" in section or dataset_source is None:
        return written or name
    if ":" not in dataset_source and not PurePosixPath(dataset_source).suffix:
        section.wrong("source is missing, and a folder holds files", f"write source = {quoted(f'{name}.parquet')}")
    return name


def _multiplicity(section: Section) -> tuple[tuple[str, int], ...]:
    """Number of rows that one value of a column of a public table can have."""
    if not section.flag("public"):
        section.refuse("multiplicity", "is for public tables", "write max_rows_per_unit")
        return ()
    inner = section.free("multiplicity", f"{section.place}, multiplicity", "3")
    if inner is None:
        return ()
    inner.refuse_bad_names("column")
    counts = [(column, inner.count(column)) for column in inner.values]
    return tuple((column, count) for column, count in counts if count is not None)


def _determines(section: Section) -> tuple[Dependence, ...]:
    """`column = ["column", ...]`, or `"column, column" = [...]`."""
    inner = section.free("determines", f"{section.place}, determines", '["person_id"]')
    if inner is None:
        return ()
    inner.refuse_bad_names("column")
    found = [(tuple(part.strip() for part in written.split(",")), inner.names(written)) for written in inner.values]
    return tuple(Dependence(columns, determined) for columns, determined in found if determined)


def _period(section: Section) -> Period | None:
    """The column by which rows come, and how long a period is; one is nothing without the other."""
    column, every = section.text("period"), section.one_of("every", EVERY)
    for here, other in (("period", "every"), ("every", "period")):
        if here in section and other not in section:
            section.wrong(f"{here} is declared without {other}", f"write {other} = {PERIODS[other]}")
    return Period(column, every) if column is not None and every is not None else None


def _references(section: Section) -> dict[str, Reference | None]:
    """The references by column; None for one that could not be read (reported)."""
    inner = section.free("references", f"{section.place}, references", '"table.column"')
    if inner is None:
        return {}
    inner.refuse_bad_names("column")
    return {written: _reference(inner, written) for written in inner.values}


def _reference(section: Section, written: str) -> Reference | None:
    """`column = "table.column"`, or `"column, column" = ["table.column", "table.column"]`."""
    value = section.values[written]
    if not isinstance(value, list):
        target = column_name(section, written)
        return Reference((written,), target[0], (target[1],)) if target else None
    columns = tuple(part.strip() for part in written.split(","))
    named = [v.rpartition(".") for v in value if isinstance(v, str)]
    targets = tuple(column for _, _, column in named)
    one_table = len({table.lower() for table, _, _ in named}) == 1 and all(named[0])
    if one_table and len(columns) == len(value) == len(named) and _differ(columns) and _differ(targets):
        return Reference(columns, named[0][0], targets)
    what = f"{shown(written)} needs one table.column for each of its columns, all of one table"
    section.wrong(what, 'write "store_id, order_no" = ["orders.store_id", "orders.order_no"]')
    return None


def _differ(names: tuple[str, ...]) -> bool:
    return all(names) and len({name.lower() for name in names}) == len(names)


def _sections(section: Section, references: dict[str, Reference | None]) -> dict[str, Section | None]:
    """The sections of the declared columns, then of the reference columns that are not listed."""
    inner = section.free("columns", section.place, '{ type = "DOUBLE" }')
    found: dict[str, Section | None] = {}
    if inner is not None:
        inner.refuse_bad_names("column")
        found = {name: inner.inner(name, COLUMN, _place(section, name)) for name in inner.values}
    for written, reference in references.items():
        for name in reference.columns if reference is not None else (written,):
            if spelt(name, found) not in found:
                empty = Section({}, _place(section, name), COLUMN, section.mistakes)
                found[name] = empty if reference is not None else None
    if not found and not _is_no_table(section, "columns"):
        section.wrong("no column is declared", f"write columns = {TABLE['columns']}")
    return found


def _place(table: Section, column: str) -> str:
    return f"{table.place}, column {printable(column)}"


def _spelt(declared: Declared, tables: list[Declared]) -> Table:
    """The table with every name of a column or table as it is declared."""
    table = declared.table
    if table.public:
        columns: Iterable[str] = table.key
    else:
        columns = declared.columns
    references = tuple(_spelt_reference(r, columns, tables) for r in table.references)
    path = table.unit_path
    followed = [r.name for d in tables for r in d.table.references]
    return replace(
        table,
        key=tuple(spelt(c, columns) for c in table.key),
        references=references,
        period=None if table.period is None else replace(table.period, column=spelt(table.period.column, columns)),
        determines=tuple(
            Dependence(tuple(spelt(c, columns) for c in d.columns), tuple(spelt(c, columns) for c in d.determined))
            for d in table.determines
        ),
        unit_path=None if path is None else tuple(spelt(_one_space(c), followed) for c in path),
    )


def _spelt_reference(reference: Reference, columns: Iterable[str], tables: list[Declared]) -> Reference:
    targets = [spelt_column(reference.table, target, tables) for target in reference.targets]
    return Reference(
        tuple(spelt(column, columns) for column in reference.columns), targets[0][0], tuple(c for _, c in targets)
    )


def _one_space(written: str) -> str:
    return ", ".join(part.strip() for part in written.split(","))


# --- columns ------------------------------------------------------------------------------------------------------


def _column(declared: Declared, name: str, types: dict[Place, SqlType], tables: list[Declared]) -> Column:
    section = declared.columns[name]
    if section is None:
        return Column(name, VARCHAR, UNBOUNDED, False, "")
    column = read_column(name, section, types.get((declared.table.name, name)))
    if column.domain_from is None:
        return column
    return replace(column, domain_from=spelt_column(*column.domain_from, tables))


def _types(tables: list[Declared]) -> dict[Place, SqlType]:
    """The type of every column: the written one, else that of the column it refers to; the rest is reported."""
    written = _written_types(tables)
    targets = _targets(tables)
    found = dict(written)
    for declared in tables:
        for name, section in declared.columns.items():
            here = declared.table.name, name
            fars = [(target, _follow(target, written, targets)) for target in targets.get(here, ())]
            if section is not None and here not in written:
                _refuse_untyped(section, next(iter(targets.get(here, ())), None), tables)
            for target, far in fars:
                if section is not None and here in written and far is not None and far != written[here]:
                    what = f"type {written[here]} differs from {far}, the type of {'.'.join(target)}"
                    section.wrong(what, f'write type = "{far}"')
            for _, far in fars:
                if far is not None:
                    found.setdefault(here, far)
    return found


def _targets(tables: list[Declared]) -> dict[Place, list[Place]]:
    """Places that each column refers to, those by itself first."""
    found: dict[Place, list[Place]] = {}
    for declared in tables:
        for reference in sorted(declared.table.references, key=lambda r: len(r.columns)):
            for column, target in reference.pairs:
                found.setdefault((declared.table.name, column), []).append((reference.table, target))
    return found


def _written_types(tables: list[Declared]) -> dict[Place, SqlType]:
    found: dict[Place, SqlType] = {}
    for declared in tables:
        for name, section in declared.columns.items():
            sqltype = declared_type(section) if section is not None else None
            if sqltype is not None:
                found[declared.table.name, name] = sqltype
    return found


def _follow(place: Place, written: dict[Place, SqlType], targets: dict[Place, list[Place]]) -> SqlType | None:
    """The first written type along the references; None at their end, or where they go in a circle."""
    seen: set[Place] = set()
    waiting = [place]
    while waiting:
        place = waiting.pop(0)
        if place in written:
            return written[place]
        if place not in seen:
            seen.add(place)
            waiting += targets.get(place, ())
    return None


def _refuse_untyped(section: Section, target: Place | None, tables: list[Declared]) -> None:
    """Report a column without a type, unless it has a wrong one, or one to come from a private table."""
    if "type" in section:
        return
    if target is None:
        section.require("type")
    elif any(d.table.public and d.table.name == target[0] for d in tables):
        section.wrong(
            f"type is missing, and public table {target[0]} is not read yet", 'write its type, as in type = "INTEGER"'
        )
