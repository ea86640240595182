"""Engines by the scheme of the sources that they read, built in or from an installed package."""

from __future__ import annotations

import re
from importlib import import_module
from importlib.metadata import entry_points

from dpsql.core.errors import error
from dpsql.engines.base import EngineKind
from dpsql.schema.mistakes import printable

GROUP = "dpsql.engines"
BUILT_IN = {
    "duckdb": "dpsql.engines.duckdb.kind:KIND",
    "postgresql": "dpsql.engines.postgres.kind:KIND",
    "postgres": "dpsql.engines.postgres.kind:KIND",
}
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]{1,30}):")
"""Of two letters at least, so that a drive is none."""


def kind_of(source: str) -> EngineKind:
    """The kind of engine for a dataset's source; DuckDB where it names no scheme. Raises 707 where no engine has the scheme.

    >>> kind_of("data/people.duckdb") is kind_of("duckdb:data/people.duckdb")
    True
    """
    found = _SCHEME.match(source)
    scheme = found[1] if found is not None else "duckdb"
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
