"""A server that tests start on a copy of the bundled data, and a client that says PostgreSQL's messages byte by byte."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import sqlite3
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from dpsql.clients.server import users
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
    users.write_users(users.users_file(schema), dict.fromkeys(analysts, verifier))
    return path


@dataclass
class Served:
    """A running server. lines: of its standard error."""

    process: subprocess.Popen[str]
    schema: Path
    lines: list[str] = field(default_factory=list)
    port: int = 0

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


# --- a client, byte by byte -----------------------------------------------------------------------------------------------


def startup(**parameters: str) -> bytes:
    body = struct.pack("!I", 3 << 16) + b"".join(f"{n}\0{v}\0".encode() for n, v in parameters.items()) + b"\0"
    return struct.pack("!I", len(body) + 4) + body


def message(kind: bytes, body: bytes = b"") -> bytes:
    return kind + struct.pack("!I", len(body) + 4) + body


def parse(sql: str, *oids: int, name: str = "") -> bytes:
    return message(b"P", f"{name}\0{sql}\0".encode() + struct.pack(f"!H{len(oids)}I", len(oids), *oids))


def bind(*values: bytes | None, formats: tuple[int, ...] = (), name: str = "", portal: str = "") -> bytes:
    parts = [struct.pack("!i", -1) if v is None else struct.pack("!i", len(v)) + v for v in values]
    head = f"{portal}\0{name}\0".encode() + struct.pack(f"!H{len(formats)}H", len(formats), *formats)
    return message(b"B", head + struct.pack("!H", len(values)) + b"".join(parts) + struct.pack("!H", 0))


def describe(what: bytes, name: str = "") -> bytes:
    return message(b"D", what + name.encode() + b"\0")


def execute(most: int = 0, portal: str = "") -> bytes:
    return message(b"E", portal.encode() + b"\0" + struct.pack("!I", most))


SYNC, FLUSH, TERMINATE = message(b"S"), message(b"H"), message(b"X")


class RawClient:
    """A connection on which a test says what it likes."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=WAIT_SECONDS)
        self._rest = b""
        self.key = (0, 0)

    def __enter__(self) -> RawClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, *parts: bytes) -> None:
        self.socket.sendall(b"".join(parts))

    def receive(self) -> tuple[bytes, bytes] | None:
        """The next message; None at the end of the connection."""
        while len(self._rest) < 5 or len(self._rest) < 1 + struct.unpack("!I", self._rest[1:5])[0]:
            try:
                more = self.socket.recv(65536)
            except ConnectionError:
                more = b""
            if not more:
                return None
            self._rest += more
        end = 1 + struct.unpack("!I", self._rest[1:5])[0]
        found, self._rest = self._rest[:end], self._rest[end:]
        return found[:1], found[5:]

    def until_ready(self) -> list[tuple[bytes, bytes]]:
        """Messages up to ReadyForQuery or the end."""
        found = []
        while (one := self.receive()) is not None:
            found.append(one)
            if one[0] == b"Z":
                break
        return found

    def login(
        self, user: str = "alice", password: str = PASSWORD, database: str = "randhie", **more: str
    ) -> list[tuple[bytes, bytes]]:
        """Log in by SCRAM, as a client does."""
        self.send(startup(user=user, database=database, **more))
        told = self.receive()
        if told is None or told[0] != b"R":
            return [told] if told else []
        proof = ClientProof(password)
        first = proof.first().encode()
        self.send(message(b"p", b"SCRAM-SHA-256\0" + struct.pack("!I", len(first)) + first))
        told = self.receive()
        if told is None or told[0] != b"R":
            return [told] if told else []
        self.send(message(b"p", proof.final(told[1][4:].decode()).encode()))
        found = self.until_ready()
        for kind, body in found:
            if kind == b"K":
                self.key = struct.unpack("!II", body)
        return found

    def query(self, sql: str) -> list[tuple[bytes, bytes]]:
        self.send(message(b"Q", sql.encode() + b"\0"))
        return self.until_ready()

    def cancel(self) -> None:
        """End what this client runs, from another connection."""
        with socket.create_connection(self.socket.getpeername(), timeout=WAIT_SECONDS) as other:
            other.sendall(struct.pack("!IIII", 16, 80877102, *self.key))
            other.recv(1)


class ClientProof:
    """A client's side of SCRAM-SHA-256, written down again from RFC 5802."""

    def __init__(self, password: str) -> None:
        self._password = password
        self._bare = "n=,r=abcdefghijklmnop"

    def first(self) -> str:
        return "n,," + self._bare

    def final(self, told: str) -> str:
        import base64
        import hashlib
        import hmac

        given = dict(part.split("=", 1) for part in told.split(","))
        salted = hashlib.pbkdf2_hmac("sha256", self._password.encode(), base64.b64decode(given["s"]), int(given["i"]))
        client = hmac.digest(salted, b"Client Key", "sha256")
        stored = hashlib.sha256(client).digest()
        without = f"c=biws,r={given['r']}"
        signature = hmac.digest(stored, f"{self._bare},{told},{without}".encode(), "sha256")
        proof = base64.b64encode(bytes(a ^ b for a, b in zip(client, signature, strict=True))).decode()
        return f"{without},p={proof}"


def fields(body: bytes) -> dict[str, str]:
    """The fields of an error or a notice, by their letters."""
    return {part[:1].decode(): part[1:].decode() for part in body.split(b"\0") if part}


def errors(found: list[tuple[bytes, bytes]]) -> list[dict[str, str]]:
    return [fields(body) for kind, body in found if kind == b"E"]


def rows(found: list[tuple[bytes, bytes]]) -> list[list[str | None]]:
    """The rows of an answer, all as text."""
    read = []
    for kind, body in found:
        if kind == b"D":
            at, row = 2, list[str | None]()
            for _ in range(struct.unpack("!H", body[:2])[0]):
                length = struct.unpack("!i", body[at : at + 4])[0]
                row.append(None if length < 0 else body[at + 4 : at + 4 + length].decode())
                at += 4 + max(0, length)
            read.append(row)
    return read
