"""Engines by the scheme of the sources that they read, built in or from an installed package."""

from __future__ import annotations

import re
from contextlib import suppress
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path

from dpsql.core.errors import error
from dpsql.engines.base import EngineKind
from dpsql.schema.mistakes import printable
from dpsql.schema.model import Schema

GROUP = "dpsql.engines"
BUILT_IN = {
    "duckdb": "dpsql.engines.duckdb.kind:KIND",
    "sqlite": "dpsql.engines.sqlite.kind:KIND",
    "postgresql": "dpsql.engines.postgres.kind:KIND",
    "postgres": "dpsql.engines.postgres.kind:KIND",
    "sc": "dpsql.engines.spark.kind:KIND",
}
BY_HEADER = {b"SQLite format 3\x00": "sqlite"}
"""First bytes of the files of other schemes than DuckDB's, where the source is the path of one."""
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]{1,30}):")
"""Of two letters at least, so that a drive is none."""


def kind_for(schema: Schema) -> EngineKind:
    """The kind of engine for a schema's source. Raises 707 as `kind_of`."""
    return kind_of(schema.source, schema.folder)


def kind_of(source: str, folder: Path = Path()) -> EngineKind:
    """The kind of engine for a dataset's source; where it names no scheme, by what the file is, or else DuckDB. Raises 707 where no
    engine has the scheme.

    >>> kind_of("data/people.duckdb") is kind_of("duckdb:data/people.duckdb")
    True
    """
    found = _SCHEME.match(source)
    scheme = found[1] if found is not None else _by_header(folder / source)
    if scheme in BUILT_IN:
        module, _, attribute = BUILT_IN[scheme].partition(":")
        kind: EngineKind = getattr(import_module(module), attribute)
        return kind
    added = entry_points(group=GROUP, name=scheme)
    if not added:
        known = ", ".join(sorted({*BUILT_IN, *(one.name for one in entry_points(group=GROUP))}))
        raise error(
            707,
            f"[dataset] source {printable(source)}: no engine reads {scheme}:, and no such file does exist",
            hint=f"write a folder, a DuckDB file, or one of the schemes {known}",
        )
    loaded: EngineKind = next(iter(added)).load()
    return loaded


def _by_header(path: Path) -> str:
    with suppress(OSError), path.open("rb") as file:
        return BY_HEADER.get(file.read(max(map(len, BY_HEADER))), "duckdb")
    return "duckdb"
