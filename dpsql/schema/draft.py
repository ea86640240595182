"""A first schema.toml from names and types alone: nothing in it comes from a value, a count or a file's statistics."""

from __future__ import annotations

import re
from fractions import Fraction

from dpsql.accountants.registry import accountings
from dpsql.core.sqltypes import SqlType, parse_type
from dpsql.schema.drafted import (
    NOTHING_ASKED,
    DraftAnswers,
    DraftTable,
    Link,
    Links,
    Unit,
    guess_unit,
    key_of,
    links_of,
    sayable,
    usable,
    ways_to,
)
from dpsql.schema.guesses import bounds_of, with_guesses
from dpsql.schema.mistakes import printable
from dpsql.schema.write import exact, quoted
from dpsql.schema.write import name as key

_HEADER = """\
# A draft, made from the names and types of the tables alone. Look at every line that says CHECK before you use it.
# Bounds and lists are limits that you make public: choose them from what you know of the subject, not from the data."""
_SNIFFED = """
# CHECK: types of CSV and JSON columns were read off all their values, as you asked; a type is a limit too: could another value come?"""
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
# buy_again = true             # what could be read off what is stored, with a larger error, is bought without a question
# reserve = 0.5                # kept from the logins of dashboards, so that they do not spend the last of the total

[guard]
mode = "block"                 # off | warn | block | audit
k = 20

# [analysts.alice]             # a cap on what one analyst may spend; with one named, only the named may ask
# epsilon = 0.5
# role = "interns"
# dashboard = 0.05             # she is a dashboard's login: no statement of hers may cost more
# [roles.interns]              # a cap on what all its analysts may spend together
# epsilon = 1.0
# [reservations.board]         # a part of the total that others cannot spend
# analyst = "alice"
# refreshes = 12
# epsilon = 0.05"""


def draft(
    name: str, source: str, tables: list[DraftTable], answers: DraftAnswers = NOTHING_ASKED, *, sniffed: bool = False
) -> str:
    """The text of a first schema.toml.

    sniffed  the types of columns without types of their own were taken from the values

    It parses as TOML. Read by read_schema it has no mistakes but those that its comments with CHECK announce: no column
    that could be the unit, a table without one that leads to it, no column left.
    """
    kept = with_guesses(_distinct(tables))
    links = links_of(kept)
    unit = chosen_unit(kept, links, answers)
    parts = [_HEADER + (_SNIFFED if sniffed else ""), _dataset(name, source), _privacy(unit, answers)]
    parts += _left_out(tables, kept)
    parts += [_public(t) if t.name in answers.public else _table(t, links, unit, answers) for t in kept]
    return "\n\n".join(parts) + "\n"


def chosen_unit(tables: list[DraftTable], links: Links, answers: DraftAnswers) -> Unit | None:
    """The privacy unit that was named, else the guess at it."""
    for table in tables:
        if answers.unit is not None and answers.unit[0] == table.name and answers.unit[1] in usable(table):
            return Unit(table.name, answers.unit[1], usable(table)[answers.unit[1]])
    return guess_unit(tables, links)


def _distinct(tables: list[DraftTable]) -> list[DraftTable]:
    """The tables that have a name of their own in SQL, where case does not count."""
    first: dict[str, DraftTable] = {}
    for table in tables:
        if sayable(table.name) and not table.problem:
            first.setdefault(table.name.lower(), table)
    return list(first.values())


def _left_out(tables: list[DraftTable], kept: list[DraftTable]) -> list[str]:
    there = {(table.name, table.source) for table in kept}
    lines = [f"# CHECK: left out table {printable(t.name)}: {t.problem}" for t in tables if t.problem]
    names = [printable(t.name) for t in tables if not t.problem and (t.name, t.source) not in there]
    if names:
        lines.append(
            f"# CHECK: left out, since SQL could not tell them from others or could not say them: {', '.join(names)}"
        )
    return lines


def _dataset(name: str, source: str) -> str:
    """The name begins the ledger's file name, so it holds only what every file system takes."""
    safe = re.sub(r"[^\w .-]", "_", name).strip().lstrip(".")
    return f"[dataset]\nname = {quoted(safe if sayable(safe) else 'dataset')}\nsource = {quoted(source)}"


def _privacy(unit: Unit | None, answers: DraftAnswers) -> str:
    if unit is None:
        line = (
            'unit = "TABLE.COLUMN"  # CHECK: no column looks like a person\'s id; name the key of the table of people'
        )
    else:
        where = quoted(f"{unit.table}.{unit.column}")
        guessed = "  # CHECK: guessed from its name; whose privacy is it that counts?"
        line = f"unit = {where}{guessed if answers.unit is None else ''}"
    rest = _PRIVACY.replace("{accountings}", " | ".join(accountings()))
    if answers.units is not None:
        delta = max(d for d in (Fraction(1, 10**i) for i in range(40)) if d * answers.units * 10 <= 1)
        rest = rest.replace("delta = 1e-6 ", f"delta = {exact(delta)} ").replace(
            "# units = 10000 ", f"units = {answers.units} "
        )
    return f"[privacy]\n{line}\n{rest}"


def _public(table: DraftTable) -> str:
    """A table that is about nobody; its columns are read from it."""
    key_line = [f"key = [{', '.join(map(quoted, table.key))}]"] if table.key and not table.guessed_key else []
    return "\n".join([f"[tables.{key(table.name)}]", "public = true", f"source = {quoted(table.source)}", *key_line])


def _table(table: DraftTable, links: Links, unit: Unit | None, answers: DraftAnswers) -> str:
    columns = usable(table)
    lines = [
        f"[tables.{key(table.name)}]",
        f"source = {quoted(table.source)}",
        *_structure(table, links, unit, answers),
    ]
    lines += [f"[tables.{key(table.name)}.columns]", *(_column(table, n, links, answers) for n in columns)]
    unusable = [
        f"{printable(n)} ({printable(t)})" for n, t in table.columns if n not in columns or parse_type(t) is None
    ]
    if unusable:
        lines.append(f"# left out, dpsql does not compute with them: {', '.join(unusable)}")
    if not columns:
        lines.append('# CHECK: no column is left; write one, as in income = { type = "DOUBLE" }')
    return "\n".join(lines)


def _structure(table: DraftTable, links: Links, unit: Unit | None, answers: DraftAnswers) -> list[str]:
    """Key, references and limits, as far as the source declares them, and else as far as names tell."""
    declared = key_of(table)
    guessed = "  # CHECK: guessed from the name; unique?" if table.guessed_key else ""
    lines = [f"key = [{', '.join(map(quoted, declared))}]{guessed}"] if declared else []
    own = links[table.name]
    if unit is not None and table.name == unit.table:
        if table.guessed_key or not declared:
            lines = [f"key = [{quoted(unit.column)}]  # CHECK: one row a person"]
        return lines + ([_references(own)] if own else []) + _unwritten(table, own)
    ways = ways_to(table.name, links, unit)
    if ways:
        lines += [_references(own) + ("  # CHECK: guessed from the name" if table.guessed_references else "")]
    else:
        lines += [_guessed(table, own, unit)]
    if len(ways) > 1:
        way = ", ".join(quoted(column) for column in ways[0])
        lines += [f"unit_path = [{way}]  # CHECK: one of {len(ways)} ways to the person whose rows these are"]
    most = answers.rows.get(table.name)
    lines += [
        f"max_rows_per_unit = {most}" if most else "# max_rows_per_unit = 10  # the most rows that count for one person"
    ]
    return [*lines, *([] if declared else ['# key = ["...", "..."]  # unique together']), *_unwritten(table, own)]


def _references(links: tuple[Link, ...], guessed: str = "") -> str:
    written = [f"{key(link.column)} = {quoted(f'{link.table}.{link.target}')}" for link in links]
    return f"references = {{ {', '.join([*written, *([guessed] if guessed else [])])} }}"


def _guessed(table: DraftTable, own: tuple[Link, ...], unit: Unit | None) -> str:
    """References of a table that declares none to the unit: one where name and type agree, else a comment that says what to write."""
    target = quoted("TABLE.COLUMN" if unit is None else f"{unit.table}.{unit.column}")
    for name, sqltype in usable(table).items():
        taken = name.lower() == "id" or (name,) == table.key or any(name == link.column for link in own)
        if unit is not None and not taken and (name.lower(), sqltype) == (unit.column.lower(), unit.sqltype):
            return f"{_references(own, f'{key(name)} = {target}')}  # CHECK: guessed from the name"
    check = (
        f"# CHECK: write references = {{ column = {target} }}, or public = true (and no columns) if it is about nobody"
    )
    return f"{_references(own)}\n{check}" if own else check


def _unwritten(table: DraftTable, own: tuple[Link, ...]) -> list[str]:
    """Foreign keys that are no references here: of several columns, between different types, in a circle."""
    written = {link.column for link in own}
    return [
        f"# CHECK: left out, a foreign key ({', '.join(map(printable, f.columns))}) to {printable(f.source)}"
        for f in table.foreign_keys
        if len(f.columns) > 1 or f.columns[0] not in written
    ]


def _column(table: DraftTable, name: str, links: Links, answers: DraftAnswers) -> str:
    """A column; one that refers to a key has its type, and a key is never NULL."""
    sqltype = next((link.sqltype for link in links[table.name] if link.column == name), usable(table)[name])
    null = table.required is not None and name not in table.required and name not in table.key
    more = answers.bounds.get((table.name, name), "")
    parts = [f"type = {quoted(str(sqltype))}", *([more] if more else []), *(["nullable = true"] if null else [])]
    return f"{key(name)} = {{ {', '.join(parts)} }}{'' if more else _advice(name, sqltype)}"


def _advice(name: str, sqltype: SqlType) -> str:
    """Advice to the owner, as a comment; a boolean lacks nothing."""
    if sqltype.is_boolean:
        return ""
    if (meant := bounds_of(name, sqltype)) is not None:
        return f"  # bounds = {meant}, going by the name?"
    if sqltype.is_text:
        return '  # domain = ["a", "b"]'
    if sqltype.is_integer:
        return "  # bounds = [lower, upper] or domain = [1, 2, 3]"
    return "  # bounds = [lower, upper]"
