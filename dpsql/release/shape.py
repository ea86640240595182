"""describe: Compiled -> the columns of the answer, by empty tables. A final query that could not run is refused before the charge."""

from __future__ import annotations

from collections.abc import Iterable

from dpsql.core.errors import Error
from dpsql.plan.compiled import Compiled
from dpsql.plan.tables import PublicTable
from dpsql.postprocess.declared import DeclaredTables
from dpsql.postprocess.sandbox import Sandbox
from dpsql.release.estimating import empty, typical
from dpsql.release.staging import key_types, read_beside

Columns = tuple[tuple[str, str], ...]
"""(name, DuckDB type) of each column."""


def describe(compiled: Compiled, plain: str | None, catalog: DeclaredTables, sandbox: Sandbox) -> Columns:
    """Names and types of the result. Raises 106 where the final query does not bind, or fails on typical values.

    plain  the query as it was written, which DuckDB names columns after: POW(x, 2) is not POWER(x, 2)
    """
    sandbox.forget()
    shell = compiled.plan.shell
    if shell.plain_sql is None:
        return sandbox.describe(shell.sql)
    named = catalog.describe(shell.plain_sql)
    written = _named(plain, catalog) if plain is not None else ()
    if len(written) == len(named):
        named = tuple((name, sqltype) for (name, _), (_, sqltype) in zip(written, named, strict=True))
    if not compiled.releases:
        return named
    sandbox.need(shell.public)
    tables: list[PublicTable] = []
    for part in compiled.releases:
        types = key_types(compiled, part, named)
        tables += [empty(part.release, types), *(t.empty for t in read_beside(compiled, part.release, types))]
    if not shell.public:
        # what binds may still fail on its values, as a text where a list is asked for; a public table may be large
        _load(map(typical, tables), sandbox)
        sandbox.try_out(shell.sql)
    _load(tables, sandbox)
    shown = sandbox.describe(shell.sql)
    return tuple((name, sqltype) for (name, _), (_, sqltype) in zip(named, shown, strict=False))


def _load(tables: Iterable[PublicTable], sandbox: Sandbox) -> None:
    for table in tables:
        sandbox.load(table)


def _named(plain: str, catalog: DeclaredTables) -> Columns:
    """The columns of the statement as it was written; none where DuckDB does not read it as the parser did."""
    try:
        return catalog.describe(plain)
    except Error:
        return ()
