"""A Spark Connect server on the loopback, of the pyspark that is installed, and data put where it reads them."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import duckdb

from dpsql.schema.model import Schema, Table

_CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"
ABSENT = ("TIME",)
"""Types that no table has here."""
OUTSIDE = ("chr(0)", "(BC)", "5881580", "294247", "10000-", "repeat(", "infinity'", str(2**127)[:-1])
"""Parts of values that Spark does not have, or shows as NULL: see grammar_notes/known-limits.md."""
_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
}


def home() -> Path | None:
    """The folder of a pyspark that has a server in it, and Java beside it; None where either is missing."""
    found = find_spec("pyspark")
    folder = Path(found.origin).parent if found is not None and found.origin else None
    whole = folder is not None and any(folder.glob("jars/spark-connect_*.jar")) and shutil.which("java")
    return folder if whole else None


@contextmanager
def started(master: str = "local[1]", memory: str = "1500m", **settings: str) -> Iterator[str]:
    """The address of a new server; it ends with the block. Call only where `home` has one. Its events are written to `events.json`."""
    spark, folder, port = home(), Path(tempfile.mkdtemp(prefix="dpsql-spark-")), _free_port()
    assert spark is not None
    (folder / "events").mkdir()
    all_settings = {
        **_SETTINGS,
        "spark.connect.grpc.binding.port": str(port),
        "spark.sql.warehouse.dir": f"{folder}/warehouse",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": f"file:{folder}/events",
        **settings,
    }
    options = [part for key, value in all_settings.items() for part in ("--conf", f"{key}={value}")]
    command = [
        spark / "bin/spark-submit", "--master", master, "--driver-memory", memory, *options, "--class", _CLASS, "spark-internal",
    ]  # fmt: skip
    paths = {"SPARK_HOME": str(spark), "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    environment = {**os.environ, **paths}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log, start_new_session=True)
    try:
        _wait(port, process)
        yield f"sc://127.0.0.1:{port}/;folder={folder}"
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def folder_of(url: str) -> Path:
    return Path(url.partition("folder=")[2])


def events(url: str) -> str:
    """All that the server has written of statements: its log, and the events that its pages are made of."""
    folder = folder_of(url)
    files = [folder / "log", *(path for path in folder.glob("events/**/*") if path.is_file())]
    return "\n".join(path.read_text(errors="replace") for path in files)


def workers(url: str) -> list[int]:
    """The processes that compute for a server whose master is `local-cluster`."""
    return [pid for pid, command in _processes(url).items() if b"ExecutorBackend" in command]


def processor(url: str) -> float:
    """Time of the processor that a server and its workers took [seconds]."""
    ticks = 0
    for pid in _processes(url):
        with suppress(OSError):
            words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += int(words[11]) + int(words[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def _processes(url: str) -> dict[int, bytes]:
    """The command lines of a server's processes."""
    port, commands = url.split(":")[2].partition("/")[0], {}
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            commands[int(path.parent.name)] = path.read_bytes()
    (group,) = {_group(pid) for pid, command in commands.items() if f"binding.port={port}".encode() in command}
    return {pid: command for pid, command in commands.items() if _group(pid) == group}


def _group(pid: int) -> int:
    """The session that a process is in; 0 where it is gone."""
    with suppress(OSError):
        return os.getsid(pid)
    return 0


def moved(schema: Schema, url: str, name: str) -> Schema:
    """The schema over new folders of Parquet files with the rows of its own files."""
    base, path = folder_of(url) / re.sub(r"\W", "_", name)[:60], schema.folder / schema.source
    shutil.rmtree(base, ignore_errors=True)
    with closing(duckdb.connect()) as connection:
        if not path.is_dir():
            connection.execute(f"ATTACH '{path}' AS held (READ_ONLY)")
        for table in schema.tables:
            (base / table.name).mkdir(parents=True)
            source = f"'{path / table.source}'" if path.is_dir() else f'held."{table.source}"'
            file = base / table.name / "part-0.parquet"
            described = connection.execute(f"SELECT * FROM {source}").description or []
            items = [_item(str(name), str(kind)) for name, kind, *_ in described if str(kind) not in ABSENT]
            connection.execute(f"COPY (SELECT {', '.join(items)} FROM {source}) TO '{file}' (FORMAT parquet)")
    address = url.partition("folder=")[0] + f"folder={base}"
    return replace(schema, source=address, tables=tuple(map(_held, schema.tables)))


def _item(name: str, kind: str) -> str:
    """A column; Parquet has no exact form of HUGEINT."""
    return f'CAST("{name}" AS DECIMAL(38,0)) AS "{name}"' if kind == "HUGEINT" else f'"{name}"'


def _held(table: Table) -> Table:
    return replace(table, source=table.name, columns=tuple(c for c in table.columns if c.sqltype.name not in ABSENT))


def _free_port() -> int:
    with closing(socket.socket()) as held:
        held.bind(("127.0.0.1", 0))
        return int(held.getsockname()[1])


def _wait(port: int, process: subprocess.Popen[bytes]) -> None:
    while process.poll() is None:
        with closing(socket.socket()) as tried:
            if tried.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    raise RuntimeError("the Spark server ended before it listened")
