"""A server that tests start on a copy of the bundled data; its client: raw_client.py."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from dpsql.clients.server import tokens, users
from dpsql.clients.server.scram import Verifier
from dpsql.dataset import owner
from dpsql.schema.toml import read_schema
from dpsql.session.opening import default_ledger, ledger_identity

ROOT = Path(__file__).parents[2]
PASSWORD = "correct horse battery"
ANALYSTS = ("alice", "bob", "carol")
WAIT_SECONDS = 120.0
ANALYST = "\n[analysts.{name}]\nepsilon = 1000.0\n"


def dataset(folder: Path, *, seconds: int = 60, budget: float = 2000.0, analysts: tuple[str, ...] = ANALYSTS) -> Path:
    """A copy of the bundled data that may be served: with analysts, who may log in, and approved."""
    from dpsql.accounting.ledger import Ledger

    copy = folder / "randhie"
    copy.mkdir(parents=True)
    for path in (ROOT / "examples" / "randhie").iterdir():
        if path.suffix in (".parquet", ".toml"):
            shutil.copy(path, copy / path.name)
    path = copy / "schema.toml"
    text = path.read_text().replace("epsilon = 4.0 ", f"epsilon = {budget} ", 1)
    text += "".join(ANALYST.format(name=name) for name in analysts) + f"\n[limits]\nseconds = {seconds}\n"
    path.write_text(text)
    schema = read_schema(path)
    ledger = Ledger.open(default_ledger(schema), ledger_identity(schema))
    try:
        owner.check(schema, ledger)
    finally:
        ledger.close()
    verifier = str(Verifier.of(PASSWORD, iterations=4096))
    users.write_private(users.users_file(schema), dict.fromkeys(analysts, verifier))
    return path


@dataclass
class Served:
    """A running server. lines: of its standard error."""

    process: subprocess.Popen[str]
    schema: Path
    lines: list[str] = field(default_factory=list)
    port: int = 0
    http: int = 0

    @property
    def ledger(self) -> Path:
        return self.schema.with_name("randhie.ledger")

    def charges(self) -> list[tuple[object, ...]]:
        """The charges of the ledger, in order."""
        return dump(self.ledger, "charge")

    def workers(self) -> list[int]:
        """Processes that hold the data."""
        return [pid for pid, line in children(self.process.pid) if "clients.server.worker" in line]

    def address(self, user: str = "alice", password: str = PASSWORD) -> str:
        return f"host=127.0.0.1 port={self.port} user={user} dbname=randhie password='{password}' sslmode=disable"

    @property
    def url(self) -> str:
        """Address of the dataset over HTTP."""
        return f"http://127.0.0.1:{self.http}/{read_schema(self.schema).name}"

    def token(self, name: str = "alice") -> str:
        """A new token of an analyst, or of the owner: "".  It is known at once."""
        schema = read_schema(self.schema)
        return tokens.add(tokens.tokens_file(users.users_file(schema)), schema, name, 1)

    def stop(self) -> int:
        self.process.terminate()
        return self.process.wait(30)


def dump(ledger: Path, *tables: str) -> list[tuple[object, ...]]:
    """All that stands in some tables of a ledger, or in all."""
    with sqlite3.connect(f"file:{ledger}?mode=ro", uri=True) as connection:
        found = [
            name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
        ]
        wanted = [name for name in found if not tables or name in tables]
        rows = [(name, *row) for name in wanted for row in connection.execute(f'SELECT * FROM "{name}"')]
    connection.close()
    return rows


def children(pid: int) -> list[tuple[int, str]]:
    """Processes that a process started, with their command lines."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
            if parent == pid:
                found.append((int(entry.name), line))
    return found


@contextmanager
def served(schema: Path, *options: str) -> Iterator[Served]:
    """Start a server, wait until it is ready, and end it."""
    command = [sys.executable, "-m", "dpsql", "serve", str(schema), "--listen", "127.0.0.1:0", *options]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment, cwd=schema.parent)
    server = Served(process, schema)
    reading = threading.Thread(target=_read, args=(server,), daemon=True)
    reading.start()
    try:
        until(lambda: "ready" in server.lines or process.poll() is not None)
        assert process.poll() is None, server.lines
        found = re.search(r"port=(\d+)", "\n".join(server.lines))
        assert found is not None, server.lines
        server.port = int(found[1])
        page = re.search(r"page: https?://127\.0\.0\.1:(\d+)/", "\n".join(server.lines))
        server.http = int(page[1]) if page is not None else 0
        yield server
    finally:
        if process.poll() is None:
            server.stop()
        reading.join(10)
        assert process.stderr is not None
        process.stderr.close()


@contextmanager
def example(folder: Path) -> Iterator[int]:
    """Start the bundled example in a folder, and give the port that it serves at."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    words = ["--folder", str(folder), "--listen", f"127.0.0.1:{port}", "--password", PASSWORD.replace(" ", "")]
    command = [sys.executable, str(ROOT / "examples" / "server" / "start.py"), *words]
    process = subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    server = Served(process, folder)
    reading = threading.Thread(target=_read, args=(server,), daemon=True)
    reading.start()
    try:
        until(lambda: "ready" in server.lines or process.poll() is not None)
        assert process.poll() is None, server.lines
        yield port
    finally:
        for pid, _ in children(process.pid):
            os.kill(pid, signal.SIGTERM)
        process.wait(30)
        reading.join(10)
        assert process.stderr is not None
        process.stderr.close()


def _read(server: Served) -> None:
    assert server.process.stderr is not None
    for line in server.process.stderr:
        server.lines.append(line.rstrip("\n"))


def until(happens: object, seconds: float = WAIT_SECONDS) -> None:
    """Wait until something is so; that it is is asserted."""
    assert callable(happens)
    end = time.monotonic() + seconds
    while not happens():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)
