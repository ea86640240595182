"""Connections to a Spark Connect server: settings that leave nothing to chance, secrets in no text, errors of constant text."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from threading import Event
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from dpsql.core.cancellation import run
from dpsql.core.errors import error
from dpsql.engines.spark import arrow

if TYPE_CHECKING:
    Session: TypeAlias = Any
    Batches: TypeAlias = Iterator[Any]

Result = TypeVar("Result")
SCHEME = "sc://"
FOLDER, PREPARED = "folder=", "prepared="
"""The parts of an address that are ours: where tables that are named without a path have their files; the database of copies."""
SECRETS = "dpsql secret"
"""The relation of one row that holds what no text may: the key of the cut in `cut`, that of row hashes in `rows`."""
_SETTINGS = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.ansi.doubleQuotedIdentifiers": "true",
    "spark.sql.caseSensitive": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.timestampType": "TIMESTAMP_NTZ",
    "spark.sql.parquet.inferTimestampNTZ.enabled": "true",
    "spark.sql.parquet.mergeSchema": "false",
    # a date before 1582 must not end a statement
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.decimalOperations.allowPrecisionLoss": "false",
    "spark.sql.legacy.consecutiveStringLiterals.enabled": "false",
}
_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger", "pyspark.sql.connect.logging")
"""pyspark writes the message of a failure, which quotes a value, to stderr by itself."""
ENDED = "OPERATION_CANCELED"
"""Spark's name of what was interrupted."""
Rows = list[tuple[Any, ...]]
FileState = tuple[str, int, str]
"""(path, size [bytes], time of the last change)"""
Listing = tuple[FileState, ...]
"""Files by their paths."""


@dataclass(frozen=True, slots=True)
class ClusterAddress:
    """A server, and the folder of the tables in it.

    remote  as pyspark takes it
    folder    of tables that are named without a path; "" where these are of the catalog
    prepared  the database of the catalog in which prepared snapshots stand; "" where none do
    """

    remote: str
    folder: str = ""
    prepared: str = ""

    @property
    def place(self) -> str:
        """It without what a file may not show: user and token."""
        host = self.remote.removeprefix(SCHEME).partition("/")[0]
        return f"{SCHEME}{host}" + (f"/;{FOLDER}{self.folder}" if self.folder else "")


def address(source: str) -> ClusterAddress:
    """The parts of a source.

    >>> address("sc://host:15002/;use_ssl=true;folder=/data/shop")
    ClusterAddress(remote='sc://host:15002/;use_ssl=true', folder='/data/shop', prepared='')
    """
    base, *parts = source.split(";")
    others = [part for part in parts if part and not part.startswith((FOLDER, PREPARED))]
    folder, prepared = (
        next((part.removeprefix(word) for part in parts if part.startswith(word)), "") for word in (FOLDER, PREPARED)
    )
    return ClusterAddress(";".join([base, *others]) if others else base.rstrip("/"), folder.rstrip("/"), prepared)


class ConnectServer:
    """One session of a Connect server, for all statements of an engine.

    Errors  707 where it cannot be reached
    """

    def __init__(self, source: str) -> None:
        self._remote = address(source).remote
        self.session: Session = _connected(self._remote)
        self._numbers = itertools.count()
        self._kept: dict[str, str] = {}

    def __repr__(self) -> str:
        return "<ConnectServer>"

    def batches(self, sql: str, read: Callable[[Batches], Result]) -> Result:
        """Read an answer, each batch of Arrow as it comes; there is one at least. Raises pyspark's exceptions, and what ends the
        statement: callers keep it inside their wall."""
        from pyspark.sql.connect.plan import SQL

        found: Result = self._told(lambda going: read(self._read(SQL(sql), going)))
        return found

    def rows(self, sql: str) -> Rows:
        return self.batches(sql, lambda found: [row for batch in found for row in _rows(batch)])

    def _read(self, plan: Any, going: Callable[[], bool]) -> Batches:
        """The batches of an answer as they come, in one call: `session.sql` would ask the server once before, whether it is a command.

        Why  pyspark counts the rows, and raises where those of a batch came before; so no group is in two batches. An interrupt ends
             what the server does, and nothing that it has sent
        """
        client, names, empty = self.session.client, list[str](), True
        for found in client.to_table_as_iterator(plan.to_proto(client), plan.observations):
            if not going():
                raise RuntimeError(ENDED)
            if not hasattr(found, "columns"):
                names = found.names
                continue
            empty = False
            yield found
        if empty:
            yield arrow.without_rows(names)

    def listing(self, folders: Sequence[str]) -> Listing:
        """All files in some folders. No content is read."""
        if not folders:
            return ()
        reader = self.session.read.format("binaryFile").option("recursiveFileLookup", "true")
        found = self.of(reader.load(list(folders)).select("path", "length", "modificationTime"))
        return tuple(sorted((path, int(size), time.isoformat()) for path, size, time in found))

    def of(self, frame: Any) -> Rows:
        """The rows of a frame."""

        def read(going: Callable[[], bool]) -> Rows:
            return [row for batch in self._read(frame._plan, going) for row in _rows(batch)]

        found: Rows = self._told(read)
        return found

    def types(self, frame: Any) -> list[tuple[str, str]]:
        """Names and types of a frame's columns."""
        return [(field.name, field.dataType.simpleString()) for field in self._told(lambda _: frame.schema).fields]

    def show(self, name: str, frame: Any) -> list[tuple[str, str]]:
        """Show rows under a name of this session alone: of the files that are there now, whatever comes later. Output: as `types`."""
        found = self.types(frame)
        self._told(lambda _: frame.createOrReplaceTempView(quoted(name)))
        return found

    @contextmanager
    def held(self, table: Any) -> Iterator[str]:
        """An Arrow table under a new name while the block runs: its rows are in no text."""
        name = self._sent(table)
        try:
            yield name
        finally:
            with suppress(Exception):
                self.session.catalog.dropTempView(quoted(name))

    def kept(self, table: Any, known: str) -> str:
        """The same until the session ends: the name of what was sent under a key before."""
        if known not in self._kept:
            self._kept[known] = self._sent(table)
        return self._kept[known]

    def _sent(self, table: Any) -> str:
        name = f"dpsql held {next(self._numbers)}"
        # of a table without rows pyspark infers no types
        types = None if table.num_rows else arrow.types(table)
        frame = self._told(lambda _: self.session.createDataFrame(table, types))
        self._told(lambda _: frame.createOrReplaceTempView(quoted(name)))
        return name

    def _told(self, work: Callable[[Callable[[], bool]], Any]) -> Any:
        """Run something under a tag of its own, by which it is ended; it is told whether it is to go on."""
        tag, ended = f"dpsql-{next(self._numbers)}", Event()

        def tagged() -> Any:
            self.session.addTag(tag)
            try:
                return work(lambda: not ended.is_set())
            finally:
                self.session.removeTag(tag)

        def interrupt() -> None:
            ended.set()
            with suppress(Exception):
                self.session.interruptTag(tag)

        return run(interrupt, tagged)

    def renew(self) -> None:
        """A new session in place of one that the server has closed; nothing that was shown or kept is in it."""
        closed, self.session = self.session, _connected(self._remote)
        self._kept.clear()
        with suppress(Exception):
            closed.stop()

    def close(self) -> None:
        with suppress(Exception):
            self.session.stop()


def _rows(batch: Any) -> Iterator[tuple[Any, ...]]:
    return zip(*(column.to_pylist() for column in batch.columns), strict=True)


def quoted(name: str) -> str:
    """An identifier in back ticks, where pyspark itself reads a name."""
    return "`" + name.replace("`", "``") + "`"


def driver() -> None:
    """Raise 707 where pyspark is missing."""
    try:
        import pyspark.sql.connect.session  # noqa: F401

        return
    except Exception:
        pass
    raise error(707, "Spark is asked through pyspark-client, which is missing", hint="pip install 'dpsql[spark]'")


def _connected(remote: str) -> Session:
    driver()
    from pyspark.logger import PySparkLogger
    from pyspark.sql.connect.session import SparkSession

    for name in _LOGGERS:
        PySparkLogger.getLogger(name).disabled = True
    problem, hint = "the Spark server cannot be reached", "see that it runs Spark Connect and lets this user in"
    session: Session = None
    try:
        session = SparkSession.builder.remote(remote).create()
        if int(session.version.partition(".")[0]) >= 4:
            for key, value in _SETTINGS.items():
                session.conf.set(key, value)
            # pyspark would warn of it to stderr
            session.sql("SET spark.sql.parser.escapedStringLiterals=false")
            return session
        problem, hint = "the server is older than Spark 4.0", "use a newer one"
    except Exception:
        pass
    if session is not None:
        with suppress(Exception):
            session.stop()
    raise error(707, f"[dataset] source: {problem}", hint=hint)
