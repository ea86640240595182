"""The engine that reads the data: DuckDB in this process, shown the declared tables and nothing else."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Self, TypeVar

import duckdb

from dpsql.core.cancellation import require_process
from dpsql.core.errors import Error, error
from dpsql.engines import snapshot
from dpsql.engines.base import ExactTable, Find, Identity, Kept, Sieve, answer
from dpsql.engines.duckdb import fetch, prepared
from dpsql.engines.duckdb.dialect import DIALECT, DuckDBDialect
from dpsql.engines.duckdb.loading import load_beside
from dpsql.engines.duckdb.locked import ask, connect, ending, one_select, run, settle
from dpsql.engines.duckdb.views import ShownViews, show, show_grouped, show_table
from dpsql.engines.served import TEXTS, TableEngine, told
from dpsql.engines.signature import ALL_FILES, FileParts, Signature
from dpsql.engines.writing import added, text
from dpsql.plan.tables import PublicTable
from dpsql.schema.model import Schema, Table

_TEXTS = {**TEXTS, 704: "the prepared snapshot cannot be written beside the ledger; see that its disk has room"}

_MACHINE = (duckdb.IOException, OSError)
"""Errors of what the engine lacks, whatever the values are; memory is a limit (711)."""

Result = TypeVar("Result")


class DuckDBEngine(TableEngine):
    """The declared tables of one schema as views, on files that are read in place.

    Input      Parquet and CSV files of a folder, or the tables of a DuckDB file
    Output     views with the declared names, columns and types; a value that does not fit its type is NULL
    Why        access is limited to those files, settings are locked, nothing is logged; one private folder takes what
               does not fit in memory, and it goes with the engine
    Errors     707 a file is missing or cannot be read; 804 it does not have the declared columns
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection, shown: ShownViews, spill: Path) -> None:
        self._process = os.getpid()
        self.dialect: DuckDBDialect = DIALECT
        self._connection = connection
        self._shown = shown
        self.tables = {t.name: t for t in shown.tables}
        self.signature: Identity = self._by_rows(shown.files)
        self._read: Signature | Identity = shown.read
        self._limited, self._spill = False, spill
        # whoever prepares the next snapshot leaves this one in place for as long
        held = snapshot.hold(Path(shown.prepared.files[0][0]).parent) if shown.prepared is not None else None
        self._remove = weakref.finalize(self, _remove, spill, os.getpid(), held)

    def __repr__(self) -> str:
        return "<DuckDBEngine>"

    @classmethod
    def open(
        cls, schema: Schema, *, find: Find = lambda _: None, outputs: Iterable[Path] = (), memory: int | None = None
    ) -> Self:
        """The engine of `begin`, limited at once: for the owner. Raises 707, 804.

        memory  [bytes] the most that it may hold; the rest goes to disk
        """
        engine = cls.begin(schema, find=find, outputs=outputs)
        try:
            engine.limit(memory)
        except BaseException:
            engine.close()
            raise
        return engine

    @classmethod
    def begin(
        cls,
        schema: Schema,
        *,
        find: Find = lambda _: None,
        outputs: Iterable[Path] = (),
        only: FileParts = ALL_FILES,
    ) -> Self:
        """Show the declared tables. Public tables get all columns that dpsql computes with. Raises 707, 804.

        It answers the owner's questions, without the limits of statements, and nothing else before it is limited.

        find     given the files' signature, the prepared snapshot to read private tables from, or None
        outputs  files that `write` may write
        only     see EngineKind.begin
        """
        spill = Path(tempfile.mkdtemp(prefix="dpsql-"))
        connection = connect(spill)
        try:
            shown = show(connection, schema, find, outputs, only, spill)
        except BaseException:
            connection.close()
            _remove(spill, os.getpid(), None)
            raise
        return cls(connection, shown, spill)

    def limit(self, memory: int | None) -> None:
        """Lock the settings, with this much memory at most [bytes]: from here on it is open to statements. Raises 711."""
        try:
            settle(self._connection, memory)
            self._limited = True
            return
        except duckdb.Error as fault:
            problem = ending(fault) or _told(fault, 707)
        raise problem

    def exact(
        self,
        sql: str,
        keys: int,
        sums: int,
        bound: Sequence[PublicTable] = (),
        cut: str = "",
        sieve: Sieve | None = None,
    ) -> ExactTable:
        """Exact sums of one statement: its first columns are group keys, the next sums [quanta]; see Engine."""
        if not self._limited:
            raise error(901, "a statement was about to run before the engine was limited")

        def read(cursor: duckdb.DuckDBPyConnection) -> ExactTable:
            for table in bound:
                load_beside(cursor, table)
            return answer([fetch.columns(ask(cursor, sql, cut), keys + sums)], keys, sums, sieve)

        return self._walled(read, 701)

    def owner_rows(self, sql: str) -> list[tuple[object, ...]]:
        """Exact rows, for the owner's check and about public tables; never on an analyst's behalf."""
        return self._walled(lambda cursor: cursor.execute(one_select(cursor, sql)).fetchall(), 707)

    def copy(self, schema: Schema, table: Table, file: Path, kept: Kept | None = None) -> None:
        """Write a private table's rows to one of the outputs as Parquet, sorted by unit where there are units; for the owner. Raises
        704, 702, 703, 711."""
        copy = f"COPY ({prepared.rows(schema, table, kept)}) TO {text(str(file))} (FORMAT parquet, USE_TMP_FILE false)"
        self._walled(lambda cursor: cursor.execute(copy).fetchall(), 704)

    def show_added(self, table: Table, since: Mapping[str, int], columns: Sequence[str]) -> Table | None:
        """See Engine."""
        from dpsql.engines.duckdb.appended import added_rows

        shown = replace(table, name=added(table))
        shapes = []
        for source, stored in self._shown.shapes[table.name]:
            lengths = {path: since[path.name] for path in source.paths if path.name in since}
            paths = [added_rows(path, length, self._spill) if length else path for path, length in lengths.items()]
            if None in paths:
                return None
            shapes += [(replace(source, paths=tuple(filter(None, paths))), stored)] if paths else []

        def work(_: duckdb.DuckDBPyConnection) -> Table:
            show_table(self._connection, shown, shapes)
            show_grouped(self._connection, table, self._shown.shapes[table.name], columns)
            return shown

        return self._walled(work, 707)

    @property
    def shared_views(self) -> tuple[str, ...]:
        """SQL that shows the public tables to a connection that holds nothing private; see `shared_files`."""
        return self._shown.public_views

    @property
    def shared_files(self) -> tuple[Path, ...]:
        """All files that `shared_views` read. Both are empty where one file holds public and private tables."""
        return self._shown.public_files

    def columns(self, sql: str, width: int) -> tuple[Sequence[object], ...]:
        return self._walled(lambda cursor: fetch.columns(cursor.execute(sql), width), 707)

    def _by_rows(self, origin: Identity) -> Identity:
        """The identity of what is read: of a database file with each of its tables by itself."""
        inside = any(source.inner is not None for shapes in self._shown.shapes.values() for source, _ in shapes)
        if not inside or self._shown.prepared is not None:
            return origin
        from dpsql.engines.duckdb.contents import StoredTables, digest

        def rows() -> dict[str, bytes]:
            shapes = ((self.tables[table], shape) for table, (shape,) in self._shown.shapes.items())
            found = {table.name: digest(self.owner_rows, table, shape) for table, shape in shapes}
            return {table: known for table, known in found.items() if known is not None}

        return StoredTables(origin, rows)

    @property
    def is_pinned(self) -> bool:
        return self._shown.prepared is not None

    def unchanged(self) -> bool:
        """True if the files that are read are still those that were opened, as far as the file system tells.

        Why  where private tables are read from the prepared snapshot, the version is in its files, and what is written to the declared
             ones is none of it
        """
        prepared = self._shown.prepared
        return self._read.holds() and (prepared is None or prepared.holds())

    def require_unchanged(self) -> None:
        """Raise 702 unless the files are still those that were opened."""
        if not self.unchanged():
            raise error(702, _TEXTS[702])

    def close(self) -> None:
        """Let the files go, and remove what was spilled; a fork of the process leaves both to it."""
        if self._process == os.getpid():
            self._connection.close()
        self._remove()

    def _walled(self, read: Callable[[duckdb.DuckDBPyConnection], Result], code: int) -> Result:
        """Run something on a fresh cursor; raise what goes wrong as constant text, outside of any except block."""
        require_process(self._process)
        self.require_unchanged()
        result, problem = self._attempt(read, code)
        if problem is None or problem.code in (f"DPSQL-{code}", "DPSQL-901", "DPSQL-903"):
            self.require_unchanged()
        if problem is not None:
            raise problem
        if result is None:
            raise error(code, _TEXTS[code])
        return result

    def _attempt(
        self, read: Callable[[duckdb.DuckDBPyConnection], Result], code: int
    ) -> tuple[Result | None, Error | None]:
        try:
            with self._cursor() as cursor:
                return run(cursor, lambda: read(cursor)), None
        except (Exception, KeyboardInterrupt) as fault:
            return None, ending(fault) or _told(fault, code)

    @contextmanager
    def _cursor(self) -> Iterator[duckdb.DuckDBPyConnection]:
        cursor = self._connection.cursor()
        try:
            yield cursor
        finally:
            cursor.close()


def _told(fault: BaseException, code: int) -> Error:
    return told(fault, code, lambda of: isinstance(of, _MACHINE), _TEXTS)


def _remove(spill: Path, owner: int, held: int | None) -> None:
    """Let a snapshot go, and remove a spill folder, unless this is a fork of the process that uses it."""
    if held is not None:
        os.close(held)
    if os.getpid() == owner:
        shutil.rmtree(spill, ignore_errors=True)
