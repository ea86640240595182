"""Paths from key columns to the unit, and the places where two tables disagree about them.

A key alone does not say whose row it is: orders may belong to their buyer while lines, over the same orders, belong to the seller.
So a held key is the key and the references that lead from it to the unit, and two columns hold the same key only if both are equal
(rule 46).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dpsql.core.errors import error
from dpsql.schema.mistakes import place_of, printable
from dpsql.schema.model import ROW, Reference, Schema, Table
from dpsql.schema.write import quoted

Path = tuple[Reference, ...]
Name = tuple[str, str]
"""A key by its table and column alone, whoever its rows belong to."""


@dataclass(frozen=True, slots=True)
class HeldKey:
    """A one-column key of a private table, whose values a column holds, and the references from that table to the unit.

    Why  rows that agree in the same held key are of one unit, which is what joins, groups and windows rest on: the unit is a function
         of the key's value, made of unique keys alone (rule 36)
    """

    table: str
    column: str
    path: Path

    @property
    def is_unit(self) -> bool:
        """True if it is the unit's own key: there is no way left to go."""
        return not self.path


def unit_key(schema: Schema) -> HeldKey:
    """The key that is the unit."""
    return HeldKey(schema.privacy.unit_table or "", schema.privacy.unit_column or "", ())


def held_keys(schema: Schema, table: Table) -> dict[str, frozenset[HeldKey]]:
    """The private keys that columns of a table hold, by column: its own key, and what the first reference of its path points at.

    Why  other references lead to people too, but not to those whose rows these are (rule 3)
    """
    if schema.privacy.unit == ROW:
        return {}
    path = schema.path_to_unit(table)
    found: dict[str, frozenset[HeldKey]] = {}
    if path:
        found[path[0].column] = frozenset({HeldKey(path[0].table, path[0].target, path[1:])})
    if len(table.key) == 1:
        own = HeldKey(table.name, table.key[0], path)
        found[own.column] = found.get(own.column, frozenset()) | {own}
    return found


def named_keys(schema: Schema, table: Table) -> dict[str, frozenset[Name]]:
    """The private keys that columns of a table name, on its path or not, by column.

    Why  the guard alone asks this: an order's number beside a reference to orders says which rows go together, and looks nobody up.
         It equates no units
    """
    if schema.privacy.unit == ROW:
        return {}
    found: dict[str, frozenset[Name]] = {
        name: frozenset({(table.name, name)}) for name in table.key if len(table.key) == 1
    }
    for reference in table.references:
        target = schema.table(reference.table)
        if target is not None and not target.public:
            named = frozenset({(target.name, reference.target)})
            found[reference.column] = found.get(reference.column, frozenset()) | named
    return found


@dataclass(frozen=True, slots=True)
class Disagreement:
    """A table whose path goes on over another table by a way that is not that table's own.

    table    the table
    path     its path
    through  the table that its first reference points at
    own      the path of that one
    """

    table: Table
    path: Path
    through: Table
    own: Path

    @property
    def what(self) -> str:
        through = printable(self.through.name)
        return (
            f"its path to the privacy unit goes on over {through} by {columns(self.path[1:])}, but rows of {through} belong to people "
            f"by {columns(self.own)}, and would take the rows of others with them"
        )

    @property
    def remedy(self) -> str:
        """Either table may give way."""
        mine = written((self.path[0], *self.own))
        theirs = f"{written(self.path[1:])} for {printable(self.through.name)}"
        return f"write {mine}, or {theirs}, or a column of this table that refers to its own people, as its path"


def disagreements(schema: Schema) -> Iterator[Disagreement]:
    """Every table whose path leads over rows that belong to other people than its own.

    Why  removing a unit removes the rows of a table on the way, and with them the way of everybody else's rows over it: those would
         belong to nobody from then on, and one unit would move the answers of many (rules 2, 46)
    """
    for table in (t for t in schema.tables if not t.public):
        path = schema.path_to_unit(table)
        through = schema.table(path[0].table) if len(path) > 1 else None
        if through is not None and not agrees(schema, path):
            yield Disagreement(table, path, through, schema.path_to_unit(through))


def agrees(schema: Schema, path: Path) -> bool:
    """True if a path goes on from the first table that it leads to by that table's own path."""
    through = schema.table(path[0].table)
    return len(path) < 2 or through is None or schema.path_to_unit(through) == path[1:]


def require_agreeing(schema: Schema) -> None:
    """Raise 801 for paths that disagree: a schema that was read has none, one that was put together in Python may."""
    for found in disagreements(schema):
        raise error(801, f"{place_of(found.table.name)}: {found.what}", hint=found.remedy)


def columns(path: Path) -> str:
    """The columns of a path, as an owner writes them."""
    return ", ".join(quoted(r.column) for r in path)


def written(path: Path) -> str:
    return f"unit_path = [{columns(path)}]"
