"""The prepared snapshot on a cluster: private tables once more as tables of its catalog, each row with its unit, in buckets of it.

The rows stand in a database that the owner named. In the snapshot's files, beside the ledger, stands only which table has them, and
which files that had when they were written: names that are drawn at random, once. Where they are others, nobody reads the copy.

Why  tables that are in the same buckets of the unit are cut, and joined by it, without moving a row. Nothing but this writes into a
     copy, so limits that were verified of its rows hold in it (rule 63): who may write to that database may change answers
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dpsql.engines.shown import ShownQuery, ShownTables
from dpsql.engines.spark.server import ConnectServer, Listing, address
from dpsql.engines.spark.stored import Opened, StoredFiles, TableFolder, located
from dpsql.engines.spark.words import WORDS
from dpsql.schema.model import ROW, UNIT_COLUMN, Schema, Table, with_unit

BUCKET = 2**26
"""[bytes] of a bucket of the largest table as it was stored: a task reads as much at once."""
_MOST_BUCKETS = 2**14


@dataclass(frozen=True, slots=True)
class TableCopy:
    """A table of the catalog with the rows of a private one, its folder, and the files that it had when it was written."""

    relation: str
    folder: str = ""
    files: Listing = ()

    @staticmethod
    def read(file: Path) -> TableCopy | None:
        """The one that is noted in a file; None where none is."""
        try:
            found = json.loads(file.read_text("utf-8"))
            files = tuple((str(path), int(size), str(time)) for path, size, time in found["files"])
            return TableCopy(str(found["relation"]), str(found["folder"]), files)
        except (OSError, ValueError, TypeError, KeyError):
            return None

    def note(self, file: Path) -> None:
        text = json.dumps({"relation": self.relation, "folder": self.folder, "files": self.files})
        file.write_text(text, "utf-8")


Copies = dict[str, TableCopy]
"""By private table."""


def noted(schema: Schema, files: Sequence[Path]) -> Copies | None:
    """Those that a snapshot's files note; None where one notes none."""
    private = [t.name for t in schema.tables if not t.public]
    found = {table: TableCopy.read(file) for table, file in zip(private, files, strict=True)}
    copies = {table: copy for table, copy in found.items() if copy is not None}
    return copies if len(copies) == len(found) else None


def opened(server: ConnectServer, copies: Copies, beside: Opened) -> Opened | None:
    """The copies of private tables beside the public ones; None where they have other files than were written. Raises pyspark's
    exceptions, also where one is gone."""
    tables, folders = dict(beside.tables), dict(beside.folders)
    for table, copy in copies.items():
        view = f"dpsql copied {table}"
        tables[table] = StoredFiles(WORDS.name(view), tuple(server.show(view, server.session.table(copy.relation))))
        folders[table] = TableFolder("parquet", copy.folder)
    written = tuple(sorted([*beside.files, *(file for copy in copies.values() for file in copy.files)]))
    whole = Opened(tables, folders, written)
    return whole if whole.listed(server) == written else None


def queries(schema: Schema, stored: Opened) -> dict[str, ShownQuery]:
    """Relations over the copies that a statement is shown: the values in them have the declared types."""
    found = dict[str, ShownQuery]()
    for table in (t for t in schema.tables if not t.public):
        own, relation = [c.name for c in table.columns], stored.tables[table.name].relation
        more = {table.name: own}
        if schema.privacy.unit != ROW and schema.unit_column(table) is None:
            more[with_unit(table.name)] = [*own, UNIT_COLUMN]
        found |= {one: ShownQuery(tuple((c, WORDS.name(c)) for c in names), relation) for one, names in more.items()}
    return found


def write(server: ConnectServer, schema: Schema, stored: Opened, asked: ShownTables, table: Table, file: Path) -> None:
    """Write the rows of a private table that reach a unit, in buckets of it and sorted by it; and note in the file where they are.
    Copies that no file of a snapshot notes any more are dropped. Raises pyspark's exceptions."""
    database, prefix = _dotted(address(schema.source).prepared), _prefix(schema)
    _sweep(server, database, prefix, file.parent.parent)
    copy = TableCopy(f"{database}.{WORDS.name(prefix + secrets.token_hex(8))}")
    # not to be dropped by another one that begins now
    copy.note(file)
    placed, query = _rows(schema, table, _buckets(server, stored))
    server.rows(f"CREATE TABLE {copy.relation} USING parquet {placed} AS {asked.asked(query, {})}")
    folder = located(server.rows(f"DESCRIBE TABLE EXTENDED {copy.relation}"))
    TableCopy(copy.relation, folder, server.listing([folder])).note(file)


def _rows(schema: Schema, table: Table, buckets: int) -> tuple[str, str]:
    """(how the rows are placed, a query of them)."""
    columns = [WORDS.name(c.name) for c in table.columns]
    if schema.privacy.unit == ROW:
        return "", f"SELECT {', '.join(columns)} FROM {WORDS.name(table.name)}"
    own = schema.unit_column(table)
    unit, source = WORDS.name(own or UNIT_COLUMN), WORDS.name(table.name if own else with_unit(table.name))
    items = ", ".join(columns if own else [*columns, unit])
    return (
        f"CLUSTERED BY ({unit}) SORTED BY ({unit}) INTO {buckets} BUCKETS",
        f"SELECT /*+ REPARTITION({buckets}, {unit}) */ {items} FROM {source} WHERE {unit} IS NOT NULL",
    )


def _buckets(server: ConnectServer, stored: Opened) -> int:
    """As many for all tables, so that they are joined bucket by bucket."""
    folders = [place.folder for place in stored.folders.values()]
    largest = max(sum(size for _, size, _ in server.listing([folder])) for folder in folders)
    return min(max(1, -(-largest // BUCKET)), _MOST_BUCKETS)


def _sweep(server: ConnectServer, database: str, prefix: str, root: Path) -> None:
    """Drop the copies of this data that stand in no file beside its ledger."""
    kept = {copy.relation for copy in map(TableCopy.read, root.glob("*/*")) if copy is not None}
    for _, name, *_ in server.rows(f"SHOW TABLES IN {database}"):
        relation = f"{database}.{WORDS.name(str(name))}"
        if str(name).startswith(prefix) and relation not in kept:
            server.rows(f"DROP TABLE IF EXISTS {relation}")


def _prefix(schema: Schema) -> str:
    """Of the names of all copies of this data, which is bound to one ledger."""
    places = [f"{address(schema.source).place}/{table.source}" for table in schema.tables_of_units]
    return f"dpsql_{hashlib.sha256(repr(places).encode()).hexdigest()[:16]}_"


def _dotted(database: str) -> str:
    return ".".join(map(WORDS.name, database.split(".")))
