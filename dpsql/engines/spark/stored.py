"""Tables as a server stores them: folders of files, or names of its catalog that stand for such folders; and their version.

Version  the paths, sizes and times of the files, listed without reading them; of Delta Lake of the commits. A table is read as the
         files that were there when it was opened, and after each statement they must still be the same. Nothing says that a file of the
         same path, size and time holds the same bytes: no limit is taken as verified (rule 63)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from dpsql.core.errors import Error
from dpsql.engines.spark.server import ClusterAddress, ConnectServer, FileState, Listing
from dpsql.engines.writing import name as identifier
from dpsql.engines.writing import raise_all
from dpsql.schema.mistakes import printable
from dpsql.schema.model import Table

DELTA = "delta"
_LOGS = "{_delta_log,.hoodie,*/_delta_log,*/.hoodie}"
"""Of tables whose files are not all rows, and of those that a folder of partitions has in it."""
FORMS = ("parquet", "orc", DELTA)
"""In which the files say the types of the columns."""
_COMMIT = re.compile(r"/(\d{20})\.json$")
_NO_DELTA = (
    "it is stored as Delta Lake, which this server cannot read: start it with the jar io.delta:delta-spark of its version of Spark, "
    "and with spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension and "
    "spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog; or write the table as Parquet"
)
_DETAILS = "# Detailed Table Information"


@dataclass(frozen=True, slots=True)
class StoredFiles:
    """A table as the server holds it.

    relation  under which questions find it, in double quotes
    columns   (name, type as Spark writes it), in their order
    """

    relation: str
    columns: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class TableFolder:
    """A folder of files, and the form of these."""

    form: str
    folder: str

    @property
    def watched(self) -> str:
        """The folder whose files tell of every change: of Delta Lake that of the commits.

        Why  a commit is a file that is written once, under the next number
        """
        return f"{self.folder.rstrip('/')}/_delta_log" if self.form == DELTA else self.folder

    def rows(self, server: ConnectServer, watched: Sequence[FileState]) -> Any:
        """A frame of what the files hold, of Delta Lake as of the last commit among those that are watched."""
        reader = server.session.read.format(self.form)
        if self.form == DELTA:
            commits = [int(found[1]) for path, *_ in watched if (found := _COMMIT.search(path)) is not None]
            reader = reader.option("versionAsOf", str(max(commits, default=0)))
        return reader.load(self.folder)


def placed(server: ConnectServer, at: ClusterAddress, source: str) -> TableFolder | str:
    """The folder of a table's rows, by its source; a problem in words where they cannot be read.

    source  a path, behind its form and a colon where that is not Parquet; one in the folder of the address, where it has one; else a
            name of the catalog
    """
    named, colon, rest = source.partition(":")
    form, path = (named.lower(), rest) if colon and not rest.startswith("//") else (FORMS[0], source)
    if form not in FORMS:
        return _unreadable(form)
    if at.folder and not path.startswith("/") and "://" not in path:
        return _readable(server, TableFolder(form, f"{at.folder}/{path}"), path)
    if path.startswith("/") or "://" in path:
        return _readable(server, TableFolder(form, path), path)
    try:
        rows = server.rows(f"DESCRIBE TABLE EXTENDED {_dotted(source)}")
    except Error:
        raise
    except Exception:
        return "the catalog of the server has no such table"
    return _in_catalog(server, rows)


def located(rows: Sequence[Sequence[object]]) -> str:
    """The folder of a table of the catalog, by its description."""
    return _details(rows)["Location"]


def _details(rows: Sequence[Sequence[object]]) -> dict[str, str]:
    found, told = dict[str, str](), False
    for key, value, *_ in rows:
        told = told or key == _DETAILS
        if told:
            found.setdefault(str(key), str(value))
    return found


def has_log(server: ConnectServer, folder: str, log: str = "_delta_log") -> bool:
    """True where a folder has a log in it, of Delta Lake or by another pattern. Only names are looked at."""
    try:
        server.types(server.session.read.format("binaryFile").load(f"{folder.rstrip('/')}/{log}"))
    except Error:
        raise
    except Exception:
        return False
    return True


def _readable(server: ConnectServer, place: TableFolder, path: str) -> TableFolder | str:
    """The same place; a problem where it is of Delta Lake and not declared so, or the server has nothing that reads it.

    Why   a folder with a log keeps the files of rows that were removed or changed: read without the log, they count too
    path  as the schema writes it
    """
    if place.form != DELTA and has_log(server, place.folder, _LOGS):
        if has_log(server, place.folder):
            return f'it is a table of Delta Lake, whose folder holds removed rows too: write source = "{DELTA}:{printable(path)}"'
        return "it is of Hudi, or has such a table or one of Delta Lake in it: it holds removed rows too: write it as Parquet"
    try:
        if place.form == DELTA:
            server.types(server.session.read.format(DELTA).load(place.folder))
    except Exception as fault:
        return _NO_DELTA if "DATA_SOURCE_NOT_FOUND" in str(fault) else place
    return place


def _in_catalog(server: ConnectServer, rows: Sequence[Sequence[object]]) -> TableFolder | str:
    found = _details(rows)
    form = found.get("Provider", "").lower()
    if found.get("Type", "").upper() == "VIEW":
        return "it is a view, which could change from one reading to the next: declare the tables that it reads"
    if form not in FORMS or not found.get("Location"):
        return _unreadable(form)
    return _readable(server, TableFolder(form, found["Location"]), found["Location"])


def _unreadable(form: str) -> str:
    what = f"is stored as {printable(form)}, and" if form else "has no files of its own, and"
    return f"it {what} has no version that is known here: write it as Parquet, ORC or Delta Lake"


def _dotted(source: str) -> str:
    return ".".join(identifier(part) for part in source.split("."))


@dataclass(frozen=True, slots=True)
class Opened:
    """Declared tables as they were when they were opened, by their names; and the files that are watched."""

    tables: dict[str, StoredFiles]
    folders: dict[str, TableFolder]
    files: Listing

    def listed(self, server: ConnectServer) -> Listing:
        """The files that are there now. Raises pyspark's exceptions."""
        return server.listing([place.watched for place in self.folders.values()])

    def of(self, table: str) -> list[FileState]:
        """The files of one table."""
        folder = _bare(self.folders[table].watched)
        return [file for file in self.files if _bare(file[0]) == folder or _bare(file[0]).startswith(f"{folder}/")]


def opened(server: ConnectServer, at: ClusterAddress, declared: Sequence[Table]) -> Opened:
    """Declared tables. Raises 707 with everything that is wrong, also where files change meanwhile."""
    places = {table.name: placed(server, at, table.source) for table in declared}
    raise_all(707, [f"table {printable(t)}: {problem}" for t, problem in places.items() if isinstance(problem, str)])
    folders = {table: place for table, place in places.items() if isinstance(place, TableFolder)}
    before, tables = _listed(server, folders), dict[str, StoredFiles]()
    whole = Opened(tables, folders, before)
    raise_all(707, [f"table {printable(t)}: its folder has no files" for t in folders if not whole.of(t)])
    for table, place in folders.items():
        view = f"dpsql stored {table}"
        columns = server.show(view, place.rows(server, whole.of(table)))
        tables[table] = StoredFiles(identifier(view), tuple(columns))
    if whole.listed(server) != before:
        raise_all(707, ["files changed while they were opened: open them when nothing writes to them"])
    return whole


def _listed(server: ConnectServer, folders: dict[str, TableFolder]) -> Listing:
    """The files of all folders. Raises 707 naming those that are not there."""
    whole = Opened({}, folders, ())
    try:
        return whole.listed(server)
    except Error:
        raise
    except Exception:
        pass
    raise_all(707, list(_missing(server, folders)))
    return whole.listed(server)


def _missing(server: ConnectServer, folders: dict[str, TableFolder]) -> Iterator[str]:
    for table, place in folders.items():
        try:
            server.listing([place.watched])
        except Error:
            raise
        except Exception:
            yield f"table {printable(table)}: the server finds no folder or file {printable(place.watched)}"


def _bare(path: str) -> str:
    """A path without what depends on who writes it: file:/a, file:///a and /a are one."""
    scheme, colon, rest = path.partition(":")
    rest = rest if colon and "/" not in scheme else path
    return unquote("/" + rest[2:].partition("/")[2] if rest.startswith("//") else rest).rstrip("/")
