"""SQLite files, read by Python's own sqlite3: in one transaction, which leaves no trace beside the file.

A value is of the type that it was stored with, whatever its column declares. It crosses as text, a function of the value alone; what is
no text, a blob or bytes that are not UTF-8, is lost, and counted.
"""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

from dpsql.core.errors import error
from dpsql.core.sqltypes import BIGINT, DOUBLE, VARCHAR, SqlType, parse_type
from dpsql.engines.duckdb import sources
from dpsql.engines.duckdb.copied import Chunk
from dpsql.engines.signature import Signature
from dpsql.engines.writing import name as quoted
from dpsql.schema.drafted import DraftTable, ForeignKey

Result = TypeVar("Result")
ROWS = 50_000  # of a table at once
HEADER = b"SQLite format 3\x00"
_WAL = 2
"""The byte of the header that says that changes are in a log beside the file."""
_TABLES = "SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage > 0 AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY 1"
"""Ordinary tables: a view or a virtual one could read other files."""
_COLUMNS = 'SELECT name, type, "notnull", pk FROM pragma_table_info(?) ORDER BY cid'
_KEYS = 'SELECT id, "table", "from", "to" FROM pragma_foreign_key_list(?) ORDER BY id, seq'
_HALF_DONE = (
    "holds a change that is under way, or was left half done; let its program finish, or open it once with that program"
)
_PROBLEMS = {
    sqlite3.SQLITE_BUSY: "a program is writing to it; try again when it is done",
    sqlite3.SQLITE_LOCKED: "a program is writing to it; try again when it is done",
    sqlite3.SQLITE_NOTADB: "is no SQLite file, or an encrypted one; decrypt it, or write the path of one",
    sqlite3.SQLITE_READONLY: _HALF_DONE,
    sqlite3.SQLITE_CANTOPEN: "the file may not be read; allow this user to",
}


@dataclass(frozen=True, slots=True)
class FileTable:
    """A table as the file declares it, with the text of each column's type."""

    name: str
    columns: tuple[tuple[str, str], ...]


class OpenFile:
    """An open transaction of one file."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._connection = connection

    def tables(self) -> list[FileTable]:
        """The ordinary tables; names that are no text, and columns that are computed, are left out."""
        names = [name for (name,) in self._connection.execute(_TABLES) if isinstance(name, str)]
        return [FileTable(name, tuple((c, t) for c, t, *_ in self._columns(name))) for name in names]

    def _columns(self, table: str) -> list[tuple[str, str, bool, int]]:
        found = self._connection.execute(_COLUMNS, [table])
        return [(c, str(t), bool(never), int(pk)) for c, t, never, pk in found if isinstance(c, str)]

    def drafted(self) -> list[DraftTable]:
        """The tables for a first schema, with what the file declares of keys."""
        keys = {table.name: self._key(table.name) for table in self.tables()}
        return [self._drafted(table, keys) for table in self.tables()]

    def _key(self, table: str) -> tuple[str, ...]:
        return tuple(c for c, _, _, place in sorted(self._columns(table), key=lambda c: c[3]) if place)

    def _drafted(self, table: FileTable, keys: dict[str, tuple[str, ...]]) -> DraftTable:
        columns = [(c, str(computable(t) or t or "no type")) for c, t in table.columns]
        never = frozenset(c for c, _, never, _ in self._columns(table.name) if never)
        return DraftTable(table.name, table.name, columns, keys[table.name], self._references(table.name, keys), never)

    def _references(self, table: str, keys: dict[str, tuple[str, ...]]) -> tuple[ForeignKey, ...]:
        """Foreign keys; one that names no columns is to the key of its table."""
        found: dict[int, list[tuple[str, str, str | None]]] = {}
        for number, target, column, far in self._connection.execute(_KEYS, [table]):
            found.setdefault(number, []).append((str(target), str(column), far))
        spelt = {name.lower(): name for name in keys}
        references = []
        for parts in found.values():
            target = spelt.get(parts[0][0].lower())
            if target is not None:
                far = tuple(str(f) for *_, f in parts if f is not None) or keys[target]
                references.append(ForeignKey(tuple(c for _, c, _ in parts), target, far))
        return tuple(references)

    def rows(self, table: str, columns: Sequence[str]) -> Iterator[Chunk]:
        """All rows of a table, as text. Raises sqlite3's exceptions."""
        items = ", ".join(quoted(column) for column in columns)
        typed = tuple((f"c{i}", VARCHAR) for i in range(len(columns)))
        cursor = self._connection.execute(f"SELECT {items} FROM main.{quoted(table)}")
        while held := cursor.fetchmany(ROWS):
            cells = list(zip(*held, strict=True))
            lost = tuple(sum(isinstance(cell, bytes) for cell in column) for column in cells)
            yield Chunk(typed, tuple(_texts(column) for column in cells), lost)


def _texts(column: Sequence[object]) -> list[object]:
    """Values as text: numbers as Python writes them, which is exact; a blob is none."""
    return [c if c is None or isinstance(c, str) else None if isinstance(c, bytes) else repr(c) for c in column]


def _begins(path: Path, content: bytes) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(content)) == content
    except OSError:
        return False


def files(path: Path) -> tuple[Path, ...]:
    """The file and the logs of changes beside it, which need not be there."""
    return tuple(path.with_name(path.name + end) for end in ("", "-wal", "-journal"))


def computable(written: str) -> SqlType | None:
    """The type in which dpsql reads a column of a declared type if it is free to choose, mostly by SQLite's own rules for these names.

    >>> [str(computable(written)) for written in ("INT", "REAL", "nvarchar(40)", "NUMERIC", "decimal(8,2)", "datetime", "blob", "")]
    ['BIGINT', 'DOUBLE', 'VARCHAR', 'DOUBLE', 'DECIMAL(8,2)', 'TIMESTAMP', 'None', 'None']
    """
    name = written.strip().upper()
    if "INT" in name:
        return BIGINT
    if any(part in name for part in ("CHAR", "CLOB", "TEXT")):
        return VARCHAR
    if name in ("NUMERIC", "DECIMAL") or any(part in name for part in ("REAL", "FLOA", "DOUB")):
        return DOUBLE
    return parse_type(name)


# --- opening ----------------------------------------------------------------------------------------------------------


def read(path: Path, signature: Signature, work: Callable[[OpenFile], Result]) -> Result:
    """The outcome of some work in one transaction of a file. Raises 707; 708 where the file changes meanwhile.

    signature  of its files, from before this
    Why        a log of changes that is not empty is read in a private copy: SQLite would else write beside the owner's file
    """
    try:
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dpsql-sqlite-")))
            connection = stack.enter_context(closing(_connected(path, folder)))
            connection.text_factory = _text
            connection.execute("BEGIN")
            return work(OpenFile(path, connection))
    except sqlite3.Error as fault:
        code = getattr(fault, "sqlite_errorcode", 0) & 0xFF
        problem = error(707, f"{path}: {_PROBLEMS.get(code, 'is a damaged SQLite file; see PRAGMA integrity_check')}")
    except OSError:
        problem = error(707, f"{path}: cannot be read to its end", hint="see that it is readable and on a healthy disk")
    if not signature.holds():
        problem = error(708, "the data changed while it was opened", hint="open it again when nothing writes to it")
    raise problem


def _connected(path: Path, folder: Path) -> sqlite3.Connection:
    with path.open("rb") as file:
        header = file.read(20)
    log = files(path)[1]
    how = "mode=ro"
    if header[18:19] == bytes([_WAL]):
        if log.exists() and log.stat().st_size:
            for each in (path, log):
                shutil.copyfile(each, folder / each.name)
            path, how = folder / path.name, "mode=rw"
        else:
            how = "mode=ro&immutable=1"
    return sqlite3.connect(f"file:{quote(str(path))}?{how}", uri=True, isolation_level=None)


def _text(data: bytes) -> str | bytes:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data


def located(path: Path) -> Path:
    """A source's file. Raises 707 where it is no SQLite file that can be read as it is."""
    problem = sources.unreadable(path)
    if problem is None and not _begins(path, HEADER):
        problem = _PROBLEMS[sqlite3.SQLITE_NOTADB]
    journal = files(path)[2]
    if problem is None and journal.is_file() and not _begins(journal, b"\0") and journal.stat().st_size:
        # SQLite would write to it, even to see that it may not
        problem = _HALF_DONE
    if problem is not None:
        raise error(707, f"{path}: {problem}")
    return path
