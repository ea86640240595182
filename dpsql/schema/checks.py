"""Checks across the parts of a schema, each of which can be read by itself."""

from __future__ import annotations

from collections.abc import Iterable
from posixpath import normpath

from dpsql.core.domains import Interval, integers
from dpsql.schema import qualifiers
from dpsql.schema.by_period import check_period
from dpsql.schema.mistakes import Mistakes, nearest, place_of, printable, suggestion
from dpsql.schema.model import RESERVED, ROW, Column, Reference, Schema, Table, follows, with_unit
from dpsql.schema.paths import Path, agrees, disagreements, written
from dpsql.schema.roles import holds_unit
from dpsql.schema.write import name, quoted

MOST_PATHS_SHOWN = 4


def check(schema: Schema, broken: frozenset[str], mistakes: Mistakes) -> None:
    """Add every mistake between tables. `broken` names the tables with references that could not be read at all.

    The unit is "" where it could not be read: what depends on it is then left unsaid.
    """
    _check_any_private(schema, mistakes)
    bad = set(broken)
    for table in schema.tables:
        _check_names(schema, table, mistakes)
        _check_key(table, mistakes)
        _check_determines(table, mistakes)
        check_period(schema, table, mistakes)
        _check_source(schema, table, mistakes)
        for reference in table.references:
            if not _check_reference(schema, table, reference, mistakes):
                bad.add(table.name)
        for column in table.columns:
            _check_domain_from(schema, table, column, mistakes)
            _check_list(schema, table, column, mistakes)
            _check_role(schema, table, column, mistakes)
    if schema.privacy.unit == ROW:
        _check_row_level(schema, mistakes)
    elif _check_unit(schema, mistakes):
        _check_paths(schema, bad, mistakes)


def _at(table: Table, column: str | None = None) -> str:
    return place_of(table.name, column)


def _names(tables: Iterable[Table]) -> list[str]:
    return [printable(t.name) for t in tables]


# --- one table ----------------------------------------------------------------------------------------------------


def _check_any_private(schema: Schema, mistakes: Mistakes) -> None:
    if schema.tables and all(t.public for t in schema.tables):
        mistakes.add(
            "[tables]", "every table is public, so there is nothing to protect", "remove public = true from one"
        )


def _check_names(schema: Schema, table: Table, mistakes: Mistakes) -> None:
    """Names under which the engine shows the unit beside a private table."""
    taken = schema.table(with_unit(table.name))
    if not table.public and taken is not None:
        mistakes.add(_at(taken), f"has a name that dpsql gives to a view of {printable(table.name)}", "rename it")
    within, short = qualifiers.place(table.name)
    if table.name.lower().startswith(RESERVED):
        mistakes.add(_at(table), "has a name that dpsql keeps for itself", "rename it")
    elif within.lower() in qualifiers.KEPT or not short:
        mistakes.add(_at(table), f"is in the SQL schema {printable(within)}, which holds something else", "rename it")
    elif within.lower() == qualifiers.MAIN and "." in table.name:
        mistakes.add(_at(table), "names the SQL schema main, which is meant without a word", f"write {name(short)}")
    for column in table.columns:
        if column.name.lower().startswith(RESERVED):
            mistakes.add(_at(table, column.name), "has a name that dpsql keeps for itself", "rename it")


def _check_key(table: Table, mistakes: Mistakes) -> None:
    """A private table's key is verified on its declared columns; nothing else of it is ever read."""
    for column in table.key:
        if not table.public and table.column(column) is None:
            meant = nearest(column, [c.name for c in table.columns])
            remedy = f'write {name(column)} = {{ type = "BIGINT" }} under its columns'
            remedy = f"write {name(meant)}, or declare it" if meant is not None else remedy
            mistakes.add(_at(table), f"key names {printable(column)}, which is not a declared column", remedy)


def _check_determines(table: Table, mistakes: Mistakes) -> None:
    for column in (c for d in table.determines for c in (*d.columns, *d.determined)):
        if not table.public and table.column(column) is None:
            remedy = f'write {name(column)} = {{ type = "BIGINT" }} under its columns'
            mistakes.add(_at(table), f"determines names {printable(column)}, which is not a declared column", remedy)
    for found in (table.column(c) for d in table.determines for c in d.columns):
        if found is not None and found.sqltype.is_float:
            what = f"determines is by {printable(found.name)}, and {found.sqltype} is never compared exactly"
            mistakes.add(_at(table), what, "write a column of another type")


def _check_source(schema: Schema, table: Table, mistakes: Mistakes) -> None:
    """The same file as a private and as a public table would publish it."""
    for other in schema.tables:
        if table.public and not other.public and normpath(table.source).lower() == normpath(other.source).lower():
            what = f"is public, but its source is also that of the private table {printable(other.name)}"
            mistakes.add(_at(table), what, "remove public = true, or write another source")


def _check_domain_from(schema: Schema, table: Table, column: Column, mistakes: Mistakes) -> None:
    """A domain that a private table listed would be an exact fact about people."""
    if column.domain_from is None:
        return
    source = schema.table(column.domain_from[0])
    public = [t for t in schema.tables if t.public]
    if source is None:
        what = f"domain comes from {printable(column.domain_from[0])}, which is not a declared table"
        mistakes.add(_at(table, column.name), what, suggestion(column.domain_from[0], _names(public)))
    elif not source.public:
        what = f"domain comes from {printable(source.name)}, which is private"
        mistakes.add(_at(table, column.name), what, "write the list of values, or the column of a public table")


def _check_list(schema: Schema, table: Table, column: Column, mistakes: Mistakes) -> None:
    told = any(column.name in (*d.columns, *d.determined) for d in table.determines)
    named = told or column.name in table.key or table.referring(column.name) or holds_unit(schema, table, column.name)
    if column.sqltype.element is not None and named:
        remedy = f'write a simple type, such as type = "{column.sqltype.element}"'
        mistakes.add(_at(table, column.name), "is a list, by which rows are not told apart", remedy)


def _check_role(schema: Schema, table: Table, column: Column, mistakes: Mistakes) -> None:
    """A role may not promise the guard what the column does not have, nor hide the unit from it."""
    place = _at(table, column.name)
    if mistakes.at(place):
        return
    if holds_unit(schema, table, column.name) and column.role != "identifier":
        mistakes.add(place, f"role {column.role} would hide that this is the privacy unit", 'write role = "identifier"')
    if column.role == "dimension" and not _listable(schema, table, column):
        mistakes.add(place, "role dimension needs a finite list of values", "write domain = [...], or another role")
    if column.role == "grid" and (not isinstance(column.domain, Interval) or column.step is None):
        mistakes.add(place, "role grid needs bounds and step", "write both, or another role")


def _listable(schema: Schema, table: Table, column: Column) -> bool:
    """True if the values of a column can be listed, now or when the public tables are read."""
    if column.domain_from or column.sqltype.is_boolean or _refers_to_public(schema, table, column):
        return True
    return not column.sqltype.is_float and integers(column.domain) is not None


def _refers_to_public(schema: Schema, table: Table, column: Column) -> bool:
    reference = table.reference(column.name)
    target = schema.table(reference.table) if reference else None
    return target is not None and target.public


# --- references and paths -----------------------------------------------------------------------------------------


def _check_reference(schema: Schema, table: Table, reference: Reference, mistakes: Mistakes) -> bool:
    """True if a reference leads to the key of a declared table; else it is reported."""
    target = schema.table(reference.table)
    place = _at(table, reference.name)
    if target is None:
        others = _names(t for t in schema.tables if t is not table)
        what = f"refers to {printable(reference.table)}, which is not a declared table"
        mistakes.add(place, what, suggestion(reference.table, others))
    elif table.public and not target.public:
        what = f"refers to the private table {printable(target.name)} from a public one"
        mistakes.add(place, what, "remove the reference, or public = true")
    elif sorted(target.key) != sorted(reference.targets):
        names = ", ".join(map(printable, reference.targets))
        what = f"refers to {printable(target.name)}.{names}, which is not the key of that table"
        mistakes.add(place, what, _key_remedy(target, reference))
    else:
        return True
    return False


def _key_remedy(target: Table, reference: Reference) -> str:
    if len(target.key) == len(reference.targets) == 1:
        return f"write {quoted(f'{target.name}.{target.key[0]}')}"
    columns = ", ".join(map(quoted, reference.targets))
    return f"write key = [{columns}] for table {printable(target.name)} if that is unique there"


def _check_unit(schema: Schema, mistakes: Mistakes) -> bool:
    """True if the unit is the one-column key of a private table; else it is reported."""
    privacy = schema.privacy
    if not privacy.unit or all(t.public for t in schema.tables):
        return False
    place = privacy.unit_table or "", privacy.unit_column or ""
    found = placed(schema, "unit", place, "write a private table's key", mistakes)
    if found is None:
        return False
    table, _ = found
    if table.key != (privacy.unit_column,):
        remedy = f"write key = [{quoted(privacy.unit_column or '')}]"
        mistakes.add(_at(table), "holds the privacy unit, which must be its key", remedy)
    return table.key == (privacy.unit_column,)


def placed(
    schema: Schema, key: str, place: tuple[str, str], instead: str, mistakes: Mistakes
) -> tuple[Table, Column] | None:
    """The private table and the column that a key of [privacy] names; None where there is no such one, which is reported.

    instead  hint where the table is public
    """
    table = schema.table(place[0])
    column = table.column(place[1]) if table is not None else None
    written = f"{key} is {quoted('.'.join(place))}"
    if table is None:
        private = _names(t for t in schema.tables if not t.public)
        mistakes.add("[privacy]", f"{written}, but no such table is declared", suggestion(place[0], private))
    elif table.public:
        mistakes.add("[privacy]", f"{key} is in the public table {printable(table.name)}", instead)
    elif column is None:
        names = [printable(c.name) for c in table.columns]
        mistakes.add("[privacy]", f"{written}, but no such column is declared", suggestion(place[1], names))
    else:
        return table, column
    return None


def _check_paths(schema: Schema, broken: set[str], mistakes: Mistakes) -> None:
    """Every private table must reach the unit, by one path or by the one that its owner chose, over rows of its own people."""
    reach = {t.name: _reach(schema, t) for t in schema.tables}
    broken = broken | _check_cycles(schema, reach, mistakes)
    whole = [t for t in schema.tables if not t.public and not broken & {t.name, *reach[t.name]}]
    for table in whole:
        _check_path(schema, table, mistakes)
    for found in disagreements(schema):
        if found.table in whole and _is_chosen(schema, found.table) and _is_chosen(schema, found.through):
            mistakes.add(_at(found.table), found.what, found.remedy)


def _reach(schema: Schema, table: Table) -> set[str]:
    """The private tables that references lead to from a table."""
    found: set[str] = set()
    waiting = [table]
    while waiting:
        for reference in waiting.pop().references:
            target = schema.table(reference.table)
            if target is not None and not target.public and target.name not in found:
                found.add(target.name)
                waiting.append(target)
    return found


def _check_cycles(schema: Schema, reach: dict[str, set[str]], mistakes: Mistakes) -> set[str]:
    """The tables on a circle of references; each circle is reported once, at its first table."""
    cyclic = [t for t in schema.tables if t.name in reach[t.name]]
    reported: set[str] = set()
    for table in cyclic:
        circle = [t for t in cyclic if t.name in reach[table.name] and table.name in reach[t.name]]
        if table.name not in reported:
            what = f"references go in a circle ({', '.join(_names(circle))})"
            mistakes.add(_at(table), what, "remove one, so that every path ends at the unit")
        reported |= {t.name for t in circle}
    return {t.name for t in cyclic}


def _check_path(schema: Schema, table: Table, mistakes: Mistakes) -> None:
    """Rule 3: with several paths the owner says which people are protected."""
    if table.name == schema.privacy.unit_table:
        if table.unit_path is not None:
            mistakes.add(_at(table), "unit_path makes no sense for the table that holds the unit", "remove unit_path")
    else:
        _check_unit_path(schema, table, mistakes)
    if table.population is not None and not schema.one_row_per_unit(table):
        what = "population needs a table with one row per unit, whose key is the unit"
        mistakes.add(_at(table), what, "remove population, or write the unit's column as key")


def _check_unit_path(schema: Schema, table: Table, mistakes: Mistakes) -> None:
    paths = schema.paths_to_unit(table)
    remedies = " or ".join(map(written, _trusted(schema, paths)[:MOST_PATHS_SHOWN]))
    if not paths:
        remedy = (
            f"write references = {{ column = {quoted(schema.privacy.unit)} }}, or public = true if it is about nobody"
        )
        mistakes.add(_at(table), "is private and no reference leads to the privacy unit", remedy)
    elif table.unit_path is None and len(paths) > 1:
        what = "more than one path leads to the privacy unit, and only the people on one are protected"
        mistakes.add(_at(table), what, f"write {remedies}")
    elif table.unit_path is not None and not any(follows(path, table.unit_path) for path in paths):
        mistakes.add(_at(table), "unit_path is not a path of references to the privacy unit", f"write {remedies}")


def _trusted(schema: Schema, paths: list[Path]) -> list[Path]:
    """The paths that go on by the way of the table that they lead over, as far as its owner has chosen one."""
    return [p for p in paths if agrees(schema, p) or not _is_chosen(schema, _through(schema, p))]


def _through(schema: Schema, path: Path) -> Table:
    found = schema.table(path[0].table)
    assert found is not None
    return found


def _is_chosen(schema: Schema, table: Table) -> bool:
    """True if it is clear by which path a table reaches the unit."""
    paths, chosen = schema.paths_to_unit(table), table.unit_path
    return len(paths) == 1 if chosen is None else any(follows(p, chosen) for p in paths)


def _check_row_level(schema: Schema, mistakes: Mistakes) -> None:
    """Rule 4: a row is its own unit, so no table leads to another and there is nothing to limit."""
    for table in (t for t in schema.tables if not t.public):
        for key in ("unit_path", "max_rows_per_unit", "max_groups_per_unit", "determines"):
            if getattr(table, key):
                mistakes.add(_at(table), f'{key} makes no sense with unit = "row"', f"remove {key}")
        for reference in table.references:
            target = schema.table(reference.table)
            if target is not None and not target.public:
                what = f'a reference to the private table {printable(target.name)} makes no sense with unit = "row"'
                mistakes.add(_at(table, reference.name), what, "remove the reference, or write a table's key as unit")
        for column in table.columns:
            if column.unit_bounds is not None:
                what = 'unit_bounds makes no sense with unit = "row"'
                mistakes.add(_at(table, column.name), what, "remove unit_bounds; bounds says the same")
