"""Paths from key columns to the unit, and the places where two tables disagree about them.

A key alone does not say whose row it is: orders may belong to their buyer while lines, over the same orders, belong to the seller.
So a held key is the key and the references that lead from it to the unit, and two columns hold the same key only if both are equal
(rule 46).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from dpsql.core.errors import error
from dpsql.schema.dependences import deriving, leading
from dpsql.schema.mistakes import place_of, printable
from dpsql.schema.model import ROW, Reference, Schema, Table
from dpsql.schema.write import quoted

Path = tuple[Reference, ...]
Name = tuple[str, str]
"""A key by its table and column alone, whoever its rows belong to."""


@dataclass(frozen=True, slots=True)
class HeldKey:
    """A key of a private table, whose values columns hold, and the references from that table to the unit.

    Why  rows that agree in the same held key are of one unit, which is what joins, groups and windows rest on: the unit is a function
         of the key's value, made of unique keys and of dependences that the owner's check verified (rules 36, 60)
    """

    table: str
    columns: tuple[str, ...]
    path: Path

    @property
    def is_unit(self) -> bool:
        """True if it is the unit's own key: there is no way left to go."""
        return not self.path


@dataclass(frozen=True, slots=True)
class HeldPart:
    """A share that a column has in a key of several columns.

    column  of the key
    row     name in the statement of the table that it was read of

    Why  only all parts of one and the same row are a value of the key: an order's number of one row and the store of another belong to
         nobody, or to somebody else
    """

    key: HeldKey
    column: str
    row: str


def unit_key(schema: Schema) -> HeldKey:
    """The key that is the unit."""
    return HeldKey(schema.privacy.unit_table or "", (schema.privacy.unit_column or "",), ())


def held_keys(schema: Schema, table: Table) -> dict[str, frozenset[HeldKey]]:
    """The private keys that columns of a table hold by themselves, by column."""
    found: dict[str, frozenset[HeldKey]] = {}
    for key, columns in _held(schema, table):
        if len(columns) == 1:
            found[columns[0]] = found.get(columns[0], frozenset()) | {key}
    return found


def held_parts(schema: Schema, table: Table, row: str) -> dict[str, frozenset[HeldPart]]:
    """The shares that columns of a table have in private keys of several columns, by column; `row` is its name in the statement."""
    found: dict[str, frozenset[HeldPart]] = {}
    for key, columns in _held(schema, table):
        for column, part in zip(columns, key.columns, strict=True) if len(columns) > 1 else ():
            found[column] = found.get(column, frozenset()) | {HeldPart(key, part, row)}
    return found


def _held(schema: Schema, table: Table) -> Iterator[tuple[HeldKey, tuple[str, ...]]]:
    """The private keys that a table holds, and its columns that do: its own key, what the first reference of its path points at, and
    what determines that.

    Why  other references lead to people too, but not to those whose rows these are (rule 3)
    """
    if schema.privacy.unit == ROW:
        return
    path = schema.path_to_unit(table)
    if path:
        pairs = sorted(path[0].pairs, key=lambda pair: pair[1])
        yield HeldKey(path[0].table, tuple(target for _, target in pairs), path[1:]), tuple(c for c, _ in pairs)
    if table.key:
        own = tuple(sorted(table.key))
        yield HeldKey(table.name, own, path), own
    for columns in deriving(schema, table) if table.determines else ():
        own = tuple(sorted(columns))
        yield HeldKey(table.name, own, path), own


def named_keys(schema: Schema, table: Table) -> dict[str, frozenset[Name]]:
    """The private keys that columns of a table name, on its path or not, by column.

    Why  the guard alone asks this: an order's number beside a reference to orders says which rows go together, and looks nobody up.
         It equates no units
    """
    if schema.privacy.unit == ROW:
        return {}
    found: dict[str, frozenset[Name]] = {}
    if len(table.key) == 1 or any(leading(schema, table)):
        _name(found, table, table.name, ((name, name) for name in table.key))
    for columns in deriving(schema, table) if table.determines else ():
        _name(found, table, table.name, ((name, name) for name in columns))
    for reference in table.references:
        target = schema.table(reference.table)
        if target is not None and not target.public:
            _name(found, table, target.name, reference.pairs)
    return found


def _name(found: dict[str, frozenset[Name]], table: Table, named: str, pairs: Iterable[tuple[str, str]]) -> None:
    """Add the names that columns have; of several only those that are identifiers, since a condition on the others tells something."""
    held = list(pairs)
    for name, target in held:
        column = table.column(name)
        if len(held) == 1 or (column is not None and column.role == "identifier"):
            found[name] = found.get(name, frozenset()) | {(named, target)}


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
    return ", ".join(quoted(r.name) for r in path)


def written(path: Path) -> str:
    return f"unit_path = [{columns(path)}]"
