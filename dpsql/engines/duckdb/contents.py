"""Contents of the tables inside one database file, each by itself: a table stays the same when another one in the file changes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from dpsql.engines.base import Identity
from dpsql.engines.duckdb import sources
from dpsql.engines.signature import NO_LENGTHS, Digests, Lengths
from dpsql.engines.writing import name
from dpsql.schema.model import Table

Rows = Callable[[str], Sequence[tuple[object, ...]]]
STEP = 1 << 18
"""[rows] whose hashes are held at once."""


@dataclass(frozen=True, slots=True)
class StoredTables:
    """The identity of a database file, and of its tables by their rows.

    origin  of the file
    rows    hashes of the tables whose rows can be read in an order of their own
    """

    origin: Identity
    rows: Callable[[], Mapping[str, bytes]]

    def keyed(self, secret: bytes, structure: str) -> str:
        return self.origin.keyed(secret, structure)

    def holds(self) -> bool:
        return self.origin.holds()

    def digests(self, secret: bytes, lengths: Lengths = NO_LENGTHS) -> Digests:
        """See Identity; a table that has no hash of its own changes with the file."""
        found = self.origin.digests(secret, lengths)
        return Digests(found.whole, {**found.tables, **self.rows()}, found.files)


def digest(ask: Rows, table: Table, shape: sources.Shape) -> bytes | None:
    """A hash of a table's declared columns, row after row; None where a type's text does not say every value.

    ask  runs SQL

    Why  NULL is a mark of its own and a value stands behind its length, so other rows have another text; the stored types count, for
         the same text may be read otherwise in another type
    """
    source, stored = shape
    declared = {column.name.lower() for column in table.columns}
    read = [(column, sqltype) for column, sqltype in stored if column.lower() in declared]
    if source.inner is None or not all(map(_is_told, (sqltype for _, sqltype in read))):
        return None
    within, inner = source.inner
    place = f"{name(sources.ATTACHED)}.{name(within)}.{name(inner)}"
    found = hashlib.sha256(repr(read).encode())
    ((least, most),) = ask(f"SELECT coalesce(min(rowid), 0), coalesce(max(rowid), -1) FROM {place}")
    assert isinstance(least, int) and isinstance(most, int)
    row = f"sha256(concat({', '.join(_written(column) for column, _ in read) or repr('')}))"
    for start in range(least, most + 1, STEP):
        part = f"SELECT rowid AS r, {row} AS h FROM {place} WHERE rowid >= {start} AND rowid < {start + STEP}"
        ((hashes,),) = ask(f"SELECT coalesce(string_agg(h, '' ORDER BY r), '') FROM ({part})")
        found.update(str(hashes).encode())
    return found.digest()


def _is_told(sqltype: str) -> bool:
    known = sources.computable(sqltype)
    return known is not None and known.element is None and "ZONE" not in sqltype.upper()


def _written(column: str) -> str:
    value = f"CAST({name(column)} AS VARCHAR)"
    return f"CASE WHEN {name(column)} IS NULL THEN '-' ELSE concat(strlen({value}), ':', {value}) END"
