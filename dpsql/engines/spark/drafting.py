"""Names and types of tables that a server reads, for a first schema; nothing of their rows."""

from __future__ import annotations

from dpsql.core.errors import Error, error
from dpsql.engines.spark.server import ClusterAddress, ConnectServer
from dpsql.engines.spark.shown import computable
from dpsql.engines.spark.stored import DELTA, TableFolder, has_log, placed
from dpsql.engines.writing import name as identifier
from dpsql.engines.writing import raise_all
from dpsql.schema.drafted import DraftTable
from dpsql.schema.mistakes import printable


def drafted(server: ConnectServer, at: ClusterAddress) -> list[DraftTable]:
    """Every table of the address's folder, or else of the catalog, and what is wrong where it cannot be read. Raises 707, also where
    all of them are refused."""
    try:
        sources = _in_folder(server, at.folder) if at.folder else _in_catalog(server, at.prepared)
        found = [(source, placed(server, at, source)) for source in sources]
        drafts = [_draft(server, source, place) for source, place in found]
        if all(draft.problem for draft in drafts):
            raise_all(707, [f"table {printable(draft.source)}: {draft.problem}" for draft in drafts])
        return drafts
    except Error:
        raise
    except Exception:
        pass
    raise error(707, "[dataset] source: the tables cannot be listed", hint="see that the folder is there")


def _in_folder(server: ConnectServer, folder: str) -> list[str]:
    """The folders in a folder, and the files."""
    depth = len(folder.strip("/").split("/"))
    paths = (path.partition(":")[2] or path for path, _, _ in server.listing([folder]))
    found = sorted({path.strip("/").split("/")[depth] for path in paths})
    return [f"{DELTA}:{name}" if has_log(server, f"{folder}/{name}") else name for name in found]


def _in_catalog(server: ConnectServer, copies: str) -> list[str]:
    """Names of all tables but those in the database of copies."""
    found = []
    for database in (str(name) for (name,) in server.rows("SHOW DATABASES") if name != copies):
        tables = server.rows(f"SHOW TABLES IN {identifier(database)}")
        found += [_named(database, str(table)) for _, table, temporary in tables if not temporary]
    return sorted(found)


def _named(database: str, table: str) -> str:
    return table if database == "default" else f"{database}.{table}"


def _draft(server: ConnectServer, source: str, place: TableFolder | str) -> DraftTable:
    """place: of a table that can be read; else what is wrong."""
    if isinstance(place, str):
        return DraftTable(source, source, [], problem=place)
    try:
        columns = server.types(server.session.read.format(place.form).load(place.folder))
    except Error:
        raise
    except Exception:
        return DraftTable(source, source, [], problem="no file of it says what its columns are")
    name = source.removeprefix(f"{DELTA}:").removesuffix(".parquet")
    return DraftTable(name, source, [(c, str(computable(t) or t)) for c, t in columns])
