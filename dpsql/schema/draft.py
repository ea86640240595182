"""A first schema.toml from names and types alone: nothing in it comes from a value, a count or a file's statistics."""

from __future__ import annotations

import re
from dataclasses import dataclass

from dpsql.accountants.registry import accountings
from dpsql.core.sqltypes import SqlType, parse_type
from dpsql.schema.mistakes import printable
from dpsql.schema.write import name as key
from dpsql.schema.write import quoted

_HEADER = """\
# A draft, made from the names and types of the tables alone. Look at every line that says CHECK before you use it.
# Bounds and lists are limits that you make public: choose them from what you know of the subject, not from the data."""
_PRIVACY = """\
epsilon = 1.0                  # CHECK: the total for all analysts together; it never refills by itself
delta = 1e-6                   # CHECK: well below one over the number of people
# units = 10000                # your public estimate of the number of people
# query = { epsilon = 0.1, delta = 1e-9 }
# caps = { epsilon = 0.5, delta = 1e-8 }
# least = 0.001                # the least that a statement may cost, if it costs anything
# accounting = "auto"          # {accountings}: how the losses of statements add up
# window = "month"             # day | week | month: the total is for each of them; n of them lose n times
# partition = "person.site"    # a column that stays the same for a person: each of its values has a total of its own
# shared_answers = false       # an answer that one analyst paid for is not given to another

[guard]
mode = "block"                 # off | warn | block | audit
k = 20

# [analysts.alice]             # a cap on what one analyst may spend; with one named, only the named may ask
# epsilon = 0.5
# role = "interns"
# [roles.interns]              # a cap on what all its analysts may spend together
# epsilon = 1.0
# [reservations.board]         # a part of the total that others cannot spend
# analyst = "alice"
# refreshes = 12
# epsilon = 0.05"""


@dataclass(frozen=True, slots=True)
class DraftTable:
    """A table as the source shows it.

    source   file or table name inside the dataset's source
    columns  (name, type as DuckDB writes it), in their order
    """

    name: str
    source: str
    columns: list[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class _Unit:
    """The guess at the privacy unit."""

    table: str
    column: str
    sqltype: SqlType


def draft(name: str, source: str, tables: list[DraftTable]) -> str:
    """The text of a first schema.toml.

    It parses as TOML. Read by read_schema it has no mistakes but those that its comments with CHECK announce: no column
    that could be the unit, a table without one that leads to it, no column left.
    """
    kept = _distinct(tables)
    unit = _guess_unit(kept[0]) if kept else None
    parts = [_HEADER, _dataset(name, source), _privacy(unit), *_left_out(tables, kept)]
    parts += [_table(t, unit) for t in kept]
    if not kept:
        parts.append(
            '# CHECK: no table was found; write [tables.person] with source = "person.parquet", key = ["person_id"]'
        )
    return "\n\n".join(parts) + "\n"


def _sayable(name: str) -> bool:
    return bool(name.strip()) and name.isprintable()


def _distinct(tables: list[DraftTable]) -> list[DraftTable]:
    """The tables that have a name of their own in SQL, where case does not count."""
    first: dict[str, DraftTable] = {}
    for table in tables:
        if _sayable(table.name):
            first.setdefault(table.name.lower(), table)
    return list(first.values())


def _left_out(tables: list[DraftTable], kept: list[DraftTable]) -> list[str]:
    names = [printable(t.name) for t in tables if not any(t is k for k in kept)]
    return (
        [f"# CHECK: left out, since SQL could not tell them from others or could not say them: {', '.join(names)}"]
        if names
        else []
    )


def _usable(table: DraftTable) -> dict[str, SqlType]:
    """The columns that dpsql computes with; of two names that differ in case only, the first."""
    found: dict[str, SqlType] = {}
    for name, text in table.columns:
        sqltype = parse_type(text)
        if sqltype is not None and _sayable(name) and name.lower() not in {n.lower() for n in found}:
            found[name] = sqltype
    return found


def _guess_unit(table: DraftTable) -> _Unit | None:
    """The first column called like an identifier: id, person_id, personId, and only then anything that ends in id."""
    columns = _usable(table)
    for pattern in (r"(.*_)?id$|.*[a-z0-9]I[dD]$", r".*id$"):
        for name, sqltype in columns.items():
            # a dot could not be told from the one in table.column
            if "." not in name and (re.match(pattern, name) or re.match(pattern, name.lower())):
                return _Unit(table.name, name, sqltype)
    return None


def _dataset(name: str, source: str) -> str:
    """The name begins the ledger's file name, so it holds only what every file system takes."""
    safe = re.sub(r"[^\w .-]", "_", name).strip().lstrip(".")
    return f"[dataset]\nname = {quoted(safe if _sayable(safe) else 'dataset')}\nsource = {quoted(source)}"


def _privacy(unit: _Unit | None) -> str:
    if unit is None:
        line = (
            'unit = "TABLE.COLUMN"  # CHECK: no column looks like a person\'s id; name the key of the table of people'
        )
    else:
        where = quoted(f"{unit.table}.{unit.column}")
        line = f"unit = {where}  # CHECK: guessed from its name; whose privacy is it that counts?"
    rest = _PRIVACY.replace("{accountings}", " | ".join(accountings()))
    return f"[privacy]\n{line}\n{rest}"


def _table(table: DraftTable, unit: _Unit | None) -> str:
    columns = _usable(table)
    lines = [f"[tables.{key(table.name)}]", f"source = {quoted(table.source)}", *_structure(table, columns, unit)]
    lines += [f"[tables.{key(table.name)}.columns]", *(_column(n, t) for n, t in columns.items())]
    unusable = [
        f"{printable(n)} ({printable(t)})" for n, t in table.columns if n not in columns or parse_type(t) is None
    ]
    if unusable:
        lines.append(f"# left out, dpsql does not compute with them: {', '.join(unusable)}")
    if not columns:
        lines.append('# CHECK: no column is left; write one, as in income = { type = "DOUBLE" }')
    return "\n".join(lines)


def _structure(table: DraftTable, columns: dict[str, SqlType], unit: _Unit | None) -> list[str]:
    """Key, references and limits, as far as names tell."""
    if unit is not None and table.name == unit.table:
        return [f"key = [{quoted(unit.column)}]  # CHECK: one row a person"]
    return [
        _reference(columns, unit),
        "# max_rows_per_unit = 10  # the most rows that count for one person",
        '# key = ["...", "..."]  # unique together',
    ]


def _reference(columns: dict[str, SqlType], unit: _Unit | None) -> str:
    """A reference to the unit where name and type agree, else a comment that says what is to be written."""
    target = quoted("TABLE.COLUMN" if unit is None else f"{unit.table}.{unit.column}")
    for name, sqltype in columns.items():
        if unit is not None and name.lower() == unit.column.lower() and sqltype == unit.sqltype:
            return f"references = {{ {key(name)} = {target} }}  # CHECK: guessed from the name"
    return (
        f"# CHECK: write references = {{ column = {target} }}, or public = true (and no columns) if it is about nobody"
    )


def _column(name: str, sqltype: SqlType) -> str:
    return f"{key(name)} = {{ type = {quoted(str(sqltype))} }}{_advice(sqltype)}"


def _advice(sqltype: SqlType) -> str:
    """Advice to the owner, as a comment; a boolean lacks nothing."""
    if sqltype.is_boolean:
        return ""
    if sqltype.is_text:
        return '  # domain = ["a", "b"]'
    if sqltype.is_integer:
        return "  # bounds = [lower, upper] or domain = [1, 2, 3]"
    return "  # bounds = [lower, upper]"
