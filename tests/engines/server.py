"""A PostgreSQL server from the machine's packages, in a temporary folder on a socket, and data put into it."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import duckdb

TYPES = {
    "BIGINT": "bigint",
    "INTEGER": "integer",
    "SMALLINT": "smallint",
    "TINYINT": "smallint",
    "UTINYINT": "smallint",
    "USMALLINT": "integer",
    "UINTEGER": "bigint",
    "UBIGINT": "numeric(20,0)",
    "HUGEINT": "numeric(39,0)",
    "DOUBLE": "double precision",
    "FLOAT": "real",
    "VARCHAR": "text",
    "BOOLEAN": "boolean",
    "DATE": "date",
    "TIMESTAMP": "timestamp",
    "TIME": "time",
}

ABSENT: tuple[str, ...] = ()
"""Types that no table has here."""
OUTSIDE = ("chr(0)", "(BC)", "5881580", "294247", "10000-", "24:00", "repeat(")
"""Parts of values that PostgreSQL does not have, or shows as NULL: see grammar_notes/known-limits.md."""
TEMPORAL = ("DATE", "TIMESTAMP", "TIME")


def programs() -> Path | None:
    """The folder of the newest server that is installed; None where none is."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if found:
        return found[-1].parent
    named = shutil.which("initdb")
    return Path(named).parent if named is not None else None


def _user() -> str | None:
    """The user who runs the server: it refuses to be run by root. None: whoever runs this."""
    if os.getuid() != 0:
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    return next(name for name in ("postgres", "nobody") if name in names)


@contextmanager
def started() -> Iterator[str]:
    """The address of a new server, as of its own superuser; it ends with the block. Call only where `programs` has any."""
    folder, user = Path(tempfile.mkdtemp(prefix="dpsql-pg-")), _user()
    bin_ = programs()
    assert bin_ is not None
    if user is not None:
        shutil.chown(folder, user)
    as_user = ["setpriv", f"--reuid={user}", "--clear-groups"] if user is not None else []
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": folder}
    options = f"-k {folder} -c listen_addresses= -c fsync=off -c log_statement=all"
    data, log = folder / "data", folder / "log"
    begin = [*as_user, bin_ / "initdb", "-D", data, "-A", "trust", "-U", "postgres", "--encoding=UTF8", "--locale=C"]
    subprocess.run(begin, check=True, **quiet)  # type: ignore[call-overload]
    control = [*as_user, bin_ / "pg_ctl", "-D", data, "-w"]
    subprocess.run([*control, "-o", options, "-l", log, "start"], check=True, **quiet)  # type: ignore[call-overload]
    try:
        yield f"postgresql://postgres@/postgres?host={folder}"
    finally:
        subprocess.run([*control, "-m", "immediate", "stop"], check=False, **quiet)  # type: ignore[call-overload]
        shutil.rmtree(folder, ignore_errors=True)


def database(url: str, name: str) -> str:
    """The address of a new, empty database of the server."""
    import psycopg

    name = re.sub(r"\W", "_", name)[:60]
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)'.encode())
        connection.execute(f'CREATE DATABASE "{name}"'.encode())
    return url.replace("/postgres?", f"/{name}?")


def load(url: str, tables: Mapping[str, str], source: duckdb.DuckDBPyConnection) -> None:
    """Copy tables: by name a query of what they hold."""
    import psycopg

    with psycopg.connect(url) as connection:
        for table, query in tables.items():
            described = [(str(c[0]), str(c[1])) for c in source.execute(query).description or []]
            # Python has no infinite dates
            items = (f'"{name}"::VARCHAR' if kind in TEMPORAL else f'"{name}"' for name, kind in described)
            result = source.execute(f"SELECT {', '.join(items)} FROM ({query})")
            columns = ", ".join(f'"{name}" {TYPES.get(kind, kind)}' for name, kind in described)
            connection.execute(f'CREATE TABLE "{table}" ({columns})'.encode())
            with connection.cursor() as cursor, cursor.copy(f'COPY "{table}" FROM STDIN'.encode()) as copy:
                while rows := result.fetchmany(10_000):
                    for row in rows:
                        copy.write_row([_written(cell) for cell in row])
            connection.execute(f'ANALYZE "{table}"'.encode())


def _written(cell: object) -> object:
    return repr(cell) if isinstance(cell, float) else cell
