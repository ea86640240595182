"""Tables as a server stores them: folders of files, or names of its catalog that stand for such folders; and their version.

Version  the paths, sizes and times of the files, listed without reading them. A table is read as the files that were there when it was
         opened, and after each statement they must still be the same. Nothing says that a file of the same path, size and time holds
         the same bytes: no limit is taken as verified (rule 63)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

from dpsql.core.errors import Error
from dpsql.engines.spark.server import ClusterAddress, ConnectServer, Listing
from dpsql.engines.writing import name as identifier
from dpsql.engines.writing import raise_all
from dpsql.schema.mistakes import printable
from dpsql.schema.model import Table

FORMS = ("parquet", "orc")
"""In which a file says the types of its columns."""
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
        return TableFolder(form, f"{at.folder}/{path}")
    if path.startswith("/") or "://" in path:
        return TableFolder(form, path)
    try:
        rows = server.rows(f"DESCRIBE TABLE EXTENDED {_dotted(source)}")
    except Error:
        raise
    except Exception:
        return "the catalog of the server has no such table"
    return _in_catalog(rows)


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


def _in_catalog(rows: Sequence[Sequence[object]]) -> TableFolder | str:
    found = _details(rows)
    form = found.get("Provider", "").lower()
    if found.get("Type", "").upper() == "VIEW":
        return "it is a view, which could change from one reading to the next: declare the tables that it reads"
    if form not in FORMS or not found.get("Location"):
        return _unreadable(form)
    return TableFolder(form, found["Location"])


def _unreadable(form: str) -> str:
    what = f"is stored as {printable(form)}, and" if form else "has no files of its own, and"
    return f"it {what} has no version that is known here: keep it as Parquet or ORC"


def _dotted(source: str) -> str:
    return ".".join(identifier(part) for part in source.split("."))


@dataclass(frozen=True, slots=True)
class Opened:
    """Declared tables as they were when they were opened, by their names; and the files that hold them."""

    tables: dict[str, StoredFiles]
    folders: dict[str, str]
    files: Listing

    def of(self, table: str) -> list[tuple[str, int, str]]:
        """The files of one table."""
        folder = _bare(self.folders[table])
        return [file for file in self.files if _bare(file[0]) == folder or _bare(file[0]).startswith(f"{folder}/")]


def opened(server: ConnectServer, at: ClusterAddress, declared: Sequence[Table]) -> Opened:
    """Declared tables. Raises 707 with everything that is wrong, also where files change meanwhile."""
    places = {table.name: placed(server, at, table.source) for table in declared}
    raise_all(707, [f"table {printable(t)}: {problem}" for t, problem in places.items() if isinstance(problem, str)])
    found = {table: place for table, place in places.items() if isinstance(place, TableFolder)}
    folders = {table: place.folder for table, place in found.items()}
    before = _listed(server, folders)
    tables = {}
    for table, place in found.items():
        view = f"dpsql stored {table}"
        tables[table] = StoredFiles(identifier(view), tuple(server.show(view, server.files(place.form, place.folder))))
    whole = Opened(tables, folders, before)
    raise_all(707, [f"table {printable(t)}: its folder has no files" for t in tables if not whole.of(t)])
    if server.listing(list(folders.values())) != before:
        raise_all(707, ["files changed while they were opened: open them when nothing writes to them"])
    return whole


def _listed(server: ConnectServer, folders: dict[str, str]) -> Listing:
    """The files of all folders. Raises 707 naming those that are not there."""
    try:
        return server.listing(list(folders.values()))
    except Error:
        raise
    except Exception:
        pass
    raise_all(707, list(_missing(server, folders)))
    return server.listing(list(folders.values()))


def _missing(server: ConnectServer, folders: dict[str, str]) -> Iterator[str]:
    for table, folder in folders.items():
        try:
            server.listing([folder])
        except Error:
            raise
        except Exception:
            yield f"table {printable(table)}: the server finds no folder or file {printable(folder)}"


def _bare(path: str) -> str:
    """A path without what depends on who writes it: file:/a, file:///a and /a are one."""
    scheme, colon, rest = path.partition(":")
    rest = rest if colon and "/" not in scheme else path
    return unquote("/" + rest[2:].partition("/")[2] if rest.startswith("//") else rest).rstrip("/")
